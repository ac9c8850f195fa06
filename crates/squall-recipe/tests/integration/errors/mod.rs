//! Each kind of mistake, made in an otherwise valid recipe: where it is reported, and the message.
//!
//! Mistakes in protocol settings are in `settings`, those in directions, traces and schedules in `conditions`, those in
//! what a recipe measures and compares in `question`. Properties over random texts are in `laws.rs`.

mod conditions;
mod question;
mod settings;

use squall_base::Bytes;
use squall_base::plan::RequestBody;
use squall_recipe::{Mistake, parse};

const RIGHT: &str = r#"name = "right"
question = "Is it?"
[load]
rate = "1000/s"
warmup = "1s"
[request]
method = "POST"
target = "/"
body = "1KiB"
headers = { accept = "*/*" }
[response]
status = 200
body = "1KiB"
[conditions]
delay = ["0ms", "10ms"]
loss = ["0%", "3%"]
[[variant]]
name = "h1"
path = "client ~h1~> server"
[[variant]]
name = "h2c"
path = "client ~h2c~> server"
connections = 2
http2 = { stream_window = "1MiB", max_concurrent_streams = 1_000 }
[profile.quick]
duration = "5s"
repetitions = 2
[profile.full]
duration = "15min"
"#;

/// Replaces `from` by `to` in the valid recipe and checks the problems, one a line.
#[track_caller]
fn check(from: &str, to: &str, problems: &str) {
    check_in(RIGHT, from, to, problems);
}

/// Like [`check`], in that recipe.
#[track_caller]
fn check_in(recipe: &str, from: &str, to: &str, problems: &str) {
    assert_eq!(recipe.matches(from).count(), 1, "{from:?} must be unique");
    let text = recipe.replace(from, to);
    let found = parse(&text).expect_err("a mistake").to_string();
    assert_eq!(found, problems, "\n{to}");
}

#[test]
fn unmodified_recipe_is_valid() {
    let recipe = parse(RIGHT).unwrap();
    assert_eq!(recipe.plan("quick", 1).unwrap().trials.len(), 16);
    assert_eq!(
        recipe.variants()[1].hops[0]
            .client
            .http2
            .max_concurrent_streams,
        1_000
    );
}

#[test]
fn link_settings_are_checked_and_name_conditions() {
    check(
        "loss = [\"0%\", \"3%\"]",
        "link = [\"rate 20mbit, queue 64KiB\", \"rate 20mb\"]",
        "16:37: column 6: \"rate 20mb\": unknown unit \"mb\": expected a rate in bits, such as \"20mbit\" or \
         \"500kbit\": expected settings of the link with commas between them, such as \"rate 20mbit, queue 64KiB\"",
    );
    check(
        "loss = [\"0%\", \"3%\"]",
        "link = \"delay 5ms\"",
        "16:8: `delay 5ms` has its own key in [conditions]: expected settings of the link with commas between \
         them, such as \"rate 20mbit, queue 64KiB\"",
    );
    let text = RIGHT.replace(
        "loss = [",
        "link = [\"\", \"jitter normal 1ms, rate 1mbit\"]\nloss = [",
    );
    let plan = parse(&text).unwrap().plan("quick", 1).unwrap();
    let links: Vec<&str> = plan.conditions.iter().map(|c| c.link.up.as_str()).collect();
    let both = ["", "jitter normal 1ms, rate 1mbit"];
    assert_eq!(links, both.repeat(4));
    assert_eq!(
        plan.conditions[1].to_string(),
        "delay 0ms, loss 0%, jitter normal 1ms, rate 1mbit"
    );
    assert!(
        plan.trials[2]
            .folder()
            .ends_with("0ms-0p-jitter_normal_1ms__rate_1mbit-r0"),
        "{}",
        plan.trials[2].folder()
    );
}

#[test]
fn toml_syntax_errors_are_reported() {
    check(
        "status = 200",
        "status = = 200",
        "12:10: extra `=`: expected valid TOML",
    );
    check(
        "[response]",
        "[response",
        "11:10: unclosed table: expected `]`",
    );
    check(
        "body = \"1KiB\"\nheaders",
        "method = \"PUT\"\nheaders",
        "9:1: duplicate key: expected each key once in its table",
    );
    check(
        "warmup = \"1s\"",
        "warmup = \"1s",
        "5:13: invalid basic string: expected `\"`",
    );
}

#[test]
fn unknown_and_missing_keys_are_reported() {
    check(
        "delay = [",
        "dleay = [",
        "15:1: unknown key `dleay` in [conditions]: expected `delay`, `loss`, `link`, `schedule`, `fast` or `next_link` (did you mean `delay`?)",
    );
    check(
        "status = 200",
        "stats = 200",
        "12:1: unknown key `stats` in [response]: expected `status` or `body` (did you mean `status`?)",
    );
    check(
        "warmup = \"1s\"",
        "loss = \"1%\"",
        "5:1: unknown key `loss` in [load]: expected `kind`, `rate`, `stages`, `arrivals`, `targets`, `users`, `think`, `stagger`, `requests`, `script`, `speed`, `media`, `drop_cookies`, `hosts`, `keep_hosts`, `page`, `tiles`, `tile`, `other`, `after`, `pages`, `warmup`, `duration`, `drain` or `spin` (`loss` is a key of [conditions])",
    );
    check(
        "question = \"Is it?\"",
        "jitter = \"1ms\"",
        "1:1: missing key `question` in the recipe: expected the question that the recipe asks\n2:1: unknown key `jitter` in the recipe: expected `name`, `question`, `measure`, `primary`, `default_profile`, `repetitions`, `congestion_control`, `sample_every`, `load`, `request`, `response`, `conditions`, `variant`, `station` or `profile`",
    );
    check(
        "connections = 2",
        "connections = { atmost = 2 }",
        "23:15: missing key `at_most` in `connections`: expected the most connections at once\n23:17: unknown key `atmost` in `connections`: expected `at_most` (did you mean `at_most`?)",
    );
    check(
        "{ stream_window",
        "{ window = \"1KiB\", stream_window",
        "24:11: unknown key `window` in `http2`: expected `stream_window`, `connection_window`, `window_updates`, `max_frame_size`, `max_concurrent_streams`, `header_table_size`, `data_size`, `goaway_after`, `requests_per_connection` or `retry_unprocessed`",
    );
    check(
        "rate = \"1000/s\"\n",
        "",
        "3:1: missing key `rate` in [load]: expected a rate, such as \"1000/s\", or `stages`",
    );
    check(
        "name = \"h2c\"\n",
        "",
        "20:1: missing key `name` in [[variant]]: expected a name of 1 to 40 visible ASCII characters, with blanks only between them",
    );
    check(
        "[load]\nrate = \"1000/s\"\nwarmup = \"1s\"\n",
        "",
        "1:1: missing key `load` in the recipe: expected a table [load] with at least `rate`",
    );
    check(
        "[profile.full]\nduration = \"15min\"\n",
        "[profile.full]\n",
        "28:1: missing key `duration` in [profile.full]: expected a time, such as \"30s\", here or in [load]",
    );
}

#[test]
fn wrong_types_are_reported() {
    check(
        "rate = \"1000/s\"",
        "rate = 1000",
        "4:8: `rate` is a whole number: expected a rate, such as \"1000/s\" or \"90/min\" (put it in quotes, with its unit: \"1000/s\" or \"1000/min\")",
    );
    check(
        "name = \"right\"",
        "name = true",
        "1:8: `name` is true or false: expected a text in quotes",
    );
    check(
        "status = 200",
        "status = \"200\"",
        "12:10: `status` is a text: expected a whole number from 200 to 599",
    );
    check(
        "delay = [\"0ms\", \"10ms\"]",
        "delay = [\"0ms\", 10]",
        "15:17: `delay` is a whole number: expected a time with its unit, such as \"25ms\", \"1.5s\" or \"15min\" (put it in quotes, with its unit: \"10ms\" or \"10s\")",
    );
    check(
        "connections = 2",
        "connections = 2.5",
        "23:15: `connections` is a number with a point: expected \"on demand\", a number, or { at_most = 100 }",
    );
    check(
        "connections = 2",
        "connections = \"many\"",
        "23:15: \"many\" is not a way to get connections: expected \"on demand\", a number, or { at_most = 100 }",
    );
    check(
        "headers = { accept = \"*/*\" }",
        "headers = [\"accept\"]",
        "10:11: `headers` is a list: expected a table of header names and values",
    );
    check(
        "[load]",
        "load = 3\n[other]",
        "3:8: `load` is a whole number: expected a table\n4:2: unknown key `other` in the recipe: expected `name`, `question`, `measure`, `primary`, `default_profile`, `repetitions`, `congestion_control`, `sample_every`, `load`, `request`, `response`, `conditions`, `variant`, `station` or `profile` (`other` is a key of [load])",
    );
    let single = RIGHT.replace(
        "[[variant]]\nname = \"h1\"\npath = \"client ~h1~> server\"\n",
        "",
    );
    let single = single.replace("[[variant]]", "[variant]");
    assert_eq!(
        parse(&single).unwrap_err().to_string(),
        "17:1: `variant` is a table: expected at least one [[variant]] (write [[variant]] with two brackets on each side)"
    );
}

#[test]
fn missing_and_unknown_units_are_reported() {
    check(
        "warmup = \"1s\"",
        "warmup = \"1 parsec\"",
        "5:10: unknown unit \"parsec\" in \"1 parsec\": expected a time with its unit, such as \"25ms\", \"1.5s\" or \"15min\"",
    );
    check(
        "warmup = \"1s\"",
        "warmup = \"1\"",
        "5:10: no unit in \"1\": expected \"1ms\" or \"1s\"",
    );
    check(
        "\"3%\"",
        "\"3\"",
        "16:15: no unit in \"3\": expected \"3%\"",
    );
    check(
        "warmup = \"1s\"",
        "warmup = \"-1s\"",
        "5:10: \"-1s\" does not begin with a plain number: expected a time with its unit, such as \"25ms\", \"1.5s\" or \"15min\"",
    );
    check(
        "rate = \"1000/s\"",
        "rate = \"1000/day\"",
        "4:8: unknown unit \"/day\" in \"1000/day\": expected a rate, such as \"1000/s\" or \"90/min\"",
    );
    check(
        "stream_window = \"1MiB\"",
        "stream_window = \"1mib\"",
        "24:27: unknown unit \"mib\" in \"1mib\": expected a size, such as \"1024\", \"1KiB\" or \"64KiB\"",
    );
}

#[test]
fn quantities_out_of_range_are_reported() {
    check(
        "\"3%\"",
        "\"140%\"",
        "16:15: `loss` is out of range: 140%: expected 0% to 100%",
    );
    check(
        "rate = \"1000/s\"",
        "rate = \"0/s\"",
        "4:8: `rate` is out of range: 0/s: expected more than 0",
    );
    check(
        "rate = \"1000/s\"",
        "rate = \"1000001/s\"",
        "4:8: `rate` is out of range: 1000001/s: expected at most 1000000/s",
    );
    check(
        "rate = \"1000/s\"",
        "rate = \"2/min\"",
        "4:8: no request is due in the measured 5s of profile `quick`: expected a rate that leaves at least one request in the measured time",
    );
    check(
        "duration = \"5s\"",
        "duration = \"0s\"",
        "26:12: `duration` is out of range: 0s: expected more than 0 and at most 24h",
    );
    check(
        "duration = \"5s\"",
        "duration = \"25h\"",
        "26:12: `duration` is out of range: 25h: expected more than 0 and at most 24h",
    );
    check(
        "\"10ms\"",
        "\"5.001s\"",
        "15:17: `delay` is out of range: 5.001s: expected at most 5s",
    );
}

#[test]
fn settings_out_of_range_are_reported() {
    check(
        "connections = 2",
        "connections = 0",
        "23:15: `connections` is out of range: 0: expected a whole number from 1 to 60000",
    );
    check(
        "connections = 2",
        "connections = { at_most = 60001 }",
        "23:27: `at_most` is out of range: 60001: expected a whole number from 1 to 60000",
    );
    check(
        "stream_window = \"1MiB\"",
        "stream_window = \"2GiB\"",
        "24:27: `stream_window` is out of range: 2GiB: expected 1 to 2147483647 bytes",
    );
    check(
        "{ stream_window = \"1MiB\"",
        "{ connection_window = \"1KiB\"",
        "24:31: `connection_window` is out of range: 1KiB: expected 65535 to 2147483647 bytes",
    );
    check(
        "max_concurrent_streams = 1_000",
        "max_concurrent_streams = 2147483648",
        "24:60: `max_concurrent_streams` is out of range: 2147483648: expected a whole number from 1 to 2147483647",
    );
    check(
        "max_concurrent_streams = 1_000",
        "max_concurrent_streams = 0",
        "24:60: `max_concurrent_streams` is out of range: 0: expected a whole number from 1 to 2147483647",
    );
    check(
        "repetitions = 2",
        "repetitions = 0",
        "27:15: `repetitions` is out of range: 0: expected a whole number from 1 to 1000",
    );
    check(
        "repetitions = 2",
        "repetitions = -1",
        "27:15: `repetitions` is out of range: -1: expected a whole number from 1 to 1000",
    );
    check(
        "\nrepetitions = 2",
        "\nrepetitions = 0x3e8\ndelay = [\"1ms\", \"2ms\", \"3ms\"]",
        "25:1: profile `quick` has 12000 trials: expected at most 10000 trials",
    );
    check(
        "status = 200",
        "status = 199",
        "12:10: `status` is out of range: 199: expected a whole number from 200 to 599",
    );
    check(
        "status = 200",
        "status = 204",
        "13:8: a response to POST with status 204 has no body: expected \"0\", or no `body`",
    );
    check(
        "body = \"1KiB\"\nheaders",
        "body = \"2GiB\"\nheaders",
        "9:8: `body` is out of range: 2GiB: expected at most 1GiB",
    );
}

#[test]
fn empty_lists_duplicates_and_invalid_names_are_reported() {
    check(
        "loss = [\"0%\", \"3%\"]",
        "loss = []",
        "16:8: `loss` is an empty list: expected at least one value",
    );
    check(
        "delay = [\"0ms\", \"10ms\"]",
        "delay = [\"10ms\", \"0.01s\"]",
        "15:18: delay `10ms` is already on line 15: expected each delay once",
    );
    check(
        "name = \"h2c\"",
        "name = \"h1\"",
        "21:8: variant `h1` is already on line 18: expected each variant once",
    );
    check(
        "name = \"h2c\"",
        "name = \"\"",
        "21:8: \"\" is not a variant's name: expected a name of 1 to 40 visible ASCII characters, with blanks only between them",
    );
    check(
        "name = \"right\"",
        "name = \"../right\"",
        "1:8: \"../right\" is not a name: expected 1 to 40 of the characters a-z, 0-9, - and _, a letter or digit first",
    );
    check(
        "question = \"Is it?\"",
        "question = \" \"",
        "2:12: \" \" is not a sentence: expected one line that is not blank",
    );
    check(
        "question = \"Is it?\"",
        "question = \"Is it?\"\ndefault_profile = \"quik\"",
        "3:20: unknown profile `quik`: expected `quick` or `full` (did you mean `quick`?)",
    );
    check(
        "[profile.full]",
        "[profile.\"fu ll\"]",
        "28:10: \"fu ll\" is not a name: expected 1 to 40 of the characters a-z, 0-9, - and _, a letter or digit first",
    );
    check(
        "connections = 2",
        "congestion_control = \"Cubic!\"",
        "23:22: \"Cubic!\" is not a congestion control: expected the kernel's name for it, such as \"cubic\" or \"bbr\"",
    );
}

#[test]
fn invalid_methods_targets_and_headers_are_reported() {
    check(
        "method = \"POST\"",
        "method = \"PO ST\"",
        "7:10: \"PO ST\" is not a method: expected a token of at most 40 characters, such as \"GET\" or \"POST\", but not CONNECT",
    );
    check(
        "method = \"POST\"",
        "method = \"CONNECT\"",
        "7:10: \"CONNECT\" is not a method: expected a token of at most 40 characters, such as \"GET\" or \"POST\", but not CONNECT",
    );
    check(
        "method = \"POST\"",
        "method = \"HEAD\"",
        "13:8: a response to HEAD with status 200 has no body: expected \"0\", or no `body`",
    );
    check(
        "target = \"/\"",
        "target = \"http://a/\"",
        "8:10: \"http://a/\" is not a request target: expected a path that begins with `/`, with its query: at most 8000 visible ASCII characters, without `#`",
    );
    check(
        "{ accept",
        "{ Accept",
        "10:13: \"Accept\" is not a header name: expected a token in lower case, such as `user-agent`",
    );
    check(
        "{ accept",
        "{ \"a b\"",
        "10:13: \"a b\" is not a header name: expected a token in lower case, such as `user-agent`",
    );
    check(
        "{ accept",
        "{ content-length",
        "10:13: header `content-length` is written by the protocol engines: expected any other header",
    );
    check(
        "{ accept",
        "{ host",
        "10:13: header `host` is written by the protocol engines: expected any other header",
    );
    check(
        "{ accept",
        "{ trailer",
        "10:13: header `trailer` announces trailers, and squall sends none: expected any other header",
    );
    check(
        "{ accept",
        "{ te",
        "10:13: header `te` asks for transfer codings, which HTTP/2 and HTTP/3 do not have: expected \"trailers\"",
    );
    check(
        "{ accept",
        "{ keep-alive",
        "10:13: header `keep-alive` is about one connection: expected a header that every protocol can carry",
    );
    check(
        "\"*/*\"",
        "\"a\\r\\nb: c\"",
        "10:22: \"a\\r\\nb: c\" is not a header value: expected visible ASCII characters, with blanks only between them",
    );
    check(
        "\"*/*\"",
        "[\"a\", \" b\"]",
        "10:28: \" b\" is not a header value: expected visible ASCII characters, with blanks only between them",
    );
}

/// HTTP/2 and HTTP/3 allow it (RFC 9113, section 8.2.2; RFC 9114, section 4.2), and gRPC requires it.
#[test]
fn requests_may_accept_trailers() {
    let text = RIGHT.replace("accept = \"*/*\"", "te = \"trailers\"");
    assert_ne!(text, RIGHT);
    parse(&text).expect("a recipe");
}

/// Without this check, some engine would refuse them long after the run has begun.
#[test]
fn header_sections_too_large_for_some_engine_are_reported() {
    let fields = |count: usize, value: &str| {
        let list = vec![format!("\"{value}\""); count].join(", ");
        RIGHT.replace("accept = \"*/*\"", &format!("a = [{list}]"))
    };
    let problem = |text: &str| parse(text).unwrap_err().to_string();
    assert!(parse(&fields(126, "b")).is_ok());
    assert_eq!(
        problem(&fields(127, "b")),
        "10:1: 127 header fields: expected at most 126"
    );
    // Each field counts 1 byte of name and 32 bytes of overhead.
    assert!(parse(&fields(3, &"b".repeat(16 * 1024 - 33))).is_ok());
    assert_eq!(
        problem(&fields(3, &"b".repeat(16 * 1024 - 32))),
        "10:1: header fields of 49155 bytes: expected at most 49152, with 32 more for each field"
    );
    check(
        "method = \"POST\"",
        &format!("method = \"{}\"", "A".repeat(41)),
        &format!(
            "7:10: \"{}\" is not a method: expected a token of at most 40 characters, such as \"GET\" or \"POST\", but not CONNECT",
            "A".repeat(41)
        ),
    );
}

#[test]
fn sizes_with_a_decimal_point_are_exact() {
    for (size, bytes) in [("8.2MB", 8_200_000), ("1.001kB", 1_001)] {
        let text = RIGHT.replace("body = \"1KiB\"", &format!("body = \"{size}\""));
        let plan = parse(&text).unwrap().plan("quick", 1).unwrap();
        assert_eq!(
            plan.requests[0].body,
            RequestBody::Size(Bytes::new(bytes)),
            "{size}"
        );
    }
}

#[test]
fn mistakes_in_paths_are_reported() {
    check(
        "client ~h2c~> server",
        "cleint ~h2c~> server",
        "22:9: unknown station `cleint`: expected `client`, `client(h2load)`, `client(k6)`, `client(fortio)`, `client(curl)` or `client(chromium)` (did you mean `client`?)",
    );
    check(
        "client ~h2c~> server",
        "client ~h2s~> server",
        "22:17: unknown protocol `h2s`: expected `h1`, `h1s`, `h2c`, `h2` or `h3` (did you mean `h2`?)",
    );
    check(
        "client ~h2c~> server",
        "client ~h2c-> server",
        "22:16: \"~h2c->\" is not a hop: expected a hop: `~p~>` across a link or `-p->` inside a host, p being a protocol",
    );
    check(
        "client ~h2c~> server",
        "client -h2c-> server",
        "22:16: the path does not cross a link: expected stations from `client` to a server, with 1 to 3 hops across links (`~p~>`)",
    );
    check(
        "client ~h2c~> server",
        "client ~h2c~>",
        "22:22: no station here: expected `client` or `server`",
    );
    check(
        "client ~h2c~> server",
        "client ~h1~> proxy ~h1~> proxy ~h1~> proxy ~h2c~> server",
        "22:52: the path crosses more than 3 links: expected stations from `client` to a server, with 1 to 3 hops across links (`~p~>`) (write `-h2c->` for a hop that is inside a host)",
    );
    check(
        "client ~h2c~> server",
        "client -h1-> client ~h2c~> server",
        "22:22: the path has `client` where a proxy must be: expected `proxy`, `balancer(alb)`, `nginx`, `haproxy`, `envoy`, `nghttpx`, `nghttpd` or `caddy`, or a [station.NAME] of the recipe",
    );
    check(
        "client ~h2c~> server",
        "client ~h2c~> nginz",
        "22:23: unknown station `nginz`: expected `server`, `nginx`, `haproxy`, `envoy`, `nghttpx`, `nghttpd` or `caddy`, or a [station.NAME] of the recipe (did you mean `nginx`?)",
    );
    check(
        "client ~h1~> server\"",
        "client ~h1~> server\"\nhttp2 = {}",
        "20:1: `http2` without HTTP/2: expected `http2` where `h2c` or `h2` is spoken",
    );
    // With an escape, bytes of the value do not map to bytes of the file, so the whole value is marked.
    check(
        "client ~h2c~> server",
        "client\\t~h4~> server",
        "22:8: unknown protocol `h4`: expected `h1`, `h1s`, `h2c`, `h2` or `h3` (did you mean `h1`?)",
    );
}

#[test]
fn mistakes_in_hops_and_stations_are_reported() {
    let hop = |lines: &str| {
        format!(
            "client -h1-> proxy ~h2c~> nginx\"\n{lines}\n[[variant]]\nname = \"z\"\npath = \"client ~h2c~> server"
        )
    };
    check(
        "client ~h2c~> server",
        &hop("hop.3.http1 = {}"),
        "23:5: there is no hop `3`: expected 1 to 2, counted from the client",
    );
    check(
        "client ~h2c~> server",
        &hop("hop.1.http2 = {}"),
        "23:7: `http2` without HTTP/2: expected `http2` where `h2c` or `h2` is spoken",
    );
    check(
        "client ~h2c~> server",
        &hop("server = { preset = \"envoy\" }"),
        "23:12: `nginx` is a program with its own settings: expected no preset: the program itself runs; `proxy(PRESET)` and `server(PRESET)` have a preset's settings",
    );
    check(
        "[conditions]",
        "[station.Mine]\ncommand = \"x\"\n[conditions]",
        "14:10: \"Mine\" is not the name of a station: expected 1 to 40 of the characters a-z, 0-9 and _, a letter or digit first",
    );
    check(
        "[conditions]",
        "[station.mine]\nready = \"soon\"\n[conditions]",
        "14:1: missing key `command` in [station.mine]: expected the program and its arguments\n15:9: \"soon\" is not a way to tell that a program is ready: expected \"tcp\", \"http GET /path\" or \"output TEXT\"",
    );
}

#[test]
fn all_mistakes_are_reported_together_in_text_order() {
    let text = RIGHT
        .replace("rate = \"1000/s\"", "rate = 1")
        .replace("status = 200", "status = 99")
        .replace("~h1~>", "~h4~>")
        .replace("repetitions = 2", "repetition = 2")
        .replace("duration = \"15min\"", "duration = \"15\"");
    assert_eq!(
        parse(&text)
            .unwrap_err()
            .to_string()
            .lines()
            .collect::<Vec<_>>(),
        [
            "4:8: `rate` is a whole number: expected a rate, such as \"1000/s\" or \"90/min\" (put it in quotes, with its unit: \"1/s\" or \"1/min\")",
            "12:10: `status` is out of range: 99: expected a whole number from 200 to 599",
            "19:17: unknown protocol `h4`: expected `h1`, `h1s`, `h2c`, `h2` or `h3` (did you mean `h1`?)",
            "27:1: unknown key `repetition` in [profile.quick]: expected `delay`, `loss`, `link`, `schedule`, `users`, `stagger`, `speed`, `warmup`, `duration`, `drain`, `body`, `response_body`, `variants`, `repetitions`, `primary` or `primary_repetitions` (did you mean `repetitions`?)",
            "29:12: no unit in \"15\": expected \"15ms\" or \"15s\""
        ]
    );
}

#[test]
fn problems_expose_their_span_place_expectation_and_hint() {
    let text = RIGHT.replace("~h2c~>", "~h2d~>");
    let error = parse(&text).unwrap_err();
    let [problem] = error.problems() else {
        panic!("{error}")
    };
    assert_eq!(&text[problem.span.clone()], "h2d");
    assert_eq!((problem.line, problem.column), (22, 17));
    assert_eq!(problem.expected, "`h1`, `h1s`, `h2c`, `h2` or `h3`");
    assert_eq!(problem.hint.as_deref(), Some("did you mean `h2`?"));
    assert!(matches!(problem.mistake, Mistake::Path(_)));
}

#[test]
fn rendering_shows_the_line_and_marks_the_characters() {
    let text = RIGHT
        .replace("accept = \"*/*\"", "\"é\" = \"x\", b = \"ü\"")
        .replace("[conditions]\ndelay", "[conditions]\n\tdleay");
    assert_eq!(
        parse(&text)
            .unwrap_err()
            .render("recipes/x.toml", &text)
            .lines()
            .collect::<Vec<_>>(),
        [
            "recipes/x.toml:10:13: \"é\" is not a header name",
            "   |",
            "10 | headers = { \"é\" = \"x\", b = \"ü\" }",
            "   |             ^^^",
            "   = expected a token in lower case, such as `user-agent`",
            "",
            "recipes/x.toml:10:28: \"ü\" is not a header value",
            "   |",
            "10 | headers = { \"é\" = \"x\", b = \"ü\" }",
            "   |                            ^^^",
            "   = expected visible ASCII characters, with blanks only between them",
            "",
            "recipes/x.toml:15:2: unknown key `dleay` in [conditions]",
            "   |",
            "15 | \tdleay = [\"0ms\", \"10ms\"]",
            "   | \t^^^^^",
            "   = expected `delay`, `loss`, `link`, `schedule`, `fast` or `next_link`",
            "   = help: did you mean `delay`?"
        ]
    );
}

#[test]
fn rendering_replaces_control_characters_and_counts_columns_in_characters() {
    let text = format!("\"\\u001b[31m\" = \"äöü\"\n{RIGHT}");
    assert_eq!(
        parse(&text)
            .unwrap_err()
            .render("x", &text)
            .lines()
            .collect::<Vec<_>>(),
        [
            "x:1:1: unknown key `\u{fffd}[31m` in the recipe",
            "  |",
            "1 | \"\\u001b[31m\" = \"äöü\"",
            "  | ^^^^^^^^^^^^",
            "  = expected `name`, `question`, `measure`, `primary`, `default_profile`, `repetitions`, `congestion_control`, `sample_every`, `load`, `request`, `response`, `conditions`, `variant`, `station` or `profile`"
        ]
    );
}

//! Mistakes in what a recipe measures, in its primary comparison, and in the variants and sizes of a profile.
//!
//! What valid ones expand to is in `questions.rs`.

use squall_recipe::parse;

use super::check_in;

const RIGHT: &str = r#"name = "right"
question = "Is it?"
measure = ["response time p99", "connections"]
primary = { variant = "h2", delay = "10ms", loss = "3%" }
[load]
rate = "100/s"
duration = "1s"
[request]
body = "1MB"
[conditions]
delay = ["0ms", "10ms"]
loss = ["0%", "3%"]
[[variant]]
name = "h1"
path = "client ~h1~> server"
[[variant]]
name = "h2"
path = "client ~h2c~> server"
[[variant]]
name = "h3"
path = "client ~h3~> server"
[profile.quick]
body = "1kB"
variants = ["h1", "h2"]
delay = "10ms"
primary_repetitions = 6
"#;

/// Replaces `from` by `to` in the valid recipe and checks the problems, one a line.
#[track_caller]
fn check(from: &str, to: &str, problems: &str) {
    check_in(RIGHT, from, to, problems);
}

#[test]
fn unmodified_recipe_is_valid() {
    assert!(parse(RIGHT).is_ok());
}

#[test]
fn an_unknown_measure_names_the_nearest_one() {
    const KNOWN: &str = "expected `response time`, `page time`, `transfer time`, `server time`, `first chunk time` or \
                         `gap` with `mean`, `p50`, `p90`, `p95`, `p99`, `p99.9` or `iqr`, such as \"response time p99\" \
                         or, of some targets, \"response time p99 of /video\"; or `throughput`, `connections`, `handshakes` or `failed share`";
    check(
        "\"connections\"]",
        "\"conections\"]",
        &format!("3:33: \"conections\" is not a measure: {KNOWN} (did you mean `connections`?)"),
    );
    check(
        "\"response time p99\", ",
        "\"response time\", ",
        &format!(
            "3:12: \"response time\" is not a measure: {KNOWN} (did you mean `response time p50`?)"
        ),
    );
    check(
        "measure = [\"response time p99\", \"connections\"]",
        "measure = []",
        "3:11: `measure` is an empty list: expected at least one value",
    );
    check(
        "\"connections\"]",
        "\"response time p99\"]",
        "3:33: measure `response time p99` is already on line 3: expected each measure once",
    );
}

#[test]
fn measure_of_a_target_is_refused_unless_it_is_a_request_time_of_a_bare_path() {
    for wrong in [
        "response time p99 of video",
        "response time p99 of /video?size=1",
        "response time p99 of",
        "connections of /video",
        "page time p50 of /video",
        "gap p99 of /video",
    ] {
        let text = RIGHT.replace("\"response time p99\"", &format!("\"{wrong}\""));
        let found = parse(&text).expect_err(wrong).to_string();
        let said = format!("3:12: \"{wrong}\" is not a measure: expected `response time`");
        assert!(found.starts_with(&said), "{found}");
    }
}

/// Without a station in between, the client does not tag its requests, so the server cannot match exchanges to them.
#[test]
fn server_times_of_some_targets_need_a_station_in_between() {
    const NAMELESS: &str = "3:1: the server of `h1` cannot tell which request is which: expected server times of all \
                            requests, or `transfer time` of these, or a station between client and server on each path";
    check(
        "\"response time p99\"",
        "\"server time p50 of /video\"",
        NAMELESS,
    );
    for right in ["server time p50", "transfer time p50 of /video"] {
        let text = RIGHT.replace("\"response time p99\"", &format!("\"{right}\""));
        parse(&text).unwrap_or_else(|error| panic!("{right}: {error}"));
    }
    let text = RIGHT
        .replace("response time p99", "server time p50 of /video")
        .replace("~> server", "~> proxy -h1-> server");
    parse(&text).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn primary_comparison_needs_two_known_variants() {
    check(
        "variant = \"h2\", delay",
        "variant = \"h22\", delay",
        "4:24: unknown variant `h22`: expected `h1`, `h2` or `h3` (did you mean `h2`?)",
    );
    check(
        "variant = \"h2\", delay",
        "variant = \"h2\", baseline = \"h0\", delay",
        "4:41: unknown variant `h0`: expected `h1`, `h2` or `h3` (did you mean `h1`?)",
    );
    check(
        "variant = \"h2\", delay",
        "variant = \"h1\", delay",
        "4:11: variant `h1` is already on line 4: expected two variants, `variant` and `baseline`",
    );
    check(
        "variant = \"h2\", delay",
        "delay",
        "4:11: missing key `variant` in `primary`: expected the name of a variant",
    );
    check(
        "variant = \"h2\", delay",
        "varaint = \"h2\", delay",
        "4:11: missing key `variant` in `primary`: expected the name of a variant\n\
         4:13: unknown key `varaint` in `primary`: expected `variant`, `baseline`, `delay`, `loss`, `link` or `schedule` (did you mean \
         `variant`?)",
    );
}

#[test]
fn primary_comparison_must_match_exactly_one_condition_of_each_profile() {
    const ONE: &str = "expected one condition, by `delay`, `loss`, `link` and `schedule` as far as they differ; a profile may have its \
                       own `primary`";
    check(
        ", loss = \"3%\" }",
        " }",
        &format!("4:11: the primary comparison matches 2 conditions of profile `quick`: {ONE}"),
    );
    check(
        "loss = \"3%\" }",
        "loss = \"2%\" }",
        &format!("4:11: the primary comparison matches 0 conditions of profile `quick`: {ONE}"),
    );
    check(
        "delay = \"10ms\"\nprimary_repetitions",
        "delay = \"5ms\"\nprimary_repetitions",
        &format!("4:11: the primary comparison matches 0 conditions of profile `quick`: {ONE}"),
    );
    check(
        "primary_repetitions = 6",
        "primary = { variant = \"h2\" }",
        &format!("26:11: the primary comparison matches 2 conditions of profile `quick`: {ONE}"),
    );
}

#[test]
fn profile_must_have_the_variants_of_its_primary_comparison() {
    check(
        "[\"h1\", \"h2\"]",
        "[\"h1\", \"h3\"]",
        "4:11: profile `quick` leaves variant `h2` out: expected a comparison of variants that the profile has; a profile \
         may have its own `primary`",
    );
    check(
        "[\"h1\", \"h2\"]",
        "[\"h1\", \"h4\"]",
        "24:20: unknown variant `h4`: expected `h1`, `h2` or `h3` (did you mean `h1`?)",
    );
    check(
        "[\"h1\", \"h2\"]",
        "[\"h1\", \"h2\", \"h1\"]",
        "24:25: variant `h1` is already on line 24: expected each variant once",
    );
    check(
        "[\"h1\", \"h2\"]",
        "[]",
        "24:12: `variants` is an empty list: expected at least one value",
    );
}

#[test]
fn primary_repetitions_need_a_primary_comparison() {
    check(
        "primary = { variant = \"h2\", delay = \"10ms\", loss = \"3%\" }\n",
        "",
        "21:1: missing key `primary` in [profile.quick]: expected a primary comparison, which `primary_repetitions` applies to",
    );
    check(
        "primary_repetitions = 6",
        "primary_repetitions = 0",
        "26:23: `primary_repetitions` is out of range: 0: expected a whole number from 1 to 1000",
    );
}

#[test]
fn profile_can_replace_only_a_size_and_only_by_a_size() {
    const SIZE: &str = "23:1: there is no size of a request's body to replace: expected one [request] whose `body` is a size, \
                        or a form with one upload that has a `size`";
    for other in [
        "body = { text = \"a\" }",
        "target = \"/\"",
        "body = { form = { a = \"b\" } }",
        "body = { form = { a = { name = \"a\", size = \"1B\" }, b = { name = \"b\", size = \"1B\" } } }",
    ] {
        check("body = \"1MB\"", other, SIZE);
    }
    check("[request]", "[[request]]", SIZE);
    check(
        "[request]\nbody = \"1MB\"\n",
        "",
        &SIZE.replace("23:1", "21:1"),
    );
    check(
        "body = \"1kB\"",
        "body = \"2GiB\"",
        "23:8: `body` is out of range: 2GiB: expected at most 1GiB",
    );
    check(
        "body = \"1kB\"",
        "body = { size = \"1kB\" }",
        "23:8: `body` is a table: expected a size, such as \"1024\", \"1KiB\" or \"64KiB\"",
    );
    check(
        "body = \"1MB\"",
        "method = \"HEAD\"\nbody = \"1MB\"\n[profile.other]\nresponse_body = \"1kB\"",
        "12:17: a response to HEAD with status 200 has no body: expected \"0\", or no `body`",
    );
}

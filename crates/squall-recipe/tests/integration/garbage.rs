//! Runs the fuzz targets for recipes, assignments and words (fuzz/) on stable Rust, with random and half-valid text.
//! Properties that use the parser's own types are in `laws`.

// Their functions are public because the fuzz targets are a separate crate.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::{drive_recipe, drive_words};

/// Fragments of quantities and of load descriptions.
const PARTS: &[&str] = &[
    "0",
    "1",
    "7",
    "90",
    "0.5",
    ".25",
    "1.",
    "007",
    "9007199254740993",
    "0.000000000001",
    "999999999999999999999999",
    "ns",
    "us",
    "µs",
    "ms",
    "s",
    "min",
    "h",
    "B",
    "kB",
    "MB",
    "GB",
    "KiB",
    "MiB",
    "GiB",
    "%",
    "/s",
    "/m",
    "/min",
    "bit",
    "kbit",
    "Mbit",
    "gbit/s",
    "x",
    " ",
    ",",
    ", ",
    "..",
    "-",
    "exp:",
    "h2c",
    "h3",
    "1.3",
    "turns",
    "random",
    "bbr2",
    "\n",
    "é",
];

/// Texts of fewer than `most` of the `known` parts, mixed with a few random characters.
fn parts(known: &'static [&'static str], most: usize) -> impl Strategy<Value = String> {
    let known = proptest::sample::select(known).prop_map(str::to_owned);
    let part = prop_oneof![12 => known, 1 => "(?s).{0,3}"];
    vec(part, 0..most).prop_map(|parts| parts.concat())
}

/// Numbers of up to 20 digits and 14 decimals, in every unit.
fn quantities() -> impl Strategy<Value = String> {
    let unit = "(ns|us|ms|s|min|h|B|kB|MB|GB|KiB|MiB|GiB|%|/s|/m|/min|bit|kbit|mbit|gbit|x|)";
    (r"[0-9]{0,20}(\.[0-9]{0,14})?", unit).prop_map(|(number, unit)| number + &unit)
}

const BEGINNING: &str = "name = \"x\"\nquestion = \"?\"\n";
const LOAD: &str = "load = { rate = \"10/s\", duration = \"1s\" }\n";
const VARIANT: &str = "[[variant]]\nname = \"a\"\npath = \"client ~h2~> server\"\n";

const LINES: &[&str] = &[
    BEGINNING,
    LOAD,
    VARIANT,
    "[[variant]]\nname = \"b\"\npath = \"client -h1-> nginx ~h3~> envoy -h2c-> server\"\n",
    "[[variant]]\nname = \"c\"\npath = \"client(h2load) ~h1s~> balancer(alb) -h1-> server\"\n",
    "repetitions = 3\n",
    "connections = 2\n",
    "http2 = { stream_window = \"1MiB\", window_updates = { every = \"64KiB\" } }\n",
    "tls = { min_version = \"1.2\", max_version = \"1.3\" }\n",
    "server = { preset = \"nginx\" }\n",
    "client.tcp.no_delay = false\n",
    "[conditions]\n",
    "delay = [\"0ms\", \"25ms\"]\n",
    "loss = [\"0%\", \"3%\"]\n",
    "link = [\"rate 10mbit, queue 20 packets\"]\n",
    "[profile.quick]\nrepetitions = 2\n",
    "[profile.full]\nduration = \"15min\"\n",
    "default_profile = \"quick\"\n",
    "[load]\nstages = \"100/s 10s, 100/s..1000/s 30s\"\n",
    "users = 7\nthink = \"0.5s..2s\"\n",
    "script = \"a.har\"\n",
    "warmup = \"1s\"\n",
    "[request]\nmethod = \"POST\"\nbody = \"1KiB\"\n",
    "headers = { accept = \"*/*\" }\n",
    "[[request]]\nweight = 3\n",
    "[response]\nstatus = 200\nbody = \"1KiB\"\n",
    "# a comment\n",
    "\n",
    "\"",
    "'''",
    "[",
    "}",
];

/// Recipes that are partly valid, with other lines within and after the valid part.
fn recipes() -> impl Strategy<Value = String> {
    let more = || parts(LINES, 5);
    prop_oneof![
        parts(LINES, 12),
        (more(), more())
            .prop_map(|(between, after)| [BEGINNING, LOAD, &between, VARIANT, &after].concat()),
    ]
}

const KEYS: &[&str] = &[
    "http1.framing",
    "http1.requests_per_connection",
    "http2.stream_window",
    "http2.max_concurrent_streams",
    "http2.window_updates",
    "http2.window_updates.every",
    "http2.window_updates.each_data",
    "http2.goaway_after",
    "http2.requests_per_connection",
    "http3.requests_per_connection",
    "http2",
    "http3.max_ack_delay",
    "http3.congestion_control",
    "http3.local_ports",
    "tls.records",
    "tls.ciphers",
    "tls.min_version",
    "tcp.keep_alive",
    "tcp.send_buffer",
    "tcp.local_ports",
    "tcp.no_delay",
];
const VALUES: &[&str] = &[
    "1300",
    "64KiB",
    "\"1MiB\"",
    "never",
    "half",
    "chunked",
    "true",
    "false",
    "1.2",
    "1.3",
    "cubic",
    "40000-40100",
    "{",
    "}",
    "every=",
    "\"",
    "'",
    "\\",
    "=",
    " ",
    "[",
    "]",
    ",",
    "#",
    "ECDHE+AESGCM",
];

fn assignments() -> impl Strategy<Value = Vec<u8>> {
    let key = prop_oneof![9 => proptest::sample::select(KEYS).prop_map(str::to_owned), 1 => "[a-z0-9._]{0,12}"];
    (any::<u8>(), key, "=?", parts(VALUES, 6)).prop_map(|(how, key, equals, value)| {
        let mut bytes = vec![how];
        bytes.extend(format!("{key}{equals}{value}").bytes());
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn parsers_survive_random_bytes(input in vec(any::<u8>(), 0..120)) {
        drive_words::quantity(&input);
        drive_words::words(&input);
        drive_recipe::assignment(&input);
        drive_recipe::recipe(&input);
    }

    #[test]
    fn parsers_survive_random_quantities(text in prop_oneof![quantities(), parts(PARTS, 4)]) {
        drive_words::quantity(text.as_bytes());
    }

    #[test]
    fn parsers_survive_random_words(text in parts(PARTS, 10)) {
        drive_words::words(text.as_bytes());
    }

    #[test]
    fn parsers_survive_half_valid_recipes(text in recipes()) {
        drive_recipe::recipe(text.as_bytes());
    }

    #[test]
    fn parsers_survive_half_valid_assignments(input in assignments()) {
        drive_recipe::assignment(&input);
    }
}

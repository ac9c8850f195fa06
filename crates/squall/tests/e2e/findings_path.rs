//! Constructed problems of transport and path, each present in one small trial and absent in another.
//!
//! Problems of HTTP and of squall itself, and the code that all of them share, are in `findings`.

use squall_base::plan::Condition;

use crate::findings::{Expected, any, check, recipe, variants};
use crate::support::{run_recipe, seat};

/// Windows too large to limit anything.
const WIDE: &str = "http2 = { stream_window = \"16MiB\", connection_window = \"64MiB\" }";
const KEPT: &str = "connections = 1\ntcp = { slow_start_after_idle = false }";

const LARGE: [Expected; 5] = [
    Expected {
        variant: "idle",
        found: &["slow_start_after_idle"],
        silent: &["slow_start", "receive_window", "small_records"],
    },
    Expected {
        variant: "fresh",
        found: &["slow_start"],
        silent: &["slow_start_after_idle", "receive_window"],
    },
    Expected {
        variant: "receive buffer",
        found: &["receive_window"],
        silent: &["slow_start", "send_buffer", "small_records"],
    },
    Expected {
        variant: "small records",
        found: &["small_records"],
        silent: &["receive_window", "record_wait"],
    },
    Expected {
        variant: "dynamic records",
        found: &["small_records"],
        silent: &["receive_window", "stream_window"],
    },
];

#[test]
fn reports_what_delays_large_responses() {
    let _seat = seat();
    let dynamic = format!(
        "{WIDE}\ntls = {{ records = {{ small = \"1300\", warmup = \"1MiB\", idle = \"200ms\" }} }}"
    );
    let of = [
        ("kept", "h1", KEPT),
        (
            "idle",
            "h1",
            "connections = 1\ntcp = { slow_start_after_idle = true }",
        ),
        (
            "fresh",
            "h1",
            "server = { http1 = { requests_per_connection = 1 } }",
        ),
        (
            "receive buffer",
            "h1",
            "client = { tcp = { receive_buffer = \"8KiB\" } }",
        ),
        ("large records", "h1s", KEPT),
        ("small records", "h1s", "tls = { records = \"1300\" }"),
        ("dynamic records", "h2", dynamic.as_str()),
    ];
    let run = run_recipe(
        &recipe(
            "rate = \"1/s\"\nwarmup = \"1s\"\ndrain = \"1s\"",
            "[response]\nbody = \"400kB\"",
            "delay = \"20ms\"",
            &variants(&of),
            "3s",
        ),
        &[],
    );
    check(&run, &any, &["kept", "large records"], &LARGE);
}

fn is_lossless(condition: &Condition) -> bool {
    condition.loss.up.get() == 0.0
}

fn is_lossy(condition: &Condition) -> bool {
    !is_lossless(condition)
}

#[test]
fn reports_loss_among_small_responses() {
    let _seat = seat();
    let of = [("h1", "h1", ""), ("h2c", "h2c", WIDE), ("h3", "h3", "")];
    let run = run_recipe(
        &recipe(
            "rate = \"60/s\"\nwarmup = \"500ms\"\ndrain = \"2s\"",
            "[response]\nbody = \"1KiB\"",
            "delay = \"20ms\"\nloss = [\"0%\", \"4%\"]",
            &variants(&of),
            "3s",
        ),
        &[],
    );
    check(&run, &is_lossless, &["h1", "h2c", "h3"], &[]);
    check(
        &run,
        &is_lossy,
        &[],
        &[
            Expected {
                variant: "h1",
                found: &["own_loss", "timeout_repair"],
                silent: &["head_of_line", "spurious_retransmits", "bufferbloat"],
            },
            Expected {
                variant: "h2c",
                found: &["own_loss", "head_of_line"],
                silent: &["record_wait", "burst_loss", "bufferbloat"],
            },
            Expected {
                variant: "h3",
                found: &["own_loss"],
                silent: &["head_of_line", "syn_loss", "udp_drops"],
            },
        ],
    );
}

/// A connection that cannot keep up puts many responses into one record, whose end is sometimes lost.
#[test]
fn reports_tls_records_of_many_responses_under_loss() {
    let _seat = seat();
    let run = run_recipe(
        &recipe(
            "rate = \"200/s\"\nwarmup = \"500ms\"\ndrain = \"2s\"",
            "[response]\nbody = \"1KiB\"",
            "delay = \"20ms\"\nloss = \"3%\"",
            &variants(&[("h2", "h2", WIDE), ("h2c", "h2c", WIDE)]),
            "2s",
        ),
        &[],
    );
    let expected = [
        Expected {
            variant: "h2",
            found: &["record_wait"],
            silent: &["stream_window", "burst_loss"],
        },
        Expected {
            variant: "h2c",
            found: &[],
            silent: &["record_wait", "stream_window", "burst_loss"],
        },
    ];
    check(&run, &any, &[], &expected);
}

#[test]
fn reports_that_cubic_mistakes_random_loss_for_congestion() {
    let _seat = seat();
    let bbr = format!("{WIDE}\ncongestion_control = \"bbr\"");
    let run = run_recipe(
        &recipe(
            "rate = \"4/s\"\nwarmup = \"500ms\"\ndrain = \"2s\"",
            "[response]\nbody = \"200kB\"",
            "delay = \"20ms\"\nloss = \"2%\"",
            &variants(&[("cubic", "h2c", WIDE), ("bbr", "h2c", &bbr)]),
            "3s",
        ),
        &[],
    );
    let expected = [
        Expected {
            variant: "cubic",
            found: &["loss_based_control"],
            silent: &["bufferbloat", "burst_loss", "receive_window"],
        },
        Expected {
            variant: "bbr",
            found: &[],
            silent: &["loss_based_control", "bufferbloat", "slow_start_after_idle"],
        },
    ];
    check(&run, &any, &[], &expected);
}

#[test]
fn reports_queueing_and_reordering() {
    let _seat = seat();
    const BLOAT: &str = "rate 10mbit, queue 400 packets";
    const SHORT: &str = "rate 100mbit, queue 20 packets";
    const CODEL: &str = "rate 10mbit, queue codel";
    const REORDERED: &str = "jitter 15ms reordering";
    let links = format!(
        "delay = \"20ms\"\nlink = [\"\", \"{BLOAT}\", \"{SHORT}\", \"{CODEL}\", \"{REORDERED}\"]"
    );
    let run = run_recipe(
        &recipe(
            "rate = \"2/s\"\nwarmup = \"1s\"\ndrain = \"2s\"",
            "[response]\nbody = \"200kB\"",
            &links,
            &variants(&[("kept", "h1", KEPT)]),
            "2500ms",
        ),
        &[],
    );
    // Settings are recorded as interpreted, with their defaults.
    let over =
        |start: &'static str| move |condition: &Condition| condition.link.up.starts_with(start);
    let is_free = |condition: &Condition| condition.link.up.is_empty();
    check(&run, &is_free, &["kept"], &[]);
    let on = |is: &dyn Fn(&Condition) -> bool, found, silent| {
        let variant = "kept";
        check(
            &run,
            is,
            &[],
            &[Expected {
                variant,
                found,
                silent,
            }],
        );
    };
    on(
        &over("rate 10mbit, queue 400 packets"),
        &["bufferbloat"],
        &["burst_loss", "own_loss", "spurious_retransmits"],
    );
    on(
        &over("rate 100mbit"),
        &["burst_loss", "own_loss"],
        &["bufferbloat", "loss_based_control"],
    );
    on(
        &over("rate 10mbit, queue codel"),
        &[],
        &["bufferbloat", "spurious_retransmits"],
    );
    on(
        &over("jitter"),
        &["spurious_retransmits"],
        &["bufferbloat", "burst_loss", "own_loss"],
    );
}

#[test]
fn reports_a_lost_syn() {
    let _seat = seat();
    let once = "server = { http1 = { requests_per_connection = 1 } }";
    let run = run_recipe(
        &recipe(
            "rate = \"20/s\"\nwarmup = \"300ms\"\ndrain = \"3s\"",
            "[response]\nbody = \"1KiB\"",
            "delay = \"10ms\"\nlink = [\"\", \"drop syn 1\"]",
            &variants(&[("once", "h1", once)]),
            "1s",
        ),
        &[],
    );
    let is_whole = |condition: &Condition| condition.link.up.is_empty();
    let whole = Expected {
        variant: "once",
        found: &["handshake_per_request"],
        silent: &["syn_loss", "own_loss"],
    };
    check(&run, &is_whole, &[], &[whole]);
    let lost = Expected {
        variant: "once",
        found: &["syn_loss"],
        silent: &["own_loss", "head_of_line"],
    };
    check(
        &run,
        &|condition| !condition.link.up.is_empty(),
        &[],
        &[lost],
    );
}

//! Whether the expected rate of an upload is the one that a sender reaches, for simulated servers with the policies of real
//! ones.
//!
//! `made_uploads` has the sender and the servers, which share no code with `flow`.

use squall_base::Duration;

use super::made::ms;
use super::made_uploads::{Opens, Path, Server, upload_to};
use super::{Step, UpdatePolicy, UploadWindows};

/// The window that HTTP/2 begins with.
const SMALL: u64 = 65_535;
const MIB: u64 = 1 << 20;
const NEVER_SMALL: (u64, Opens) = (0x7fff_ffff, Opens::Owed(1 << 30));

const FAR: Path = Path {
    round_trip: ms(30),
    bytes_per_s: 125_000_000,
};
const NEAR: Path = Path {
    round_trip: Duration::from_micros(100),
    ..FAR
};

/// A server with the same window and policy for a stream and for the connection.
const fn both(window: u64, opens: Opens, read: u64) -> Server {
    Server {
        stream: (window, opens),
        connection: (window, opens),
        read,
    }
}

/// nghttp2's rule (`nghttp2_should_send_window_update`): at half of the window, for both windows.
const fn halves(window: u64, read: u64) -> Server {
    both(window, Opens::Half { grows_to: window }, read)
}

/// Go's net/http: at 4 KiB (`inflowMinRefresh`).
const GO: Opens = Opens::Owed(4_096);

fn windows(made: &Step) -> UploadWindows {
    UploadWindows::of(made).expect("windows")
}

/// How many bytes the sender brought across in each round trip, on average.
fn measured(made: &Step, path: Path) -> f64 {
    let row = made.of(1).expect("the upload");
    let took = row.end.since(row.written_first.expect("it was begun"));
    row.request_body_bytes as f64 * path.round_trip.as_secs_f64() / took.as_secs_f64()
}

/// Checks that an upload from 30 ms away has the rate that is expected from its own frames, and from those of an upload from
/// nearby.
fn check(name: &str, server: Server, size: u64) {
    let far = upload_to(server, FAR, size);
    let is = measured(&far, FAR);
    let near = upload_to(server, NEAR, size.min(20 * MIB));
    for (from, made) in [("afar", &far), ("nearby", &near)] {
        let expected = windows(made).round_trip_bytes as f64;
        let ratio = expected / is;
        assert!(
            (0.85..1.15).contains(&ratio),
            "{name} from {from}: {expected} expected, {is} measured"
        );
    }
}

#[test]
fn rate_is_expected_for_servers_that_give_back_halves() {
    check("nghttpx", halves(SMALL, 16_384), 6_000_000);
    // nghttpd reads 8 KiB at a time, headers of frames included.
    check("nghttpd", halves(SMALL, 8_183), 6_000_000);
    check("small reads", halves(SMALL, 4_096), 6_000_000);
    check("1 MiB", halves(MIB, 16_384), 60 * MIB);
    // A whole window per round trip would be more.
    let far = upload_to(halves(SMALL, 16_384), FAR, 6_000_000);
    let seen = windows(&far);
    assert_eq!(seen.policy, UpdatePolicy::Half);
    assert!(
        (39_000..43_000).contains(&seen.round_trip_bytes),
        "{seen:?}"
    );
}

#[test]
fn rate_is_expected_for_servers_that_give_back_at_other_fractions() {
    for (name, bytes) in [("a quarter", 16_384), ("three quarters", 49_151)] {
        check(name, both(SMALL, Opens::Owed(bytes), 16_384), 6_000_000);
        check(name, both(SMALL, Opens::Owed(bytes), 8_183), 6_000_000);
    }
    check("Go", both(MIB, GO, 16_384), 60 * MIB);
    check("small window of Go", both(SMALL, GO, 2_048), 6_000_000);
}

#[test]
fn rate_is_expected_for_servers_that_give_back_each_frame() {
    let server = both(SMALL, Opens::EachData, 16_384);
    check("each DATA", server, 6_000_000);
    let seen = windows(&upload_to(server, FAR, 6_000_000));
    assert!(matches!(seen.policy, UpdatePolicy::EachData { .. }));
}

#[test]
fn rate_is_expected_if_only_the_streams_window_is_small() {
    // nginx with proxy_request_buffering off: the connection's window is the largest there is.
    let server = Server {
        connection: NEVER_SMALL,
        ..halves(65_536, 16_384)
    };
    check("nginx that streams", server, 6_000_000);
}

/// nginx by default: it opens the window fully when it begins to read the body.
#[test]
fn window_that_is_opened_fully_limits_no_rate() {
    let server = Server {
        stream: (65_536, Opens::Fully),
        connection: NEVER_SMALL,
        read: 16_384,
    };
    let made = upload_to(server, FAR, 6_000_000);
    let seen = windows(&made);
    assert!(matches!(seen.policy, UpdatePolicy::Grants { .. }));
    assert_eq!(seen.round_trip_bytes, seen.limit_bytes());
    assert!(measured(&made, FAR) < seen.limit_bytes() as f64);
}

/// Envoy has 16 MiB for a stream and 24 MiB for the connection, with nghttp2's rule. Only a fast, long path uses them up.
#[test]
fn rate_is_expected_for_envoy() {
    let path = Path {
        round_trip: ms(200),
        bytes_per_s: 1_250_000_000,
    };
    let (stream, connection) = (16 * MIB, 24 * MIB);
    let server = Server {
        stream: (stream, Opens::Half { grows_to: stream }),
        connection: (
            connection,
            Opens::Half {
                grows_to: connection,
            },
        ),
        read: 16_384,
    };
    let made = upload_to(server, path, 600_000_000);
    let ratio = windows(&made).round_trip_bytes as f64 / measured(&made, path);
    assert!((0.85..1.15).contains(&ratio), "{ratio}");
}

/// While a window grows, the expected rate is that of an upload of this length, not that of the largest window.
#[test]
fn rate_is_expected_for_a_window_that_grows() {
    let server = Server {
        stream: (
            SMALL,
            Opens::Half {
                grows_to: 4 * SMALL,
            },
        ),
        connection: (16 * MIB, Opens::Half { grows_to: 16 * MIB }),
        read: 16_384,
    };
    let made = upload_to(server, FAR, 6_000_000);
    let seen = windows(&made);
    let ratio = seen.round_trip_bytes as f64 / measured(&made, FAR);
    assert!((0.85..1.15).contains(&ratio), "{seen:?}");
    assert!(seen.largest_stream_bytes > 2 * SMALL);
}

//! Whether the expected rate of an upload is the one that a sender reaches, for simulated servers with the policies of real
//! ones.
//!
//! `made_uploads` has the sender and the servers, which share no code with `flow`.

use squall_base::Duration;
use squall_base::plan::Version;
use squall_base::record::Way;

use super::made::{at_us, facts, frame, healthy, ms, request, step, tcp_at};
use super::made_uploads::{Opens, Path, Server, upload_to};
use super::{
    DetectedFault, Diagnosis, Fault, Observations, Piece, Step, StepKind, UpdatePolicy,
    UploadWindows,
};
use crate::wire::http2::{DATA, WINDOW_UPDATE};

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

/// nghttp2's rule (`nghttp2_should_send_window_update`): an update at half of the window, for both windows.
const fn halves(window: u64, read: u64) -> Server {
    both(window, Opens::Half { grows_to: window }, read)
}

/// A server whose stream window doubles up to this size; the connection's window limits nothing.
const fn growing(grows_to: u64) -> Server {
    Server {
        stream: (SMALL, Opens::Half { grows_to }),
        connection: NEVER_SMALL,
        read: 16_384,
    }
}

/// Go's net/http: an update at 4 KiB (`inflowMinRefresh`).
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
fn expected_rate_is_reached_for_servers_that_give_back_halves() {
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
fn expected_rate_is_reached_for_servers_that_give_back_at_other_fractions() {
    for (name, bytes) in [("a quarter", 16_384), ("three quarters", 49_151)] {
        check(name, both(SMALL, Opens::Owed(bytes), 16_384), 6_000_000);
        check(name, both(SMALL, Opens::Owed(bytes), 8_183), 6_000_000);
    }
    check("Go", both(MIB, GO, 16_384), 60 * MIB);
    check("small window of Go", both(SMALL, GO, 2_048), 6_000_000);
}

#[test]
fn expected_rate_is_reached_for_servers_that_give_back_each_frame() {
    let server = both(SMALL, Opens::EachData, 16_384);
    check("each DATA", server, 6_000_000);
    let seen = windows(&upload_to(server, FAR, 6_000_000));
    assert!(matches!(seen.policy, UpdatePolicy::EachData { .. }));
}

#[test]
fn expected_rate_is_reached_if_only_the_streams_window_is_small() {
    // nginx with proxy_request_buffering off: the connection's window is the largest there is.
    let server = Server {
        connection: NEVER_SMALL,
        ..halves(65_536, 16_384)
    };
    check("nginx that streams", server, 6_000_000);
}

/// nginx by default: it opens the window fully when it begins to read the body.
#[test]
fn window_opened_fully_at_the_first_byte_limits_no_rate() {
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
fn expected_rate_is_reached_for_envoy() {
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
fn expected_rate_is_reached_for_a_window_that_grows() {
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

/// Between two waits for such a window, slow start may hold the upload up as well.
#[test]
fn growing_window_is_reported_as_smaller_at_first_with_slow_start() {
    let server = growing(4 * SMALL);
    let mut made = upload_to(server, FAR, 6_000_000);
    let full = |time_us| {
        let sample = [
            ("tcpi_unacked", 10),
            ("tcpi_snd_cwnd", 10),
            ("tcpi_snd_mss", 1_000),
            ("tcpi_snd_wnd", 1 << 20),
            ("tcpi_notsent_bytes", 5_000),
        ];
        tcp_at(time_us, &sample)
    };
    // The upload begins at 10 ms, and each sample stands for the time since the one before.
    made.sockets = vec![full(50_000), full(80_000)];
    made.requests.last_mut().expect("the upload").connection = Some(0);
    let mut seen = healthy(FAR.round_trip);
    seen.steps.push(made);
    let found = &Diagnosis::of(&seen).faults[0];
    assert_eq!(found.fault, Fault::StreamWindow);
    let sentence = &found.sentence;
    assert!(sentence.contains("although it grows to"), "{sentence}");
    let evidence = found.evidence.join("; ");
    assert!(evidence.contains("the window was smaller at first, so "));
    assert!(!evidence.contains("keeps some"), "{evidence}");
    let waited = "an upload waited 70.0 ms for its congestion window too";
    assert!(evidence.contains(waited), "{evidence}");
}

#[test]
fn update_at_another_fraction_of_the_window_is_told_apart_from_halves() {
    let server = both(SMALL, Opens::Owed(49_151), 16_384);
    let seen = windows(&upload_to(server, FAR, 6_000_000));
    let UpdatePolicy::Every { bytes } = seen.policy else {
        panic!("{seen:?}");
    };
    assert!((49_151..SMALL).contains(&bytes), "{bytes}");
}

#[test]
fn window_that_doubles_is_told_apart_from_grants() {
    for grows_to in [4 * SMALL, 64 * SMALL] {
        let seen = windows(&upload_to(growing(grows_to), FAR, 20 * MIB));
        let bytes = seen.largest_stream_bytes;
        assert_eq!(seen.policy, UpdatePolicy::Growing { bytes });
        assert!((2 * SMALL..=grows_to).contains(&bytes), "{bytes}");
    }
}

#[test]
fn policies_have_words_that_say_when_and_by_how_much() {
    let every = both(SMALL, Opens::Owed(49_151), 16_384);
    let said = windows(&upload_to(every, FAR, 6_000_000)).policy.words();
    assert!(
        said.starts_with("gives back ") && said.ends_with(" bytes at a time"),
        "{said}"
    );
    let grows = growing(4 * SMALL);
    let said = windows(&upload_to(grows, FAR, 20 * MIB)).policy.words();
    assert!(said.starts_with("lets the window grow, to "), "{said}");
    let half = halves(SMALL, 16_384);
    let said = windows(&upload_to(half, FAR, 6_000_000)).policy.words();
    assert_eq!(said, "gives back half of the window at a time");
}

/// An endpoint whose downloads over HTTP/2 come in flights of this size, one in each round trip, to a client with these
/// windows for a stream and for the connection.
fn downloads(flight: i64, (stream, connection): (i64, i64)) -> Observations {
    const STREAM: u64 = 1;
    let mut made = step(StepKind::Download, Version::Http2);
    let mut row = request(0, 1_000, 30_000);
    row.stream = Some(STREAM);
    made.requests.push(row);
    for n in 1..=20 {
        let time_us = 1_000 + 30_000 * n;
        made.pieces.push(Piece {
            time: at_us(time_us),
            connection: 0,
            stream: STREAM,
            bytes: flight.unsigned_abs(),
        });
        let mut data = facts(Way::Received, DATA, STREAM);
        data.length = flight.unsigned_abs();
        data.stream_window = Some(stream - flight);
        data.connection_window = Some(connection - flight);
        made.frames.push(frame(time_us, data));
        for (id, window) in [(STREAM, stream), (0, connection)] {
            let mut update = facts(Way::Sent, WINDOW_UPDATE, id);
            update.value = Some(flight.unsigned_abs());
            update.stream_window = (id != 0).then_some(window);
            update.connection_window = (id == 0).then_some(window);
            made.frames.push(frame(time_us, update));
        }
    }
    let mut seen = healthy(FAR.round_trip);
    seen.steps
        .retain(|step| (step.kind, step.version) != (StepKind::Download, Version::Http2));
    seen.steps.push(made);
    seen
}

/// The only fault.
fn only(seen: &Observations) -> DetectedFault {
    let mut found = Diagnosis::of(seen).faults;
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

/// As with curl, whose stream window once was 64 KiB.
#[test]
fn small_client_window_is_a_fault_with_the_rate_that_it_allows() {
    let found = only(&downloads(65_536, (65_536, 1 << 24)));
    assert_eq!(found.fault, Fault::ClientWindow);
    assert_eq!(found.lost, Some(ms(19 * 30)));
    assert!(
        found.sentence.contains("own stream window: 65,536 bytes"),
        "{}",
        found.sentence
    );
    let evidence = found.evidence.join("; ");
    for part in [
        "round trip of 30.0 ms is 17.5 Mbit/s",
        "measured over HTTP/2: ",
    ] {
        assert!(evidence.contains(part), "{evidence}");
    }
    assert!(
        found
            .fix
            .contains("SETTINGS_INITIAL_WINDOW_SIZE of the client")
    );
    let found = only(&downloads(65_536, (1 << 24, 65_536)));
    assert!(found.sentence.contains("own connection window: 65,536"));
    assert!(
        found.fix.contains("WINDOW_UPDATE for stream 0"),
        "{}",
        found.fix
    );
    // With large windows, the same flights are the server's doing.
    let large = Diagnosis::of(&downloads(65_536, (1 << 24, 1 << 24)));
    assert_eq!(large.faults, []);
    assert!(large.endpoint.notes.is_empty());
}

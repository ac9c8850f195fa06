//! Constructed holds between two Envoys: windows, buffers, losses, a capped congestion window, and two of them at once.
//!
//! `truth_holds` defines a hold and how its known wait is checked. These tests need a quiet machine: an Envoy that waits for
//! a processor adds to the time of the hosts, and that does not make a trial invalid.

use std::collections::BTreeSet;

use squall_base::plan::Protocol;
use squall_base::record::{Cause, Repair};
use squall_record::{TrialFolder, read_drops};

use crate::support::{TrialFiles, have, quiet_seat};
use crate::truth_holds::{HTTP2, Load, ROUND_TRIP_NS, check, check_trial, folder_of, measured};
use crate::truth_pairs::check_one_lost;
use crate::truth_settings::{BODY_OF_FOUR_FLIGHTS, FLIGHTS_OF_FOUR, OVER_TCP};

/// Variants named after their protocols: two Envoys with that hop between them, both sides of which have these
/// settings.
fn between_envoys(protocols: &[Protocol], side: &str) -> String {
    let variants = protocols.iter().map(|protocol| {
        let name = protocol.name();
        format!(
            "[[variant]]\nname = \"{name}\"\npath = \"client -h1-> envoy ~{name}~> envoy -h1-> nginx\"\n\
             [variant.hop.2]\nclient = {{ {side} }}\nserver = {{ {side} }}\n"
        )
    });
    variants.collect()
}

#[test]
fn capped_congestion_window_between_two_envoys_is_reported_as_cwnd() {
    if !have(&["envoy", "nginx"]) {
        return;
    }
    let _seat = quiet_seat();
    let load = Load::both_ways("4/s", BODY_OF_FOUR_FLIGHTS);
    let run = load.run(&between_envoys(&OVER_TCP, FLIGHTS_OF_FOUR));
    check(&run, &[(Cause::Cwnd, 6 * ROUND_TRIP_NS)]);
}

/// As between our own stations, 12 kB wait for at least two round trips.
#[test]
fn small_receive_buffer_of_envoy_is_reported_as_window_receive() {
    if !have(&["envoy", "nginx"]) {
        return;
    }
    let _seat = quiet_seat();
    let load = Load::both_ways("3/s", "12kB");
    let run = load.run(&between_envoys(
        &OVER_TCP,
        "tcp = { receive_buffer = \"4KiB\" }",
    ));
    check(&run, &[(Cause::WindowReceive, 4 * ROUND_TRIP_NS)]);
}

/// Four windows of 16 KiB wait for three updates. Envoy's server raises its own windows for uploads over time, so only
/// responses wait for a known time.
#[test]
fn http3_windows_between_two_envoys_are_reported_as_windows() {
    if !have(&["envoy", "nginx"]) {
        return;
    }
    let _seat = quiet_seat();
    let load = Load {
        bodies: ("0", "65536"),
        warmup: "1s",
        ..Load::both_ways("3/s", "")
    };
    for (cause, stream, connection) in [
        (Cause::WindowStream, "16384", "16MiB"),
        (Cause::WindowConnection, "16MiB", "16384"),
    ] {
        let side = format!(
            "http3 = {{ stream_window = \"{stream}\", connection_window = \"{connection}\" }}"
        );
        let run = load.run(&between_envoys(&[Protocol::H3], &side));
        check(&run, &[(cause, 3 * ROUND_TRIP_NS)]);
    }
}

/// At that rate the first segment of each flight takes 3 ms before the receiver can acknowledge it. The last segment
/// holds at least 1,176 bytes of the body, which take 2.352 ms.
#[test]
fn capped_cwnd_and_rate_between_two_envoys_each_get_their_share() {
    if !have(&["envoy", "nginx"]) {
        return;
    }
    let _seat = quiet_seat();
    let load = Load {
        link: "rate 4mbit",
        ..Load::both_ways("4/s", BODY_OF_FOUR_FLIGHTS)
    };
    let run = load.run(&between_envoys(&OVER_TCP, FLIGHTS_OF_FOUR));
    let flight_ns = ROUND_TRIP_NS + 3_000_000;
    let known = [(Cause::Cwnd, 6 * flight_ns), (Cause::Link, 2 * 2_352_000)];
    check(&run, &known);
}

/// One segment is lost within the measured requests, and its retransmission is not attributed to the window. Envoy
/// returns half of a window at a time, so after the lost segment is repaired the sender may have half a window open and
/// then wait for its congestion window instead: for that request, only two windows are known.
#[test]
fn stream_window_and_lost_segment_between_two_envoys_each_get_their_share() {
    if !have(&["envoy", "nginx"]) {
        return;
    }
    let _seat = quiet_seat();
    let side = "http2 = { stream_window = \"65535\", connection_window = \"16MiB\" }, \
                tcp = { slow_start_after_idle = false }";
    for bodies in [("262140", "0"), ("0", "262140")] {
        let load = Load {
            bodies,
            link: "drop data 640 of flow 0",
            warmup: "1s",
            ..Load::both_ways("3/s", "")
        };
        let run = load.run(&between_envoys(&[Protocol::H2c, Protocol::H2], side));
        for trial in &run.trials {
            check_one_lost(trial, &folder_of(&run, &trial.record), 2);
        }
    }
}

/// Envoy allows windows of no less than 65,535 bytes, so larger bodies wait for three updates in each direction.
#[test]
fn windows_between_two_envoys_are_reported_as_windows() {
    if !have(&["envoy", "nginx"]) {
        return;
    }
    let _seat = quiet_seat();
    let windows = [
        (Cause::WindowStream, "65535", "16MiB"),
        (Cause::WindowConnection, "16MiB", "65535"),
    ];
    let mut variants = String::new();
    for protocol in HTTP2 {
        for (cause, stream, connection) in windows {
            let side = format!(
                "{{ http2 = {{ stream_window = \"{stream}\", connection_window = \"{connection}\" }}, \
                 tcp = {{ slow_start_after_idle = false }} }}"
            );
            let (protocol, cause) = (protocol.name(), cause.name());
            variants += &format!(
                "[[variant]]\nname = \"{protocol} {cause}\"\n\
                 path = \"client -h1-> envoy ~{protocol}~> envoy -h1-> nginx\"\n\
                 [variant.hop.2]\nclient = {side}\nserver = {side}\n"
            );
        }
    }
    let load = Load {
        warmup: "1s",
        ..Load::both_ways("3/s", "262140")
    };
    let run = load.run(&variants);
    for protocol in HTTP2 {
        for (cause, ..) in windows {
            let name = format!("{} {}", protocol.name(), cause.name());
            let trial = run.only(&name);
            let folder = folder_of(&run, &trial.record);
            check_trial(trial, &folder, &name, &[(cause, 6 * ROUND_TRIP_NS)]);
        }
    }
}

/// A message between two Envoys that loses bytes waits at least a round trip for them. For QUIC, the packets that carry
/// data cannot be identified.
#[test]
fn lost_packets_between_two_envoys_are_reported_as_loss() {
    if !have(&["envoy", "nginx"]) {
        return;
    }
    let _seat = quiet_seat();
    for (protocols, link) in [
        (&HTTP2[..], "drop every 31 data"),
        (&[Protocol::H3], "drop every 31"),
    ] {
        let variants = protocols.iter().map(|protocol| {
            let name = protocol.name();
            format!("[[variant]]\nname = \"{name}\"\npath = \"client -h1-> envoy ~{name}~> envoy -h1-> nginx\"\n")
        });
        let load = Load {
            link,
            warmup: "0s",
            duration: "2s",
            ..Load::both_ways("6/s", "10kB")
        };
        let run = load.run(&variants.collect::<String>());
        for trial in &run.trials {
            check_losses(trial, &folder_of(&run, &trial.record));
        }
    }
}

/// Packets are counted by message, because one wait may repair several: QUIC sends two probes at once (RFC 9002, 6.2.4),
/// and a dropped probe costs nothing if the other arrives.
fn check_losses(trial: &TrialFiles, folder: &TrialFolder) {
    let name = &trial.record.trial.variant.name;
    let rows = measured(trial, folder);
    let lost = rows
        .iter()
        .map(|(_, row)| row.spans[Cause::Loss].as_nanos());
    let lost: u64 = lost.sum();
    let drops = read_drops(folder.drops()).expect("drops.parquet");
    let needed = drops.iter().filter(|row| row.repair != Repair::NotNeeded);
    let messages: BTreeSet<_> = needed
        .flat_map(|row| {
            row.carried
                .iter()
                .map(|request| (*request, row.packet.direction))
        })
        .collect();
    let messages = messages.len() as u64;
    eprintln!(
        "{name}: bytes of {messages} messages lost, {:.1} ms",
        lost as f64 / 1e6
    );
    assert!(messages >= 3, "{name}: {drops:?}");
    assert!(
        lost * 100 >= messages * ROUND_TRIP_NS * 95,
        "{name}: {lost} ns, {drops:?}"
    );
}

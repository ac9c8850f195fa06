//! Constructed holds that settings create: a capped congestion window, a known pace, and a proxy's delay combined with each
//! hold of the hop across the link. `alone::truth_envoys` has those between two Envoys.
//!
//! `truth_holds` defines a hold and how its known wait is checked; holds without these settings are there and in
//! `truth_pairs`. squall-linux tests what the settings do to sockets, routes and hosts.

use squall_base::plan::Protocol;
use squall_base::record::Cause;

use crate::support::{alone_if_it_fails, seat};
use crate::truth_holds::{
    FRESH, KEPT, Known, Load, QUIC_STREAM_OF_8_KIB, ROUND_TRIP_NS, STREAM_OF_8_KIB, WIDE, check,
    check_trial, direct, folder_of,
};

/// 20 kB and a head are 14 segments of 1,448 bytes: four flights, each of which but the first waits for the one before.
pub(crate) const FLIGHTS_OF_FOUR: &str = "tcp = { slow_start_after_idle = false, max_cwnd = 4 }";
pub(crate) const BODY_OF_FOUR_FLIGHTS: &str = "20kB";
pub(crate) const OVER_TCP: [Protocol; 3] = [Protocol::H1, Protocol::H2c, Protocol::H2];

#[test]
fn capped_congestion_window_is_reported_as_cwnd() {
    alone_if_it_fails(seat(), || {
        let load = Load::both_ways("4/s", BODY_OF_FOUR_FLIGHTS);
        let connections = format!("{KEPT}\n{FLIGHTS_OF_FOUR}");
        let run = load.run(&direct(&OVER_TCP, &connections, WIDE, ""));
        check(&run, &[(Cause::Cwnd, 6 * ROUND_TRIP_NS)]);
    });
}

/// At 2 Mbit/s, which is 250 bytes per millisecond, all but the last two segments of 20 kB take 68.416 ms. After an
/// idle period the second burst leaves earlier by half of its time, 5.792 ms (tcp_update_skb_after_send,
/// net/ipv4/tcp_output.c).
#[test]
fn known_pace_is_reported_as_pacing() {
    alone_if_it_fails(seat(), || {
        let load = Load {
            warmup: "1s",
            ..Load::both_ways("3/s", "20kB")
        };
        let pace = "tcp = { slow_start_after_idle = false, max_pacing_rate = \"2mbit\" }";
        let run = load.run(&direct(&OVER_TCP, &format!("{KEPT}\n{pace}"), WIDE, ""));
        check(&run, &[(Cause::Pacing, 2 * (68_416_000 - 5_792_000))]);
    });
}

const RECEIVE_BUFFER: &str = "tcp = { receive_buffer = \"4KiB\" }";
const CONNECTION_OF_64_KIB: &str = "http2 = { stream_window = \"16MiB\", connection_window = \"65535\", \
     window_updates = { every = \"65535\" } }\ntcp = { slow_start_after_idle = false }";

/// Checks a hold of the link's hop combined with a proxy delay: the proxy after the link delays each response by 20 ms, and
/// then the hold begins anew for the response. `hops` has the settings of the hop across the link by protocol.
fn check_beside_delay(hops: &[(&str, &str)], load: &Load, known: Known) {
    let delayed = hops.iter().map(|(protocol, settings)| {
        format!(
            "[[variant]]\nname = \"{protocol}\"\npath = \"client -h1-> proxy ~{protocol}~> proxy -h1-> server\"\n\
             [variant.hop.2]\nproxy_delay = \"20ms\"\n{settings}\n"
        )
    });
    let run = load.run(&delayed.collect::<String>());
    check(&run, &[(Cause::Host, 20_000_000), known]);
}

fn on_fresh_connections(bodies: (&'static str, &'static str), link: &'static str) -> Load {
    Load {
        bodies,
        link,
        warmup: "0s",
        duration: "1600ms",
        ..Load::both_ways("5/s", "")
    }
}

#[test]
fn proxy_delay_is_reported_as_host_with_a_capped_congestion_window() {
    alone_if_it_fails(seat(), || {
        let hops = ["h1", "h2c", "h2"].map(|protocol| (protocol, FLIGHTS_OF_FOUR));
        let load = Load::both_ways("4/s", BODY_OF_FOUR_FLIGHTS);
        check_beside_delay(&hops, &load, (Cause::Cwnd, 6 * ROUND_TRIP_NS));
    });
}

#[test]
fn proxy_delay_is_reported_as_host_with_a_stream_window() {
    alone_if_it_fails(seat(), || {
        let hops = [
            ("h2c", STREAM_OF_8_KIB),
            ("h2", STREAM_OF_8_KIB),
            ("h3", QUIC_STREAM_OF_8_KIB),
        ];
        let load = Load::both_ways("4/s", "32768");
        check_beside_delay(&hops, &load, (Cause::WindowStream, 6 * ROUND_TRIP_NS));
    });
}

/// An upload of four of HTTP/2's smallest windows does not fit into the first proxy, which reads it only as the windows
/// behind it open. So the upload also waits for these windows on the hop before the link.
#[test]
fn proxy_delay_is_reported_as_host_with_a_connection_window() {
    alone_if_it_fails(seat(), || {
        let hops = ["h2c", "h2"].map(|protocol| (protocol, CONNECTION_OF_64_KIB));
        let load = Load {
            warmup: "1s",
            ..Load::both_ways("4/s", "262140")
        };
        check_beside_delay(&hops, &load, (Cause::WindowConnection, 6 * ROUND_TRIP_NS));
        let quic = [("h3", "http3 = { connection_window = \"12000\" }")];
        let load = Load::both_ways("4/s", "48000");
        check_beside_delay(&quic, &load, (Cause::WindowConnection, 6 * ROUND_TRIP_NS));
    });
}

#[test]
fn proxy_delay_is_reported_as_host_with_a_receive_window() {
    alone_if_it_fails(seat(), || {
        let hops = ["h1", "h2c", "h2"].map(|protocol| (protocol, RECEIVE_BUFFER));
        let load = Load::both_ways("3/s", "12kB");
        check_beside_delay(&hops, &load, (Cause::WindowReceive, 4 * ROUND_TRIP_NS));
    });
}

#[test]
fn proxy_delay_is_reported_as_host_with_a_lost_packet() {
    alone_if_it_fails(seat(), || {
        let hops = ["h1", "h2c", "h2"].map(|protocol| (protocol, FRESH));
        let load = on_fresh_connections(("10kB", "10kB"), "drop data 4");
        check_beside_delay(&hops, &load, (Cause::Loss, 2 * ROUND_TRIP_NS));
        let load = on_fresh_connections(("10kB", "0"), "drop 8");
        check_beside_delay(&[("h3", FRESH)], &load, (Cause::Loss, ROUND_TRIP_NS));
    });
}

#[test]
fn proxy_delay_is_reported_as_host_with_a_rate_limited_link() {
    alone_if_it_fails(seat(), || {
        let hops = ["h1", "h2c", "h2", "h3"].map(|protocol| (protocol, KEPT));
        let load = Load {
            link: "rate 2mbit",
            ..Load::both_ways("4/s", "12kB")
        };
        check_beside_delay(&hops, &load, (Cause::Link, 96_000_000));
    });
}

/// The proxy before the link delays the response to an upload that was held before. A response body would wait behind
/// its own head, without window updates, and merge both holds into one.
#[test]
fn proxy_delay_is_reported_as_host_after_a_held_upload() {
    alone_if_it_fails(seat(), || {
        for (protocol, settings, body, known) in [
            (
                "h1",
                FLIGHTS_OF_FOUR,
                BODY_OF_FOUR_FLIGHTS,
                (Cause::Cwnd, 3 * ROUND_TRIP_NS),
            ),
            (
                "h2c",
                STREAM_OF_8_KIB,
                "32768",
                (Cause::WindowStream, 3 * ROUND_TRIP_NS),
            ),
            (
                "h3",
                QUIC_STREAM_OF_8_KIB,
                "32768",
                (Cause::WindowStream, 3 * ROUND_TRIP_NS),
            ),
        ] {
            let variant = format!(
                "[[variant]]\nname = \"{protocol}\"\npath = \"client -h1-> proxy ~{protocol}~> proxy -h1-> server\"\n\
             [variant.hop.1]\nproxy_delay = \"20ms\"\n[variant.hop.2]\n{settings}\n"
            );
            let load = Load {
                bodies: (body, "0"),
                ..Load::both_ways("4/s", "")
            };
            let run = load.run(&variant);
            let trial = run.only(protocol);
            let folder = folder_of(&run, &trial.record);
            check_trial(
                trial,
                &folder,
                protocol,
                &[(Cause::Host, 20_000_000), known],
            );
        }
    });
}

//! What a trial records of real programs, from their packets, compared with squall's own stations and tshark.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use squall_base::plan::{Protocol, Side};
use squall_base::record::{Direction, HopRecord, RequestRecord, TrialRecord, Validity, Way};
use squall_record::{RunFolder, TrialFolder, read_packets, read_sockets};
use tempfile::TempDir;

use crate::alone::observer::check_tshark;
use crate::observed::{Comparison, Cuts, Delay, Imported, Rows, check_same_bytes};
use crate::scheduled::{Schedule, Watching};
use crate::support::{
    FinishedRun, check_validity, have, quiet_seat, recipe, run_until_valid, run_whatever, stderr,
};

/// One-way delay.
const DELAY_NS: i64 = 5_000_000;
const PROFILE: &str = "warmup = \"500ms\"\nduration = \"1s\"\ndrain = \"2s\"";
/// The listening ports of the stations after the first and the second hop.
const PORTS: [u16; 2] = [8080, 8081];

fn variant(name: &str, path: &str, more: &str) -> String {
    format!("[[variant]]\nname = \"{name}\"\npath = \"{path}\"\n{more}")
}

fn folders(run: &FinishedRun) -> Vec<TrialFolder> {
    let folder = RunFolder::open(&run.folder).expect("the run's folder");
    folder.complete_trials().expect("its trials")
}

/// The record of one side of a hop.
fn rows(trial: &TrialFolder, hop: u8, side: Side) -> Rows {
    let (exchanges, frames) = (trial.exchanges(), trial.frames());
    Rows::of((&exchanges, &frames), hop, side)
}

/// Two nginxes as custom stations of a recipe: an HTTP/1.1 proxy and an HTTP/1.1 server, whatever the path says.
fn two_nginx() -> String {
    let head = "daemon off; master_process off; user root; pid {folder}/pid; error_log {folder}/error.log;\n\
        events {{ worker_connections 1024; }}\n";
    let http = "access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;\n\
        fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;\n\
        keepalive_requests 1000000; server {{ listen {listen_host}:{listen_port};";
    let station = |name: &str, before: &str, location: &str| {
        format!(
            "[station.{name}]\ncommand = \"nginx -p {{folder}} -c {{configuration}}\"\nconfiguration = '''\n\
             {head}http {{{{ {before} {http} location / {{{{ {location} }}}} }}}} }}}}\n'''\n"
        )
    };
    station(
        "near",
        "upstream far {{ server {upstream_host}:{upstream_port}; keepalive 64; keepalive_requests 1000000; }}",
        "proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_pass http://far;",
    ) + &station("far", "", "return 200 answered;")
}

fn spoken(hop: &HopRecord) -> &BTreeMap<String, u64> {
    &hop.wire.as_ref().expect("a program is at it").protocols
}

#[test]
fn hop_that_spoke_another_protocol_makes_the_trial_invalid() {
    if !have(&["nginx"]) {
        return;
    }
    let _seat = quiet_seat();
    let paths = [
        "client -h1-> near ~h1~> far",
        "client -h1-> near ~h2c~> far",
    ];
    let text = recipe(
        "200/s",
        "delay = \"5ms\"",
        &[
            &variant("as said", paths[0], ""),
            &variant("fallen back", paths[1], ""),
        ],
        // It runs three times, because the invalid trial is repeated.
        "warmup = \"100ms\"\nduration = \"500ms\"\ndrain = \"2s\"",
    );
    // The two nginxes respond as their own configuration says.
    let text = text.replace("[response]\nstatus = 200\nbody = \"1KiB\"\n", "");
    let run = run_whatever(&(text + &two_nginx()), &["--attempts", "2"]);
    let said = stderr(&run.output);
    assert_eq!(run.output.status.code(), Some(3), "{said}");
    let [right, wrong] = ["as said", "fallen back"].map(|name| run.only(name));
    check_validity(right);
    for trial in [right, wrong] {
        // Neither trial has another problem: all requests succeeded.
        assert!(trial.measured().all(RequestRecord::succeeded));
        let hop = &trial.record.hops[1];
        assert!(hop.client.is_none() && hop.server.is_none());
        let wire = hop.wire.as_ref().expect("both sides are programs");
        assert_eq!(wire.protocols.keys().collect::<Vec<_>>(), ["h1"]);
        assert_eq!(wire.protocols["h1"], wire.tcp_connections);
        assert_eq!(wire.exchanges, trial.record.requests);
        assert!(
            wire.unread.is_empty() && wire.missed_packets == 0,
            "{wire:?}"
        );
    }
    let Validity::Invalid { reasons } = &wrong.record.health.validity else {
        panic!("a hop of h2c that spoke h1 is no evidence");
    };
    let connections = spoken(&wrong.record.hops[1])["h1"];
    let expected =
        format!("{connections} connections of hop 2 spoke h1, not h2c, according to its packets");
    assert!(reasons.contains(&expected), "{reasons:?}");
    assert_eq!(wrong.record.attempt, 2, "it was tried again: {said}");
}

/// On a hop between a squall station and a program, both sides have rows of the same exchanges with the same bytes.
/// Times from packets are later by the link's delay for what the client sent, and earlier for what it received.
#[test]
fn rows_from_packets_of_programs_match_our_stations_rows() {
    if !have(&["nginx", "haproxy", "envoy", "h2load"]) {
        return;
    }
    let _seat = quiet_seat();
    let paths = [
        ("h1", "client ~h1~> nginx", "connections = 8\n"),
        ("h2c", "client ~h2c~> envoy", "connections = 2\n"),
        ("h2", "client ~h2~> haproxy", "connections = 2\n"),
        (
            "inside",
            "client -h2c-> envoy ~h1~> nginx",
            "connections = 2\n",
        ),
        ("load", "client(h2load) ~h2~> server", ""),
    ];
    let variants = paths.map(|(name, path, more)| variant(name, path, more));
    let text = recipe(
        "100/s",
        "delay = \"5ms\"",
        &variants.each_ref().map(String::as_str),
        PROFILE,
    );
    let watching = Watching::start();
    let run = run_until_valid(&text, &[]);
    let schedule = watching.and_then(Watching::end);
    assert_eq!(run.trials.len(), paths.len());
    for folder in folders(&run) {
        let record = folder.read_record().expect("trial.json");
        let name = &record.trial.variant.name;
        let hop = &record.hops[0];
        let one_way = if record.trial.variant.first_hop().across_link {
            DELAY_NS
        } else {
            0
        };
        let [client, server] = Side::ALL.map(|side| rows(&folder, 1, side));
        assert_eq!(client.exchanges.len() as u64, record.requests, "{name}");
        check_same_bytes(&without_sides(&client), &without_sides(&server));
        let cuts = Cuts::of(&read_packets(folder.packets()).expect("packets.parquet"));
        let link = (one_way, (one_way > 0).then_some(&cuts));
        check_sides([&client, &server], &record, link, schedule.as_ref());
        let counts = [&hop.client, &hop.server].into_iter().flatten().next();
        let counts = counts.expect("one side is ours");
        let wire = hop.wire.as_ref().expect("one side is a program");
        assert_eq!(wire.tcp_connections, counts.tcp_connections, "{name}");
        assert_eq!(wire.protocols, counts.protocols, "{name}");
        assert_eq!(
            record.connections_opened as u64, counts.tcp_connections,
            "{name}"
        );
        check_samples(&folder, counts.tcp_connections);
    }
}

/// The initial congestion window is ten segments (RFC 6928), and a record of 15 kB takes eleven, so its last packet
/// follows a round trip after its first. Apart from this gap, the times are the same.
#[test]
fn record_split_by_the_congestion_window_differs_by_one_round_trip() {
    if !have(&["nginx", "haproxy", "h2load"]) {
        return;
    }
    let _seat = quiet_seat();
    let paths = [
        ("h1s", "client ~h1s~> nginx", "connections = 4\n"),
        ("h2", "client ~h2~> haproxy", "connections = 4\n"),
        ("load", "client(h2load) ~h2~> server", ""),
    ];
    let variants = paths.map(|(name, path, more)| variant(name, path, more));
    let text = recipe(
        "20/s",
        "delay = \"5ms\"",
        &variants.each_ref().map(String::as_str),
        "warmup = \"500ms\"\nduration = \"2s\"\ndrain = \"2s\"",
    );
    let watching = Watching::start();
    let run = run_until_valid(&text.replace("body = \"1KiB\"", "body = \"15kB\""), &[]);
    let schedule = watching.and_then(Watching::end);
    let mut cut = BTreeSet::new();
    for folder in folders(&run) {
        let record = folder.read_record().expect("trial.json");
        let [client, server] = Side::ALL.map(|side| rows(&folder, 1, side));
        check_same_bytes(&without_sides(&client), &without_sides(&server));
        let cuts = Cuts::of(&read_packets(folder.packets()).expect("packets.parquet"));
        let link = (DELAY_NS, Some(&cuts));
        check_sides([&client, &server], &record, link, schedule.as_ref());
        for row in &client.exchanges {
            for (direction, extent) in [
                (Direction::Up, &row.request_extent),
                (Direction::Down, &row.response_extent),
            ] {
                let extent = extent.as_ref().expect("all were answered");
                let apart_ns = cuts.apart_ns(row.connection, direction, extent);
                if apart_ns >= 2 * DELAY_NS {
                    cut.insert((record.trial.variant.name.clone(), direction));
                }
            }
        }
    }
    for (variant, direction) in [
        ("h1s", Direction::Up),
        ("h1s", Direction::Down),
        ("h2", Direction::Up),
        ("h2", Direction::Down),
    ] {
        assert!(cut.contains(&(variant.to_owned(), direction)), "{cut:?}");
    }
}

/// Checks a hop whose rows come from a squall station on one side, and on the other from packets at the other end of a link
/// with this delay.
fn check_sides(
    [client, server]: [&Rows; 2],
    record: &TrialRecord,
    (one_way_ns, cuts): (i64, Option<&Cuts>),
    schedule: Option<&Schedule>,
) {
    let epoch_ns = record.epoch_monotonic_ns as i64;
    let (side, thread, sign) = match record.hops[0].client {
        Some(_) => (Side::Client, "squall-client", 1),
        None => (Side::Server, "squall-server", -1),
    };
    let comparison = Comparison {
        thread,
        side,
        station_epoch_ns: Some(epoch_ns),
        observed_epoch_ns: epoch_ns,
        delay: Delay {
            request_ns: sign * one_way_ns,
            response_ns: -sign * one_way_ns,
        },
        cuts,
    };
    match side {
        Side::Client => comparison.check(client, server, schedule),
        Side::Server => comparison.check(server, client, schedule),
    }
}

/// Checks that the program's sockets were sampled, each under the number of its connection.
fn check_samples(folder: &TrialFolder, connections: u64) {
    let sockets = read_sockets(folder.sockets()).expect("sockets.parquet");
    let numbers = |side| -> BTreeSet<u32> {
        let of_side = sockets
            .iter()
            .filter(|row| (row.hop, row.side) == (1, side));
        of_side.map(|row| row.connection).collect()
    };
    let all: BTreeSet<u32> = (0..connections as u32).collect();
    for side in Side::ALL {
        assert_eq!(numbers(side), all, "{}: {side:?}", folder.name());
    }
}

/// HTTP/2's last frame (RFC 9113, section 6.8).
const GOAWAY: u64 = 7;

/// Converts rows to the client's view: what one side sends, the other receives. GOAWAY is left out, because a client's last
/// one may never be read.
fn without_sides(rows: &Rows) -> Rows {
    let mut frames = rows.frames.clone();
    let mut exchanges = rows.exchanges.clone();
    frames.retain(|row| row.frame.kind != GOAWAY);
    frames.iter_mut().for_each(|row| {
        if row.side == Side::Server {
            row.frame.way = match row.frame.way {
                Way::Sent => Way::Received,
                Way::Received => Way::Sent,
            };
        }
        row.side = Side::Client;
    });
    frames.sort_by_key(|row| (row.connection, row.frame.way, row.frame.offset));
    exchanges.iter_mut().for_each(|row| row.side = Side::Client);
    Rows { exchanges, frames }
}

#[test]
fn import_of_a_trials_capture_matches_its_stations_records() {
    let _seat = quiet_seat();
    let protocols = [Protocol::H1, Protocol::H1s, Protocol::H2c, Protocol::H2];
    let variants = protocols.map(|protocol| {
        let path = format!("client ~{protocol}~> server");
        variant(protocol.name(), &path, "connections = 4\n")
    });
    let text = recipe(
        "100/s",
        "delay = \"5ms\"",
        &variants.each_ref().map(String::as_str),
        PROFILE,
    );
    let watching = Watching::start();
    let run = run_until_valid(&text, &["--pcap"]);
    let schedule = watching.and_then(Watching::end);
    for folder in folders(&run) {
        let record = folder.read_record().expect("trial.json");
        assert!(record.hops[0].wire.is_none(), "both sides are ours");
        let home = TempDir::new().expect("a temporary folder");
        // The secrets are in the capture.
        let imported = Imported::of(home.path(), &folder.capture(), None);
        let ours = rows(&folder, 1, Side::Client);
        assert_eq!(ours.exchanges.len() as u64, record.requests);
        check_same_bytes(&ours, &imported.rows);
        let epoch_ns = record.epoch_monotonic_ns as i64;
        let epoch_unix_ns = imported.summary["epoch_unix_ns"].as_i64().expect("a time");
        let comparison = Comparison {
            thread: "squall-client",
            side: Side::Client,
            station_epoch_ns: Some(epoch_ns),
            observed_epoch_ns: epoch_ns + epoch_unix_ns - record.epoch_unix_ns as i64,
            // The capture has packets as they entered the link.
            delay: Delay {
                request_ns: 0,
                response_ns: -DELAY_NS,
            },
            cuts: None,
        };
        comparison.check(&ours, &imported.rows, schedule.as_ref());
    }
}

/// Envoy to Envoy, in cleartext and over TLS; both write key logs.
#[test]
fn trial_rows_between_two_envoys_match_tsharks_counts() {
    if !have(&["envoy", "nginx", "tshark"]) {
        return;
    }
    let _seat = quiet_seat();
    let paths = [Protocol::H2c, Protocol::H2].map(|protocol| {
        let path = format!("client -h1-> envoy ~{protocol}~> envoy -h1-> nginx");
        variant(protocol.name(), &path, "")
    });
    let text = recipe(
        "100/s",
        "delay = \"5ms\"\nloss = \"1%\"",
        &paths.each_ref().map(String::as_str),
        PROFILE,
    );
    let run = run_until_valid(&text, &["--pcap"]);
    let requests = run.trials.iter().flat_map(|trial| &trial.requests);
    // Otherwise Envoy resets streams whose responses are in flight, and the two sides record different endings.
    requests.for_each(|request| assert!(request.succeeded(), "{request:?}"));
    for folder in folders(&run) {
        let record = folder.read_record().expect("trial.json");
        let hop = &record.hops[1];
        let wire = hop.wire.as_ref().expect("both sides are programs");
        assert_eq!(wire.exchanges, record.requests, "{wire:?}");
        assert!(wire.unread.is_empty(), "{wire:?}");
        assert_eq!(
            spoken(hop).keys().collect::<Vec<_>>(),
            [hop.protocol.name()]
        );
        let (client, server) = (
            rows(&folder, 2, Side::Client),
            rows(&folder, 2, Side::Server),
        );
        assert_eq!(client.frames.len() as u64, wire.frames);
        check_same_bytes(&without_sides(&client), &without_sides(&server));
        let capture: PathBuf = folder.capture();
        check_tshark((&capture, None), hop.protocol, PORTS[1], &client);
        // Also checks the hops inside the hosts.
        for (hop, side) in [(1, Side::Server), (3, Side::Client), (3, Side::Server)] {
            let rows = rows(&folder, hop, side);
            let streams: BTreeSet<_> = rows
                .exchanges
                .iter()
                .map(|row| (row.connection, row.stream))
                .collect();
            assert_eq!(streams.len() as u64, record.requests, "hop {hop}, {side:?}");
        }
    }
}

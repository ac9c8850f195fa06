//! `tls.resumption` of each side separately, over TCP and QUIC: sessions are resumed only if both sides allow it, in commands
//! as in recipes.
//!
//! squall-http tests the tickets themselves.

use std::fs;

use squall_base::plan::Protocol;
use squall_base::record::SideCounts;
use tempfile::TempDir;

use crate::served::{Serving, ask};
use crate::support::{TrialFiles, alone_if_it_fails, recipe, run_recipe, seat, stderr};

const OFF: &[&str] = &["--set", "tls.resumption=false"];

/// Connections of a load, which opens one every 50 ms, so that each can use the tickets of earlier ones.
const CONNECTIONS: u64 = 5;

/// The numbers of full and resumed handshakes of a load, with these flags on client and server.
fn handshakes(protocol: Protocol, client: &[&str], server: &[&str]) -> (u64, u64) {
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::of(home.path(), protocol, server);
    let url = server.url(protocol);
    let load = [
        "--rate",
        "20",
        "-n",
        "5",
        "-c",
        "5",
        "--cold",
        "-t",
        "1",
        "--json",
        "load.json",
    ];
    let output = ask(
        home.path(),
        "load",
        protocol,
        &[&load, client].concat(),
        &url,
    );
    assert!(output.status.success(), "{protocol}: {}", stderr(&output));
    let json = fs::read_to_string(home.path().join("load.json")).expect("a summary");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let count = |name: &str| json["connections"][name].as_u64().expect("a count");
    (count("tls_full"), count("tls_resumed"))
}

#[test]
fn load_resumes_sessions_unless_either_side_disables_it() {
    alone_if_it_fails(seat(), || {
        for protocol in [Protocol::H1s, Protocol::H2, Protocol::H3] {
            let (full, resumed) = handshakes(protocol, &[], &[]);
            // On a disturbed machine some connections open simultaneously, without the tickets of others.
            assert_eq!(full + resumed, CONNECTIONS, "{protocol}");
            assert!(full >= 1 && resumed >= 1, "{protocol}: {full}, {resumed}");
            for (client, server) in [(OFF, &[][..]), (&[], OFF), (OFF, OFF)] {
                let found = handshakes(protocol, client, server);
                assert_eq!(found, (CONNECTIONS, 0), "{protocol}: {client:?} {server:?}");
            }
        }
    });
}

/// What both sides of a trial's hop counted.
fn counts(trial: &TrialFiles) -> [&SideCounts; 2] {
    let hop = &trial.record.hops[0];
    [&hop.client, &hop.server].map(|counts| counts.as_ref().expect("both sides are ours"))
}

#[test]
fn trial_resumes_sessions_unless_either_side_disables_it() {
    alone_if_it_fails(seat(), || {
        let sides = [
            ("on", ""),
            ("client", "client = { tls = { resumption = false } }\n"),
            ("server", "server = { tls = { resumption = false } }\n"),
        ];
        // Connections are opened one by one, by requests that find all others busy.
        let variants: Vec<String> = [Protocol::H2, Protocol::H3]
        .iter()
        .flat_map(|protocol| {
            sides.map(|(name, side)| {
                format!(
                    "[[variant]]\nname = \"{protocol} {name}\"\npath = \"client ~{protocol}~> server\"\n\
                     connections = {CONNECTIONS}\npool = {{ warm = 0 }}\n{side}"
                )
            })
        })
        .collect();
        let variants: Vec<&str> = variants.iter().map(String::as_str).collect();
        let text = recipe(
            "20/s",
            "delay = \"2ms\"",
            &variants,
            "warmup = \"0s\"\nduration = \"1s\"\ndrain = \"2s\"",
        );
        let run = run_recipe(&text, &[]);
        assert_eq!(run.trials.len(), variants.len());
        for trial in &run.trials {
            let name = &trial.record.trial.variant.name;
            for counts in counts(trial) {
                let (full, resumed) = (counts.tls_full, counts.tls_resumed);
                assert_eq!(full + resumed, CONNECTIONS, "{name}");
                let is_on = name.ends_with(" on");
                assert_eq!(resumed > 0, is_on, "{name}: {full} full, {resumed} resumed");
            }
        }
    });
}

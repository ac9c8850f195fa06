//! `http3.congestion_control` of each side, as visible in a trial over a lossy link.
//!
//! squall-http's tests check how CUBIC and NewReno react to a loss, because they can construct one.

use std::collections::BTreeMap;

use squall_base::plan::{QuicCongestionControl, Side};
use squall_base::record::SocketSample;
use squall_record::{RunFolder, read_sockets};

use crate::support::{recipe, run_recipe, seat};

/// A side's samples: the total, those with a bandwidth estimate, and packets lost.
#[derive(Debug, Default)]
struct Samples {
    all: usize,
    estimating: usize,
    lost: u64,
}

/// Only BBR estimates the bandwidth, so a side with an estimate runs BBR.
#[test]
fn each_quic_side_uses_its_configured_congestion_control() {
    let _seat = seat();
    let [cubic, reno, bbr2] = QuicCongestionControl::ALL;
    let sides = [[cubic, reno], [reno, bbr2], [bbr2, cubic]];
    let variants: Vec<String> = sides
        .iter()
        .map(|sides| {
            let [client, server] = sides.map(QuicCongestionControl::name);
            format!(
                "[[variant]]\nname = \"{client} {server}\"\npath = \"client ~h3~> server\"\n\
                 client = {{ http3 = {{ congestion_control = \"{client}\" }} }}\n\
                 server = {{ http3 = {{ congestion_control = \"{server}\" }} }}\n"
            )
        })
        .collect();
    let variants: Vec<&str> = variants.iter().map(String::as_str).collect();
    let text = recipe(
        "20/s",
        "delay = \"5ms\"\nloss = \"2%\"",
        &variants,
        "warmup = \"0s\"\nduration = \"1s\"\ndrain = \"3s\"",
    );
    // Large enough that a packet is lost in each direction.
    let text = text.replace("body = \"1KiB\"", "body = \"60000\"");
    let run = run_recipe(&text, &[]);
    let folder = RunFolder::open(&run.folder).expect("the run's folder");
    let trials = folder.complete_trials().expect("its trials");
    assert_eq!(trials.len(), sides.len());
    for trial in trials {
        let record = trial.read_record().expect("trial.json");
        let name = record.trial.variant.name;
        let mut found: BTreeMap<Side, Samples> = BTreeMap::new();
        for row in read_sockets(trial.sockets()).expect("sockets.parquet") {
            let SocketSample::Quic(path) = &row.sample else {
                panic!("{name}: {row:?}");
            };
            let samples = found.entry(row.side).or_default();
            samples.all += 1;
            samples.estimating += usize::from(path.max_bandwidth_bytes_per_s.is_some());
            samples.lost = samples.lost.max(path.lost);
        }
        for (side, word) in Side::ALL.into_iter().zip(name.split(' ')) {
            let samples = &found[&side];
            let is_bbr = word == QuicCongestionControl::Bbr2.name();
            assert!(samples.all >= 5 && samples.lost > 0, "{name}: {samples:?}");
            let expected = if is_bbr { samples.all } else { 0 };
            assert_eq!(samples.estimating, expected, "{name}, {side:?}");
        }
    }
}

//! Paths of several links, with squall's own stations: each link has its own conditions, packets, drops and health, and
//! each hop its own causes.
//!
//! What holds on paths of one link is in `causes_paths`, what recipes can say about several links in squall-recipe.

use std::collections::{BTreeMap, BTreeSet};

use squall_base::record::{Cause, CausesRecord, Direction, DropRecord};
use squall_record::{RunFolder, TrialFolder, read_causes, read_drops};

use crate::explain::{explain, unbroken};
use crate::findings::shown;
use crate::support::{
    FinishedRun, TrialFiles, alone_if_it_fails, quantile, recipe, run_recipe, seat, stderr, stdout,
};

const TWO: &str =
    "[[variant]]\nname = \"two\"\npath = \"client ~h2~> balancer(alb) ~h1~> server\"\n";
const THREE: &str = "[[variant]]\nname = \"three\"\npath = \"client ~h1~> proxy ~h1~> proxy -h1-> proxy ~h1~> server\"\n";
const PROFILE: &str = "warmup = \"1s\"\nduration = \"2s\"\ndrain = \"3s\"";

fn folder_of(run: &FinishedRun, trial: &TrialFiles) -> TrialFolder {
    let folder = RunFolder::open(&run.folder).expect("the run's folder");
    let name = trial.record.trial.folder();
    folder.complete_trial(&name).expect("a complete trial")
}

/// The causes of a trial's requests, in total and on each hop, after a check that they add up.
fn causes(trial: &TrialFiles, folder: &TrialFolder) -> BTreeMap<u8, Vec<CausesRecord>> {
    let mut rows: BTreeMap<u8, Vec<CausesRecord>> = BTreeMap::new();
    for row in read_causes(folder.causes()).expect("causes.parquet") {
        rows.entry(row.hop).or_default().push(row);
    }
    assert_eq!(rows.len(), 1 + trial.record.trial.variant.hops.len());
    for (row, request) in rows[&0].iter().zip(&trial.requests) {
        assert_eq!(row.request, request.request);
        let latency = request.end.since(request.intended);
        assert_eq!(row.spans.total(), latency, "{request:?} {row:?}");
    }
    rows
}

fn median_ms(rows: &[CausesRecord], cause: Cause) -> f64 {
    let mut all: Vec<f64> = rows
        .iter()
        .map(|row| row.spans[cause].as_millis_f64())
        .collect();
    all.sort_by(f64::total_cmp);
    quantile(&all, 0.5)
}

/// Checks that packets of each link took that link's delay, and that the link's health counts its own packets.
fn check_links(trial: &TrialFiles, delays_ms: &[(u8, f64)]) {
    let hops: BTreeSet<u8> = trial.packets.iter().map(|packet| packet.hop).collect();
    assert!(hops.iter().eq(delays_ms.iter().map(|(hop, _)| hop)));
    let health = &trial.record.health.link;
    let entries: Vec<(u8, Direction)> = health.iter().map(|it| (it.hop, it.direction)).collect();
    let expected = delays_ms.iter();
    let expected = expected.flat_map(|(hop, _)| Direction::ALL.map(|direction| (*hop, direction)));
    assert_eq!(entries, expected.collect::<Vec<_>>());
    for link in health {
        let own = trial.packets.iter();
        let own = own.filter(|it| (it.hop, it.direction) == (link.hop, link.direction));
        assert_eq!(link.packets, own.count() as u64, "{link:?}");
        assert_eq!(link.packets, link.kernel.device_sent, "{link:?}");
    }
    for (hop, delay_ms) in delays_ms {
        let own = trial.packets.iter().filter(|packet| packet.hop == *hop);
        let mut delays = own.filter_map(|it| Some(it.planned?.since(it.arrived).as_millis_f64()));
        assert!(
            delays.all(|delay| (delay - delay_ms).abs() < 0.001),
            "hop {hop}"
        );
    }
}

#[test]
fn each_link_delays_by_its_own_conditions_and_each_hop_has_its_own_causes() {
    alone_if_it_fails(seat(), || {
        let conditions = "delay = \"5ms\"\n[[conditions.next_link]]\ndelay = \"20ms\"";
        let text = recipe("100/s", conditions, &[TWO, THREE], PROFILE);
        let run = run_recipe(&text, &["--pcap"]);
        let both: [(&str, &[(u8, f64)]); 2] = [
            ("two", &[(1, 5.0), (2, 20.0)]),
            // The third link has no table, so it has the conditions of the first.
            ("three", &[(1, 5.0), (2, 20.0), (4, 5.0)]),
        ];
        for (variant, delays_ms) in both {
            let trial = run.only(variant);
            check_links(trial, delays_ms);
            let round_trip_ms = delays_ms.iter().map(|(_, delay)| 2.0 * delay).sum::<f64>();
            let latencies = trial.latencies_ms();
            let median = quantile(&latencies, 0.5);
            assert!(latencies[0] >= round_trip_ms, "{variant}: {}", latencies[0]);
            assert!(median < round_trip_ms + 5.0, "{variant}: {median}");

            let folder = folder_of(&run, trial);
            let drops = read_drops(folder.drops()).expect("drops.parquet");
            assert_eq!(drops, [], "{variant}");
            let causes = causes(trial, &folder);
            for row in causes.values().flatten() {
                assert!(row.spans[Cause::Unknown].is_zero(), "{variant}: {row:?}");
            }
            let distance = median_ms(&causes[&0], Cause::Distance);
            assert!(
                (distance - round_trip_ms).abs() < 0.5,
                "{variant}: {distance}"
            );
            for (hop, delay) in delays_ms {
                let distance = median_ms(&causes[hop], Cause::Distance);
                assert!(
                    (distance - 2.0 * delay).abs() < 0.5,
                    "{variant}: {distance}"
                );
            }
            for link in 0..delays_ms.len() {
                let bytes = folder.capture_of(link).metadata().expect("a capture").len();
                assert!(bytes > 10_000, "{variant}: link {link} has {bytes} bytes");
            }
        }
    });
}

#[test]
fn loss_on_the_second_link_is_a_cause_on_the_second_hop_alone() {
    let _seat = seat();
    let conditions = "delay = \"5ms\"\n[[conditions.next_link]]\ndelay = \"20ms\"\nloss = \"5%\"";
    let run = run_recipe(&recipe("100/s", conditions, &[TWO], PROFILE), &[]);
    let trial = run.only("two");
    check_links(trial, &[(1, 5.0), (2, 20.0)]);
    let folder = folder_of(&run, trial);
    let drops = read_drops(folder.drops()).expect("drops.parquet");
    assert!(drops.len() > 10, "{}", drops.len());
    assert!(drops.iter().all(|row| row.packet.hop == 2));

    let causes = causes(trial, &folder);
    let lost = |row: &CausesRecord| row.spans[Cause::Loss] + row.spans[Cause::Hol];
    assert!(causes[&1].iter().all(|row| lost(row).is_zero()));
    assert!(causes[&1].iter().all(|row| row.responsible.is_none()));
    let total = |hop: u8| -> u64 { causes[&hop].iter().map(|row| lost(row).as_nanos()).sum() };
    assert!(total(2) > 0);
    assert_eq!(
        total(0),
        total(2),
        "the time of the hop is that of the path"
    );
    for row in causes[&0].iter().filter(|row| !lost(row).is_zero()) {
        let packet = row.responsible.expect("a lost packet is responsible");
        let own = |drop: &&DropRecord| drop.packet == packet;
        let drop = drops.iter().find(own).expect("it has a row");
        assert!(drop.victims.iter().any(|it| it.request == row.request));
    }

    let findings = shown(&run, "two", &|_| true);
    let of_loss = ["own_loss", "head_of_line", "timeout_repair"];
    let found = findings.iter();
    let found = found.filter(|it| of_loss.contains(&it.name.as_str()));
    let hops: BTreeSet<Option<u8>> = found.map(|it| it.hop).collect();
    assert_eq!(hops, BTreeSet::from([Some(2)]));

    let slowest = causes[&0].iter().max_by_key(|row| lost(row).as_nanos());
    let request = slowest.expect("there is one").request.to_string();
    let told = explain(&run.folder, &[&request]);
    assert!(told.status.success(), "{}", stderr(&told));
    let text = unbroken(&stdout(&told));
    assert!(text.contains(" of hop 2"), "{text}");
    assert!(
        !stderr(&told).contains("causes.parquet"),
        "{}",
        stderr(&told)
    );
}

//! Once a waiting link has begun, it behaves like one that was made at that time.

use proptest::prelude::*;
use squall_base::record::{Direction, Fate};
use squall_base::{Duration, Time};
use squall_link::settings::LinkSettings;
use squall_link::trace::Trace;
use squall_link::{Link, text};

use crate::traffic::{START, opening};

/// Everything that depends on time: blackouts, weather, a trace, and a schedule that brings another trace.
fn timed() -> LinkSettings {
    let mut traces = |name: &str| {
        let times = if name == "slow" {
            "7\n40\n"
        } else {
            "0\n3\n5\n"
        };
        let trace = Trace::parse(times).map_err(|error| error.to_string())?;
        Ok(std::sync::Arc::new(trace.named(name)))
    };
    let words =
        "blackout 20ms at 10ms every 100ms, loss weather good 30ms bad 10ms, trace fast, delay 2ms";
    let mut settings = LinkSettings::symmetric(squall_link::LaneSettings::default(), 7);
    for setting in text::settings(words, &mut traces).expect("settings") {
        settings.stretches[0].apply(None, &setting);
    }
    let changes = "at 0s: delay 3ms\nat 250ms: down trace slow\nat 400ms: blackout 10ms at 420ms";
    settings.schedule = text::schedule(changes, &mut traces).expect("changes");
    settings
}

/// When each packet arrived, when it was planned to leave, and its fate; times count from `from`.
fn fates(mut link: Link, from: Time, gaps_us: &[u64]) -> Vec<String> {
    let mut at = from;
    for (n, gap) in gaps_us.iter().enumerate() {
        at += Duration::from_micros(*gap);
        link.offer(at, Direction::ALL[n % 2], opening(n as u16));
    }
    let mut left: Vec<String> = Vec::new();
    while let Some(departure) = link.take(at + Duration::from_secs(60)) {
        let record = departure.record;
        let since = |time: Time| time.since(from).as_nanos();
        left.push(format!(
            "{} {:?} {:?} {:?}",
            since(record.arrived),
            record.direction,
            record.fate,
            record.planned.map(since)
        ));
    }
    left
}

proptest! {
    #[test]
    fn a_begun_link_acts_like_a_new_one(waits_us in 0_u64..200_000, gaps_us in prop::collection::vec(1_u64..20_000, 1..100)) {
        let begins = START + Duration::from_micros(waits_us);
        let mut waiting = Link::waiting(&timed(), START);
        waiting.begin(begins);
        let made_then = Link::new(&timed(), begins);
        prop_assert_eq!(fates(waiting, begins, &gaps_us), fates(made_then, begins, &gaps_us));
    }
}

#[test]
fn a_waiting_link_has_no_blackouts() {
    let mut link = Link::waiting(&timed(), START);
    let before = dark(&mut link, &[11, 15, 450]);
    assert_eq!(before, [false; 3]);
    link.begin(START + Duration::from_secs(1));
    let after = dark(&mut link, &[1_011, 1_031]);
    assert_eq!(after, [true, false]);
}

#[test]
fn a_link_begins_only_once() {
    let mut twice = Link::waiting(&timed(), START);
    twice.begin(START);
    twice.begin(START + Duration::from_millis(5));
    let gaps_us = [1_000; 60];
    let once = Link::new(&timed(), START);
    assert_eq!(fates(twice, START, &gaps_us), fates(once, START, &gaps_us));
}

/// Whether blackouts dropped packets that arrive at these times, in milliseconds after the start.
fn dark(link: &mut Link, at_ms: &[u64]) -> Vec<bool> {
    for ms in at_ms {
        let at = START + Duration::from_millis(*ms);
        link.offer(at, Direction::Up, opening(0));
    }
    let mut left = Vec::new();
    let last = START + Duration::from_millis(at_ms[at_ms.len() - 1] + 99);
    while let Some(departure) = link.take(last) {
        let is_dark = departure.record.fate == Fate::BlackoutDrop;
        left.push((departure.record.index, is_dark));
    }
    left.sort_unstable();
    left.into_iter().map(|(_, is_dark)| is_dark).collect()
}

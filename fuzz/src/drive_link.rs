//! Feeds the link any text as its settings and any bytes as its packets, and checks what must hold for any input.
//!
//! Nothing may panic; the assertions state what else must hold. The statistics of a model are tested next to the model,
//! not here.

use std::fmt::Display;
use std::sync::Arc;

use squall_base::record::{Direction, Fate};
use squall_base::{Duration, Time};
use squall_link::settings::{Capacity, LaneSettings, Stretch};
use squall_link::trace::Trace;
use squall_link::{Departure, Link, LinkSettings, text};

/// The settings that packets may meet: every kind, in both directions, together or in turn.
const LINKS: [&str; 14] = [
    "delay 25ms",
    "delay 5ms, jitter 10ms reordering",
    "delay 5ms, jitter normal 2ms correlation 50%, reorder 10% by 20ms",
    "loss 20%, jitter pareto 1ms",
    "loss 10% bursts of 3, duplicate 10%, corrupt 10%",
    "loss weather good 5ms bad 5ms 90% 1%, blackout 1ms at 3ms every 10ms",
    "drop 3 and syn 1 and every 7 and seq 1-100 times 2, duplicate 50%",
    "rate 1mbit, overhead 38, queue 2KiB 5 packets",
    "rate 1mbit bucket 1500B, queue drop-head 3 packets",
    "rate 100kbit, queue red 500B 1500B 10% 4KiB ecn",
    "rate 100kbit, queue codel target 1ms interval 5ms ecn",
    "rate 100kbit, queue pie target 1ms update 1ms 20 packets",
    "rate 100kbit, queue fq-codel target 1ms interval 5ms quantum 300 2KiB ecn",
    "trace slow, queue 10 packets, delay 3ms",
];

/// The settings that may change meanwhile.
const SCHEDULE: &str = "at 2ms: loss 5%\nat 4ms: up rate unlimited, delay 1ms\nat 6ms: rate 2mbit, queue 1 packets\n\
    at 8ms: link 2 down queue codel, blackout 1ms at 9ms\nat 10ms: jitter none, trace slow, drop 20\n";

/// More steps than these few packets need; a component that takes more would tick forever.
const MAX_STEPS: usize = 20_000;

/// Any text, as a list of settings and as a single one.
pub fn link_settings(input: &[u8]) {
    let input = String::from_utf8_lossy(input);
    let lone = text::setting(&input, &mut any_trace);
    if let Ok(settings) = text::settings(&input, &mut any_trace) {
        assert!(input.contains(',') || lone == Ok(settings.clone()) || settings.is_empty());
        let again = text::settings(&joined(&settings, ", "), &mut any_trace);
        assert_eq!(again, Ok(settings), "what is written reads back");
    }
}

/// Any text, as a schedule.
pub fn link_schedule(input: &[u8]) {
    let input = String::from_utf8_lossy(input);
    if let Ok(changes) = text::schedule(&input, &mut any_trace) {
        assert!(changes.is_sorted_by_key(|change| change.at));
        let again = text::schedule(&joined(&changes, "\n"), &mut any_trace);
        assert_eq!(again, Ok(changes), "what is written reads back");
    }
}

/// Any text, as a trace that some packets then follow.
pub fn link_trace(input: &[u8]) {
    let Ok(trace) = Trace::parse(&String::from_utf8_lossy(input)) else {
        return;
    };
    let lane = LaneSettings {
        capacity: Capacity::Trace(Arc::new(trace)),
        ..LaneSettings::default()
    };
    let packets: Vec<u8> = (0..20).flat_map(|n| [n, 3, 0x45, n, n]).collect();
    Journey::of(&LinkSettings::symmetric(lane, 1)).travel(&packets);
}

/// Any bytes, as packets: the first three select the settings and the seed.
pub fn link_packets(input: &[u8]) {
    let [up, down, seed, packets @ ..] = input else {
        return;
    };
    let lane = |choice: &u8| {
        let mut lane = LaneSettings::default();
        let words = LINKS[usize::from(*choice) % LINKS.len()];
        let settings = text::settings(words, &mut any_trace).expect("LINKS are right");
        settings.iter().for_each(|setting| lane.apply(setting));
        lane
    };
    let stretch = Stretch {
        up: lane(up),
        down: lane(down),
    };
    let schedule = match seed & 2 {
        0 => Vec::new(),
        _ => text::schedule(SCHEDULE, &mut any_trace).expect("SCHEDULE is right"),
    };
    let settings = LinkSettings {
        seed: u64::from(*seed),
        stretches: vec![stretch; 1 + usize::from(seed & 1)],
        schedule,
    };
    Journey::of(&settings).travel(packets);
}

/// A trace with any name.
fn any_trace(name: &str) -> Result<Arc<Trace>, String> {
    let trace = Trace::parse("1\n3\n3\n").map_err(|error| error.to_string())?;
    Ok(Arc::new(trace.named(name)))
}

fn joined<T: Display>(parts: &[T], between: &str) -> String {
    let words: Vec<String> = parts.iter().map(T::to_string).collect();
    words.join(between)
}

/// A link, the packets that were offered to it, and how often each has left it, as itself and as a copy.
struct Journey {
    link: Link,
    now: Time,
    offered: [Vec<Vec<u8>>; 2],
    left: [Vec<[u32; 2]>; 2],
}

impl Journey {
    fn of(settings: &LinkSettings) -> Journey {
        Journey {
            link: Link::new(settings, Time::ZERO),
            now: Time::ZERO,
            offered: [Vec::new(), Vec::new()],
            left: [Vec::new(), Vec::new()],
        }
    }

    /// Sends packets, each encoded as a byte of gap and direction, a byte of length, and its content; then waits for
    /// them.
    fn travel(mut self, mut packets: &[u8]) {
        while let [gap, length, rest @ ..] = packets {
            let (packet, remaining) = rest.split_at(usize::from(*length).min(rest.len()));
            packets = remaining;
            self.wait_until(self.now + Duration::from_micros(u64::from(gap & 0x7f) * 10));
            let direction = Direction::ALL[usize::from(gap >> 7)];
            self.link.offer(self.now, direction, packet.to_vec());
            self.offered[direction as usize].push(packet.to_vec());
            self.left[direction as usize].push([0, 0]);
        }
        for _ in 0..MAX_STEPS {
            match self.link.next_departure() {
                Some(at) => self.wait_until(at.max(self.now)),
                None => break,
            }
        }
        for departure in self.link.abandon() {
            assert!(departure.record.fate == Fate::InFlight || departure.record.fate.is_drop());
            self.count(&departure);
        }
        for (itself, copies) in self.left.iter().flatten().map(|[a, b]| (*a, *b)) {
            assert_eq!(itself, 1, "every packet leaves once");
            assert!(copies <= 3, "a stretch makes one copy of each that it gets");
        }
    }

    fn wait_until(&mut self, now: Time) {
        self.now = now;
        while let Some(departure) = self.link.take(now) {
            let record = &departure.record;
            if departure.is_release() {
                let planned = record.planned.expect("what is released was planned");
                assert!(record.arrived <= planned && planned <= now, "never early");
            }
            self.count(&departure);
        }
    }

    fn count(&mut self, departure: &Departure) {
        let record = &departure.record;
        let (direction, index) = (record.direction as usize, record.index as usize);
        self.left[direction][index][usize::from(record.is_copy)] += 1;
        if !record.is_marked && !record.is_corrupted {
            assert_eq!(
                departure.packet, self.offered[direction][index],
                "unaltered"
            );
        }
    }
}

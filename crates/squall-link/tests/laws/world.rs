//! Random links: every setting, in one to three stretches, with changes while the link is up.
//!
//! Sizes are such that queues fill, disciplines act and spells change within the tenth of a second that `traffic` lasts.

use proptest::prelude::*;
use std::sync::Arc;

use squall_base::record::{Direction, PacketClass};
use squall_base::{BitRate, Bytes, Duration, Probability};
use squall_link::settings::{
    Blackout, Capacity, Change, Discipline, DropRule, GilbertElliott, Jitter, JitterShape,
    LaneSettings, LinkSettings, Loss, QueueSettings, Reorder, Setting, Stretch, Weather,
};
use squall_link::trace::Trace;

/// Any link.
pub(crate) fn link() -> impl Strategy<Value = LinkSettings> {
    link_of(lane(), 0..6)
}

/// A link whose lanes, and their changes, all come from `lane`.
pub(crate) fn link_of(
    lane: impl Strategy<Value = LaneSettings> + Clone,
    changes: std::ops::Range<usize>,
) -> impl Strategy<Value = LinkSettings> {
    let stretch = (lane.clone(), lane.clone()).prop_map(|(up, down)| Stretch { up, down });
    (
        any::<u64>(),
        proptest::collection::vec(stretch, 1..4),
        proptest::collection::vec(change(lane), changes),
    )
        .prop_map(|(seed, stretches, mut schedule)| {
            schedule.retain(|change| change.stretch < stretches.len());
            schedule.sort_by_key(|change| change.at);
            LinkSettings {
                seed,
                stretches,
                schedule,
            }
        })
}

/// One stretch without changes.
pub(crate) fn one_stretch(
    lane: impl Strategy<Value = LaneSettings> + Clone,
) -> impl Strategy<Value = LinkSettings> {
    (any::<u64>(), lane.clone(), lane).prop_map(|(seed, up, down)| LinkSettings {
        seed,
        stretches: vec![Stretch { up, down }],
        schedule: Vec::new(),
    })
}

/// One setting of a lane changes to a value from `lane`.
fn change(lane: impl Strategy<Value = LaneSettings>) -> impl Strategy<Value = Change> {
    let direction = proptest::option::of(direction());
    (span(1_000), 0_usize..3, direction, lane, 0_u8..11).prop_map(
        |(at, stretch, direction, lane, which)| Change {
            at,
            stretch,
            direction,
            setting: setting(&lane, which),
        },
    )
}

fn setting(lane: &LaneSettings, which: u8) -> Setting {
    let blackout = lane.blackouts.first().copied().map(Setting::Blackout);
    let rule = lane.drops.first().cloned().map(Setting::Drop);
    match which {
        0 => blackout.unwrap_or(Setting::Delay(lane.delay)),
        1 => rule.unwrap_or(Setting::Delay(lane.delay)),
        2 => Setting::Loss(lane.loss),
        3 => Setting::Corrupt(lane.corrupt),
        4 => Setting::Duplicate(lane.duplicate),
        5 => Setting::Capacity(lane.capacity.clone()),
        6 => Setting::Overhead(lane.overhead_bytes),
        7 => Setting::Queue(lane.queue),
        8 => Setting::Delay(lane.delay),
        9 => Setting::Jitter(lane.jitter),
        _ => Setting::Reorder(lane.reorder),
    }
}

/// Any settings of a lane.
pub(crate) fn lane() -> BoxedStrategy<LaneSettings> {
    (
        (harmless_losses(), loss(), share(), share()),
        (capacity(), 0_u32..50, queue()),
        (
            span(50),
            proptest::option::of(jitter()),
            proptest::option::of(reorder()),
        ),
    )
        .prop_map(
            |((lossless, loss, corrupt, duplicate), bottleneck, (delay, jitter, reorder))| {
                LaneSettings {
                    loss,
                    corrupt,
                    duplicate,
                    capacity: bottleneck.0,
                    overhead_bytes: bottleneck.1,
                    queue: bottleneck.2,
                    delay,
                    jitter,
                    reorder,
                    ..lossless
                }
            },
        )
        .boxed()
}

/// Few blackouts and drop rules, because otherwise most packets would end there.
fn harmless_losses() -> impl Strategy<Value = LaneSettings> {
    (
        proptest::option::weighted(0.2, blackout()),
        proptest::option::weighted(0.3, rule()),
    )
        .prop_map(|(blackout, rule)| LaneSettings {
            blackouts: blackout.into_iter().collect(),
            drops: rule.into_iter().collect(),
            ..LaneSettings::default()
        })
}

/// A span below `below` tenths of a millisecond, often a multiple of one.
pub(crate) fn span(below: u64) -> impl Strategy<Value = Duration> {
    let tenth_ns = 100_000;
    prop_oneof![
        1 => Just(0),
        3 => (0..below).prop_map(move |n| n * tenth_ns),
        1 => 0..below * tenth_ns,
    ]
    .prop_map(Duration::from_nanos)
}

fn longer_than_none(below: u64) -> impl Strategy<Value = Duration> {
    span(below).prop_map(|span| span + Duration::from_micros(50))
}

/// Often 0, otherwise less than 0.3.
pub(crate) fn share() -> impl Strategy<Value = Probability> {
    prop_oneof![Just(0.0), 0.0..0.3].prop_map(probability)
}

fn any_share() -> impl Strategy<Value = Probability> {
    prop_oneof![Just(0.0), Just(1.0), 0.0..1.0].prop_map(probability)
}

fn probability(value: f64) -> Probability {
    Probability::new(value).expect("strategies give 0 to 1")
}

fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Up), Just(Direction::Down)]
}

fn blackout() -> impl Strategy<Value = Blackout> {
    let gap = proptest::option::of(longer_than_none(100));
    (span(300), span(50), gap).prop_map(|(from, length, gap)| Blackout {
        from,
        length,
        every: gap.map(|gap| length + gap),
    })
}

fn rule() -> impl Strategy<Value = DropRule> {
    let class = || {
        let classes = proptest::sample::select(PacketClass::ALL.to_vec());
        proptest::option::of(classes)
    };
    let flow = || proptest::option::of(0_u32..4);
    prop_oneof![
        (1_u64..9, class(), flow()).prop_map(|(number, class, flow)| DropRule::Nth {
            number,
            class,
            flow
        }),
        (2_u64..20, class()).prop_map(|(n, class)| DropRule::Every { n, class }),
        (1_u32..20_000, 0_u32..3_000, 1_u32..3, flow()).prop_map(|(from, more, times, flow)| {
            DropRule::Sequence {
                from,
                to: from + more,
                times,
                flow,
            }
        }),
    ]
}

/// Random loss of any model.
pub(crate) fn loss() -> impl Strategy<Value = Loss> {
    let bursts = (any_share(), any_share(), any_share(), share()).prop_map(
        |(to_bad, to_good, loss_in_bad, loss_in_good)| {
            Loss::GilbertElliott(GilbertElliott {
                to_bad,
                to_good,
                loss_in_bad,
                loss_in_good,
            })
        },
    );
    let spell = || longer_than_none(200);
    let weather = (spell(), spell(), any_share(), share()).prop_map(
        |(good, bad, loss_in_bad, loss_in_good)| {
            Loss::Weather(Weather {
                good,
                bad,
                loss_in_bad,
                loss_in_good,
            })
        },
    );
    prop_oneof![3 => share().prop_map(Loss::Independent), 1 => bursts, 1 => weather]
}

/// From 0.5 to 100 Mbit/s, mostly slower than the traffic, sometimes such that 1,500 bytes take a whole number of tenths of
/// milliseconds.
pub(crate) fn rate() -> impl Strategy<Value = BitRate> {
    let bits_per_s = prop_oneof![
        1 => Just(12_000_000_u64),
        3 => 500_000_u64..8_000_000,
        1 => 8_000_000_u64..100_000_000,
    ];
    bits_per_s.prop_map(|bits_per_s| BitRate::new(bits_per_s).expect("more than 0"))
}

/// A token bucket that holds at least one large packet.
pub(crate) fn token_bucket() -> impl Strategy<Value = Capacity> {
    (rate(), 1_600_u64..10_000).prop_map(|(rate, depth)| Capacity::TokenBucket {
        rate,
        depth: Bytes::new(depth),
    })
}

fn capacity() -> impl Strategy<Value = Capacity> {
    prop_oneof![
        1 => Just(Capacity::Unlimited),
        2 => rate().prop_map(Capacity::Rate),
        1 => token_bucket(),
        1 => trace(),
    ]
}

/// A few opportunities, some at the same time.
fn trace() -> impl Strategy<Value = Capacity> {
    proptest::collection::vec(1_u32..20, 1..12).prop_map(|mut times_ms| {
        times_ms.sort_unstable();
        let lines: Vec<String> = times_ms.iter().map(u32::to_string).collect();
        let trace = Trace::parse(&lines.join("\n")).expect("sorted, and more than 0 seconds");
        Capacity::Trace(Arc::new(trace))
    })
}

/// Queues of every discipline, small enough to overflow.
pub(crate) fn queue() -> impl Strategy<Value = QueueSettings> {
    (
        discipline(),
        proptest::option::weighted(0.5, 1_u64..30),
        proptest::option::weighted(0.3, 100_u64..20_000),
        any::<bool>(),
    )
        .prop_map(
            |(discipline, limit_packets, limit_bytes, marks_ecn)| QueueSettings {
                discipline,
                limit_packets,
                limit_bytes,
                marks_ecn,
            },
        )
}

fn discipline() -> impl Strategy<Value = Discipline> {
    let controlled = || (longer_than_none(5), longer_than_none(20));
    prop_oneof![
        2 => Just(Discipline::DropTail),
        1 => Just(Discipline::DropHead),
        1 => (0_u64..200, 1_u64..1_000, any_share()).prop_map(|(min_bytes, more, probability)| {
            Discipline::Red { min_bytes, max_bytes: min_bytes + more, probability }
        }),
        1 => controlled().prop_map(|(target, interval)| Discipline::CoDel { target, interval }),
        1 => controlled().prop_map(|(target, update)| Discipline::Pie { target, update }),
        2 => (controlled(), 100_u32..2_000).prop_map(|((target, interval), quantum_bytes)| {
            Discipline::FqCoDel { target, interval, quantum_bytes }
        }),
    ]
}

fn jitter() -> impl Strategy<Value = Jitter> {
    let shape = prop_oneof![
        Just(JitterShape::Uniform),
        Just(JitterShape::Normal),
        Just(JitterShape::Pareto)
    ];
    (shape, span(30), 0.0..0.99, any::<bool>()).prop_map(
        |(shape, spread, correlation, may_reorder)| Jitter {
            shape,
            spread,
            correlation: probability(correlation),
            may_reorder,
        },
    )
}

fn reorder() -> impl Strategy<Value = Reorder> {
    (share(), span(50)).prop_map(|(share, by)| Reorder { share, by })
}

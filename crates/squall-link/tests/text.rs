//! How settings are written: every form and its value, every kind of mistake and its message, and printing them back.
//!
//! The functions of fuzz/ run here as well, with random and nearly valid input, on stable Rust.

// `drive_link` is public for the fuzz targets, which are a separate crate.
#[allow(unreachable_pub)]
#[path = "../../../fuzz/src/drive_link.rs"]
mod drive_link;

use std::sync::Arc;

use proptest::prelude::*;
use squall_base::record::{Direction, PacketClass};
use squall_base::{BitRate, Bytes, Duration, Probability};
use squall_link::settings::*;
use squall_link::text::{self, TextError};
use squall_link::trace::Trace;

fn trace(name: &str) -> Result<Arc<Trace>, String> {
    match name {
        "missing" => Err("there is no file of this name".to_owned()),
        _ => Trace::parse("1\n3\n")
            .map(|trace| Arc::new(trace.named(name)))
            .map_err(|error| error.to_string()),
    }
}

fn setting(words: &str) -> Result<Vec<Setting>, TextError> {
    text::setting(words, &mut trace)
}

fn settings(words: &str) -> Result<Vec<Setting>, TextError> {
    text::settings(words, &mut trace)
}

fn schedule(words: &str) -> Result<Vec<Change>, TextError> {
    text::schedule(words, &mut trace)
}

fn share(percent: f64) -> Probability {
    Probability::new(percent / 100.0).expect("tests ask for 0% to 100%")
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Asserts that each of these texts means exactly this setting, and prints as itself.
fn check(forms: impl IntoIterator<Item = (&'static str, Setting)>) {
    for (words, value) in forms {
        assert_eq!(setting(words), Ok(vec![value.clone()]), "{words}");
        let printed = value.to_string();
        assert_eq!(setting(&printed), Ok(vec![value]), "{words}, as {printed}");
    }
}

/// Texts and the settings they mean, a row each.
macro_rules! forms {
    ($($words:literal => $value:expr;)+) => {
        [$(($words, $value)),+]
    };
}

#[test]
fn delays_read_and_print() {
    let jitter = |shape, spread, correlation, may_reorder| {
        Setting::Jitter(Some(Jitter {
            shape,
            spread: ms(spread),
            correlation: share(correlation),
            may_reorder,
        }))
    };
    use JitterShape::{Normal, Pareto, Uniform};
    check(forms! {
        "delay 25ms" => Setting::Delay(ms(25));
        "  delay   0.5s " => Setting::Delay(ms(500));
        "delay 1h" => Setting::Delay(Duration::from_secs(3600));
        "delay 0ms" => Setting::Delay(Duration::ZERO);
        "jitter 5ms" => jitter(Uniform, 5, 0.0, false);
        "jitter uniform 5ms" => jitter(Uniform, 5, 0.0, false);
        "jitter normal 5ms" => jitter(Normal, 5, 0.0, false);
        "jitter pareto 5ms reordering" => jitter(Pareto, 5, 0.0, true);
        "jitter 5ms correlation 25%" => jitter(Uniform, 5, 25.0, false);
        "jitter normal 5ms correlation 25% reordering" => jitter(Normal, 5, 25.0, true);
        "jitter normal 5ms reordering correlation 25%" => jitter(Normal, 5, 25.0, true);
        "jitter none" => Setting::Jitter(None);
        "reorder 1% by 5ms" => Setting::Reorder(Some(Reorder { share: share(1.0), by: ms(5) }));
        "reorder none" => Setting::Reorder(None);
    });
}

#[test]
fn losses_read_and_print() {
    let states = |to_bad, to_good, in_bad, in_good| {
        Setting::Loss(Loss::GilbertElliott(GilbertElliott {
            to_bad: share(to_bad),
            to_good: share(to_good),
            loss_in_bad: share(in_bad),
            loss_in_good: share(in_good),
        }))
    };
    let weather = |in_bad, in_good| {
        Setting::Loss(Loss::Weather(Weather {
            good: ms(2_000),
            bad: ms(200),
            loss_in_bad: share(in_bad),
            loss_in_good: share(in_good),
        }))
    };
    let bursts = |loss, mean| {
        let model = GilbertElliott::bursts(share(loss), mean).unwrap();
        Setting::Loss(Loss::GilbertElliott(model))
    };
    check(forms! {
        "loss 3%" => Setting::Loss(Loss::Independent(share(3.0)));
        "loss 0.03" => Setting::Loss(Loss::Independent(share(3.0)));
        "loss none" => Setting::Loss(Loss::default());
        "loss 3% bursts of 5" => bursts(3.0, 5.0);
        "loss 0.5% bursts of 2.5" => bursts(0.5, 2.5);
        "loss 50% bursts of 1" => bursts(50.0, 1.0);
        "loss gilbert-elliott 1% 20%" => states(1.0, 20.0, 100.0, 0.0);
        "loss gilbert-elliott 1% 20% 80%" => states(1.0, 20.0, 80.0, 0.0);
        "loss gilbert-elliott 1% 20% 80% 0.1%" => states(1.0, 20.0, 80.0, 0.1);
        "loss weather good 2s bad 200ms" => weather(100.0, 0.0);
        "loss weather good 2s bad 200ms 80%" => weather(80.0, 0.0);
        "loss weather good 2s bad 200ms 100% 0.1%" => weather(100.0, 0.1);
        "corrupt 0.1%" => Setting::Corrupt(share(0.1));
        "duplicate 1%" => Setting::Duplicate(share(1.0));
    });
}

#[test]
fn drops_and_blackouts_read_and_print() {
    let nth = |number, class, flow| {
        Setting::Drop(DropRule::Nth {
            number,
            class,
            flow,
        })
    };
    let every = |n, class| Setting::Drop(DropRule::Every { n, class });
    let bytes = |from, to, times, flow| {
        Setting::Drop(DropRule::Sequence {
            from,
            to,
            times,
            flow,
        })
    };
    let blackout = |every| {
        Setting::Blackout(Blackout {
            from: ms(10_000),
            length: ms(2_000),
            every,
        })
    };
    use PacketClass::{Ack, Close, Data, Other, Syn};
    check(forms! {
        "drop 5" => nth(5, None, None);
        "drop 5 of flow 0" => nth(5, None, Some(0));
        "drop data 3" => nth(3, Some(Data), None);
        "drop syn 1" => nth(1, Some(Syn), None);
        "drop close 1" => nth(1, Some(Close), None);
        "drop other 1" => nth(1, Some(Other), None);
        "drop ack 2 of flow 1" => nth(2, Some(Ack), Some(1));
        "drop every 100" => every(100, None);
        "drop every 100 data" => every(100, Some(Data));
        "drop seq 1-1448" => bytes(1, 1448, 1, None);
        "drop seq 1-1448 times 2" => bytes(1, 1448, 2, None);
        "drop seq 7-7 of flow 3" => bytes(7, 7, 1, Some(3));
        "drop seq 1-1448 times 2 of flow 0" => bytes(1, 1448, 2, Some(0));
        "blackout 2s at 10s" => blackout(None);
        "blackout 2s at 10s every 30s" => blackout(Some(ms(30_000)));
    });
    assert_eq!(
        setting("drop syn 1 and data 3 of flow 2 and every 9"),
        Ok(vec![
            nth(1, Some(Syn), None),
            nth(3, Some(Data), Some(2)),
            every(9, None)
        ])
    );
}

#[test]
fn capacities_read_and_print() {
    let rate = BitRate::new(20_000_000).unwrap();
    check(forms! {
        "rate 20mbit" => Setting::Capacity(Capacity::Rate(rate));
        "rate 20Mbit/s" => Setting::Capacity(Capacity::Rate(rate));
        "rate 20mbit bucket 32kB" => Setting::Capacity(Capacity::TokenBucket { rate, depth: Bytes::new(32_000) });
        "rate unlimited" => Setting::Capacity(Capacity::Unlimited);
        "trace lte/up.trace" => Setting::Capacity(Capacity::Trace(trace("lte/up.trace").unwrap()));
        "trace  my  file " => Setting::Capacity(Capacity::Trace(trace("my  file").unwrap()));
        "overhead 38" => Setting::Overhead(38);
    });
}

fn queue(
    discipline: Discipline,
    limit_bytes: Option<u64>,
    limit_packets: Option<u64>,
    marks_ecn: bool,
) -> Setting {
    Setting::Queue(QueueSettings {
        discipline,
        limit_packets,
        limit_bytes,
        marks_ecn,
    })
}

const KIB_64: Option<u64> = Some(64 << 10);

#[test]
fn queue_limits_read_and_print() {
    let (tail, head) = (Discipline::DropTail, Discipline::DropHead);
    check(forms! {
        "queue 64k" => queue(tail, KIB_64, None, false);
        "queue 64KiB" => queue(tail, KIB_64, None, false);
        "queue 64kB" => queue(tail, Some(64_000), None, false);
        "queue 100 packets" => queue(tail, None, Some(100), false);
        "queue 1 packet" => queue(tail, None, Some(1), false);
        "queue 64KiB 100 packets" => queue(tail, KIB_64, Some(100), false);
        "queue 100 packets 64KiB" => queue(tail, KIB_64, Some(100), false);
        "queue 64k" => queue(tail, KIB_64, None, false);
        "queue drop-tail" => Setting::Queue(QueueSettings::default());
        "queue drop-tail 64KiB" => queue(tail, KIB_64, None, false);
        "queue drop-head 100 packets" => queue(head, None, Some(100), false);
    });
}

#[test]
fn queue_disciplines_read_and_print() {
    let codel = |target, interval| Discipline::CoDel {
        target: ms(target),
        interval: ms(interval),
    };
    let pie = |target, update| Discipline::Pie {
        target: ms(target),
        update: ms(update),
    };
    let fq = |target, quantum_bytes| Discipline::FqCoDel {
        target: ms(target),
        interval: ms(100),
        quantum_bytes,
    };
    let red = Discipline::Red {
        min_bytes: 30 << 10,
        max_bytes: 90 << 10,
        probability: share(10.0),
    };
    check(forms! {
        "queue red 30KiB 90KiB 10%" => queue(red, None, Some(1_000), false);
        "queue red 30k 90k 10% 90k ecn" => queue(red, Some(90 << 10), None, true);
        "queue codel" => queue(codel(5, 100), None, Some(1_000), false);
        "queue codel target 1ms" => queue(codel(1, 100), None, Some(1_000), false);
        "queue codel target 1ms interval 20ms 64k 100 packets ecn" => queue(codel(1, 20), KIB_64, Some(100), true);
        "queue pie" => queue(pie(15, 15), None, Some(1_000), false);
        "queue pie target 20ms update 30ms 64k" => queue(pie(20, 30), KIB_64, None, false);
        "queue fq-codel" => queue(fq(5, 1_514), None, Some(10_240), false);
        "queue fq-codel ecn" => queue(fq(5, 1_514), None, Some(10_240), true);
        "queue fq-codel target 3ms interval 100ms quantum 300 100 packets" =>
            queue(fq(3, 300), None, Some(100), false);
    });
}

#[test]
fn lists_of_settings_read_in_order() {
    let list = settings("rate 5mbit, delay 30ms,loss 1%").unwrap();
    let words: Vec<String> = list.iter().map(Setting::to_string).collect();
    assert_eq!(words, ["rate 5mbit", "delay 30ms", "loss 1%"]);
    assert_eq!(settings(" "), Ok(Vec::new()));
}

#[test]
fn schedules_read_and_print() {
    let text = "# a handover\n\nat 0ms: delay 20ms\r\nat 10s: down rate 2mbit, delay 80ms # worse\n\
        at 10s: link 3 loss none\nat 1min: link 2 up trace a#b\n";
    let change = |secs, stretch, direction, words: &str| Change {
        at: Duration::from_secs(secs),
        stretch,
        direction,
        setting: setting(words).unwrap().remove(0),
    };
    assert_eq!(
        schedule(text),
        Ok(vec![
            change(0, 0, None, "delay 20ms"),
            change(10, 0, Some(Direction::Down), "rate 2mbit"),
            change(10, 0, Some(Direction::Down), "delay 80ms"),
            change(10, 2, None, "loss none"),
            change(60, 1, Some(Direction::Up), "trace a#b"),
        ])
    );
    assert_eq!(schedule(" \n# nothing\n"), Ok(Vec::new()));
    assert_eq!(schedule(&format!("\u{feff}{text}")), schedule(text));
    let words: Vec<String> = schedule(text)
        .unwrap()
        .iter()
        .map(Change::to_string)
        .collect();
    assert_eq!(words[4], "at 1min: link 2 up trace a#b");
    assert_eq!(schedule(&words.join("\n")), schedule(text));
}

#[test]
fn a_lane_prints_only_what_differs_from_doing_nothing() {
    assert_eq!(LaneSettings::default().to_string(), "");
    let text = "blackout 1s at 2s, drop syn 1, drop 7, loss 3% bursts of 5, corrupt 1%, duplicate 2%, rate 20mbit, \
        overhead 38, queue 64KiB, delay 25ms, jitter uniform 5ms, reorder 1% by 5ms";
    let mut lane = LaneSettings::default();
    for setting in settings(text).unwrap().iter().rev() {
        lane.apply(setting);
    }
    lane.drops.reverse();
    assert_eq!(lane.to_string(), text);
}

#[test]
fn mistakes_are_reported_with_place_and_expectation() {
    const NAMES: &str = "`delay`, `jitter`, `reorder`, `loss`, `drop`, `blackout`, `duplicate`, `corrupt`, `rate`, \
        `trace`, `overhead` or `queue`";
    let table = include_str!("text/mistakes.txt").replace("NAMES", NAMES);
    let mut lines = table
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    let (mut kind, mut checked) = ("", 0);
    while let Some(line) = lines.next() {
        if line.starts_with('[') {
            kind = line;
            continue;
        }
        let words = line.replace("\\n", "\n");
        let error = match kind {
            "[one setting]" => setting(&words).unwrap_err(),
            "[a list]" => settings(&words).unwrap_err(),
            _ => schedule(&words).unwrap_err(),
        };
        assert_eq!(
            Some(error.to_string().as_str()),
            lines.next().map(str::trim_start),
            "{line}"
        );
        checked += 1;
    }
    assert!(
        checked > 100,
        "only {checked} of the table's mistakes were read"
    );
}

#[test]
fn messages_quote_enough_words_but_not_everything() {
    let nothing = setting(" ").unwrap_err().to_string();
    assert!(
        nothing.starts_with("column 1: incomplete: expected a setting: `delay`"),
        "{nothing}"
    );
    let long = setting(&"\u{f6}".repeat(100_000)).unwrap_err().to_string();
    assert!(long.starts_with(&format!(
        "column 1: \"{}...\": unknown name",
        "\u{f6}".repeat(80)
    )));
}

/// Shares that can be written: percentages of at most 25 digits.
fn shares() -> impl Strategy<Value = Probability> {
    let share = |value| Probability::new(value).expect("the strategy gives 0 to 1");
    let round = (0_u32..=1000).prop_map(|permille| f64::from(permille) / 1000.0);
    let tiny = (0_u64..1_000_000_000_000_000).prop_map(|digits| format!("0.{digits:025}%"));
    prop_oneof![
        prop_oneof![round, 1e-9..=1.0].prop_map(share),
        tiny.prop_map(|text| text.parse().expect("a percentage")),
    ]
}

fn times(least: Duration, most: Duration) -> impl Strategy<Value = Duration> {
    let nanos = least.as_nanos()..=most.as_nanos();
    let millis = (1_u64..5_000).prop_map(|millis| millis * 1_000_000);
    prop_oneof![millis, nanos].prop_map(Duration::from_nanos)
}

fn any_loss() -> impl Strategy<Value = Setting> {
    let spell = || times(Duration::from_micros(1), Duration::from_secs(24 * 3600));
    let loss = prop_oneof![
        shares().prop_map(Loss::Independent),
        (shares(), shares(), shares(), shares()).prop_map(
            |(to_bad, to_good, loss_in_bad, loss_in_good)| {
                Loss::GilbertElliott(GilbertElliott {
                    to_bad,
                    to_good,
                    loss_in_bad,
                    loss_in_good,
                })
            }
        ),
        (spell(), spell(), shares(), shares()).prop_map(
            |(good, bad, loss_in_bad, loss_in_good)| {
                Loss::Weather(Weather {
                    good,
                    bad,
                    loss_in_bad,
                    loss_in_good,
                })
            }
        ),
    ];
    loss.prop_map(Setting::Loss)
}

fn any_drop() -> impl Strategy<Value = Setting> {
    let class = || proptest::option::of(proptest::sample::select(&PacketClass::ALL[..]));
    let flow = || proptest::option::of(any::<u32>());
    let rule = prop_oneof![
        (1..=u64::MAX, class(), flow()).prop_map(|(number, class, flow)| DropRule::Nth {
            number,
            class,
            flow
        }),
        (1..=u64::MAX, class()).prop_map(|(n, class)| DropRule::Every { n, class }),
        (1..=u32::MAX, any::<u32>(), 1..=u32::MAX, flow()).prop_map(|(from, more, times, flow)| {
            DropRule::Sequence {
                from,
                to: from.saturating_add(more),
                times,
                flow,
            }
        }),
    ];
    rule.prop_map(Setting::Drop)
}

fn any_queue() -> impl Strategy<Value = Setting> {
    let time = || times(Duration::from_micros(1), Duration::from_secs(3600));
    let discipline = prop_oneof![
        Just(Discipline::DropTail),
        Just(Discipline::DropHead),
        (0_u64..100_000, 1_u64..100_000, shares()).prop_map(|(min_bytes, more, probability)| {
            Discipline::Red {
                min_bytes,
                max_bytes: min_bytes + more,
                probability,
            }
        }),
        (time(), time()).prop_map(|(target, interval)| Discipline::CoDel { target, interval }),
        (time(), time()).prop_map(|(target, update)| Discipline::Pie { target, update }),
        (time(), time(), 1..=u32::MAX).prop_map(|(target, interval, quantum_bytes)| {
            Discipline::FqCoDel {
                target,
                interval,
                quantum_bytes,
            }
        }),
    ];
    let limits = prop_oneof![
        (1..=u64::MAX).prop_map(|packets| (Some(packets), None)),
        (200_000_u64..1_000_000_000).prop_map(|bytes| (None, Some(bytes))),
        (1..=u64::MAX, 200_000_u64..1_000_000)
            .prop_map(|(packets, bytes)| (Some(packets), Some(bytes))),
    ];
    (discipline, limits, any::<bool>()).prop_map(|(discipline, limits, marks_ecn)| {
        let (limit_packets, limit_bytes) = limits;
        Setting::Queue(QueueSettings {
            discipline,
            limit_packets,
            limit_bytes,
            // Drop-tail and drop-head never drop early, so there is nothing to mark.
            marks_ecn: marks_ecn
                && !matches!(discipline, Discipline::DropTail | Discipline::DropHead),
        })
    })
}

fn any_delay() -> impl Strategy<Value = Setting> {
    let time = || times(Duration::ZERO, Duration::from_secs(3600));
    const SHAPES: [JitterShape; 3] = [
        JitterShape::Uniform,
        JitterShape::Normal,
        JitterShape::Pareto,
    ];
    let jitter = (
        proptest::sample::select(&SHAPES[..]),
        time(),
        0.0..1.0,
        any::<bool>(),
    );
    prop_oneof![
        time().prop_map(Setting::Delay),
        Just(Setting::Jitter(None)),
        jitter.prop_map(|(shape, spread, correlation, may_reorder)| {
            let correlation = Probability::new(correlation).expect("the strategy gives 0 to 1");
            Setting::Jitter(Some(Jitter {
                shape,
                spread,
                correlation,
                may_reorder,
            }))
        }),
        Just(Setting::Reorder(None)),
        (
            shares(),
            times(Duration::from_nanos(1), Duration::from_secs(3600))
        )
            .prop_map(|(share, by)| Setting::Reorder(Some(Reorder { share, by }))),
    ]
}

fn any_setting() -> impl Strategy<Value = Setting> {
    let rate = || {
        (1_u64..=1_000_000_000_000)
            .prop_map(|bits_per_s| BitRate::new(bits_per_s).expect("the strategy gives no 0"))
    };
    let depth = (1_500_u64..1_000_000_000).prop_map(Bytes::new);
    let capacity = prop_oneof![
        Just(Capacity::Unlimited),
        rate().prop_map(Capacity::Rate),
        (rate(), depth).prop_map(|(rate, depth)| Capacity::TokenBucket { rate, depth }),
        "[a-z/._-]{1,9}( [a-z#]{1,5})?".prop_map(|name| Capacity::Trace(
            trace(&format!("./{name}")).expect("only `missing` is none")
        )),
    ];
    // Up to the longest time that can be written.
    let far = || {
        times(
            Duration::from_nanos(1),
            Duration::from_nanos(1_000_000_000_000_000_000),
        )
    };
    let blackout = (
        far(),
        1_u64..1_000_000_000_000,
        proptest::option::of(1_u64..1_000_000_000),
    );
    prop_oneof![
        any_loss(),
        any_drop(),
        any_queue(),
        any_delay(),
        capacity.prop_map(Setting::Capacity),
        blackout.prop_map(|(from, length_ns, more_ns)| {
            let every = more_ns.map(|more_ns| Duration::from_nanos(length_ns + more_ns));
            Setting::Blackout(Blackout {
                from,
                length: Duration::from_nanos(length_ns),
                every,
            })
        }),
        shares().prop_map(Setting::Corrupt),
        shares().prop_map(Setting::Duplicate),
        (0_u32..=1_500).prop_map(Setting::Overhead),
    ]
}

/// Words of the grammar in any order, which get further than plain noise.
fn half_sensible() -> impl Strategy<Value = String> {
    let words = "delay jitter normal correlation reordering reorder by loss bursts of gilbert-elliott weather good bad \
        drop data every seq 1-1448 0-0 9-1 - times flow and blackout at duplicate corrupt rate bucket unlimited trace \
        overhead queue drop-head red codel target interval pie update fq-codel quantum ecn packets none 0 1 5 5.5 . \
        18446744073709551616 25ms 0ms 1ns 25h 0% 3% 100% 101% 0.0000000000000000000000001% 99999999.9 20mbit 64k 64KiB \
        1GiB k KiB , , : : \n \n # link 2 up down at 10s at 1min \u{b5}s \u{2003} \u{0}";
    let word = proptest::sample::select(words.split(' ').collect::<Vec<&str>>());
    let space = prop_oneof![9 => Just(" "), 1 => Just("")];
    proptest::collection::vec((word, space), 0..24).prop_map(|words| {
        words
            .into_iter()
            .flat_map(|(word, space)| [word, space])
            .collect()
    })
}

/// A valid schedule with some of its characters removed, doubled or changed.
fn mutated() -> impl Strategy<Value = String> {
    let edit = (any::<proptest::sample::Index>(), 0_u8..3, any::<char>());
    let edits = proptest::collection::vec(edit, 0..4);
    (proptest::collection::vec(any_setting(), 1..4), edits).prop_map(|(settings, edits)| {
        let lines = settings
            .iter()
            .map(|setting| format!("at 10s: down {setting}\n"));
        let mut text: Vec<char> = lines.collect::<String>().chars().collect();
        for (at, kind, new) in edits {
            let at = at.index(text.len());
            match kind {
                0 => drop(text.remove(at)),
                1 => text.insert(at, text[at]),
                _ => text[at] = new,
            }
        }
        text.into_iter().collect()
    })
}

/// Packets as `drive_link::link_packets` splits them: noise, and TCP segments of two connections.
fn packets() -> impl Strategy<Value = Vec<u8>> {
    let segment = (
        any::<u8>(),
        0_u8..2,
        0_u8..4,
        0_u8..32,
        any::<u8>(),
        0_usize..60,
    );
    let segment = segment.prop_map(|(gap, port, ecn, flags, seq, payload)| {
        let len = (40 + payload) as u8;
        let ip = [
            0x45, ecn, 0, len, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        let tcp = [
            99, port, 0, 80, 0, 0, 0, seq, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0,
        ];
        [&[gap, len][..], &ip, &tcp, &vec![b'x'; payload]].concat()
    });
    let noise = proptest::collection::vec(any::<u8>(), 0..80);
    let piece = prop_oneof![4 => segment, 1 => noise];
    let pieces = proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat());
    (any::<[u8; 3]>(), pieces).prop_map(|(choices, pieces)| [&choices[..], &pieces].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn printed_settings_read_back_as_the_same_values(setting_of_any_kind in any_setting()) {
        let words = setting_of_any_kind.to_string();
        prop_assert_eq!(setting(&words), Ok(vec![setting_of_any_kind]), "{}", words);
    }

    /// Including bursts whose loss or length has more digits than people write.
    #[test]
    fn bursts_read_back(loss in shares(), mean in prop_oneof![1.0..50.0, 1.0..1e6, Just(5.0)]) {
        let words = format!("loss {:.25} bursts of {mean}", loss.get());
        if let Ok(model) = setting(&words) {
            let again = model[0].to_string();
            prop_assert_eq!(setting(&again), Ok(model), "{} as {}", words, again);
        }
    }

    #[test]
    fn random_bytes_pass_the_fuzz_checks(input in proptest::collection::vec(any::<u8>(), 0..80)) {
        drive_link::link_settings(&input);
        drive_link::link_schedule(&input);
        drive_link::link_trace(&input);
    }

    #[test]
    fn words_of_the_grammar_in_any_order_pass_the_fuzz_checks(text in half_sensible()) {
        drive_link::link_settings(text.as_bytes());
        drive_link::link_schedule(text.as_bytes());
    }

    #[test]
    fn schedules_with_mistakes_pass_the_fuzz_checks(text in mutated()) {
        drive_link::link_schedule(text.as_bytes());
        for line in text.lines() {
            drive_link::link_settings(line.trim_start_matches("at 10s: down ").as_bytes());
        }
    }

    #[test]
    fn lines_of_numbers_pass_the_fuzz_checks(lines in proptest::collection::vec(0_u64..3_000, 0..40)) {
        let lines: Vec<String> = lines.iter().map(u64::to_string).collect();
        drive_link::link_trace(lines.join("\n").as_bytes());
    }
}

proptest! {
    #[test]
    fn arbitrary_packets_pass_the_fuzz_checks(input in packets()) {
        drive_link::link_packets(&input);
    }
}

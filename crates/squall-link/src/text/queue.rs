//! Reads a queue from its words: discipline, its parameters, limits, ECN.
//!
//! After the discipline the words may be in any order. Sizes may be written `64k`, as people do, which means 64 KiB here
//! and nowhere else.

use squall_base::{Bytes, Duration, Probability};

use super::error::{Mistake, TextError};
use super::words::Words;
use crate::settings::{Discipline, QueueSettings};

/// Linux's default: txqueuelen of a device, and limit of `tc-codel`, `tc-pie`.
const DEFAULT_PACKETS: u64 = 1_000;
/// Linux's default for fq_codel (net/sched/sch_fq_codel.c).
const DEFAULT_FQ_PACKETS: u64 = 10_240;
/// RFC 8289, section 4.2 and 4.3.
const CODEL_TARGET: Duration = Duration::from_millis(5);
const CODEL_INTERVAL: Duration = Duration::from_millis(100);
/// RFC 8033, section 4.2 (QDELAY_REF) and 4.3 (T_UPDATE).
const PIE_TARGET: Duration = Duration::from_millis(15);
const PIE_UPDATE: Duration = Duration::from_millis(15);
/// RFC 8290, section 5.2.4: a packet of Ethernet with its header.
const FQ_QUANTUM_BYTES: u32 = 1_514;
/// The shortest time. With PIE updates this often, a second of silence already leaves a million updates to make up for.
const MIN_TIME: Duration = Duration::from_micros(1);
const MAX_TIME: Duration = Duration::from_secs(3_600);

/// Reads what follows `queue`.
pub(super) fn queue(words: &mut Words<'_>) -> Result<QueueSettings, TextError> {
    let mut settings = QueueSettings {
        discipline: discipline(words)?,
        limit_packets: None,
        limit_bytes: None,
        marks_ecn: false,
    };
    let mut options = options(settings.discipline);
    loop {
        if words.is_number_next() {
            limit(words, &mut settings)?;
            continue;
        }
        let Some(option) = words.option(&mut options)? else {
            break;
        };
        match (&mut settings.discipline, option) {
            (
                Discipline::CoDel { target, .. }
                | Discipline::Pie { target, .. }
                | Discipline::FqCoDel { target, .. },
                "target",
            ) => *target = words.time_within(MIN_TIME, MAX_TIME)?,
            (
                Discipline::CoDel { interval, .. } | Discipline::FqCoDel { interval, .. },
                "interval",
            ) => *interval = words.time_within(MIN_TIME, MAX_TIME)?,
            (Discipline::Pie { update, .. }, "update") => {
                *update = words.time_within(MIN_TIME, MAX_TIME)?;
            }
            (Discipline::FqCoDel { quantum_bytes, .. }, "quantum") => {
                *quantum_bytes = words.whole_u32(1)?;
            }
            _ => settings.marks_ecn = true,
        }
    }
    if settings.limit_bytes.is_none() {
        settings
            .limit_packets
            .get_or_insert(match settings.discipline {
                Discipline::FqCoDel { .. } => DEFAULT_FQ_PACKETS,
                _ => DEFAULT_PACKETS,
            });
    }
    Ok(settings)
}

fn discipline(words: &mut Words<'_>) -> Result<Discipline, TextError> {
    const NAMES: [&str; 6] = ["drop-tail", "drop-head", "red", "codel", "pie", "fq-codel"];
    if words.is_number_next() {
        return Ok(Discipline::DropTail);
    }
    match words.name(&NAMES, "a limit, or")? {
        "drop-head" => Ok(Discipline::DropHead),
        "red" => red(words),
        "codel" => {
            words.like("queue codel target 5ms interval 100ms 64KiB ecn");
            Ok(Discipline::CoDel {
                target: CODEL_TARGET,
                interval: CODEL_INTERVAL,
            })
        }
        "pie" => {
            words.like("queue pie target 15ms update 15ms 64KiB ecn");
            Ok(Discipline::Pie {
                target: PIE_TARGET,
                update: PIE_UPDATE,
            })
        }
        "fq-codel" => {
            words.like("queue fq-codel target 5ms interval 100ms quantum 1514 64KiB ecn");
            Ok(Discipline::FqCoDel {
                target: CODEL_TARGET,
                interval: CODEL_INTERVAL,
                quantum_bytes: FQ_QUANTUM_BYTES,
            })
        }
        _ => Ok(Discipline::DropTail),
    }
}

fn red(words: &mut Words<'_>) -> Result<Discipline, TextError> {
    words.like("queue red 30KiB 90KiB 10%");
    let min_bytes = size(
        words,
        "the average size, such as 30KiB, from which packets are dropped",
    )?;
    let max_bytes = size(
        words,
        "the average size, such as 90KiB, at which the share is dropped",
    )?;
    let expected = format!("more than {}", Bytes::new(min_bytes));
    words.check(max_bytes > min_bytes, &expected)?;
    let probability: Probability = words.quantity("a share")?;
    Ok(Discipline::Red {
        min_bytes,
        max_bytes,
        probability,
    })
}

/// The words that a discipline accepts in addition to limits.
fn options(discipline: Discipline) -> Vec<&'static str> {
    match discipline {
        // These never drop early, so there is nothing to mark instead.
        Discipline::DropTail | Discipline::DropHead => Vec::new(),
        Discipline::Red { .. } => vec!["ecn"],
        Discipline::CoDel { .. } => vec!["target", "interval", "ecn"],
        Discipline::Pie { .. } => vec!["target", "update", "ecn"],
        Discipline::FqCoDel { .. } => vec!["target", "interval", "quantum", "ecn"],
    }
}

/// `64KiB` or `100 packets`, each at most once.
fn limit(words: &mut Words<'_>, settings: &mut QueueSettings) -> Result<(), TextError> {
    if matches!(words.peek_second(), Some("packets" | "packet")) {
        let packets = words.whole_u64(1)?;
        if settings.limit_packets.replace(packets).is_some() {
            return Err(words.wrong(Mistake::Unexpected, "one limit in packets"));
        }
        words.word("packets")?;
        return Ok(());
    }
    let bytes = size(words, "a limit, such as 64KiB or 100 packets")?;
    words.check(bytes > 0, "more than 0 bytes")?;
    if let Discipline::Red { max_bytes, .. } = settings.discipline {
        let expected = format!(
            "at least {}, where every packet may be dropped",
            Bytes::new(max_bytes)
        );
        words.check(bytes >= max_bytes, &expected)?;
    }
    if settings.limit_bytes.replace(bytes).is_some() {
        return Err(words.wrong(Mistake::Unexpected, "one limit in bytes"));
    }
    Ok(())
}

/// A size with its unit: a bare number could mean bytes or packets.
fn size(words: &mut Words<'_>, what: &str) -> Result<u64, TextError> {
    let word = words.word(what)?;
    if word
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        let expected = format!("{what}: \"{word}KiB\", for example");
        return Err(words.wrong(Mistake::NoUnit, &expected));
    }
    let bytes: Bytes = match word.strip_suffix('k') {
        Some(kibibytes) => words.quantity_of(&format!("{kibibytes}KiB"))?,
        None => words.quantity_of(word)?,
    };
    Ok(bytes.get())
}

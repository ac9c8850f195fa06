//! Reads one setting from its words; each has its own function.
//!
//! Queues have more words than all others and are in `queue`; the inverse is `write`.

use squall_base::record::PacketClass;
use squall_base::{BitRate, Bytes, Duration, Probability};

use super::Traces;
use super::error::{Mistake, TextError};
use super::queue::queue;
use super::words::Words;
use super::write::burst_model;
use crate::settings::{
    Blackout, Capacity, DropRule, GilbertElliott, Jitter, JitterShape, Loss, Reorder, Setting,
    Weather,
};

/// An example for messages that have no better one.
pub(super) const EXAMPLE: &str = "delay 25ms";

/// The settings, each with an example.
const SETTINGS: [(&str, &str); 12] = [
    ("delay", EXAMPLE),
    ("jitter", "jitter normal 5ms correlation 25%"),
    ("reorder", "reorder 1% by 5ms"),
    ("loss", "loss 3%"),
    ("drop", "drop data 3 of flow 0"),
    ("blackout", "blackout 2s at 10s every 30s"),
    ("duplicate", "duplicate 1%"),
    ("corrupt", "corrupt 0.1%"),
    ("rate", "rate 20mbit bucket 32kB"),
    ("trace", "trace lte.trace"),
    ("overhead", "overhead 38"),
    ("queue", "queue 64KiB"),
];

/// The longest delay, and the longest addition to one.
const MAX_DELAY: Duration = Duration::from_secs(3_600);
/// The shortest mean: packets are never closer together.
const MIN_SPELL: Duration = Duration::from_micros(1);
/// The longest mean: no link is up for longer.
const MAX_SPELL: Duration = Duration::from_secs(24 * 3_600);
/// Longer bursts are an outage, which blackouts and weather describe.
const MAX_BURST_PACKETS: f64 = 1_000_000.0;
/// A bucket that holds no whole packet would send none (MTU of Ethernet).
const MIN_BUCKET_BYTES: u64 = 1_500;
/// More than any link layer adds to a packet.
const MAX_OVERHEAD_BYTES: u64 = 1_500;

/// Reads the settings in `words`.
pub(super) fn setting(
    mut words: Words<'_>,
    traces: &mut Traces<'_>,
) -> Result<Vec<Setting>, TextError> {
    let name = words.name(&SETTINGS.map(|(name, _)| name), "a setting:")?;
    if let Some((_, example)) = SETTINGS.iter().find(|(known, _)| *known == name) {
        words.like(example);
    }
    let words = &mut words;
    let setting = match name {
        "delay" => Setting::Delay(words.time_within(Duration::ZERO, MAX_DELAY)?),
        "jitter" => Setting::Jitter(jitter(words)?),
        "reorder" => Setting::Reorder(reorder(words)?),
        "loss" => Setting::Loss(loss(words)?),
        "drop" => return drops(words),
        "blackout" => Setting::Blackout(blackout(words)?),
        "duplicate" => Setting::Duplicate(words.quantity("a share")?),
        "corrupt" => Setting::Corrupt(words.quantity("a share")?),
        "rate" => Setting::Capacity(rate(words)?),
        "trace" => Setting::Capacity(trace(words, traces)?),
        "overhead" => Setting::Overhead(overhead(words)?),
        _ => Setting::Queue(queue(words)?),
    };
    words.end()?;
    Ok(vec![setting])
}

fn jitter(words: &mut Words<'_>) -> Result<Option<Jitter>, TextError> {
    let mut shape = JitterShape::Uniform;
    if words.is_name_next() {
        let shapes = ["uniform", "normal", "pareto", "none"];
        shape = match words.name(&shapes, "a time, or")? {
            "uniform" => JitterShape::Uniform,
            "normal" => JitterShape::Normal,
            "pareto" => JitterShape::Pareto,
            _ => return Ok(None),
        };
    }
    let mut jitter = Jitter {
        shape,
        spread: words.time_within(Duration::ZERO, MAX_DELAY)?,
        correlation: Probability::ZERO,
        may_reorder: false,
    };
    let mut options = vec!["correlation", "reordering"];
    while let Some(option) = words.option(&mut options)? {
        if option == "reordering" {
            jitter.may_reorder = true;
            continue;
        }
        jitter.correlation = words.quantity("a share")?;
        words.check(jitter.correlation.get() < 1.0, "0% to below 100%")?;
    }
    Ok(Some(jitter))
}

fn reorder(words: &mut Words<'_>) -> Result<Option<Reorder>, TextError> {
    if words.is_name_next() {
        words.name(&["none"], "a share, or")?;
        return Ok(None);
    }
    let share = words.quantity("a share, or `none`")?;
    words.keyword("by")?;
    let by = words.time_within(Duration::from_nanos(1), MAX_DELAY)?;
    Ok(Some(Reorder { share, by }))
}

fn loss(words: &mut Words<'_>) -> Result<Loss, TextError> {
    const NAMES: [&str; 3] = ["none", "gilbert-elliott", "weather"];
    if words.is_name_next() {
        return match words.name(&NAMES, "a share, or")? {
            "gilbert-elliott" => gilbert_elliott(words),
            "weather" => weather(words),
            _ => Ok(Loss::default()),
        };
    }
    let share = words.quantity("a share or a model")?;
    match words.option(&mut vec!["bursts"])? {
        Some(_) => bursts(words, share),
        None => Ok(Loss::Independent(share)),
    }
}

fn bursts(words: &mut Words<'_>, share: Probability) -> Result<Loss, TextError> {
    words.like("loss 3% bursts of 5");
    words.keyword("of")?;
    let mean_length = mean_length(words)?;
    match burst_model(share, mean_length) {
        Some(model) => Ok(Loss::GilbertElliott(model)),
        None => {
            // The good state lasts a packet at least: loss / (1 - loss) <= mean.
            let most = Probability::new(mean_length / (1.0 + mean_length)).unwrap_or_default();
            let expected = format!("a loss of at most {most} for bursts of {mean_length}");
            Err(words.wrong(Mistake::OutOfRange, &expected))
        }
    }
}

/// A mean number of packets: the only number that may have a fraction and has no unit.
fn mean_length(words: &mut Words<'_>) -> Result<f64, TextError> {
    let word = words.word("a mean length in packets")?;
    let is_plain = word
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let Some(mean_length) = word.parse().ok().filter(|_: &f64| is_plain) else {
        return Err(words.wrong(Mistake::NotANumber, "a mean length in packets"));
    };
    words.check(
        (1.0..=MAX_BURST_PACKETS).contains(&mean_length),
        &format!("1 to {MAX_BURST_PACKETS} packets"),
    )?;
    Ok(mean_length)
}

fn gilbert_elliott(words: &mut Words<'_>) -> Result<Loss, TextError> {
    words.like("loss gilbert-elliott 1% 20% 100% 0%");
    let to_bad = words.quantity("a share from good to bad")?;
    let to_good = words.quantity("a share from bad to good")?;
    let (loss_in_bad, loss_in_good) = losses(words)?;
    Ok(Loss::GilbertElliott(GilbertElliott {
        to_bad,
        to_good,
        loss_in_bad,
        loss_in_good,
    }))
}

fn weather(words: &mut Words<'_>) -> Result<Loss, TextError> {
    words.like("loss weather good 2s bad 200ms 100% 0%");
    words.keyword("good")?;
    let good = words.time_within(MIN_SPELL, MAX_SPELL)?;
    words.keyword("bad")?;
    let bad = words.time_within(MIN_SPELL, MAX_SPELL)?;
    let (loss_in_bad, loss_in_good) = losses(words)?;
    Ok(Loss::Weather(Weather {
        good,
        bad,
        loss_in_bad,
        loss_in_good,
    }))
}

/// The loss in the bad state and in the good one; by default 100 % and 0 %.
fn losses(words: &mut Words<'_>) -> Result<(Probability, Probability), TextError> {
    let mut share_or = |default: f64| match words.peek() {
        Some(_) => words.quantity("a share"),
        None => Ok(Probability::new(default).unwrap_or_default()),
    };
    Ok((share_or(1.0)?, share_or(0.0)?))
}

fn drops(words: &mut Words<'_>) -> Result<Vec<Setting>, TextError> {
    let mut rules = Vec::new();
    loop {
        let (rule, is_followed) = drop_rule(words)?;
        rules.push(Setting::Drop(rule));
        if !is_followed {
            return Ok(rules);
        }
    }
}

/// A rule, and whether `and` follows it.
fn drop_rule(words: &mut Words<'_>) -> Result<(DropRule, bool), TextError> {
    let (mut rule, mut options) = drop_subject(words)?;
    options.push("and");
    while let Some(option) = words.option(&mut options)? {
        match (&mut rule, option) {
            (_, "and") => return Ok((rule, true)),
            (DropRule::Sequence { times, .. }, "times") => *times = words.whole_u32(1)?,
            (DropRule::Sequence { flow, .. } | DropRule::Nth { flow, .. }, _) => {
                words.keyword("flow")?;
                *flow = Some(words.whole_u32(0)?);
            }
            (DropRule::Every { class, .. }, name) => {
                *class = PacketClass::from_name(name);
                options.retain(|option| *option == "and");
            }
        }
    }
    Ok((rule, false))
}

/// A rule without its optional parts, and what those may be.
fn drop_subject(words: &mut Words<'_>) -> Result<(DropRule, Vec<&'static str>), TextError> {
    let classes = PacketClass::ALL.map(PacketClass::name);
    let name = if words.is_name_next() {
        let names = [&["every", "seq"], &classes[..]].concat();
        words.name(&names, "a packet's number, or")?
    } else {
        ""
    };
    match name {
        "every" => {
            let n = words.whole_u64(1)?;
            Ok((DropRule::Every { n, class: None }, classes.to_vec()))
        }
        "seq" => Ok((sequence(words)?, vec!["times", "of"])),
        _ => {
            let rule = DropRule::Nth {
                number: words.whole_u64(1)?,
                class: PacketClass::from_name(name),
                flow: None,
            };
            Ok((rule, vec!["of"]))
        }
    }
}

/// `1-1448`.
fn sequence(words: &mut Words<'_>) -> Result<DropRule, TextError> {
    let range = words.word("a range of bytes, such as 1-1448")?;
    let Some((from, to)) = range.split_once('-') else {
        return Err(words.wrong(Mistake::NotARange, "a range of bytes, such as 1-1448"));
    };
    let from = words.whole_u32_of(from, 1)?;
    let to = words.whole_u32_of(to, 1)?;
    words.check(from <= to, "the first byte before the last, as in 1-1448")?;
    Ok(DropRule::Sequence {
        from,
        to,
        times: 1,
        flow: None,
    })
}

fn blackout(words: &mut Words<'_>) -> Result<Blackout, TextError> {
    let length: Duration = words.quantity("a time")?;
    words.check(!length.is_zero(), "more than 0 seconds")?;
    words.keyword("at")?;
    let from = words.quantity("a time")?;
    let mut every = None;
    if words.option(&mut vec!["every"])?.is_some() {
        let period: Duration = words.quantity("a time")?;
        words.check(
            period > length,
            &format!("more than the {length} that it lasts"),
        )?;
        every = Some(period);
    }
    Ok(Blackout {
        from,
        length,
        every,
    })
}

fn rate(words: &mut Words<'_>) -> Result<Capacity, TextError> {
    if words.is_name_next() {
        words.name(&["unlimited"], "a rate, or")?;
        return Ok(Capacity::Unlimited);
    }
    let rate: BitRate = words.quantity("a rate, or `unlimited`")?;
    if words.option(&mut vec!["bucket"])?.is_none() {
        return Ok(Capacity::Rate(rate));
    }
    let depth: Bytes = words.quantity("a size")?;
    let expected = format!("at least {MIN_BUCKET_BYTES}B, one packet");
    words.check(depth.get() >= MIN_BUCKET_BYTES, &expected)?;
    Ok(Capacity::TokenBucket { rate, depth })
}

/// All of the remaining text is the name, so that it may contain spaces.
fn trace(words: &mut Words<'_>, traces: &mut Traces<'_>) -> Result<Capacity, TextError> {
    let name = words.rest("the name of a trace")?;
    traces(name).map(Capacity::Trace).map_err(|why| {
        let expected = "times of delivery in milliseconds, one on a line (mahimahi's format)";
        words.wrong(Mistake::Trace { why }, expected)
    })
}

fn overhead(words: &mut Words<'_>) -> Result<u32, TextError> {
    let bytes: Bytes = words.quantity("a number of bytes")?;
    words.check(
        bytes.get() <= MAX_OVERHEAD_BYTES,
        &format!("0 to {MAX_OVERHEAD_BYTES} bytes"),
    )?;
    Ok(bytes.get() as u32)
}

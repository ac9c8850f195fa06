//! Feeds any text to the parsers of quantities and of the notation of loads, as it may occur in a recipe or after a
//! flag, and checks what must hold for any text.
//!
//! Nothing may panic. A valid value is within the documented limits, and prints as a text that parses to the same
//! value; an error repeats the text.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use squall_base::plan::{
    PoolOrder, PortRange, Protocol, QuicCongestionControl, Speed, Stage, Stages, ThinkTime,
    TlsVersion,
};
use squall_base::{BitRate, Bytes, Duration, ParseQuantityError, Probability, Rate};

/// Any text, as a quantity of each kind.
pub fn quantity(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Some(size) = same::<Bytes>(&text) {
        assert!(size.get() <= 1_000_000_000_000_000, "{size}");
    }
    if let Some(time) = same::<Duration>(&text) {
        assert!(time.as_nanos() <= 1_000_000_000_000_000_000, "{time}");
    }
    if let Some(rate) = same::<Rate>(&text) {
        assert!((1..=1_000_000_000).contains(&rate.events()), "{rate}");
        // The first event that is not due within one period is the first of the next.
        assert_eq!(rate.offset_of(rate.events()), rate.period());
        assert_eq!(rate.events_in(rate.period()), rate.events());
    }
    if let Some(rate) = same::<BitRate>(&text) {
        assert!((1..=1_000_000_000_000).contains(&rate.bits_per_s()));
    }
    let _ = same::<Speed>(&text);
    if let Some(share) = understood::<Probability>(&text) {
        let printed = share.to_string();
        let again: Probability = printed.parse().expect("what is printed is understood");
        // It prints rounded; see its `Display`.
        assert!((share.get() - again.get()).abs() <= 1e-11, "{printed}");
        assert_eq!(again.to_string(), printed);
    }
}

/// The value of a text that is such a quantity; its printed form parses to the same value.
fn same<T>(text: &str) -> Option<T>
where
    T: FromStr<Err = ParseQuantityError> + Display + Debug + PartialEq,
{
    let value: T = understood(text)?;
    let printed = value.to_string();
    assert_eq!(printed.parse().as_ref(), Ok(&value), "{printed}");
    Some(value)
}

fn understood<T: FromStr<Err = ParseQuantityError>>(text: &str) -> Option<T> {
    text.parse()
        .inspect_err(|error: &ParseQuantityError| {
            assert!(error.to_string().contains(&format!("{text:?}")));
        })
        .ok()
}

/// Any text, in each of the notations that have a value.
pub fn words(input: &[u8]) {
    let text = &*String::from_utf8_lossy(input);
    if let Ok(stages) = text.parse::<Stages>() {
        assert_eq!(stages.as_slice().len(), text.split(',').count());
        let written: Vec<String> = stages.as_slice().iter().map(write_stage).collect();
        assert_eq!(written.join(", ").parse(), Ok(stages), "{written:?}");
    }
    if let Ok(think) = text.parse::<ThinkTime>() {
        let written = write_think(&think);
        assert_eq!(written.parse(), Ok(think), "{written}");
    }
    if let Ok(ports) = text.parse::<PortRange>() {
        assert!(0 < ports.first() && ports.first() <= ports.last());
        assert_eq!(ports.to_string().parse(), Ok(ports));
    }
    one_of::<Protocol>(text);
    one_of::<TlsVersion>(text);
    one_of::<PoolOrder>(text);
    one_of::<QuicCongestionControl>(text);
}

/// Each value has only one name.
fn one_of<T: FromStr + Display>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        assert_eq!(value.to_string(), text);
    }
}

fn write_stage(stage: &Stage) -> String {
    let end = |rate: Option<Rate>| rate.map_or_else(|| "0".to_owned(), |rate| rate.to_string());
    let (from, to) = (end(stage.from), end(stage.to));
    format!("{from}..{to} {}", stage.duration)
}

fn write_think(think: &ThinkTime) -> String {
    match think {
        ThinkTime::None => "0s".to_owned(),
        ThinkTime::Constant(always) => always.to_string(),
        ThinkTime::Uniform { from, to } => {
            assert!(from <= to);
            format!("{from}..{to}")
        }
        ThinkTime::Exponential(mean) => format!("exp:{mean}"),
    }
}

//! The inverse of `read`: prints settings as words that it reads back as the same values.
//!
//! It prints defaults that may change (limits and times of queues), but no others. A lane prints only what differs from a
//! lane that does nothing. A trace prints its name; callers that name traces must avoid commas, line breaks, spaces at the
//! ends, and `#` after a space.

use std::fmt::{self, Display, Formatter};

use squall_base::{Bytes, Duration, Probability};

use crate::settings::{
    Blackout, Capacity, Change, Discipline, DropRule, GilbertElliott, Jitter, JitterShape,
    LaneSettings, Loss, QueueSettings, Reorder, Setting, Weather,
};

impl LaneSettings {
    /// The settings that turn a lane that does nothing into this one, in the order in which a packet meets them.
    pub fn to_settings(&self) -> Vec<Setting> {
        let default = LaneSettings::default();
        let mut settings: Vec<Setting> = Vec::new();
        settings.extend(self.blackouts.iter().copied().map(Setting::Blackout));
        settings.extend(self.drops.iter().cloned().map(Setting::Drop));
        let others = [
            (self.loss != default.loss).then_some(Setting::Loss(self.loss)),
            (self.corrupt != default.corrupt).then_some(Setting::Corrupt(self.corrupt)),
            (self.duplicate != default.duplicate).then_some(Setting::Duplicate(self.duplicate)),
            (self.capacity != default.capacity).then(|| Setting::Capacity(self.capacity.clone())),
            (self.overhead_bytes != default.overhead_bytes)
                .then_some(Setting::Overhead(self.overhead_bytes)),
            (self.queue != default.queue).then_some(Setting::Queue(self.queue)),
            (self.delay != default.delay).then_some(Setting::Delay(self.delay)),
            (self.jitter != default.jitter).then_some(Setting::Jitter(self.jitter)),
            (self.reorder != default.reorder).then_some(Setting::Reorder(self.reorder)),
        ];
        settings.extend(others.into_iter().flatten());
        settings
    }
}

/// A list, empty for a lane that does nothing.
impl Display for LaneSettings {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let settings = self.to_settings();
        let words: Vec<String> = settings.iter().map(Setting::to_string).collect();
        f.write_str(&words.join(", "))
    }
}

/// A line of a schedule.
impl Display for Change {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "at {}: ", Exact(self.at))?;
        if self.stretch > 0 {
            write!(f, "link {} ", self.stretch + 1)?;
        }
        if let Some(direction) = self.direction {
            write!(f, "{} ", direction.name())?;
        }
        self.setting.fmt(f)
    }
}

impl Display for Setting {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Blackout(blackout) => write_blackout(f, *blackout),
            Setting::Drop(rule) => write_drop(f, rule),
            Setting::Loss(loss) => write_loss(f, *loss),
            Setting::Corrupt(share) => write!(f, "corrupt {}", Share(*share)),
            Setting::Duplicate(share) => write!(f, "duplicate {}", Share(*share)),
            Setting::Capacity(Capacity::Unlimited) => f.write_str("rate unlimited"),
            Setting::Capacity(Capacity::Rate(rate)) => write!(f, "rate {rate}"),
            Setting::Capacity(Capacity::TokenBucket { rate, depth }) => {
                write!(f, "rate {rate} bucket {depth}")
            }
            Setting::Capacity(Capacity::Trace(trace)) => write!(f, "trace {}", trace.name()),
            Setting::Overhead(bytes) => write!(f, "overhead {bytes}"),
            Setting::Queue(queue) => write_queue(f, *queue),
            Setting::Delay(delay) => write!(f, "delay {}", Exact(*delay)),
            Setting::Jitter(None) => f.write_str("jitter none"),
            Setting::Jitter(Some(jitter)) => write_jitter(f, *jitter),
            Setting::Reorder(None) => f.write_str("reorder none"),
            Setting::Reorder(Some(Reorder { share, by })) => {
                write!(f, "reorder {} by {}", Share(*share), Exact(*by))
            }
        }
    }
}

fn write_blackout(f: &mut Formatter<'_>, blackout: Blackout) -> fmt::Result {
    write!(
        f,
        "blackout {} at {}",
        Exact(blackout.length),
        Exact(blackout.from)
    )?;
    blackout
        .every
        .map_or(Ok(()), |every| write!(f, " every {}", Exact(every)))
}

fn write_drop(f: &mut Formatter<'_>, rule: &DropRule) -> fmt::Result {
    f.write_str("drop ")?;
    let flow = match rule {
        DropRule::Nth {
            number,
            class,
            flow,
        } => {
            if let Some(class) = class {
                write!(f, "{} ", class.name())?;
            }
            write!(f, "{number}")?;
            flow
        }
        DropRule::Every { n, class } => {
            write!(f, "every {n}")?;
            if let Some(class) = class {
                write!(f, " {}", class.name())?;
            }
            &None
        }
        DropRule::Sequence {
            from,
            to,
            times,
            flow,
        } => {
            write!(f, "seq {from}-{to}")?;
            if *times != 1 {
                write!(f, " times {times}")?;
            }
            flow
        }
    };
    flow.map_or(Ok(()), |flow| write!(f, " of flow {flow}"))
}

fn write_loss(f: &mut Formatter<'_>, loss: Loss) -> fmt::Result {
    match loss {
        Loss::Independent(Probability::ZERO) => f.write_str("loss none"),
        Loss::Independent(share) => write!(f, "loss {}", Share(share)),
        Loss::GilbertElliott(model) => match as_bursts(model) {
            Some((share, mean_length)) => {
                write!(f, "loss {} bursts of {mean_length}", Share(share))
            }
            None => {
                let (to_bad, to_good) = (Share(model.to_bad), Share(model.to_good));
                write!(f, "loss gilbert-elliott {to_bad} {to_good}")?;
                write_losses(f, model.loss_in_bad, model.loss_in_good)
            }
        },
        Loss::Weather(Weather {
            good,
            bad,
            loss_in_bad,
            loss_in_good,
        }) => {
            write!(f, "loss weather good {} bad {}", Exact(good), Exact(bad))?;
            write_losses(f, loss_in_bad, loss_in_good)
        }
    }
}

/// The share and mean burst length that yield exactly this model, if people would write it that way.
fn as_bursts(model: GilbertElliott) -> Option<(Probability, f64)> {
    // 12 digits undo the rounding of the two divisions.
    let short = |value: f64| format!("{value:.11e}").parse::<f64>().ok();
    let (p, r) = (model.to_bad.get(), model.to_good.get());
    let mean_length = short(1.0 / r).filter(|mean_length| mean_length.is_finite())?;
    let share = short(p / (p + r)).and_then(Probability::new)?;
    (burst_model(share, mean_length) == Some(model)).then_some((share, mean_length))
}

fn write_losses(f: &mut Formatter<'_>, in_bad: Probability, in_good: Probability) -> fmt::Result {
    match (in_bad.get(), in_good) {
        (1.0, Probability::ZERO) => Ok(()),
        (_, Probability::ZERO) => write!(f, " {}", Share(in_bad)),
        _ => write!(f, " {} {}", Share(in_bad), Share(in_good)),
    }
}

fn write_queue(f: &mut Formatter<'_>, queue: QueueSettings) -> fmt::Result {
    f.write_str("queue")?;
    match queue.discipline {
        Discipline::DropTail => Ok(()),
        Discipline::DropHead => f.write_str(" drop-head"),
        Discipline::Red {
            min_bytes,
            max_bytes,
            probability,
        } => {
            let (min, max) = (Bytes::new(min_bytes), Bytes::new(max_bytes));
            write!(f, " red {min} {max} {}", Share(probability))
        }
        Discipline::CoDel { target, interval } => {
            write!(
                f,
                " codel target {} interval {}",
                Exact(target),
                Exact(interval)
            )
        }
        Discipline::Pie { target, update } => {
            write!(f, " pie target {} update {}", Exact(target), Exact(update))
        }
        Discipline::FqCoDel {
            target,
            interval,
            quantum_bytes,
        } => {
            let (target, interval) = (Exact(target), Exact(interval));
            write!(
                f,
                " fq-codel target {target} interval {interval} quantum {quantum_bytes}"
            )
        }
    }?;
    match (queue.limit_bytes.map(Bytes::new), queue.limit_packets) {
        (Some(bytes), Some(packets)) => write!(f, " {bytes} {packets} packets")?,
        (Some(bytes), None) => write!(f, " {bytes}")?,
        // Words cannot express a queue without a limit, so it gets one that is never reached.
        (None, packets) => write!(f, " {} packets", packets.unwrap_or(u64::MAX))?,
    }
    f.write_str(if queue.marks_ecn { " ecn" } else { "" })
}

fn write_jitter(f: &mut Formatter<'_>, jitter: Jitter) -> fmt::Result {
    let shape = match jitter.shape {
        JitterShape::Uniform => "uniform",
        JitterShape::Normal => "normal",
        JitterShape::Pareto => "pareto",
    };
    write!(f, "jitter {shape} {}", Exact(jitter.spread))?;
    if jitter.correlation != Probability::ZERO {
        write!(f, " correlation {}", Share(jitter.correlation))?;
    }
    f.write_str(if jitter.may_reorder {
        " reordering"
    } else {
        ""
    })
}

/// Prints a time exactly: the usual notation rounds beyond some weeks.
struct Exact(Duration);

impl Display for Exact {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let short = self.0.to_string();
        if short.parse() == Ok(self.0) {
            f.write_str(&short)
        } else {
            write!(f, "{}ns", self.0.as_nanos())
        }
    }
}

/// Prints a probability in percent to the last bit: the usual notation rounds.
pub(super) struct Share(pub(super) Probability);

impl Display for Share {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        /// Decimals of the fraction; the percentage has two less, and 25 digits can be read (`squall_base::quantity`). No
        /// draw notices a difference that small (2^-64).
        const MAX_DECIMALS: usize = 27;
        let exact = self.0.get().to_string();
        let decimals = exact
            .split_once('.')
            .map_or(0, |(_, decimals)| decimals.len());
        let fraction = if decimals > MAX_DECIMALS {
            format!("{:.MAX_DECIMALS$}", self.0.get())
        } else {
            exact
        };
        let (whole, decimals) = fraction.split_once('.').unwrap_or((&fraction, ""));
        // The point moves by two digits.
        let digits = format!("{whole}{decimals:0<2}");
        let (percent, rest) = digits.split_at(whole.len() + 2);
        let (percent, rest) = (percent.trim_start_matches('0'), rest.trim_end_matches('0'));
        let percent = if percent.is_empty() { "0" } else { percent };
        let point = if rest.is_empty() { "" } else { "." };
        write!(f, "{percent}{point}{rest}%")
    }
}

/// Gilbert's model with probabilities that can be written, so that what is printed reads back as the same.
pub(super) fn burst_model(share: Probability, mean_length: f64) -> Option<GilbertElliott> {
    let model = GilbertElliott::bursts(share, mean_length)?;
    Some(GilbertElliott {
        to_bad: Share(model.to_bad).to_string().parse().ok()?,
        to_good: Share(model.to_good).to_string().parse().ok()?,
        ..model
    })
}

//! Writes what `verdict` found as the sentences that people read, identical in the terminal and on the report page.
//!
//! It decides nothing, and states no number that is not in the finding. `figure` formats the numbers.

use std::fmt;

use squall_base::plan::Unit;

use crate::distinct::distinct;
use crate::figure;
use crate::stats::sign_flip::smallest_sign_flip;
use crate::summary::ConditionSummary;
use crate::value::{Value, format_value, measure_name};
use crate::verdict::{
    Comparison, Difference, LEVEL, Overload, PairResult, Ratio, UnknownReason, Verdict,
};

impl ConditionSummary {
    /// The verdicts to print one by one: all but the comparisons that have no pair of valid trials.
    pub fn verdicts_of_pairs(&self) -> impl Iterator<Item = &Verdict> {
        let has_pair = |verdict: &&Verdict| match verdict {
            Verdict::Compared(comparison) => comparison.has_valid_pair(),
            Verdict::Overloaded { .. } => true,
        };
        self.verdicts.iter().filter(has_pair)
    }

    /// `No pair of valid trials yet: h2c x1 and h1, h2c x8 and h1`: the comparisons that have no such pair, each once for
    /// all measures; `None` if every comparison has one.
    pub fn without_pairs(&self) -> Option<String> {
        let without = self.comparisons().filter(|it| !it.has_valid_pair());
        let compared = distinct(without.map(|it| format!("{} and {}", it.variant, it.baseline)));
        (!compared.is_empty())
            .then(|| format!("No pair of valid trials yet: {}", compared.join(", ")))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Overloaded {
                variant,
                achieved_per_s,
                asked_per_s,
            } => write!(
                f,
                "{variant} cannot carry the load here: {} of {} requests/s",
                figure::rate(*achieved_per_s),
                figure::rate(*asked_per_s),
            ),
            Verdict::Compared(comparison) => comparison.fmt(f),
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (variant, baseline, what) = (&self.variant, &self.baseline, measure_name(self.measure));
        if self.is_same_variant {
            write!(f, "A/A: ")?;
        }
        match self.finding {
            Difference::Higher | Difference::SeemsHigher => self.fmt_difference(f, "higher")?,
            Difference::Lower | Difference::SeemsLower => self.fmt_difference(f, "lower")?,
            Difference::TooFewPairs => self.fmt_too_few(f)?,
            Difference::Same if self.own_error() == 0.0 => write!(
                f,
                "{variant} and {baseline} have the same {what}{}",
                self.shared_value_in_words()
            )?,
            Difference::Same | Difference::WithinOwnError => write!(
                f,
                "{variant} and {baseline}: no difference of {what} beyond our own error of {}{}",
                format_value(self.own_error(), self.measure.unit()),
                self.ratio_in_words(),
            )?,
            Difference::WithinNoise => write!(
                f,
                "{variant} and {baseline}: no difference of {what} beyond the noise floor{}{}",
                self.noise_floor
                    .map(|floor| format!(" of {}", figure::ratio(floor)))
                    .unwrap_or_default(),
                self.ratio_in_words(),
            )?,
            Difference::NoDifference => {
                write!(f, "{variant} and {baseline}: no difference of {what} ")?;
                match self.largest_hidden() {
                    Some(largest) => write!(f, "larger than {}", figure::ratio(largest))?,
                    None => f.write_str("shown")?,
                }
                f.write_str(&self.ratio_in_words())?;
            }
            Difference::Disagree => write!(
                f,
                "{variant} and {baseline}: no difference of {what} shown: the {} pairs disagree",
                self.pairs.len(),
            )?,
            Difference::Unknown(reason) => {
                write!(
                    f,
                    "{variant} and {baseline} cannot be compared by {what}: {reason}"
                )?;
            }
        }
        if self.is_limited() {
            f.write_str("; a limit, because the link itself was a bottleneck")?;
        }
        if self.limited_pairs > 0 {
            let pairs = figure::counted(self.limited_pairs, "pair", "pairs");
            write!(f, "; {pairs} left out whose bottleneck was the link itself")?;
        }
        self.fmt_doubtful(f)?;
        if self.invalid_pairs > 0 {
            let pairs = figure::counted(self.invalid_pairs, "invalid pair", "invalid pairs");
            write!(f, "; {pairs} left out")?;
        }
        if let Some(requested) = self.instead_of {
            write!(
                f,
                "; there are too few values for a {}",
                measure_name(requested)
            )?;
        }
        Ok(())
    }
}

impl Comparison {
    /// Whether the emulated path was the bottleneck of a trial, and there is a result all the same.
    fn is_limited(&self) -> bool {
        self.pairs.iter().any(|pair| pair.is_limited)
            && self.finding != Difference::Unknown(UnknownReason::Limited)
    }

    /// How many doubtful pairs count, and how many do not.
    fn fmt_doubtful(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = self.pairs.iter().filter(|pair| pair.is_doubtful).count() as u64;
        if counted > 0 {
            let pairs = figure::counted(counted, "doubtful pair", "doubtful pairs");
            write!(f, "; {pairs} counted without squall's own part")?;
        }
        if self.doubtful_pairs > 0 {
            let pairs = figure::counted(self.doubtful_pairs, "doubtful pair", "doubtful pairs");
            write!(f, "; {pairs} left out")?;
        }
        Ok(())
    }

    /// The largest measurement error of ours among the pairs.
    fn own_error(&self) -> f64 {
        let errors = self.pairs.iter().map(|pair| pair.own_error);
        errors.fold(0.0, f64::max)
    }

    /// ` (16, 6 pairs)`: the value that both have.
    fn shared_value_in_words(&self) -> String {
        let value = self
            .values
            .map(|values| values.variant.in_words(self.measure.unit()));
        format!(
            " ({}, {})",
            value.unwrap_or_default(),
            self.pairs_in_words()
        )
    }

    /// `direction` is the word to use without a ratio.
    fn fmt_difference(&self, f: &mut fmt::Formatter<'_>, direction: &str) -> fmt::Result {
        self.fmt_stated(f, direction, self.verb())?;
        if self.is_unproven() {
            write!(
                f,
                "; not proved, as chance shows one so large among {}",
                figure::counted(self.comparisons, "comparison", "comparisons"),
            )?;
        }
        self.fmt_tail(f)
    }

    fn is_unproven(&self) -> bool {
        matches!(
            self.finding,
            Difference::SeemsHigher | Difference::SeemsLower
        )
    }

    fn verb(&self) -> &'static str {
        match self.finding {
            Difference::SeemsHigher | Difference::SeemsLower => "seems",
            Difference::TooFewPairs => "was",
            _ => "is",
        }
    }

    /// States the ratio of the variant's value to the baseline's, or only which is higher.
    fn fmt_stated(&self, f: &mut fmt::Formatter<'_>, direction: &str, verb: &str) -> fmt::Result {
        let (variant, baseline, what) = (&self.variant, &self.baseline, measure_name(self.measure));
        let endless = self
            .values
            .is_some_and(|values| [values.variant, values.baseline].contains(&Value::Never));
        match (self.overload, self.ratio) {
            // A value of `Never` does not get worse with time.
            (Some(overload), _) if !endless => {
                write!(f, "{variant}'s {what} {verb} {direction} than {baseline}'s")?;
                if self.pairs.len() > 1 {
                    write!(f, " ({}{})", self.pairs_in_words(), self.p_in_words())?;
                }
                f.write_str("; by how much depends on how long it runs, because ")?;
                match overload {
                    Overload::Variant => write!(f, "{variant} cannot carry the load"),
                    Overload::Baseline => write!(f, "{baseline} cannot carry the load"),
                    Overload::Both => f.write_str("neither can carry the load"),
                }
            }
            (_, Some(ratio)) => {
                let limit = ratio.limit();
                write!(
                    f,
                    "{variant}'s {what} {verb} {limit}{} {baseline}'s ({}; {}{})",
                    figure::ratio(ratio.median),
                    self.values_in_words(),
                    interval_in_words(ratio, limit, self.pairs.len()),
                    self.p_in_words(),
                )
            }
            (_, None) => write!(
                f,
                "{variant}'s {what} {verb} {direction} than {baseline}'s ({}; {}{})",
                self.values_in_words(),
                self.pairs_in_words(),
                self.p_in_words(),
            ),
        }
    }

    fn fmt_too_few(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |result| self.pairs.iter().all(|pair| pair.result() == result);
        let direction = match () {
            () if all(PairResult::Higher) => Some("higher"),
            () if all(PairResult::Lower) => Some("lower"),
            () => None,
        };
        match (direction, self.ratio) {
            (Some(direction), _) => self.fmt_stated(f, direction, self.verb())?,
            (None, Some(_)) => self.fmt_stated(f, "", self.verb())?,
            (None, None) => write!(
                f,
                "{} and {}: the {} disagree on whose {} is higher",
                self.variant,
                self.baseline,
                self.pairs_in_words(),
                measure_name(self.measure),
            )?,
        }
        let pairs = self.pairs.len();
        let proves = if pairs == 1 { "proves" } else { "prove" };
        write!(
            f,
            "; {} {proves} nothing (chance alone: p {} at best)",
            self.pairs_in_words(),
            figure::chance(smallest_sign_flip(pairs)),
        )?;
        if direction.is_some() {
            self.fmt_tail(f)?;
        }
        Ok(())
    }

    fn fmt_tail(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tail_in_words() {
            Some(words) => write!(f, "; {words}"),
            None => Ok(()),
        }
    }

    /// `84 % of its extra time is head-of-line blocking`.
    pub(crate) fn tail_in_words(&self) -> Option<String> {
        let (tail, ratio) = (self.tail.as_ref()?, self.ratio?);
        let what = if ratio.median < 1.0 {
            "of the time that it saves"
        } else {
            "of its extra time"
        };
        // Rounded down: `100 %` would hide that there are other causes.
        let percent = (tail.share * 100.0).floor();
        Some(format!("{percent} % {what} is {}", tail.words()))
    }

    /// ` (1.05x, 95 % 0.9x to 1.2x, 10 pairs; p 0.4, MDE 1.3x)`, as far as it is known.
    fn ratio_in_words(&self) -> String {
        let Some(ratio) = self.ratio else {
            return match self.pairs.len() {
                0 => String::new(),
                _ => format!(" ({}{})", self.pairs_in_words(), self.p_in_words()),
            };
        };
        format!(
            " ({}; {}{})",
            figure::ratio(ratio.median),
            interval_in_words(ratio, "", self.pairs.len()),
            self.p_in_words(),
        )
    }

    fn pairs_in_words(&self) -> String {
        figure::counted(self.pairs.len() as u64, "pair", "pairs")
    }

    /// `; p 0.0020 (0.018 among 9), MDE 1.2x`: how often chance alone produces this difference, in this comparison and in
    /// any of all comparisons, and the smallest difference that such pairs can show.
    fn p_in_words(&self) -> String {
        let least = self.ratio.and_then(|ratio| ratio.least_visible);
        let least = least.map_or_else(|| "n/a".to_owned(), figure::ratio);
        let among = match self.p_adjusted {
            Some(p) if self.comparisons > 1 => {
                format!(" ({} among {})", figure::chance(p), self.comparisons)
            }
            _ => String::new(),
        };
        match self.p {
            Some(p) if smallest_sign_flip(self.pairs.len()) <= LEVEL => {
                format!("; p {}{among}, MDE {least}", figure::chance(p))
            }
            _ => format!("; MDE {least}"),
        }
    }

    /// The values of both: `212 ms against 118 ms`.
    pub(crate) fn values_in_words(&self) -> String {
        let unit: Unit = self.measure.unit();
        self.values.map_or_else(String::new, |values| {
            format!(
                "{} against {}",
                values.variant.in_words(unit),
                values.baseline.in_words(unit)
            )
        })
    }
}

/// `95 % 2.7x to 3.6x, 10 pairs`, or the range of the pairs.
fn interval_in_words(ratio: Ratio, limit: &str, pairs: usize) -> String {
    let words = figure::counted(pairs as u64, "pair", "pairs");
    match ratio.interval {
        Some(interval) => format!("95 % {}, {words}", interval.in_words()),
        None if pairs > 1 => format!(
            "{limit}{} to {} over {words}",
            figure::ratio(ratio.low),
            figure::ratio(ratio.high),
        ),
        None => words,
    }
}

impl fmt::Display for UnknownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnknownReason::NoPair => f.write_str("there is no pair of valid trials"),
            UnknownReason::TooFewRequests => f.write_str("trials have too few values, or none"),
            UnknownReason::Hidden => {
                f.write_str("unfinished or failed requests hide which is higher")
            }
            UnknownReason::Limited => f.write_str("the link itself was the bottleneck; set `rate`"),
            UnknownReason::Doubtful => {
                f.write_str("squall itself was so late that it may have made the difference")
            }
        }
    }
}

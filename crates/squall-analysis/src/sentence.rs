//! What `verdict` found, as the sentences that people read: the same in the terminal and on the page.
//!
//! It decides nothing; a number that is not in the finding is in no sentence. How numbers are written is
//! `figure`'s business.

use std::fmt;

use crate::figure;
use crate::quantile::{P99_NEEDS, Quantile};
use crate::verdict::{Comparison, Difference, Finding, Overload, Ratio, Unfit, Verdict};

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
        let (variant, baseline) = (&self.variant, &self.baseline);
        match self.finding {
            Finding::Higher(difference) => {
                self.fmt_difference(f, difference, "higher", "at least ")?;
            }
            Finding::Lower(difference) => {
                self.fmt_difference(f, difference, "lower", "at most ")?;
            }
            Finding::Same { own_error } => write!(
                f,
                "{variant} and {baseline}: no difference of p99 seen beyond our own error of {}{}",
                figure::span(own_error),
                if self.pairs.len() > 1 {
                    format!(" in {} pairs", self.pairs.len())
                } else {
                    String::new()
                },
            )?,
            Finding::Mixed { ratio } => {
                let pairs = self.pairs.len();
                write!(f, "{variant} and {baseline}: no clear difference of p99: ")?;
                match ratio {
                    Some(r) => {
                        let (low, high) = (figure::ratio(r.low), figure::ratio(r.high));
                        write!(f, "{low} to {high} over {pairs} pairs")?;
                    }
                    None => write!(f, "the {pairs} pairs disagree")?,
                }
            }
            Finding::Unknown(unfit) => {
                write!(f, "{variant} and {baseline} cannot be compared: {unfit}")?;
            }
        }
        if self.pairs.len() == 1 {
            f.write_str("; 1 pair: no confidence can be given")?;
        }
        if self.invalid_pairs > 0 {
            let pairs = figure::counted(self.invalid_pairs, "invalid pair", "invalid pairs");
            write!(f, "; {pairs} left out")?;
        }
        Ok(())
    }
}

impl Comparison {
    /// `direction` is what to say without a ratio, `limit` what to put before one that is only a bound.
    fn fmt_difference(
        &self,
        f: &mut fmt::Formatter<'_>,
        difference: Difference,
        direction: &str,
        limit: &str,
    ) -> fmt::Result {
        let p99s = [difference.variant_p99, difference.baseline_p99];
        match (self.overload, difference.ratio) {
            // What is never answered does not get worse with time.
            (Some(overload), _) if !p99s.contains(&Quantile::Never) => {
                self.fmt_growing(f, overload, direction)
            }
            (_, Some(ratio)) => self.fmt_ratio(f, difference, ratio, limit),
            (_, None) => self.fmt_endless(f, difference, direction),
        }
    }

    /// The p99s themselves are left out too: side by side they would be read as a ratio.
    fn fmt_growing(
        &self,
        f: &mut fmt::Formatter<'_>,
        overload: Overload,
        direction: &str,
    ) -> fmt::Result {
        let (variant, baseline) = (&self.variant, &self.baseline);
        write!(f, "{variant}'s p99 is {direction} than {baseline}'s")?;
        if self.pairs.len() > 1 {
            write!(f, " in each of {} pairs", self.pairs.len())?;
        }
        f.write_str("; by how much depends on how long it runs, because ")?;
        match overload {
            Overload::Variant => write!(f, "{variant} cannot carry the load"),
            Overload::Baseline => write!(f, "{baseline} cannot carry the load"),
            Overload::Both => f.write_str("neither can carry the load"),
        }
    }

    fn fmt_ratio(
        &self,
        f: &mut fmt::Formatter<'_>,
        difference: Difference,
        ratio: Ratio,
        limit: &str,
    ) -> fmt::Result {
        let limit = if ratio.bound { limit } else { "" };
        write!(
            f,
            "{}'s p99 is {limit}{} {}'s ({}",
            self.variant,
            figure::ratio(ratio.median),
            self.baseline,
            against(difference),
        )?;
        let pairs = self.pairs.len();
        if pairs > 1 {
            let (low, high) = (figure::ratio(ratio.low), figure::ratio(ratio.high));
            write!(f, "; {limit}{low} to {high} over {pairs} pairs")?;
        }
        f.write_str(")")
    }

    fn fmt_endless(
        &self,
        f: &mut fmt::Formatter<'_>,
        difference: Difference,
        direction: &str,
    ) -> fmt::Result {
        let (variant, baseline) = (&self.variant, &self.baseline);
        let against = against(difference);
        write!(
            f,
            "{variant}'s p99 is {direction} than {baseline}'s ({against}"
        )?;
        if self.pairs.len() > 1 {
            write!(f, "; {} pairs", self.pairs.len())?;
        }
        f.write_str(")")
    }
}

/// The p99s of both: `212 ms against 118 ms`.
fn against(difference: Difference) -> String {
    let (a, b) = (difference.variant_p99, difference.baseline_p99);
    format!("{} against {}", in_words(a), in_words(b))
}

fn in_words(p99: Quantile) -> String {
    match p99 {
        Quantile::Exact(value) => figure::span(value),
        Quantile::AtLeast(value) => format!("more than {}", figure::span(value)),
        Quantile::Never => "never answered".to_owned(),
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::NoPair => f.write_str("there is no pair of valid trials"),
            Unfit::TooFewRequests => {
                write!(f, "a p99 needs at least {P99_NEEDS} requests in each trial")
            }
            Unfit::Hidden => f.write_str("unfinished or failed requests hide which p99 is higher"),
        }
    }
}

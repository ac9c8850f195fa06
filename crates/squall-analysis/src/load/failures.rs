//! Failures, counted by kind, and what they reported.
//!
//! A kind is an outcome with its error text. A peer that puts a number into every text would create endless kinds, so only the
//! first few keep their text and the rest are counted together. Statuses of 400 and above are not failures in this sense;
//! `totals` counts them by status. A failed gRPC call is a failure, with the outcome of an answered request.

use squall_base::record::Outcome;

/// How many kinds keep their text: about what a reader will read.
const KINDS_AT_MOST: usize = 8;

/// How much of a text is kept.
const TEXT_AT_MOST_CHARS: usize = 200;

/// Failures with the same outcome and the same text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureKind {
    /// Their outcome.
    pub outcome: Outcome,
    /// Their error text, up to 200 characters; empty if they had no text. It comes from elsewhere and is not trusted.
    pub text: String,
    /// How many.
    pub count: u64,
}

/// Failures by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    kinds: Vec<FailureKind>,
    others: u64,
}

impl Failures {
    /// Counts one failure.
    pub fn add(&mut self, outcome: Outcome, text: &str) {
        let end = text.char_indices().nth(TEXT_AT_MOST_CHARS);
        self.count(outcome, &text[..end.map_or(text.len(), |(end, _)| end)], 1);
    }

    /// Adds all failures of `other`.
    pub fn merge(&mut self, other: &Failures) {
        for kind in &other.kinds {
            self.count(kind.outcome, &kind.text, kind.count);
        }
        self.others += other.others;
    }

    /// The first kinds that occurred, the most frequent first.
    pub fn kinds(&self) -> Vec<&FailureKind> {
        let mut kinds: Vec<_> = self.kinds.iter().collect();
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.count));
        kinds
    }

    /// Failures of further kinds.
    pub fn others(&self) -> u64 {
        self.others
    }

    fn count(&mut self, outcome: Outcome, text: &str, count: u64) {
        let is_it = |kind: &&mut FailureKind| kind.outcome == outcome && kind.text == text;
        if let Some(kind) = self.kinds.iter_mut().find(is_it) {
            kind.count += count;
        } else if self.kinds.len() < KINDS_AT_MOST {
            self.kinds.push(FailureKind {
                outcome,
                text: text.to_owned(),
                count,
            });
        } else {
            self.others += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_limited_and_every_failure_counts() {
        let mut failures = Failures::default();
        for number in 0..20 {
            failures.add(Outcome::StreamReset, &format!("stream {number}"));
        }
        failures.add(Outcome::StreamReset, "stream 3");
        failures.add(Outcome::ConnectionClosed, "stream 3");
        let mut twice = failures.clone();
        twice.merge(&failures);
        assert_eq!(failures.kinds().len(), KINDS_AT_MOST);
        assert_eq!(
            (failures.kinds()[0].text.as_str(), failures.kinds()[0].count),
            ("stream 3", 2)
        );
        assert_eq!(failures.others(), 13);
        let all: u64 = twice.kinds().iter().map(|kind| kind.count).sum();
        assert_eq!(all + twice.others(), 44);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let mut failures = Failures::default();
        failures.add(Outcome::TlsFailed, &"é".repeat(500));
        assert_eq!(failures.kinds()[0].text.chars().count(), TEXT_AT_MOST_CHARS);
    }
}

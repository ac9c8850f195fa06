//! Recorded links: the times at which a packet could be delivered, in mahimahi's format.
//!
//! A trace has one whole number of milliseconds per line, never decreasing. Each line is an opportunity to deliver one MTU,
//! several lines may have the same time, and after the last timestamp the trace starts again (Netravali et al., "Mahimahi:
//! Accurate Record-and-Replay for HTTP", USENIX ATC 2015; `src/frontend/link_queue.cc` of its source). Blank lines and
//! lines that begin with `#` are skipped here; mahimahi refuses both.
//!
//! How packets use the opportunities is `capacity::traced`. The caller reads the file.
//!
//! ```
//! use squall_base::Duration;
//! use squall_link::trace::Trace;
//!
//! let trace = Trace::parse("# 2 MTU a millisecond, then nothing\n1\n1\n4\n").unwrap();
//! assert_eq!(trace.duration(), Duration::from_millis(4));
//! assert_eq!(trace.opportunities(), 3);
//! assert!(Trace::parse("5\n4\n").is_err());
//! ```

use std::fmt;

use squall_base::Duration;
use squall_base::text::without_bom;
use thiserror::Error;

/// The maximum number of opportunities in a trace: 200 MB of memory, 10 minutes at 1 Gbit/s.
const MAX_OPPORTUNITIES: usize = 50_000_000;

/// Delivery opportunities, repeated forever.
#[derive(Clone, PartialEq, Eq)]
pub struct Trace {
    name: String,
    /// Milliseconds from the start of a period; sorted, never empty; the last one is the period.
    opportunities_ms: Box<[u32]>,
}

/// Why a text is not a trace. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TraceError {
    /// Something other than digits.
    #[error("line {line}: {found:?} is not a whole number of milliseconds")]
    NotANumber {
        /// The line.
        line: usize,
        /// The start of the line.
        found: String,
    },
    /// A timestamp before that of an earlier line.
    #[error("line {line}: the time goes back from {before_ms} ms to {time_ms} ms")]
    GoesBack {
        /// The line.
        line: usize,
        /// The timestamp before it.
        before_ms: u32,
        /// The timestamp in this line.
        time_ms: u32,
    },
    /// A timestamp that is too large.
    #[error("line {line}: the time is over {} ms (49 days)", u32::MAX)]
    TooLong {
        /// The line.
        line: usize,
    },
    /// Too many opportunities.
    #[error("line {line}: more than {MAX_OPPORTUNITIES} delivery opportunities")]
    TooMany {
        /// The first line that is too many.
        line: usize,
    },
    /// No timestamp at all.
    #[error("no delivery opportunity in {lines} lines")]
    Empty {
        /// How many lines there are.
        lines: usize,
    },
    /// All timestamps are 0, so the trace has no length to repeat after.
    #[error("line {line}: the trace lasts no time, its last time stamp is 0 ms")]
    NoDuration {
        /// The line of the last timestamp.
        line: usize,
    },
}

impl Trace {
    /// Reads a trace; lines end in LF or CRLF, and a byte order mark is skipped.
    pub fn parse(text: &str) -> Result<Trace, TraceError> {
        let mut opportunities_ms: Vec<u32> = Vec::new();
        let (mut lines, mut last_line) = (0, 0);
        for (content, line) in without_bom(text).lines().zip(1..) {
            lines = line;
            let content = content.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let time_ms = parse_ms(content, line)?;
            let before_ms = opportunities_ms.last().copied().unwrap_or(0);
            if time_ms < before_ms {
                return Err(TraceError::GoesBack {
                    line,
                    before_ms,
                    time_ms,
                });
            }
            if opportunities_ms.len() == MAX_OPPORTUNITIES {
                return Err(TraceError::TooMany { line });
            }
            opportunities_ms.push(time_ms);
            last_line = line;
        }
        match opportunities_ms.last() {
            None => Err(TraceError::Empty { lines }),
            Some(0) => Err(TraceError::NoDuration { line: last_line }),
            Some(_) => Ok(Trace {
                name: String::new(),
                opportunities_ms: opportunities_ms.into_boxed_slice(),
            }),
        }
    }

    /// This trace, renamed to `name`.
    #[must_use]
    pub fn named(self, name: &str) -> Trace {
        Trace {
            name: name.to_owned(),
            ..self
        }
    }

    /// The user's name for it, usually its file; empty if it was never named.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The time after which it repeats: its last timestamp, at least 1 ms.
    pub fn duration(&self) -> Duration {
        Duration::from_millis(self.period_ms())
    }

    /// How many opportunities there are per period, at least one.
    pub fn opportunities(&self) -> usize {
        self.opportunities_ms.len()
    }

    /// When opportunity number `n`, from 0, occurs, in milliseconds from the trace's start, over all periods.
    pub(crate) fn time_ms(&self, n: u128) -> u128 {
        let count = self.opportunities() as u128;
        let within = self.opportunities_ms[(n % count) as usize];
        n / count * u128::from(self.period_ms()) + u128::from(within)
    }

    /// How many opportunities there are up to and including `time_ms`; also the number of the first one after it.
    pub(crate) fn count_until_ms(&self, time_ms: u64) -> u128 {
        let (periods, within) = (time_ms / self.period_ms(), time_ms % self.period_ms());
        let begun = self
            .opportunities_ms
            .partition_point(|at| u64::from(*at) <= within);
        u128::from(periods) * self.opportunities() as u128 + begun as u128
    }

    fn period_ms(&self) -> u64 {
        // `parse` ensures that the list is not empty and its last time is not 0.
        u64::from(self.opportunities_ms[self.opportunities_ms.len() - 1])
    }
}

/// Short, because settings are printed with a trace in them.
impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("opportunities", &self.opportunities())
            .field("duration", &self.duration())
            .finish()
    }
}

/// Parses one timestamp.
fn parse_ms(content: &str, line: usize) -> Result<u32, TraceError> {
    /// Enough of a line to find it again, whatever the file contains.
    const SHOWN_CHARS: usize = 20;
    if !content.bytes().all(|byte| byte.is_ascii_digit()) {
        let found = content.chars().take(SHOWN_CHARS).collect();
        return Err(TraceError::NotANumber { line, found });
    }
    content.parse().map_err(|_| TraceError::TooLong { line })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn times_ms(text: &str) -> Vec<u32> {
        Trace::parse(text).unwrap().opportunities_ms.into_vec()
    }

    #[test]
    fn each_line_is_an_opportunity() {
        assert_eq!(times_ms("0\n0\n3\n5"), [0, 0, 3, 5]);
        assert_eq!(times_ms("0\r\n007\r\n"), [0, 7]);
        assert_eq!(times_ms("# made by hand\n\n 1\t\n#2\n2\n\n"), [1, 2]);
        assert_eq!(times_ms("\u{feff}1\n2"), [1, 2]);
        assert_eq!(times_ms("4294967295"), [u32::MAX]);
    }

    #[test]
    fn mistakes_are_reported_with_their_lines() {
        let not_a_number = |line, found: &str| TraceError::NotANumber {
            line,
            found: found.to_owned(),
        };
        for (text, error) in [
            ("1\nx\n", not_a_number(2, "x")),
            ("# a\n\n-1", not_a_number(3, "-1")),
            ("1.5", not_a_number(1, "1.5")),
            ("1 2", not_a_number(1, "1 2")),
            ("+1", not_a_number(1, "+1")),
            ("\u{fc}bcdefghijklmnopqrstuvwxyz", {
                not_a_number(1, "\u{fc}bcdefghijklmnopqrst")
            }),
            ("", TraceError::Empty { lines: 0 }),
            ("#\n\n", TraceError::Empty { lines: 2 }),
            ("0\n0\n\n", TraceError::NoDuration { line: 2 }),
            ("1\n4294967296", TraceError::TooLong { line: 2 }),
            (
                "3\n2",
                TraceError::GoesBack {
                    line: 2,
                    before_ms: 3,
                    time_ms: 2,
                },
            ),
        ] {
            assert_eq!(Trace::parse(text), Err(error), "{text:?}");
        }
        let digits = "9".repeat(1_000);
        assert_eq!(Trace::parse(&digits), Err(TraceError::TooLong { line: 1 }));
        assert_eq!(
            Trace::parse("3\n2").unwrap_err().to_string(),
            "line 2: the time goes back from 3 ms to 2 ms"
        );
    }

    #[test]
    fn a_trace_reports_its_duration_and_opportunities() {
        let trace = Trace::parse("0\n1\n1\n10\n").unwrap();
        assert_eq!(trace.duration(), Duration::from_millis(10));
        assert_eq!(trace.opportunities(), 4);
        assert_eq!(
            format!("{trace:?}"),
            "Trace { opportunities: 4, duration: Duration(10000000) }"
        );
    }

    #[test]
    fn opportunities_repeat_after_the_end() {
        let trace = Trace::parse("0\n1\n1\n10\n").unwrap();
        let times: Vec<u128> = (0..9).map(|n| trace.time_ms(n)).collect();
        assert_eq!(times, [0, 1, 1, 10, 10, 11, 11, 20, 20]);
        let counts: Vec<u128> = [0, 1, 9, 10, 11].map(|ms| trace.count_until_ms(ms)).into();
        assert_eq!(counts, [1, 3, 3, 5, 7]);
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "[0-9#x\\r\\n \u{e9}-]{0,60}") {
            let _ = Trace::parse(&text);
        }

        /// The first opportunity after a time is the first one whose time is later.
        #[test]
        fn times_and_counts_are_inverse(
            mut times in proptest::collection::vec(0_u32..20, 1..10), last in 1_u32..5, at in 0_u64..200
        ) {
            times.sort_unstable();
            times.push(times.last().unwrap() + last);
            let lines: Vec<String> = times.iter().map(u32::to_string).collect();
            let trace = Trace::parse(&lines.join("\n")).unwrap();
            let n = trace.count_until_ms(at);
            prop_assert!(trace.time_ms(n) > u128::from(at));
            prop_assert!(n == 0 || trace.time_ms(n - 1) <= u128::from(at));
        }
    }
}

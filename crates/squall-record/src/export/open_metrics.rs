//! OpenMetrics' text format (<https://prometheus.io/docs/specs/om/open_metrics_spec/>), which Prometheus and its tools
//! read.
//!
//! Only the format: callers compute the figures, and write all samples of a family one after the other.

use std::fmt::{self, Display, Write as _};
use std::io::Write;

use super::{ExportError, Lines};

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A sum; its samples end in `_total`.
    Counter,
    /// A value.
    Gauge,
    /// Counts of values up to a limit; its samples end in `_bucket`, `_count` and `_sum`.
    Histogram,
}

impl MetricKind {
    fn name(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        }
    }
}

/// Metrics of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricFamily {
    /// The name, which ends in its unit.
    pub name: &'static str,
    /// What it is.
    pub kind: MetricKind,
    /// The unit, such as `seconds`; empty for a mere number.
    pub unit: &'static str,
    /// What it means, in one sentence.
    pub help: &'static str,
}

/// Writes families of metrics.
#[derive(Debug)]
pub struct OpenMetricsExport<W> {
    lines: Lines<W>,
}

impl<W: Write> OpenMetricsExport<W> {
    /// Creates the export without writing anything yet.
    pub fn new(writer: W) -> OpenMetricsExport<W> {
        OpenMetricsExport {
            lines: Lines::new("metrics", writer),
        }
    }

    /// Begins a family; its samples follow.
    pub fn family(&mut self, family: &MetricFamily) -> Result<(), ExportError> {
        let MetricFamily {
            name,
            kind,
            unit,
            help,
        } = *family;
        self.lines
            .add(format_args!("# TYPE {name} {}\n", kind.name()))?;
        if !unit.is_empty() {
            self.lines.add(format_args!("# UNIT {name} {unit}\n"))?;
        }
        self.lines
            .add(format_args!("# HELP {name} {}\n", Escaped(help)))
    }

    /// Writes a sample of a family: `name` is the family's with the ending that its kind requires.
    pub fn sample(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        value: impl Display,
    ) -> Result<(), ExportError> {
        self.lines
            .add(format_args!("{name}{} {value}\n", Labels(labels)))
    }

    /// Writes the remaining text and returns the writer.
    pub fn finish(mut self) -> Result<W, ExportError> {
        self.lines.add(format_args!("# EOF\n"))?;
        self.lines.finish()
    }
}

/// Labels in braces.
struct Labels<'a>(&'a [(&'a str, &'a str)]);

impl Display for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, value)) in self.0.iter().enumerate() {
            let before = if place == 0 { '{' } else { ',' };
            write!(f, "{before}{name}=\"{}\"", Escaped(value))?;
        }
        if self.0.is_empty() {
            Ok(())
        } else {
            f.write_char('}')
        }
    }
}

/// A text with the escapes of the format: a line feed, a quote and a backslash.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '\n' => f.write_str("\\n")?,
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_their_type_unit_and_escaped_labels() {
        let mut export = OpenMetricsExport::new(Vec::new());
        let family = MetricFamily {
            name: "squall_time_seconds",
            kind: MetricKind::Histogram,
            unit: "seconds",
            help: "Time.",
        };
        export.family(&family).unwrap();
        let labels = [("variant", "a \"b\"\n\\"), ("le", "+Inf")];
        export
            .sample("squall_time_seconds_bucket", &labels, 7)
            .unwrap();
        export.sample("squall_time_seconds_sum", &[], 0.25).unwrap();
        let text = String::from_utf8(export.finish().unwrap()).unwrap();
        assert_eq!(
            text,
            "# TYPE squall_time_seconds histogram\n# UNIT squall_time_seconds seconds\n\
             # HELP squall_time_seconds Time.\n\
             squall_time_seconds_bucket{variant=\"a \\\"b\\\"\\n\\\\\",le=\"+Inf\"} 7\n\
             squall_time_seconds_sum 0.25\n# EOF\n"
        );
    }
}

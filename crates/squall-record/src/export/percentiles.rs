//! HdrHistogram's percentile distribution, `.hgrm`: the layout of wrk2 and HdrHistogram_c (`hdr_percentiles_print` with
//! 5 ticks per half distance), which HdrHistogram's plotter reads.
//!
//! The last line is squall's addition: a comment with the unit and the counts of given-up and failed requests.
//! `histogram` counts them.

use std::io::Write;

use hdrhistogram::Histogram;
use squall_base::record::RequestRecord;

use super::histogram::{DIGITS, NS_PER_MS, OutcomeCounts, empty, record};
use super::{ExportError, Lines, measured};

const TICKS_PER_HALF_DISTANCE: u32 = 5;

/// Writes the response times of measured requests as a distribution in milliseconds. Only `finish` writes anything.
#[derive(Debug)]
pub struct PercentileExport<W> {
    lines: Lines<W>,
    histogram: Histogram<u64>,
    counts: OutcomeCounts,
}

impl<W: Write> PercentileExport<W> {
    /// Creates the export; nothing is written before `finish`.
    pub fn new(writer: W) -> PercentileExport<W> {
        PercentileExport {
            lines: Lines::new("percentile distribution", writer),
            histogram: empty(),
            counts: OutcomeCounts::default(),
        }
    }

    /// Counts more requests.
    pub fn append(&mut self, rows: &[RequestRecord]) -> Result<(), ExportError> {
        for nanos in measured(rows).filter_map(|row| self.counts.count(row)) {
            record(&mut self.histogram, nanos);
        }
        Ok(())
    }

    /// Writes the distribution and returns the writer.
    pub fn finish(mut self) -> Result<W, ExportError> {
        let lines = &mut self.lines;
        lines.add(format_args!(
            "{:>12} {:>12} {:>12} {:>12}\n\n",
            "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
        ))?;
        let mut total = 0;
        for step in self.histogram.iter_quantiles(TICKS_PER_HALF_DISTANCE) {
            total += step.count_since_last_iteration();
            let value_ms = step.value_iterated_to() as f64 / NS_PER_MS;
            let quantile = step.quantile_iterated_to();
            // Infinite for the last line; C prints `inf` too.
            let inverted = 1.0 / (1.0 - quantile);
            lines.add(format_args!(
                "{value_ms:12.3} {quantile:12.6} {total:12} {inverted:12.2}\n"
            ))?;
        }
        self.footer()?;
        self.lines.finish()
    }

    fn footer(&mut self) -> Result<(), ExportError> {
        let (histogram, counts) = (&self.histogram, self.counts);
        let ms = |nanos: f64| nanos / NS_PER_MS;
        // HdrHistogram's own size: the next power of two that distinguishes 2 x 10^digits values.
        let sub_buckets = (2 * 10_u32.pow(DIGITS.into())).next_power_of_two();
        self.lines.add(format_args!(
            "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]\n\
             #[Max     = {:12.3}, Total count    = {:12}]\n\
             #[Buckets = {:12}, SubBuckets     = {sub_buckets:12}]\n\
             #[Unit    = ms, response time from the intended start; {} answered, {} given up (in it with a lower bound), \
             {} failed (not in it)]\n",
            ms(histogram.mean()),
            ms(histogram.stdev()),
            ms(histogram.max() as f64),
            histogram.len(),
            histogram.buckets(),
            counts.answered,
            counts.censored,
            counts.failed,
        ))
    }
}

//! The visible part of a plot, as a query describes it: times, latencies, and the size of the plot in pixels.
//!
//! Times count from the first arrival of the load, in microseconds, as everywhere on the page. Nothing is drawn here.

use std::collections::BTreeMap;
use std::str::FromStr;

/// More columns and rows of pixels than a plot has on any screen.
const COLUMNS_AT_MOST: usize = 4_096;
const ROWS_AT_MOST: usize = 1_024;

/// A time span of a trial, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its start.
    pub from_us: u64,
    /// Its end, not before its start.
    pub to_us: u64,
}

impl Span {
    /// Reads `from_us` and `to_us`.
    ///
    /// # Errors
    /// What is wrong, in a sentence.
    pub fn parse(query: &str) -> Result<Span, String> {
        Span::of(&keys(query)?)
    }

    fn of(keys: &BTreeMap<&str, &str>) -> Result<Span, String> {
        let span = Span {
            from_us: number(keys, "from_us")?,
            to_us: number(keys, "to_us")?,
        };
        if span.from_us > span.to_us {
            return Err("from_us is after to_us".to_owned());
        }
        Ok(span)
    }

    /// The rows within this time, of rows that are sorted by time. Both ends are found by binary search.
    pub(super) fn part<T>(self, rows: &[T], at_us: impl Fn(&T) -> u64) -> &[T] {
        let from = rows.partition_point(|row| at_us(row) < self.from_us);
        let to = rows.partition_point(|row| at_us(row) <= self.to_us);
        &rows[from..to]
    }

    /// The column of a time, if the span is that many columns wide.
    fn column(self, at_us: u64, columns: usize) -> usize {
        let since = at_us.saturating_sub(self.from_us);
        let share = since as f64 / (self.to_us - self.from_us).max(1) as f64;
        place(share, columns)
    }
}

/// The visible part of a plot of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Region {
    /// When its requests were due.
    pub time: Span,
    low_us: u32,
    high_us: u32,
    /// The size of the plot in pixels, at least one in each direction.
    columns: usize,
    rows: usize,
    is_logarithmic: bool,
}

impl Region {
    /// Reads `from_us`, `to_us`, `low_us`, `high_us`, `columns`, `rows` and `scale` (`linear` or `log`).
    ///
    /// # Errors
    /// What is wrong, in a sentence.
    pub fn parse(query: &str) -> Result<Region, String> {
        let keys = keys(query)?;
        let within = |name: &str, most: usize| -> Result<usize, String> {
            match number::<usize>(&keys, name)? {
                count if (1..=most).contains(&count) => Ok(count),
                count => Err(format!("{name} is {count}; it can be 1 to {most}")),
            }
        };
        let region = Region {
            time: Span::of(&keys)?,
            low_us: number(&keys, "low_us")?,
            high_us: number(&keys, "high_us")?,
            columns: within("columns", COLUMNS_AT_MOST)?,
            rows: within("rows", ROWS_AT_MOST)?,
            is_logarithmic: match keys.get("scale").copied() {
                Some("log") => true,
                Some("linear") => false,
                _ => return Err("scale must be linear or log".to_owned()),
            },
        };
        if region.low_us > region.high_us {
            return Err("low_us is above high_us".to_owned());
        }
        Ok(region)
    }

    /// Whether a latency is in the region.
    pub(super) fn has_latency(&self, latency_us: u32) -> bool {
        (self.low_us..=self.high_us).contains(&latency_us)
    }

    /// Whether a band from this latency upwards reaches into the region.
    pub(super) fn has_any_above(&self, latency_us: u32) -> bool {
        latency_us <= self.high_us
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    pub(super) fn cells(&self) -> usize {
        self.columns * self.rows
    }

    /// The column of pixels for a time in the region.
    pub(super) fn column(&self, at_us: u64) -> usize {
        self.time.column(at_us, self.columns)
    }

    /// The pixel for a time and a latency in the region; a latency below the region is in the lowest row.
    pub(super) fn cell(&self, at_us: u64, latency_us: u32) -> usize {
        let scaled = |us: u32| {
            if self.is_logarithmic {
                f64::from(us.max(1)).ln()
            } else {
                f64::from(us)
            }
        };
        let (low, high) = (scaled(self.low_us), scaled(self.high_us));
        let share = (scaled(latency_us) - low) / (high - low).max(f64::MIN_POSITIVE);
        place(share, self.rows) * self.columns + self.column(at_us)
    }
}

/// The place of a share, from 0 to 1, among `count` places.
fn place(share: f64, count: usize) -> usize {
    // Negative and undefined shares become 0.
    let place = (share * count as f64) as usize;
    place.min(count - 1)
}

/// The keys and values of a query. None of the values here needs percent-encoding.
fn keys(query: &str) -> Result<BTreeMap<&str, &str>, String> {
    let mut keys = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) =
            (pair.split_once('=')).ok_or_else(|| format!("{pair:?} has no value"))?;
        if keys.insert(key, value).is_some() {
            return Err(format!("{key:?} occurs twice"));
        }
    }
    Ok(keys)
}

fn number<T: FromStr>(keys: &BTreeMap<&str, &str>, name: &str) -> Result<T, String> {
    let value = (keys.get(name)).ok_or_else(|| format!("the query has no {name}"))?;
    (value.parse()).map_err(|_| format!("{name} is {value:?}, which is not a valid number"))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const QUERY: &str = "from_us=1000&to_us=2000&low_us=0&high_us=100&columns=10&rows=4";

    #[test]
    fn pixels_are_counted_from_the_bottom_left() {
        let region = Region::parse(&format!("{QUERY}&scale=linear")).unwrap();
        assert_eq!(region.cells(), 40);
        assert_eq!(region.cell(1_000, 0), 0);
        assert_eq!(region.cell(1_999, 0), 9);
        // The far ends belong to the last pixels.
        assert_eq!(region.cell(2_000, 100), 39);
        assert_eq!(region.cell(1_000, 50), 20);
    }

    #[test]
    fn rows_of_a_logarithmic_axis_have_equal_ratios() {
        let query = QUERY
            .replace("low_us=0", "low_us=1")
            .replace("high_us=100", "high_us=10000");
        let region = Region::parse(&format!("{query}&scale=log")).unwrap();
        let rows = [1, 11, 101, 1_001, 10_000].map(|us| region.cell(1_000, us) / 10);
        assert_eq!(rows, [0, 1, 2, 3, 3]);
    }

    #[test]
    fn rows_of_a_time_span_are_found_by_looking_at_few_of_two_million() {
        let rows: Vec<u64> = (0..2_000_000).map(|n| n * 50).collect();
        for (from_us, to_us, count) in [
            (0, u64::MAX, 2_000_000),
            (40_000_000, 40_999_999, 20_000),
            (40_000_000, 40_009_999, 200),
            (40_000_010, 40_000_020, 0),
            (u64::MAX, u64::MAX, 0),
        ] {
            let looked_at = Cell::new(0);
            let at_us = |row: &u64| {
                looked_at.set(looked_at.get() + 1);
                *row
            };
            let part = Span { from_us, to_us }.part(&rows, at_us);
            assert_eq!(part.len(), count, "{from_us} to {to_us}");
            // Binary search for each end, in at most 2^21 rows.
            assert!(looked_at.get() <= 2 * 22, "{}", looked_at.get());
        }
    }

    #[test]
    fn region_without_height_or_length_is_one_pixel() {
        let query = "from_us=5&to_us=5&low_us=7&high_us=7&columns=3&rows=3&scale=log";
        let region = Region::parse(query).unwrap();
        assert_eq!(region.cell(5, 7), 0);
    }

    #[test]
    fn mistakes_in_a_query_are_named() {
        let linear = format!("{QUERY}&scale=linear");
        for (query, said) in [
            (QUERY.to_owned(), "scale must be linear or log"),
            (
                linear.replace("rows=4", "rows=0"),
                "rows is 0; it can be 1 to 1024",
            ),
            (
                linear.replace("rows=4", "rows=-1"),
                "rows is \"-1\", which is not a valid number",
            ),
            (
                linear.replace("to_us=2000", "to_us=1"),
                "from_us is after to_us",
            ),
            (linear.replace("&low_us=0", ""), "the query has no low_us"),
            (format!("{linear}&rows=4"), "\"rows\" occurs twice"),
            (format!("{linear}&x"), "\"x\" has no value"),
        ] {
            assert_eq!(Region::parse(&query).unwrap_err(), said, "{query}");
        }
        assert_eq!(
            Span::parse("from_us=1").unwrap_err(),
            "the query has no to_us"
        );
    }
}

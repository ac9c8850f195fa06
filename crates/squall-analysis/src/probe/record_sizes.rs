//! How large a server's TLS records are over a download: always the same, or small at first and then large, as nghttpx,
//! HAProxy and Go's crypto/tls may send them so that the first one can be decrypted sooner.
//!
//! Sizes are those of the plaintext. Nothing is judged: `detect` says whether records are too small.

use serde::Serialize;
use squall_base::Time;
use squall_base::plan::Version;

use super::observed::{Observations, ReceivedRecord, Step, StepKind, version_name};

/// The TLS records of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RecordSizes {
    /// The version that was downloaded over.
    pub version: &'static str,
    /// Bytes of the largest record.
    pub largest_bytes: u64,
    /// The records at the beginning of the connection, if they were smaller.
    pub first: Option<FirstRecords>,
    /// Whether they were small again after the connection was idle; `None` if that was not seen.
    pub small_after_pause: Option<bool>,
}

/// The smaller records before the first large one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FirstRecords {
    /// Their bytes all together.
    pub bytes: u64,
    /// Bytes of the middle one.
    pub record_bytes: u64,
}

/// The minimum size of a download whose records are judged.
const BYTES_AT_LEAST: u64 = 200_000;
/// Fewer records, or fewer bytes in them, may be SETTINGS and a head rather than small records.
const SMALL_RECORDS_AT_LEAST: usize = 4;
const SMALL_BYTES_AT_LEAST: u64 = 8_192;

impl RecordSizes {
    /// One for each version whose downloads were long enough.
    pub(super) fn all(seen: &Observations) -> Vec<RecordSizes> {
        let versions = [Version::Http1, Version::Http2].into_iter();
        versions
            .filter_map(|version| RecordSizes::of(seen, version))
            .collect()
    }

    /// The sizes over the first long download of a version.
    fn of(seen: &Observations, version: Version) -> Option<RecordSizes> {
        let downloads = seen.steps_of(StepKind::Download, version);
        let mut sizes = downloads.map(|step| bytes_of(&step.records));
        let sizes = sizes.find(|sizes| sizes.iter().sum::<u64>() >= BYTES_AT_LEAST)?;
        let largest_bytes = sizes.iter().copied().max()?;
        let first = FirstRecords::of(&sizes, largest_bytes);
        let mut pauses = seen.steps_of(StepKind::Idle, version);
        let small_after_pause =
            first.and_then(|_| pauses.find_map(|step| is_small_after_pause(step, largest_bytes)));
        Some(RecordSizes {
            version: version_name(version),
            largest_bytes,
            first,
            small_after_pause,
        })
    }
}

impl FirstRecords {
    /// The records before the first large one; `None` if they are few, nearly as large, or not followed by large ones.
    fn of(sizes: &[u64], largest: u64) -> Option<FirstRecords> {
        let small = before_large(sizes, largest);
        let rest = &sizes[small.len()..];
        let large = rest.iter().filter(|bytes| is_large(**bytes, largest));
        let is_mostly_large = 2 * large.sum::<u64>() >= rest.iter().sum::<u64>();
        let mut sorted = small.to_vec();
        sorted.sort_unstable();
        let record_bytes = *sorted.get(sorted.len() / 2)?;
        let is_smaller = 5 * record_bytes <= 3 * largest;
        (are_many(small) && is_smaller && is_mostly_large).then(|| FirstRecords {
            bytes: small.iter().sum(),
            record_bytes,
        })
    }
}

/// Whether records were small again after the pause of this step; `None` if none had been large before it, or too little came
/// after it.
fn is_small_after_pause(step: &Step, largest: u64) -> Option<bool> {
    let resumed: Time = step.of(2)?.written_last?;
    let place = step.records.partition_point(|it| it.time <= resumed);
    let (before, after) = step.records.split_at(place);
    let after = bytes_of(after);
    let was_large = before.iter().any(|it| is_large(it.bytes, largest));
    if !was_large || after.iter().sum::<u64>() < SMALL_BYTES_AT_LEAST {
        return None;
    }
    Some(are_many(before_large(&after, largest)))
}

fn bytes_of(records: &[ReceivedRecord]) -> Vec<u64> {
    records.iter().map(|record| record.bytes).collect()
}

/// Whether a record has at least three quarters of the largest one's bytes.
fn is_large(bytes: u64, largest: u64) -> bool {
    4 * bytes >= 3 * largest
}

/// The records before the first large one.
fn before_large(sizes: &[u64], largest: u64) -> &[u64] {
    let count = sizes.iter().take_while(|bytes| !is_large(**bytes, largest));
    &sizes[..count.count()]
}

fn are_many(small: &[u64]) -> bool {
    small.len() >= SMALL_RECORDS_AT_LEAST && small.iter().sum::<u64>() >= SMALL_BYTES_AT_LEAST
}

#[cfg(test)]
mod tests {
    use super::super::made::{at_us, request, step};
    use super::*;

    /// Records with these sizes, one each microsecond from `begun_us` on.
    fn records(begun_us: u64, sizes: impl IntoIterator<Item = u64>) -> Vec<ReceivedRecord> {
        let times = (begun_us..).map(at_us);
        times
            .zip(sizes)
            .map(|(time, bytes)| ReceivedRecord { time, bytes })
            .collect()
    }

    /// Records of one size.
    fn equal(count: usize, bytes: u64) -> impl Iterator<Item = u64> + Clone {
        std::iter::repeat_n(bytes, count)
    }

    fn found(sizes: impl IntoIterator<Item = u64>) -> Option<RecordSizes> {
        let mut seen = Observations::default();
        let mut made = step(StepKind::Download, Version::Http2);
        made.records = records(0, sizes);
        seen.steps.push(made);
        RecordSizes::all(&seen).pop()
    }

    #[test]
    fn records_that_grow_are_told_from_records_of_one_size() {
        let warm = equal(20, 16_384);
        let first = |sizes| found(sizes).expect("enough bytes").first;
        // nghttpx: small ones, and between them frames by themselves.
        let small = (0..100).flat_map(|_| [1_300, 1_300, 9]);
        let sizes: Vec<u64> = small.chain(warm.clone()).collect();
        let expected = FirstRecords {
            bytes: 100 * 2_609,
            record_bytes: 1_300,
        };
        assert_eq!(first(sizes), Some(expected));
        // Go: each record is one segment larger than the one before.
        let growing = (3..=13).map(|n| 1_186 * n);
        let sizes: Vec<u64> = growing.chain(warm.clone()).collect();
        let found = first(sizes).expect("they grow");
        assert_eq!(found.bytes, (3..=10_u64).map(|n| 1_186 * n).sum::<u64>());
        // SETTINGS and a head, and then large records with the rest of a frame between them.
        let alternating = (0..20).flat_map(|_| [16_384, 9]);
        let sizes: Vec<u64> = [60, 9, 13, 300].into_iter().chain(alternating).collect();
        assert_eq!(first(sizes), None);
        assert_eq!(first(equal(400, 1_300).collect()), None, "small throughout");
        // Large records are rare here: the sizes vary.
        let varied = (0..50).flat_map(|_| [3_000, 2_000, 4_000, 3_500]);
        let sizes: Vec<u64> = varied.clone().chain([16_384]).chain(varied).collect();
        assert_eq!(first(sizes), None);
    }

    #[test]
    fn short_downloads_say_nothing_about_records() {
        assert_eq!(found(equal(100, 1_300)), None);
        assert_eq!(found([]), None);
    }

    #[test]
    fn records_after_a_pause_are_compared_with_those_before_it() {
        let sizes: Vec<u64> = equal(50, 1_300).chain(equal(20, 16_384)).collect();
        let after_pause = |late: Vec<u64>| {
            let mut seen = Observations::default();
            let mut made = step(StepKind::Download, Version::Http2);
            made.records = records(0, sizes.clone());
            let mut idle = step(StepKind::Idle, Version::Http2);
            idle.requests.push(request(2, 1_000_000, 10_000));
            idle.records = records(0, sizes.clone());
            idle.records.extend(records(1_001_000, late));
            seen.steps.extend([made, idle]);
            RecordSizes::all(&seen)[0].small_after_pause
        };
        assert_eq!(after_pause(sizes.clone()), Some(true));
        assert_eq!(after_pause(equal(20, 16_384).collect()), Some(false));
        assert_eq!(after_pause(Vec::new()), None);
    }
}

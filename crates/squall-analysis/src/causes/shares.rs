//! What the time of a run's requests was spent on, by how slow they were: the cause bars of the reports.
//!
//! The bands are ranks among each trial's own measured requests. The valid trials of a cell are combined by adding up the
//! times of each band; percentiles are never combined. A request that failed or never finished counts with the time until
//! its end. squall-report draws the bars.

use serde::{Deserialize, Serialize};
use squall_base::Duration;
use squall_base::plan::{Condition, Plan};
use squall_base::record::{CauseSpans, CausesRecord, Phase, RequestRecord, TrialRecord, Validity};

use super::course::CauseTime;

/// A band of a trial's requests, by response time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// Its name.
    pub name: &'static str,
    /// Its first thousandth of the requests, counted from the fastest.
    from: u64,
    /// One past its last thousandth.
    to: u64,
}

/// All requests, then bands without gaps or overlaps from the fastest to the slowest.
pub const BANDS: [Band; 5] = [
    band("all", 0, 1_000),
    band("fastest half", 0, 500),
    band("50 to 90 %", 500, 900),
    band("90 to 99 %", 900, 990),
    band("slowest 1 %", 990, 1_000),
];

const fn band(name: &'static str, from: u64, to: u64) -> Band {
    Band { name, from, to }
}

/// The time of some requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BandTime {
    /// How many requests.
    pub requests: u64,
    /// Their time, by cause.
    pub spans: CauseSpans,
    /// The part of it that was spent in queues, by what the requests ahead waited for.
    pub queue_roots: CauseSpans,
}

impl BandTime {
    fn add(&mut self, other: &BandTime) {
        self.requests += other.requests;
        self.spans = self.spans.plus(&other.spans);
        self.queue_roots = self.queue_roots.plus(&other.queue_roots);
    }

    /// The non-empty causes, the largest first.
    pub fn shares(&self) -> Vec<CauseTime> {
        CauseTime::of(&self.spans)
    }

    /// What the time in queues was spent on by the requests ahead, the largest first; `queue` here means unknown.
    pub fn queue_shares(&self) -> Vec<CauseTime> {
        CauseTime::of(&self.queue_roots)
    }
}

/// One trial's time in all bands.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialBandTimes {
    variant: String,
    condition: Condition,
    is_valid: bool,
    bands: [BandTime; BANDS.len()],
}

impl TrialBandTimes {
    /// From a trial whose `causes` have a row for each of its `requests`; rows of other requests are left out.
    pub fn of(
        record: &TrialRecord,
        requests: &[RequestRecord],
        causes: &[CausesRecord],
    ) -> TrialBandTimes {
        let rows: std::collections::BTreeMap<u64, &CausesRecord> =
            causes.iter().map(|row| (row.request, row)).collect();
        let measured = requests.iter().filter(|row| row.phase == Phase::Measure);
        let mut measured: Vec<(Duration, u64, &CausesRecord)> = measured
            .filter_map(|row| Some((row.response_time(), row.request, *rows.get(&row.request)?)))
            .collect();
        measured.sort_by_key(|(latency, request, _)| (*latency, *request));
        let count = measured.len() as u64;
        let bands = BANDS.map(|band| {
            let place = |thousandth: u64| (count * thousandth / 1_000) as usize;
            let mut time = BandTime::default();
            for (_, _, row) in &measured[place(band.from)..place(band.to)] {
                time.add(&BandTime {
                    requests: 1,
                    spans: row.spans,
                    queue_roots: row.queue_roots,
                });
            }
            time
        });
        TrialBandTimes {
            variant: record.trial.variant.name.clone(),
            condition: record.trial.condition.clone(),
            is_valid: record.health.validity == Validity::Valid,
            // Below a hundred requests, there is no slowest hundredth.
            bands: if count < 100 {
                without_last(bands)
            } else {
                bands
            },
        }
    }
}

/// Merges the last band into the one before it.
fn without_last(mut bands: [BandTime; BANDS.len()]) -> [BandTime; BANDS.len()] {
    let last = std::mem::take(&mut bands[BANDS.len() - 1]);
    bands[BANDS.len() - 2].add(&last);
    bands
}

/// A cell's time, added up over its valid trials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "CellJson", try_from = "CellJson")]
pub struct CellBandTimes {
    /// The variant's name.
    pub variant: String,
    /// By band, in the order of [`BANDS`].
    pub bands: [BandTime; BANDS.len()],
}

/// Where the time of a run went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunBandTimes {
    /// By condition in the plan's order: the cells that have valid trials with known causes, in the order of variants.
    pub conditions: Vec<Vec<CellBandTimes>>,
}

impl RunBandTimes {
    /// The cells of one condition of the plan.
    pub fn of_condition(&self, place: usize) -> &[CellBandTimes] {
        self.conditions.get(place).map_or(&[], Vec::as_slice)
    }

    /// Adds up the trials of a run by cell.
    pub fn of(plan: &Plan, trials: &[TrialBandTimes]) -> RunBandTimes {
        let cell = |condition: &Condition, variant: &str| {
            let mut own = trials.iter().filter(|trial| {
                trial.is_valid && trial.variant == variant && trial.condition == *condition
            });
            let mut bands = own.next()?.bands;
            for trial in own {
                for (band, more) in bands.iter_mut().zip(&trial.bands) {
                    band.add(more);
                }
            }
            Some(CellBandTimes {
                variant: variant.to_owned(),
                bands,
            })
        };
        let conditions = plan.conditions.iter().map(|condition| {
            let variants = plan.variants.iter();
            variants
                .filter_map(|variant| cell(condition, &variant.name))
                .collect()
        });
        RunBandTimes {
            conditions: conditions.collect(),
        }
    }
}

/// A cell in JSON: its bands with their causes by name.
#[derive(Serialize, Deserialize)]
struct CellJson {
    variant: String,
    bands: Vec<BandJson>,
}

#[derive(Serialize, Deserialize)]
struct BandJson {
    band: String,
    requests: u64,
    causes: Vec<CauseTime>,
    queue_behind: Vec<CauseTime>,
}

impl From<CellBandTimes> for CellJson {
    fn from(cell: CellBandTimes) -> CellJson {
        let bands = BANDS.iter().zip(&cell.bands);
        CellJson {
            variant: cell.variant,
            bands: bands
                .map(|(band, time)| BandJson {
                    band: band.name.to_owned(),
                    requests: time.requests,
                    causes: time.shares(),
                    queue_behind: time.queue_shares(),
                })
                .collect(),
        }
    }
}

impl TryFrom<CellJson> for CellBandTimes {
    type Error = String;

    fn try_from(cell: CellJson) -> Result<CellBandTimes, String> {
        let mut bands = [BandTime::default(); BANDS.len()];
        for (band, time) in BANDS.iter().zip(&mut bands) {
            let read = cell.bands.iter().find(|read| read.band == band.name);
            let read = read.ok_or_else(|| format!("no band `{}`", band.name))?;
            *time = BandTime {
                requests: read.requests,
                spans: CauseTime::spans(&read.causes),
                queue_roots: CauseTime::spans(&read.queue_behind),
            };
        }
        Ok(CellBandTimes {
            variant: cell.variant,
            bands,
        })
    }
}

#[cfg(test)]
mod tests {
    use squall_base::record::Cause;

    use super::*;

    #[test]
    fn a_cell_is_read_as_it_was_written() {
        let mut bands = [BandTime::default(); BANDS.len()];
        for (place, band) in bands.iter_mut().enumerate() {
            band.requests = place as u64;
            band.spans[Cause::Queue] = Duration::from_millis(5);
            band.spans[Cause::Hol] = Duration::from_millis(place as u64);
            band.queue_roots[Cause::Cwnd] = Duration::from_millis(5);
        }
        let cell = CellBandTimes {
            variant: "x1".to_owned(),
            bands,
        };
        let json = serde_json::to_string(&cell).unwrap();
        assert_eq!(serde_json::from_str::<CellBandTimes>(&json).unwrap(), cell);
        let unknown = json.replace("\"cwnd\"", "\"weather\"");
        let error = serde_json::from_str::<CellBandTimes>(&unknown).unwrap_err();
        assert!(
            error.to_string().contains("unknown cause `weather`"),
            "{error}"
        );
    }

    #[test]
    fn bands_have_no_gaps() {
        assert_eq!((BANDS[0].from, BANDS[0].to), (0, 1_000));
        let rest = &BANDS[1..];
        assert_eq!((rest[0].from, rest[rest.len() - 1].to), (0, 1_000));
        assert!(rest.windows(2).all(|pair| pair[0].to == pair[1].from));
    }
}

//! Compares several probes of one endpoint, each behind a link with a different value of one condition: the figures of each
//! version over that condition, and where one version overtakes another.
//!
//! A probe's figures are the middle ones of its rounds. There is one probe for each value, so a version counts as faster
//! only by more than a tenth. Nothing is probed here: `probe/sweep.rs` of the binary runs the probes.

use serde::{Deserialize, Serialize};
use squall_base::Duration;

use super::spans::median;
use crate::figure;
use crate::summary::Schema;

/// A version is ahead if all others are worse by more than this share.
const MARGIN: f64 = 0.1;
/// A window has grown if it is larger by this factor. Less can be chance.
const GROWTH: f64 = 1.5;

/// The probes of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sweep {
    /// The name and version of this format.
    pub schema: Schema,
    /// The URL.
    pub url: String,
    /// The condition that differs: `delay`, `jitter`, `loss` or `rate`.
    pub condition: String,
    /// Which version is ahead at which values, in one sentence.
    pub crossover: String,
    /// Whether the stream's window of uploads over HTTP/2 grew with the round trip, in one sentence; `None` unless it is known
    /// for at least two delays.
    pub upload_window: Option<String>,
    /// The probes, in the order of their values.
    pub points: Vec<SweepPoint>,
}

/// A probe at one value of the condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepPoint {
    /// The value, as in settings of links: `20ms`.
    pub value: String,
    /// All settings of the link.
    pub link: String,
    /// The verdict in a few words, or why the probe gave no result.
    pub headline: String,
    /// Whether nothing was found to be wrong.
    pub is_sound: bool,
    /// The shortest round trip that was seen.
    #[serde(rename = "round_trip_ns")]
    pub round_trip: Option<Duration>,
    /// The largest window of the stream that an upload over HTTP/2 had; `None` if none needed an update.
    pub largest_stream_bytes: Option<u64>,
    /// The figures of each version that was tried.
    pub versions: Vec<SweepFigures>,
}

/// The figures of a version at one value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepFigures {
    /// Its name.
    pub version: String,
    /// Why it cannot be used, if it cannot.
    pub problem: Option<String>,
    /// From the beginning of a fresh connection to the first byte of its first response.
    #[serde(rename = "first_byte_ns")]
    pub first_byte: Option<Duration>,
    /// The middle rate of downloads.
    pub download_bytes_per_s: Option<f64>,
    /// The middle rate of uploads.
    pub upload_bytes_per_s: Option<f64>,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepMeasure {
    /// The time to the first byte.
    FirstByte,
    /// The rate of downloads.
    Download,
    /// The rate of uploads.
    Upload,
}

/// The part of a probe's JSON that a sweep needs.
#[derive(Clone, Debug, Deserialize)]
pub struct ProbeResult {
    verdict: VerdictPart,
    endpoint: EndpointPart,
}

#[derive(Clone, Debug, Deserialize)]
struct VerdictPart {
    is_sound: bool,
    headline: String,
}

#[derive(Clone, Debug, Deserialize)]
struct EndpointPart {
    #[serde(rename = "round_trip_ns")]
    round_trip: Option<Duration>,
    upload_windows: Option<WindowsPart>,
    versions: Vec<VersionPart>,
}

#[derive(Clone, Debug, Deserialize)]
struct WindowsPart {
    largest_stream_bytes: u64,
    updates: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct VersionPart {
    version: String,
    problem: Option<String>,
    latency: LatencyPart,
    download: RatesPart,
    uploads: Vec<UploadPart>,
}

#[derive(Clone, Debug, Deserialize)]
struct LatencyPart {
    #[serde(rename = "first_ns")]
    first: Option<Duration>,
}

#[derive(Clone, Debug, Deserialize)]
struct RatesPart {
    bytes_per_s: Vec<f64>,
}

#[derive(Clone, Debug, Deserialize)]
struct UploadPart {
    bytes: u64,
    #[serde(rename = "took_ns")]
    took: Duration,
}

impl SweepPoint {
    /// The point of a probe behind this link.
    pub fn of(value: String, link: String, result: ProbeResult) -> SweepPoint {
        let ProbeResult { verdict, endpoint } = result;
        SweepPoint {
            value,
            link,
            headline: verdict.headline,
            is_sound: verdict.is_sound,
            round_trip: endpoint.round_trip,
            largest_stream_bytes: (endpoint.upload_windows)
                .filter(|windows| windows.updates > 0)
                .map(|windows| windows.largest_stream_bytes),
            versions: (endpoint.versions.into_iter())
                .map(VersionPart::figures)
                .collect(),
        }
    }

    /// The point of a probe that ended without a result.
    pub fn failed(value: String, link: String, why: String) -> SweepPoint {
        SweepPoint {
            value,
            link,
            headline: why,
            is_sound: false,
            round_trip: None,
            largest_stream_bytes: None,
            versions: Vec::new(),
        }
    }

    /// A figure of a version; `None` if it is not known.
    pub fn figure(&self, version: &str, measure: SweepMeasure) -> Option<f64> {
        let mut versions = self.versions.iter();
        let figures = versions.find(|figures| figures.version == version)?;
        measure.of(figures)
    }
}

impl VersionPart {
    fn figures(self) -> SweepFigures {
        let uploads = self.uploads.iter();
        let uploads: Vec<f64> = uploads
            .map(|upload| upload.bytes as f64 / upload.took.as_secs_f64().max(1e-9))
            .collect();
        SweepFigures {
            version: self.version,
            problem: self.problem,
            first_byte: self.latency.first,
            download_bytes_per_s: median(&self.download.bytes_per_s),
            upload_bytes_per_s: median(&uploads),
        }
    }
}

impl SweepMeasure {
    /// All measures, those that a link changes most first.
    pub const ALL: [SweepMeasure; 3] = [
        SweepMeasure::Download,
        SweepMeasure::Upload,
        SweepMeasure::FirstByte,
    ];

    /// Its name within a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            SweepMeasure::FirstByte => "first byte",
            SweepMeasure::Download => "downloads",
            SweepMeasure::Upload => "uploads",
        }
    }

    /// The figure: seconds, or bytes per second.
    fn of(self, figures: &SweepFigures) -> Option<f64> {
        match self {
            SweepMeasure::FirstByte => figures.first_byte.map(Duration::as_secs_f64),
            SweepMeasure::Download => figures.download_bytes_per_s,
            SweepMeasure::Upload => figures.upload_bytes_per_s,
        }
    }

    /// How good a figure is: more is better.
    fn merit(self, figure: f64) -> f64 {
        match self {
            SweepMeasure::FirstByte => 1.0 / figure.max(1e-9),
            SweepMeasure::Download | SweepMeasure::Upload => figure,
        }
    }
}

impl Sweep {
    /// The sweep of these probes.
    pub fn of(url: String, condition: String, points: Vec<SweepPoint>) -> Sweep {
        Sweep {
            schema: Schema::new("squall.sweep", 1),
            crossover: crossover(&condition, &points),
            upload_window: upload_window(&condition, &points),
            url,
            condition,
            points,
        }
    }

    /// The names of all versions that were tried.
    pub fn versions(&self) -> Vec<&str> {
        versions(&self.points)
    }

    /// Whether any point has this figure.
    pub fn has(&self, measure: SweepMeasure) -> bool {
        let mut figures = self.points.iter().flat_map(|point| &point.versions);
        figures.any(|figures| measure.of(figures).is_some())
    }
}

/// Whether the stream's window of uploads over HTTP/2 grew with the delay.
fn upload_window(condition: &str, points: &[SweepPoint]) -> Option<String> {
    let known = points.iter();
    let known = known.filter_map(|point| Some((point.largest_stream_bytes?, point.value.as_str())));
    let known: Vec<(u64, &str)> = known.collect();
    let [(first, near), .., (last, far)] = known.as_slice() else {
        return None;
    };
    if condition != "delay" {
        return None;
    }
    let sizes = || known.iter().map(|(bytes, _)| *bytes);
    let (least, most) = (sizes().min()?, sizes().max()?);
    let is_larger = *last as f64 >= GROWTH * *first as f64;
    let never_shrinks = known.windows(2).all(|pair| pair[0].0 <= pair[1].0);
    Some(if is_larger && never_shrinks {
        format!(
            "The stream's window of uploads over HTTP/2 grows with the round trip: {} bytes at {near}, {} bytes at {far}.",
            figure::count(*first),
            figure::count(*last)
        )
    } else if least == most {
        format!(
            "The stream's window of uploads over HTTP/2 does not grow with the round trip: {} bytes at every delay.",
            figure::count(least)
        )
    } else {
        format!(
            "The stream's window of uploads over HTTP/2 does not grow with the round trip: {} to {} bytes.",
            figure::count(least),
            figure::count(most)
        )
    })
}

fn versions(points: &[SweepPoint]) -> Vec<&str> {
    let all = points.iter().flat_map(|point| &point.versions);
    let mut names: Vec<&str> = all.map(|figures| figures.version.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Which version is ahead at which values by every measure, in one sentence.
fn crossover(condition: &str, points: &[SweepPoint]) -> String {
    let said = SweepMeasure::ALL
        .into_iter()
        .filter_map(|measure| of_measure(measure, condition, points));
    let said: Vec<String> = said.collect();
    if said.is_empty() {
        return format!("No two versions have figures to compare over the {condition}.");
    }
    let said = said.join("; ");
    // The names of measures are ASCII.
    let (first, rest) = said.split_at(1);
    format!("{}{rest}.", first.to_uppercase())
}

/// Which version is ahead at which values; `None` without two versions at any point.
fn of_measure(measure: SweepMeasure, condition: &str, points: &[SweepPoint]) -> Option<String> {
    let leaders: Vec<Lead<'_>> = points
        .iter()
        .filter_map(|point| Lead::at(point, measure))
        .collect();
    if leaders.is_empty() {
        return None;
    }
    let name = measure.name();
    let mut stretches: Vec<(&str, &str, &str)> = Vec::new();
    for lead in &leaders {
        let Some(version) = lead.version else {
            continue;
        };
        match stretches.last_mut() {
            Some((ahead, _, to)) if *ahead == version => *to = lead.value,
            _ => stretches.push((version, lead.value, lead.value)),
        }
    }
    let is_always_led = leaders.iter().all(|lead| lead.version.is_some());
    Some(match stretches.as_slice() {
        [] => format!("{name}: no version is ahead by more than 10 % at any {condition}"),
        [(version, ..)] if is_always_led => {
            format!("{name}: {version} is fastest at every {condition}")
        }
        stretches => {
            let words = stretches.iter().map(|(version, from, to)| {
                if from == to {
                    format!("{version} is fastest at {from}")
                } else {
                    format!("{version} is fastest from {from} to {to}")
                }
            });
            let words: Vec<String> = words.collect();
            let rest = if is_always_led {
                ""
            } else {
                ", elsewhere no version is ahead by more than 10 %"
            };
            format!("{name}: {}{rest}", words.join(", "))
        }
    })
}

/// Which version is ahead at a value, if any is.
struct Lead<'a> {
    value: &'a str,
    version: Option<&'a str>,
}

impl<'a> Lead<'a> {
    fn at(point: &'a SweepPoint, measure: SweepMeasure) -> Option<Lead<'a>> {
        let figures = point.versions.iter();
        let mut merits: Vec<(f64, &str)> = figures
            .filter_map(|figures| {
                let merit = measure.merit(measure.of(figures)?);
                Some((merit, figures.version.as_str()))
            })
            .collect();
        merits.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        let [(best, version), (second, _), ..] = merits.as_slice() else {
            return None;
        };
        let is_ahead = *second < (1.0 - MARGIN) * best;
        Some(Lead {
            value: &point.value,
            version: is_ahead.then_some(*version),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A point at which the versions have these rates of downloads.
    fn point(value: &str, rates: &[(&str, f64)]) -> SweepPoint {
        let versions = rates.iter().map(|(version, rate)| SweepFigures {
            version: (*version).to_owned(),
            problem: None,
            first_byte: None,
            download_bytes_per_s: Some(*rate),
            upload_bytes_per_s: None,
        });
        SweepPoint {
            value: value.to_owned(),
            link: format!("delay {value}"),
            headline: "Nothing is wrong".to_owned(),
            is_sound: true,
            round_trip: None,
            largest_stream_bytes: None,
            versions: versions.collect(),
        }
    }

    fn sentence(points: Vec<SweepPoint>) -> String {
        Sweep::of("http://server/".to_owned(), "delay".to_owned(), points).crossover
    }

    #[test]
    fn version_that_overtakes_another_is_named_with_the_values() {
        let (one, three) = ("HTTP/1.1", "HTTP/3");
        let points = vec![
            point("10ms", &[(one, 100.0), (three, 60.0)]),
            point("20ms", &[(one, 80.0), (three, 60.0)]),
            point("50ms", &[(one, 52.0), (three, 50.0)]),
            point("100ms", &[(one, 20.0), (three, 45.0)]),
        ];
        assert_eq!(
            sentence(points),
            "Downloads: HTTP/1.1 is fastest from 10ms to 20ms, HTTP/3 is fastest at 100ms, elsewhere no version is ahead by more than 10 %."
        );
    }

    #[test]
    fn sweep_without_a_crossover_says_so() {
        let even = vec![point("10ms", &[("HTTP/1.1", 100.0), ("HTTP/2", 95.0)])];
        assert!(sentence(even).contains("no version is ahead by more than 10 %"));
        let led = vec![
            point("10ms", &[("HTTP/1.1", 100.0), ("HTTP/2", 50.0)]),
            point("20ms", &[("HTTP/1.1", 100.0), ("HTTP/2", 50.0)]),
        ];
        assert_eq!(
            sentence(led),
            "Downloads: HTTP/1.1 is fastest at every delay."
        );
        let only = vec![point("10ms", &[("HTTP/1.1", 100.0)])];
        assert!(sentence(only).starts_with("No two versions have figures"));
    }

    #[test]
    fn window_that_grows_with_the_delay_is_told_apart_from_a_fixed_one() {
        let said = |condition: &str, windows: &[(&str, Option<u64>)]| {
            let points = windows.iter().map(|(value, bytes)| SweepPoint {
                largest_stream_bytes: *bytes,
                ..point(value, &[])
            });
            let url = "http://server/".to_owned();
            Sweep::of(url, condition.to_owned(), points.collect()).upload_window
        };
        let grown = [
            ("10ms", Some(65_535)),
            ("20ms", None),
            ("100ms", Some(1 << 20)),
        ];
        assert_eq!(
            said("delay", &grown).as_deref(),
            Some(
                "The stream's window of uploads over HTTP/2 grows with the round trip: 65,535 bytes at 10ms, 1,048,576 bytes \
                 at 100ms."
            )
        );
        assert_eq!(said("loss", &grown), None);
        assert_eq!(said("delay", &grown[..2]), None);
        let fixed = said("delay", &[("10ms", Some(65_535)), ("100ms", Some(65_535))]);
        let fixed = fixed.expect("a sentence");
        assert!(fixed.ends_with("does not grow with the round trip: 65,535 bytes at every delay."));
        let other = said("delay", &[("10ms", Some(90_000)), ("100ms", Some(65_535))]);
        let other = other.expect("a sentence");
        assert!(other.ends_with("trip: 65,535 to 90,000 bytes."), "{other}");
    }

    #[test]
    fn point_has_the_middle_figures_of_a_probe() {
        let result = serde_json::json!({
            "verdict": { "is_sound": true, "headline": "Nothing is wrong", "sentence": "", "cause": "", "fix": "" },
            "faults": [],
            "endpoint": {
                "round_trip_ns": 20_000_000,
                "upload_windows": { "largest_stream_bytes": 65_535, "updates": 3 },
                "versions": [{
                    "version": "HTTP/2",
                    "problem": null,
                    "latency": { "first_ns": 60_000_000, "later_ns": 20_000_000, "handshake_ns": null },
                    "download": { "bytes_per_s": [1.0, 3.0, 2.0] },
                    "download_six": { "bytes_per_s": [] },
                    "uploads": [{ "bytes": 1_000_000, "took_ns": 500_000_000 }],
                }],
            },
        });
        let result: ProbeResult = serde_json::from_value(result).expect("a result");
        let point = SweepPoint::of("10ms".to_owned(), "delay 10ms".to_owned(), result);
        assert_eq!(point.largest_stream_bytes, Some(65_535));
        let figure = |measure| point.figure("HTTP/2", measure);
        assert_eq!(figure(SweepMeasure::Download), Some(2.0));
        assert_eq!(figure(SweepMeasure::Upload), Some(2_000_000.0));
        assert_eq!(figure(SweepMeasure::FirstByte), Some(0.06));
        assert_eq!(point.figure("HTTP/3", SweepMeasure::Download), None);
    }
}

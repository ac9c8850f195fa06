//! The rules about a version that carries bodies more slowly than others over the same path.
//!
//! Versions are compared only if both were measured in several rounds. A version is slow if its fastest round is far below the
//! slowest one of another version, so that no difference within the spread of the rounds counts. Uploads that wait for a
//! window, and downloads that this client holds up, are left to the rules of `detect_windows`.

use squall_base::Duration;
use squall_base::plan::Version;

use super::detect_windows;
use super::endpoint::{Endpoint, VersionFacts};
use super::fault::{Fault, Relevance};
use super::observed::{Step, StepKind, version_name};
use super::signs::{Case, Signs, quic_losses, rate};
use super::transfer::{Rates, Upload};
use crate::figure;

/// A version is slow below this share of another one's rate.
const RATIO: f64 = 0.6;
/// How much longer the slow version's transfer must take, in seconds.
const MORE: f64 = 0.1;
/// A version with fewer rounds is not compared.
const ROUNDS: usize = 2;

/// Which bodies are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bodies {
    Downloads,
    Uploads,
}

/// A version that is slower than another one, in bytes per second.
struct Slower {
    bodies: Bodies,
    version: Version,
    than: Version,
    /// The fastest round of the slow version.
    fastest: f64,
    /// The slowest round of the other version.
    slowest: f64,
    /// How much longer the slow version's transfer takes, in seconds.
    lost: f64,
}

pub(super) fn slow_http2(case: &Case<'_>) -> Option<Signs> {
    slow(case, Fault::SlowHttp2, Version::Http2, &[Version::Http1])
}

pub(super) fn slow_http3(case: &Case<'_>) -> Option<Signs> {
    let others = [Version::Http1, Version::Http2];
    slow(case, Fault::SlowHttp3, Version::Http3, &others)
}

fn slow(case: &Case<'_>, fault: Fault, version: Version, others: &[Version]) -> Option<Signs> {
    let all = [Bodies::Downloads, Bodies::Uploads].map(|bodies| {
        if is_explained(case, bodies, version) {
            return None;
        }
        let than = others.iter();
        let slower = than.filter_map(|other| Slower::of(case, bodies, version, *other));
        slower.max_by(|one, other| one.lost.total_cmp(&other.lost))
    });
    let mut all: Vec<Slower> = all.into_iter().flatten().collect();
    all.sort_by(|one, other| other.lost.total_cmp(&one.lost));
    let first = all.first()?;
    let mut evidence: Vec<String> = all.iter().map(Slower::rates).collect();
    if version == Version::Http3 {
        evidence.extend(of_quic(case.endpoint, first.bodies));
    }
    Some(Signs {
        fault,
        matters: Relevance::Here,
        sentence: first.sentence(),
        evidence,
        lost: Some(Duration::from_nanos((first.lost * 1e9).round() as u64)),
        per: match first.bodies {
            Bodies::Downloads => "download",
            Bodies::Uploads => "upload",
        },
    })
}

/// Whether another fault says why transfers over a version are slow, or this client is what makes them slow.
fn is_explained(case: &Case<'_>, bodies: Bodies, version: Version) -> bool {
    let is_here =
        |found: Option<Signs>| found.is_some_and(|signs| signs.matters == Relevance::Here);
    match (bodies, version) {
        (Bodies::Downloads, _) => {
            let facts = case.endpoint.version(version);
            facts.is_some_and(VersionFacts::is_held_up_here)
        }
        (Bodies::Uploads, Version::Http3) => is_here(detect_windows::quic_window(case)),
        (Bodies::Uploads, _) => {
            is_here(detect_windows::stream_window(case))
                || is_here(detect_windows::connection_window(case))
        }
    }
}

impl Slower {
    fn of(case: &Case<'_>, bodies: Bodies, version: Version, than: Version) -> Option<Slower> {
        let rates = |version| Some(bodies.rates(case.endpoint.version(version)?));
        let (own, other) = (rates(version)?, rates(than)?);
        if own.bytes_per_s.len().min(other.bytes_per_s.len()) < ROUNDS {
            return None;
        }
        let ((_, fastest), (slowest, _)) = (own.range()?, other.range()?);
        let bytes = bodies.bytes(case, version)? as f64;
        let lost = bytes / own.median()? - bytes / other.median()?;
        (fastest < RATIO * slowest && lost >= MORE).then_some(Slower {
            bodies,
            version,
            than,
            fastest,
            slowest,
            lost,
        })
    }

    fn sentence(&self) -> String {
        let [version, than] = [self.version, self.than].map(version_name);
        match self.bodies {
            Bodies::Downloads => format!(
                "Downloads over {version} are slower than over one connection of {than}, in every round."
            ),
            Bodies::Uploads => format!(
                "Uploads over {version} are slower than over one connection of {than}, in every round."
            ),
        }
    }

    /// The rates of both versions, as evidence.
    fn rates(&self) -> String {
        let [version, than] = [self.version, self.than].map(version_name);
        let [fastest, slowest] = [self.fastest, self.slowest].map(rate);
        match self.bodies {
            Bodies::Downloads => {
                format!(
                    "downloads: at most {fastest} over {version}, at least {slowest} over {than}"
                )
            }
            Bodies::Uploads => {
                format!("uploads: at most {fastest} over {version}, at least {slowest} over {than}")
            }
        }
    }
}

impl Bodies {
    fn rates(self, facts: &VersionFacts) -> Rates {
        match self {
            Bodies::Downloads => facts.download.clone(),
            Bodies::Uploads => Rates {
                bytes_per_s: facts.uploads.iter().map(Upload::bytes_per_s).collect(),
            },
        }
    }

    /// The size of the longest transfer over a version.
    fn bytes(self, case: &Case<'_>, version: Version) -> Option<u64> {
        match self {
            Bodies::Downloads => {
                let steps = case.seen.steps_of(StepKind::Download, version);
                steps.map(Step::body_bytes).max()
            }
            Bodies::Uploads => {
                let uploads = &case.endpoint.version(version)?.uploads;
                uploads.iter().map(|upload| upload.bytes).max()
            }
        }
    }
}

/// What is known of losses, windows and pacing over QUIC, each of which can make HTTP/3 slow.
fn of_quic(endpoint: &Endpoint, bodies: Bodies) -> Vec<String> {
    let Some(quic) = &endpoint.quic else {
        return Vec::new();
    };
    let mut evidence = if quic.lost + quic.late_frames + quic.dropped_here > 0 {
        quic_losses(quic)
    } else {
        vec!["no loss was seen over QUIC".to_owned()]
    };
    let pacing = endpoint.quic_transport.and_then(|quic| quic.pacing);
    match (bodies, &endpoint.upload_limits, pacing) {
        (Bodies::Uploads, Some(limits), _) => evidence.push(format!(
            "an upload waited {} for QUIC's flow control",
            figure::time(limits.blocked_by_stream.max(limits.blocked_by_connection))
        )),
        (Bodies::Uploads, None, _) => {
            evidence.push("no upload reached a limit of QUIC's flow control".to_owned());
        }
        (Bodies::Downloads, _, Some(pacing)) => evidence.push(format!(
            "{} of the first {} datagrams of a download came in bursts",
            figure::count(pacing.in_bursts),
            figure::count(pacing.datagrams)
        )),
        (Bodies::Downloads, _, None) => {}
    }
    evidence
}

#[cfg(test)]
mod tests {
    use squall_base::record::{QuicPath, Side, SocketRecord, SocketSample};

    use super::super::made::{at_us, download, healthy, ms, request, step};
    use super::super::{DetectedFault, Diagnosis, Observations};
    use super::*;

    const BYTES: u64 = 4_000_000;

    /// A healthy endpoint, whose downloads take 600 ms, plus downloads over HTTP/3 that take `took_ms`.
    fn with_downloads(took_ms: &[u64]) -> Observations {
        let mut seen = healthy(ms(30));
        for took in took_ms {
            let made = download(StepKind::Download, Version::Http3, BYTES, ms(*took));
            seen.steps.push(made);
        }
        seen
    }

    fn upload(version: Version, took: Duration) -> Step {
        let mut made = step(StepKind::Upload, version);
        let mut row = request(1, 1_000, took.as_nanos() / 1_000);
        row.request_body_bytes = BYTES;
        made.requests.push(row);
        made
    }

    fn faults(seen: &Observations) -> Vec<DetectedFault> {
        Diagnosis::of(seen).faults
    }

    #[test]
    fn slow_downloads_over_http3_are_found_if_every_round_shows_it() {
        assert_eq!(
            faults(&with_downloads(&[3_000])),
            [],
            "one round is not enough"
        );
        let found = faults(&with_downloads(&[3_000, 3_000]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].fault, Fault::SlowHttp3);
        assert_eq!(found[0].lost, Some(ms(2_400)));
        assert!(
            found[0]
                .sentence
                .starts_with("Downloads over HTTP/3 are slower than"),
            "{}",
            found[0].sentence
        );
        assert!(found[0].fix.contains("limits UDP"), "{}", found[0].fix);
    }

    #[test]
    fn faster_http3_and_differences_within_the_rounds_are_not_a_fault() {
        assert_eq!(faults(&with_downloads(&[600, 600, 600])), []);
        assert_eq!(faults(&with_downloads(&[300, 300, 300])), []);
        // The middle round is slow, but the fastest one is not.
        assert_eq!(faults(&with_downloads(&[3_000, 3_000, 700])), []);
    }

    #[test]
    fn slow_uploads_over_http3_are_found_by_comparison_with_http2() {
        let mut seen = healthy(ms(30));
        for _ in 0..2 {
            seen.steps.push(upload(Version::Http1, ms(500)));
            seen.steps.push(upload(Version::Http2, ms(400)));
            seen.steps.push(upload(Version::Http3, ms(400)));
        }
        assert_eq!(faults(&seen), []);
        for made in &mut seen.steps {
            if made.kind == StepKind::Upload && made.version == Version::Http3 {
                *made = upload(Version::Http3, ms(2_000));
            }
        }
        let found = faults(&seen);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].fault, found[0].per), (Fault::SlowHttp3, "upload"));
        // HTTP/2 was faster than HTTP/1.1.
        assert_eq!(found[0].lost, Some(ms(1_600)));
        assert!(found[0].sentence.contains("of HTTP/2, in every round"));
    }

    #[test]
    fn losses_over_quic_are_named_beside_the_rates() {
        let mut seen = with_downloads(&[3_000, 3_000]);
        let mut said = |lost| {
            let path = QuicPath {
                sent: 1_000,
                lost,
                recv: 2_000,
                ..QuicPath::default()
            };
            let made = seen.steps.last_mut().expect("a step");
            let sample = SocketSample::Quic(path);
            made.sockets = vec![SocketRecord {
                is_last: true,
                ..squall_made::socket(at_us(2_000_000), Side::Client, sample)
            }];
            faults(&seen)[0].evidence.join("; ")
        };
        let evidence = said(0);
        assert!(
            evidence.contains("no loss was seen over QUIC"),
            "{evidence}"
        );
        let evidence = said(4);
        assert!(evidence.contains("4 of 1,000 packets sent"), "{evidence}");
    }
}

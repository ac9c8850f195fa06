//! The rules about the windows that a server gives to uploads, and this client to downloads.
//!
//! A window that did not cost time here may still cost it at a longer round trip: one window per round trip is the
//! highest rate that flow control allows.

use squall_base::Duration;
use squall_base::plan::Version;

use super::endpoint::{Endpoint, VersionFacts};
use super::fault::{Fault, Relevance};
use super::observed::version_name;
use super::signs::{Case, Signs, rate};
use super::windows::{UpdatePolicy, UploadWindows};
use crate::figure;

/// A smaller window carries less than 50 Mbit/s at a round trip of 100 ms. A judgement: twice the median upload of a fixed
/// line, from another continent.
const SMALL: u64 = 625_000;
/// The round trip of a client that is far away.
const FAR: Duration = Duration::from_millis(100);
/// The size of the upload for which costs are stated if none was slow here.
const UPLOAD: f64 = 10e6;
/// Less waiting than this is not worth a sentence.
const WAIT_AT_LEAST: Duration = Duration::from_millis(20);
/// A client that allows less than this share of its window per round trip does not give back all of it at once.
const WHOLE: f64 = 0.95;
/// If an upload waits for this share of the sending time, that is not chance.
const SHARE: f64 = 0.2;

/// Whether waiting for a window cost time here.
fn is_here(blocked: Duration, windows: &UploadWindows) -> bool {
    blocked >= WAIT_AT_LEAST && blocked.as_secs_f64() >= SHARE * windows.sending.as_secs_f64()
}

/// How much the window matters, the time lost, and what it is lost for, such as `upload`; `None` if the window is not a
/// fault.
fn cost(blocked: Duration, windows: &UploadWindows) -> Option<(Relevance, Duration, &'static str)> {
    if is_here(blocked, windows) {
        return Some((Relevance::Here, blocked, "upload"));
    }
    // Without an update it is unknown whether the window would have grown.
    let is_known = windows.policy != UpdatePolicy::Unseen;
    let limit = windows.limit_bytes();
    (is_known && limit < SMALL).then(|| {
        let (lost, per) = far_away(windows.round_trip_bytes);
        (Relevance::FartherAway, lost, per)
    })
}

/// What a limit costs a client that is far away.
fn far_away(limit: u64) -> (Duration, &'static str) {
    let seconds = UPLOAD / limit.max(1) as f64 * FAR.as_secs_f64();
    let lost = Duration::from_nanos((seconds * 1e9) as u64);
    (lost, "upload of 10 MB at 100 ms")
}

/// The window's own part of the evidence: what it allows, and what was measured.
fn evidence(case: &Case<'_>, windows: &UploadWindows) -> Vec<String> {
    let mut evidence = vec![format!("the server {}", windows.policy.words())];
    if let Some(rtt) = case.endpoint.round_trip.filter(|rtt| !rtt.is_zero()) {
        evidence.push(format!(
            "one window per round trip of {} is {}",
            figure::time(rtt),
            rate(windows.limit_bytes() as f64 / rtt.as_secs_f64())
        ));
        if windows.allows_less() {
            let expected = figure::count(windows.round_trip_bytes);
            let rate = rate(windows.round_trip_bytes as f64 / rtt.as_secs_f64());
            evidence.push(match windows.policy {
                UpdatePolicy::Growing { .. } => format!(
                    "the window was smaller at first, so {expected} bytes per round trip are expected: {rate}"
                ),
                _ => format!(
                    "the server keeps some of each window, so {expected} bytes per round trip are expected: {rate}"
                ),
            });
        }
    }
    evidence.push(format!(
        "at 100 ms that is {}",
        rate(windows.round_trip_bytes as f64 / FAR.as_secs_f64())
    ));
    let measured = |version, name: &str| {
        let facts = case.endpoint.version(version)?;
        Some(format!(
            "measured over {name}: {}",
            rate(facts.upload_rate()?)
        ))
    };
    evidence.extend(measured(Version::Http2, "HTTP/2"));
    evidence.extend(congestion(case));
    evidence.extend(measured(Version::Http1, "HTTP/1.1"));
    evidence
}

/// How long an upload over HTTP/2 waited for its congestion window too; `None` if that was not worth a sentence. A window that
/// grows lets slow start limit the upload between two waits.
fn congestion(case: &Case<'_>) -> Option<String> {
    let uploads = &case.endpoint.version(Version::Http2)?.uploads;
    let waits = uploads.iter().map(|upload| upload.congestion_window);
    let longest = waits.max()?;
    (longest >= WAIT_AT_LEAST).then(|| {
        format!(
            "an upload waited {} for its congestion window too",
            figure::time(longest)
        )
    })
}

pub(super) fn stream_window(case: &Case<'_>) -> Option<Signs> {
    let windows = case.endpoint.upload_windows.as_ref()?;
    if windows.is_limited_by_connection() && !is_here(windows.blocked_by_stream, windows) {
        return None;
    }
    let (matters, lost, per) = cost(windows.blocked_by_stream, windows)?;
    let size = figure::count(windows.largest_stream_bytes);
    let sentence = match (windows.policy, matters) {
        (UpdatePolicy::Never, _) => format!(
            "An upload over HTTP/2 stops after {size} bytes: the server never opens the stream's window again."
        ),
        (UpdatePolicy::Growing { .. }, Relevance::Here) => format!(
            "Uploads over HTTP/2 wait for the stream's window, although it grows to {size} bytes per round trip."
        ),
        (_, Relevance::Here) => format!(
            "Uploads over HTTP/2 wait for the stream's window: {size} bytes per round trip."
        ),
        _ => format!(
            "Uploads over HTTP/2 may have only {size} bytes in flight: fast enough from here, slow for clients farther away."
        ),
    };
    Some(Signs {
        fault: Fault::StreamWindow,
        matters,
        sentence,
        evidence: evidence(case, windows),
        lost: Some(lost),
        per,
    })
}

pub(super) fn connection_window(case: &Case<'_>) -> Option<Signs> {
    let windows = case.endpoint.upload_windows.as_ref()?;
    if !windows.is_limited_by_connection() {
        return None;
    }
    let (matters, lost, per) = cost(windows.blocked_by_connection, windows)?;
    Some(Signs {
        fault: Fault::ConnectionWindow,
        matters,
        sentence: format!(
            "Uploads over HTTP/2 share a connection window of {} bytes, although each stream has {}.",
            figure::count(windows.largest_connection_bytes),
            figure::count(windows.largest_stream_bytes)
        ),
        evidence: evidence(case, windows),
        lost: Some(lost),
        per,
    })
}

pub(super) fn quic_window(case: &Case<'_>) -> Option<Signs> {
    let limits = case.endpoint.upload_limits.as_ref()?;
    let limit = limits.limit_bytes()?;
    let blocked = limits.blocked_by_stream.max(limits.blocked_by_connection);
    let is_here =
        blocked >= WAIT_AT_LEAST && blocked.as_secs_f64() >= SHARE * limits.sending.as_secs_f64();
    let (matters, lost, per) = if is_here {
        (Relevance::Here, blocked, "upload")
    } else if limit < SMALL {
        let (lost, per) = far_away(limit);
        (Relevance::FartherAway, lost, per)
    } else {
        return None;
    };
    let size = figure::count(limit);
    let sentence = if is_here {
        format!(
            "Uploads over HTTP/3 wait for QUIC's flow control: only {size} bytes may be in flight, once per round trip."
        )
    } else {
        format!(
            "Uploads over HTTP/3 may have only {size} bytes in flight: fast enough from here, slow for clients farther away."
        )
    };
    let known = |bytes: Option<u64>| bytes.map_or_else(|| "not reached".to_owned(), figure::count);
    Some(Signs {
        fault: Fault::QuicWindow,
        matters,
        sentence,
        evidence: vec![
            format!(
                "limit of the stream in bytes: {}, of the connection: {}",
                known(limits.stream_bytes),
                known(limits.connection_bytes)
            ),
            format!(
                "at 100 ms that is {}",
                rate(limit as f64 / FAR.as_secs_f64())
            ),
        ],
        lost: Some(lost),
        per,
    })
}

/// The version whose downloads waited longest for the windows of this client, and how long each of them did.
fn held_up(endpoint: &Endpoint) -> Option<(&VersionFacts, Duration)> {
    let versions = endpoint.versions.iter();
    let waited = versions.filter_map(|facts| Some((facts, facts.waited_for_client_window()?)));
    let (facts, waited) = waited.max_by_key(|(_, waited)| *waited)?;
    (waited >= WAIT_AT_LEAST).then_some((facts, waited))
}

/// Downloads that wait for the windows of this client. The default windows of a probe are never too small, so the user has set
/// smaller ones.
pub(super) fn client_window(case: &Case<'_>) -> Option<Signs> {
    let (facts, waited) = held_up(case.endpoint)?;
    let version = facts.version;
    let windows = facts.client_windows;
    let limit = windows.and_then(|windows| windows.limit_bytes());
    let is_connection = windows.is_some_and(|windows| windows.is_limited_by_connection());
    let sentence = match limit.map(figure::count) {
        None => format!("Downloads over {version} wait for this client's own windows."),
        Some(size) if is_connection => format!(
            "Downloads over {version} wait for this client's own connection window: {size} bytes per round trip."
        ),
        Some(size) => format!(
            "Downloads over {version} wait for this client's own stream window: {size} bytes per round trip."
        ),
    };
    let mut evidence = Vec::new();
    let round_trip = case.endpoint.round_trip.filter(|rtt| !rtt.is_zero());
    if let (Some(rtt), Some(limit)) = (round_trip, limit) {
        let per_round_trip = |bytes: u64| rate(bytes as f64 / rtt.as_secs_f64());
        evidence.push(format!(
            "one window per round trip of {} is {}",
            figure::time(rtt),
            per_round_trip(limit)
        ));
        let allowed = windows.and_then(|windows| windows.round_trip_bytes);
        let kept = allowed.filter(|allowed| (*allowed as f64) < WHOLE * limit as f64);
        evidence.extend(kept.map(|allowed| {
            format!(
                "this client keeps some of each window, so {} bytes per round trip are expected: {}",
                figure::count(allowed),
                per_round_trip(allowed)
            )
        }));
    }
    // The limited version first, and the others for comparison.
    let all = case.endpoint.versions.iter();
    let others = all.filter(|other| other.version != version);
    evidence.extend(std::iter::once(facts).chain(others).filter_map(|facts| {
        let measured = rate(facts.download.median()?);
        Some(format!("measured over {}: {measured}", facts.version))
    }));
    Some(Signs {
        fault: Fault::ClientWindow,
        matters: Relevance::Here,
        sentence,
        evidence,
        lost: Some(waited),
        per: "download",
    })
}

/// What enlarges the window that held downloads up.
pub(super) fn client_window_fix(endpoint: &Endpoint) -> &'static str {
    let Some((facts, _)) = held_up(endpoint) else {
        return Fault::ClientWindow.general_fix();
    };
    if facts.version == version_name(Version::Http3) {
        return "larger initial_max_stream_data_bidi_local and initial_max_data of the client (RFC 9000, section 18.2)";
    }
    let windows = facts.client_windows;
    if windows.is_some_and(|windows| windows.is_limited_by_connection()) {
        return "a WINDOW_UPDATE for stream 0 by the client at the connection's start (RFC 9113, section 6.9.2); nghttp and h2load have --connection-window-bits, curl has no option for it";
    }
    Fault::ClientWindow.general_fix()
}

pub(super) fn update_per_data(case: &Case<'_>) -> Option<Signs> {
    const FRAMES: u64 = 20;
    let windows = case.endpoint.upload_windows.as_ref()?;
    let UpdatePolicy::EachData { bytes } = windows.policy else {
        return None;
    };
    let is_clear = windows.data_frames >= FRAMES
        && windows.limit_bytes() >= SMALL
        && bytes <= windows.limit_bytes() / 3;
    is_clear.then(|| Signs {
        fault: Fault::UpdatePerData,
        matters: Relevance::Overhead,
        sentence: "The server answers every DATA frame of an upload with a WINDOW_UPDATE, long before one is needed.".to_owned(),
        evidence: vec![format!(
            "{} updates of about {} bytes for {} DATA frames",
            figure::count(windows.updates),
            figure::count(bytes),
            figure::count(windows.data_frames)
        )],
        lost: None,
        per: "",
    })
}

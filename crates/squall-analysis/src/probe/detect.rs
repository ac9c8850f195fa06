//! The rules: which facts about an endpoint are faults. Each rule asks for enough evidence to be right; when the evidence
//! does not suffice, nothing is claimed.
//!
//! Rules about windows are in `detect_windows`, those that compare versions in `detect_slow`; what all rules see and return
//! is in `signs`.

use std::net::SocketAddr;

use squall_base::Duration;
use squall_base::plan::Version;
use squall_base::record::Outcome;

use super::detect_slow;
use super::detect_windows;
use super::endpoint::{Endpoint, http3_problem};
use super::fault::{DetectedFault, Fault, Relevance};
use super::observed::{Http3Reach, Observations, Step, StepKind, version_name};
use super::product;
use super::signs::{Case, Signs, lost_of, quic_losses, share};
use super::small::{self, Pauses};
use super::spans::{median_span, times};
use crate::figure;

/// All rules.
const RULES: &[fn(&Case<'_>) -> Option<Signs>] = &[
    no_answer,
    error_status,
    stalled,
    detect_windows::stream_window,
    detect_windows::connection_window,
    detect_windows::quic_window,
    detect_windows::client_window,
    detect_windows::update_per_data,
    delayed_ack,
    small_records,
    small_frames,
    idle_slow_start,
    large_certificate,
    old_tls,
    udp_blocked,
    bufferbloat,
    loss,
    buffered_upload,
    no_multiplexing,
    no_concurrency,
    short_connections,
    no_compression,
    slow_server,
    detect_slow::slow_http2,
    detect_slow::slow_http3,
];

/// All faults, the most important one first.
pub(super) fn faults(seen: &Observations, endpoint: &Endpoint) -> Vec<DetectedFault> {
    let case = Case { seen, endpoint };
    let signs = RULES.iter().filter_map(|rule| rule(&case));
    let mut found: Vec<DetectedFault> =
        signs.map(|signs| with_fix(signs, seen, endpoint)).collect();
    found.sort_by_key(DetectedFault::rank);
    found
}

fn with_fix(signs: Signs, seen: &Observations, endpoint: &Endpoint) -> DetectedFault {
    let general = match signs.fault {
        Fault::NoAnswer => no_answer_fix(seen),
        Fault::ErrorStatus if may_expect_tls(seen) => {
            "write the URL with https:// if the port expects TLS; otherwise probe a URL that succeeds"
        }
        Fault::ClientWindow => detect_windows::client_window_fix(endpoint),
        fault => fault.general_fix(),
    };
    let known = endpoint.product.and_then(|recognised| {
        let setting = product::setting(recognised.product, signs.fault)?;
        Some(format!("{}: {setting}", recognised.product.name()))
    });
    DetectedFault {
        fault: signs.fault,
        matters: signs.matters,
        sentence: signs.sentence,
        evidence: signs.evidence,
        lost: signs.lost,
        per: signs.per,
        fix: known.unwrap_or_else(|| general.to_owned()),
    }
}

fn no_answer(case: &Case<'_>) -> Option<Signs> {
    if case.seen.has_response() {
        return None;
    }
    let failures = case.seen.failures.iter();
    // Versions with the same reason together.
    let mut reasons: Vec<(String, &str)> = Vec::new();
    for (version, why) in failures {
        let (name, why) = (version_name(*version), small::plain(why));
        match reasons.iter_mut().find(|(_, known)| *known == why) {
            Some((names, _)) => *names += &format!(", {name}"),
            None => reasons.push((name.to_owned(), why)),
        }
    }
    let evidence = reasons.iter().map(|(names, why)| format!("{names}: {why}"));
    let evidence = evidence.collect();
    Some(Signs {
        fault: Fault::NoAnswer,
        matters: Relevance::Here,
        sentence: format!("{} gave no HTTP response.", case.seen.url),
        evidence,
        lost: None,
        per: "",
    })
}

/// What to try, by the reasons that the versions over TCP failed.
fn no_answer_fix(seen: &Observations) -> &'static str {
    let mut failures = seen.failures.iter();
    let why = failures.next().map_or("", |(_, why)| why.as_str());
    if why.contains("does not speak TLS") {
        return "write the URL with http://, or probe the port that speaks TLS";
    }
    if why.contains("not trusted") {
        return "--cacert FILE trusts the server's certificate, -k accepts any";
    }
    if why.contains("reset the stream") {
        return "probe a URL that the server answers to GET; a gRPC server answers its own methods only";
    }
    if why.contains("refused") {
        return "start the server, or check the port: nothing listens there";
    }
    match (why.starts_with("connected, but "), seen.is_secure) {
        (true, false) => "look into the server's log; if the port expects TLS, write https://",
        (true, true) => "look into the server's log: it takes connections and does not respond",
        _ => Fault::NoAnswer.general_fix(),
    }
}

/// Whether a cleartext request got status 400, as it does on many ports that expect TLS.
fn may_expect_tls(seen: &Observations) -> bool {
    !seen.is_secure && seen.heads.iter().any(|head| head.status == 400)
}

/// An error response: everything that was measured then describes that response.
fn error_status(case: &Case<'_>) -> Option<Signs> {
    let head = case.seen.heads.iter().find(|head| head.status >= 400)?;
    Some(Signs {
        fault: Fault::ErrorStatus,
        matters: Relevance::Here,
        sentence: format!(
            "Over {} the server answers this URL with status {}, so the figures are those of that response.",
            version_name(head.version),
            head.status
        ),
        evidence: Vec::new(),
        lost: None,
        per: "",
    })
}

/// A download that began and then received nothing for a long time.
fn stalled(case: &Case<'_>) -> Option<Signs> {
    const SILENCE: Duration = Duration::from_secs(2);
    let steps = case.seen.steps.iter();
    let mut downloads = steps.filter(|step| step.kind == StepKind::Download && !step.was_cut);
    let (step, silence) = downloads.find_map(|step| {
        let silence = quiet_for(step).filter(|quiet| *quiet >= SILENCE)?;
        Some((step, silence))
    })?;
    Some(Signs {
        fault: Fault::Stalled,
        matters: Relevance::Here,
        sentence: format!(
            "A download over {} stopped before its end.",
            version_name(step.version)
        ),
        evidence: vec![format!(
            "{} bytes of the body arrived, then nothing for {}",
            figure::count(step.body_bytes()),
            figure::time(silence)
        )],
        lost: Some(silence),
        per: "download",
    })
}

/// How long nothing of an unfinished response had arrived when it was given up.
fn quiet_for(step: &Step) -> Option<Duration> {
    let row = step.of(0)?;
    let is_unfinished = matches!(row.outcome, Outcome::Censored | Outcome::TimedOut);
    let headers = row.headers.filter(|_| is_unfinished)?;
    let last = step.pieces.iter().map(|piece| piece.time).max();
    Some(row.end.since(last.unwrap_or(headers)))
}

/// A sender with Nagle's algorithm holds a short segment back until the one before it is acknowledged, and a receiver
/// delays that acknowledgement by 40 ms (Linux, TCP_DELACK_MIN).
fn delayed_ack(case: &Case<'_>) -> Option<Signs> {
    const RESPONSES_AT_LEAST: usize = 4;
    const FROM: Duration = Duration::from_millis(35);
    const TO: Duration = Duration::from_millis(60);
    // At longer round trips, a pause of one round trip looks the same.
    const ROUND_TRIP_AT_MOST: Duration = Duration::from_millis(25);
    if case.endpoint.round_trip? > ROUND_TRIP_AT_MOST {
        return None;
    }
    [Version::Http1, Version::Http2].iter().find_map(|version| {
        let pauses = Pauses::of(case.seen, *version);
        let (count, middle) = pauses.within(FROM, TO);
        let of = pauses.spans.len();
        if of < RESPONSES_AT_LEAST || 2 * count < of {
            return None;
        }
        let middle = middle?;
        Some(Signs {
            fault: Fault::DelayedAck,
            matters: Relevance::Here,
            sentence: format!(
                "Short responses over {} come in two parts, {} apart: the second one waits for a delayed acknowledgement.",
                version_name(*version),
                figure::time(middle)
            ),
            evidence: vec![format!("{count} of {of} responses have such a pause")],
            lost: Some(middle),
            per: "small request",
        })
    })
}

fn small_records(case: &Case<'_>) -> Option<Signs> {
    const BYTES: u64 = 4_200;
    let bytes = case.endpoint.record_bytes.filter(|bytes| *bytes < BYTES)?;
    // A server may send small records only at the beginning, so that the first can be decrypted sooner.
    let sizes = &case.endpoint.record_sizes;
    if !sizes.is_empty() && sizes.iter().all(|it| it.first.is_some()) {
        return None;
    }
    Some(Signs {
        fault: Fault::SmallRecords,
        matters: Relevance::Overhead,
        sentence: format!(
            "Downloads come in TLS records of {} bytes on average, where 16,384 are possible.",
            figure::count(bytes)
        ),
        evidence: vec![format!(
            "{} records for each megabyte; each is encrypted, sent and decrypted by itself",
            figure::count(1_000_000 / bytes.max(1))
        )],
        lost: None,
        per: "",
    })
}

fn small_frames(case: &Case<'_>) -> Option<Signs> {
    const BYTES: u64 = 2_048;
    let bytes = case
        .endpoint
        .data_frame_bytes
        .filter(|bytes| *bytes < BYTES)?;
    Some(Signs {
        fault: Fault::SmallFrames,
        matters: Relevance::Overhead,
        sentence: format!(
            "Downloads over HTTP/2 come in DATA frames of {} bytes.",
            figure::count(bytes)
        ),
        evidence: vec![
            "each frame has a header of 9 bytes, and usually a TLS record of its own".to_owned(),
        ],
        lost: None,
        per: "",
    })
}

fn idle_slow_start(case: &Case<'_>) -> Option<Signs> {
    let idle = case.endpoint.idle.filter(|_| !case.seen.is_forwarded)?;
    let round_trip = case.long_round_trip()?;
    let lost = idle.after_pause - idle.warm;
    let is_clear = lost >= round_trip && idle.after_pause >= times(idle.warm, 1.2);
    is_clear.then(|| Signs {
        fault: Fault::IdleSlowStart,
        matters: Relevance::Here,
        sentence: format!(
            "After a pause, the same {} bytes take {} instead of {}: the server's congestion window is small again.",
            figure::count(idle.bytes),
            figure::time(idle.after_pause),
            figure::time(idle.warm)
        ),
        evidence: vec![format!("the round trip is {}", figure::time(round_trip))],
        lost: Some(lost),
        per: "download after a pause",
    })
}

fn large_certificate(case: &Case<'_>) -> Option<Signs> {
    // RFC 6928: ten segments. The rest is for tickets and SETTINGS, which follow the handshake.
    const SEGMENTS: u64 = 10;
    const TICKETS: u64 = 1_000;
    let tls = case.endpoint.tls.as_ref()?;
    let flight = tls.server_bytes?;
    let window = SEGMENTS * tls.segment_bytes;
    if flight <= window + TICKETS {
        return long_handshake(flight);
    }
    let round_trips = if is_old(&tls.cipher) { 2.6 } else { 1.6 };
    let round_trip = case.long_round_trip();
    let is_late = round_trip.map(|rtt| {
        tls.handshake
            .is_some_and(|took| took >= times(rtt, round_trips))
    });
    let matters = match is_late {
        // No extra round trip: the server's initial congestion window is larger.
        Some(false) => return long_handshake(flight),
        Some(true) => Relevance::Here,
        None => Relevance::FartherAway,
    };
    Some(Signs {
        fault: Fault::LargeCertificate,
        matters,
        sentence: format!(
            "The server sends {} bytes in the TLS handshake, more than the {} of an initial congestion window: each new connection takes a further round trip.",
            figure::count(flight),
            figure::count(window)
        ),
        evidence: tls
            .handshake
            .map(|took| format!("the handshake took {}", figure::time(took)))
            .into_iter()
            .collect(),
        lost: round_trip,
        per: "connection",
    })
}

/// A handshake that costs no round trip over TCP, but bytes on each connection, and round trips over QUIC.
fn long_handshake(flight: u64) -> Option<Signs> {
    // A judgement: twice the bytes of a handshake with three certificates and RSA keys.
    const LONG: u64 = 10_000;
    (flight > LONG).then(|| Signs {
        fault: Fault::LargeCertificate,
        matters: Relevance::Overhead,
        sentence: format!(
            "The server sends {} bytes in each TLS handshake, most of them certificates.",
            figure::count(flight)
        ),
        evidence: vec![
            "over HTTP/3 a server may send three times what it has received until it knows the client's address (RFC 9000, section 8.1)"
                .to_owned(),
        ],
        lost: None,
        per: "",
    })
}

/// Whether a version and its cipher suite are those of TLS 1.2.
fn is_old(cipher: &str) -> bool {
    cipher.starts_with("1.2")
}

fn old_tls(case: &Case<'_>) -> Option<Signs> {
    let tls = case
        .endpoint
        .tls
        .as_ref()
        .filter(|tls| is_old(&tls.cipher))?;
    let round_trip = case.long_round_trip();
    Some(Signs {
        fault: Fault::OldTls,
        matters: round_trip.map_or(Relevance::FartherAway, |_| Relevance::Here),
        sentence: format!(
            "The server speaks TLS {}: its handshake takes a round trip more than that of TLS 1.3.",
            tls.cipher.replacen(' ', " with ", 1)
        ),
        evidence: Vec::new(),
        lost: round_trip,
        per: "connection",
    })
}

fn udp_blocked(case: &Case<'_>) -> Option<Signs> {
    let why = http3_problem(&case.seen.http3).filter(|_| case.seen.advertises_http3)?;
    let sentence = match case.seen.http3 {
        Http3Reach::Silent(_) => {
            "Responses advertise HTTP/3, but nothing answers over UDP: clients try it, wait, and fall back."
        }
        _ => "Responses advertise HTTP/3, but its handshake fails: clients try it and fall back.",
    };
    Some(Signs {
        fault: Fault::UdpBlocked,
        matters: Relevance::Here,
        sentence: sentence.to_owned(),
        evidence: vec![why.to_owned()],
        lost: None,
        per: "",
    })
}

fn bufferbloat(case: &Case<'_>) -> Option<Signs> {
    const MORE: Duration = Duration::from_millis(50);
    const SAMPLES: usize = 3;
    let idle = case.endpoint.connect_idle?;
    // How much longer handshakes took during transfers, if that is clear.
    let growth = |spans: &[Duration], loaded: Option<Duration>| {
        let lost = loaded? - idle;
        let is_clear = spans.len() >= SAMPLES && lost >= MORE && lost >= idle;
        is_clear.then_some((lost, spans.len()))
    };
    let down = growth(&case.seen.connects_loaded, case.endpoint.connect_loaded);
    let up = growth(
        &case.seen.connects_uploading,
        case.endpoint.connect_uploading,
    );
    let is_up = up.map(|(lost, _)| lost) > down.map(|(lost, _)| lost);
    let (lost, count) = if is_up { up? } else { down? };
    let (transfers, beside, per) = if is_up {
        ("uploads", "uploads", "request during an upload")
    } else {
        (
            "downloads",
            "downloads over six connections",
            "request during a download",
        )
    };
    Some(Signs {
        fault: Fault::Bufferbloat,
        matters: Relevance::Here,
        sentence: format!(
            "During {transfers} a round trip takes {} instead of {}: a queue on the way fills up.",
            figure::time(idle + lost),
            figure::time(idle)
        ),
        evidence: vec![format!("{count} TCP handshakes during {beside}")],
        lost: Some(lost),
        per,
    })
}

/// A share of packets or segments that costs time.
const LOSS: f64 = 0.01;

fn loss(case: &Case<'_>) -> Option<Signs> {
    let (is_tcp, mut evidence) = tcp_loss(case);
    let (is_quic, of_quic) = quic_loss(case);
    evidence.extend(of_quic);
    (is_tcp || is_quic).then(|| Signs {
        fault: Fault::Loss,
        matters: Relevance::Here,
        sentence: "Packets are lost on the way, so senders slow down and wait for repairs."
            .to_owned(),
        evidence,
        lost: None,
        per: "",
    })
}

/// Whether TCP lost enough to cost time, and the evidence.
fn tcp_loss(case: &Case<'_>) -> (bool, Vec<String>) {
    const SENT_AGAIN: u64 = 5;
    const OUT_OF_ORDER: u64 = 20;
    let losses = case.endpoint.losses;
    if losses.sent + losses.received == 0 {
        return (false, Vec::new());
    }
    let is_up =
        losses.retransmitted >= SENT_AGAIN && share(losses.retransmitted, losses.sent) >= LOSS;
    let is_down =
        losses.out_of_order >= OUT_OF_ORDER && share(losses.out_of_order, losses.received) >= LOSS;
    let evidence = vec![
        lost_of(
            "sent again",
            losses.retransmitted,
            losses.sent,
            "segments with data",
        ),
        lost_of(
            "received after a gap",
            losses.out_of_order,
            losses.received,
            "segments with data",
        ),
    ];
    (is_up || is_down, evidence)
}

/// Whether QUIC lost enough to cost time, and the evidence: what quiche lost, and what the server must have lost. No path
/// within one machine loses packets; there, a receive buffer was full because its reader did not get a processor.
fn quic_loss(case: &Case<'_>) -> (bool, Vec<String>) {
    const LOST: u64 = 5;
    // A queue or buffer that was full once does not make a path lossy.
    const LOSSES: u64 = 3;
    let address: Result<SocketAddr, _> = case.endpoint.address.parse();
    let is_this_machine = address.is_ok_and(|address| address.ip().is_loopback());
    let Some(quic) = case.endpoint.quic.filter(|_| !is_this_machine) else {
        return (false, Vec::new());
    };
    let is_up = quic.lost >= LOST && quic.losses >= LOSSES && share(quic.lost, quic.sent) >= LOSS;
    // The server also retransmits what this machine dropped.
    let late = quic.late_frames.saturating_sub(quic.dropped_here);
    let is_down =
        late >= LOST && quic.late_times >= LOSSES && share(late, quic.stream_frames) >= LOSS;
    (is_up || is_down, quic_losses(&quic))
}

fn buffered_upload(case: &Case<'_>) -> Option<Signs> {
    const BYTES: u64 = 1_000_000;
    const MORE: Duration = Duration::from_millis(100);
    case.endpoint.versions.iter().find_map(|facts| {
        let long = facts.uploads.iter().filter(|upload| upload.is_answered && upload.bytes >= BYTES);
        let waits = long.filter_map(|upload| Some(upload.answer? - upload.answer_to_short?));
        let wait = median_span(waits)?;
        let round_trip = case.endpoint.round_trip.unwrap_or_default();
        (wait >= MORE && wait >= times(round_trip, 3.0)).then(|| Signs {
            fault: Fault::BufferedUpload,
            matters: Relevance::Here,
            sentence: format!(
                "Once a long upload over {} has arrived, its response takes {} longer than the response to a short one: something stores the body before passing it on, or processes it only then.",
                facts.version,
                figure::time(wait)
            ),
            evidence: Vec::new(),
            lost: Some(wait),
            per: "upload",
        })
    })
}

fn no_multiplexing(case: &Case<'_>) -> Option<Signs> {
    let mut versions = case.endpoint.multiplexes.iter();
    let waited = versions.find(|(_, overlaps)| !**overlaps);
    let streams = case.endpoint.settings.get("MAX_CONCURRENT_STREAMS");
    let (sentence, evidence) = match (waited, streams) {
        (Some((version, _)), _) => (
            format!(
                "Over {version} a small request waits until the long response before it has ended: the streams of a connection are not multiplexed."
            ),
            "more than 4 MiB of the long response arrived after the small request was sent",
        ),
        (None, Some(1)) => (
            "Over HTTP/2 the server allows one request at a time on a connection: each waits for the one before it.".to_owned(),
            "the server announces MAX_CONCURRENT_STREAMS=1 (RFC 9113, section 6.5.2)",
        ),
        (None, _) => return None,
    };
    Some(Signs {
        fault: Fault::NoMultiplexing,
        matters: Relevance::Here,
        sentence,
        evidence: vec![evidence.to_owned()],
        lost: None,
        per: "",
    })
}

/// A server that handles the requests of a connection one after the other, whether or not it can interleave responses.
fn no_concurrency(case: &Case<'_>) -> Option<Signs> {
    // Then that fault is the cause.
    if no_multiplexing(case).is_some() {
        return None;
    }
    let mut pairs = case.endpoint.concurrency.iter();
    let pair = pairs.find(|pair| !pair.is_concurrent)?;
    Some(Signs {
        fault: Fault::NoConcurrency,
        matters: Relevance::Here,
        sentence: format!(
            "Over {} the server handles the requests of a connection one after the other: a second one waits until the first is answered.",
            pair.version
        ),
        evidence: vec![format!(
            "of two requests sent together, the first took {} and the second {}",
            figure::time(pair.first),
            figure::time(pair.second)
        )],
        lost: Some(pair.second - pair.first),
        per: "concurrent request",
    })
}

fn short_connections(case: &Case<'_>) -> Option<Signs> {
    const FEW: u64 = 20;
    let short = case.endpoint.short_connection?;
    // Servers end connections after errors.
    if case.seen.heads.iter().any(|head| head.status >= 400) {
        return None;
    }
    let how = if short.with_goaway {
        "with a GOAWAY"
    } else {
        "by closing it"
    };
    let latencies = case.endpoint.versions.iter().map(|facts| &facts.latency);
    let lost = latencies
        .filter_map(|latency| Some(latency.first? - latency.later?))
        .max();
    // If connections carry more requests than that, hardly any request waits for a new one.
    let is_few = short.requests <= FEW;
    let rare = lost.filter(|_| !is_few).map(|lost| {
        format!(
            "one request in {} takes {} longer",
            figure::count(short.requests),
            figure::time(lost)
        )
    });
    Some(Signs {
        fault: Fault::ShortConnections,
        matters: if is_few {
            Relevance::Here
        } else {
            Relevance::Overhead
        },
        sentence: format!(
            "The server ends a connection after {} ({how}), and clients connect again.",
            figure::counted(short.requests, "request", "requests")
        ),
        evidence: rare.into_iter().collect(),
        lost,
        per: "connection",
    })
}

fn no_compression(case: &Case<'_>) -> Option<Signs> {
    const BYTES: u64 = 2_000;
    let coding = case.endpoint.coding.as_ref()?;
    let kind = coding.content_type.as_str();
    let is_text = (kind.starts_with("text/") && kind != "text/event-stream")
        || ["json", "javascript", "xml"]
            .iter()
            .any(|word| kind.ends_with(*word));
    (is_text && coding.coding.is_empty() && coding.bytes >= BYTES).then(|| Signs {
        fault: Fault::NoCompression,
        matters: Relevance::Overhead,
        sentence: format!(
            "{} bytes of {kind} were sent without compression, although the request allowed gzip and br.",
            figure::count(coding.bytes)
        ),
        evidence: Vec::new(),
        lost: None,
        per: "",
    })
}

fn slow_server(case: &Case<'_>) -> Option<Signs> {
    const SLOW: Duration = Duration::from_millis(300);
    let latencies = case.endpoint.versions.iter().map(|facts| &facts.latency);
    let later = latencies.filter_map(|latency| latency.later).min()?;
    let lost = later - case.endpoint.round_trip.unwrap_or_default();
    (lost >= SLOW).then(|| Signs {
        fault: Fault::SlowServer,
        matters: Relevance::Here,
        sentence: format!(
            "The server takes {} to begin its response, over every version and on open connections too.",
            figure::time(lost)
        ),
        evidence: Vec::new(),
        lost: Some(lost),
        per: "request",
    })
}

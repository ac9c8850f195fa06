//! The facts of a probe as rows of text, for a terminal and for Markdown.
//!
//! Numbers are written as everywhere (squall-analysis' `figure`); a figure that is not known is a dash.

use std::collections::BTreeSet;

use squall_analysis::figure;
use squall_analysis::probe::{
    Diagnosis, DownloadTime, Endpoint, QuicFacts, Rates, Upload, VersionFacts,
};
use squall_base::Duration;
use squall_base::plan::Version;

use super::behaviour;

/// A flow-control window above this does not limit any client: 1 GiB per round trip.
const UNLIMITED: u64 = 1 << 30;

/// At shorter round trips, the processors at both ends determine how long a handshake takes.
const MILLISECOND: Duration = Duration::from_millis(1);

/// What stands for an unknown figure.
const UNKNOWN: &str = "-";

/// The table of versions, with its heading.
pub(crate) fn versions(endpoint: &Endpoint) -> Vec<Vec<String>> {
    let mut rows = vec![
        ["", "first byte", "later", "download", "upload"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for facts in &endpoint.versions {
        rows.push(vec![
            facts.version.to_owned(),
            span(facts.latency.first),
            span(facts.latency.later),
            rate(facts.download.median()),
            rate(facts.upload_rate()),
        ]);
        if let Some(six) = facts.download_six.median() {
            rows.push(vec![
                "  six connections".to_owned(),
                String::new(),
                String::new(),
                rate(Some(six)),
                String::new(),
            ]);
        }
    }
    rows
}

/// What the windows and limits allow at several round trips, beside the measured rates; empty if none limits uploads.
pub(crate) fn predictions(endpoint: &Endpoint) -> Vec<Vec<String>> {
    let mut rows = http2_predictions(endpoint);
    let of_http3 = &endpoint.http3_predictions;
    if of_http3.is_empty() {
        return rows;
    }
    if rows.is_empty() {
        rows.push(round_trips_of(of_http3.iter().map(|it| it.round_trip)));
    }
    let mut row = vec!["HTTP/3 upload, at most Mbit/s".to_owned()];
    row.extend(of_http3.iter().map(|it| mbit(it.bytes_per_s)));
    rows.extend([row, measured_upload(endpoint, "HTTP/3")]);
    rows
}

fn http2_predictions(endpoint: &Endpoint) -> Vec<Vec<String>> {
    let Some(windows) = &endpoint.upload_windows else {
        return Vec::new();
    };
    let predictions = &endpoint.predictions;
    if predictions.is_empty() || windows.limit_bytes() >= UNLIMITED {
        return Vec::new();
    }
    let heading = round_trips_of(predictions.iter().map(|it| it.round_trip));
    let mut row = vec!["HTTP/2 upload, at most Mbit/s".to_owned()];
    row.extend(predictions.iter().map(|it| mbit(it.bytes_per_s)));
    let mut expected = vec!["expected, by its window updates".to_owned()];
    expected.extend(predictions.iter().map(|it| mbit(it.expected_bytes_per_s)));
    let measured = measured_upload(endpoint, "HTTP/2");
    // Unless the windows allow less, the expected rates are nearly those in the row above, and have no row of their own.
    if windows.allows_less() {
        return vec![heading, row, expected, measured];
    }
    vec![heading, row, measured]
}

/// The heading of a table over round trips.
fn round_trips_of(round_trips: impl Iterator<Item = Duration>) -> Vec<String> {
    let mut heading = vec!["round trip".to_owned()];
    heading.extend(round_trips.map(|rtt| format!("{:.0} ms", rtt.as_millis_f64())));
    heading
}

/// The middle rate of uploads over a version, at the round trip of this path.
fn measured_upload(endpoint: &Endpoint, version: &str) -> Vec<String> {
    let mut versions = endpoint.versions.iter();
    let facts = versions.find(|facts| facts.version == version);
    let upload = facts.and_then(VersionFacts::upload_rate);
    vec![
        format!("measured at {}, Mbit/s", span(endpoint.round_trip)),
        upload.map_or_else(|| UNKNOWN.to_owned(), mbit),
    ]
}

/// The other facts, each with its name.
pub(crate) fn facts(endpoint: &Endpoint) -> Vec<(&'static str, String)> {
    let mut facts = vec![("asked", endpoint.address.clone())];
    facts.extend(behaviour::addresses(endpoint));
    if let Some(server) = &endpoint.server {
        facts.push(("server field", server.clone()));
    }
    if let Some(known) = &endpoint.product {
        let said = format!("{}, by {}", known.product.name(), known.by);
        facts.push(("recognised as", said));
    }
    facts.push(("round trip", round_trips(endpoint)));
    if let Some(tls) = &endpoint.tls {
        facts.push(("TLS", tls_text(endpoint)));
        if let Some(bytes) = tls.server_bytes {
            let said = format!(
                "{} bytes from the server before its first response",
                figure::count(bytes)
            );
            facts.push(("handshake", said));
        }
    }
    facts.extend(quic_handshake(endpoint));
    facts.extend(behaviour::handshakes(endpoint));
    facts.extend(announced(endpoint));
    if let Some(windows) = &endpoint.upload_windows {
        let said = format!(
            "{} bytes for a stream, {} for the connection; the server {}; waited {} for the stream's and {} for the connection's",
            figure::count(windows.stream_bytes),
            figure::count(windows.connection_bytes),
            windows.policy.words(),
            figure::time(windows.blocked_by_stream),
            figure::time(windows.blocked_by_connection)
        );
        facts.push(("upload windows", said));
    }
    if let Some(limits) = &endpoint.upload_limits {
        let bytes = |bytes: Option<u64>| match bytes {
            Some(bytes) => format!("{} bytes", figure::count(bytes)),
            None => "no limit reached".to_owned(),
        };
        let said = format!(
            "stream {}, connection {}; waited {} and {}",
            bytes(limits.stream_bytes),
            bytes(limits.connection_bytes),
            figure::time(limits.blocked_by_stream),
            figure::time(limits.blocked_by_connection)
        );
        facts.push(("HTTP/3 upload limits", said));
    }
    facts.extend(uploads(endpoint));
    facts.extend(download_times(endpoint));
    facts.extend(downloads(endpoint));
    facts.extend(connections(endpoint));
    facts.extend(behaviour::connections(endpoint));
    facts
}

/// What the server announced over HTTP/2 and HTTP/3, whether it answered or not. The windows are left out if an upload shows
/// more.
pub(super) fn announced(endpoint: &Endpoint) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let by_version = [
        ("SETTINGS", &endpoint.settings),
        ("HTTP/3 SETTINGS", &endpoint.http3_settings),
    ];
    for (name, settings) in by_version {
        if !settings.is_empty() {
            let words = settings.iter();
            let words: Vec<String> = words
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            facts.push((name, words.join(" ")));
        }
    }
    let windows = endpoint.announced_windows;
    if let Some(windows) = windows.filter(|_| endpoint.upload_windows.is_none()) {
        let said = format!(
            "{} bytes for a stream, {} for the connection",
            figure::count(windows.stream_bytes),
            figure::count(windows.connection_bytes)
        );
        facts.push(("announced windows", said));
    }
    facts
}

fn round_trips(endpoint: &Endpoint) -> String {
    let loaded = endpoint.connect_loaded;
    let loaded = loaded.map(|loaded| format!(", {} during downloads", figure::time(loaded)));
    let uploading = endpoint.connect_uploading;
    let uploading = uploading.map(|loaded| format!(", {} during uploads", figure::time(loaded)));
    span(endpoint.round_trip) + &loaded.unwrap_or_default() + &uploading.unwrap_or_default()
}

fn tls_text(endpoint: &Endpoint) -> String {
    let Some(tls) = &endpoint.tls else {
        return UNKNOWN.to_owned();
    };
    let mut text = tls.cipher.clone();
    if let Some(group) = &tls.group {
        text += &format!(", {group}");
    }
    if let Some(took) = tls.handshake {
        text += &format!(", handshake {}", handshake_time(endpoint, took));
    }
    text
}

/// The handshake of QUIC, if there was one.
fn quic_handshake(endpoint: &Endpoint) -> Option<(&'static str, String)> {
    let took = endpoint.version(Version::Http3)?.latency.handshake?;
    Some(("QUIC handshake", handshake_time(endpoint, took)))
}

/// The time of a handshake, and how many round trips it took unless these are too short.
fn handshake_time(endpoint: &Endpoint, took: Duration) -> String {
    let mut text = figure::time(took);
    if let Some(round_trip) = endpoint.round_trip.filter(|rtt| *rtt >= MILLISECOND) {
        let times = took.as_secs_f64() / round_trip.as_secs_f64();
        text += &format!(" ({times:.1} round trips)");
    }
    text
}

/// Where the time of uploads went, summed over the rounds: what took at least a hundredth of it.
fn uploads(endpoint: &Endpoint) -> Vec<(&'static str, String)> {
    let versions = endpoint
        .versions
        .iter()
        .filter(|facts| !facts.uploads.is_empty());
    versions
        .map(|facts| ("uploads waited", waits(facts)))
        .collect()
}

fn waits(facts: &VersionFacts) -> String {
    let sum = |part: fn(&Upload) -> Duration| -> f64 {
        let spans = facts.uploads.iter().map(part);
        spans.map(Duration::as_secs_f64).sum()
    };
    let took = sum(|upload| upload.took).max(1e-9);
    let parts = [
        ("the stream's window", sum(|upload| upload.stream_window)),
        (
            "the connection's window",
            sum(|upload| upload.connection_window),
        ),
        (
            "the congestion window",
            sum(|upload| upload.congestion_window),
        ),
        ("TCP's receive window", sum(|upload| upload.receive_window)),
        ("the client's send buffer", sum(|upload| upload.send_buffer)),
        (
            "the server's answer",
            sum(|upload| upload.answer.unwrap_or_default()),
        ),
    ];
    let percent = |part: f64| 100.0 * (part / took).min(1.0);
    let shown = parts.iter().filter(|(_, part)| percent(*part) >= 1.0);
    let words: Vec<String> = shown
        .map(|(name, part)| format!("{name} {:.0} %", percent(*part)))
        .collect();
    if words.is_empty() {
        return format!("{}: for nothing that can be named", facts.version);
    }
    format!("{}: for {}", facts.version, words.join(", "))
}

/// Where the time of downloads went, summed over the rounds: what took at least a hundredth of it.
fn download_times(endpoint: &Endpoint) -> Vec<(&'static str, String)> {
    let versions = endpoint
        .versions
        .iter()
        .filter(|facts| !facts.download_times.is_empty());
    versions
        .map(|facts| {
            let said = format!("{}: {}", facts.version, time_parts(&facts.download_times));
            ("downloads took", said)
        })
        .collect()
}

fn time_parts(times: &[DownloadTime]) -> String {
    let seconds = |span: Duration| span.as_secs_f64();
    let took: f64 = times.iter().map(|time| seconds(time.took)).sum();
    let mut sums = DownloadTime::default().parts().map(|(name, _)| (name, 0.0));
    for time in times {
        for (sum, (_, span)) in sums.iter_mut().zip(time.parts()) {
            sum.1 += seconds(span);
        }
    }
    let percent = |part: f64| 100.0 * part / took.max(1e-9);
    let shown = sums.iter().filter(|(_, part)| percent(*part) >= 1.0);
    let words: Vec<String> = shown
        .map(|(name, part)| format!("{name} {:.0} %", percent(*part)))
        .collect();
    words.join(", ")
}

/// What one connection carried, and what QUIC lost.
fn connections(endpoint: &Endpoint) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let most: Vec<String> = (endpoint.most_requests.iter())
        .map(|(version, requests)| format!("{version} {}", figure::count(*requests)))
        .collect();
    if !most.is_empty() {
        facts.push(("most requests on one connection", most.join(", ")));
    }
    if let Some(quic) = &endpoint.quic {
        facts.push(("losses over QUIC", quic_losses(quic)));
        facts.push(("round trip over QUIC", quic_round_trips(quic)));
    }
    facts
}

fn quic_losses(quic: &QuicFacts) -> String {
    let mut said = format!(
        "{} of {} packets sent were lost, {} carried data again, {}; {} of {} STREAM frames received came late",
        figure::count(quic.lost),
        figure::count(quic.sent),
        figure::count(quic.retransmitted),
        figure::counted(quic.probe_timeouts, "probe timeout", "probe timeouts"),
        figure::count(quic.late_frames),
        figure::count(quic.stream_frames)
    );
    if quic.dropped_here > 0 {
        said += &format!(
            ", and this machine dropped {}",
            figure::counted(quic.dropped_here, "datagram", "datagrams")
        );
    }
    said
}

fn quic_round_trips(quic: &QuicFacts) -> String {
    format!(
        "{} smoothed, {} at least, {} at most",
        span(quic.rtt),
        span(quic.min_rtt),
        span(quic.max_rtt)
    )
}

fn downloads(endpoint: &Endpoint) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let bytes = |bytes: u64| format!("{} bytes", figure::count(bytes));
    facts.extend(
        endpoint
            .data_frame_bytes
            .map(|size| ("DATA frames", bytes(size))),
    );
    facts.extend(
        endpoint
            .record_bytes
            .map(|size| ("TLS records", bytes(size))),
    );
    facts.extend(behaviour::record_sizes(endpoint));
    for (version, multiplexes) in &endpoint.multiplexes {
        let said = if *multiplexes {
            "responses overtake each other"
        } else {
            "responses wait for each other"
        };
        facts.push(("multiplexing", format!("{version}: {said}")));
    }
    if let Some(coding) = &endpoint.coding {
        let said = match coding.coding.as_str() {
            "" => "none",
            coding => coding,
        };
        facts.push(("compression", format!("{said} ({})", coding.content_type)));
    }
    let losses = endpoint.losses;
    if losses.sent + losses.received > 0 {
        let said = format!(
            "{} of {} segments sent again, {} of {} received after a gap",
            figure::count(losses.retransmitted),
            figure::count(losses.sent),
            figure::count(losses.out_of_order),
            figure::count(losses.received)
        );
        facts.push(("losses over TCP", said));
    }
    facts.extend(behaviour::packets(endpoint));
    let advertised = if endpoint.advertises_http3 {
        "yes"
    } else {
        "no"
    };
    facts.push(("HTTP/3 advertised", advertised.to_owned()));
    facts
}

/// What stands for an endpoint in a table: A, B and so on.
pub(crate) fn letter(place: usize) -> char {
    ('A'..='Z').nth(place).unwrap_or('?')
}

/// Several endpoints in columns: figures that differ between versions first.
pub(crate) fn beside(of: &[Diagnosis]) -> Vec<Vec<String>> {
    let mut rows = vec![vec![String::new()]];
    let columns = || of.iter().map(|diagnosis| &diagnosis.endpoint);
    for (place, _) in columns().enumerate() {
        rows[0].push(letter(place).to_string());
    }
    let names: BTreeSet<&str> = columns()
        .flat_map(|endpoint| endpoint.versions.iter().map(|facts| facts.version))
        .collect();
    let mut row = |name: String, value: &dyn Fn(&Endpoint) -> String| {
        let mut row = vec![name];
        row.extend(columns().map(value));
        rows.push(row);
    };
    row("round trip".to_owned(), &|endpoint| {
        span(endpoint.round_trip)
    });
    for name in names {
        let of_version = |endpoint: &Endpoint, what: &dyn Fn(&VersionFacts) -> String| {
            let mut versions = endpoint.versions.iter();
            let facts = versions.find(|facts| facts.version == name);
            facts.map_or_else(|| UNKNOWN.to_owned(), what)
        };
        row(format!("{name} first byte"), &|endpoint| {
            of_version(endpoint, &|facts| span(facts.latency.first))
        });
        row(format!("{name} later"), &|endpoint| {
            of_version(endpoint, &|facts| span(facts.latency.later))
        });
        row(format!("{name} download"), &|endpoint| {
            of_version(endpoint, &|facts| rate(facts.download.median()))
        });
        row(format!("{name} upload"), &|endpoint| {
            of_version(endpoint, &|facts| rate(facts.upload_rate()))
        });
    }
    row("stream window".to_owned(), &|endpoint| {
        let windows = endpoint.upload_windows.as_ref();
        windows.map_or_else(
            || UNKNOWN.to_owned(),
            |windows| figure::count(windows.largest_stream_bytes),
        )
    });
    row("faults".to_owned(), &|endpoint| {
        let found = of.iter().find(|diagnosis| &diagnosis.endpoint == endpoint);
        found
            .map_or(0, |diagnosis| diagnosis.faults.len())
            .to_string()
    });
    rows
}

/// A span, or a dash.
pub(crate) fn span(span: Option<Duration>) -> String {
    span.map_or_else(|| UNKNOWN.to_owned(), figure::time)
}

/// A rate in Mbit/s, without the unit.
pub(crate) fn mbit(bytes_per_s: f64) -> String {
    figure::three_digits(bytes_per_s * 8.0 / 1e6)
}

/// A rate with its unit.
pub(crate) fn rate(bytes_per_s: Option<f64>) -> String {
    bytes_per_s.map_or_else(
        || UNKNOWN.to_owned(),
        |bytes_per_s| format!("{} Mbit/s", mbit(bytes_per_s)),
    )
}

/// The lowest and the highest of several rounds, for Markdown.
pub(super) fn range(rates: &Rates) -> String {
    match rates.range() {
        Some((lowest, highest)) if rates.bytes_per_s.len() > 1 => {
            format!("{} to {} Mbit/s", mbit(lowest), mbit(highest))
        }
        _ => UNKNOWN.to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use squall_analysis::probe::{
        LimitPrediction, Observations, Prediction, SmallRequestTimes, TlsFacts, UpdatePolicy,
        UploadWindows,
    };

    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// An upload of 2 MB in 1.6 s, which waited for nothing.
    fn upload() -> Upload {
        Upload {
            bytes: 2_000_000,
            took: ms(1_600),
            is_answered: true,
            stream_window: Duration::ZERO,
            connection_window: Duration::ZERO,
            congestion_window: Duration::ZERO,
            receive_window: Duration::ZERO,
            send_buffer: Duration::ZERO,
            answer: None,
            answer_to_short: None,
        }
    }

    fn version(name: &'static str, uploads: Vec<Upload>) -> VersionFacts {
        VersionFacts {
            version: name,
            problem: None,
            latency: SmallRequestTimes::default(),
            download: Rates::default(),
            download_times: Vec::new(),
            download_six: Rates::default(),
            client_windows: None,
            uploads,
        }
    }

    /// Gives an endpoint uploads at a round trip of 30 ms, limited by windows of 65,535 bytes, three eighths of which go
    /// unused.
    pub(crate) fn limit(endpoint: &mut Endpoint) {
        const WINDOW: u64 = 65_535;
        const CARRIED: u64 = 40_960;
        endpoint.round_trip = Some(ms(30));
        endpoint.versions = vec![version("HTTP/2", vec![upload()])];
        endpoint.upload_windows = Some(UploadWindows {
            stream_bytes: WINDOW,
            connection_bytes: WINDOW,
            largest_stream_bytes: WINDOW,
            largest_connection_bytes: WINDOW,
            round_trip_bytes: CARRIED,
            policy: UpdatePolicy::Half,
            data_frames: 123,
            updates: 60,
            sending: ms(1_570),
            blocked_by_stream: ms(1_500),
            blocked_by_connection: Duration::ZERO,
        });
        let predict = |millis| {
            let seconds = ms(millis).as_secs_f64();
            Prediction {
                round_trip: ms(millis),
                bytes_per_s: WINDOW as f64 / seconds,
                expected_bytes_per_s: CARRIED as f64 / seconds,
            }
        };
        endpoint.predictions = [10, 30, 60, 100, 200].map(predict).to_vec();
    }

    fn endpoint() -> Endpoint {
        Diagnosis::of(&Observations::default()).endpoint
    }

    #[test]
    fn rates_that_windows_allow_are_next_to_measured_rates() {
        let mut limited = endpoint();
        limit(&mut limited);
        let expected = [
            "round trip | 10 ms | 30 ms | 60 ms | 100 ms | 200 ms",
            "HTTP/2 upload, at most Mbit/s | 52.4 | 17.5 | 8.74 | 5.24 | 2.62",
            "expected, by its window updates | 32.8 | 10.9 | 5.46 | 3.28 | 1.64",
            "measured at 30.0 ms, Mbit/s | 10.0",
        ];
        let rows = |endpoint: &Endpoint| -> Vec<String> {
            let rows = predictions(endpoint).into_iter();
            rows.map(|row| row.join(" | ")).collect()
        };
        assert_eq!(rows(&limited), expected);
        let windows = limited.upload_windows.as_mut().expect("windows");
        windows.round_trip_bytes = windows.limit_bytes();
        assert_eq!(rows(&limited), [expected[0], expected[1], expected[3]]);
        limited.predictions.clear();
        assert_eq!(rows(&limited), [""; 0]);
    }

    #[test]
    fn tls_and_quic_facts_have_handshakes_in_round_trips_unless_too_short() {
        let mut endpoint = endpoint();
        endpoint.tls = Some(TlsFacts {
            cipher: "1.3 TLS_AES_128_GCM_SHA256".to_owned(),
            group: Some("X25519".to_owned()),
            handshake: Some(ms(33)),
            server_bytes: None,
            segment_bytes: 1_448,
        });
        let mut http3 = version("HTTP/3", Vec::new());
        http3.latency.handshake = Some(ms(63));
        endpoint.versions.push(http3);
        for (round_trip, tls, quic) in [
            (
                Some(ms(30)),
                "33.0 ms (1.1 round trips)",
                "63.0 ms (2.1 round trips)",
            ),
            (Some(Duration::from_micros(500)), "33.0 ms", "63.0 ms"),
            (None, "33.0 ms", "63.0 ms"),
        ] {
            endpoint.round_trip = round_trip;
            let facts = facts(&endpoint);
            let of = |name: &str| facts.iter().find(|(fact, _)| *fact == name);
            let (_, said) = of("TLS").expect("a fact");
            let before = "1.3 TLS_AES_128_GCM_SHA256, X25519, handshake ";
            assert_eq!(*said, format!("{before}{tls}"));
            let (_, said) = of("QUIC handshake").expect("a fact");
            assert_eq!(said, quic);
        }
    }

    #[test]
    fn uploads_name_what_they_waited_for_with_its_share() {
        let limited = Upload {
            took: ms(1_000),
            congestion_window: ms(750),
            receive_window: ms(140),
            stream_window: ms(4),
            ..upload()
        };
        assert_eq!(
            waits(&version("HTTP/1.1", vec![limited.clone(), limited])),
            "HTTP/1.1: for the congestion window 75 %, TCP's receive window 14 %"
        );
        assert_eq!(
            waits(&version("HTTP/2", vec![upload()])),
            "HTTP/2: for nothing that can be named"
        );
    }

    #[test]
    fn download_time_is_given_in_words_and_shares() {
        let time = DownloadTime {
            took: ms(200),
            round_trip: ms(30),
            slow_start: ms(120),
            unpaused: ms(50),
            ..DownloadTime::default()
        };
        assert_eq!(
            time_parts(&[time, time]),
            "the request's round trip 15 %, the server's slow start 60 %, bytes without a pause (at the rate of the link or \
             the server) 25 %"
        );
    }

    #[test]
    fn http3_limits_have_a_row_with_a_figure_for_each_round_trip() {
        let mut endpoint = Diagnosis::of(&Observations::default()).endpoint;
        assert!(predictions(&endpoint).is_empty());
        endpoint.round_trip = Some(ms(30));
        endpoint.http3_predictions = [10, 100]
            .map(|round_trip| LimitPrediction {
                round_trip: ms(round_trip),
                bytes_per_s: 65_536e3 / round_trip as f64,
            })
            .to_vec();
        let rows = predictions(&endpoint);
        assert_eq!(rows[0], ["round trip", "10 ms", "100 ms"]);
        assert_eq!(rows[1], ["HTTP/3 upload, at most Mbit/s", "52.4", "5.24"]);
        assert_eq!(rows[2], ["measured at 30.0 ms, Mbit/s", "-"]);
    }

    #[test]
    fn handshake_is_given_in_round_trips_unless_they_are_too_short() {
        let mut endpoint = endpoint();
        endpoint.round_trip = Some(ms(30));
        let said = handshake_time(&endpoint, ms(63));
        assert_eq!(said, "63.0 ms (2.1 round trips)");
        endpoint.round_trip = Some(Duration::from_micros(60));
        assert_eq!(handshake_time(&endpoint, ms(1)), "1.00 ms");
    }

    #[test]
    fn quic_losses_include_those_of_both_sides() {
        let mut quic = QuicFacts {
            sent: 1_000,
            lost: 30,
            retransmitted: 28,
            probe_timeouts: 1,
            stream_frames: 2_000,
            late_frames: 5,
            ..QuicFacts::default()
        };
        let said = quic_losses(&quic);
        assert!(
            said.starts_with("30 of 1,000 packets sent were lost"),
            "{said}"
        );
        assert!(said.contains("1 probe timeout;"), "{said}");
        assert!(
            said.ends_with("5 of 2,000 STREAM frames received came late"),
            "{said}"
        );
        quic.dropped_here = 7;
        assert!(quic_losses(&quic).ends_with("this machine dropped 7 datagrams"));
    }
}

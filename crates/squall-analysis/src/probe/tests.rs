//! One test for each fault: made observations show it, and a healthy endpoint does not.

use squall_base::Duration;
use squall_base::plan::Version;
use squall_base::record::{EndingCounts, Outcome, RequestRecord};

use super::made::{
    Windows, at_us, download, exchange, head, healthy, ms, received_data, request, small_requests,
    step, tcp, tcp_at, times, upload,
};
use super::{
    DetectedFault, Diagnosis, Fault, Http3Reach, Observations, Piece, ReceivedRecord, Relevance,
    Step, StepKind, UpdatePolicy, UploadWindows,
};
use crate::wire::http2::DATA;

const FAR: Duration = ms(30);

const LARGE: Windows = Windows {
    stream: 16 << 20,
    connection: 24 << 20,
    update_after: 8 << 20,
    increment: 8 << 20,
};
/// The load balancer that starved uploads.
const ALB: Windows = Windows {
    stream: 65_535,
    connection: 65_535,
    update_after: 1,
    increment: 16_375,
};

fn faults(seen: &Observations) -> Vec<Fault> {
    let found = Diagnosis::of(seen).faults;
    found.iter().map(|found| found.fault).collect()
}

/// The only fault.
fn only(seen: &Observations, fault: Fault) -> DetectedFault {
    let mut found = Diagnosis::of(seen).faults;
    let names: Vec<&str> = found.iter().map(|found| found.fault.name()).collect();
    assert_eq!(names, [fault.name()]);
    assert!(!found[0].fix.is_empty() && found[0].sentence.ends_with('.'));
    found.remove(0)
}

fn with(step: Step) -> Observations {
    let mut seen = healthy(FAR);
    seen.steps.push(step);
    seen
}

#[test]
fn healthy_endpoint_has_no_fault() {
    for round_trip in [Duration::from_micros(60), ms(8), FAR, ms(200)] {
        let mut seen = healthy(round_trip);
        seen.steps.push(upload(4_000_000, round_trip, LARGE));
        let diagnosis = Diagnosis::of(&seen);
        assert_eq!(diagnosis.faults, [], "{round_trip}");
        assert!(diagnosis.verdict.is_sound);
        let said = diagnosis.verdict.sentence;
        assert!(said.starts_with("Nothing is wrong"), "{said}");
        assert_eq!(diagnosis.endpoint.round_trip, Some(round_trip));
    }
}

#[test]
fn small_stream_window_is_found_with_the_rate_that_it_allows() {
    let window = Windows {
        stream: 65_535,
        connection: 1 << 30,
        update_after: i64::MAX,
        increment: 65_535,
    };
    let found = only(&with(upload(4_000_000, FAR, window)), Fault::StreamWindow);
    assert_eq!(found.matters, Relevance::Here);
    // 61 windows of 65,535 bytes, one in a round trip: 1.8 s.
    let lost = found.lost.expect("it cost time").as_secs_f64();
    assert!(lost > 1.0, "{lost}");
    let evidence = found.evidence.join("; ");
    assert!(evidence.contains("Mbit/s"), "{evidence}");
    // From nearby nothing is lost, but clients farther away will be slow.
    let mut near = healthy(Duration::from_micros(60));
    near.steps
        .push(upload(4_000_000, Duration::from_micros(60), window));
    let found = only(&near, Fault::StreamWindow);
    assert_eq!(found.matters, Relevance::FartherAway);
}

#[test]
fn upload_that_needed_no_update_says_nothing_about_the_window() {
    let window = Windows {
        stream: 65_535,
        connection: 65_535,
        ..LARGE
    };
    let seen = with(upload(60_000, FAR, window));
    assert_eq!(faults(&seen), []);
    let windows = Diagnosis::of(&seen).endpoint.upload_windows;
    assert_eq!(windows.unwrap().policy, UpdatePolicy::Unseen);
}

#[test]
fn load_balancer_is_recognised_by_giving_back_each_frame() {
    let mut made = upload(4_000_000, FAR, ALB);
    made.settings = vec![(3, 128), (4, 65_536)];
    let mut seen = with(made);
    // The load balancer passes on the `server` field of the server behind it.
    seen.heads[0] = head(Version::Http1, &[("server", "Cowboy")]);
    let diagnosis = Diagnosis::of(&seen);
    let windows = diagnosis.endpoint.upload_windows.as_ref().unwrap();
    assert_eq!(windows.policy, UpdatePolicy::EachData { bytes: 16_375 });
    let first = &diagnosis.faults[0];
    assert_eq!(first.fault, Fault::StreamWindow);
    assert!(first.fix.starts_with("AWS ALB: "), "{}", first.fix);
    let predicted: Vec<u64> = diagnosis
        .endpoint
        .predictions
        .iter()
        .map(|it| it.bytes_per_s.round() as u64)
        .collect();
    assert_eq!(predicted[3], 655_350, "one window in 100 ms");
}

#[test]
fn window_that_is_never_opened_is_found() {
    let never = Windows {
        update_after: i64::MAX,
        increment: 0,
        ..ALB
    };
    let windows = UploadWindows::of(&upload(1_000_000, FAR, never)).unwrap();
    assert_eq!(windows.policy, UpdatePolicy::Never);
    assert_eq!(windows.blocked_by_stream, Duration::from_secs(3));
    let found = Diagnosis::of(&with(upload(1_000_000, FAR, never))).faults;
    assert!(
        found[0].sentence.contains("stops after 65,535 bytes"),
        "{found:?}"
    );
}

#[test]
fn upload_that_the_server_did_not_want_says_nothing_about_its_windows() {
    let never = Windows {
        update_after: i64::MAX,
        increment: 0,
        ..ALB
    };
    let refused = |status, outcome| {
        let mut made = upload(1_000_000, FAR, never);
        let row = made.requests.iter_mut().find(|row| row.what == 1).unwrap();
        row.outcome = outcome;
        row.status = Some(status);
        row.headers = Some(row.end);
        made
    };
    for made in [
        refused(413, Outcome::Answered),
        // It responds without reading the body.
        refused(200, Outcome::Answered),
        refused(200, Outcome::StreamReset),
    ] {
        assert_eq!(UploadWindows::of(&made), None);
        let seen = with(made);
        assert_eq!(faults(&seen), []);
        let facts = Diagnosis::of(&seen).endpoint;
        let uploads = facts
            .version(Version::Http2)
            .map(|facts| facts.uploads.len());
        assert_eq!(uploads, Some(0));
    }
}

#[test]
fn connection_window_below_the_streams_is_found() {
    let window = Windows {
        stream: 1 << 20,
        connection: 65_535,
        update_after: i64::MAX,
        increment: 65_535,
    };
    let found = only(
        &with(upload(4_000_000, FAR, window)),
        Fault::ConnectionWindow,
    );
    assert_eq!(found.matters, Relevance::Here);
    assert!(found.sentence.contains("65,535"), "{}", found.sentence);
}

#[test]
fn updates_for_each_frame_of_a_large_window_are_overhead() {
    let window = Windows {
        update_after: 1,
        increment: 16_384,
        ..LARGE
    };
    let found = only(&with(upload(4_000_000, FAR, window)), Fault::UpdatePerData);
    assert_eq!(found.matters, Relevance::Overhead);
}

#[test]
fn grants_and_halves_are_told_apart() {
    let policy = |windows| {
        UploadWindows::of(&upload(4_000_000, FAR, windows))
            .unwrap()
            .policy
    };
    let grants = Windows {
        update_after: 1,
        increment: 8_000_000,
        ..ALB
    };
    assert!(matches!(
        policy(grants),
        UpdatePolicy::Grants { bytes: 8_000_000 }
    ));
    let half = Windows {
        stream: 1 << 20,
        connection: 1 << 20,
        update_after: 1 << 19,
        increment: 1 << 19,
    };
    assert_eq!(policy(half), UpdatePolicy::Half);
}

#[test]
fn pauses_of_a_delayed_acknowledgement_are_found() {
    let near = Duration::from_micros(500);
    let mut seen = healthy(near);
    for row in seen.steps[0].requests.iter_mut().skip(1) {
        row.end = row.answered_first.unwrap() + ms(41);
    }
    let found = only(&seen, Fault::DelayedAck);
    assert_eq!(found.lost, Some(ms(41)));
    // At such a round trip, a pause of 40 ms is one round trip.
    let mut far = healthy(ms(40));
    for row in far.steps[0].requests.iter_mut().skip(1) {
        row.end = row.answered_first.unwrap() + ms(41);
    }
    assert_eq!(faults(&far), []);
}

#[test]
fn small_records_and_frames_are_overhead() {
    let mut made = download(StepKind::Download, Version::Http2, 4_000_000, ms(600));
    let mut extent = exchange(4_000);
    if let Some(extent) = &mut extent.response_extent {
        extent.end = 4_000_100;
        extent.record_last = Some(3_080);
    }
    made.exchanges.push(extent);
    let found = only(&with(made.clone()), Fault::SmallRecords);
    assert!(found.sentence.contains("1,299"), "{}", found.sentence);
    let bytes = std::iter::repeat_n(1_300, 800).chain(std::iter::repeat_n(16_384, 180));
    let records = bytes.map(|bytes| ReceivedRecord {
        time: at_us(0),
        bytes,
    });
    made.records = records.collect();
    assert_eq!(faults(&with(made)), [], "they grow");
    let mut made = download(StepKind::Download, Version::Http2, 4_000_000, ms(600));
    made.frames = received_data(200, 500);
    only(&with(made), Fault::SmallFrames);
}

fn after_pause(late: Duration) -> Step {
    let mut made = step(StepKind::Idle, Version::Http2);
    let rows = [ms(90), ms(40), late];
    for (what, took) in (0..).zip(rows) {
        let mut row = request(
            what,
            10_000 + u64::from(what) * 2_000_000,
            took.as_nanos() / 1_000,
        );
        row.response_body_bytes = 200_000;
        made.requests.push(row);
    }
    made
}

#[test]
fn slow_start_after_a_pause_is_found() {
    let found = only(&with(after_pause(ms(130))), Fault::IdleSlowStart);
    assert_eq!(found.lost, Some(ms(90)));
    assert_eq!(faults(&with(after_pause(ms(45)))), []);
    // Behind a link, the congestion window is that of the link's host.
    let mut seen = with(after_pause(ms(130)));
    seen.is_forwarded = true;
    assert_eq!(faults(&seen), []);
}

#[test]
fn large_certificate_costs_a_round_trip() {
    let mut seen = healthy(FAR);
    for step in &mut seen.steps {
        step.exchanges
            .iter_mut()
            .for_each(|row| *row = exchange(18_000));
    }
    // The handshake took one round trip.
    let found = only(&seen, Fault::LargeCertificate);
    assert_eq!((found.matters, found.lost), (Relevance::Overhead, None));
    for row in seen.steps.iter_mut().flat_map(|step| &mut step.requests) {
        row.secured = row.connected.map(|time| time + times(FAR, 2));
    }
    let found = only(&seen, Fault::LargeCertificate);
    assert_eq!((found.matters, found.lost), (Relevance::Here, Some(FAR)));
}

/// A chain of 12 kB fits into ten segments: over TCP it costs bytes, not a round trip.
#[test]
fn large_certificate_that_costs_no_round_trip_is_overhead() {
    let mut seen = healthy(FAR);
    for (bytes, expected) in [(9_000, None), (13_000, Some(Relevance::Overhead))] {
        for step in &mut seen.steps {
            step.exchanges
                .iter_mut()
                .for_each(|row| *row = exchange(bytes));
        }
        let found = Diagnosis::of(&seen).faults;
        let found = found.iter().map(|found| (found.fault, found.matters));
        let expected = expected.map(|matters| (Fault::LargeCertificate, matters));
        assert_eq!(found.collect::<Vec<_>>(), Vec::from_iter(expected));
    }
}

#[test]
fn old_tls_is_found() {
    let mut seen = healthy(FAR);
    for step in &mut seen.steps {
        step.counts.ciphers = [("1.2 ECDHE-RSA-AES128-GCM-SHA256".to_owned(), 1)].into();
    }
    only(&seen, Fault::OldTls);
}

#[test]
fn advertised_http3_without_udp_is_found() {
    let mut seen = healthy(FAR);
    seen.http3 = Http3Reach::Silent("no handshake within 3 s".to_owned());
    assert_eq!(faults(&seen), [], "HTTP/3 was not advertised");
    seen.advertises_http3 = true;
    only(&seen, Fault::UdpBlocked);
    seen.http3 = Http3Reach::Works;
    assert_eq!(faults(&seen), []);
}

#[test]
fn queues_and_losses_are_found() {
    let mut seen = healthy(FAR);
    seen.connects_loaded = vec![ms(210); 5];
    let found = only(&seen, Fault::Bufferbloat);
    assert_eq!(found.lost, Some(ms(180)));
    assert!(found.sentence.starts_with("During downloads"));
    let mut made = step(StepKind::Download, Version::Http1);
    made.sockets.push(tcp(&[
        ("tcpi_rcv_ooopack", 60),
        ("tcpi_data_segs_in", 3_000),
    ]));
    only(&with(made), Fault::Loss);
    let mut made = step(StepKind::Download, Version::Http1);
    made.sockets.push(tcp(&[
        ("tcpi_rcv_ooopack", 6),
        ("tcpi_data_segs_in", 3_000),
    ]));
    assert_eq!(faults(&with(made)), []);
}

#[test]
fn queue_that_only_uploads_fill_is_found() {
    let mut seen = healthy(FAR);
    seen.connects_uploading = vec![ms(130); 2];
    assert_eq!(faults(&seen), [], "two handshakes are too few");
    seen.connects_uploading = vec![ms(130); 3];
    let found = only(&seen, Fault::Bufferbloat);
    assert_eq!(found.lost, Some(ms(100)));
    assert!(
        found
            .sentence
            .starts_with("During uploads a round trip takes 130 ms")
    );
    assert_eq!(found.evidence, ["3 TCP handshakes during uploads"]);
    assert_eq!(found.per, "request during an upload");
    let endpoint = Diagnosis::of(&seen).endpoint;
    assert_eq!(endpoint.connect_uploading, Some(ms(130)));
    assert_eq!(endpoint.connect_loaded, Some(FAR));
    // The longer queue is named.
    seen.connects_loaded = vec![ms(210); 5];
    let found = only(&seen, Fault::Bufferbloat);
    assert!(found.sentence.starts_with("During downloads"));
}

#[test]
fn verdict_says_which_transfers_were_seen() {
    let cause = |seen: &Observations| Diagnosis::of(seen).verdict.cause;
    let mut seen = healthy(FAR);
    let said = cause(&seen);
    assert!(said.contains("downloads but no uploads"), "{said}");
    seen.steps.retain(|step| step.kind != StepKind::Download);
    let said = cause(&seen);
    assert!(
        said.ends_with("small requests, but no downloads and no uploads."),
        "{said}"
    );
}

#[test]
fn upload_stored_before_it_is_passed_on_is_found() {
    let mut made = upload(4_000_000, FAR, LARGE);
    let row = made.requests.iter_mut().find(|row| row.what == 1).unwrap();
    let delivered = row.end.as_nanos() / 1_000;
    row.written_last = Some(at_us(delivered - 1_000));
    row.answered_first = Some(at_us(delivered + 830_000));
    row.end = at_us(delivered + 830_000);
    let empty = [("tcpi_unacked", 0), ("tcpi_notsent_bytes", 0)];
    made.sockets.push(tcp_at(delivered, &empty));
    let found = only(&with(made), Fault::BufferedUpload);
    assert_eq!(found.lost, Some(ms(800)));
}

fn overlap(small_took_us: u64) -> Step {
    let mut made = download(StepKind::Overlap, Version::Http2, 40_000_000, ms(1_000));
    let mut small = request(1, 101_000, small_took_us);
    small.stream = Some(2);
    made.requests.push(small);
    made
}

#[test]
fn response_that_waits_for_a_long_one_is_found() {
    only(&with(overlap(950_000)), Fault::NoMultiplexing);
    let seen = with(overlap(40_000));
    assert_eq!(faults(&seen), []);
    let versions = Diagnosis::of(&seen).endpoint.multiplexes;
    assert_eq!(versions.get("HTTP/2"), Some(&true));
}

#[test]
fn server_that_allows_one_stream_at_a_time_is_found() {
    const MAX_CONCURRENT_STREAMS: u64 = 0x3;
    let mut made = small_requests(Version::Http2, FAR);
    made.settings = vec![(MAX_CONCURRENT_STREAMS, 100)];
    assert_eq!(faults(&with(made.clone())), []);
    made.settings = vec![(MAX_CONCURRENT_STREAMS, 1)];
    let found = only(&with(made), Fault::NoMultiplexing);
    assert!(found.evidence[0].contains("MAX_CONCURRENT_STREAMS=1"));
}

#[test]
fn connections_that_end_soon_are_found() {
    let mut made = small_requests(Version::Http2, FAR);
    for (n, row) in (0..).zip(&mut made.requests) {
        row.connection = Some(n / 4);
        row.opened_connection = n % 4 == 0;
    }
    made.counts.endings = EndingCounts {
        goaways_received: 1,
        ..EndingCounts::default()
    };
    let found = Diagnosis::of(&with(made)).faults;
    let found = found
        .iter()
        .find(|found| found.fault == Fault::ShortConnections);
    let said = &found.expect("it is found").sentence;
    assert!(said.contains("after 4 requests (with a GOAWAY)"), "{said}");
}

#[test]
fn plain_text_without_compression_is_found() {
    let mut seen = healthy(FAR);
    seen.heads.push(head(
        Version::Http2,
        &[("content-type", "text/html; charset=utf-8")],
    ));
    seen.coding = Some(("gzip".to_owned(), 20_000));
    assert_eq!(faults(&seen), []);
    seen.coding = Some((String::new(), 20_000));
    only(&seen, Fault::NoCompression);
    seen.heads
        .push(head(Version::Http2, &[("content-type", "image/png")]));
    assert_eq!(faults(&seen), []);
}

#[test]
fn slow_server_is_not_blamed_on_the_network() {
    let mut seen = healthy(FAR);
    let rows = seen
        .steps
        .iter_mut()
        .filter(|step| step.kind == StepKind::Small);
    for row in rows.flat_map(|step| &mut step.requests) {
        row.answered_first = row.written_last.map(|time| time + ms(900));
        row.end = row.answered_first.unwrap();
    }
    let found = only(&seen, Fault::SlowServer);
    assert_eq!(found.lost, Some(ms(870)));
}

#[test]
fn slow_downloads_over_http2_are_found_if_every_round_shows_it() {
    let mut seen = healthy(FAR);
    let is_http2 = |step: &Step| step.kind == StepKind::Download && step.version == Version::Http2;
    seen.steps.retain(|step| !is_http2(step));
    let slow = || download(StepKind::Download, Version::Http2, 4_000_000, ms(3_000));
    seen.steps.push(slow());
    assert_eq!(faults(&seen), [], "one round is not enough");
    seen.steps.push(slow());
    only(&seen, Fault::SlowHttp2);
}

#[test]
fn silent_server_is_reported_as_such() {
    let seen = Observations {
        url: "https://server/".to_owned(),
        failures: vec![(
            Version::Http2,
            "connected, but no response in time".to_owned(),
        )],
        ..Observations::default()
    };
    let diagnosis = Diagnosis::of(&seen);
    assert_eq!(diagnosis.faults[0].fault, Fault::NoAnswer);
    assert!(
        diagnosis
            .verdict
            .cause
            .contains("HTTP/2: connected, but no response")
    );
}

#[test]
fn download_that_stops_is_found() {
    let mut made = step(StepKind::Download, Version::Http1);
    made.requests.push(RequestRecord {
        outcome: Outcome::Censored,
        end: at_us(6_000_000),
        ..request(0, 1_000, 30_000)
    });
    made.pieces.push(Piece {
        time: at_us(500_000),
        connection: 0,
        stream: 0,
        bytes: 9_000,
    });
    let found = only(&with(made), Fault::Stalled);
    assert!(
        found.evidence[0].starts_with("9,000 bytes"),
        "{:?}",
        found.evidence
    );
}

#[test]
fn products_are_recognised_by_what_only_they_send() {
    let product = |fields: &[(&str, &str)], settings: &[(u64, u64)]| {
        let mut seen = healthy(FAR);
        seen.heads = vec![head(Version::Http2, fields)];
        seen.steps[0].version = Version::Http2;
        seen.steps[0].settings = settings.to_vec();
        let known = Diagnosis::of(&seen).endpoint.product;
        known.map(|known| known.product.name())
    };
    assert_eq!(product(&[("server", "nginx/1.31.3")], &[]), Some("nginx"));
    assert_eq!(
        product(&[("server", "Apache/2.4")], &[]),
        Some("Apache httpd")
    );
    assert_eq!(
        product(&[("server", "Apache-Coyote/1.1")], &[]),
        Some("Tomcat")
    );
    // What the program that ends the connection announces counts more than the field, which may come from a server behind it.
    let envoy = [(3, 1_024), (4, 16_777_216)];
    assert_eq!(product(&[("server", "nginx")], &envoy), Some("Envoy"));
    let go = [(3, 250), (4, 1_048_576), (5, 1_048_576)];
    assert_eq!(product(&[], &go), Some("Go net/http"));
    assert_eq!(product(&[("set-cookie", "AWSALB=x")], &[]), Some("AWS ALB"));
    assert_eq!(product(&[("x-amz-cf-id", "x")], &envoy), Some("CloudFront"));
    let caddy = product(&[("via", "1.1 Caddy")], &go);
    assert_eq!(caddy, Some("Caddy"));
    // Several programs announce these.
    assert_eq!(product(&[], &[(3, 100), (4, 65_535)]), None);
}

/// HAProxy announces no window, and opens the connection's to its maximum with the first DATA.
#[test]
fn haproxy_is_recognised_by_the_windows_that_it_gives() {
    let mut made = upload(
        4_000_000,
        FAR,
        Windows {
            stream: 65_535,
            connection: 0x7fff_ffff,
            update_after: 1,
            increment: 9_500,
        },
    );
    made.settings = vec![(3, 100), (8, 1)];
    for record in &mut made.frames {
        // HAProxy's updates fill up the connection's window.
        record.frame.connection_window = record.frame.connection_window.map(|_| 0x7fff_ffff);
        if record.frame.kind == DATA {
            let length = i64::try_from(record.frame.length).unwrap();
            record.frame.connection_window = Some(0x7fff_ffff - length);
        }
    }
    let known = Diagnosis::of(&with(made)).endpoint.product;
    assert_eq!(known.map(|known| known.product.name()), Some("HAProxy"));
}

/// nghttpx, nghttpd and squall give both windows back by halves. If the updates of one come between those of the other, an
/// upload waits more often than once for each window.
#[test]
fn upload_that_waits_twice_for_each_window_is_expected_to_be_slower() {
    let windows = |update_after, increment| {
        let window = Windows {
            stream: 65_535,
            connection: 1 << 30,
            update_after,
            increment,
        };
        let made = upload(4_000_000, FAR, window);
        UploadWindows::of(&made).expect("windows").round_trip_bytes
    };
    let once = windows(i64::MAX, 65_535);
    assert!((60_000..=65_535).contains(&once), "{once}");
    let twice = windows(i64::MAX, 32_768);
    assert!((30_000..=35_000).contains(&twice), "{twice}");
}

#[test]
fn error_status_of_the_url_is_reported_and_its_connections_are_not_judged() {
    let mut seen = healthy(FAR);
    for head in &mut seen.heads {
        head.status = 400;
    }
    seen.is_secure = false;
    for (n, row) in seen.steps[0].requests.iter_mut().enumerate() {
        row.connection = Some(u32::try_from(n).unwrap());
    }
    let found = only(&seen, Fault::ErrorStatus);
    assert!(found.sentence.contains("status 400"), "{}", found.sentence);
    assert!(found.fix.contains("https://"), "{}", found.fix);
}

#[test]
fn fix_for_a_missing_answer_follows_from_the_reason() {
    let fix = |why: &str, is_secure: bool| {
        let seen = Observations {
            url: "http://server/".to_owned(),
            is_secure,
            failures: vec![
                (Version::Http1, why.to_owned()),
                (Version::Http2, why.to_owned()),
            ],
            ..Observations::default()
        };
        let found = only(&seen, Fault::NoAnswer);
        assert_eq!(found.evidence.len(), 1, "the same reason is given once");
        assert!(found.evidence[0].starts_with("HTTP/1.1, HTTP/2: "));
        assert!(!found.evidence[0].contains("os error"));
        found.fix
    };
    assert!(fix("Connection refused (os error 111)", false).contains("nothing listens"));
    assert!(fix("TLS: the peer does not speak TLS", true).contains("http://"));
    assert!(fix("connected, but no response in time", false).contains("https://"));
    let stalled = fix("connected, but no TLS handshake in time", true);
    assert!(stalled.contains("does not respond"), "{stalled}");
    assert!(fix("TLS: the server's certificate is not trusted", true).contains("-k"));
}

/// If a server echoes more than a probe downloads, its response is cut off; by then it has received the whole upload.
#[test]
fn upload_whose_echo_was_cut_off_has_a_rate() {
    let mut made = upload(4_000_000, FAR, ALB);
    let row = made.requests.last_mut().expect("the upload");
    row.outcome = Outcome::Censored;
    let diagnosis = Diagnosis::of(&with(made));
    let facts = diagnosis
        .endpoint
        .version(Version::Http2)
        .expect("it was tried");
    assert_eq!(facts.uploads.len(), 1);
    assert_eq!(facts.uploads[0].bytes, 4_000_000);
}

#[test]
fn waiting_for_the_congestion_window_is_distinguished_from_other_waiting() {
    let mut made = upload(4_000_000, FAR, LARGE);
    let sample = |time_us, unacked, snd_wnd| {
        tcp_at(
            time_us,
            &[
                ("tcpi_unacked", unacked),
                ("tcpi_snd_cwnd", 10),
                ("tcpi_snd_mss", 1_000),
                ("tcpi_snd_wnd", snd_wnd),
                ("tcpi_notsent_bytes", 5_000),
            ],
        )
    };
    made.sockets = vec![
        sample(20_000, 10, 1 << 20),
        sample(30_000, 4, 1 << 20),
        // Here the receiver's window is what stops the upload.
        sample(40_000, 10, 10_000),
    ];
    let row = made.requests.last_mut().expect("the upload");
    row.connection = Some(0);
    let diagnosis = Diagnosis::of(&with(made));
    let facts = diagnosis
        .endpoint
        .version(Version::Http2)
        .expect("it was tried");
    assert_eq!(facts.uploads[0].congestion_window, ms(10));
}

#[test]
fn fix_is_in_the_words_of_the_server_if_it_is_known() {
    let window = Windows {
        stream: 65_535,
        connection: 1 << 30,
        update_after: i64::MAX,
        increment: 65_535,
    };
    let fix = |server: &str| {
        let mut seen = with(upload(4_000_000, FAR, window));
        seen.heads = vec![head(Version::Http2, &[("server", server)])];
        only(&seen, Fault::StreamWindow).fix
    };
    assert!(fix("Kestrel").contains("InitialStreamWindowSize"));
    assert!(fix("Jetty(12)").contains("initialStreamRecvWindow"));
    assert!(fix("made").contains("SETTINGS_INITIAL_WINDOW_SIZE"));
    assert!(fix("Microsoft-IIS/10.0").contains("RFC 9113"));
}

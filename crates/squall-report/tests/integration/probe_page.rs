//! The pages of a probe and of a sweep in a real Chromium: whether axe-core accepts them, and whether they fit on a phone.
//!
//! Their content is tested beside the code that makes them (`html/probe.rs`, `html/probe_sweep.rs`).

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use squall_analysis::probe::{
    Diagnosis, Observations, Opening, Prediction, Rates, SmallRequestTimes, Sweep, SweepFigures,
    SweepPoint, Transfer, TransferCourse, UpdatePolicy, UploadWindows, VersionFacts,
};
use squall_base::Duration;
use squall_base::plan::Version;
use squall_report::probe::{
    ProbeCost, ProbePage, ProbedEndpoint, SweepPage, probe_page, sweep_page,
};

use crate::support::axe::{self, check};
use crate::support::chromium;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn version(version: &'static str, bytes_per_s: f64) -> VersionFacts {
    let rates = Rates {
        bytes_per_s: vec![bytes_per_s],
    };
    VersionFacts {
        version,
        problem: None,
        latency: SmallRequestTimes {
            first: Some(ms(93)),
            later: Some(ms(30)),
            handshake: Some(ms(31)),
        },
        download: rates.clone(),
        download_six: rates,
        download_times: Vec::new(),
        client_windows: None,
        uploads: Vec::new(),
    }
}

fn diagnosis() -> Diagnosis {
    let mut diagnosis = Diagnosis::of(&Observations {
        url: "https://a-server-with-a-long-name.example.com:8443/a/long/path/to/a/resource.html"
            .to_owned(),
        address: "192.0.2.1:8443".to_owned(),
        failures: vec![(Version::Http3, "no handshake within 3 s".to_owned())],
        notes: vec!["45s was too short for all steps; --duration allows more time.".to_owned()],
        ..Observations::default()
    });
    let endpoint = &mut diagnosis.endpoint;
    let tried = [version("HTTP/1.1", 14e6), version("HTTP/2", 2.1e6)];
    endpoint.versions.extend(tried);
    endpoint.round_trip = Some(ms(30));
    endpoint.upload_windows = Some(UploadWindows {
        stream_bytes: 65_535,
        connection_bytes: 65_535,
        largest_stream_bytes: 65_535,
        largest_connection_bytes: 65_535,
        round_trip_bytes: 40_000,
        policy: UpdatePolicy::Half,
        data_frames: 300,
        updates: 150,
        sending: ms(2_400),
        blocked_by_stream: ms(2_300),
        blocked_by_connection: Duration::ZERO,
    });
    endpoint.predictions = [10, 30, 60, 100, 200]
        .map(|round_trip| Prediction {
            round_trip: ms(round_trip),
            bytes_per_s: 65_535e3 / round_trip as f64,
            expected_bytes_per_s: 40_000e3 / round_trip as f64,
        })
        .to_vec();
    diagnosis
}

pub(crate) fn endpoint() -> ProbedEndpoint {
    let course = |version, transfer| TransferCourse {
        version,
        transfer,
        points: (1..50).map(|n| (ms(40 * n), 65_535 * n)).collect(),
        blocked: (1..50).map(|n| (ms(40 * n), ms(40 * n + 30))).collect(),
    };
    let opening = |version, connect| Opening {
        version,
        connect,
        secure: ms(31),
        answer: ms(30),
    };
    ProbedEndpoint {
        diagnosis: diagnosis(),
        courses: vec![
            course("HTTP/1.1", Transfer::Download),
            course("HTTP/2", Transfer::Upload),
        ],
        openings: vec![opening("HTTP/1.1", ms(30)), opening("HTTP/3", ms(0))],
        spent: ProbeCost {
            requests: 90,
            sent_bytes: 5_000_000,
            received_bytes: 40_000_000,
            took: ms(12_000),
        },
    }
}

fn probe(endpoints: Vec<ProbedEndpoint>) -> String {
    probe_page(&ProbePage {
        command: "squall probe https://a-server-with-a-long-name.example.com:8443/ --upload 5MB"
            .to_owned(),
        started_unix_ns: 1_763_760_301_000_000_000,
        link: Some("delay 15ms".to_owned()),
        endpoints,
    })
}

pub(crate) fn swept() -> Sweep {
    let points = [10_u64, 20, 50, 100, 200].map(|delay| SweepPoint {
        value: format!("{delay}ms"),
        link: format!("delay {delay}ms, loss 1%"),
        headline: "Stream window too small for uploads: 2.38 s lost for each upload".to_owned(),
        is_sound: delay < 50,
        round_trip: Some(ms(2 * delay)),
        largest_stream_bytes: Some(65_535),
        versions: ["HTTP/1.1", "HTTP/2", "HTTP/3"]
            .map(|version| SweepFigures {
                version: version.to_owned(),
                problem: None,
                first_byte: Some(ms(6 * delay)),
                download_bytes_per_s: Some(1e9 / delay as f64),
                upload_bytes_per_s: Some(1e8 / delay as f64),
            })
            .to_vec(),
    });
    let url = "https://localhost:8443/".to_owned();
    Sweep::of(url, "delay".to_owned(), points.to_vec())
}

fn sweep() -> String {
    sweep_page(&SweepPage {
        command: "squall probe --behind 'delay 10..200ms, loss 1%' https://localhost:8443/"
            .to_owned(),
        started_unix_ns: 1_763_760_301_000_000_000,
        took: ms(90_000),
        sweep: &swept(),
    })
}

#[test]
fn pages_of_probes_pass_axe_core_and_are_not_cut_off_on_a_phone() {
    let Some(axe) = axe::script() else {
        return;
    };
    let pages = [
        ("probe-one", probe(vec![endpoint()])),
        ("probe-two", probe(vec![endpoint(), endpoint()])),
        ("probe-sweep", sweep()),
    ];
    for (name, markup) in pages {
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.html"));
        std::fs::write(&file, markup).unwrap();
        let Some(mut page) = chromium::empty(1_280, 900) else {
            return;
        };
        page.visit(&format!("file://{}", file.display()));
        page.wait_for("document.readyState === 'complete'");
        page.eval(&format!("{axe}; 0"));
        page.eval("document.querySelectorAll('details').forEach((it) => { it.open = true; }); 0");
        for (scheme, width) in [
            ("light", 1_280),
            ("light", 390),
            ("dark", 390),
            ("dark", 1_280),
        ] {
            page.prefer(scheme);
            page.resize(width, 900);
            page.wait_for(&format!("innerWidth === {width}"));
            check(&mut page, &format!("{name}, {scheme}, {width} px"));
            let is_wide = page.eval("document.documentElement.scrollWidth > innerWidth");
            assert_eq!(is_wide, false, "{name} at {width} px");
        }
    }
}

//! Sample loads for the tests of this folder: no request, one request, many of every kind, only failures, millions.

use std::collections::BTreeMap;

use squall_analysis::load::{
    BodySendLimits, Generator, IntervalFigures, LoadPicture, LoadTotals, LongestLag, MeasuredPhase,
    PageTotals, Punctuality, QuicLosses, Round, SendLimits, TcpSendLimits, VariantRounds,
};
use squall_base::record::{
    BodyArrivals, EndingCounts, Lateness, Outcome, Phase, RequestRecord, SideCounts,
};
use squall_base::{Duration, Time};

use super::{FinishedLoad, Glyphs, LoadSeries, TextFormat};
use crate::Colour;
use crate::lang::Language;

/// A plain terminal of 80 columns.
pub(super) const FORMAT: TextFormat = TextFormat {
    width: 80,
    colour: Colour::Plain,
    glyphs: Glyphs::Unicode,
    language: Language::En,
};

/// The figures of a second of a load.
pub(super) fn second() -> IntervalFigures {
    IntervalFigures {
        length: Duration::from_secs(1),
        succeeded: 998,
        failed: 2,
        body_bytes_in: 12_300_000,
        p50: Some(Duration::from_micros(1_020)),
        p90: Some(Duration::from_micros(1_200)),
        p99: Some(Duration::from_micros(31_000)),
        p999: None,
        max: Some(Duration::from_micros(81_000)),
        lag_max: Some(Duration::from_micros(85)),
    }
}

/// A finished load, with the values that it borrows.
pub(crate) struct Sample {
    pub(super) totals: LoadTotals,
    picture: LoadPicture,
    end: Time,
    pub(super) counts: SideCounts,
    machine_errors: BTreeMap<String, u64>,
    causes: SendLimits,
    pages: Option<PageTotals>,
    generator: Generator,
}

impl Sample {
    pub(crate) fn finished(&self) -> FinishedLoad<'_> {
        FinishedLoad {
            end: self.end,
            totals: &self.totals,
            counts: &self.counts,
            machine_errors: &self.machine_errors,
            causes: &self.causes,
            pages: self.pages.as_ref(),
            generator: self.generator,
        }
    }

    /// A series of `rounds` identical rounds of this load, with a name.
    pub(crate) fn series(&self, name: &str, rounds: usize) -> LoadSeries<'_> {
        LoadSeries {
            name: name.to_owned(),
            rounds: vec![&self.totals; rounds],
            picture: &self.picture,
            end: self.end,
        }
    }

    fn of(
        phase: MeasuredPhase,
        end: Time,
        requests: impl Iterator<Item = RequestRecord>,
    ) -> Sample {
        let mut totals = LoadTotals::new(phase);
        let mut picture = LoadPicture::new(Time::ZERO, phase);
        requests.for_each(|request| {
            totals.add(&request);
            picture.add(&request);
        });
        Sample {
            totals,
            picture,
            end,
            counts: SideCounts::default(),
            machine_errors: BTreeMap::new(),
            causes: SendLimits::default(),
            pages: None,
            generator: Generator::default(),
        }
    }
}

fn at(us: u64) -> Time {
    Time::from_nanos(us * 1_000)
}

fn answered(intended_us: u64, took_us: u64) -> RequestRecord {
    squall_made::answered(0, at(intended_us), Duration::from_micros(took_us))
}

fn unanswered(intended_us: u64, took_us: u64, outcome: Outcome, said: &str) -> RequestRecord {
    RequestRecord {
        status: None,
        response_body_bytes: 0,
        outcome,
        error: (!said.is_empty()).then(|| said.to_owned()),
        ..answered(intended_us, took_us)
    }
}

/// A load without any request.
pub(crate) fn empty() -> Sample {
    Sample::of(MeasuredPhase::default(), Time::ZERO, std::iter::empty())
}

/// A load of one request, which opened its connection.
pub(crate) fn one() -> Sample {
    let request = RequestRecord {
        connected: Some(at(300)),
        secured: Some(at(1_100)),
        written_last: Some(at(1_150)),
        answered_first: Some(at(1_600)),
        opened_connection: true,
        ..answered(0, 1_650)
    };
    let mut sample = Sample::of(MeasuredPhase::default(), at(1_650), [request].into_iter());
    sample.counts.tcp_connections = 1;
    sample.counts.tls_full = 1;
    sample.counts.protocols = [("h2".to_owned(), 1)].into();
    sample
}

/// 100 requests a second for 20 s after a warm-up of 2 s. The first request opened its connection; some requests fail.
pub(crate) fn mixed() -> Sample {
    let phase = MeasuredPhase {
        from: at(2_000_000),
        to: Some(at(22_000_000)),
    };
    let requests = (0..2_200_u64).map(|n| {
        let intended = n * 10_000;
        // A long tail: the last of each thousand takes 400 times as long as the first.
        let rank = n * 7_919 % 1_000;
        let took = 2_000
            + rank
            + if rank > 900 {
                (rank - 900) * (rank - 900) * 80
            } else {
                0
            };
        match n {
            500..505 => {
                return unanswered(
                    intended,
                    40,
                    Outcome::ConnectionClosed,
                    "Connection reset by peer (os error 104)",
                );
            }
            600..606 => {
                return unanswered(
                    intended,
                    900,
                    Outcome::StreamReset,
                    "RST_STREAM: REFUSED_STREAM",
                );
            }
            2_190.. => return unanswered(intended, 5_000_000, Outcome::Censored, ""),
            _ => {}
        }
        let lag = n % 13;
        RequestRecord {
            phase: if n < 200 {
                Phase::Warmup
            } else {
                Phase::Measure
            },
            taken_up: at(intended + lag),
            slot: Some(at(intended + lag + if rank > 980 { 900 } else { 0 })),
            written_last: Some(at(intended + lag + 910)),
            answered_first: Some(at(intended + took - 250)),
            status: Some(if n % 500 == 499 { 503 } else { 200 }),
            request_body_bytes: 100,
            ..answered(intended, took)
        }
    });
    let mut sample = Sample::of(phase, at(27_000_000), requests);
    sample.counts = side_counts();
    sample.causes = send_limits();
    sample.generator = Generator {
        rate_asked_per_s: Some(100.0),
        cpu_percent: Some(4.2),
        punctuality: Some(punctuality()),
    };
    sample
}

fn punctuality() -> Punctuality {
    let us = Duration::from_micros;
    Punctuality {
        woken_late: Lateness {
            count: 2_187,
            p50: us(5),
            p99: us(38),
            p999: us(700),
            max: us(1_330),
        },
        share_of_lag: Some(0.61),
        own_lag: Lateness {
            count: 2_000,
            p50: us(2),
            p99: us(7),
            p999: us(11),
            max: us(12),
        },
        longest: Some(LongestLag {
            lag: us(12),
            machine: us(10),
            run_queue_delay: Some(us(9)),
        }),
        stolen_share: Some(0.0012),
        has_awake_processors: true,
    }
}

/// 40 pages that loaded, one that failed and two that were unfinished.
pub(super) fn of_pages() -> Sample {
    let requests = (0..120).map(|n| answered(n * 1_000, 5_000));
    let mut sample = Sample::of(MeasuredPhase::default(), at(130_000), requests);
    let mut pages = PageTotals::default();
    (0..40).for_each(|n| pages.add_ended(Duration::from_millis(20 + n), 0));
    pages.add_ended(Duration::from_millis(9), 2);
    (1..3).for_each(|n| pages.add_unfinished(Duration::from_millis(70 * n)));
    sample.pages = Some(pages);
    sample
}

/// 40 responses in two pieces, the first after 40 ms and the second 20 ms later, except one that pauses for 90 ms.
pub(super) fn streamed() -> Sample {
    let gap_ms = |n: u64| if n == 17 { 90 } else { 20 };
    let requests = (0..40).map(|n| {
        let begun = n * 1_000_000;
        let gap_us = 1_000 * gap_ms(n);
        let mut arrivals = BodyArrivals::default();
        arrivals.note(at(begun + 40_000), true);
        arrivals.note(at(begun + 40_000 + gap_us), true);
        RequestRecord {
            arrivals,
            ..answered(begun, 40_000 + gap_us)
        }
    });
    let mut sample = Sample::of(MeasuredPhase::default(), at(40_000_000), requests);
    let gaps = (0..40).map(|n| (Duration::from_millis(gap_ms(n)), 1));
    sample.totals.add_gaps(gaps);
    sample
}

fn side_counts() -> SideCounts {
    SideCounts {
        tcp_connections: 5,
        tls_full: 1,
        tls_resumed: 4,
        protocols: [("h2".to_owned(), 5)].into(),
        alpn: [("h2".to_owned(), 5)].into(),
        ciphers: [("TLSv1.3 TLS_AES_128_GCM_SHA256".to_owned(), 5)].into(),
        groups: [("X25519MLKEM768".to_owned(), 5)].into(),
        settings_sent: [("INITIAL_WINDOW_SIZE=1048576".to_owned(), 5)].into(),
        settings_received: [(
            "MAX_CONCURRENT_STREAMS=128 INITIAL_WINDOW_SIZE=65536".to_owned(),
            5,
        )]
        .into(),
        endings: EndingCounts {
            goaways_received: 1,
            resets_sent: 3,
            resets_received: 1_200,
            ..EndingCounts::default()
        },
        ..SideCounts::default()
    }
}

fn send_limits() -> SendLimits {
    SendLimits {
        tcp: Some(TcpSendLimits {
            connections: 5,
            busy: 0.5,
            receive_window: 0.375,
            send_buffer: 0.0,
            congestion_window_or_acknowledgement: 0.625,
            segments: 12_345,
            retransmitted: 67,
        }),
        quic: None,
        http2_bodies: Some(BodySendLimits {
            bodies: 2_200,
            sending_ns: 12_500_000_000,
            stream_window: 0.25,
            connection_window: 0.0625,
        }),
    }
}

/// 50 requests in two seconds, each on a new connection over TLS.
pub(super) fn connections() -> Sample {
    let requests = (0..50).map(|n| {
        let begun = n * 40_000;
        RequestRecord {
            connected: Some(at(begun + 300)),
            secured: Some(at(begun + 1_100)),
            opened_connection: true,
            ..answered(begun, 1_650)
        }
    });
    let mut sample = Sample::of(MeasuredPhase::default(), at(2_000_000), requests);
    sample.counts.tcp_connections = 50;
    sample.counts.tls_full = 50;
    sample
}

/// Six gRPC calls, of which five fail in four ways.
pub(super) fn grpc() -> Sample {
    let errors = [
        None,
        Some("grpc-status 13 (INTERNAL)"),
        Some("grpc-status 13 (INTERNAL)"),
        Some("grpc-status 14 (UNAVAILABLE)"),
        Some("grpc-status 16 (UNAUTHENTICATED)"),
        Some("no grpc-status"),
    ];
    let requests = (0..).zip(errors).map(|(n, error)| RequestRecord {
        error: error.map(str::to_owned),
        ..answered(n * 1_000, 500)
    });
    Sample::of(MeasuredPhase::default(), at(6_000), requests)
}

/// Every connection is refused.
pub(super) fn failed() -> Sample {
    let said = "Connection refused (os error 111)";
    let requests = (0..50).map(|n| unanswered(n * 1_000, 120, Outcome::ConnectFailed, said));
    let mut sample = Sample::of(MeasuredPhase::default(), at(50_000), requests);
    sample.machine_errors = [("Too many open files (os error 24)".to_owned(), 3)].into();
    sample.generator.rate_asked_per_s = Some(1_000.0);
    sample
}

/// Two million requests in a minute, whose generator was late.
pub(super) fn millions() -> Sample {
    let phase = MeasuredPhase {
        from: Time::ZERO,
        to: Some(at(60_000_000)),
    };
    let requests = (0..2_000_000_u64).map(|n| RequestRecord {
        taken_up: at(n * 30 + if n % 500 == 0 { 3_000 } else { 1 }),
        ..answered(n * 30, 10_000 + n * 7_919 % 20_011)
    });
    let mut sample = Sample::of(phase, at(60_000_000), requests);
    sample.counts.quic_connections = 12;
    sample.causes.quic = Some(QuicLosses {
        connections: 12,
        packets: 2_100_000,
        lost: 0,
    });
    sample.generator = Generator {
        rate_asked_per_s: Some(40_000.0),
        cpu_percent: Some(98.0),
        punctuality: None,
    };
    sample
}

/// This many requests in 20 s, whose response times no compression can make small.
pub(crate) fn scattered(count: u64) -> Sample {
    let phase = MeasuredPhase {
        from: Time::ZERO,
        to: Some(at(20_000_000)),
    };
    let requests = (0..count).map(|n| {
        // Knuth's multiplicative hashing of the number.
        let hash = n.wrapping_mul(2_654_435_761) % (1 << 32);
        let jitter = hash % 7;
        RequestRecord {
            request: n,
            ..answered(n * 20_000_000 / count + jitter, 500 + hash % 1_000_003)
        }
    });
    Sample::of(phase, at(21_000_000), requests)
}

/// Three variants of three rounds each: the second is faster, the third has failures.
pub(crate) fn variants() -> Vec<VariantRounds> {
    let variant = |name: &str, took_us: [u64; 3], failures: u64| VariantRounds {
        name: name.to_owned(),
        rounds: took_us
            .map(|took| {
                let good = (0..1_000).map(|n| answered(n * 1_000, took + n % 100 * (took / 50)));
                let bad = (0..failures).map(|n| unanswered(n, 10, Outcome::StreamReset, "reset"));
                let end = at(1_000_000 + took);
                Round::of(
                    &Sample::of(MeasuredPhase::default(), end, good.chain(bad)).totals,
                    end,
                )
            })
            .to_vec(),
    };
    vec![
        variant("HTTP/1.1", [41_000, 40_000, 44_000], 0),
        variant("HTTP/2", [21_000, 20_000, 24_000], 0),
        variant("HTTP/3", [39_000, 41_500, 40_200], 25),
    ]
}

//! Thresholds are parsed in k6's syntax, printed so that they parse back, and hold only if that is certain.

use squall_analysis::{
    Certainty, Latency, P99_NEEDS, Percentile, Quantile, Sample, Threshold, ThresholdResult,
    ThresholdSource,
};
use squall_base::Duration;

/// The figures of a load in which the service time of each request is half of its response time.
struct Load {
    response: Sample,
    service: Sample,
    requests: u64,
    errors: u64,
}

fn load(latencies: &[Quantile]) -> Load {
    let half = |latency: &Quantile| match *latency {
        Quantile::Exact(span) => Quantile::Exact(Duration::from_nanos(span.as_nanos() / 2)),
        Quantile::AtLeast(span) => Quantile::AtLeast(Duration::from_nanos(span.as_nanos() / 2)),
        Quantile::Never => Quantile::Never,
    };
    let errors = latencies.iter().filter(|latency| latency.exact().is_none());
    Load {
        response: latencies.iter().copied().collect(),
        service: latencies.iter().map(half).collect(),
        requests: latencies.len() as u64,
        errors: errors.count() as u64,
    }
}

impl Load {
    fn of(&self, latency: Latency) -> &Sample {
        match latency {
            Latency::ResponseTime => &self.response,
            Latency::ServiceTime | Latency::FirstChunk | Latency::Gap => &self.service,
        }
    }
}

impl ThresholdSource for Load {
    fn percentile(&self, of: Latency, percentile: Percentile) -> Option<Quantile> {
        self.of(of).quantile(percentile.per_million() / 1_000)
    }

    fn mean(&self, of: Latency) -> Option<Quantile> {
        self.of(of).mean()
    }

    fn min(&self, of: Latency) -> Option<Quantile> {
        self.of(of).min()
    }

    fn max(&self, of: Latency) -> Option<Quantile> {
        self.of(of).max()
    }

    fn requests(&self) -> u64 {
        self.requests
    }

    fn requests_per_s(&self) -> Option<f64> {
        (self.requests > 0).then_some(1000.0)
    }

    fn errors(&self) -> u64 {
        self.errors
    }
}

fn ms(millis: u64) -> Quantile {
    Quantile::Exact(Duration::from_millis(millis))
}

fn threshold(text: &str) -> Threshold {
    text.parse().expect(text)
}

fn check(text: &str, load: &Load) -> ThresholdResult {
    threshold(text).check(load)
}

#[test]
fn printed_thresholds_parse_back() {
    for (text, written) in [
        ("p(99)<50", "p(99)<50"),
        (" response_time : p( 99.90 ) <= 1.5ms ", "p(99.9)<=1.5"),
        ("p(99.9999)>=2s", "p(99.9999)>=2000"),
        ("p(5)!=1us", "p(5)!=0.001"),
        ("service_time:med<1min", "service_time:med<60000"),
        ("avg>0", "avg>0"),
        ("min==1", "min==1"),
        ("service_time:max<.5", "service_time:max<0.5"),
        ("first_chunk: p(95) < 300ms", "first_chunk:p(95)<300"),
        ("gap:p(99)<80ms", "gap:p(99)<80"),
        ("errors:rate<7%", "errors:rate<0.07"),
        ("errors:rate<0.01", "errors:rate<0.01"),
        ("errors:count==0", "errors:count==0"),
        ("requests:rate>1000/s", "requests:rate>1000"),
        ("requests:count >= 1e", ""),
        ("requests:count >= 10", "requests:count>=10"),
    ] {
        let read: Result<Threshold, _> = text.parse();
        match written {
            "" => assert!(read.is_err(), "{text}"),
            _ => {
                assert_eq!(threshold(text).to_string(), written);
                assert_eq!(threshold(written), threshold(text));
            }
        }
    }
}

#[test]
fn mistakes_are_reported_with_their_column_and_an_example() {
    for (text, column, words) in [
        ("p(99)", 5, "< <= > >= == !="),
        ("p(99)=50", 5, "< <= > >= == !="),
        ("", 0, "no comparison"),
        ("latency:p(99)<50", 0, "service_time"),
        ("p99<50", 0, "p(N)"),
        ("é:avg<1", 0, "no such metric"),
        ("service_time: p(x)<1", 16, "four decimals"),
        ("p(100)<1", 2, "min or max"),
        ("p(0)<1", 2, "min or max"),
        ("p(99.12345)<1", 2, "four decimals"),
        ("rate<0.01", 0, "errors:rate<0.01"),
        ("service_time:count<1", 13, "what is counted"),
        ("errors:p(99)<1", 7, "errors:count==0"),
        ("p(99)<", 6, "milliseconds"),
        ("p(99)< 5 parsecs", 7, "milliseconds"),
        ("p(99)<-1", 6, "milliseconds"),
        ("p(99)<nan", 6, "milliseconds"),
        ("errors:rate<1ms", 12, "share"),
        ("requests:rate>5ms", 14, "a second"),
        ("p(99)<50<60", 6, "milliseconds"),
    ] {
        let error = text.parse::<Threshold>().expect_err(text);
        assert_eq!(error.column, column, "{error}");
        let said = error.to_string();
        assert!(
            said.contains(words) && said.contains(&format!("{text:?}")),
            "{said}"
        );
    }
}

#[test]
fn known_values_are_checked_against_the_limit() {
    let latencies: Vec<Quantile> = (1..=1_000).map(ms).collect();
    let load = load(&latencies);
    for (text, measured, holds) in [
        ("p(99)<990", 990.0, false),
        ("p(99)<=990", 990.0, true),
        ("p(99.5)==995", 995.0, true),
        ("service_time:p(99)<496", 495.0, true),
        ("med>500", 500.0, false),
        ("med>=500", 500.0, true),
        ("avg!=500.5", 500.5, false),
        ("min<2", 1.0, true),
        ("max<1s", 1000.0, false),
        ("requests:rate>999", 1000.0, true),
        ("requests:count==1000", 1000.0, true),
        ("errors:rate<1%", 0.0, true),
        ("errors:count==0", 0.0, true),
    ] {
        let found = check(text, &load);
        let expected = ThresholdResult {
            measured: Some(measured),
            certainty: Certainty::Exact,
            holds,
        };
        assert_eq!(found, expected, "{text}");
    }
    let failed = check("p(99)<990", &load);
    assert_eq!(
        failed.sentence(&threshold("p(99)<990")),
        "p(99)<990: FAILED, 990 ms"
    );
}

#[test]
fn thresholds_on_unknown_values_do_not_hold() {
    let say = |text: &str, load: &Load| check(text, load).sentence(&threshold(text));
    let none = load(&[]);
    for text in [
        "p(99)<1s",
        "avg<1s",
        "errors:count==0",
        "errors:rate<1",
        "requests:rate>0",
    ] {
        assert_eq!(
            check(text, &none).certainty,
            Certainty::Unmeasured,
            "{text}"
        );
        assert!(!check(text, &none).holds, "{text}");
    }
    assert!(say("max>1", &none).ends_with("FAILED, not measured, or too few requests for it"));
    // Too few requests for a p99, by squall's rule.
    let few = load(&vec![ms(1); P99_NEEDS as usize - 1]);
    assert!(!check("p(99)<50", &few).holds && check("med<50", &few).holds);
    // All requests failed: no latency has an end, whatever the comparison.
    let failed = load(&[Quantile::Never; 400]);
    for text in ["p(99)<50", "p(99)>50", "avg!=1", "max>=0"] {
        assert_eq!(check(text, &failed).certainty, Certainty::Endless, "{text}");
        assert!(!check(text, &failed).holds, "{text}");
    }
    assert_eq!(
        say("errors:rate<1%", &failed),
        "errors:rate<1%".replace("1%", "0.01") + ": FAILED, 100 % errors"
    );
    // Given up after 40 ms: certainly not shorter than that, and not certainly shorter than anything.
    let censored = load(&vec![Quantile::AtLeast(Duration::from_millis(40)); 400]);
    for (text, holds) in [
        ("p(99)<50", false),
        ("p(99)>30", true),
        ("p(99)>=40", true),
        ("p(99)>40", false),
        ("p(99)!=30", true),
        ("p(99)==40", false),
    ] {
        assert_eq!(check(text, &censored).holds, holds, "{text}");
        assert_eq!(
            check(text, &censored).certainty,
            Certainty::LowerBound,
            "{text}"
        );
    }
    assert_eq!(
        say("p(99)<50", &censored),
        "p(99)<50: FAILED, 40.0 ms or more, unfinished requests hide the rest"
    );
}

#[test]
fn ranks_of_percentiles_match_those_of_a_sample() {
    for count in [0, 1, 5, 6, 71, 72, 367, 368, 1_000, 12_345] {
        let sample: Sample = (1..=count).map(ms).collect();
        for per_mille in [500, 950, 990, 999] {
            let percentile = Percentile::new(per_mille * 1_000).expect("below 100");
            let rank = percentile.rank(count);
            assert_eq!(
                rank.map(ms),
                sample.quantile(per_mille),
                "{percentile} of {count}"
            );
        }
    }
}

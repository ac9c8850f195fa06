//! From records to a run's summary: what counts, what is left out, and which warnings there are.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use serde_json::{Map, Value};
use squall_analysis::{ProcessorsTaken, Quantile, RunSummary, TrialStats, summarise, trial_stats};
use squall_base::plan::Implementation;
use squall_base::record::{
    FailedAttempt, LateSpan, LateSpans, OtherPrograms, Outcome, Phase, ProcessEnd, RequestRecord,
    StationExit, StationRecord, TrialRecord, Validity,
};
use squall_base::{Duration, Time};

use crate::support::{ms, plan, record, request, trials};

fn stats(requests: &[RequestRecord]) -> TrialStats {
    trial_stats(&record(&plan(1).trials[0]), requests)
}

#[test]
fn only_the_measured_phase_counts() {
    let mut requests: Vec<_> = (0..200).map(|n| request(n, 5, Outcome::Answered)).collect();
    for slow in &mut requests[..50] {
        *slow = RequestRecord {
            phase: Phase::Warmup,
            user: 0,
            what: 0,
            ..request(slow.request, 900, Outcome::Answered)
        };
    }
    let stats = stats(&requests);
    assert_eq!((stats.asked, stats.answered), (150, 150));
    assert_eq!(stats.max, Some(Quantile::Exact(ms(5))));
    assert_eq!(stats.service_median, Some(Quantile::Exact(ms(3))));
}

#[test]
fn own_error_is_the_sum_of_the_p99_9s_of_generator_and_link() {
    // The 99.9th percentiles: 40 us of the generator, 20 us of the link's wake-up, 30 us each way.
    assert_eq!(stats(&[]).own_error, Duration::from_micros(120));
}

/// All requests take 5 ms. Every second one is taken up 1 ms late, and during each of the last 50 a link runs late for 2 ms.
#[test]
fn own_error_of_a_figure_is_the_time_that_lag_and_late_links_added() {
    let mut requests: Vec<_> = (0..400).map(|n| request(n, 5, Outcome::Answered)).collect();
    for late in requests.iter_mut().skip(1).step_by(2) {
        late.taken_up += ms(1);
    }
    let spans = requests[350..].iter().map(|request| LateSpan {
        from: request.intended + ms(2),
        until: request.intended + ms(4),
    });
    let mut record = record(&plan(1).trials[0]);
    record.health.link_late = Some(LateSpans::of(spans.collect(), Time::ZERO));
    let errors = trial_stats(&record, &requests).own_errors;
    // The delays that are too short to be listed: 20 us of the link's wake-up and 30 us each way.
    let unlisted = Duration::from_micros(80);
    // Without squall's own part, 175 requests take 5 ms, 175 take 4 ms, 25 take 3 ms and 25 take 2 ms.
    assert_eq!(errors.median, Some(ms(1) + unlisted));
    assert_eq!(errors.p90, Some(unlisted));
    assert_eq!(errors.p99, Some(unlisted));
    assert_eq!(errors.mean, Some(Duration::from_micros(750) + unlisted));
}

#[test]
fn failed_and_unfinished_requests_stay_in_the_sample() {
    let mut requests: Vec<_> = (0..394)
        .map(|n| request(n, n + 1, Outcome::Answered))
        .collect();
    requests.push(request(394, 500, Outcome::Censored));
    requests.extend((395..399).map(|n| request(n, 2, Outcome::StreamReset)));
    requests.push(RequestRecord {
        status: Some(503),
        ..request(399, 2, Outcome::Answered)
    });
    let stats = stats(&requests);
    assert_eq!(
        (stats.asked, stats.answered, stats.failed, stats.censored),
        (400, 394, 5, 1)
    );
    assert_eq!(stats.median, Some(Quantile::Exact(ms(200))));
    assert_eq!(stats.p95, Some(Quantile::Exact(ms(380))));
    assert_eq!(stats.p99, Some(Quantile::Never));
    assert_eq!(stats.max, Some(Quantile::Never));
    assert!(matches!(stats.mean, Some(Quantile::AtLeast(_))));
}

#[test]
fn tail_percentiles_need_enough_requests() {
    let tail = |count| {
        let requests: Vec<_> = (0..count)
            .map(|n| request(n, 5, Outcome::Answered))
            .collect();
        let stats = stats(&requests);
        assert_eq!(stats.median, Some(Quantile::Exact(ms(5))));
        (stats.p95.is_some(), stats.p99.is_some())
    };
    assert_eq!(tail(71), (false, false));
    assert_eq!(tail(72), (true, false));
    assert_eq!(tail(367), (true, false));
    assert_eq!(tail(368), (true, true));
}

#[test]
fn cell_has_the_median_and_range_of_its_valid_trials() {
    let plan = plan(4);
    let p99 = |ms_| Quantile::Exact(ms(ms_));
    let mut trials = trials(&plan, &[1, 30, 10, 20].map(|n| (p99(n), p99(n))));
    trials[0].validity = Validity::Invalid {
        reasons: vec!["the link was late".to_owned()],
    };
    let summary = summarise(&plan, trials);
    let cell = &summary.conditions[0].cells[0];
    let spread = cell.p99.unwrap();
    assert_eq!(
        [spread.low, spread.median, spread.high],
        [10, 20, 30].map(p99)
    );
    assert_eq!(
        (cell.trials.len(), cell.valid_trials().count(), cell.asked),
        (4, 3, 1200)
    );
}

#[test]
fn cell_of_limited_trials_stays_limited_and_ignores_invalid_ones() {
    let plan = plan(2);
    let p99 = |ms_| Quantile::Exact(ms(ms_));
    let mut trials = trials(&plan, &[(p99(10), p99(500)), (p99(90), p99(500))]);
    trials[0].validity = Validity::Limited {
        reasons: vec!["the emulated path carries 2 Gbit/s here: set `rate`".to_owned()],
    };
    trials[2].validity = Validity::Invalid {
        reasons: vec!["the link was late".to_owned()],
    };
    let summary = summarise(&plan, trials);
    let cell = &summary.conditions[0].cells[0];
    assert!(cell.is_limited() && cell.p99.is_none());
    let shown = cell.as_if_valid().unwrap();
    assert_eq!(shown.p99.unwrap().high, p99(10));
    assert!(cell.first_doubt().unwrap().contains("set `rate`"));
    let warnings: Vec<String> = summary.warnings.iter().map(ToString::to_string).collect();
    let limited = "In 1 trial the link itself was the bottleneck";
    assert!(
        warnings.iter().any(|it| it.starts_with(limited)),
        "{warnings:?}"
    );
    let text = serde_json::to_string(&summary).unwrap();
    assert_eq!(serde_json::from_str::<RunSummary>(&text).unwrap(), summary);
}

#[test]
fn summary_round_trips_through_json() {
    let plan = plan(3);
    let p99s = [
        (Quantile::Never, Quantile::AtLeast(ms(3))),
        (Quantile::Exact(ms(1)), Quantile::Exact(ms(2))),
        (Quantile::Exact(ms(1)), Quantile::Never),
    ];
    for count in 0..=3 {
        let mut trials = trials(&plan, &p99s[..count]);
        if let Some(first) = trials.first_mut() {
            first.failed = 1;
        }
        let summary = summarise(&plan, trials);
        let text = serde_json::to_string(&summary).unwrap();
        assert_eq!(serde_json::from_str::<RunSummary>(&text).unwrap(), summary);
    }
}

#[test]
fn every_warning_ends_in_advice() {
    let plan = plan(3);
    let p99 = Quantile::Exact(ms(1));
    let mut trials = trials(&plan, &[(p99, p99); 2]);
    trials[0].validity = Validity::Invalid {
        reasons: vec!["the link was late".to_owned()],
    };
    trials[1].congestion_control_used = vec!["reno".to_owned()];
    trials[1].attempt = 3;
    trials[2].p99 = None;
    trials[3].failed = 4;
    let warnings: Vec<String> = summarise(&plan, trials)
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        warnings,
        [
            "2 of 6 trials have no record. Finish the run with `squall run --resume RUN`.",
            "Trial 0000-h1-10ms-3p-r0 is invalid and left out: the link was late. Repeat it with `squall run \
             --resume RUN`.",
            "1 of 4 trials was repeated because it was disturbed (h1: 0, h2c x1: 1). If they are all of one variant, \
             it may be what disturbs this machine, and only its calmest trials are left: lower the rate. Otherwise \
             leave the machine idle while squall runs.",
            "h2c x1 asked for cubic, but its sockets had reno. Load the kernel module for cubic, or allow it for \
             unprivileged users (net.ipv4.tcp_allowed_congestion_control).",
            "h2c x1: 4 of 800 requests failed. They count as never answered; the error column of the trials' request \
             records says what happened.",
            "A trial has only 400 requests: p99 needs 368 and p95 needs 72. Make the load longer or its rate higher.",
            "A comparison rests on only 1 pair; with 1 comparison it takes 6 that all agree to bring chance below 5 %. Add \
             repetitions with `squall run --resume RUN --repetitions 6`.",
        ]
    );
}

#[test]
fn warnings_about_one_trial_are_in_the_singular() {
    let plan = plan(6);
    let p99 = Quantile::Exact(ms(1));
    let mut trials = trials(&plan, &[(p99, p99); 6]);
    trials.pop();
    trials[0].attempt = 2;
    let warnings = summarise(&plan, trials).warnings;
    let starts = [
        "1 of 12 trials has no record. ",
        "1 of 11 trials was repeated because it was disturbed (",
    ];
    for (warning, start) in warnings.iter().zip(starts) {
        assert!(warning.to_string().starts_with(start), "{warning}");
    }
}

#[test]
fn conditions_without_trials_are_listed_in_one_line() {
    let plan = plan(1);
    let p99 = Quantile::Exact(ms(1));
    let untried = |p99s: &[_]| summarise(&plan, trials(&plan, p99s)).untried();
    assert_eq!(untried(&[]).unwrap(), "No trials yet: delay 10ms, loss 3%");
    assert_eq!(untried(&[(p99, p99)]), None);
}

#[test]
fn too_few_pairs_cause_a_warning() {
    let p99 = Quantile::Exact(ms(1));
    let warning = |pairs: u32| {
        let plan = plan(pairs);
        let trials = trials(&plan, &vec![(p99, p99); pairs as usize]);
        summarise(&plan, trials)
            .warnings
            .first()
            .map(ToString::to_string)
    };
    assert_eq!(
        warning(3).unwrap(),
        "A comparison rests on only 3 pairs; with 1 comparison it takes 6 that all agree to bring chance below 5 %. \
         Add repetitions with `squall run --resume RUN --repetitions 6`."
    );
    assert_eq!(warning(6), None);
}

#[test]
fn repeated_trials_are_counted_by_variant() {
    let plan = plan(6);
    let p99 = Quantile::Exact(ms(1));
    let warnings = |attempts: &[u32]| -> Vec<String> {
        let mut trials = trials(&plan, &[(p99, p99); 6]);
        for (trial, &attempt) in trials.iter_mut().zip(attempts) {
            trial.attempt = attempt;
        }
        let summary = summarise(&plan, trials);
        summary.warnings.iter().map(ToString::to_string).collect()
    };
    assert_eq!(warnings(&[1; 12]), Vec::<String>::new());
    let [warning] = &warnings(&[2, 1, 3, 1, 2])[..] else {
        panic!("one warning tells all repeats");
    };
    assert!(
        warning.starts_with(
            "3 of 12 trials were repeated because they were disturbed (h1: 3, h2c x1: 0). "
        ),
        "{warning}"
    );
}

/// The warnings of a run whose server is nginx if `is_real`, otherwise squall's own. During its first trial, of 4 s, other
/// programs used this much processor time.
fn beside_others(used: Duration, is_real: bool) -> Vec<String> {
    let mut plan = plan(6);
    if is_real {
        for trial in &mut plan.trials {
            trial.variant.stations[1].runs = Implementation::Program {
                program: "nginx".to_owned(),
            };
        }
    }
    let p99 = Quantile::Exact(ms(1));
    let mut trials = trials(&plan, &[(p99, p99); 6]);
    let mut first = record(&plan.trials[0]);
    first.health.machine.other_programs = Some(OtherPrograms {
        used,
        during: Duration::from_secs(4),
        processors: 2,
    });
    let requests: Vec<_> = (0..400).map(|n| request(n, 5, Outcome::Answered)).collect();
    trials[0].processors_taken = trial_stats(&first, &requests).processors_taken;
    warnings_of(&summarise(&plan, trials))
}

#[test]
fn other_programs_cause_a_warning_if_real_programs_need_the_processors() {
    assert_eq!(
        beside_others(ms(3_200), true),
        [
            "In 1 trial other programs used up to 0.8 of 2 processors: real programs may have waited for a processor. Leave \
             the machine idle while squall runs."
        ]
    );
    // From 5 % of all processors on.
    let [warning] = &beside_others(ms(400), true)[..] else {
        panic!("one warning");
    };
    assert!(warning.contains("up to 0.1 of 2 processors"), "{warning}");
    assert_eq!(beside_others(ms(399), true), [""; 0]);
    // squall's own threads have priority, and their lateness is measured.
    assert_eq!(beside_others(ms(3_200), false), [""; 0]);
}

#[test]
fn a_few_ticks_of_other_programs_in_a_short_trial_are_ignored() {
    let mut record = record(&plan(1).trials[0]);
    record.trial.variant.stations[1].runs = Implementation::Program {
        program: "nginx".to_owned(),
    };
    let taken = |record: &TrialRecord| trial_stats(record, &[]).processors_taken;
    assert_eq!(taken(&record), None);
    let mut used = |millis| {
        record.health.machine.other_programs = Some(OtherPrograms {
            used: ms(millis),
            during: ms(500),
            processors: 4,
        });
        taken(&record)
    };
    assert_eq!(used(99), None);
    let expected = ProcessorsTaken {
        used_percent: 20,
        processors: 4,
    };
    assert_eq!(used(100), Some(expected));
}

/// A server that crashed 1.2 s after the trial's epoch.
fn crash() -> StationExit {
    StationExit {
        place: 1,
        name: "nginx".to_owned(),
        program: "/usr/sbin/nginx".to_owned(),
        end: ProcessEnd::Killed {
            signal: "SIGSEGV".to_owned(),
            number: 11,
        },
        at: ms(1_200),
        last_lines: vec!["out of luck".to_owned()],
        log: "stations/1-nginx/nginx.log".to_owned(),
    }
}

fn failed_attempt(trial: &TrialStats, attempt: u32) -> FailedAttempt {
    FailedAttempt {
        schema: 9,
        trial: trial.folder.clone(),
        variant: trial.variant.clone(),
        attempt,
        station_exits: Vec::new(),
        failure: None,
    }
}

fn warnings_of(summary: &RunSummary) -> Vec<String> {
    summary.warnings.iter().map(ToString::to_string).collect()
}

/// A program that crashed is a result. Only what the machine did is called a disturbance.
#[test]
fn a_crash_is_reported_even_if_the_repetition_went_well() {
    let plan = plan(6);
    let p99 = Quantile::Exact(ms(1));
    let mut trials = trials(&plan, &[(p99, p99); 6]);
    trials[3].attempt = 2;
    let attempt = FailedAttempt {
        station_exits: vec![crash()],
        ..failed_attempt(&trials[3], 1)
    };
    let folder = trials[3].folder.clone();
    let mut summary = summarise(&plan, trials);
    summary.add_failed_attempts(vec![attempt]);
    let expected = format!(
        "nginx was killed by SIGSEGV in trial {folder} (variant h2c x1) after 1.20 s; its log, in the run's folder: \
         attempts/{folder}-1/stations/1-nginx/nginx.log. Its last output: out of luck. That attempt is left out of \
         all figures. Find out why the program ended: it may do so again under this load."
    );
    assert_eq!(warnings_of(&summary), [expected]);
    assert!(!summary.has_failed_programs(), "the trial has a record");
    let text = serde_json::to_string(&summary).unwrap();
    assert_eq!(serde_json::from_str::<RunSummary>(&text).unwrap(), summary);
}

#[test]
fn a_crash_in_the_last_attempt_is_reported_and_fails_the_run() {
    let plan = plan(6);
    let p99 = Quantile::Exact(ms(1));
    let mut trials = trials(&plan, &[(p99, p99); 6]);
    trials[2].station_exits = vec![crash()];
    trials[2].validity = Validity::Invalid {
        reasons: vec!["station 1, nginx, ended".to_owned()],
    };
    let summary = summarise(&plan, trials);
    let warnings = warnings_of(&summary);
    assert!(
        warnings[0].starts_with("nginx was killed by SIGSEGV in trial 0002-")
            && warnings[0].contains("/stations/1-nginx/nginx.log")
            && warnings[0].contains("The trial is left out."),
        "{warnings:?}"
    );
    assert!(summary.has_failed_programs());
}

#[test]
fn failure_of_squalls_own_process_is_not_called_a_disturbance() {
    let plan = plan(6);
    let p99 = Quantile::Exact(ms(1));
    let mut trials = trials(&plan, &[(p99, p99); 6]);
    // One of its two repetitions is due to a disturbance.
    trials[0].attempt = 3;
    trials[1].attempt = 2;
    let failed = |trial: &TrialStats| FailedAttempt {
        failure: Some("squall's own process for the trial ended with signal: 9".to_owned()),
        ..failed_attempt(trial, 1)
    };
    let attempts = vec![failed(&trials[0]), failed(&trials[1])];
    let mut summary = summarise(&plan, trials);
    summary.add_failed_attempts(attempts);
    let warnings = warnings_of(&summary);
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    for warning in &warnings[..2] {
        assert!(
            warning.contains("did not finish and is left out of all figures: squall's own process"),
            "{warning}"
        );
    }
    assert!(
        warnings[2].starts_with("1 of 12 trials was repeated because it was disturbed (h1: 1, "),
        "{warnings:?}"
    );
}

#[test]
fn program_whose_version_is_unknown_is_named() {
    let plan = plan(6);
    let mut record = record(&plan.trials[0]);
    let station = |version: Option<&str>| StationRecord {
        name: "envoy".to_owned(),
        version: version.map(str::to_owned),
        processors: Vec::new(),
    };
    record.stations = vec![station(Some("1.40.0")), station(None)];
    assert!(trial_stats(&record, &[]).unknown_versions.is_empty());
    record.stations = vec![station(Some(StationRecord::UNKNOWN_VERSION))];
    let unknown = trial_stats(&record, &[]).unknown_versions;
    assert_eq!(unknown, ["envoy"]);
    let p99 = Quantile::Exact(ms(1));
    let mut trials = trials(&plan, &[(p99, p99); 6]);
    trials[0].unknown_versions = unknown;
    let warnings = warnings_of(&summarise(&plan, trials));
    assert!(
        warnings[0].starts_with("The version of envoy is unknown in 1 trial"),
        "{warnings:?}"
    );
}

/// Takes the unit off the names of all times, as the names of version 1 were.
fn without_units(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, field)| {
                let old = match name.strip_suffix("_ns") {
                    Some(old) if name != "started_unix_ns" => old.to_owned(),
                    _ => name,
                };
                (old, without_units(field))
            });
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Array(entries) => entries.into_iter().map(without_units).collect(),
        other => other,
    }
}

#[test]
fn summary_of_version_1_is_read_into_todays_names_and_a_later_one_is_refused() {
    let plan = plan(6);
    let p99 = Quantile::Exact(ms(1));
    let mut trials = trials(&plan, &[(p99, p99); 6]);
    trials[2].station_exits = vec![crash()];
    trials[2].own_errors.p99 = Some(ms(2));
    let summary = summarise(&plan, trials);
    let today = serde_json::to_value(&summary).unwrap();
    let cell = &today["conditions"][0]["cells"][0];
    assert_eq!(cell["p99_ns"]["median"]["exact"], 1_000_000);
    assert_eq!(cell["trials"][0]["own_error_ns"], 120_000);
    assert!(cell.get("p99").is_none());
    let mut old = without_units(today.clone());
    assert!(old["conditions"][0]["cells"][0]["p99"].is_object());
    old["schema"]["version"] = 1.into();
    let read: RunSummary = serde_json::from_value(old.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), today);
    old.as_object_mut().unwrap().remove("schema");
    let read: RunSummary = serde_json::from_value(old).unwrap();
    assert_eq!(read, summary);
    let mut later = today;
    later["schema"]["version"] = 3.into();
    let refused = serde_json::from_value::<RunSummary>(later).unwrap_err();
    let said = refused.to_string();
    assert!(said.contains("version 3 of squall.summary"), "{said}");
}

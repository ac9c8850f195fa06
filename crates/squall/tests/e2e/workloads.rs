//! Every kind of load that a recipe can describe, for about a second each over a link: what was requested, when, by
//! which user, and over which connections, according to requests.parquet.
//!
//! The theory of these loads is tested in squall-load, the recipe syntax in squall-recipe.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Instant;

use squall_base::record::{Phase, RequestRecord};
use squall_base::{Duration, Time};
use squall_record::read_plan;
use tempfile::TempDir;

use super::support::{
    FinishedRun, TrialFiles, alone_if_it_fails, have, only_run, run_recipe, run_recipe_in,
    run_recipe_with, run_squall, seat, stderr,
};

const VARIANTS: &str = "[conditions]\ndelay = \"5ms\"\n\
    [[variant]]\nname = \"h1\"\npath = \"client ~h1~> server\"\n\
    [[variant]]\nname = \"h2c\"\npath = \"client ~h2c~> server\"\n";

fn text(lines: &str) -> String {
    format!("name = \"test\"\nquestion = \"Does it hold?\"\n{lines}\n{VARIANTS}")
}

/// The trials of both variants; all of their requests succeeded.
fn both(run: &FinishedRun) -> [&TrialFiles; 2] {
    let trials = [run.only("h1"), run.only("h2c")];
    for trial in trials {
        assert!(!trial.requests.is_empty());
        for request in &trial.requests {
            assert!(request.succeeded(), "{request:?}");
        }
    }
    trials
}

/// The requests in the order in which they were due.
fn by_time(trial: &TrialFiles) -> Vec<&RequestRecord> {
    let mut requests: Vec<&RequestRecord> = trial.requests.iter().collect();
    requests.sort_by_key(|request| (request.intended, request.request));
    requests
}

fn start(trial: &TrialFiles) -> Time {
    Time::ZERO + trial.record.load_start
}

/// When each request was due, in ns from the start of the load, with its user and target.
fn schedule(trial: &TrialFiles) -> Vec<(u64, u32, u32)> {
    by_time(trial)
        .iter()
        .map(|it| (it.intended.since(start(trial)).as_nanos(), it.user, it.what))
        .collect()
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Each user's requests, in order.
fn by_user(trial: &TrialFiles) -> BTreeMap<u32, Vec<&RequestRecord>> {
    let mut users: BTreeMap<u32, Vec<&RequestRecord>> = BTreeMap::new();
    for request in by_time(trial) {
        users.entry(request.user).or_default().push(request);
    }
    users
}

#[test]
fn poisson_arrivals_are_irregular_and_the_same_for_all_variants() {
    let _seat = seat();
    let run = run_recipe(
        &text(
            "[load]\nrate = \"500/s\"\narrivals = \"poisson\"\nwarmup = \"200ms\"\nduration = \"1s\"\ndrain = \"2s\"",
        ),
        &[],
    );
    let [h1, h2c] = both(&run);
    assert_eq!(schedule(h1), schedule(h2c), "one seed, one schedule");
    let count = h1.requests.len() as f64;
    // 600 on average; five standard deviations of a Poisson count are 5 * sqrt(600) = 122.
    assert!((count - 600.0).abs() < 122.0, "{count}");
    let times: Vec<f64> = schedule(h1).iter().map(|(at, ..)| *at as f64).collect();
    let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    // The standard deviation of exponential gaps equals their mean (within 4 % for 600 gaps); that of even gaps is
    // zero.
    let ratio = variance.sqrt() / mean;
    assert!((0.75..1.25).contains(&ratio), "{ratio}");
    let lag = h1.record.health.schedule_lag;
    assert_eq!(lag.count, h1.requests.len() as u64);
}

#[test]
fn stages_step_and_ramp_with_nanosecond_precision() {
    let _seat = seat();
    let run = run_recipe(
        &text(
            "[load]\nstages = \"100/s 500ms, 100/s..500/s 500ms\"\nwarmup = \"200ms\"\ndrain = \"2s\"",
        ),
        &[],
    );
    for trial in both(&run) {
        // 50, and then half a second at the mean of both rates: 150.
        assert_eq!(trial.requests.len(), 200);
        let times: Vec<u64> = schedule(trial).iter().map(|(at, ..)| *at).collect();
        for (n, at) in (0..50).zip(&times) {
            assert_eq!(*at, n * 10_000_000);
        }
        // In the ramp, the n-th is due at t with 100 t + 400 t^2 = n.
        for (n, at) in (0..150).zip(&times[50..]) {
            let t = (-100.0 + (10_000.0 + 1_600.0 * f64::from(n)).sqrt()) / 800.0;
            let expected = 5e8 + t * 1e9;
            assert!((*at as f64 - expected).abs() < 2.0, "{n}: {at} {expected}");
        }
        assert_eq!(
            trial.measured().count(),
            180,
            "all but those of the first 200 ms"
        );
        // 180 in 800 ms.
        assert_eq!(trial.record.health.rate_asked_per_s, 225.0);
    }
}

#[test]
fn users_send_the_next_request_after_their_think_time() {
    let _seat = seat();
    let run = run_recipe(
        &text(
            "[load]\nkind = \"closed\"\nusers = 4\nthink = \"20ms\"\nstagger = \"40ms\"\nwarmup = \"0s\"\nduration = \"1s\"\ndrain = \"2s\"",
        ),
        &[],
    );
    for trial in both(&run) {
        let users = by_user(trial);
        assert_eq!(users.len(), 4);
        for (user, requests) in users {
            let offset = requests[0].intended.since(start(trial));
            assert_eq!(
                offset,
                ms(10 * u64::from(user)),
                "user k of 4 begins k/4 of 40 ms later"
            );
            for pair in requests.windows(2) {
                assert_eq!(pair[1].intended, pair[0].end + ms(20));
            }
            let last = requests[requests.len() - 1];
            assert!(last.intended < start(trial) + ms(1_000));
            // A round trip of 10 ms and 20 ms of think time: 33 at most.
            assert!((5..=34).contains(&requests.len()), "{}", requests.len());
        }
    }
}

#[test]
fn closed_load_with_a_request_count_ends_early_and_rates_use_its_real_duration() {
    let _seat = seat();
    let began = Instant::now();
    let run = run_recipe(
        &text(
            "[load]\nkind = \"closed\"\nusers = 2\nrequests = 20\nwarmup = \"0s\"\nduration = \"60s\"\ndrain = \"2s\"",
        ),
        &[],
    );
    assert!(began.elapsed().as_secs() < 60, "20 requests take no minute");
    for trial in both(&run) {
        assert_eq!(trial.requests.len(), 20);
        let end = trial
            .requests
            .iter()
            .map(|request| request.end)
            .max()
            .unwrap();
        let took = end.since(start(trial)).as_secs_f64();
        let rate = trial.record.health.rate_asked_per_s;
        // The load ends right after its last response.
        assert!(
            rate <= 20.0 / took + 1e-6 && rate > 0.5 * 20.0 / took,
            "{rate} {took}"
        );
    }
}

#[test]
fn targets_are_requested_in_proportion_to_their_weights() {
    let _seat = seat();
    let run = run_recipe(
        &text(
            "[load]\nrate = \"400/s\"\nwarmup = \"0s\"\nduration = \"1s\"\ndrain = \"2s\"\n\
            [[request]]\ntarget = \"/?size=10kB\"\nweight = 3\n\
            [[request]]\nmethod = \"PUT\"\ntarget = \"/?size=5&delay=20ms\"\nbody = { text = \"hello\" }",
        ),
        &[],
    );
    for trial in both(&run) {
        assert_eq!(trial.requests.len(), 400);
        let seldom = trial
            .requests
            .iter()
            .filter(|request| request.what == 1)
            .count();
        // 100 on average; five standard deviations of a binomial count are 5 * sqrt(400 * 3/16) = 43.
        assert!((57..=143).contains(&seldom), "{seldom}");
        for request in &trial.requests {
            let bodies = (request.request_body_bytes, request.response_body_bytes);
            match request.what {
                0 => assert_eq!(bodies, (0, 10_000)),
                _ => {
                    assert_eq!(bodies, (5, 5));
                    assert!(
                        request.response_time() >= ms(30),
                        "held for 20 ms, and a round trip"
                    );
                }
            }
        }
    }
}

#[test]
fn vegeta_targets_are_requested_equally_often() {
    let _seat = seat();
    let targets =
        "GET http://elsewhere:9999/a?size=1kB\naccept: text/css\n\nPOST /b?size=2kB\n@body.txt\n";
    let run = run_recipe_with(
        &[
            ("targets.txt", targets.as_bytes()),
            ("body.txt", b"0123456789"),
        ],
        &text(
            "[load]\nrate = \"300/s\"\nwarmup = \"0s\"\nduration = \"1s\"\ndrain = \"2s\"\ntargets = \"targets.txt\"",
        ),
        &[],
    );
    for trial in both(&run) {
        let mut counts = [0; 2];
        for request in &trial.requests {
            counts[request.what as usize] += 1;
            let bodies = (request.request_body_bytes, request.response_body_bytes);
            assert_eq!(bodies, [(0, 1_000), (10, 2_000)][request.what as usize]);
        }
        assert_eq!(counts[0] + counts[1], 300);
        // Five standard deviations of a binomial count are 5 * sqrt(300 / 4) = 43.
        assert!((107..=193).contains(&counts[0]), "{counts:?}");
    }
}

#[test]
fn script_is_replayed_at_its_times_from_the_copy_in_the_run_folder() {
    let _seat = seat();
    let timing = "0.0\t/a?size=1kB\n125.5\thttps://elsewhere/b?size=2kB\n600.0\t/a?size=1kB\n";
    let lines = text(
        "[load]\nkind = \"script\"\nscript = \"timing.tsv\"\nkeep_hosts = true\nusers = 3\nstagger = \"100ms\"\nspeed = \"2x\"\ndrain = \"2s\"",
    );
    let run = run_recipe_with(&[("timing.tsv", timing.as_bytes())], &lines, &[]);
    let mut expected: Vec<(u64, u32, u32)> = Vec::new();
    for user in 0..3 {
        for (at_us, what) in [(0, 0), (62_750, 1), (300_000, 0)] {
            expected.push(((at_us + 100_000 * u64::from(user)) * 1_000, user, what));
        }
    }
    expected.sort_unstable();
    let trials = both(&run);
    for trial in trials {
        let mut found = schedule(trial);
        found.sort_unstable();
        assert_eq!(found, expected);
        for request in &trial.requests {
            assert_eq!(request.phase, Phase::Measure);
            assert_eq!(
                request.response_body_bytes,
                [1_000, 2_000][request.what as usize]
            );
        }
        // From the first request until just after the last.
        let length = Duration::from_nanos(500_000_001);
        assert_eq!(trial.record.trial.load.duration, length);
        // Each user has separate connections.
        let owners: BTreeSet<(u32, Option<u32>)> = trial
            .requests
            .iter()
            .map(|it| (it.connection.unwrap(), Some(it.user)))
            .collect();
        let connections: BTreeSet<u32> = owners.iter().map(|(connection, _)| *connection).collect();
        assert_eq!(
            owners.len(),
            connections.len(),
            "no connection has two users"
        );
    }
    let h2c = trials[1];
    assert_eq!(h2c.record.connections_opened, 3);
    let kept = fs::read(run.folder.join("files/0-timing.tsv")).expect("the run has a copy");
    assert_eq!(kept, timing.as_bytes());
}

/// `squall load` does the same if it is given a URL.
#[test]
fn replay_sends_only_to_the_recordings_own_host_unless_others_are_selected() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let home = home.path();
    let timing = "0.0\thttps://shop.test/\n20.0\thttps://cdn.test/x?size=2kB\n40.0\thttps://ads.test/\n\
                  60.0\thttps://www.shop.test/b\n80.0\thttps://cdn.test/y\n";
    fs::write(home.join("timing.tsv"), timing).expect("a script");
    let write = |keys: &str| {
        let lines =
            format!("[load]\nkind = \"script\"\nscript = \"timing.tsv\"\ndrain = \"2s\"\n{keys}");
        fs::write(home.join("recipe.toml"), text(&lines)).expect("a recipe");
    };
    let own = "timing.tsv: 2 of 5 requests: those to https://shop.test (1), https://www.shop.test (1); left out: \
               https://cdn.test (2), https://ads.test (1) (`hosts` selects hosts, `keep_hosts = true` keeps all)\n";
    for (keys, said) in [
        ("", own),
        (
            "hosts = [\"cdn.test\"]",
            "timing.tsv: 2 of 5 requests: those to https://cdn.test (2); left out: ",
        ),
        (
            "keep_hosts = true",
            "timing.tsv: 5 of 5 requests: those to https://shop.test (1), ",
        ),
    ] {
        write(keys);
        let output = run_squall(home, ["run", "./recipe.toml", "--dry-run"]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(
            stderr(&output).contains(said),
            "{keys}: {}",
            stderr(&output)
        );
    }
    write("hosts = \"cdn\"");
    let output = run_squall(home, ["run", "./recipe.toml", "--dry-run"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("`hosts` has \"cdn\""),
        "{}",
        stderr(&output)
    );

    write("");
    let output = run_squall(home, ["run", "./recipe.toml"]);
    assert!(stderr(&output).contains(own), "{}", stderr(&output));
    let plan = read_plan(only_run(home).join("plan.json")).expect("a plan");
    let targets: Vec<&str> = (plan.requests.iter())
        .map(|request| request.target.as_str())
        .collect();
    assert_eq!(targets, ["/", "/b"]);
}

#[test]
fn har_file_is_replayed_and_omitted_entries_are_reported() {
    let _seat = seat();
    let entry = |second: u32, url: &str, kind: &str| {
        format!(
            r#"{{"startedDateTime": "2026-01-01T00:00:0{second}Z", "request": {{"method": "GET", "url": "{url}",
               "headers": [{{"name": "Accept", "value": "*/*"}}]}}, "response": {{"content": {{"mimeType": "{kind}"}}}}}}"#
        )
    };
    let har = format!(
        r#"{{"log": {{"entries": [{}, {}, {}]}}}}"#,
        entry(1, "https://media/manifest.mpd", "application/dash+xml"),
        entry(2, "https://media/v/1.m4s?size=50kB", "video/mp4"),
        entry(4, "https://media/v/2.m4s?size=60kB", "video/mp4"),
    );
    let lines = text(
        "[load]\nkind = \"script\"\nscript = \"play.har\"\nmedia = true\nspeed = \"4x\"\ndrain = \"2s\"",
    );
    let run = run_recipe_with(&[("play.har", har.as_bytes())], &lines, &[]);
    for trial in both(&run) {
        assert_eq!(schedule(trial), [(0, 0, 0), (500_000_000, 0, 1)]);
        let sizes: Vec<u64> = by_time(trial)
            .iter()
            .map(|it| it.response_body_bytes)
            .collect();
        assert_eq!(sizes, [50_000, 60_000]);
    }
    let said = stderr(&run.output);
    assert!(said.contains("play.har: 1 request left out"), "{said}");
}

#[test]
fn page_resources_wait_for_their_dependencies_and_page_times_are_reported() {
    let _seat = seat();
    let run = run_recipe(
        &text(
            "[load]\nkind = \"page\"\nusers = 2\npages = 12\nduration = \"30s\"\ndrain = \"2s\"\n\
            [[load.page]]\ntarget = \"/?size=20kB\"\n\
            [[load.page]]\ntarget = \"/app.js?size=30kB\"\nafter = 0\nurgency = 1\n\
            [[load.page]]\ntarget = \"/photo.jpg?size=40kB\"\nafter = 0\n\
            [[load.page]]\ntarget = \"/data.json?delay=20ms\"\nafter = 1\ndelay = \"5ms\"",
        ),
        &[],
    );
    for trial in both(&run) {
        assert_eq!(trial.requests.len(), 12 * 4);
        let mut pages: BTreeMap<u64, Vec<&RequestRecord>> = BTreeMap::new();
        for request in &trial.requests {
            pages.entry(request.request / 4).or_default().push(request);
        }
        let mut times = Vec::new();
        for page in pages.values_mut() {
            page.sort_by_key(|request| request.what);
            let [document, script, photo, data] = page.as_slice() else {
                panic!("four requests: {page:?}");
            };
            assert_eq!(script.intended, document.end);
            assert_eq!(photo.intended, document.end);
            assert_eq!(data.intended, script.end + ms(5));
            let end = page.iter().map(|request| request.end).max().unwrap();
            times.push(end.since(document.intended));
        }
        times.sort();
        let record = trial.record.pages.expect("it is a load of pages");
        assert_eq!(
            (record.loaded, record.failed, record.unfinished),
            (12, 0, 0)
        );
        assert_eq!(record.least, Some(times[0]));
        assert_eq!(record.median, Some(times[5]));
        assert_eq!(record.most, Some(times[11]));
        // Three round trips, the delayed response and the delay.
        assert!(times[0] >= ms(3 * 10 + 20 + 5), "{:?}", times[0]);
    }
    let said = stderr(&run.output);
    assert!(
        said.contains("pages: 12 loaded, 0 with a failed request, 0 unfinished; page time ms:"),
        "{said}"
    );
}

#[test]
fn tile_pages_use_as_many_connections_as_a_browser() {
    alone_if_it_fails(seat(), || {
        let run = run_recipe(
            &text(
                "[load]\nkind = \"tiles\"\ntiles = 30\ntile = \"/tile-{}.png?size=1kB\"\nduration = \"500ms\"\npages = 3\ndrain = \"2s\"\n\
            [request]\ntarget = \"/?size=2kB\"",
            ),
            &[],
        );
        let [h1, h2c] = both(&run);
        for (trial, connections) in [(h1, 6), (h2c, 1)] {
            let page: Vec<&RequestRecord> =
                trial.requests.iter().filter(|it| it.request < 31).collect();
            assert_eq!(page.len(), 31);
            let document = page.iter().find(|request| request.what == 0).unwrap();
            assert!(
                page.iter()
                    .filter(|it| it.what > 0)
                    .all(|tile| tile.intended == document.end)
            );
            assert_eq!(trial.record.connections_opened, connections);
        }
        // 30 tiles over 6 connections need 5 rounds; over one connection with streams they need one.
        let median = |trial: &TrialFiles| trial.record.pages.unwrap().median.unwrap();
        assert!(median(h1) >= ms(60), "{}", median(h1));
        assert!(median(h2c) < median(h1), "{} {}", median(h2c), median(h1));
    });
}

#[test]
fn held_request_blocks_the_other_unless_they_are_multiplexed() {
    alone_if_it_fails(seat(), || {
        let run = run_recipe(
            &text(
                "[load]\nkind = \"hold\"\nother = \"/\"\npages = 2\nduration = \"1s\"\ndrain = \"2s\"\n\
            [request]\ntarget = \"/?delay=200ms\"",
            ),
            &[],
        );
        let [h1, h2c] = both(&run);
        for (trial, waits) in [(h1, true), (h2c, false)] {
            assert_eq!(trial.record.connections_opened, 1);
            for other in trial.requests.iter().filter(|request| request.what == 1) {
                let took = other.response_time();
                assert_eq!(took > ms(150), waits, "{took}");
            }
        }
        let said = stderr(&run.output);
        let lines = [
            ": the second request waited for the first",
            ": the second request did not wait for the first",
        ];
        for line in lines {
            assert_eq!(said.matches(line).count(), 1, "{said}");
        }
    });
}

#[test]
fn form_and_file_uploads_are_sent_and_kept_in_the_run_folder() {
    let _seat = seat();
    let long = vec![b'x'; 5 << 20];
    let lines = text(
        "[load]\nkind = \"closed\"\nusers = 1\nrequests = 4\nwarmup = \"0s\"\nduration = \"30s\"\ndrain = \"2s\"\n\
         [[request]]\ntarget = \"/form\"\nbody = { form = { who = \"me\", document = { file = \"a.pdf\" } } }\n\
         [[request]]\ntarget = \"/file\"\nbody = { file = \"long.bin\" }",
    );
    let files: [(&str, &[u8]); 2] = [("a.pdf", b"%PDF"), ("long.bin", &long)];
    let run = run_recipe_with(&files, &lines, &[]);
    let form = "------squall-7d2f9c41e6b803a5\r\ncontent-disposition: form-data; name=\"who\"\r\n\r\nme\r\n\
        ------squall-7d2f9c41e6b803a5\r\ncontent-disposition: form-data; name=\"document\"; filename=\"a.pdf\"\r\n\
        content-type: application/pdf\r\n\r\n%PDF\r\n------squall-7d2f9c41e6b803a5--\r\n";
    let expected = [form.len() as u64, long.len() as u64];
    for trial in both(&run) {
        assert_eq!(trial.requests.len(), 4);
        for request in &trial.requests {
            assert_eq!(request.request_body_bytes, expected[request.what as usize]);
        }
    }
    let kept = |name: &str| fs::read(run.folder.join("files").join(name)).expect("a copy");
    assert_eq!(kept("0-a.pdf"), b"%PDF");
    assert_eq!(kept("1-long.bin").len(), long.len());
}

#[test]
fn external_load_generator_runs_a_closed_load_with_marked_warm_up() {
    alone_if_it_fails(seat(), || {
        if !have(&["h2load"]) {
            return;
        }
        let lines = "name = \"test\"\nquestion = \"?\"\n[load]\nkind = \"closed\"\nusers = 4\nwarmup = \"300ms\"\n\
        duration = \"700ms\"\ndrain = \"2s\"\n[conditions]\ndelay = \"5ms\"\n\
        [[variant]]\nname = \"v\"\npath = \"client(h2load) ~h2c~> server\"\n";
        let run = run_recipe(lines, &[]);
        let trial = run.only("v");
        let answered: Vec<&RequestRecord> =
            trial.requests.iter().filter(|it| it.succeeded()).collect();
        // 4 at a time for a second, each taking a round trip of 10 ms: 400 at most. Requests in flight at the end get no
        // response.
        assert!((100..=400).contains(&answered.len()), "{}", answered.len());
        for request in &trial.requests {
            let is_early = request.intended < start(trial) + ms(300);
            assert_eq!(request.phase == Phase::Warmup, is_early);
        }
    });
}

#[test]
fn load_unsupported_by_the_external_generator_is_refused_before_the_run() {
    if !have(&["h2load"]) {
        return;
    }
    let home = TempDir::new().expect("a temporary folder");
    let path = "[[variant]]\nname = \"v\"\npath = \"client(h2load) ~h2c~> server\"\n";
    fs::write(home.path().join("t.tsv"), "0.0\t/\n").unwrap();
    for (load, why) in [
        (
            "rate = \"9/s\"\narrivals = \"poisson\"\nduration = \"1s\"",
            "no stages or Poisson arrivals",
        ),
        (
            "kind = \"script\"\nscript = \"t.tsv\"",
            "it cannot replay recordings",
        ),
        (
            "kind = \"tiles\"\ntiles = 3\nduration = \"1s\"",
            "it does not load pages",
        ),
        (
            "kind = \"closed\"\nusers = 3\nthink = \"1s\"\nduration = \"1s\"",
            "it does not support think time",
        ),
    ] {
        let text = format!("name = \"test\"\nquestion = \"?\"\n[load]\n{load}\n{path}");
        let output = run_recipe_in(home.path(), &text);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains(why) && said.contains("station client(h2load)"),
            "{said}"
        );
        assert!(!home.path().join("runs").exists(), "{load}");
    }
}

#[test]
fn errors_in_referenced_files_point_to_the_recipe() {
    let home = TempDir::new().expect("a temporary folder");
    fs::write(home.path().join("bad.tsv"), "soon\t/\n").unwrap();
    for (file, why) in [
        ("bad.tsv", "bad.tsv"),
        ("gone.har", "cannot read it: No such file"),
    ] {
        let lines = text(&format!("[load]\nkind = \"script\"\nscript = \"{file}\""));
        let output = run_recipe_in(home.path(), &lines);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains("recipe.toml:5:10: ") && said.contains(why),
            "{said}"
        );
    }
}

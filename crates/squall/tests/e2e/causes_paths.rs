//! Causes on paths of several hops, with squall's own stations and real programs: each request's time adds up in total
//! and on each hop, the hops nest, and drops name the client's requests.

use std::collections::{BTreeMap, BTreeSet};

use squall_base::plan::Side;
use squall_base::record::{Cause, CauseSpans, CausesRecord, Phase, RequestRecord};
use squall_record::{
    RunFolder, TrialFolder, read_causes, read_drops, read_exchanges, read_requests,
};

use crate::explain::explain;
use crate::support::{
    FinishedRun, ensure, have, on_a_quiet_machine, recipe, run_recipe, run_until_valid,
    say_disturbed, seat, stderr, stdout,
};

const PROFILE: &str = "warmup = \"500ms\"\nduration = \"3s\"\ndrain = \"3s\"";
const DELAY_NS: u64 = 25_000_000;

fn variant(name: &str, path: &str) -> String {
    format!("[[variant]]\nname = \"{name}\"\npath = \"{path}\"\n")
}

fn run(conditions: &str, paths: &[(&str, &str)]) -> FinishedRun {
    let variants: Vec<String> = paths
        .iter()
        .map(|(name, path)| variant(name, path))
        .collect();
    let variants: Vec<&str> = variants.iter().map(String::as_str).collect();
    run_recipe(&recipe("200/s", conditions, &variants, PROFILE), &[])
}

/// A trial's causes.
struct Trial {
    name: String,
    folder: TrialFolder,
    requests: Vec<RequestRecord>,
    /// Rows by request: the total first, then hop by hop.
    rows: BTreeMap<u64, Vec<CausesRecord>>,
    /// Index in a request's `rows` of the hop that crosses the link.
    link: usize,
}

fn trials(run: &FinishedRun) -> Vec<Trial> {
    let folder = RunFolder::open(&run.folder).expect("the run's folder");
    let trials = folder.complete_trials().expect("its trials").into_iter();
    trials.map(Trial::read).collect()
}

impl Trial {
    /// Reads a trial and checks what holds on every path.
    fn read(folder: TrialFolder) -> Trial {
        let record = folder.read_record().expect("trial.json");
        let variant = &record.trial.variant;
        let mut rows: BTreeMap<u64, Vec<CausesRecord>> = BTreeMap::new();
        for row in read_causes(folder.causes()).expect("causes.parquet") {
            let of = rows.entry(row.request).or_default();
            assert_eq!(usize::from(row.hop), of.len(), "in total, then hop by hop");
            of.push(row);
        }
        let requests = read_requests(folder.requests()).expect("requests.parquet");
        assert_eq!(rows.len(), requests.len());
        let hops = match variant.hops.len() {
            1 => 0,
            hops => hops,
        };
        for request in &requests {
            let of = &rows[&request.request];
            assert_eq!(of.len(), 1 + hops);
            let latency = request.end.since(request.intended);
            assert_eq!(of[0].spans.total(), latency, "{request:?} {of:?}");
        }
        Trial {
            name: variant.name.clone(),
            link: match hops {
                0 => 0,
                _ => usize::from(variant.link_hop().0),
            },
            folder,
            requests,
            rows,
        }
    }

    /// The share of a cause in the time of all requests, in total or on one hop.
    fn share(&self, hop: usize, cause: Cause) -> f64 {
        let rows = self.rows.values().map(|of| &of[hop]);
        let ns = |row: &CausesRecord| row.spans[cause].as_nanos() as f64;
        let (of_cause, all) = rows.fold((0.0, 0.0), |(of_cause, all), row| {
            let total = row.spans.total().as_nanos() as f64;
            (of_cause + ns(row), all + total)
        });
        of_cause / all
    }

    /// Checks that the hosts took little, as they do unless other work keeps squall's threads waiting.
    fn check_host(&self) -> Result<(), String> {
        let host = self.share(0, Cause::Host);
        eprintln!("{}: host {host:.4}", self.name);
        ensure(host < 0.05, || format!("{}: host {host}", self.name))
    }

    /// Checks that most requests crossed the link once in each direction.
    fn check_crossed(&self) -> Result<(), String> {
        let is_crossed =
            |of: &&Vec<CausesRecord>| of[0].spans[Cause::Distance].as_nanos() == 2 * DELAY_NS;
        let crossed = self.rows.values().filter(is_crossed).count();
        ensure(crossed * 10 > self.rows.len() * 9, || {
            format!("{}: {crossed} of {}", self.name, self.rows.len())
        })
    }

    /// Requests that a proxy began to forward before it had received all of them, or whose response it began to forward
    /// before that was complete.
    fn overlapping(&self) -> BTreeSet<u64> {
        let exchanges = read_exchanges(self.folder.exchanges()).expect("exchanges.parquet");
        let mut clients = BTreeMap::new();
        for row in exchanges.iter().filter(|row| row.side == Side::Client) {
            let request = row.request.expect("all are traced");
            let before = clients.insert((row.hop, request), row);
            assert!(before.is_none(), "{}: it was sent once: {row:?}", self.name);
        }
        let servers = exchanges.iter().filter(|row| row.side == Side::Server);
        let overlapping = servers.filter_map(|row| {
            let request = row.request.expect("all are traced");
            let behind = clients.get(&(row.hop + 1, request))?;
            let is_early = behind.beginning.offered < row.request_last
                || behind.response_last > row.response_first;
            is_early.then_some(request)
        });
        overlapping.collect()
    }

    /// Checks that a cause's total is its sum over the hops, with two exceptions. A hop's wait for the next hop belongs
    /// to that next hop, and the work of the proxy in between counts as host time.
    fn check_nesting(&self, overlapping_at_most: f64) {
        let overlapping = self.overlapping();
        let share = overlapping.len() as f64 / self.rows.len() as f64;
        eprintln!("{}: {share:.3} overlap", self.name);
        assert!(share <= overlapping_at_most, "{}: {share}", self.name);
        let ns = |row: &CausesRecord, cause: Cause| row.spans[cause].as_nanos();
        for (request, of) in &self.rows {
            let (total, hops) = (&of[0], &of[1..]);
            let at = format!("{} {request}: {of:?}", self.name);
            for cause in Cause::ALL {
                let sum: u64 = hops.iter().map(|row| ns(row, cause)).sum();
                let is_exact = !overlapping.contains(request);
                match cause {
                    Cause::Server => {
                        let last = ns(hops.last().expect("there are hops"), cause);
                        assert!(ns(total, cause) <= last, "{at}");
                        assert!(!is_exact || ns(total, cause) == last, "{at}");
                    }
                    Cause::Host if is_exact => {
                        let between = hops.windows(2).map(|pair| {
                            let inner = pair[1].spans.total().as_nanos();
                            let waited = ns(&pair[0], Cause::Server);
                            waited.checked_sub(inner).expect("the next hop is within")
                        });
                        assert_eq!(ns(total, cause), sum + between.sum::<u64>(), "{at}");
                    }
                    Cause::Host => {}
                    _ => {
                        assert!(ns(total, cause) <= sum, "{cause:?} of {at}");
                        assert!(!is_exact || ns(total, cause) == sum, "{cause:?} of {at}");
                    }
                }
            }
        }
    }

    /// Checks that the cost of the drops equals what requests lost on the link's hop, to the nanosecond.
    fn check_drops(&self) {
        let drops = read_drops(self.folder.drops()).expect("drops.parquet");
        let known: BTreeSet<u64> = self.requests.iter().map(|row| row.request).collect();
        let mut lost: BTreeMap<u64, u64> = BTreeMap::new();
        let mut carried = 0;
        for row in &drops {
            carried += row.carried.len();
            let named = row.carried.iter();
            let victims = row.victims.iter();
            let named = named.chain(victims.map(|victim| &victim.request));
            assert!(
                named.clone().all(|request| known.contains(request)),
                "{row:?}"
            );
            for victim in row.victims.iter().filter(|it| it.cause == Cause::Loss) {
                *lost.entry(victim.request).or_default() += victim.delay.as_nanos();
            }
        }
        assert!(
            carried > 0 && !lost.is_empty(),
            "{}: {}",
            self.name,
            drops.len()
        );
        for (request, of) in &self.rows {
            let loss = of[self.link].spans[Cause::Loss].as_nanos();
            assert_eq!(
                loss,
                lost.get(request).copied().unwrap_or(0),
                "{}",
                self.name
            );
        }
    }
}

#[test]
fn hops_of_own_stations_nest_and_drops_name_the_clients_requests() {
    let paths = [
        ("h2c", "client -h1-> proxy ~h2c~> proxy -h1-> server"),
        ("h1", "client -h1-> proxy ~h1~> server"),
        ("first", "client ~h2~> proxy -h1-> server"),
        ("h3", "client -h2c-> proxy ~h3~> server"),
    ];
    let check = |run: &FinishedRun| {
        let trials = trials(run);
        assert_eq!(trials.len(), paths.len());
        for trial in &trials {
            let unknown = trial.share(0, Cause::Unknown);
            // A QUIC engine samples its window, so what it held back between two samples is unknown, even on a path of
            // one hop.
            assert!(unknown < 0.001 || trial.name == "h3", "{}", trial.name);
            // When a lost packet holds one part of a message, a proxy can meanwhile forward the other part.
            trial.check_nesting(0.95);
            trial.check_drops();
        }
        check_explained(run);
        trials.iter().try_for_each(Trial::check_host)
    };
    let run = || run("delay = \"25ms\"\nloss = \"2%\"", &paths);
    on_a_quiet_machine(seat(), run, check);
}

/// Checks that the explanation of the slowest request has each hop.
fn check_explained(run: &FinishedRun) {
    let output = explain(&run.folder, &["--variant", "h2c", "--worst", "1"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    for hop in ["hop 1, client to ", "hop 2, ", "hop 3, "] {
        assert!(text.contains(hop), "{text}");
    }
    assert!(
        !stderr(&output).contains("other causes"),
        "{}",
        stderr(&output)
    );
    let output = explain(&run.folder, &["--variant", "h2c", "--worst", "5", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    for request in told[0]["requests"].as_array().expect("requests") {
        assert_eq!(
            request["hops"].as_array().map(Vec::len),
            Some(3),
            "{request}"
        );
        let mut at = request["intended_ns"].as_u64();
        for stage in request["course"]["stages"].as_array().expect("stages") {
            assert_eq!(stage["from_ns"].as_u64(), at, "{request}");
            at = stage["to_ns"].as_u64();
        }
        assert_eq!(at, request["end_ns"].as_u64());
    }
}

/// Nothing is lost, so every request crosses the link once in each direction and never waits on it.
#[test]
fn without_loss_distance_equals_the_link_delay_and_host_time_is_small() {
    let paths = [
        ("one hop", "client ~h1~> server"),
        ("several", "client -h1-> proxy ~h2c~> proxy -h1-> server"),
    ];
    let check = |run: &FinishedRun| {
        let trials = trials(run);
        for trial in &trials {
            for of in trial.rows.values() {
                assert_eq!(of[0].spans[Cause::Unknown].as_nanos(), 0, "{}", trial.name);
                // A request that opens a connection on the way also waits for that.
                let distance = of[0].spans[Cause::Distance].as_nanos();
                assert_eq!(distance, 2 * DELAY_NS, "{}", trial.name);
            }
            if trial.link > 0 {
                trial.check_nesting(0.1);
            }
        }
        trials.iter().try_for_each(Trial::check_host)
    };
    on_a_quiet_machine(seat(), || run("delay = \"25ms\"", &paths), check);
}

/// Envoy forwards `traceparent`, so the packets of all hops show which exchanges belong together.
#[test]
fn hops_of_real_programs_are_reconstructed_from_packets() {
    if !have(&["envoy", "nginx"]) {
        return;
    }
    let paths = [
        ("h2c", "client -h1-> envoy ~h2c~> envoy -h1-> nginx"),
        ("h2", "client -h1-> envoy ~h2~> envoy -h1-> nginx"),
        ("direct", "client ~h1~> nginx"),
    ];
    let check = |run: &FinishedRun| {
        let trials = trials(run);
        for trial in &trials {
            let [host, unknown, server] =
                [Cause::Host, Cause::Unknown, Cause::Server].map(|cause| trial.share(0, cause));
            let name = &trial.name;
            eprintln!("{name}: host {host:.4}, unknown {unknown:.4}, server {server:.4}");
            assert!(unknown < 0.02, "{name}");
            trial.check_drops();
        }
        trials.iter().try_for_each(Trial::check_crossed)
    };
    let run = || run("delay = \"25ms\"\nloss = \"1%\"", &paths);
    on_a_quiet_machine(seat(), run, check);
}

/// HAProxy and nginx write no key log, so the traffic between them cannot be decrypted.
#[test]
fn time_behind_undecryptable_tls_is_unknown() {
    if !have(&["haproxy", "nginx"]) {
        return;
    }
    let _seat = seat();
    let run = run(
        "delay = \"25ms\"",
        &[("h1s", "client -h1-> haproxy ~h1s~> nginx")],
    );
    for trial in trials(&run) {
        for (request, of) in &trial.rows {
            let [total, first, second] = &of[..] else {
                panic!("two hops and the whole");
            };
            let unknown = total.spans[Cause::Unknown];
            assert!(unknown.as_nanos() >= 2 * DELAY_NS, "{request}: {of:?}");
            // Everything that the first hop waited for.
            assert_eq!(unknown, first.spans[Cause::Server], "{request}");
            assert_eq!(second.spans.total(), unknown, "{request}");
            assert_eq!(second.spans[Cause::Unknown], unknown, "{request}");
            assert_eq!(total.spans[Cause::Server].as_nanos(), 0, "{request}");
        }
    }
}

/// The share of each cause in the total time, with queueing time attributed to whatever the requests ahead waited for.
fn root_shares(trial: &Trial) -> Vec<(Cause, f64)> {
    let roots = measured(trial).map(|request| trial.rows[&request.request][0].root_spans());
    let all = roots.fold(CauseSpans::NONE, |all, spans| all.plus(&spans));
    let total = all.total().as_nanos() as f64;
    let share = |cause: Cause| (cause, all[cause].as_nanos() as f64 / total);
    Cause::ALL.into_iter().map(share).collect()
}

/// The requests after the warm-up, during which connections are opened.
fn measured(trial: &Trial) -> impl Iterator<Item = &RequestRecord> {
    let requests = trial.requests.iter();
    requests.filter(|request| request.phase == Phase::Measure)
}

fn percentile(trial: &Trial, percent: usize) -> f64 {
    let mut times: Vec<u64> = measured(trial)
        .map(|request| request.response_time().as_nanos())
        .collect();
    times.sort_unstable();
    times[(times.len() * percent).div_ceil(100).max(1) - 1] as f64
}

fn mean(trial: &Trial) -> f64 {
    let times = measured(trial).map(|request| request.response_time().as_nanos());
    times.sum::<u64>() as f64 / measured(trial).count() as f64
}

/// Checks that the causes of a cell have the same shares with real and with embedded stations. `false` if these are not equally
/// fast, so that there is nothing to compare.
fn check_same_causes(real: &Trial, embedded: &Trial) -> Result<bool, String> {
    const WITHIN: f64 = 0.05;
    let name = real.folder.name();
    let is_as_fast = [50, 99].into_iter().all(|percent| {
        let (real, embedded) = (percentile(real, percent), percentile(embedded, percent));
        (real / embedded - 1.0).abs() <= 0.1
    });
    eprintln!("{name}: as fast: {is_as_fast}");
    if !is_as_fast {
        return Ok(false);
    }
    // A difference in response time comes from some cause, so shares may differ by that much.
    let (real_mean, embedded_mean) = (mean(real), mean(embedded));
    let longer = (real_mean / embedded_mean).max(embedded_mean / real_mean) - 1.0;
    let both = root_shares(real).into_iter().zip(root_shares(embedded));
    for ((cause, real_share), (_, embedded_share)) in both {
        let said = format!("{}: {real_share:.4} and {embedded_share:.4}", cause.name());
        eprintln!("  {said}");
        let apart = (real_share - embedded_share).abs();
        ensure(apart <= WITHIN + longer, || format!("{name}: {said}"))?;
    }
    Ok(true)
}

/// If real and embedded stations are equally fast, it must be for the same reasons. If they are not, for example because other
/// work disturbs the programs, there is nothing to compare.
#[test]
fn equally_fast_real_and_embedded_stations_have_the_same_causes() {
    if !have(&["envoy", "nginx", "haproxy"]) {
        return;
    }
    let variants = [
        variant("direct", "client ~h1~> nginx"),
        variant("haproxy", "client -h1-> haproxy ~h1~> nginx"),
        variant("h2c", "client -h1-> envoy ~h2c~> envoy -h1-> nginx"),
    ];
    let variants: Vec<&str> = variants.iter().map(String::as_str).collect();
    let conditions = "delay = \"25ms\"\nloss = [\"0%\", \"2%\"]";
    let profile = "warmup = \"300ms\"\nduration = \"2s\"\ndrain = \"2s\"";
    let text = recipe("150/s", conditions, &variants, profile);
    let check = |run: &FinishedRun| -> Result<(), String> {
        let real = trials(run);
        let of_embedded = run_until_valid(&text, &["--stations", "embedded"]);
        if of_embedded.has_disturbed_trials() {
            say_disturbed("the embedded stations are not compared");
            return Ok(());
        }
        let embedded = trials(&of_embedded);
        assert_eq!((real.len(), embedded.len()), (6, 6));
        let mut compared = 0;
        for (real, embedded) in real.iter().zip(&embedded) {
            assert_eq!(real.name, embedded.name);
            compared += u32::from(check_same_causes(real, embedded)?);
        }
        eprintln!("{compared} of 6 cells are as fast");
        Ok(())
    };
    on_a_quiet_machine(seat(), || run_until_valid(&text, &[]), check);
}

//! Two Envoys with one connection between them, with and without loss: the question of the six-paths recipe, at a
//! smaller scale.
//!
//! Under loss every request waits for that connection, so the causes must show it and the first finding must name it.
//! Holds of known length are in `truth_holds`, exact nesting of hops in `causes_paths`.

use std::collections::BTreeMap;

use squall_base::plan::Condition;
use squall_base::record::{Cause, CauseSpans, CausesRecord, RequestRecord};
use squall_record::{RunFolder, read_causes};

use crate::findings::shown;
use crate::support::{
    FinishedRun, TrialFiles, ensure, have, on_a_quiet_machine, quiet_seat, run_until_valid,
};

const RECIPE: &str = r#"
name = "paths"
question = "What do requests wait for between two sidecars?"
[load]
rate = "500/s"
warmup = "500ms"
duration = "2500ms"
drain = "3s"
[request]
method = "POST"
body = "1KiB"
browser_headers = true
[response]
body = "1KiB"
[conditions]
delay = "10ms"
loss = ["0%", "3%"]
[[variant]]
name = "h2c"
path = "client -h1-> envoy ~h2c~> envoy -h1-> nginx"
[[variant]]
name = "h2"
path = "client -h1-> envoy ~h2~> envoy -h1-> nginx"
"#;

const VARIANTS: [&str; 2] = ["h2c", "h2"];
const ROUND_TRIP_NS: u64 = 20_000_000;

/// The measured requests of a trial, fastest first, each with its total causes.
struct Measured {
    name: String,
    requests: Vec<(RequestRecord, CausesRecord)>,
}

impl Measured {
    fn read(run: &FinishedRun, trial: &TrialFiles) -> Measured {
        let name = trial.record.trial.folder();
        let folder = RunFolder::open(&run.folder).expect("the run's folder");
        let folder = folder.complete_trial(&name).expect("a complete trial");
        let causes = read_causes(folder.causes()).expect("causes.parquet");
        let in_total = causes.into_iter().filter(CausesRecord::is_in_total);
        let mut causes: BTreeMap<u64, CausesRecord> =
            in_total.map(|row| (row.request, row)).collect();
        let requests = trial.measured().map(|request| {
            let row = causes.remove(&request.request).expect("a row of causes");
            (request.clone(), row)
        });
        let mut requests: Vec<_> = requests.collect();
        requests.sort_by_key(|(request, _)| request.response_time());
        Measured { name, requests }
    }

    fn slowest_hundredth(&self) -> &[(RequestRecord, CausesRecord)] {
        let count = self.requests.len();
        &self.requests[count - count / 100..]
    }

    fn fastest_half(&self) -> &[(RequestRecord, CausesRecord)] {
        &self.requests[..self.requests.len() / 2]
    }
}

/// The share of these causes in the time of these requests, with waits in queues attributed to their roots.
fn share(of: &[(RequestRecord, CausesRecord)], causes: &[Cause]) -> f64 {
    let spans: Vec<CauseSpans> = of.iter().map(|(_, row)| row.root_spans()).collect();
    let total: u64 = spans.iter().map(|it| it.total().as_nanos()).sum();
    let part = spans
        .iter()
        .flat_map(|it| causes.iter().map(|cause| it[*cause].as_nanos()));
    part.sum::<u64>() as f64 / total as f64
}

fn is_lossy(condition: &Condition) -> bool {
    !is_lossless(condition)
}

fn is_lossless(condition: &Condition) -> bool {
    condition.loss.up.get() == 0.0
}

#[test]
fn loss_between_two_envoys_is_attributed_to_the_connection_not_the_hosts() {
    if !have(&["envoy", "nginx"]) {
        return;
    }
    on_a_quiet_machine(quiet_seat(), || run_until_valid(RECIPE, &[]), check);
}

fn check(run: &FinishedRun) -> Result<(), String> {
    for variant in VARIANTS {
        for trial in run.of_variant(variant) {
            let measured = Measured::read(run, trial);
            if is_lossy(&trial.record.trial.condition) {
                check_lossy(&measured)?;
            } else {
                check_lossless(&measured)?;
            }
        }
        let findings = shown(run, variant, &is_lossy);
        let names: Vec<&str> = findings.iter().map(|it| it.name.as_str()).collect();
        let is_named = names.first() == Some(&"single_connection");
        let is_blamed = names.contains(&"pool_exhaustion");
        ensure(is_named && !is_blamed, || format!("{variant}: {names:?}"))?;
    }
    Ok(())
}

fn check_lossy(measured: &Measured) -> Result<(), String> {
    let name = &measured.name;
    for requests in [&measured.requests[..], measured.slowest_hundredth()] {
        let host = share(requests, &[Cause::Host]);
        let connection = share(requests, &[Cause::Cwnd, Cause::Loss, Cause::Hol]);
        eprintln!("{name}: host {host:.4}, cwnd, loss and hol {connection:.4}");
        ensure(host < 0.05, || format!("{name}: {host}"))?;
        ensure(connection > 0.85, || format!("{name}: {connection}"))?;
    }
    Ok(())
}

/// Checks that without loss requests cross the link once in each direction, and that the time that the programs need is still
/// `host`.
fn check_lossless(measured: &Measured) -> Result<(), String> {
    let name = &measured.name;
    let lost = share(&measured.requests, &[Cause::Loss, Cause::Hol]);
    assert_eq!(lost, 0.0, "{name}");
    let fastest = measured.fastest_half();
    let [host, plain] = [
        share(fastest, &[Cause::Host]),
        share(fastest, &[Cause::Host, Cause::Distance, Cause::Server]),
    ];
    eprintln!("{name}: host {host:.4}; with distance and server {plain:.4}");
    ensure(host > 0.0 && plain > 0.95, || {
        format!("{name}: {host}, {plain}")
    })?;
    let crossed = fastest
        .iter()
        .filter(|(_, row)| row.spans[Cause::Distance].as_nanos() == ROUND_TRIP_NS);
    assert_eq!(crossed.count(), fastest.len(), "{name}");
    Ok(())
}

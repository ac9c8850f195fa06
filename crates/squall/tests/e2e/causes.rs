//! Causes add up to the latency of every request, even if it was cut off, never connected, or failed in TLS. `recipes_quick`
//! checks this for each bundled recipe.

use std::collections::BTreeMap;
use std::path::Path;

use squall_base::record::{Cause, Outcome};
use squall_record::{RunFolder, TrialFolder, read_causes, read_requests};

use crate::constructed::recipe;
use crate::support::{FinishedRun, run_recipe, seat};

/// What was checked in a run.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) outcomes: BTreeMap<&'static str, usize>,
}

fn check(run: &FinishedRun) -> Checked {
    check_folder(&run.folder)
}

/// Checks every request of a run's complete trials.
pub(crate) fn check_folder(run: &Path) -> Checked {
    let folder = RunFolder::open(run).expect("the run");
    let mut checked = Checked::default();
    for trial in folder.complete_trials().expect("its trials") {
        check_trial(&trial, &mut checked);
    }
    checked
}

fn check_trial(trial: &TrialFolder, checked: &mut Checked) {
    let requests = read_requests(trial.requests()).expect("requests.parquet");
    let causes = read_causes(trial.causes()).expect("causes.parquet");
    let record = trial.read_record().expect("trial.json");
    let rows = match record.trial.variant.hops.len() {
        1 => 1,
        hops => 1 + hops,
    };
    assert_eq!(rows * requests.len(), causes.len(), "{}", trial.name());
    let in_total = causes.iter().filter(|row| row.is_in_total());
    let causes: BTreeMap<u64, _> = in_total.map(|row| (row.request, row)).collect();
    for request in &requests {
        let row = causes[&request.request];
        let sum = Cause::ALL
            .into_iter()
            .map(|cause| row.spans[cause].as_nanos())
            .sum::<u64>();
        let latency = request.end.as_nanos() - request.intended.as_nanos();
        assert_eq!(sum, latency, "{}: {request:?} {row:?}", trial.name());
        *checked.outcomes.entry(request.outcome.name()).or_default() += 1;
    }
}

const ALL: [&str; 5] = ["h1", "h1s", "h2c", "h2", "h3"];

#[test]
fn causes_add_up_for_requests_that_were_cut_off() {
    let _seat = seat();
    // Half of the requests are sent after the link has gone down.
    let text = recipe(
        &ALL,
        "50/s",
        ("1KiB", "30kB"),
        "blackout 1min at 600ms",
        "1s",
    );
    let checked = check(&run_recipe(&text, &[]));
    eprintln!("{checked:?}");
    assert!(
        checked.outcomes[Outcome::Answered.name()] > 0,
        "{checked:?}"
    );
    assert!(
        checked.outcomes[Outcome::Censored.name()] >= 5 * 20,
        "{checked:?}"
    );
}

#[test]
fn causes_add_up_for_requests_that_never_connected() {
    let _seat = seat();
    let text = recipe(&ALL, "20/s", ("1KiB", "1KiB"), "blackout 1min at 0s", "1s")
        .replace("connections = 1", "connections = { at_most = 2 }");
    let checked = check(&run_recipe(&text, &[]));
    eprintln!("{checked:?}");
    assert_eq!(
        checked.outcomes.get(Outcome::Answered.name()),
        None,
        "{checked:?}"
    );
    let text = recipe(&["h1s", "h2"], "20/s", ("1KiB", "1KiB"), "", "1s").replace(
        "connections = 1",
        "connections = { at_most = 2 }\nclient = { tls = { max_version = \"1.2\" } }\n\
         server = { tls = { min_version = \"1.3\" } }",
    );
    let checked = check(&run_recipe(&text, &[]));
    eprintln!("{checked:?}");
    assert_eq!(
        checked.outcomes.get(Outcome::TlsFailed.name()),
        Some(&40),
        "{checked:?}"
    );
}

/// Each user has a connection, all are opened at once, and some lose packets: a packet must be looked up on its own
/// connection.
#[test]
fn time_of_several_users_over_http3_is_explained_under_loss() {
    let _seat = seat();
    let text = "name = \"users\"\nquestion = \"Where does their time go?\"\n\
         [load]\nkind = \"hold\"\nother = \"/?size=1KiB\"\nusers = 6\n\
         [request]\ntarget = \"/?delay=200ms&size=1KiB\"\n\
         [response]\nstatus = 200\n[conditions]\ndelay = \"10ms\"\nloss = \"5%\"\n\
         [[variant]]\nname = \"h3\"\npath = \"client ~h3~> server\"\n\
         [profile.standard]\nduration = \"2s\"\ndrain = \"4s\"\n";
    let run = run_recipe(text, &[]);
    let folder = RunFolder::open(&run.folder).expect("the run");
    let trials = folder.complete_trials().expect("its trials");
    let rows = trials
        .iter()
        .flat_map(|trial| read_causes(trial.causes()).expect("causes.parquet"));
    let (mut unknown_ns, mut all_ns) = (0, 0);
    for row in rows {
        unknown_ns += row.spans[Cause::Unknown].as_nanos();
        all_ns += Cause::ALL
            .into_iter()
            .map(|cause| row.spans[cause].as_nanos())
            .sum::<u64>();
    }
    assert!(
        all_ns > 0 && unknown_ns * 50 < all_ns,
        "{unknown_ns} of {all_ns} ns"
    );
}

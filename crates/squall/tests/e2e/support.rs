//! Runs the binary in a temporary folder, and reads the files that it leaves there.

use std::ffi::OsStr;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use nix::unistd::geteuid;
use serde_json::Value;
use squall_base::record::{
    FailedAttempt, PacketRecord, Phase, RequestRecord, TrialRecord, Validity,
};
use squall_record::{RunFolder, read_json, read_packets, read_requests};
use tempfile::TempDir;

use crate::machine::MachineUse;
pub(crate) use crate::machine::{bench, quiet_seat, seat};
use crate::other_work::OTHERS_AT_MOST;
use crate::other_work::say_repeated;
pub(crate) use crate::other_work::{OtherWork, note_disturbed_trial, say_disturbed};

/// Longer than anything that a test waits for takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many times a run is made at most if its check fails beside other work.
const ATTEMPTS: usize = 3;

/// A port on which no program of this machine listens, neither over TCP nor over QUIC.
pub(crate) fn free_port() -> u16 {
    loop {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = free.local_addr().expect("it is bound");
        // Another test's client may have it.
        if UdpSocket::bind(address).is_ok() {
            return address.port();
        }
    }
}

/// The binary, with `folder` as its working directory.
pub(crate) fn squall(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_squall"));
    command.current_dir(folder).env("NO_COLOR", "1");
    command.env("SQUALL_PEERS", peers());
    command
}

/// Runs the binary in `folder` until it exits.
pub(crate) fn run_squall<A: AsRef<OsStr>>(
    folder: &Path,
    arguments: impl IntoIterator<Item = A>,
) -> Output {
    let output = squall(folder).args(arguments).output();
    output.expect("squall starts")
}

/// Writes a recipe into `home` and runs it until it exits.
pub(crate) fn run_recipe_in(home: &Path, text: &str) -> Output {
    write_recipe(home, text);
    run_squall(home, ["run", "./recipe.toml"])
}

/// Writes a recipe into `home` and begins to run it; what it prints goes into pipes.
pub(crate) fn begin_run(home: &Path, text: &str) -> Child {
    write_recipe(home, text);
    squall(home)
        .args(["run", "./recipe.toml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("squall starts")
}

/// Writes a recipe into `home`, as recipe.toml.
pub(crate) fn write_recipe(home: &Path, text: &str) {
    fs::write(home.join("recipe.toml"), text).expect("the recipe is written");
}

/// Where scripts/peers puts what does not come from Debian: $SQUALL_PEERS, otherwise peers in cargo's target folder.
pub(crate) fn peers() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match std::env::var_os("SQUALL_PEERS").filter(|folder| !folder.is_empty()) {
        Some(folder) => workspace.join(folder),
        None => Path::new(env!("CARGO_TARGET_TMPDIR")).join("../peers"),
    }
}

/// Whether squall can keep idle processors awake here: the device is writable, and there is an idle state that polls
/// instead of sleeping.
pub(crate) fn may_keep_awake() -> bool {
    let device = "/dev/cpu_dma_latency";
    let state = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cpuidle/state0/name");
    let is_open = std::fs::OpenOptions::new().write(true).open(device);
    is_open.is_ok() && state.is_ok_and(|name| name.trim_end() == "POLL")
}

/// Whether this test may do what requires root: become another user, or create namespaces in a threaded process. If
/// not, prints a notice, or fails where every test must run.
pub(crate) fn is_root() -> bool {
    if geteuid().is_root() {
        return true;
    }
    let said = "skipped: this test, or a part of it, needs root";
    assert!(std::env::var_os("SQUALL_REQUIRE_PEERS").is_none(), "{said}");
    eprintln!("{said}");
    false
}

/// Whether these programs are installed. If not, prints a notice, or fails where every test must run.
pub(crate) fn have(programs: &[&str]) -> bool {
    programs.iter().all(|program| {
        let found = Command::new(program).arg("--version").output();
        let own = peers().join("bin").join(program);
        let Err(error) = found.or_else(|_| Command::new(own).arg("--version").output()) else {
            return true;
        };
        let said = format!("skipped: this test needs {program}: {error}");
        assert!(std::env::var_os("SQUALL_REQUIRE_PEERS").is_none(), "{said}");
        eprintln!("{said}");
        false
    })
}

/// A Python that can import these modules, which are separated by commas. Without one, prints a notice, or fails where
/// every test must run.
pub(crate) fn python_with(modules: &str) -> Option<PathBuf> {
    let own = peers().join("python/bin/python3");
    let import = format!("import {modules}");
    for python in [own, PathBuf::from("python3")] {
        let found = Command::new(&python).args(["-c", &import]).output();
        if found.is_ok_and(|output| output.status.success()) {
            return Some(python);
        }
    }
    let said = format!("skipped: this test needs {modules} in Python; scripts/peers installs it");
    assert!(std::env::var_os("SQUALL_REQUIRE_PEERS").is_none(), "{said}");
    eprintln!("{said}");
    None
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a command printed as JSON. It must have succeeded.
pub(crate) fn stdout_json(output: &Output) -> Value {
    assert!(
        output.status.success(),
        "{}\n{}\n{}",
        output.status,
        stdout(output),
        stderr(output)
    );
    serde_json::from_slice(&output.stdout).expect("valid JSON")
}

/// Calls `look` repeatedly until it returns something, for at most [`PATIENCE`].
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let give_up = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < give_up, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// One complete trial.
pub(crate) struct TrialFiles {
    pub(crate) record: TrialRecord,
    pub(crate) requests: Vec<RequestRecord>,
    pub(crate) packets: Vec<PacketRecord>,
}

impl TrialFiles {
    pub(crate) fn measured(&self) -> impl Iterator<Item = &RequestRecord> {
        self.requests
            .iter()
            .filter(|request| request.phase == Phase::Measure)
    }

    /// Response times of the measured phase in ms, sorted. Unfinished requests count with their lower bound.
    pub(crate) fn latencies_ms(&self) -> Vec<f64> {
        let mut latencies: Vec<f64> = self
            .measured()
            .map(|request| request.response_time().as_millis_f64())
            .collect();
        latencies.sort_by(f64::total_cmp);
        latencies
    }

    /// How many processors programs outside of the run used on average while the client ran; 0 if that is not known.
    pub(crate) fn other_programs(&self) -> f64 {
        let others = self.record.health.machine.other_programs;
        others.map_or(0.0, |others| others.percent_of_one() as f64 / 100.0)
    }

    fn is_disturbed(&self) -> bool {
        self.record.health.validity != Validity::Valid
    }

    fn is_beside_other_work(&self) -> bool {
        let stolen = self.record.health.machine.stolen;
        self.other_programs() > OTHERS_AT_MOST || stolen.is_some_and(|time| !time.is_zero())
    }
}

/// The nearest-rank quantile of sorted values.
pub(crate) fn quantile(sorted: &[f64], q: f64) -> f64 {
    sorted[((sorted.len() as f64 * q).ceil() as usize).max(1) - 1]
}

/// A run that succeeded, with its folder.
pub(crate) struct FinishedRun {
    pub(crate) output: Output,
    pub(crate) folder: PathBuf,
    pub(crate) trials: Vec<TrialFiles>,
    // Kept so that the files remain.
    _home: TempDir,
}

impl FinishedRun {
    pub(crate) fn of_variant<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a TrialFiles> {
        self.trials
            .iter()
            .filter(move |trial| trial.record.trial.variant.name == name)
    }

    pub(crate) fn has_disturbed_trials(&self) -> bool {
        self.trials.iter().any(TrialFiles::is_disturbed)
    }

    /// Whether other programs, such as those of other tests, or the hypervisor may have kept the real programs of a trial
    /// waiting.
    pub(crate) fn is_beside_other_work(&self) -> bool {
        self.trials.iter().any(TrialFiles::is_beside_other_work)
    }

    pub(crate) fn only<'a>(&'a self, variant: &'a str) -> &'a TrialFiles {
        let mut found = self.of_variant(variant);
        let trial = found.next().expect("the run has this variant");
        assert!(found.next().is_none(), "more than one trial of {variant}");
        trial
    }
}

/// The only run in `home`/runs.
pub(crate) fn only_run(home: &Path) -> PathBuf {
    let mut runs: Vec<PathBuf> = fs::read_dir(home.join("runs"))
        .expect("there is a folder of runs")
        .map(|entry| entry.expect("it can be listed").path())
        .collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs.remove(0)
}

/// The summary of a run.
pub(crate) fn summary_of(run: &Path) -> Value {
    read_json(run.join("summary.json")).expect("summary.json")
}

/// The failed attempts that a run has kept.
pub(crate) fn failed_attempts(run: &Path) -> Vec<FailedAttempt> {
    let attempts = RunFolder::open(run).and_then(|run| run.failed_attempts());
    attempts.expect("the failed attempts")
}

/// Every complete trial of a run.
pub(crate) fn read_trials(run: &Path) -> Vec<TrialFiles> {
    let folder = RunFolder::open(run).expect("a run's folder");
    let trials = folder.complete_trials().expect("its trials");
    let trials: Vec<TrialFiles> = trials
        .into_iter()
        .map(|trial| TrialFiles {
            record: trial.read_record().expect("trial.json"),
            requests: read_requests(trial.requests()).expect("requests.parquet"),
            packets: read_packets(trial.packets()).expect("packets.parquet"),
        })
        .collect();
    note_disturbed(&trials);
    trials
}

/// Notes for this thread's test whether any of these trials was disturbed.
fn note_disturbed(trials: &[TrialFiles]) {
    let is_disturbed = |trial: &TrialFiles| trial.is_disturbed() || trial.is_beside_other_work();
    if trials.iter().any(is_disturbed) {
        note_disturbed_trial();
    }
}

/// Waits for a run that another thread of this test makes. If it was disturbed, notes that for this thread, too, because this
/// is the one that fails if the test fails.
pub(crate) fn joined(run: ScopedJoinHandle<'_, FinishedRun>) -> FinishedRun {
    let run = run.join().expect("the run ends");
    note_disturbed(&run.trials);
    run
}

/// Checks that a trial is valid apart from lateness: other work on the machine may have delayed squall's threads. What
/// these tests assert (counts, lower bounds, medians, tails of hundreds of milliseconds) does not depend on that, so
/// such a trial is accepted and reported. Any other reason is a failure.
pub(crate) fn check_validity(trial: &TrialFiles) {
    let Validity::Invalid { reasons } = &trial.record.health.validity else {
        return;
    };
    const LATE: [&str; 4] = [
        "the generator was late",
        "the hypervisor took",
        "the link released packets late",
        "the link's thread woke up late",
    ];
    let name = trial.record.trial.folder();
    for reason in reasons {
        assert!(
            LATE.iter().any(|late| reason.contains(late)),
            "{name}: {reason}"
        );
        eprintln!("other work disturbs this machine: {name}: {reason}");
    }
}

/// Checks the exit code of a completed run: 3 is allowed if some cell has only disturbed trials.
pub(crate) fn check_exit_code(output: &Output, trials: &[TrialFiles]) {
    let expected: &[i32] = if trials.iter().any(TrialFiles::is_disturbed) {
        &[0, 3]
    } else {
        &[0]
    };
    assert!(
        output
            .status
            .code()
            .is_some_and(|code| expected.contains(&code)),
        "{}\n{}\n{}",
        output.status,
        stdout(output),
        stderr(output)
    );
}

/// Runs a recipe to its end; all trials must be valid according to `check_validity`. It accepts disturbed trials, so none is
/// repeated.
pub(crate) fn run_recipe(text: &str, arguments: &[&str]) -> FinishedRun {
    run_recipe_with(&[], text, arguments)
}

/// Like [`run_recipe`], with files next to the recipe, by name and content.
pub(crate) fn run_recipe_with(
    files: &[(&str, &[u8])],
    text: &str,
    arguments: &[&str],
) -> FinishedRun {
    run_until_valid_with(files, text, &[&["--attempts", "1"], arguments].concat())
}

/// Like [`run_recipe`], and squall repeats disturbed trials: for tests that check more if all trials are valid.
pub(crate) fn run_until_valid(text: &str, arguments: &[&str]) -> FinishedRun {
    run_until_valid_with(&[], text, arguments)
}

/// Like [`run_until_valid`], with files next to the recipe, by name and content.
pub(crate) fn run_until_valid_with(
    files: &[(&str, &[u8])],
    text: &str,
    arguments: &[&str],
) -> FinishedRun {
    let run = run_files(files, text, arguments);
    check_exit_code(&run.output, &run.trials);
    run.trials.iter().for_each(check_validity);
    run
}

/// Runs a recipe to its end, whatever the outcome of its trials.
pub(crate) fn run_whatever(text: &str, arguments: &[&str]) -> FinishedRun {
    run_files(&[], text, arguments)
}

fn run_files(files: &[(&str, &[u8])], text: &str, arguments: &[&str]) -> FinishedRun {
    let home = TempDir::new().expect("a temporary folder");
    for (name, content) in files {
        fs::write(home.path().join(name), content).expect("a file is written");
    }
    write_recipe(home.path(), text);
    let arguments = [&["run", "./recipe.toml"][..], arguments].concat();
    let output = run_squall(home.path(), arguments);
    assert!(
        home.path().join("runs").is_dir(),
        "{}\n{}",
        output.status,
        stderr(&output)
    );
    let folder = only_run(home.path());
    FinishedRun {
        trials: read_trials(&folder),
        output,
        folder,
        _home: home,
    }
}

/// The text as an error if the condition does not hold.
pub(crate) fn ensure(holds: bool, text: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(text()) }
}

/// Runs a check that may fail because other tests use the same processors. If it fails, it runs once more with the machine to
/// itself, and that result counts.
pub(crate) fn alone_if_it_fails(seat: MachineUse, check: impl Fn()) {
    let checked = || catch_unwind(AssertUnwindSafe(&check));
    let Err(panic) = checked() else {
        return;
    };
    let said = panic.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
    let said = said.unwrap_or("it failed");
    say_repeated(said);
    // In this order, because a test that waits for the whole machine must not have a seat.
    drop(seat);
    let _alone = bench();
    if let Err(panic) = checked() {
        resume_unwind(panic);
    }
}

/// Checks a run whose figures, such as times of real programs, mean something only on a quiet machine. If the check fails
/// beside other tests or with disturbed trials, the run is repeated without any other test: up to three runs in all. If it
/// fails beside other programs, that is printed and is not a failure. On a quiet machine a failed check is a failure.
#[track_caller]
pub(crate) fn on_a_quiet_machine(
    mut seat: MachineUse,
    run: impl Fn() -> FinishedRun,
    check: impl Fn(&FinishedRun) -> Result<(), String>,
) {
    for attempt in 1..=ATTEMPTS {
        let other_work = OtherWork::watch();
        let run = run();
        let Err(said) = check(&run) else {
            return;
        };
        if other_work.disturbs() {
            // Another attempt would be disturbed just the same.
            return say_disturbed(&said);
        }
        // The last attempt has the machine alone: lateness there has no outside cause, unless other work can be seen.
        let may_be_late = attempt < ATTEMPTS && run.has_disturbed_trials();
        assert!(may_be_late || run.is_beside_other_work(), "{said}");
        say_disturbed(&said);
        if attempt < ATTEMPTS {
            // In this order, because a test that waits for the whole machine must not have a seat.
            drop(seat);
            seat = bench();
        }
    }
}

/// A recipe with a load like that of the Twilio experiment, and these conditions and variants.
pub(crate) fn recipe(rate: &str, conditions: &str, variants: &[&str], profile: &str) -> String {
    format!(
        "name = \"test\"\nquestion = \"Does it hold?\"\n[load]\nrate = \"{rate}\"\n\
         [request]\nmethod = \"POST\"\ntarget = \"/\"\nbody = \"1KiB\"\n\
         headers = {{ accept = \"application/json\", user-agent = \"test\" }}\n\
         [response]\nstatus = 200\nbody = \"1KiB\"\n[conditions]\n{conditions}\n{}\n[profile.standard]\n{profile}\n",
        variants.concat()
    )
}

/// A profile without a warm-up.
pub(crate) fn profile(duration: &str, repetitions: u32) -> String {
    format!(
        "warmup = \"0s\"\nduration = \"{duration}\"\ndrain = \"1s\"\nrepetitions = {repetitions}"
    )
}

/// A recipe with ten requests in each trial.
pub(crate) fn short_recipe(variants: &[&str], repetitions: u32) -> String {
    let profile = profile("200ms", repetitions);
    recipe("50/s", "delay = \"2ms\"", variants, &profile)
}

pub(crate) const H1: &str =
    "[[variant]]\nname = \"h1\"\npath = \"client ~h1~> server\"\nconnections = \"on demand\"\n";

/// With the windows of the twilio recipe, which are large enough not to limit anything.
pub(crate) const H2C_X1: &str = "[[variant]]\nname = \"h2c x1\"\npath = \"client ~h2c~> server\"\nconnections = 1\n\
    http2 = { stream_window = \"256MiB\", connection_window = \"256MiB\", max_concurrent_streams = 2147483647 }\n";
pub(crate) const H2C_X8: &str = "[[variant]]\nname = \"h2c x8\"\npath = \"client ~h2c~> server\"\nconnections = 8\n\
    http2 = { stream_window = \"256MiB\", connection_window = \"256MiB\", max_concurrent_streams = 2147483647 }\n";
pub(crate) const H2C_ON_DEMAND: &str = "[[variant]]\nname = \"h2c on demand\"\npath = \"client ~h2c~> server\"\n\
    connections = { at_most = 1 }\n";

/// The peak memory of a squall process so far, in KiB, without the pages of its program, whose number depends on how it was
/// built: VmHWM less RssFile, see [`memory_kib`].
pub(crate) fn peak_kib(child: &Child) -> Option<u64> {
    let of_program = memory_kib(child, "RssFile:")?;
    Some(memory_kib(child, "VmHWM:")?.saturating_sub(of_program))
}

/// A squall process's memory by this line of proc_pid_status(5), in KiB. `None` if it has exited, or has not become
/// squall yet: the parent resumes while the process in execve still has the parent's memory.
pub(crate) fn memory_kib(child: &Child, line: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let value = |name| status.lines().find_map(|line| line.strip_prefix(name));
    let is_squall = value("Name:")?.trim() == "squall";
    let number = value(line)?.trim().strip_suffix(" kB")?;
    is_squall.then(|| number.parse().expect("a number"))
}

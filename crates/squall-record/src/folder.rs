//! The folders of a run: which file is where, and which trials are complete.
//!
//! A trial is written into `FOLDER.partial` and renamed once it is complete. A killed run therefore leaves complete
//! trials and partial ones, and partial trials are never read. Discarding a trial reverses the order. This module does
//! not know what the files contain, except that a complete trial has a trial.json. Only one process at a time may
//! create trials of a run: [`RunFolder::lock`]. docs/RECORD.md describes every file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use squall_base::civil::CivilTime;
use squall_base::record::{FailedAttempt, TrialRecord};

use crate::RecordError;
use crate::json::{read_record, read_schema, read_versioned, write_json};

const PARTIAL: &str = "partial";
const ATTEMPT: &str = "attempt.json";

/// The name of a run's folder: `twilio-20260131T235959Z`, so that names sort by time. Characters of the recipe's name
/// other than ASCII letters, digits and `-` become `_`.
pub fn run_name(recipe: &str, at: SystemTime) -> String {
    let secs = at
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let at = CivilTime::from_unix_secs(secs);
    let plain: String = recipe
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect();
    format!(
        "{plain}-{:04}{:02}{:02}T{:02}{:02}{:02}Z",
        at.year, at.month, at.day, at.hour, at.minute, at.second
    )
}

/// The folder of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFolder {
    root: PathBuf,
}

impl RunFolder {
    /// Creates the folder of a new run, and its parent folders. It is an error if it already exists.
    pub fn create(root: impl Into<PathBuf>) -> Result<RunFolder, RecordError> {
        let run = RunFolder { root: root.into() };
        let made = run.root.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| fs::create_dir(&run.root))
            .and_then(|()| fs::create_dir(run.trials()))
            .map_err(RecordError::create(&run.root))?;
        Ok(run)
    }

    /// Opens the folder of an earlier run. It must have a plan.json.
    pub fn open(root: impl Into<PathBuf>) -> Result<RunFolder, RecordError> {
        let run = RunFolder { root: root.into() };
        let plan = run.plan();
        fs::metadata(&plan).map_err(RecordError::read(&plan))?;
        Ok(run)
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The recipe as it was run: `recipe.toml`.
    pub fn recipe(&self) -> PathBuf {
        self.root.join("recipe.toml")
    }

    /// The trials that the recipe expanded to: `plan.json`.
    pub fn plan(&self) -> PathBuf {
        self.root.join("plan.json")
    }

    /// The machine that ran it: `environment.json`.
    pub fn environment(&self) -> PathBuf {
        self.root.join("environment.json")
    }

    /// The report for people: `report.html`.
    pub fn report(&self) -> PathBuf {
        self.root.join("report.html")
    }

    /// The verdict for programs: `summary.json`.
    pub fn summary(&self) -> PathBuf {
        self.root.join("summary.json")
    }

    /// The folder with copies of the files that the recipe names: `files`. It exists only if the recipe names any.
    pub fn files(&self) -> PathBuf {
        self.root.join("files")
    }

    /// The faults found in its trials, cell by cell: `findings.json`.
    pub fn findings(&self) -> PathBuf {
        self.root.join("findings.json")
    }

    /// The folder that holds the trials: `trials`.
    pub fn trials(&self) -> PathBuf {
        self.root.join("trials")
    }

    /// Locks the run for this process until the guard is dropped or the process ends in any way. A process must hold
    /// the lock to create or remove trials, but not to read them.
    pub fn lock(&self) -> Result<RunLock, RecordError> {
        let path = self.root.join("lock");
        // The file is never removed: otherwise another process could lock a file that no longer has a name.
        let opened = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        let file = opened.map_err(RecordError::create(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(RunLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(RecordError::Locked(self.root.clone())),
            Err(TryLockError::Error(source)) => Err(RecordError::Lock(path, source)),
        }
    }

    /// The files of an attempt at the trial called `name` that did not complete.
    pub fn partial_trial(&self, name: &str) -> TrialFiles {
        TrialFiles {
            root: partial_name(&self.trials().join(name)),
        }
    }

    /// The trial called `name`, if it is complete.
    pub fn complete_trial(&self, name: &str) -> Option<TrialFolder> {
        TrialFolder::complete(self.trials().join(name))
    }

    /// All complete trials, sorted by name, which is the order of the plan. A trial with a damaged trial.json is among them:
    /// reading it fails, whereas nobody would notice if it were missing.
    pub fn complete_trials(&self) -> Result<Vec<TrialFolder>, RecordError> {
        let trials = self.trials();
        let failed = RecordError::read(&trials);
        let mut complete = Vec::new();
        for entry in fs::read_dir(&trials).map_err(&failed)? {
            complete.extend(TrialFolder::with_record(entry.map_err(&failed)?.path()));
        }
        complete.sort_by(|a, b| a.root.cmp(&b.root));
        Ok(complete)
    }

    /// The folder that holds attempts that failed and were repeated: `attempts`. It exists only if there are any.
    pub fn attempts(&self) -> PathBuf {
        self.root.join("attempts")
    }

    /// Moves the files of a failed attempt, complete or partial, out of the folder of trials, so that the trial can be
    /// tried again. Returns the attempt's folder, which also has `attempt` as attempt.json.
    pub fn keep_attempt(&self, attempt: &FailedAttempt) -> Result<PathBuf, RecordError> {
        let trial = self.trials().join(&attempt.trial);
        let source = match TrialFolder::complete(&trial) {
            Some(complete) => complete.root().to_owned(),
            None => partial_name(&trial),
        };
        // A worker that died early has left no folder.
        for folder in [&source, &self.attempts()] {
            fs::create_dir_all(folder).map_err(RecordError::create(folder))?;
        }
        // Before the folder is moved, so that a folder of an attempt always has it.
        write_json(source.join(ATTEMPT), attempt)?;
        let target = self.root.join(attempt.folder());
        remove_if_there(&target)?;
        fs::rename(&source, &target)
            .and_then(|()| sync_folder(&self.attempts()))
            .and_then(|()| sync_folder(&self.trials()))
            .map_err(RecordError::rename(&source, &target))?;
        Ok(target)
    }

    /// The failed attempts that were repeated, sorted by trial and attempt.
    pub fn failed_attempts(&self) -> Result<Vec<FailedAttempt>, RecordError> {
        let attempts = self.attempts();
        let failed = RecordError::read(&attempts);
        let entries = match fs::read_dir(&attempts) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(&failed)?,
        };
        let mut attempts: Vec<FailedAttempt> = Vec::new();
        for entry in entries {
            let path = entry.map_err(&failed)?.path().join(ATTEMPT);
            if path.is_file() {
                attempts.push(read_versioned(&path)?);
            }
        }
        attempts.sort_by(|a, b| (&a.trial, a.attempt).cmp(&(&b.trial, b.attempt)));
        Ok(attempts)
    }
}

/// Keeps other processes from working on a run (see [`RunFolder::lock`]).
#[derive(Debug)]
#[must_use = "the run is locked only as long as this is kept"]
pub struct RunLock {
    /// Holds an advisory lock, which the kernel releases with the file's last handle.
    _file: File,
}

/// The files of a trial: their paths in its folder, whether it is complete or still being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialFiles {
    root: PathBuf,
}

impl TrialFiles {
    /// The folder itself. Logs of peers, for example, are there.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// One row for every request: `requests.parquet`.
    pub fn requests(&self) -> PathBuf {
        self.root.join("requests.parquet")
    }

    /// One row for every packet on the link: `packets.parquet`.
    pub fn packets(&self) -> PathBuf {
        self.root.join("packets.parquet")
    }

    /// One row for every exchange that a side of the hop recorded: `exchanges.parquet`.
    pub fn exchanges(&self) -> PathBuf {
        self.root.join("exchanges.parquet")
    }

    /// One row for every frame that a side of the hop recorded: `frames.parquet`.
    pub fn frames(&self) -> PathBuf {
        self.root.join("frames.parquet")
    }

    /// One row for every sample of a socket: `sockets.parquet`.
    pub fn sockets(&self) -> PathBuf {
        self.root.join("sockets.parquet")
    }

    /// The response times cut into causes: `causes.parquet`, which every complete trial has.
    pub fn causes(&self) -> PathBuf {
        self.root.join("causes.parquet")
    }

    /// One row for every dropped packet: `drops.parquet`, which every complete trial has.
    pub fn drops(&self) -> PathBuf {
        self.root.join("drops.parquet")
    }

    /// The faults found in it: `findings.json`.
    pub fn findings(&self) -> PathBuf {
        self.root.join("findings.json")
    }

    /// The folder with the files and logs of the path's programs: `stations`. It exists only if the path has any.
    pub fn stations(&self) -> PathBuf {
        self.root.join("stations")
    }

    /// The programs that ended by themselves: `stations/exits.json`. It exists only if any did; trial.json has the same,
    /// but an attempt that failed has no trial.json.
    pub fn station_exits(&self) -> PathBuf {
        self.stations().join("exits.json")
    }

    /// The TLS secrets, as lines of an NSS key log: `tls-keys.log`. It is absent if the trial had no TLS.
    pub fn keylog(&self) -> PathBuf {
        self.root.join("tls-keys.log")
    }

    /// The packets of the first link: `link.pcapng`. It exists only if it was asked for.
    pub fn capture(&self) -> PathBuf {
        self.capture_of(0)
    }

    /// The packets of a link, by its place among the links of the path, from 0: the second link's file is `link-2.pcapng`.
    pub fn capture_of(&self, link: usize) -> PathBuf {
        self.root.join(match link {
            0 => "link.pcapng".to_owned(),
            further => format!("link-{}.pcapng", further + 1),
        })
    }

    /// The trial's settings and results in numbers: `trial.json`.
    pub fn record(&self) -> PathBuf {
        self.root.join("trial.json")
    }

    /// Whether these files are leftovers rather than a trial: trial.json is missing or damaged. If trial.json has another
    /// schema or may not be read, they are a trial, because only a person should decide to delete it.
    fn are_leftover(&self) -> bool {
        match read_schema(&self.record()) {
            Err(RecordError::ReadJson { .. }) => true,
            Err(RecordError::Read(_, source)) => is_missing(&source),
            _ => false,
        }
    }
}

/// The folder of a complete trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialFolder {
    files: TrialFiles,
}

impl Deref for TrialFolder {
    type Target = TrialFiles;

    fn deref(&self) -> &TrialFiles {
        &self.files
    }
}

impl TrialFolder {
    /// Returns `root` as a trial's folder if the trial is complete: not partial, and with a trial.json.
    pub fn complete(root: impl Into<PathBuf>) -> Option<TrialFolder> {
        TrialFolder::with_record(root).filter(|trial| !trial.are_leftover())
    }

    /// Returns `root` as a trial's folder if it is not partial and has a trial.json, damaged or not. Reading a damaged one is
    /// then an error.
    pub fn with_record(root: impl Into<PathBuf>) -> Option<TrialFolder> {
        let files = TrialFiles { root: root.into() };
        let is_partial = files
            .root
            .extension()
            .is_some_and(|extension| extension == PARTIAL);
        let has_record = match fs::metadata(files.record()) {
            Err(error) => !is_missing(&error),
            Ok(_) => true,
        };
        (!is_partial && has_record).then_some(TrialFolder { files })
    }

    /// The folder's name, which is the trial's name (`squall_base::plan::Trial::folder`).
    pub fn name(&self) -> String {
        self.root
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// Reads trial.json, which must have a schema version that this program reads.
    pub fn read_record(&self) -> Result<TrialRecord, RecordError> {
        read_record(&self.record())
    }

    /// Removes the trial. It is renamed to its partial name first, in one step, so that a process killed during removal
    /// leaves nothing that looks complete.
    pub fn discard(self) -> Result<(), RecordError> {
        remove_if_there(&self.set_aside()?)
    }

    /// Renames the folder back to its partial name, replacing the leftover of an earlier attempt.
    fn set_aside(self) -> Result<PathBuf, RecordError> {
        let TrialFiles { root } = self.files;
        let partial = partial_name(&root);
        remove_if_there(&partial)?;
        fs::rename(&root, &partial)
            .and_then(|()| root.parent().map_or(Ok(()), sync_folder))
            .map_err(RecordError::rename(&root, &partial))?;
        Ok(partial)
    }
}

/// The folder of a trial that is being made: `FOLDER.partial`. If it is dropped without [`PartialTrial::complete`], it
/// stays for inspection, is never read, and is removed when the trial is begun again.
#[derive(Debug)]
pub struct PartialTrial {
    files: TrialFiles,
    target: TrialFiles,
}

impl Deref for PartialTrial {
    type Target = TrialFiles;

    fn deref(&self) -> &TrialFiles {
        &self.files
    }
}

impl PartialTrial {
    /// Begins the trial whose final folder is `target`: removes what a killed attempt left there or under the partial
    /// name, and creates `target.partial`. It is an error if the trial is already complete.
    pub fn begin(target: impl Into<PathBuf>) -> Result<PartialTrial, RecordError> {
        let target = TrialFiles {
            root: target.into(),
        };
        if !target.are_leftover() {
            return Err(RecordError::AlreadyComplete(target.root));
        }
        remove_if_there(&target.root)?;
        let root = partial_name(&target.root);
        remove_if_there(&root)?;
        fs::create_dir_all(&root).map_err(RecordError::create(&root))?;
        let files = TrialFiles { root };
        Ok(PartialTrial { files, target })
    }

    /// Renames the folder to its final name. It must have a trial.json by now.
    pub fn complete(self) -> Result<TrialFolder, RecordError> {
        let PartialTrial { files, target } = self;
        if !files.record().is_file() {
            return Err(RecordError::Incomplete(files.root));
        }
        sync_folder(&files.root)
            .and_then(|()| fs::rename(&files.root, &target.root))
            .and_then(|()| target.root.parent().map_or(Ok(()), sync_folder))
            .map_err(RecordError::rename(&files.root, &target.root))?;
        Ok(TrialFolder { files: target })
    }
}

/// The name of the trial's folder `target` while it is partial.
fn partial_name(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(".");
    name.push(PARTIAL);
    name.into()
}

/// Whether an error means that there is no such file.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn remove_if_there(folder: &Path) -> Result<(), RecordError> {
    match fs::remove_dir_all(folder) {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            Err(RecordError::Remove(folder.into(), source))
        }
        _ => Ok(()),
    }
}

/// Makes the names in a folder survive a power failure, as fsync(2) advises.
fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use squall_base::record::{ProcessEnd, StationExit};

    use super::*;

    #[test]
    fn run_names_have_the_time_in_utc_and_plain_characters() {
        // Expected dates are the output of `date -u -d @SECONDS`.
        for (secs, expected) in [
            (0, "a-19700101T000000Z"),
            (951_782_399, "a-20000228T235959Z"),
            (951_782_400, "a-20000229T000000Z"),
            (1_798_761_599, "a-20261231T235959Z"),
            (4_107_542_400, "a-21000301T000000Z"),
        ] {
            assert_eq!(
                run_name("a", UNIX_EPOCH + Duration::from_secs(secs)),
                expected
            );
        }
        assert_eq!(run_name("../a b", UNIX_EPOCH), "___a_b-19700101T000000Z");
    }

    /// The part of a trial.json that matters to the folder.
    const RECORD: &str = r#"{"schema": 1}"#;

    fn run_in(folder: &tempfile::TempDir) -> RunFolder {
        RunFolder::create(folder.path().join("runs/demo")).unwrap()
    }

    fn begin(run: &RunFolder, name: &str) -> Result<PartialTrial, RecordError> {
        PartialTrial::begin(run.trials().join(name))
    }

    /// Creates a complete trial.
    fn make(run: &RunFolder, name: &str) -> TrialFolder {
        let partial = begin(run, name).unwrap();
        fs::write(partial.record(), RECORD).unwrap();
        assert!(run.complete_trial(name).is_none(), "not yet");
        partial.complete().unwrap()
    }

    fn names_in(folder: PathBuf) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn a_partial_trial_and_a_complete_one_have_the_same_files() {
        let folder = tempfile::tempdir().unwrap();
        let run = run_in(&folder);
        let partial = begin(&run, "a").unwrap();
        fs::write(partial.record(), RECORD).unwrap();
        let written = [
            (partial.requests(), "requests.parquet"),
            (partial.packets(), "packets.parquet"),
            (partial.exchanges(), "exchanges.parquet"),
            (partial.frames(), "frames.parquet"),
            (partial.sockets(), "sockets.parquet"),
            (partial.keylog(), "tls-keys.log"),
            (partial.capture_of(0), "link.pcapng"),
            (partial.capture_of(1), "link-2.pcapng"),
        ];
        for (path, content) in &written {
            fs::write(path, content).unwrap();
        }
        let trial = partial.complete().unwrap();
        let read = [
            trial.requests(),
            trial.packets(),
            trial.exchanges(),
            trial.frames(),
            trial.sockets(),
            trial.keylog(),
            trial.capture(),
            trial.capture_of(1),
        ];
        for (path, (_, name)) in read.iter().zip(&written) {
            assert_eq!(path.file_name().unwrap(), *name);
            assert_eq!(&fs::read_to_string(path).unwrap(), name);
        }
    }

    #[test]
    fn only_complete_trials_are_listed_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let run = run_in(&folder);
        for name in ["0002-h2c", "0001-h1-1.5s"] {
            assert_eq!(make(&run, name).name(), name);
        }
        let killed = begin(&run, "0003-h1").unwrap();
        fs::write(killed.record(), RECORD).unwrap();
        fs::create_dir(run.trials().join("0004-empty")).unwrap();
        fs::write(run.trials().join("notes"), "a file").unwrap();
        let names: Vec<_> = run
            .complete_trials()
            .unwrap()
            .iter()
            .map(TrialFolder::name)
            .collect();
        assert_eq!(names, ["0001-h1-1.5s", "0002-h2c"]);
    }

    #[test]
    fn beginning_again_removes_leftovers_but_never_a_complete_trial() {
        let folder = tempfile::tempdir().unwrap();
        let run = run_in(&folder);
        fs::write(begin(&run, "a").unwrap().requests(), "half").unwrap();
        assert!(!begin(&run, "a").unwrap().requests().exists());
        make(&run, "a");
        let again = begin(&run, "a");
        assert!(matches!(again, Err(RecordError::AlreadyComplete { .. })));
        // A trial of another schema version is not ours to remove.
        fs::write(
            run.complete_trial("a").unwrap().record(),
            r#"{"schema": 11}"#,
        )
        .unwrap();
        let again = begin(&run, "a");
        assert!(matches!(again, Err(RecordError::AlreadyComplete { .. })));
        let other = run.complete_trial("a").unwrap().read_record();
        assert!(matches!(other, Err(RecordError::OtherSchema { .. })));
    }

    #[test]
    fn a_folder_without_a_readable_record_is_a_leftover() {
        let folder = tempfile::tempdir().unwrap();
        let run = run_in(&folder);
        for content in [
            None,
            Some(""),
            Some("{\"schema\": 1"),
            Some("\0\0\0\0"),
            Some("{}"),
        ] {
            let target = run.trials().join("a");
            fs::create_dir(&target).unwrap();
            fs::write(target.join("requests.parquet"), "half").unwrap();
            if let Some(content) = content {
                fs::write(target.join("trial.json"), content).unwrap();
            }
            assert!(run.complete_trial("a").is_none(), "{content:?}");
            begin(&run, "a").unwrap();
            assert_eq!(names_in(run.trials()), ["a.partial"], "{content:?}");
        }
    }

    #[test]
    fn a_trial_with_a_damaged_record_is_listed_so_that_it_is_not_missed() {
        let folder = tempfile::tempdir().unwrap();
        let run = run_in(&folder);
        let trial = make(&run, "a");
        fs::write(trial.record(), "{\"schema\": 9, \"tri").unwrap();
        let listed = run.complete_trials().unwrap();
        let said = listed[0].read_record().unwrap_err().to_string();
        for part in ["a/trial.json is damaged", "squall run --resume"] {
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn discarded_trial_becomes_partial_before_it_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let run = run_in(&folder);
        make(&run, "a").discard().unwrap();
        assert!(names_in(run.trials()).is_empty());

        // Killed between the two steps, while the leftover of an earlier attempt is in the way.
        let trial = make(&run, "a");
        fs::create_dir_all(run.trials().join("a.partial/logs")).unwrap();
        trial.set_aside().unwrap();
        assert_eq!(names_in(run.trials()), ["a.partial"]);
        assert!(run.complete_trials().unwrap().is_empty());
        assert!(!begin(&run, "a").unwrap().record().exists());

        let gone = make(&run, "b");
        fs::remove_dir_all(gone.root()).unwrap();
        assert!(matches!(gone.discard(), Err(RecordError::Rename { .. })));
    }

    fn attempt(trial: &str, attempt: u32) -> FailedAttempt {
        FailedAttempt {
            schema: crate::SCHEMA,
            trial: trial.to_owned(),
            variant: "h1".to_owned(),
            attempt,
            station_exits: vec![StationExit {
                place: 1,
                name: "nginx".to_owned(),
                program: "/usr/sbin/nginx".to_owned(),
                end: ProcessEnd::Killed {
                    signal: "SIGSEGV".to_owned(),
                    number: 11,
                },
                at: squall_base::Duration::from_millis(1_200),
                last_lines: vec!["it hurts".to_owned()],
                log: "stations/1-nginx/nginx.log".to_owned(),
            }],
            failure: None,
        }
    }

    #[test]
    fn failed_attempts_keep_their_files_while_the_trial_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let run = run_in(&folder);
        assert!(run.failed_attempts().unwrap().is_empty());
        // Three attempts: a complete one, a partial one, and one of a worker that died before it had a folder.
        let complete = make(&run, "a");
        fs::create_dir(complete.stations()).unwrap();
        fs::write(complete.stations().join("nginx.log"), "it hurts").unwrap();
        let first = run.keep_attempt(&attempt("a", 1)).unwrap();
        assert_eq!(first, run.root().join("attempts/a-1"));
        fs::write(begin(&run, "a").unwrap().requests(), "half").unwrap();
        let second = run.keep_attempt(&attempt("a", 2)).unwrap();
        let third = run.keep_attempt(&attempt("a", 3)).unwrap();
        make(&run, "a");

        let log = fs::read_to_string(first.join("stations/nginx.log"));
        assert_eq!(log.unwrap(), "it hurts");
        assert!(first.join("trial.json").is_file() && second.join("requests.parquet").is_file());
        assert_eq!(names_in(third), ["attempt.json"]);
        assert_eq!(names_in(run.trials()), ["a"]);
        let kept = run.failed_attempts().unwrap();
        assert_eq!(kept, [1, 2, 3].map(|number| attempt("a", number)));
    }

    #[test]
    fn run_can_be_locked_by_only_one_process() {
        let folder = tempfile::tempdir().unwrap();
        let run = run_in(&folder);
        let lock = run.lock().unwrap();
        let refused = run.lock().unwrap_err();
        assert!(matches!(refused, RecordError::Locked { .. }));
        let said = refused.to_string();
        assert!(
            said.contains("another squall") && said.contains("runs/demo"),
            "{said}"
        );
        drop(lock);
        drop(run.lock().unwrap());
        assert!(run.lock().is_ok(), "the file that stays locks nobody out");
    }

    #[test]
    fn a_trial_without_its_record_does_not_become_complete() {
        let folder = tempfile::tempdir().unwrap();
        let partial = PartialTrial::begin(folder.path().join("a")).unwrap();
        assert!(matches!(
            partial.complete(),
            Err(RecordError::Incomplete { .. })
        ));
        assert!(!folder.path().join("a").exists());
    }

    #[test]
    fn run_is_created_once_and_opened_only_with_a_plan() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("demo");
        let run = RunFolder::create(&root).unwrap();
        assert!(matches!(
            RunFolder::create(&root),
            Err(RecordError::Create { .. })
        ));
        assert!(matches!(
            RunFolder::open(&root),
            Err(RecordError::Read { .. })
        ));
        fs::write(run.plan(), "{}").unwrap();
        assert_eq!(RunFolder::open(&root).unwrap(), run);
    }
}

//! What the commands that read a run do with records that are not what was written.

use std::fs;
use std::path::Path;

use squall_record::{RunFolder, TrialFolder};

use crate::support::{H1, recipe, run_recipe, run_squall, seat, stderr};

/// Flips one bit in the middle of a file.
fn damage(path: &Path) -> Vec<u8> {
    let sound = fs::read(path).expect("it is there");
    let mut damaged = sound.clone();
    damaged[sound.len() / 2] ^= 0x10;
    fs::write(path, damaged).expect("it is written");
    sound
}

/// A run with a damaged file yields no figures, and the user learns which file it is.
#[test]
fn one_flipped_bit_of_a_record_is_named_by_every_command_that_reads_it() {
    let _seat = seat();
    let text = recipe(
        "100/s",
        "delay = \"5ms\"",
        &[H1],
        "duration = \"1s\"\ndrain = \"1s\"",
    );
    let run = run_recipe(&text, &[]);
    let folder = RunFolder::open(&run.folder).expect("the run's folder");
    let trials = folder.complete_trials().expect("its trials");
    let trial: &TrialFolder = &trials[0];
    let record = trial.read_record().expect("trial.json");
    let names: Vec<&str> = record.files.iter().map(|file| file.name.as_str()).collect();
    assert!(names.contains(&"packets.parquet"), "{names:?}");

    let run = run.folder.to_str().expect("UTF-8");
    let report: &[&str] = &["report", run];
    let compare: &[&str] = &["compare", run, run];
    let explain: &[&str] = &["explain", run, "5"];
    for (path, commands) in [
        (trial.requests(), &[report, compare, explain][..]),
        (trial.causes(), &[report, compare, explain][..]),
        (trial.findings(), &[report][..]),
        (trial.packets(), &[explain][..]),
        (trial.record(), &[report, compare, explain][..]),
    ] {
        let sound = damage(&path);
        for arguments in commands {
            let output = run_squall(Path::new("."), *arguments);
            let said = stderr(&output);
            let name = path.file_name().expect("a name").to_string_lossy();
            assert_eq!(
                output.status.code(),
                Some(1),
                "{arguments:?}: {name}: {said}"
            );
            assert!(said.contains(&*name), "{arguments:?}: {name}: {said}");
        }
        fs::write(&path, sound).expect("it is restored");
    }
    let output = run_squall(Path::new("."), report);
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        stderr(&output)
    );
}

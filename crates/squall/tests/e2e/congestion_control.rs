//! Programs on a path use the recipe's congestion control across the link, as `ss` lists it while the load runs, and the record
//! says so.
//!
//! `results` tests what the record says of squall's own stations.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::processes::process_below;
use crate::support::{
    check_validity, have, is_root, read_trials, recipe, seat, squall, stderr, stdout, write_recipe,
};

/// Longer than programs on a busy machine take to start and to open connections.
const PATIENCE: Duration = Duration::from_secs(30);

/// The sockets that `ss` lists in a process's network namespace, by this filter on ports.
fn sockets_of(pid: i32, filter: &str) -> Option<String> {
    let output = Command::new("nsenter")
        .args([
            "-t",
            &pid.to_string(),
            "-n",
            "ss",
            "-Htin",
            "state",
            "established",
        ])
        .arg(filter)
        .output()
        .expect("nsenter starts");
    // The process may only have printed its version and exited.
    output.status.success().then(|| stdout(&output))
}

/// The congestion control of each connection that `ss` lists, except those within one host: squall checks from a program's
/// own host whether it is ready, and the route across the link does not apply there.
fn congestion_controls_between_hosts(listed: &str) -> Vec<&str> {
    // A connection is a line that ends with both addresses, and a line that begins with the congestion control.
    let lines: Vec<&str> = listed.lines().collect();
    let (connections, rest) = lines.as_chunks();
    assert!(rest.is_empty(), "a connection has two lines: {listed}");
    connections
        .iter()
        .filter_map(|[addresses, state]| {
            let mut ends = addresses.split_whitespace().rev().map(host_of);
            (ends.next()? != ends.next()?).then(|| state.split_whitespace().next())?
        })
        .collect()
}

/// The host of an address with a port.
fn host_of(address: &str) -> Option<&str> {
    Some(address.rsplit_once(':')?.0)
}

/// The route across the link sets the recipe's congestion control for programs, whatever the machine's default is.
#[test]
fn programs_use_the_recipes_congestion_control_across_the_link() {
    if !is_root() || !have(&["nginx", "haproxy", "ss", "nsenter"]) {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    for (asked, path) in [
        ("reno", "client -h1-> haproxy ~h1~> nginx"),
        ("cubic", "client -h1-> nginx ~h1~> haproxy"),
    ] {
        let text = recipe(
            "200/s",
            "delay = \"5ms\"",
            &[&format!(
                "[[variant]]\nname = \"{asked}\"\npath = \"{path}\"\ncongestion_control = \"{asked}\"\n"
            )],
            "warmup = \"500ms\"\nduration = \"3s\"\ndrain = \"2s\"",
        );
        write_recipe(home.path(), &text);
        let child = squall(home.path())
            .args(["run", "./recipe.toml", "--output", asked])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("squall starts");
        let give_up = Instant::now() + PATIENCE;
        // Checks sockets at both ends of the link while the load runs.
        let mut seen = [false; 2];
        while seen != [true; 2] {
            assert!(
                Instant::now() < give_up,
                "{asked}: no connections were seen"
            );
            thread::sleep(Duration::from_millis(100));
            let stations: Vec<&str> = path.split(' ').filter(|word| !word.contains('-')).collect();
            let ends = [(stations[1], "dport = 8081"), (stations[3], "sport = 8081")];
            for ((program, filter), seen) in ends.into_iter().zip(&mut seen) {
                let pid = process_below(child.id(), program);
                let Some(said) = pid.and_then(|pid| sockets_of(pid, filter)) else {
                    continue;
                };
                for found in congestion_controls_between_hosts(&said) {
                    assert_eq!(found, asked, "{program}: {said}");
                    *seen = true;
                }
            }
        }
        let output = child.wait_with_output().expect("the run ends");
        check_recorded(&home.path().join(asked), asked, &output);
    }
}

/// Checks that the trial records what the kernel reported.
fn check_recorded(runs: &Path, asked: &str, output: &Output) {
    let run = fs::read_dir(runs).expect("runs").next().expect("a run");
    let trials = read_trials(&run.expect("it can be listed").path());
    assert_eq!(trials.len(), 1, "{}", stderr(output));
    trials.iter().for_each(check_validity);
    let used = &trials[0].record.used;
    assert_eq!(used.client_congestion_control, [asked]);
    assert_eq!(used.server_congestion_control, [asked]);
}

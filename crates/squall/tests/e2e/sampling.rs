//! Sockets are sampled at the configured interval, in trials and in loads.

use std::path::Path;
use std::process::{Child, Command};

use squall_base::plan::SAMPLE_EVERY;
use squall_base::record::{Side, SocketRecord, Validity};
use squall_record::{RunFolder, read_sockets};
use tempfile::TempDir;

use crate::support::{alone_if_it_fails, run_recipe, run_squall, seat, stderr};

/// The socket samples of a two-second trial of this protocol on one connection, with this line in the recipe.
fn samples(protocol: &str, line: &str) -> (squall_base::Duration, Vec<SocketRecord>) {
    let run = run_recipe(
        &format!(
            "name = \"test\"\nquestion = \"How often?\"\n{line}\n\
             [load]\nrate = \"20/s\"\nwarmup = \"0s\"\nduration = \"2s\"\n[conditions]\ndelay = \"5ms\"\n\
             [[variant]]\nname = \"v\"\npath = \"client ~{protocol}~> server\"\nconnections = 1\n"
        ),
        &[],
    );
    let folder = RunFolder::open(&run.folder).expect("a run's folder");
    let trials = folder.complete_trials().expect("its trials");
    let rows = read_sockets(trials[0].sockets()).expect("sockets.parquet");
    (run.only("v").record.trial.sample_every, rows)
}

/// 2 s yield 20 samples at 100 ms, and 200 at 10 ms. A busy machine misses some of the latter, but never so many that
/// they fall below the limits here.
#[test]
fn trial_samples_sockets_at_the_recipes_interval() {
    alone_if_it_fails(seat(), || {
        for protocol in ["h1", "h3"] {
            let (usual, seldom) = samples(protocol, "");
            assert_eq!(usual, SAMPLE_EVERY);
            let (asked, often) = samples(protocol, "sample_every = \"10ms\"");
            assert_eq!(asked.to_string(), "10ms");
            for side in Side::ALL {
                let count = |rows: &[SocketRecord]| rows.iter().filter(|r| r.side == side).count();
                let (seldom, often) = (count(&seldom), count(&often));
                assert!((10..40).contains(&seldom), "{protocol}, {side:?}: {seldom}");
                assert!(
                    often > 3 * seldom,
                    "{protocol}, {side:?}: {often} of {seldom}"
                );
            }
            // Each side's one connection has one sample at its end.
            let last = often.iter().filter(|row| row.is_last).count();
            assert_eq!(last, 2, "{protocol}");
        }
    });
}

/// A program that keeps a processor busy until this is dropped.
struct BusyProgram(Child);

impl BusyProgram {
    fn start() -> BusyProgram {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        BusyProgram(command.spawn().expect("sh starts"))
    }
}

impl Drop for BusyProgram {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn trial_records_what_its_hosts_share_with_the_machine() {
    let _seat = seat();
    let _other = BusyProgram::start();
    let run = run_recipe(
        "name = \"test\"\nquestion = \"What is shared?\"\n\
         [load]\nrate = \"50/s\"\nwarmup = \"0s\"\nduration = \"1s\"\n[conditions]\ndelay = \"1ms\"\n\
         [[variant]]\nname = \"v\"\npath = \"client ~h1~> server\"\n",
        &[],
    );
    let health = &run.only("v").record.health;
    let machine = &health.machine;
    // A container with a network namespace of its own does not see these limits of the machine.
    if Path::new("/proc/sys/net/ipv4/tcp_mem").exists() {
        let tcp = machine.tcp_memory.expect("the memory of TCP sockets");
        assert!(tcp.low_pages <= tcp.pressure_pages && tcp.pressure_pages > 0);
        assert!(machine.udp_memory.is_some());
        let is_pressed = tcp.most_pages > tcp.pressure_pages;
        let said = matches!(&health.validity, Validity::Invalid { reasons }
            if reasons.iter().any(|reason| reason.contains("net.ipv4.tcp_mem")));
        assert!(said || !is_pressed, "{:?}", health.validity);
    }
    assert!(machine.tcp_shortage.is_some());
    assert!(machine.open_files.is_some_and(|files| files.most > 0));
    assert!(machine.stolen.is_some());
    // Otherwise /proc hides the processes of other users.
    if Path::new("/proc/1/stat").exists() {
        let others = machine.other_programs.expect("what other programs used");
        let during = others.during.as_secs_f64();
        assert!(during >= 0.9 && others.processors > 0, "{others:?}");
        assert!(others.used.as_secs_f64() >= 0.1, "{others:?}");
    }
}

#[test]
fn sampling_interval_below_one_millisecond_is_refused() {
    let home = TempDir::new().expect("a temporary folder");
    for too_often in ["0s", "999us"] {
        let output = run_squall(
            home.path(),
            ["load", "--sample-every", too_often, "http://127.0.0.1:1/"],
        );
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains("oftener than every 1ms"), "{said}");
    }
}

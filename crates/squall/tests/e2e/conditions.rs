//! Asymmetric conditions, traces and schedules. The tests read the link's behaviour from its packets, in the link's own
//! time, so nothing here depends on the speed of the machine.

use std::fs;

use squall_base::record::{Direction, Fate, PacketRecord};
use squall_base::{Duration, Time};
use squall_record::{RunFolder, read_plan};

use crate::support::{
    FinishedRun, TrialFiles, check_validity, read_trials, run_recipe, run_recipe_with, seat,
    squall, stderr, stdout,
};

const H1: &str = "[[variant]]\nname = \"h1\"\npath = \"client ~h1~> server\"\nconnections = 1\n";

fn recipe(load: &str, conditions: &str) -> String {
    format!(
        "name = \"test\"\nquestion = \"Does it hold?\"\n{load}\n[conditions]\n{conditions}\n{H1}"
    )
}

fn of(trial: &TrialFiles, direction: Direction) -> impl Iterator<Item = &PacketRecord> {
    let packets = trial.packets.iter();
    packets.filter(move |packet| packet.direction == direction)
}

fn load_start(trial: &TrialFiles) -> Time {
    Time::ZERO + trial.record.load_start
}

/// 125 kB in each direction, which is one second at 1 Mbit/s, with a different delay in each.
const BOTH_WAYS: &str = "[load]\nkind = \"closed\"\nusers = 1\nrequests = 1\nwarmup = \"0s\"\nduration = \"20s\"\n\
    [request]\nbody = \"125kB\"\n[response]\nbody = \"125kB\"";

#[test]
fn rate_limit_on_one_direction_slows_only_that_direction() {
    let _seat = seat();
    let run = run_recipe(
        &recipe(
            BOTH_WAYS,
            "delay = { up = \"20ms\", down = \"80ms\" }\n\
             link = [{ up = \"rate 1mbit\" }, { down = \"rate 1mbit\" }]",
        ),
        &[],
    );
    let [slow_up, slow_down] = &run.trials[..] else {
        panic!("two conditions of one variant");
    };
    for (trial, slow) in [(slow_up, Direction::Up), (slow_down, Direction::Down)] {
        let request = trial.requests.first().expect("one request");
        let uploaded = request
            .answered_first
            .unwrap()
            .since(request.written_first.unwrap());
        let downloaded = request.end.since(request.answered_first.unwrap());
        let (slow_one, other) = match slow {
            Direction::Up => (uploaded, downloaded),
            Direction::Down => (downloaded, uploaded),
        };
        // Timing of a download starts when its first packet has already arrived.
        let first_packet = Duration::from_millis(12);
        assert!(
            slow_one + first_packet >= Duration::from_secs(1),
            "125 kB at 1 Mbit/s in {slow_one}"
        );
        // A few round trips of 100 ms, for the congestion window.
        assert!(other < Duration::from_millis(900), "{slow:?}: {other}");
        let is_delayed = |packet: &PacketRecord, delay_ms| {
            let left = packet.served.unwrap_or(packet.arrived);
            packet.planned == Some(left + Duration::from_millis(delay_ms))
        };
        assert!(of(trial, Direction::Up).all(|packet| is_delayed(packet, 20)));
        assert!(of(trial, Direction::Down).all(|packet| is_delayed(packet, 80)));
    }
    let said = stdout(&run.output);
    assert!(
        said.contains("delay up 20ms down 80ms, loss 0%, up rate 1mbit"),
        "{said}"
    );
}

#[test]
fn loss_on_one_direction_drops_only_packets_of_that_direction() {
    let _seat = seat();
    let run = run_recipe(
        &recipe(
            "[load]\nrate = \"50/s\"\nwarmup = \"0s\"\nduration = \"1s\"",
            "delay = \"1ms\"\nloss = { down = \"30%\" }",
        ),
        &[],
    );
    let lost = |direction| {
        let lost = |packet: &&PacketRecord| packet.fate == Fate::LossDrop;
        of(&run.trials[0], direction).filter(lost).count()
    };
    assert_eq!(lost(Direction::Up), 0);
    assert!(lost(Direction::Down) > 0, "of 50 answers and more");
}

/// Connections are opened before the load, at the condition's delay; the schedule starts with the load.
const STEPS: (&str, &[u8]) = (
    "steps.schedule",
    b"at 0s: down delay 15ms\nat 500ms: down delay 40ms\nat 500ms: up delay 1ms\n",
);

#[test]
fn schedule_changes_each_direction_at_its_time_from_the_start_of_the_load() {
    let _seat = seat();
    let load = "[load]\nrate = \"200/s\"\nwarmup = \"200ms\"\nduration = \"800ms\"";
    let conditions = "delay = \"5ms\"\nschedule = \"steps.schedule\"";
    let run = run_recipe_with(&[STEPS], &recipe(load, conditions), &[]);
    let trial = &run.trials[0];
    let start = load_start(trial);
    let step = start + Duration::from_millis(500);
    for (direction, delays_ms) in [(Direction::Up, [5, 5, 1]), (Direction::Down, [5, 15, 40])] {
        let mut packets = [0; 3];
        for packet in of(trial, direction) {
            let part = usize::from(packet.arrived >= start) + usize::from(packet.arrived >= step);
            let delay = packet.planned.expect("no loss").since(packet.arrived);
            let expected = Duration::from_millis(delays_ms[part]);
            assert_eq!(delay, expected, "{direction:?}, in part {part}");
            packets[part] += 1;
        }
        assert!(!packets.contains(&0), "{direction:?}: {packets:?}");
    }
}

/// Requests of a closed load have no due times that would show when the load, and so the schedule, starts.
#[test]
fn schedule_also_starts_with_a_closed_load() {
    let _seat = seat();
    let load = "[load]\nkind = \"closed\"\nusers = 1\nwarmup = \"100ms\"\nduration = \"600ms\"";
    let conditions = "delay = \"5ms\"\nschedule = \"steps.schedule\"";
    let run = run_recipe_with(&[STEPS], &recipe(load, conditions), &[]);
    let trial = &run.trials[0];
    check_validity(trial);
    let start = load_start(trial);
    let mut delayed = of(trial, Direction::Down).filter(|packet| packet.arrived >= start);
    let first = delayed.next().expect("a response");
    let delay = first.planned.expect("no loss").since(first.arrived);
    assert_eq!(delay, Duration::from_millis(15));
}

/// One MTU every 20 ms towards the client.
const TRACE: (&str, &[u8]) = ("slow.trace", b"20\n");
/// No packet reaches the server from 300 ms to 600 ms after the start of the load.
const SCHEDULE: (&str, &[u8]) = (
    "cut.schedule",
    b"at 300ms: up loss 100%\nat 600ms: up loss none\n",
);

/// Checks that packets towards the client leave the queue at the trace's opportunities, which count from the start of the load.
#[track_caller]
fn check_trace(trial: &TrialFiles) {
    let start = load_start(trial);
    let served: Vec<u64> = of(trial, Direction::Down)
        .filter(|packet| packet.arrived > start)
        .map(|packet| {
            packet
                .served
                .expect("it leaves the queue")
                .since(start)
                .as_nanos()
        })
        .collect();
    assert!(served.iter().all(|at| at % 20_000_000 == 0), "{served:?}");
    // A body of 8,000 bytes takes six packets of at most 1,448 bytes, and no two of them fit into one opportunity.
    let mut times = served;
    times.dedup();
    assert!(times.len() >= 6, "{times:?}");
}

#[track_caller]
fn check_schedule(trial: &TrialFiles) {
    let start = load_start(trial);
    let is_cut = |packet: &PacketRecord| {
        let (from, to) = (Duration::from_millis(300), Duration::from_millis(600));
        packet.arrived >= start + from && packet.arrived < start + to
    };
    let (cut, others): (Vec<&PacketRecord>, Vec<&PacketRecord>) =
        of(trial, Direction::Up).partition(|it| is_cut(it));
    assert!(!cut.is_empty());
    assert!(cut.iter().all(|packet| packet.fate == Fate::LossDrop));
    assert!(others.iter().all(|packet| packet.fate == Fate::Delivered));
}

fn traced_and_scheduled() -> FinishedRun {
    let load = "[load]\nrate = \"20/s\"\nwarmup = \"0s\"\nduration = \"1s\"\ndrain = \"20s\"\n[response]\nbody = \"8kB\"";
    let conditions =
        "link = [\"\", { down = \"trace slow.trace\" }]\nschedule = [\"\", \"cut.schedule\"]";
    run_recipe_with(&[TRACE, SCHEDULE], &recipe(load, conditions), &[])
}

#[test]
fn run_with_trace_and_schedule_resumes_without_the_original_files() {
    let _seat = seat();
    let run = traced_and_scheduled();
    let [_, scheduled, traced, both] = &run.trials[..] else {
        panic!("two links with and without a schedule");
    };
    check_schedule(scheduled);
    check_trace(traced);
    check_schedule(both);
    check_trace(both);
    let said = stdout(&run.output);
    assert!(
        said.contains("down trace slow.trace, schedule cut.schedule"),
        "{said}"
    );

    // The run's folder holds everything that a repetition needs.
    let home = run
        .folder
        .parent()
        .and_then(|runs| runs.parent())
        .expect("its home");
    for (name, _) in [TRACE, SCHEDULE] {
        fs::remove_file(home.join(name)).expect("it was there");
    }
    let folder = RunFolder::open(&run.folder).expect("a run's folder");
    let last = folder.trials().join(both.record.trial.folder());
    fs::remove_dir_all(&last).expect("it was complete");
    let resume = || {
        let mut command = squall(home);
        command.args(["run", "--resume"]).arg(&run.folder);
        command.output().expect("squall starts")
    };
    let output = resume();
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        stderr(&output)
    );
    let again = read_trials(&run.folder);
    assert_eq!(again.len(), 4);
    check_trace(&again[3]);
    check_schedule(&again[3]);

    // Without the kept copy it cannot resume, and names the missing file.
    let plan = read_plan(folder.plan()).expect("plan.json");
    let copy = plan.files.iter().find(|file| file.path == TRACE.0);
    let copy = folder
        .files()
        .join(&copy.expect("the trace is named").kept_as);
    fs::remove_file(&copy).expect("the run keeps it");
    fs::remove_dir_all(&last).expect("it was complete");
    let output = resume();
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("the run's copy of slow.trace"), "{said}");
}

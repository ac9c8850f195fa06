//! The examination of a machine for `squall doctor`: what is checked, and in which order.
//!
//! Facts come from squall-linux (`machine` reads, `probe` tries). They are judged as plain data, so that every
//! judgement can be tested on any machine: kernel permissions in `rights`, processors and time in `processors`, space
//! and settings in `resources`. `check` is what they return, `command` prints it. Nothing is changed permanently:
//! whatever is tried ends with the process.

mod check;
pub(crate) mod command;
mod processors;
mod resources;
mod rights;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use squall_linux::awake::SleepInhibitor;
use squall_linux::host::Host;
use squall_linux::machine::{self, Memory, Processor, ProcessorTimes};
use squall_linux::shared::SharedState;
use squall_linux::{SetupError, probe, scheduling, sysctl, user_namespace};

use crate::awake::{self, MeasurementKind};
use check::Check;

/// Steal time is counted in ticks of 10 ms; a shorter interval would see too few of them.
const STEAL_WATCHED: Duration = Duration::from_millis(500);
/// How many times a thread sleeps to show how late it wakes up.
const SLEEPS: u32 = 200;
/// The congestion controls to try: those that recipes use.
const CONGESTION_CONTROLS: [&str; 3] = ["cubic", "reno", "bbr"];
const TCP_SETTINGS: [&str; 5] = [
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.somaxconn",
];

/// Examines this machine, which takes about a second. Call it while the process has a single thread: like a worker, it
/// may enter a user namespace.
fn examine() -> Vec<Check> {
    let refused_awake = SleepInhibitor::acquire().err();
    // These are read first, because the examination itself would affect them.
    let load = processors::Load {
        runnable_others: machine::runnable_tasks().map(|tasks| tasks.saturating_sub(1)),
        pressure_percent: machine::processor_pressure_percent(),
    };
    let (began, times_before) = (Instant::now(), ProcessorTimes::read());
    // The limits are visible only in the machine's own namespace.
    let shared = SharedState::read();
    let privilege = user_namespace::acquire_privilege();
    // Keeps processors awake, as the link does.
    let _awake = awake::keep(None, MeasurementKind::Timed);
    let host = Host::create();
    let wake_ups = probe::wake_ups(SLEEPS);
    let scheduling = wake_ups.as_ref().map(|found| found.scheduling).ok();
    let processor = Processor::read();
    let mut checks = vec![
        resources::kernel(machine::kernel_release()),
        rights::network_namespaces(&privilege, &host),
    ];
    checks.extend(checks_in_host(&host));
    checks.extend([
        rights::own_namespace("PID namespaces", probe::pid_namespace()),
        rights::own_namespace("mount namespaces", probe::mount_namespace()),
        rights::real_time(scheduling),
        rights::real_time_share(
            number_of("kernel.sched_rt_runtime_us"),
            number_of("kernel.sched_rt_period_us"),
        ),
        processors::processors(
            scheduling::processors(),
            &processor,
            machine::shared_cores(),
        ),
        processors::frequency(&machine::frequencies(), machine::boost(), &processor),
        processors::clock_source(
            machine::clock_source().as_deref(),
            machine::clock_sources_available().as_deref(),
        ),
        processors::sleep(refused_awake.as_ref()),
        processors::wake_ups(wake_ups),
        steal_since(began, times_before, &processor),
        processors::load(&load, scheduling::processors()),
        resources::open_files(scheduling::raise_open_files()),
        resources::memory(Memory::read().available_kib),
        resources::socket_memory(&shared),
        resources::disk(probe::folder_space(Path::new("."))),
    ]);
    checks
}

/// The checks that need a host to run in; without one they report that.
fn checks_in_host(host: &Result<Host, SetupError>) -> Vec<Check> {
    let host = host.as_ref().ok();
    let settings = |host: &Host| {
        let inside = host.sysctls().unwrap_or_default();
        let value = |name: &'static str| {
            let of_host = inside.iter().find(|(known, _)| known == name);
            // Machine-wide limits are not visible inside a host.
            let value = of_host.map(|(_, value)| value.clone());
            Some((name, value.or_else(|| sysctl::read(name).ok())?))
        };
        TCP_SETTINGS
            .into_iter()
            .filter_map(value)
            .collect::<Vec<_>>()
    };
    vec![
        rights::tun_device(probe::tun_driver(), host.map(probe::tun_device)),
        rights::offloads(host.map(probe::tun_offloads)),
        rights::congestion_controls(
            host.map(|host| probe::congestion_controls(host, &CONGESTION_CONTROLS)),
            &probe::congestion_controls_here(&CONGESTION_CONTROLS),
            machine::congestion_controls_available().as_deref(),
            sysctl::read("net.ipv4.tcp_congestion_control")
                .ok()
                .as_deref(),
        ),
        resources::tcp_settings(host.map(settings)),
    ]
}

/// Waits until steal time has been observed for long enough, and judges it.
fn steal_since(began: Instant, before: Option<ProcessorTimes>, processor: &Processor) -> Check {
    thread::sleep(STEAL_WATCHED.saturating_sub(began.elapsed()));
    let since_start = ProcessorTimes::read();
    let watched = before
        .zip(since_start)
        .map(|(before, after)| after.since(before));
    processors::steal(watched, since_start, processor)
}

fn number_of(name: &str) -> Option<i64> {
    sysctl::read(name).ok()?.parse().ok()
}

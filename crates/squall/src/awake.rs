//! Whether idle processors are kept awake while squall measures.
//!
//! Processors that stay awake respond immediately. But a virtual machine whose processors never sleep uses up its share of the
//! host, and the host then suspends it for milliseconds. For work that must happen on time, its processors are therefore
//! better off asleep, unless the host is busy: then a processor that sleeps has to wait for a physical one when it wakes up.
//! So squall first checks whether the host is busy (benches/RESULTS.md, "Processors that sleep", has figures for both cases).
//! The record says what was done; `squall doctor` says what is allowed. The implementation is `squall_linux::awake`.

use anyhow::{Context, Result};
use squall_linux::awake::SleepInhibitor;
use squall_linux::machine::{Processor, ProcessorTimes};
use squall_linux::probe;

use crate::link::health::lateness_p99_at_most;

/// How many sleeps of 1 ms are timed to find how late this machine wakes up. The 99th percentile of 100 is the second latest,
/// so a single outlier does not decide.
const SLEEPS: u32 = 100;

/// The host counts as busy if it took more than this share of the time in which this machine had work. A stolen processor
/// stops whatever runs on it, so this is roughly the share of squall's wake-ups that are late for reasons outside of squall.
/// From 1 % on, they show in the p99 that squall reports.
pub(crate) const STEAL_PERCENT_AT_MOST: f64 = 1.0;

/// What idle processors do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum IdleProcessors {
    /// Stay awake
    Awake,
    /// Sleep as the kernel decides
    Asleep,
}

/// The kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MeasurementKind {
    /// Maximum throughput: processors are hardly ever idle.
    Throughput,
    /// Work that must happen at given times.
    Timed,
}

/// Keeps idle processors awake until the returned value is dropped; `None` if they may sleep. Fails if `IdleProcessors::Awake`
/// was requested but is not permitted. For timed work in a virtual machine it first checks whether the host is busy, which
/// takes up to a tenth of a second.
pub(crate) fn keep(
    asked: Option<IdleProcessors>,
    kind: MeasurementKind,
) -> Result<Option<SleepInhibitor>> {
    match asked {
        Some(IdleProcessors::Asleep) => Ok(None),
        Some(IdleProcessors::Awake) => {
            let awake = SleepInhibitor::acquire().context(
                "cannot keep idle processors awake through /dev/cpu_dma_latency; `squall doctor` says how to allow it",
            )?;
            Ok(Some(awake))
        }
        None if is_worthwhile(kind, Processor::read().is_virtual, has_busy_host) => {
            Ok(SleepInhibitor::acquire().ok())
        }
        None => Ok(None),
    }
}

/// Like [`keep`], for a resumed run: unless the user asks for something else, processors do what they did before. Without the
/// right to keep them awake, they sleep.
pub(crate) fn keep_again(
    asked: Option<IdleProcessors>,
    was_awake: bool,
) -> Result<Option<SleepInhibitor>> {
    match asked {
        None if was_awake => Ok(SleepInhibitor::acquire().ok()),
        None => Ok(None),
        Some(_) => keep(asked, MeasurementKind::Timed),
    }
}

fn is_worthwhile(
    kind: MeasurementKind,
    is_virtual: bool,
    has_busy_host: impl FnOnce() -> bool,
) -> bool {
    kind == MeasurementKind::Throughput || !is_virtual || has_busy_host()
}

/// Whether the hypervisor has stolen much time since this machine started, or a sleeping thread wakes up later than a link's
/// thread may.
fn has_busy_host() -> bool {
    let is_late = || {
        probe::wake_ups(SLEEPS)
            .is_ok_and(|found| found.lateness.p99 > lateness_p99_at_most(found.scheduling))
    };
    ProcessorTimes::read().is_some_and(takes_much) || is_late()
}

fn takes_much(since_start: ProcessorTimes) -> bool {
    let wanted = since_start.busy + since_start.steal;
    since_start.steal as f64 > wanted as f64 * STEAL_PERCENT_AT_MOST / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_sleep_only_for_timed_work_in_a_virtual_machine_on_a_calm_host() {
        let timed = MeasurementKind::Timed;
        let unasked = || panic!("it does not matter there");
        assert!(is_worthwhile(MeasurementKind::Throughput, true, unasked));
        assert!(is_worthwhile(MeasurementKind::Throughput, false, unasked));
        assert!(is_worthwhile(timed, false, unasked));
        assert!(is_worthwhile(timed, true, || true));
        assert!(!is_worthwhile(timed, true, || false));
    }

    #[test]
    fn host_is_busy_if_it_stole_more_than_one_percent() {
        let times = |busy, steal| ProcessorTimes {
            busy,
            idle: 10_000,
            steal,
        };
        assert!(!takes_much(times(0, 0)));
        assert!(!takes_much(times(990, 10)));
        assert!(takes_much(times(989, 11)));
    }

    #[test]
    fn user_can_let_processors_sleep_for_any_measurement() {
        for kind in [MeasurementKind::Throughput, MeasurementKind::Timed] {
            let kept =
                keep(Some(IdleProcessors::Asleep), kind).expect("nothing is asked of the kernel");
            assert!(kept.is_none());
        }
    }

    #[test]
    fn resumed_run_lets_processors_sleep_if_they_did_before() {
        let kept = keep_again(None, false).expect("nothing is asked of the kernel");
        assert!(kept.is_none());
        let kept = keep_again(Some(IdleProcessors::Asleep), true);
        assert!(kept.expect("nothing is asked of the kernel").is_none());
    }
}

//! Whether idle processors are kept awake while squall measures.
//!
//! Processors that stay awake respond immediately. But a virtual machine whose processors never sleep uses up its share
//! of the host, and the host then suspends it for milliseconds (benches/RESULTS.md, "Processors that sleep"). In a virtual
//! machine, work that must happen on time is therefore better off with processors that sleep. The record says what was
//! done; `squall doctor` says what is allowed. The implementation is `squall_linux::awake`.

use anyhow::{Context, Result};
use squall_linux::awake::SleepInhibitor;
use squall_linux::machine::Processor;

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

/// Keeps idle processors awake until the returned value is dropped; `None` if they may sleep. Fails if
/// `IdleProcessors::Awake` was requested but is not permitted.
pub(crate) fn keep(
    asked: Option<IdleProcessors>,
    kind: MeasurementKind,
) -> Result<Option<SleepInhibitor>> {
    match asked {
        Some(IdleProcessors::Asleep) => Ok(None),
        Some(IdleProcessors::Awake) => {
            let awake = SleepInhibitor::acquire().context(
                "cannot keep idle processors awake by /dev/cpu_dma_latency; `squall doctor` says how to allow it",
            )?;
            Ok(Some(awake))
        }
        None if is_worthwhile(kind, Processor::read().is_virtual) => {
            Ok(SleepInhibitor::acquire().ok())
        }
        None => Ok(None),
    }
}

fn is_worthwhile(kind: MeasurementKind, is_virtual: bool) -> bool {
    kind == MeasurementKind::Throughput || !is_virtual
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_sleep_only_for_timed_work_in_a_virtual_machine() {
        assert!(is_worthwhile(MeasurementKind::Throughput, true));
        assert!(is_worthwhile(MeasurementKind::Throughput, false));
        assert!(is_worthwhile(MeasurementKind::Timed, false));
        assert!(!is_worthwhile(MeasurementKind::Timed, true));
    }

    #[test]
    fn asleep_keeps_no_processor_awake() {
        for kind in [MeasurementKind::Throughput, MeasurementKind::Timed] {
            let kept =
                keep(Some(IdleProcessors::Asleep), kind).expect("nothing is asked of the kernel");
            assert!(kept.is_none());
        }
    }
}

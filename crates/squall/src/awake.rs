//! Whether idle processors are kept awake while squall measures.
//!
//! Awake they answer at once. But a virtual machine whose processors never sleep uses up its share of its host, which then
//! stops it for milliseconds (docs/METHOD.md, "Processors that sleep"): what is to happen on time is better off without
//! there. The record says what was done, `squall doctor` what is allowed. How it is done: `squall_linux::awake`.

use anyhow::{Context, Result};
use squall_linux::awake::Awake;
use squall_linux::machine::Processor;

/// What idle processors shall do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Idle {
    /// Wait without sleeping
    Awake,
    /// Sleep, if the kernel wants them to
    Asleep,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measured {
    /// As much as the machine can do: its processors are hardly idle.
    AsFastAsItGoes,
    /// What happens at times of its own.
    OnTime,
}

/// Keeps them awake as long as what it gives lives; `None` if they may sleep. Who asks for it and may not is told so.
pub(crate) fn keep(asked: Option<Idle>, measured: Measured) -> Result<Option<Awake>> {
    match asked {
        Some(Idle::Asleep) => Ok(None),
        Some(Idle::Awake) => {
            let awake = Awake::keep().context(
                "cannot keep idle processors awake by /dev/cpu_dma_latency; `squall doctor` knows what to do",
            )?;
            Ok(Some(awake))
        }
        None if pays(measured, Processor::read().is_virtual) => Ok(Awake::keep().ok()),
        None => Ok(None),
    }
}

fn pays(measured: Measured, is_virtual: bool) -> bool {
    measured == Measured::AsFastAsItGoes || !is_virtual
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_on_time_in_a_virtual_machine_lets_them_sleep() {
        assert!(pays(Measured::AsFastAsItGoes, true));
        assert!(pays(Measured::AsFastAsItGoes, false));
        assert!(pays(Measured::OnTime, false));
        assert!(!pays(Measured::OnTime, true));
    }

    #[test]
    fn who_lets_them_sleep_keeps_none_awake() {
        for measured in [Measured::AsFastAsItGoes, Measured::OnTime] {
            let kept = keep(Some(Idle::Asleep), measured).expect("nothing is asked of the kernel");
            assert!(kept.is_none());
        }
    }
}

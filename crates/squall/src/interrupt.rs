//! Ctrl-C, SIGTERM and SIGHUP as a flag, so that a run can end in order. A second signal ends the process immediately.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use squall_linux::process;
use squall_linux::stop::StopSignal;

use crate::outcome::INTERRUPTED;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Makes an interrupt set the flag instead of ending the process. Call it once.
pub(crate) fn watch() -> Result<()> {
    set_handler(|| {
        if REQUESTED.swap(true, Ordering::AcqRel) {
            std::process::exit(i32::from(INTERRUPTED));
        }
    })
}

/// Makes an interrupt call `clean_up` and end the process. Call it once.
pub(crate) fn watch_and_exit(clean_up: impl Fn() + Send + 'static) -> Result<()> {
    set_handler(move || {
        clean_up();
        std::process::exit(i32::from(INTERRUPTED));
    })
}

fn set_handler(handler: impl FnMut() + Send + 'static) -> Result<()> {
    let ignores_hangup = process::ignores_hangup();
    ctrlc::set_handler(handler).context("cannot watch for Ctrl-C")?;
    if ignores_hangup {
        process::ignore_hangup().context("cannot keep ignoring SIGHUP under nohup")?;
    }
    Ok(())
}

/// Like [`watch`], but an interrupt also requests `stop`. Call it once.
pub(crate) fn watch_and_signal(stop: StopSignal) -> Result<()> {
    set_handler(move || {
        if REQUESTED.swap(true, Ordering::AcqRel) || stop.request().is_err() {
            std::process::exit(i32::from(INTERRUPTED));
        }
    })
}

pub(crate) fn is_requested() -> bool {
    REQUESTED.load(Ordering::Acquire)
}

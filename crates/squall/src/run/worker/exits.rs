//! Programs of a trial that ended before squall ended them: what is recorded of each one's end.
//!
//! `programs` finds out which have ended; `run::attempts` decides whether the trial is repeated. The types are those of the
//! record (`squall_base::record`).

use std::path::Path;

use squall_base::Time;
use squall_base::plan::Trial;
use squall_base::record::{ProcessEnd, StationExit};
use squall_linux::program::ProgramExit;
use squall_peers::ExitReport;

use crate::run::programs::folder_name;

/// The record of a program's end. Its time counts from `epoch`.
pub(super) fn station_exit(
    trial: &Trial,
    place: usize,
    program: &Path,
    exit: ExitReport,
    epoch: Time,
) -> StationExit {
    let name = &trial.variant.stations[place].name;
    let plain = folder_name(name);
    StationExit {
        place,
        name: name.clone(),
        program: program.display().to_string(),
        end: process_end(exit.status),
        at: exit.at.since(epoch),
        last_lines: exit.last_lines,
        log: format!("stations/{place}-{plain}/{plain}.log"),
    }
}

fn process_end(status: Option<ProgramExit>) -> ProcessEnd {
    match status {
        Some(ProgramExit::Code(code)) => ProcessEnd::Exited { code },
        Some(ProgramExit::Killed(signal)) => ProcessEnd::Killed {
            signal: signal.to_string(),
            number: signal as i32,
        },
        None => ProcessEnd::Unknown,
    }
}

/// The reason why a program's end makes the trial invalid.
pub(super) fn fault(exit: &StationExit) -> String {
    let StationExit {
        place, name, end, ..
    } = exit;
    let end = match end {
        ProcessEnd::Killed { signal, number } => format!("ended with signal {number} ({signal})"),
        end => end.to_string(),
    };
    match exit.last_lines.as_slice() {
        [] => format!("station {place}, {name}, {end}, without any output"),
        words => format!(
            "station {place}, {name}, {end}; its last output: {}",
            words.join(" | ")
        ),
    }
}

//! Requests and packets of trials in memory: read from their tables when first asked for, and kept for the next question.
//!
//! Only the most recently used trials are kept, so that a run of hundreds of long trials does not fill the memory. Every file
//! is checked as `squall report` checks it. What is found in them is decided in squall-report's `view`.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use squall_base::record::CausesRecord;
use squall_record::{Rows, TrialFolder, each_projected, read_drops};
use squall_report::view::{PacketIndex, PacketIndexBuilder, RequestIndex, RequestIndexBuilder};

/// How many trials' requests, and how many trials' packets, are kept: enough for one condition of a large recipe. Two million
/// requests take 50 MB.
const KEPT: usize = 16;

/// The trial of a run: the run's place, and the trial's folder.
pub(super) type TrialName = (usize, String);

/// The most recently used values, the latest last.
pub(super) struct Recent<T> {
    kept: Mutex<Vec<(TrialName, Arc<T>)>>,
}

impl<T> Recent<T> {
    pub(super) fn new() -> Recent<T> {
        Recent {
            kept: Mutex::new(Vec::new()),
        }
    }

    /// The value of this trial, made by `make` if it is not kept. Only one is made at a time.
    pub(super) fn get(&self, name: &TrialName, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        // A value is only added once it is complete, so a panic leaves nothing half-done.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let value = match kept.iter().position(|(other, _)| other == name) {
            Some(place) => kept.remove(place).1,
            None => Arc::new(make()?),
        };
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push((name.clone(), Arc::clone(&value)));
        Ok(value)
    }
}

/// Reads the requests of a trial and, if it has these tables, what they waited for and the drops.
pub(super) fn read_request_index(trial: &TrialFolder) -> Result<RequestIndex> {
    let record = trial.read_record()?;
    let mut index = RequestIndexBuilder::new(&record);
    trial.read_checked(&record, &trial.requests(), |path| {
        each_projected(path, |row| index.add_request(row))
    })?;
    if trial.has(&record, &trial.causes()) {
        trial.read_checked(&record, &trial.causes(), |path| {
            Rows::<CausesRecord>::open(path)?.each(|row| index.add_causes(row))
        })?;
    }
    if trial.has(&record, &trial.drops()) {
        let drops = trial.read_checked(&record, &trial.drops(), read_drops)?;
        drops.iter().for_each(|row| index.add_drop(row));
    }
    Ok(index.finish())
}

/// Reads the packets of a trial.
pub(super) fn read_packet_index(trial: &TrialFolder) -> Result<PacketIndex> {
    let record = trial.read_record()?;
    let mut index = PacketIndexBuilder::new(&record);
    trial.read_checked(&record, &trial.packets(), |path| {
        each_projected(path, |row| index.add(row))
    })?;
    Ok(index.finish())
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn values_are_made_once_and_the_least_recently_used_one_is_forgotten() {
        let recent = Recent::new();
        let name = |place: usize| (place, "0000-h1".to_owned());
        let get = |place: usize| *recent.get(&name(place), || Ok(place)).unwrap();
        for place in 0..KEPT {
            assert_eq!(get(place), place);
        }
        let is_kept = |place: usize| {
            let found = recent.get(&name(place), || Err(anyhow!("not kept")));
            found.is_ok()
        };
        assert!(is_kept(0));
        get(KEPT);
        assert!(is_kept(0) && is_kept(KEPT));
        assert!(!is_kept(1));
    }
}

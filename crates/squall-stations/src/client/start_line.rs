//! Lets several clients of one load start together, each on its own thread.
//!
//! Each client arrives when its connections are ready; the last one to arrive decides the start time, on its own thread. A
//! client that fails earlier leaves the barrier, so that the others do not wait for it; if it was the last one expected, one
//! that waits decides.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use squall_base::plan::Workload;
use squall_base::{Duration, Time};
use squall_linux::clock;

/// Delay from all connections being ready to the first request of a load with a schedule; without it the first request would be
/// late. For the same reason, a link that counts from a load's start learns of it this long in advance.
pub const START_AFTER: Duration = Duration::from_millis(10);

/// When a load starts if its connections are ready now.
pub fn start_of(workload: &Workload) -> Time {
    let start_after = match workload {
        Workload::Open(_) | Workload::Script(_) => START_AFTER,
        // A closed loop has no schedule to be late for.
        Workload::Closed(_) | Workload::Pages(_) => Duration::ZERO,
    };
    clock::now() + start_after
}

struct BarrierState {
    /// Places that have neither arrived at the barrier nor left it.
    expected: usize,
    /// Decides when the load starts; `None` once it has.
    decide: Option<Box<dyn FnOnce() -> Time + Send>>,
    start: Option<Time>,
}

impl fmt::Debug for BarrierState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BarrierState")
            .field("expected", &self.expected)
            .field("start", &self.start)
            .finish_non_exhaustive()
    }
}

/// A place at the barrier: of a client, or of an observer that wants to know when the clients start.
#[derive(Debug)]
pub struct StartBarrier {
    shared: Arc<(Mutex<BarrierState>, Condvar)>,
    has_arrived: bool,
}

impl StartBarrier {
    /// `count` places at a new barrier. `decide` is called once, when all have arrived, and returns when the load starts.
    pub fn places(
        count: usize,
        decide: impl FnOnce() -> Time + Send + 'static,
    ) -> Vec<StartBarrier> {
        let state = BarrierState {
            expected: count,
            decide: Some(Box::new(decide)),
            start: None,
        };
        let shared = Arc::new((Mutex::new(state), Condvar::new()));
        (0..count)
            .map(|_| StartBarrier {
                shared: shared.clone(),
                has_arrived: false,
            })
            .collect()
    }

    /// Waits for all others. Returns when the load starts.
    pub fn wait(mut self) -> Time {
        self.has_arrived = true;
        let (_, condition) = &*self.shared;
        let mut state = self.lock();
        state.expected -= 1;
        loop {
            // The last expected place may have left instead of arriving.
            if state.expected == 0
                && let Some(decide) = state.decide.take()
            {
                state.start = Some(decide());
                condition.notify_all();
            }
            if let Some(start) = state.start {
                return start;
            }
            state = condition
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BarrierState> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StartBarrier {
    fn drop(&mut self) {
        if !self.has_arrived {
            self.lock().expected -= 1;
            self.shared.1.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// A barrier whose start is the number of times that it was decided.
    fn places(count: usize) -> Vec<StartBarrier> {
        let mut decided = 0;
        StartBarrier::places(count, move || {
            decided += 1;
            Time::from_nanos(decided)
        })
    }

    #[test]
    fn start_is_decided_once_and_clients_start_together_even_if_some_leave() {
        let mut places = places(4);
        drop(places.pop());
        let clients: Vec<_> = (places.into_iter())
            .map(|place| thread::spawn(move || place.wait()))
            .collect();
        let starts = clients.into_iter().map(|client| client.join().unwrap());
        assert_eq!(starts.collect::<Vec<_>>(), [Time::from_nanos(1); 3]);
    }

    #[test]
    fn waiting_client_starts_when_the_last_other_leaves() {
        let mut places = places(2);
        let leaver = places.pop().unwrap();
        let stayer = places.pop().unwrap();
        let waiting = thread::spawn(move || stayer.wait());
        drop(leaver);
        assert_eq!(waiting.join().unwrap(), Time::from_nanos(1));
    }

    #[test]
    fn last_to_arrive_decides_the_start() {
        let mut places = StartBarrier::places(2, || {
            assert_eq!(thread::current().name(), Some("last"));
            Time::from_nanos(1)
        });
        let first = places.pop().unwrap();
        let last_place = places.pop().unwrap();
        let shared = first.shared.clone();
        let waiting = thread::spawn(move || first.wait());
        while shared.0.lock().unwrap().expected == 2 {
            thread::yield_now();
        }
        let last = thread::Builder::new().name("last".to_owned());
        let last = last.spawn(move || last_place.wait()).unwrap();
        assert_eq!(last.join().unwrap(), waiting.join().unwrap());
    }
}

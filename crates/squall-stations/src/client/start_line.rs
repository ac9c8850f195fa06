//! Lets several clients of one load start together, each on its own thread.
//!
//! Each client arrives when its connections are ready; the last one sets the time. A client that fails before leaves
//! the barrier, so that the others do not wait for it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use squall_base::Time;

#[derive(Debug)]
struct BarrierState {
    /// Places that have neither arrived at the barrier nor left it.
    expected: usize,
    start: Option<Time>,
}

/// A place at the barrier: of a client, or of an observer that wants to know when the clients start.
#[derive(Debug)]
pub struct StartBarrier {
    shared: Arc<(Mutex<BarrierState>, Condvar)>,
    has_arrived: bool,
}

impl StartBarrier {
    /// `count` places at a new barrier.
    pub fn places(count: usize) -> Vec<StartBarrier> {
        let state = BarrierState {
            expected: count,
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

    /// Waits for all others; the last one decides when the load starts.
    pub fn wait(mut self, start: impl FnOnce() -> Time) -> Time {
        self.has_arrived = true;
        let (_, condition) = &*self.shared;
        let mut state = self.lock();
        state.expected -= 1;
        if state.expected == 0 {
            let start = *state.start.get_or_insert_with(start);
            condition.notify_all();
            return start;
        }
        loop {
            state = condition
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            match state.start {
                Some(start) => return start,
                // The last expected place left instead of arriving.
                None if state.expected == 0 => {
                    return *state.start.get_or_insert_with(start);
                }
                None => {}
            }
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

    #[test]
    fn clients_start_together_even_if_some_leave() {
        let mut places = StartBarrier::places(4);
        drop(places.pop());
        let clients: Vec<_> = (1..)
            .zip(places)
            .map(|(n, place)| thread::spawn(move || place.wait(|| Time::from_nanos(n))))
            .collect();
        let starts: Vec<Time> = clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect();
        assert!(starts.iter().all(|start| *start == starts[0]), "{starts:?}");
    }

    #[test]
    fn waiting_client_starts_when_the_last_other_leaves() {
        let mut places = StartBarrier::places(2);
        let leaver = places.pop().unwrap();
        let stayer = places.pop().unwrap();
        let waiting = thread::spawn(move || stayer.wait(|| Time::from_nanos(7)));
        drop(leaver);
        assert_eq!(waiting.join().unwrap(), Time::from_nanos(7));
    }
}

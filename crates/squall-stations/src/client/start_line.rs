//! Several clients of one load that start together, each on its own thread.
//!
//! Each says when its connections are there; the last one sets the time. One that fails before leaves the line, so that
//! the others do not wait for it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use squall_base::Time;

#[derive(Debug)]
struct Line {
    /// Those that neither stand at the line nor have left it.
    expected: usize,
    start: Option<Time>,
}

/// A place at the line: a client's, or that of whoever wants to know when they start.
#[derive(Debug)]
pub struct StartLine {
    shared: Arc<(Mutex<Line>, Condvar)>,
    has_arrived: bool,
}

impl StartLine {
    /// Places for so many clients.
    pub fn places(count: usize) -> Vec<StartLine> {
        let line = Line {
            expected: count,
            start: None,
        };
        let shared = Arc::new((Mutex::new(line), Condvar::new()));
        (0..count)
            .map(|_| StartLine {
                shared: shared.clone(),
                has_arrived: false,
            })
            .collect()
    }

    /// Waits for all others; the last one says when the load starts.
    pub fn wait(mut self, start: impl FnOnce() -> Time) -> Time {
        self.has_arrived = true;
        let (_, everybody) = &*self.shared;
        let mut line = self.lock();
        line.expected -= 1;
        if line.expected == 0 {
            let start = *line.start.get_or_insert_with(start);
            everybody.notify_all();
            return start;
        }
        loop {
            line = everybody.wait(line).unwrap_or_else(PoisonError::into_inner);
            match line.start {
                Some(start) => return start,
                // The last one that was expected has left instead.
                None if line.expected == 0 => {
                    return *line.start.get_or_insert_with(start);
                }
                None => {}
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StartLine {
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
    fn all_start_at_the_time_that_one_says_though_some_leave() {
        let mut places = StartLine::places(4);
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
    fn who_waits_goes_when_the_last_one_leaves() {
        let mut places = StartLine::places(2);
        let leaver = places.pop().unwrap();
        let stayer = places.pop().unwrap();
        let waiting = thread::spawn(move || stayer.wait(|| Time::from_nanos(7)));
        drop(leaver);
        assert_eq!(waiting.join().unwrap(), Time::from_nanos(7));
    }
}

//! Who writes the rows of a load: its clients, in the time that they would sleep through, or a thread when rows pile up.
//!
//! To fall asleep and be woken up costs a client several microseconds, more than to write the rows of the requests that
//! were answered meanwhile; and a thread that writes on a client's processor is interrupted by every answer that comes.
//! So a client that has nothing to do writes a few rows, looks for answers, and writes a few more. What takes long, as the
//! end of a row group does, it leaves to the thread, and so it does with what it has no time for. What is written, and
//! where to, is `tables`' business.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use anyhow::Result;
use squall_stations::rows::{Chunk, LookedIn, Pile, RowReceiver, SpareTime};

/// Rows of a step: at most 150,000 instructions (every fourth step packs a block of each column), about 10 us.
const STEP_ROWS: usize = 64;

/// How long writing may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Some microseconds: a client does it, between two answers.
    Quick,
    /// As long as it takes.
    Patient,
}

/// Writes rows of one table.
pub(super) trait Clerk<R>: Send {
    /// Writes `rows`. Gives whether it has: at a quick pace it may decline.
    fn write(&mut self, rows: &mut [R], pace: Pace) -> Result<bool>;

    /// Writes the end.
    fn finish(self) -> Result<()>;
}

/// The rows of a table that are not written yet, and who can write them; one at a time.
pub(super) struct Desk<R, C> {
    pile: Pile<R>,
    work: Mutex<Work<R, C>>,
}

enum Work<R, C> {
    Open(Open<R, C>),
    /// It is done, or nothing more can be written: whoever sends rows then loses them.
    Over(Result<()>),
}

struct Open<R, C> {
    queue: RowReceiver<R>,
    /// The rows that are being written, and how many of them were.
    chunk: Option<(Chunk<R>, usize)>,
    clerk: C,
}

/// What came of a step.
enum Step {
    Written,
    /// There is nothing to write, or not now.
    Nothing,
    Ended,
}

impl<R: Send + 'static, C: Clerk<R> + 'static> Desk<R, C> {
    pub(super) fn new(queue: RowReceiver<R>, clerk: C) -> Arc<Desk<R, C>> {
        Arc::new(Desk {
            pile: queue.pile(),
            work: Mutex::new(Work::Open(Open {
                queue,
                chunk: None,
                clerk,
            })),
        })
    }

    /// Writes what nobody else does, on the calling thread, until all senders are gone and everything is written.
    pub(super) fn tend(&self) -> Result<()> {
        if let Work::Open(open) = &*self.lock() {
            open.queue.ring_up(thread::current());
        }
        loop {
            let mut work = self.lock();
            match work.step(Pace::Patient) {
                Step::Written => {}
                Step::Nothing => {
                    drop(work);
                    thread::park();
                }
                Step::Ended => return work.finish(),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Work<R, C>> {
        // Who panics here ends the load: whatever it has left behind is not looked at.
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Send, C: Clerk<R>> SpareTime for Desk<R, C> {
    fn has_work(&self) -> bool {
        !self.pile.is_empty()
    }

    fn work(&self) -> bool {
        match self.work.try_lock() {
            Ok(mut work) => match work.step(Pace::Quick) {
                Step::Written => true,
                Step::Nothing | Step::Ended => {
                    // What is there is the thread's.
                    self.pile.ring();
                    false
                }
            },
            // The thread is at it, or has panicked, which it says itself.
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => false,
        }
    }
}

impl<R, C: Clerk<R>> Work<R, C> {
    fn step(&mut self, pace: Pace) -> Step {
        let Work::Open(open) = self else {
            return Step::Ended;
        };
        open.step(pace).unwrap_or_else(|error| {
            *self = Work::Over(Err(error));
            Step::Ended
        })
    }

    fn finish(&mut self) -> Result<()> {
        match std::mem::replace(self, Work::Over(Ok(()))) {
            Work::Open(open) => open.clerk.finish(),
            Work::Over(result) => result,
        }
    }
}

impl<R, C: Clerk<R>> Open<R, C> {
    fn step(&mut self, pace: Pace) -> Result<Step> {
        let (mut chunk, from) = match self.chunk.take() {
            Some(begun) => begun,
            None => match self.queue.look_in() {
                LookedIn::Rows(chunk) => (chunk, 0),
                LookedIn::Nothing => return Ok(Step::Nothing),
                LookedIn::Ended => return Ok(Step::Ended),
            },
        };
        let to = match pace {
            Pace::Quick => chunk.len().min(from + STEP_ROWS),
            Pace::Patient => chunk.len(),
        };
        let is_written = self.clerk.write(&mut chunk[from..to], pace)?;
        let now_at = if is_written { to } else { from };
        if now_at < chunk.len() {
            self.chunk = Some((chunk, now_at));
        }
        Ok(match is_written {
            true => Step::Written,
            false => Step::Nothing,
        })
    }
}

/// All desks of a load.
pub(super) struct Desks(pub(super) Vec<Arc<dyn SpareTime>>);

impl SpareTime for Desks {
    fn has_work(&self) -> bool {
        self.0.iter().any(|desk| desk.has_work())
    }

    fn work(&self) -> bool {
        self.0.iter().any(|desk| desk.has_work() && desk.work())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use squall_stations::rows::{Capacity, queue};

    use super::*;

    /// Tells what it writes, and at which pace.
    struct Teller {
        told: mpsc::Sender<(u32, Pace)>,
        is_quick: bool,
        fails_at: Option<u32>,
    }

    impl Clerk<u32> for Teller {
        fn write(&mut self, rows: &mut [u32], pace: Pace) -> Result<bool> {
            if pace == Pace::Quick && !self.is_quick {
                return Ok(false);
            }
            for row in rows.iter() {
                anyhow::ensure!(self.fails_at != Some(*row), "no room for {row}");
                self.told.send((*row, pace))?;
            }
            Ok(true)
        }

        fn finish(self) -> Result<()> {
            Ok(())
        }
    }

    fn teller(is_quick: bool) -> (Teller, mpsc::Receiver<(u32, Pace)>) {
        let (told, heard) = mpsc::channel();
        let teller = Teller {
            told,
            is_quick,
            fails_at: None,
        };
        (teller, heard)
    }

    #[test]
    fn every_row_is_written_once_and_in_order_whoever_does_it() {
        let (teller, heard) = teller(true);
        let (sender, rows) = queue(Capacity::Bounded);
        let desk = Desk::new(rows, teller);
        let tending = desk.clone();
        let thread = thread::spawn(move || tending.tend());
        let mut chunk = Vec::new();
        for n in 0..1_000_000 {
            chunk.push(n);
            if chunk.len() == 500 {
                sender.send(&mut chunk);
                // Sometimes there is time to do all of it, sometimes for a step, and mostly for nothing.
                match n / 500 % 16 {
                    0 => while desk.has_work() && desk.work() {},
                    1..4 => drop(desk.work()),
                    _ => {}
                }
            }
        }
        drop(sender);
        thread.join().expect("it ends").expect("it is written");
        assert!(!desk.has_work());
        drop(desk);
        let heard: Vec<(u32, Pace)> = heard.into_iter().collect();
        assert!(heard.iter().map(|(row, _)| *row).eq(0..1_000_000));
        assert!(heard.iter().any(|(_, pace)| *pace == Pace::Quick));
    }

    #[test]
    fn what_is_not_quick_is_left_to_the_thread_at_once() {
        let (teller, heard) = teller(false);
        let (sender, rows) = queue(Capacity::Bounded);
        let desk = Desk::new(rows, teller);
        let tending = desk.clone();
        let thread = thread::spawn(move || tending.tend());
        sender.send(&mut vec![7]);
        while desk.has_work() {
            assert!(!desk.work());
            thread::yield_now();
        }
        assert_eq!(heard.recv(), Ok((7, Pace::Patient)));
        drop(sender);
        thread.join().expect("it ends").expect("it is written");
    }

    #[test]
    fn an_error_is_told_at_the_end_and_rows_after_it_are_lost() {
        let (mut teller, heard) = teller(true);
        teller.fails_at = Some(3);
        let (sender, rows) = queue(Capacity::Bounded);
        let desk = Desk::new(rows, teller);
        sender.send(&mut vec![1, 2]);
        sender.send(&mut vec![3]);
        assert!(desk.work());
        assert!(!desk.work(), "it has failed");
        for _ in 0..1_000 {
            sender.send(&mut vec![4]);
        }
        drop(sender);
        let error = desk.tend().expect_err("no room");
        assert_eq!(error.to_string(), "no room for 3");
        drop(desk);
        assert_eq!(heard.into_iter().count(), 2);
    }
}

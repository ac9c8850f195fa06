//! Who writes the rows of a load: its clients, in the time that they would sleep through, or a thread when rows pile up.
//!
//! To fall asleep and be woken up costs a client several microseconds, more than to write the rows of the requests that
//! were answered meanwhile; and a thread that writes on a client's processor is interrupted by every answer that comes.
//! So a client that has nothing to do writes a few rows or presses a page of a column, looks for answers, and does a bit
//! more. What takes long, as to hand a row group to the disk does, it leaves to the thread, and so it does with what it
//! has no time for. What is written, and where to, is `tables`' business.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use anyhow::Result;
use squall_stations::rows::{Chunk, LookedIn, Pile, RowReceiver, SpareTime};

/// Rows of a step that writes rows: at most 150,000 instructions (every fourth packs a block of each column), about 10 us.
const STEP_ROWS: usize = 64;

/// How long writing may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Some microseconds: a client does it, between two answers.
    Quick,
    /// As long as it takes.
    Patient,
}

/// What a clerk has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Did {
    /// Written so many rows, from the first on.
    Wrote(usize),
    /// Something that is to be done before more rows can be written.
    Prepared,
    /// Nothing: it takes long.
    Nothing,
}

/// Writes rows of one table.
pub(super) trait Clerk<R>: Send {
    /// Writes `rows`, of which there are some: patiently all, quickly what takes some microseconds.
    fn write(&mut self, rows: &mut [R], pace: Pace) -> Result<Did>;

    /// Whether it ever writes quickly.
    fn can_be_quick(&self) -> bool;

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
    /// Something was done.
    Worked,
    /// There is nothing to do, or not now.
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
            let may_rest = match work.step(Pace::Patient) {
                // A thread that went on would keep the clients from it: it has the lock whenever they look in.
                Step::Worked => self.pile.can_wait() && work.can_be_quick(),
                Step::Nothing => true,
                Step::Ended => return work.finish(),
            };
            if may_rest {
                drop(work);
                thread::park();
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
                Step::Worked => true,
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

    fn presses(&self) -> bool {
        self.pile.presses()
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

    fn can_be_quick(&self) -> bool {
        matches!(self, Work::Open(open) if open.clerk.can_be_quick())
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
        let did = self.clerk.write(&mut chunk[from..to], pace)?;
        let now_at = match did {
            Did::Wrote(rows) => from + rows,
            Did::Prepared | Did::Nothing => from,
        };
        if now_at < chunk.len() {
            self.chunk = Some((chunk, now_at));
        }
        Ok(match did {
            Did::Wrote(_) | Did::Prepared => Step::Worked,
            Did::Nothing => Step::Nothing,
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

    fn presses(&self) -> bool {
        self.0.iter().any(|desk| desk.presses())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use squall_stations::rows::{Bell, Capacity, queue};

    use super::*;

    /// Tells what it writes, and at which pace.
    struct Teller {
        told: mpsc::Sender<(u32, Pace)>,
        is_quick: bool,
        is_prepared: bool,
        fails_at: Option<u32>,
    }

    impl Clerk<u32> for Teller {
        fn write(&mut self, rows: &mut [u32], pace: Pace) -> Result<Did> {
            if pace == Pace::Quick && !self.is_quick {
                return Ok(Did::Nothing);
            }
            // Quickly a part of the rows, after a step for each part.
            self.is_prepared = pace == Pace::Quick && !self.is_prepared;
            if self.is_prepared {
                return Ok(Did::Prepared);
            }
            let count = match pace {
                Pace::Quick => rows.len().min(50),
                Pace::Patient => rows.len(),
            };
            for row in &rows[..count] {
                anyhow::ensure!(self.fails_at != Some(*row), "no room for {row}");
                self.told.send((*row, pace))?;
            }
            Ok(Did::Wrote(count))
        }

        fn can_be_quick(&self) -> bool {
            self.is_quick
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
            is_prepared: false,
            fails_at: None,
        };
        (teller, heard)
    }

    /// Sends 1,000,000 rows, in chunks; `meanwhile` is told how many were sent. Gives at which paces they were written.
    fn send_rows(bell: Bell, meanwhile: impl Fn(&dyn SpareTime, u32)) -> Vec<Pace> {
        let (teller, heard) = teller(true);
        let (sender, rows) = queue(Capacity::Bounded(bell));
        let desk = Desk::new(rows, teller);
        let tending = desk.clone();
        let thread = thread::spawn(move || tending.tend());
        let mut chunk = Vec::new();
        for n in 0..1_000_000 {
            chunk.push(n);
            if chunk.len() == 500 {
                sender.send(&mut chunk);
                meanwhile(&*desk, n / 500);
            }
        }
        drop(sender);
        thread.join().expect("it ends").expect("it is written");
        assert!(!desk.has_work());
        drop(desk);
        let (rows, paces): (Vec<u32>, Vec<Pace>) = heard.into_iter().unzip();
        assert!(rows.into_iter().eq(0..1_000_000));
        paces
    }

    #[test]
    fn every_row_is_written_once_and_in_order_whoever_does_it() {
        for bell in [Bell::Early, Bell::Late] {
            // Sometimes there is time to do all of it, sometimes for a step, and mostly for nothing.
            let paces = send_rows(bell, |desk, chunks| match chunks % 16 {
                0 => while desk.has_work() && desk.work() {},
                1..4 => drop(desk.work()),
                _ => {}
            });
            assert!(paces.contains(&Pace::Quick));
        }
    }

    #[test]
    fn every_row_is_written_by_the_thread_if_nobody_looks_in() {
        for bell in [Bell::Early, Bell::Late] {
            let paces = send_rows(bell, |_, _| {});
            assert!(!paces.contains(&Pace::Quick));
        }
    }

    #[test]
    fn what_is_not_quick_is_left_to_the_thread_at_once() {
        let (teller, heard) = teller(false);
        let (sender, rows) = queue(Capacity::Bounded(Bell::Early));
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
    fn what_piles_up_presses_where_its_thread_has_no_processor() {
        for bell in [Bell::Early, Bell::Late] {
            let (teller, _heard) = teller(true);
            let (sender, rows) = queue(Capacity::Bounded(bell));
            let desk = Desk::new(rows, teller);
            sender.send(&mut vec![1]);
            assert!(desk.has_work() && !desk.presses(), "a little");
            for n in 0..10 {
                sender.send(&mut vec![n]);
            }
            assert_eq!(desk.presses(), bell == Bell::Late);
            while desk.presses() {
                assert!(desk.work());
            }
            assert!(desk.has_work(), "a little is left");
        }
    }

    #[test]
    fn an_error_is_told_at_the_end_and_rows_after_it_are_lost() {
        let (mut teller, heard) = teller(true);
        teller.fails_at = Some(3);
        let (sender, rows) = queue(Capacity::Bounded(Bell::Early));
        let desk = Desk::new(rows, teller);
        sender.send(&mut vec![1, 2]);
        sender.send(&mut vec![3]);
        assert!(desk.work() && desk.work());
        assert!(desk.work() && !desk.work(), "it has failed");
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

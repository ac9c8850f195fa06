//! Writes the rows of a load. Its clients write in time that they would otherwise spend asleep; a thread writes when rows
//! pile up.
//!
//! Falling asleep and waking up costs a client several microseconds, more than writing the rows of the requests that
//! were answered meanwhile. A thread that writes on a client's processor would be interrupted by every response. So
//! an idle client writes a few rows or compresses one page of a column, looks for responses, and then does a bit more.
//! It leaves longer work to the thread, such as flushing a row group to disk, and also the rows that it has no time
//! for. Every few seconds the thread saves what is written, in case the process is killed. `tables` decides what
//! is written, and where.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use anyhow::Result;
use squall_linux::clock;
use squall_record::{RecordError, TableSnapshot};
use squall_stations::rows::{Chunk, RowBacklog, RowPoll, RowReceiver, SpareTime};

use crate::save_pace::SavePace;

/// Rows written per step: at most 150,000 instructions (every fourth step packs a block of each column), about 10 us.
const STEP_ROWS: usize = 64;

/// How long a write may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeBudget {
    /// A few microseconds: done by a client between two responses.
    Brief,
    /// Any length of time: done by the thread.
    Unlimited,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteResult {
    /// Wrote this many rows, starting with the first.
    Wrote(usize),
    /// Did work that is necessary before more rows can be written.
    Prepared,
    /// Did nothing, because it would take too long.
    Nothing,
}

pub(super) trait RowWriter<R>: Send {
    /// Writes `rows`, which is not empty. Writes all of them if `Unlimited`, and what takes a few microseconds if
    /// `Brief`.
    fn write(&mut self, rows: &mut [R], budget: TimeBudget) -> Result<WriteResult>;

    /// Whether this writer can ever write with the budget `Brief`.
    fn can_write_briefly(&self) -> bool;

    /// Makes the rows written so far readable by others, now and if the process is killed. Returns copies of rows that the
    /// caller has to write for that, because writing takes some milliseconds.
    fn save(&mut self) -> Result<Vec<TableSnapshot>>;

    /// Gives up a table whose snapshot could not be written.
    fn give_up(&mut self, table: &Path, error: RecordError) -> Result<()>;

    fn finish(self) -> Result<()>;
}

/// The unwritten rows of a table, and the writer of them. Only one thread writes at a time.
pub(super) struct SharedWriter<R, W> {
    backlog: RowBacklog<R>,
    state: Mutex<WriterState<R, W>>,
}

enum WriterState<R, W> {
    Open(OpenWriter<R, W>),
    /// The table is complete or has failed: rows sent from now on are lost.
    Closed(Result<()>),
}

struct OpenWriter<R, W> {
    queue: RowReceiver<R>,
    /// The chunk being written, and how many of its rows are written.
    chunk: Option<(Chunk<R>, usize)>,
    writer: W,
}

enum Step {
    /// Something was done.
    Worked,
    /// There is nothing to do, or nothing that can be done now.
    Nothing,
    Ended,
}

impl<R: Send + 'static, W: RowWriter<R> + 'static> SharedWriter<R, W> {
    pub(super) fn new(queue: RowReceiver<R>, writer: W) -> Arc<SharedWriter<R, W>> {
        Arc::new(SharedWriter {
            backlog: queue.backlog(),
            state: Mutex::new(WriterState::Open(OpenWriter {
                queue,
                chunk: None,
                writer,
            })),
        })
    }

    /// Writes, on the calling thread, whatever the clients leave unwritten. Returns when all senders are gone and everything
    /// is written.
    pub(super) fn run(&self) -> Result<()> {
        if let WriterState::Open(open) = &*self.lock() {
            open.queue.set_wake_thread(thread::current());
        }
        let mut pace = SavePace::new(clock::now());
        loop {
            let mut state = self.lock();
            let may_rest = match state.step(TimeBudget::Unlimited) {
                // If the thread went on, clients could not help: it would hold the lock whenever they try.
                Step::Worked => self.backlog.can_wait() && state.can_write_briefly(),
                Step::Nothing => true,
                Step::Ended => return state.finish(),
            };
            let now = clock::now();
            let pause = pace.wait(now);
            if pause.is_zero() {
                self.save(state);
                pace.saved(now, clock::now());
                // Rows may have come meanwhile, or saving has failed.
                continue;
            }
            if may_rest {
                drop(state);
                thread::park_timeout(pause.into());
            }
        }
    }

    /// Saves what is written so far. The lock is released before snapshots are written to their files, so that clients may
    /// write meanwhile: this thread yields to all others, so that may take long.
    fn save(&self, mut state: MutexGuard<'_, WriterState<R, W>>) {
        let snapshots = state.save();
        drop(state);
        for snapshot in snapshots {
            let table = snapshot.table().to_owned();
            if let Err(error) = snapshot.write() {
                self.lock().give_up(&table, error);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, WriterState<R, W>> {
        // A panic here ends the load, so the state it leaves behind is never used.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Send, W: RowWriter<R>> SpareTime for SharedWriter<R, W> {
    fn has_work(&self) -> bool {
        !self.backlog.is_empty()
    }

    fn work(&self) -> bool {
        match self.state.try_lock() {
            Ok(mut state) => match state.step(TimeBudget::Brief) {
                Step::Worked => true,
                Step::Nothing | Step::Ended => {
                    // The rest is left to the thread.
                    self.backlog.wake();
                    false
                }
            },
            // The thread is writing, or has panicked, which it reports itself.
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => false,
        }
    }

    fn is_urgent(&self) -> bool {
        self.backlog.is_urgent()
    }
}

impl<R, W: RowWriter<R>> WriterState<R, W> {
    fn step(&mut self, budget: TimeBudget) -> Step {
        let WriterState::Open(open) = self else {
            return Step::Ended;
        };
        open.step(budget).unwrap_or_else(|error| {
            *self = WriterState::Closed(Err(error));
            Step::Ended
        })
    }

    fn can_write_briefly(&self) -> bool {
        matches!(self, WriterState::Open(open) if open.writer.can_write_briefly())
    }

    fn save(&mut self) -> Vec<TableSnapshot> {
        let WriterState::Open(open) = self else {
            return Vec::new();
        };
        open.writer.save().unwrap_or_else(|error| {
            *self = WriterState::Closed(Err(error));
            Vec::new()
        })
    }

    fn give_up(&mut self, table: &Path, error: RecordError) {
        if let WriterState::Open(open) = self
            && let Err(error) = open.writer.give_up(table, error)
        {
            *self = WriterState::Closed(Err(error));
        }
    }

    fn finish(&mut self) -> Result<()> {
        match std::mem::replace(self, WriterState::Closed(Ok(()))) {
            WriterState::Open(open) => open.writer.finish(),
            WriterState::Closed(result) => result,
        }
    }
}

impl<R, W: RowWriter<R>> OpenWriter<R, W> {
    fn step(&mut self, budget: TimeBudget) -> Result<Step> {
        let (mut chunk, from) = match self.chunk.take() {
            Some(started) => started,
            None => match self.queue.poll() {
                RowPoll::Rows(chunk) => (chunk, 0),
                RowPoll::Nothing => return Ok(Step::Nothing),
                RowPoll::Ended => return Ok(Step::Ended),
            },
        };
        let to = match budget {
            TimeBudget::Brief => chunk.len().min(from + STEP_ROWS),
            TimeBudget::Unlimited => chunk.len(),
        };
        let result = self.writer.write(&mut chunk[from..to], budget)?;
        let now_at = match result {
            WriteResult::Wrote(rows) => from + rows,
            WriteResult::Prepared | WriteResult::Nothing => from,
        };
        if now_at < chunk.len() {
            self.chunk = Some((chunk, now_at));
        }
        Ok(match result {
            WriteResult::Wrote(_) | WriteResult::Prepared => Step::Worked,
            WriteResult::Nothing => Step::Nothing,
        })
    }
}

pub(super) struct SharedWriters(pub(super) Vec<Arc<dyn SpareTime>>);

impl SpareTime for SharedWriters {
    fn has_work(&self) -> bool {
        self.0.iter().any(|shared| shared.has_work())
    }

    fn work(&self) -> bool {
        self.0
            .iter()
            .any(|shared| shared.has_work() && shared.work())
    }

    fn is_urgent(&self) -> bool {
        self.0.iter().any(|shared| shared.is_urgent())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use squall_stations::rows::{Capacity, WakePolicy, queue};

    use super::*;

    /// Reports the rows it writes, and with which budget.
    struct RecordingWriter {
        written: mpsc::Sender<(u32, TimeBudget)>,
        can_write_briefly: bool,
        is_prepared: bool,
        fails_at: Option<u32>,
        fails_to_save: bool,
    }

    impl RowWriter<u32> for RecordingWriter {
        fn write(&mut self, rows: &mut [u32], budget: TimeBudget) -> Result<WriteResult> {
            if budget == TimeBudget::Brief && !self.can_write_briefly {
                return Ok(WriteResult::Nothing);
            }
            // With the budget `Brief`, writes part of the rows, after one preparation step per part.
            self.is_prepared = budget == TimeBudget::Brief && !self.is_prepared;
            if self.is_prepared {
                return Ok(WriteResult::Prepared);
            }
            let count = match budget {
                TimeBudget::Brief => rows.len().min(50),
                TimeBudget::Unlimited => rows.len(),
            };
            for row in &rows[..count] {
                anyhow::ensure!(self.fails_at != Some(*row), "no room for {row}");
                self.written.send((*row, budget))?;
            }
            Ok(WriteResult::Wrote(count))
        }

        fn can_write_briefly(&self) -> bool {
            self.can_write_briefly
        }

        fn save(&mut self) -> Result<Vec<TableSnapshot>> {
            anyhow::ensure!(!self.fails_to_save, "no room to save");
            Ok(Vec::new())
        }

        fn give_up(&mut self, _: &Path, error: RecordError) -> Result<()> {
            Err(error.into())
        }

        fn finish(self) -> Result<()> {
            Ok(())
        }
    }

    fn recording_writer(
        can_write_briefly: bool,
    ) -> (RecordingWriter, mpsc::Receiver<(u32, TimeBudget)>) {
        let (written, rows_written) = mpsc::channel();
        let writer = RecordingWriter {
            written,
            can_write_briefly,
            is_prepared: false,
            fails_at: None,
            fails_to_save: false,
        };
        (writer, rows_written)
    }

    /// Sends 1,000,000 rows in chunks and calls `between_chunks` with the number of each chunk. Returns the budget with
    /// which each row was written.
    fn send_rows(
        wake_policy: WakePolicy,
        between_chunks: impl Fn(&dyn SpareTime, u32),
    ) -> Vec<TimeBudget> {
        let (writer, rows_written) = recording_writer(true);
        let (sender, rows) = queue(Capacity::Bounded(wake_policy));
        let shared = SharedWriter::new(rows, writer);
        let background = shared.clone();
        let thread = thread::spawn(move || background.run());
        let mut chunk = Vec::new();
        for n in 0..1_000_000 {
            chunk.push(n);
            if chunk.len() == 500 {
                sender.send(&mut chunk);
                between_chunks(&*shared, n / 500);
            }
        }
        drop(sender);
        thread.join().expect("it ends").expect("it is written");
        assert!(!shared.has_work());
        drop(shared);
        let (rows, budgets): (Vec<u32>, Vec<TimeBudget>) = rows_written.into_iter().unzip();
        assert!(rows.into_iter().eq(0..1_000_000));
        budgets
    }

    #[test]
    fn rows_are_written_once_and_in_order_by_clients_and_thread_together() {
        for wake_policy in [WakePolicy::Early, WakePolicy::Late] {
            // Sometimes there is time for all of the work, sometimes for one step, and mostly for nothing.
            let budgets = send_rows(wake_policy, |shared, chunks| match chunks % 16 {
                0 => while shared.has_work() && shared.work() {},
                1..4 => drop(shared.work()),
                _ => {}
            });
            assert!(budgets.contains(&TimeBudget::Brief));
        }
    }

    #[test]
    fn thread_writes_every_row_if_no_client_helps() {
        for wake_policy in [WakePolicy::Early, WakePolicy::Late] {
            let budgets = send_rows(wake_policy, |_, _| {});
            assert!(!budgets.contains(&TimeBudget::Brief));
        }
    }

    #[test]
    fn client_leaves_rows_to_the_thread_if_the_writer_cannot_write_briefly() {
        let (writer, rows_written) = recording_writer(false);
        let (sender, rows) = queue(Capacity::Bounded(WakePolicy::Early));
        let shared = SharedWriter::new(rows, writer);
        let background = shared.clone();
        let thread = thread::spawn(move || background.run());
        sender.send(&mut vec![7]);
        while shared.has_work() {
            assert!(!shared.work());
            thread::yield_now();
        }
        assert_eq!(rows_written.recv(), Ok((7, TimeBudget::Unlimited)));
        drop(sender);
        thread.join().expect("it ends").expect("it is written");
    }

    #[test]
    fn backlog_is_urgent_only_without_a_spare_processor() {
        for wake_policy in [WakePolicy::Early, WakePolicy::Late] {
            let (writer, _rows_written) = recording_writer(true);
            let (sender, rows) = queue(Capacity::Bounded(wake_policy));
            let shared = SharedWriter::new(rows, writer);
            sender.send(&mut vec![1]);
            assert!(shared.has_work() && !shared.is_urgent(), "a little");
            for n in 0..10 {
                sender.send(&mut vec![n]);
            }
            assert_eq!(shared.is_urgent(), wake_policy == WakePolicy::Late);
            while shared.is_urgent() {
                assert!(shared.work());
            }
            assert!(shared.has_work(), "a little is left");
        }
    }

    #[test]
    fn write_error_is_returned_at_the_end_and_later_rows_are_lost() {
        let (mut writer, rows_written) = recording_writer(true);
        writer.fails_at = Some(3);
        let (sender, rows) = queue(Capacity::Bounded(WakePolicy::Early));
        let shared = SharedWriter::new(rows, writer);
        sender.send(&mut vec![1, 2]);
        sender.send(&mut vec![3]);
        assert!(shared.work() && shared.work());
        assert!(shared.work() && !shared.work(), "it has failed");
        for _ in 0..1_000 {
            sender.send(&mut vec![4]);
        }
        drop(sender);
        let error = shared.run().expect_err("no room");
        assert_eq!(error.to_string(), "no room for 3");
        drop(shared);
        assert_eq!(rows_written.into_iter().count(), 2);
    }

    #[test]
    fn error_while_saving_ends_the_writing_and_is_returned() {
        let (mut writer, rows_written) = recording_writer(true);
        writer.fails_to_save = true;
        let (sender, rows) = queue(Capacity::Bounded(WakePolicy::Early));
        let shared = SharedWriter::new(rows, writer);
        sender.send(&mut vec![1]);
        assert!(shared.work() && shared.work());
        shared.save(shared.lock());
        sender.send(&mut vec![2]);
        assert!(!shared.work(), "it has failed");
        let error = shared.run().expect_err("no room");
        assert_eq!(error.to_string(), "no room to save");
        drop(shared);
        assert_eq!(rows_written.into_iter().count(), 1);
    }
}

//! Rows on their way from a thread that measures to one that writes. Chunks of rows go through a queue, and emptied
//! chunks come back, so that their memory is reused instead of being requested from the kernel every few hundred rows.
//!
//! A queue may be bounded: then a load of any length takes bounded memory, and a writer that falls behind by the whole
//! queue blocks the sender, which shows as schedule lag. A trial's queue is unbounded: it must never wait for a disk.
//!
//! A receiver either blocks for rows, or polls now and then and is woken when chunks pile up. The sending thread itself
//! may poll while it has nothing else to do ([`SpareTime`]).

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TryRecvError, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, Thread};
use std::time::Duration;

/// Approximate number of rows in a chunk.
pub const ROWS_A_CHUNK: usize = 512;

/// Chunks in a bounded queue: at 5,000 requests a second its writer may stall for 13 s.
const CHUNKS_AT_MOST: usize = 128;

/// How long a blocked sender sleeps before it looks for room again: a writer takes some 40 us per chunk.
const ROOM_POLL_INTERVAL: Duration = Duration::from_micros(100);

/// Emptied chunks kept per queue. A sender takes the one that was emptied last, which is likely still in the
/// processor's cache.
const SPARE_CHUNKS: usize = 32;

/// Chunks that may wait for a thread that polls before the background thread is woken: a sixteenth of a bounded queue,
/// so that the rest has room for what arrives while the background thread works.
const CHUNKS_THAT_WAKE: usize = 8;

/// When senders wake the background thread of a queue that is otherwise polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakePolicy {
    /// When a few chunks wait: the thread has a processor to itself, so it helps.
    Early,
    /// When half of a bounded queue waits, and then for one step only: the thread takes the processor from those that
    /// poll, and while it is preempted in a step, others cannot write.
    Late,
}

impl WakePolicy {
    /// The number of waiting chunks at which the thread is woken.
    const fn wakes_at(self) -> usize {
        match self {
            WakePolicy::Early => CHUNKS_THAT_WAKE,
            WakePolicy::Late => CHUNKS_AT_MOST / 2,
        }
    }

    /// Whether the thread, after a step, leaves the rest to the threads that poll.
    const fn may_rest_at(self, waiting: usize) -> bool {
        match self {
            WakePolicy::Early => waiting <= self.wakes_at() / 2,
            // A thread that went on would be preempted halfway by a sender that found room. The sender could then write
            // nothing, would fill the queue again, and so on forever.
            WakePolicy::Late => true,
        }
    }
}

/// Work for time that a thread would otherwise sleep.
pub trait SpareTime: Send + Sync {
    /// Whether there is work, as far as can be seen without a lock.
    fn has_work(&self) -> bool;

    /// Does one step of the work, of some microseconds. Returns whether there was one to do.
    fn work(&self) -> bool;

    /// Whether so much has piled up that it must be worked off now, although something else could be done: without a
    /// spare processor, leaving it to another thread costs more.
    fn is_urgent(&self) -> bool {
        false
    }
}

/// How much a queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// 128 chunks of 512 rows; then the sender waits.
    Bounded(WakePolicy),
    /// No limit.
    Unbounded,
}

/// Creates a queue of rows.
pub fn queue<T>(capacity: Capacity) -> (RowSender<T>, RowReceiver<T>) {
    let (chunks, receiver, wake_policy) = match capacity {
        Capacity::Bounded(wake_policy) => {
            let (sender, receiver) = mpsc::sync_channel(CHUNKS_AT_MOST);
            (Chunks::Bounded(sender), receiver, wake_policy)
        }
        Capacity::Unbounded => {
            let (sender, receiver) = mpsc::channel();
            (Chunks::Unbounded(sender), receiver, WakePolicy::Early)
        }
    };
    let state = Arc::new(QueueState::new(wake_policy));
    let sender = RowSender {
        chunks,
        end: SenderGuard::of(&state),
    };
    (sender, RowReceiver { receiver, state })
}

/// The sending end of a queue; cloned for each thread that sends.
#[derive(Debug)]
pub struct RowSender<T> {
    // Dropped before `end`, which reports that the sender is gone.
    chunks: Chunks<T>,
    end: SenderGuard<T>,
}

#[derive(Debug)]
enum Chunks<T> {
    Bounded(SyncSender<Vec<T>>),
    Unbounded(Sender<Vec<T>>),
}

impl<T> RowSender<T> {
    /// Sends the rows of `chunk` and leaves it empty, with capacity. Rows whose receiver is gone are lost; the thread
    /// that dropped it reports why.
    pub fn send(&self, chunk: &mut Vec<T>) {
        if chunk.is_empty() {
            return;
        }
        let state = &self.end.0;
        let empty = state.take_spare();
        let empty = empty.unwrap_or_else(|| Vec::with_capacity(ROWS_A_CHUNK));
        let full = std::mem::replace(chunk, empty);
        let waiting = state.waiting.fetch_add(1, Ordering::Relaxed);
        if waiting >= state.wake_policy.wakes_at() {
            state.wake();
        }
        match &self.chunks {
            Chunks::Bounded(sender) => state.send_or_wait(sender, full),
            Chunks::Unbounded(sender) => {
                let _ = sender.send(full);
            }
        }
    }
}

impl<T> Clone for RowSender<T> {
    fn clone(&self) -> RowSender<T> {
        let chunks = match &self.chunks {
            Chunks::Bounded(sender) => Chunks::Bounded(sender.clone()),
            Chunks::Unbounded(sender) => Chunks::Unbounded(sender.clone()),
        };
        RowSender {
            chunks,
            end: SenderGuard::of(&self.end.0),
        }
    }
}

/// The receiving end of a queue: returns a chunk at a time, until all senders are gone.
#[derive(Debug)]
pub struct RowReceiver<T> {
    receiver: Receiver<Vec<T>>,
    state: Arc<QueueState<T>>,
}

/// What [`RowReceiver::poll`] finds.
#[derive(Debug)]
pub enum RowPoll<T> {
    /// Rows.
    Rows(Chunk<T>),
    /// Nothing yet.
    Nothing,
    /// All senders are gone, and all rows were taken.
    Ended,
}

impl<T> RowReceiver<T> {
    /// The next chunk, if it is there already.
    pub fn poll(&mut self) -> RowPoll<T> {
        match self.receiver.try_recv() {
            Ok(rows) => RowPoll::Rows(self.chunk(rows)),
            Err(TryRecvError::Empty) => RowPoll::Nothing,
            Err(TryRecvError::Disconnected) => RowPoll::Ended,
        }
    }

    /// From now on unparks this thread when chunks pile up and when a sender is dropped. For a thread that leaves the
    /// polling to others. Call it once.
    pub fn set_wake_thread(&self, thread: Thread) {
        let _ = self.state.thread.set(thread);
    }

    /// A view of whether there are rows, which takes none.
    pub fn backlog(&self) -> RowBacklog<T> {
        RowBacklog(Arc::clone(&self.state))
    }

    fn chunk(&self, rows: Vec<T>) -> Chunk<T> {
        Chunk {
            rows,
            state: Arc::clone(&self.state),
        }
    }
}

impl<T> Iterator for RowReceiver<T> {
    type Item = Chunk<T>;

    fn next(&mut self) -> Option<Chunk<T>> {
        let rows = self.receiver.recv().ok()?;
        Some(self.chunk(rows))
    }
}

/// A chunk of rows, whose memory returns to the senders.
#[derive(Debug)]
pub struct Chunk<T> {
    rows: Vec<T>,
    state: Arc<QueueState<T>>,
}

impl<T> Deref for Chunk<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.rows
    }
}

impl<T> DerefMut for Chunk<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.rows
    }
}

impl<T> Drop for Chunk<T> {
    fn drop(&mut self) {
        self.state.waiting.fetch_sub(1, Ordering::Relaxed);
        let mut rows = std::mem::take(&mut self.rows);
        rows.clear();
        let mut spare = self.state.lock_spare();
        if spare.len() < SPARE_CHUNKS {
            spare.push(rows);
        }
    }
}

/// A view of the rows that wait in a queue.
#[derive(Debug)]
pub struct RowBacklog<T>(Arc<QueueState<T>>);

impl<T> RowBacklog<T> {
    /// Whether no row waits to be written.
    pub fn is_empty(&self) -> bool {
        self.0.waiting.load(Ordering::Relaxed) == 0
    }

    /// Whether the background thread may leave the rest to the threads that poll: there are still senders, which wake it
    /// again if those fall behind.
    pub fn can_wait(&self) -> bool {
        // If the last sender did not know of the background thread yet, it could not wake it. The thread then sees here
        // that the sender is gone.
        fence(Ordering::SeqCst);
        let waiting = self.0.waiting.load(Ordering::Relaxed);
        self.0.senders.load(Ordering::Relaxed) > 0 && self.0.wake_policy.may_rest_at(waiting)
    }

    /// Whether the polling threads must write the waiting chunks immediately, because the background thread cannot keep up.
    pub fn is_urgent(&self) -> bool {
        self.0.wake_policy == WakePolicy::Late
            && self.0.waiting.load(Ordering::Relaxed) >= CHUNKS_THAT_WAKE / 2
    }

    /// Unparks the thread that was registered with [`RowReceiver::set_wake_thread`].
    pub fn wake(&self) {
        self.0.wake();
    }
}

/// Counts a sender in the shared state, for as long as it exists.
#[derive(Debug)]
struct SenderGuard<T>(Arc<QueueState<T>>);

impl<T> SenderGuard<T> {
    fn of(state: &Arc<QueueState<T>>) -> SenderGuard<T> {
        state.senders.fetch_add(1, Ordering::Relaxed);
        SenderGuard(Arc::clone(state))
    }
}

impl<T> Drop for SenderGuard<T> {
    fn drop(&mut self) {
        self.0.senders.fetch_sub(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.0.wake();
    }
}

/// What both ends of a queue share in addition to the channel.
#[derive(Debug)]
struct QueueState<T> {
    /// Emptied chunks.
    spare: Mutex<Vec<Vec<T>>>,
    /// Chunks that were sent and are not emptied yet.
    waiting: AtomicUsize,
    senders: AtomicUsize,
    /// The thread that is woken when chunks pile up, and when that is.
    thread: OnceLock<Thread>,
    wake_policy: WakePolicy,
}

impl<T> QueueState<T> {
    fn new(wake_policy: WakePolicy) -> QueueState<T> {
        QueueState {
            spare: Mutex::default(),
            waiting: AtomicUsize::new(0),
            senders: AtomicUsize::new(0),
            thread: OnceLock::new(),
            wake_policy,
        }
    }

    /// Sleeps while the queue is full, and wakes the thread each time: a thread that does only one step may not have
    /// made room. The channel's own wait begins with 10 to 80 us of spinning, which keeps a lower-priority writer on the
    /// same processor from working.
    fn send_or_wait(&self, sender: &SyncSender<Vec<T>>, mut chunk: Vec<T>) {
        loop {
            match sender.try_send(chunk) {
                Ok(()) | Err(TrySendError::Disconnected(_)) => return,
                Err(TrySendError::Full(back)) => chunk = back,
            }
            self.wake();
            thread::sleep(ROOM_POLL_INTERVAL);
        }
    }

    /// The chunk that was emptied last; `None` if there is no spare chunk or another thread holds the lock. That may be
    /// a background writer, which may not get to release it while others want the processor.
    fn take_spare(&self) -> Option<Vec<T>> {
        match self.spare.try_lock() {
            Ok(mut spare) => spare.pop(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().pop(),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn lock_spare(&self) -> MutexGuard<'_, Vec<Vec<T>>> {
        // A thread that panicked while it held the lock left only complete vectors.
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDED: Capacity = Capacity::Bounded(WakePolicy::Early);

    #[test]
    fn rows_arrive_in_order_and_chunks_are_reused() {
        for capacity in [BOUNDED, Capacity::Unbounded] {
            let (sender, receiver) = queue(capacity);
            let mut chunk = Vec::new();
            let writer = thread::spawn(move || {
                let mut rows = Vec::new();
                for chunk in receiver {
                    rows.extend_from_slice(&chunk);
                }
                rows
            });
            for n in 0..100_000_u32 {
                chunk.push(n);
                if chunk.len() == ROWS_A_CHUNK {
                    sender.send(&mut chunk);
                    assert!(chunk.is_empty() && chunk.capacity() >= ROWS_A_CHUNK);
                }
            }
            sender.send(&mut chunk);
            sender.send(&mut chunk);
            drop(sender);
            let rows = writer.join().expect("it ends");
            assert!(rows.into_iter().eq(0..100_000));
        }
    }

    #[test]
    fn chunk_emptied_last_is_filled_next() {
        let (sender, mut receiver) = queue(Capacity::Unbounded);
        let mut chunk = vec![1];
        let first = chunk.as_ptr();
        sender.send(&mut chunk);
        drop(receiver.next());
        chunk.push(2);
        sender.send(&mut chunk);
        assert_eq!(chunk.as_ptr(), first);
    }

    #[test]
    fn full_bounded_queue_blocks_its_sender() {
        let (sender, mut receiver) = queue(BOUNDED);
        let (progress, sent) = mpsc::channel();
        let waits = thread::spawn(move || {
            for n in 0..CHUNKS_AT_MOST + 1 {
                sender.send(&mut vec![n]);
                progress.send(n).expect("it is listened to");
            }
        });
        for n in 0..CHUNKS_AT_MOST {
            assert_eq!(sent.recv(), Ok(n));
        }
        let said = sent.recv_timeout(Duration::from_millis(20));
        assert_eq!(said, Err(mpsc::RecvTimeoutError::Timeout), "it waits");
        assert_eq!(*receiver.next().expect("a chunk"), [0]);
        assert_eq!(sent.recv(), Ok(CHUNKS_AT_MOST));
        assert_eq!(receiver.count(), CHUNKS_AT_MOST);
        waits.join().expect("it ends");
    }

    #[test]
    fn rows_without_a_receiver_are_lost() {
        let (sender, receiver) = queue(BOUNDED);
        drop(receiver);
        for n in 0..2 * CHUNKS_AT_MOST {
            sender.send(&mut vec![n]);
        }
    }

    #[test]
    fn poll_returns_waiting_rows_and_then_the_end() {
        let (sender, mut receiver) = queue(BOUNDED);
        assert!(matches!(receiver.poll(), RowPoll::Nothing));
        let backlog = receiver.backlog();
        assert!(backlog.is_empty());
        sender.send(&mut vec![1, 2]);
        drop(sender);
        let RowPoll::Rows(rows) = receiver.poll() else {
            panic!("rows were sent");
        };
        assert_eq!(*rows, [1, 2]);
        assert!(!backlog.is_empty(), "they are not written yet");
        drop(rows);
        assert!(backlog.is_empty());
        assert!(matches!(receiver.poll(), RowPoll::Ended));
    }

    #[test]
    fn registered_thread_is_woken_when_chunks_pile_up() {
        for wake_policy in [WakePolicy::Early, WakePolicy::Late] {
            let (sender, mut receiver) = queue(Capacity::Bounded(wake_policy));
            receiver.set_wake_thread(thread::current());
            let is_woken_within = |patience| {
                let before = std::time::Instant::now();
                thread::park_timeout(patience);
                before.elapsed() < patience
            };
            let is_woken = || is_woken_within(Duration::from_secs(20));
            let is_left_alone = || !is_woken_within(Duration::from_millis(200));
            for n in 0..wake_policy.wakes_at() {
                sender.send(&mut vec![n]);
            }
            assert!(is_left_alone(), "few");
            sender.send(&mut vec![0]);
            assert!(is_woken(), "many");
            while let RowPoll::Rows(_) = receiver.poll() {}
            sender.send(&mut vec![0]);
            assert!(is_left_alone(), "few again");
            assert!(receiver.backlog().can_wait(), "there may be more");
            drop(sender);
            assert!(is_woken() && !receiver.backlog().can_wait(), "gone");
        }
    }
}

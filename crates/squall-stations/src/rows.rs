//! Rows on their way from a thread that measures to one that writes: chunks of them through a queue, and the emptied
//! chunks back, so that their memory is used again instead of being asked from the kernel for every few hundred rows.
//!
//! A queue may be bounded: then a load as long as one likes takes bounded memory, and a writer that falls behind by the
//! whole queue holds the sender up, which its schedule lag shows. A trial's queue is not: it must never wait for a disk.
//!
//! Whoever takes rows waits for them, or looks in now and then and is rung up when chunks pile up. The sender itself may
//! be the one who looks in, while it has nothing else to do ([`SpareTime`]).

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TryRecvError, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, Thread};
use std::time::Duration;

/// Rows of a chunk, about.
pub const ROWS_A_CHUNK: usize = 512;

/// Chunks of a bounded queue: at 5,000 requests a second its writer may stand still for 13 s.
const CHUNKS_AT_MOST: usize = 128;

/// How long a sender sleeps before it looks again for room: a writer takes some 40 us for a chunk.
const UNTIL_THERE_IS_ROOM: Duration = Duration::from_micros(100);

/// Emptied chunks that are kept for each queue. A sender takes the one that was emptied last, which is likely still in
/// the processor's cache.
const SPARE_CHUNKS: usize = 32;

/// Chunks that may wait for one who looks in now and then, before a thread is rung up: a sixteenth of a bounded queue, so
/// that the rest is there for what the thread does then.
const CHUNKS_THAT_RING: usize = 8;

/// When the thread of those who look in now and then is rung up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bell {
    /// When some chunks wait: it has a processor of its own, and is of help.
    Early,
    /// When half of what a bounded queue holds waits, and then for one step: it takes the processor of those who look in,
    /// and holds up who wants to write as long as it is interrupted.
    Late,
}

impl Bell {
    /// Chunks that wait when it rings.
    const fn rings_at(self) -> usize {
        match self {
            Bell::Early => CHUNKS_THAT_RING,
            Bell::Late => CHUNKS_AT_MOST / 2,
        }
    }

    /// Whether the thread, once it has done a step, leaves what waits to those who look in.
    const fn rests_at(self, waiting: usize) -> bool {
        match self {
            Bell::Early => waiting <= self.rings_at() / 2,
            // A thread that went on would be interrupted half way by a sender that found room, which could then write
            // nothing, filled the queue again, and so on for good.
            Bell::Late => true,
        }
    }
}

/// Work for the time that a thread would sleep through.
pub trait SpareTime: Send + Sync {
    /// Whether there is any, as far as one can see without a lock.
    fn has_work(&self) -> bool;

    /// Does a step of it, of some microseconds. Gives whether there was one to do.
    fn work(&self) -> bool;

    /// Whether so much has piled up that it is done at once, although something else could be done: where nobody has a
    /// processor besides, to leave it to another thread costs more.
    fn presses(&self) -> bool {
        false
    }
}

/// How much a queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// 128 chunks of 512 rows; then the sender waits.
    Bounded(Bell),
    /// Whatever comes.
    Unbounded,
}

/// A queue of rows.
pub fn queue<T>(capacity: Capacity) -> (RowSender<T>, RowReceiver<T>) {
    let (chunks, receiver, bell) = match capacity {
        Capacity::Bounded(bell) => {
            let (sender, receiver) = mpsc::sync_channel(CHUNKS_AT_MOST);
            (Chunks::Bounded(sender), receiver, bell)
        }
        Capacity::Unbounded => {
            let (sender, receiver) = mpsc::channel();
            (Chunks::Unbounded(sender), receiver, Bell::Early)
        }
    };
    let both = Arc::new(Both::new(bell));
    let sender = RowSender {
        chunks,
        end: SendersEnd::of(&both),
    };
    (sender, RowReceiver { receiver, both })
}

/// Where rows are handed to; cloned for each thread that hands some.
#[derive(Debug)]
pub struct RowSender<T> {
    // Before the end, which tells that it is gone.
    chunks: Chunks<T>,
    end: SendersEnd<T>,
}

#[derive(Debug)]
enum Chunks<T> {
    Bounded(SyncSender<Vec<T>>),
    Unbounded(Sender<Vec<T>>),
}

impl<T> RowSender<T> {
    /// Hands on the rows of `chunk` and leaves it empty, with room. Rows whose receiver is gone are lost: whoever dropped
    /// it says why.
    pub fn send(&self, chunk: &mut Vec<T>) {
        if chunk.is_empty() {
            return;
        }
        let both = &self.end.0;
        let empty = both.take_spare();
        let empty = empty.unwrap_or_else(|| Vec::with_capacity(ROWS_A_CHUNK));
        let full = std::mem::replace(chunk, empty);
        let waiting = both.waiting.fetch_add(1, Ordering::Relaxed);
        if waiting >= both.bell.rings_at() {
            both.ring();
        }
        match &self.chunks {
            Chunks::Bounded(sender) => both.send_when_there_is_room(sender, full),
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
            end: SendersEnd::of(&self.end.0),
        }
    }
}

/// Where rows come out, a chunk at a time, until all senders are gone.
#[derive(Debug)]
pub struct RowReceiver<T> {
    receiver: Receiver<Vec<T>>,
    both: Arc<Both<T>>,
}

/// What one finds who looks in.
#[derive(Debug)]
pub enum LookedIn<T> {
    /// Rows.
    Rows(Chunk<T>),
    /// Nothing yet.
    Nothing,
    /// All senders are gone, and all rows were taken.
    Ended,
}

impl<T> RowReceiver<T> {
    /// The next chunk, if it is there already.
    pub fn look_in(&mut self) -> LookedIn<T> {
        match self.receiver.try_recv() {
            Ok(rows) => LookedIn::Rows(self.chunk(rows)),
            Err(TryRecvError::Empty) => LookedIn::Nothing,
            Err(TryRecvError::Disconnected) => LookedIn::Ended,
        }
    }

    /// From now on unparks this thread when chunks pile up and when a sender is gone: for whom there are others who look
    /// in. To be said once.
    pub fn ring_up(&self, thread: Thread) {
        let _ = self.both.thread.set(thread);
    }

    /// Says whether there are rows, without taking any.
    pub fn pile(&self) -> Pile<T> {
        Pile(Arc::clone(&self.both))
    }

    fn chunk(&self, rows: Vec<T>) -> Chunk<T> {
        Chunk {
            rows,
            both: Arc::clone(&self.both),
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

/// Some rows. Their memory goes back to the senders.
#[derive(Debug)]
pub struct Chunk<T> {
    rows: Vec<T>,
    both: Arc<Both<T>>,
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
        self.both.waiting.fetch_sub(1, Ordering::Relaxed);
        let mut rows = std::mem::take(&mut self.rows);
        rows.clear();
        let mut spare = self.both.lock_spare();
        if spare.len() < SPARE_CHUNKS {
            spare.push(rows);
        }
    }
}

/// What waits in a queue, for those who only look.
#[derive(Debug)]
pub struct Pile<T>(Arc<Both<T>>);

impl<T> Pile<T> {
    /// Whether no row waits to be written.
    pub fn is_empty(&self) -> bool {
        self.0.waiting.load(Ordering::Relaxed) == 0
    }

    /// Whether the thread that is rung up may leave the rest to those who look in now and then: there are senders, which
    /// ring if they do not.
    pub fn can_wait(&self) -> bool {
        // Whoever was not rung up by the last sender, because it did not know of the thread yet, sees that it is gone.
        fence(Ordering::SeqCst);
        let waiting = self.0.waiting.load(Ordering::Relaxed);
        self.0.senders.load(Ordering::Relaxed) > 0 && self.0.bell.rests_at(waiting)
    }

    /// Whether so much waits that those who look in do it at once, since the thread is of no help.
    pub fn presses(&self) -> bool {
        self.0.bell == Bell::Late && self.0.waiting.load(Ordering::Relaxed) >= CHUNKS_THAT_RING / 2
    }

    /// Unparks the thread that is to be rung up.
    pub fn ring(&self) {
        self.0.ring();
    }
}

/// The senders' part of what both ends share.
#[derive(Debug)]
struct SendersEnd<T>(Arc<Both<T>>);

impl<T> SendersEnd<T> {
    fn of(both: &Arc<Both<T>>) -> SendersEnd<T> {
        both.senders.fetch_add(1, Ordering::Relaxed);
        SendersEnd(Arc::clone(both))
    }
}

impl<T> Drop for SendersEnd<T> {
    fn drop(&mut self) {
        self.0.senders.fetch_sub(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.0.ring();
    }
}

/// What both ends of a queue share besides it.
#[derive(Debug)]
struct Both<T> {
    /// Emptied chunks.
    spare: Mutex<Vec<Vec<T>>>,
    /// Chunks that were sent and are not empty again.
    waiting: AtomicUsize,
    senders: AtomicUsize,
    /// Who is rung up when they pile up, and when that is.
    thread: OnceLock<Thread>,
    bell: Bell,
}

impl<T> Both<T> {
    fn new(bell: Bell) -> Both<T> {
        Both {
            spare: Mutex::default(),
            waiting: AtomicUsize::new(0),
            senders: AtomicUsize::new(0),
            thread: OnceLock::new(),
            bell,
        }
    }

    /// Sleeps while there is none, and rings each time: a thread that does a step only may have made none. The channel's own
    /// waiting begins by watching it, 10 to 80 us long: on the processor of a writer that gives way, nothing gets done
    /// meanwhile.
    fn send_when_there_is_room(&self, sender: &SyncSender<Vec<T>>, mut chunk: Vec<T>) {
        loop {
            match sender.try_send(chunk) {
                Ok(()) | Err(TrySendError::Disconnected(_)) => return,
                Err(TrySendError::Full(back)) => chunk = back,
            }
            self.ring();
            thread::sleep(UNTIL_THERE_IS_ROOM);
        }
    }

    /// The chunk that was emptied last; `None` if there is none, or another thread is just looking: that may be a writer in
    /// the background, which may not get to the end of it as long as others want the processor.
    fn take_spare(&self) -> Option<Vec<T>> {
        match self.spare.try_lock() {
            Ok(mut spare) => spare.pop(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().pop(),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn lock_spare(&self) -> MutexGuard<'_, Vec<Vec<T>>> {
        // Whoever panicked while it held the lock left whole vectors.
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDED: Capacity = Capacity::Bounded(Bell::Early);

    #[test]
    fn rows_come_out_in_order_and_chunks_go_back() {
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
    fn the_chunk_emptied_last_is_the_next_to_be_filled() {
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
    fn a_bounded_queue_holds_its_sender_up() {
        let (sender, mut receiver) = queue(BOUNDED);
        let (told, sent) = mpsc::channel();
        let waits = thread::spawn(move || {
            for n in 0..CHUNKS_AT_MOST + 1 {
                sender.send(&mut vec![n]);
                told.send(n).expect("it is listened to");
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
    fn who_looks_in_finds_what_is_there() {
        let (sender, mut receiver) = queue(BOUNDED);
        assert!(matches!(receiver.look_in(), LookedIn::Nothing));
        let pile = receiver.pile();
        assert!(pile.is_empty());
        sender.send(&mut vec![1, 2]);
        drop(sender);
        let LookedIn::Rows(rows) = receiver.look_in() else {
            panic!("rows were sent");
        };
        assert_eq!(*rows, [1, 2]);
        assert!(!pile.is_empty(), "they are not written yet");
        drop(rows);
        assert!(pile.is_empty());
        assert!(matches!(receiver.look_in(), LookedIn::Ended));
    }

    #[test]
    fn a_thread_is_rung_up_when_chunks_pile_up() {
        for bell in [Bell::Early, Bell::Late] {
            let (sender, mut receiver) = queue(Capacity::Bounded(bell));
            receiver.ring_up(thread::current());
            let is_rung = || {
                let before = std::time::Instant::now();
                thread::park_timeout(Duration::from_millis(200));
                before.elapsed() < Duration::from_millis(200)
            };
            for n in 0..bell.rings_at() {
                sender.send(&mut vec![n]);
            }
            assert!(!is_rung(), "few");
            sender.send(&mut vec![0]);
            assert!(is_rung(), "many");
            while let LookedIn::Rows(_) = receiver.look_in() {}
            sender.send(&mut vec![0]);
            assert!(!is_rung(), "few again");
            assert!(receiver.pile().can_wait(), "there may be more");
            drop(sender);
            assert!(is_rung() && !receiver.pile().can_wait(), "gone");
        }
    }
}

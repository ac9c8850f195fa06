//! Rows on their way from a thread that measures to one that writes: chunks of them through a queue, and the emptied
//! chunks back, so that their memory is used again instead of being asked from the kernel for every few hundred rows.
//!
//! A queue may be bounded: then a load as long as one likes takes bounded memory, and a writer that falls behind by the
//! whole queue holds the sender up, which its schedule lag shows. A trial's queue is not: it must never wait for a disk.

use std::ops::{Deref, DerefMut};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// Rows of a chunk, about.
pub const ROWS_A_CHUNK: usize = 512;

/// Chunks of a bounded queue: at 5,000 requests a second its writer may stand still for 13 s.
const CHUNKS_AT_MOST: usize = 128;

/// Emptied chunks that are kept for each queue. A sender takes the one that was emptied last, which is likely still in
/// the processor's cache.
const SPARE_CHUNKS: usize = 32;

/// How much a queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// 128 chunks of 512 rows; then the sender waits.
    Bounded,
    /// Whatever comes.
    Unbounded,
}

/// A queue of rows.
pub fn queue<T>(capacity: Capacity) -> (RowSender<T>, RowReceiver<T>) {
    let (chunks, receiver) = match capacity {
        Capacity::Bounded => {
            let (sender, receiver) = mpsc::sync_channel(CHUNKS_AT_MOST);
            (Chunks::Bounded(sender), receiver)
        }
        Capacity::Unbounded => {
            let (sender, receiver) = mpsc::channel();
            (Chunks::Unbounded(sender), receiver)
        }
    };
    let spare = Spare::default();
    let sender = RowSender {
        chunks,
        spare: spare.clone(),
    };
    (sender, RowReceiver { receiver, spare })
}

/// Where rows are handed to; cloned for each thread that hands some.
#[derive(Debug)]
pub struct RowSender<T> {
    chunks: Chunks<T>,
    spare: Spare<T>,
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
        let empty = self.spare.take();
        let empty = empty.unwrap_or_else(|| Vec::with_capacity(ROWS_A_CHUNK));
        let full = std::mem::replace(chunk, empty);
        let _ = match &self.chunks {
            Chunks::Bounded(sender) => sender.send(full),
            Chunks::Unbounded(sender) => sender.send(full),
        };
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
            spare: self.spare.clone(),
        }
    }
}

/// Where rows come out, a chunk at a time, until all senders are gone.
#[derive(Debug)]
pub struct RowReceiver<T> {
    receiver: Receiver<Vec<T>>,
    spare: Spare<T>,
}

impl<T> Iterator for RowReceiver<T> {
    type Item = Chunk<T>;

    fn next(&mut self) -> Option<Chunk<T>> {
        let rows = self.receiver.recv().ok()?;
        Some(Chunk {
            rows,
            spare: self.spare.clone(),
        })
    }
}

/// Some rows. Their memory goes back to the senders.
#[derive(Debug)]
pub struct Chunk<T> {
    rows: Vec<T>,
    spare: Spare<T>,
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
        let mut rows = std::mem::take(&mut self.rows);
        rows.clear();
        let mut spare = self.spare.lock();
        if spare.len() < SPARE_CHUNKS {
            spare.push(rows);
        }
    }
}

/// Emptied chunks.
#[derive(Debug)]
struct Spare<T>(Arc<Mutex<Vec<Vec<T>>>>);

impl<T> Spare<T> {
    /// The one that was emptied last; `None` if there is none, or another thread is just looking: that may be a writer in
    /// the background, which may not get to the end of it as long as others want the processor.
    fn take(&self) -> Option<Vec<T>> {
        match self.0.try_lock() {
            Ok(mut spare) => spare.pop(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().pop(),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<T>>> {
        // Whoever panicked while it held the lock left whole vectors.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Spare<T> {
    fn default() -> Spare<T> {
        Spare(Arc::default())
    }
}

impl<T> Clone for Spare<T> {
    fn clone(&self) -> Spare<T> {
        Spare(Arc::clone(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn rows_come_out_in_order_and_chunks_go_back() {
        for capacity in [Capacity::Bounded, Capacity::Unbounded] {
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
        let (sender, mut receiver) = queue(Capacity::Bounded);
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
        let (sender, receiver) = queue(Capacity::Bounded);
        drop(receiver);
        for n in 0..2 * CHUNKS_AT_MOST {
            sender.send(&mut vec![n]);
        }
    }
}

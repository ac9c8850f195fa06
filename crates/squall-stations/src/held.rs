//! A batch of QUIC datagrams between the engine that made it and the socket that sends it.
//!
//! Engines pace: a batch may be meant for later. It waits along with the marks of its bytes, and its connection is not
//! asked for more until it has been sent. On a socket with several connections, each may have a batch that waits
//! (`DelayedBatches`).

use std::collections::BTreeMap;
use std::io;

use squall_base::record::{FrameFacts, Way};
use squall_base::{Duration, Time};
use squall_http::h3::Batch;
use squall_http::{Inbox, InboxOptions};
use squall_linux::udp::{self, UdpSocket};

/// How long to wait before trying a full socket again. QUIC sockets are not watched for writability, because the kernel
/// would report every datagram that leaves.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(1);

/// How many empty batches are kept for reuse. Many connections may have one waiting at the same time, each of up to
/// 64 KiB.
const MAX_SPARE: usize = 16;

/// A batch, or an empty place for one.
pub(crate) struct PendingBatch<E> {
    batch: Batch,
    marks: Inbox<E>,
    /// When the batch may be sent; `None` if there is no batch.
    release: Option<Time>,
    /// How many bytes of the batch have been sent.
    sent: usize,
}

impl<E> PendingBatch<E> {
    pub(crate) fn new(wants: InboxOptions) -> PendingBatch<E> {
        PendingBatch {
            batch: Batch::new(),
            marks: Inbox::new(wants),
            release: None,
            sent: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.release.is_none()
    }

    /// When the batch may be sent.
    pub(crate) fn release(&self) -> Option<Time> {
        self.release
    }

    /// The batch, for the engine to fill. Report the result to [`PendingBatch::filled`].
    pub(crate) fn fill(&mut self) -> (&mut Batch, &mut Inbox<E>) {
        (&mut self.batch, &mut self.marks)
    }

    /// Notes that the engine was asked at `now`, and whether it has filled the batch.
    pub(crate) fn filled(&mut self, is_filled: bool, now: Time) {
        self.release = is_filled.then(|| now + self.batch.delay());
        self.sent = 0;
    }

    /// Sends the batch if it is due; true once all of it has been sent.
    pub(crate) fn send(&mut self, socket: &UdpSocket, now: Time) -> io::Result<bool> {
        if self.release.is_none_or(|release| release > now) {
            return Ok(false);
        }
        let bytes = self.batch.bytes();
        while self.sent < bytes.len() {
            let batch = udp::Batch {
                to: self.batch.to(),
                contents: &bytes[self.sent..],
                segment_bytes: Some(self.batch.segment_bytes()),
            };
            match socket.send(&batch) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.release = Some(now + TRY_AGAIN_AFTER);
                    return Ok(false);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.release = None;
                    return Err(error);
                }
            }
        }
        self.release = None;
        Ok(true)
    }

    /// Moves to `inbox` what the engine received while it was asked for the batch: only events about sent bytes wait for
    /// the batch to leave.
    pub(crate) fn take_received(&mut self, is_sent: impl Fn(&E) -> bool, inbox: &mut Inbox<E>) {
        let events = self.marks.events.extract_if(.., |event| !is_sent(event));
        inbox.events.extend(events);
        inbox.bodies.append(&mut self.marks.bodies);
        inbox.trailers.append(&mut self.marks.trailers);
        let received = |frame: &mut FrameFacts| frame.way == Way::Received;
        inbox
            .frames
            .extend(self.marks.frames.extract_if(.., received));
    }

    /// The marks of what has been sent.
    pub(crate) fn marks(&mut self) -> &mut Inbox<E> {
        &mut self.marks
    }
}

/// Batches that are not due yet, by due time; `S` identifies the connection of each.
pub(crate) struct DelayedBatches<S, E> {
    waiting: BTreeMap<(Time, u64), (S, PendingBatch<E>)>,
    /// How many batches there have been: of batches that are due at the same time, the first to arrive leaves first.
    count: u64,
    /// Empty batches whose memory is reused.
    spare: Vec<PendingBatch<E>>,
}

impl<S, E> DelayedBatches<S, E> {
    pub(crate) fn new() -> DelayedBatches<S, E> {
        DelayedBatches {
            waiting: BTreeMap::new(),
            count: 0,
            spare: Vec::new(),
        }
    }

    /// When the first of the batches may be sent.
    pub(crate) fn release(&self) -> Option<Time> {
        self.waiting.keys().next().map(|(release, _)| *release)
    }

    /// Takes the batch in `pending` if it is due later than `now`, and leaves `pending` empty.
    pub(crate) fn defer(&mut self, owner: S, pending: &mut PendingBatch<E>, now: Time) -> bool {
        let Some(release) = pending.release.filter(|release| *release > now) else {
            return false;
        };
        let wants = pending.marks.wants();
        let empty = self.spare.pop().unwrap_or_else(|| PendingBatch::new(wants));
        let filled = std::mem::replace(pending, empty);
        self.waiting.insert((release, self.count), (owner, filled));
        self.count += 1;
        true
    }

    /// Moves the first batch that is due into `pending`, which must be empty. Returns which connection's batch it is.
    pub(crate) fn take_due(&mut self, pending: &mut PendingBatch<E>, now: Time) -> Option<S> {
        let first = self.waiting.first_entry()?;
        if first.key().0 > now {
            return None;
        }
        let (owner, filled) = first.remove();
        let empty = std::mem::replace(pending, filled);
        if self.spare.len() < MAX_SPARE {
            self.spare.push(empty);
        }
        Some(owner)
    }
}

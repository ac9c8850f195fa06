//! A batch of QUIC's datagrams between the engine that made it and the socket that takes it.
//!
//! Engines pace: a batch may be for later. It waits, with the marks of the bytes that are in it, and nothing more is asked
//! of its connection until it is gone. Of a socket with several connections each may have one that waits (`Later`).

use std::collections::BTreeMap;
use std::io;

use squall_base::record::{FrameFacts, Way};
use squall_base::{Duration, Time};
use squall_http::h3::Batch;
use squall_http::{Inbox, Wants};
use squall_linux::udp::{self, UdpSocket};

/// A socket that takes nothing now is tried again after this: sockets of QUIC are not watched for room, because the kernel
/// would tell of each datagram that has left.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(1);

/// A batch, or none.
pub(crate) struct Held<E> {
    batch: Batch,
    marks: Inbox<E>,
    /// When it may leave; `None`: there is none.
    release: Option<Time>,
    /// How many of its bytes have left.
    sent: usize,
}

impl<E> Held<E> {
    pub(crate) fn new(wants: Wants) -> Held<E> {
        Held {
            batch: Batch::new(),
            marks: Inbox::new(wants),
            release: None,
            sent: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.release.is_none()
    }

    /// When it may leave.
    pub(crate) fn release(&self) -> Option<Time> {
        self.release
    }

    /// For the engine to fill. Say then whether it has.
    pub(crate) fn fill(&mut self) -> (&mut Batch, &mut Inbox<E>) {
        (&mut self.batch, &mut self.marks)
    }

    /// The engine was asked at `now`, and has filled it or has nothing.
    pub(crate) fn filled(&mut self, is_filled: bool, now: Time) {
        self.release = is_filled.then(|| now + self.batch.delay());
        self.sent = 0;
    }

    /// Sends it if its time has come; true once all of it has left.
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

    /// Moves to `news` what the engine has heard while it was asked: only what was sent waits for the batch to leave.
    pub(crate) fn take_news(&mut self, is_sent: impl Fn(&E) -> bool, news: &mut Inbox<E>) {
        let heard = self.marks.events.extract_if(.., |event| !is_sent(event));
        news.events.extend(heard);
        news.bodies.append(&mut self.marks.bodies);
        news.trailers.append(&mut self.marks.trailers);
        let received = |frame: &mut FrameFacts| frame.way == Way::Received;
        news.frames
            .extend(self.marks.frames.extract_if(.., received));
    }

    /// The marks of what has left.
    pub(crate) fn marks(&mut self) -> &mut Inbox<E> {
        &mut self.marks
    }
}

/// Batches whose time has not come, by that time; `S` says whose each is.
pub(crate) struct Later<S, E> {
    waiting: BTreeMap<(Time, u64), (S, Held<E>)>,
    /// How many there have been: of those of one time the first that came leaves first.
    count: u64,
    /// Empty ones, of which the memory is used again.
    spare: Vec<Held<E>>,
}

impl<S, E> Later<S, E> {
    pub(crate) fn new() -> Later<S, E> {
        Later {
            waiting: BTreeMap::new(),
            count: 0,
            spare: Vec::new(),
        }
    }

    /// When the first of them may leave.
    pub(crate) fn release(&self) -> Option<Time> {
        self.waiting.keys().next().map(|(release, _)| *release)
    }

    /// Takes what `held` holds, if that is for later than `now`, and leaves it empty.
    pub(crate) fn take(&mut self, whose: S, held: &mut Held<E>, now: Time) -> bool {
        let Some(release) = held.release.filter(|release| *release > now) else {
            return false;
        };
        let wants = held.marks.wants();
        let empty = self.spare.pop().unwrap_or_else(|| Held::new(wants));
        let filled = std::mem::replace(held, empty);
        self.waiting.insert((release, self.count), (whose, filled));
        self.count += 1;
        true
    }

    /// Puts the first batch whose time has come into `held`, which is empty; says whose it is.
    pub(crate) fn give(&mut self, held: &mut Held<E>, now: Time) -> Option<S> {
        let first = self.waiting.first_entry()?;
        if first.key().0 > now {
            return None;
        }
        let (whose, filled) = first.remove();
        self.spare.push(std::mem::replace(held, filled));
        Some(whose)
    }
}

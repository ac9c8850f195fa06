//! Fills batches with quiche's packets: which ones leave together, and when.
//!
//! What streams have to send was passed to quiche before (`Connection::feed`); `batch` holds the bytes.

use std::time::{Duration, Instant};

use super::{CarriedPacket, Connection, Datagrams, Side};
use crate::h3::batch::Batch;
use crate::h3::pacer::CongestionState;
use crate::h3::unvalidated::UnvalidatedAddress;

/// Release times that differ by less count as equal: quiche's own threshold (`ReleaseDecision::EQUAL_THRESHOLD`).
const SAME_RELEASE: Duration = Duration::from_micros(50);

impl Connection {
    /// Adds packets to a batch until they differ in size or in release time. Returns the release time.
    pub(super) fn fill<S: Side>(
        &mut self,
        now: Instant,
        batch: &mut Batch,
        side: &mut S,
    ) -> Option<Instant> {
        let mut release = None;
        if let Some(carried) = self.carried.take() {
            release = (carried.release).filter(|at| *at > now && self.conn.local_error().is_none());
            batch.hold(&carried.bytes, carried.info.from, carried.info.to);
            self.pass_on_frames(carried.frames, side);
            self.pass_on_marks(carried.marks, side);
        }
        let congestion = self.congestion_state();
        let is_closing = self.conn.local_error().is_some();
        loop {
            let next = if is_closing {
                None
            } else {
                self.next_release(now, congestion)
            };
            if batch.is_empty() {
                release = next;
            } else if next > release.map(|at| at + SAME_RELEASE) || self.datagrams == Datagrams::One
            {
                break;
            }
            let largest = self.conn.max_send_udp_payload_size();
            let most = match batch.segment_bytes() {
                0 => largest,
                segment => segment,
            };
            let is_first = batch.is_empty();
            let addresses = (batch.from(), batch.to());
            let Some(room) = batch.room(largest) else {
                break;
            };
            self.emissions.clear();
            let Some((len, info)) = self.send_one(room) else {
                break;
            };
            // quiche sends to a second address while it validates that one.
            let is_elsewhere = !is_first && (info.from, info.to) != addresses;
            if len > most || is_elsewhere {
                self.carried = Some(CarriedPacket {
                    bytes: room[..len].to_vec(),
                    info,
                    release: next,
                    frames: self.take_logged(),
                    marks: self.emissions.take(),
                });
                break;
            }
            batch.add(len, info.from, info.to);
            let (frames, marks) = (self.take_logged(), self.emissions.take());
            self.pass_on_frames(frames, side);
            self.pass_on_marks(marks, side);
        }
        release
    }

    /// Writes the next datagram to `room`. Its length is limited while the peer's address is not validated.
    fn send_one(&mut self, room: &mut [u8]) -> Option<(usize, quiche::SendInfo)> {
        let allowed = (self.unvalidated.as_ref()).map_or(usize::MAX, UnvalidatedAddress::room);
        let room_bytes = room.len().min(allowed);
        // An error means that there is nothing to send, or nothing that fits.
        let (len, info) = self.conn.send(&mut room[..room_bytes]).ok()?;
        if let Some(address) = &mut self.unvalidated {
            address.send(len);
        }
        if let Some(pacer) = &mut self.pacer {
            pacer.sent(len as u64);
        }
        Some((len, info))
    }

    /// The input of our own pacer; `None` without one and before the round trip is known.
    fn congestion_state(&self) -> Option<CongestionState> {
        self.pacer.as_ref()?;
        let path = self.conn.path_stats().find(|path| path.active)?;
        path.min_rtt.map(|_| CongestionState {
            cwnd_bytes: path.cwnd as u64,
            rtt: path.rtt,
        })
    }

    /// When the next packet should be sent, according to our own pacer or quiche's, if that is later than now.
    fn next_release(
        &mut self,
        now: Instant,
        congestion: Option<CongestionState>,
    ) -> Option<Instant> {
        if let (Some(pacer), Some(congestion)) = (&mut self.pacer, congestion) {
            let packet_bytes = self.conn.max_send_udp_payload_size() as u64;
            return pacer.next(now, packet_bytes, congestion);
        }
        self.conn
            .get_next_release_time()
            .filter(|_| self.conn.pacing_enabled())
            .and_then(|release| release.time(now))
    }
}

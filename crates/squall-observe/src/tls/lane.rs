//! One direction of TLS: gathers records and handshake messages, and knows which keys hold.

use std::collections::VecDeque;
use std::ops::Range;

use squall_base::Time;
use squall_base::record::Way;

use super::cipher::Cipher;
use crate::connection_record::Opaque;
use crate::trail::Carrier;

/// A record's header: type, version, length.
const HEADER_BYTES: usize = 5;

/// The longest payload of any version (RFC 5246, section 6.2.3).
const MAX_PAYLOAD_BYTES: usize = 16_384 + 2_048;

/// The longest handshake message: chains of certificates have some 10 KB.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// Which keys hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Epoch {
    /// None.
    #[default]
    Clear,
    /// The client's early data may follow, if the server says that it takes it.
    Undecided,
    /// Those of early data.
    Early,
    /// Those of the handshake.
    Handshake,
    /// Those of the application's data.
    Application,
}

/// A whole record.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) header: [u8; HEADER_BYTES],
    pub(super) payload: Vec<u8>,
    pub(super) wire: Range<u64>,
    /// How many pieces of either direction came before its last.
    pub(super) order: u64,
    pub(super) first: Time,
    pub(super) last: Time,
}

/// A direction.
#[derive(Default)]
pub(super) struct Lane {
    /// The record that is arriving, from its header, where it begins, and when its first byte was there.
    gathered: Vec<u8>,
    start: u64,
    first: Time,
    /// Whole records that wait.
    pub(super) records: VecDeque<Record>,
    /// Handshake messages that are not complete.
    pub(super) messages: Vec<u8>,
    pub(super) epoch: Epoch,
    /// The keys of the epoch, once one was needed.
    pub(super) cipher: Option<Cipher>,
    /// Records with application data so far.
    pub(super) data_records: u64,
    /// What does not fit the keys is early data that was not taken, until something fits.
    pub(super) skips_early: bool,
    /// TLS 1.2: its Finished has passed.
    pub(super) has_finished: bool,
}

impl Lane {
    /// Other keys hold from now on.
    pub(super) fn enter(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        self.cipher = None;
    }

    /// Takes bytes up to the end of the record that they are in: how many; `None` if it is no record.
    pub(super) fn gather(
        &mut self,
        bytes: &[u8],
        way: Way,
        carrier: &Carrier,
        order: u64,
    ) -> Option<usize> {
        if self.gathered.is_empty() {
            self.first = carrier.first;
        }
        let mut used = 0;
        let take = |gathered: &mut Vec<u8>, until: usize, used: &mut usize| {
            let missing = until
                .saturating_sub(gathered.len())
                .min(bytes.len() - *used);
            gathered.extend_from_slice(&bytes[*used..*used + missing]);
            *used += missing;
        };
        take(&mut self.gathered, HEADER_BYTES, &mut used);
        let Some(header) = self.gathered.first_chunk::<HEADER_BYTES>().copied() else {
            return Some(used);
        };
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if header[1] != 3 || length > MAX_PAYLOAD_BYTES {
            return None;
        }
        let end = HEADER_BYTES + length;
        take(&mut self.gathered, end, &mut used);
        if self.gathered.len() == end {
            let wire = self.start..self.start + end as u64;
            self.start = wire.end;
            let payload = self.gathered[HEADER_BYTES..].to_vec();
            self.gathered.clear();
            // Whoever reads has nothing of a record before all of it.
            let first = if way == Way::Sent {
                self.first
            } else {
                carrier.last
            };
            self.records.push_back(Record {
                header,
                payload,
                wire,
                order,
                first,
                last: carrier.last,
            });
        }
        Some(used)
    }

    /// Bytes of records that wait.
    pub(super) fn held_bytes(&self) -> usize {
        self.records
            .iter()
            .map(|record| HEADER_BYTES + record.payload.len())
            .sum()
    }

    /// The next handshake message that is complete: its type and body.
    pub(super) fn next_message(&mut self) -> Result<Option<(u8, Vec<u8>)>, Opaque> {
        let Some([kind, length @ ..]) = self.messages.first_chunk::<4>() else {
            return Ok(None);
        };
        let kind = *kind;
        let length = u32::from_be_bytes([0, length[0], length[1], length[2]]) as usize;
        if length > MAX_MESSAGE_BYTES {
            return Err(Opaque::Unclear(
                "a message of the TLS handshake is too long".to_owned(),
            ));
        }
        if self.messages.len() < 4 + length {
            return Ok(None);
        }
        let rest = self.messages.split_off(4 + length);
        let mut message = std::mem::replace(&mut self.messages, rest);
        message.drain(..4);
        Ok(Some((kind, message)))
    }
}

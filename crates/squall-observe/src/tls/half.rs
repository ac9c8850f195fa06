//! One direction of TLS: assembles records and handshake messages, and tracks which keys apply.
//!
//! It decrypts nothing: `cipher` does, driven by the parent module.

use std::collections::VecDeque;
use std::ops::Range;

use squall_base::Time;
use squall_base::record::Way;

use super::cipher::Cipher;
use crate::connection_record::OpaqueReason;
use crate::trail::Carrier;

/// A record's header: type, version, length.
const HEADER_BYTES: usize = 5;

/// The longest payload in any TLS version (RFC 5246, section 6.2.3).
const MAX_PAYLOAD_BYTES: usize = 16_384 + 2_048;

/// The longest handshake message accepted; certificate chains take some 10 KB.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// Which keys apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Epoch {
    /// None: cleartext.
    #[default]
    Clear,
    /// The client may send early data, but the server's decision is not known yet.
    Undecided,
    /// Early data.
    Early,
    /// Handshake.
    Handshake,
    /// Application data.
    Application,
}

/// A whole record.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) header: [u8; HEADER_BYTES],
    pub(super) payload: Vec<u8>,
    pub(super) wire: Range<u64>,
    /// The number of pieces, in both directions, up to the one that completed it.
    pub(super) order: u64,
    pub(super) first: Time,
    pub(super) last: Time,
}

/// The state of one direction.
#[derive(Default)]
pub(super) struct TlsHalf {
    /// The record that is arriving, including its header; where it begins; and when its first byte arrived.
    partial_record: Vec<u8>,
    start: u64,
    first: Time,
    /// Complete records that wait to be processed.
    pub(super) records: VecDeque<Record>,
    /// Bytes of incomplete handshake messages.
    pub(super) messages: Vec<u8>,
    pub(super) epoch: Epoch,
    /// The keys of the epoch, once they were needed.
    pub(super) cipher: Option<Cipher>,
    /// Number of records with application data so far.
    pub(super) data_records: u64,
    /// While set, a record that fails to decrypt counts as rejected early data; the first that decrypts ends this.
    pub(super) skips_early: bool,
    /// TLS 1.2: this side's Finished has passed.
    pub(super) has_finished: bool,
}

impl TlsHalf {
    /// Switches to other keys.
    pub(super) fn enter(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        self.cipher = None;
    }

    /// Takes bytes up to the end of the current record. Returns how many it took; `None` if they are not a TLS record.
    pub(super) fn gather(
        &mut self,
        bytes: &[u8],
        way: Way,
        carrier: &Carrier,
        order: u64,
    ) -> Option<usize> {
        if self.partial_record.is_empty() {
            self.first = carrier.first;
            // `bytes` are the carrier's last bytes.
            self.start = carrier.wire.end.saturating_sub(bytes.len() as u64);
        }
        let mut used = 0;
        let take = |partial_record: &mut Vec<u8>, until: usize, used: &mut usize| {
            let missing = until
                .saturating_sub(partial_record.len())
                .min(bytes.len() - *used);
            partial_record.extend_from_slice(&bytes[*used..*used + missing]);
            *used += missing;
        };
        take(&mut self.partial_record, HEADER_BYTES, &mut used);
        let Some(header) = self.partial_record.first_chunk::<HEADER_BYTES>().copied() else {
            return Some(used);
        };
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if header[1] != 3 || length > MAX_PAYLOAD_BYTES {
            return None;
        }
        let end = HEADER_BYTES + length;
        take(&mut self.partial_record, end, &mut used);
        if self.partial_record.len() == end {
            let wire = self.start..self.start + end as u64;
            let payload = self.partial_record[HEADER_BYTES..].to_vec();
            self.partial_record.clear();
            // The receiver has nothing of a record before it is complete.
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

    /// Bytes of the waiting records.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.records
            .iter()
            .map(|record| HEADER_BYTES + record.payload.len())
            .sum()
    }

    /// The next complete handshake message: its type and body.
    pub(super) fn next_message(&mut self) -> Result<Option<(u8, Vec<u8>)>, OpaqueReason> {
        let Some([kind, length @ ..]) = self.messages.first_chunk::<4>() else {
            return Ok(None);
        };
        let kind = *kind;
        let length = u32::from_be_bytes([0, length[0], length[1], length[2]]) as usize;
        if length > MAX_MESSAGE_BYTES {
            return Err(OpaqueReason::unclear(
                "a message of the TLS handshake is too long",
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

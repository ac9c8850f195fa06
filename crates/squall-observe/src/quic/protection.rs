//! Opens packets: header protection, the packet number, the AEAD, and the key phases of 1-RTT packets (RFC 9001,
//! sections 5.4 and 6).
//!
//! `connection` supplies the secrets; `keys` does the cryptography.

use super::header::{Header, Version, sample, unprotect};
use super::keys::{HeaderKey, PacketKeys, initial_secrets, initial_suite};

/// How far behind the largest packet number a duplicate can be distinguished from a late packet.
const WINDOW: u64 = 4096;

/// A packet without its protection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DecryptedPacket {
    pub(crate) number: u64,
    pub(crate) payload: Vec<u8>,
}

/// Opens the packets of one direction at one encryption level.
pub(crate) struct Opener {
    header: HeaderKey,
    current: PacketKeys,
    /// For 1-RTT packets only: the keys of the neighbouring key phases.
    updates: Option<Updates>,
}

struct Updates {
    /// The key phase bit of the current keys.
    phase: bool,
    next: PacketKeys,
    previous: Option<PacketKeys>,
}

impl Opener {
    /// An opener whose keys are never updated.
    pub(crate) fn fixed(keys: PacketKeys) -> Option<Opener> {
        Some(Opener {
            header: keys.header_key()?,
            current: keys,
            updates: None,
        })
    }

    /// An opener for 1-RTT packets.
    pub(crate) fn updatable(keys: PacketKeys) -> Option<Opener> {
        let updates = Updates {
            phase: false,
            next: keys.updated()?,
            previous: None,
        };
        Some(Opener {
            updates: Some(updates),
            ..Opener::fixed(keys)?
        })
    }

    /// The openers for Initial packets: the client's, then the server's.
    pub(crate) fn initial(version: Version, destination: &[u8]) -> Option<[Opener; 2]> {
        let suite = initial_suite()?;
        let [client, server] = initial_secrets(version, destination)?;
        let opener =
            |secret: &[u8]| PacketKeys::new(version, suite, secret).and_then(Opener::fixed);
        Some([opener(&client)?, opener(&server)?])
    }

    /// Opens a packet whose number begins at `number_at`; `None` if the keys do not fit.
    pub(crate) fn open(
        &mut self,
        packet: &[u8],
        number_at: usize,
        largest: Option<u64>,
    ) -> Option<DecryptedPacket> {
        let mask = self.header.mask(sample(packet, number_at)?)?;
        let header = unprotect(packet, number_at, mask, largest)?;
        let sealed = packet.get(header.bytes.len()..)?;
        let is_other_phase = self
            .updates
            .as_ref()
            .is_some_and(|updates| updates.phase != header.key_phase);
        let payload = if is_other_phase {
            self.open_other_phase(&header, sealed, largest)?
        } else {
            self.current.open(header.number, &header.bytes, sealed)?
        };
        Some(DecryptedPacket {
            number: header.number,
            payload,
        })
    }

    /// Opens a packet whose key phase is not the current one: a late packet of the previous phase, or the first one of
    /// the next (RFC 9001, section 6.3).
    fn open_other_phase(
        &mut self,
        header: &Header,
        sealed: &[u8],
        largest: Option<u64>,
    ) -> Option<Vec<u8>> {
        let updates = self.updates.as_mut()?;
        let is_late = largest.is_some_and(|largest| header.number < largest);
        if is_late
            && let Some(previous) = &mut updates.previous
            && let Some(payload) = previous.open(header.number, &header.bytes, sealed)
        {
            return Some(payload);
        }
        let payload = updates.next.open(header.number, &header.bytes, sealed)?;
        let after = updates.next.updated()?;
        let current = std::mem::replace(&mut updates.next, after);
        updates.previous = Some(std::mem::replace(&mut self.current, current));
        updates.phase = header.key_phase;
        Some(payload)
    }
}

/// The packet numbers seen in one packet number space.
#[derive(Debug, Default)]
pub(crate) struct PacketNumbers {
    largest: Option<u64>,
    /// One bit for each of the last [`WINDOW`] numbers, by number modulo [`WINDOW`].
    seen: Vec<u64>,
}

impl PacketNumbers {
    pub(crate) fn largest(&self) -> Option<u64> {
        self.largest
    }

    /// Records a packet number. Returns false for a duplicate, and for a number too old to check.
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        if self.seen.is_empty() {
            self.seen = vec![0; (WINDOW / 64) as usize];
        }
        match self.largest {
            Some(largest) if number + WINDOW <= largest => return false,
            Some(largest) if number <= largest => {}
            Some(largest) if number - largest >= WINDOW => self.seen.fill(0),
            Some(largest) => (largest + 1..number).for_each(|between| self.set(between, false)),
            None => {}
        }
        let is_later = self.largest.is_none_or(|largest| number > largest);
        let is_new = is_later || !self.has(number);
        self.set(number, true);
        self.largest = self.largest.max(Some(number));
        is_new
    }

    fn has(&self, number: u64) -> bool {
        let index = number % WINDOW;
        self.seen[(index / 64) as usize] & (1 << (index % 64)) != 0
    }

    fn set(&mut self, number: u64, is_seen: bool) {
        let index = number % WINDOW;
        let (word, bit) = (&mut self.seen[(index / 64) as usize], 1 << (index % 64));
        if is_seen {
            *word |= bit;
        } else {
            *word &= !bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_is_distinguished_from_late_packet() {
        let mut numbers = PacketNumbers::default();
        for (number, is_new) in [
            (3, true),
            (3, false),
            (1, true),
            (1, false),
            (2, true),
            (5_000, true),
            (4_999, true),
            (3, false),
            (905, true),
            (905, false),
            (904, false),
            (5_001, true),
        ] {
            assert_eq!(numbers.insert(number), is_new, "{number}");
        }
        assert_eq!(numbers.largest(), Some(5_001));
    }
}

//! Turns a frame into a capture entry, according to the header that its link type begins with. The numbers are those of the
//! IANA registry "PCAP LinkTypes"; unknown link types are an error. `decapsulation` finds the IP packet after that header.

use super::decapsulation::{Header, Unwrapped, decapsulate, decapsulate_typed};
use super::error::CaptureFault;
use super::{CaptureEntry, CaptureNotes};

/// The header with which a frame begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkLayer {
    /// LINKTYPE_ETHERNET.
    Ethernet,
    /// No header: LINKTYPE_RAW, LINKTYPE_IPV4 and LINKTYPE_IPV6.
    Raw,
    /// LINKTYPE_LINUX_SLL.
    Sll,
    /// LINKTYPE_LINUX_SLL2.
    Sll2,
    /// A four-byte address family: LINKTYPE_NULL and LINKTYPE_LOOP.
    Family,
    Unknown(u32),
}

impl LinkLayer {
    pub(super) fn of(number: u32) -> LinkLayer {
        match number {
            0 | 108 => LinkLayer::Family,
            1 => LinkLayer::Ethernet,
            // OpenBSD and old programs write 12 and 14 for bare IP.
            12 | 14 | 101 | 228 | 229 => LinkLayer::Raw,
            113 => LinkLayer::Sll,
            276 => LinkLayer::Sll2,
            other => LinkLayer::Unknown(other),
        }
    }

    /// The capture entry of a frame that had `original_bytes` bytes on the wire.
    pub(super) fn entry(
        self,
        time_unix_ns: u64,
        mut frame: Vec<u8>,
        original_bytes: u32,
        notes: &mut CaptureNotes,
    ) -> Result<CaptureEntry, CaptureFault> {
        if let LinkLayer::Unknown(number) = self {
            return Err(CaptureFault::LinkType(number));
        }
        notes.note_length(frame.len(), original_bytes);
        let unwrapped = self.decapsulate(&frame);
        notes.note_contents(&unwrapped);
        Ok(match unwrapped.ip_start {
            Some(start) => CaptureEntry::Packet {
                time_unix_ns,
                bytes: frame.split_off(start),
            },
            None => CaptureEntry::Other,
        })
    }

    fn decapsulate(self, frame: &[u8]) -> Unwrapped {
        let ether_type = |at: usize| -> Option<u16> {
            let pair = frame.get(at..)?.first_chunk::<2>()?;
            Some(u16::from_be_bytes(*pair))
        };
        let typed = |at: usize, payload: usize| match ether_type(at) {
            Some(ether_type) => decapsulate_typed(frame, ether_type, payload),
            None => Unwrapped::default(),
        };
        match self {
            LinkLayer::Ethernet => decapsulate(frame, Header::Ethernet, 0),
            LinkLayer::Sll => typed(14, 16),
            LinkLayer::Sll2 => typed(0, 20),
            // Family numbers differ between systems, so only the IP version is looked at.
            LinkLayer::Family => decapsulate(frame, Header::Ip, 4),
            LinkLayer::Raw | LinkLayer::Unknown(_) => decapsulate(frame, Header::Ip, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::capture::UnreadProtocol;

    #[test]
    fn ip_packet_is_found_after_every_link_layer_header() {
        let ip = [0x45, 1, 2, 3];
        let vlan = [&[0; 12][..], &[0x81, 0, 0, 5, 0x08, 0], &ip].concat();
        let double = [
            &[0; 12][..],
            &[0x88, 0xA8, 0, 5, 0x81, 0, 0, 6, 0x08, 0],
            &ip,
        ]
        .concat();
        let sll = [&[0; 14][..], &[0x08, 0], &ip].concat();
        let sll2 = [&[0x08, 0][..], &[0; 18], &ip].concat();
        let loopback = [&[2, 0, 0, 0][..], &ip].concat();
        let ethernet = [&[0; 12][..], &[0x08, 0], &ip].concat();
        let arp = [&[0; 12][..], &[0x08, 6], &ip].concat();
        let mut notes = CaptureNotes::default();
        for (number, frame, is_ip) in [
            (1, ethernet, true),
            (1, vlan, true),
            (1, double, true),
            (1, arp, false),
            (1, vec![0; 13], false),
            (101, ip.to_vec(), true),
            (101, vec![], false),
            (113, sll, true),
            (276, sll2, true),
            (0, loopback, true),
        ] {
            let original_bytes = frame.len() as u32;
            let expected = if is_ip {
                CaptureEntry::Packet {
                    time_unix_ns: 1,
                    bytes: ip.to_vec(),
                }
            } else {
                CaptureEntry::Other
            };
            assert_eq!(
                LinkLayer::of(number).entry(1, frame, original_bytes, &mut notes),
                Ok(expected),
                "{number}"
            );
        }
        let arp = UnreadProtocol::Named("ARP");
        assert_eq!(notes.unread, BTreeMap::from([(arp, 1)]));
        assert_eq!((notes.unreadable, notes.shortened), (2, 0));
        assert_eq!(
            LinkLayer::of(127).entry(1, vec![], 0, &mut notes),
            Err(CaptureFault::LinkType(127))
        );
    }
}

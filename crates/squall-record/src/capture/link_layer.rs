//! Finds the IP packet in a frame. The numbers are those of the IANA registry "PCAP LinkTypes"; link types that it does
//! not know are an error.

use super::CaptureEntry;
use super::error::CaptureFault;

/// EtherTypes (IEEE 802): IP, and the VLAN tags that may precede it.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86DD;
const VLAN_TAGS: [u16; 3] = [0x8100, 0x88A8, 0x9100];

/// The header that precedes an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkLayer {
    /// LINKTYPE_ETHERNET.
    Ethernet,
    /// None: LINKTYPE_RAW, LINKTYPE_IPV4 and LINKTYPE_IPV6.
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

    /// The capture entry of a frame.
    pub(super) fn entry(
        self,
        time_unix_ns: u64,
        mut frame: Vec<u8>,
    ) -> Result<CaptureEntry, CaptureFault> {
        let start = match self {
            LinkLayer::Unknown(number) => return Err(CaptureFault::LinkType(number)),
            _ => self.ip_start(&frame),
        };
        Ok(match start {
            Some(start) => CaptureEntry::Packet {
                time_unix_ns,
                bytes: frame.split_off(start),
            },
            None => CaptureEntry::Other,
        })
    }

    /// Where the IP packet begins, if there is one.
    fn ip_start(self, frame: &[u8]) -> Option<usize> {
        let word = |at: usize| -> Option<u16> {
            let pair = frame.get(at..at + 2)?;
            Some(u16::from_be_bytes([pair[0], pair[1]]))
        };
        let start = match self {
            LinkLayer::Ethernet => {
                let mut at = 12;
                while VLAN_TAGS.contains(&word(at)?) {
                    at += 4;
                }
                matches!(word(at)?, IPV4 | IPV6).then_some(at + 2)?
            }
            LinkLayer::Sll => matches!(word(14)?, IPV4 | IPV6).then_some(16)?,
            LinkLayer::Sll2 => matches!(word(0)?, IPV4 | IPV6).then_some(20)?,
            // Family numbers differ between systems, so the IP version is checked instead.
            LinkLayer::Family => 4,
            LinkLayer::Raw | LinkLayer::Unknown(_) => 0,
        };
        let version = frame.get(start)? >> 4;
        matches!(version, 4 | 6).then_some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let expected = if is_ip {
                CaptureEntry::Packet {
                    time_unix_ns: 1,
                    bytes: ip.to_vec(),
                }
            } else {
                CaptureEntry::Other
            };
            assert_eq!(
                LinkLayer::of(number).entry(1, frame),
                Ok(expected),
                "{number}"
            );
        }
        assert_eq!(
            LinkLayer::of(127).entry(1, vec![]),
            Err(CaptureFault::LinkType(127))
        );
    }
}

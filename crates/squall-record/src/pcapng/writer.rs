//! Writes the blocks of a pcapng file: one section, its interfaces, packets with comments, TLS secrets.
//!
//! Section numbers are those of draft-ietf-opsawg-pcapng. Everything is little-endian on every machine, so that the
//! same packets produce the same bytes. The writer does not buffer, and adds nothing to a frame: `file` does both.

use std::io::{self, Write};

/// Block types, section 4 ("Block Definitions").
pub(super) const SECTION_HEADER: u32 = 0x0A0D_0D0A;
pub(super) const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const DECRYPTION_SECRETS: u32 = 10;

/// Option codes: for every block, the section header, an interface, a packet.
const OPT_ENDOFOPT: u16 = 0;
const OPT_COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;

/// Shows a reader the byte order.
const BYTE_ORDER_MAGIC: u32 = 0x1A2B_3C4D;
const LINKTYPE_ETHERNET: u16 = 1;
/// if_tsresol: times are in units of 10^-9 s.
const NANOSECONDS: u8 = 9;
/// "TLSK": the secrets are an NSS key log.
const TLS_KEY_LOG: u32 = 0x544C_534B;

/// The direction of a packet, relative to the point of capture (epb_flags, bits 0 and 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureDirection {
    /// Towards the point of capture.
    Inbound,
    /// Away from it.
    Outbound,
}

/// Writes a pcapng file, block by block, to `out`. After an error the file is unusable.
pub struct PcapngWriter<W: Write> {
    out: W,
    interfaces: usize,
    /// Scratch buffer for the current block.
    block: Vec<u8>,
}

impl PcapngWriter<Vec<u8>> {
    /// The block of [`PcapngWriter::secrets`] alone, to be inserted into a capture.
    pub(super) fn secrets_block(key_log: &str) -> io::Result<Vec<u8>> {
        let mut writer = PcapngWriter {
            out: Vec::new(),
            interfaces: 0,
            block: Vec::new(),
        };
        writer.secrets(key_log)?;
        writer.finish()
    }
}

impl<W: Write> PcapngWriter<W> {
    /// Writes the file's head: the section, naming `application` ("squall 0.1.0") as its writer, and its `interfaces`,
    /// each with a name and a description, e.g. `("up", "client to server, as it entered the link")`. Their link type
    /// is Ethernet, their times are in nanoseconds, and packets may have any length (snaplen 0).
    pub fn new(out: W, application: &str, interfaces: &[(&str, &str)]) -> io::Result<Self> {
        let mut writer = PcapngWriter {
            out,
            interfaces: interfaces.len(),
            block: Vec::new(),
        };
        writer.write_block(SECTION_HEADER, |block| {
            push_u32(block, BYTE_ORDER_MAGIC);
            push_u16(block, 1); // Version 1.0.
            push_u16(block, 0);
            block.extend_from_slice(&(-1_i64).to_le_bytes()); // The section's length: not known.
            push_option(block, SHB_USERAPPL, prefix(application));
            push_option(block, OPT_ENDOFOPT, &[]);
        })?;
        for (name, description) in interfaces {
            writer.write_block(INTERFACE_DESCRIPTION, |block| {
                push_u16(block, LINKTYPE_ETHERNET);
                push_u16(block, 0); // Reserved.
                push_u32(block, 0); // Snaplen: no limit.
                push_option(block, IF_NAME, prefix(name));
                push_option(block, IF_DESCRIPTION, prefix(description));
                push_option(block, IF_TSRESOL, &[NANOSECONDS]);
                push_option(block, OPT_ENDOFOPT, &[]);
            })?;
        }
        Ok(writer)
    }

    /// Writes a packet: the Ethernet frame `bytes` without its checksum, on the interface number `interface`, at
    /// `time_unix_ns` nanoseconds after 1970-01-01 00:00 UTC. A `comment` is truncated to 65,535 bytes, the longest
    /// option.
    ///
    /// An interface that was not passed to [`PcapngWriter::new`], or a frame of 4 GiB, is `InvalidInput`.
    pub fn packet(
        &mut self,
        interface: u32,
        time_unix_ns: u64,
        direction: Option<CaptureDirection>,
        bytes: &[u8],
        comment: Option<&str>,
    ) -> io::Result<()> {
        let original_length = length_u32(bytes)?;
        self.shortened_packet(
            interface,
            direction,
            time_unix_ns,
            bytes,
            original_length,
            comment,
        )
    }

    /// Writes the beginning of a packet, and its length on the wire; for the rest see [`PcapngWriter::packet`].
    pub(crate) fn shortened_packet(
        &mut self,
        interface: u32,
        direction: Option<CaptureDirection>,
        time_unix_ns: u64,
        bytes: &[u8],
        original_length: u32,
        comment: Option<&str>,
    ) -> io::Result<()> {
        if interface as usize >= self.interfaces {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a packet on an interface that the capture does not have",
            ));
        }
        let captured = length_u32(bytes)?;
        self.write_block(ENHANCED_PACKET, |block| {
            push_u32(block, interface);
            push_u32(block, (time_unix_ns >> 32) as u32);
            push_u32(block, time_unix_ns as u32); // The low half.
            push_u32(block, captured);
            push_u32(block, original_length.max(captured));
            push_padded(block, bytes);
            if let Some(comment) = comment {
                push_option(block, OPT_COMMENT, prefix(comment));
            }
            if let Some(direction) = direction {
                let flags: u32 = match direction {
                    CaptureDirection::Inbound => 0b01,
                    CaptureDirection::Outbound => 0b10,
                };
                push_option(block, EPB_FLAGS, &flags.to_le_bytes());
            }
            if comment.is_some() || direction.is_some() {
                push_option(block, OPT_ENDOFOPT, &[]);
            }
        })
    }

    /// Writes secrets with which a reader decrypts the packets that follow: lines of an NSS key log
    /// (draft-ietf-tls-keylogfile), each with its line feed.
    pub fn secrets(&mut self, key_log: &str) -> io::Result<()> {
        let length = length_u32(key_log.as_bytes())?;
        self.write_block(DECRYPTION_SECRETS, |block| {
            push_u32(block, TLS_KEY_LOG);
            push_u32(block, length);
            push_padded(block, key_log.as_bytes());
        })
    }

    /// Flushes `out`. What has been written so far is then a complete capture.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Flushes `out` and returns it. The format has no end marker.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.out)
    }

    /// Writes a block of type `kind`: its total length comes before and after its `body`.
    fn write_block(&mut self, kind: u32, body: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        const LENGTH: std::ops::Range<usize> = 4..8;
        self.block.clear();
        push_u32(&mut self.block, kind);
        push_u32(&mut self.block, 0); // The length, when it is known.
        body(&mut self.block);
        push_u32(&mut self.block, 0);
        let total = length_u32(&self.block)?.to_le_bytes();
        let end = self.block.len() - LENGTH.len();
        self.block[LENGTH].copy_from_slice(&total);
        self.block[end..].copy_from_slice(&total);
        self.out.write_all(&self.block)
    }
}

fn length_u32(bytes: &[u8]) -> io::Result<u32> {
    u32::try_from(bytes.len()).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "a block of a capture holds less than 4 GiB",
        )
    })
}

fn push_u16(block: &mut Vec<u8>, value: u16) {
    block.extend_from_slice(&value.to_le_bytes());
}

fn push_u32(block: &mut Vec<u8>, value: u32) {
    block.extend_from_slice(&value.to_le_bytes());
}

/// Blocks, and all parts of them, begin at multiples of 4 bytes.
fn push_padded(block: &mut Vec<u8>, bytes: &[u8]) {
    block.extend_from_slice(bytes);
    block.resize(block.len().next_multiple_of(4), 0);
}

/// Section 3.5: code, length without padding, value. `value` is at most 65,535 bytes.
fn push_option(block: &mut Vec<u8>, code: u16, value: &[u8]) {
    debug_assert!(u16::try_from(value.len()).is_ok(), "see prefix()");
    push_u16(block, code);
    push_u16(block, value.len() as u16);
    push_padded(block, value);
}

/// The longest prefix of `text` that fits into an option, cut between characters.
fn prefix(text: &str) -> &[u8] {
    let mut end = text.len().min(usize::from(u16::MAX));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text.as_bytes()[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_truncated_between_characters() {
        // 21,845 characters of 3 bytes fill an option. With one byte before them the last one does not fit.
        let euros = "€".repeat(30_000);
        assert_eq!(prefix(&euros).len(), 65_535);
        assert_eq!(prefix(&format!("x{euros}")).len(), 65_533);
        assert_eq!(prefix("short"), b"short");
    }

    #[test]
    fn unknown_interface_is_refused() {
        let mut writer = PcapngWriter::new(Vec::new(), "test", &[("up", "")]).unwrap();
        let error = writer.packet(1, 0, None, &[], None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}

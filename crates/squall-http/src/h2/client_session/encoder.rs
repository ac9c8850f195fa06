//! Encodes outgoing header sections with nghttp2, and caches the result.
//!
//! A load sends the same request again and again. Once its fields are in the dynamic table (RFC 7541), every copy
//! encodes to the same few bytes until something changes the table.

use squall_nghttp2::{Deflater, Error, HeaderBlock};

use super::hpack::changes_table;

/// How many encoded sections are cached: more than the distinct requests of a typical load.
const MAX_KNOWN: usize = 16;

#[derive(Debug)]
pub(super) struct Encoder {
    deflater: Deflater,
    known: Vec<(HeaderBlock, Vec<u8>)>,
    /// Once the cache is full, the index of the entry that was replaced last.
    oldest: usize,
}

impl Encoder {
    pub(super) fn new() -> Result<Encoder, Error> {
        Ok(Encoder {
            deflater: Deflater::new()?,
            known: Vec::new(),
            oldest: 0,
        })
    }

    /// Applies the peer's SETTINGS_HEADER_TABLE_SIZE.
    pub(super) fn allow_table(&mut self, bytes: u32) -> Result<(), Error> {
        self.known.clear();
        self.deflater.allow_table(bytes)
    }

    /// Appends the encoded section, which must be the next one sent.
    pub(super) fn encode(&mut self, headers: &HeaderBlock, out: &mut Vec<u8>) -> Result<(), Error> {
        if let Some((_, bytes)) = self.known.iter().find(|(known, _)| known.is_same(headers)) {
            out.extend_from_slice(bytes);
            return Ok(());
        }
        let start = out.len();
        self.deflater.deflate(headers, out)?;
        let bytes = &out[start..];
        if changes_table(bytes) {
            self.known.clear();
        } else if self.known.len() < MAX_KNOWN {
            self.known.push((headers.clone(), bytes.to_vec()));
        } else {
            self.oldest = (self.oldest + 1) % MAX_KNOWN;
            self.known[self.oldest] = (headers.clone(), bytes.to_vec());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use squall_nghttp2::Inflater;

    use super::*;

    #[test]
    fn cached_and_fresh_sections_decode_alike() {
        let block = |name: &str, n: usize| {
            HeaderBlock::new([(":method", "GET"), (name, n.to_string().as_str())]).unwrap()
        };
        let blocks: Vec<_> = (0..40).map(|n| block("x-number", n)).collect();
        let mut encoder = Encoder::new().unwrap();
        let mut inflater = Inflater::of_endpoint().unwrap();
        let mut shortest = usize::MAX;
        for (turn, n) in (0..2_000).map(|turn| (turn, turn * turn % 7 * (turn % 40) % 40)) {
            if turn % 500 == 250 {
                encoder.allow_table(100 * (turn as u32 % 3)).unwrap();
            }
            let mut bytes = Vec::new();
            encoder.encode(&blocks[n], &mut bytes).unwrap();
            shortest = shortest.min(bytes.len());
            let mut fields = Vec::new();
            inflater
                .inflate(&bytes, true, |name, value| {
                    fields.push((name.to_vec(), value.to_vec()));
                })
                .unwrap();
            assert_eq!(fields[1].1, n.to_string().into_bytes(), "turn {turn}");
        }
        assert_eq!(shortest, 2, "both fields by their places");
    }
}

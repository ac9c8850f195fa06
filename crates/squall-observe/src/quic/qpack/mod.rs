//! A QPACK decoder (RFC 9204) with its dynamic table: takes encoder stream instructions and header sections, returns
//! fields.
//!
//! The `octets` crate decodes the Huffman code. This module does not know streams, sends no acknowledgements and does
//! not validate fields: `http3` looks at two of them.

mod static_table;
mod table;
#[cfg(test)]
mod tests;

use octets::Octets;

use static_table::STATIC_TABLE;
use table::{Entry, MAX_CAPACITY, Table};

/// The maximum length of a string, encoded or decoded: the same limit as for a whole HTTP/2 header section.
const MAX_STRING_BYTES: usize = 1 << 18;

/// The least size of a table entry, which limits how many entries a capacity allows (RFC 9204, section 4.5.1.1).
const MIN_ENTRY_BYTES: u64 = 32;

/// The bytes are not valid QPACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QpackError(pub(crate) &'static str);

/// The result of decoding a header section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectionOutcome {
    Decoded,
    /// It refers to entries whose instructions have not arrived.
    Blocked,
}

/// Why reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadError {
    /// More bytes are needed.
    Incomplete,
    Malformed(&'static str),
}

impl From<ReadError> for QpackError {
    fn from(error: ReadError) -> QpackError {
        match error {
            ReadError::Incomplete => QpackError("a header section of QPACK is cut short"),
            ReadError::Malformed(what) => QpackError(what),
        }
    }
}

/// The decoder of one direction's header sections.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    table: Table,
    /// SETTINGS_QPACK_MAX_TABLE_CAPACITY of the receiver of the sections, once it was seen.
    limit: Option<u64>,
    /// The beginning of an incomplete instruction.
    partial: Vec<u8>,
}

impl Decoder {
    /// Sets the dynamic table capacity that the receiver of these sections allows.
    pub(crate) fn set_limit(&mut self, bytes: u64) {
        self.limit = Some(bytes);
    }

    /// Reads bytes of the encoder stream, split at any point (RFC 9204, section 4.3).
    ///
    /// # Errors
    /// They are not valid instructions; nothing after them can be decoded.
    pub(crate) fn instructions(&mut self, bytes: &[u8]) -> Result<(), QpackError> {
        self.partial.extend_from_slice(bytes);
        let pending = std::mem::take(&mut self.partial);
        let mut input = Octets::with_slice(&pending);
        let mut done = 0;
        while input.cap() > 0 {
            match self.instruction(&mut input) {
                Ok(()) => done = input.off(),
                Err(ReadError::Incomplete) if pending.len() - done <= 2 * MAX_STRING_BYTES => break,
                Err(ReadError::Incomplete) => {
                    return Err(QpackError("an instruction of QPACK is too long"));
                }
                Err(ReadError::Malformed(what)) => return Err(QpackError(what)),
            }
        }
        self.partial = pending[done..].to_vec();
        Ok(())
    }

    fn instruction(&mut self, input: &mut Octets<'_>) -> Result<(), ReadError> {
        let first = input.peek_u8().map_err(|_| ReadError::Incomplete)?;
        let entry = match first {
            // Insert with Name Reference.
            0x80.. => {
                let index = integer(input, 6)?;
                let value = string(input, 7)?;
                (self.name(first & 0x40 != 0, index)?, value)
            }
            // Insert with Literal Name.
            0x40.. => (string(input, 5)?, string(input, 7)?),
            // Set Dynamic Table Capacity.
            0x20.. => return self.set_capacity(integer(input, 5)?),
            // Duplicate.
            _ => {
                let index = integer(input, 5)?;
                let entry = self.table.relative_to_newest(index);
                entry.ok_or(NO_ENTRY)?.clone()
            }
        };
        if self.table.insert(entry) {
            Ok(())
        } else {
            Err(ReadError::Malformed(
                "an entry is larger than QPACK's table",
            ))
        }
    }

    /// The name of an entry that an instruction refers to.
    fn name(&self, is_static: bool, index: u64) -> Result<Vec<u8>, ReadError> {
        if is_static {
            return Ok(static_entry(index)?.0.to_vec());
        }
        let entry = self.table.relative_to_newest(index);
        Ok(entry.ok_or(NO_ENTRY)?.0.clone())
    }

    fn set_capacity(&mut self, bytes: u64) -> Result<(), ReadError> {
        if bytes > self.limit.unwrap_or(MAX_CAPACITY).min(MAX_CAPACITY) {
            return Err(ReadError::Malformed(
                "QPACK's table is larger than was allowed",
            ));
        }
        self.table.set_capacity(bytes as usize);
        Ok(())
    }

    /// Decodes a header section (RFC 9204, section 4.5), unless it is blocked.
    ///
    /// # Errors
    /// It is not a valid header section.
    pub(crate) fn section(
        &self,
        block: &[u8],
        mut on_field: impl FnMut(&[u8], &[u8]),
    ) -> Result<SectionOutcome, QpackError> {
        let mut input = Octets::with_slice(block);
        let required = self.required(integer(&mut input, 8)?)?;
        let sign = input.peek_u8().map_err(|_| ReadError::Incomplete)? & 0x80 != 0;
        let delta = integer(&mut input, 7)?;
        let base = if sign {
            required.checked_sub(delta).and_then(|it| it.checked_sub(1))
        } else {
            required.checked_add(delta)
        };
        let base = base.ok_or(QpackError("the base of a header section is below 0"))?;
        if required > self.table.inserted() {
            return Ok(SectionOutcome::Blocked);
        }
        while input.cap() > 0 {
            self.line(base, &mut input, &mut on_field)?;
        }
        Ok(SectionOutcome::Decoded)
    }

    /// Decodes the Required Insert Count (RFC 9204, section 4.5.1.1).
    fn required(&self, encoded: u64) -> Result<u64, ReadError> {
        const WRONG: ReadError =
            ReadError::Malformed("the insert count of a header section is invalid");
        if encoded == 0 {
            return Ok(0);
        }
        let limit = self.limit.unwrap_or_else(|| self.table.capacity());
        let most = limit / MIN_ENTRY_BYTES;
        let range = 2 * most;
        if encoded > range {
            return Err(WRONG);
        }
        let largest = self.table.inserted() + most;
        let required = largest / range * range + encoded - 1;
        let required = if required <= largest {
            required
        } else {
            required.checked_sub(range).ok_or(WRONG)?
        };
        if required == 0 {
            Err(WRONG)
        } else {
            Ok(required)
        }
    }

    /// Decodes a field line (RFC 9204, sections 4.5.2 to 4.5.6).
    fn line(
        &self,
        base: u64,
        input: &mut Octets<'_>,
        on_field: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), ReadError> {
        let first = input.peek_u8().map_err(|_| ReadError::Incomplete)?;
        match first {
            // Indexed.
            0x80.. => {
                let index = integer(input, 6)?;
                if first & 0x40 != 0 {
                    let (name, value) = static_entry(index)?;
                    on_field(name, value);
                } else {
                    let (name, value) = self.before(base, index)?;
                    on_field(name, value);
                }
            }
            // Literal with Name Reference.
            0x40.. => {
                let index = integer(input, 4)?;
                let value = string(input, 7)?;
                if first & 0x10 != 0 {
                    on_field(static_entry(index)?.0, &value);
                } else {
                    on_field(&self.before(base, index)?.0, &value);
                }
            }
            // Literal with Literal Name.
            0x20.. => {
                let name = string(input, 3)?;
                on_field(&name, &string(input, 7)?);
            }
            // Indexed with Post-Base Index.
            0x10.. => {
                let (name, value) = self.behind(base, integer(input, 4)?)?;
                on_field(name, value);
            }
            // Literal with Post-Base Name Reference.
            _ => {
                let index = integer(input, 3)?;
                let value = string(input, 7)?;
                on_field(&self.behind(base, index)?.0, &value);
            }
        }
        Ok(())
    }

    fn before(&self, base: u64, index: u64) -> Result<&Entry, ReadError> {
        let absolute = base.checked_sub(index).and_then(|it| it.checked_sub(1));
        absolute
            .and_then(|absolute| self.table.get(absolute))
            .ok_or(NO_ENTRY)
    }

    fn behind(&self, base: u64, index: u64) -> Result<&Entry, ReadError> {
        let absolute = base.checked_add(index);
        absolute
            .and_then(|absolute| self.table.get(absolute))
            .ok_or(NO_ENTRY)
    }
}

const NO_ENTRY: ReadError =
    ReadError::Malformed("QPACK refers to an entry that is not in its table");

fn static_entry(index: u64) -> Result<(&'static [u8], &'static [u8]), ReadError> {
    let entry = usize::try_from(index)
        .ok()
        .and_then(|index| STATIC_TABLE.get(index));
    let (name, value) = entry.ok_or(NO_ENTRY)?;
    Ok((name.as_bytes(), value.as_bytes()))
}

/// Decodes an integer with a prefix of `prefix_bits` bits in the first byte (RFC 7541, section 5.1), at most 62 bits
/// long.
fn integer(input: &mut Octets<'_>, prefix_bits: u32) -> Result<u64, ReadError> {
    const TOO_LARGE: ReadError = ReadError::Malformed("an integer of QPACK is too large");
    let byte = |input: &mut Octets<'_>| input.get_u8().map_err(|_| ReadError::Incomplete);
    let most = (1_u64 << prefix_bits) - 1;
    let mut value = u64::from(byte(input)?) & most;
    if value < most {
        return Ok(value);
    }
    for shift in (0..63).step_by(7) {
        let next = byte(input)?;
        let part = u64::from(next & 0x7f);
        value = part
            .checked_shl(shift)
            .filter(|shifted| shifted >> shift == part)
            .and_then(|shifted| value.checked_add(shifted))
            .filter(|value| *value < 1 << 62)
            .ok_or(TOO_LARGE)?;
        if next & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(TOO_LARGE)
}

/// Decodes a string whose length has a prefix of `prefix_bits` bits; the bit above it marks Huffman coding (RFC 9204,
/// section 4.1.2).
fn string(input: &mut Octets<'_>, prefix_bits: u32) -> Result<Vec<u8>, ReadError> {
    let first = input.peek_u8().map_err(|_| ReadError::Incomplete)?;
    let is_coded = first & (1 << prefix_bits) != 0;
    let length = integer(input, prefix_bits)?;
    let length = usize::try_from(length).ok();
    let length = length
        .filter(|length| *length <= MAX_STRING_BYTES)
        .ok_or(ReadError::Malformed("a string of QPACK is too long"))?;
    let mut bytes = input.get_bytes(length).map_err(|_| ReadError::Incomplete)?;
    if !is_coded {
        return Ok(bytes.to_vec());
    }
    bytes
        .get_huffman_decoded_with_max_length(MAX_STRING_BYTES)
        .map_err(|_| ReadError::Malformed("a string of QPACK has a broken Huffman code"))
}

//! HPACK (RFC 7541) on its own: the encoder for the header sections of one direction.
//!
//! It does not know frames: the caller splits its output into HEADERS and CONTINUATION frames. An nghttp2 session has its own
//! encoder and does not need this one. [`Inflater`](crate::Inflater) is the decoder.

use std::fmt;
use std::ptr::{self, NonNull};

use libnghttp2_sys as ffi;

use crate::error::Error;
use crate::headers::HeaderBlock;

/// The largest dynamic table to use, even if the peer allows more: the limit of nghttp2's own sessions.
const MAX_TABLE_BYTES: usize = 4_096;

/// The encoder for the header sections of one direction.
///
/// ```
/// use squall_nghttp2::{Deflater, HeaderBlock};
///
/// let mut bytes = Vec::new();
/// Deflater::new()?.deflate(&HeaderBlock::new([(":method", "GET")])?, &mut bytes)?;
/// // RFC 7541, appendix A: index 2 is `:method: GET`.
/// assert_eq!(bytes, [0x82]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Deflater(NonNull<ffi::nghttp2_hd_deflater>);

// SAFETY: the deflater has no state outside itself and is not tied to a thread; this value is its only owner.
unsafe impl Send for Deflater {}

impl Deflater {
    /// An encoder with an empty dynamic table of at most 4,096 bytes.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn new() -> Result<Deflater, Error> {
        let mut raw = ptr::null_mut();
        // SAFETY: the pointer to write to is valid during the call.
        Error::check(unsafe { ffi::nghttp2_hd_deflate_new(&raw mut raw, MAX_TABLE_BYTES) })?;
        let raw = NonNull::new(raw).ok_or(Error::Library(ffi::NGHTTP2_ERR_NOMEM))?;
        Ok(Deflater(raw))
    }

    /// Applies the peer's SETTINGS_HEADER_TABLE_SIZE. The next header section announces the new table size.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn allow_table(&mut self, bytes: u32) -> Result<(), Error> {
        // SAFETY: the deflater is alive.
        Error::check(unsafe {
            ffi::nghttp2_hd_deflate_change_table_size(self.0.as_ptr(), bytes as usize)
        })?;
        Ok(())
    }

    /// Appends the encoded header section to `out`.
    ///
    /// # Errors
    /// If memory runs out. The state of the table is then unknown.
    pub fn deflate(&mut self, headers: &HeaderBlock, out: &mut Vec<u8>) -> Result<(), Error> {
        let start = out.len();
        // SAFETY: the deflater is alive; the fields are only read, up to their count.
        let bound = unsafe {
            ffi::nghttp2_hd_deflate_bound(self.0.as_ptr(), headers.as_ptr(), headers.len())
        };
        out.resize(start + bound, 0);
        // SAFETY: the deflater is alive, `bound` bytes can be written, and the fields are only read: nghttp2 copies those
        // that go into the dynamic table.
        let len = Error::check_size(unsafe {
            ffi::nghttp2_hd_deflate_hd2(
                self.0.as_ptr(),
                out[start..].as_mut_ptr(),
                bound,
                headers.as_ptr(),
                headers.len(),
            )
        })?;
        out.truncate(start + len);
        Ok(())
    }
}

impl Drop for Deflater {
    fn drop(&mut self) {
        // SAFETY: the deflater is alive, and this value is its only owner.
        unsafe { ffi::nghttp2_hd_deflate_del(self.0.as_ptr()) };
    }
}

impl fmt::Debug for Deflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deflater").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Inflater;

    fn section(deflater: &mut Deflater, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let block = HeaderBlock::new(fields.iter().copied()).unwrap();
        deflater.deflate(&block, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn repeated_fields_are_encoded_as_table_references() {
        let (mut deflater, mut inflater) = (Deflater::new().unwrap(), Inflater::new().unwrap());
        let fields = [(":method", "POST"), ("x-some", "thing of its own")];
        let mut lengths = Vec::new();
        for table_bytes in [4_096, 4_096, 0, 4_096] {
            deflater.allow_table(table_bytes).unwrap();
            let bytes = section(&mut deflater, &fields);
            lengths.push(bytes.len());
            let mut read = Vec::new();
            inflater
                .inflate(&bytes, true, |name, value| {
                    read.push((name.to_vec(), value.to_vec()));
                })
                .unwrap();
            let expected = fields.map(|(name, value)| (name.into(), value.into()));
            assert_eq!(read, expected);
        }
        assert!(
            lengths[1] < lengths[0] && lengths[1] < lengths[2],
            "{lengths:?}"
        );
    }
}

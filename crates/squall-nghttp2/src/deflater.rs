//! HPACK (RFC 7541) by itself: the encoder of one direction's header sections.
//!
//! It knows no frames: whoever sends cuts what it gets into HEADERS and CONTINUATION frames. A session of nghttp2's has its
//! own encoder and does not need this; [`Inflater`](crate::Inflater) is the other direction.

use std::fmt;
use std::ptr::{self, NonNull};

use libnghttp2_sys as ffi;

use crate::error::Error;
use crate::headers::HeaderBlock;

/// The largest dynamic table that is used, however large the peer allows it: what nghttp2's own sessions use.
const MAX_TABLE_BYTES: usize = 4_096;

/// The encoder of one direction's header sections.
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

// SAFETY: the deflater has no state outside itself and no tie to a thread; this value alone owns it.
unsafe impl Send for Deflater {}

impl Deflater {
    /// An encoder with an empty dynamic table of 4,096 bytes at most.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new() -> Result<Deflater, Error> {
        let mut raw = ptr::null_mut();
        // SAFETY: the pointer to write to is valid during the call.
        Error::check(unsafe { ffi::nghttp2_hd_deflate_new(&raw mut raw, MAX_TABLE_BYTES) })?;
        let raw = NonNull::new(raw).ok_or(Error::Library(ffi::NGHTTP2_ERR_NOMEM))?;
        Ok(Deflater(raw))
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE. The next header section says what became of the table.
    ///
    /// # Errors
    /// There is no memory.
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
    /// There is no memory. The table is then unknown.
    pub fn deflate(&mut self, headers: &HeaderBlock, out: &mut Vec<u8>) -> Result<(), Error> {
        let start = out.len();
        // SAFETY: the deflater is alive; the fields are only read, up to their count.
        let bound = unsafe {
            ffi::nghttp2_hd_deflate_bound(self.0.as_ptr(), headers.as_ptr(), headers.len())
        };
        out.resize(start + bound, 0);
        // SAFETY: the deflater is alive, so many bytes can be written, and the fields are only read: what goes into the
        // dynamic table is copied.
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
        // SAFETY: the deflater is alive, and nobody else has it.
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
    fn what_comes_again_is_named_by_its_place() {
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

//! HPACK (RFC 7541) on its own: the decoder for the header sections of one direction. It also serves mere observers.
//!
//! It knows no frames and sends nothing: the caller splits HEADERS, PUSH_PROMISE and CONTINUATION frames into fragments. A
//! session has its own decoder and does not need this one.

use std::fmt;
use std::ptr::{self, NonNull};
use std::slice;

use libnghttp2_sys as ffi;

use crate::error::Error;

/// The largest dynamic table that an encoder may request here, whatever SETTINGS_HEADER_TABLE_SIZE was announced. Larger
/// requests are refused, so that a hostile peer cannot fill the memory. The default is 4,096 bytes, and no implementation
/// is known to announce more than 64 KiB.
pub const MAX_TABLE_BYTES: usize = 1 << 20;

/// SETTINGS_HEADER_TABLE_SIZE until it is announced (RFC 9113, section 6.5.2).
const INITIAL_TABLE_BYTES: u32 = 4_096;

/// The maximum number of fields in a header section: an indexed field takes one byte on the wire and may be 4 KiB decoded.
pub const MAX_SECTION_FIELDS: usize = 16_384;

/// The decoder for the header sections of one direction.
///
/// ```
/// use squall_nghttp2::Inflater;
///
/// let mut status = Vec::new();
/// let mut inflater = Inflater::new()?;
/// // RFC 7541, appendix A: index 8 is `:status: 200`.
/// inflater.inflate(&[0x88], true, |name, value| {
///     assert_eq!(name, b":status");
///     status.extend_from_slice(value);
/// })?;
/// assert_eq!(status, b"200");
/// # Ok::<(), squall_nghttp2::Error>(())
/// ```
pub struct Inflater {
    raw: NonNull<ffi::nghttp2_hd_inflater>,
    /// Fields decoded so far in the current section.
    fields: usize,
    failure: Option<Error>,
}

// SAFETY: the inflater has no state outside itself and is not tied to a thread; this value is its only owner.
unsafe impl Send for Inflater {}

impl Inflater {
    /// A decoder with an empty dynamic table of 4,096 bytes, which the encoder may resize up to [`MAX_TABLE_BYTES`].
    ///
    /// # Errors
    /// If memory runs out.
    pub fn new() -> Result<Inflater, Error> {
        let mut raw = ptr::null_mut();
        // SAFETY: the pointer to write to is valid during the call.
        Error::check(unsafe { ffi::nghttp2_hd_inflate_new(&raw mut raw) })?;
        let raw = NonNull::new(raw).ok_or(Error::Library(ffi::NGHTTP2_ERR_NOMEM))?;
        let inflater = Inflater {
            raw,
            fields: 0,
            failure: None,
        };
        // SAFETY: the inflater was just made and is between two header sections, where this call is allowed.
        Error::check(unsafe {
            ffi::nghttp2_hd_inflate_change_table_size(raw.as_ptr(), MAX_TABLE_BYTES)
        })?;
        Ok(inflater)
    }

    /// A decoder with an empty dynamic table of 4,096 bytes, for the endpoint that announces the table's size limit.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn of_endpoint() -> Result<Inflater, Error> {
        let mut inflater = Inflater::new()?;
        inflater.announce_table(INITIAL_TABLE_BYTES)?;
        Ok(inflater)
    }

    /// Applies a new limit for the dynamic table. Call it when the encoder has acknowledged our SETTINGS_HEADER_TABLE_SIZE
    /// (RFC 7541, section 4.2), and only between two header sections.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn announce_table(&mut self, bytes: u32) -> Result<(), Error> {
        // SAFETY: the inflater is alive, and the caller is between two header sections.
        Error::check(unsafe {
            ffi::nghttp2_hd_inflate_change_table_size(self.raw.as_ptr(), bytes as usize)
        })?;
        Ok(())
    }

    /// Decodes the next fragment of a header section, the last one if `is_final`, and calls `on_field` for each name and
    /// value that it completes.
    ///
    /// # Errors
    /// If the fragment is not valid HPACK, a field exceeds 64 KiB, or the section exceeds [`MAX_SECTION_FIELDS`] fields.
    /// The state of the table is then unknown, so every later call fails in the same way.
    pub fn inflate(
        &mut self,
        fragment: &[u8],
        is_final: bool,
        on_field: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Error> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.decode(fragment, is_final, on_field)
            .inspect_err(|&failure| self.failure = Some(failure))
    }

    fn decode(
        &mut self,
        mut fragment: &[u8],
        is_final: bool,
        mut on_field: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Error> {
        loop {
            let mut field = ffi::nghttp2_nv {
                name: ptr::null_mut(),
                value: ptr::null_mut(),
                namelen: 0,
                valuelen: 0,
                flags: 0,
            };
            let mut flags = 0;
            // SAFETY: the inflater is alive, `field` and `flags` are writable, and the fragment is only read, during the
            // call and up to its length.
            let used = Error::check_size(unsafe {
                ffi::nghttp2_hd_inflate_hd3(
                    self.raw.as_ptr(),
                    &raw mut field,
                    &raw mut flags,
                    fragment.as_ptr(),
                    fragment.len(),
                    i32::from(is_final),
                )
            })?;
            fragment = fragment.get(used..).unwrap_or(&[]);
            let flags = flags as ffi::nghttp2_hd_inflate_flag;
            if flags & ffi::NGHTTP2_HD_INFLATE_EMIT != 0 {
                self.fields += 1;
                if self.fields > MAX_SECTION_FIELDS {
                    return Err(Error::FLOODED);
                }
                // SAFETY: with this flag, nghttp2 has set name and value, which live until its next call. The lengths are
                // correct, and an empty text has a non-null pointer, because a NUL follows every text.
                let (name, value) = unsafe {
                    (
                        text(field.name, field.namelen),
                        text(field.value, field.valuelen),
                    )
                };
                on_field(name, value);
            }
            if flags & ffi::NGHTTP2_HD_INFLATE_FINAL != 0 {
                self.fields = 0;
                // SAFETY: the inflater is alive.
                Error::check(unsafe { ffi::nghttp2_hd_inflate_end_headers(self.raw.as_ptr()) })?;
                return Ok(());
            }
            if flags & ffi::NGHTTP2_HD_INFLATE_EMIT == 0 && fragment.is_empty() {
                return Ok(());
            }
        }
    }
}

/// The bytes of a name or value; empty for null, which nghttp2 may use for empty texts.
///
/// # Safety
/// Unless null, `start` must point to `len` bytes that live as long as the result is used.
unsafe fn text<'a>(start: *const u8, len: usize) -> &'a [u8] {
    if start.is_null() {
        return &[];
    }
    // SAFETY: promised by the caller.
    unsafe { slice::from_raw_parts(start, len) }
}

impl Drop for Inflater {
    fn drop(&mut self) {
        // SAFETY: the inflater is alive, and this value is its only owner.
        unsafe { ffi::nghttp2_hd_inflate_del(self.raw.as_ptr()) };
    }
}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflater")
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(inflater: &mut Inflater, pieces: &[&[u8]]) -> Result<Vec<String>, Error> {
        let mut fields = Vec::new();
        for (at, piece) in pieces.iter().enumerate() {
            inflater.inflate(piece, at + 1 == pieces.len(), |name, value| {
                let field = [name, b": ", value].concat();
                fields.push(String::from_utf8(field).unwrap());
            })?;
        }
        Ok(fields)
    }

    /// RFC 7541, appendix C.3.1 and C.3.2: the second request uses what the first one has put into the table.
    #[test]
    fn requests_from_the_rfc_decode_wherever_they_are_split() {
        let first = [&[0x82, 0x86, 0x84, 0x41, 0x0f][..], b"www.example.com"].concat();
        let second = [&[0x82, 0x86, 0x84, 0xbe, 0x58, 0x08][..], b"no-cache"].concat();
        let common = [
            ":method: GET",
            ":scheme: http",
            ":path: /",
            ":authority: www.example.com",
        ];
        for cut in 0..second.len() {
            let mut inflater = Inflater::new().unwrap();
            assert_eq!(section(&mut inflater, &[&first]).unwrap(), common);
            let (left, right) = second.split_at(cut);
            let fields = section(&mut inflater, &[left, right]).unwrap();
            assert_eq!(fields[..4], common);
            assert_eq!(fields[4..], ["cache-control: no-cache"]);
        }
    }

    #[test]
    fn invalid_hpack_makes_all_later_calls_fail() {
        let mut inflater = Inflater::new().unwrap();
        // Index 70, but the dynamic table is empty.
        let error = section(&mut inflater, &[&[0x80 | 70]]).unwrap_err();
        assert_eq!(section(&mut inflater, &[&[0x88]]), Err(error));
    }

    #[test]
    fn tables_and_sections_have_a_maximum_size() {
        // A dynamic table size update (RFC 7541, section 6.3) to 2^20, and to one more; then `:status: 200`.
        let update = |size: u32| {
            let mut bytes = vec![0x3f];
            let mut rest = size - 31;
            while rest >= 128 {
                bytes.push((rest % 128 + 128) as u8);
                rest /= 128;
            }
            bytes.push(rest as u8);
            bytes.push(0x88);
            bytes
        };
        let mut inflater = Inflater::new().unwrap();
        assert_eq!(
            section(&mut inflater, &[&update(1 << 20)]).unwrap(),
            [":status: 200"]
        );
        assert!(section(&mut Inflater::new().unwrap(), &[&update((1 << 20) + 1)]).is_err());
        let many = vec![0x88; MAX_SECTION_FIELDS + 1];
        let mut inflater = Inflater::new().unwrap();
        assert_eq!(section(&mut inflater, &[&many]), Err(Error::FLOODED));
        let mut inflater = Inflater::new().unwrap();
        assert_eq!(
            section(&mut inflater, &[&many[1..]]).unwrap().len(),
            MAX_SECTION_FIELDS
        );
    }
}

//! A header section in the form that nghttp2 takes, built once and shared by every message that sends it.
//!
//! Names and values are not checked here; nghttp2 sends what it is given.

use std::fmt;
use std::sync::Arc;

use libnghttp2_sys as ffi;

use crate::error::HeaderTooLong;

/// An immutable list of header fields.
pub struct HeaderBlock {
    /// Points into `_text`.
    fields: Box<[ffi::nghttp2_nv]>,
    /// The bytes of all names and values, end to end. Not a `Box`: moving one would assert that nothing
    /// else points into it.
    _text: Arc<[u8]>,
}

// SAFETY: the pointers lead into `_text`, which this value owns and which nobody changes after `new`:
// nghttp2 only reads it (it copies each field, as no NO_COPY flag is set).
unsafe impl Send for HeaderBlock {}
// SAFETY: as above; shared use is reading only.
unsafe impl Sync for HeaderBlock {}

impl HeaderBlock {
    /// The block of these names and values, in this order; pseudo-header fields must come first.
    pub fn new<'a>(
        fields: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<HeaderBlock, HeaderTooLong> {
        let fields: Vec<_> = fields.into_iter().collect();
        if fields
            .iter()
            .any(|(n, v)| n.len().max(v.len()) > i32::MAX as usize)
        {
            return Err(HeaderTooLong);
        }
        let text: Arc<[u8]> = fields
            .iter()
            .flat_map(|(name, value)| name.bytes().chain(value.bytes()))
            .collect();
        let mut rest: &[u8] = &text;
        let mut place = |len: usize| {
            let (here, after) = rest.split_at(len);
            rest = after;
            here.as_ptr().cast_mut()
        };
        let fields = fields
            .iter()
            .map(|(name, value)| ffi::nghttp2_nv {
                name: place(name.len()),
                value: place(value.len()),
                namelen: name.len(),
                valuelen: value.len(),
                flags: ffi::NGHTTP2_NV_FLAG_NONE as u8,
            })
            .collect();
        Ok(HeaderBlock {
            fields,
            _text: text,
        })
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// True if there is no field.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    pub(crate) fn as_ptr(&self) -> *const ffi::nghttp2_nv {
        self.fields.as_ptr()
    }
}

impl fmt::Debug for HeaderBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeaderBlock")
            .field("fields", &self.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_end_to_end_in_one_text() {
        let block = HeaderBlock::new([(":method", "GET"), ("empty", ""), ("a", "b")]).unwrap();
        let lengths: Vec<_> = block
            .fields
            .iter()
            .map(|f| (f.namelen, f.valuelen))
            .collect();
        assert_eq!(lengths, [(7, 3), (5, 0), (1, 1)]);
        assert_eq!(&*block._text, b":methodGETemptyab");
        assert!(HeaderBlock::new([]).unwrap().is_empty());
    }
}

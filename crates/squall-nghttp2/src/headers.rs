//! A header section in the form that nghttp2 takes, built once and shared by all messages that send it.
//!
//! Names and values are not checked here; nghttp2 sends whatever it is given.

use std::fmt;
use std::sync::Arc;

use libnghttp2_sys as ffi;

use crate::error::HeaderTooLong;

/// nghttp2 keeps pointers to the text until it has serialised it, rather than copying it.
const NOT_COPIED: u8 =
    (ffi::NGHTTP2_NV_FLAG_NO_COPY_NAME | ffi::NGHTTP2_NV_FLAG_NO_COPY_VALUE) as u8;

/// The field is sent literally each time and not added to the dynamic table.
const NOT_INDEXED: u8 = ffi::NGHTTP2_NV_FLAG_NO_INDEX as u8;

/// An immutable list of header fields; cloning it copies only a handle.
#[derive(Clone)]
pub struct HeaderBlock(Arc<Block>);

struct Block {
    /// Points into `text`.
    fields: Vec<ffi::nghttp2_nv>,
    /// The bytes of all names and values, end to end. Not a `Box`, because moving a `Box` would assert that nothing else
    /// points into it.
    text: Vec<u8>,
}

// SAFETY: the pointers point into `text`, which this value owns and which never changes after `new`. nghttp2 only reads it,
// and a session with a queued message keeps a handle.
unsafe impl Send for Block {}
// SAFETY: as above; shared use only reads.
unsafe impl Sync for Block {}

impl HeaderBlock {
    /// A block of these names, which must be in lower case, and values, in this order; pseudo-header fields must come
    /// first.
    pub fn new<'a>(
        fields: impl IntoIterator<Item = (&'a str, &'a str), IntoIter: Clone>,
    ) -> Result<HeaderBlock, HeaderTooLong> {
        let as_bytes = |(name, value): (&'a str, &'a str)| (name.as_bytes(), value.as_bytes());
        HeaderBlock::of_bytes(fields.into_iter().map(as_bytes), |_| false)
    }

    /// As [`HeaderBlock::new`], for names and values that need not be UTF-8, such as those of forwarded messages.
    /// `is_unique` selects fields whose value differs in each message. They are kept out of the peer's dynamic table, where
    /// they would evict fields that recur (RFC 7541, section 6.2.3).
    pub fn of_bytes<'a>(
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
        is_unique: impl Fn(&[u8]) -> bool,
    ) -> Result<HeaderBlock, HeaderTooLong> {
        let (mut count, mut len) = (0, 0);
        for (name, value) in fields.clone() {
            if name.len().max(value.len()) > i32::MAX as usize {
                return Err(HeaderTooLong);
            }
            count += 1;
            len += name.len() + value.len();
        }
        let mut text = Vec::with_capacity(len);
        for (name, value) in fields.clone() {
            text.extend_from_slice(name);
            text.extend_from_slice(value);
        }
        let mut rest: &[u8] = &text;
        let mut place = |len: usize| {
            let (here, after) = rest.split_at(len);
            rest = after;
            here.as_ptr().cast_mut()
        };
        let mut entries = Vec::with_capacity(count);
        entries.extend(fields.map(|(name, value)| ffi::nghttp2_nv {
            name: place(name.len()),
            value: place(value.len()),
            namelen: name.len(),
            valuelen: value.len(),
            flags: if is_unique(name) {
                NOT_COPIED | NOT_INDEXED
            } else {
                NOT_COPIED
            },
        }));
        Ok(HeaderBlock(Arc::new(Block {
            fields: entries,
            text,
        })))
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        self.0.fields.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.0.fields.is_empty()
    }

    /// The names and values, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest: &[u8] = &self.0.text;
        let mut take = move |len: usize| {
            let (here, after) = rest.split_at(len);
            rest = after;
            here
        };
        (self.0.fields.iter()).map(move |field| (take(field.namelen), take(field.valuelen)))
    }

    /// Whether both are handles to the same list.
    pub fn is_same(&self, other: &HeaderBlock) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn as_ptr(&self) -> *const ffi::nghttp2_nv {
        self.0.fields.as_ptr()
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
    fn fields_are_stored_end_to_end_in_one_buffer() {
        let block = HeaderBlock::new([(":method", "GET"), ("empty", ""), ("a", "b")]).unwrap();
        let lengths: Vec<_> = block
            .0
            .fields
            .iter()
            .map(|f| (f.namelen, f.valuelen))
            .collect();
        assert_eq!(lengths, [(7, 3), (5, 0), (1, 1)]);
        assert_eq!(block.0.text, b":methodGETemptyab");
        let fields: Vec<(&[u8], &[u8])> = block.fields().collect();
        assert_eq!(
            fields,
            [
                (&b":method"[..], &b"GET"[..]),
                (b"empty", b""),
                (b"a", b"b")
            ]
        );
        assert!(HeaderBlock::new([]).unwrap().is_empty());
    }
}

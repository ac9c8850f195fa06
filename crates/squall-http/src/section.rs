//! A header section being read. All its fields share one allocation, because allocating twice per field costs a proxy
//! more than reading the field.
//!
//! Nothing is checked here; the engines do that, before or after.

use bytes::Bytes;

use crate::event::Field;

/// Spare capacity for the fields a caller adds to a section it forwards (`via`, ids, a length), so the `Vec` does not
/// grow.
const ROOM_FOR_MORE: usize = 4;

/// Builds a section from all its fields at once and lowercases their names.
pub(crate) fn build_section<'a>(
    pairs: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
) -> Vec<Field> {
    let (mut count, mut len) = (0, 0);
    for (name, value) in pairs.clone() {
        count += 1;
        len += name.len() + value.len();
    }
    let mut text = Vec::with_capacity(len);
    for (name, value) in pairs.clone() {
        let at = text.len();
        add(&mut text, name, value);
        text[at..at + name.len()].make_ascii_lowercase();
    }
    let lengths = pairs.map(|(name, value)| (name.len(), value.len()));
    split(Bytes::from(text), count, lengths)
}

fn add(text: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    text.extend_from_slice(name);
    text.extend_from_slice(value);
}

fn split(
    mut text: Bytes,
    count: usize,
    lengths: impl Iterator<Item = (usize, usize)>,
) -> Vec<Field> {
    let mut fields = Vec::with_capacity(count + ROOM_FOR_MORE);
    fields.extend(lengths.map(|(name, value)| Field {
        name: text.split_to(name),
        value: text.split_to(value),
    }));
    fields
}

/// The fields of a section received so far.
#[derive(Debug, Default)]
pub(crate) struct Section {
    text: Vec<u8>,
    /// Lengths of each name and value.
    lengths: Vec<(usize, usize)>,
}

impl Section {
    /// Adds a field; its name must be in lower case.
    pub(crate) fn push(&mut self, name: &[u8], value: &[u8]) {
        add(&mut self.text, name, value);
        self.lengths.push((name.len(), value.len()));
    }

    /// Discards all fields.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.lengths.clear();
    }

    /// Takes all fields and keeps the buffers for the next section.
    pub(crate) fn take(&mut self) -> Vec<Field> {
        if self.lengths.is_empty() {
            return Vec::new();
        }
        let text = Bytes::copy_from_slice(&self.text);
        self.text.clear();
        split(text, self.lengths.len(), self.lengths.drain(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_taken_once_and_in_order() {
        let mut section = Section::default();
        for _ in 0..2 {
            section.push(b"x-a", b"1 A");
            section.push(b"b", b"");
            let fields = [Field::new("x-a", "1 A"), Field::new("b", "")];
            assert_eq!(section.take(), fields);
            assert_eq!(section.take(), []);
        }
        section.push(b"c", b"d");
        section.clear();
        assert_eq!(section.take(), []);
    }

    #[test]
    fn field_names_are_converted_to_lower_case() {
        let pairs = [(&b"X-A"[..], &b"1 A"[..]), (b"b", b"")];
        let fields = [Field::new("x-a", "1 A"), Field::new("b", "")];
        assert_eq!(build_section(pairs.into_iter()), fields);
    }
}

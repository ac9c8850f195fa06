//! Which bytes of a connection's stream belong to a message, be it a request or a response.
//!
//! Without encryption they are those of HTTP. Over TLS they are those of the records; the extents of all exchanges of a
//! connection together show where each plaintext byte lies. HTTP/2 messages may be interleaved, and then the frames tell
//! them apart. Packets are not examined here.

use std::ops::Deref;

use squall_base::record::Extent;

use super::walk::Span;

/// Bytes `[from, to)` of a direction's stream.
pub(super) type Bytes = Span;

/// Sorted ranges of bytes; usually there is only one, which takes no allocation.
#[derive(Clone, Debug)]
pub(super) enum Ranges {
    One(Bytes),
    Several(Vec<Bytes>),
}

impl Default for Ranges {
    fn default() -> Ranges {
        Ranges::Several(Vec::new())
    }
}

impl Deref for Ranges {
    type Target = [Bytes];

    fn deref(&self) -> &[Bytes] {
        match self {
            Ranges::One(range) => std::slice::from_ref(range),
            Ranges::Several(ranges) => ranges,
        }
    }
}

impl PartialEq for Ranges {
    fn eq(&self, other: &Ranges) -> bool {
        **self == **other
    }
}

impl Eq for Ranges {}

impl FromIterator<Bytes> for Ranges {
    fn from_iter<I: IntoIterator<Item = Bytes>>(ranges: I) -> Ranges {
        let mut ranges = ranges.into_iter();
        match (ranges.next(), ranges.next()) {
            (None, _) => Ranges::default(),
            (Some(one), None) => Ranges::One(one),
            (Some(one), Some(other)) => {
                Ranges::Several([one, other].into_iter().chain(ranges).collect())
            }
        }
    }
}

/// A message on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    /// Its own bytes, in order; at least one range, none of them empty.
    pub(super) own: Ranges,
    /// One past the last byte that must arrive before the message's last byte can be read: the end of its TLS record.
    pub(super) needed: u64,
    /// Whether more of it was to come, of unknown length.
    pub(super) is_open: bool,
}

impl Message {
    /// A message of all bytes in `[from, to)`.
    pub(super) fn whole(from: u64, to: u64) -> Option<Message> {
        (from < to).then_some(Message {
            own: Ranges::One(Span { from, to }),
            needed: to,
            is_open: false,
        })
    }

    /// The same message, still open for more unless these bytes are all of it.
    pub(super) fn open_unless(self, is_all: bool) -> Message {
        Message {
            is_open: !is_all,
            ..self
        }
    }

    /// A message that consists of these ranges; empty ones are left out.
    fn of(own: impl IntoIterator<Item = Bytes>, needed: u64) -> Option<Message> {
        let own: Ranges = own.into_iter().filter(|b| b.from < b.to).collect();
        let end = own.last()?.to;
        Some(Message {
            own,
            needed: needed.max(end),
            is_open: false,
        })
    }

    /// Its first `bytes` bytes, for a reader that needs no more; at most its first range.
    pub(super) fn head(&self, bytes: u64) -> Option<Message> {
        let first = self.own.first()?;
        let to = first.to.min(first.from.saturating_add(bytes.max(1)));
        Message::whole(first.from, to)
    }

    pub(super) fn start(&self) -> u64 {
        self.own.first().map_or(0, |first| first.from)
    }

    pub(super) fn end(&self) -> u64 {
        self.own.last().map_or(0, |last| last.to)
    }

    pub(super) fn owns_any(&self, start: u64, end: u64) -> bool {
        let from = self.own.partition_point(|range| range.to <= start);
        self.own.get(from).is_some_and(|range| range.from < end)
    }
}

/// How plaintext is mapped to records on one direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RecordLayout {
    /// Where the first record with application data would begin if it had no header: the length of the handshake.
    base: u64,
    /// What each record adds to its plaintext.
    overhead: u64,
    /// The part of `overhead` that follows the plaintext.
    behind: u64,
}

/// Header, content type and tag of TLS 1.3 (RFC 8446, section 5.2); explicit nonce and tag of AES-GCM in TLS 1.2 (RFC 5288,
/// section 3); ChaCha20-Poly1305 in TLS 1.2 (RFC 7905, section 2). Each with the part that follows the plaintext.
const OVERHEADS: [(u64, u64); 3] = [(22, 17), (29, 16), (21, 16)];

impl RecordLayout {
    /// The only mapping that agrees with all these extents; `None` if none or several do.
    fn of(extents: &[Extent]) -> Option<RecordLayout> {
        let mut fitting = OVERHEADS.into_iter().filter_map(|(overhead, behind)| {
            let base = base(extents, overhead)?;
            Some(RecordLayout {
                base,
                overhead,
                behind,
            })
        });
        let found = fitting.next();
        // With a single record, several overheads fit, because it does not show how long a header is.
        found.filter(|_| fitting.next().is_none())
    }

    /// Where the byte at plaintext offset `plain` of record `record` lies on the wire.
    fn wire(&self, plain: u64, record: u64) -> u64 {
        let records = record.saturating_mul(self.overhead);
        let before = self.overhead - self.behind;
        let headers = self.base.saturating_add(records).saturating_add(before);
        headers.saturating_add(plain)
    }
}

/// Where the first record begins, if each record has this overhead. A message begins at or after the beginning of its first
/// record and ends at or before the end of its last record, so each extent bounds it from both sides.
fn base(extents: &[Extent], overhead: u64) -> Option<u64> {
    let (mut low, mut high) = (0_i128, i128::MAX);
    for extent in extents {
        let (Some(wire_start), Some(wire_end)) = (extent.wire_start, extent.wire_end) else {
            continue;
        };
        let (Some(first), Some(last)) = (extent.record_first, extent.record_last) else {
            continue;
        };
        let of = |wire: u64, records: i128, plain: u64| {
            i128::from(wire) - records * i128::from(overhead) - i128::from(plain)
        };
        low = low.max(of(wire_start, i128::from(first), extent.start));
        high = high.min(of(wire_end, i128::from(last) + 1, extent.end));
    }
    (low == high).then(|| u64::try_from(low).ok()).flatten()
}

/// A plaintext offset that is known to lie in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Anchor {
    plain: u64,
    record: u64,
    /// Where the record begins or ends on the wire.
    wire: u64,
}

/// The mapping of one direction's messages to the wire.
#[derive(Debug, Default)]
pub(super) struct WireMapping {
    records: Option<RecordLayout>,
    /// Sorted; empty without encryption.
    anchors: Vec<Anchor>,
}

impl WireMapping {
    /// Derives the mapping from the extents of a direction's messages.
    pub(super) fn of(extents: &[Extent]) -> WireMapping {
        let mut anchors = Vec::new();
        for extent in extents {
            let ends = [
                (extent.start, extent.record_first, extent.wire_start),
                (extent.end, extent.record_last, extent.wire_end),
            ];
            anchors.extend(ends.into_iter().filter_map(|(plain, record, wire)| {
                Some(Anchor {
                    plain,
                    record: record?,
                    wire: wire?,
                })
            }));
        }
        anchors.sort_unstable();
        WireMapping {
            records: RecordLayout::of(extents),
            anchors,
        }
    }

    /// Where a plaintext offset lies. It is exact if the anchor before it is in the same record; otherwise it is off by the
    /// headers of the records between them.
    fn approximate_offset(&self, plain: u64) -> u64 {
        let after = self.anchors.partition_point(|anchor| anchor.plain <= plain);
        let Some(anchor) = self.anchors.get(after.saturating_sub(1)) else {
            return plain;
        };
        match self.records {
            Some(records) => records.wire(plain, anchor.record),
            None => anchor
                .wire
                .saturating_add(plain)
                .saturating_sub(anchor.plain),
        }
    }

    /// The message with this extent. `frames` are its frames in plaintext offsets; without frames it is in one piece.
    pub(super) fn message(&self, extent: &Extent, frames: &[Bytes]) -> Option<Message> {
        let (wire_start, wire_end) = (extent.wire_start?, extent.wire_end?);
        let (Some(first), Some(last)) = (extent.record_first, extent.record_last) else {
            let whole = [Span::new(wire_start, wire_end)];
            let own = if frames.is_empty() { &whole } else { frames };
            return Message::of(own.iter().copied(), wire_end);
        };
        let (start, end) = match self.records {
            Some(records) => {
                let begin = records.wire(extent.start, first);
                let end = records.wire(extent.end, last);
                // A record that ends with the message belongs to it completely, including the tag.
                let is_last = end.saturating_add(records.behind) == wire_end;
                (begin, if is_last { wire_end } else { end })
            }
            None => (wire_start, wire_end),
        };
        let within = self.within(frames, start, end);
        Message::of(within, wire_end)
    }

    /// Where the frames lie between `start` and `end`, which are the first byte of the first frame and the end of the last
    /// one; everything between if they cannot be told apart. An extent that ends before it starts, as a damaged or foreign
    /// record may have, has no bytes.
    fn within(&self, frames: &[Bytes], start: u64, end: u64) -> Vec<Bytes> {
        let whole = vec![Span::new(start, end)];
        let [_, _, ..] = frames else { return whole };
        if start > end {
            return Vec::new();
        }
        let mut own: Vec<Bytes> = Vec::with_capacity(frames.len());
        let near = |plain: u64| self.approximate_offset(plain);
        let (mut at, last) = (start, frames.len() - 1);
        for (n, frame) in frames.iter().enumerate() {
            let from = if n == 0 { start } else { near(frame.from) };
            let to = if n == last { end } else { near(frame.to) };
            let from = from.clamp(at, end);
            at = to.clamp(from, end);
            if from < at {
                own.push(Span { from, to: at });
            }
        }
        if own.is_empty() { whole } else { own }
    }

    /// Whether nothing is known about where records lie.
    pub(super) fn is_bare(&self) -> bool {
        self.anchors.is_empty()
    }

    /// The message of these frames, whose extent is not known because it never ended. Over TLS its bounds are off by a
    /// few record headers.
    pub(super) fn unfinished(&self, frames: &[Bytes]) -> Option<Message> {
        let near = |at: u64| self.approximate_offset(at);
        let own = frames
            .iter()
            .map(|bytes| Span::new(near(bytes.from), near(bytes.to)));
        Message::of(own, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(
        (start, end): (u64, u64),
        (wire_start, wire_end): (u64, u64),
        (first, last): (u64, u64),
    ) -> Extent {
        Extent {
            start,
            end,
            wire_start: Some(wire_start),
            wire_end: Some(wire_end),
            record_first: Some(first),
            record_last: Some(last),
        }
    }

    // TLS 1.3, after 1,000 bytes of handshake. Record 0 holds plaintext 0..300 of two messages, record 1 the rest of the
    // second.
    #[test]
    fn a_message_is_found_within_a_record() {
        let first = extent((0, 100), (1_000, 1_322), (0, 0));
        let second = extent((100, 400), (1_000, 1_444), (0, 1));
        let wire = WireMapping::of(&[first, second]);
        let message = wire.message(&first, &[]).expect("it has bytes");
        assert_eq!(
            message,
            Message {
                own: Ranges::One(Span::new(1_005, 1_105)),
                needed: 1_322,
                is_open: false,
            }
        );
        let message = wire.message(&second, &[]).expect("it has bytes");
        assert_eq!(*message.own, [Span::new(1_105, 1_444)]);
        assert_eq!(message.needed, 1_444);
    }

    #[test]
    fn a_message_owns_whole_records_if_the_record_layout_is_unknown() {
        let alone = extent((100, 200), (1_000, 1_322), (0, 0));
        let wire = WireMapping::of(&[alone]);
        assert_eq!(wire.records, None);
        let message = wire.message(&alone, &[]).expect("it has bytes");
        assert_eq!((message.start(), message.end()), (1_000, 1_322));
    }

    #[test]
    fn frames_separate_messages_without_encryption() {
        let clear = squall_made::in_cleartext(50, 300);
        let frames = [Span { from: 50, to: 100 }, Span { from: 200, to: 300 }];
        let message = WireMapping::default()
            .message(&clear, &frames)
            .expect("bytes");
        assert_eq!(*message.own, frames);
        assert!(message.owns_any(90, 150) && message.owns_any(150, 201));
        assert!(!message.owns_any(100, 200) && !message.owns_any(300, 400));
    }

    // Two interleaved messages, of which the damaged one ends before it starts.
    #[test]
    fn an_extent_that_ends_before_it_starts_has_no_bytes() {
        let frames = [Span { from: 0, to: 50 }, Span { from: 60, to: 100 }];
        let sound = extent((0, 100), (1_000, 1_322), (0, 0));
        let wire_backwards = extent((0, 100), (1_322, 1_000), (0, 0));
        let records_backwards = extent((0, 100), (1_000, 1_322), (9, 0));
        let plain_backwards = extent((100, 0), (1_322, 1_000), (0, 0));
        for contradictory in [wire_backwards, records_backwards, plain_backwards] {
            for extents in [&[contradictory][..], &[sound, contradictory]] {
                let wire = WireMapping::of(extents);
                for frames in [&frames[..], &frames[..1], &[]] {
                    let message = wire.message(&contradictory, frames);
                    let own = message.map(|message| message.own).unwrap_or_default();
                    assert!(own.iter().all(|range| range.from < range.to));
                }
            }
        }
        let wire = WireMapping::of(&[wire_backwards]);
        assert_eq!(wire.message(&wire_backwards, &frames), None);
    }
}

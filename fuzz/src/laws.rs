//! Laws that the events of a client's connection obey, regardless of what the peer is and sends.

use std::collections::BTreeSet;

use squall_http::{ClientEvent, StreamId};

/// Returns how many exchanges have ended. Each ends once, and after that only marks of its request may follow, which
/// may have been in flight (`ClientEvent`).
pub fn ended(events: &[ClientEvent]) -> usize {
    let mut over: BTreeSet<StreamId> = BTreeSet::new();
    for event in events {
        let (stream, is_end) = match event {
            ClientEvent::ResponseFirstByte { stream, .. }
            | ClientEvent::Interim { stream, .. }
            | ClientEvent::ResponseHeaders { stream, .. }
            | ClientEvent::ResponseBody { stream, .. } => (stream, false),
            ClientEvent::ResponseEnd { stream, .. }
            | ClientEvent::StreamReset { stream, .. }
            | ClientEvent::ResponseRefused { stream, .. }
            | ClientEvent::RequestRefused { stream } => (stream, true),
            // The exchange continues under a new id, and its old id may be reused.
            ClientEvent::Switched { .. } => {
                assert!(over.is_empty(), "what has ended goes on: {events:?}");
                continue;
            }
            ClientEvent::RequestFirstByteWritten { .. }
            | ClientEvent::RequestWritten { .. }
            | ClientEvent::GoAway { .. } => continue,
        };
        assert!(
            !over.contains(stream),
            "{event:?} after the end: {events:?}"
        );
        if is_end {
            over.insert(*stream);
        }
    }
    over.len()
}

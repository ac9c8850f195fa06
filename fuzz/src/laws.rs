//! What the events of a client's connection keep to, whoever the peer is and whatever it sends.

use std::collections::BTreeSet;

use squall_http::{ClientEvent, StreamId};

/// How many exchanges have ended: each ends once, and of what has ended nothing follows but marks of its request, which may
/// have been under way (`ClientEvent`).
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
            // The exchange goes on, and what it was called may be another's name.
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

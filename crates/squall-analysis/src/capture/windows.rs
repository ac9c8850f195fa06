//! The frames of a connection in the order in which its ends sent and received them, with HTTP/2's windows as they were there.
//!
//! At the point, a window update passes half a round trip before its receiver has it, and data passes half a round trip
//! after its sender sent it. A window that was exhausted at the sender therefore never looks exhausted at the point. So each
//! frame's change to its window, compared with the row before, is re-applied in the order of the ends. QUIC's windows are
//! limits carried in the frames; they need only the order.

use std::collections::BTreeMap;

use squall_base::record::{FrameLayer, FrameRecord, Side};

use crate::wire::has_own_windows;
use crate::wire::http2::{DATA, WINDOW_UPDATE};

/// Whose window: the side that sends data under it, and the stream; `None` for the connection.
type WindowKey = (Side, Option<u64>);

/// Sorts the frames of one connection, which come in the order in which they were seen, by their times.
pub(super) fn reorder(frames: &mut [FrameRecord]) {
    let mut windows: BTreeMap<WindowKey, Window> = BTreeMap::new();
    let mut changes: Vec<[Option<i64>; 2]> = Vec::with_capacity(frames.len());
    for row in frames.iter() {
        changes.push(each_window(row, |key, seen| {
            windows
                .entry(key)
                .or_default()
                .change(seen, window_change(row))
        }));
    }
    let mut order: Vec<usize> = (0..frames.len()).collect();
    order.sort_by_key(|&place| frames[place].time);
    let sorted: Vec<FrameRecord> = order
        .into_iter()
        .map(|place| {
            let mut row = frames[place];
            let [connection, stream] = changes[place];
            for (window, changed, key) in [
                (&mut row.frame.connection_window, connection, None),
                (&mut row.frame.stream_window, stream, row.frame.stream),
            ] {
                let known = windows.get_mut(&(sender(&frames[place]), key));
                if let (Some(changed), Some(known)) = (changed, known) {
                    known.now += changed;
                    *window = Some(known.now);
                }
            }
            row
        })
        .collect();
    frames.copy_from_slice(&sorted);
}

/// Calls `on_window` with each window that a row reports and its value: the connection's, and the stream's.
fn each_window(
    row: &FrameRecord,
    mut on_window: impl FnMut(WindowKey, i64) -> i64,
) -> [Option<i64>; 2] {
    if row.frame.layer != FrameLayer::Http2 {
        return [None; 2];
    }
    let side = sender(row);
    let connection = row.frame.connection_window;
    let stream = row.frame.stream_window.zip(row.frame.stream);
    [
        connection.map(|seen| on_window((side, None), seen)),
        stream.map(|(seen, stream)| on_window((side, Some(stream)), seen)),
    ]
}

/// The side that sends the data which a row's windows limit.
fn sender(row: &FrameRecord) -> Side {
    if has_own_windows(&row.frame) {
        row.side
    } else {
        row.side.peer()
    }
}

/// How much a frame by itself changes its window.
fn window_change(row: &FrameRecord) -> i64 {
    let of_frame = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    match row.frame.kind {
        DATA => -of_frame(row.frame.length),
        WINDOW_UPDATE => of_frame(row.frame.value.unwrap_or(0)),
        _ => 0,
    }
}

#[derive(Default)]
struct Window {
    /// What the last row reported.
    seen: Option<i64>,
    /// Its value in the order of the ends.
    now: i64,
}

impl Window {
    /// How much the window changed since the last row, including by anything other than this row's frame.
    fn change(&mut self, seen: i64, own: i64) -> i64 {
        let Some(before) = self.seen.replace(seen) else {
            self.now = seen.saturating_sub(own);
            return own;
        };
        seen.saturating_sub(before)
    }
}

#[cfg(test)]
mod tests {
    use squall_base::Time;
    use squall_base::record::{FrameFacts, Way};

    use super::*;

    fn row(time: u64, way: Way, kind: u64, number: u64, window: i64) -> FrameRecord {
        let length = if kind == DATA { number } else { 4 };
        let facts = FrameFacts {
            stream: Some(0),
            value: (kind == WINDOW_UPDATE).then_some(number),
            connection_window: Some(window),
            ..FrameFacts::new(way, FrameLayer::Http2, kind, length)
        };
        squall_made::frame(Time::from_nanos(time), Side::Server, facts)
    }

    #[test]
    fn a_window_exhausted_at_its_sender_is_exhausted_after_reordering() {
        // Seen: data, an update, data. The sender sent both before the update came.
        let mut frames = [
            row(10, Way::Sent, DATA, 60, 40),
            row(40, Way::Received, WINDOW_UPDATE, 100, 140),
            row(20, Way::Sent, DATA, 40, 100),
        ];
        reorder(&mut frames);
        let found: Vec<(u64, Option<i64>)> = frames
            .iter()
            .map(|row| (row.time.as_nanos(), row.frame.connection_window))
            .collect();
        assert_eq!(found, [(10, Some(40)), (20, Some(0)), (40, Some(100))]);
    }

    #[test]
    fn frames_already_in_order_stay_unchanged() {
        let mut frames = [
            row(10, Way::Sent, DATA, 60, 40),
            row(20, Way::Sent, DATA, 40, 0),
            row(40, Way::Received, WINDOW_UPDATE, 100, 100),
        ];
        let before = frames;
        reorder(&mut frames);
        assert_eq!(frames, before);
    }
}

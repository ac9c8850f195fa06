//! The windows that a server announces for uploads over HTTP/2, before any upload. They are known even of a server that
//! answers no request.
//!
//! What an upload really gets is in `windows`.

use serde::Serialize;
use squall_base::plan::Version;
use squall_base::record::{FrameFacts, FrameLayer, Way};

use super::observed::{Observations, Step, StepKind};
use crate::wire::http2::{ACK, INITIAL_WINDOW_SIZE, SETTINGS, WINDOW_UPDATE};

/// The size of both windows unless the server says otherwise (RFC 9113, section 6.9.2).
const INITIAL_WINDOW: u64 = 65_535;

/// What an upload may send before the server has received any of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AnnouncedWindows {
    /// On a stream, in bytes: SETTINGS_INITIAL_WINDOW_SIZE.
    pub stream_bytes: u64,
    /// On the connection, in bytes: the protocol's initial window and all WINDOW_UPDATE frames that came without any DATA.
    pub connection_bytes: u64,
}

impl AnnouncedWindows {
    /// The windows of the first connection over HTTP/2 on which SETTINGS arrived. Only requests without a body count.
    pub(super) fn of(seen: &Observations) -> Option<AnnouncedWindows> {
        let small = seen.steps_of(StepKind::Small, Version::Http2);
        let mut steps = small.chain(seen.unanswered_over(Version::Http2));
        steps.find_map(AnnouncedWindows::of_step)
    }

    fn of_step(step: &Step) -> Option<AnnouncedWindows> {
        let received = || {
            let frames = step
                .frames
                .iter()
                .map(|record| (record.connection, &record.frame));
            frames
                .filter(|(_, frame)| frame.layer == FrameLayer::Http2 && frame.way == Way::Received)
        };
        let is_settings = |frame: &FrameFacts| frame.kind == SETTINGS && frame.flags & ACK == 0;
        let (first, _) = received().find(|(_, frame)| is_settings(frame))?;
        let increments = received()
            .filter(|(connection, frame)| {
                *connection == first && frame.kind == WINDOW_UPDATE && frame.stream == Some(0)
            })
            .filter_map(|(_, frame)| frame.value);
        // If there are several values, the last one counts.
        let mut settings = step.settings.iter().rev();
        let window = settings.find(|(id, _)| *id == INITIAL_WINDOW_SIZE);
        Some(AnnouncedWindows {
            stream_bytes: window.map_or(INITIAL_WINDOW, |(_, value)| *value),
            connection_bytes: increments.fold(INITIAL_WINDOW, u64::saturating_add),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::{facts, frame, healthy, ms, step, update};
    use super::super::{Diagnosis, Fault};
    use super::*;

    fn settings(flags: u8) -> FrameFacts {
        FrameFacts {
            flags,
            ..facts(Way::Received, SETTINGS, 0)
        }
    }

    /// A server that resets the only stream, as a gRPC server does with a GET.
    fn unanswered(values: &[(u64, u64)]) -> Observations {
        let mut made = step(StepKind::Small, Version::Http2);
        made.settings = values.to_vec();
        made.frames = vec![frame(1_000, settings(0)), frame(1_100, settings(ACK))];
        Observations {
            url: "https://server/".to_owned(),
            failures: vec![(
                Version::Http2,
                "the server reset the stream with code 1".to_owned(),
            )],
            unanswered: vec![made],
            ..Observations::default()
        }
    }

    #[test]
    fn settings_and_windows_of_a_server_that_does_not_answer_are_kept() {
        let mut seen = unanswered(&[(INITIAL_WINDOW_SIZE, 1 << 20), (0x3, 7)]);
        let increment = 4_128_769;
        let frames = &mut seen.unanswered[0].frames;
        frames.push(update(1_050, 0, 65_535 + increment, increment));
        let diagnosis = Diagnosis::of(&seen);
        assert_eq!(diagnosis.faults[0].fault, Fault::NoAnswer);
        let endpoint = diagnosis.endpoint;
        assert_eq!(endpoint.settings["MAX_CONCURRENT_STREAMS"], 7);
        let windows = endpoint.announced_windows.expect("they were announced");
        assert_eq!(windows.stream_bytes, 1 << 20);
        assert_eq!(windows.connection_bytes, 4_194_304);
    }

    #[test]
    fn settings_of_http3_have_their_own_names() {
        let mut seen = unanswered(&[(0x3, 7)]);
        let mut made = step(StepKind::Small, Version::Http3);
        made.settings = vec![(0x1, 4_096), (0x6, 65_536), (0x33, 1), (0x1234, 5)];
        seen.steps.push(made);
        let endpoint = Diagnosis::of(&seen).endpoint;
        let names: Vec<&str> = endpoint.http3_settings.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "0x1234",
                "H3_DATAGRAM",
                "MAX_FIELD_SECTION_SIZE",
                "QPACK_MAX_TABLE_CAPACITY"
            ]
        );
        assert_eq!(endpoint.http3_settings["MAX_FIELD_SECTION_SIZE"], 65_536);
        // The settings of HTTP/2 are not mixed with these.
        assert_eq!(endpoint.settings["MAX_CONCURRENT_STREAMS"], 7);
        assert_eq!(endpoint.settings.len(), 1);
    }

    #[test]
    fn windows_without_settings_are_those_of_the_protocol() {
        let windows = AnnouncedWindows::of(&unanswered(&[])).expect("there were SETTINGS");
        assert_eq!(windows.stream_bytes, INITIAL_WINDOW);
        assert_eq!(windows.connection_bytes, INITIAL_WINDOW);
    }

    #[test]
    fn silent_server_announces_no_window() {
        let mut seen = unanswered(&[]);
        seen.unanswered[0].frames.clear();
        assert_eq!(AnnouncedWindows::of(&seen), None);
        assert_eq!(AnnouncedWindows::of(&healthy(ms(30))), None);
    }
}

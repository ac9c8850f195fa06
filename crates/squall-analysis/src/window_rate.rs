//! What flow control allows a transfer: one window per round trip, a prediction to compare with a measured throughput.
//!
//! It follows from the settings of the receiver across the link, so it is known only if the receiver is squall's own. It is
//! an upper bound: it ignores the link's rate and the congestion window. Whether the window really stopped a trial is seen
//! in its frames: `findings::stream_window`.

use serde::{Deserialize, Serialize};
use squall_base::Duration;
use squall_base::plan::{Hop, Implementation, Unit, Variant, Version, WindowUpdates};
use squall_base::record::{Phase, RequestRecord, TrialRecord};

use crate::figure;
use crate::value::format_value;

/// The highest throughput that flow control allows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowRate {
    /// Bytes that may be sent without an update: the smaller of the stream's and the connection's window.
    pub window_bytes: u64,
    /// Two delays of the link, without queues.
    #[serde(rename = "round_trip_ns", alias = "round_trip")]
    pub round_trip: Duration,
    /// One window per round trip.
    pub at_most_bytes_per_s: f64,
}

impl WindowRate {
    /// The rate of a window; `None` if the round trip takes no time.
    pub fn of(window_bytes: u64, round_trip: Duration) -> Option<WindowRate> {
        let seconds = round_trip.as_secs_f64();
        (seconds > 0.0).then(|| WindowRate {
            window_bytes,
            round_trip,
            at_most_bytes_per_s: window_bytes as f64 / seconds,
        })
    }

    /// The rate for a trial: on a path of several links, the lowest of theirs. `None` if no body is longer than the window,
    /// or the window is unknown.
    pub(crate) fn of_trial(record: &TrialRecord, requests: &[RequestRecord]) -> Option<WindowRate> {
        let measured = || requests.iter().filter(|row| row.phase == Phase::Measure);
        let up = measured().map(|row| row.request_body_bytes).max()?;
        let down = measured().map(|row| row.response_body_bytes).max()?;
        let trial = &record.trial;
        let variant = &trial.variant;
        let rates = variant.link_hops().filter_map(|(number, hop)| {
            let window = window(variant, number, hop, up > down)?;
            let rate = WindowRate::of(window, trial.link_round_trip(number));
            rate.filter(|_| up.max(down) > window)
        });
        rates.min_by(|a, b| a.at_most_bytes_per_s.total_cmp(&b.at_most_bytes_per_s))
    }

    /// `16.8 Mbit/s, of 17.5 Mbit/s that a window of 65,535 bytes in a round trip of 30.0 ms allows (0.96x)`.
    pub fn beside(&self, measured_bytes_per_s: f64) -> String {
        format!(
            "{}, of {} that a window of {} bytes in a round trip of {} allows ({})",
            format_value(measured_bytes_per_s, Unit::BytesPerSecond),
            format_value(self.at_most_bytes_per_s, Unit::BytesPerSecond),
            figure::count(self.window_bytes),
            figure::span(self.round_trip),
            figure::ratio(measured_bytes_per_s / self.at_most_bytes_per_s),
        )
    }
}

/// How much the receiver across the link lets the sender have in flight.
fn window(variant: &Variant, number: u8, hop: &Hop, is_upload: bool) -> Option<u64> {
    let receiver = if is_upload {
        usize::from(number)
    } else {
        usize::from(number) - 1
    };
    match variant.stations[receiver].runs {
        Implementation::Embedded => own_window(hop, is_upload),
        // The plan does not say which window a program uses.
        Implementation::Program { .. } | Implementation::Own(_) => None,
    }
}

fn own_window(hop: &Hop, is_upload: bool) -> Option<u64> {
    let settings = if is_upload { &hop.server } else { &hop.client };
    match hop.protocol.version() {
        Version::Http1 => None,
        Version::Http2 => {
            let http2 = &settings.http2;
            let first = http2.stream_window.min(http2.connection_window).get();
            match http2.window_updates {
                WindowUpdates::Half | WindowUpdates::Every(_) | WindowUpdates::EachData(_) => {
                    Some(first)
                }
                // The grant comes with the first DATA frame, on top of the window.
                WindowUpdates::Grant(grant) => Some(first + grant.get()),
                // The window is never opened again, however many round trips pass.
                WindowUpdates::Never => None,
            }
        }
        Version::Http3 => {
            let http3 = &settings.http3;
            Some(http3.stream_window.min(http3.connection_window).get())
        }
    }
}

#[cfg(test)]
mod tests {
    use squall_base::Bytes;
    use squall_base::plan::Protocol;

    use super::*;
    use crate::findings::made_trial;
    use crate::load::requests::answered;

    /// An upload, and the trial it belongs to.
    fn upload(protocol: Protocol, bytes: u64) -> (TrialRecord, RequestRecord) {
        let row = RequestRecord {
            request_body_bytes: bytes,
            ..answered(0, 1_000)
        };
        let mut record = made_trial(protocol);
        record.trial.condition.delay = Duration::from_millis(15).into();
        (record, row)
    }

    fn rate(record: &TrialRecord, row: &RequestRecord) -> Option<WindowRate> {
        WindowRate::of_trial(record, std::slice::from_ref(row))
    }

    #[test]
    fn one_window_per_round_trip_is_the_limit() {
        let (record, row) = upload(Protocol::H2, 1 << 20);
        let found = rate(&record, &row).expect("the window is known");
        assert_eq!(found.window_bytes, 65_535);
        assert!((found.at_most_bytes_per_s - 2_184_500.0).abs() < 1.0);
        assert_eq!(
            found.beside(2.1e6),
            "16.8 Mbit/s, of 17.5 Mbit/s that a window of 65,535 bytes in a round trip of 30.0 ms allows (0.96x)"
        );
    }

    #[test]
    fn a_grant_adds_to_the_window() {
        let (mut record, row) = upload(Protocol::H2, 20_000_000);
        let grant = WindowUpdates::Grant(Bytes::new(8_000_000));
        record.trial.variant.hops[0].server.http2.window_updates = grant;
        assert_eq!(rate(&record, &row).unwrap().window_bytes, 8_065_535);
    }

    #[test]
    fn nothing_is_predicted_where_no_window_can_stop_a_transfer() {
        let of = |(record, row): (TrialRecord, RequestRecord)| rate(&record, &row);
        assert_eq!(of(upload(Protocol::H1s, 1 << 20)), None);
        assert_eq!(of(upload(Protocol::H2, 65_535)), None, "it fits");
        let (mut record, row) = upload(Protocol::H2, 1 << 20);
        record.trial.condition.delay = Duration::ZERO.into();
        assert_eq!(rate(&record, &row), None);
        let (mut record, row) = upload(Protocol::H2, 1 << 20);
        record.trial.variant.stations[1].runs = Implementation::Program {
            program: "nginx".to_owned(),
        };
        assert_eq!(rate(&record, &row), None);
    }
}

//! TCP's sender was stopped by its own buffer.

use super::case::{Case, number};
use super::knob::Knob;
use super::receive_window::limited;
use super::{Detector, Evidence, Found, Share, Whole};

pub(super) const DETECTOR: Detector = Detector {
    name: "send_buffer",
    title: "Limited by the send buffer",
    explanation: "The congestion window and the peer's window had room, and the sending socket's buffer was full of \
                  bytes that were not acknowledged yet. A buffer below two bandwidth-delay products cannot keep the \
                  path busy.",
    detect,
};

fn detect(case: &Case<'_>) -> Option<Found> {
    let (sender, limited, busy) = limited(case, |socket| socket.sndbuf_limited_us)?;
    Some(Found {
        share: Share {
            part: (limited as f64 / busy.max(1) as f64).min(1.0),
            of: Whole::SendingTime,
        },
        evidence: Evidence {
            numbers: vec![
                number("stopped by the send buffer", limited as f64 / 1e3, "ms"),
                number("with something to send", busy as f64 / 1e3, "ms"),
            ],
            requests: Vec::new(),
        },
        fixes: vec![case.link_fix(sender, Knob::SendBuffer)],
    })
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::Side;

    use super::super::made::{Made, is_near};

    #[test]
    fn the_senders_own_buffer_is_found_and_the_peers_is_not() {
        for (field, is_found) in [("tcpi_sndbuf_limited", true), ("tcpi_rwnd_limited", false)] {
            let mut made = Made::healthy(Protocol::H1);
            made.socket(
                Side::Client,
                &[("tcpi_busy_time", 1_000_000), (field, 350_000)],
            );
            let finding = made.found("send_buffer");
            assert_eq!(finding.is_some(), is_found, "{field}");
            if let Some(finding) = finding {
                assert!(is_near(finding.share.part, 0.3));
                assert_eq!(finding.fixes[0].station, "client");
            }
        }
    }
}

//! Segments were retransmitted although they had arrived.

use squall_base::record::{Cause, Direction, Fate, Side};

use super::case::{Case, count};
use super::detector::{Detector, Scope};
use super::finding::{Detection, Whole};
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "spurious_retransmits",
    title: "Spurious retransmissions",
    explanation: "The sender declared segments lost that were only late or had been overtaken, and the receiver \
                  reported that it got them twice (DSACK, RFC 2883). Each time, data is sent again needlessly, and \
                  the congestion window may shrink for no reason.",
    scope: Scope::Link,
    causes: &[Cause::Cwnd],
    detect,
};

/// At least one in a hundred segments with data.
const OF_SEGMENTS_AT_LEAST: f64 = 0.01;
/// Fewer may be tail loss probes that met a delayed acknowledgement.
const SEGMENTS_AT_LEAST: u64 = 5;

fn detect(case: &Case<'_>) -> Option<Detection> {
    let (mut twice, mut again, mut segments, mut reorderings) = (0, 0, 0, 0);
    let (mut most, mut sender) = (0, Side::Server);
    let of_side = |side| case.sockets_of(side).map(move |socket| (side, socket));
    for (side, socket) in Side::ALL.into_iter().flat_map(of_side) {
        // Copies that the network made also arrive twice, but were sent only once.
        let vain = socket.dsacks.min(socket.retransmitted);
        twice += vain;
        again += socket.retransmitted;
        segments += socket.data_segments;
        reorderings += socket.reorderings;
        if vain > most {
            (most, sender) = (vain, side);
        }
    }
    // If acknowledgements are lost, segments arrive twice although a sender could do no better.
    let directions = [Direction::Up, Direction::Down].map(|it| case.flows().totals(it));
    let is_lossless = directions
        .iter()
        .all(|totals| totals.drops(&Fate::ALL) == 0);
    if reorderings == 0 && !is_lossless {
        return None;
    }
    if twice < SEGMENTS_AT_LEAST || (twice as f64) < OF_SEGMENTS_AT_LEAST * segments as f64 {
        return None;
    }
    Some(Detection {
        part: (twice as f64 / segments.max(1) as f64).min(1.0),
        of: Whole::Packets,
        numbers: vec![
            count("segments that arrived twice", twice),
            count("segments sent again", again),
            count("times that reordering was seen", reorderings),
        ],
        requests: Vec::new(),
        fixes: case
            .link_fix(sender, Knob::Reordering)
            .into_iter()
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{Direction, Fate, Side};

    use super::super::made::{TestTrial, is_near};

    fn segments(again: u64, twice: u64) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H2);
        let fields = [
            ("tcpi_data_segs_out", 500),
            ("tcpi_total_retrans", again),
            ("tcpi_dsack_dups", twice),
        ];
        made.socket(Side::Server, &fields);
        made
    }

    #[test]
    fn needless_retransmissions_are_found() {
        let finding = segments(20, 10).finding("spurious_retransmits").unwrap();
        assert!(is_near(finding.share.part, 0.02));
    }

    #[test]
    fn lost_acknowledgements_are_not_reported_unless_reordering_was_seen() {
        let mut made = segments(20, 10);
        let packet = made.packet(1_000_000, Direction::Up, 0, 0, 0);
        (packet.fate, packet.released) = (Fate::LossDrop, None);
        assert_eq!(made.finding("spurious_retransmits"), None);
        made.socket(Side::Client, &[("tcpi_reord_seen", 3)]);
        assert!(made.finding("spurious_retransmits").is_some());
    }

    #[test]
    fn repairs_and_network_duplicates_are_not_reported() {
        assert_eq!(segments(20, 4).finding("spurious_retransmits"), None);
        assert_eq!(segments(0, 20).finding("spurious_retransmits"), None);
    }
}

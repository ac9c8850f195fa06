//! TCP's sender was stopped by the receive window of its peer.

use squall_base::record::{Cause, Side};

use super::case::{Case, number};
use super::detector::{Detector, Scope};
use super::finding::{Detection, Whole};
use super::knob::Knob;
use super::sockets::Sockets;

pub(super) const DETECTOR: Detector = Detector {
    name: "receive_window",
    title: "Limited by TCP's receive window",
    explanation: "The kernel had data and congestion window left, and the receiving socket had announced no more room. \
                  Its buffer holds less than what a round trip carries, or its program does not read.",
    scope: Scope::Link,
    causes: &[Cause::WindowReceive],
    detect,
};

/// A twentieth of the time with something to send; shorter waits are lost among others. A judgement.
pub(super) const OF_BUSY_AT_LEAST: f64 = 0.05;
/// And at least this long: the kernel's own clock for it ticks in milliseconds.
pub(super) const LIMITED_AT_LEAST_US: u64 = 20_000;
/// Linux's initial receive window (net.ipv4.tcp_rmem: half of 131,072).
const FIRST_WINDOW_BYTES: u64 = 65_536;

/// How many times a peer's window had to double to reach its maximum, plus one. Linux's receive buffers grow by what a
/// round trip brought (tcp_rcv_space_adjust), so they stop a congestion window that grows as fast in each of these round
/// trips. Every fresh connection begins like this.
fn round_trips_of_tuning(socket: &Sockets) -> u64 {
    let doubled = socket.peer_window_bytes.div_ceil(FIRST_WINDOW_BYTES);
    1 + u64::from(doubled.max(1).next_power_of_two().ilog2())
}

/// The side of the link's hop that this limit stopped longest. For its sockets together, in microseconds: the limited
/// time beyond what is allowed, and the busy time.
pub(super) fn limited(case: &Case<'_>, limit: fn(&Sockets) -> u64) -> Option<(Side, u64, u64)> {
    let round_trip_us = case.round_trip().as_nanos() / 1_000;
    let sums = Side::ALL.map(|side| {
        let (mut limited, mut busy) = (0, 0);
        for socket in case.sockets_of(side) {
            let allowed_us = round_trips_of_tuning(socket) * round_trip_us;
            limited += limit(socket).saturating_sub(allowed_us);
            busy += socket.busy_us;
        }
        (side, limited, busy)
    });
    let worst = sums.into_iter().max_by_key(|(_, limited, _)| *limited)?;
    let (_, limited, busy) = worst;
    let is_much = limited as f64 >= OF_BUSY_AT_LEAST * busy as f64;
    (limited >= LIMITED_AT_LEAST_US && is_much).then_some(worst)
}

fn detect(case: &Case<'_>) -> Option<Detection> {
    let (sender, limited, busy) = limited(case, |socket| socket.rwnd_limited_us)?;
    let receivers = case.sockets_of(sender.peer());
    let window = receivers.map(|socket| socket.receive_window_bytes).max();
    let mut numbers = vec![
        number(
            "stopped by the peer's window, beyond its growth",
            limited as f64 / 1e3,
            "ms",
        ),
        number("with something to send", busy as f64 / 1e3, "ms"),
    ];
    numbers.extend(
        window.map(|bytes| number("largest window that was announced", bytes as f64, "bytes")),
    );
    Some(Detection {
        part: (limited as f64 / busy.max(1) as f64).min(1.0),
        of: Whole::SendingTime,
        numbers,
        requests: Vec::new(),
        fixes: case
            .link_fix(sender.peer(), Knob::ReceiveBuffer)
            .into_iter()
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::Side;

    use super::super::made::{TestTrial, is_near};

    /// A window that was at most 256 KiB, and limited the sender for this long beyond three round trips of tuning.
    fn limited(micros: u64) -> TestTrial {
        let micros = micros + 150_000;
        let mut made = TestTrial::healthy(Protocol::H1);
        let fields = [
            ("tcpi_busy_time", 1_000_000),
            ("tcpi_rwnd_limited", micros),
            ("tcpi_snd_wnd", 256 * 1_024),
        ];
        made.socket(Side::Server, &fields);
        made.socket(Side::Client, &[("tcpi_busy_time", 9_000_000)]);
        made
    }

    #[test]
    fn a_twentieth_of_the_busy_time_is_found() {
        let finding = limited(50_000).finding("receive_window").unwrap();
        assert!(is_near(finding.share.part, 0.05));
        assert_eq!(finding.fixes[0].station, "client");
        assert_eq!(
            finding.fixes[0].setting, "net.ipv4.tcp_rmem of its host",
            "the kernel sizes the buffer already"
        );
    }

    #[test]
    fn less_than_a_twentieth_is_not_reported() {
        assert_eq!(limited(49_000).finding("receive_window"), None);
    }
}

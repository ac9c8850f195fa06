//! The kernel dropped QUIC datagrams because they were not read in time.

use squall_base::record::{Cause, Side};

use super::case::{Case, count};
use super::detector::{Detector, Scope};
use super::finding::{Detection, Whole};
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "udp_drops",
    title: "Datagrams dropped by a full socket",
    explanation: "The receiving socket's buffer was full, and the kernel dropped datagrams that the network had \
                  delivered. The program that reads them is short of processor time, or the buffer is too small for a \
                  burst.",
    scope: Scope::Link,
    causes: &[Cause::Loss],
    detect,
};

fn detect(case: &Case<'_>) -> Option<Detection> {
    let (mut dropped, mut received, mut at) = (0, 0, None);
    for side in Side::ALL {
        // A server's connections share a socket, so the largest count that one of them saw is the total. Each connection of
        // a client has its own socket.
        let (mut lost, mut taken) = (0_u64, 0);
        for socket in case.sockets_of(side) {
            lost = match side {
                Side::Client => lost + socket.udp_drops,
                Side::Server => lost.max(socket.udp_drops),
            };
            taken += socket.udp_received;
        }
        if lost > 0 {
            dropped += lost;
            received += taken;
            at.get_or_insert(side);
        }
    }
    let side = at?;
    Some(Detection {
        part: dropped as f64 / (dropped + received) as f64,
        of: Whole::Packets,
        numbers: vec![
            count("datagrams dropped", dropped),
            count("datagrams received there", received),
        ],
        requests: Vec::new(),
        fixes: case
            .link_fix(side, Knob::DatagramBuffers)
            .into_iter()
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::{QuicPath, Side, SocketSample};

    use super::super::made::{TestTrial, is_near};

    #[test]
    fn a_full_buffer_is_found_and_lost_packets_are_not() {
        for (socket_drops, lost) in [(10, 0), (0, 10)] {
            let mut made = TestTrial::healthy(Protocol::H3);
            let path = QuicPath {
                recv: 990,
                lost,
                socket_drops,
                ..QuicPath::default()
            };
            made.sample(Side::Server, 0, SocketSample::Quic(path));
            let finding = made.finding("udp_drops");
            assert_eq!(finding.is_some(), socket_drops > 0);
            if let Some(finding) = finding {
                assert!(is_near(finding.share.part, 0.01));
                assert_eq!(finding.fixes[0].station, "server");
            }
        }
    }

    #[test]
    fn client_drops_are_summed_over_sockets_and_server_drops_are_not() {
        for (side, dropped) in [(Side::Client, 20.0), (Side::Server, 10.0)] {
            let mut made = TestTrial::healthy(Protocol::H3);
            let path = QuicPath {
                recv: 100,
                socket_drops: 10,
                ..QuicPath::default()
            };
            for connection in 0..2 {
                made.sample(side, connection, SocketSample::Quic(path));
            }
            let finding = made.finding("udp_drops").unwrap();
            assert_eq!(finding.evidence.numbers[0].value, dropped);
            assert_eq!(finding.evidence.numbers[1].value, 200.0);
        }
    }
}

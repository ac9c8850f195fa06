//! The samples of one socket, condensed: the kernel's and quiche's own counts at its end.
//!
//! Counts only grow, so the largest value of each is its last. Of single samples, the congestion window is kept and, if TCP
//! had stopped with room in both windows, what was in flight.

use squall_base::Time;
use squall_base::record::{QuicPath, SocketRecord, SocketSample, TcpInfo};

/// A sample in which everything that the program had written was in flight, and both windows had room for more.
#[derive(Clone, Copy, Debug)]
pub(super) struct AllInFlightSample {
    pub(super) time: Time,
    pub(super) flight_bytes: u64,
    pub(super) cwnd_bytes: u64,
}

/// A connection as one side's transport reports it.
#[derive(Clone, Debug, Default)]
pub(super) struct Sockets {
    /// Microseconds with something to send or to be acknowledged.
    pub(super) busy_us: u64,
    /// The part of `busy_us` in which the peer's window stopped the sender.
    pub(super) rwnd_limited_us: u64,
    /// The part of `busy_us` in which the send buffer stopped the sender.
    pub(super) sndbuf_limited_us: u64,
    /// Segments with data that were sent.
    pub(super) data_segments: u64,
    /// Retransmissions among them.
    pub(super) retransmitted: u64,
    /// Segments that the peer received twice.
    pub(super) dsacks: u64,
    /// How many times reordering was seen.
    pub(super) reorderings: u64,
    /// The smallest retransmission timeout, in microseconds.
    pub(super) least_rto_us: Option<u64>,
    /// The largest window announced to the peer.
    pub(super) receive_window_bytes: u64,
    /// The largest window announced by the peer.
    pub(super) peer_window_bytes: u64,
    /// The largest segment that may be sent.
    pub(super) mss_bytes: u64,
    /// Samples with data that was still to be sent or acknowledged.
    pub(super) busy_samples: u64,
    /// The congestion window in each sample, in segments, in the order of time.
    pub(super) congestion_windows: Vec<(Time, u64)>,
    /// Samples with all data in flight and room in both windows, in the order of time.
    pub(super) all_in_flight: Vec<AllInFlightSample>,
    /// Datagrams dropped because the socket's buffer was full.
    pub(super) udp_drops: u64,
    /// Datagrams received.
    pub(super) udp_received: u64,
}

impl Sockets {
    pub(super) fn add(&mut self, row: &SocketRecord) {
        match &row.sample {
            SocketSample::Tcp(info) => {
                self.add_tcp(info);
                self.add_sample(row.time, info);
            }
            SocketSample::Quic(path) => self.add_quic(path),
        }
    }

    fn add_tcp(&mut self, info: &TcpInfo) {
        for (own, name) in [
            (&mut self.busy_us, "tcpi_busy_time"),
            (&mut self.rwnd_limited_us, "tcpi_rwnd_limited"),
            (&mut self.sndbuf_limited_us, "tcpi_sndbuf_limited"),
            (&mut self.data_segments, "tcpi_data_segs_out"),
            (&mut self.retransmitted, "tcpi_total_retrans"),
            (&mut self.dsacks, "tcpi_dsack_dups"),
            (&mut self.reorderings, "tcpi_reord_seen"),
            (&mut self.receive_window_bytes, "tcpi_rcv_wnd"),
            (&mut self.peer_window_bytes, "tcpi_snd_wnd"),
            (&mut self.mss_bytes, "tcpi_snd_mss"),
        ] {
            *own = (*own).max(info.get(name).unwrap_or(0));
        }
        if let Some(rto) = info.get("tcpi_rto") {
            self.least_rto_us = Some(self.least_rto_us.map_or(rto, |least| least.min(rto)));
        }
    }

    fn add_sample(&mut self, time: Time, info: &TcpInfo) {
        let of = |name| info.get(name);
        let window = of("tcpi_snd_cwnd");
        self.congestion_windows
            .extend(window.map(|window| (time, window)));
        let (Some(unacked), Some(unsent)) = (of("tcpi_unacked"), of("tcpi_notsent_bytes")) else {
            return;
        };
        if unacked == 0 && unsent == 0 {
            return;
        }
        self.busy_samples += 1;
        let sent = of("tcpi_bytes_sent").zip(of("tcpi_bytes_retrans"));
        let (Some((sent, again)), Some(acknowledged)) = (sent, of("tcpi_bytes_acked")) else {
            return;
        };
        let flight_bytes = sent.saturating_sub(again + acknowledged);
        let mss = of("tcpi_snd_mss").unwrap_or(0);
        let cwnd = of("tcpi_snd_cwnd").unwrap_or(0);
        let window = of("tcpi_snd_wnd").unwrap_or(0);
        let is_repairing = ["tcpi_ca_state", "tcpi_lost", "tcpi_retrans"]
            .into_iter()
            .any(|name| of(name) != Some(0));
        if unsent == 0 && unacked < cwnd && flight_bytes + mss <= window && !is_repairing {
            self.all_in_flight.push(AllInFlightSample {
                time,
                flight_bytes,
                cwnd_bytes: cwnd * mss,
            });
        }
    }

    fn add_quic(&mut self, path: &QuicPath) {
        self.udp_drops = self.udp_drops.max(path.socket_drops);
        self.udp_received = self.udp_received.max(path.recv);
    }
}

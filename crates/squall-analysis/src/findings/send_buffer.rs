//! TCP's sender was stopped by its own send buffer.
//!
//! The kernel counts such time (tcpi_sndbuf_limited), but only from when it sends something while a writer waits for room
//! (tcp_cwnd_validate of net/ipv4/tcp_output.c). A program that writes whenever its socket lets it, as all programs with
//! epoll do, has sent everything by the time a write is refused, so the count stays at 0 however small the buffer is.
//! Samples of the socket are therefore examined as well, provided the size of the buffer is known because a recipe sets it.
//! Otherwise the kernel's count is all there is, and without it this detector is silent.

use squall_base::Time;
use squall_base::record::{Cause, Side};

use super::case::{Case, count, number};
use super::costs::SHOWN;
use super::detector::{Detector, Scope};
use super::finding::{Detection, Whole};
use super::knob::Knob;
use super::receive_window::{OF_BUSY_AT_LEAST, limited};
use super::records::{ConnectionKey, MessageWrite};

pub(super) const DETECTOR: Detector = Detector {
    name: "send_buffer",
    title: "Limited by the send buffer",
    explanation: "The congestion window and the peer's window had room, and the sending socket's buffer was full of \
                  bytes that were not acknowledged yet. A buffer below two bandwidth-delay products cannot keep the \
                  path busy.",
    scope: Scope::Link,
    causes: &[Cause::SendBuffer],
    detect,
};

/// SO_SNDBUF is twice the requested size, and at least this (SOCK_MIN_SNDBUF of include/net/sock.h).
const LEAST_BUFFER_BYTES: u64 = 4_608;
/// Once or twice may be chance.
const SAMPLES_AT_LEAST: u64 = 3;

fn detect(case: &Case<'_>) -> Option<Detection> {
    by_kernel_count(case).or_else(|| by_samples(case))
}

fn by_kernel_count(case: &Case<'_>) -> Option<Detection> {
    let (sender, limited, busy) = limited(case, |socket| socket.sndbuf_limited_us)?;
    Some(Detection {
        part: (limited as f64 / busy.max(1) as f64).min(1.0),
        of: Whole::SendingTime,
        numbers: vec![
            number("stopped by the send buffer", limited as f64 / 1e3, "ms"),
            number("with something to send", busy as f64 / 1e3, "ms"),
        ],
        requests: Vec::new(),
        fixes: case
            .link_fix(sender, Knob::SendBuffer)
            .into_iter()
            .collect(),
    })
}

/// What the samples of a side show.
#[derive(Default)]
struct BufferSamples {
    /// Samples in which the buffer was full, a message was partly written, and both windows had room.
    full: u64,
    /// Samples with something to send or to be acknowledged.
    busy: u64,
    flight_bytes: u64,
    cwnd_bytes: u64,
    requests: Vec<u64>,
}

fn by_samples(case: &Case<'_>) -> Option<Detection> {
    let (_, hop) = case.link_hop();
    if !case.is_tcp() {
        return None;
    }
    let sides = [(Side::Client, &hop.client), (Side::Server, &hop.server)];
    let found = sides.into_iter().filter_map(|(side, settings)| {
        let asked = settings.tcp.send_buffer?.get();
        let buffer = (2 * asked).max(LEAST_BUFFER_BYTES);
        let samples = samples(case, side, buffer);
        let is_much = samples.full as f64 >= OF_BUSY_AT_LEAST * samples.busy as f64;
        (samples.full >= SAMPLES_AT_LEAST && is_much).then_some((side, buffer, samples))
    });
    let (side, buffer, samples) = found.max_by_key(|(_, _, samples)| samples.full)?;
    Some(Detection {
        part: (samples.full as f64 / samples.busy.max(1) as f64).min(1.0),
        of: Whole::SendingTime,
        numbers: vec![
            count("samples of a full buffer with more to write", samples.full),
            count("samples with something to send", samples.busy),
            number("send buffer (SO_SNDBUF)", buffer as f64, "bytes"),
            number(
                "in flight in them, at most",
                samples.flight_bytes as f64,
                "bytes",
            ),
            number(
                "congestion window in them, at most",
                samples.cwnd_bytes as f64,
                "bytes",
            ),
        ],
        requests: samples.requests,
        fixes: case.link_fix(side, Knob::SendBuffer).into_iter().collect(),
    })
}

fn samples(case: &Case<'_>, side: Side, buffer: u64) -> BufferSamples {
    let (hop, _) = case.link_hop();
    let mut sum = BufferSamples::default();
    for (key, sockets) in &case.records.sockets {
        if (key.0, key.1) != (hop, side) {
            continue;
        }
        sum.busy += sockets.busy_samples;
        let writes = MessageWrites::of(case, key);
        // A socket accepts more data when a third of what may be queued is free (sk_stream_min_wspace of
        // include/net/sock.h), and queued data takes more space than its bytes.
        let is_full = |flight: u64| 3 * flight > 2 * buffer;
        for sample in sockets
            .all_in_flight
            .iter()
            .filter(|it| is_full(it.flight_bytes))
        {
            let Some(request) = writes.at(sample.time) else {
                continue;
            };
            sum.full += 1;
            sum.flight_bytes = sum.flight_bytes.max(sample.flight_bytes);
            sum.cwnd_bytes = sum.cwnd_bytes.max(sample.cwnd_bytes);
            if let Some(request) = request.filter(|it| !sum.requests.contains(it))
                && sum.requests.len() < SHOWN
            {
                sum.requests.push(request);
            }
        }
    }
    sum
}

/// The messages of a connection, sorted by when they begin.
struct MessageWrites {
    messages: Vec<MessageWrite>,
    /// For each message, which of the messages up to it ends last.
    ends_last: Vec<usize>,
}

impl MessageWrites {
    fn of(case: &Case<'_>, key: &ConnectionKey) -> MessageWrites {
        let messages = case.records.writes.get(key);
        let mut messages = messages.cloned().unwrap_or_default();
        messages.sort_by_key(|message| message.first);
        let mut ends_last: Vec<usize> = Vec::with_capacity(messages.len());
        for (here, message) in messages.iter().enumerate() {
            let before = ends_last.last().copied();
            let later = before.filter(|before| messages[*before].last > message.last);
            ends_last.push(later.unwrap_or(here));
        }
        MessageWrites {
            messages,
            ends_last,
        }
    }

    /// Whether some message was partly written at that time, and the request that it belongs to, if known.
    fn at(&self, time: Time) -> Option<Option<u64>> {
        let begun = self
            .messages
            .partition_point(|message| message.first < time);
        let last = self.ends_last.get(begun.checked_sub(1)?)?;
        let message = self.messages.get(*last)?;
        (message.last > time).then_some(message.request)
    }
}

#[cfg(test)]
mod tests {
    use squall_base::Bytes;
    use squall_base::plan::Protocol;
    use squall_base::record::{ExchangeRecord, Side};

    use super::super::made::{TestTrial, at, is_near};

    #[test]
    fn limit_of_the_send_buffer_is_found_and_that_of_the_peers_window_is_not() {
        for (field, is_found) in [("tcpi_sndbuf_limited", true), ("tcpi_rwnd_limited", false)] {
            let mut made = TestTrial::healthy(Protocol::H1);
            made.socket(
                Side::Client,
                &[("tcpi_busy_time", 1_000_000), (field, 350_000)],
            );
            let finding = made.finding("send_buffer");
            assert_eq!(finding.is_some(), is_found, "{field}");
            if let Some(finding) = finding {
                assert!(is_near(finding.share.part, 0.3));
                assert_eq!(finding.fixes[0].station, "client");
            }
        }
    }

    /// A server with a buffer of 16 KiB that writes a response from 2.9 s to 3.1 s. Ten samples at 3 s have 16,000 bytes in
    /// flight; `field` is set to `value`.
    fn full(field: &str, value: u64) -> TestTrial {
        let mut made = TestTrial::healthy(Protocol::H1);
        let hop = &mut made.trial.trial.variant.hops[0];
        hop.server.tcp.send_buffer = Some(Bytes::new(8_192));
        for _ in 0..10 {
            let mut fields = vec![
                ("tcpi_ca_state", 0),
                ("tcpi_lost", 0),
                ("tcpi_retrans", 0),
                ("tcpi_unacked", 12),
                ("tcpi_notsent_bytes", 0),
                ("tcpi_bytes_sent", 116_000),
                ("tcpi_bytes_retrans", 0),
                ("tcpi_bytes_acked", 100_000),
                ("tcpi_snd_mss", 1_448),
                ("tcpi_snd_cwnd", 40),
                ("tcpi_snd_wnd", 65_536),
            ];
            for known in fields.iter_mut().filter(|(name, _)| *name == field) {
                known.1 = value;
            }
            made.socket(Side::Server, &fields);
        }
        let times = (at(2_900), at(3_100));
        made.exchanges.push(answer(times));
        made
    }

    fn answer((first, last): (squall_base::Time, squall_base::Time)) -> ExchangeRecord {
        ExchangeRecord {
            response_first: Some(first),
            response_last: Some(last),
            status: Some(200),
            ..ExchangeRecord::unseen(Side::Server, 0, 0, Protocol::H1)
        }
    }

    #[test]
    fn a_full_buffer_is_found_although_the_kernel_counts_no_time() {
        let finding = full("", 0).finding("send_buffer").unwrap();
        assert!(is_near(finding.share.part, 1.0));
        assert_eq!(finding.fixes[0].station, "server");
        let values: Vec<f64> = (finding.evidence.numbers.iter())
            .map(|number| number.value)
            .collect();
        assert_eq!(values, [10.0, 10.0, 16_384.0, 16_000.0, 57_920.0]);
    }

    #[test]
    fn senders_stopped_by_something_else_are_not_reported() {
        for (field, value) in [
            ("tcpi_ca_state", 3),
            ("tcpi_lost", 1),
            ("tcpi_notsent_bytes", 1),
            ("tcpi_snd_cwnd", 12),
            ("tcpi_snd_wnd", 17_000),
            ("tcpi_bytes_acked", 110_000),
        ] {
            assert_eq!(full(field, value).finding("send_buffer"), None, "{field}");
        }
        let mut unknown = full("", 0);
        unknown.trial.trial.variant.hops[0].server.tcp.send_buffer = None;
        assert_eq!(unknown.finding("send_buffer"), None);
        let mut done = full("", 0);
        done.exchanges[0] = answer((at(2_900), at(2_999)));
        assert_eq!(done.finding("send_buffer"), None, "all was written");
    }
}

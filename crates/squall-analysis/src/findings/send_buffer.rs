//! TCP's sender was stopped by its own buffer.
//!
//! The kernel counts such time (tcpi_sndbuf_limited), but begins to only when it sends something while a writer waits for
//! room (tcp_cwnd_validate of net/ipv4/tcp_output.c). A program that writes whenever its socket lets it, as all with
//! epoll do, has sent everything by the time it is refused, and then the count stays at 0 however small the buffer is. So
//! moments are looked at as well, where the size of the buffer is known: where a recipe sets it. Elsewhere the kernel's
//! count is all there is, and this is silent where that is.

use squall_base::Time;
use squall_base::record::Side;

use super::case::{Case, count, number};
use super::knob::Knob;
use super::receive_window::{OF_BUSY_AT_LEAST, limited};
use super::records::{Place, Writing};
use super::{Detector, Evidence, Found, Share, Whole};

pub(super) const DETECTOR: Detector = Detector {
    name: "send_buffer",
    title: "Limited by the send buffer",
    explanation: "The congestion window and the peer's window had room, and the sending socket's buffer was full of \
                  bytes that were not acknowledged yet. A buffer below two bandwidth-delay products cannot keep the \
                  path busy.",
    detect,
};

/// SO_SNDBUF is what was asked for twice, and at least this (SOCK_MIN_SNDBUF of include/net/sock.h).
const LEAST_BUFFER_BYTES: u64 = 4_608;
/// Once or twice can be chance.
const MOMENTS_AT_LEAST: u64 = 3;
/// Requests that are named.
const SHOWN: usize = 10;

fn detect(case: &Case<'_>) -> Option<Found> {
    by_the_kernel(case).or_else(|| by_moments(case))
}

fn by_the_kernel(case: &Case<'_>) -> Option<Found> {
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

/// What the samples of a side show.
#[derive(Default)]
struct Moments {
    /// In which the buffer was full, a message was written in part, and both windows had room.
    full: u64,
    /// With something to send or to be acknowledged.
    busy: u64,
    flight_bytes: u64,
    cwnd_bytes: u64,
    requests: Vec<u64>,
}

fn by_moments(case: &Case<'_>) -> Option<Found> {
    let (_, hop) = case.link_hop();
    if !case.is_tcp() {
        return None;
    }
    let sides = [(Side::Client, &hop.client), (Side::Server, &hop.server)];
    let found = sides.into_iter().filter_map(|(side, settings)| {
        let asked = settings.tcp.send_buffer?.get();
        let buffer = (2 * asked).max(LEAST_BUFFER_BYTES);
        let moments = moments(case, side, buffer);
        let is_much = moments.full as f64 >= OF_BUSY_AT_LEAST * moments.busy as f64;
        (moments.full >= MOMENTS_AT_LEAST && is_much).then_some((side, buffer, moments))
    });
    let (side, buffer, moments) = found.max_by_key(|(_, _, moments)| moments.full)?;
    Some(Found {
        share: Share {
            part: (moments.full as f64 / moments.busy.max(1) as f64).min(1.0),
            of: Whole::SendingTime,
        },
        evidence: Evidence {
            numbers: vec![
                count("samples of a full buffer with more to write", moments.full),
                count("samples with something to send", moments.busy),
                number("send buffer (SO_SNDBUF)", buffer as f64, "bytes"),
                number(
                    "under way in them, at most",
                    moments.flight_bytes as f64,
                    "bytes",
                ),
                number(
                    "congestion window in them, at most",
                    moments.cwnd_bytes as f64,
                    "bytes",
                ),
            ],
            requests: moments.requests,
        },
        fixes: vec![case.link_fix(side, Knob::SendBuffer)],
    })
}

fn moments(case: &Case<'_>, side: Side, buffer: u64) -> Moments {
    let (hop, _) = case.link_hop();
    let mut sum = Moments::default();
    for (place, sockets) in &case.records.sockets {
        if (place.0, place.1) != (hop, side) {
            continue;
        }
        sum.busy += sockets.busy_samples;
        let written = Written::of(case, place);
        // A socket takes more again when a third of what may be queued is free (sk_stream_min_wspace of
        // include/net/sock.h), and what is queued is more than the bytes that it carries.
        let is_full = |flight: u64| 3 * flight > 2 * buffer;
        for moment in sockets
            .standing
            .iter()
            .filter(|it| is_full(it.flight_bytes))
        {
            let Some(request) = written.at(moment.time) else {
                continue;
            };
            sum.full += 1;
            sum.flight_bytes = sum.flight_bytes.max(moment.flight_bytes);
            sum.cwnd_bytes = sum.cwnd_bytes.max(moment.cwnd_bytes);
            if let Some(request) = request.filter(|it| !sum.requests.contains(it))
                && sum.requests.len() < SHOWN
            {
                sum.requests.push(request);
            }
        }
    }
    sum
}

/// The messages of a connection, by when they begin.
struct Written {
    messages: Vec<Writing>,
    /// Of all messages up to each, the one that ends last.
    ends_last: Vec<usize>,
}

impl Written {
    fn of(case: &Case<'_>, place: &Place) -> Written {
        let messages = case.records.written.get(place);
        let mut messages = messages.cloned().unwrap_or_default();
        messages.sort_by_key(|message| message.first);
        let mut ends_last: Vec<usize> = Vec::with_capacity(messages.len());
        for (here, message) in messages.iter().enumerate() {
            let before = ends_last.last().copied();
            let later = before.filter(|before| messages[*before].last > message.last);
            ends_last.push(later.unwrap_or(here));
        }
        Written {
            messages,
            ends_last,
        }
    }

    /// Whether some message was written in part at that time, and the request that it is of, if that is known.
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

    use super::super::made::{Made, at, is_near};

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

    /// A server with a buffer of 16 KiB that writes an answer from 2.9 s to 3.1 s; ten samples at 3 s with 16,000 bytes
    /// under way, of which a field is another.
    fn full(field: &str, value: u64) -> Made {
        let mut made = Made::healthy(Protocol::H1);
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
            hop: 1,
            side: Side::Server,
            connection: 0,
            stream: 0,
            protocol: Protocol::H1,
            request: None,
            beginning: squall_base::record::Beginning::default(),
            request_first: None,
            request_last: None,
            response_first: Some(first),
            response_last: Some(last),
            request_extent: None,
            response_extent: None,
            request_body_bytes: 0,
            response_body_bytes: 0,
            status: Some(200),
            reset: None,
        }
    }

    #[test]
    fn a_full_buffer_is_found_where_the_kernel_counts_none() {
        let finding = full("", 0).found("send_buffer").unwrap();
        assert!(is_near(finding.share.part, 1.0));
        assert_eq!(finding.fixes[0].station, "server");
        let values: Vec<f64> = (finding.evidence.numbers.iter())
            .map(|number| number.value)
            .collect();
        assert_eq!(values, [10.0, 10.0, 16_384.0, 16_000.0, 57_920.0]);
    }

    #[test]
    fn what_else_stops_a_sender_is_none() {
        for (field, value) in [
            ("tcpi_ca_state", 3),
            ("tcpi_lost", 1),
            ("tcpi_notsent_bytes", 1),
            ("tcpi_snd_cwnd", 12),
            ("tcpi_snd_wnd", 17_000),
            ("tcpi_bytes_acked", 110_000),
        ] {
            assert_eq!(full(field, value).found("send_buffer"), None, "{field}");
        }
        let mut unknown = full("", 0);
        unknown.trial.trial.variant.hops[0].server.tcp.send_buffer = None;
        assert_eq!(unknown.found("send_buffer"), None);
        let mut done = full("", 0);
        done.exchanges[0] = answer((at(2_900), at(2_999)));
        assert_eq!(done.found("send_buffer"), None, "all was written");
    }
}

//! Which exchanges on which hop belong to a request, and what is known about each.
//!
//! A row names its request: the client knows it, and the other stations read it from the `traceparent` that proxies pass on.
//! If there are several attempts on a hop, the last one counts, because a proxy tries again only after an attempt without a
//! result. The two sides of an exchange are matched by request, stream and time.

use std::collections::BTreeMap;

use squall_base::record::{Beginning, FrameLayer, FrameRecord, Outcome, Side};
use squall_base::{Duration, Time};

use super::super::columns::ExchangeCells;
use super::super::course::ServerTimes;
use super::super::request_marks::{RequestMarks, ServerMarks};
use super::super::windows::Windows;

/// The kernel's times of packets inside a host and the stations' own times agree to better than this.
const CLOCKS_DIFFER_BY: Duration = Duration::from_millis(1);

/// What was recorded of one hop.
#[derive(Debug, Default)]
pub(super) struct HopRows {
    /// By side; sorted by request, and by attempt within a request.
    exchanges: [Vec<HopExchange>; 2],
    /// Flow control of each side's connections, as a sender.
    windows: [BTreeMap<u32, Windows>; 2],
}

/// An exchange of a request, as one side recorded it.
#[derive(Clone, Copy, Debug)]
struct HopExchange {
    request: u64,
    connection: u32,
    stream: u64,
    beginning: Beginning,
    request_first: Time,
    request_last: Option<Time>,
    response_first: Option<Time>,
    response_last: Option<Time>,
}

impl HopRows {
    /// Takes an exchange. It is ignored if it names no request, or if nothing of the request was sent.
    pub(super) fn add(&mut self, row: &ExchangeCells) {
        let (Some(request), Some(first)) = (row.request, row.request_first) else {
            return;
        };
        // The marks of the path's own client are in the table of requests.
        if (row.hop, row.side) != (1, Side::Client) {
            self.exchanges[row.side as usize].push(HopExchange {
                request,
                connection: row.connection,
                stream: row.stream,
                beginning: row.beginning,
                request_first: first,
                request_last: row.request_last,
                response_first: row.response_first,
                response_last: row.response_last,
            });
        }
    }

    /// Takes a frame of a hop without packets; `limits_bytes` are QUIC's initial limits for that side as a sender.
    pub(super) fn add_frame(&mut self, row: &FrameRecord, limits_bytes: Option<(u64, u64)>) {
        let of_side = &mut self.windows[row.side as usize];
        let windows = of_side.entry(row.connection).or_default();
        if let Some((stream, connection)) = limits_bytes
            && row.frame.layer == FrameLayer::Quic
        {
            windows.begin_quic(stream, connection);
        }
        windows.add(row.time.as_nanos(), &row.frame);
    }

    /// To be called after the last row.
    pub(super) fn sort(&mut self) {
        for rows in &mut self.exchanges {
            rows.sort_by_key(|row| (row.request, row.request_first));
        }
    }

    pub(super) fn windows(&self, side: Side, connection: u32) -> Option<&Windows> {
        self.windows[side as usize].get(&connection)
    }

    fn attempts(&self, side: Side, request: u64) -> &[HopExchange] {
        let rows = &self.exchanges[side as usize];
        let from = rows.partition_point(|row| row.request < request);
        let to = rows.partition_point(|row| row.request <= request);
        &rows[from..to]
    }

    /// The server's side of the exchange on this stream, which cannot have reached it before `earliest`. The last row is
    /// that of the last attempt, unless that attempt never arrived.
    fn server(&self, request: u64, stream: Option<u64>, earliest: Time) -> Option<HopExchange> {
        let mut attempts = self.attempts(Side::Server, request).iter();
        let last = attempts.rfind(|row| Some(row.stream) == stream);
        last.filter(|row| row.request_first >= earliest).copied()
    }
}

/// A request on one hop.
#[derive(Clone, Debug)]
pub(super) struct Leg {
    /// The marks of its exchange as if it were a request: `intended` is when the hop's client side could begin it.
    pub(super) marks: RequestMarks,
    pub(super) server: Option<ServerMarks>,
    pub(super) server_connection: Option<u32>,
    /// When the first and the last byte of the response reached its client side.
    pub(super) answered: Option<(u64, u64)>,
    /// Whether there were attempts before this one.
    pub(super) is_repeated: bool,
}

impl Leg {
    /// From when the hop's client side could begin the exchange until it was over.
    pub(super) fn span(&self) -> (Time, Time) {
        (self.marks.intended, self.marks.end)
    }

    /// The connection and stream of the hop's client side.
    pub(super) fn connection_and_stream(&self) -> (u32, u64) {
        let none = (u32::MAX, u64::MAX);
        let on = self.marks.connection.zip(self.marks.stream);
        on.unwrap_or(none)
    }

    pub(super) fn server_times(&self) -> Option<ServerTimes> {
        let server = self.server.as_ref()?;
        Some(ServerTimes::of(server, self.server_connection))
    }
}

/// The exchanges of a request with these marks, by hop; `None` where none was seen. On the first hop, the exchange is the
/// request itself. `is_ours` says for each hop whether its client side is one of our stations: if such a station had the
/// request and began no exchange for it before the trial ended, the request stayed in its queue.
pub(super) fn legs(
    marks: &RequestMarks,
    hops: &[HopRows],
    is_ours: impl Fn(usize) -> bool,
) -> Vec<Option<Leg>> {
    let mut legs: Vec<Option<Leg>> = Vec::with_capacity(hops.len());
    let mut incoming: Option<HopExchange> = None;
    for (place, hop) in hops.iter().enumerate() {
        let attempts = hop.attempts(Side::Client, marks.request);
        let own = match place {
            0 => Some(marks.clone()),
            _ => attempts
                .last()
                .map(|row| exchange_marks(row, incoming.as_ref(), marks))
                .or_else(|| queued_marks(incoming.as_ref()?, marks).filter(|_| is_ours(place))),
        };
        let earliest = earliest_arrival(marks, attempts.last().filter(|_| place > 0));
        let server = own
            .as_ref()
            .and_then(|own| hop.server(marks.request, own.stream, earliest));
        incoming = server;
        legs.push(own.map(|marks| Leg {
            marks,
            server: server.map(|row| ServerMarks {
                request_last: row.request_last.map(Time::as_nanos),
                response_first: row.response_first.map(Time::as_nanos),
                response_last: row.response_last.map(Time::as_nanos),
                ready: row.beginning.offered.map(Time::as_nanos),
            }),
            server_connection: server.map(|row| row.connection),
            answered: attempts.last().filter(|_| place > 0).and_then(|row| {
                let (first, last) = (row.response_first?, row.response_last?);
                Some((first.as_nanos(), last.as_nanos()))
            }),
            is_repeated: attempts.len() > 1,
        }));
    }
    legs
}

/// The marks of an exchange that one of our stations never began, although it had the request: no connection or stream was
/// free until the end of the trial.
fn queued_marks(incoming: &HopExchange, request: &RequestMarks) -> Option<RequestMarks> {
    let offered = incoming.request_last?;
    let is_waiting = request.outcome == Outcome::Censored && incoming.response_first.is_none();
    is_waiting.then(|| RequestMarks {
        request: request.request,
        intended: offered,
        taken_up: offered,
        end: request.end.max(offered),
        outcome: Outcome::Censored,
        ..RequestMarks::default()
    })
}

/// The earliest time at which anything of an exchange can have reached its server. Our own stations record when a write
/// ended, which may be after the server has read, so the time of the slot counts instead. For other stations, packets
/// show when the request was sent, by a clock that may differ from ours.
fn earliest_arrival(request: &RequestMarks, row: Option<&HopExchange>) -> Time {
    let slot = Time::from_nanos(request.slot.unwrap_or(0));
    match row {
        None => slot,
        Some(row) => row.beginning.slot.unwrap_or_else(|| {
            let written = row.request_first.as_nanos();
            Time::from_nanos(written.saturating_sub(CLOCKS_DIFFER_BY.as_nanos()))
        }),
    }
}

/// The marks of an exchange of a proxy's client side. `incoming` is the exchange in which the proxy got the request.
fn exchange_marks(
    row: &HopExchange,
    incoming: Option<&HopExchange>,
    request: &RequestMarks,
) -> RequestMarks {
    let beginning = &row.beginning;
    let times = match beginning.offered {
        Some(offered) => SendTimes {
            offered,
            taken_up: offered,
            slot: beginning.slot.unwrap_or(offered),
            connected: beginning.connected,
            written_first: row.request_first,
            written_last: row.request_last,
        },
        None => inferred_send_times(row, incoming),
    };
    let is_whole = row.response_last.is_some();
    let end = row.response_last.unwrap_or(request.end);
    RequestMarks {
        request: request.request,
        intended: times.offered,
        taken_up: times.taken_up,
        end: end.max(times.offered),
        slot: Some(times.slot.as_nanos()),
        connected: Some(times.connected.unwrap_or(times.slot).as_nanos()),
        secured: beginning.secured.map(Time::as_nanos),
        written_first: Some(times.written_first.as_nanos()),
        written_last: times.written_last.map(Time::as_nanos),
        connection: Some(row.connection),
        stream: Some(row.stream),
        outcome: match (is_whole, request.outcome) {
            (true, _) => Outcome::Answered,
            (false, Outcome::Censored) => Outcome::Censored,
            (false, _) => Outcome::ConnectionClosed,
        },
        relayed: None,
    }
}

/// The times up to the sending of an exchange.
struct SendTimes {
    offered: Time,
    taken_up: Time,
    slot: Time,
    connected: Option<Time>,
    /// When its first byte could be sent, as far as the station is concerned.
    written_first: Time,
    /// When its last byte could.
    written_last: Option<Time>,
}

/// For a third-party program, only three times are known: when it had the request, when the packets with the request left,
/// and when it opened the connection. A connection opened after the request had arrived was opened for it. Between the first
/// two times the request was ready to be sent; the state of the connection decides whether the program or the connection
/// kept it.
fn inferred_send_times(row: &HopExchange, incoming: Option<&HopExchange>) -> SendTimes {
    let written = row.request_first;
    let first = incoming.map(|incoming| incoming.request_first);
    let opened = row.beginning.opened.filter(|opened| {
        let is_after = first.is_some_and(|first| first <= *opened);
        is_after && *opened <= written
    });
    let whole = incoming.and_then(|incoming| incoming.request_last);
    // A program that opened a connection, or sent, before it had the whole request had a part of it by then.
    let offered = whole.unwrap_or(written).min(opened.unwrap_or(written));
    let slot = opened.unwrap_or(offered);
    SendTimes {
        offered,
        taken_up: slot,
        slot,
        connected: opened.and(row.beginning.connected),
        written_first: slot,
        written_last: whole.or(row.request_last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::requests::at as time;

    fn request() -> RequestMarks {
        RequestMarks {
            request: 7,
            end: time(1_000),
            slot: Some(0),
            connected: Some(0),
            written_first: Some(1_000),
            written_last: Some(1_000),
            connection: Some(0),
            stream: Some(0),
            ..RequestMarks::default()
        }
    }

    fn exchange(hop: u8, side: Side, micros: [u64; 4]) -> ExchangeCells {
        let [first, last, answered, end] = micros.map(time);
        ExchangeCells {
            hop,
            side,
            connection: 3,
            stream: 0,
            request: Some(7),
            beginning: Beginning::default(),
            request_first: Some(first),
            request_last: Some(last),
            response_first: Some(answered),
            response_last: Some(end),
            request_extent: None,
            response_extent: None,
        }
    }

    fn hops(rows: &[ExchangeCells]) -> Vec<HopRows> {
        let mut hops = vec![HopRows::default(), HopRows::default()];
        for row in rows {
            hops[usize::from(row.hop) - 1].add(row);
        }
        hops.iter_mut().for_each(HopRows::sort);
        hops
    }

    #[test]
    fn the_last_of_several_attempts_counts() {
        let first = exchange(2, Side::Client, [20, 20, 0, 0]);
        let first = ExchangeCells {
            response_first: None,
            response_last: None,
            ..first
        };
        let second = ExchangeCells {
            connection: 4,
            ..exchange(2, Side::Client, [500, 500, 800, 900])
        };
        let servers = [
            exchange(1, Side::Server, [10, 10, 950, 960]),
            exchange(2, Side::Server, [30, 30, 40, 40]),
            ExchangeCells {
                connection: 9,
                ..exchange(2, Side::Server, [510, 510, 790, 790])
            },
        ];
        let rows = [&[first, second][..], &servers].concat();
        let legs = legs(&request(), &hops(&rows), |_| false);
        let leg = legs[1].as_ref().expect("it was seen");
        assert!(leg.is_repeated);
        assert_eq!(
            (leg.connection_and_stream(), leg.server_connection),
            ((4, 0), Some(9))
        );
    }

    #[test]
    fn a_request_waits_for_a_connection_only_if_it_was_opened_for_it() {
        let incoming = exchange(1, Side::Server, [10, 20, 950, 960]);
        let beginning = Beginning {
            opened: Some(time(50)),
            connected: Some(time(80)),
            ..Beginning::default()
        };
        let sent = ExchangeCells {
            beginning,
            ..exchange(2, Side::Client, [100, 100, 800, 900])
        };
        let found = legs(&request(), &hops(&[incoming, sent]), |_| false);
        let leg = found[1].as_ref().expect("it was seen");
        assert_eq!(leg.marks.intended, time(20), "all of it had come");
        assert_eq!(leg.marks.slot, Some(50_000));
        assert_eq!(leg.marks.connected, Some(80_000));
        assert_eq!(leg.span(), (time(20), time(900)));
        // The request did not wait for a connection that existed before.
        let beginning = Beginning {
            opened: Some(time(5)),
            ..beginning
        };
        let reused = ExchangeCells { beginning, ..sent };
        let found = legs(&request(), &hops(&[incoming, reused]), |_| false);
        let leg = found[1].as_ref().expect("it was seen");
        assert_eq!(leg.marks.slot, leg.marks.connected);
        assert_eq!(leg.marks.slot, Some(20_000));
    }

    #[test]
    fn an_exchange_without_a_request_number_is_ignored() {
        let nameless = ExchangeCells {
            request: None,
            ..exchange(2, Side::Client, [100, 100, 800, 900])
        };
        assert!(legs(&request(), &hops(&[nameless]), |_| false)[1].is_none());
    }
}

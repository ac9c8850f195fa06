//! Derives requests from a capture's exchanges, in the order of their first bytes.
//!
//! A capture shows neither schedule nor generator, so a request counts as due, started and assigned to its connection when its
//! first byte is seen: nothing before that is known. This module reads no packets and writes no tables.

use std::collections::BTreeMap;

use squall_base::Time;
use squall_base::record::{ExchangeRecord, Outcome, RequestRecord, Side};
use squall_observe::{ConnectionRecord, Ending};

/// Exchanges with the numbers of their requests, and the requests.
pub(super) struct NumberedExchanges {
    pub(super) exchanges: Vec<ExchangeRecord>,
    pub(super) requests: Vec<RequestRecord>,
}

/// Numbers the exchanges whose first byte was seen, and derives a request from each. The exchanges' earlier numbers,
/// which are those of the load that made them, are dropped.
pub(super) fn number_requests(
    mut exchanges: Vec<ExchangeRecord>,
    connections: &[ConnectionRecord],
) -> NumberedExchanges {
    let connections: BTreeMap<u32, &ConnectionRecord> =
        connections.iter().map(|it| (it.connection, it)).collect();
    let begun = exchanges.iter().filter(|row| row.side == Side::Client);
    let mut begun: Vec<(Time, u32, u64)> = begun
        .filter_map(|row| Some((row.request_first?, row.connection, row.stream)))
        .collect();
    begun.sort_unstable();
    let numbers: BTreeMap<(u32, u64), u64> = begun
        .iter()
        .map(|(_, connection, stream)| (*connection, *stream))
        .zip(0..)
        .collect();
    let mut requests = Vec::with_capacity(begun.len());
    for row in &mut exchanges {
        row.request = numbers.get(&(row.connection, row.stream)).copied();
        if row.side == Side::Client {
            requests.extend(request(row, connections.get(&row.connection).copied()));
        }
    }
    requests.sort_by_key(|row| row.request);
    NumberedExchanges {
        exchanges,
        requests,
    }
}

fn request(row: &ExchangeRecord, connection: Option<&ConnectionRecord>) -> Option<RequestRecord> {
    let first = row.request_first?;
    let (outcome, end) = ending(row, first, connection);
    // A time that is unknown, or later than the request's first byte, becomes the time of that byte: the request cannot have
    // waited for the connection after it.
    let before = |time: Option<Time>| Some(time.unwrap_or(first).min(first));
    let is_secure = row.protocol.is_secure();
    Some(RequestRecord {
        slot: Some(first),
        connected: before(row.beginning.connected),
        secured: before(row.beginning.secured).filter(|_| is_secure),
        written_first: Some(first),
        written_last: row.request_last,
        answered_first: row.response_first,
        end,
        status: row.status,
        connection: Some(row.connection),
        stream: Some(row.stream),
        request_body_bytes: row.request_body_bytes,
        response_body_bytes: row.response_body_bytes,
        outcome,
        ..RequestRecord::due(row.request?, first)
    })
}

/// The outcome and end of a request. If the connection cut it off, its end is when the connection was last seen.
fn ending(
    row: &ExchangeRecord,
    first: Time,
    connection: Option<&ConnectionRecord>,
) -> (Outcome, Time) {
    let seen = [row.request_last, row.response_first, row.response_last];
    let last_seen = seen.into_iter().flatten().max().unwrap_or(first).max(first);
    if row.reset.is_some() {
        return (Outcome::StreamReset, last_seen);
    }
    if let Some(end) = row.response_last {
        return (Outcome::Answered, end);
    }
    let Some(connection) = connection else {
        return (Outcome::Censored, last_seen);
    };
    let outcome = match connection.ending {
        Ending::Open => Outcome::Censored,
        Ending::Closed | Ending::Reset => Outcome::ConnectionClosed,
    };
    (outcome, connection.last.max(last_seen))
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::Beginning;

    use super::*;

    fn row(connection: u32, stream: u64, first: Option<u64>, last: Option<u64>) -> ExchangeRecord {
        ExchangeRecord {
            request: Some(77),
            beginning: Beginning {
                connected: Some(Time::from_nanos(3)),
                ..Beginning::default()
            },
            request_first: first.map(Time::from_nanos),
            response_first: last.map(Time::from_nanos),
            response_last: last.map(Time::from_nanos),
            ..ExchangeRecord::unseen(Side::Client, connection, stream, Protocol::H2c)
        }
    }

    #[test]
    fn requests_are_numbered_in_the_order_of_their_first_bytes() {
        let rows = vec![
            row(0, 3, Some(30), Some(90)),
            row(1, 1, Some(20), None),
            row(0, 5, None, None),
            row(0, 1, Some(10), Some(95)),
        ];
        let found = number_requests(rows, &[]);
        let numbers: Vec<Option<u64>> = found.exchanges.iter().map(|row| row.request).collect();
        assert_eq!(numbers, [Some(2), Some(1), None, Some(0)]);
        let facts = found.requests.iter().map(|row| {
            let (from, to) = (row.intended.as_nanos(), row.end.as_nanos());
            (row.request, from, to, row.outcome)
        });
        let expected = [
            (0, 10, 95, Outcome::Answered),
            (1, 20, 20, Outcome::Censored),
            (2, 30, 90, Outcome::Answered),
        ];
        assert_eq!(facts.collect::<Vec<_>>(), expected);
        let first = &found.requests[0];
        assert_eq!(first.connected, Some(Time::from_nanos(3)));
        assert_eq!(first.secured, None, "it is in the clear");
    }

    #[test]
    fn reset_exchange_ends_when_it_was_last_seen() {
        let reset = ExchangeRecord {
            reset: Some(8),
            ..row(0, 1, Some(10), Some(40))
        };
        let found = number_requests(vec![reset], &[]);
        let request = &found.requests[0];
        assert_eq!(request.outcome, Outcome::StreamReset);
        assert_eq!(request.end, Time::from_nanos(40));
    }
}

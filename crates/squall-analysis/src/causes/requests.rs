//! The requests of a trial by connection, packed, and which connection belongs to which request.
//!
//! `timeline` works out what a request's time was spent on.

use std::collections::BTreeMap;

use squall_base::Time;
use squall_base::record::Outcome;

use super::numbered::NumberMap;
use super::packed::{Coder, DeltaCoded, PackedLog, mask_of};
use super::request_marks::RequestMarks;
use super::walk::Span;

/// A SYN follows within this time after its request was given a new connection: both happen in one call.
const OPENING: u64 = 10_000_000;

/// A request with its position among all requests.
pub(super) type IndexedRequest = (usize, RequestMarks);

#[derive(Debug, Default)]
pub(super) struct Requests {
    /// Requests that name no connection.
    unnamed: PackedLog<IndexedRequest>,
    by_connection: NumberMap<PackedLog<IndexedRequest>>,
    count: usize,
    /// From when the first was due until the last ended.
    span: Option<Span>,
    /// Whether any request waited for a connection or stream.
    has_queue: bool,
    /// Requests that were found to be on a connection that they do not name.
    owned: BTreeMap<u32, IndexedRequest>,
}

/// Codes all fields except the connection, because each connection has its own log.
impl DeltaCoded for IndexedRequest {
    fn code(&mut self, coder: &mut impl Coder, before: &IndexedRequest) {
        let (place, marks) = self;
        let (before_place, before) = (before.0 as u64, &before.1);
        let [mut first, mut last] = [0, 1].map(|n| marks.relayed.map(|it| [it.0, it.1][n]));
        let mut mask = mask_of([
            &marks.slot,
            &marks.connected,
            &marks.secured,
            &marks.written_first,
            &marks.written_last,
            &marks.stream,
            &first,
        ]);
        mask |= (marks.outcome as u64) << 7;
        coder.plain(&mut mask);
        let mut at = *place as u64;
        coder.near(before_place, &mut at);
        *place = at as usize;
        coder.near(before.request, &mut marks.request);
        let mut time = |known: u64, time: &mut Time| {
            let mut nanos = time.as_nanos();
            coder.near(known, &mut nanos);
            *time = Time::from_nanos(nanos);
            nanos
        };
        let intended = time(before.intended.as_nanos(), &mut marks.intended);
        let taken_up = time(intended, &mut marks.taken_up);
        time(taken_up, &mut marks.end);
        coder.near_if(mask, taken_up, &mut marks.slot);
        let known = before.connected.unwrap_or(taken_up);
        coder.near_if(mask >> 1, known, &mut marks.connected);
        let known = before.secured.unwrap_or(taken_up);
        coder.near_if(mask >> 2, known, &mut marks.secured);
        let known = marks.slot.unwrap_or(taken_up);
        coder.near_if(mask >> 3, known, &mut marks.written_first);
        let known = marks.written_first.unwrap_or(taken_up);
        coder.near_if(mask >> 4, known, &mut marks.written_last);
        coder.near_if(mask >> 5, before.stream.unwrap_or(0), &mut marks.stream);
        coder.near_if(mask >> 6, taken_up, &mut first);
        coder.near_if(mask >> 6, first.unwrap_or(0), &mut last);
        marks.relayed = first.zip(last);
        let outcome = Outcome::ALL.get((mask >> 7) as usize);
        marks.outcome = outcome.copied().unwrap_or(marks.outcome);
    }
}

/// A request on this connection, of which no more is known.
fn blank(connection: u32) -> IndexedRequest {
    let connection = Some(connection);
    let marks = RequestMarks {
        connection,
        ..RequestMarks::default()
    };
    (0, marks)
}

impl Requests {
    pub(super) fn add(&mut self, mut marks: RequestMarks) {
        let (from, to) = (marks.intended.as_nanos(), marks.end.as_nanos());
        let span = self.span.get_or_insert(Span { from, to });
        (span.from, span.to) = (span.from.min(from), span.to.max(to));
        self.has_queue |= marks.queued().is_some();
        // The log knows the connection.
        let log = match marks.connection.take() {
            Some(number) => self.by_connection.of(number),
            None => &mut self.unnamed,
        };
        log.add((self.count, marks));
        self.count += 1;
    }

    /// From when the first request was due until the last ended, if any waited for a connection or stream.
    pub(super) fn queued_within(&self) -> Option<Span> {
        self.span.filter(|_| self.has_queue)
    }

    /// How many requests were added, including those that were taken out.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Finds the connection of each request that does not name one, and returns the requests without any connection. A
    /// request does not name a new connection that never became ready. Among the connections that no request names, it is
    /// the one whose first packet followed the request's slot. `opened` has the number of each connection, and when it was
    /// opened.
    pub(super) fn find_owners(
        &mut self,
        opened: impl Iterator<Item = (u32, u64)>,
    ) -> Vec<IndexedRequest> {
        let is_named = |number: u32| self.by_connection.has(number);
        let mut unnamed: BTreeMap<u64, u32> = opened
            .filter(|(number, _)| !is_named(*number))
            .map(|(number, opened)| (opened, number))
            .collect();
        let mut owner = |marks: &RequestMarks| {
            let slot = marks.slot.filter(|_| marks.connected.is_none())?;
            let (&opened, _) = unnamed.range(slot..slot.saturating_add(OPENING)).next()?;
            unnamed.remove(&opened)
        };
        let mut unconnected = Vec::new();
        for placed in std::mem::take(&mut self.unnamed).unpack(IndexedRequest::default()) {
            match owner(&placed.1) {
                Some(number) => {
                    self.owned.insert(number, placed);
                }
                None => unconnected.push(placed),
            }
        }
        unconnected
    }

    /// Takes out the requests of a connection, in the order of their positions.
    pub(super) fn take(&mut self, number: u32) -> Vec<IndexedRequest> {
        if let Some(placed) = self.owned.remove(&number) {
            return vec![placed];
        }
        let log = self.by_connection.remove(number);
        log.map_or(Vec::new(), |log| log.unpack(blank(number)))
    }

    pub(super) fn take_rest(&mut self) -> Vec<IndexedRequest> {
        let named = self.by_connection.take_all();
        let named = named.flat_map(|(number, log)| log.unpack(blank(number)));
        let owned = std::mem::take(&mut self.owned).into_values();
        named.chain(owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use squall_base::splitmix::splitmix64;

    use super::*;

    fn marks(n: u64, connection: Option<u32>) -> RequestMarks {
        let draw = |of: u64| splitmix64(of, n);
        let number = |of: u64| match draw(of) % 4 {
            0 => draw(of + 1),
            _ => n * 1_000 + draw(of + 1) % 500,
        };
        let maybe = |of: u64| (draw(of) % 5 > 0).then(|| number(of + 1));
        RequestMarks {
            request: number(1),
            intended: Time::from_nanos(number(10)),
            taken_up: Time::from_nanos(number(20)),
            end: Time::from_nanos(number(30)),
            slot: maybe(40),
            connected: maybe(50),
            secured: maybe(60),
            written_first: maybe(70),
            written_last: maybe(80),
            connection,
            stream: maybe(90),
            outcome: Outcome::ALL[draw(100) as usize % Outcome::ALL.len()],
            relayed: maybe(110).map(|first| (first, first.wrapping_add(draw(120) % 9))),
        }
    }

    #[test]
    fn requests_are_unpacked_by_connection_with_their_places() {
        let all: Vec<RequestMarks> = (0..3_000).map(|n| marks(n, Some((n % 3) as u32))).collect();
        let mut requests = Requests::default();
        all.iter().for_each(|marks| requests.add(marks.clone()));
        assert_eq!(requests.count(), 3_000);
        assert!(requests.find_owners((0..).zip([5, 6, 7])).is_empty());
        let expected = |number: usize| -> Vec<IndexedRequest> {
            let own = all.iter().cloned().enumerate();
            own.filter(|(place, _)| place % 3 == number).collect()
        };
        assert_eq!(requests.take(1), expected(1));
        assert_eq!(requests.take(1), []);
        let rest = [expected(0), expected(2)].concat();
        assert_eq!(requests.take_rest(), rest);
    }

    #[test]
    fn a_request_that_never_connected_owns_the_connection_opened_next() {
        let waiting = |request: u64, slot: u64| RequestMarks {
            request,
            slot: Some(slot),
            ..RequestMarks::default()
        };
        let mut requests = Requests::default();
        requests.add(RequestMarks {
            connection: Some(0),
            ..waiting(1, 90)
        });
        requests.add(waiting(2, 100));
        requests.add(waiting(3, 101));
        requests.add(waiting(4, 300));
        let unconnected = requests.find_owners((0..).zip([100, 105, 200 + OPENING]));
        // Request 2 owns the first connection that no request names, 3 none within its 10 ms, 4 the last.
        assert_eq!(unconnected, [(2, waiting(3, 101))]);
        assert_eq!(requests.take(1), [(1, waiting(2, 100))]);
        assert_eq!(requests.take(2), [(3, waiting(4, 300))]);
        assert_eq!(requests.take(0).len(), 1);
    }
}

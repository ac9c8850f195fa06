//! The exchanges of a trial by connection, packed: where each request and response lies, and what the server marked.
//!
//! Whose bytes that makes them is `message`'s.

use std::cell::OnceCell;

use squall_base::Time;
use squall_base::record::{Direction, ExchangeRecord, Extent, Side};

use super::numbered::Numbered;
use super::packed::{Coder, Packed, mask_of};
use super::timeline::ServerMarks;

/// Where a request and its response lie, by direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extents([Option<Extent>; 2]);

impl Extents {
    /// Where the message that went `direction` lies.
    pub(super) fn of(&self, direction: Direction) -> Option<Extent> {
        self.0[direction as usize]
    }

    /// What there is of both, [`OF_EXTENT`] bits each.
    fn mask(&self) -> u64 {
        let of = |extent: &Option<Extent>| {
            let Some(own) = extent else { return 0 };
            // In the clear the wire has the same offsets.
            let is_clear = (own.wire_start, own.wire_end) == (Some(own.start), Some(own.end));
            let wire = mask_of([&own.wire_start, &own.wire_end]);
            let records = mask_of([&own.record_first, &own.record_last]);
            1 | u64::from(is_clear) << 1 | wire << 2 | records << 4
        };
        of(&self.0[0]) | of(&self.0[1]) << OF_EXTENT
    }

    /// Codes them after those of the row before; their mask is coded already.
    fn code(&mut self, coder: &mut impl Coder, mask: u64, before: &Extents) {
        let masks = [mask, mask >> OF_EXTENT].map(|mask| mask & ((1 << OF_EXTENT) - 1));
        for ((extent, before), mask) in self.0.iter_mut().zip(&before.0).zip(masks) {
            if mask & 1 == 0 {
                *extent = None;
                continue;
            }
            let own = extent.get_or_insert_default();
            let known = before.as_ref().map_or(0, |before| before.end);
            coder.near(known, &mut own.start);
            coder.near(own.start, &mut own.end);
            if mask & 2 != 0 {
                (own.wire_start, own.wire_end) = (Some(own.start), Some(own.end));
            }
            if mask != CLEAR {
                code_wire(own, coder, mask, &before.unwrap_or_default());
            }
        }
    }
}

/// Bits of the mask of the server's marks.
const OF_MARKS: u32 = 3;
/// Bits of the mask of an extent.
const OF_EXTENT: u32 = 6;
/// The mask of an extent in the clear, without records.
const CLEAR: u64 = 0b00_1111;

/// Codes where an extent lies on the wire, and in which records.
fn code_wire(own: &mut Extent, coder: &mut impl Coder, mask: u64, before: &Extent) {
    if mask & 2 == 0 {
        let known = before.wire_end.unwrap_or(own.start);
        coder.near_if(mask >> 2, known, &mut own.wire_start);
        let known = own.wire_start.unwrap_or(known);
        coder.near_if(mask >> 3, known, &mut own.wire_end);
    }
    let known = before.record_last.unwrap_or(0);
    coder.near_if(mask >> 4, known, &mut own.record_first);
    let known = own.record_first.unwrap_or(known);
    coder.near_if(mask >> 5, known, &mut own.record_last);
}

/// What the client recorded of an exchange.
#[derive(Clone, Copy, Debug, Default)]
struct ClientRow {
    request: u64,
    extents: Extents,
}

/// What the server recorded of an exchange.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServerRow {
    stream: u64,
    pub(super) marks: ServerMarks,
    pub(super) extents: Extents,
}

/// A row that follows another one.
trait Follows: Copy + Default {
    fn code(&mut self, coder: &mut impl Coder, before: &Self);
}

impl Follows for ClientRow {
    fn code(&mut self, coder: &mut impl Coder, before: &ClientRow) {
        let mut mask = self.extents.mask();
        coder.plain(&mut mask);
        coder.near(before.request, &mut self.request);
        self.extents.code(coder, mask, &before.extents);
    }
}

impl Follows for ServerRow {
    fn code(&mut self, coder: &mut impl Coder, before: &ServerRow) {
        let marks = &mut self.marks;
        let times = [
            &marks.request_last,
            &marks.response_first,
            &marks.response_last,
        ];
        let mut mask = mask_of(times) | self.extents.mask() << OF_MARKS;
        coder.plain(&mut mask);
        coder.near(before.stream, &mut self.stream);
        let known = before.marks.response_last.unwrap_or(0);
        coder.near_if(mask, known, &mut marks.request_last);
        let known = marks.request_last.unwrap_or(known);
        coder.near_if(mask >> 1, known, &mut marks.response_first);
        let known = marks.response_first.unwrap_or(known);
        coder.near_if(mask >> 2, known, &mut marks.response_last);
        self.extents.code(coder, mask >> OF_MARKS, &before.extents);
    }
}

/// The rows of one connection.
#[derive(Debug, Default)]
struct Log<R> {
    rows: Packed,
    before: R,
}

impl<R: Follows> Log<R> {
    fn add(&mut self, mut row: R) {
        row.code(&mut self.rows.write(), &self.before);
        self.before = row;
    }

    fn unpack(&self) -> Vec<R> {
        let mut rows: Vec<R> = Vec::with_capacity(self.rows.rows());
        let mut reader = self.rows.read();
        let first = R::default();
        while reader.has_more() {
            let mut row = R::default();
            row.code(&mut reader, rows.last().unwrap_or(&first));
            rows.push(row);
        }
        rows
    }
}

/// The exchanges of all connections.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    client: Numbered<Log<ClientRow>>,
    server: Numbered<Log<ServerRow>>,
}

/// Those of one connection, to be looked up.
#[derive(Debug, Default)]
pub(super) struct OfBoth {
    client: Vec<ClientRow>,
    server: Vec<ServerRow>,
    by_request: OnceCell<Places>,
    by_stream: OnceCell<Places>,
}

/// The places of rows by their keys, in the order of the keys.
type Places = Vec<(u64, u32)>;

fn places(keys: impl Iterator<Item = u64>) -> Places {
    let mut places: Places = keys.zip(0..).collect();
    places.sort_unstable();
    places
}

fn find(places: &Places, key: u64) -> Option<usize> {
    let place = places.binary_search_by_key(&key, |(of, _)| *of).ok()?;
    Some(places[place].1 as usize)
}

impl Exchanges {
    /// Takes a row of either side.
    pub(super) fn add(&mut self, row: &ExchangeRecord) {
        let extents = Extents([row.request_extent, row.response_extent]);
        match (row.side, row.request) {
            (Side::Client, Some(request)) => {
                let log = self.client.of(row.connection);
                log.add(ClientRow { request, extents });
            }
            (Side::Client, None) => {}
            (Side::Server, _) => {
                let marks = ServerMarks {
                    request_last: row.request_last.map(Time::as_nanos),
                    response_first: row.response_first.map(Time::as_nanos),
                    response_last: row.response_last.map(Time::as_nanos),
                };
                self.server.of(row.connection).add(ServerRow {
                    stream: row.stream,
                    marks,
                    extents,
                });
            }
        }
    }

    /// Takes out those of a connection, by both sides' numbers.
    pub(super) fn take(&mut self, client: u32, server: Option<u32>) -> OfBoth {
        let of_client = self.client.remove(client).map(|log| log.unpack());
        let of_server = server
            .and_then(|server| self.server.remove(server))
            .map(|log| log.unpack());
        OfBoth {
            client: of_client.unwrap_or_default(),
            server: of_server.unwrap_or_default(),
            ..OfBoth::default()
        }
    }
}

impl OfBoth {
    /// What the client recorded of a request. Mostly a request and its exchange have the same `place` on their connection.
    pub(super) fn client_row(&self, request: u64, place: usize) -> Option<&Extents> {
        let rows = &self.client;
        let at_place = rows.get(place).filter(|row| row.request == request);
        let found = || {
            let places = self
                .by_request
                .get_or_init(|| places(rows.iter().map(|row| row.request)));
            find(places, request).map(|place| &rows[place])
        };
        at_place.or_else(found).map(|row| &row.extents)
    }

    /// What the server recorded of a stream.
    pub(super) fn server_row(&self, stream: u64) -> Option<&ServerRow> {
        let rows = &self.server;
        let places = self
            .by_stream
            .get_or_init(|| places(rows.iter().map(|row| row.stream)));
        find(places, stream).map(|place| &rows[place])
    }
}

#[cfg(test)]
mod tests {
    use squall_base::splitmix::splitmix64;

    use super::*;

    #[test]
    fn packed_rows_come_back() {
        let row = |n: u64| {
            let draw = |of: u64| splitmix64(of, n);
            let number = |of: u64| match draw(of) % 4 {
                0 => draw(of + 1),
                _ => n * 1_000 + draw(of + 1) % 500,
            };
            let maybe = |of: u64| (draw(of) % 5 > 0).then(|| number(of + 1));
            let extent = |of: u64| {
                let (start, end) = (number(of), number(of + 2));
                let is_clear = draw(of + 4) % 2 == 0;
                (draw(of + 5) % 6 > 0).then_some(Extent {
                    start,
                    end,
                    wire_start: if is_clear { Some(start) } else { maybe(of + 6) },
                    wire_end: if is_clear { Some(end) } else { maybe(of + 8) },
                    record_first: maybe(of + 10),
                    record_last: maybe(of + 12),
                })
            };
            ServerRow {
                stream: number(1),
                marks: ServerMarks {
                    request_last: maybe(10),
                    response_first: maybe(20),
                    response_last: maybe(30),
                },
                extents: Extents([extent(40), extent(60)]),
            }
        };
        let rows: Vec<ServerRow> = (0..5_000).map(row).collect();
        let (mut server, mut client) = (Log::default(), Log::default());
        for row in &rows {
            server.add(*row);
            client.add(ClientRow {
                request: row.stream,
                extents: row.extents,
            });
        }
        let text = |row: &ServerRow| format!("{row:?}");
        let expected: Vec<String> = rows.iter().map(text).collect();
        let found: Vec<String> = server.unpack().iter().map(text).collect();
        assert_eq!(found, expected);
        for (found, row) in client.unpack().iter().zip(&rows) {
            assert_eq!(found.request, row.stream);
            assert_eq!(found.extents.0, row.extents.0);
        }
    }
}

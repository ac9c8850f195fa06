//! The exchanges of a trial by connection, packed: where each request and response lies, and the server's marks.
//!
//! `message` works out which bytes of the stream are theirs.

use std::cell::OnceCell;

use squall_base::Time;
use squall_base::record::{Direction, Extent, Side};

use super::columns::ExchangeCells;
use super::numbered::NumberMap;
use super::packed::{Coder, DeltaCoded, PackedLog, mask_of};
use super::request_marks::ServerMarks;

/// Where a request and its response lie, by direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extents([PackedExtent; 2]);

impl Extents {
    fn of_row(row: &ExchangeCells) -> Extents {
        Extents([
            PackedExtent::of(&row.request_extent),
            PackedExtent::of(&row.response_extent),
        ])
    }

    /// Where the message in `direction` lies.
    pub(super) fn of(&self, direction: Direction) -> Option<Extent> {
        self.0[direction as usize].extent()
    }

    /// Which fields the two extents have, in [`EXTENT_BITS`] bits each.
    fn mask(&self) -> u64 {
        u64::from(self.0[0].has) | u64::from(self.0[1].has) << EXTENT_BITS
    }

    /// Codes the extents relative to those of the row before; their mask has already been coded.
    #[inline]
    fn code(&mut self, coder: &mut impl Coder, mask: u64, before: &Extents) {
        // Not in a loop: an array of masks that is written byte by byte and moved as a whole stalls the processor.
        let has = |mask: u64| (mask & ((1 << EXTENT_BITS) - 1)) as u8;
        let [request, response] = &mut self.0;
        request.code(coder, has(mask), &before.0[0]);
        response.code(coder, has(mask >> EXTENT_BITS), &before.0[1]);
    }
}

/// An optional extent; missing fields are zero.
#[derive(Clone, Copy, Debug, Default)]
struct PackedExtent {
    start: u64,
    end: u64,
    wire: [u64; 2],
    records: [u64; 2],
    has: u8,
}

/// Bits of `has`: there is an extent; its offsets on the wire equal those of the plaintext, because nothing is encrypted;
/// and one bit for each of the other fields.
const EXTENT: u8 = 1;
const CLEAR: u8 = 1 << 1;
const WIRE: [u8; 2] = [1 << 2, 1 << 3];
const RECORDS: [u8; 2] = [1 << 4, 1 << 5];
/// The number of those bits.
const EXTENT_BITS: u32 = 6;
/// The number of bits in the mask of the server's marks.
const MARK_BITS: u32 = 4;

impl PackedExtent {
    fn of(extent: &Option<Extent>) -> PackedExtent {
        let Some(own) = extent else {
            return PackedExtent::default();
        };
        let mut has = EXTENT;
        if (own.wire_start, own.wire_end) == (Some(own.start), Some(own.end)) {
            has |= CLEAR;
        }
        let mut some = |number: Option<u64>, bit: u8| {
            has |= if number.is_some() { bit } else { 0 };
            number.unwrap_or(0)
        };
        PackedExtent {
            start: own.start,
            end: own.end,
            wire: [some(own.wire_start, WIRE[0]), some(own.wire_end, WIRE[1])],
            records: [
                some(own.record_first, RECORDS[0]),
                some(own.record_last, RECORDS[1]),
            ],
            has,
        }
    }

    fn extent(&self) -> Option<Extent> {
        let number = |bit: u8, number: u64| (self.has & bit != 0).then_some(number);
        (self.has & EXTENT != 0).then(|| Extent {
            start: self.start,
            end: self.end,
            wire_start: number(WIRE[0], self.wire[0]),
            wire_end: number(WIRE[1], self.wire[1]),
            record_first: number(RECORDS[0], self.records[0]),
            record_last: number(RECORDS[1], self.records[1]),
        })
    }

    #[inline]
    fn code(&mut self, coder: &mut impl Coder, mask: u8, before: &PackedExtent) {
        self.has = mask;
        if mask & EXTENT == 0 {
            return;
        }
        coder.near(before.end, &mut self.start);
        coder.near(self.start, &mut self.end);
        if mask & CLEAR != 0 {
            self.wire = [self.start, self.end];
        }
        if mask & !(EXTENT | CLEAR) != WIRE[0] | WIRE[1] || mask & CLEAR == 0 {
            self.code_wire(coder, mask, before);
        }
    }

    /// Codes its offsets on the wire, and its records.
    fn code_wire(&mut self, coder: &mut impl Coder, mask: u8, before: &PackedExtent) {
        let mut near_if = |bit: u8, known: u64, number: &mut u64| match mask & bit {
            0 => known,
            _ => {
                coder.near(known, number);
                *number
            }
        };
        if mask & CLEAR == 0 {
            let from = near_if(WIRE[0], before.wire[1], &mut self.wire[0]);
            near_if(WIRE[1], from, &mut self.wire[1]);
        }
        let first = near_if(RECORDS[0], before.records[1], &mut self.records[0]);
        near_if(RECORDS[1], first, &mut self.records[1]);
    }
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

impl DeltaCoded for ClientRow {
    fn code(&mut self, coder: &mut impl Coder, before: &ClientRow) {
        let mut mask = self.extents.mask();
        coder.plain(&mut mask);
        coder.near(before.request, &mut self.request);
        self.extents.code(coder, mask, &before.extents);
    }
}

impl DeltaCoded for ServerRow {
    fn code(&mut self, coder: &mut impl Coder, before: &ServerRow) {
        let marks = &mut self.marks;
        let times = [
            &marks.request_last,
            &marks.response_first,
            &marks.response_last,
            &marks.ready,
        ];
        let mut mask = mask_of(times) | self.extents.mask() << MARK_BITS;
        coder.plain(&mut mask);
        coder.near(before.stream, &mut self.stream);
        let known = before.marks.response_last.unwrap_or(0);
        coder.near_if(mask, known, &mut marks.request_last);
        let known = marks.request_last.unwrap_or(known);
        coder.near_if(mask >> 1, known, &mut marks.response_first);
        let known = marks.response_first.unwrap_or(known);
        coder.near_if(mask >> 2, known, &mut marks.response_last);
        let known = marks.request_last.unwrap_or(known);
        coder.near_if(mask >> 3, known, &mut marks.ready);
        self.extents.code(coder, mask >> MARK_BITS, &before.extents);
    }
}

/// The exchanges of all connections.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    client: NumberMap<PackedLog<ClientRow>>,
    server: NumberMap<PackedLog<ServerRow>>,
}

/// The exchanges of one connection, for lookups.
#[derive(Debug, Default)]
pub(super) struct ConnectionExchanges {
    client: Vec<ClientRow>,
    server: Vec<ServerRow>,
    by_request: OnceCell<KeyIndex>,
    by_stream: OnceCell<KeyIndex>,
}

/// Positions of rows by key, sorted by key.
type KeyIndex = Vec<(u64, u32)>;

/// The row with this key. It is usually the one at `place`; otherwise `index` finds it, which is built when first needed.
fn find<'r, R>(
    rows: &'r [R],
    key_of: impl Fn(&R) -> u64,
    key: u64,
    place: usize,
    index: &OnceCell<KeyIndex>,
) -> Option<&'r R> {
    if let Some(row) = rows.get(place).filter(|row| key_of(row) == key) {
        return Some(row);
    }
    let index = index.get_or_init(|| {
        let mut index: KeyIndex = rows.iter().map(&key_of).zip(0..).collect();
        index.sort_unstable();
        index
    });
    let found = index.binary_search_by_key(&key, |(of, _)| *of).ok()?;
    Some(&rows[index[found].1 as usize])
}

impl Exchanges {
    /// Takes a row of either side.
    pub(super) fn add(&mut self, row: &ExchangeCells) {
        let extents = Extents::of_row(row);
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
                    ready: row.beginning.offered.map(Time::as_nanos),
                };
                self.server.of(row.connection).add(ServerRow {
                    stream: row.stream,
                    marks,
                    extents,
                });
            }
        }
    }

    /// Takes out the exchanges of a connection, by both sides' numbers.
    pub(super) fn take(&mut self, client: u32, server: Option<u32>) -> ConnectionExchanges {
        let of_client = self.client.remove(client).unwrap_or_default();
        let of_server = server.and_then(|server| self.server.remove(server));
        ConnectionExchanges {
            client: of_client.unpack(ClientRow::default()),
            server: of_server.unwrap_or_default().unpack(ServerRow::default()),
            ..ConnectionExchanges::default()
        }
    }
}

impl ConnectionExchanges {
    /// What the client recorded of a request. Usually a request and its exchange have the same `place` on their connection.
    pub(super) fn client_row(&self, request: u64, place: usize) -> Option<&Extents> {
        let key_of = |row: &ClientRow| row.request;
        let row = find(&self.client, key_of, request, place, &self.by_request)?;
        Some(&row.extents)
    }

    /// What the server recorded of a stream. Usually the server responded in the order in which the requests ended, and
    /// then its row is at `place`.
    pub(super) fn server_row(&self, stream: u64, place: usize) -> Option<&ServerRow> {
        let key_of = |row: &ServerRow| row.stream;
        find(&self.server, key_of, stream, place, &self.by_stream)
    }
}

#[cfg(test)]
mod tests {
    use squall_base::splitmix::splitmix64;

    use super::*;

    #[test]
    fn packed_rows_are_unpacked_unchanged() {
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
                    ready: maybe(35),
                },
                extents: Extents([extent(40), extent(60)].each_ref().map(PackedExtent::of)),
            }
        };
        let rows: Vec<ServerRow> = (0..5_000).map(row).collect();
        let (mut server, mut client) = (PackedLog::default(), PackedLog::default());
        for row in &rows {
            server.add(*row);
            client.add(ClientRow {
                request: row.stream,
                extents: row.extents,
            });
        }
        let text = |row: &ServerRow| format!("{row:?}");
        let expected: Vec<String> = rows.iter().map(text).collect();
        let found: Vec<String> = server
            .unpack(ServerRow::default())
            .iter()
            .map(text)
            .collect();
        assert_eq!(found, expected);
        for (found, row) in client.unpack(ClientRow::default()).iter().zip(&rows) {
            assert_eq!(found.request, row.stream);
            for direction in Direction::ALL {
                assert_eq!(found.extents.of(direction), row.extents.of(direction));
            }
        }
    }
}

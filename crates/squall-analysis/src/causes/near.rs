//! Attribution of one request from the records near it, instead of all records of its trial.
//!
//! Records from the middle of a connection show neither which connection they belong to nor where its streams began, because
//! connections are numbered in the order of their beginnings, and TCP's initial sequence numbers are in the SYNs.
//! [`PathConnections`] keeps what the beginnings of all connections show, some 60 bytes each (`beginnings` reads them). With
//! it, [`PathInputs::near`](super::PathInputs::near) takes only the records of a few connections, from some time on.
//!
//! What a connection did before that time is unknown here, such as which packets it had lost. So the result can differ from
//! that of all records, and has to be compared with the request's row of causes.parquet. `explain` does that.

use std::collections::BTreeSet;

use squall_base::Time;
use squall_base::record::Side;

use super::columns::ExchangeCells;
use super::tcp;

/// What the beginning of a connection shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownConnection {
    pub(super) flow: u32,
    /// The server's number for the connection, if it reached the server.
    pub(super) server: Option<u32>,
    /// When its first packet reached the link.
    pub(super) opened: u64,
    pub(super) start: KnownStart,
}

/// What the beginning shows of the transport.
#[derive(Clone, Copy, Debug)]
pub(super) enum KnownStart {
    Tcp(tcp::Opening),
    Quic {
        /// When the server had the first datagram, or [`NEVER`](super::walk::NEVER).
        accepted: u64,
    },
}

/// The beginnings of all connections of a trial.
#[derive(Debug)]
pub struct PathConnections {
    /// For each hop across a link, its connections by the client's number.
    pub(super) links: Vec<Option<Vec<KnownConnection>>>,
}

impl PathConnections {
    fn of_hop(&self, hop: u8) -> &[KnownConnection] {
        let place = usize::from(hop).checked_sub(1);
        let link = place.and_then(|place| self.links.get(place)?.as_deref());
        link.unwrap_or_default()
    }

    /// The client's numbers of the connections of a hop that were opened from `from` until before `to`.
    pub fn opened_within(&self, hop: u8, from: Time, to: Time) -> impl Iterator<Item = u32> {
        let within = from.as_nanos()..to.as_nanos();
        let all = (0..).zip(self.of_hop(hop));
        all.filter(move |(_, it)| within.contains(&it.opened))
            .map(|(number, _)| number)
    }

    /// The connections of a hop with these numbers, for records from `from` on.
    pub(super) fn near(
        &self,
        hop: u8,
        numbers: &BTreeSet<(u8, u32)>,
        from: Time,
    ) -> NearConnections {
        let all = self.of_hop(hop);
        let of_hop = numbers.range((hop, 0)..=(hop, u32::MAX));
        let connection = |&(_, number): &(u8, u32)| {
            Some(NearConnection {
                number,
                known: *all.get(usize::try_from(number).ok()?)?,
                offsets: [None; 2],
            })
        };
        NearConnections {
            from: from.as_nanos(),
            all: of_hop.filter_map(connection).collect(),
        }
    }
}

/// A connection whose records are taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct NearConnection {
    pub(super) number: u32,
    pub(super) known: KnownConnection,
    /// The least offset at which an exchange begins on the wire, by direction.
    offsets: [Option<u64>; 2],
}

/// The connections of a hop whose records are taken, from some time on.
#[derive(Debug)]
pub(super) struct NearConnections {
    from: u64,
    all: Vec<NearConnection>,
}

impl NearConnections {
    pub(super) fn all(&self) -> &[NearConnection] {
        &self.all
    }

    /// Whether packets of this flow can belong to any of these connections.
    pub(super) fn has_flow(&self, flow: u32) -> bool {
        self.all.iter().any(|it| it.known.flow == flow)
    }

    /// Whether any of these connections has this number at that side.
    pub(super) fn has(&self, side: Side, number: u32) -> bool {
        self.all.iter().any(|it| match side {
            Side::Client => it.number == number,
            Side::Server => it.known.server == Some(number),
        })
    }

    /// Learns from an exchange how many bytes its connection had carried.
    pub(super) fn add_offsets(&mut self, row: &ExchangeCells) {
        let mut all = self.all.iter_mut();
        let Some(own) = all.find(|it| row.side == Side::Client && it.number == row.connection)
        else {
            return;
        };
        let extents = [row.request_extent, row.response_extent];
        for (least, extent) in own.offsets.iter_mut().zip(extents) {
            let begin = extent.map(|extent| extent.wire_start.unwrap_or(extent.start));
            *least = [*least, begin].into_iter().flatten().min();
        }
    }

    /// The approximate offsets of a connection's streams where its records begin; `None` if they begin with the connection.
    pub(super) fn resumed(&self, connection: &NearConnection) -> Option<[u64; 2]> {
        let begins_before = connection.known.opened < self.from;
        begins_before.then(|| connection.offsets.map(Option::unwrap_or_default))
    }
}

//! A trial as detectors see it: its records joined with its causes, and the sums that several detectors need.
//!
//! On a path of several links, a detector with the scope of a link looks at one link at a time: it gets the packets, drops
//! and sockets of that link and the time on its hop. Shares of time cover the measured requests; counts of connections and
//! frames cover the whole trial.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use squall_base::Duration;
use squall_base::plan::{Hop, Protocol, Version};
use squall_base::record::{
    Cause, CausesRecord, DropRecord, Health, PacketRecord, Side, TrialRecord,
};

use super::changes::{Changes, changes};
use super::costs::Costs;
use super::finding::{Detection, Fix, Number, Whole};
use super::flows::Flows;
use super::frames::ConnectionFrames;
use super::knob::{Knob, beyond, fix};
use super::records::{ConnectionKey, Records, RequestRow};
use super::sockets::Sockets;
use crate::causes::{Attribution, without_roots};

/// Anything under 1 % of response time is not reported: it would not change a three-digit figure, neither the mean nor a
/// percentile. A judgement.
pub(super) const TIME_AT_LEAST: f64 = 0.01;

/// One trial.
pub(super) struct Case<'a> {
    /// If there are several links, the hop of the one that is looked at.
    link: Option<u8>,
    no_flows: Flows,
    pub(super) records: Records,
    attribution: Option<&'a Attribution>,
    pub(super) trial: &'a TrialRecord,
    /// Positions of rows by request number; the table itself is in the order in which requests ended.
    by_request: Vec<(u64, usize)>,
    /// Positions of rows by connection.
    by_connection: BTreeMap<u32, Vec<usize>>,
    /// Positions of rows by connection and stream.
    by_stream: BTreeMap<(u32, u64), usize>,
    total_ns: u64,
    measured: u64,
}

impl<'a> Case<'a> {
    pub(super) fn new(
        records: Records,
        attribution: Option<&'a Attribution>,
        trial: &'a TrialRecord,
    ) -> Case<'a> {
        let mut by_connection: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        let mut by_stream = BTreeMap::new();
        let mut by_request = Vec::with_capacity(records.requests.len());
        let (mut total_ns, mut measured) = (0_u64, 0);
        for (place, row) in records.requests.iter().enumerate() {
            by_request.push((row.request, place));
            if let Some(connection) = row.connection {
                by_connection.entry(connection).or_default().push(place);
                if let Some(stream) = row.stream {
                    by_stream.insert((connection, stream), place);
                }
            }
            if row.is_measured {
                let took = row.end.since(row.intended).as_nanos();
                total_ns = total_ns.saturating_add(took);
                measured += 1;
            }
        }
        by_request.sort_unstable();
        // Causes are in the order of the requests. If their numbers differ, they belong to another trial.
        let attribution = attribution.filter(|it| it.causes.len() == records.requests.len());
        Case {
            link: None,
            no_flows: Flows::default(),
            records,
            attribution,
            trial,
            by_request,
            by_connection,
            by_stream,
            total_ns,
            measured,
        }
    }

    /// Looks at the whole path, or at one of several links by its hop.
    pub(super) fn look_at(&mut self, link: Option<u8>) {
        self.link = link;
    }

    pub(super) fn health(&self) -> &Health {
        &self.trial.health
    }

    pub(super) fn measured(&self) -> impl Iterator<Item = &RequestRow> {
        self.records.requests.iter().filter(|row| row.is_measured)
    }

    pub(super) fn measured_count(&self) -> u64 {
        self.measured
    }

    /// Measured requests with their causes; empty if these are not known. For one of several links, these are the causes on
    /// its hop, without what requests in a queue waited for, which may be on any hop.
    pub(super) fn attributed(&self) -> impl Iterator<Item = (&RequestRow, CausesRecord)> {
        let total = self.attribution.filter(|_| self.link.is_none());
        let total = total.into_iter().flat_map(|it| it.causes.iter());
        let on_hop = self.attribution.zip(self.link).into_iter();
        let on_hop = on_hop.flat_map(|(it, hop)| of_hop(&it.hops, hop));
        let rows = self.records.requests.iter().zip(total.chain(on_hop));
        rows.filter(|(row, _)| row.is_measured)
    }

    pub(super) fn has_causes(&self) -> bool {
        self.attribution.is_some()
    }

    pub(super) fn drops(&self) -> impl Iterator<Item = &DropRecord> {
        let drops = self.attribution.into_iter().flat_map(|it| &it.drops);
        drops.filter(|row| self.link.is_none_or(|link| row.packet.hop == link))
    }

    /// The packets of the link.
    pub(super) fn flows(&self) -> &Flows {
        let flows = &self.records.flows;
        let own = flows.get(&self.link_hop().0);
        own.or_else(|| flows.get(&PacketRecord::ONLY_LINK))
            .unwrap_or(&self.no_flows)
    }

    /// Connections with their frames; for one of several links, only those that cross it.
    pub(super) fn frames(&self) -> impl Iterator<Item = (&ConnectionKey, &ConnectionFrames)> {
        let frames = self.records.frames.iter();
        frames.filter(|((hop, ..), _)| self.link.is_none_or(|link| *hop == link))
    }

    /// The sockets of that side of the link's hop.
    pub(super) fn sockets_of(&self, side: Side) -> impl Iterator<Item = &Sockets> {
        let (hop, _) = self.link_hop();
        let sockets = self.records.sockets.iter();
        let of_side = sockets.filter(move |((on, of, _), _)| *on == hop && *of == side);
        of_side.map(|(_, socket)| socket)
    }

    /// The side that flow control stopped longer, by what `blocked_ns` reads from each connection's frames. If the frames
    /// show no difference, as with HTTP/3, it is the side that sends more body bytes.
    pub(super) fn most_blocked(&self, blocked_ns: fn(&ConnectionFrames) -> u64) -> Side {
        let [client, server] = Side::ALL.map(|side| {
            let of_side = self.frames().filter(|((_, of, _), _)| *of == side);
            of_side
                .map(|(_, frames)| blocked_ns(frames))
                .fold(0, u64::saturating_add)
        });
        match client.cmp(&server) {
            Ordering::Greater => Side::Client,
            Ordering::Less => Side::Server,
            Ordering::Equal => self.main_sender(),
        }
    }

    pub(super) fn row(&self, request: u64) -> Option<&RequestRow> {
        let found = self
            .by_request
            .binary_search_by_key(&request, |(of, _)| *of);
        found
            .ok()
            .map(|found| &self.records.requests[self.by_request[found].1])
    }

    /// The requests of one of the client's connections; none for a link that the client's hop does not cross.
    pub(super) fn rows_of(&self, connection: u32) -> impl Iterator<Item = &RequestRow> {
        let is_client = self.link.is_none_or(|link| link == 1);
        let places = self.by_connection.get(&connection).filter(|_| is_client);
        let places = places.map_or(&[][..], Vec::as_slice);
        places.iter().map(|place| &self.records.requests[*place])
    }

    /// The request on a stream as one side of a hop numbers it, if that can be mapped to the client's numbers.
    pub(super) fn row_of_stream(&self, key: ConnectionKey, stream: u64) -> Option<&RequestRow> {
        let (hop, side, connection) = key;
        let connection = match side {
            _ if hop != 1 => return None,
            Side::Client => connection,
            // Each side numbers its own connections; only a single connection can be mapped with certainty.
            Side::Server if self.by_connection.len() == 1 => *self.by_connection.keys().next()?,
            Side::Server => return None,
        };
        let place = self.by_stream.get(&(connection, stream))?;
        Some(&self.records.requests[*place])
    }

    /// The request on a stream, like `row_of_stream`, if it was measured.
    pub(super) fn measured_row(&self, key: ConnectionKey, stream: u64) -> Option<&RequestRow> {
        let row = self.row_of_stream(key, stream);
        row.filter(|row| row.is_measured)
    }

    /// What a cause cost the measured requests, including those that waited behind the ones it hit.
    pub(super) fn cost_of(&self, cause: Cause) -> Costs {
        self.cost_of_all(&[cause])
    }

    /// What these causes cost together.
    pub(super) fn cost_of_all(&self, of: &[Cause]) -> Costs {
        let mut costs = Costs::default();
        for (row, causes) in self.attributed() {
            let roots = causes.root_spans();
            let spans = of.iter().map(|cause| roots[*cause]);
            costs.add(row.request, spans.fold(Duration::ZERO, |sum, it| sum + it));
        }
        costs
    }

    /// `nanos` as a share of the measured response time.
    pub(super) fn share_of_time(&self, nanos: u64) -> f64 {
        if self.total_ns == 0 {
            return 0.0;
        }
        (nanos as f64 / self.total_ns as f64).min(1.0)
    }

    /// The finding with these costs, if they are at least `at_least` of the response time.
    pub(super) fn detection_by_time(
        &self,
        costs: Costs,
        at_least: f64,
        mut numbers: Vec<Number>,
        fixes: impl IntoIterator<Item = Fix>,
    ) -> Option<Detection> {
        let part = self.share_of_time(costs.sum());
        if part < at_least {
            return None;
        }
        numbers.insert(0, number("time that it cost", costs.millis(), "ms"));
        numbers.insert(1, count("requests that it cost time", costs.count()));
        Some(Detection {
            part,
            of: Whole::ResponseTime,
            numbers,
            requests: costs.worst(),
            fixes: fixes.into_iter().collect(),
        })
    }

    /// The hop across the link, and its number. If there are several links, it is the one looked at, otherwise the first.
    pub(super) fn link_hop(&self) -> (u8, &Hop) {
        let variant = &self.trial.trial.variant;
        let is_own = |(hop, _): &(u8, &Hop)| Some(*hop) == self.link;
        let own = variant.link_hops().find(is_own);
        own.unwrap_or_else(|| variant.link_hop())
    }

    pub(super) fn link_protocol(&self) -> Protocol {
        self.link_hop().1.protocol
    }

    pub(super) fn is_tcp(&self) -> bool {
        self.link_protocol().version() != Version::Http3
    }

    /// The link's configured round trip, without queues.
    pub(super) fn round_trip(&self) -> Duration {
        self.trial.trial.link_round_trip(self.link_hop().0)
    }

    /// The round trip that a hop's peers wait for: that of its own link or, inside a host, the longest of all links.
    pub(super) fn round_trip_at(&self, hop: u8) -> Duration {
        let trial = &self.trial.trial;
        let round_trip = |(link, _): (u8, &Hop)| trial.link_round_trip(link);
        let mut links = trial.variant.link_hops();
        match links.find(|(link, _)| *link == hop) {
            Some(own) => round_trip(own),
            None => {
                let all = trial.variant.link_hops().map(round_trip);
                all.max().unwrap_or_default()
            }
        }
    }

    /// The congestion control of that side of the link's hop, as a sender.
    pub(super) fn congestion_control(&self, side: Side) -> &str {
        let (_, hop) = self.link_hop();
        let settings = match side {
            Side::Client => &hop.client,
            Side::Server => &hop.server,
        };
        match hop.protocol.version() {
            Version::Http3 => settings.http3.congestion_control.name(),
            _ => settings
                .tcp
                .congestion_control
                .as_deref()
                .unwrap_or_default(),
        }
    }

    /// How many requests were in flight, on average over the trial.
    pub(super) fn mean_concurrency(&self) -> f64 {
        let rows = &self.records.requests;
        let begin = rows.iter().map(|row| row.intended).min();
        let end = rows.iter().map(|row| row.end).max();
        let (Some(begin), Some(end)) = (begin, end) else {
            return 0.0;
        };
        let took = rows
            .iter()
            .map(|row| row.end.since(row.intended).as_nanos() as f64);
        took.sum::<f64>() / end.since(begin).as_nanos().max(1) as f64
    }

    /// The side that sends more body bytes.
    pub(super) fn main_sender(&self) -> Side {
        let (mut up, mut down) = (0, 0);
        for row in &self.records.requests {
            up += row.request_body_bytes;
            down += row.response_body_bytes;
        }
        side_with_more([up, down])
    }

    /// The station at that side of a hop, and what to set there. If that is in force already, what still helps beyond it;
    /// `None` if nothing does.
    pub(super) fn fix(&self, hop: u8, side: Side, knob: Knob) -> Option<Fix> {
        let trial = &self.trial.trial;
        let words = fix(&trial.variant, hop, side, knob);
        match changes(trial, hop, side, knob) {
            Changes::Settings(changes) => Some(Fix { changes, ..words }),
            Changes::InWords => Some(words),
            Changes::InForce => Some(Fix {
                setting: beyond(knob)?.to_owned(),
                ..words
            }),
        }
    }

    /// A fix at that side of the link's hop.
    pub(super) fn link_fix(&self, side: Side, knob: Knob) -> Option<Fix> {
        self.fix(self.link_hop().0, side, knob)
    }
}

/// The causes of all requests on a hop, in the order of the requests.
fn of_hop(rows: &[CausesRecord], hop: u8) -> impl Iterator<Item = CausesRecord> {
    let own = rows.iter().filter(move |row| row.hop == hop);
    own.map(|row| CausesRecord {
        queue_roots: without_roots(&row.spans),
        ..*row
    })
}

/// The side with the larger number; the server if they are equal.
pub(super) fn side_with_more([client, server]: [u64; 2]) -> Side {
    if client > server {
        Side::Client
    } else {
        Side::Server
    }
}

pub(super) fn number(what: &str, value: f64, unit: &str) -> Number {
    Number {
        what: what.to_owned(),
        value,
        unit: unit.to_owned(),
    }
}

/// A number without a unit.
pub(super) fn count(what: &str, value: u64) -> Number {
    number(what, value as f64, "")
}

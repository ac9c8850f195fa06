//! One request of a trial, without reading all of the trial's tables: for `squall explain RUN REQUEST` and `squall view`.
//!
//! Once for each trial, its tables are checked against their checksums, and its packets are read for the beginnings of its
//! connections. For each request, only the rows around its time are read. squall-analysis explains the request from them and
//! compares the result with the request's row of causes.parquet. If they differ, the request depends on something earlier, and
//! the next attempt starts reading earlier. If that does not help either, the caller reads all tables.
//! docs/VIEW.md says what this costs.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use squall_analysis::causes::{
    ExchangeCells, FirstFrameCells, PacketCells, PathBeginnings, PathConnections, PathInputs,
    PathShape, SocketCells, window_margin,
};
use squall_analysis::detail::{DetailBuilder, TrialDetail};
use squall_analysis::explain::{Explanation, NearRecords, explain_near};
use squall_base::record::{
    CausesRecord, DropRecord, ExchangeRecord, FrameRecord, RequestRecord, Side, SocketRecord,
};
use squall_base::{Duration, Time};
use squall_record::{
    ColumnRange, RecordError, Rows, SCHEMA, TableRow, TrialFolder, each_projected,
    each_projected_within,
};

use super::arguments::no_such_request;
use crate::trials::SelectedTrial;

/// Reading starts this long before a request was due, by attempt: one second covers several round trips, and ten cover most
/// timeouts.
const BEFORE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// Round trips are assumed to be no longer than this.
const ROUND_TRIP: Duration = Duration::from_secs(3);

/// Reading stops this long after a request's end: what was sent next shows what a sender waited for.
const AFTER: Duration = Duration::from_secs(1);

/// How much longer packets are read than frames, because a packet reaches the link after its frames were recorded.
const PACKETS_AFTER: Duration = Duration::from_millis(20);

/// If a request's row names no connection, it may be any that was opened this long before or after the request got one.
const OPENED_WITHIN: Duration = Duration::from_secs(1);

/// What is kept of a trial to explain its requests.
pub(super) struct NearTables {
    shape: PathShape,
    /// `None` if each request needs all tables, because those of an older squall lack something.
    connections: Option<PathConnections>,
}

impl NearTables {
    /// Checks all tables that explanations are made from, and reads the beginnings of connections.
    pub(super) fn open(selected: &SelectedTrial, shape: PathShape) -> Result<NearTables> {
        let SelectedTrial { folder, record } = selected;
        if record.schema != SCHEMA || !folder.has(record, &folder.drops()) {
            let connections = None;
            return Ok(NearTables { shape, connections });
        }
        let mut beginnings = PathBeginnings::new(shape.clone());
        folder.read_checked(record, &folder.packets(), |path| {
            each_projected(path, |row: PacketCells| beginnings.add_packet(row))
        })?;
        folder.read_checked(record, &folder.frames(), |path| {
            if beginnings.needs_frames() {
                each_projected(path, |row: FirstFrameCells| beginnings.add_frame(&row))?;
            }
            Ok(())
        })?;
        let others = [
            folder.requests(),
            folder.exchanges(),
            folder.sockets(),
            folder.causes(),
            folder.drops(),
        ];
        for path in others {
            folder.read_checked(record, &path, |_| Ok(()))?;
        }
        Ok(NearTables {
            shape,
            connections: Some(beginnings.connections()),
        })
    }

    /// Explains a request from the rows near it; `None` if all tables are needed.
    pub(super) fn explain(
        &self,
        selected: &SelectedTrial,
        request: u64,
    ) -> Result<Option<Explanation>> {
        self.find(selected, request, explain_near)
    }

    /// A request with its connections in full, from the rows near it; `None` if all tables are needed.
    pub(super) fn detail(
        &self,
        selected: &SelectedTrial,
        request: u64,
    ) -> Result<Option<TrialDetail>> {
        let SelectedTrial { folder, record } = selected;
        let found = self.find(selected, request, |records, written| {
            DetailBuilder::near(record, records, written)
        })?;
        let Some(mut builder) = found else {
            return Ok(None);
        };
        if let Some((from, to)) = builder.span() {
            let during = [ColumnRange::of_time("time_ns", from, to)];
            Rows::<FrameRecord>::open_within(folder.frames(), &during)?
                .each(|row| builder.add_frame(row))?;
            Rows::<SocketRecord>::open_within(folder.sockets(), &during)?
                .each(|row| builder.add_socket(row))?;
        }
        Ok(Some(builder.finish()))
    }

    /// What `attempt` finds in the rows near a request and in its row of causes.parquet. If it finds nothing, it gets the rows
    /// of a longer time. `None` if all tables are needed.
    fn find<T>(
        &self,
        SelectedTrial { folder, record }: &SelectedTrial,
        request: u64,
        attempt: impl Fn(NearRecords, &CausesRecord) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(connections) = &self.connections else {
            return Ok(None);
        };
        let own = [ColumnRange::new("request", request..=request)];
        let requests: Vec<RequestRecord> = rows_within(folder.requests(), &own)?;
        let Some(row) = requests.first() else {
            let last = record.requests.checked_sub(1);
            return Err(no_such_request(folder.root(), request, last).into());
        };
        let causes: Vec<CausesRecord> = rows_within(folder.causes(), &own)?;
        let Some(written) = causes.iter().find(|row| row.is_in_total()) else {
            return Ok(None);
        };
        let trial = NearTrial {
            shape: &self.shape,
            connections,
            folder,
        };
        for before in BEFORE {
            let found = attempt(trial.records(row, before)?, written);
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

/// A trial whose rows near a request are read.
struct NearTrial<'a> {
    shape: &'a PathShape,
    connections: &'a PathConnections,
    folder: &'a TrialFolder,
}

impl NearTrial<'_> {
    /// Reads the rows near a request.
    fn records(&self, row: &RequestRecord, before: Duration) -> Result<NearRecords, RecordError> {
        let folder = self.folder;
        // A page shows the request's connection from this long before the request until this long after it.
        let margin = window_margin(row.response_time());
        // What was in flight then was sent at most a round trip earlier, and a round trip is at most the response time.
        let in_flight_since = margin + row.response_time().min(ROUND_TRIP);
        let from = earlier(row.intended, before.max(in_flight_since));
        let to = row.end + AFTER.max(margin);
        let numbers = self.connection_numbers(row, to)?;
        let shape = self.shape.clone();
        let mut inputs = PathInputs::near(shape, self.connections, &numbers, from);
        let requests = self.requests((from, to), &numbers)?;
        requests.iter().for_each(|row| inputs.add_request(row));
        // An exchange that was on the request's connection at `from` may have begun earlier.
        let on_connection = requests
            .iter()
            .filter(|it| it.connection.is_some() && it.connection == row.connection);
        let began = on_connection.map(|it| it.intended).min();
        let began = began.map_or(from, |began| began.min(from));
        let exchanges = [ColumnRange::of_time("request_first_ns", began, to)];
        each_projected_within(folder.exchanges(), &exchanges, |row: ExchangeCells| {
            inputs.add_exchange(row);
        })?;
        let frames = [ColumnRange::of_time("time_ns", began, to)];
        let wanted = inputs.wanted_frames();
        Rows::open_within(folder.frames(), &frames)?
            .each_wanted(wanted, |row| inputs.add_frame(row))?;
        let sockets = [ColumnRange::of_time("time_ns", from, to)];
        each_projected_within(folder.sockets(), &sockets, |row: SocketCells| {
            inputs.add_socket(row);
        })?;
        let packets = [ColumnRange::of_time("arrived_ns", from, to + PACKETS_AFTER)];
        each_projected_within(folder.packets(), &packets, |row: PacketCells| {
            inputs.add_packet(row);
        })?;
        let drops = [ColumnRange::of_time("dropped_at_ns", from, to)];
        let drops: Vec<DropRecord> = rows_within(folder.drops(), &drops)?;
        Ok(NearRecords {
            requests,
            inputs,
            drops,
        })
    }

    /// The requests that were in flight at any time in this span, on connections that can affect the explained request.
    fn requests(
        &self,
        (from, to): (Time, Time),
        numbers: &BTreeSet<(u8, u32)>,
    ) -> Result<Vec<RequestRecord>, RecordError> {
        let in_flight = [
            ColumnRange::of_time("intended_ns", Time::ZERO, to),
            ColumnRange::new("end_ns", from.as_nanos()..=u64::MAX),
        ];
        // On a later hop, requests of all connections can share one connection.
        let takes_all = self.shape.hops() > 1;
        let takes = |row: &RequestRecord| {
            let number = row.connection;
            takes_all || number.is_none_or(|number| numbers.contains(&(1, number)))
        };
        let mut requests = Vec::new();
        Rows::<RequestRecord>::open_within(self.folder.requests(), &in_flight)?.each(|row| {
            if takes(row) {
                requests.push(row.clone());
            }
        })?;
        Ok(requests)
    }

    /// The connections that a request was on or, if its row names none, may have been on: each as the number of its hop and
    /// its number at that hop's client.
    fn connection_numbers(
        &self,
        row: &RequestRecord,
        to: Time,
    ) -> Result<BTreeSet<(u8, u32)>, RecordError> {
        let mut numbers = BTreeSet::new();
        if let Some(number) = row.connection {
            numbers.insert((1, number));
        } else if let Some(slot) = row.slot {
            let from = earlier(slot, OPENED_WITHIN);
            let opened = self
                .connections
                .opened_within(1, from, slot + OPENED_WITHIN);
            numbers.extend(opened.map(|number| (1, number)));
        }
        if self.shape.hops() > 1 {
            let own = [
                ColumnRange::new("request", row.request..=row.request),
                ColumnRange::of_time("request_first_ns", row.intended, to),
            ];
            Rows::<ExchangeRecord>::open_within(self.folder.exchanges(), &own)?.each(|row| {
                if row.side == Side::Client && row.hop > 1 {
                    numbers.insert((row.hop, row.connection));
                }
            })?;
        }
        Ok(numbers)
    }
}

/// This long before a time; the trial's epoch if that is later.
fn earlier(time: Time, by: Duration) -> Time {
    Time::from_nanos(time.as_nanos().saturating_sub(by.as_nanos()))
}

/// The rows of a table within these ranges.
fn rows_within<R: TableRow>(
    path: impl AsRef<Path>,
    ranges: &[ColumnRange],
) -> Result<Vec<R>, RecordError> {
    Rows::open_within(path, ranges)?.collect()
}

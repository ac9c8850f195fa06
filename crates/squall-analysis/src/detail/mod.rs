//! Some requests of a run in full, with their connections: what a report shows when a reader asks about one of them.
//!
//! `choice` picks the requests; it looks at each trial only once. For a trial with chosen requests, [`DetailBuilder`]
//! explains them with the code of `explain`, and `rows` adds what the tables of frames and sockets show of them (`life`: of
//! the whole lives of their connections). Memory is bounded by the chosen connections: rows of others are never kept. Long
//! lists are thinned. Nothing is read or drawn here.

mod choice;
mod life;
mod rows;
mod sender;

use std::collections::BTreeSet;

use squall_base::Time;
use squall_base::record::{
    CausesRecord, DropRecord, FrameRecord, RequestRecord, SocketRecord, TrialRecord, Victim,
};

use crate::causes::{ConnectionTrace, Detail, PathInputs};
use crate::explain::{Explanation, NearRecords, follow_near, follow_requests};
use crate::thinned::Thinned;
pub use choice::{ChosenRequests, DETAILED_AT_MOST, DetailCandidates, choose_detailed};
pub use rows::FrameTick;
use rows::RowCollector;
pub use sender::{SenderRows, SenderSample, WindowLevel};

/// A request in full.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestDetail {
    /// Why it was chosen; empty if a reader asked for this request.
    pub reasons: Vec<String>,
    /// All that is known about it.
    pub explanation: Explanation,
    /// The other requests that the same lost packets delayed, in the order of their numbers.
    pub delayed_with: Vec<u64>,
    /// The frames of its streams on all hops, in order of time.
    pub frames: Thinned<FrameTick>,
}

/// A connection of such requests.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionDetail {
    /// What its packets show.
    pub trace: ConnectionTrace,
    /// What its sides recorded, for each window of the trace and by direction.
    pub senders: Vec<[SenderRows; 2]>,
    /// What its sides recorded over its whole life, by direction: for each interval, the smallest windows and the last
    /// sample.
    pub life_senders: [SenderRows; 2],
}

/// The chosen requests of a trial, and their connections over links.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialDetail {
    /// The trial's folder within the run.
    pub folder: String,
    /// The trial's position in the order of the run.
    pub index: u32,
    /// The requests, in the order of their numbers.
    pub requests: Vec<RequestDetail>,
    /// The connections, sorted by hop and number.
    pub connections: Vec<ConnectionDetail>,
}

/// Makes the details of a trial from its tables. Frames and sockets are read twice: once for `inputs`, and once more for the
/// connections of the chosen requests, which are known only then.
#[derive(Debug)]
pub struct DetailBuilder {
    folder: String,
    index: u32,
    /// The requests; their frames are added at the end.
    requests: Vec<RequestDetail>,
    connections: Vec<ConnectionTrace>,
    rows: RowCollector,
}

impl DetailBuilder {
    /// Explains the chosen requests. `requests` are all rows of the trial, `inputs` all rows of all its tables.
    pub fn new(
        record: &TrialRecord,
        requests: &[RequestRecord],
        inputs: PathInputs,
        chosen: &ChosenRequests,
    ) -> DetailBuilder {
        let numbers: BTreeSet<u64> = chosen.keys().copied().collect();
        let detail = Detail::ConnectionsOf(&numbers);
        let (mut explanations, attribution) = follow_requests(requests, inputs, &numbers, detail);
        explanations.sort_by_key(|it| it.request);
        DetailBuilder::of(
            record,
            explanations,
            attribution.traces,
            &attribution.drops,
            chosen,
        )
    }

    /// Explains a request that a reader asked for, from the records near it. `written` is its row of causes.parquet for the
    /// whole path. `None` if the records show other causes, as for [`explain_near`](crate::explain::explain_near).
    pub fn near(
        record: &TrialRecord,
        records: NearRecords,
        written: &CausesRecord,
    ) -> Option<DetailBuilder> {
        let wanted = BTreeSet::from([written.request]);
        let found = follow_near(records, written, &wanted, Detail::ConnectionsOf(&wanted))?;
        // Only a part of the connections' lives was read.
        let traces = found.traces.into_iter();
        let traces = traces.map(|it| ConnectionTrace { life: None, ..it });
        Some(DetailBuilder::of(
            record,
            vec![found.explanation],
            traces.collect(),
            &found.drops,
            &ChosenRequests::new(),
        ))
    }

    /// For these requests, in the order of their numbers, with their connections and the drops around them.
    fn of(
        record: &TrialRecord,
        explanations: Vec<Explanation>,
        mut connections: Vec<ConnectionTrace>,
        drops: &[DropRecord],
        chosen: &ChosenRequests,
    ) -> DetailBuilder {
        connections.sort_by_key(|it| (it.hop, it.connection));
        let rows = RowCollector::new(&explanations, &connections);
        let without_frames = explanations.into_iter().map(|it| RequestDetail {
            reasons: chosen.get(&it.request).cloned().unwrap_or_default(),
            delayed_with: delayed_with(it.request, drops),
            explanation: it,
            frames: Thinned::default(),
        });
        DetailBuilder {
            folder: record.trial.folder(),
            index: record.trial.index,
            requests: without_frames.collect(),
            connections,
            rows,
        }
    }

    /// The time span of the rows of frames and sockets that belong to the details; `None` without requests.
    pub fn span(&self) -> Option<(Time, Time)> {
        let explained = self.requests.iter().map(|it| &it.explanation);
        let requests = explained.map(|it| (it.intended, it.end));
        let connections = self.connections.iter();
        let windows = connections.flat_map(|it| it.windows.iter().chain(&it.life));
        let all = requests.chain(windows.map(|it| (it.from, it.to)));
        all.reduce(|(from, to), other| (from.min(other.0), to.max(other.1)))
    }

    /// Takes a row of frames.parquet.
    pub fn add_frame(&mut self, row: &FrameRecord) {
        self.rows.add_frame(row, &self.connections);
    }

    /// Takes a row of sockets.parquet.
    pub fn add_socket(&mut self, row: &SocketRecord) {
        self.rows.add_socket(row, &self.connections);
    }

    /// The details.
    pub fn finish(self) -> TrialDetail {
        let (frames, senders) = self.rows.finish(&self.connections);
        let requests = self.requests.into_iter().zip(frames);
        let connections = self.connections.into_iter().zip(senders);
        TrialDetail {
            folder: self.folder,
            index: self.index,
            requests: requests
                .map(|(request, frames)| RequestDetail { frames, ..request })
                .collect(),
            connections: connections
                .map(|(trace, (senders, life_senders))| ConnectionDetail {
                    trace,
                    senders,
                    life_senders,
                })
                .collect(),
        }
    }
}

/// The other requests that the same packets delayed.
fn delayed_with(request: u64, drops: &[DropRecord]) -> Vec<u64> {
    let is_it = |victim: &Victim| victim.request == request;
    let shared = drops.iter().filter(|drop| drop.victims.iter().any(is_it));
    let victims = shared.flat_map(|drop| &drop.victims);
    let others: BTreeSet<u64> = victims
        .map(|victim| victim.request)
        .filter(|other| *other != request)
        .collect();
    others.into_iter().collect()
}

//! What a probe keeps for the files that the user wants, besides its observations: what it cost, the frames of all
//! connections for qlog, and the capture of its packets.
//!
//! Nothing is concluded from what is kept here. `capture` has the packets, and `files` writes the page.

use std::fs::File;
use std::io::BufWriter;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};

use anyhow::{Context, Result};
use squall_analysis::probe::{Segment, Step, StepKind, version_name};
use squall_base::Time;
use squall_linux::clock;
use squall_linux::flow_tap::FlowTap;
use squall_record::export::{QlogTrace, write_qlog};
use squall_report::probe::ProbeCost;

use super::arguments::Arguments;
use super::capture::{Capture, OwnSockets};
use crate::key_log::KeyLog;

/// The number of the only hop, because the probe's client is not part of a path.
const HOP: u8 = 1;

/// Lines of a TLS key log.
type Secrets = Vec<String>;

/// What is kept of a probe.
pub(super) struct Recording {
    keys: Option<Sender<Secrets>>,
    capture: Option<Capture>,
    qlog: Option<Qlog>,
    spent: ProbeCost,
    /// The letter of the current endpoint, if there are several.
    endpoint: Option<char>,
}

impl Recording {
    /// Creates the files that the flags name. `tap` is given if there is to be a capture, or if this process may see packets.
    pub(super) fn start(
        arguments: &Arguments,
        keys: Option<&KeyLog>,
        tap: Option<FlowTap>,
    ) -> Result<Recording> {
        let path = arguments.pcap.as_deref();
        let capture = tap.map(|tap| Capture::start(path, tap)).transpose()?;
        Ok(Recording {
            keys: keys.map(KeyLog::sender),
            capture,
            qlog: arguments.qlog.as_deref().map(Qlog::create).transpose()?,
            spent: ProbeCost::default(),
            endpoint: None,
        })
    }

    /// Begins the records of an endpoint; `letter` identifies it if there are several.
    pub(super) fn begin(&mut self, letter: Option<char>) {
        self.spent = ProbeCost::default();
        self.endpoint = letter;
    }

    /// What the current endpoint has cost so far, apart from time.
    pub(super) fn spent(&self) -> ProbeCost {
        self.spent
    }

    /// Where a step's client sends its TLS secrets, and the receiving end if they are kept here.
    pub(super) fn secrets(&self) -> (Option<Sender<Secrets>>, Option<Receiver<Secrets>>) {
        if !self.capture.as_ref().is_some_and(Capture::has_file) {
            return (self.keys.clone(), None);
        }
        let (sender, received) = mpsc::channel();
        (Some(sender), Some(received))
    }

    /// The set of the probe's own sockets, if it is needed.
    pub(super) fn own(&self) -> Option<OwnSockets> {
        self.capture.as_ref().map(|capture| capture.own().clone())
    }

    /// Notes that the next connections go to this server.
    pub(super) fn watch(&mut self, server: Option<SocketAddr>) {
        if let (Some(capture), Some(server)) = (&mut self.capture, server) {
            capture.watch(server);
        }
    }

    /// Notes that the probe itself opened a socket from this address.
    pub(super) fn opened(&self, from: SocketAddr, is_tcp: bool) {
        if let Some(capture) = &self.capture {
            capture.own().add(from, is_tcp);
        }
    }

    /// The packets of TCP since the last call; none if they cannot be seen.
    pub(super) fn take_segments(&self) -> Vec<Segment> {
        (self.capture.as_ref()).map_or_else(Vec::new, Capture::take_segments)
    }

    /// Keeps the secrets that a step's client sent, and passes them on to the key log.
    pub(super) fn add_secrets(&mut self, received: Option<&Receiver<Secrets>>) {
        // Everything was sent before the client ended.
        for lines in received.into_iter().flat_map(Receiver::try_iter) {
            if let Some(capture) = &mut self.capture {
                capture.add_secrets(&lines);
            }
            if let Some(keys) = self.keys.as_ref().filter(|_| !lines.is_empty()) {
                // The key log itself reports what it could not write.
                let _ = keys.send(lines);
            }
        }
    }

    /// Keeps what the files need of a step.
    pub(super) fn add(&mut self, step: &Step) {
        self.spent.requests += step.requests.len() as u64;
        let sent = step.requests.iter().map(|row| row.request_body_bytes);
        self.spent.sent_bytes += sent.sum::<u64>();
        self.spent.received_bytes += step.body_bytes();
        if let Some(qlog) = &mut self.qlog {
            qlog.add(step, self.endpoint);
        }
    }

    /// Writes the files.
    pub(super) fn finish(self) -> Result<()> {
        let frames = self.qlog.map_or(Ok(()), Qlog::finish);
        let packets = self.capture.map_or(Ok(()), Capture::finish);
        frames.and(packets)
    }
}

/// The frames of all connections.
struct Qlog {
    path: PathBuf,
    file: File,
    epoch: Time,
    epoch_unix_ns: u64,
    traces: Vec<QlogTrace>,
    /// The number of the next step's first connection: each step counts its own from 0.
    connections: u32,
}

impl Qlog {
    fn create(path: &Path) -> Result<Qlog> {
        let file = File::create(path)
            .with_context(|| format!("cannot write the qlog {}", path.display()))?;
        Ok(Qlog {
            path: path.to_owned(),
            file,
            epoch: clock::now(),
            epoch_unix_ns: clock::unix_nanos(),
            traces: Vec::new(),
            connections: 0,
        })
    }

    fn add(&mut self, step: &Step, endpoint: Option<char>) {
        let mut frames = step.frames.clone();
        for row in &mut frames {
            row.count_from(self.epoch);
            row.connection += self.connections;
        }
        let mut sockets = step.sockets.clone();
        for row in &mut sockets {
            row.count_from(self.epoch);
            row.connection += self.connections;
        }
        let last = step.requests.iter().filter_map(|row| row.connection).max();
        let last = last.max(step.frames.iter().map(|row| row.connection).max());
        self.connections += last.map_or(0, |last| last + 1);
        let purpose = purpose(step, endpoint);
        let traces = QlogTrace::of_hop(HOP, &frames, &sockets).into_iter();
        self.traces
            .extend(traces.map(|trace| trace.with_purpose(purpose.clone())));
    }

    fn finish(self) -> Result<()> {
        let out = BufWriter::new(self.file);
        write_qlog(out, self.epoch_unix_ns, "squall probe", &self.traces)
            .with_context(|| format!("cannot write the qlog {}", self.path.display()))?;
        Ok(())
    }
}

/// What the connections of a step were for.
fn purpose(step: &Step, endpoint: Option<char>) -> String {
    let kind = match step.kind {
        StepKind::Small => "small requests",
        StepKind::Download => "download",
        StepKind::SixDownloads => "six downloads",
        StepKind::Overlap => "a small request beside a download",
        StepKind::Upload => "uploads",
        StepKind::Lasting => "many small requests on one connection",
        StepKind::Idle => "downloads around a pause",
        StepKind::Resumption if step.round == 1 => "a full TLS handshake",
        StepKind::Resumption => "a TLS handshake with a ticket",
        StepKind::Priorities => "downloads with priorities",
        StepKind::KeptIdle => "an idle connection",
        StepKind::SlowPair => "two slow requests on one connection",
        StepKind::Robots => "robots.txt",
    };
    let version = version_name(step.version);
    let endpoint = endpoint.map_or_else(String::new, |letter| format!("{letter}, "));
    match step.round {
        0 => format!("{endpoint}{version}, first request"),
        round => format!("{endpoint}{version}, {kind}, round {round}"),
    }
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Version;
    use squall_base::record::{FrameFacts, FrameLayer, FrameRecord, Side, SideCounts, Way};

    use super::*;

    fn step(kind: StepKind, round: u32) -> Step {
        let frame = FrameFacts {
            stream: Some(1),
            ..FrameFacts::new(Way::Sent, FrameLayer::Http2, 0, 100)
        };
        Step {
            kind,
            version: Version::Http2,
            round,
            requests: Vec::new(),
            exchanges: Vec::new(),
            frames: vec![FrameRecord {
                time: clock::now(),
                hop: HOP,
                side: Side::Client,
                connection: 0,
                frame,
            }],
            sockets: Vec::new(),
            pieces: Vec::new(),
            settings: Vec::new(),
            counts: SideCounts::default(),
            was_cut: false,
            was_connected: false,
            lacks_tls: false,
            handshake: None,
            ended: Vec::new(),
            largest_datagram: 0,
            records: Vec::new(),
        }
    }

    #[test]
    fn qlog_has_a_trace_for_each_connection_with_its_purpose() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("probe.qlog");
        let mut qlog = Qlog::create(&path).unwrap();
        qlog.add(&step(StepKind::Small, 0), None);
        qlog.add(&step(StepKind::Upload, 2), Some('B'));
        qlog.finish().unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let titles: Vec<&str> = (value["traces"].as_array().unwrap().iter())
            .map(|trace| trace["title"].as_str().unwrap())
            .collect();
        assert_eq!(
            titles,
            [
                "client, connection 0: HTTP/2, first request",
                "client, connection 1: B, HTTP/2, uploads, round 2"
            ]
        );
    }
}

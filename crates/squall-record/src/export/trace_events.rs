//! Chrome's trace events as JSON, which Perfetto (<https://ui.perfetto.dev>) and chrome://tracing show.
//!
//! A trial is a process and a connection a thread. A request is a slice, in which its causes are nested; each dropped packet is
//! a short slice on a thread of its link, with a flow to every request that it delayed. Slices of a thread must not overlap, so
//! a connection with concurrent requests has several threads ("lanes"). Threads are numbered from 1 across the trace,
//! connections before links: Perfetto accepts only 32-bit numbers, and sorts threads by them. Times count from the trial's
//! epoch. Nothing here determines causes: squall-analysis does.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Value, json};
use squall_base::Time;
use squall_base::record::{Cause, Direction, DropRecord, RequestRecord};

use super::{Elements, ExportError};

/// A span of a request with its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceStage {
    /// From when.
    pub from: Time,
    /// Until when.
    pub to: Time,
    /// What it was spent on.
    pub cause: Cause,
}

/// The records of a trial.
#[derive(Clone, Copy, Debug)]
pub struct TraceProcess<'a> {
    /// The name of the trial.
    pub name: &'a str,
    /// Its requests, the warm-up included.
    pub requests: &'a [RequestRecord],
    /// The stages of each request, as far as they are known.
    pub stages: &'a BTreeMap<u64, Vec<TraceStage>>,
    /// Its dropped packets.
    pub drops: &'a [DropRecord],
}

/// Writes trials as processes of a trace.
#[derive(Debug)]
pub struct TraceExport<W> {
    events: Elements<W>,
    has_head: bool,
    processes: u64,
    threads: u64,
    flows: u64,
}

/// Where a request is in the trace.
struct Slot {
    thread: u64,
    from: Time,
    to: Time,
}

/// For each connection, the threads that its concurrent requests need.
#[derive(Default)]
struct Lanes {
    /// For each lane, when it becomes free; `None` has the requests without a connection.
    of: BTreeMap<Option<u32>, Vec<Time>>,
}

impl Lanes {
    /// The first lane of a connection that is free during this span, which it takes.
    fn take(&mut self, connection: Option<u32>, (from, to): (Time, Time)) -> usize {
        let lanes = self.of.entry(connection).or_default();
        let free = lanes.iter().position(|free| *free <= from);
        let place = free.unwrap_or(lanes.len());
        match lanes.get_mut(place) {
            Some(lane) => *lane = to,
            None => lanes.push(to),
        }
        place
    }
}

impl<W: Write> TraceExport<W> {
    /// Creates the export without writing anything yet.
    pub fn new(writer: W) -> TraceExport<W> {
        TraceExport {
            events: Elements::new("trace", writer),
            has_head: false,
            processes: 0,
            threads: 0,
            flows: 0,
        }
    }

    /// Writes a trial. `title` is what its slices are called.
    pub fn append(
        &mut self,
        process: &TraceProcess<'_>,
        title: impl Fn(&RequestRecord) -> String,
    ) -> Result<(), ExportError> {
        self.write_head()?;
        self.processes += 1;
        let pid = self.processes;
        self.name(pid, 0, "process_name", process.name)?;
        let slots = self.requests(pid, process, title)?;
        self.drops(pid, process.drops, &slots)
    }

    /// Writes the remaining text and returns the writer.
    pub fn finish(mut self) -> Result<W, ExportError> {
        self.write_head()?;
        self.events.finish("\n]}\n")
    }

    fn write_head(&mut self) -> Result<(), ExportError> {
        if std::mem::replace(&mut self.has_head, true) {
            return Ok(());
        }
        self.events.lines.add(format_args!(
            "{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
        ))
    }

    fn name(&mut self, pid: u64, tid: u64, what: &str, name: &str) -> Result<(), ExportError> {
        self.events.add(&json!({
            "ph": "M", "pid": pid, "tid": tid, "name": what, "args": { "name": name },
        }))
    }

    /// Begins a thread and returns its number. Threads are sorted by number.
    fn thread(&mut self, pid: u64, name: &str) -> Result<u64, ExportError> {
        self.threads += 1;
        let tid = self.threads;
        self.name(pid, tid, "thread_name", name)?;
        self.events.add(&json!({
            "ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index", "args": { "sort_index": tid },
        }))?;
        Ok(tid)
    }

    /// Writes the requests, and returns where each of them is.
    fn requests(
        &mut self,
        pid: u64,
        process: &TraceProcess<'_>,
        title: impl Fn(&RequestRecord) -> String,
    ) -> Result<BTreeMap<u64, Slot>, ExportError> {
        let mut rows: Vec<&RequestRecord> = process.requests.iter().collect();
        rows.sort_by_key(|row| (row.intended, row.request));
        let span = |row: &RequestRecord| (row.intended, row.end.max(row.intended));
        let mut lanes = Lanes::default();
        let placed: Vec<(&RequestRecord, usize)> = rows
            .into_iter()
            .map(|row| (row, lanes.take(row.connection, span(row))))
            .collect();
        let mut threads = BTreeMap::new();
        for (connection, lanes) in &lanes.of {
            for lane in 0..lanes.len() {
                let thread = self.thread(pid, &thread_name(*connection, lane))?;
                threads.insert((*connection, lane), thread);
            }
        }
        let mut slots = BTreeMap::new();
        for (row, lane) in placed {
            let (from, to) = span(row);
            let thread = threads[&(row.connection, lane)];
            self.slice(pid, thread, (from, to), request_slice(row, &title(row)))?;
            for stage in process.stages.get(&row.request).into_iter().flatten() {
                let span = (stage.from.max(from).min(to), stage.to.max(from).min(to));
                let slice = json!({ "name": stage.cause.name(), "cat": "cause" });
                self.slice(pid, thread, span, slice)?;
            }
            slots.insert(row.request, Slot { thread, from, to });
        }
        Ok(slots)
    }

    /// Writes each dropped packet, with a flow to each request that it delayed.
    fn drops(
        &mut self,
        pid: u64,
        drops: &[DropRecord],
        slots: &BTreeMap<u64, Slot>,
    ) -> Result<(), ExportError> {
        let mut threads: BTreeMap<(u8, Direction), u64> = BTreeMap::new();
        for drop in drops {
            let link = (drop.packet.hop, drop.packet.direction);
            let tid = match threads.get(&link) {
                Some(tid) => *tid,
                None => {
                    let name = format!("drops of hop {}, {}", link.0, link.1.name());
                    let tid = self.thread(pid, &name)?;
                    threads.insert(link, tid);
                    tid
                }
            };
            let at = drop.dropped_at;
            self.slice(
                pid,
                tid,
                (at, Time::from_nanos(at.as_nanos() + 1)),
                drop_slice(drop),
            )?;
            for victim in &drop.victims {
                let Some(slot) = slots.get(&victim.request) else {
                    continue;
                };
                self.flows += 1;
                // A flow must end inside the slice that it points to.
                let last = Time::from_nanos(slot.to.as_nanos().saturating_sub(1));
                let arrival = at.max(slot.from).min(last.max(slot.from));
                let (id, name) = (self.flows, victim.cause.name());
                self.events.add(&json!({
                    "ph": "s", "id": id, "pid": pid, "tid": tid, "ts": us(at), "name": name, "cat": "drop",
                }))?;
                self.events.add(&json!({
                    "ph": "f", "bp": "e", "id": id, "pid": pid, "tid": slot.thread, "ts": us(arrival),
                    "name": name, "cat": "drop",
                }))?;
            }
        }
        Ok(())
    }

    /// Writes a slice: `content` has its name, category and arguments.
    fn slice(
        &mut self,
        pid: u64,
        tid: u64,
        (from, to): (Time, Time),
        mut content: Value,
    ) -> Result<(), ExportError> {
        content["ph"] = json!("X");
        content["pid"] = json!(pid);
        content["tid"] = json!(tid);
        content["ts"] = us(from);
        content["dur"] = json!(to.since(from).as_nanos() as f64 / 1e3);
        self.events.add(&content)
    }
}

fn thread_name(connection: Option<u32>, lane: usize) -> String {
    let name = match connection {
        Some(connection) => format!("connection {connection}"),
        None => "no connection".to_owned(),
    };
    match lane {
        0 => name,
        further => format!("{name}, lane {}", further + 1),
    }
}

fn request_slice(row: &RequestRecord, title: &str) -> Value {
    json!({
        "name": title,
        "cat": "request",
        "args": {
            "request": row.request,
            "phase": row.phase.name(),
            "outcome": row.outcome.name(),
            "status": row.status,
            "error": row.error,
            "stream": row.stream,
            "request_body_bytes": row.request_body_bytes,
            "response_body_bytes": row.response_body_bytes,
        },
    })
}

fn drop_slice(drop: &DropRecord) -> Value {
    json!({
        "name": drop.fate.name(),
        "cat": "drop",
        "args": {
            "packet": drop.packet.index,
            "connection": drop.connection,
            "repair": drop.repair.name(),
            "repaired_after_ms": drop.repaired_at.map(|at| at.since(drop.dropped_at).as_millis_f64()),
            "carried": drop.carried,
        },
    })
}

/// A time in microseconds, the unit of the format.
fn us(time: Time) -> Value {
    json!(time.as_nanos() as f64 / 1e3)
}

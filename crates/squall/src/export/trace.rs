//! The trace for Perfetto: reads a trial's tables and follows the causes of all its requests.
//!
//! Trials are read and written one at a time. A trial whose causes are not known has requests without nested slices.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use squall_analysis::causes::{Detail, PathInputs, PathShape, follow_path};
use squall_base::record::RequestRecord;
use squall_record::export::{TraceExport, TraceProcess, TraceStage};
use squall_record::{read_exchanges, read_frames, read_packets, read_sockets};

use super::destination::{finished, write_to, write_with};
use super::requests::{RequestKind, request_kinds};
use super::rows::{drops_of, requests_of};
use crate::trials::SelectedTrial;

type Stages = BTreeMap<u64, Vec<TraceStage>>;

/// Writes the selected trials, each as a process.
pub(super) fn export(selected: &[SelectedTrial], output: Option<&Path>) -> Result<()> {
    write_with(output, |out| {
        let mut export = TraceExport::new(out);
        for it in selected {
            let requests = requests_of(it)?;
            let stages = stages(it, &requests)?;
            let drops = drops_of(it)?;
            let kinds = request_kinds(it).unwrap_or_default();
            let process = TraceProcess {
                name: &it.record.trial.folder(),
                requests: &requests,
                stages: &stages,
                drops: &drops,
            };
            finished(export.append(&process, |row| title(row, &kinds)), output)?;
        }
        finished(export.finish(), output)
    })
}

/// Writes the requests of a table alone.
pub(super) fn export_table(
    name: &str,
    requests: &[RequestRecord],
    output: Option<&Path>,
) -> Result<()> {
    write_to(output, |out| {
        let mut export = TraceExport::new(out);
        let process = TraceProcess {
            name,
            requests,
            stages: &Stages::new(),
            drops: &[],
        };
        export.append(&process, |row| title(row, &[]))?;
        export.finish()
    })
}

fn title(row: &RequestRecord, kinds: &[RequestKind]) -> String {
    match kinds.get(row.what as usize) {
        Some(kind) => kind.title(),
        None => format!("request {}", row.request),
    }
}

/// Reads a trial's tables and follows the causes of each request. Empty if the causes are not known.
fn stages(selected: &SelectedTrial, requests: &[RequestRecord]) -> Result<Stages> {
    let SelectedTrial { folder, record } = selected;
    if !folder.has(record, &folder.causes()) {
        return Ok(Stages::new());
    }
    let mut inputs = PathInputs::new(PathShape::of(&record.trial.variant));
    requests.iter().for_each(|row| inputs.add_request(row));
    let packets = folder.read_checked(record, &folder.packets(), read_packets)?;
    packets.iter().for_each(|row| inputs.add_packet(row));
    let exchanges = folder.read_checked(record, &folder.exchanges(), read_exchanges)?;
    exchanges.iter().for_each(|row| inputs.add_exchange(row));
    let frames = folder.read_checked(record, &folder.frames(), read_frames)?;
    frames.iter().for_each(|row| inputs.add_frame(row));
    let sockets = folder.read_checked(record, &folder.sockets(), read_sockets)?;
    sockets.iter().for_each(|row| inputs.add_socket(row));
    let all: BTreeSet<u64> = requests.iter().map(|row| row.request).collect();
    let (_, courses) = follow_path(inputs, &all, Detail::Stages);
    let courses = courses.into_iter().map(|course| {
        let stages = course.stages.into_iter().map(|stage| TraceStage {
            from: stage.from,
            to: stage.to,
            cause: stage.cause,
        });
        (course.request, stages.collect())
    });
    Ok(courses.collect())
}

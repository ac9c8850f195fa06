//! Exports of requests: HAR, vegeta, h2load, HdrHistogram's two formats and CSV.
//!
//! What a trial's requests asked for is in plan.json of its run; a table of `squall load` does not have it.

use std::fs;
use std::path::Path;

use anyhow::Result;
use squall_base::Time;
use squall_base::plan::{RequestBody, RequestTemplate, Version};
use squall_base::record::RequestRecord;
use squall_base::secrets::redact;
use squall_record::export::{
    CsvExport, H2loadExport, HarRequest, IntervalLogExport, PercentileExport, RequestLine,
    VegetaExport, write_har,
};
use squall_record::read_plan;

use super::arguments::RequestFormat;
use super::destination::write_to;
use super::rows::requests_of;
use crate::outcome::BadInput;
use crate::trials::SelectedTrial;

/// Host and port that the requests of a trial go to (`run/worker/place.rs`).
const AUTHORITY: &str = "server:8080";

/// The requests of a load, and what is known about them.
pub(super) struct Load {
    name: String,
    epoch_unix_ns: u64,
    started: Time,
    http_version: &'static str,
    rows: Vec<RequestRecord>,
    /// What each kind of request asks for, by `what` of its rows, or why that is not known.
    kinds: Result<Vec<RequestKind>, String>,
}

/// What a request asks for, without secrets.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestKind {
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
}

impl RequestKind {
    fn of(template: &RequestTemplate, scheme: &str) -> RequestKind {
        let body = match &template.body {
            RequestBody::Text(text) => Some(text.clone()),
            RequestBody::Size(_)
            | RequestBody::Binary(_)
            | RequestBody::File(_)
            | RequestBody::Form(_) => None,
        };
        let mut headers = template.headers.clone();
        let mut url = format!("{scheme}://{AUTHORITY}{}", template.target);
        redact(&mut headers, &mut url);
        RequestKind {
            method: template.method.clone(),
            url,
            headers,
            body,
        }
    }

    /// The method and the path.
    pub(super) fn title(&self) -> String {
        let path = self.url.split_once(AUTHORITY).map_or("", |(_, path)| path);
        format!("{} {path}", self.method)
    }
}

impl Load {
    pub(super) fn of_trial(selected: &SelectedTrial) -> Result<Load> {
        let record = &selected.record;
        let hop = record.trial.variant.first_hop();
        Ok(Load {
            name: record.trial.folder(),
            epoch_unix_ns: record.epoch_unix_ns,
            started: Time::from_nanos(record.load_start.as_nanos()),
            http_version: match hop.protocol.version() {
                Version::Http1 => "HTTP/1.1",
                Version::Http2 => "HTTP/2",
                Version::Http3 => "HTTP/3",
            },
            rows: requests_of(selected)?,
            kinds: request_kinds(selected),
        })
    }

    /// The load whose rows are in a table alone.
    pub(super) fn of_table(name: String, rows: Vec<RequestRecord>) -> Load {
        Load {
            name,
            epoch_unix_ns: 0,
            started: Time::ZERO,
            http_version: "HTTP/1.1",
            rows,
            kinds: Err("a table of requests has no methods and URLs".to_owned()),
        }
    }

    fn kinds(&self) -> Result<&[RequestKind], BadInput> {
        match &self.kinds {
            Ok(kinds) => Ok(kinds),
            Err(why) => Err(BadInput::new(format!(
                "{} cannot be exported to this format: {why}",
                self.name
            ))),
        }
    }
}

/// What the requests of a trial ask for, or why that is not known.
pub(super) fn request_kinds(selected: &SelectedTrial) -> Result<Vec<RequestKind>, String> {
    let root = selected.folder.root();
    let whole = fs::canonicalize(root).map_err(|error| format!("{}: {error}", root.display()))?;
    let run = whole.parent().and_then(Path::parent).unwrap_or(&whole);
    let plan = read_plan(run.join("plan.json")).map_err(|error| {
        format!("its methods and URLs are in plan.json of its run, two folders above: {error}")
    })?;
    let hop = selected.record.trial.variant.first_hop();
    let scheme = if hop.protocol.is_secure() {
        "https"
    } else {
        "http"
    };
    let requests = plan.requests.iter();
    Ok(requests
        .map(|template| RequestKind::of(template, scheme))
        .collect())
}

pub(super) fn export(format: RequestFormat, load: &Load, output: Option<&Path>) -> Result<()> {
    let rows = load.rows.as_slice();
    let epoch = load.epoch_unix_ns;
    match format {
        RequestFormat::Har => export_har(load, output),
        RequestFormat::Vegeta => {
            let kinds = load.kinds()?;
            let none = RequestKind::default();
            let asked = |row: &RequestRecord| {
                let kind = kinds.get(row.what as usize).unwrap_or(&none);
                RequestLine {
                    method: &kind.method,
                    url: &kind.url,
                }
            };
            write_to(output, |out| {
                let mut export = VegetaExport::new(out, epoch, &load.name, asked);
                export.append(rows)?;
                export.finish()
            })
        }
        RequestFormat::H2load => write_to(output, |out| {
            let mut export = H2loadExport::new(out, epoch);
            export.append(rows)?;
            export.finish()
        }),
        RequestFormat::Hgrm => write_to(output, |out| {
            let mut export = PercentileExport::new(out);
            export.append(rows)?;
            export.finish()
        }),
        RequestFormat::Hlog => write_to(output, |out| {
            let mut export = IntervalLogExport::new(out, epoch);
            export.append(rows)?;
            export.finish()
        }),
        RequestFormat::Csv => write_to(output, |out| {
            let mut export = CsvExport::new(out);
            export.append(rows)?;
            export.finish()
        }),
    }
}

fn export_har(load: &Load, output: Option<&Path>) -> Result<()> {
    let kinds = load.kinds()?;
    let none = RequestKind::default();
    let asked = |row: &RequestRecord| {
        let kind = kinds.get(row.what as usize).unwrap_or(&none);
        HarRequest {
            method: &kind.method,
            url: &kind.url,
            http_version: load.http_version,
            headers: &kind.headers,
            body: kind.body.as_deref(),
        }
    };
    write_to(output, |out| {
        let (epoch, title) = (load.epoch_unix_ns, load.name.as_str());
        write_har(out, epoch, title, load.started, &load.rows, asked)
    })
}

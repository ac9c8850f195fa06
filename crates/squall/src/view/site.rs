//! What `squall view` serves at each path.
//!
//! Paths are compared with the numbers of the runs and the names of their trials, and no file is opened by a name from a
//! request. Reports are made when they are first asked for. `http` has the connections, docs/VIEW.md the answers.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;
use squall_analysis::RunSummary;
use squall_base::plan::Plan;
use squall_record::{RunFolder, TrialFolder, read_json};
use squall_report::view::{PacketIndex, Region, RequestInFull, RequestIndex, Span};
use squall_report::{Language, ListedRun, compared_page_in, runs_page_in};

use super::trials::{Recent, TrialName, read_packet_index, read_request_index};
use crate::commands::compare::{ComparedRun, comparison_text};
use crate::commands::named::open_run;
use crate::commands::report::{live_page, summary_of};
use crate::explain::ExplainedTrial;
use crate::outcome::BadInput;
use crate::output::error_chain;

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// The icon that browsers request with any page: dots, as in its plots. Without it, they log an error.
const ICON: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 16 16\" fill=\"#0072b2\">\
                    <circle cx=\"3\" cy=\"12\" r=\"2\"/><circle cx=\"8\" cy=\"11\" r=\"2\"/>\
                    <circle cx=\"13\" cy=\"4\" r=\"2\" fill=\"#e69f00\"/></svg>\n";

/// How each number of a report is obtained, which the pages of runs link to.
const METHOD: &str = include_str!("../../../../docs/METHOD.md");

/// What to respond.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    /// Where to look instead.
    pub(super) location: Option<String>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    fn ok(content_type: &'static str, body: impl Into<Vec<u8>>) -> Answer {
        Answer {
            status: 200,
            content_type,
            location: None,
            body: body.into(),
        }
    }

    /// A short answer in plain text.
    pub(super) fn text(status: u16, words: String) -> Answer {
        Answer {
            status,
            ..Answer::ok(TEXT, words)
        }
    }

    fn json(value: &impl Serialize) -> Result<Answer> {
        let body = serde_json::to_vec(value).context("cannot write the answer as JSON")?;
        Ok(Answer::ok(JSON, body))
    }

    fn not_found(language: Language) -> Answer {
        let said = language.say("There is nothing here. / lists the runs.");
        Answer::text(404, said + "\n")
    }

    fn to(location: String) -> Answer {
        Answer {
            location: Some(location),
            ..Answer::text(302, String::new())
        }
    }
}

/// A run that is served.
pub(super) struct ViewedRun {
    name: String,
    folder: RunFolder,
    plan: Plan,
    summary: RunSummary,
    /// Its page, once it has been asked for.
    page: Mutex<Option<Arc<str>>>,
}

impl ViewedRun {
    /// Opens the folder of a run. Its summary is read from the folder, or computed from its trials if the folder has no
    /// summary.
    pub(super) fn open(path: &Path) -> Result<ViewedRun> {
        let (folder, plan) = open_run(path)?;
        let summary = match read_json(folder.summary()) {
            Ok(summary) => summary,
            Err(_) => summary_of(&folder, &plan, &[])?,
        };
        // `.` has no name of its own.
        let absolute = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let name = absolute.file_name().unwrap_or(absolute.as_os_str());
        Ok(ViewedRun {
            name: name.to_string_lossy().into_owned(),
            folder,
            plan,
            summary,
            page: Mutex::new(None),
        })
    }

    fn compared(&self) -> ComparedRun<'_> {
        ComparedRun {
            folder: &self.folder,
            plan: &self.plan,
            summary: &self.summary,
        }
    }

    /// Its page in this language; `number` is that of the run on this server.
    fn page(&self, number: usize, language: Language) -> Result<Arc<str>> {
        let mut page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = &*page {
            return Ok(Arc::clone(page));
        }
        let page_of_run = live_page(&self.folder, &self.plan, &run_path(number), language)?;
        let made: Arc<str> = page_of_run.into();
        *page = Some(Arc::clone(&made));
        Ok(made)
    }
}

fn run_path(number: usize) -> String {
    format!("/runs/{number}/")
}

/// All runs, and the requests and packets of their trials that are in memory.
pub(super) struct Site {
    runs: Vec<ViewedRun>,
    language: Language,
    requests: Recent<RequestIndex>,
    packets: Recent<PacketIndex>,
    explained: Recent<ExplainedTrial>,
}

impl Site {
    /// A site whose pages and texts are in this language.
    pub(super) fn new(runs: Vec<ViewedRun>, language: Language) -> Site {
        Site {
            runs,
            language,
            requests: Recent::new(),
            packets: Recent::new(),
            explained: Recent::new(),
        }
    }

    /// The answer to a GET of `target`, which is a path and perhaps a query.
    pub(super) fn answer(&self, target: &str) -> Answer {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let found = self.find(path, query);
        found.unwrap_or_else(|error| match error.downcast_ref::<BadInput>() {
            Some(bad) => Answer::text(404, format!("{bad}\n")),
            None => Answer::text(500, format!("squall: {}\n", error_chain(&error))),
        })
    }

    fn find(&self, path: &str, query: &str) -> Result<Answer> {
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        match parts.as_slice() {
            [""] if self.runs.len() == 1 => Ok(Answer::to(run_path(1))),
            [""] => {
                let page = runs_page_in(self.language, &self.listed());
                Ok(Answer::ok(HTML, page))
            }
            ["compare"] => Ok(Answer::to("/compare/".to_owned())),
            ["compare", ""] => {
                let page = compared_page_in(self.language, &self.listed());
                Ok(Answer::ok(HTML, page))
            }
            ["runs.json"] => self.runs_json(),
            ["favicon.ico"] => Ok(Answer::ok(SVG, ICON)),
            ["METHOD.md"] => Ok(Answer::ok(TEXT, METHOD)),
            ["runs", number, rest @ ..] => match self.run(number) {
                Some((place, run)) => self.find_in_run(place, run, rest, query),
                None => Ok(self.not_found()),
            },
            _ => Ok(self.not_found()),
        }
    }

    fn find_in_run(
        &self,
        place: usize,
        run: &ViewedRun,
        parts: &[&str],
        query: &str,
    ) -> Result<Answer> {
        match parts {
            [] => Ok(Answer::to(run_path(place + 1))),
            [""] => {
                let page = run.page(place + 1, self.language)?;
                Ok(Answer::ok(HTML, page.as_bytes()))
            }
            ["compare", number] => match self.run(number) {
                Some((_, earlier)) => {
                    let text = comparison_text(self.language, earlier.compared(), run.compared());
                    Ok(Answer::ok(TEXT, text))
                }
                None => Ok(self.not_found()),
            },
            ["trials", folder, rest @ ..] => match trial(&run.folder, folder)? {
                Some(trial) => {
                    let name = (place, (*folder).to_owned());
                    self.find_in_trial(&name, trial, rest, query)
                }
                None => Ok(self.not_found()),
            },
            _ => Ok(self.not_found()),
        }
    }

    fn find_in_trial(
        &self,
        name: &TrialName,
        trial: TrialFolder,
        parts: &[&str],
        query: &str,
    ) -> Result<Answer> {
        match parts {
            ["points"] => match Region::parse(query) {
                Ok(region) => {
                    let index = self.requests.get(name, || read_request_index(&trial))?;
                    Answer::json(&index.points(&region))
                }
                Err(said) => Ok(bad_query(&said)),
            },
            ["packets"] => match Span::parse(query) {
                Ok(span) => {
                    let index = self.packets.get(name, || read_packet_index(&trial))?;
                    Answer::json(&index.packets(span))
                }
                Err(said) => Ok(bad_query(&said)),
            },
            ["requests", number] => match number.parse() {
                Ok(number) => {
                    let opened = self.explained.get(name, || ExplainedTrial::open(trial))?;
                    let (explanation, text) = opened.request(number, self.language)?;
                    Answer::json(&json!({ "explanation": explanation, "text": text }))
                }
                Err(_) => Ok(self.not_found()),
            },
            ["requests", number, "full"] => match number.parse() {
                Ok(number) => {
                    let opened = self.explained.get(name, || ExplainedTrial::open(trial))?;
                    let detail = opened.detail(number)?;
                    match RequestInFull::of(self.language, opened.record(), &detail) {
                        Some(full) => Answer::json(&full),
                        None => Ok(self.not_found()),
                    }
                }
                Err(_) => Ok(self.not_found()),
            },
            _ => Ok(self.not_found()),
        }
    }

    fn not_found(&self) -> Answer {
        Answer::not_found(self.language)
    }

    /// The run with this number, counted from 1, and its place.
    fn run(&self, number: &str) -> Option<(usize, &ViewedRun)> {
        let place = number.parse::<usize>().ok()?.checked_sub(1)?;
        Some((place, self.runs.get(place)?))
    }

    fn listed(&self) -> Vec<ListedRun<'_>> {
        (1..)
            .zip(&self.runs)
            .map(|(number, run)| ListedRun {
                name: &run.name,
                number,
                summary: &run.summary,
            })
            .collect()
    }

    fn runs_json(&self) -> Result<Answer> {
        let runs = self.listed().into_iter().map(|run| {
            json!({
                "name": run.name,
                "path": run_path(run.number),
                "recipe": run.summary.recipe,
                "profile": run.summary.profile,
                "started_unix_ns": run.summary.facts.started_unix_ns,
                "answer": run.summary.answer,
            })
        });
        Answer::json(&runs.collect::<Vec<_>>())
    }
}

fn bad_query(said: &str) -> Answer {
    Answer::text(400, format!("{said}\n"))
}

/// The complete trial of a run with this folder.
fn trial(run: &RunFolder, folder: &str) -> Result<Option<TrialFolder>> {
    let trials = run.complete_trials()?;
    Ok(trials.into_iter().find(|trial| trial.name() == folder))
}

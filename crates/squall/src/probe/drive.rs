//! The course of a probe: which versions answer, then rounds of steps over each version in turn, each step over fresh
//! connections, until all are done or time runs out.
//!
//! Nothing is concluded here, except what is worth asking next. `ask` has the beginning, `behaviour` the last steps, and
//! `step` runs each step.

use std::net::{SocketAddr, TcpStream};
use std::thread;

use anyhow::Result;
use squall_analysis::probe::{Head, Observations, Step, StepKind, version_name};
use squall_base::plan::Version;
use squall_base::record::RequestRecord;
use squall_base::{Bytes, Duration, Time};
use squall_http::Scheme;
use squall_http::values::alt_svc::Alternative;
use squall_http::values::robots::Robots;
use squall_linux::clock;

use super::plan::{
    IDLE_BYTES, IDLE_BYTES_AT_MOST, MANY, MANY_AT_ONCE, MANY_BYTES, OVERLAP_BYTES, Plan,
    SHORT_UPLOAD, SIX, SMALL_BYTES, SMALL_FIRST, SMALL_LATER,
};
use super::recording::Recording;
use super::step::{Load, RunningStep, StepEnvironment, StepRecords, Task};
use crate::client::{HttpUrl, PreparedRequest};

/// The most time for one step.
pub(super) const STEP_AT_MOST: Duration = Duration::from_secs(5);
/// A step with less time than this is left out.
pub(super) const STEP_AT_LEAST: Duration = Duration::from_millis(50);
/// The pause after which a congestion window may be small again: longer than most retransmission timeouts.
const PAUSE: Duration = Duration::from_millis(1_200);
/// If a small response takes longer than this, round trip included, it is not requested many times.
const CHEAP_AT_MOST: Duration = Duration::from_millis(400);
/// The interval between two TCP handshakes that measure the round trip.
const CONNECT_EVERY: Duration = Duration::from_millis(100);
/// How often to check whether a step is over while TCP handshakes are made alongside it.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(5);
/// Handshakes before anything is downloaded.
const IDLE_CONNECTS: usize = 5;
/// A shorter response, of about two initial congestion windows (RFC 6928) at most, takes no more than two round trips in any
/// case, so the step with the pause would show little.
const IDLE_NEEDS: u64 = 30_000;
/// A download shorter than this ends too soon to show how it affects a small request sent during it.
const OVERLAP_NEEDS: u64 = 1 << 20;

/// The running probe of one URL.
pub(super) struct Drive<'a> {
    pub(super) environment: StepEnvironment<'a>,
    pub(super) deadline: Time,
    pub(super) seen: Observations,
    /// The alternative at which HTTP/3 reaches the server.
    pub(super) http3: Option<Alternative>,
    /// Whether the URL's response is small enough to be requested many times.
    pub(super) is_small: bool,
    /// Length of the download in bytes, once one was complete.
    pub(super) length: Option<u64>,
    /// Whether the server offers ranges.
    pub(super) has_ranges: bool,
    /// What the server's robots.txt allows.
    pub(super) robots: Robots,
    pub(super) is_out_of_time: bool,
}

/// Probes one URL.
pub(super) fn observe(environment: StepEnvironment<'_>) -> Result<Observations> {
    let plan = environment.plan;
    let mut drive = Drive {
        deadline: clock::now() + plan.duration,
        seen: Observations {
            url: plan.url.to_text(),
            is_secure: plan.url.scheme == Scheme::Https,
            is_forwarded: plan.is_forwarded,
            ..Observations::default()
        },
        http3: None,
        is_small: false,
        length: None,
        has_ranges: false,
        robots: Robots::default(),
        is_out_of_time: false,
        environment,
    };
    let versions = drive.ask_versions()?;
    if drive.seen.address.is_empty() {
        drive.seen.address.clone_from(&plan.url.authority);
    }
    if !versions.is_empty() {
        drive.look_up_addresses();
        drive.ask_https_records();
        drive.seen.connects_idle = drive.connects(IDLE_CONNECTS);
        for round in 1..=plan.rounds {
            for version in &versions {
                drive.round(*version, round)?;
            }
        }
        drive.look_up_other_names();
        drive.once(&versions)?;
        drive.behaviour(&versions)?;
    }
    if drive.is_out_of_time {
        let said = format!(
            "{} was too short for all steps; --duration allows more time.",
            plan.duration
        );
        drive.seen.notes.push(said);
    }
    Ok(drive.seen)
}

impl<'a> Drive<'a> {
    pub(super) fn plan(&self) -> &'a Plan {
        self.environment.plan
    }

    /// Time for the next step; `None` if there is not enough.
    pub(super) fn time(&mut self) -> Option<Duration> {
        let left = self.deadline.since(clock::now());
        if left < STEP_AT_LEAST {
            self.is_out_of_time = true;
            return None;
        }
        Some(left.min(STEP_AT_MOST))
    }

    /// The time that is left, divided by `parts`.
    pub(super) fn share_of_time(&self, parts: u64) -> Duration {
        let left = self.deadline.since(clock::now());
        Duration::from_nanos(left.as_nanos() / parts)
    }

    /// The URL with the alternative that HTTP/3 uses.
    pub(super) fn for_version(&self, url: &HttpUrl, version: Version) -> HttpUrl {
        let mut url = url.clone();
        if version == Version::Http3 {
            url.alternative.clone_from(&self.http3);
        }
        url
    }

    /// Runs a step whose requests are for `url`, if there is time for it.
    fn run(&mut self, url: &HttpUrl, task: Task) -> Result<Option<StepRecords>> {
        let Some(time) = self.time() else {
            return Ok(None);
        };
        self.environment.run(url, task, time).map(Some)
    }

    /// The times of at most this many TCP handshakes, one after the other, as time allows.
    fn connects(&mut self, count: usize) -> Vec<Duration> {
        let Ok(address) = self.seen.address.parse::<SocketAddr>() else {
            return Vec::new();
        };
        let mut spans = Vec::new();
        for _ in 0..count {
            let Some(time) = self.time() else {
                break;
            };
            let at_most = time.min(Duration::from_secs(1));
            spans.extend(connect(address, at_most, self.environment.recording));
        }
        spans
    }

    /// The steps of one round over one version.
    fn round(&mut self, version: Version, round: u32) -> Result<()> {
        self.small(version, round)?;
        self.download(version, round)?;
        if version == Version::Http1 {
            self.six_downloads(round)?;
        }
        self.upload(version, round)
    }

    /// Small requests, one after the other on one connection.
    fn small(&mut self, version: Version, round: u32) -> Result<()> {
        let plan = self.plan();
        let url = self.for_version(&plan.url, version);
        let is_first = round == 1 && self.may_load(&url);
        let count = if is_first { SMALL_FIRST } else { SMALL_LATER };
        let task = Task {
            kind: StepKind::Small,
            version,
            round,
            requests: vec![self.small_request(&url)?],
            load: Load::InTurn(count),
            bytes_at_most: count * SMALL_BYTES,
        };
        self.keep(&url, task).map(drop)
    }

    /// The URL itself if its response is small, otherwise its head.
    pub(super) fn small_request(&self, url: &HttpUrl) -> Result<PreparedRequest> {
        let method = if self.is_small { "GET" } else { "HEAD" };
        self.plan().ask(method, url, &[])
    }

    fn download(&mut self, version: Version, round: u32) -> Result<()> {
        let plan = self.plan();
        if !self.may_load(&plan.download) {
            return Ok(());
        }
        let url = self.for_version(&plan.download, version);
        let task = Task {
            kind: StepKind::Download,
            version,
            round,
            requests: vec![plan.ask("GET", &url, &[])?],
            load: Load::InTurn(1),
            bytes_at_most: plan.bytes,
        };
        let heads = self.keep(&url, task)?;
        let step = self
            .seen
            .steps
            .last()
            .filter(|step| step.kind == StepKind::Download);
        if let Some(step) = step.filter(|step| step.answered().next().is_some()) {
            self.length = Some(step.body_bytes());
        }
        if let Some(head) = heads.iter().find(|head| head.status >= 400 && round == 1) {
            let said = format!(
                "{}: the download was answered with status {}; --download names another one.",
                version_name(version),
                head.status
            );
            self.seen.notes.push(said);
        }
        let mut ranges = heads.iter().filter_map(|head| head.field("accept-ranges"));
        self.has_ranges |= ranges.any(|value| value.contains("bytes"));
        Ok(())
    }

    /// Downloads over six connections, and makes TCP handshakes meanwhile.
    fn six_downloads(&mut self, round: u32) -> Result<()> {
        let plan = self.plan();
        if !self.may_load(&plan.download) {
            return Ok(());
        }
        let Some(time) = self.time() else {
            return Ok(());
        };
        let task = Task {
            kind: StepKind::SixDownloads,
            version: Version::Http1,
            round,
            requests: vec![plan.ask("GET", &plan.download, &[])?],
            load: Load::AtOnce(SIX),
            bytes_at_most: plan.bytes,
        };
        let running = self.environment.start(&plan.download, task, time)?;
        let beside = self.connects_beside(&running);
        self.seen.connects_loaded.extend(beside);
        let records = running.finish(self.environment.recording)?;
        self.seen.steps.push(records.step);
        Ok(())
    }

    /// Times of TCP handshakes while a step is running, one after the other.
    fn connects_beside(&self, running: &RunningStep) -> Vec<Duration> {
        let mut spans = Vec::new();
        let Ok(address) = self.seen.address.parse::<SocketAddr>() else {
            return spans;
        };
        // The connections of the step are established first.
        let mut due = clock::now() + CONNECT_EVERY;
        while !running.is_over() {
            if clock::now() < due {
                thread::sleep(LOOK_EVERY);
                continue;
            }
            let recording = &*self.environment.recording;
            spans.extend(connect(address, Duration::from_secs(1), recording));
            due = clock::now() + CONNECT_EVERY;
        }
        spans
    }

    /// Uploads a body, and makes TCP handshakes meanwhile.
    fn upload(&mut self, version: Version, round: u32) -> Result<()> {
        let plan = self.plan();
        let Some((url, size)) = &plan.upload else {
            return Ok(());
        };
        if !self.may_load(url) {
            return Ok(());
        }
        let Some(time) = self.time() else {
            return Ok(());
        };
        let url = self.for_version(url, version);
        let short = plan.post(&url, Bytes::new(SHORT_UPLOAD))?;
        let task = Task {
            kind: StepKind::Upload,
            version,
            round,
            requests: vec![short, plan.post(&url, *size)?],
            load: Load::Chain(vec![Duration::ZERO; 2]),
            bytes_at_most: plan.bytes,
        };
        let running = self.environment.start(&url, task, time)?;
        let beside = self.connects_beside(&running);
        self.seen.connects_uploading.extend(beside);
        let records = running.finish(self.environment.recording)?;
        self.seen.steps.push(records.step);
        let heads = records.heads;
        if round == 1 {
            let name = version_name(version);
            let refused = heads.iter().find(|head| head.status >= 400);
            let said = match refused {
                Some(head) => Some(format!(
                    "{name}: an upload was answered with status {}; --upload-to names another path.",
                    head.status
                )),
                None if self.was_answered_early() => Some(format!(
                    "{name}: an upload was answered before its end, so the server did not read it; --upload-to names \
                     another path."
                )),
                None => None,
            };
            self.seen.notes.extend(said);
        }
        Ok(())
    }

    /// Whether the last step's upload was answered although its body was not sent completely.
    fn was_answered_early(&self) -> bool {
        let step = self.seen.steps.last();
        let step = step.filter(|step| step.kind == StepKind::Upload);
        let row = step.and_then(|step| step.of(1));
        row.is_some_and(|row| row.headers.is_some() && row.written_last.is_none())
    }

    /// Runs the steps that run only once: a small request during a download, slow requests at once, downloads around a pause,
    /// and many requests in a row.
    fn once(&mut self, versions: &[Version]) -> Result<()> {
        let is_short = self.length.is_some_and(|length| length < OVERLAP_NEEDS);
        let with_streams = versions
            .iter()
            .filter(|version| **version != Version::Http1);
        for version in with_streams {
            if !is_short {
                self.overlap(*version)?;
            }
            self.slow_pair(*version)?;
        }
        if is_short {
            let length = self.length.unwrap_or(0);
            self.seen.notes.push(format!(
                "A download of {length} bytes is too short to show rates and multiplexing; --download names a longer one."
            ));
        }
        // One version over TCP is enough, because the pause affects TCP: HTTP/2 if it answered, otherwise HTTP/1.1.
        let tcp = versions
            .iter()
            .filter(|version| **version != Version::Http3);
        if let Some(version) = tcp.max() {
            self.pause(*version)?;
        }
        for version in versions {
            self.many(*version)?;
        }
        Ok(())
    }

    /// Sends many small requests on one connection, to see after how many the server ends it. Sends nothing if the steps
    /// before already showed that, or if their responses were errors or slow.
    fn many(&mut self, version: Version) -> Result<()> {
        let plan = self.plan();
        if !self.may_load(&plan.url) {
            return Ok(());
        }
        let steps = self.seen.steps_of(StepKind::Small, version);
        let Some(largest) = largest_cheap(steps) else {
            return Ok(());
        };
        let url = self.for_version(&plan.url, version);
        let is_short = self.is_small && largest <= MANY_BYTES;
        let method = if is_short { "GET" } else { "HEAD" };
        let load = match version {
            Version::Http1 => Load::InTurn(MANY),
            Version::Http2 | Version::Http3 => Load::Streams {
                at_once: MANY_AT_ONCE,
                count: MANY,
            },
        };
        let task = Task {
            kind: StepKind::Lasting,
            version,
            round: 1,
            requests: vec![plan.ask(method, &url, &[])?],
            load,
            bytes_at_most: MANY * MANY_BYTES + 1,
        };
        self.keep(&url, task).map(drop)
    }

    fn overlap(&mut self, version: Version) -> Result<()> {
        let plan = self.plan();
        if !self.may_load(&plan.download) {
            return Ok(());
        }
        let url = self.for_version(&plan.download, version);
        let small = self.for_version(&plan.url, version);
        let requests = vec![plan.ask("GET", &url, &[])?, self.small_request(&small)?];
        // After this delay, the connection is established and the download has begun.
        let connect = self.seen.connects_idle.iter().copied().max();
        let delay =
            Duration::from_millis(30 + 4 * connect.unwrap_or_default().as_nanos() / 1_000_000);
        let task = Task {
            kind: StepKind::Overlap,
            version,
            round: 1,
            requests,
            load: Load::Beside(delay),
            bytes_at_most: OVERLAP_BYTES.max(plan.bytes),
        };
        self.keep(&url, task).map(drop)
    }

    fn pause(&mut self, version: Version) -> Result<()> {
        let plan = self.plan();
        let is_short = self.length.is_some_and(|length| length <= IDLE_BYTES);
        let is_too_short = self.length.is_some_and(|length| length < IDLE_NEEDS);
        if !self.may_load(&plan.download) {
            return Ok(());
        }
        if is_too_short || (!is_short && !self.has_ranges) {
            return Ok(());
        }
        let range = format!("bytes=0-{}", IDLE_BYTES - 1);
        let fields = if is_short {
            Vec::new()
        } else {
            vec![("range", range.as_str())]
        };
        let mut requests = Vec::new();
        for _ in 0..3 {
            requests.push(plan.ask("GET", &plan.download, &fields)?);
        }
        let task = Task {
            kind: StepKind::Idle,
            version,
            round: 1,
            requests,
            load: Load::Chain(vec![Duration::ZERO, Duration::ZERO, PAUSE]),
            bytes_at_most: IDLE_BYTES_AT_MOST,
        };
        self.keep(&plan.download, task).map(drop)
    }

    /// Runs a step and keeps its records. Returns the heads of its responses.
    pub(super) fn keep(&mut self, url: &HttpUrl, task: Task) -> Result<Vec<Head>> {
        let Some(records) = self.run(url, task)? else {
            return Ok(Vec::new());
        };
        self.seen.steps.push(records.step);
        Ok(records.heads)
    }
}

/// The largest body of the small responses. `None` if many more such requests would be expensive or show nothing new:
/// they are worthwhile if each step used one connection and all requests were answered without an error, most of them
/// soon.
fn largest_cheap<'a>(steps: impl Iterator<Item = &'a Step>) -> Option<u64> {
    let mut rows: Vec<&RequestRecord> = Vec::new();
    for step in steps {
        let opened = step.requests.iter().filter(|row| row.opened_connection);
        if opened.count() > 1 {
            return None;
        }
        rows.extend(&step.requests);
    }
    if rows.iter().any(|row| !row.succeeded()) {
        return None;
    }
    if middle_first_byte(rows.iter().copied())? > CHEAP_AT_MOST {
        return None;
    }
    rows.iter().map(|row| row.response_body_bytes).max()
}

/// The middle time from a request to the first byte of its response.
pub(super) fn middle_first_byte<'a>(
    rows: impl Iterator<Item = &'a RequestRecord>,
) -> Option<Duration> {
    let took = |row: &RequestRecord| Some(row.answered_first?.since(row.written_last?));
    let mut spans: Vec<Duration> = rows.filter_map(took).collect();
    spans.sort_unstable();
    spans.get(spans.len() / 2).copied()
}

/// The time of one TCP handshake; `None` if it failed or took longer than `at_most`.
pub(super) fn connect(
    address: SocketAddr,
    at_most: Duration,
    recording: &Recording,
) -> Option<Duration> {
    let begun = clock::now();
    let stream = TcpStream::connect_timeout(&address, at_most.into()).ok()?;
    let took = clock::now().since(begun);
    if let Ok(from) = stream.local_addr() {
        recording.opened(from, true);
    }
    drop(stream);
    Some(took)
}

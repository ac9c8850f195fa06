//! Steps that show how a server behaves rather than how fast it is: whether it handles slow requests concurrently, resumes TLS
//! sessions, honours priorities, and keeps idle connections.
//!
//! Each is run once for each version, after the rounds of `drive`. squall-analysis says what follows from them.

use std::sync::PoisonError;

use anyhow::Result;
use squall_analysis::probe::{PRIORITY_DOWNLOADS, StepKind, is_urgent};
use squall_base::Duration;
use squall_base::plan::Version;
use squall_linux::clock;
use squall_stations::client::Target;

use super::drive::{Drive, STEP_AT_LEAST, STEP_AT_MOST, middle_first_byte};
use super::plan::{PAIR_REQUESTS, PRIORITY_BYTES, RESUMPTION_REQUESTS, SMALL_BYTES};
use super::step::{Load, Task};

/// The shortest download, in bytes, that shows in which order the server sends several; shorter ones are not tried.
const PRIORITIES_NEED: u64 = 48 * 1024;
/// A response is slow if its first byte takes longer than this. Only then can a second request be sent well before it.
const SLOW: Duration = Duration::from_millis(200);
/// How long after the first of two slow requests the second one is sent.
const PAIR_DELAY: Duration = Duration::from_millis(20);
/// The most time for slow requests.
const PAIR_AT_MOST: Duration = Duration::from_secs(15);

impl Drive<'_> {
    /// Runs all of these steps.
    pub(super) fn behaviour(&mut self, versions: &[Version]) -> Result<()> {
        for version in versions {
            self.resumption(*version)?;
        }
        let with_streams = versions
            .iter()
            .filter(|version| **version != Version::Http1);
        for version in with_streams {
            self.priorities(*version)?;
        }
        self.keep_idle(versions)
    }

    /// Sends two slow requests on one connection, 20 ms apart. If the server handles one after the other, the second response
    /// is late.
    pub(super) fn slow_pair(&mut self, version: Version) -> Result<()> {
        let plan = self.plan();
        let steps = self.seen.steps_of(StepKind::Small, version);
        let usual = middle_first_byte(steps.flat_map(|step| &step.requests));
        let Some(usual) = usual.filter(|usual| *usual > SLOW) else {
            return Ok(());
        };
        if !self.may_load(&plan.url) || self.time().is_none() {
            return Ok(());
        }
        let url = self.for_version(&plan.url, version);
        let request = self.small_request(&url)?;
        let task = Task {
            kind: StepKind::SlowPair,
            version,
            round: 1,
            requests: vec![request.clone(), request.clone(), request],
            load: Load::PairBehind(PAIR_DELAY),
            bytes_at_most: PAIR_REQUESTS * SMALL_BYTES,
        };
        // Time for three responses one after the other, doubled for a server that slows down.
        let needed = Duration::from_nanos(usual.as_nanos().saturating_mul(6));
        let at_most = needed.clamp(STEP_AT_MOST, PAIR_AT_MOST);
        let left = self.deadline.since(clock::now());
        let records = self.environment.run(&url, task, at_most.min(left))?;
        self.seen.steps.push(records.step);
        Ok(())
    }

    /// Opens two connections one after the other; the second offers the ticket of the first.
    fn resumption(&mut self, version: Version) -> Result<()> {
        let plan = self.plan();
        let (_, side) = plan.spoken(version)?;
        if !plan.is_secure() || !side.tls.resumption {
            return Ok(());
        }
        let url = self.for_version(&plan.url, version);
        let kind = StepKind::Resumption;
        let target = self.environment.target(&url, kind, version)?;
        for round in [1, 2] {
            let Some(time) = self.time() else {
                return Ok(());
            };
            let task = Task {
                kind,
                version,
                round,
                requests: vec![self.small_request(&url)?],
                load: Load::InTurn(RESUMPTION_REQUESTS),
                bytes_at_most: RESUMPTION_REQUESTS * SMALL_BYTES,
            };
            let records = self.environment.run_at(target.clone(), task, time)?;
            let has_answer = records.step.answered().next().is_some();
            if round == 1 && has_answer {
                self.seen.tickets.push((version, early_data_bytes(&target)));
            }
            self.seen.steps.push(records.step);
            if !has_answer {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Downloads the same resource several times at once; some of the requests are urgent (RFC 9218).
    fn priorities(&mut self, version: Version) -> Result<()> {
        let plan = self.plan();
        let is_short = self.length.is_some_and(|length| length < PRIORITIES_NEED);
        if is_short || !self.may_load(&plan.download) {
            return Ok(());
        }
        let url = self.for_version(&plan.download, version);
        let range = format!("bytes=0-{}", PRIORITY_BYTES - 1);
        let is_long = self.length.is_none_or(|length| length > PRIORITY_BYTES);
        let mut requests = Vec::new();
        for what in 0..PRIORITY_DOWNLOADS {
            let urgency = if is_urgent(what) { "u=0" } else { "u=7" };
            let mut fields = vec![("priority", urgency)];
            if is_long && self.has_ranges {
                fields.push(("range", range.as_str()));
            }
            requests.push(plan.ask("GET", &url, &fields)?);
        }
        let task = Task {
            kind: StepKind::Priorities,
            version,
            round: 1,
            requests,
            load: Load::Together(PRIORITY_DOWNLOADS),
            bytes_at_most: u64::from(PRIORITY_DOWNLOADS) * PRIORITY_BYTES,
        };
        self.keep(&url, task).map(drop)
    }

    /// Sends a small request over each version, and then keeps the connections idle, all at the same time: nothing is
    /// sent meanwhile, so they cannot disturb each other.
    fn keep_idle(&mut self, versions: &[Version]) -> Result<()> {
        let plan = self.plan();
        if plan.idle.is_zero() {
            return Ok(());
        }
        let time = plan.idle.min(self.deadline.since(clock::now()));
        if time < STEP_AT_LEAST {
            self.is_out_of_time = true;
            return Ok(());
        }
        let mut waiting = Vec::new();
        for version in versions {
            let url = self.for_version(&plan.url, *version);
            let task = Task {
                kind: StepKind::KeptIdle,
                version: *version,
                round: 1,
                requests: vec![self.small_request(&url)?, self.small_request(&url)?],
                // The second request is never sent: it would be due when the step is over.
                load: Load::Chain(vec![Duration::ZERO, time]),
                bytes_at_most: 2 * SMALL_BYTES,
            };
            waiting.push(self.environment.start(&url, task, time)?);
        }
        for step in waiting {
            let records = step.finish(self.environment.recording)?;
            self.seen.steps.push(records.step);
        }
        Ok(())
    }
}

/// The early data that the newest ticket of a target's server allows, in bytes; `None` without a ticket.
fn early_data_bytes(target: &Target) -> Option<u32> {
    let name = &target.server_name;
    match (&target.security, &target.quic) {
        (Some(tls), _) => tls.early_data_bytes(name),
        (None, Some(quic)) => {
            let quic = quic.lock().unwrap_or_else(PoisonError::into_inner);
            quic.early_data_bytes(name)
        }
        (None, None) => None,
    }
}

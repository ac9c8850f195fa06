//! The beginning of a probe: which versions answer, where HTTP/3 is, and what the first responses say.
//!
//! `drive` has the steps that follow.

use std::net::SocketAddr;

use anyhow::Result;
use squall_analysis::probe::{Head, Http3Reach, StepKind, failure, version_name};
use squall_base::plan::Version;
use squall_base::record::Outcome;
use squall_http::values::alt_svc::AltSvc;

use super::drive::{Drive, STEP_AT_LEAST};
use super::plan::SMALL_BYTES;
use super::step::{Load, Task};
use crate::client::{HandshakeFailure, ProtocolChoice, TlsCredentials, quic_handshake};

impl Drive<'_> {
    /// Sends one request over each version. Returns the versions that answered.
    pub(super) fn ask_versions(&mut self) -> Result<Vec<Version>> {
        let plan = self.plan();
        let mut answered = Vec::new();
        let over_tcp = plan
            .versions
            .iter()
            .filter(|version| **version != Version::Http3);
        for version in over_tcp {
            if self.ask(*version)? {
                answered.push(*version);
            }
        }
        self.read_alternatives();
        if plan.versions.contains(&Version::Http3)
            && self.reach_http3()?
            && self.ask(Version::Http3)?
        {
            answered.push(Version::Http3);
        }
        Ok(answered)
    }

    /// Sends one request that allows compression. Returns whether it was answered.
    fn ask(&mut self, version: Version) -> Result<bool> {
        let plan = self.plan();
        let url = self.for_version(&plan.url, version);
        let request = plan.ask("GET", &url, &[("accept-encoding", "gzip, br")])?;
        let task = Task {
            kind: StepKind::Small,
            version,
            round: 0,
            requests: vec![request],
            load: Load::InTurn(1),
            bytes_at_most: SMALL_BYTES + 1,
        };
        let Some(time) = self.time() else {
            return Ok(false);
        };
        // If the server is silent, there must be time left to ask over the other versions.
        let time = time.min(self.share_of_time(3)).max(STEP_AT_LEAST);
        let records = self.environment.run(&url, task, time)?;
        self.note_address(version)?;
        let step = &records.step;
        let Some(head) = records.heads.into_iter().next() else {
            let why = failure(step).unwrap_or_else(|| "no response".to_owned());
            self.seen.failures.push((version, why));
            self.seen.unanswered.push(records.step);
            return Ok(false);
        };
        if let Some(why) = failure(step) {
            self.seen.notes.push(format!(
                "{}: the first response was not complete: {why}.",
                version_name(version)
            ));
        }
        if self.seen.heads.is_empty() {
            self.seen.notes.extend(about_status(&head));
        }
        let row = step.of(0);
        let is_complete = row.is_some_and(|row| row.outcome == Outcome::Answered);
        self.is_small = is_complete && step.body_bytes() <= SMALL_BYTES;
        let coding = head.field("content-encoding").unwrap_or_default();
        self.seen.coding = Some((coding.to_owned(), step.body_bytes()));
        self.seen.heads.push(head);
        if self.seen.heads.len() == 1 {
            self.read_robots(version)?;
        }
        Ok(true)
    }

    /// Notes the address that requests go to, which the address book remembers.
    fn note_address(&mut self, version: Version) -> Result<()> {
        if self.seen.address.is_empty()
            && let Some(address) = self.tcp_address(version)?
        {
            self.seen.address = address.to_string();
        }
        Ok(())
    }

    /// Whether a response advertised HTTP/3, and where.
    fn read_alternatives(&mut self) {
        let values = self.seen.heads.iter().flat_map(|head| {
            let fields = head.fields.iter();
            fields.filter(|(name, _)| name == "alt-svc")
        });
        let found = values
            .filter_map(|(_, value)| AltSvc::parse(value).ok())
            .find_map(|services| services.http3().cloned());
        self.seen.advertises_http3 = found.is_some();
        self.http3 = found;
    }

    /// Completes a QUIC handshake. Returns whether that worked.
    fn reach_http3(&mut self) -> Result<bool> {
        if self.time().is_none() {
            return Ok(false);
        }
        let plan = self.plan();
        let url = self.for_version(&plan.url, Version::Http3);
        let (_, side) = plan.spoken(Version::Http3)?;
        let book = &mut *self.environment.address_book;
        let recording = &mut *self.environment.recording;
        let opened = |from, to| {
            recording.watch(Some(to));
            recording.opened(from, false);
        };
        let tried = quic_handshake(&plan.connection, &url, &side, book, opened)?;
        self.seen.http3 = match tried {
            Ok(()) => Http3Reach::Works,
            Err(HandshakeFailure::Silent(why)) => Http3Reach::Silent(why),
            Err(HandshakeFailure::Refused(why)) => Http3Reach::Refused(why),
            Err(HandshakeFailure::OutOfTime(why)) => {
                self.is_out_of_time = true;
                self.seen.failures.push((Version::Http3, why));
                return Ok(false);
            }
        };
        match &self.seen.http3 {
            Http3Reach::Works => Ok(true),
            Http3Reach::Silent(why) | Http3Reach::Refused(why) => {
                self.seen.failures.push((Version::Http3, why.clone()));
                Ok(false)
            }
            Http3Reach::NotTried => Ok(false),
        }
    }

    /// The address of connections over TCP.
    fn tcp_address(&mut self, version: Version) -> Result<Option<SocketAddr>> {
        if version == Version::Http3 {
            return Ok(None);
        }
        let plan = self.plan();
        let (protocol, side) = plan.spoken(version)?;
        let choice = ProtocolChoice {
            protocol,
            is_strict: true,
        };
        let book = &mut *self.environment.address_book;
        let target = TlsCredentials::target(&plan.connection, &plan.url, choice, &side, book)?;
        Ok(target.packets_to())
    }
}

/// What a redirection means for the probe.
fn about_status(head: &Head) -> Option<String> {
    let status = head.status;
    let is_redirection = (300..400).contains(&status);
    let location = head.field("location").filter(|_| is_redirection)?;
    Some(format!(
        "The server redirects (status {status}) to {location}: probe that URL instead."
    ))
}

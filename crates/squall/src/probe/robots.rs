//! What the server's robots.txt allows (RFC 9309). Where it disallows a path, a probe sends only the few small requests that
//! a visitor would: no downloads, no uploads, and not many requests in a row.
//!
//! squall-http's `values::robots` reads the rules. A robots.txt that is missing, redirected or answered with an error
//! restricts nothing. `drive` asks here before it puts load on a path.

use anyhow::Result;
use squall_analysis::probe::StepKind;
use squall_base::Duration;
use squall_base::plan::Version;
use squall_http::values::robots::Robots;

use super::drive::{Drive, STEP_AT_LEAST};
use super::plan::ROBOTS_BYTES;
use super::step::{Load, Task};
use crate::client::HttpUrl;

/// The product token of squall's `user-agent`.
const PRODUCT: &str = "squall";
/// A server that does not answer in this time restricts nothing.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

impl Drive<'_> {
    /// Asks for robots.txt once, over a version that answers, and notes the paths that it disallows.
    pub(super) fn read_robots(&mut self, version: Version) -> Result<()> {
        let plan = self.plan();
        if plan.ignores_robots {
            return Ok(());
        }
        let Some(time) = self.time() else {
            return Ok(());
        };
        let url = self.for_version(&plan.url.with_target("/robots.txt"), version);
        let task = Task {
            kind: StepKind::Robots,
            version,
            round: 1,
            // The text itself: it could not be read in a coding that -H asks for.
            requests: vec![plan.ask("GET", &url, &[("accept-encoding", "identity")])?],
            load: Load::InTurn(1),
            bytes_at_most: ROBOTS_BYTES,
        };
        let time = time.min(ANSWERED_WITHIN).min(self.share_of_time(3));
        let records = self.environment.run(&url, task, time.max(STEP_AT_LEAST))?;
        let is_found = |status: u16| (200..300).contains(&status);
        if records.heads.iter().any(|head| is_found(head.status)) {
            let is_complete = records.step.answered().next().is_some();
            let text = if is_complete {
                records.body.as_slice()
            } else {
                whole_lines(&records.body)
            };
            self.robots = Robots::parse(text, PRODUCT);
        }
        self.note_disallowed();
        Ok(())
    }

    /// Whether downloads, uploads and many requests may be sent to a URL.
    pub(super) fn may_load(&self, url: &HttpUrl) -> bool {
        self.robots.allows(&url.target)
    }

    fn note_disallowed(&mut self) {
        let plan = self.plan();
        let upload = plan.upload.as_ref().map(|(url, _)| url);
        let urls = [&plan.url, &plan.download].into_iter().chain(upload);
        for url in urls.filter(|url| !self.robots.allows(&url.target)) {
            // The query may be a secret.
            let path = url.target.split('?').next().unwrap_or_default();
            let said = format!(
                "robots.txt of the server disallows {path}: squall leaves out downloads, uploads and many requests there; \
                 --ignore-robots sends them."
            );
            if !self.seen.notes.contains(&said) {
                self.seen.notes.push(said);
            }
        }
    }
}

/// A text that was cut off, without its last line: a part of a rule may disallow more than the whole rule.
fn whole_lines(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte == b'\n');
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_that_was_cut_off_is_ignored() {
        let text = b"user-agent: *\ndisallow: /a\ndisallow: /";
        let rules = Robots::parse(whole_lines(text), PRODUCT);
        assert!(!rules.allows("/a"));
        assert!(rules.allows("/b"));
        assert!(whole_lines(b"disallow: /").is_empty());
    }
}

//! Schedules: settings that change while the link is up, one time per line.
//!
//! Times count from the link's start. The number of stretches is not known here, so the caller that joins schedule and link
//! checks the number after `link`.

use squall_base::Duration;
use squall_base::record::Direction;
use squall_base::text::without_bom;

use super::error::{Mistake, TextError};
use super::words::Words;
use super::{Traces, list};
use crate::settings::Change;

const EXAMPLE: &str = "at 10s: loss 3%";

pub(super) fn read(text: &str, traces: &mut Traces<'_>) -> Result<Vec<Change>, TextError> {
    let mut changes: Vec<Change> = Vec::new();
    for (index, line) in without_bom(text).lines().enumerate() {
        let line = without_comment(line);
        if !line.trim().is_empty() {
            let last = changes.last().map_or(Duration::ZERO, |change| change.at);
            changes.extend(read_line(line, index + 1, last, traces)?);
        }
    }
    Ok(changes)
}

/// A comment begins with `#` at the start of a line or after a space: `trace lte#2` has no comment.
fn without_comment(line: &str) -> &str {
    let begins = |at: usize| at == 0 || line[..at].ends_with(char::is_whitespace);
    let comment = line.match_indices('#').find(|(at, _)| begins(*at));
    comment.map_or(line, |(at, _)| &line[..at])
}

fn read_line(
    line: &str,
    number: usize,
    last: Duration,
    traces: &mut Traces<'_>,
) -> Result<Vec<Change>, TextError> {
    let colon = line.find(':');
    let head = &line[..colon.unwrap_or(line.len())];
    let mut words = Words::new(head, Some(number), 0, EXAMPLE);
    words.keyword("at")?;
    let at: Duration = words.quantity("a time")?;
    if at < last {
        let expected = format!("a time from {last} on");
        return Err(words.wrong(Mistake::BackInTime, &expected));
    }
    let Some(colon) = colon else {
        // Regardless of what follows the time, as in `at 10s loss 3%`, the colon is missing.
        return Err(words.incomplete("`:` after the time"));
    };
    words.end()?;
    let indent = head.chars().count() + 1;
    let mut words = Words::new(&line[colon + 1..], Some(number), indent, EXAMPLE);
    let stretch = if words.skip("link") {
        words.whole_u32(1)? - 1
    } else {
        0
    };
    let direction = Direction::ALL.into_iter().find(|d| words.skip(d.name()));
    let (body, indent) = words.remaining();
    let settings = list(body, Some(number), indent, traces)?;
    Ok(settings
        .into_iter()
        .map(|setting| Change {
            at,
            stretch: stretch as usize,
            direction,
            setting,
        })
        .collect())
}

//! How long the server keeps idle connections: what it announces, and what it did while the probe watched one.
//!
//! The watch is short: a connection that was still open at its end may be closed soon after. Nothing is judged here; `small`
//! has the connections that end after a number of requests.

use serde::Serialize;
use squall_base::plan::Version;
use squall_base::{Duration, Time};

use super::observed::{Observations, Step, StepKind, version_name};

/// An idle connection of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KeepAlive {
    /// Its name.
    pub version: &'static str,
    /// What the server announces: `Keep-Alive: timeout` over HTTP/1.1, max_idle_timeout over HTTP/3.
    #[serde(rename = "announced_ns")]
    pub announced: Option<Duration>,
    /// What it did; `None` if the probe watched no idle connection.
    pub watched: Option<IdleConnection>,
}

/// An idle connection while the probe watched it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct IdleConnection {
    /// How long it was idle, until the connection or the watch ended.
    #[serde(rename = "idle_ns")]
    pub idle: Duration,
    /// Whether the server ended it.
    pub was_ended: bool,
    /// Whether it sent a GOAWAY.
    pub with_goaway: bool,
}

impl KeepAlive {
    /// An idle connection of each version about which something is known.
    pub(super) fn all(seen: &Observations) -> Vec<KeepAlive> {
        let versions = [Version::Http1, Version::Http2, Version::Http3];
        let facts = versions.map(|version| KeepAlive {
            version: version_name(version),
            announced: announced(seen, version),
            watched: (seen.steps_of(StepKind::KeptIdle, version)).find_map(watched),
        });
        let is_known = |facts: &KeepAlive| facts.announced.is_some() || facts.watched.is_some();
        facts.into_iter().filter(is_known).collect()
    }
}

fn announced(seen: &Observations, version: Version) -> Option<Duration> {
    match version {
        Version::Http1 => {
            let mut heads = seen.heads.iter().filter(|head| head.version == version);
            heads.find_map(|head| timeout(head.field("keep-alive")?))
        }
        // HTTP/2 has neither a field nor a setting for an idle timeout.
        Version::Http2 => None,
        Version::Http3 => {
            let handshakes = seen.steps.iter().filter_map(|step| step.handshake.as_ref());
            let mut transports = handshakes.filter_map(|handshake| handshake.transport);
            let timeout = transports.next()?.max_idle_timeout;
            (!timeout.is_zero()).then_some(timeout)
        }
    }
}

/// The `timeout` of a `Keep-Alive` field such as `timeout=5, max=100`: whole seconds.
fn timeout(field: &str) -> Option<Duration> {
    let mut parameters = field.split(',').filter_map(|part| part.split_once('='));
    let (_, value) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("timeout"))?;
    let seconds: u32 = value.trim().trim_matches('"').parse().ok()?;
    Some(Duration::from_secs(u64::from(seconds)))
}

fn watched(step: &Step) -> Option<IdleConnection> {
    let row = step.answered().next()?;
    let connection = row.connection?;
    let mut ended = step.ended.iter();
    let ended = ended.find(|(of, _)| *of == connection);
    let ended = ended.map(|(_, time)| *time);
    let samples = step.sockets.iter();
    let last: Option<Time> = samples
        .filter(|sample| sample.connection == connection)
        .map(|sample| sample.time)
        .max();
    Some(IdleConnection {
        idle: ended.or(last)?.since(row.end),
        was_ended: ended.is_some(),
        with_goaway: step.counts.endings.goaways_received > 0,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Diagnosis;
    use super::super::made::{at_us, head, healthy, ms, parameters, request, step, tcp_at};
    use super::super::observed::Handshake;
    use super::*;

    fn kept_idle(ended_us: Option<u64>) -> Step {
        let mut made = step(StepKind::KeptIdle, Version::Http1);
        made.requests.push(request(0, 1_000, 9_000));
        made.sockets.push(tcp_at(5_010_000, &[]));
        made.ended = ended_us
            .map(|micros| (0, at_us(micros)))
            .into_iter()
            .collect();
        made
    }

    fn facts(seen: &Observations) -> Vec<KeepAlive> {
        Diagnosis::of(seen).endpoint.keep_alive
    }

    #[test]
    fn idle_connection_was_ended_or_outlasted_the_watch() {
        for (ended_us, idle, was_ended) in [(Some(2_010_000), 2_000, true), (None, 5_000, false)] {
            let mut seen = healthy(ms(30));
            seen.steps.push(kept_idle(ended_us));
            let watched = facts(&seen)[0].watched.expect("it was watched");
            assert_eq!((watched.idle, watched.was_ended), (ms(idle), was_ended));
            assert!(!watched.with_goaway);
        }
        assert_eq!(facts(&healthy(ms(30))), []);
    }

    #[test]
    fn announced_timeouts_come_from_the_keep_alive_field_and_from_quic() {
        let mut seen = healthy(ms(30));
        let fields = [("keep-alive", "max=100, Timeout=5")];
        seen.heads.push(head(Version::Http1, &fields));
        let mut made = step(StepKind::Small, Version::Http3);
        made.handshake = Some(Handshake {
            transport: Some(parameters()),
            ..Handshake::default()
        });
        seen.steps.push(made);
        let announced: Vec<_> = facts(&seen)
            .iter()
            .map(|facts| (facts.version, facts.announced))
            .collect();
        let expected = [("HTTP/1.1", Some(ms(5_000))), ("HTTP/3", Some(ms(30_000)))];
        assert_eq!(announced, expected);
    }

    #[test]
    fn fields_without_a_timeout_announce_nothing() {
        for field in [
            "",
            "max=100",
            "timeout=",
            "timeout=soon",
            "timeout=99999999999",
        ] {
            assert_eq!(timeout(field), None, "{field}");
        }
        assert_eq!(timeout("timeout=\"75\""), Some(ms(75_000)));
    }
}

//! `connections` and `pool`: how many connections a client has, and how it uses them.

use squall_base::plan::{
    Connections, PoolOrder, PoolSettings, Protocol, Version, browser_connections,
};
use toml::de::DeValue;

use super::load::OwnConnections;
use super::side::refuse_unused;
use crate::error::Mistake;
use crate::limits::{MAX_CONNECTIONS, MAX_STREAMS};
use crate::problems::ReportedProblem;
use crate::section::{Field, Section, SpannedValue};
use crate::shapes;

/// The limit of connections on demand, unless the recipe sets one. Each takes a file descriptor on both sides: 8,192 are
/// far below the hard limit of 524,288 that systemd sets (since version 240).
const DEFAULT_AT_MOST: u32 = 4_096;
/// The limit on a proxy's hop, so that a path of four hops stays below 20,000 file descriptors.
const PROXY_AT_MOST: u32 = 1_024;

/// What the recipe sets, before the path's protocol fills in the defaults.
pub(super) struct Pool {
    connections: Result<Option<Connections>, ReportedProblem>,
    order: Option<PoolOrder>,
    streams_at_most: Option<u32>,
    warm: Option<SpannedValue<u32>>,
}

impl Pool {
    /// Whether a table sets anything about the pool.
    pub(super) fn is_in(table: &Section<'_>) -> bool {
        ["connections", "pool"]
            .into_iter()
            .any(|key| table.field(key).is_some())
    }

    /// A pool with nothing set.
    pub(super) fn unset() -> Pool {
        Pool {
            connections: Ok(None),
            order: None,
            streams_at_most: None,
            warm: None,
        }
    }

    /// The default of proxies: that of clients, with a lower limit of connections.
    pub(super) fn of_proxy(protocol: Protocol) -> Pool {
        let connections = match usual_connections(protocol) {
            Connections::OnDemand { .. } => Connections::OnDemand {
                at_most: PROXY_AT_MOST,
            },
            fixed @ Connections::Fixed(_) => fixed,
        };
        Pool {
            connections: Ok(Some(connections)),
            ..Pool::unset()
        }
    }

    /// What a proxy's hop has in its own table.
    pub(super) fn read_of_proxy(
        hop: &Section<'_>,
        protocol: Protocol,
    ) -> Result<Pool, ReportedProblem> {
        let own = Pool::read(hop, &[protocol])?;
        Ok(match own.connections {
            Ok(None) => Pool {
                connections: Pool::of_proxy(protocol).connections,
                ..own
            },
            _ => own,
        })
    }

    pub(super) fn read(
        variant: &Section<'_>,
        protocols: &[Protocol],
    ) -> Result<Pool, ReportedProblem> {
        let connections = variant.optional("connections", |f| connections(&f));
        let mut pool = Pool {
            connections,
            ..Pool::unset()
        };
        let Some(field) = variant.field("pool") else {
            return Ok(pool);
        };
        let table = field.section(&shapes::POOL, shapes::POOL.label)?;
        let order = table.optional("order", |f| {
            let words = PoolOrder::ALL.map(|order| (order.name(), order));
            f.word("an order of connections", &words)
        });
        let streams = table.optional("streams_at_most", |f| {
            let streams = f.integer(&(1..=MAX_STREAMS));
            refuse_unused(&f, "streams", protocols, |p| p.version() != Version::Http1)?;
            streams
        });
        let warm = table.optional("warm", |f| {
            Ok(f.with_span(f.integer(&(0..=MAX_CONNECTIONS))?))
        });
        pool.order = order?;
        pool.streams_at_most = streams?;
        pool.warm = warm?;
        Ok(pool)
    }

    /// Fills in the defaults of the protocol and of the kind of connections.
    pub(super) fn into_settings(
        self,
        variant: &Section<'_>,
        protocol: Protocol,
    ) -> Result<(Connections, PoolSettings), ReportedProblem> {
        let connections = self.connections?.unwrap_or(usual_connections(protocol));
        let (order, warm, most) = match connections {
            Connections::OnDemand { at_most } => (PoolOrder::LastUsed, 0, at_most),
            Connections::Fixed(count) => (PoolOrder::Turns, count, count),
        };
        self.check_warm(variant, most, || {
            format!("at most the connections that there are: {most}")
        })?;
        let pool = PoolSettings {
            order: self.order.unwrap_or(order),
            streams_at_most: self.streams_at_most,
            warm: self.warm.map_or(warm, |warm| warm.value),
        };
        Ok((connections, pool))
    }

    /// Like `into_settings`, for a load whose users each open their own connections on demand.
    pub(super) fn into_user_settings(
        self,
        variant: &Section<'_>,
        protocol: Protocol,
        own: OwnConnections,
    ) -> Result<(Connections, PoolSettings), ReportedProblem> {
        let at_most = match self.connections {
            Ok(Some(Connections::OnDemand { at_most } | Connections::Fixed(at_most))) => at_most,
            Ok(None) => connections_of_a_user(own, protocol),
            Err(reported) => return Err(reported),
        };
        self.check_warm(variant, 0, || {
            "0: users with connections of their own open them when they need them".to_owned()
        })?;
        let pool = PoolSettings {
            order: self.order.unwrap_or(PoolOrder::LastUsed),
            streams_at_most: self.streams_at_most,
            warm: 0,
        };
        Ok((Connections::OnDemand { at_most }, pool))
    }

    fn check_warm(
        &self,
        variant: &Section<'_>,
        most: u32,
        expected: impl FnOnce() -> String,
    ) -> Result<(), ReportedProblem> {
        let Some(warm) = self.warm.as_ref().filter(|warm| warm.value > most) else {
            return Ok(());
        };
        let mistake = Mistake::OutOfRange {
            key: "warm".to_owned(),
            value: warm.value.to_string(),
        };
        let problems = variant.problems();
        Err(problems.report(warm.span.clone(), mistake, expected(), None))
    }
}

/// As many connections as a browser opens, or one.
fn connections_of_a_user(own: OwnConnections, protocol: Protocol) -> u32 {
    match own {
        OwnConnections::AsBrowsers => browser_connections(protocol.version()),
        OwnConnections::One => 1,
    }
}

/// What clients of the protocol usually do: HTTP/1.1 opens a connection when none is free, HTTP/2 and HTTP/3 share one
/// (RFC 9113, section 9.1; RFC 9114, section 3.3).
fn usual_connections(protocol: Protocol) -> Connections {
    match protocol.version() {
        Version::Http1 => Connections::OnDemand {
            at_most: DEFAULT_AT_MOST,
        },
        Version::Http2 | Version::Http3 => Connections::Fixed(1),
    }
}

fn connections(field: &Field<'_>) -> Result<Connections, ReportedProblem> {
    const EXPECTED: &str = "\"on demand\", a number, or { at_most = 100 }";
    let range = 1..=MAX_CONNECTIONS;
    match field.value() {
        DeValue::String(text) if text == "on demand" => Ok(Connections::OnDemand {
            at_most: DEFAULT_AT_MOST,
        }),
        DeValue::String(text) => {
            Err(field.malformed(text, "a way to get connections", EXPECTED, &[]))
        }
        DeValue::Integer(_) => field.integer(&range).map(Connections::Fixed),
        DeValue::Table(_) => field
            .section(&shapes::CONNECTIONS, shapes::CONNECTIONS.label)?
            .required("at_most", "the most connections at once", |f| {
                f.integer(&range)
            })
            .map(|at_most| Connections::OnDemand { at_most }),
        _ => Err(field.wrong_type(EXPECTED, None)),
    }
}

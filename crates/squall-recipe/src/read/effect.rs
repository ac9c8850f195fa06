//! Refuses keys of `http1` to `tcp` that would have no effect where they are: keys of the other side, keys of a host on a hop
//! that does not leave it, and keys of our own engines where programs run. A key that changes nothing misleads.
//!
//! `side` refuses whole tables of a protocol that the path does not use. `program` reads the settings of programs.

use squall_base::plan::{Protocol, Side};

use super::side::{self, SETTINGS_TABLES};
use crate::error::Mistake;
use crate::problems::ReportedProblem;
use crate::section::{Field, Section};

/// One side of a hop, to which a table of settings applies.
#[derive(Clone, Copy, Debug)]
pub(super) struct HopEnd {
    pub(super) protocol: Protocol,
    pub(super) side: Side,
    pub(super) across_link: bool,
    /// Whether the station is between a client and a server.
    pub(super) is_proxy: bool,
    pub(super) applier: Applier,
}

/// What would have to apply a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Applier {
    /// A station of our own.
    Embedded,
    /// A program; only its host applies keys.
    Host,
}

/// Why an end ignores a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IgnoreReason {
    /// The key is one of the other side: which side, and why.
    OtherSide(Side, &'static str),
    /// The key is one of hosts, which only the ends of a link have.
    InsideHost,
    /// The key is one of our own stations.
    Program,
    /// The key is one of clients, and a proxy does what it requests in any case.
    Proxy,
}

const IN_CLIENT: &str =
    "it in `client`: a server's connections have the port that the server listens on";
const IN_SERVER: &str = "it in `server`; a client ends connections after `requests_per_connection`";
const REQUESTS_IN_CLIENT: &str = "it in `client`; a server of HTTP/2 has `goaway_after`";
const RETRIES_IN_CLIENT: &str = "it in `client`, which sends requests";
const NO_STREAMS: &str =
    "it in `server`: no HTTP/3 server opens request streams (RFC 9114, section 6.1)";

/// Whether that end applies the key of that table.
fn check_applies(end: HopEnd, table: &str, key: &str) -> Result<(), IgnoreReason> {
    let only_side = match (table, key) {
        ("tcp" | "http3", "local_ports") => Some((Side::Client, IN_CLIENT)),
        ("http2", "goaway_after") => Some((Side::Server, IN_SERVER)),
        ("http2" | "http3", "requests_per_connection") => Some((Side::Client, REQUESTS_IN_CLIENT)),
        ("http2" | "http3", "retry_unprocessed") => Some((Side::Client, RETRIES_IN_CLIENT)),
        ("http3", "max_concurrent_streams") => Some((Side::Server, NO_STREAMS)),
        _ => None,
    };
    match (table, key) {
        ("tcp", "slow_start_after_idle" | "max_cwnd") if end.across_link => Ok(()),
        ("tcp", "slow_start_after_idle" | "max_cwnd") => Err(IgnoreReason::InsideHost),
        // A program's connections take the congestion control from the route across the link, and the buffers from their host.
        ("tcp", "congestion_control" | "send_buffer" | "receive_buffer") if end.across_link => {
            Ok(())
        }
        _ if end.applier == Applier::Host => Err(IgnoreReason::Program),
        _ => match only_side {
            Some((side, why)) if side != end.side => Err(IgnoreReason::OtherSide(side, why)),
            Some(_) if end.is_proxy && key == "retry_unprocessed" => Err(IgnoreReason::Proxy),
            _ => Ok(()),
        },
    }
}

/// Whether a key configures the host of that end rather than the station that runs there.
pub(super) fn is_for_host(end: HopEnd, table: &str, key: &str) -> bool {
    check_applies(
        HopEnd {
            applier: Applier::Host,
            ..end
        },
        table,
        key,
    )
    .is_ok()
}

/// Refuses each key of the five tables in `section` that none of `ends` applies.
pub(super) fn check(section: &Section<'_>, ends: &[HopEnd]) -> Result<(), ReportedProblem> {
    let mut outcome = Ok(());
    for kind in SETTINGS_TABLES {
        let Some(table) = section.field(kind.key) else {
            continue;
        };
        for key in kind.shape.keys() {
            if let Some(field) = table.inner(key) {
                outcome = outcome.and(check_key(&field, kind.key, kind.is_used, ends));
            }
        }
    }
    outcome
}

/// Refuses `congestion_control` of a variant if none of `ends` applies it.
pub(super) fn check_congestion_control(
    field: &Field<'_>,
    ends: &[HopEnd],
) -> Result<(), ReportedProblem> {
    check_key(field, "tcp", side::is_tcp, ends)
}

fn check_key(
    field: &Field<'_>,
    table: &str,
    is_used: fn(Protocol) -> bool,
    ends: &[HopEnd],
) -> Result<(), ReportedProblem> {
    let speaking = ends.iter().filter(|end| is_used(end.protocol));
    let ignore_reasons: Result<Vec<IgnoreReason>, ()> = speaking
        .map(|&end| check_applies(end, table, field.key).err().ok_or(()))
        .collect();
    // Either some end applies the key, or none speaks the protocol, which is another mistake.
    let Some(&first) = ignore_reasons.ok().as_ref().and_then(|ignore_reasons| {
        let is_side = |why: &&IgnoreReason| matches!(why, IgnoreReason::OtherSide(..));
        ignore_reasons
            .iter()
            .find(is_side)
            .or(ignore_reasons.first())
    }) else {
        return Ok(());
    };
    let key = field.key.to_owned();
    Err(match first {
        IgnoreReason::OtherSide(belongs, expected) => {
            let side = belongs.peer();
            field.refuse_key(Mistake::OtherSide { key, side }, expected)
        }
        IgnoreReason::InsideHost => field.refuse_key(
            Mistake::InsideHost(key),
            "it on a hop across a link: it belongs to a host, and applies to all its connections",
        ),
        IgnoreReason::Program => field.refuse_key(
            Mistake::OnlyPrograms(key),
            "it on a hop that begins or ends at one of squall's own stations; settings of other programs go in `client` or `server`",
        ),
        IgnoreReason::Proxy => field.refuse_key(
            Mistake::InProxy(key),
            "it in the client: a proxy always sends requests again that were not processed",
        ),
    })
}

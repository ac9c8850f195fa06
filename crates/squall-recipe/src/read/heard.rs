//! Keys of `http1` to `tcp` that nobody would hear where they stand: those of the other side, of a host that the hop does
//! not leave, and of our own engines where programs speak. They are refused, for a key that changes nothing misleads.
//!
//! That a whole table has no protocol on the path is refused in `side`. What a program is told is in `program`.

use squall_base::plan::{Protocol, Side};

use super::side::{self, PARTS};
use crate::error::Mistake;
use crate::problems::Reported;
use crate::section::{Field, Section};

/// One side of a hop, as a table of settings reaches it.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) protocol: Protocol,
    pub(super) side: Side,
    pub(super) across_link: bool,
    pub(super) ear: Ear,
}

/// Who would have to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ear {
    /// A station of our own.
    Ours,
    /// A program, whose host alone hears.
    Host,
}

/// Why an end does not hear a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deaf {
    /// It is of the other side: where it belongs, and why.
    OtherSide(Side, &'static str),
    /// It is about hosts, and the link's are those that have it.
    InsideHost,
    /// It is about our own stations.
    Program,
}

const IN_CLIENT: &str =
    "it in `client`: a server's connections have the port that the server listens at";
const IN_SERVER: &str = "it in `server`, who ends connections by GOAWAY";
const NO_STREAMS: &str = "it in `server`: none of HTTP/3 opens streams for requests to its clients \
                          (RFC 9114, section 6.1)";

/// Whether that end does something with the key of that table.
fn hears(end: End, table: &str, key: &str) -> Result<(), Deaf> {
    let meant = match (table, key) {
        ("tcp" | "http3", "local_ports") => Some((Side::Client, IN_CLIENT)),
        ("http2", "goaway_after") => Some((Side::Server, IN_SERVER)),
        ("http3", "max_concurrent_streams") => Some((Side::Server, NO_STREAMS)),
        _ => None,
    };
    match (table, key) {
        ("tcp", "slow_start_after_idle" | "max_cwnd") if end.across_link => Ok(()),
        ("tcp", "slow_start_after_idle" | "max_cwnd") => Err(Deaf::InsideHost),
        // A program's connections have the first from the route across the link, and the others from their host.
        ("tcp", "congestion_control" | "send_buffer" | "receive_buffer") if end.across_link => {
            Ok(())
        }
        _ if end.ear == Ear::Host => Err(Deaf::Program),
        _ => match meant {
            Some((side, why)) if side != end.side => Err(Deaf::OtherSide(side, why)),
            _ => Ok(()),
        },
    }
}

/// Whether a key is about the host of that end rather than about who runs in it.
pub(super) fn is_for_host(end: End, table: &str, key: &str) -> bool {
    hears(
        End {
            ear: Ear::Host,
            ..end
        },
        table,
        key,
    )
    .is_ok()
}

/// Refuses each key of the five tables in `section` that none of `ends` hears.
pub(super) fn check(section: &Section<'_>, ends: &[End]) -> Result<(), Reported> {
    let mut outcome = Ok(());
    for part in PARTS {
        let Some(table) = section.field(part.key) else {
            continue;
        };
        for key in part.shape.keys {
            if let Some(field) = table.inner(key) {
                outcome = outcome.and(check_key(&field, part.key, part.is_used, ends));
            }
        }
    }
    outcome
}

/// Refuses `congestion_control` of a variant if none of `ends` hears it.
pub(super) fn check_congestion_control(field: &Field<'_>, ends: &[End]) -> Result<(), Reported> {
    check_key(field, "tcp", side::is_tcp, ends)
}

fn check_key(
    field: &Field<'_>,
    table: &str,
    is_used: fn(Protocol) -> bool,
    ends: &[End],
) -> Result<(), Reported> {
    let speaking = ends.iter().filter(|end| is_used(end.protocol));
    let deaf: Result<Vec<Deaf>, ()> = speaking
        .map(|&end| hears(end, table, field.key).err().ok_or(()))
        .collect();
    // Somebody hears it, or nobody speaks the protocol, which is another mistake.
    let Some(&first) = deaf.ok().as_ref().and_then(|deaf| {
        let is_side = |why: &&Deaf| matches!(why, Deaf::OtherSide(..));
        deaf.iter().find(is_side).or(deaf.first())
    }) else {
        return Ok(());
    };
    let key = field.key.to_owned();
    Err(match first {
        Deaf::OtherSide(belongs, expected) => {
            let side = match belongs {
                Side::Client => Side::Server,
                Side::Server => Side::Client,
            };
            field.refuse_key(Mistake::OtherSide { key, side }, expected)
        }
        Deaf::InsideHost => field.refuse_key(
            Mistake::InsideHost { key },
            "it on the hop across the link: it is a host's, and holds for all of its connections",
        ),
        Deaf::Program => field.refuse_key(
            Mistake::OnlyPrograms { key },
            "it where a station of squall's own is; what a program can be given stands in `client` or `server`",
        ),
    })
}

//! How packets, times and requests are written in explanations.
//!
//! Figures are exact, because readers look them up in the tables, which have nanoseconds and indices.

use squall_analysis::explain::{DroppedPacket, PacketName};
use squall_analysis::figure;
use squall_base::record::{Fate, Repair};
use squall_base::{Duration, Time};

/// `connection 2, stream 7`.
pub(super) fn place(connection: Option<u32>, stream: Option<u64>) -> String {
    match (connection, stream) {
        (Some(connection), Some(stream)) => format!("connection {connection}, stream {stream}"),
        (Some(connection), None) => format!("connection {connection}"),
        (None, _) => "no connection".to_owned(),
    }
}

/// Milliseconds to the microsecond, without the unit.
pub(super) fn millis(span: Duration) -> String {
    format!("{:.3}", span.as_millis_f64())
}

/// From `begin` to `time` in milliseconds, negative if `time` is earlier.
pub(super) fn since(begin: Time, time: Time) -> String {
    let sign = if time < begin { "-" } else { "" };
    let span = Duration::from_nanos(time.as_nanos().abs_diff(begin.as_nanos()));
    format!("{sign}{}", millis(span))
}

/// `up 17`.
pub(super) fn packet(name: PacketName) -> String {
    format!("{} {}", name.direction.name(), name.index)
}

/// `1,200 to 2,648`.
pub(super) fn bytes((start, end): (u64, u64)) -> String {
    format!("{} to {}", figure::count(start), figure::count(end))
}

/// `request 7`, `requests 7 and 9`, `requests 7, 9, 12 and 40 more`.
pub(super) fn requests(all: &[u64]) -> String {
    const SHOWN: usize = 5;
    let names: Vec<String> = all.iter().take(SHOWN).map(u64::to_string).collect();
    match all.len() {
        0 => "no request".to_owned(),
        1 => format!("request {}", names[0]),
        n if n > SHOWN => format!("requests {} and {} more", names.join(", "), n - SHOWN),
        n => format!(
            "requests {} and {}",
            names[..n - 1].join(", "),
            names[n - 1]
        ),
    }
}

/// Why a packet did not arrive.
pub(super) fn fate(fate: Fate) -> &'static str {
    match fate {
        Fate::Delivered => "arrived damaged",
        Fate::LossDrop => "was lost",
        Fate::BurstDrop => "was lost in a burst",
        Fate::ListDrop => "was dropped by a drop list",
        Fate::BlackoutDrop => "was lost in a blackout",
        Fate::QueueDrop => "found no room in the queue",
        Fate::EarlyDrop => "was dropped early by the queue",
        Fate::WriteError => "was refused by the other host",
        Fate::InFlight => "was still on its way when the link stopped",
    }
}

/// How a packet's bytes were retransmitted, as the beginning of a sentence about them.
fn repair(repair: Repair) -> &'static str {
    match repair {
        Repair::FastRetransmit => "sent again by fast retransmit",
        Repair::Rack => "sent again by RACK",
        Repair::Tlp => "sent again by a tail loss probe",
        Repair::Rto => "sent again by a retransmission timeout",
        Repair::Timeout => "sent again by a tail loss probe or a retransmission timeout",
        Repair::SynTimer => "sent again by the SYN's timer",
        Repair::PacketThreshold => "sent again after three later packets were acknowledged",
        Repair::TimeThreshold => "sent again by the time threshold",
        Repair::ProbeTimeout => "sent again by a probe timeout",
        Repair::NotNeeded => "nothing needed repair",
        Repair::Never => "its bytes never arrived",
        Repair::Unknown => "how it was repaired is not known",
    }
}

/// How a dropped packet's bytes were repaired: `sent again by RACK, there at 80.100 ms as up 21`. Times from `begin`.
pub(super) fn repaired(drop: &DroppedPacket, begin: Time) -> String {
    let mut text = repair(drop.repair).to_owned();
    if let Some(at) = drop.repaired_at {
        text.push_str(&format!(", there at {} ms", since(begin, at)));
    }
    if let Some(index) = drop.repaired_by {
        let again = PacketName {
            index,
            ..drop.packet
        };
        text.push_str(&format!(" as {}", packet(again)));
    }
    text
}

/// What the packet carried: `bytes 0 to 1,448 of request 3`.
pub(super) fn contents(drop: &DroppedPacket) -> String {
    let of = match drop.carried.as_slice() {
        [] => "of no request".to_owned(),
        carried => format!("of {}", requests(carried)),
    };
    match (drop.start.zip(drop.end), drop.stream) {
        (Some(range), Some(stream)) => format!("bytes {} of stream {stream}, {of}", bytes(range)),
        (Some(range), None) => format!("bytes {} {of}", bytes(range)),
        (None, _) if drop.carried.is_empty() => "no bytes of a request".to_owned(),
        (None, _) => format!("bytes {of}"),
    }
}

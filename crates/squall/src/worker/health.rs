//! How far a trial can be trusted: the thresholds, each with where it comes from.
//!
//! A trial that fails one is recorded and shown, but is no evidence. docs/METHOD.md explains each. The link's own
//! thresholds are in `link_health`.

use std::collections::BTreeMap;

use squall_base::Duration;
use squall_base::plan::{Runs, Station, Trial};
use squall_base::record::{Health, HopRecord, Used, Validity};
use squall_linux::scheduling::Scheduling;

use crate::link_health::{self, Witnesses};

/// The generator's lag at the 99.9th percentile (99th below 1,000 requests), as a share of the median latency.
const LAG_SHARE_AT_MOST: f64 = 0.05;
/// Lag that is never held against a trial. Without delay, 5 % of the median latency (0.09 ms) would be less
/// than any wake-up takes. The 99.9th percentile of an idle machine was 0.04 to 0.54 ms over six trials of
/// which none was repeated or left out; this is about twice the worst of them. It is a judgement, not a law:
/// what guards the verdict there is the rule that a difference must exceed our own error.
const LAG_ALWAYS_SOUND: Duration = Duration::from_millis(1);

/// All that a trial is judged by.
pub(super) struct Evidence<'a> {
    pub(super) trial: &'a Trial,
    pub(super) health: &'a Health,
    pub(super) used: &'a Used,
    pub(super) link_scheduling: Scheduling,
    pub(super) median_latency: Duration,
    /// Whether both hosts had fallen silent before the kernel's counters were read.
    pub(super) is_silent: bool,
    /// Connections that this machine could not begin.
    pub(super) machine_errors: &'a BTreeMap<String, u64>,
    /// Connections that listening sockets did not take.
    pub(super) listen_dropped: u64,
    /// What programs failed to do.
    pub(super) faults: &'a [String],
    /// What was counted on each hop.
    pub(super) hops: &'a [HopRecord],
}

/// Holds a trial against every threshold.
pub(super) fn judge(evidence: &Evidence) -> Validity {
    let mut reasons = link_health::judge(
        &evidence.health.link,
        &evidence.health.link_wakeup,
        evidence.link_scheduling,
        witnesses(evidence.trial),
    );
    judge_lag(evidence.health, evidence.median_latency, &mut reasons);
    judge_machine(evidence, &mut reasons);
    judge_congestion_control(evidence, &mut reasons);
    judge_protocols(evidence.hops, &mut reasons);
    reasons.extend_from_slice(evidence.faults);
    if reasons.is_empty() {
        Validity::Valid
    } else {
        Validity::Invalid { reasons }
    }
}

/// A hop inside a host is counted by its IP layer too, and so is what asks a program whether it is ready.
fn witnesses(trial: &Trial) -> Witnesses {
    let variant = &trial.variant;
    let is_ours = |station: &Station| station.runs == Runs::Embedded;
    if variant.hops.len() == 1 && variant.stations.iter().all(is_ours) {
        Witnesses::DevicesAndIp
    } else {
        Witnesses::Devices
    }
}

/// The machine must have done what it was asked to.
fn judge_machine(evidence: &Evidence, reasons: &mut Vec<String>) {
    if !evidence.is_silent {
        reasons.push(
            "the hosts did not fall silent, so the kernel's counters are not final".to_owned(),
        );
    }
    for (said, times) in evidence.machine_errors {
        reasons.push(format!(
            "this machine failed to open {times} connections: {said}"
        ));
    }
    if evidence.listen_dropped > 0 {
        reasons.push(format!(
            "the kernel turned {} connections away from the queue of a listening socket (net.core.somaxconn)",
            evidence.listen_dropped
        ));
    }
}

fn judge_congestion_control(evidence: &Evidence, reasons: &mut Vec<String>) {
    let (_, hop) = evidence.trial.variant.link_hop();
    let sides = [
        (
            "client",
            &hop.client.tcp.congestion_control,
            &evidence.used.client_congestion_control,
        ),
        (
            "server",
            &hop.server.tcp.congestion_control,
            &evidence.used.server_congestion_control,
        ),
    ];
    for (side, asked, found) in sides {
        if found.iter().any(|name| name != asked) {
            reasons.push(format!(
                "the {side}'s sockets used {}, not {asked}",
                found.join(" and ")
            ));
        }
    }
}

/// Every connection must have spoken what the path says: one that fell back to another version answers another question.
fn judge_protocols(hops: &[HopRecord], reasons: &mut Vec<String>) {
    for hop in hops {
        let sides = [("client", &hop.client), ("server", &hop.server)];
        for (side, counts) in sides {
            let spoken = counts.iter().flat_map(|counts| &counts.protocols);
            for (protocol, connections) in spoken.filter(|(name, _)| *name != hop.protocol.name()) {
                reasons.push(format!(
                    "{connections} connections of hop {} spoke {protocol}, not {}, as its {side} has seen",
                    hop.hop, hop.protocol
                ));
            }
        }
    }
}

fn judge_lag(health: &Health, median_latency: Duration, reasons: &mut Vec<String>) {
    // Of fewer than 1,000 requests, the 99.9th percentile is the one that was latest.
    let (name, lag) = match health.schedule_lag.count {
        0..1_000 => ("p99", health.schedule_lag.p99),
        _ => ("p99.9", health.schedule_lag.p999),
    };
    let share_ns = median_latency.as_nanos() as f64 * LAG_SHARE_AT_MOST;
    let at_most = Duration::from_nanos(share_ns as u64).max(LAG_ALWAYS_SOUND);
    if lag > at_most {
        reasons.push(format!(
            "the generator was late: lag {name} {:.3} ms, at most {:.3} ms is sound",
            lag.as_millis_f64(),
            at_most.as_millis_f64()
        ));
    }
}

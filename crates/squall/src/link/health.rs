//! How far a link can be trusted: compares its records with the kernel's counters, and its lateness with thresholds.
//!
//! Used for trials (`run::worker::health`) and for `squall link`. docs/METHOD.md explains each threshold.

use squall_base::Duration;
use squall_base::record::{DirectionHealth, KernelCounters, Lateness};
use squall_linux::counters::HostCounters;
use squall_linux::link_thread::Crossings;
use squall_linux::scheduling::Scheduling;
use squall_linux::tun::MTU_BYTES;

/// With real-time scheduling, the 99th percentile of how late the link's thread releases packets is below this unless
/// something is wrong with the machine: measured 4 to 24 us with both cores of a small machine busy.
pub(crate) const LATENESS_P99_AT_MOST: Duration = Duration::from_micros(200);
/// The limit without real-time scheduling, as for an ordinary user: a thread that waits for its turn is late by part of
/// the scheduler's slice. Measured 332 us, and 622 us without spinning.
const LATENESS_P99_AT_MOST_UNPRIVILEGED: Duration = Duration::from_micros(700);

/// Combines the counters of a direction's two ends.
pub(crate) fn kernel_counters(sender: &HostCounters, receiver: &HostCounters) -> KernelCounters {
    KernelCounters {
        device_sent: sender.device_sent,
        device_dropped: sender.device_dropped,
        device_received: receiver.device_received,
        device_receive_dropped: receiver.device_receive_dropped,
        ip_sent: sender.ip_sent,
        ip_received: receiver.ip_received,
        tcp_sent: sender.tcp_sent,
    }
}

/// Which kernel counters the link's records are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CounterSources {
    /// Only those of the devices: programs in the hosts may send to themselves, which the IP layer counts too.
    Devices,
    /// Those of the devices and of the IP layer, because only the link brings packets.
    DevicesAndIp,
    /// Only those of the devices, which count super-packets: the link's reads and writes, by direction.
    DevicesWithOffloads([Crossings; 2]),
}

/// Reasons not to trust what a link recorded, one sentence each.
pub(crate) fn judge_records(
    directions: &[DirectionHealth],
    counter_sources: CounterSources,
) -> Vec<String> {
    let mut reasons = Vec::new();
    for direction in directions {
        judge_conservation(direction, counter_sources, &mut reasons);
    }
    reasons
}

/// The limit for a thread with this scheduling.
pub(crate) fn lateness_p99_at_most(scheduling: Scheduling) -> Duration {
    match scheduling {
        Scheduling::Fifo => LATENESS_P99_AT_MOST,
        Scheduling::Other => LATENESS_P99_AT_MOST_UNPRIVILEGED,
    }
}

/// Reasons not to trust a link's times, one sentence each. `scheduling` is that of the link's thread.
pub(crate) fn judge_times(
    directions: &[DirectionHealth],
    wakeup: &Lateness,
    scheduling: Scheduling,
) -> Vec<String> {
    let at_most = lateness_p99_at_most(scheduling);
    let mut reasons = Vec::new();
    for direction in directions {
        judge_lateness(direction, at_most, &mut reasons);
    }
    if wakeup.p99 > at_most {
        reasons.push(format!(
            "the link's thread woke up late: p99 {:.3} ms, at most {:.3} ms is sound",
            wakeup.p99.as_millis_f64(),
            at_most.as_millis_f64()
        ));
    }
    reasons
}

/// Every packet that was lost must be in the link's records.
fn judge_conservation(
    link: &DirectionHealth,
    counter_sources: CounterSources,
    reasons: &mut Vec<String>,
) {
    let name = link.direction.name();
    let kernel = &link.kernel;
    let mut unless = |holds: bool, reason: String| {
        if !holds {
            reasons.push(format!("{name}: {reason}"));
        }
    };
    unless(
        kernel.device_dropped == 0,
        format!(
            "the device dropped {} packets before the link saw them",
            kernel.device_dropped
        ),
    );
    unless(
        link.write_errors == 0 && kernel.device_receive_dropped == 0,
        format!(
            "the receiving device refused {} packets",
            link.write_errors.max(kernel.device_receive_dropped)
        ),
    );
    let ends = link.dropped + link.delivered + link.write_errors + link.in_flight;
    let by_packet = Crossings {
        read: link.packets,
        written: link.delivered,
    };
    let (crossings, ip_received) = match counter_sources {
        CounterSources::Devices => (by_packet, None),
        CounterSources::DevicesAndIp => (by_packet, Some(kernel.ip_received)),
        CounterSources::DevicesWithOffloads(crossings) => {
            (crossings[link.direction as usize], None)
        }
    };
    unless(
        link.packets + link.copies == ends
            && crossings.read == kernel.device_sent
            && crossings.written == kernel.device_received
            && ip_received.is_none_or(|received| received == link.delivered),
        format!(
            "the log has {} packets and {} copies, {ends} with an end, {} delivered, in {} reads and {} writes; the \
             kernel counted {} sent, {} received",
            link.packets,
            link.copies,
            link.delivered,
            crossings.read,
            crossings.written,
            kernel.device_sent,
            kernel.device_received
        ),
    );
    unless(
        link.largest_packet_bytes <= u64::from(MTU_BYTES),
        format!(
            "a packet of {} bytes: an offload is active",
            link.largest_packet_bytes
        ),
    );
}

fn judge_lateness(link: &DirectionHealth, at_most: Duration, reasons: &mut Vec<String>) {
    if link.lateness.p99 > at_most {
        reasons.push(format!(
            "{}: the link released packets late: p99 {:.3} ms, at most {:.3} ms is sound",
            link.direction.name(),
            link.lateness.p99.as_millis_f64(),
            at_most.as_millis_f64()
        ));
    }
}

//! The summary of a link that has ended, as text and as JSON.
//!
//! Quantiles of the queue are over the packets that passed through it, each with the queue length that it found.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use squall_base::Duration;
use squall_base::record::{Direction, Fate, Lateness, Validity};
use squall_linux::counters::HostCounters;
use squall_linux::link_thread::LinkReport;
use squall_linux::tun::Offload;

use super::health::{self, CounterSources};
use super::plan::Plan;
use super::totals::{DirectionTotals, LinkTotals};

/// The summary of a link. Durations are in nanoseconds, as in all of squall's JSON.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    seed: u64,
    /// The settings as text: each stretch, up and down.
    settings: Vec<[String; 2]>,
    /// Changes by the schedule, one line each.
    schedule: Vec<String>,
    /// Offloads of the devices: `none`, or `segments` if super-packets were split and joined (`--fast`).
    offload: &'static str,
    lasted: Duration,
    directions: Vec<DirectionSummary>,
    /// How late the link's thread woke up for a heartbeat of 1 ms.
    wakeup: Lateness,
    /// The scheduling of that thread: `fifo` or `other`.
    scheduling: &'static str,
    /// Datagrams that `--forward` dropped.
    forward_drops: u64,
    validity: Validity,
}

/// The measurements of a link that has ended.
pub(super) struct Measured<'a> {
    pub(super) totals: &'a LinkTotals,
    /// The counters of the client's host and of the server's.
    pub(super) counters: (HostCounters, HostCounters),
    pub(super) report: &'a LinkReport,
    pub(super) lasted: Duration,
    pub(super) forward_drops: u64,
}

#[derive(Debug, Serialize)]
struct DirectionSummary {
    direction: Direction,
    packets: u64,
    copies: u64,
    delivered: u64,
    in_flight: u64,
    dropped: u64,
    /// Drops by cause, named as in the `fate` column of packets.parquet.
    drops: BTreeMap<&'static str, u64>,
    marked: u64,
    corrupted: u64,
    bytes_in: u64,
    bytes_out: u64,
    /// IP bits per second, from the first packet's arrival to the end of the last one.
    mean_rate_in_bit_per_s: f64,
    mean_rate_out_bit_per_s: f64,
    queue: Option<QueueSummary>,
    lateness: Lateness,
}

#[derive(Debug, Serialize)]
struct QueueSummary {
    depth_bytes_p50: u64,
    depth_bytes_p99: u64,
    depth_bytes_max: u32,
    /// Time in the queue and in serialisation.
    wait: Lateness,
}

impl Summary {
    pub(super) fn new(plan: &Plan, measured: &Measured<'_>) -> Summary {
        let (totals, report) = (measured.totals, measured.report);
        let (settings, scheduling) = (&plan.settings, report.scheduling);
        let (client, server) = measured.counters;
        let health: Vec<_> = [
            (Direction::Up, client, server),
            (Direction::Down, server, client),
        ]
        .iter()
        .map(|(direction, sender, receiver)| {
            totals.health(*direction, health::kernel_counters(sender, receiver))
        })
        .collect();
        let wakeup = report.wakeups.lateness();
        let counter_sources = match plan.offload {
            Offload::None => CounterSources::Devices,
            Offload::Segments => CounterSources::DevicesWithOffloads(report.crossings),
        };
        let mut reasons = health::judge_records(&health, counter_sources);
        reasons.extend(health::judge_times(&health, &wakeup, scheduling));
        reasons.extend(forward_drops_sentence(measured.forward_drops));
        Summary {
            seed: settings.seed,
            settings: settings
                .stretches
                .iter()
                .map(|stretch| Direction::ALL.map(|direction| stretch.lane(direction).to_string()))
                .collect(),
            schedule: settings.schedule.iter().map(ToString::to_string).collect(),
            offload: plan.offload.name(),
            lasted: measured.lasted,
            directions: Direction::ALL
                .map(|direction| DirectionSummary::new(direction, totals.of(direction)))
                .into(),
            wakeup,
            scheduling: scheduling.name(),
            forward_drops: measured.forward_drops,
            validity: if reasons.is_empty() {
                Validity::Valid
            } else {
                Validity::Invalid { reasons }
            },
        }
    }

    /// What `--forward` dropped, if it dropped anything.
    pub(super) fn forward_drops_sentence(&self) -> Option<String> {
        forward_drops_sentence(self.forward_drops)
    }

    pub(super) fn text(&self) -> String {
        let settings: Vec<String> = self
            .settings
            .iter()
            .map(|[up, down]| both_directions(up, down))
            .collect();
        let mut text = format!(
            "squall link: {:.1} s, {}, seed {}, offload {}\n",
            self.lasted.as_secs_f64(),
            settings.join(" | then "),
            self.seed,
            self.offload
        );
        for change in &self.schedule {
            text += &format!("  {change}\n");
        }
        for direction in &self.directions {
            direction.describe(&mut text);
        }
        text += &format!(
            "  own error: wake-ups late by p50 {}, p99 {}, max {}; scheduled as {}\n",
            micros(self.wakeup.p50),
            micros(self.wakeup.p99),
            micros(self.wakeup.max),
            self.scheduling
        );
        if let Validity::Invalid { reasons } = &self.validity {
            for reason in reasons {
                text += &format!("  INVALID: {reason}\n");
            }
        }
        text
    }
}

fn forward_drops_sentence(drops: u64) -> Option<String> {
    let datagrams = if drops == 1 { "datagram" } else { "datagrams" };
    (drops > 0).then(|| {
        format!(
            "--forward dropped {drops} {datagrams} because its receive buffers were full; to the programs this looks like \
             loss on the link. For an ordinary user, net.core.rmem_max limits these buffers"
        )
    })
}

fn both_directions(up: &str, down: &str) -> String {
    match (up, down) {
        ("", "") => "no delay, no loss".to_owned(),
        (up, down) if up == down => up.to_owned(),
        (up, "") => format!("up {up}"),
        ("", down) => format!("down {down}"),
        (up, down) => format!("up {up}; down {down}"),
    }
}

impl DirectionSummary {
    fn new(direction: Direction, totals: &DirectionTotals) -> DirectionSummary {
        let seconds = totals.span().as_secs_f64();
        let rate = |bytes: u64| {
            if seconds > 0.0 {
                bytes as f64 * 8.0 / seconds
            } else {
                0.0
            }
        };
        let wait = totals.queueing.lateness();
        DirectionSummary {
            direction,
            packets: totals.packets,
            copies: totals.copies,
            delivered: totals.count(Fate::Delivered),
            in_flight: totals.count(Fate::InFlight),
            dropped: totals.dropped(),
            drops: Fate::ALL
                .into_iter()
                .filter(|fate| fate.is_drop() && totals.count(*fate) > 0)
                .map(|fate| (fate.name(), totals.count(fate)))
                .collect(),
            marked: totals.marked,
            corrupted: totals.corrupted,
            bytes_in: totals.bytes_in,
            bytes_out: totals.bytes_out,
            mean_rate_in_bit_per_s: rate(totals.bytes_in),
            mean_rate_out_bit_per_s: rate(totals.bytes_out),
            queue: (wait.count > 0).then(|| QueueSummary {
                depth_bytes_p50: totals.queue_bytes(0.5),
                depth_bytes_p99: totals.queue_bytes(0.99),
                depth_bytes_max: totals.deepest_queue_bytes(),
                wait,
            }),
            lateness: totals.lateness.lateness(),
        }
    }

    fn describe(&self, text: &mut String) {
        let share = 100.0 * self.dropped as f64 / self.packets.max(1) as f64;
        let mut line = format!(
            "  {:<4} {} packets, {} delivered, {} dropped ({share:.2} %)",
            self.direction.name(),
            self.packets,
            self.delivered,
            self.dropped
        );
        let causes: Vec<String> = self
            .drops
            .iter()
            .map(|(fate, count)| format!("{} {count}", fate.trim_end_matches("_drop")))
            .collect();
        if !causes.is_empty() {
            line += &format!(": {}", causes.join(", "));
        }
        for (count, what) in [
            (self.marked, "marked"),
            (self.corrupted, "corrupted"),
            (self.copies, "copied"),
            (self.in_flight, "still in flight"),
        ] {
            if count > 0 {
                line += &format!(", {count} {what}");
            }
        }
        if self.packets > 1 {
            let (coming, going) = (self.mean_rate_in_bit_per_s, self.mean_rate_out_bit_per_s);
            line += &format!("; {} in, {} out", bits(coming), bits(going));
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{line}");
        if let Some(queue) = &self.queue {
            let _ = writeln!(
                text,
                "       queue p50 {} B, p99 {} B, max {} B; waited p50 {}, p99 {}, max {}",
                queue.depth_bytes_p50,
                queue.depth_bytes_p99,
                queue.depth_bytes_max,
                millis(queue.wait.p50),
                millis(queue.wait.p99),
                millis(queue.wait.max)
            );
        }
        if self.lateness.count > 0 {
            let _ = writeln!(
                text,
                "       late by p50 {}, p99 {}, max {}",
                micros(self.lateness.p50),
                micros(self.lateness.p99),
                micros(self.lateness.max)
            );
        }
    }
}

fn micros(span: Duration) -> String {
    format!("{:.0} us", span.as_nanos() as f64 / 1e3)
}

fn millis(span: Duration) -> String {
    format!("{:.2} ms", span.as_millis_f64())
}

fn bits(bits_per_s: f64) -> String {
    match bits_per_s {
        rate if rate >= 1e9 => format!("{:.2} Gbit/s", rate / 1e9),
        rate if rate >= 1e6 => format!("{:.2} Mbit/s", rate / 1e6),
        rate => format!("{:.1} kbit/s", rate / 1e3),
    }
}

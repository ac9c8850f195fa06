//! tcptrace's time-sequence graph of one direction of a TCP connection, as a program for xplot (`.xpl`), which jPlot
//! and tcptrace's own tools draw too.
//!
//! The graph shows what the sender of the data saw: its segments when they reached the link, and the acknowledgements
//! when they had crossed it. A segment is a line from an up arrow to a down arrow, red if its bytes had been sent
//! before; a cross marks a segment that the link dropped, with its fate. The green line shows what is acknowledged, the
//! yellow one how far the receiver's window reaches. Sequence numbers count from the first one, and may exceed 32 bits.

use std::io::Write;

use squall_base::Time;
use squall_base::record::{Direction, Fate, PacketRecord};

use super::{ExportError, Lines, unix_ns};

/// TCP's number among the protocols of IP.
const TCP: u8 = 6;

/// TCP's flags (RFC 9293, section 3.1).
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Which data is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSequence<'a> {
    /// The hop whose link carried it, as in the packets' records.
    pub hop: u8,
    /// The flow.
    pub flow: u32,
    /// The direction of the data.
    pub direction: Direction,
    /// The title of the graph.
    pub title: &'a str,
}

/// What the sender saw of its own packets and of those that came back.
enum Sight {
    Sent {
        from: u64,
        to: u64,
        is_again: bool,
        fate: Fate,
    },
    Acknowledged {
        up_to: u64,
        window_end: u64,
    },
}

/// Writes the graph of some of these packets.
///
/// # Errors
/// The operating system refused to write.
pub fn write_time_sequence<W: Write>(
    writer: W,
    epoch_unix_ns: u64,
    packets: &[PacketRecord],
    graph: &TimeSequence<'_>,
) -> Result<W, ExportError> {
    let mut lines = Lines::new("time-sequence graph", writer);
    let title: String = graph.title.split_whitespace().collect::<Vec<_>>().join(" ");
    lines.add(format_args!(
        "timeval unsigned\ntitle\n{title}\nxlabel\ntime\nylabel\nsequence number\n"
    ))?;
    let mut last: Option<Acknowledgement> = None;
    for (at, sight) in sights(packets, graph) {
        let now = Seconds::of(epoch_unix_ns, at);
        match sight {
            Sight::Sent {
                from,
                to,
                is_again,
                fate,
            } => {
                let colour = if is_again { "red" } else { "white" };
                lines.add(format_args!(
                    "{colour}\nuarrow {now} {to}\nline {now} {from} {now} {to}\ndarrow {now} {from}\n"
                ))?;
                if fate.is_drop() {
                    lines.add(format_args!(
                        "red\nx {now} {from}\natext {now} {to}\n{}\n",
                        fate.name()
                    ))?;
                }
            }
            Sight::Acknowledged { up_to, window_end } => {
                if let Some(last) = &last {
                    last.draw_until(&mut lines, &now, up_to, window_end)?;
                }
                last = Some(Acknowledgement {
                    at: now,
                    up_to,
                    window_end,
                });
            }
        }
    }
    lines.add(format_args!("go\n"))?;
    lines.finish()
}

struct Acknowledgement {
    at: Seconds,
    up_to: u64,
    window_end: u64,
}

impl Acknowledgement {
    /// Draws a step of each line: its value until `now`, and its change at that time.
    fn draw_until<W: Write>(
        &self,
        lines: &mut Lines<W>,
        now: &Seconds,
        up_to: u64,
        window_end: u64,
    ) -> Result<(), ExportError> {
        let steps = [
            ("green", self.up_to, up_to),
            ("yellow", self.window_end, window_end),
        ];
        for (colour, before, after) in steps {
            let then = &self.at;
            lines.add(format_args!(
                "{colour}\nline {then} {before} {now} {before}\n"
            ))?;
            if before != after {
                lines.add(format_args!("line {now} {before} {now} {after}\n"))?;
            }
        }
        Ok(())
    }
}

/// What the sender saw, in order of time.
fn sights(packets: &[PacketRecord], graph: &TimeSequence<'_>) -> Vec<(Time, Sight)> {
    let mut seen: Vec<(Time, &PacketRecord)> = packets
        .iter()
        .filter(|row| row.hop == graph.hop && row.flow == graph.flow && row.protocol == TCP)
        .filter_map(|row| {
            if row.direction == graph.direction {
                // The link made the copies, not the sender.
                return (!row.is_copy).then_some((row.arrived, row));
            }
            let has_ack = row.tcp_flags & ACK != 0 && row.tcp_flags & RST == 0;
            row.released.filter(|_| has_ack).map(|at| (at, row))
        })
        .collect();
    seen.sort_by_key(|(at, row)| (*at, row.direction, row.index));
    let first = seen
        .iter()
        .find(|(_, row)| row.direction == graph.direction);
    let Some(&(_, first)) = first else {
        return Vec::new();
    };
    let mut numbers = Numbers {
        origin: first.seq,
        highest: 0,
    };
    let mut sights = Vec::with_capacity(seen.len());
    for (at, row) in seen {
        if row.direction != graph.direction {
            let up_to = numbers.of(row.ack);
            let window_end = up_to + u64::from(row.window_bytes);
            sights.push((at, Sight::Acknowledged { up_to, window_end }));
            continue;
        }
        // SYN and FIN take a sequence number each.
        let flags = u64::from(row.tcp_flags & SYN != 0) + u64::from(row.tcp_flags & FIN != 0);
        let length = u64::from(row.payload_len) + flags;
        if length == 0 {
            continue;
        }
        let from = numbers.of(row.seq);
        let to = from + length;
        let is_again = from < numbers.highest;
        numbers.highest = numbers.highest.max(to);
        let fate = row.fate;
        sights.push((
            at,
            Sight::Sent {
                from,
                to,
                is_again,
                fate,
            },
        ));
    }
    sights
}

/// Sequence numbers without the limit of 32 bits.
struct Numbers {
    origin: u32,
    /// The highest number sent so far.
    highest: u64,
}

impl Numbers {
    /// The number nearest to the highest one; 0 for one before the first.
    fn of(&self, number: u32) -> u64 {
        let from_origin = number.wrapping_sub(self.origin);
        let distance = from_origin.wrapping_sub(self.highest as u32).cast_signed();
        self.highest.saturating_add_signed(i64::from(distance))
    }
}

/// A wall-clock time in seconds, to the microsecond, as xplot's `timeval` is.
struct Seconds(u64);

impl Seconds {
    fn of(epoch_unix_ns: u64, time: Time) -> Seconds {
        Seconds(unix_ns(epoch_unix_ns, time).unsigned_abs() / 1_000)
    }
}

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_continue_beyond_32_bits() {
        let mut numbers = Numbers {
            origin: u32::MAX - 9,
            highest: 0,
        };
        assert_eq!(numbers.of(u32::MAX - 9), 0);
        assert_eq!(numbers.of(5), 15);
        assert_eq!(numbers.of(u32::MAX - 10), 0, "before the first");
        numbers.highest = (1 << 32) + 20;
        assert_eq!(numbers.of(15), (1 << 32) + 25);
        assert_eq!(numbers.of(5), (1 << 32) + 15);
    }
}

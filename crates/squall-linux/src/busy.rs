//! When the thread of a link worked without a pause, and what the link carried in that time.
//!
//! A turn of the thread's loop counts as work if it read a packet or took one out of the link; polling does not. While
//! work follows work, packets wait for the thread, and the link carries no more than its processor allows. A thread
//! that is preempted by other work is late for another reason, so its work between two heartbeats counts only if it had
//! the processor for most of that time. Nothing here reads a clock; the user is `link_thread`.

use squall_base::record::{Direction, LateSpan, LateSpans};
use squall_base::{Duration, Time};

/// A thread must have had the processor for at least this share of its working time, in percent. The share is below 100
/// because interrupts take part of that time, and the kernel may not count them as the thread's.
const RAN_PERCENT: u64 = 75;

/// The times at which a thread worked without a pause for 0.1 ms or more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FullTime {
    /// These times, in order.
    pub spans: LateSpans,
    /// Bytes of the IP packets that were written in them, indexed by direction.
    pub bytes: [u64; 2],
}

impl FullTime {
    /// The total length of these times.
    pub fn length(&self) -> Duration {
        let lengths = self.spans.iter().map(|span| span.until.since(span.from));
        lengths.fold(Duration::ZERO, |sum, length| sum + length)
    }

    /// Bits per second of the busier direction in these times; `None` if there are none.
    pub fn carried_bit_per_s(&self) -> Option<u64> {
        let length = self.length();
        let [up, down] = self.bytes;
        let bits = u128::from(up.max(down)) * 8;
        let per_s = (bits * 1_000_000_000).checked_div(u128::from(length.as_nanos()))?;
        Some(u64::try_from(per_s).unwrap_or(u64::MAX))
    }
}

/// Finds these times while the thread runs.
pub(crate) struct BusyMeter {
    /// When the current turn began.
    turn: Time,
    has_worked: bool,
    /// When the current work without a pause began, and the bytes written in it.
    run: Option<Time>,
    run_bytes: [u64; 2],
    /// The processor time that the thread had used at the last heartbeat.
    processor_time: Duration,
    /// How long the thread has worked in total since that heartbeat.
    worked: Duration,
    /// When the thread worked without a pause since that heartbeat, and the bytes written meanwhile.
    found: FullTime,
    full: FullTime,
}

impl BusyMeter {
    pub(crate) fn new(now: Time, processor_time: Duration) -> BusyMeter {
        BusyMeter {
            turn: now,
            has_worked: false,
            run: None,
            run_bytes: [0; 2],
            processor_time,
            worked: Duration::ZERO,
            found: FullTime::default(),
            full: FullTime::default(),
        }
    }

    /// A turn begins. The one before it ended now, or when the thread went to sleep in it, at `last_sleep`.
    pub(crate) fn begin_turn(&mut self, now: Time, last_sleep: Time) {
        if self.has_worked {
            self.run.get_or_insert(self.turn);
            if last_sleep > self.turn {
                self.end_run(last_sleep);
            }
        } else {
            self.end_run(self.turn);
        }
        self.turn = now;
        self.has_worked = false;
    }

    fn end_run(&mut self, at: Time) {
        let Some(from) = self.run.take() else {
            return;
        };
        let bytes = std::mem::take(&mut self.run_bytes);
        let length = at.since(from);
        self.worked = self.worked + length;
        if length >= LateSpans::SHORTEST {
            self.found.spans.add(LateSpan { from, until: at });
            add(&mut self.found.bytes, bytes);
        }
    }

    /// The thread works in this turn.
    pub(crate) fn work(&mut self) {
        self.has_worked = true;
    }

    /// The thread wrote a packet of this length in this turn.
    pub(crate) fn write(&mut self, direction: Direction, bytes: u64) {
        self.run_bytes[direction as usize] += bytes;
    }

    /// A heartbeat, in the turn that has just begun: keeps what was found since the last one if the thread really ran.
    pub(crate) fn judge(&mut self, processor_time: Duration) {
        if self.run.is_some() {
            self.end_run(self.turn);
            self.run = Some(self.turn);
        }
        let ran = processor_time - self.processor_time;
        let found = std::mem::take(&mut self.found);
        let has_run = u128::from(ran.as_nanos()) * 100
            >= u128::from(self.worked.as_nanos()) * u128::from(RAN_PERCENT);
        if has_run {
            found
                .spans
                .iter()
                .for_each(|span| self.full.spans.add(span));
            add(&mut self.full.bytes, found.bytes);
        }
        self.worked = Duration::ZERO;
        self.processor_time = processor_time;
    }

    pub(crate) fn into_full(self) -> FullTime {
        self.full
    }
}

fn add(sums: &mut [u64; 2], bytes: [u64; 2]) {
    for (sum, bytes) in sums.iter_mut().zip(bytes) {
        *sum += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    const fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1_000)
    }

    /// Ten turns of 50 us up to a heartbeat at 500 us, by which the thread had run for `ran`. In those that work, it writes
    /// a packet; after those that sleep, it sleeps for the last 10 us.
    fn judged(works: [bool; 10], sleeps: bool, ran: Duration) -> FullTime {
        let mut meter = BusyMeter::new(at(0), Duration::ZERO);
        let mut last_sleep = at(0);
        for (turn, works) in (0..).zip(works) {
            meter.begin_turn(at(50 * turn), last_sleep);
            if works {
                meter.work();
                meter.write(Direction::Down, 1_500);
            }
            if sleeps {
                last_sleep = at(50 * turn + 40);
            }
        }
        meter.begin_turn(at(500), last_sleep);
        meter.judge(ran);
        meter.into_full()
    }

    fn all(full: &FullTime) -> Vec<(Time, Time)> {
        let spans = full.spans.iter();
        spans.map(|span| (span.from, span.until)).collect()
    }

    #[test]
    fn work_without_a_pause_is_full_time_from_first_turn_to_last() {
        let mut works = [true; 10];
        (works[0], works[9]) = (false, false);
        let full = judged(works, false, us(500));
        assert_eq!(all(&full), [(at(50), at(450))]);
        assert_eq!(full.bytes, [0, 8 * 1_500]);
        assert_eq!(full.length(), us(400));
        assert_eq!(full.carried_bit_per_s(), Some(8 * 1_500 * 8 * 2_500));
    }

    #[test]
    fn polling_sleeping_and_waiting_for_the_processor_are_not_full_time() {
        let every_other = std::array::from_fn(|turn| turn % 2 == 0);
        let nothing = FullTime::default();
        assert_eq!(judged(every_other, false, us(500)), nothing, "it polls");
        assert_eq!(judged([true; 10], true, us(400)), nothing, "it sleeps");
        assert_eq!(judged([true; 10], false, us(300)), nothing, "it waits");
        assert_eq!(nothing.carried_bit_per_s(), None);
    }

    #[test]
    fn work_across_a_heartbeat_is_a_single_span() {
        let mut meter = BusyMeter::new(at(0), Duration::ZERO);
        for millis in 1..=3 {
            meter.work();
            meter.write(Direction::Up, 100);
            meter.begin_turn(at(1_000 * millis), at(0));
            meter.judge(us(1_000 * millis));
        }
        let full = meter.into_full();
        assert_eq!(all(&full), [(at(0), at(3_000))]);
        assert_eq!(full.bytes, [300, 0]);
    }
}

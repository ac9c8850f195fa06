//! A recorded link: packets leave at the delivery opportunities of a trace.
//!
//! It does byte for byte what mahimahi does (`LinkQueue::rationalize` in its `src/frontend/link_queue.cc`). An opportunity
//! carries 1,504 bytes, and a packet costs its own bytes plus the 4 of the TUN header, which mahimahi counts. A large
//! packet takes several opportunities, several small ones share one, and capacity that no waiting packet uses at that
//! moment is lost. A packet that arrives at the exact time of an opportunity is too late for it.
//!
//! It differs where mahimahi's clock of whole milliseconds is too coarse: packets arrive at nanoseconds here. Also, a
//! packet that arrives in the same nanosecond in which the one before it left, or in which the trace began, counts as one
//! that waited, because a capacity cannot tell the two apart.
//!
//! The trace itself is `crate::trace`.

use std::sync::Arc;

use squall_base::Time;

use super::after;
use crate::trace::Trace;

/// The bytes of one opportunity: mahimahi's `PACKET_SIZE`, an MTU of 1,500 with its TUN header.
const OPPORTUNITY_BYTES: u128 = 1_504;

/// The bytes that mahimahi adds to each packet: flags and protocol of a TUN device.
const TUN_HEADER_BYTES: u64 = 4;

const NANOS_PER_MS: u64 = 1_000_000;

/// The link's position in the trace.
#[derive(Clone, Debug)]
pub(crate) struct Opportunities {
    trace: Arc<Trace>,
    /// When the trace began.
    start: Time,
    /// The number of the current opportunity, over all periods.
    current: u128,
    /// The bytes left in it.
    left_bytes: u128,
    /// When the last packet left.
    free_at: Time,
}

impl Opportunities {
    /// A trace that begins at `start`.
    pub(crate) fn new(start: Time, trace: Arc<Trace>) -> Opportunities {
        Opportunities {
            trace,
            start,
            current: 0,
            left_bytes: OPPORTUNITY_BYTES,
            free_at: start,
        }
    }

    /// When the first byte of a packet that is ready at `ready` is sent.
    pub(crate) fn beginning(&self, ready: Time) -> Time {
        let first = match self.first_after_idleness(ready) {
            Some(first) => first,
            None if self.left_bytes > 0 => self.current,
            None => self.current + 1,
        };
        self.time_of(first)
    }

    /// When a packet of `len_bytes` that is ready at `ready` has got through.
    pub(crate) fn departure(&mut self, ready: Time, len_bytes: u64) -> Time {
        if let Some(first) = self.first_after_idleness(ready) {
            self.current = first;
            self.left_bytes = OPPORTUNITY_BYTES;
        }
        self.take(u128::from(len_bytes) + u128::from(TUN_HEADER_BYTES));
        self.free_at = self.time_of(self.current);
        self.free_at
    }

    /// The first opportunity of a packet that arrives after an idle time; `None` if the packet before it has just left.
    fn first_after_idleness(&self, ready: Time) -> Option<u128> {
        let since_start_ms = ready.since(self.start).as_nanos() / NANOS_PER_MS;
        (ready > self.free_at).then(|| self.trace.count_until_ms(since_start_ms))
    }

    fn time_of(&self, opportunity: u128) -> Time {
        after(
            self.start,
            self.trace.time_ms(opportunity) * u128::from(NANOS_PER_MS),
        )
    }

    /// Uses up `bytes`, and ends in the opportunity that carries the last of them.
    fn take(&mut self, bytes: u128) {
        let more = bytes.saturating_sub(self.left_bytes);
        let opportunities = more.div_ceil(OPPORTUNITY_BYTES);
        self.current += opportunities;
        self.left_bytes = self.left_bytes + opportunities * OPPORTUNITY_BYTES - bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// A second model, step by step like mahimahi's: every opportunity in turn, with a queue.
    #[derive(Default)]
    struct Mahimahi {
        schedule_ms: Vec<u64>,
        next_delivery: usize,
        base_ms: u64,
        /// Bytes left of each packet that waits or is partly sent.
        queue: VecDeque<u64>,
        departures: Vec<Time>,
    }

    impl Mahimahi {
        fn next_delivery_ns(&self) -> u64 {
            (self.base_ms + self.schedule_ms[self.next_delivery]) * NANOS_PER_MS
        }

        fn rationalize(&mut self, now_ns: u64) {
            while self.next_delivery_ns() <= now_ns {
                let at = Time::from_nanos(self.next_delivery_ns());
                self.next_delivery += 1;
                if self.next_delivery == self.schedule_ms.len() {
                    self.next_delivery = 0;
                    self.base_ms += self.schedule_ms.last().unwrap();
                }
                let mut bytes_left = 1_504;
                while bytes_left > 0 {
                    let Some(unsent) = self.queue.front_mut() else {
                        break;
                    };
                    let sent = bytes_left.min(*unsent);
                    *unsent -= sent;
                    bytes_left -= sent;
                    if *unsent == 0 {
                        self.queue.pop_front();
                        self.departures.push(at);
                    }
                }
            }
        }

        fn read_packet(&mut self, now: Time, len_bytes: u64) {
            self.rationalize(now.as_nanos());
            self.queue.push_back(len_bytes + 4);
        }
    }

    fn trace(times_ms: &[u64]) -> Arc<Trace> {
        let lines: Vec<String> = times_ms.iter().map(u64::to_string).collect();
        Arc::new(Trace::parse(&lines.join("\n")).unwrap())
    }

    /// Offers packets first in, first out, and compares with the second model.
    fn compare(times_ms: &[u64], packets: &[(u64, u64)]) -> Result<(), TestCaseError> {
        let mut link = Opportunities::new(Time::ZERO, trace(times_ms));
        let mut mahimahi = Mahimahi {
            schedule_ms: times_ms.to_vec(),
            ..Mahimahi::default()
        };
        let (mut arrival_ns, mut free_at) = (0, Time::ZERO);
        let mut departures = Vec::new();
        for (gap_ns, len_bytes) in packets {
            arrival_ns += gap_ns;
            // The one moment in which the two differ.
            arrival_ns += u64::from(arrival_ns == free_at.as_nanos());
            let arrival = Time::from_nanos(arrival_ns);
            free_at = link.departure(arrival.max(free_at), *len_bytes);
            departures.push(free_at);
            mahimahi.read_packet(arrival, *len_bytes);
        }
        while mahimahi.departures.len() < departures.len() {
            mahimahi.rationalize(mahimahi.next_delivery_ns());
        }
        prop_assert_eq!(departures, mahimahi.departures);
        Ok(())
    }

    fn schedules() -> impl Strategy<Value = Vec<u64>> {
        proptest::collection::vec(prop_oneof![Just(0), 0_u64..4, 0_u64..60], 1..40)
            .prop_map(|gaps_ms| {
                let mut at_ms = 0;
                gaps_ms
                    .iter()
                    .map(|gap_ms| {
                        at_ms += gap_ms;
                        at_ms
                    })
                    .collect()
            })
            .prop_filter("lasts no time", |times: &Vec<u64>| times.last() > Some(&0))
    }

    /// Gaps between packets. About half of them are whole milliseconds, so that packets meet opportunities.
    fn packets() -> impl Strategy<Value = Vec<(u64, u64)>> {
        let gap_ns = prop_oneof![
            3 => Just(0),
            3 => 0_u64..3_000_000,
            2 => (0_u64..20).prop_map(|ms| ms * NANOS_PER_MS),
            1 => 0_u64..2_000_000_000,
        ];
        let len_bytes = prop_oneof![Just(40_u64), Just(1_500), 0_u64..1_600, 0_u64..66_000];
        proptest::collection::vec((gap_ns, len_bytes), 1..80)
    }

    proptest! {
        /// Delivery opportunities match cumulatively, to the byte, not only within a packet.
        #[test]
        fn packets_leave_when_they_would_in_mahimahi(times_ms in schedules(), packets in packets()) {
            compare(&times_ms, &packets)?;
        }
    }

    fn departures_ms(link: &mut Opportunities, packets: &[(u64, u64)]) -> Vec<u64> {
        let departures = packets.iter().map(|(ready_us, len_bytes)| {
            let ready = Time::from_nanos(ready_us * 1_000).max(link.free_at);
            link.departure(ready, *len_bytes).as_nanos() / NANOS_PER_MS
        });
        departures.collect()
    }

    #[test]
    fn packets_share_opportunities_and_take_several() {
        let mut link = Opportunities::new(Time::ZERO, trace(&[5, 10, 10, 15, 20]));
        // Eight times 188 bytes are one opportunity.
        assert_eq!(departures_ms(&mut link, &[(1_000, 184); 9])[7..], [5, 10]);
        // 1,504 and 1,316 bytes are left at 10 ms; the packet's 3,009 bytes end in the opportunity after that.
        assert_eq!(departures_ms(&mut link, &[(1_000, 3_005)]), [15]);
        // Each opportunity carries one MTU, even across the end of the trace.
        let mtus = departures_ms(&mut link, &[(1_000, 1_500); 4]);
        assert_eq!(mtus, [20, 25, 30, 30]);
    }

    #[test]
    fn opportunities_without_a_waiting_packet_are_lost() {
        let mut link = Opportunities::new(Time::ZERO, trace(&[5, 10, 15]));
        // 1,460 bytes are left of the opportunity at 5 ms, but no packet waits then.
        assert_eq!(
            departures_ms(&mut link, &[(4_999, 40), (5_001, 40)]),
            [5, 10]
        );
        // Exactly 15 ms is too late for the opportunity at 15 ms.
        assert_eq!(departures_ms(&mut link, &[(15_000, 40)]), [20]);
        // At the moment of the last departure, a packet cannot be told from one that waited.
        assert_eq!(departures_ms(&mut link, &[(20_000, 40)]), [20]);
    }

    #[test]
    fn long_idle_times_cost_nothing() {
        let mut link = Opportunities::new(Time::from_nanos(7), trace(&[1, 2, 7]));
        let years = 100 * 365 * 86_400 * 1_000_000_000;
        let left = link.departure(Time::from_nanos(years), 1_500).as_nanos();
        assert!(left > years && left - years <= 5 * NANOS_PER_MS, "{left}");
        assert!(
            [1, 2, 0].contains(&((left - 7) / NANOS_PER_MS % 7))
                && (left - 7).is_multiple_of(NANOS_PER_MS)
        );
        // Nor does a packet of any size.
        assert!(link.departure(Time::from_nanos(left), u64::MAX) > Time::from_nanos(left));
    }
}

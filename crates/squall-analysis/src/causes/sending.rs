//! What held a sender back, moment by moment: one direction of one connection.
//!
//! TCP and QUIC do not report when a full congestion window, a closed receive window or the repair of a loss kept bytes
//! from the wire. The packets show it: how much was in flight, how much the receive window had left, which
//! acknowledgements released data. Where they leave it open, the socket's own account (TCP_INFO) decides. The rule and
//! its error are in docs/METHOD.md. It is not known here whose bytes waited; `transfer` consults this timeline for each
//! message.

use squall_base::record::{Cause, PacketRef};

use super::message::Bytes;
use super::walk::{NEVER, Span};

/// A departure this soon after an acknowledgement was triggered by it: the kernel sends while it handles the
/// acknowledgement, and the link's thread reads the packet after one wake-up, for which a valid trial allows this much
/// (docs/METHOD.md, "Our own error").
const CLOCKED_WITHIN: u64 = 700_000;

/// If a sender's packets were captured at a distance, its times are estimates: data may seem to have left up to this long
/// before the acknowledgement that released it arrived. That is how long hosts take to reply to a packet.
const SEEN_EARLY: u64 = 200_000;

/// New data that left the sender.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Departure {
    pub(super) time: u64,
    /// One past its last byte (QUIC: one past its packet number).
    pub(super) end: u64,
    /// The weight of everything sent so far, in the unit of the congestion window.
    pub(super) weight: u64,
}

/// An acknowledgement as the sender read it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acknowledgement {
    pub(super) time: u64,
    /// Everything before this is acknowledged.
    pub(super) to: u64,
    /// The end of the receive window; [`NEVER`] if the transport has no such limit.
    pub(super) limit: u64,
}

/// A lost packet's repair: from when it would have arrived until its bytes did.
#[derive(Clone, Copy, Debug)]
pub(super) struct RepairPeriod {
    pub(super) span: Span,
    /// When the sender knew of the repair. Until then the sender counts received data as in flight.
    pub(super) settled: u64,
    pub(super) packet: PacketRef,
    /// The bytes that the packet carried.
    pub(super) bytes: Bytes,
}

/// What the sender's socket reported about itself at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    pub(super) time: u64,
    pub(super) cwnd: Option<u64>,
    /// Bytes in the socket that are not yet sent.
    pub(super) unsent_bytes: Option<u64>,
    /// Total nanoseconds so far in which only a full send buffer kept the socket from sending.
    pub(super) buffer_limited: u64,
    /// The rate at which the socket paces, in bytes per second.
    pub(super) pace: Option<u64>,
}

/// Everything known of a sender.
#[derive(Clone, Debug, Default)]
pub(super) struct SenderEvidence {
    /// In the order of time.
    pub(super) departures: Vec<Departure>,
    /// In the order of time.
    pub(super) acknowledgements: Vec<Acknowledgement>,
    /// In any order.
    pub(super) repairs: Vec<RepairPeriod>,
    /// Whether new data waits until losses are repaired, as in TCP. A QUIC sender continues with new packets.
    pub(super) is_held_by_repairs: bool,
    /// In the order of time.
    pub(super) accounts: Vec<Account>,
    pub(super) packet_weight: u64,
    pub(super) packet_bytes: u64,
}

impl SenderEvidence {
    /// Adjusts the evidence for a sender whose packets were captured at a distance: moves acknowledgements earlier, but
    /// never before the data that they acknowledge was sent.
    pub(super) fn with_estimated_times(mut self) -> SenderEvidence {
        let mut latest = 0;
        for acknowledgement in &mut self.acknowledgements {
            let settled = self
                .departures
                .partition_point(|it| it.end <= acknowledgement.to);
            let newest = settled.checked_sub(1);
            let sent = newest.map_or(0, |place| self.departures[place].time);
            let early = acknowledgement.time.saturating_sub(SEEN_EARLY);
            latest = early.max(sent).min(acknowledgement.time).max(latest);
            acknowledgement.time = latest;
        }
        self
    }
}

/// Whether a sender could send, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SenderState {
    /// Nothing was in flight, so nothing kept it from sending.
    Idle,
    /// Something was in flight, and the windows had room for more.
    Open,
    /// It could not send, for this reason.
    Held(Cause),
    /// It was repairing the loss of the packet at this position of [`SenderTimeline::repairs`].
    Repairing(u32),
}

/// A state and when it began; it lasts until the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Phase {
    from: u64,
    state: SenderState,
}

/// A sender's states over all of time.
#[derive(Clone, Debug, Default)]
pub(super) struct SenderTimeline {
    phases: Vec<Phase>,
    repairs: Vec<RepairPeriod>,
}

impl SenderTimeline {
    pub(super) fn of(mut evidence: SenderEvidence) -> SenderTimeline {
        let repairs = one_at_a_time(std::mem::take(&mut evidence.repairs));
        let builder = TimelineBuilder::new(&evidence, &repairs);
        SenderTimeline {
            phases: builder.build(),
            repairs,
        }
    }

    /// The repair at the position that [`SenderState::Repairing`] has.
    pub(super) fn repair(&self, place: u32) -> &RepairPeriod {
        &self.repairs[place as usize]
    }

    /// The states within `[from, to)`, in order and without gaps.
    pub(super) fn within(
        &self,
        from: u64,
        to: u64,
    ) -> impl Iterator<Item = (Span, SenderState)> + '_ {
        let first = self.phases.partition_point(|phase| phase.from <= from);
        let phases = &self.phases[first.saturating_sub(1)..];
        let during = phases.iter().enumerate();
        let during = during.take_while(move |(_, phase)| phase.from < to);
        during.map(move |(place, phase)| {
            let end = phases.get(place + 1).map_or(NEVER, |next| next.from);
            (Span::new(phase.from.max(from), end.min(to)), phase.state)
        })
    }
}

/// Assigns each moment to the earliest loss that is not repaired yet.
fn one_at_a_time(mut repairs: Vec<RepairPeriod>) -> Vec<RepairPeriod> {
    repairs.sort_by_key(|repair| (repair.span.from, repair.packet));
    let mut until = 0;
    repairs.retain_mut(|repair| {
        repair.span.from = repair.span.from.max(until);
        let is_nonempty = repair.span.from < repair.span.to;
        if is_nonempty {
            until = repair.span.to;
        }
        is_nonempty
    });
    repairs
}

/// What is known of a moment before the next departure settles it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Draft {
    Known(SenderState),
    /// About as much was in flight as the congestion window is known to have allowed.
    PerhapsFull,
}

struct TimelineBuilder<'a> {
    evidence: &'a SenderEvidence,
    repairs: &'a [RepairPeriod],
    phases: Vec<Phase>,
    /// Moments without a final state: everything since the last departure.
    drafts: Vec<(u64, Draft)>,
    at: u64,
    sent: Departure,
    acknowledged: Acknowledgement,
    /// The weight of what is acknowledged, and how many departures are acknowledged.
    settled_weight: u64,
    settled: usize,
    /// The most that was in flight since the last repair: the congestion window allowed at least that.
    proven_window: u64,
    /// Until this time, data in flight and accounts say nothing about the congestion window after the last repair.
    settled_at: u64,
    next_repair: usize,
    /// The first account after `at`.
    next_account: usize,
    /// The first account after the last departure.
    first_account: usize,
    /// The bytes of the latest burst so far.
    burst_bytes: u64,
}

impl<'a> TimelineBuilder<'a> {
    fn new(evidence: &'a SenderEvidence, repairs: &'a [RepairPeriod]) -> TimelineBuilder<'a> {
        TimelineBuilder {
            evidence,
            repairs,
            phases: Vec::new(),
            drafts: Vec::new(),
            at: 0,
            sent: Departure::default(),
            acknowledged: Acknowledgement {
                time: 0,
                to: 0,
                limit: NEVER,
            },
            settled_weight: 0,
            settled: 0,
            proven_window: 0,
            settled_at: 0,
            next_repair: 0,
            next_account: 0,
            first_account: 0,
            burst_bytes: 0,
        }
    }

    fn build(mut self) -> Vec<Phase> {
        let evidence = self.evidence;
        let mut departures = evidence.departures.iter().peekable();
        let mut acknowledgements = evidence.acknowledgements.iter().peekable();
        loop {
            let departs = departures.peek().map_or(NEVER, |it| it.time);
            match acknowledgements.next_if(|it| it.time <= departs) {
                Some(acknowledgement) => {
                    self.advance(acknowledgement.time);
                    self.acknowledge(acknowledgement);
                }
                None => match departures.next() {
                    Some(departure) => {
                        self.advance(departure.time);
                        self.settle_drafts(Some(departure.time));
                        self.depart(departure);
                    }
                    None => break,
                },
            }
        }
        self.advance(NEVER);
        self.settle_drafts(None);
        self.phases
    }

    fn in_flight(&self) -> u64 {
        self.sent.weight.saturating_sub(self.settled_weight)
    }

    fn acknowledge(&mut self, it: &Acknowledgement) {
        let known = &mut self.acknowledged;
        let is_first = known.limit == NEVER;
        known.time = it.time;
        known.to = known.to.max(it.to);
        // A receiver does not take back room that it has offered (RFC 9293, section 3.8.6).
        known.limit = if is_first {
            it.limit
        } else {
            known.limit.max(it.limit)
        };
        let departures = &self.evidence.departures[self.settled..];
        let more = departures.iter().take_while(|sent| sent.end <= known.to);
        for sent in more.take_while(|sent| sent.time <= it.time) {
            self.settled += 1;
            self.settled_weight = sent.weight;
        }
    }

    fn depart(&mut self, it: &Departure) {
        // Records that contradict each other may be out of order.
        if it.time.saturating_sub(self.sent.time) > self.burst_gap() {
            self.burst_bytes = 0;
        }
        self.burst_bytes += it.end.saturating_sub(self.sent.end);
        self.sent = *it;
        if it.time >= self.settled_at {
            self.proven_window = self.proven_window.max(self.in_flight());
        }
    }

    /// How long after a packet the next one still belongs to the same burst. Packets of a burst leave one by one, and a
    /// pacer waits at least half of a burst's time before the next burst (tcp_update_skb_after_send, net/ipv4/tcp_output.c).
    fn burst_gap(&self) -> u64 {
        let pace = self.account_before().and_then(|account| account.pace);
        pace.map_or(0, |pace| self.burst_time(pace) / 4)
    }

    /// How long the latest burst takes at that pace.
    fn burst_time(&self, pace: u64) -> u64 {
        let nanos = u128::from(self.burst_bytes) * 1_000_000_000 / u128::from(pace.max(1));
        u64::try_from(nanos).unwrap_or(NEVER)
    }

    /// The latest account before the last departure, otherwise the first of all.
    fn account_before(&self) -> Option<&'a Account> {
        let accounts = &self.evidence.accounts;
        let before = self.first_account.checked_sub(1);
        let before = before.and_then(|place| accounts.get(place));
        before.or(accounts.first())
    }

    /// Drafts the states from the current time until `to`.
    fn advance(&mut self, to: u64) {
        while self.at < to {
            let repair = self.repairs.get(self.next_repair);
            let (until, draft) = match repair {
                Some(repair) if repair.span.from <= self.at => {
                    let until = repair.span.to.min(to);
                    let place = self.next_repair as u32;
                    self.settled_at = self.settled_at.max(repair.settled);
                    self.proven_window = 0;
                    self.next_repair += usize::from(repair.span.to <= to);
                    let draft = if self.evidence.is_held_by_repairs {
                        Draft::Known(SenderState::Repairing(place))
                    } else {
                        self.draft(until)
                    };
                    (until, draft)
                }
                Some(repair) => (repair.span.from.min(to), self.draft(to)),
                None => (to, self.draft(to)),
            };
            self.drafts.push((self.at, draft));
            self.at = until;
        }
        // Usually there is at most one: a binary search would look at many accounts that are far apart.
        let accounts = self.evidence.accounts[self.next_account..].iter();
        self.next_account += accounts.take_while(|it| it.time < to).count();
    }

    /// What is known of the moments from `at` on.
    fn draft(&self, to: u64) -> Draft {
        let limit = self.acknowledged.limit;
        let in_flight = self.in_flight();
        let room = limit.saturating_sub(self.sent.end);
        if limit != NEVER && room < self.evidence.packet_bytes {
            return Draft::Known(SenderState::Held(Cause::WindowReceive));
        }
        if in_flight == 0 {
            return Draft::Known(SenderState::Idle);
        }
        let (least, most) = self.congestion_window(to);
        let one = self.evidence.packet_weight;
        if most.is_some_and(|most| in_flight + one > most) {
            return Draft::Known(SenderState::Held(Cause::Cwnd));
        }
        // Linux may wait until two packets, or a third of the window, fit before it sends (tcp_tso_should_defer in
        // net/ipv4/tcp_output.c).
        let deferred = (2 * one).max(least / 3);
        if in_flight + one + deferred <= least {
            Draft::Known(SenderState::Open)
        } else {
            Draft::PerhapsFull
        }
    }

    /// Bounds of the congestion window. Without a loss it only grows, so accounts before and after bound it, and so does
    /// what was in flight before. The window of a sender that paces also shrinks without a loss, when it probes for the
    /// round trip (BBR).
    fn congestion_window(&self, to: u64) -> (u64, Option<u64>) {
        let accounts = &self.evidence.accounts;
        let next_loss = self.repairs.get(self.next_repair);
        let next_loss = next_loss.map_or(NEVER, |repair| repair.span.from);
        let is_valid = |it: &&Account| self.settled_at <= it.time && it.time < next_loss;
        let before = self.next_account.checked_sub(1);
        let before = before
            .and_then(|place| accounts.get(place))
            .filter(is_valid);
        let after = accounts[self.next_account..]
            .iter()
            .find(|it| it.time >= to);
        let after = after.filter(is_valid);
        let paces = before.or(after).is_some_and(|it| it.pace.is_some());
        let proven_window = if paces { 0 } else { self.proven_window };
        let (before, after) = (before.and_then(|it| it.cwnd), after.and_then(|it| it.cwnd));
        let least = match (before, after) {
            (Some(before), Some(after)) => before.min(after),
            (Some(before), None) => before,
            (None, _) => 0,
        };
        let most = after.map(|after| after.max(before.unwrap_or(0)));
        (least.max(proven_window), most)
    }

    /// Decides the states since the last departure, now that the next one is known.
    fn settle_drafts(&mut self, departs: Option<u64>) {
        let all = &self.evidence.accounts;
        let accounts = all[self.first_account..self.next_account].iter();
        // A socket is read after the time of its account, so an account from just before may already reflect the departure.
        let until = departs.map_or(NEVER, |departs| departs.saturating_sub(CLOCKED_WITHIN));
        let accounts = accounts.take_while(|it| it.time <= until);
        let mut unsent = accounts.filter_map(|it| it.unsent_bytes);
        // Data that waits in the socket the whole time is in every sample, so one empty sample shows that none did.
        let was_empty = unsent.clone().any(|bytes| bytes == 0);
        let was_waiting = unsent.any(|bytes| bytes > 0);
        let is_clocked = departs.is_some_and(|departs| {
            departs.saturating_sub(self.acknowledged.time) <= CLOCKED_WITHIN
        });
        let is_full = !was_empty && (was_waiting || is_clocked);
        let state_with_room = self.state_with_room(departs, is_clocked);
        let mut drafts = std::mem::take(&mut self.drafts);
        for (from, draft) in drafts.drain(..) {
            let state = match draft {
                Draft::PerhapsFull if is_full => SenderState::Held(Cause::Cwnd),
                Draft::PerhapsFull | Draft::Known(SenderState::Open) => state_with_room,
                // A pace of less than a window per round trip leaves nothing in flight between bursts.
                Draft::Known(SenderState::Idle)
                    if state_with_room == SenderState::Held(Cause::Pacing) =>
                {
                    state_with_room
                }
                // An account of an empty socket is more certain than bounds of a window.
                Draft::Known(SenderState::Held(Cause::Cwnd)) if was_empty => SenderState::Open,
                Draft::Known(state) => state,
            };
            match self.phases.last() {
                Some(last) if last.state == state => {}
                _ => self.phases.push(Phase { from, state }),
            }
        }
        // Reuses the memory, because there is one of these for each packet.
        self.drafts = drafts;
        self.first_account = self.next_account;
    }

    /// The state if the windows had room: whether pacing or the send buffer held the sender back.
    fn state_with_room(&self, departs: Option<u64>, is_clocked: bool) -> SenderState {
        let accounts = &self.evidence.accounts;
        let Some(before) = self.account_before() else {
            return SenderState::Open;
        };
        let gap = departs.map(|departs| departs.saturating_sub(self.sent.time));
        if let (Some(pace), Some(gap), false) = (before.pace, gap, is_clocked) {
            let due = self.burst_time(pace);
            // Timers are late by the machine's wake-up delay, which is short compared with the time that they wait.
            if gap <= due.saturating_add(due / 2) {
                return SenderState::Held(Cause::Pacing);
            }
        }
        if let Some(after) = accounts.get(self.next_account)
            && after.time > before.time
        {
            let limited = after.buffer_limited.saturating_sub(before.buffer_limited);
            if limited > (after.time - before.time) / 2 {
                return SenderState::Held(Cause::SendBuffer);
            }
        }
        SenderState::Open
    }
}

#[cfg(test)]
mod tests {
    use squall_base::record::Direction;

    use super::SenderState::{Held, Idle, Open};
    use super::*;

    const MS: u64 = 1_000_000;

    /// Departures of one packet each, of 1,000 bytes.
    fn departures(times: &[u64]) -> Vec<Departure> {
        let all = (1..).zip(times);
        all.map(|(count, time)| Departure {
            time: *time,
            end: count * 1_000,
            weight: count,
        })
        .collect()
    }

    fn acknowledgements(all: &[(u64, u64)]) -> Vec<Acknowledgement> {
        all.iter()
            .map(|&(time, packets)| Acknowledgement {
                time,
                to: packets * 1_000,
                limit: NEVER,
            })
            .collect()
    }

    fn evidence(sent: &[u64], acknowledged: &[(u64, u64)]) -> SenderEvidence {
        SenderEvidence {
            departures: departures(sent),
            acknowledgements: acknowledgements(acknowledged),
            is_held_by_repairs: true,
            packet_weight: 1,
            packet_bytes: 1_000,
            ..SenderEvidence::default()
        }
    }

    fn state_at(timeline: &SenderTimeline, time: u64) -> SenderState {
        let (_, state) = timeline.within(time, time + 1).next().expect("all of time");
        state
    }

    fn state_of(evidence: SenderEvidence, time: u64) -> SenderState {
        state_at(&SenderTimeline::of(evidence), time)
    }

    /// A sample of an empty socket.
    fn empty(time: u64) -> Account {
        Account {
            time,
            unsent_bytes: Some(0),
            ..Account::default()
        }
    }

    fn with_window(time: u64, cwnd: u64) -> Account {
        Account {
            time,
            cwnd: Some(cwnd),
            ..Account::default()
        }
    }

    fn paced(cwnd: u64, pace: u64) -> Account {
        Account {
            pace: Some(pace),
            ..with_window(0, cwnd)
        }
    }

    /// The acknowledgement of four packets releases four more.
    fn full_window() -> SenderEvidence {
        let sent = [0, 1, 2, 3, 20 * MS, 20 * MS, 20 * MS, 20 * MS];
        evidence(&sent, &[(20 * MS - 1, 4), (40 * MS, 8)])
    }

    #[test]
    fn estimated_acknowledgements_move_earlier_but_never_before_their_data() {
        let times = |evidence: SenderEvidence| -> Vec<u64> {
            let acknowledgements = evidence.with_estimated_times().acknowledgements;
            acknowledgements.iter().map(|it| it.time).collect()
        };
        let far = evidence(&[MS, 2 * MS], &[(9 * MS, 1), (10 * MS, 2)]);
        assert_eq!(times(far), [9 * MS - SEEN_EARLY, 10 * MS - SEEN_EARLY]);
        // If the round trip is shorter than that, acknowledgements move only to the time of their data.
        let near = evidence(&[MS, 2 * MS], &[(MS + 10, 1), (2 * MS + 10, 2)]);
        assert_eq!(times(near), [MS, 2 * MS]);
    }

    #[test]
    fn departure_on_an_acknowledgement_shows_a_full_window() {
        let timeline = SenderTimeline::of(full_window());
        assert_eq!(state_at(&timeline, 10 * MS), Held(Cause::Cwnd));
        assert_eq!(state_at(&timeline, 50 * MS), Idle);
    }

    #[test]
    fn empty_socket_refutes_a_full_window() {
        let mut evidence = full_window();
        evidence.accounts.push(empty(10 * MS));
        assert_eq!(state_of(evidence, 9 * MS), Open);
    }

    #[test]
    fn sample_from_just_before_a_departure_may_already_count_it() {
        let mut evidence = full_window();
        evidence.accounts.push(empty(20 * MS - CLOCKED_WITHIN / 2));
        let timeline = SenderTimeline::of(evidence);
        assert_eq!(state_at(&timeline, 9 * MS), Held(Cause::Cwnd));
    }

    #[test]
    fn departure_between_acknowledgements_shows_an_open_window() {
        let sent = [0, 1, 2, 3, 10 * MS];
        let timeline = SenderTimeline::of(evidence(&sent, &[(20 * MS, 4)]));
        assert_eq!(state_at(&timeline, 5 * MS), Open);
    }

    #[test]
    fn sender_with_less_in_flight_than_before_is_not_held_back() {
        // First nine are in flight at once, later only one.
        let sent = [0, 1, 2, 3, 4, 5, 6, 7, 8, 30 * MS, 50 * MS];
        let timeline = SenderTimeline::of(evidence(&sent, &[(20 * MS, 9), (50 * MS - 1, 10)]));
        assert_eq!(state_at(&timeline, 40 * MS), Open);
    }

    #[test]
    fn window_of_a_pacing_sender_is_known_from_accounts_alone() {
        // First nine are in flight at once, then two, released by acknowledgements of one each.
        let sent = [0, 1, 2, 3, 4, 5, 6, 7, 8, 20 * MS, 20 * MS + 1, 40 * MS];
        let mut evidence = evidence(&sent, &[(20 * MS - 1, 9), (40 * MS - 1, 10)]);
        assert_eq!(state_of(evidence.clone(), 30 * MS), Open);
        let account = |time: u64, cwnd: u64| Account {
            time,
            ..paced(cwnd, 1 << 40)
        };
        evidence.accounts = vec![account(0, 9), account(50 * MS, 2)];
        assert_eq!(state_of(evidence, 30 * MS), Held(Cause::Cwnd));
    }

    #[test]
    fn accounts_bound_a_congestion_window_that_packets_do_not_show() {
        let sent = [0, 1, 20 * MS];
        let mut evidence = evidence(&sent, &[(20 * MS - 1, 1), (40 * MS, 3)]);
        assert_eq!(state_of(evidence.clone(), 10 * MS), Held(Cause::Cwnd));
        evidence.accounts = vec![with_window(0, 10), with_window(30 * MS, 10)];
        assert_eq!(state_of(evidence.clone(), 10 * MS), Open);
        evidence.accounts = vec![with_window(0, 2), with_window(30 * MS, 2)];
        assert_eq!(state_of(evidence, 10 * MS), Held(Cause::Cwnd));
    }

    #[test]
    fn closed_receive_window_holds_even_an_idle_sender() {
        let mut evidence = evidence(&[0, 1, 50 * MS], &[(20 * MS, 2), (50 * MS - 1, 2)]);
        for (it, limit) in evidence.acknowledgements.iter_mut().zip([2_500, 9_000]) {
            it.limit = limit;
        }
        let timeline = SenderTimeline::of(evidence);
        assert_eq!(state_at(&timeline, 30 * MS), Held(Cause::WindowReceive));
        assert_ne!(state_at(&timeline, 60 * MS), Held(Cause::WindowReceive));
    }

    #[test]
    fn a_moment_belongs_to_the_earliest_loss_that_is_not_repaired() {
        let repair = |index: u64, from: u64, to: u64| RepairPeriod {
            span: Span { from, to },
            settled: to + 10 * MS,
            packet: PacketRef {
                hop: 1,
                direction: Direction::Up,
                index,
            },
            bytes: Span { from: 0, to: 1_000 },
        };
        let mut evidence = full_window();
        evidence.repairs = vec![
            repair(3, 5 * MS, 30 * MS),
            repair(4, 10 * MS, 20 * MS),
            repair(5, 25 * MS, 35 * MS),
        ];
        let timeline = SenderTimeline::of(evidence);
        let packet_at = |time: u64| match state_at(&timeline, time) {
            SenderState::Repairing(place) => Some(timeline.repair(place).packet.index),
            _ => None,
        };
        assert_eq!(packet_at(4 * MS), None);
        assert_eq!(packet_at(15 * MS), Some(3));
        assert_eq!(packet_at(32 * MS), Some(5));
        assert_eq!(packet_at(36 * MS), None);
    }

    #[test]
    fn gaps_that_match_the_pace_are_pacing() {
        // 1,000 bytes every 10 ms are 100,000 bytes a second.
        let sent = [0, 10 * MS, 20 * MS, 30 * MS];
        let mut evidence = evidence(&sent, &[(25 * MS, 1)]);
        evidence.accounts.push(paced(100, 100_000));
        let timeline = SenderTimeline::of(evidence);
        for time in [5 * MS, 15 * MS] {
            assert_eq!(state_at(&timeline, time), Held(Cause::Pacing));
        }
    }

    /// Two packets, microseconds apart, every 20 ms, which is the time that they take at the pace.
    #[test]
    fn paced_burst_counts_as_one_even_if_its_packets_leave_one_by_one() {
        const APART: u64 = 5_000;
        let sent = [0, APART, 20 * MS, 20 * MS + APART, 40 * MS, 40 * MS + APART];
        // Everything is acknowledged before the last burst leaves.
        let mut evidence = evidence(&sent, &[(25 * MS, 2), (38 * MS, 4)]);
        evidence.accounts.push(paced(100, 100_000));
        let timeline = SenderTimeline::of(evidence);
        for moment in [10, 30, 39] {
            assert_eq!(
                state_at(&timeline, moment * MS),
                Held(Cause::Pacing),
                "{moment} ms"
            );
        }
    }

    #[test]
    fn buffer_limited_time_counts_as_send_buffer() {
        let sent = [0, 1, 2, 3, 10 * MS];
        let mut evidence = evidence(&sent, &[(9 * MS, 4)]);
        let account = |time: u64, buffer_limited: u64| Account {
            buffer_limited,
            ..with_window(time, 100)
        };
        evidence.accounts = vec![account(4, 0), account(12 * MS, 9 * MS)];
        assert_eq!(state_of(evidence, 5 * MS), Held(Cause::SendBuffer));
    }

    #[test]
    fn states_cover_any_span_without_gaps() {
        let timeline = SenderTimeline::of(full_window());
        for (from, to) in [(0, 1), (0, 60 * MS), (10 * MS, 41 * MS), (80 * MS, NEVER)] {
            let spans: Vec<Span> = timeline.within(from, to).map(|(span, _)| span).collect();
            assert_eq!(spans.first().map(|span| span.from), Some(from));
            assert_eq!(spans.last().map(|span| span.to), Some(to));
            assert!(spans.windows(2).all(|pair| pair[0].to == pair[1].from));
        }
    }
}

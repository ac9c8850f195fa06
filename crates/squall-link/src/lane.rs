//! One direction of a link: its components in sequence, run in order of logical time.
//!
//! The order within a stretch is fixed: blackouts, drop list, random loss, corruption, duplication, bottleneck (queue and
//! capacity), delay. Losses come first, so that they do not depend on the state of the queue, and lost packets take no
//! capacity, as with netem. Several stretches follow each other; a packet enters the next one at the time at which it was
//! planned to leave the one before, so lateness does not add up between them.
//!
//! Nothing here depends on when the driver calls: everything that is due before a call's time happens first, in order.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::{iter, mem};

use squall_base::record::Direction;
use squall_base::{Duration, Time};

use crate::blackout::Blackouts;
use crate::bottleneck::Bottleneck;
use crate::component::{Component, Exit, Packet};
use crate::corrupt::Corruption;
use crate::delay::Delay;
use crate::drop_list::DropList;
use crate::duplicate::Duplicates;
use crate::loss::RandomLoss;
use crate::random::Luck;
use crate::settings::{LaneSettings, LinkSettings};

/// Components of one stretch.
const COMPONENTS: usize = 7;

fn components(
    start: Time,
    settings: &LaneSettings,
    luck: Luck,
) -> [Box<dyn Component>; COMPONENTS] {
    [
        Box::new(Blackouts::new(start, &settings.blackouts)),
        Box::new(DropList::new(&settings.drops)),
        Box::new(RandomLoss::new(start, settings.loss, luck)),
        Box::new(Corruption::new(settings.corrupt, luck)),
        Box::new(Duplicates::new(settings.duplicate, luck)),
        Box::new(Bottleneck::new(start, settings, luck)),
        Box::new(Delay::new(settings, luck)),
    ]
}

/// A packet that has left a lane, released or dropped.
#[derive(Debug)]
pub(crate) struct LaneOutput {
    /// When, in the link's own time.
    pub(crate) at: Time,
    pub(crate) packet: Packet,
}

/// A component and its place in the lane.
#[derive(Debug)]
struct Part {
    component: Box<dyn Component>,
    /// Its exit, empty except while it runs; kept, so that no packet costs an allocation.
    exit: Exit,
    /// When it must wake; cached after every call, because the lane reads it far more often.
    wake: Option<Time>,
    /// The next part that does anything; the number of parts stands for the exit of the lane.
    next: usize,
    /// The minimum time that packets spend in the parts after it.
    transit_behind: Duration,
}

/// A chain of components.
#[derive(Debug)]
pub(crate) struct Lane {
    direction: Direction,
    stretches: usize,
    parts: Vec<Part>,
    /// The first part that does anything.
    first: usize,
    /// The part that must wake first, and when; among several at one time, the one nearest to the exit.
    first_wake: Option<(Time, usize)>,
}

impl Lane {
    pub(crate) fn new(direction: Direction, start: Time, settings: &LinkSettings) -> Lane {
        let stretches = settings.stretches.len();
        let in_order_of_travel = (0..stretches).map(|position| at(direction, position, stretches));
        let parts: Vec<Part> = in_order_of_travel
            .flat_map(|stretch| {
                let luck = Luck::of_stretch(settings.seed, stretch);
                components(start, settings.stretches[stretch].lane(direction), luck)
            })
            .map(|component| Part {
                component,
                exit: Exit::default(),
                wake: None,
                next: 0,
                transit_behind: Duration::ZERO,
            })
            .collect();
        let mut lane = Lane {
            direction,
            stretches,
            parts,
            first: 0,
            first_wake: None,
        };
        lane.lay_out();
        lane
    }

    /// Finds the way from each part to the next one that matters.
    fn lay_out(&mut self) {
        let (mut next, mut transit) = (self.parts.len(), Duration::ZERO);
        for (i, part) in self.parts.iter_mut().enumerate().rev() {
            part.next = next;
            part.transit_behind = transit;
            if !part.component.is_transparent() {
                next = i;
                transit = transit + part.component.transit_at_least();
            }
        }
        self.first = next;
    }

    /// Takes a packet at `now`; everything due by then has happened.
    pub(crate) fn enter(&mut self, now: Time, packet: Packet, outputs: &mut VecDeque<LaneOutput>) {
        self.pass_to(self.first, now, packet, outputs);
        self.find_first_wake();
    }

    /// When something happens next, unless a packet comes.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.first_wake.map(|(at, _)| at)
    }

    /// Runs the next event, and nothing else.
    pub(crate) fn wake(&mut self, outputs: &mut VecDeque<LaneOutput>) {
        if let Some((at, part)) = self.first_wake {
            self.run(part, at, outputs, |component, exit| {
                component.wake(at, exit);
            });
            self.find_first_wake();
        }
    }

    /// Gives stretch number `stretch` new settings at `now`; everything due by then has happened.
    pub(crate) fn adopt(
        &mut self,
        now: Time,
        stretch: usize,
        settings: &LaneSettings,
        outputs: &mut VecDeque<LaneOutput>,
    ) {
        let position = at(self.direction, stretch, self.stretches);
        for part in position * COMPONENTS..(position + 1) * COMPONENTS {
            self.run(part, now, outputs, |component, exit| {
                component.adopt(now, settings, exit);
            });
        }
        self.lay_out();
        self.find_first_wake();
    }

    /// Makes the times of all settings count from `now`; everything due by then has happened.
    pub(crate) fn begin(&mut self, now: Time) {
        for part in &mut self.parts {
            part.component.begin(now);
            part.wake = part.component.next_wake();
        }
        self.find_first_wake();
    }

    /// The earliest time at which a packet can be released, unless more packets come.
    pub(crate) fn next_release(&self) -> Option<Time> {
        let leaves = |part: &Part| part.wake.map(|wake| wake + part.transit_behind);
        self.active().filter_map(|(_, part)| leaves(part)).min()
    }

    /// Removes and returns all packets that have not left.
    pub(crate) fn abandon(&mut self) -> Vec<Packet> {
        let drain = |part: &mut Part| {
            part.wake = None;
            part.component.drain()
        };
        let packets = self.parts.iter_mut().flat_map(drain).collect();
        self.first_wake = None;
        packets
    }

    fn pass_to(
        &mut self,
        part: usize,
        now: Time,
        mut packet: Packet,
        outputs: &mut VecDeque<LaneOutput>,
    ) {
        if part < self.parts.len() {
            self.run(part, now, outputs, |component, exit| {
                component.enter(now, packet, exit);
            });
        } else {
            packet.record.planned = Some(now);
            outputs.push_back(LaneOutput { at: now, packet });
        }
    }

    /// Runs a component at `now`, and passes on the packets that left it.
    fn run(
        &mut self,
        part: usize,
        now: Time,
        outputs: &mut VecDeque<LaneOutput>,
        act: impl FnOnce(&mut dyn Component, &mut Exit),
    ) {
        let acting = &mut self.parts[part];
        // Packets only go to later parts, so the exit is not needed meanwhile.
        let mut exit = mem::take(&mut acting.exit);
        act(acting.component.as_mut(), &mut exit);
        acting.wake = acting.component.next_wake();
        let next = acting.next;
        let stretch = at(self.direction, part / COMPONENTS, self.stretches);
        for mut packet in exit.dropped.drain(..) {
            packet.record.dropped_in = u8::try_from(stretch).unwrap_or(u8::MAX);
            outputs.push_back(LaneOutput { at: now, packet });
        }
        for packet in exit.passed.drain(..) {
            self.pass_to(next, now, packet, outputs);
        }
        self.parts[part].exit = exit;
    }

    /// The parts that do anything, in order of travel, with their places.
    fn active(&self) -> impl Iterator<Item = (usize, &Part)> {
        let place = |place: usize| self.parts.get(place).map(|part| (place, part));
        iter::successors(place(self.first), move |(_, part)| place(part.next))
    }

    fn find_first_wake(&mut self) {
        let wakes = self.active().filter_map(|(i, part)| Some((part.wake?, i)));
        self.first_wake = wakes.min_by_key(|(at, i)| (*at, Reverse(*i)));
    }
}

/// The stretch at a position on the way, or the position of a stretch: up is from the client, down is the reverse.
fn at(direction: Direction, index: usize, stretches: usize) -> usize {
    match direction {
        Direction::Up => index,
        Direction::Down => stretches - 1 - index,
    }
}

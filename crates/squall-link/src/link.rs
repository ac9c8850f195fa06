//! The link itself: both directions, from arrival to release.
//!
//! The driver's part is small on purpose: offer the packets it read, take those that are due, and add to a released
//! packet's record when it was actually written and whether the kernel accepted it.

use std::collections::VecDeque;

use squall_base::Time;
use squall_base::record::{Direction, PacketRecord};

use crate::component::Packet;
use crate::flow::Flows;
use crate::lane::{Lane, LaneOutput};
use crate::packet::PacketInfo;
use crate::settings::{Change, LinkSettings, Stretch};

/// A packet that has left the link, released or dropped.
#[derive(Debug)]
pub struct Departure {
    /// The IP packet.
    pub packet: Vec<u8>,
    /// Its record, which is final if the link dropped the packet. Otherwise `planned` is set and `fate` is "in flight"; the
    /// driver corrects `released` and `fate`.
    pub record: PacketRecord,
}

impl Departure {
    fn of(packet: Packet) -> Departure {
        Departure {
            packet: packet.bytes,
            record: packet.record,
        }
    }

    /// Whether the packet is to be delivered.
    pub fn is_release(&self) -> bool {
        !self.record.fate.is_drop()
    }
}

/// A scheduled event.
#[derive(Debug)]
enum Event {
    /// The times in the settings start to count.
    Beginning,
    Change(Change),
}

/// The changes of a link that begins at `start`, in the order of time.
fn schedule(settings: &LinkSettings, start: Time) -> impl Iterator<Item = (Time, Event)> {
    let mut changes = settings.schedule.clone();
    changes.sort_by_key(|change| change.at);
    let at = move |change: Change| (start + change.at, Event::Change(change));
    changes.into_iter().map(at)
}

/// Two lanes that share their flows, and the scheduled changes.
#[derive(Debug)]
pub struct Link {
    flows: Flows,
    lanes: [Lane; 2],
    arrivals: [u64; 2],
    stretches: Vec<Stretch>,
    schedule: VecDeque<(Time, Event)>,
    /// The settings, until the link begins.
    waiting: Option<LinkSettings>,
    /// Packets that have left and were not yet taken, in order of time over both lanes.
    outputs: VecDeque<LaneOutput>,
}

impl Link {
    /// An empty link that begins at `start`: the times in its settings (schedule, blackouts, weather and traces) count from
    /// then.
    pub fn new(settings: &LinkSettings, start: Time) -> Link {
        Link {
            flows: Flows::default(),
            lanes: Direction::ALL.map(|direction| Lane::new(direction, start, settings)),
            arrivals: [0; 2],
            stretches: settings.stretches.clone(),
            schedule: schedule(settings, start).collect(),
            waiting: None,
            outputs: VecDeque::new(),
        }
    }

    /// An empty link that carries packets from `now` on and begins when `begin` is called. Until then there are no
    /// blackouts, and weather and traces count from `now`.
    pub fn waiting(settings: &LinkSettings, now: Time) -> Link {
        let mut before = settings.clone();
        before.schedule.clear();
        for stretch in &mut before.stretches {
            for direction in Direction::ALL {
                stretch.lane_mut(direction).blackouts.clear();
            }
        }
        Link {
            waiting: Some(settings.clone()),
            ..Link::new(&before, now)
        }
    }

    /// Begins a waiting link at `at`, which must not be before any time that it has been called with. A link that has
    /// already begun is unaffected.
    pub fn begin(&mut self, at: Time) {
        let Some(settings) = self.waiting.take() else {
            return;
        };
        self.schedule.push_back((at, Event::Beginning));
        self.schedule.extend(schedule(&settings, at));
        self.stretches = settings.stretches;
    }

    /// Takes a packet that arrived at `now`. `now` must not go backwards over all calls.
    pub fn offer(&mut self, now: Time, direction: Direction, bytes: Vec<u8>) {
        self.advance(now);
        let info = PacketInfo::of(&bytes);
        let of_flow = self.flows.count(direction, &info);
        let index = &mut self.arrivals[direction as usize];
        let packet = Packet::new(now, bytes, &info, of_flow, *index);
        *index += 1;
        self.lanes[direction as usize].enter(now, packet, &mut self.outputs);
    }

    /// Runs everything that is due by `now`, with changes of the settings at their times.
    fn advance(&mut self, now: Time) {
        while self.schedule.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((at, event)) = self.schedule.pop_front() {
                self.advance_lanes(at);
                match event {
                    Event::Beginning => self.begin_lanes(at),
                    Event::Change(change) => self.change(at, &change),
                }
            }
        }
        self.advance_lanes(now);
    }

    /// Runs the events of both lanes in order of time rather than lane by lane, so that packets leave in that order
    /// even if the driver calls rarely. Of two events at the same time, the one of the up direction comes first.
    fn advance_lanes(&mut self, now: Time) {
        let due = |lane: &&mut Lane| lane.next_wake().filter(|at| *at <= now);
        while let Some((_, lane)) = self
            .lanes
            .iter_mut()
            .filter_map(|lane| Some((due(&lane)?, lane)))
            .min_by_key(|(at, _)| *at)
        {
            lane.wake(&mut self.outputs);
        }
    }

    fn change(&mut self, now: Time, change: &Change) {
        let Some(stretch) = self.stretches.get_mut(change.stretch) else {
            return;
        };
        stretch.apply(change.direction, &change.setting);
        self.adopt(now, change.stretch);
    }

    fn begin_lanes(&mut self, now: Time) {
        self.lanes.iter_mut().for_each(|lane| lane.begin(now));
        (0..self.stretches.len()).for_each(|stretch| self.adopt(now, stretch));
    }

    /// Gives both lanes the settings that a stretch has.
    fn adopt(&mut self, now: Time, stretch: usize) {
        for direction in Direction::ALL {
            let settings = self.stretches[stretch].lane(direction);
            self.lanes[direction as usize].adopt(now, stretch, settings, &mut self.outputs);
        }
    }

    /// When to call `take` next, never later than a packet is to be delivered; `None` if the link is empty. A drop may come
    /// before that; its record waits for the next call, so no wake-up is needed.
    pub fn next_departure(&self) -> Option<Time> {
        if let Some(output) = self.outputs.front() {
            return Some(output.at);
        }
        let next = self.lanes.iter().filter_map(Lane::next_release).min()?;
        // A change may let packets out sooner, and so may a trace that begins.
        let change = self.schedule.front().map(|(at, _)| *at);
        Some(change.map_or(next, |at| at.min(next)))
    }

    /// The first packet to have left by `now`. Call until `None`.
    pub fn take(&mut self, now: Time) -> Option<Departure> {
        if self.outputs.is_empty() {
            self.advance(now);
        }
        self.outputs
            .pop_front()
            .map(|output| Departure::of(output.packet))
    }

    /// Removes and returns all packets still in flight, at the end of a trial.
    pub fn abandon(&mut self) -> Vec<Departure> {
        let departed = self.outputs.drain(..).map(|output| output.packet);
        let on_their_way = self.lanes.iter_mut().flat_map(Lane::abandon);
        departed.chain(on_their_way).map(Departure::of).collect()
    }
}

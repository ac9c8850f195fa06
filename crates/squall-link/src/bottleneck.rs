//! The bottleneck: a queue, and a capacity that empties it, one packet at a time.
//!
//! Which packets the queue drops is up to its discipline (`queue`), how long a packet takes is up to the capacity (`capacity`).
//! A packet that is being sent no longer waits, and does not count towards any limit. Without a capacity, packets pass at once
//! and no queue forms.

use squall_base::Time;

use crate::capacity::Capacity;
use crate::component::{Component, Exit, Packet};
use crate::queue::{self, Discipline};
use crate::random::Luck;
use crate::settings::{self, LaneSettings, QueueSettings};

/// Queue and capacity of one direction of a stretch.
#[derive(Debug)]
pub(crate) struct Bottleneck {
    luck: Luck,
    capacity_settings: settings::Capacity,
    queue_settings: QueueSettings,
    overhead_bytes: u32,
    capacity: Capacity,
    queue: Box<dyn Discipline>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// No packet is waiting or being sent.
    Idle,
    /// Packets wait. One could have been sent from `ready` on, but none is sent before `begins` (an outage of a trace).
    /// Until then the queue may still choose which packet goes first.
    Waiting { ready: Time, begins: Time },
    /// A packet is being sent until `through`.
    Sending { through: Time, packet: Packet },
}

impl Bottleneck {
    pub(crate) fn new(now: Time, settings: &LaneSettings, luck: Luck) -> Bottleneck {
        Bottleneck {
            luck,
            capacity_settings: settings.capacity.clone(),
            queue_settings: settings.queue,
            overhead_bytes: settings.overhead_bytes,
            capacity: Capacity::new(now, &settings.capacity),
            queue: queue::new(now, &settings.queue, luck),
            state: State::Idle,
        }
    }

    fn is_unlimited(&self) -> bool {
        self.capacity_settings == settings::Capacity::Unlimited
    }

    /// Starts sending the next packet, which could be sent from now on, unless a packet is being sent already.
    fn turn_to_next(&mut self, now: Time, exit: &mut Exit) {
        if !matches!(self.state, State::Idle) || self.queue.depth().packets == 0 {
            return;
        }
        let begins = self.capacity.beginning(now);
        if begins > now {
            self.state = State::Waiting { ready: now, begins };
        } else {
            self.send(now, now, exit);
        }
    }

    /// Sends the packet that the queue returns at `now`; the capacity has been free since `ready`.
    fn send(&mut self, now: Time, ready: Time, exit: &mut Exit) {
        self.state = match self.queue.dequeue(now, exit) {
            None => State::Idle,
            Some(packet) => State::Sending {
                through: self.capacity.departure(ready, self.cost(&packet)),
                packet,
            },
        };
    }

    /// Bytes of capacity that the packet uses.
    fn cost(&self, packet: &Packet) -> u64 {
        packet.len() + u64::from(self.overhead_bytes)
    }

    /// Moves the packet being sent to the new capacity, from `now` on. If the old capacity would finish it sooner, it
    /// keeps that time.
    fn change_capacity(&mut self, now: Time, settings: &settings::Capacity) {
        self.capacity_settings = settings.clone();
        self.capacity = Capacity::new(now, settings);
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Sending { through, packet } => {
                let cost = self.cost(&packet);
                self.state = State::Sending {
                    through: self.capacity.departure(now, cost).min(through),
                    packet,
                };
            }
            State::Waiting { .. } => {
                let begins = self.capacity.beginning(now);
                self.state = State::Waiting { ready: now, begins };
            }
            State::Idle => {}
        }
    }
}

impl Component for Bottleneck {
    fn enter(&mut self, now: Time, mut packet: Packet, exit: &mut Exit) {
        if self.is_unlimited() {
            return exit.pass(packet);
        }
        let waiting_bytes = u32::try_from(self.queue.depth().bytes).unwrap_or(u32::MAX);
        packet.record.queue_bytes = packet.record.queue_bytes.max(waiting_bytes);
        packet.record.served = None;
        packet.queued_at = now;
        self.queue.enqueue(now, packet, exit);
        self.turn_to_next(now, exit);
    }

    fn next_wake(&self) -> Option<Time> {
        match self.state {
            State::Idle => None,
            State::Waiting { begins, .. } => Some(begins),
            State::Sending { through, .. } => Some(through),
        }
    }

    fn wake(&mut self, now: Time, exit: &mut Exit) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => {}
            State::Waiting { ready, .. } => self.send(now, ready, exit),
            State::Sending { mut packet, .. } => {
                packet.record.served = Some(now);
                packet.record.queueing = packet.record.queueing + now.since(packet.queued_at);
                exit.pass(packet);
                self.turn_to_next(now, exit);
            }
        }
    }

    /// Restarts a trace, even for the packet being sent.
    fn begin(&mut self, now: Time) {
        if let settings::Capacity::Trace(_) = self.capacity_settings {
            self.change_capacity(now, &self.capacity_settings.clone());
        }
    }

    fn adopt(&mut self, now: Time, settings: &LaneSettings, exit: &mut Exit) {
        self.overhead_bytes = settings.overhead_bytes;
        if settings.capacity != self.capacity_settings {
            self.change_capacity(now, &settings.capacity);
        }
        if settings.queue != self.queue_settings {
            self.queue_settings = settings.queue;
            let waiting = self.queue.drain();
            self.queue = queue::new(now, &settings.queue, self.luck);
            for packet in waiting {
                self.queue.enqueue(now, packet, exit);
            }
        }
        if self.is_unlimited() {
            exit.passed.extend(self.drain());
        }
    }

    fn is_transparent(&self) -> bool {
        self.is_unlimited()
    }

    fn drain(&mut self) -> Vec<Packet> {
        let in_work = match std::mem::replace(&mut self.state, State::Idle) {
            State::Sending { packet, .. } => Some(packet),
            State::Idle | State::Waiting { .. } => None,
        };
        in_work.into_iter().chain(self.queue.drain()).collect()
    }
}

//! What a link does to packets, as plain values; each type documents its meaning and unit.
//!
//! How people write them is `text`; the component that applies a setting is in the file of that name. Both directions of a
//! stretch have their own settings, and any of them may change at a given time (`Change`).

use std::sync::Arc;

use squall_base::record::{Direction, PacketClass};
use squall_base::{BitRate, Bytes, Duration, Probability};

use crate::trace::Trace;

/// A whole link: one or more stretches in a row, the seed of all randomness, and what changes when.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSettings {
    /// Seed of all randomness.
    pub seed: u64,
    /// From the client to the server; at least one.
    pub stretches: Vec<Stretch>,
    /// Changes, in order of time.
    pub schedule: Vec<Change>,
}

impl LinkSettings {
    /// One stretch that is the same in both directions and never changes.
    pub fn symmetric(lane: LaneSettings, seed: u64) -> LinkSettings {
        LinkSettings {
            seed,
            stretches: vec![Stretch {
                up: lane.clone(),
                down: lane,
            }],
            schedule: Vec::new(),
        }
    }

    /// The longest round trip that the configured delays allow, including those of the schedule, without queueing; jitter
    /// counts with four times its spread.
    pub fn round_trip(&self) -> Duration {
        let mut stretches = self.stretches.clone();
        let sum = |stretches: &[Stretch]| {
            let lanes = stretches.iter().flat_map(|s| [&s.up, &s.down]);
            lanes.fold(Duration::ZERO, |sum, lane| sum + lane.one_way())
        };
        let mut longest = sum(&stretches);
        for change in &self.schedule {
            if let Some(stretch) = stretches.get_mut(change.stretch) {
                stretch.apply(change.direction, &change.setting);
            }
            longest = longest.max(sum(&stretches));
        }
        longest
    }

    /// Whether it matters when the link begins, because of a schedule, blackouts, weather or traces.
    pub fn has_times(&self) -> bool {
        let is_timed = |lane: &LaneSettings| {
            !lane.blackouts.is_empty()
                || matches!(lane.loss, Loss::Weather(_))
                || matches!(lane.capacity, Capacity::Trace(_))
        };
        let mut lanes = self.stretches.iter().flat_map(|s| [&s.up, &s.down]);
        !self.schedule.is_empty() || lanes.any(is_timed)
    }

    /// The settings in force at a time after the link's start.
    pub fn at(&self, since_start: Duration) -> Vec<Stretch> {
        let mut stretches = self.stretches.clone();
        for change in self
            .schedule
            .iter()
            .filter(|change| change.at <= since_start)
        {
            if let Some(stretch) = stretches.get_mut(change.stretch) {
                stretch.apply(change.direction, &change.setting);
            }
        }
        stretches
    }
}

/// A part of a path with its own settings in each direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stretch {
    /// Towards the server.
    pub up: LaneSettings,
    /// Towards the client.
    pub down: LaneSettings,
}

impl Stretch {
    /// The settings of one direction.
    pub fn lane(&self, direction: Direction) -> &LaneSettings {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// The settings of one direction, to be changed.
    pub fn lane_mut(&mut self, direction: Direction) -> &mut LaneSettings {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    /// Changes one setting in `direction`, or in both.
    pub fn apply(&mut self, direction: Option<Direction>, setting: &Setting) {
        for each in Direction::ALL {
            if direction.is_none_or(|only| only == each) {
                self.lane_mut(each).apply(setting);
            }
        }
    }
}

/// One direction of a stretch. The fields are in the order in which a packet meets the components.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaneSettings {
    /// Time windows in which nothing passes.
    pub blackouts: Vec<Blackout>,
    /// Packets that are dropped by name.
    pub drops: Vec<DropRule>,
    /// Random loss.
    pub loss: Loss,
    /// The share of packets in which one bit is flipped; checksums are left as they were.
    pub corrupt: Probability,
    /// The share of packets that are followed at once by a second copy.
    pub duplicate: Probability,
    /// How fast bits leave the queue.
    pub capacity: Capacity,
    /// Bytes that each packet costs in addition to its IP bytes: 38 for Ethernet with preamble and gap.
    pub overhead_bytes: u32,
    /// Where packets wait for the capacity; unused without one.
    pub queue: QueueSettings,
    /// One-way delay.
    pub delay: Duration,
    /// How the delay varies, if at all.
    pub jitter: Option<Jitter>,
    /// Which packets are held back, if any.
    pub reorder: Option<Reorder>,
}

impl LaneSettings {
    /// The configured delay; jitter counts with four times its spread.
    fn one_way(&self) -> Duration {
        let spread = self.jitter.map_or(Duration::ZERO, |jitter| jitter.spread);
        let held = self.reorder.map_or(Duration::ZERO, |reorder| reorder.by);
        self.delay + Duration::from_nanos(spread.as_nanos().saturating_mul(4)) + held
    }

    /// Changes one setting. Blackouts and drop rules add up; all others replace what was there.
    pub fn apply(&mut self, setting: &Setting) {
        match setting {
            Setting::Blackout(blackout) => self.blackouts.push(*blackout),
            Setting::Drop(rule) => self.drops.push(rule.clone()),
            Setting::Loss(loss) => self.loss = *loss,
            Setting::Corrupt(share) => self.corrupt = *share,
            Setting::Duplicate(share) => self.duplicate = *share,
            Setting::Capacity(capacity) => self.capacity = capacity.clone(),
            Setting::Overhead(bytes) => self.overhead_bytes = *bytes,
            Setting::Queue(queue) => self.queue = *queue,
            Setting::Delay(delay) => self.delay = *delay,
            Setting::Jitter(jitter) => self.jitter = *jitter,
            Setting::Reorder(reorder) => self.reorder = *reorder,
        }
    }
}

/// One setting, as written in a flag, a list of settings or a schedule.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// One more blackout.
    Blackout(Blackout),
    /// One more drop rule.
    Drop(DropRule),
    /// Random loss.
    Loss(Loss),
    /// Share of packets with a flipped bit.
    Corrupt(Probability),
    /// Share of packets that are duplicated.
    Duplicate(Probability),
    /// Rate, bucket or trace.
    Capacity(Capacity),
    /// Bytes per packet in addition to its own.
    Overhead(u32),
    /// Queue and its discipline.
    Queue(QueueSettings),
    /// One-way delay.
    Delay(Duration),
    /// Jitter, or none.
    Jitter(Option<Jitter>),
    /// Reordering, or none.
    Reorder(Option<Reorder>),
}

/// A setting that changes while the link is up.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// When, from the link's start.
    pub at: Duration,
    /// Which stretch, from 0 at the client.
    pub stretch: usize,
    /// The direction; `None` means both.
    pub direction: Option<Direction>,
    /// The new setting.
    pub setting: Setting,
}

/// A time window in which nothing enters the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blackout {
    /// When it first begins, from the link's start.
    pub from: Duration,
    /// How long it lasts.
    pub length: Duration,
    /// The time from one start to the next, if it repeats; longer than `length`.
    pub every: Option<Duration>,
}

/// Packets that are dropped by name, so that a test can request exactly one loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DropRule {
    /// The packet with this number, from 1, in its flow (or in its class of its flow).
    Nth {
        /// Its number, from 1.
        number: u64,
        /// Counted within this class; without one, over all packets of the flow in this direction.
        class: Option<PacketClass>,
        /// In this flow only, from 0 by appearance; without one, in every flow.
        flow: Option<u32>,
    },
    /// Every n-th packet of this direction, over all flows: the n-th, the 2n-th ...
    Every {
        /// From 1.
        n: u64,
        /// Counting only packets of this class.
        class: Option<PacketClass>,
    },
    /// The first `times` TCP segments that carry any byte of the range.
    Sequence {
        /// First byte, counted from 1 at the first byte of the stream in this direction.
        from: u32,
        /// Last byte.
        to: u32,
        /// How many such segments are dropped in each flow.
        times: u32,
        /// In this flow only; without one, in every flow.
        flow: Option<u32>,
    },
}

/// Random loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// Each packet independently.
    Independent(Probability),
    /// In bursts of packets of a flow.
    GilbertElliott(GilbertElliott),
    /// In bursts of time, for all flows alike.
    Weather(Weather),
}

impl Default for Loss {
    fn default() -> Loss {
        Loss::Independent(Probability::ZERO)
    }
}

/// Gilbert and Elliott's model: two states that change from packet to packet (Elliott, BSTJ 42, 1963). A flow starts in the
/// bad state with that state's long-run share, so that short flows lose as much as long ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// p: from good to bad, before each packet.
    pub to_bad: Probability,
    /// r: from bad to good, before each packet.
    pub to_good: Probability,
    /// 1-h: loss in the bad state.
    pub loss_in_bad: Probability,
    /// 1-k: loss in the good state.
    pub loss_in_good: Probability,
}

impl GilbertElliott {
    /// Gilbert's simple form: everything is lost in the bad state and nothing in the good one, so that the share
    /// `loss` is lost in bursts of `mean_length` packets on average. `None` if there is no such model: a mean
    /// below 1, or a good state shorter than a packet.
    pub fn bursts(loss: Probability, mean_length: f64) -> Option<GilbertElliott> {
        if loss.get() >= 1.0 || !mean_length.is_finite() || mean_length < 1.0 {
            return None;
        }
        let to_good = 1.0 / mean_length;
        Some(GilbertElliott {
            to_bad: Probability::new(to_good * loss.get() / (1.0 - loss.get()))?,
            to_good: Probability::new(to_good)?,
            loss_in_bad: Probability::new(1.0)?,
            loss_in_good: Probability::ZERO,
        })
    }
}

/// This model has two states, too, but they change with time, regardless of the traffic: the length of each spell is
/// exponentially distributed. At the link's start, the probability of the bad state is its long-run share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weather {
    /// Mean length of a good spell; more than 0.
    pub good: Duration,
    /// Mean length of a bad spell; more than 0.
    pub bad: Duration,
    /// Loss in a bad spell.
    pub loss_in_bad: Probability,
    /// Loss in a good spell.
    pub loss_in_good: Probability,
}

/// How fast bits leave the queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Capacity {
    /// Packets leave at once.
    #[default]
    Unlimited,
    /// Serialised: a packet takes its bits divided by the rate.
    Rate(BitRate),
    /// A token bucket: packets leave at once while there are tokens for their bytes.
    TokenBucket {
        /// The token rate.
        rate: BitRate,
        /// The size of the bucket in bytes; at least one packet.
        depth: Bytes,
    },
    /// Delivery opportunities of a recorded link (mahimahi's format).
    Trace(Arc<Trace>),
}

/// The queue before the capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueSettings {
    /// Which packets are dropped or marked.
    pub discipline: Discipline,
    /// The most packets that wait; the one that is being sent does not wait.
    pub limit_packets: Option<u64>,
    /// The most bytes that wait.
    pub limit_bytes: Option<u64>,
    /// Whether packets of ECN-capable flows are marked where the discipline would drop them early (RFC 3168).
    pub marks_ecn: bool,
}

impl Default for QueueSettings {
    /// Drop-tail with 1,000 packets, the default of Linux devices.
    fn default() -> QueueSettings {
        QueueSettings {
            discipline: Discipline::DropTail,
            limit_packets: Some(1_000),
            limit_bytes: None,
            marks_ecn: false,
        }
    }
}

/// What a queue does when it fills.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Discipline {
    /// A packet that finds the queue full is dropped.
    DropTail,
    /// The oldest packets are dropped to make room.
    DropHead,
    /// Random early detection (Floyd and Jacobson 1993), with the gentle slope.
    Red {
        /// Average queue in bytes from which packets are dropped.
        min_bytes: u64,
        /// Average queue in bytes at which `probability` is reached.
        max_bytes: u64,
        /// Probability of a drop there.
        probability: Probability,
    },
    /// Controlled delay (RFC 8289).
    CoDel {
        /// Acceptable standing delay; 5 ms by the RFC.
        target: Duration,
        /// How long it may be exceeded; 100 ms by the RFC.
        interval: Duration,
    },
    /// Proportional integral controller enhanced (RFC 8033).
    Pie {
        /// Target delay; 15 ms by the RFC.
        target: Duration,
        /// How often the probability is computed; 15 ms by the RFC.
        update: Duration,
    },
    /// CoDel in a queue for each flow (RFC 8290).
    FqCoDel {
        /// As CoDel's.
        target: Duration,
        /// As CoDel's.
        interval: Duration,
        /// Bytes that a flow may send in its turn; 1,514 by default.
        quantum_bytes: u32,
    },
}

/// How the delay varies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    /// Its distribution.
    pub shape: JitterShape,
    /// Its width, as defined by the shape.
    pub spread: Duration,
    /// How much a packet's jitter resembles that of the packet before it in its flow, from 0 to below 1.
    pub correlation: Probability,
    /// Whether packets may overtake each other; if not, a packet waits for the one before it.
    pub may_reorder: bool,
}

/// Distributions of jitter. A delay that would be negative becomes zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JitterShape {
    /// Delay plus or minus at most `spread`, all equally likely.
    Uniform,
    /// Normal around the delay, with `spread` as its standard deviation.
    Normal,
    /// Never below the delay, `spread` more on average, with a heavy tail (Pareto's, exponent 3).
    Pareto,
}

/// Single packets are held back, so that later ones overtake them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reorder {
    /// The share of packets.
    pub share: Probability,
    /// How long they are held back.
    pub by: Duration,
}

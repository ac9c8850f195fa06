//! The link between two hosts as a pure state machine: packets enter at their times, and decisions and packets come out at
//! theirs.
//!
//! It reads no clock, opens no device and has no source of randomness: arrival times and the seed are arguments, so the
//! same arrivals lead to the same decisions, byte for byte. squall-linux drives it over TUN devices
//! (`squall_linux::link_thread`).
//!
//! A packet is classified (`packet`, `flow`) and passes through the components of its direction (`lane` defines their order
//! and runs them, `component` is their contract): blackouts, drop list, random loss, corruption, duplication, queue and
//! capacity, delay. Loss percentages are of IP packets, acknowledgements included, in both directions unless stated
//! otherwise, and drawn for each direction separately. `settings` is what can be configured, `text` how people write it.
//!
//! ```
//! use squall_base::{Duration, Time, record::Direction};
//! use squall_link::{LaneSettings, Link, LinkSettings};
//!
//! let lane = LaneSettings { delay: Duration::from_millis(25), ..LaneSettings::default() };
//! let mut link = Link::new(&LinkSettings::symmetric(lane, 1), Time::ZERO);
//! let arrival = Time::from_nanos(1_000);
//! link.offer(arrival, Direction::Up, vec![0x45; 20]);
//! let due = link.next_departure().unwrap();
//! assert_eq!(due, arrival + Duration::from_millis(25));
//! assert!(link.take(Time::from_nanos(due.as_nanos() - 1)).is_none());
//! assert_eq!(link.take(due).unwrap().packet, vec![0x45; 20]);
//! ```

mod blackout;
mod bottleneck;
mod capacity;
mod component;
mod corrupt;
mod delay;
mod drop_list;
mod duplicate;
mod flow;
mod jitter;
mod lane;
mod link;
mod loss;
mod packet;
mod queue;
mod random;
pub mod settings;
pub mod text;
pub mod trace;

pub use link::{Departure, Link};
pub use settings::{LaneSettings, LinkSettings};

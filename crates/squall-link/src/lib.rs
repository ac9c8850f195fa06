//! The link between two hosts as a pure state machine: packets in at their times, decisions and packets
//! out at theirs.
//!
//! It reads no clock, opens no device and draws no randomness of its own: the time of arrival and the
//! seed are arguments, so the same arrivals give the same decisions, byte for byte. squall-linux drives
//! it over TUN devices (`squall_linux::link_thread`).
//!
//! Order of the components in each direction: classify (`packet`, `flow`), lose (`loss`), delay
//! (`delay`). Percentages of loss are of IP packets, acknowledgements included, drawn for each direction
//! by itself. There is no rate and no queue limit: a packet that is not lost leaves exactly one delay
//! after it came, in order.
//!
//! ```
//! use squall_base::{Duration, Probability, Time, record::Direction};
//! use squall_link::{Link, LinkSettings, Offer};
//!
//! let settings = LinkSettings { delay: Duration::from_millis(25), loss: Probability::ZERO, seed: 1 };
//! let mut link = Link::new(settings);
//! let arrival = Time::from_nanos(1_000);
//! assert!(matches!(link.offer(arrival, Direction::Up, vec![0x45; 20]), Offer::Queued));
//! let due = link.next_release().unwrap();
//! assert_eq!(due, arrival + Duration::from_millis(25));
//! assert!(link.release(Time::from_nanos(due.as_nanos() - 1)).is_none());
//! assert_eq!(link.release(due).unwrap().packet, vec![0x45; 20]);
//! ```

mod delay;
mod flow;
mod link;
mod loss;
mod packet;
mod random;

pub use link::{Link, LinkSettings, Offer, Release};

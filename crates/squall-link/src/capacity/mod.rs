//! Capacities: when a packet at the head of the queue has left it. Each kind has its own file.
//!
//! A capacity does not know the queue: `bottleneck` joins the two.

mod rate;
mod token_bucket;
mod traced;

use squall_base::Time;

use crate::settings;

use rate::Serialiser;
use token_bucket::TokenBucket;
use traced::Opportunities;

/// Sends one packet after the other.
#[derive(Clone, Debug)]
pub(crate) enum Capacity {
    Unlimited,
    Rate(Serialiser),
    TokenBucket(TokenBucket),
    Trace(Opportunities),
}

impl Capacity {
    /// A capacity that starts at `now`, with a full bucket.
    pub(crate) fn new(now: Time, settings: &settings::Capacity) -> Capacity {
        match settings {
            settings::Capacity::Unlimited => Capacity::Unlimited,
            settings::Capacity::Rate(rate) => Capacity::Rate(Serialiser::new(now, *rate)),
            settings::Capacity::TokenBucket { rate, depth } => {
                Capacity::TokenBucket(TokenBucket::new(now, *rate, *depth))
            }
            settings::Capacity::Trace(trace) => {
                Capacity::Trace(Opportunities::new(now, trace.clone()))
            }
        }
    }

    /// When sending begins for a packet that could be sent from `ready` on; until then the packet waits in the queue.
    pub(crate) fn beginning(&self, ready: Time) -> Time {
        match self {
            Capacity::Trace(opportunities) => opportunities.beginning(ready),
            Capacity::Unlimited | Capacity::Rate(_) | Capacity::TokenBucket(_) => ready,
        }
    }

    /// When a packet of `len_bytes` has left, if it is at the head of the queue from `ready` on. `ready` must not
    /// decrease from call to call, nor be before the last result.
    pub(crate) fn departure(&mut self, ready: Time, len_bytes: u64) -> Time {
        match self {
            Capacity::Unlimited => ready,
            Capacity::Rate(serialiser) => serialiser.departure(ready, len_bytes),
            Capacity::TokenBucket(bucket) => bucket.departure(ready, len_bytes),
            Capacity::Trace(opportunities) => opportunities.departure(ready, len_bytes),
        }
    }
}

/// The time `span_ns` after `now`, capped at 292 years after the clock's origin, so that delays can be added to it however
/// absurd rate and overhead are.
fn after(now: Time, span_ns: u128) -> Time {
    const LATEST_NS: u64 = u64::MAX / 2;
    let at_ns = u128::from(now.as_nanos()).saturating_add(span_ns);
    let latest_ns = LATEST_NS.max(now.as_nanos());
    Time::from_nanos(u64::try_from(at_ns).unwrap_or(u64::MAX).min(latest_ns))
}

fn bits(len_bytes: u64) -> u128 {
    u128::from(len_bytes) * 8
}

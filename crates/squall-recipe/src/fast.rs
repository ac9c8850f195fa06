//! Which links of a trial exchange super-packets with their hosts (docs/LINK.md, `--fast`).
//!
//! The choice follows from the condition and from the sizes of the load's bodies alone, so all variants of a condition meet
//! the same path. How super-packets are split and joined is in squall-linux.

use std::sync::Arc;

use squall_base::Bytes;
use squall_base::plan::{
    Condition, LARGE_BODY_BYTES, PerDirection, RequestTemplate, ResponseTemplate, Variant,
};
use squall_base::record::Direction;
use squall_link::settings::Capacity;
use squall_link::trace::Trace;
use squall_link::{LaneSettings, text};

/// Rates up to this are carried packet by packet: `squall selftest` checks the link's rates up to here, and far above them
/// the link's thread is never idle on two processors that it shares with both programs (docs/LINK.md, Limits).
const PACKET_BY_PACKET_BIT_PER_S: u64 = 500_000_000;

/// Which links a recipe puts on the fast path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FastPath {
    /// Each link that needs it.
    #[default]
    Auto,
    /// Every link.
    On,
    /// No link.
    Off,
}

impl FastPath {
    /// The words of recipes.
    pub(crate) const WORDS: [(&'static str, FastPath); 3] = [
        ("auto", FastPath::Auto),
        ("on", FastPath::On),
        ("off", FastPath::Off),
    ];

    /// For each link of the variant's path, whether it takes the fast path. `bodies` is from
    /// `largest_bodies`.
    pub(crate) fn of_links(
        self,
        variant: &Variant,
        condition: &Condition,
        bodies: PerDirection<u64>,
    ) -> Vec<bool> {
        let of_link = |link| match self {
            FastPath::Auto => needs_fast(&condition.of_link(link), bodies),
            FastPath::On => true,
            FastPath::Off => false,
        };
        (0..variant.links()).map(of_link).collect()
    }
}

/// The size of a load's largest bodies: those of requests, and of responses as they are planned or as a target asks squall's
/// own server for them (`/?size=1MB`).
pub(crate) fn largest_bodies(
    requests: &[RequestTemplate],
    response: &ResponseTemplate,
) -> PerDirection<u64> {
    let sent = requests.iter().map(|request| request.body.content_bytes());
    let sizes_in_targets = requests
        .iter()
        .filter_map(|request| size_in(&request.target));
    PerDirection {
        up: sent.max().unwrap_or(0),
        down: sizes_in_targets.fold(response.body.get(), u64::max),
    }
}

/// The size that a target asks for.
fn size_in(target: &str) -> Option<u64> {
    let (_, query) = target.split_once('?')?;
    let size = query.split('&').find_map(|it| it.strip_prefix("size="))?;
    size.parse::<Bytes>().ok().map(Bytes::get)
}

/// Whether large bodies travel in a direction that may be faster than packet by packet.
fn needs_fast(link: &Condition, bodies: PerDirection<u64>) -> bool {
    let is_bulk = |direction: &Direction| *bodies.of(*direction) >= LARGE_BODY_BYTES;
    let mut bulk = Direction::ALL.into_iter().filter(is_bulk);
    bulk.any(|direction| may_be_faster(link.link.of(direction)))
}

/// Whether these settings of one direction, which `read` has checked, let packets pass faster than packet by packet.
fn may_be_faster(settings: &str) -> bool {
    // Which trace it is does not matter: a recorded link counts as slow.
    let mut any_trace = |_: &str| {
        let trace = Trace::parse("1\n").map(Arc::new);
        trace.map_err(|error| error.to_string())
    };
    let mut lane = LaneSettings::default();
    for setting in text::settings(settings, &mut any_trace).unwrap_or_default() {
        lane.apply(&setting);
    }
    match lane.capacity {
        Capacity::Unlimited => true,
        Capacity::Rate(rate) | Capacity::TokenBucket { rate, .. } => {
            rate.bits_per_s() > PACKET_BY_PACKET_BIT_PER_S
        }
        Capacity::Trace(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_may_ask_for_large_responses() {
        assert_eq!(size_in("/?delay=1s&size=1MB"), Some(1_000_000));
        for target in ["/", "/size=1MB", "/?sized=1MB", "/?size=large"] {
            assert_eq!(size_in(target), None, "{target}");
        }
    }

    #[test]
    fn only_links_that_may_exceed_packet_by_packet_are_fast() {
        for (settings, expected) in [
            ("", true),
            ("jitter uniform 1ms", true),
            ("rate 20mbit, queue 64KiB", false),
            ("rate 500mbit", false),
            ("rate 1gbit", true),
            ("trace lte.trace, queue 100KiB", false),
        ] {
            assert_eq!(may_be_faster(settings), expected, "{settings}");
        }
    }
}

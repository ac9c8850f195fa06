//! Comments on packets in a capture: which component of the link dropped or changed the packet, and by which setting.
//!
//! The setting is the one in force when the packet reached the link.

use squall_base::Time;
use squall_base::record::{Fate, PacketRecord};
use squall_link::LinkSettings;
use squall_link::settings::{LaneSettings, Setting, Stretch};

/// The comment of a packet; `None` if it was delivered unchanged. `beginning` is the origin of the link's times, if
/// known.
pub(crate) fn of(
    record: &PacketRecord,
    settings: &LinkSettings,
    beginning: Option<Time>,
) -> Option<String> {
    if record.fate == Fate::Delivered
        && !(record.is_marked || record.is_corrupted || record.is_copy)
    {
        return None;
    }
    let in_force = match beginning.filter(|at| *at <= record.arrived) {
        Some(at) => settings.at(record.arrived.since(at)),
        None => settings.stretches.clone(),
    };
    let said: Vec<String> = end(record, &in_force)
        .into_iter()
        .chain(record.is_marked.then(|| marked(record, &in_force)))
        .chain(record.is_corrupted.then(|| "a bit was flipped".to_owned()))
        .chain(
            record
                .is_copy
                .then(|| "second copy made by the link".to_owned()),
        )
        .collect();
    Some(format!("squall: {}", said.join("; ")))
}

/// The packet's fate, unless it was delivered.
fn end(record: &PacketRecord, in_force: &[Stretch]) -> Option<String> {
    let stretch = in_force.get(usize::from(record.dropped_in));
    let lane = stretch.map(|stretch| stretch.lane(record.direction));
    let by = |words: fn(&LaneSettings) -> String| lane.map(words).unwrap_or_default();
    let said = match record.fate {
        Fate::Delivered => return None,
        Fate::LossDrop => format!("dropped by loss ({})", by(loss)),
        Fate::BurstDrop => format!("dropped in a burst ({})", by(loss)),
        Fate::ListDrop => format!("dropped by the drop list ({})", by(drops)),
        Fate::BlackoutDrop => format!("dropped in a blackout ({})", by(blackouts)),
        Fate::QueueDrop => format!(
            "dropped by the queue, which had no room ({}); it held {} bytes",
            by(queue),
            record.queue_bytes
        ),
        Fate::EarlyDrop => format!("dropped early by the queue ({})", by(queue)),
        Fate::WriteError => "refused by the receiving host: a problem on this machine".to_owned(),
        Fate::InFlight => "still in the link when it ended".to_owned(),
    };
    // With several stretches in a row, names the one that dropped it.
    Some(if in_force.len() > 1 && record.fate.is_drop() {
        format!("link {}: {said}", record.dropped_in + 1)
    } else {
        said
    })
}

fn marked(record: &PacketRecord, in_force: &[Stretch]) -> String {
    let lanes = in_force
        .iter()
        .map(|stretch| stretch.lane(record.direction));
    let marking: Vec<String> = lanes
        .filter(|lane| lane.queue.marks_ecn)
        .map(queue)
        .collect();
    format!("marked by the queue ({})", marking.join(" or "))
}

fn loss(lane: &LaneSettings) -> String {
    Setting::Loss(lane.loss).to_string()
}

fn drops(lane: &LaneSettings) -> String {
    let rules = lane
        .drops
        .iter()
        .map(|rule| Setting::Drop(rule.clone()).to_string());
    rules.collect::<Vec<_>>().join(", ")
}

fn blackouts(lane: &LaneSettings) -> String {
    let windows = lane
        .blackouts
        .iter()
        .map(|window| Setting::Blackout(*window).to_string());
    windows.collect::<Vec<_>>().join(", ")
}

fn queue(lane: &LaneSettings) -> String {
    Setting::Queue(lane.queue).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall_base::Duration;
    use squall_base::record::Direction;
    use squall_link::{Link, text};

    /// The comment of a 20-byte packet that arrives one second after the start.
    fn comment(first: &str, second: &str, schedule: &str) -> Option<String> {
        let mut no_traces = |_: &str| Err("none".to_owned());
        let mut stretches = [Stretch::default(), Stretch::default()];
        for (stretch, list) in stretches.iter_mut().zip([first, second]) {
            for setting in text::settings(list, &mut no_traces).unwrap() {
                stretch.apply(None, &setting);
            }
        }
        let settings = LinkSettings {
            seed: 1,
            stretches: stretches.into(),
            schedule: text::schedule(schedule, &mut no_traces).unwrap(),
        };
        let mut link = Link::new(&settings, Time::ZERO);
        let now = Time::ZERO + Duration::from_secs(1);
        link.offer(now, Direction::Up, vec![0x45; 20]);
        let departure = link.take(now + Duration::from_secs(1)).unwrap();
        of(&departure.record, &settings, Some(Time::ZERO))
    }

    #[test]
    fn comment_names_the_stretch_and_the_setting_in_force() {
        assert_eq!(
            comment("delay 5ms", "", "").as_deref(),
            Some("squall: still in the link when it ended")
        );
        assert_eq!(
            comment("loss 1%", "loss 100%", "").as_deref(),
            Some("squall: link 2: dropped by loss (loss 100%)")
        );
        assert_eq!(
            comment("", "", "at 500ms: blackout 2s at 0s\nat 1500ms: loss 50%").as_deref(),
            Some("squall: link 1: dropped in a blackout (blackout 2s at 0ms)")
        );
    }
}

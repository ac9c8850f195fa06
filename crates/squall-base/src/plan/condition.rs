//! What the links do in a cell: their settings in each direction, and the schedule that changes them.
//!
//! squall-link gives the settings their meaning (docs/LINK.md); squall-recipe decides which conditions a run has.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use crate::quantity::Probability;
use crate::record::Direction;
use crate::time::Duration;

/// A value for each direction of the link. In JSON it is a single value if both directions are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "JsonForm<T>", into = "JsonForm<T>")]
#[serde(bound(
    serialize = "T: Clone + PartialEq + Serialize",
    deserialize = "T: Clone + Deserialize<'de>"
))]
pub struct PerDirection<T> {
    /// Towards the server.
    pub up: T,
    /// Towards the client.
    pub down: T,
}

/// The JSON form of a value for each direction.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum JsonForm<T> {
    Both(T),
    Each { up: T, down: T },
}

impl<T: Clone> From<JsonForm<T>> for PerDirection<T> {
    fn from(written: JsonForm<T>) -> PerDirection<T> {
        match written {
            JsonForm::Both(value) => value.into(),
            JsonForm::Each { up, down } => PerDirection { up, down },
        }
    }
}

impl<T: PartialEq> From<PerDirection<T>> for JsonForm<T> {
    fn from(value: PerDirection<T>) -> JsonForm<T> {
        let PerDirection { up, down } = value;
        if up == down {
            JsonForm::Both(up)
        } else {
            JsonForm::Each { up, down }
        }
    }
}

/// The same value for both directions.
impl<T: Clone> From<T> for PerDirection<T> {
    fn from(value: T) -> PerDirection<T> {
        PerDirection {
            up: value.clone(),
            down: value,
        }
    }
}

impl<T> PerDirection<T> {
    /// The value of one direction.
    pub fn of(&self, direction: Direction) -> &T {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}

/// `10ms`, or `up 5ms down 40ms`.
impl<T: Display + PartialEq> Display for PerDirection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.up == self.down {
            self.up.fmt(f)
        } else {
            write!(f, "up {} down {}", self.up, self.down)
        }
    }
}

/// The links' settings in a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// One-way delay of the first link.
    #[serde(rename = "delay_ns", alias = "delay")]
    pub delay: PerDirection<Duration>,
    /// The share of IP packets lost there, drawn independently for each packet and direction.
    pub loss: PerDirection<Probability>,
    /// That link's other settings, in their own notation (docs/LINK.md); empty for none.
    pub link: PerDirection<String>,
    /// The schedule that changes all of this: its file, as the recipe names it; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub schedule: String,
    /// The settings of the links after the first, in order. A link without an entry has the settings and the schedule of
    /// the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next_links: Vec<LinkConditions>,
}

/// The settings of a link after the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkConditions {
    /// One-way delay.
    #[serde(rename = "delay_ns", alias = "delay")]
    pub delay: PerDirection<Duration>,
    /// The share of IP packets lost.
    pub loss: PerDirection<Probability>,
    /// Other settings, in their own notation; empty for none.
    pub link: PerDirection<String>,
}

impl Condition {
    /// The condition of one link, as if it were the only one of its path. `link` is its place among the path's links, from 0.
    pub fn of_link(&self, link: usize) -> Condition {
        let next = link
            .checked_sub(1)
            .and_then(|place| self.next_links.get(place));
        let own = Condition {
            next_links: Vec::new(),
            ..self.clone()
        };
        match next {
            None => own,
            Some(next) => Condition {
                delay: next.delay,
                loss: next.loss,
                link: next.link.clone(),
                schedule: String::new(),
                ..own
            },
        }
    }

    /// The delays of the first link in both directions, added up: the least time that a packet and its reply take there.
    pub fn round_trip(&self) -> Duration {
        self.delay.up + self.delay.down
    }

    /// Everything except delay and loss of the first link, as parts of the condition's name: settings of one direction with
    /// that direction as a prefix, then those of both directions, the schedule, and each further link with its number as a
    /// prefix.
    pub fn further(&self) -> Vec<String> {
        let schedule = Some(&self.schedule).filter(|schedule| !schedule.is_empty());
        let mut parts = further_settings(&self.link);
        parts.extend(schedule.map(|file| format!("schedule {file}")));
        for (number, next) in (2..).zip(&self.next_links) {
            let delay_and_loss = [
                format!("delay {}", next.delay),
                format!("loss {}", next.loss),
            ];
            let all = delay_and_loss
                .into_iter()
                .chain(further_settings(&next.link));
            parts.extend(all.map(|part| format!("link {number} {part}")));
        }
        parts
    }
}

/// The settings of a link as parts of a condition's name.
fn further_settings(link: &PerDirection<String>) -> Vec<String> {
    let settings = |direction| {
        let settings = link.of(direction).split(", ");
        settings.filter(|it| !it.is_empty())
    };
    let has = |direction, setting: &str| settings(direction).any(|other| other == setting);
    let own = Direction::ALL.into_iter().flat_map(|direction| {
        settings(direction)
            .filter(move |setting| !has(direction.opposite(), setting))
            .map(move |setting| format!("{} {setting}", direction.name()))
    });
    let shared = settings(Direction::Up).filter(|setting| has(Direction::Down, setting));
    own.chain(shared.map(str::to_owned)).collect()
}

/// Its name in tables: `delay 10ms, loss up 0% down 3%, up rate 2mbit, down rate 20mbit, queue codel`, and with a further
/// link `delay 5ms, loss 0%, link 2 delay 20ms, link 2 loss 1%`. No part contains a comma.
impl Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "delay {}, loss {}", self.delay, self.loss)?;
        let mut further = self.further().into_iter();
        further.try_for_each(|part| write!(f, ", {part}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition() -> Condition {
        Condition {
            delay: Duration::from_millis(10).into(),
            loss: Probability::ZERO.into(),
            link: String::new().into(),
            schedule: String::new(),
            next_links: Vec::new(),
        }
    }

    #[test]
    fn further_link_has_its_own_settings_or_those_of_the_first() {
        let mut two = condition();
        two.schedule = "a.schedule".to_owned();
        let first = two.of_link(0);
        assert_eq!(two.of_link(1), first, "it has no entry");
        two.next_links.push(LinkConditions {
            delay: Duration::from_millis(20).into(),
            loss: Probability::ZERO.into(),
            link: "rate 2mbit".to_owned().into(),
        });
        assert_eq!(two.of_link(0), first);
        assert_eq!(
            two.of_link(1).to_string(),
            "delay 20ms, loss 0%, rate 2mbit",
            "the schedule is the first link's"
        );
        assert_eq!(
            two.to_string(),
            "delay 10ms, loss 0%, schedule a.schedule, link 2 delay 20ms, link 2 loss 0%, link 2 rate 2mbit"
        );
        let read: Condition = serde_json::from_value(serde_json::to_value(&two).unwrap()).unwrap();
        assert_eq!(read, two);
    }

    #[test]
    fn equal_directions_are_written_as_one_value() {
        let json = serde_json::to_value(condition()).unwrap();
        assert_eq!(
            json,
            serde_json::json!({ "delay_ns": 10_000_000, "loss": 0.0, "link": "" })
        );
        let read: Condition = serde_json::from_value(json).unwrap();
        assert_eq!(read, condition());
        let earlier = serde_json::json!({ "delay": 10_000_000, "loss": 0.0, "link": "" });
        let read: Condition = serde_json::from_value(earlier).unwrap();
        assert_eq!(read, condition(), "schema 9 had no unit in the name");
    }

    #[test]
    fn different_directions_are_written_separately() {
        let apart = Condition {
            delay: PerDirection {
                up: Duration::from_millis(5),
                down: Duration::from_millis(40),
            },
            schedule: "a.schedule".to_owned(),
            ..condition()
        };
        let json = serde_json::to_value(&apart).unwrap();
        assert_eq!(
            json["delay_ns"],
            serde_json::json!({ "up": 5_000_000, "down": 40_000_000 })
        );
        let read: Condition = serde_json::from_value(json).unwrap();
        assert_eq!(read, apart);
        assert_eq!(read.round_trip(), Duration::from_millis(45));
        assert_eq!(
            read.to_string(),
            "delay up 5ms down 40ms, loss 0%, schedule a.schedule"
        );
    }

    #[test]
    fn settings_of_both_directions_are_named_once() {
        let named = |up: &str, down: &str| {
            let link = PerDirection {
                up: up.to_owned(),
                down: down.to_owned(),
            };
            Condition {
                link,
                ..condition()
            }
            .further()
            .join(", ")
        };
        assert_eq!(
            named("rate 2mbit, queue codel", "rate 20mbit, queue codel"),
            "up rate 2mbit, down rate 20mbit, queue codel"
        );
        assert_eq!(named("rate 2mbit", "rate 2mbit"), "rate 2mbit");
        assert_eq!(named("", "rate 2mbit"), "down rate 2mbit");
        assert_eq!(named("", ""), "");
    }
}

//! What the link does in a cell: its settings in each direction, and the schedule that changes them.
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

/// The link's settings in a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// One-way delay.
    pub delay: PerDirection<Duration>,
    /// The share of IP packets lost, drawn independently for each packet and direction.
    pub loss: PerDirection<Probability>,
    /// The link's other settings, in their own notation (docs/LINK.md); empty for none.
    pub link: PerDirection<String>,
    /// The schedule that changes all of this: its file, as the recipe names it; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub schedule: String,
}

impl Condition {
    /// Both delays: the least time that a packet and its reply take.
    pub fn round_trip(&self) -> Duration {
        self.delay.up + self.delay.down
    }

    /// Everything except delay and loss, as parts of the condition's name: settings of one direction with that
    /// direction as a prefix, then those of both directions, the schedule last.
    pub fn further(&self) -> Vec<String> {
        let settings = |direction| {
            self.link
                .of(direction)
                .split(", ")
                .filter(|it| !it.is_empty())
        };
        let has = |direction, setting: &str| settings(direction).any(|other| other == setting);
        let own = Direction::ALL.into_iter().flat_map(|direction| {
            settings(direction)
                .filter(move |setting| !has(direction.opposite(), setting))
                .map(move |setting| format!("{} {setting}", direction.name()))
        });
        let shared = settings(Direction::Up).filter(|setting| has(Direction::Down, setting));
        let schedule = Some(&self.schedule).filter(|schedule| !schedule.is_empty());
        own.chain(shared.map(str::to_owned))
            .chain(schedule.map(|file| format!("schedule {file}")))
            .collect()
    }
}

/// Its name in tables: `delay 10ms, loss up 0% down 3%, up rate 2mbit, down rate 20mbit, queue codel`. No part contains
/// a comma.
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
        }
    }

    #[test]
    fn equal_directions_are_written_as_one_value() {
        let json = serde_json::to_value(condition()).unwrap();
        assert_eq!(
            json,
            serde_json::json!({ "delay": 10_000_000, "loss": 0.0, "link": "" })
        );
        let read: Condition = serde_json::from_value(json).unwrap();
        assert_eq!(read, condition());
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
            json["delay"],
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

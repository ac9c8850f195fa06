//! What the link does in a cell: its settings in each direction, and the schedule by which they change.
//!
//! What the words of settings mean is squall-link's (docs/LINK.md); which conditions a run has, squall-recipe's.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use crate::quantity::Probability;
use crate::record::Direction;
use crate::time::Duration;

/// A value for each direction of the link. As JSON it is the value itself if both directions have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written<T>", into = "Written<T>")]
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

/// How a value for each direction is written.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written<T> {
    Both(T),
    Each { up: T, down: T },
}

impl<T: Clone> From<Written<T>> for PerDirection<T> {
    fn from(written: Written<T>) -> PerDirection<T> {
        match written {
            Written::Both(value) => value.into(),
            Written::Each { up, down } => PerDirection { up, down },
        }
    }
}

impl<T: PartialEq> From<PerDirection<T>> for Written<T> {
    fn from(value: PerDirection<T>) -> Written<T> {
        let PerDirection { up, down } = value;
        if up == down {
            Written::Both(up)
        } else {
            Written::Each { up, down }
        }
    }
}

/// The same in both directions.
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
    /// The share of IP packets lost, drawn for each packet and each direction by itself.
    pub loss: PerDirection<Probability>,
    /// What else the link does, in the words of its settings (docs/LINK.md); empty for nothing.
    pub link: PerDirection<String>,
    /// The schedule by which all of this changes: its file, as the recipe names it; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub schedule: String,
}

impl Condition {
    /// Both ways: what a packet and its answer take at least, by `delay`.
    pub fn round_trip(&self) -> Duration {
        self.delay.up + self.delay.down
    }

    /// What there is besides delay and loss, in the parts of the condition's name: settings of one direction with that
    /// direction before them, those of both directions behind them, the schedule last.
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

/// Its name in tables: `delay 10ms, loss up 0% down 3%, up rate 2mbit, down rate 20mbit, queue codel`. No part has a
/// comma within it.
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
    fn directions_that_are_alike_are_written_as_one_value() {
        let json = serde_json::to_value(condition()).unwrap();
        assert_eq!(
            json,
            serde_json::json!({ "delay": 10_000_000, "loss": 0.0, "link": "" })
        );
        let read: Condition = serde_json::from_value(json).unwrap();
        assert_eq!(read, condition());
    }

    #[test]
    fn directions_that_differ_are_written_apart() {
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

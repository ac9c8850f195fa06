//! The words for connections that `squall load` and `squall proxy` have and recipes call `pool`: which one a request gets,
//! and how many are opened before the first.
//!
//! Only the words; the pool itself is squall-load's.

use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use squall_base::plan::PoolOrder;

use crate::BadInput;

/// What `--order` can say: the words of recipes.
pub(crate) fn pool_orders() -> impl TypedValueParser<Value = PoolOrder> {
    PossibleValuesParser::new(PoolOrder::ALL.map(PoolOrder::name))
        .try_map(|word| word.parse::<PoolOrder>())
}

/// How many connections are opened before the first request: `all` that there may be, or so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Warm {
    All,
    Count(u32),
}

impl Warm {
    /// How many of `most` connections that is, where the flag `of` says how many there are.
    pub(crate) fn of(self, most: u32, of: &str) -> Result<u32, BadInput> {
        match self {
            Warm::All => Ok(most),
            Warm::Count(count) if count > most => Err(BadInput::new(format!(
                "--warm={count} is more connections than there are: expected at most {most} ({of})"
            ))),
            Warm::Count(count) => Ok(count),
        }
    }
}

impl FromStr for Warm {
    type Err = String;

    fn from_str(text: &str) -> Result<Warm, String> {
        match text {
            "all" => Ok(Warm::All),
            _ => (text.parse().map(Warm::Count))
                .map_err(|_| "expected a number of connections, or `all`".to_owned()),
        }
    }
}

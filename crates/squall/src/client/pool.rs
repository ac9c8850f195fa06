//! Connection pool flags shared by `squall load` and `squall proxy`, called `pool` in recipes: which connection a
//! request gets, and how many are opened before the first request.
//!
//! Only the parsing; the pool itself is in squall-load.

use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use squall_base::plan::PoolOrder;

use crate::outcome::BadInput;

/// Parser for the values of `--order`, the same as in recipes.
pub(crate) fn pool_orders() -> impl TypedValueParser<Value = PoolOrder> {
    PossibleValuesParser::new(PoolOrder::ALL.map(PoolOrder::name))
        .try_map(|word| word.parse::<PoolOrder>())
}

/// How many connections to open before the first request: `all` that are allowed, or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WarmCount {
    All,
    Count(u32),
}

impl WarmCount {
    /// The number of connections to open, of at most `most`. `flag` is the one that sets that limit, for the error
    /// message.
    pub(crate) fn resolve(self, most: u32, flag: &str) -> Result<u32, BadInput> {
        match self {
            WarmCount::All => Ok(most),
            WarmCount::Count(count) if count > most => Err(BadInput::new(format!(
                "--warm={count} is more connections than there are: expected at most {most} ({flag})"
            ))),
            WarmCount::Count(count) => Ok(count),
        }
    }
}

impl FromStr for WarmCount {
    type Err = String;

    fn from_str(text: &str) -> Result<WarmCount, String> {
        match text {
            "all" => Ok(WarmCount::All),
            _ => (text.parse().map(WarmCount::Count))
                .map_err(|_| "expected a number of connections, or `all`".to_owned()),
        }
    }
}

//! Parsers for the numbers of flags, with the limits of recipes (`squall_recipe::limits`) and the reason for each in the
//! message.
//!
//! Larger numbers would use up all memory, or take forever, before anything is sent.

use squall_recipe::limits::{
    MAX_CONNECTIONS, MAX_REPETITIONS, MAX_STREAMS, MAX_TILES, MAX_USERS, MAX_WEIGHT,
};

/// The most requests in flight in a closed load: its users, or `-c` times `-m`. Each request takes some 100 bytes
/// before the first is sent.
pub(crate) const MAX_AT_ONCE: u32 = 1_000_000;

pub(crate) fn connections(text: &str) -> Result<u32, String> {
    let why = "one client address has fewer ports than that towards a server";
    whole(text, 1, MAX_CONNECTIONS, why)
}

/// A number of concurrent requests on a connection.
pub(crate) fn streams(text: &str) -> Result<u32, String> {
    whole(text, 1, MAX_STREAMS, "HTTP/2 allows no more streams")
}

pub(crate) fn users(text: &str) -> Result<u32, String> {
    let why = "each may need file descriptors for connections of its own";
    whole(text, 1, MAX_USERS, why)
}

pub(crate) fn tiles(text: &str) -> Result<u32, String> {
    whole(text, 1, MAX_TILES, "each is a request of the page")
}

/// A relative share.
pub(crate) fn weight(text: &str) -> Result<u32, String> {
    whole(text, 0, MAX_WEIGHT, "shares are relative")
}

pub(crate) fn rounds(text: &str) -> Result<u32, String> {
    let why = "each runs every version again";
    whole(text, 1, MAX_REPETITIONS, why)
}

fn whole(text: &str, least: u32, most: u32, why: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ if text.is_empty() || text.bytes().any(|byte| !byte.is_ascii_digit()) => {
            Err("expected a whole number".to_owned())
        }
        _ => Err(format!("expected {least} to {most}: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_their_limits_are_refused_with_the_reason() {
        type Parser = fn(&str) -> Result<u32, String>;
        let parsers: [(Parser, u32, u32); 6] = [
            (connections, 1, MAX_CONNECTIONS),
            (streams, 1, MAX_STREAMS),
            (users, 1, MAX_USERS),
            (tiles, 1, MAX_TILES),
            (weight, 0, MAX_WEIGHT),
            (rounds, 1, MAX_REPETITIONS),
        ];
        for (parse, least, most) in parsers {
            for number in [least, most] {
                assert_eq!(parse(&number.to_string()), Ok(number));
            }
            for text in [(most + 1).to_string(), "99999999999999999999".to_owned()] {
                let said = parse(&text).unwrap_err();
                assert!(
                    said.starts_with(&format!("expected {least} to {most}: ")),
                    "{said}"
                );
            }
            for text in ["", "-1", "1.5", "many", "1e6"] {
                assert_eq!(
                    parse(text),
                    Err("expected a whole number".to_owned()),
                    "{text}"
                );
            }
        }
        assert!(connections("0").is_err() && weight("0").is_ok());
    }
}

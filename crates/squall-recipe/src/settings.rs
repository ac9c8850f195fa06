//! Settings of one side outside a recipe, as in `squall serve --preset alb --set http2.stream_window=1MiB`.
//!
//! It uses the readers of recipes, so a key means the same and accepts the same values in both places. The functions
//! change or check plain values; the caller decides which side they belong to and in which order they apply. `conflict`
//! finds contradictions, `presets` has the presets.

use std::fmt;

use squall_base::plan::{Protocol, Side, SideSettings};
use thiserror::Error;

pub use crate::conflict::{Conflict, check};
use crate::error::{Mistake, RecipeError};
pub use crate::presets::{PROXY_DELAYS, UnknownPreset, preset};
use crate::problems::Problems;
use crate::raw::RawRecipe;
use crate::read;
use crate::shapes;
use crate::words::printable;

/// An invalid assignment.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct SettingError {
    /// The assignment as it was given.
    pub assignment: String,
    /// What is wrong with it.
    pub mistake: Box<Mistake>,
    /// What was expected instead.
    pub expected: String,
    /// A guess at what was meant.
    pub hint: Option<String>,
}

/// Applies one assignment, such as `http2.stream_window=1MiB`: a dotted key of a recipe's `client` or `server`, and a value
/// as in a recipe, except that text may lack its quotes. `settings` are those of `side`, for connections that speak one of
/// `protocols`.
///
/// ```
/// use squall_base::plan::{Protocol, Side, SideSettings, WindowUpdates};
/// use squall_base::Bytes;
/// use squall_recipe::settings::apply;
///
/// let mut settings = SideSettings::default();
/// let mut set = |text| apply(&mut settings, text, Side::Server, &[Protocol::H1, Protocol::H2c]);
/// set("http2.max_concurrent_streams=128")?;
/// set("http2.window_updates.each_data=16375")?;
/// set("http1={framing=\"chunked\", requests_per_connection=1000}")?;
/// let error = set("tcp.no_dely=false").unwrap_err().to_string();
/// assert!(error.ends_with("(did you mean `no_delay`?)"), "{error}");
/// assert_eq!(settings.http2.window_updates, WindowUpdates::EachData(Bytes::new(16_375)));
/// # Ok::<(), squall_recipe::settings::SettingError>(())
/// ```
///
/// # Errors
/// If the key is unknown, its value is invalid, or the side would ignore it. Then nothing is changed, and only the first
/// mistake is reported.
pub fn apply(
    settings: &mut SideSettings,
    assignment: &str,
    side: Side,
    protocols: &[Protocol],
) -> Result<(), SettingError> {
    let refuse = |mistake: Mistake, expected: &str, hint: Option<String>| SettingError {
        assignment: assignment.to_owned(),
        mistake: Box::new(mistake),
        expected: expected.to_owned(),
        hint,
    };
    let Some((key, value)) = assignment.split_once('=') else {
        let mistake = Mistake::NotAnAssignment;
        return Err(refuse(
            mistake,
            "`http2.stream_window=1MiB`, for example",
            None,
        ));
    };
    let (key, value) = (key.trim(), value.trim());
    let is_key = key.split('.').all(|part| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    });
    if !is_key {
        let mistake = Mistake::Malformed {
            text: key.to_owned(),
            rule: "a key",
        };
        let expected = "names with points between them, such as `http2.stream_window`";
        return Err(refuse(mistake, expected, None));
    }
    if value.is_empty() || value.contains(char::is_control) {
        let mistake = Mistake::Malformed {
            text: value.to_owned(),
            rule: "a value",
        };
        return Err(refuse(mistake, "one line of text", None));
    }
    let read = |document: &str| read_document(settings, document, side, protocols);
    match read_either_way(read, key, value) {
        Ok(changed) => {
            *settings = changed;
            Ok(())
        }
        Err(error) => {
            let first = error.into_first();
            Err(refuse(first.mistake, &first.expected, first.hint))
        }
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mistake = self.mistake.to_string();
        write!(
            f,
            "`{}`: {}",
            printable(&self.assignment),
            printable(&mistake)
        )?;
        write!(f, ": expected {}", self.expected)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// Reads the value as TOML and, if that does not suit the key, as text that lacks its quotes: `1300` is a number in TOML,
/// but can be a size here.
fn read_either_way(
    read: impl Fn(&str) -> Result<SideSettings, RecipeError>,
    key: &str,
    value: &str,
) -> Result<SideSettings, RecipeError> {
    let as_toml = match read(&format!("{key} = {value}")) {
        Ok(changed) => return Ok(changed),
        Err(error) => error,
    };
    let is_text = !value.starts_with(['"', '\'', '[', '{']);
    let may_lack_quotes = as_toml.begins_with(|mistake| {
        matches!(mistake, Mistake::Syntax { .. } | Mistake::WrongType { .. })
    });
    if !is_text || !may_lack_quotes {
        return Err(as_toml);
    }
    let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
    read(&format!("{key} = \"{escaped}\"")).map_err(|as_text| {
        // If neither type suits the key, the message about the TOML type is the useful one.
        let is_type = |mistake: &Mistake| matches!(mistake, Mistake::WrongType { .. });
        if as_toml.begins_with(is_type) && as_text.begins_with(is_type) {
            as_toml
        } else {
            as_text
        }
    })
}

fn read_document(
    settings: &SideSettings,
    document: &str,
    side: Side,
    protocols: &[Protocol],
) -> Result<SideSettings, RecipeError> {
    let problems = Problems::new(document);
    let mut changed = settings.clone();
    let read = RawRecipe::parse(document, &problems).and_then(|raw| {
        let root = raw.root(&shapes::SETTINGS, &problems);
        read::settings(&root, side, protocols, &mut changed)
    });
    problems.finish(read).map(|()| changed)
}

#[cfg(test)]
mod tests {
    use squall_base::plan::{BodyFraming, RecordSizes, TlsVersion, WindowUpdates, presets};
    use squall_base::{Bytes, Duration};

    use super::*;

    #[track_caller]
    fn with(assignments: &[&str]) -> SideSettings {
        let mut settings = SideSettings::default();
        for assignment in assignments {
            apply(&mut settings, assignment, Side::Client, &Protocol::ALL).unwrap();
        }
        settings
    }

    #[track_caller]
    fn refused(assignment: &str) -> String {
        let mut settings = SideSettings::default();
        let error =
            apply(&mut settings, assignment, Side::Client, &Protocol::ALL).expect_err("a mistake");
        assert_eq!(settings, SideSettings::default(), "nothing was changed");
        error.to_string()
    }

    #[test]
    fn quotes_may_be_left_out() {
        for records in ["1300", "\"1300\"", "'1300'", "1300B"] {
            let settings = with(&[&format!("tls.records={records}")]);
            assert_eq!(settings.tls.records, RecordSizes::Fixed(Bytes::new(1_300)));
        }
        let settings = with(&[
            " http2.window_updates = {each_data=\"16375\"} ",
            "http1.framing.chunked=1KiB",
            "tls.min_version=1.3",
            "tls.ciphers=ECDHE+AESGCM:!aNULL",
            "tcp.keep_alive=15s",
            "tcp.no_delay=false",
            "tcp.congestion_control=bbr",
            "http1.requests_per_connection=1_000",
            "http3.max_udp_payload=65507",
        ]);
        assert_eq!(
            settings.http2.window_updates,
            WindowUpdates::EachData(Bytes::new(16_375))
        );
        assert_eq!(
            settings.http1.framing,
            BodyFraming::Chunked(Bytes::new(1_024))
        );
        assert_eq!(settings.tls.min_version, TlsVersion::Tls13);
        assert_eq!(settings.tls.ciphers.as_deref(), Some("ECDHE+AESGCM:!aNULL"));
        assert_eq!(settings.tcp.keep_alive, Some(Duration::from_secs(15)));
        assert!(!settings.tcp.no_delay);
        assert_eq!(settings.tcp.congestion_control.as_deref(), Some("bbr"));
        assert_eq!(settings.http1.requests_per_connection, Some(1_000));
        assert_eq!(settings.http3.max_udp_payload, Bytes::new(65_507));
    }

    #[test]
    fn later_assignments_win_and_others_stay() {
        let settings = with(&[
            "http2.window_updates=never",
            "http2.stream_window=1MiB",
            "http2.window_updates=half",
        ]);
        assert_eq!(settings.http2.window_updates, WindowUpdates::Half);
        assert_eq!(settings.http2.stream_window, Bytes::new(1 << 20));
    }

    #[test]
    fn keys_that_a_side_ignores_are_refused() {
        let (client, server) = (Side::Client, Side::Server);
        for (side, other, assignment, says) in [
            (client, server, "http2.goaway_after=5", "in `server`"),
            (
                client,
                server,
                "http3.max_concurrent_streams=5",
                "in `server`",
            ),
            (server, client, "tcp.local_ports=40000-40099", "in `client`"),
            (
                server,
                client,
                "http2.requests_per_connection=1",
                "in `client`; a server of HTTP/2 has `goaway_after`",
            ),
            (
                server,
                client,
                "http3.requests_per_connection=1",
                "in `client`",
            ),
            (
                server,
                client,
                "http2.retry_unprocessed=true",
                "in `client`, which sends requests",
            ),
        ] {
            let set = SideSettings::default();
            let error = apply(&mut set.clone(), assignment, side, &Protocol::ALL);
            let error = error.expect_err("nobody hears it").to_string();
            assert!(error.contains(says), "{error}");
            apply(&mut set.clone(), assignment, other, &Protocol::ALL).expect("it does there");
        }
        // A key of a protocol that is not spoken has no effect.
        for (assignment, spoken, says) in [
            (
                "http2.goaway_after=5",
                &[Protocol::H1, Protocol::H3][..],
                "without HTTP/2",
            ),
            ("tls.records=1300", &[Protocol::H2c], "without TLS"),
            ("tls.records=1300", &[Protocol::H3], "without TLS records"),
            ("tcp.no_delay=false", &[Protocol::H3], "without TCP"),
        ] {
            let set = SideSettings::default();
            let error = apply(&mut set.clone(), assignment, Side::Server, spoken);
            let error = error.expect_err("nobody speaks it").to_string();
            assert!(error.contains(says), "{error}");
            let all = &Protocol::ALL;
            apply(&mut set.clone(), assignment, Side::Server, all).expect("somebody speaks it");
        }
    }

    #[test]
    fn mistakes_name_what_is_wrong_and_what_is_expected() {
        let cases = [
            (
                "http2.stream_window",
                "no `=`: expected `http2.stream_window=1MiB`, for example",
            ),
            (
                "http2.stream_window=",
                "\"\" is not a value: expected one line of text",
            ),
            (
                "http2..x=1",
                "\"http2..x\" is not a key: expected names with points between them, such as \
                 `http2.stream_window`",
            ),
            (
                "htp2.x=1",
                "unknown key `htp2` in the settings: expected `http1`, `http2`, `http3`, `tls` or `tcp` \
                 (did you mean `http2`?)",
            ),
            (
                "http2.stream_window=5GiB",
                "`stream_window` is out of range: 5GiB: expected 1 to 2147483647 bytes",
            ),
            (
                "http2.stream_window=1 parsec",
                "unknown unit \"parsec\" in \"1 parsec\": expected a size, such as \"1024\", \"1KiB\" or \
                 \"64KiB\"",
            ),
            (
                "http2.max_concurrent_streams=0",
                "`max_concurrent_streams` is out of range: 0: expected a whole number from 1 to 2147483647",
            ),
            (
                "http2.max_concurrent_streams=many",
                "`max_concurrent_streams` is a text: expected a whole number from 1 to 2147483647",
            ),
            (
                "http2.max_concurrent_streams=1.5",
                "`max_concurrent_streams` is a number with a point: expected a whole number from 1 to \
                 2147483647",
            ),
            (
                "http2.window_updates=haf",
                "\"haf\" is not a rule for window updates: expected \"half\", \"never\", { every = \"64KiB\" }, \
                 { each_data = \"16375\" } or { grant = \"8000000\" } (did you mean `half`?)",
            ),
            (
                "tls.records=0",
                "`records` is out of range: 0: expected 1 to 16384 bytes",
            ),
            (
                "tcp.no_delay=maybe",
                "`no_delay` is a text: expected true or false",
            ),
            (
                "http2={stream_window=\"1MiB\"",
                "unclosed inline table: expected `}`",
            ),
        ];
        for (assignment, expected) in cases {
            let expected = format!("`{assignment}`: {expected}");
            assert_eq!(refused(assignment), expected);
        }
    }

    #[test]
    fn values_with_control_characters_are_refused() {
        let error = refused("tcp.congestion_control=bbr\nhttp2.data_size=1");
        assert!(!error.contains('\n'), "{error}");
        refused("tcp.congestion_control=a\"\u{7}");
    }

    #[test]
    fn contradictions_are_found_only_where_they_matter() {
        let settings = with(&["tls.min_version=1.3", "tls.max_version=1.2"]);
        assert_eq!(check(&settings, Protocol::H2c), Ok(()));
        assert_eq!(
            check(&settings, Protocol::H2).unwrap_err().to_string(),
            "TLS versions from 1.3 to 1.2"
        );
        let settings = with(&["tls.max_version=1.2"]);
        assert_eq!(check(&settings, Protocol::H2), Ok(()));
        assert_eq!(
            check(&settings, Protocol::H3).unwrap_err().to_string(),
            "HTTP/3 with TLS 1.2 at most"
        );
        let newer = ["tls.max_version=1.2", "tls.groups=X25519MLKEM768"];
        assert_eq!(check(&with(&newer), Protocol::H1), Ok(()));
        assert_eq!(
            check(&with(&newer), Protocol::H1s).unwrap_err().to_string(),
            "TLS 1.2 at most with the groups X25519MLKEM768 alone, which only TLS 1.3 has"
        );
        for groups in ["tls.groups=X25519MLKEM768:P-256", "tls.groups=default"] {
            let settings = with(&["tls.max_version=1.2", groups]);
            assert_eq!(check(&settings, Protocol::H2), Ok(()));
        }
        assert_eq!(check(&with(&newer[1..]), Protocol::H2), Ok(()));
        let settings = with(&["http2.window_updates.every=65536"]);
        assert_eq!(check(&settings, Protocol::H1), Ok(()));
        assert_eq!(
            check(&settings, Protocol::H2).unwrap_err().to_string(),
            "window updates every 64KiB with a window of 65535B"
        );
    }

    #[test]
    fn every_preset_is_usable_and_an_unknown_one_lists_the_known() {
        for known in presets() {
            for side in [Side::Client, Side::Server] {
                let settings = preset(known.name, side).unwrap();
                for protocol in Protocol::ALL {
                    assert_eq!(check(&settings, protocol), Ok(()), "{}", known.name);
                }
            }
        }
        let error = preset("ngin", Side::Server).unwrap_err().to_string();
        assert!(error.starts_with("unknown preset `ngin`: expected `nginx`, `envoy`"));
        assert!(error.ends_with("(did you mean `nginx`?)"), "{error}");
    }
}

//! The settings of a side from the command line: a preset, `--set` on top, and whether that can be.
//!
//! Only who may speak what, so that a setting which nobody would hear is refused, and what the machine has to say to it;
//! keys and values are squall-recipe's.

use squall_base::Side;
use squall_base::plan::{Protocol, SideSettings};
use squall_http::Scheme;
use squall_linux::host::SLOW_START_AFTER_IDLE;
use squall_linux::sysctl;
use squall_recipe::settings;

use super::{ConnectionFlags, Http};
use crate::BadInput;

impl ConnectionFlags {
    /// All that may come to be spoken where one of these versions, or any if there is none, is wanted: what `--set` can
    /// be about.
    pub(crate) fn may_speak(
        &self,
        wanted: &[Http],
        scheme: Scheme,
    ) -> Result<Vec<Protocol>, BadInput> {
        if wanted.is_empty() {
            return self.may_come_to(None, scheme);
        }
        let mut all = Vec::new();
        for http in wanted {
            all.extend(self.may_come_to(Some(*http), scheme)?);
        }
        Ok(all)
    }

    /// The protocol to begin with, and those that ALPN, an upgrade or an alternative may lead to instead.
    fn may_come_to(&self, http: Option<Http>, scheme: Scheme) -> Result<Vec<Protocol>, BadInput> {
        let (first, is_strict) = self.protocol(http, scheme)?;
        let others: &[Protocol] = match (http, scheme) {
            (Some(Http::Auto), Scheme::Https) => &[Protocol::H3, Protocol::H1s],
            (_, Scheme::Https) if !is_strict => &[Protocol::H1s],
            (_, Scheme::Http) if self.upgrade => &[Protocol::H2c],
            _ => &[],
        };
        Ok([&[first], others].concat())
    }

    /// The settings of the client's side for connections of `protocol`, which is one of those that `may` be spoken.
    pub(crate) fn settings(
        &self,
        protocol: Protocol,
        may: &[Protocol],
    ) -> Result<SideSettings, BadInput> {
        self.settings_with(protocol, may, &[])
    }

    /// The same where other flags, each given with the assignment that it stands for, have the last word.
    pub(crate) fn settings_with(
        &self,
        protocol: Protocol,
        may: &[Protocol],
        flags: &[(String, String)],
    ) -> Result<SideSettings, BadInput> {
        let preset = self.preset.as_deref();
        let mut found = read_settings(preset, (SET, &self.sets), Side::Client, may)?;
        for (flag, text) in flags {
            settings::apply(&mut found, text, Side::Client, may)
                .map_err(|error| BadInput::new(format!("{flag}: {error}")))?;
        }
        check_settings(&found, &[protocol], SET)?;
        Ok(found)
    }
}

/// The flag of single settings of a command's one side.
pub(crate) const SET: &str = "--set";

/// A preset with single settings on top, of the flag that mistakes are told of, fit for all of the protocols.
pub(crate) fn side_settings(
    preset: Option<&str>,
    sets: (&str, &[String]),
    side: Side,
    protocols: &[Protocol],
) -> Result<SideSettings, BadInput> {
    let found = read_settings(preset, sets, side, protocols)?;
    check_settings(&found, protocols, sets.0)?;
    Ok(found)
}

fn read_settings(
    preset: Option<&str>,
    (flag, sets): (&str, &[String]),
    side: Side,
    protocols: &[Protocol],
) -> Result<SideSettings, BadInput> {
    let mut found = match preset {
        Some(name) => settings::preset(name, side).map_err(BadInput::new)?,
        None => SideSettings::default(),
    };
    for text in sets {
        settings::apply(&mut found, text, side, protocols)
            .map_err(|error| BadInput::new(format!("{flag} {error}")))?;
    }
    Ok(found)
}

fn check_settings(
    found: &SideSettings,
    protocols: &[Protocol],
    flag: &str,
) -> Result<(), BadInput> {
    for protocol in protocols {
        settings::check(found, *protocol).map_err(|conflict| {
            BadInput::new(format!("{conflict}: expected {}", conflict.expected()))
        })?;
    }
    if let Some(segments) = found.tcp.max_cwnd {
        return Err(BadInput::new(format!(
            "{flag} tcp.max_cwnd={segments}: it is a metric of a route, and no command changes what holds for all connections \
             of a machine: expected a recipe, whose hosts are network namespaces of their own"
        )));
    }
    match found.tcp.slow_start_after_idle {
        Some(asked) => check_host(asked, flag),
        None => Ok(()),
    }
}

/// Holds this host to `tcp.slow_start_after_idle`: it is no option of a socket, and a command leaves the machine as it is.
fn check_host(asked: bool, flag: &str) -> Result<(), BadInput> {
    let (name, value) = (SLOW_START_AFTER_IDLE, u8::from(asked));
    let is = sysctl::read(name).map_err(BadInput::new)?;
    if is == value.to_string() {
        return Ok(());
    }
    Err(BadInput::new(format!(
        "{flag} tcp.slow_start_after_idle={asked}: {name} is {is} here, and no command changes what holds for all \
         connections of a machine: expected it to be {value} (`sudo sysctl -w {name}={value}`), or a recipe, whose hosts \
         are network namespaces of their own"
    )))
}

//! The settings of one side from the command line: a preset, `--set` on top of it, and whether the result is possible.
//!
//! Rejects settings that cannot take effect, because no possible protocol uses them or the machine's configuration
//! differs. squall-recipe defines keys and values.

use squall_base::Side;
use squall_base::plan::{Protocol, SideSettings, Version};
use squall_http::Scheme;
use squall_linux::host::SLOW_START_AFTER_IDLE;
use squall_linux::sysctl;
use squall_recipe::settings;

use super::flags::{ConnectionFlags, Http, ProtocolChoice};
use crate::outcome::BadInput;

impl ConnectionFlags {
    /// All protocols that may be used when one of these versions is wanted (any version if the list is empty). `--set`
    /// accepts the settings of these protocols.
    pub(crate) fn possible_protocols(
        &self,
        wanted: &[Http],
        scheme: Scheme,
    ) -> Result<Vec<Protocol>, BadInput> {
        if wanted.is_empty() {
            return self.possible_protocols_of(None, scheme);
        }
        let mut all = Vec::new();
        for http in wanted {
            all.extend(self.possible_protocols_of(Some(*http), scheme)?);
        }
        Ok(all)
    }

    /// The protocol to start with, and those that ALPN, an upgrade or an alternative may lead to.
    fn possible_protocols_of(
        &self,
        http: Option<Http>,
        scheme: Scheme,
    ) -> Result<Vec<Protocol>, BadInput> {
        let ProtocolChoice {
            protocol: first,
            is_strict,
        } = self.protocol(http, scheme)?;
        let others: &[Protocol] = match (http, scheme) {
            (Some(Http::Auto), Scheme::Https) => &[Protocol::H3, Protocol::H1s],
            (_, Scheme::Https) if !is_strict => &[Protocol::H1s],
            (_, Scheme::Http) if self.upgrade => &[Protocol::H2c],
            _ => &[],
        };
        Ok([&[first], others].concat())
    }

    /// The client's settings for connections of `protocol`, which is one of those in `possible`.
    pub(crate) fn settings(
        &self,
        protocol: Protocol,
        possible: &[Protocol],
    ) -> Result<SideSettings, BadInput> {
        self.settings_with(protocol, possible, &[])
    }

    /// Like [`settings`](Self::settings), but then applies other flags, which override `--set`. Each comes with the assignment
    /// that it stands for.
    pub(crate) fn settings_with(
        &self,
        protocol: Protocol,
        possible: &[Protocol],
        flags: &[(String, String)],
    ) -> Result<SideSettings, BadInput> {
        let preset = self.preset.as_deref();
        let mut found = read_settings(preset, SET, &self.sets, Side::Client, possible)?;
        for (flag, text) in flags {
            settings::apply(&mut found, text, Side::Client, possible)
                .map_err(|error| BadInput::new(format!("{flag}: {error}")))?;
        }
        if self.retry_unprocessed {
            retry_unprocessed(&mut found, possible)?;
        }
        check_settings(&found, &[protocol], SET)?;
        Ok(found)
    }
}

fn retry_unprocessed(side: &mut SideSettings, possible: &[Protocol]) -> Result<(), BadInput> {
    if possible.iter().all(|of| of.version() == Version::Http1) {
        return Err(BadInput::new(
            "--retry-unprocessed: HTTP/1.1 servers cannot tell which requests they have not processed: expected HTTP/2 or \
             HTTP/3 (--http 2 or --http 3)",
        ));
    }
    side.http2.retry_unprocessed = true;
    side.http3.retry_unprocessed = true;
    Ok(())
}

/// The flag for single settings in commands that have one side.
pub(crate) const SET: &str = "--set";

/// A preset with single settings on top, valid for all of the protocols. `sets` are the values of `flag`, which errors
/// name.
pub(crate) fn side_settings(
    preset: Option<&str>,
    flag: &str,
    sets: &[String],
    side: Side,
    protocols: &[Protocol],
) -> Result<SideSettings, BadInput> {
    let found = read_settings(preset, flag, sets, side, protocols)?;
    check_settings(&found, protocols, flag)?;
    Ok(found)
}

fn read_settings(
    preset: Option<&str>,
    flag: &str,
    sets: &[String],
    side: Side,
    protocols: &[Protocol],
) -> Result<SideSettings, BadInput> {
    let mut found = match preset {
        Some(name) => settings::preset(name, side).map_err(BadInput::new)?,
        None => SideSettings::default(),
    };
    // Recipes name a congestion control, so that a run depends less on the machine. Here it is the kernel's default: an
    // ordinary user may set only some of the others, and a route may have its own (`squall link --cc`).
    found.tcp.congestion_control = None;
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
            "{flag} tcp.max_cwnd={segments}: it is a route metric, and no command changes what applies to all connections of a \
             machine: expected a recipe, whose hosts have their own network namespaces"
        )));
    }
    match found.tcp.slow_start_after_idle {
        Some(asked) => check_host(asked, flag),
        None => Ok(()),
    }
}

/// Checks that this machine already has the wanted `tcp.slow_start_after_idle`: it is not a socket option, and a command
/// does not change the machine's configuration.
fn check_host(asked: bool, flag: &str) -> Result<(), BadInput> {
    let (name, value) = (SLOW_START_AFTER_IDLE, u8::from(asked));
    let is = sysctl::read(name).map_err(BadInput::new)?;
    if is == value.to_string() {
        return Ok(());
    }
    Err(BadInput::new(format!(
        "{flag} tcp.slow_start_after_idle={asked}: {name} is {is} here, and no command changes what applies to all connections \
         of a machine: expected it to be {value} (`sudo sysctl -w {name}={value}`), or a recipe, whose hosts have their own \
         network namespaces"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congestion_control_is_the_kernels_default_unless_set() {
        let asked = ["tcp.congestion_control=reno".to_owned()];
        for side in [Side::Client, Side::Server] {
            for preset in [None, Some("nginx")] {
                let found = |sets: &[String]| {
                    let settings = side_settings(preset, SET, sets, side, &[Protocol::H1]);
                    settings.unwrap().tcp.congestion_control
                };
                assert_eq!(found(&[]), None, "{side:?} {preset:?}");
                assert_eq!(found(&asked).as_deref(), Some("reno"));
            }
        }
    }
}

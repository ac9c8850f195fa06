//! Any other program: a command and a configuration with placeholders, checked before anything is started.
//!
//! Only its author knows what it speaks; squall trusts the recipe. Placeholders are filled in after the command was
//! split into words, so that a folder's name with a blank stays one argument.

use std::net::SocketAddr;

use thiserror::Error;

use crate::driver::{Driver, Refusal, order_refusal, refuse_order, setting_refusal};
use crate::find::{Installable, Version};
use crate::order::{Invocation, Order};
use crate::ready::ReadinessCheck;
use crate::template::{Template, words};

/// The file with the configuration.
const CONFIGURATION: &str = "station.conf";

const PLACEHOLDERS: [&str; 11] = [
    "listen_host",
    "listen_port",
    "upstream_host",
    "upstream_port",
    "protocol",
    "upstream_protocol",
    "certificate",
    "key",
    "trust",
    "folder",
    "configuration",
];

/// A station that a recipe defines, as written there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawStation {
    /// `[station.NAME]`.
    pub name: String,
    /// The program and its arguments, separated by blanks; quotes hold blanks together.
    pub command: String,
    /// The text of a configuration; `{configuration}` is its file.
    pub configuration: Option<String>,
    /// `tcp`, `http GET /path` or `output TEXT`.
    pub ready: String,
}

/// A station that a recipe defines, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenericStation {
    name: String,
    words: Vec<Template>,
    configuration: Option<Template>,
    ready: ReadinessCheck,
}

/// Why a recipe's station is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GenericError {
    /// There is no program.
    #[error(
        "station {0}: its command does not begin with a program; write the program, without a placeholder, and its arguments"
    )]
    NoCommand(String),
    /// A quote is not closed.
    #[error("station {0}: its command has an unclosed quote")]
    Quote(String),
    /// An unknown placeholder, or a brace that belongs to no placeholder.
    #[error("station {station}: unknown placeholder {{{found}}}: expected one of {}; for a brace write {{{{ or }}}}", PLACEHOLDERS.join(", "))]
    Placeholder {
        /// Its name.
        station: String,
        /// The text between the braces.
        found: String,
    },
    /// `{configuration}` without a configuration, or a configuration without it.
    #[error("station {0}: a configuration and {{configuration}} in the command belong together")]
    Configuration(String),
    /// An invalid value of `ready`.
    #[error(
        "station {station}: unknown ready {found:?}: expected \"tcp\", \"http GET /path\" or \"output TEXT\""
    )]
    Ready {
        /// Its name.
        station: String,
        /// The invalid value.
        found: String,
    },
}

impl GenericStation {
    /// Checks a recipe's definition.
    pub fn check(raw: &RawStation) -> Result<GenericStation, GenericError> {
        let station = || raw.name.clone();
        let words = words(&raw.command).ok_or_else(|| GenericError::Quote(station()))?;
        if words.first().is_none_or(String::is_empty) {
            return Err(GenericError::NoCommand(station()));
        }
        let template = |text: &str| {
            Template::read(text, &PLACEHOLDERS).map_err(|found| GenericError::Placeholder {
                station: station(),
                found,
            })
        };
        let words: Vec<Template> = words
            .iter()
            .map(|word| template(word))
            .collect::<Result<_, _>>()?;
        let configuration = raw.configuration.as_deref().map(template).transpose()?;
        if words.first().is_some_and(|word| word.plain().is_none()) {
            return Err(GenericError::NoCommand(station()));
        }
        let is_named = words.iter().any(|word| word.has("configuration"));
        if is_named != configuration.is_some() {
            return Err(GenericError::Configuration(station()));
        }
        let ready = readiness_check(&raw.ready).ok_or_else(|| GenericError::Ready {
            station: station(),
            found: raw.ready.clone(),
        })?;
        Ok(GenericStation {
            name: raw.name.clone(),
            words,
            configuration,
            ready,
        })
    }
}

/// How the program shows that it is ready; `None` if the text does not say.
fn readiness_check(text: &str) -> Option<ReadinessCheck> {
    if text == "tcp" {
        return Some(ReadinessCheck::Tcp);
    }
    if let Some(target) = text.strip_prefix("http GET ") {
        let target = target.trim();
        return squall_base::plan::message::is_target(target)
            .then(|| ReadinessCheck::Get(target.to_owned()));
    }
    let output = text.strip_prefix("output ")?.trim();
    (!output.is_empty()).then(|| ReadinessCheck::Output(output.to_owned()))
}

impl Installable for GenericStation {
    fn name(&self) -> &str {
        &self.name
    }

    fn program(&self) -> &str {
        self.words
            .first()
            .and_then(Template::plain)
            .unwrap_or_default()
    }

    fn install_hint(&self) -> &str {
        "it is the recipe's own; give its path in the command"
    }

    fn version_arguments(&self) -> Option<&'static [&'static str]> {
        None
    }
}

impl Driver for GenericStation {
    fn configure(&self, order: &Order, _version: &Version) -> Result<Invocation, Refusal> {
        if let Some((&(side, setting), &value)) = order.settings.iter().next() {
            let why =
                "squall does not know its words for settings; write them into its configuration";
            return Err(setting_refusal(&self.name, side, setting, value, why));
        }
        if order.key_log.is_some() {
            return refuse_order(&self.name, "squall does not know how it writes TLS secrets");
        }
        let fill = |template: &Template| {
            template
                .fill(|name| value(name, order))
                .map_err(|placeholder| {
                    order_refusal(
                        &self.name,
                        &format!(
                            "{{{placeholder}}} stands for something that it has not been given"
                        ),
                    )
                })
        };
        let mut invocation = Invocation::default();
        for word in self.words.iter().skip(1) {
            invocation.argument(fill(word)?);
        }
        if let Some(configuration) = &self.configuration {
            invocation.text(CONFIGURATION, fill(configuration)?);
        }
        Ok(invocation)
    }

    fn readiness_check(&self, _order: &Order) -> ReadinessCheck {
        self.ready.clone()
    }
}

fn value(placeholder: &str, order: &Order) -> Option<String> {
    let upstream: Option<&SocketAddr> = order.upstreams.first();
    let certificate = order.certificate.as_ref();
    let path = |path: &std::path::Path| path.display().to_string();
    match placeholder {
        "listen_host" => Some(order.listen.ip().to_string()),
        "listen_port" => Some(order.listen.port().to_string()),
        "upstream_host" => upstream.map(|upstream| upstream.ip().to_string()),
        "upstream_port" => upstream.map(|upstream| upstream.port().to_string()),
        "protocol" => Some(order.front.to_string()),
        "upstream_protocol" => order.upstream_protocol.map(|protocol| protocol.to_string()),
        "certificate" => certificate.map(|certificate| path(&certificate.chain)),
        "key" => certificate.map(|certificate| path(&certificate.key)),
        "trust" => order.trust.as_deref().map(path),
        "folder" => Some(path(&order.folder)),
        "configuration" => Some(path(&order.folder.join(CONFIGURATION))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn station(
        command: &str,
        configuration: Option<&str>,
        ready: &str,
    ) -> Result<GenericStation, GenericError> {
        GenericStation::check(&RawStation {
            name: "mine".to_owned(),
            command: command.to_owned(),
            configuration: configuration.map(str::to_owned),
            ready: ready.to_owned(),
        })
    }

    #[test]
    fn mistakes_in_a_definition_are_named() {
        assert!(station("serve --port {listen_port}", None, "tcp").is_ok());
        assert!(
            station(
                "serve -c {configuration}",
                Some("a {{ {folder} }}"),
                "output ready"
            )
            .is_ok()
        );
        for (command, configuration, ready, said) in [
            ("", None, "tcp", "not begin with a program"),
            ("{folder}/serve", None, "tcp", "not begin with a program"),
            ("a '", None, "tcp", "unclosed quote"),
            ("a {port}", None, "tcp", "unknown placeholder {port}"),
            ("a {port", None, "tcp", "unknown placeholder {port}"),
            ("a }", None, "tcp", "unknown placeholder"),
            ("a {configuration}", None, "tcp", "belong together"),
            ("a", Some("x"), "tcp", "belong together"),
            ("a", None, "http GET path", "unknown ready"),
            ("a", None, "output ", "unknown ready"),
            ("a", None, "", "unknown ready"),
        ] {
            let error = station(command, configuration, ready)
                .expect_err(command)
                .to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    proptest! {
        #[test]
        fn checking_a_definition_never_panics(command in "[ a'\"{}_\\PC]{0,40}", ready in "\\PC{0,20}") {
            let _ = station(&command, Some(&command), &ready);
            let _ = station(&command, None, &ready);
        }
    }
}

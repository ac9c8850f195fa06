//! Any other load generator: a command with placeholders, and the format of its log, if it writes one.
//!
//! Only its author knows what it sends and speaks; squall trusts the recipe.

use thiserror::Error;

use super::clients;
use super::driver::{ClientDriver, ReportedFields};
use super::order::ClientOrder;
use super::row::RowFormat;
use crate::driver::{Refusal, order_refusal};
use crate::find::Version;
use crate::order::{Content, Invocation};
use crate::template::{Template, words};

const PLACEHOLDERS: [&str; 13] = [
    "url",
    "host",
    "name",
    "port",
    "protocol",
    "method",
    "connections",
    "streams",
    "rate",
    "requests",
    "body",
    "trust",
    "folder",
];

/// A client that a recipe defines, as written there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawClient {
    /// Its name.
    pub name: String,
    /// The program and its arguments, separated by blanks; quotes hold blanks together.
    pub command: String,
    /// `FORMAT FILE`, as in `h2load rows.tsv`: the program whose format its log has, and the log's name in its folder.
    /// Empty if it writes no log.
    pub rows: String,
}

/// A client that a recipe defines, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenericClient {
    name: String,
    words: Vec<Template>,
    rows: Option<(String, RowFormat)>,
}

/// Why a recipe's client is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GenericClientError {
    /// There is no program, or a quote is not closed.
    #[error(
        "client {0}: its command is none; write the program, without a placeholder, and its arguments, with quotes closed"
    )]
    Command(String),
    /// An unknown placeholder, or a brace that belongs to no placeholder.
    #[error("client {client}: unknown placeholder {{{found}}}: expected one of {}; for a brace write {{{{ or }}}}", PLACEHOLDERS.join(", "))]
    Placeholder {
        /// Its name.
        client: String,
        /// The text between the braces.
        found: String,
    },
    /// An invalid value of `rows`.
    #[error(
        "client {client}: unknown rows {found:?}: expected h2load, k6, fortio or curl, a blank, and the name of a file"
    )]
    Rows {
        /// Its name.
        client: String,
        /// The invalid value.
        found: String,
    },
}

impl GenericClient {
    /// Checks a recipe's definition.
    pub fn check(raw: &RawClient) -> Result<GenericClient, GenericClientError> {
        let client = || raw.name.clone();
        let no_command = || GenericClientError::Command(client());
        let texts = words(&raw.command).ok_or_else(no_command)?;
        let read = |text: &String| {
            Template::read(text, &PLACEHOLDERS).map_err(|found| GenericClientError::Placeholder {
                client: client(),
                found,
            })
        };
        let words: Vec<Template> = texts.iter().map(read).collect::<Result<_, _>>()?;
        if words.first().and_then(Template::plain).is_none() {
            return Err(no_command());
        }
        let rows = match raw.rows.as_str() {
            "" => None,
            text => Some(rows(text).ok_or_else(|| GenericClientError::Rows {
                client: client(),
                found: text.to_owned(),
            })?),
        };
        Ok(GenericClient {
            name: raw.name.clone(),
            words,
            rows,
        })
    }
}

fn rows(text: &str) -> Option<(String, RowFormat)> {
    let (format, file) = text.split_once(' ')?;
    let format = RowFormat::from_name(format).filter(|known| *known != RowFormat::Chromium)?;
    let file = file.trim();
    let is_plain = !file.is_empty() && !file.contains('/') && !file.starts_with('.');
    is_plain.then(|| (file.to_owned(), format))
}

impl ClientDriver for GenericClient {
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

    /// What is reported by the program whose format it writes.
    fn reported_fields(&self) -> ReportedFields {
        let format = self.rows.as_ref().map(|(_, format)| *format);
        let same = clients()
            .into_iter()
            .find(|client| client.rows().map(|(_, other)| other) == format);
        same.filter(|_| format.is_some())
            .map(ClientDriver::reported_fields)
            .unwrap_or_default()
    }

    fn rows(&self) -> Option<(&str, RowFormat)> {
        self.rows
            .as_ref()
            .map(|(file, format)| (file.as_str(), *format))
    }

    fn configure(&self, order: &ClientOrder, _version: &Version) -> Result<Invocation, Refusal> {
        let mut invocation = Invocation::default();
        invocation.file("body", Content::Filler(order.body));
        if let Some((file, _)) = &self.rows {
            invocation.text(file, String::new());
        }
        for word in self.words.iter().skip(1) {
            let filled = word
                .fill(|name| value(name, order))
                .map_err(|placeholder| {
                    order_refusal(
                        &self.name,
                        &format!(
                            "{{{placeholder}}} stands for something that this load does not have"
                        ),
                    )
                })?;
            invocation.argument(filled);
        }
        Ok(invocation)
    }
}

fn value(placeholder: &str, order: &ClientOrder) -> Option<String> {
    use super::order::ClientLoad;
    let load = order.load;
    match placeholder {
        "url" => Some(order.url()),
        "host" => Some(order.target.ip().to_string()),
        "name" => Some(order.server_name.clone()),
        "port" => Some(order.target.port().to_string()),
        "protocol" => Some(order.protocol.to_string()),
        "method" => Some(order.method.clone()),
        "connections" => Some(load.connections().to_string()),
        "streams" => Some(load.streams().to_string()),
        "rate" => match load {
            ClientLoad::Rate { rate, .. } => Some(format!("{}", rate.per_second())),
            ClientLoad::Closed { .. } => None,
        },
        "requests" => load.requests().map(|requests| requests.to_string()),
        "body" => Some(order.folder.join("body").display().to_string()),
        "trust" => order
            .trust
            .as_ref()
            .map(|trust| trust.display().to_string()),
        "folder" => Some(order.folder.display().to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_in_a_definition_are_named() {
        let check = |command: &str, rows: &str| {
            GenericClient::check(&RawClient {
                name: "mine".to_owned(),
                command: command.to_owned(),
                rows: rows.to_owned(),
            })
        };
        assert!(check("load -n {requests} {url}", "h2load rows.tsv").is_ok());
        assert_eq!(
            check("load {url}", "").unwrap().reported_fields(),
            ReportedFields::default()
        );
        for (command, rows, said) in [
            ("", "", "its command is none"),
            ("load 'a", "", "its command is none"),
            ("{url} a", "", "its command is none"),
            ("load {uri}", "", "unknown placeholder {uri}"),
            ("load", "csv rows", "unknown rows"),
            ("load", "k6 ../rows", "unknown rows"),
            ("load", "k6", "unknown rows"),
        ] {
            let error = check(command, rows).expect_err(command).to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}

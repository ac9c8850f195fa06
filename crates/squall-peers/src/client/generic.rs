//! Any other load generator: a command with placeholders, and whose format its log has, if any.
//!
//! What it sends and speaks nobody knows but its author: it is believed.

use thiserror::Error;

use super::order::ClientOrder;
use super::read::RowFormat;
use super::{ClientDriver, Tells, clients};
use crate::driver::{Refusal, not_so};
use crate::find::Version;
use crate::order::{Content, Rendered};
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

/// A client of a recipe's own, as it is written there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawClient {
    /// Its name.
    pub name: String,
    /// The program and its arguments, in words; words with blanks in quotes.
    pub command: String,
    /// `FORMAT FILE`, as in `h2load rows.tsv`: whose log its log is like, and its name in its folder; empty: it has none.
    pub rows: String,
}

/// A client of a recipe's own, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenericClient {
    name: String,
    words: Vec<Template>,
    rows: Option<(String, RowFormat)>,
}

/// Why a client of a recipe's own cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GenericClientError {
    /// There is no program, or a quote is not closed.
    #[error(
        "client {client}: its command is none; write the program, without a placeholder, and its arguments, with quotes closed"
    )]
    Command {
        /// Its name.
        client: String,
    },
    /// A placeholder that does not exist, or a brace that is no placeholder's.
    #[error("client {client}: unknown placeholder {{{found}}}: expected one of {}; for a brace write {{{{ or }}}}", PLACEHOLDERS.join(", "))]
    Placeholder {
        /// Its name.
        client: String,
        /// What stands there.
        found: String,
    },
    /// Another word for `rows`.
    #[error(
        "client {client}: unknown rows {found:?}: expected h2load, k6, fortio or curl, a blank, and the name of a file"
    )]
    Rows {
        /// Its name.
        client: String,
        /// What stands there.
        found: String,
    },
}

impl GenericClient {
    /// Checks what a recipe says.
    pub fn check(raw: &RawClient) -> Result<GenericClient, GenericClientError> {
        let client = || raw.name.clone();
        let no_command = || GenericClientError::Command { client: client() };
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
    let format = RowFormat::ALL
        .into_iter()
        .find(|known| known.name() == format && *known != RowFormat::Chromium)?;
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

    /// What the program tells whose format it writes.
    fn tells(&self) -> Tells {
        let format = self.rows.as_ref().map(|(_, format)| *format);
        let same = clients()
            .into_iter()
            .find(|client| client.rows().map(|(_, other)| other) == format);
        same.filter(|_| format.is_some())
            .map(ClientDriver::tells)
            .unwrap_or_default()
    }

    fn rows(&self) -> Option<(&str, RowFormat)> {
        self.rows
            .as_ref()
            .map(|(file, format)| (file.as_str(), *format))
    }

    fn configure(&self, order: &ClientOrder, _version: &Version) -> Result<Rendered, Refusal> {
        let mut rendered = Rendered::default();
        rendered.file("body", Content::Filler(order.body));
        if let Some((file, _)) = &self.rows {
            rendered.text(file, String::new());
        }
        for word in self.words.iter().skip(1) {
            let filled = word
                .fill(|name| value(name, order))
                .map_err(|placeholder| {
                    not_so(
                        &self.name,
                        &format!(
                            "{{{placeholder}}} stands for something that this load does not have"
                        ),
                    )
                })?;
            rendered.argument(filled);
        }
        Ok(rendered)
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
    fn mistakes_are_named() {
        let check = |command: &str, rows: &str| {
            GenericClient::check(&RawClient {
                name: "mine".to_owned(),
                command: command.to_owned(),
                rows: rows.to_owned(),
            })
        };
        assert!(check("load -n {requests} {url}", "h2load rows.tsv").is_ok());
        assert_eq!(check("load {url}", "").unwrap().tells(), Tells::default());
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

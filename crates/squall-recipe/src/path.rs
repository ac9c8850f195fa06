//! The notation of paths: `client ~h1~> server`.
//!
//! ```text
//! path    = station *( hop station )
//! hop     = "-" protocol "->"  inside one host
//!         / "~" protocol "~>"  across the link
//! station = word without blanks, "-" and "~"
//! ```
//!
//! `parse` reads any path of that grammar; `Path::protocol_across_link` then says whether it is one that
//! a trial can run. Neither knows where in a file the text stood: mistakes carry bytes of the text.

use std::fmt;
use std::ops::Range;

use squall_base::plan::Protocol;
use thiserror::Error;

use crate::problems::did_you_mean;
use crate::section::listed;

/// Stations in order, and the hops between them: one fewer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    stations: Vec<Station>,
    hops: Vec<Hop>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Station {
    name: String,
    span: Range<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Hop {
    kind: HopKind,
    protocol: Protocol,
    span: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HopKind {
    /// `-p->`: both stations are on one host.
    Inside,
    /// `~p~>`: the stations are on hosts that the link joins.
    Link,
}

/// What is wrong with a path.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PathMistake {
    /// The path ends, or a hop begins, where a station must stand.
    #[error("no station here")]
    NoStation,
    /// Something else where a hop must stand.
    #[error("{found:?} is not a hop")]
    NotAHop {
        /// What was found.
        found: String,
    },
    /// A hop with a word that is no protocol.
    #[error("unknown protocol `{found}`")]
    UnknownProtocol {
        /// What was found.
        found: String,
    },
    /// A word that is no station.
    #[error("unknown station `{found}`")]
    UnknownStation {
        /// What was found.
        found: String,
    },
    /// A known station at the wrong end.
    #[error("the path has `{found}` where `{due}` must be")]
    WrongEnd {
        /// What was found.
        found: String,
        /// What should be there.
        due: &'static str,
    },
    /// No hop at all, or several.
    #[error("the path has {count} hops")]
    HopCount {
        /// How many.
        count: usize,
    },
    /// The path never crosses the link, so no condition would touch it.
    #[error("the path does not cross the link")]
    NoLinkHop,
}

/// A mistake and the bytes of the path's text where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathError {
    pub(crate) mistake: PathMistake,
    pub(crate) span: Range<usize>,
    pub(crate) expected: String,
    pub(crate) hint: Option<String>,
}

const CLIENT: &str = "client";
const SERVER: &str = "server";

/// Reads a path of any number of stations and hops.
pub(crate) fn parse(text: &str) -> Result<Path, PathError> {
    let mut scanner = Scanner { text, at: 0 };
    let mut path = Path {
        stations: vec![scanner.station()?],
        hops: Vec::new(),
    };
    while !scanner.is_at_end() {
        path.hops.push(scanner.hop()?);
        path.stations.push(scanner.station()?);
    }
    Ok(path)
}

impl Path {
    /// The protocol of the path's only hop, if that is one that a trial can run: a client and a server,
    /// joined by the link.
    pub(crate) fn protocol_across_link(&self) -> Result<Protocol, PathError> {
        if let Some(unknown) = self
            .stations
            .iter()
            .find(|s| s.name != CLIENT && s.name != SERVER)
        {
            let mistake = PathMistake::UnknownStation {
                found: unknown.name.clone(),
            };
            let hint = did_you_mean(&unknown.name, [CLIENT, SERVER]);
            return Err(PathError {
                mistake,
                span: unknown.span.clone(),
                expected: listed(&[CLIENT, SERVER]).into_owned(),
                hint,
            });
        }
        let ends = [
            (self.stations.first(), CLIENT),
            (self.stations.last(), SERVER),
        ];
        for (station, due) in ends {
            match station {
                Some(station) if station.name != due => {
                    let mistake = PathMistake::WrongEnd {
                        found: station.name.clone(),
                        due,
                    };
                    return Err(refused(mistake, station.span.clone()));
                }
                _ => {}
            }
        }
        match self.hops.as_slice() {
            [hop] if hop.kind == HopKind::Link => Ok(hop.protocol),
            [hop] => Err(refused(PathMistake::NoLinkHop, hop.span.clone())),
            hops => Err(refused(
                PathMistake::HopCount { count: hops.len() },
                self.span(),
            )),
        }
    }

    fn span(&self) -> Range<usize> {
        let start = self.stations.first().map_or(0, |s| s.span.start);
        start..self.stations.last().map_or(start, |s| s.span.end)
    }
}

/// In the notation, with one blank between the words.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut stations = self.stations.iter();
        if let Some(first) = stations.next() {
            f.write_str(&first.name)?;
        }
        for (hop, station) in self.hops.iter().zip(stations) {
            let protocol = hop.protocol;
            match hop.kind {
                HopKind::Inside => write!(f, " -{protocol}-> {}", station.name)?,
                HopKind::Link => write!(f, " ~{protocol}~> {}", station.name)?,
            }
        }
        Ok(())
    }
}

/// A well-formed path that is not one of those accepted.
fn refused(mistake: PathMistake, span: Range<usize>) -> PathError {
    let paths: Vec<String> = Protocol::ALL
        .iter()
        .map(|p| format!("{CLIENT} ~{p}~> {SERVER}"))
        .collect();
    PathError {
        mistake,
        span,
        expected: listed(&paths).into_owned(),
        hint: None,
    }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn is_at_end(&mut self) -> bool {
        self.at = self.text.len() - self.rest().trim_start().len();
        self.rest().is_empty()
    }

    /// Takes `len_bytes` of the text.
    fn take(&mut self, len_bytes: usize) -> (&'a str, Range<usize>) {
        let span = self.at..self.at + len_bytes;
        self.at = span.end;
        (&self.text[span.clone()], span)
    }

    fn station(&mut self) -> Result<Station, PathError> {
        let end = self.is_at_end();
        let ends_word = |c: char| c.is_whitespace() || c == '-' || c == '~';
        let (name, span) = self.take(self.rest().find(ends_word).unwrap_or(self.rest().len()));
        if end || name.is_empty() {
            return Err(PathError {
                mistake: PathMistake::NoStation,
                span,
                expected: listed(&[CLIENT, SERVER]).into_owned(),
                hint: None,
            });
        }
        Ok(Station {
            name: name.to_owned(),
            span,
        })
    }

    fn hop(&mut self) -> Result<Hop, PathError> {
        let rest = self.rest();
        let len_bytes = rest
            .char_indices()
            .find_map(|(i, c)| match c {
                '>' => Some(i + 1),
                c if c.is_whitespace() => Some(i),
                _ => None,
            })
            .unwrap_or(rest.len());
        let (found, span) = self.take(len_bytes);
        let inner = |open: &str, close: &str| {
            found
                .strip_prefix(open)?
                .strip_suffix(close)
                .filter(|word| !word.is_empty())
        };
        let (kind, word) = match (inner("-", "->"), inner("~", "~>")) {
            (Some(word), _) => (HopKind::Inside, word),
            (_, Some(word)) => (HopKind::Link, word),
            (None, None) => {
                return Err(PathError {
                    mistake: PathMistake::NotAHop {
                        found: found.to_owned(),
                    },
                    span,
                    expected: "a hop: `~p~>` across the link or `-p->` inside a host, p being a \
                               protocol"
                        .to_owned(),
                    hint: None,
                });
            }
        };
        let protocol = word.parse().map_err(|_| PathError {
            mistake: PathMistake::UnknownProtocol {
                found: word.to_owned(),
            },
            span: span.start + 1..span.start + 1 + word.len(),
            expected: listed(&Protocol::ALL.map(Protocol::name)).into_owned(),
            hint: did_you_mean(word, Protocol::ALL.map(Protocol::name)),
        })?;
        Ok(Hop {
            kind,
            protocol,
            span,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str) -> Result<Protocol, (PathMistake, &str)> {
        parse(text)
            .and_then(|path| path.protocol_across_link())
            .map_err(|error| (error.mistake, &text[error.span]))
    }

    #[test]
    fn one_link_hop_from_client_to_server_is_runnable() {
        assert_eq!(run("client ~h1~> server"), Ok(Protocol::H1));
        assert_eq!(run("  client~h2c~>server "), Ok(Protocol::H2c));
        for protocol in Protocol::ALL {
            assert_eq!(run(&format!("client ~{protocol}~> server")), Ok(protocol));
        }
    }

    #[test]
    fn longer_paths_are_read_before_they_are_refused() {
        let path = parse("client -h1-> envoy ~h2c~> envoy -h1-> nginx").unwrap();
        assert_eq!(path.stations.len(), 4);
        assert_eq!(
            path.to_string(),
            "client -h1-> envoy ~h2c~> envoy -h1-> nginx"
        );
        let kinds: Vec<HopKind> = path.hops.iter().map(|h| h.kind).collect();
        assert_eq!(kinds, [HopKind::Inside, HopKind::Link, HopKind::Inside]);
        assert_eq!(path.protocol_across_link().unwrap_err().span, 13..18);
    }

    #[test]
    fn each_mistake_names_its_own_bytes() {
        use PathMistake::*;
        let cases = [
            ("", NoStation, ""),
            ("client ~h1~>", NoStation, ""),
            ("~h1~> server", NoStation, ""),
            (
                "client ~h1-> server",
                NotAHop {
                    found: "~h1->".into(),
                },
                "~h1->",
            ),
            ("client -> server", NotAHop { found: "->".into() }, "->"),
            (
                "client ~~> server",
                NotAHop {
                    found: "~~>".into(),
                },
                "~~>",
            ),
            (
                "client server",
                NotAHop {
                    found: "server".into(),
                },
                "server",
            ),
            (
                "client ~h2s~> server",
                UnknownProtocol {
                    found: "h2s".into(),
                },
                "h2s",
            ),
            (
                "cleint ~h1~> server",
                UnknownStation {
                    found: "cleint".into(),
                },
                "cleint",
            ),
            (
                "server ~h1~> client",
                WrongEnd {
                    found: "server".into(),
                    due: "client",
                },
                "server",
            ),
            (
                "client",
                WrongEnd {
                    found: "client".into(),
                    due: "server",
                },
                "client",
            ),
            ("client -h1-> server", NoLinkHop, "-h1->"),
            (
                "client ~h1~> server ~h1~> server",
                HopCount { count: 2 },
                "client ~h1~> server ~h1~> server",
            ),
        ];
        for (text, mistake, bytes) in cases {
            assert_eq!(run(text), Err((mistake, bytes)), "{text}");
        }
    }
}

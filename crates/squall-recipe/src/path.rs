//! The notation of paths: `client ~h1~> server`.
//!
//! ```text
//! path    = station *( hop station )
//! hop     = "-" protocol "->"  inside one host
//!         / "~" protocol "~>"  across the link
//! station = word without blanks, "-" and "~": client, client(h2load), proxy, balancer(alb), server, nginx ...
//! ```
//!
//! `parse` reads any path of that grammar; `Path::layout` then says whether it is one that a trial
//! can run. Neither knows where in a file the text stood: mistakes carry bytes of the text.

use std::fmt;
use std::ops::Range;

use squall_base::plan::{CLIENT_PROGRAMS, OwnProgram, PROGRAMS, Protocol, Runs, Side, find_preset};
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
    /// A known station that cannot be in this place.
    #[error("the path has `{found}` where {due} must be")]
    WrongPlace {
        /// What was found.
        found: String,
        /// What should be there.
        due: &'static str,
    },
    /// One station alone.
    #[error("the path has no hop")]
    NoHop,
    /// The path crosses the link again.
    #[error("the path crosses the link a second time")]
    SecondLinkHop,
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
const PROXY: &str = "proxy";
const BALANCER: &str = "balancer";
const SERVER: &str = "server";

/// A path that a trial can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// From the client to the server.
    pub(crate) stations: Vec<Role>,
    /// What is spoken on each hop, and whether it crosses the link.
    pub(crate) hops: Vec<(Protocol, bool)>,
}

/// A station, what runs there, and whose settings it has if it is our own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Role {
    pub(crate) name: String,
    pub(crate) runs: Runs,
    pub(crate) preset: Option<String>,
    pub(crate) threads: Option<u32>,
    pub(crate) extra: Option<String>,
}

/// A station that a recipe describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Described {
    /// A program that squall does not know.
    Command(OwnProgram),
    /// One of [`PROGRAMS`], with more threads or a text of its own configuration.
    Extended {
        program: String,
        threads: Option<u32>,
        extra: Option<String>,
    },
}

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
    /// The stations and the protocols of the hops, if that is a path that a trial can run: from a client to a server,
    /// across the link once. `own` are the recipe's own stations.
    pub(crate) fn layout(&self, own: &[(String, Described)]) -> Result<Layout, PathError> {
        if self.hops.is_empty() {
            return Err(refused(PathMistake::NoHop, self.span()));
        }
        let last = self.stations.len() - 1;
        let stations = self.stations.iter().enumerate().map(|(place, station)| {
            let part = match place {
                0 => Part::Client,
                _ if place == last => Part::Server,
                _ => Part::Proxy,
            };
            station.layout(part, own)
        });
        let stations = stations.collect::<Result<Vec<Role>, PathError>>()?;
        let crossings: Vec<&Hop> = self
            .hops
            .iter()
            .filter(|hop| hop.kind == HopKind::Link)
            .collect();
        match crossings.as_slice() {
            [_] => {}
            [] => return Err(refused(PathMistake::NoLinkHop, self.hops[0].span.clone())),
            [first, second, ..] => {
                let hint = format!(
                    "write `-{0}->` for this hop, which is then inside a host; a second variant, with `-{1}->` there and \
                     `~{0}~>` here, asks about the other stretch",
                    second.protocol, first.protocol
                );
                return Err(PathError {
                    hint: Some(hint),
                    ..refused(PathMistake::SecondLinkHop, second.span.clone())
                });
            }
        }
        let hops = self
            .hops
            .iter()
            .map(|hop| (hop.protocol, hop.kind == HopKind::Link));
        Ok(Layout {
            stations,
            hops: hops.collect(),
        })
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
    PathError {
        mistake,
        span,
        expected: "stations from `client` to a server, with one hop across the link (`~p~>`)"
            .to_owned(),
        hint: None,
    }
}

impl Station {
    /// What runs here, if that can be in this place.
    fn layout(&self, part: Part, own: &[(String, Described)]) -> Result<Role, PathError> {
        let (word, inner) = match self.name.split_once('(') {
            Some((word, rest)) => (word, rest.strip_suffix(')')),
            None => (self.name.as_str(), None),
        };
        let own = own.iter().find(|(name, _)| *name == self.name);
        let role = |runs: Runs, preset: Option<&str>| Role {
            name: self.name.clone(),
            runs,
            preset: preset.map(str::to_owned),
            threads: None,
            extra: None,
        };
        let embedded = |preset: Option<&str>| role(Runs::Embedded, preset);
        let program = |program: &str| {
            let preset = find_preset(program, Side::Server).map(|_| program);
            let program = program.to_owned();
            role(Runs::Program { program }, preset)
        };
        let is_bare = word == self.name;
        let role = match (part, word, inner) {
            (Part::Proxy | Part::Server, _, _) if let Some((_, own)) = own => match own {
                Described::Command(own) => role(Runs::Own(own.clone()), None),
                Described::Extended {
                    program: extended,
                    threads,
                    extra,
                } => Role {
                    threads: *threads,
                    extra: extra.clone(),
                    ..program(extended)
                },
            },
            (Part::Client, CLIENT, None) if is_bare => embedded(None),
            (Part::Client, CLIENT, Some(name)) if CLIENT_PROGRAMS.contains(&name) => Role {
                preset: None,
                ..program(name)
            },
            (Part::Proxy, PROXY, None) | (Part::Server, SERVER, None) if is_bare => embedded(None),
            (Part::Proxy, BALANCER, Some(preset))
            | (Part::Proxy, PROXY, Some(preset))
            | (Part::Server, SERVER, Some(preset))
                if find_preset(preset, Side::Server).is_some() =>
            {
                embedded(Some(preset))
            }
            (Part::Proxy | Part::Server, name, None) if is_bare && PROGRAMS.contains(&name) => {
                program(name)
            }
            _ => return Err(self.unknown(part)),
        };
        Ok(role)
    }

    fn unknown(&self, part: Part) -> PathError {
        let known = part.words();
        let is_elsewhere = [Part::Client, Part::Proxy, Part::Server]
            .into_iter()
            .any(|other| other.words().contains(&self.name));
        let mistake = if is_elsewhere {
            PathMistake::WrongPlace {
                found: self.name.clone(),
                due: part.name(),
            }
        } else {
            PathMistake::UnknownStation {
                found: self.name.clone(),
            }
        };
        let names: Vec<&str> = known.iter().map(String::as_str).collect();
        PathError {
            mistake,
            span: self.span.clone(),
            expected: match part {
                Part::Client => listed(&names).into_owned(),
                Part::Proxy | Part::Server => {
                    format!("{}, or a [station.NAME] of the recipe", listed(&names))
                }
            },
            hint: did_you_mean(&self.name, names.iter().copied()),
        }
    }
}

/// What a station is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Client,
    Proxy,
    Server,
}

impl Part {
    const fn name(self) -> &'static str {
        match self {
            Part::Client => "a client",
            Part::Proxy => "a proxy",
            Part::Server => "a server",
        }
    }

    /// What a path may say here.
    fn words(self) -> Vec<String> {
        let programs = || PROGRAMS.iter().map(|&name| name.to_owned());
        match self {
            Part::Client => {
                let real = CLIENT_PROGRAMS
                    .iter()
                    .map(|name| format!("{CLIENT}({name})"));
                [CLIENT.to_owned()].into_iter().chain(real).collect()
            }
            Part::Proxy => [PROXY.to_owned(), format!("{BALANCER}(alb)")]
                .into_iter()
                .chain(programs())
                .collect(),
            Part::Server => [SERVER.to_owned()].into_iter().chain(programs()).collect(),
        }
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

    fn run(text: &str) -> Result<Layout, (PathMistake, &str)> {
        parse(text)
            .and_then(|path| path.layout(&[]))
            .map_err(|error| (error.mistake, &text[error.span]))
    }

    fn names(layout: &Layout) -> Vec<&str> {
        layout
            .stations
            .iter()
            .map(|role| role.name.as_str())
            .collect()
    }

    #[test]
    fn one_link_hop_from_client_to_server_is_runnable() {
        for protocol in Protocol::ALL {
            for text in [
                format!("client ~{protocol}~> server"),
                format!(" client~{protocol}~>server "),
            ] {
                let layout = run(&text).unwrap();
                assert_eq!(layout.hops, [(protocol, true)]);
                assert_eq!(names(&layout), ["client", "server"]);
            }
        }
    }

    #[test]
    fn stations_are_embedded_or_real_by_their_names() {
        let path = parse("client -h1-> envoy ~h2c~> balancer(alb) -h1-> nginx").unwrap();
        assert_eq!(
            path.to_string(),
            "client -h1-> envoy ~h2c~> balancer(alb) -h1-> nginx"
        );
        let layout = path.layout(&[]).unwrap();
        let hops = [
            (Protocol::H1, false),
            (Protocol::H2c, true),
            (Protocol::H1, false),
        ];
        assert_eq!(layout.hops, hops);
        let program = |name: &str| Runs::Program {
            program: name.to_owned(),
        };
        let runs: Vec<&Runs> = layout.stations.iter().map(|role| &role.runs).collect();
        assert_eq!(
            runs,
            [
                &Runs::Embedded,
                &program("envoy"),
                &Runs::Embedded,
                &program("nginx")
            ]
        );
        let presets: Vec<Option<&str>> = layout
            .stations
            .iter()
            .map(|role| role.preset.as_deref())
            .collect();
        assert_eq!(presets, [None, Some("envoy"), Some("alb"), Some("nginx")]);
        let driven = run("client(h2load) ~h2c~> nghttpd").unwrap();
        assert_eq!(driven.stations[0].runs, program("h2load"));
    }

    #[test]
    fn stations_of_the_recipe_go_before_names_that_squall_knows() {
        let own = OwnProgram {
            command: "mine".to_owned(),
            configuration: None,
            ready: "tcp".to_owned(),
        };
        let path = parse("client ~h1~> nginx").unwrap();
        let described = Described::Command(own.clone());
        let layout = path.layout(&[("nginx".to_owned(), described)]).unwrap();
        assert_eq!(layout.stations[1].runs, Runs::Own(own));
    }

    #[test]
    fn each_mistake_names_its_own_bytes() {
        use PathMistake::*;
        let unknown = |found: &str| UnknownStation {
            found: found.to_owned(),
        };
        let misplaced = |found: &str, due| WrongPlace {
            found: found.to_owned(),
            due,
        };
        let not_a_hop = |found: &str| NotAHop {
            found: found.to_owned(),
        };
        let cases = [
            ("", NoStation, ""),
            ("client ~h1~>", NoStation, ""),
            ("~h1~> server", NoStation, ""),
            ("client ~h1-> server", not_a_hop("~h1->"), "~h1->"),
            ("client -> server", not_a_hop("->"), "->"),
            ("client ~~> server", not_a_hop("~~>"), "~~>"),
            ("client server", not_a_hop("server"), "server"),
            (
                "client ~h2s~> server",
                UnknownProtocol {
                    found: "h2s".into(),
                },
                "h2s",
            ),
            ("cleint ~h1~> server", unknown("cleint"), "cleint"),
            (
                "client ~h1~> balancer(x) -h1-> server",
                unknown("balancer(x)"),
                "balancer(x)",
            ),
            ("client() ~h1~> server", unknown("client()"), "client()"),
            (
                "client(h2load ~h1~> server",
                unknown("client(h2load"),
                "client(h2load",
            ),
            (
                "server ~h1~> client",
                misplaced("server", "a client"),
                "server",
            ),
            (
                "client ~h1~> proxy",
                misplaced("proxy", "a server"),
                "proxy",
            ),
            (
                "client ~h1~> server -h1-> nginx",
                misplaced("server", "a proxy"),
                "server",
            ),
            ("client", NoHop, "client"),
            ("client -h1-> server", NoLinkHop, "-h1->"),
            ("client ~h1~> proxy ~h2~> server", SecondLinkHop, "~h2~>"),
        ];
        for (text, mistake, bytes) in cases {
            assert_eq!(run(text), Err((mistake, bytes)), "{text}");
        }
    }
}

//! The notation of paths: `client ~h1~> server`.
//!
//! ```text
//! path    = station *( hop station )
//! hop     = "-" protocol "->"  inside one host
//!         / "~" protocol "~>"  across a link, which begins a new host
//! station = word without blanks, "-" and "~": client, client(h2load), proxy, balancer(alb), server, nginx ...
//! ```
//!
//! `parse` accepts any path of that grammar; `Path::layout` then checks that a trial can run it. Neither knows where in a
//! file the path is: mistakes carry byte ranges of the path's text.

use std::fmt;
use std::ops::Range;

use squall_base::plan::{
    CLIENT_PROGRAMS, Implementation, LINKS_AT_MOST, OwnProgram, PROGRAMS, Protocol, Side,
    find_preset,
};
use thiserror::Error;

use crate::words::{did_you_mean, listed};

/// Stations in order, and the hops between them: one fewer than stations.
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
    /// `~p~>`: a link connects the stations' hosts.
    Link,
}

/// What is wrong with a path.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PathMistake {
    /// The path ends, or a hop begins, where a station must be.
    #[error("no station here")]
    NoStation,
    /// Something other than a hop where a hop must be.
    #[error("{0:?} is not a hop")]
    NotAHop(String),
    /// A hop with an unknown protocol.
    #[error("unknown protocol `{0}`")]
    UnknownProtocol(String),
    /// An unknown station.
    #[error("unknown station `{0}`")]
    UnknownStation(String),
    /// A known station that cannot be in this place.
    #[error("the path has `{found}` where {due} must be")]
    WrongPlace {
        /// What was found.
        found: String,
        /// What should be there.
        due: &'static str,
    },
    /// A station alone, without a hop.
    #[error("the path has no hop")]
    NoHop,
    /// The path crosses more links than a trial can have.
    #[error("the path crosses more than {} links", LINKS_AT_MOST)]
    TooManyLinkHops,
    /// The path never crosses a link, so no condition would affect it.
    #[error("the path does not cross a link")]
    NoLinkHop,
}

/// A mistake and its byte range in the path's text.
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
    pub(crate) stations: Vec<LayoutStation>,
    /// The protocol of each hop, and whether the hop crosses a link.
    pub(crate) hops: Vec<(Protocol, bool)>,
}

/// A station, what runs there, and the preset that it uses if it is one of our own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LayoutStation {
    pub(crate) name: String,
    pub(crate) runs: Implementation,
    pub(crate) preset: Option<String>,
    pub(crate) threads: Option<u32>,
    pub(crate) extra: Option<String>,
}

/// A station that a recipe describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StationDefinition {
    /// A program that squall does not know.
    Command(OwnProgram),
    /// One of [`PROGRAMS`], with a number of threads or extra configuration.
    Extended {
        program: String,
        threads: Option<u32>,
        extra: Option<String>,
    },
}

/// Parses a path of any number of stations and hops.
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
    /// The stations and the protocols of the hops, if a trial can run this path: from a client to a server, across one to
    /// [`LINKS_AT_MOST`] links. `own_stations` are the recipe's own stations.
    pub(crate) fn layout(
        &self,
        own_stations: &[(String, StationDefinition)],
    ) -> Result<Layout, PathError> {
        if self.hops.is_empty() {
            return Err(layout_error(PathMistake::NoHop, self.span()));
        }
        let last = self.stations.len() - 1;
        let stations = self.stations.iter().enumerate().map(|(place, station)| {
            let role = match place {
                0 => Role::Client,
                _ if place == last => Role::Server,
                _ => Role::Proxy,
            };
            station.layout(role, own_stations)
        });
        let stations = stations.collect::<Result<Vec<LayoutStation>, PathError>>()?;
        let mut crossings = self.hops.iter().filter(|hop| hop.kind == HopKind::Link);
        if crossings.clone().next().is_none() {
            let first = self.hops[0].span.clone();
            return Err(layout_error(PathMistake::NoLinkHop, first));
        }
        if let Some(surplus) = crossings.nth(LINKS_AT_MOST) {
            let hint = format!(
                "write `-{}->` for a hop that is inside a host",
                surplus.protocol
            );
            return Err(PathError {
                hint: Some(hint),
                ..layout_error(PathMistake::TooManyLinkHops, surplus.span.clone())
            });
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

/// In the notation of paths, with one space between the words.
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

/// A well-formed path that no trial can run.
fn layout_error(mistake: PathMistake, span: Range<usize>) -> PathError {
    PathError {
        mistake,
        span,
        expected: format!(
            "stations from `client` to a server, with 1 to {LINKS_AT_MOST} hops across links (`~p~>`)"
        ),
        hint: None,
    }
}

impl Station {
    /// What runs at this station, if that is allowed in this place.
    fn layout(
        &self,
        role: Role,
        own_stations: &[(String, StationDefinition)],
    ) -> Result<LayoutStation, PathError> {
        let (word, inner) = match self.name.split_once('(') {
            Some((word, rest)) => (word, rest.strip_suffix(')')),
            None => (self.name.as_str(), None),
        };
        let own = own_stations.iter().find(|(name, _)| *name == self.name);
        let station = |runs: Implementation, preset: Option<&str>| LayoutStation {
            name: self.name.clone(),
            runs,
            preset: preset.map(str::to_owned),
            threads: None,
            extra: None,
        };
        let embedded = |preset: Option<&str>| station(Implementation::Embedded, preset);
        let program = |program: &str| {
            let preset = find_preset(program, Side::Server).map(|_| program);
            let program = program.to_owned();
            station(Implementation::Program { program }, preset)
        };
        let is_bare = word == self.name;
        let station = match (role, word, inner) {
            (Role::Proxy | Role::Server, _, _) if let Some((_, own)) = own => match own {
                StationDefinition::Command(own) => station(Implementation::Own(own.clone()), None),
                StationDefinition::Extended {
                    program: extended,
                    threads,
                    extra,
                } => LayoutStation {
                    threads: *threads,
                    extra: extra.clone(),
                    ..program(extended)
                },
            },
            (Role::Client, CLIENT, None) if is_bare => embedded(None),
            (Role::Client, CLIENT, Some(name)) if CLIENT_PROGRAMS.contains(&name) => {
                LayoutStation {
                    preset: None,
                    ..program(name)
                }
            }
            (Role::Proxy, PROXY, None) | (Role::Server, SERVER, None) if is_bare => embedded(None),
            (Role::Proxy, BALANCER, Some(preset))
            | (Role::Proxy, PROXY, Some(preset))
            | (Role::Server, SERVER, Some(preset))
                if find_preset(preset, Side::Server).is_some() =>
            {
                embedded(Some(preset))
            }
            (Role::Proxy | Role::Server, name, None) if is_bare && PROGRAMS.contains(&name) => {
                program(name)
            }
            _ => return Err(self.unknown(role)),
        };
        Ok(station)
    }

    fn unknown(&self, role: Role) -> PathError {
        let known = role.words();
        let is_elsewhere = [Role::Client, Role::Proxy, Role::Server]
            .into_iter()
            .any(|other| other.words().contains(&self.name));
        let mistake = if is_elsewhere {
            PathMistake::WrongPlace {
                found: self.name.clone(),
                due: role.name(),
            }
        } else {
            PathMistake::UnknownStation(self.name.clone())
        };
        let names: Vec<&str> = known.iter().map(String::as_str).collect();
        PathError {
            mistake,
            span: self.span.clone(),
            expected: match role {
                Role::Client => listed(&names).into_owned(),
                Role::Proxy | Role::Server => {
                    format!("{}, or a [station.NAME] of the recipe", listed(&names))
                }
            },
            hint: did_you_mean(&self.name, names.iter().copied()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Client,
    Proxy,
    Server,
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Role::Client => "a client",
            Role::Proxy => "a proxy",
            Role::Server => "a server",
        }
    }

    /// The station names that a path may have in this place.
    fn words(self) -> Vec<String> {
        let programs = || PROGRAMS.iter().map(|&name| name.to_owned());
        match self {
            Role::Client => {
                let real = CLIENT_PROGRAMS
                    .iter()
                    .map(|name| format!("{CLIENT}({name})"));
                [CLIENT.to_owned()].into_iter().chain(real).collect()
            }
            Role::Proxy => [PROXY.to_owned(), format!("{BALANCER}(alb)")]
                .into_iter()
                .chain(programs())
                .collect(),
            Role::Server => [SERVER.to_owned()].into_iter().chain(programs()).collect(),
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

    /// Consumes `len_bytes` of the text.
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
                    mistake: PathMistake::NotAHop(found.to_owned()),
                    span,
                    expected: "a hop: `~p~>` across a link or `-p->` inside a host, p being a \
                               protocol"
                        .to_owned(),
                    hint: None,
                });
            }
        };
        let protocol = word.parse().map_err(|_| PathError {
            mistake: PathMistake::UnknownProtocol(word.to_owned()),
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
            .map(|station| station.name.as_str())
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
    fn path_may_cross_several_links() {
        let layout = run("client ~h2~> proxy -h1-> proxy ~h1~> nginx").unwrap();
        let hops = [
            (Protocol::H2, true),
            (Protocol::H1, false),
            (Protocol::H1, true),
        ];
        assert_eq!(layout.hops, hops);
        let most = "client ~h1~> proxy ~h1~> proxy ~h1~> server";
        assert_eq!(run(most).unwrap().hops.len(), LINKS_AT_MOST);
    }

    #[test]
    fn station_names_select_embedded_stations_or_programs() {
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
        let program = |name: &str| Implementation::Program {
            program: name.to_owned(),
        };
        let runs: Vec<&Implementation> = layout
            .stations
            .iter()
            .map(|station| &station.runs)
            .collect();
        assert_eq!(
            runs,
            [
                &Implementation::Embedded,
                &program("envoy"),
                &Implementation::Embedded,
                &program("nginx")
            ]
        );
        let presets: Vec<Option<&str>> = layout
            .stations
            .iter()
            .map(|station| station.preset.as_deref())
            .collect();
        assert_eq!(presets, [None, Some("envoy"), Some("alb"), Some("nginx")]);
        let driven = run("client(h2load) ~h2c~> nghttpd").unwrap();
        assert_eq!(driven.stations[0].runs, program("h2load"));
    }

    #[test]
    fn stations_of_the_recipe_shadow_known_programs() {
        let own = OwnProgram {
            command: "mine".to_owned(),
            configuration: None,
            ready: "tcp".to_owned(),
        };
        let path = parse("client ~h1~> nginx").unwrap();
        let definition = StationDefinition::Command(own.clone());
        let layout = path.layout(&[("nginx".to_owned(), definition)]).unwrap();
        assert_eq!(layout.stations[1].runs, Implementation::Own(own));
    }

    #[test]
    fn each_mistake_in_a_path_has_its_own_byte_range() {
        use PathMistake::*;
        let unknown = |found: &str| UnknownStation(found.to_owned());
        let misplaced = |found: &str, due| WrongPlace {
            found: found.to_owned(),
            due,
        };
        let not_a_hop = |found: &str| NotAHop(found.to_owned());
        let cases = [
            ("", NoStation, ""),
            ("client ~h1~>", NoStation, ""),
            ("~h1~> server", NoStation, ""),
            ("client ~h1-> server", not_a_hop("~h1->"), "~h1->"),
            ("client -> server", not_a_hop("->"), "->"),
            ("client ~~> server", not_a_hop("~~>"), "~~>"),
            ("client server", not_a_hop("server"), "server"),
            ("client ~h2s~> server", UnknownProtocol("h2s".into()), "h2s"),
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
            (
                "client ~h1~> proxy ~h1~> proxy ~h1~> proxy ~h2~> server",
                TooManyLinkHops,
                "~h2~>",
            ),
        ];
        for (text, mistake, bytes) in cases {
            assert_eq!(run(text), Err((mistake, bytes)), "{text}");
        }
    }
}

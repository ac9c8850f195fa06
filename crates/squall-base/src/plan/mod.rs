//! What a run shall do: variants, conditions, load, and the trials they expand to.
//!
//! These are checked values: a recipe's text becomes them in squall-recipe, and after that nothing is
//! optional that a trial needs. They are also what plan.json and trial.json hold, so renaming a field is
//! a change of the record's schema (docs/RECORD.md). Nothing here starts anything. `message` has the rules
//! for what a request or response may hold, `request` what they are, `presets` the settings of well-known programs,
//! `script` requests with their times, `page` requests that wait for each other, `path` the stations of a variant,
//! `stages` a rate that changes, `words` how such things are written, `workload` the loads made of them, `load` the one of
//! a trial, `condition` what the link does in it, `measure` what variants are compared by.

mod condition;
mod load;
mod measure;
pub mod message;
mod page;
mod path;
mod presets;
mod request;
mod script;
mod settings;
mod stages;
mod words;
mod workload;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use crate::side::Side;
pub use condition::{Condition, PerDirection};
pub use load::{Load, LoadKind, PageQuestion, Users, browser_connections};
pub use measure::{Measure, Primary, Statistic, Targets, Unit, UnknownMeasure};
pub use page::{Page, PageError, PageNode, PageRequest, UnknownUrgency, Urgency};
pub use path::{
    Asked, AskedSetting, CLIENT_PROGRAMS, Hop, OwnProgram, PROGRAMS, ProgramSetting, Runs, Station,
};
pub use presets::{Preset, find_preset, presets};
pub use request::{
    FormField, FormValue, KeptFile, NamedFile, RequestBody, RequestTemplate, ResponseTemplate,
};
pub use script::{Script, ScriptBody, ScriptRequest, ScriptStep};
pub use settings::{
    BodyFraming, Http1Settings, Http2Settings, Http3Settings, NotPorts, PoolOrder, PoolSettings,
    PortRange, QuicCongestionControl, RecordSizes, SideSettings, TcpSettings, TlsSettings,
    TlsVersion, UnknownWord, WindowUpdates,
};
pub use stages::{Stage, Stages, StagesError};
pub use words::ParseWordsError;
pub use workload::{
    ClosedLoad, Mix, NoWeight, OpenLoad, PageLoad, Rounds, ScriptLoad, Spacing, Speed, ThinkTime,
    Warmup, Workload,
};

use crate::time::Duration;

/// How often sockets are sampled if nothing is said: often enough to see a congestion window move within a round trip of
/// an ocean.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// No oftener: a sample takes microseconds, and there may be thousands of sockets.
pub const SAMPLE_EVERY_AT_LEAST: Duration = Duration::from_millis(1);

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
    /// HTTP/3.
    Http3,
}

/// The protocol of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// HTTP/1.1 in the clear (RFC 9112), keep-alive, no pipelining.
    H1,
    /// HTTP/1.1 over TLS.
    H1s,
    /// HTTP/2 in the clear with prior knowledge (RFC 9113, section 3.3).
    H2c,
    /// HTTP/2 over TLS, agreed on by ALPN (RFC 9113, section 3.2).
    H2,
    /// HTTP/3 (RFC 9114), over QUIC.
    H3,
}

impl Protocol {
    /// Every protocol that a hop can have.
    pub const ALL: [Protocol; 5] = [
        Protocol::H1,
        Protocol::H1s,
        Protocol::H2c,
        Protocol::H2,
        Protocol::H3,
    ];

    /// The word of the path notation.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::H1 => "h1",
            Protocol::H1s => "h1s",
            Protocol::H2c => "h2c",
            Protocol::H2 => "h2",
            Protocol::H3 => "h3",
        }
    }

    /// Which HTTP it is, in the clear or not.
    pub const fn version(self) -> Version {
        match self {
            Protocol::H1 | Protocol::H1s => Version::Http1,
            Protocol::H2c | Protocol::H2 => Version::Http2,
            Protocol::H3 => Version::Http3,
        }
    }

    /// Whether it is encrypted.
    pub const fn is_secure(self) -> bool {
        matches!(self, Protocol::H1s | Protocol::H2 | Protocol::H3)
    }

    /// The protocol's name in ALPN (RFC 7301), also for those that do not use it.
    pub const fn alpn(self) -> &'static str {
        match self.version() {
            Version::Http1 => "http/1.1",
            Version::Http2 => "h2",
            Version::Http3 => "h3",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How a client gets a connection for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Connections {
    /// Opened when a request finds none free, at most so many; the most recently used free one first.
    OnDemand {
        /// The most connections that may be open at once.
        at_most: u32,
    },
    /// So many, opened before the load begins; requests take turns over those that can take one. Giving
    /// each to the least busy connection instead would dodge one that stalls on a loss, which a client
    /// that ties requests to connections, such as a sidecar with one for each worker thread, cannot do.
    Fixed(u32),
}

/// One way to serve the load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// What tables and folders call it, such as `h2c x8`.
    pub name: String,
    /// The path as it was written: `client ~h2c~> server`.
    pub path: String,
    /// The stations, from the client to the server.
    pub stations: Vec<Station>,
    /// The hops between them: one fewer.
    pub hops: Vec<Hop>,
}

impl Variant {
    /// The client's hop.
    pub fn first_hop(&self) -> &Hop {
        &self.hops[0]
    }

    /// The server's hop.
    pub fn last_hop(&self) -> &Hop {
        &self.hops[self.hops.len() - 1]
    }

    /// The hop across the link, and its number from 1.
    pub fn link_hop(&self) -> (u8, &Hop) {
        let crosses = |(_, hop): &(u8, &Hop)| hop.across_link;
        let mut hops = (1..).zip(&self.hops);
        hops.find(crosses).unwrap_or((1, self.first_hop()))
    }

    /// Whether the station of that place, from 0, is in the far host.
    pub fn is_behind_link(&self, station: usize) -> bool {
        self.hops[..station].iter().any(|hop| hop.across_link)
    }
}

/// One repetition of a cell. What its load asks for is in the plan, once for all trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Its place in the order of the run, from 0.
    pub index: u32,
    /// Which repetition of its cell, from 0.
    pub repetition: u32,
    /// The seed of the link. Trials of one repetition and condition share it, so that all variants meet
    /// the same conditions.
    pub seed: u64,
    /// The variant.
    pub variant: Variant,
    /// The condition.
    pub condition: Condition,
    /// The load.
    pub load: Load,
    /// The response.
    pub response: ResponseTemplate,
    /// How often sockets are sampled.
    #[serde(default = "usual_sampling")]
    pub sample_every: Duration,
}

/// What plans say that say nothing: those of before it could be chosen.
fn usual_sampling() -> Duration {
    SAMPLE_EVERY
}

impl Trial {
    /// The name of the trial's folder: its index, variant, condition and repetition, in safe characters.
    pub fn folder(&self) -> String {
        let condition = &self.condition;
        let mut text = format!(
            "{:04}-{}-{}-{}",
            self.index, self.variant.name, condition.delay, condition.loss
        );
        let further = condition.further().join(", ");
        if !further.is_empty() {
            // Names of files have limits; the index tells folders apart.
            text.push('-');
            text.extend(further.chars().take(60));
        }
        text += &format!("-r{}", self.repetition);
        text.chars()
            .map(|c| match c {
                '%' => 'p',
                c if c.is_ascii_alphanumeric() || c == '-' || c == '.' => c,
                _ => '_',
            })
            .collect()
    }

    /// The longest that the load of this trial can take, without set-up.
    pub fn load_time_at_most(&self) -> Duration {
        self.load.warmup + self.load.duration + self.load.drain
    }
}

/// All trials of a run, in the order in which they are run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The recipe's name, such as `twilio`.
    pub recipe: String,
    /// The question that the recipe asks, in one sentence.
    pub question: String,
    /// What variants are compared by; the first answers the question.
    #[serde(default = "usual_measures")]
    pub measures: Vec<Measure>,
    /// The comparison that the question is about, if the recipe names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<Primary>,
    /// The profile that was chosen, such as `quick`.
    pub profile: String,
    /// The variants in the recipe's order; the first is the one that others are compared with.
    pub variants: Vec<Variant>,
    /// The conditions in the recipe's order.
    pub conditions: Vec<Condition>,
    /// What loads ask for, which name it by its place.
    pub requests: Vec<RequestTemplate>,
    /// The files that the recipe names, of which the run keeps copies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<NamedFile>,
    /// The trials.
    pub trials: Vec<Trial>,
}

/// What plans mean that name no measure.
fn usual_measures() -> Vec<Measure> {
    vec![Measure::USUAL]
}

/// A word that is no protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown protocol {0:?}: expected h1, h1s, h2c, h2 or h3")]
pub struct UnknownProtocol(pub String);

impl FromStr for Protocol {
    type Err = UnknownProtocol;

    fn from_str(text: &str) -> Result<Protocol, UnknownProtocol> {
        Protocol::ALL
            .into_iter()
            .find(|p| p.name() == text)
            .ok_or_else(|| UnknownProtocol(text.to_owned()))
    }
}

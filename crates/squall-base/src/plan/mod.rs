//! What a run is to do: variants, conditions, load, and the trials they expand to.
//!
//! These are checked values: squall-recipe makes them from a recipe's text, and after that nothing that a trial needs
//! is optional. They are also the content of plan.json and trial.json, so renaming a field changes the record's schema
//! (docs/RECORD.md). Nothing here starts anything. `message` has the rules for the content of requests and responses,
//! `request` their values, `presets` the settings of well-known programs, `script` requests with their times, `page`
//! requests that depend on each other, `path` the stations of a variant, `stages` a rate that changes, `words` the
//! notation of these values, `workload` the loads made from them, `load` the load of a trial, `condition` what the link
//! does in it, `measure` what variants are compared by, `fixes` the settings that a run tries after its planned trials.

mod condition;
mod fixes;
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

use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use crate::side::Side;
pub use condition::{Condition, LinkConditions, PerDirection};
pub use fixes::{ChosenFixes, FixTrials, FixesToTry, SettingChange, UntriedFix, listed_changes};
pub use load::{Load, LoadKind, PageQuestion, Users, browser_connections};
pub use measure::{Measure, Primary, Statistic, Targets, Unit, UnknownMeasure};
pub use page::{Page, PageError, PageNode, PageRequest, UnknownUrgency, Urgency};
pub use path::{
    CLIENT_PROGRAMS, Hop, Implementation, LINKS_AT_MOST, OwnProgram, PROGRAMS, ProgramSetting,
    Station, StationOptions, StationSetting,
};
pub use presets::{Preset, find_preset, presets};
pub use request::{
    FileCopy, FormField, FormValue, LARGE_BODY_BYTES, RecipeFile, RequestBody, RequestTemplate,
    ResponseTemplate,
};
pub use script::{Script, ScriptBody, ScriptRequest, ScriptStep};
pub use settings::{
    BodyFraming, Http1Settings, Http2Settings, Http3Settings, ParsePortRangeError, PoolOrder,
    PoolSettings, PortRange, QuicCongestionControl, RecordSizes, SideSettings, TcpSettings,
    TlsGroup, TlsSettings, TlsVersion, UnknownWord, WindowUpdates,
};
pub use stages::{Stage, Stages, StagesError};
pub use words::ParseLoadError;
pub use workload::{
    ClosedLoad, Mix, MixError, OpenLoad, PageLoad, Rounds, ScriptLoad, Spacing, Speed, ThinkTime,
    Warmup, Weights, Workload,
};

use crate::splitmix::splitmix64;
use crate::time::Duration;

/// The default interval between samples of sockets: short enough to see a congestion window change within a round trip
/// across an ocean.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// The shortest interval: a sample takes microseconds, and there may be thousands of sockets.
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

crate::words! {
    /// The protocol of a hop.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Protocol {
        /// HTTP/1.1 in cleartext (RFC 9112), keep-alive, no pipelining.
        H1 = "h1",
        /// HTTP/1.1 over TLS.
        H1s = "h1s",
        /// HTTP/2 in cleartext with prior knowledge (RFC 9113, section 3.3).
        H2c = "h2c",
        /// HTTP/2 over TLS, negotiated by ALPN (RFC 9113, section 3.2).
        H2 = "h2",
        /// HTTP/3 (RFC 9114), over QUIC.
        H3 = "h3",
    }
}

impl Protocol {
    /// The version of HTTP, encrypted or not.
    pub const fn version(self) -> Version {
        match self {
            Protocol::H1 | Protocol::H1s => Version::Http1,
            Protocol::H2c | Protocol::H2 => Version::Http2,
            Protocol::H3 => Version::Http3,
        }
    }

    /// Whether the protocol is encrypted.
    pub const fn is_secure(self) -> bool {
        matches!(self, Protocol::H1s | Protocol::H2 | Protocol::H3)
    }

    /// The protocol's ALPN name (RFC 7301), even if it does not use ALPN.
    pub const fn alpn(self) -> &'static str {
        match self.version() {
            Version::Http1 => "http/1.1",
            Version::Http2 => "h2",
            Version::Http3 => "h3",
        }
    }
}

/// How a client gets a connection for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Connections {
    /// Opened when a request finds no free connection, up to a limit; the most recently used free one comes first.
    OnDemand {
        /// The most connections that may be open at once.
        at_most: u32,
    },
    /// A fixed number, opened before the load begins; requests take turns on those that can take one. Choosing the
    /// least busy connection would avoid one that stalls on a loss. A client that ties requests to connections cannot
    /// do that, such as a sidecar with one connection for each worker thread.
    Fixed(u32),
}

/// One way to serve the load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// Its name in tables and folders, such as `h2c x8`.
    pub name: String,
    /// The path as written: `client ~h2c~> server`.
    pub path: String,
    /// The stations, from the client to the server.
    pub stations: Vec<Station>,
    /// The hops between them, one fewer.
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

    /// The hops across links, each with its number from 1, in the order of the links.
    pub fn link_hops(&self) -> impl Iterator<Item = (u8, &Hop)> {
        (1..).zip(&self.hops).filter(|(_, hop)| hop.across_link)
    }

    /// The hop across the first link, and its number from 1.
    pub fn link_hop(&self) -> (u8, &Hop) {
        let first = self.link_hops().next();
        first.unwrap_or((1, self.first_hop()))
    }

    /// The number of links.
    pub fn links(&self) -> usize {
        self.link_hops().count()
    }

    /// The number of links before the station at this place, from 0. Hosts are numbered likewise: each link begins a new
    /// one.
    pub fn links_before(&self, station: usize) -> usize {
        let before = self.hops[..station].iter();
        before.filter(|hop| hop.across_link).count()
    }
}

/// One repetition of a cell. The requests of its load are in the plan, once for all trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Its place in the order of the run, from 0.
    pub index: u32,
    /// The number of the repetition within its cell, from 0.
    pub repetition: u32,
    /// The seed of the first link, from which those of further links follow. Trials of the same repetition and condition
    /// share it, so that all variants meet the same conditions.
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
    /// For each link of the path, whether its devices exchange super-packets, which the link splits into the packets of
    /// the wire before it decides anything. A link without an entry, as in plans from before there was a choice, does not.
    #[serde(default)]
    pub fast: Vec<bool>,
}

/// The interval in plans that do not state one: those from before it could be chosen.
fn usual_sampling() -> Duration {
    SAMPLE_EVERY
}

impl Trial {
    /// The name of the trial's folder: its index, variant, condition and repetition, in safe characters.
    pub fn folder(&self) -> String {
        let condition = &self.condition;
        // File names have length limits; the index distinguishes folders. Names of variants in recipes are shorter.
        let variant: String = self.variant.name.chars().take(80).collect();
        let mut text = format!(
            "{:04}-{variant}-{}-{}",
            self.index, condition.delay, condition.loss
        );
        let further = condition.further().join(", ");
        if !further.is_empty() {
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

    /// The seed of a link, by its place among the links of the path, from 0.
    pub fn link_seed(&self, link: usize) -> u64 {
        match link {
            0 => self.seed,
            further => splitmix64(self.seed, further as u64),
        }
    }

    /// Whether the devices of a link, by its place among the links of the path, exchange super-packets.
    pub fn is_fast(&self, link: usize) -> bool {
        self.fast.get(link).copied().unwrap_or(false)
    }

    /// The delays, both ways, of the link that hop number `hop` crosses.
    pub fn link_round_trip(&self, hop: u8) -> Duration {
        let client = usize::from(hop.max(1)) - 1;
        let link = self.variant.links_before(client);
        self.condition.of_link(link).round_trip()
    }

    /// The delays of all links, both ways: the least time that a request takes if each proxy waits for its response.
    pub fn round_trip(&self) -> Duration {
        let links = 0..self.variant.links();
        let each = links.map(|link| self.condition.of_link(link).round_trip());
        each.fold(Duration::ZERO, |sum, one| sum + one)
    }

    /// The longest that the load of this trial can take, excluding set-up.
    pub fn load_time_at_most(&self) -> Duration {
        self.load.warmup + self.load.duration + self.load.drain
    }
}

/// All trials of a run, in execution order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The recipe's name, such as `twilio`.
    pub recipe: String,
    /// The recipe's question, in one sentence.
    pub question: String,
    /// What variants are compared by; the first measure answers the question.
    #[serde(default = "usual_measures")]
    pub measures: Vec<Measure>,
    /// The comparison that the question is about, if the recipe names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<Primary>,
    /// The profile that was chosen, such as `quick`.
    pub profile: String,
    /// The variants in the recipe's order; the others are compared with the first.
    pub variants: Vec<Variant>,
    /// The conditions in the recipe's order.
    pub conditions: Vec<Condition>,
    /// The requests that loads refer to by place.
    pub requests: Vec<RequestTemplate>,
    /// The files that the recipe names; the run keeps copies of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<RecipeFile>,
    /// The trials.
    pub trials: Vec<Trial>,
    /// The fixes to try after these trials, if the user asked for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixes: Option<FixesToTry>,
}

impl Plan {
    /// The fixes that were chosen, with their trials; empty until the planned trials are complete.
    pub fn tried_fixes(&self) -> &[FixTrials] {
        let chosen = self.fixes.as_ref().and_then(|fixes| fixes.chosen.as_ref());
        chosen.map_or(&[][..], |chosen| chosen.tried.as_slice())
    }

    /// The fixes of equally costly findings that cannot be tried.
    pub fn fixes_not_tried(&self) -> &[UntriedFix] {
        let chosen = self.fixes.as_ref().and_then(|fixes| fixes.chosen.as_ref());
        chosen.map_or(&[][..], |chosen| chosen.not_tried.as_slice())
    }

    /// The trials of fixes, in the order in which they are run.
    pub fn fix_trials(&self) -> impl Iterator<Item = &Trial> {
        self.tried_fixes().iter().flat_map(|fix| &fix.trials)
    }

    /// Whether a trial of this run belongs to a fix, and so to none of the plan's cells.
    pub fn is_of_fix(&self, trial: &Trial) -> bool {
        self.fix_trials().any(|own| own.index == trial.index)
    }
}

/// The measures of plans that name none.
fn usual_measures() -> Vec<Measure> {
    vec![Measure::USUAL]
}

/// A word that does not name a protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown protocol {0:?}: expected h1, h1s, h2c, h2 or h3")]
pub struct UnknownProtocol(pub String);

impl FromStr for Protocol {
    type Err = UnknownProtocol;

    fn from_str(text: &str) -> Result<Protocol, UnknownProtocol> {
        Protocol::from_name(text).ok_or_else(|| UnknownProtocol(text.to_owned()))
    }
}

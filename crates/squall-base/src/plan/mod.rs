//! What a run shall do: variants, conditions, load, and the trials they expand to.
//!
//! These are checked values: a recipe's text becomes them in squall-recipe, and after that nothing is
//! optional that a trial needs. They are also what plan.json and trial.json hold, so renaming a field is
//! a change of the record's schema (docs/RECORD.md). Nothing here starts anything. `message` has the rules
//! for what a request or response may hold.

pub mod message;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::quantity::{Bytes, Probability, Rate};
use crate::time::Duration;

/// The protocol of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// HTTP/1.1 in the clear (RFC 9112), keep-alive, no pipelining.
    H1,
    /// HTTP/2 in the clear with prior knowledge (RFC 9113, section 3.3).
    H2c,
}

impl Protocol {
    /// Every protocol that a hop can have.
    pub const ALL: [Protocol; 2] = [Protocol::H1, Protocol::H2c];

    /// The word of the path notation.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::H1 => "h1",
            Protocol::H2c => "h2c",
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

/// The HTTP/2 settings that both sides of a hop announce (RFC 9113, section 6.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http2Settings {
    /// SETTINGS_INITIAL_WINDOW_SIZE: what the peer may send on a stream before an update.
    pub stream_window: Bytes,
    /// What the peer may send on the whole connection before an update.
    pub connection_window: Bytes,
    /// SETTINGS_MAX_CONCURRENT_STREAMS.
    pub max_concurrent_streams: u32,
}

impl Default for Http2Settings {
    /// The protocol's initial windows (RFC 9113, section 6.9.2) and 100 streams, as nghttpd announces.
    fn default() -> Self {
        Http2Settings {
            stream_window: Bytes::new(65_535),
            connection_window: Bytes::new(65_535),
            max_concurrent_streams: 100,
        }
    }
}

/// One way to serve the load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// What tables and folders call it, such as `h2c x8`.
    pub name: String,
    /// The path as it was written: `client ~h2c~> server`.
    pub path: String,
    /// The protocol of the path's hop across the link.
    pub protocol: Protocol,
    /// The client's connections.
    pub connections: Connections,
    /// Settings of both sides; used by HTTP/2 hops only.
    pub http2: Http2Settings,
    /// The TCP congestion control of both sides, by its kernel name.
    pub congestion_control: String,
}

/// The link's settings in a cell; the same in both directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// One-way delay: a round trip takes twice this.
    pub delay: Duration,
    /// The share of IP packets lost, drawn for each packet and each direction by itself.
    pub loss: Probability,
    /// What else the link does, in the words of its settings (docs/LINK.md); empty for nothing.
    pub link: String,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "delay {}, loss {}", self.delay, self.loss)?;
        match self.link.as_str() {
            "" => Ok(()),
            link => write!(f, ", {link}"),
        }
    }
}

/// Open-loop load: requests at their times, whatever becomes of the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Constant rate of arrivals.
    pub rate: Rate,
    /// Load before the measurement begins: recorded, but not part of any statistic.
    pub warmup: Duration,
    /// Load that is measured.
    pub duration: Duration,
    /// How long after the last arrival unfinished requests are waited for; then they are censored.
    pub drain: Duration,
}

/// What the client sends, every time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestTemplate {
    /// The method, such as `POST`.
    pub method: String,
    /// The path and query, such as `/`.
    pub target: String,
    /// Header fields besides those that the protocol itself needs; names in lower case.
    pub headers: Vec<(String, String)>,
    /// Size of the body.
    pub body: Bytes,
}

/// What the server answers, every time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseTemplate {
    /// The status code.
    pub status: u16,
    /// Size of the static body.
    pub body: Bytes,
}

/// One repetition of a cell, with everything that its worker needs.
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
    /// The request.
    pub request: RequestTemplate,
    /// The response.
    pub response: ResponseTemplate,
}

impl Trial {
    /// The name of the trial's folder: its index, variant, condition and repetition, in safe characters.
    pub fn folder(&self) -> String {
        let condition = &self.condition;
        let mut text = format!(
            "{:04}-{}-{}-{}",
            self.index, self.variant.name, condition.delay, condition.loss
        );
        if !condition.link.is_empty() {
            // Names of files have limits; the index tells folders apart.
            text.push('-');
            text.extend(condition.link.chars().take(60));
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
    /// The profile that was chosen, such as `quick`.
    pub profile: String,
    /// The variants in the recipe's order; the first is the one that others are compared with.
    pub variants: Vec<Variant>,
    /// The conditions in the recipe's order.
    pub conditions: Vec<Condition>,
    /// The trials.
    pub trials: Vec<Trial>,
}

/// A word that is no protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown protocol {0:?}: expected h1 or h2c")]
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

//! What is wrong with an endpoint's HTTP, as a client sees it from outside: facts, faults and a verdict.
//!
//! `observed` is the input, what a probe recorded. `endpoint` has the facts that follow from it, with the help of
//! `announced`, `windows` and `limits` (flow control of uploads: what HTTP/2 announces, and what uploads over HTTP/2 and
//! HTTP/3 get), `flow` (what that allows in a round trip), `transfer` (rates, uploads, losses), `downloads` (what held them
//! up), `client_windows` (what this client gives them), `quic` (its losses), `small` (latencies, pauses, connections),
//! `handshake` (certificates, tickets), `keep_alive` (idle connections), `priorities` (whether urgent responses come first),
//! `concurrency` (whether slow requests are handled together), `addresses` (what names lead to),
//! `quic_transport` (what QUIC announces, pacing), `record_sizes` (whether TLS records grow), `packets` (what
//! captured ones show) and `product` (which program it is, and the names of its settings).
//! `detect`, `detect_slow` and `detect_windows` decide which facts are faults, `fault` says what each means, and `verdict`
//! puts the most important one first. `course` has how transfers and handshakes went over time, and `sweep` compares probes
//! behind several links. Nothing is sent here: the binary's `probe/` does that, and squall-report's `probe` prints the result.

mod addresses;
mod announced;
mod client_windows;
mod concurrency;
mod course;
mod detect;
mod detect_slow;
mod detect_windows;
mod downloads;
mod endpoint;
mod fault;
mod flow;
mod handshake;
mod keep_alive;
mod limits;
#[cfg(test)]
mod made;
#[cfg(test)]
mod made_uploads;
mod observed;
mod packets;
mod priorities;
mod product;
mod quic;
mod quic_transport;
mod record_sizes;
mod signs;
mod small;
mod spans;
mod sweep;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_windows;
mod transfer;
mod verdict;
mod windows;

use serde::Serialize;

use crate::summary::Schema;

pub use addresses::{FamilyFacts, OtherName};
pub use announced::AnnouncedWindows;
pub use client_windows::ClientWindows;
pub use concurrency::Concurrency;
pub use course::{Opening, Transfer, TransferCourse};
pub use downloads::DownloadTime;
pub use endpoint::{
    CodingFacts, Endpoint, IdleFacts, LimitPrediction, Prediction, TlsFacts, VersionFacts,
};
pub use fault::{DetectedFault, Fault, Relevance};
pub use handshake::{Certificates, ClientHello, HandshakeFacts, Resumption};
pub use keep_alive::{IdleConnection, KeepAlive};
pub use limits::UploadLimits;
pub use observed::{
    Chain, Handshake, Head, Http3Reach, HttpsAnswer, HttpsService, Observations, Piece,
    ReceivedRecord, Step, StepKind, TransportParameters, version_name,
};
pub use packets::{PacketFacts, Segment};
pub use priorities::{PRIORITY_DOWNLOADS, PRIORITY_WINDOW, Priorities, is_urgent};
pub use product::{Product, RecognisedProduct};
pub use quic::QuicFacts;
pub use quic_transport::{Pacing, QuicTransport};
pub use record_sizes::{FirstRecords, RecordSizes};
pub use small::{ShortConnection, SmallRequestTimes, failure};
pub use sweep::{ProbeResult, Sweep, SweepFigures, SweepMeasure, SweepPoint};
pub use transfer::{Losses, Rates, Upload};
pub use verdict::ProbeVerdict;
pub use windows::{UpdatePolicy, UploadWindows};

/// The result of a probe.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnosis {
    /// The name and version of this format.
    pub schema: Schema,
    /// The answer.
    pub verdict: ProbeVerdict,
    /// All faults, the most important one first.
    pub faults: Vec<DetectedFault>,
    /// The facts.
    pub endpoint: Endpoint,
}

impl Diagnosis {
    /// What these observations show.
    pub fn of(seen: &Observations) -> Diagnosis {
        let endpoint = Endpoint::of(seen);
        let faults = detect::faults(seen, &endpoint);
        Diagnosis {
            schema: Schema::new("squall.probe", 1),
            verdict: ProbeVerdict::of(seen, &endpoint, &faults),
            faults,
            endpoint,
        }
    }
}

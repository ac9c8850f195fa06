//! Builds a script: identical requests are kept once, and steps are sorted by time. The formats parse the requests, and
//! `sendable` checks them.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

use squall_base::Duration;
use squall_base::plan::{Script, ScriptBody, ScriptRequest, ScriptStep};

use super::LONGEST_NS;
use super::error::{Fault, ImportError};
use super::place::{Format, Location};

/// The origin of a script's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The earliest time in the recording.
    Earliest,
    /// The origin of the recording's own times.
    Zero,
}

/// The requests so far, with their times, in the order of the recording.
#[derive(Debug, Default)]
pub(super) struct ScriptBuilder(Vec<TimedRequest>);

/// A request with its time and location in the recording.
#[derive(Debug)]
struct TimedRequest {
    at_ns: u128,
    location: Location,
    request: ScriptRequest,
}

impl ScriptBuilder {
    /// Adds a request at its time.
    pub(super) fn add(&mut self, at_ns: u128, location: Location, request: ScriptRequest) {
        self.0.push(TimedRequest {
            at_ns,
            location,
            request,
        });
    }

    /// Returns the script. Steps are sorted by time, and steps of equal time keep the order of the recording. Requests
    /// are in the order in which they are first sent.
    pub(super) fn finish(mut self, format: Format, origin: Origin) -> Result<Script, ImportError> {
        self.0.sort_by_key(|timed| timed.at_ns);
        let origin_ns = match origin {
            Origin::Earliest => self.0.first().map_or(0, |timed| timed.at_ns),
            Origin::Zero => 0,
        };
        let mut distinct = DistinctRequests::default();
        let mut steps = Vec::with_capacity(self.0.len());
        for timed in self.0 {
            let at = u64::try_from(timed.at_ns - origin_ns).ok();
            let at = at.filter(|at| *at <= LONGEST_NS);
            let at = at.ok_or_else(|| ImportError::at(format, timed.location, Fault::TooLate))?;
            steps.push(ScriptStep {
                at: Duration::from_nanos(at),
                request: distinct.index_of(timed.request),
            });
        }
        Ok(Script {
            requests: distinct.requests,
            steps,
        })
    }
}

#[derive(Debug, Default)]
struct DistinctRequests {
    requests: Vec<ScriptRequest>,
    /// The indices of the requests by their hash. Never iterated over, so its order has no effect.
    indices: HashMap<u64, Vec<u32>>,
    hasher: RandomState,
}

impl DistinctRequests {
    /// The index of a request, which is added if it is new. An input has at most `u32::MAX` bytes (`check_size`), so it
    /// has no more requests than that.
    fn index_of(&mut self, request: ScriptRequest) -> u32 {
        let hash = self.hasher.hash_one(identity(&request));
        let indices = self.indices.entry(hash).or_default();
        let is_known = |index: &u32| self.requests[*index as usize] == request;
        if let Some(index) = indices.iter().copied().find(is_known) {
            return index;
        }
        let index = self.requests.len() as u32;
        indices.push(index);
        self.requests.push(request);
        index
    }
}

/// The fields that distinguish requests, in hashable form.
fn identity(request: &ScriptRequest) -> impl Hash {
    let nothing: &[u8] = &[];
    let (kind, content, size) = match &request.body {
        ScriptBody::Empty => (0_u8, nothing, 0),
        ScriptBody::Text(text) => (1, text.as_bytes(), 0),
        ScriptBody::File(path) => (2, path.to_str().unwrap_or_default().as_bytes(), 0),
        ScriptBody::Size(bytes) => (3, nothing, bytes.get()),
        ScriptBody::Binary(bytes) => (4, bytes.as_slice(), 0),
    };
    (
        &request.method,
        &request.url,
        &request.headers,
        kind,
        content,
        size,
    )
}

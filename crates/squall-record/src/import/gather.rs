//! A script while it is put together: requests that are sent twice are kept once, and steps are brought in order.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

use squall_base::Duration;
use squall_base::plan::{Script, ScriptBody, ScriptRequest, ScriptStep};

use super::LONGEST_NS;
use super::error::{Fault, Format, ImportError, Place};

/// From when a script's times count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The earliest of the recording's times.
    Earliest,
    /// The origin of the recording's times.
    Zero,
}

/// What was sent when, so far, in the order of the recording.
#[derive(Debug, Default)]
pub(super) struct Gathering(Vec<Sent>);

/// A request with the recording's time and its place there.
#[derive(Debug)]
struct Sent {
    at_ns: u128,
    place: Place,
    request: ScriptRequest,
}

impl Gathering {
    /// Adds a request at its time.
    pub(super) fn add(&mut self, at_ns: u128, place: Place, request: ScriptRequest) {
        self.0.push(Sent {
            at_ns,
            place,
            request,
        });
    }

    /// The script: steps in the order of their times, at equal times in that of the recording; requests in the order in
    /// which they are first sent.
    pub(super) fn finish(mut self, format: Format, origin: Origin) -> Result<Script, ImportError> {
        self.0.sort_by_key(|sent| sent.at_ns);
        let origin_ns = match origin {
            Origin::Earliest => self.0.first().map_or(0, |sent| sent.at_ns),
            Origin::Zero => 0,
        };
        let mut known = Known::default();
        let mut steps = Vec::with_capacity(self.0.len());
        for sent in self.0 {
            let at = u64::try_from(sent.at_ns - origin_ns).ok();
            let at = at.filter(|at| *at <= LONGEST_NS);
            let at = at.ok_or_else(|| ImportError::at(format, sent.place, Fault::TooLate))?;
            steps.push(ScriptStep {
                at: Duration::from_nanos(at),
                request: known.place_of(sent.request),
            });
        }
        Ok(Script {
            requests: known.requests,
            steps,
        })
    }
}

/// Requests, each once.
#[derive(Debug, Default)]
struct Known {
    requests: Vec<ScriptRequest>,
    /// The places of the requests, by what they hash to. Never iterated over, so its order does not show.
    places: HashMap<u64, Vec<u32>>,
    hasher: RandomState,
}

impl Known {
    /// The place of a request, which is added if it is new. An input has no more bytes than a `u32` counts
    /// (`check_size`), so it has no more requests.
    fn place_of(&mut self, request: ScriptRequest) -> u32 {
        let hash = self.hasher.hash_one(identity(&request));
        let places = self.places.entry(hash).or_default();
        let is_known = |place: &u32| self.requests[*place as usize] == request;
        if let Some(place) = places.iter().copied().find(is_known) {
            return place;
        }
        let place = self.requests.len() as u32;
        places.push(place);
        self.requests.push(request);
        place
    }
}

/// What tells requests apart, in words that hash.
fn identity(request: &ScriptRequest) -> impl Hash {
    let (kind, text, size) = match &request.body {
        ScriptBody::Empty => (0_u8, "", 0),
        ScriptBody::Text(text) => (1, text.as_str(), 0),
        ScriptBody::File(path) => (2, path.to_str().unwrap_or_default(), 0),
        ScriptBody::Size(bytes) => (3, "", bytes.get()),
    };
    (
        &request.method,
        &request.url,
        &request.headers,
        kind,
        text,
        size,
    )
}

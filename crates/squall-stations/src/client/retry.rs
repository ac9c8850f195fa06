//! Retries requests that the server has not processed ([`Http2Settings::retry_unprocessed`],
//! [`Http3Settings::retry_unprocessed`]).
//!
//! This module decides whether a request is retried, and keeps it until then. `in_flight` and `connection` know which
//! requests were not processed; `dispatch` requeues them. A request keeps its place in the schedule: its response time
//! counts from when it was first due.
//!
//! [`Http2Settings::retry_unprocessed`]: squall_base::plan::Http2Settings::retry_unprocessed
//! [`Http3Settings::retry_unprocessed`]: squall_base::plan::Http3Settings::retry_unprocessed

use std::collections::BTreeMap;

use squall_base::plan::{SideSettings, Version};
use squall_base::record::RequestRecord;

use super::queued_request::QueuedRequest;

/// The most retries of one request, so that a load ends even if the server refuses everything.
const MAX_RETRIES: u32 = 10;

/// Which requests are retried.
#[derive(Debug, Default)]
pub(crate) struct Retries {
    http2: bool,
    http3: bool,
    /// How many times each request that has not ended was retried, by its place in the schedule.
    counts: BTreeMap<u64, u32>,
    /// Requests to be requeued.
    waiting: Vec<QueuedRequest>,
}

impl Retries {
    pub(super) fn of(side: &SideSettings) -> Retries {
        Retries {
            http2: side.http2.retry_unprocessed,
            http3: side.http3.retry_unprocessed,
            ..Retries::default()
        }
    }

    /// Keeps a request that was not processed over this version, if it is to be retried. Returns whether it is.
    pub(super) fn keep(&mut self, record: &RequestRecord, version: Version) -> bool {
        let is_wanted = match version {
            Version::Http1 => false,
            Version::Http2 => self.http2,
            Version::Http3 => self.http3,
        };
        if !is_wanted {
            return false;
        }
        let count = self.counts.entry(record.request).or_default();
        if *count == MAX_RETRIES {
            return false;
        }
        *count += 1;
        self.waiting.push(QueuedRequest::again(record));
        true
    }

    /// Notes that a request has ended.
    pub(super) fn ended(&mut self, request: u64) {
        if !self.counts.is_empty() {
            self.counts.remove(&request);
        }
    }

    /// Takes the requests to be requeued.
    pub(super) fn take(&mut self) -> Vec<QueuedRequest> {
        std::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use squall_base::Time;
    use squall_base::plan::{Http2Settings, Http3Settings};

    use super::*;

    fn sent(request: u64) -> RequestRecord {
        RequestRecord {
            taken_up: Time::from_nanos(6),
            slot: Some(Time::from_nanos(7)),
            written_first: Some(Time::from_nanos(8)),
            written_last: Some(Time::from_nanos(9)),
            connection: Some(1),
            stream: Some(3),
            opened_connection: true,
            request_body_bytes: 10,
            ..RequestRecord::due(request, Time::from_nanos(5))
        }
    }

    fn retries(http2: bool, http3: bool) -> Retries {
        Retries::of(&SideSettings {
            http2: Http2Settings {
                retry_unprocessed: http2,
                ..Http2Settings::default()
            },
            http3: Http3Settings {
                retry_unprocessed: http3,
                ..Http3Settings::default()
            },
            ..SideSettings::default()
        })
    }

    #[test]
    fn request_is_retried_a_limited_number_of_times() {
        let mut retries = retries(true, false);
        for _ in 0..MAX_RETRIES {
            assert!(retries.keep(&sent(7), Version::Http2));
            let again = retries.take();
            let [again] = again.as_slice() else {
                panic!("one request: {again:?}");
            };
            let unsent = RequestRecord {
                taken_up: sent(7).taken_up,
                request_body_bytes: 10,
                ..RequestRecord::due(7, sent(7).intended)
            };
            assert_eq!(again.record(), unsent);
        }
        assert!(!retries.keep(&sent(7), Version::Http2));
        // Each request has its own count, which is dropped when the request ends.
        assert!(retries.keep(&sent(8), Version::Http2));
        retries.ended(7);
        retries.ended(8);
        assert!(retries.counts.is_empty());
    }

    #[test]
    fn only_the_configured_versions_are_retried() {
        for (http2, http3) in [(false, false), (true, false), (false, true)] {
            let mut retries = retries(http2, http3);
            for (version, is_wanted) in [
                (Version::Http1, false),
                (Version::Http2, http2),
                (Version::Http3, http3),
            ] {
                let is_kept = retries.keep(&sent(1), version);
                assert_eq!(is_kept, is_wanted, "{version:?}");
            }
        }
    }
}

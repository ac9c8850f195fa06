//! How long one request took: its latency from any moment on, its transfer time, its server time, the time to its first
//! chunk.
//!
//! One row in, one time out, with how much of it is known (`quantile`). Nothing is added up here: `trial` and `target_times` do
//! that, and `trial_source` does it for thresholds.

use std::collections::BTreeMap;

use squall_base::Time;
use squall_base::record::{ExchangeRecord, Outcome, RequestRecord, Side, TrialRecord};

use crate::quantile::{Quantile, Sample};

/// A request's latency from `start`, with how much of it is known.
pub(crate) fn latency_since(request: &RequestRecord, start: Time) -> Quantile {
    let waited = request.end.since(start);
    match request.outcome {
        _ if request.succeeded() => Quantile::Exact(waited),
        Outcome::Censored => Quantile::AtLeast(waited),
        _ => Quantile::Never,
    }
}

/// From the request's first byte written to the end of its response. If that byte was not seen, from when the request had a
/// connection.
pub(crate) fn transfer_time(request: &RequestRecord) -> Quantile {
    let start = request.written_first.or(request.slot);
    latency_since(request, start.unwrap_or(request.end))
}

/// From when a request was due to the first bytes of its response's body, or to its end if it has no body. An unfinished
/// request has such a time too, if its status is below 400. `None` if its client does not record arrivals.
pub(crate) fn first_chunk_time(request: &RequestRecord) -> Option<Quantile> {
    let is_good = request.status.is_some_and(|status| status < 400);
    let is_unfinished = request.outcome == Outcome::Censored && is_good;
    match request.arrivals.first {
        Some(first) if request.succeeded() || is_unfinished => {
            Some(Quantile::Exact(first.since(request.intended)))
        }
        None if request.response_body_bytes > 0 => None,
        _ => Some(latency_since(request, request.intended)),
    }
}

/// The exchanges of a trial, and what their server times depend on.
pub(crate) struct ServedExchanges<'a> {
    record: &'a TrialRecord,
    exchanges: &'a [ExchangeRecord],
    /// When the client gave up each request that had no complete response yet, by request.
    abandoned: BTreeMap<u64, Time>,
}

impl<'a> ServedExchanges<'a> {
    pub(crate) fn new(
        record: &'a TrialRecord,
        requests: &[RequestRecord],
        exchanges: &'a [ExchangeRecord],
    ) -> ServedExchanges<'a> {
        let abandoned = requests
            .iter()
            .filter(|row| row.outcome == Outcome::Censored);
        ServedExchanges {
            record,
            exchanges,
            abandoned: abandoned.map(|row| (row.request, row.end)).collect(),
        }
    }

    /// The server times of the exchanges for which `is_wanted` holds.
    pub(crate) fn times(&self, is_wanted: impl Fn(&ExchangeRecord) -> bool) -> Sample {
        let wanted = self.exchanges.iter().filter(|it| is_wanted(it));
        wanted.filter_map(|exchange| self.time(exchange)).collect()
    }

    /// The server time of an exchange. `None` unless the server across the link (of several links, the first) recorded it, it
    /// began in the measured phase, and its status, if it has one, is below 400. If the response's end is missing, the time is
    /// a lower bound: until the client gave the request up or, if the request is not known, until the server last saw something
    /// of it. `None` also if the request ended in another way.
    fn time(&self, exchange: &ExchangeRecord) -> Option<Quantile> {
        let record = self.record;
        let (number, _) = record.trial.variant.link_hop();
        let load = &record.trial.load;
        let begin = Time::ZERO + record.load_start + load.warmup;
        let end = begin + load.duration;
        let first = exchange.request_first?;
        let is_own = exchange.hop == number && exchange.side == Side::Server;
        let is_good = exchange.status.is_none_or(|status| status < 400);
        if !is_own || !is_good || first < begin || first >= end {
            return None;
        }
        match (exchange.response_last, exchange.request) {
            (Some(last), _) if exchange.status.is_some() => {
                Some(Quantile::Exact(last.since(first)))
            }
            (_, Some(request)) => self
                .abandoned
                .get(&request)
                .map(|end| Quantile::AtLeast(end.since(first))),
            (_, None) => {
                let seen = [exchange.request_last, exchange.response_first];
                let last = seen.into_iter().flatten().max().unwrap_or(first);
                Some(Quantile::AtLeast(last.since(first)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use squall_base::Duration;
    use squall_base::record::BodyArrivals;

    use super::*;
    use crate::load::requests::{answered, at, failed};

    #[test]
    fn first_chunk_is_known_once_it_has_arrived_unless_the_request_failed() {
        let mut arrivals = BodyArrivals::default();
        arrivals.note(at(40), true);
        let first = Some(Quantile::Exact(Duration::from_micros(40)));
        let streamed = RequestRecord {
            arrivals,
            ..answered(0, 900)
        };
        assert_eq!(first_chunk_time(&streamed), first);
        let unfinished = RequestRecord {
            outcome: Outcome::Censored,
            ..streamed.clone()
        };
        assert_eq!(first_chunk_time(&unfinished), first);
        let refused = RequestRecord {
            status: Some(503),
            ..streamed.clone()
        };
        assert_eq!(first_chunk_time(&refused), Some(Quantile::Never));
        let cut_off = RequestRecord {
            outcome: Outcome::ConnectionClosed,
            ..streamed
        };
        assert_eq!(first_chunk_time(&cut_off), Some(Quantile::Never));
    }

    #[test]
    fn response_without_a_body_has_its_end_as_first_chunk_and_unrecorded_times_are_unknown() {
        let us = Duration::from_micros;
        let empty = RequestRecord {
            response_body_bytes: 0,
            ..answered(0, 900)
        };
        assert_eq!(first_chunk_time(&empty), Some(Quantile::Exact(us(900))));
        let silent = failed(0, 900, Outcome::Censored, "");
        assert_eq!(first_chunk_time(&silent), Some(Quantile::AtLeast(us(900))));
        assert_eq!(first_chunk_time(&answered(0, 900)), None);
    }
}

//! How long one request took: its latency from any moment on, its transfer time, its server time.
//!
//! One row in, one time out, with how much of it is known (`quantile`). Nothing is added up or selected here: `trial` and
//! `target_times` do that, and `trial_source` does it for thresholds.

use squall_base::record::{ExchangeRecord, Outcome, RequestRecord, Side, TrialRecord};
use squall_base::{Duration, Time};

use crate::quantile::Quantile;

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

/// The server time of an exchange, if the server across the link (of several, across the first) recorded it, it began in
/// the measured phase, and its status is below 400.
pub(crate) fn server_time(record: &TrialRecord, exchange: &ExchangeRecord) -> Option<Duration> {
    let (number, _) = record.trial.variant.link_hop();
    let load = &record.trial.load;
    let begin = Time::ZERO + record.load_start + load.warmup;
    let end = begin + load.duration;
    let (first, last) = (exchange.request_first?, exchange.response_last?);
    let is_own = exchange.hop == number && exchange.side == Side::Server;
    (is_own && exchange.status? < 400 && begin <= first && first < end).then(|| last.since(first))
}

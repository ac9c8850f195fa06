//! Finds the clients that send a request's body too slowly while others wait for a connection to the same upstream
//! ([`MinUploadRate`] says which they are).
//!
//! It judges over one period after another, in each sweep. It does not judge how fast a client takes a response: the
//! kernel accepts that in pieces as large as the socket's buffer, which slow clients take longer than a period to empty.
//! `queue` decides which request is next, `ends` ends the slow ones.

use squall_base::Time;

use super::Connections;
use super::exchange::{BackState, ProxyExchange, ProxyExchanges};
use super::keys::{ExchangeKey, FrontKey};
use super::settings::{Failure, MinUploadRate};
use crate::memory::SCARCE_BYTES;

/// A request that is too slow.
struct SlowUpload {
    key: ExchangeKey,
    upstream: u32,
    /// Whether the request has a connection, rather than waiting for one.
    has_connection: bool,
    bytes: u64,
}

impl Connections {
    /// Answers requests whose clients are too slow, if others wait.
    pub(super) fn end_slow_uploads(&mut self) {
        let Some(least) = self.min_upload_rate else {
            return;
        };
        let relay = &mut self.relay;
        let upstreams = relay.backs.pools.len();
        let backlog_of = |at| relay.fronts.backlog_bytes(at);
        let slow = slow_uploads(
            &mut relay.exchanges,
            upstreams,
            backlog_of,
            relay.now,
            least,
        );
        for key in slow {
            self.relay.give_up_response(key, Failure::ClientSlow);
        }
    }
}

/// Judges all requests, and returns the slow ones that must end. For each upstream with n other requests waiting, these are
/// the n slowest uploads that have a connection, and all slow uploads that wait for one. If no other requests wait, no
/// upload ends.
fn slow_uploads(
    exchanges: &mut ProxyExchanges,
    upstreams: usize,
    backlog_of: impl Fn(FrontKey) -> usize,
    now: Time,
    least: MinUploadRate,
) -> Vec<ExchangeKey> {
    let mut others = vec![0_usize; upstreams];
    let mut slow = Vec::new();
    for (key, exchange) in exchanges.iter_mut() {
        let arrived = exchange.up.received_bytes;
        if awaits_client(exchange, &backlog_of) {
            exchange.pace.judge(now, arrived, least);
        } else {
            exchange.pace.restart(now, arrived);
        }
        let Some(upstream) = exchange.back.upstream() else {
            continue;
        };
        let has_connection = !matches!(exchange.back, BackState::Waiting { .. });
        match exchange.pace.too_little {
            Some(bytes) => slow.push(SlowUpload {
                key,
                upstream,
                has_connection,
                bytes,
            }),
            None if !has_connection => others[upstream as usize] += 1,
            None => {}
        }
    }
    slow.sort_by_key(|upload| upload.bytes);
    let mut needed = others.clone();
    slow.retain(|upload| {
        let upstream = upload.upstream as usize;
        if !upload.has_connection {
            return others[upstream] > 0;
        }
        let is_needed = needed[upstream] > 0;
        needed[upstream] = needed[upstream].saturating_sub(1);
        is_needed
    });
    slow.iter().map(|upload| upload.key).collect()
}

/// Whether an assigned request waits only for its client. It does not if the upstream has yet to take this body or another
/// body of the client's connection, if the body has ended, or if the response has begun.
fn awaits_client(exchange: &ProxyExchange, backlog_of: impl Fn(FrontKey) -> usize) -> bool {
    let Some((front, _)) = exchange.front else {
        return false;
    };
    exchange.back.upstream().is_some()
        && !exchange.up.has_ended
        && !exchange.up.is_closed
        && !exchange.has_response_begun
        // With less than this waiting for upstreams, a client's connection is read from even while memory is scarce.
        && exchange.up.waiting.len() < SCARCE_BYTES
        && backlog_of(front) < SCARCE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::keys::BackKey;
    use squall_base::Duration;
    use squall_http::StreamId;

    const LEAST: MinUploadRate = MinUploadRate {
        bytes_per_s: 240,
        period: Duration::from_secs(5),
    };
    const UPSTREAM: u32 = 1;

    /// Where requests are.
    #[derive(Clone, Copy)]
    enum Place {
        Queue,
        Upstream,
    }

    /// Requests whose arriving bytes a test controls.
    #[derive(Default)]
    struct Uploads {
        exchanges: ProxyExchanges,
        now: Time,
        backlog_bytes: usize,
    }

    impl Uploads {
        fn add(&mut self, place: Place) -> ExchangeKey {
            let mut exchange = ProxyExchange::new(FrontKey::Tcp(0), StreamId(0), self.now);
            exchange.back = match place {
                Place::Queue => BackState::Waiting { upstream: UPSTREAM },
                Place::Upstream => BackState::Sent {
                    at: BackKey {
                        pool: UPSTREAM,
                        ..BackKey::FIRST
                    },
                    stream: StreamId(1),
                },
            };
            self.exchanges.insert(exchange)
        }

        fn with(&mut self, key: ExchangeKey, change: impl FnOnce(&mut ProxyExchange)) {
            change(self.exchanges.get_mut(key).unwrap());
        }

        /// A request without a body, which waits for a connection.
        fn add_get(&mut self) -> ExchangeKey {
            let key = self.add(Place::Queue);
            self.with(key, |exchange| exchange.up.has_ended = true);
            key
        }

        /// Lets seconds pass, with this many bytes of each request arriving per second, and returns the uploads that are
        /// too slow.
        fn pass(&mut self, seconds: u64, arrive: &[(ExchangeKey, u64)]) -> Vec<ExchangeKey> {
            let mut slow = Vec::new();
            for _ in 0..seconds {
                self.now += Duration::from_secs(1);
                for (key, bytes) in arrive {
                    self.with(*key, |exchange| exchange.up.received_bytes += bytes);
                }
                let backlog_of = |_| self.backlog_bytes;
                slow = slow_uploads(&mut self.exchanges, 2, backlog_of, self.now, LEAST);
            }
            slow
        }
    }

    #[test]
    fn slow_upload_ends_after_a_period_once_another_request_waits() {
        let mut uploads = Uploads::default();
        let slow = uploads.add(Place::Upstream);
        let fine = uploads.add(Place::Upstream);
        let arrive = [(slow, 239), (fine, 240)];
        // Alone, they keep no other request from a connection.
        assert_eq!(uploads.pass(7, &arrive), []);
        let waiting = uploads.add_get();
        assert_eq!(uploads.pass(1, &arrive), [slow]);
        uploads.exchanges.remove(waiting);
        assert_eq!(uploads.pass(1, &arrive), []);
        // A client that has become faster is no longer slow.
        uploads.add_get();
        assert_eq!(uploads.pass(6, &[(slow, 1_000), (fine, 240)]), []);
    }

    #[test]
    fn new_upload_gets_a_full_period() {
        let mut uploads = Uploads::default();
        uploads.add_get();
        uploads.pass(4, &[]);
        let new = uploads.add(Place::Upstream);
        assert_eq!(uploads.pass(4, &[]), []);
        assert_eq!(uploads.pass(1, &[]), [new]);
    }

    /// Of the uploads with a connection, at most one ends for each waiting request, the slowest first. A slow upload that
    /// waits itself ends too, because it takes a place in the queue.
    #[test]
    fn one_slow_upload_ends_for_each_request_that_waits() {
        let mut uploads = Uploads::default();
        let held = [1, 5, 3].map(|bytes| (uploads.add(Place::Upstream), bytes));
        let queued = uploads.add(Place::Queue);
        let arrive = [held[0], held[1], held[2], (queued, 4)];
        assert_eq!(uploads.pass(10, &arrive), []);
        let others = [uploads.add_get(), uploads.add_get()];
        let ended = [held[0].0, held[2].0, queued];
        assert_eq!(uploads.pass(1, &arrive), ended);
        uploads.exchanges.remove(others[0]);
        assert_eq!(uploads.pass(1, &arrive), [held[0].0, queued]);
    }

    #[test]
    fn upload_that_waits_for_anything_but_its_client_is_not_slow() {
        type Change = fn(&mut Uploads, ExchangeKey);
        let changes: [(&str, Change); 6] = [
            ("room at the upstream", |uploads, key| {
                uploads.with(key, |exchange| exchange.up.waiting.extend([0; 1_024]));
            }),
            ("another stream's room", |uploads, _| {
                uploads.backlog_bytes = 1_024;
            }),
            ("a response that has begun", |uploads, key| {
                uploads.with(key, |exchange| exchange.has_response_begun = true);
            }),
            ("a response to the whole", |uploads, key| {
                uploads.with(key, |exchange| exchange.up.has_ended = true);
            }),
            ("nothing, as it was answered", |uploads, key| {
                uploads.with(key, |exchange| exchange.up.is_closed = true);
            }),
            ("its client, which is gone", |uploads, key| {
                uploads.with(key, |exchange| exchange.front = None);
            }),
        ];
        for (what, change) in changes {
            let mut uploads = Uploads::default();
            let upload = uploads.add(Place::Upstream);
            uploads.add_get();
            assert_eq!(uploads.pass(5, &[]), [upload], "{what}");
            change(&mut uploads, upload);
            assert_eq!(uploads.pass(20, &[]), [], "{what}");
        }
    }
}

//! The requests that wait for a connection to one upstream, and which of them is next: first come, first served, but a
//! client that has its share of the upstream lets other clients go first.
//!
//! It only counts: `connections` takes requests from it, `ends` tells it which have left the upstream. It takes nothing
//! away from a client; `pace` ends requests that hold a connection and send too slowly.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use squall_base::Probability;

use super::keys::ExchangeKey;

/// How many requests of clients that are gone may stay in a queue. If there are more, they are removed once they are half
/// of the queue.
const MAX_GONE: usize = 64;

/// The bits of an IPv6 address that one host chooses freely (RFC 4291, section 2.5.1).
const INTERFACE_BITS: u128 = (1 << 64) - 1;

/// What counts as one client: an IPv4 address, or an IPv6 network of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClientHost(IpAddr);

/// A request in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitingRequest {
    pub(super) key: ExchangeKey,
    pub(super) client: ClientHost,
}

/// The queue of one upstream.
#[derive(Debug, Default)]
pub(super) struct WaitingRequests {
    /// The share of the requests at the upstream that one client may have while others wait, if it is limited.
    share: Option<Probability>,
    line: VecDeque<WaitingRequest>,
    /// Requests whose clients had their share when their turn came. They arrived before those in `line`.
    passed_over: BTreeMap<ClientHost, VecDeque<ExchangeKey>>,
    /// How many requests have been taken and are at the upstream, by client and in all; not counted without a share.
    taken: BTreeMap<ClientHost, u32>,
    taken_of_all: u32,
    /// How many requests in the queue have lost their clients.
    gone: usize,
}

impl ClientHost {
    /// The client of a request that has not begun.
    pub(super) const UNKNOWN: ClientHost = ClientHost(IpAddr::V4(Ipv4Addr::UNSPECIFIED));

    pub(super) fn of(address: SocketAddr) -> ClientHost {
        ClientHost(match address.ip().to_canonical() {
            IpAddr::V6(ip) => {
                let network = u128::from(ip) & !INTERFACE_BITS;
                IpAddr::V6(Ipv6Addr::from(network))
            }
            ip @ IpAddr::V4(_) => ip,
        })
    }
}

impl WaitingRequests {
    pub(super) fn new(share: Option<Probability>) -> WaitingRequests {
        WaitingRequests {
            share,
            ..WaitingRequests::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.line.is_empty() && self.passed_over.is_empty()
    }

    pub(super) fn push(&mut self, request: WaitingRequest) {
        self.line.push_back(request);
    }

    /// Takes the next request. It counts as being at the upstream until it is put back or released.
    pub(super) fn take(&mut self) -> Option<WaitingRequest> {
        let request = self.next()?;
        if self.share.is_some() {
            *self.taken.entry(request.client).or_default() += 1;
            self.taken_of_all += 1;
        }
        Some(request)
    }

    /// Puts a request back that was just taken: it is the next one of its client.
    pub(super) fn put_back(&mut self, request: WaitingRequest) {
        self.release(request.client);
        let WaitingRequest { key, client } = request;
        if self.passed_over.contains_key(&client) || self.has_share(client) {
            self.passed_over.entry(client).or_default().push_front(key);
        } else {
            self.line.push_front(request);
        }
    }

    /// Notes that a request that was taken has left the upstream.
    pub(super) fn release(&mut self, client: ClientHost) {
        if let Some(count) = self.taken.get_mut(&client) {
            self.taken_of_all -= 1;
            *count -= 1;
            if *count == 0 {
                self.taken.remove(&client);
            }
        }
    }

    /// Discards a request that was taken although its client is gone.
    pub(super) fn discard(&mut self, request: WaitingRequest) {
        self.release(request.client);
        self.gone = self.gone.saturating_sub(1);
    }

    /// Notes that the client of one of the requests is gone. `waits` says which requests still wait: when many do not,
    /// they are removed.
    pub(super) fn note_gone(&mut self, mut waits: impl FnMut(ExchangeKey) -> bool) {
        self.gone += 1;
        let passed_over = self.passed_over.values().map(VecDeque::len);
        let count = self.line.len() + passed_over.sum::<usize>();
        if self.gone <= MAX_GONE || 2 * self.gone < count {
            return;
        }
        self.line.retain(|request| waits(request.key));
        self.passed_over.retain(|_, keys| {
            keys.retain(|key| waits(*key));
            !keys.is_empty()
        });
        self.gone = 0;
    }

    fn next(&mut self) -> Option<WaitingRequest> {
        // At a share of a tenth, no more than ten clients can have their share, so few are looked at.
        let mut passed_over = self.passed_over.keys().copied();
        if let Some(client) = passed_over.find(|client| !self.has_share(*client)) {
            return self.next_passed_over(client);
        }
        while let Some(request) = self.line.pop_front() {
            if !self.has_share(request.client) {
                return Some(request);
            }
            let keys = self.passed_over.entry(request.client).or_default();
            keys.push_back(request.key);
        }
        // Only clients that have their share are waiting, so a further connection for one of them costs no other client.
        let passed_over = self.passed_over.keys().copied();
        let least = passed_over.min_by_key(|client| self.taken_by(*client))?;
        self.next_passed_over(least)
    }

    fn next_passed_over(&mut self, client: ClientHost) -> Option<WaitingRequest> {
        let keys = self.passed_over.get_mut(&client)?;
        let key = keys.pop_front()?;
        if keys.is_empty() {
            self.passed_over.remove(&client);
        }
        Some(WaitingRequest { key, client })
    }

    fn taken_by(&self, client: ClientHost) -> u32 {
        self.taken.get(&client).copied().unwrap_or(0)
    }

    /// Whether the client has its share already, if one more request is counted at the upstream.
    fn has_share(&self, client: ClientHost) -> bool {
        self.share.is_some_and(|share| {
            let most = share.get() * (f64::from(self.taken_of_all) + 1.0);
            f64::from(self.taken_by(client)) >= most
        })
    }

    /// How many requests are at the upstream.
    #[cfg(test)]
    pub(super) fn taken_of_all(&self) -> u32 {
        self.taken_of_all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::exchange::{ProxyExchange, ProxyExchanges};
    use crate::proxy::keys::FrontKey;
    use squall_base::Time;
    use squall_http::StreamId;

    fn client(number: u8) -> ClientHost {
        ClientHost::of(SocketAddr::from(([10, 0, 0, number], 80)))
    }

    /// A queue in which one client may have half, and keys for this many requests.
    fn queue(requests: usize) -> (WaitingRequests, Vec<ExchangeKey>) {
        let mut exchanges = ProxyExchanges::default();
        let new = || ProxyExchange::new(FrontKey::Tcp(0), StreamId(0), Time::ZERO);
        let keys = (0..requests).map(|_| exchanges.insert(new()));
        (WaitingRequests::new(Probability::new(0.5)), keys.collect())
    }

    fn push(queue: &mut WaitingRequests, keys: &[ExchangeKey], client: ClientHost) {
        for key in keys {
            queue.push(WaitingRequest { key: *key, client });
        }
    }

    fn take(queue: &mut WaitingRequests) -> Option<(ExchangeKey, ClientHost)> {
        queue.take().map(|request| (request.key, request.client))
    }

    #[test]
    fn single_client_gets_everything_in_order() {
        let (mut queue, keys) = queue(10);
        push(&mut queue, &keys, client(1));
        for key in &keys {
            assert_eq!(take(&mut queue), Some((*key, client(1))));
        }
        assert!(queue.is_empty() && take(&mut queue).is_none());
        assert_eq!(queue.taken_of_all(), 10);
        keys.iter().for_each(|_| queue.release(client(1)));
        assert_eq!((queue.taken_of_all(), queue.taken.len()), (0, 0));
    }

    /// Another client gets the next connection, however many requests of the first one are before it in the queue.
    #[test]
    fn client_with_its_share_lets_others_go_first() {
        let (mut queue, keys) = queue(1_000);
        let (many, few) = keys.split_at(990);
        push(&mut queue, many, client(1));
        for key in &many[..8] {
            assert_eq!(take(&mut queue), Some((*key, client(1))));
        }
        push(&mut queue, few, client(2));
        // The first client has 8 requests at the upstream, the second none: the second catches up.
        for key in &few[..7] {
            assert_eq!(take(&mut queue), Some((*key, client(2))));
        }
        // Then each has half.
        for (key, of) in [(few[7], 2), (many[8], 1), (few[8], 2), (many[9], 1)] {
            assert_eq!(take(&mut queue), Some((key, client(of))));
        }
        assert_eq!(take(&mut queue), Some((few[9], client(2))));
        // No other client waits.
        for key in &many[10..] {
            assert_eq!(take(&mut queue), Some((*key, client(1))));
        }
        assert!(queue.is_empty());
    }

    #[test]
    fn request_put_back_is_next_for_its_client() {
        let (mut queue, keys) = queue(6);
        push(&mut queue, &keys[..4], client(1));
        for _ in 0..2 {
            take(&mut queue);
        }
        let last = queue.take().unwrap();
        // The client has its share, and no other client waits.
        assert_eq!(last.key, keys[2]);
        queue.put_back(last);
        push(&mut queue, &keys[4..], client(2));
        let other = queue.take().unwrap();
        assert_eq!(other.key, keys[4]);
        queue.put_back(other);
        for (key, of) in [(4, 2), (5, 2), (2, 1), (3, 1)] {
            assert_eq!(take(&mut queue), Some((keys[key], client(of))));
        }
        assert_eq!(queue.taken_of_all(), 6);
    }

    #[test]
    fn without_a_share_requests_are_taken_in_order() {
        let (_, keys) = queue(4);
        let mut queue = WaitingRequests::new(None);
        push(&mut queue, &keys[..3], client(1));
        push(&mut queue, &keys[3..], client(2));
        for key in &keys {
            assert_eq!(queue.take().unwrap().key, *key);
        }
        assert_eq!(queue.taken_of_all(), 0);
    }

    /// A client that sends requests and cancels them while it has its share does not fill the memory.
    #[test]
    fn requests_of_clients_that_are_gone_do_not_accumulate() {
        let (mut queue, keys) = queue(10_001);
        push(&mut queue, &keys[..1], client(2));
        for key in &keys[1..] {
            push(&mut queue, &[*key], client(1));
            queue.note_gone(|waiting| waiting == keys[0]);
        }
        assert!(queue.line.len() <= 2 * MAX_GONE, "{}", queue.line.len());
        assert_eq!(take(&mut queue), Some((keys[0], client(2))));
    }

    #[test]
    fn a_client_is_an_ipv4_address_or_an_ipv6_network() {
        let of = |text: &str| ClientHost::of(text.parse().unwrap());
        assert_eq!(of("192.0.2.1:80"), of("192.0.2.1:81"));
        assert_eq!(of("192.0.2.1:80"), of("[::ffff:192.0.2.1]:80"));
        assert_ne!(of("192.0.2.1:80"), of("192.0.2.2:80"));
        assert_eq!(of("[2001:db8::1]:80"), of("[2001:db8::ffff:1]:80"));
        assert_ne!(of("[2001:db8::1]:80"), of("[2001:db8:0:1::1]:80"));
    }
}

//! The tokens of Retry packets (RFC 9000, section 8.1.2): a client that returns a token receives at the address it sends
//! from.
//!
//! A token holds everything the server needs to know, so the server keeps no state for clients whose addresses are not
//! validated. It is authenticated, not encrypted: it contains no secret. `server` decides when to send Retry. NEW_TOKEN
//! is not used.

use std::net::{IpAddr, SocketAddr};

use boring::hash::hmac_sha256;
use boring::memcmp;
use boring::sha::sha256;

/// How long a token is valid. A client returns it after one round trip, or after the first probe timeouts (1 s and 3 s)
/// if packets are lost.
const LIFETIME_MS: u64 = 10_000;

/// Length of the time at the start of a token.
const TIME_BYTES: usize = 8;

/// Length of the HMAC at the end of a token.
const TAG_BYTES: usize = 32;

/// Makes and checks tokens.
pub(super) struct RetryTokens {
    key: [u8; 32],
}

/// What a token is bound to: the two ends of the connection that it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetryOwner<'a> {
    /// The client's address.
    pub(super) client: SocketAddr,
    /// The connection id that the server chose with the Retry, and that the client must use from then on.
    pub(super) source_id: &'a [u8],
}

impl RetryTokens {
    /// Tokens under a key that is derived from `seed`. A client that guesses the seed can forge them.
    pub(super) fn new(seed: u64) -> RetryTokens {
        let mut input = b"squall retry token".to_vec();
        input.extend_from_slice(&seed.to_be_bytes());
        RetryTokens {
            key: sha256(&input),
        }
    }

    /// A token made at `now_ms`, in milliseconds since any fixed moment; `original_id` is the connection id of the
    /// client's first packet. `None` if BoringSSL fails.
    pub(super) fn make(
        &self,
        now_ms: u64,
        owner: RetryOwner<'_>,
        original_id: &[u8],
    ) -> Option<Vec<u8>> {
        let mut token = now_ms.to_be_bytes().to_vec();
        token.extend_from_slice(original_id);
        let tag = self.tag(&token, owner)?;
        token.extend_from_slice(&tag);
        Some(token)
    }

    /// The original connection id from a token; `None` if the token is not ours, is not this client's, or has expired.
    pub(super) fn original_id<'t>(
        &self,
        now_ms: u64,
        owner: RetryOwner<'_>,
        token: &'t [u8],
    ) -> Option<&'t [u8]> {
        let (content, tag) = token.split_at_checked(token.len().checked_sub(TAG_BYTES)?)?;
        let (made, original_id) = content.split_first_chunk::<TIME_BYTES>()?;
        if !memcmp::eq(&self.tag(content, owner)?, tag) {
            return None;
        }
        let age_ms = now_ms.checked_sub(u64::from_be_bytes(*made))?;
        (age_ms <= LIFETIME_MS).then_some(original_id)
    }

    fn tag(&self, content: &[u8], owner: RetryOwner<'_>) -> Option<[u8; TAG_BYTES]> {
        let ip = match owner.client.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let mut input = ip.octets().to_vec();
        input.extend_from_slice(&owner.client.port().to_be_bytes());
        // Two parts have variable lengths. The second one ends with the input, so only the first needs its length.
        input.push(u8::try_from(owner.source_id.len()).ok()?);
        input.extend_from_slice(owner.source_id);
        input.extend_from_slice(content);
        hmac_sha256(&self.key, &input).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: RetryOwner<'static> = RetryOwner {
        client: SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 4_000),
        source_id: &[1; 16],
    };
    const ORIGINAL: &[u8] = &[2; 8];

    fn token() -> Vec<u8> {
        RetryTokens::new(1).make(5_000, OWNER, ORIGINAL).unwrap()
    }

    #[test]
    fn a_token_returns_the_original_id_until_it_expires() {
        let tokens = RetryTokens::new(1);
        let token = token();
        for (now_ms, expected) in [
            (5_000, Some(ORIGINAL)),
            (15_000, Some(ORIGINAL)),
            (15_001, None),
            (4_999, None),
        ] {
            let found = tokens.original_id(now_ms, OWNER, &token);
            assert_eq!(found, expected, "{now_ms}");
        }
    }

    #[test]
    fn a_token_is_valid_only_for_its_client_its_id_and_its_key() {
        let tokens = RetryTokens::new(1);
        let token = token();
        let other_port = RetryOwner {
            client: SocketAddr::new(OWNER.client.ip(), 4_001),
            ..OWNER
        };
        let other_host = RetryOwner {
            client: SocketAddr::from(([127, 0, 0, 2], 4_000)),
            ..OWNER
        };
        let other_id = RetryOwner {
            source_id: &[3; 16],
            ..OWNER
        };
        for owner in [other_port, other_host, other_id] {
            assert_eq!(tokens.original_id(5_000, owner, &token), None, "{owner:?}");
        }
        let other_key = RetryTokens::new(2).original_id(5_000, OWNER, &token);
        assert_eq!(other_key, None);
    }

    #[test]
    fn a_changed_or_shortened_token_is_refused() {
        let tokens = RetryTokens::new(1);
        let token = token();
        for at in 0..token.len() {
            let mut changed = token.clone();
            changed[at] ^= 1;
            assert_eq!(tokens.original_id(5_000, OWNER, &changed), None, "{at}");
            assert_eq!(tokens.original_id(5_000, OWNER, &token[..at]), None, "{at}");
        }
    }
}

//! What DNS says about an endpoint: all addresses that were looked up, with a TCP handshake over each family; whether other
//! names of its certificate lead to the same address; and its HTTPS records.
//!
//! Nothing is looked up here, and nothing is judged.

use serde::Serialize;
use squall_base::Duration;

use super::observed::Observations;

/// An address family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FamilyFacts {
    /// `IPv4` or `IPv6`.
    pub family: &'static str,
    /// Its first address.
    pub address: String,
    /// How long one TCP handshake took; `None` if there was no connection.
    #[serde(rename = "connect_ns")]
    pub connect: Option<Duration>,
}

/// Another name of the certificate. Requests to it may share the URL's connections if it has the same address (RFC 9113,
/// section 9.1.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OtherName {
    /// The name.
    pub name: String,
    /// Whether it has the address that was asked; `None` if it has no address.
    pub has_same_address: Option<bool>,
}

impl FamilyFacts {
    pub(super) fn all(seen: &Observations) -> Vec<FamilyFacts> {
        let families = seen.families.iter();
        let facts = families.map(|(address, connect)| FamilyFacts {
            family: if address.is_ipv4() { "IPv4" } else { "IPv6" },
            address: address.to_string(),
            connect: *connect,
        });
        facts.collect()
    }
}

impl OtherName {
    pub(super) fn all(seen: &Observations) -> Vec<OtherName> {
        let names = seen.other_names.iter();
        let facts = names.map(|(name, has_same_address)| OtherName {
            name: name.clone(),
            has_same_address: *has_same_address,
        });
        facts.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn each_family_has_an_address_and_the_time_of_a_handshake_if_there_was_one() {
        let address = |text: &str| -> IpAddr { text.parse().unwrap() };
        let took = Some(Duration::from_millis(12));
        let seen = Observations {
            families: vec![(address("192.0.2.1"), took), (address("2001:db8::1"), None)],
            ..Observations::default()
        };
        let all = FamilyFacts::all(&seen);
        let facts: Vec<(&str, &str, Option<Duration>)> = all
            .iter()
            .map(|facts| (facts.family, facts.address.as_str(), facts.connect))
            .collect();
        let expected = [("IPv4", "192.0.2.1", took), ("IPv6", "2001:db8::1", None)];
        assert_eq!(facts, expected);
    }
}

//! What the handshakes of TLS and QUIC showed of the server: the group of the key exchange, how many packets our ClientHello
//! takes, the certificates, whether a session is resumed, and whether early data is offered.
//!
//! Nothing is judged. `endpoint` has the cipher suite and the bytes of the handshake, `detect` says when a chain is too
//! long.

use std::collections::BTreeSet;

use serde::Serialize;
use squall_base::plan::Version;
use squall_base::record::{FrameLayer, FrameRecord, Way};

use super::observed::{Chain, Handshake, Observations, Step, StepKind, version_name};
use crate::wire::quic::CRYPTO;

/// How many names of a certificate are kept.
const NAMES_AT_MOST: usize = 3;
/// What a packet carries on an Ethernet path if the kernel did not say.
const USUAL_SEGMENT: u64 = 1_448;

/// The handshakes of one version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HandshakeFacts {
    /// Its name.
    pub version: &'static str,
    /// The group of the key exchange.
    pub group: Option<String>,
    /// Our ClientHello.
    pub client_hello: Option<ClientHello>,
    /// The server's certificates.
    pub certificates: Option<Certificates>,
    /// Whether the server resumed a session; `None` if that was not tried.
    pub resumption: Option<Resumption>,
    /// The early data (0-RTT) that the ticket allows, in bytes, 0 if the server offers none; `None` without a ticket.
    pub early_data_bytes: Option<u32>,
}

/// The first message of a handshake, which is ours: its size follows from the groups and names that we offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClientHello {
    /// Its bytes; over TCP with the header of its TLS record.
    pub bytes: u64,
    /// The packets that it takes.
    pub packets: u64,
}

/// The certificates of a handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Certificates {
    /// How many.
    pub count: u64,
    /// Their bytes in DER, all together.
    pub der_bytes: u64,
    /// How many names the first certificate has besides the URL's: requests to them may share a connection with requests to
    /// the URL (RFC 9113, section 9.1.1).
    pub other_names: u64,
    /// The first of these names.
    pub some_other_names: Vec<String>,
}

squall_base::words! {
    /// Whether the server resumed the session of an earlier connection.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Resumption {
        /// The session was resumed.
        Resumed = "resumed",
        /// The server made a full handshake instead.
        Refused = "refused",
        /// The server sent no ticket.
        NoTicket = "no_ticket",
    }
}

impl HandshakeFacts {
    /// The facts about each version over TLS whose handshake was seen.
    pub(super) fn all(seen: &Observations) -> Vec<HandshakeFacts> {
        let versions = [Version::Http1, Version::Http2, Version::Http3];
        let facts = versions.map(|version| HandshakeFacts::of(seen, version));
        facts.into_iter().flatten().collect()
    }

    fn of(seen: &Observations, version: Version) -> Option<HandshakeFacts> {
        let mut steps = seen.steps.iter().filter(|step| step.version == version);
        // The first step has fresh connections, so that nothing is resumed there.
        let (step, handshake) = steps.find_map(|step| Some((step, step.handshake.as_ref()?)))?;
        let mut tickets = seen.tickets.iter();
        let ticket = tickets.find(|(of, _)| *of == version);
        let ticket = ticket.map(|(_, early_data)| *early_data);
        Some(HandshakeFacts {
            version: version_name(version),
            group: handshake.group.clone(),
            client_hello: ClientHello::of(step, handshake),
            certificates: (handshake.certificates.as_ref())
                .map(|chain| Certificates::of(chain, host(&seen.url))),
            resumption: ticket.and_then(|ticket| resumption(seen, version, ticket)),
            early_data_bytes: ticket.flatten(),
        })
    }
}

/// Whether the second connection, which offered the first one's ticket, was resumed.
fn resumption(seen: &Observations, version: Version, ticket: Option<u32>) -> Option<Resumption> {
    if ticket.is_none() {
        return Some(Resumption::NoTicket);
    }
    let mut steps = seen.steps_of(StepKind::Resumption, version);
    let counts = &steps.find(|step| step.round == 2)?.counts;
    match (counts.tls_resumed, counts.tls_full) {
        (0, 0) => None,
        (0, _) => Some(Resumption::Refused),
        _ => Some(Resumption::Resumed),
    }
}

impl ClientHello {
    fn of(step: &Step, handshake: &Handshake) -> Option<ClientHello> {
        if step.version == Version::Http3 {
            return ClientHello::in_frames(&step.frames);
        }
        let bytes = handshake.client_hello_bytes?;
        let segments = step.tcp().filter_map(|(_, info)| info.get("tcpi_snd_mss"));
        // While it connects, the kernel reports a small default.
        let segment = segments.max().unwrap_or(USUAL_SEGMENT).max(1);
        Some(ClientHello {
            bytes,
            packets: bytes.div_ceil(segment),
        })
    }

    /// What the first connection sent in CRYPTO frames before it received one.
    fn in_frames(frames: &[FrameRecord]) -> Option<ClientHello> {
        let first = frames.first()?.connection;
        let crypto = frames.iter().filter(|row| {
            let frame = &row.frame;
            row.connection == first && frame.layer == FrameLayer::Quic && frame.kind == CRYPTO
        });
        let hello = crypto.take_while(|row| row.frame.way == Way::Sent);
        let (mut bytes, mut offsets) = (0, BTreeSet::new());
        for row in hello {
            let offset = row.frame.offset.unwrap_or(0);
            bytes = bytes.max(offset.saturating_add(row.frame.length));
            // A retransmitted frame has the same offset, and counts once.
            offsets.insert(offset);
        }
        (bytes > 0).then_some(ClientHello {
            bytes,
            packets: offsets.len() as u64,
        })
    }
}

impl Certificates {
    fn of(chain: &Chain, host: &str) -> Certificates {
        let names = chain.names.iter();
        let others: Vec<&String> = names
            .filter(|name| !name.eq_ignore_ascii_case(host))
            .collect();
        let some = others.iter().take(NAMES_AT_MOST);
        Certificates {
            count: chain.count,
            der_bytes: chain.der_bytes,
            other_names: others.len() as u64,
            some_other_names: some.map(|name| (*name).clone()).collect(),
        }
    }
}

/// The host of a URL, without its port.
fn host(url: &str) -> &str {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or(authority);
    match authority.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or(address),
        None => authority.split(':').next().unwrap_or(authority),
    }
}

#[cfg(test)]
mod tests {
    use squall_base::record::FrameFacts;

    use super::super::Diagnosis;
    use super::super::made::{frame, healthy, ms, step, tcp};
    use super::*;

    fn chain(names: &[&str]) -> Chain {
        Chain {
            count: 3,
            der_bytes: 3_800,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// A probe whose connections over HTTP/2 had such handshakes.
    fn seen(segment: u64, names: &[&str]) -> Observations {
        let mut seen = healthy(ms(30));
        let mut first = step(StepKind::Resumption, Version::Http2);
        first.sockets.push(tcp(&[("tcpi_snd_mss", segment)]));
        first.handshake = Some(Handshake {
            group: Some("X25519MLKEM768".to_owned()),
            client_hello_bytes: Some(1_773),
            certificates: Some(chain(names)),
            transport: None,
        });
        seen.steps.push(first);
        seen
    }

    fn only(seen: &Observations) -> HandshakeFacts {
        let facts = Diagnosis::of(seen).endpoint.handshakes;
        assert_eq!(facts.len(), 1, "{facts:?}");
        facts.into_iter().next().expect("one")
    }

    #[test]
    fn hello_with_a_large_key_share_takes_two_packets() {
        let facts = only(&seen(1_448, &[]));
        assert_eq!(facts.group.as_deref(), Some("X25519MLKEM768"));
        let hello = facts.client_hello.expect("a ClientHello");
        assert_eq!((hello.bytes, hello.packets), (1_773, 2));
        let loopback = only(&seen(32_741, &[]));
        assert_eq!(loopback.client_hello.map(|hello| hello.packets), Some(1));
    }

    #[test]
    fn names_besides_the_urls_are_counted() {
        let names = ["Server", "a.test", "*.test", "b.test", "c.test"];
        let certificates = only(&seen(1_448, &names)).certificates;
        let certificates = certificates.expect("a chain");
        assert_eq!((certificates.count, certificates.der_bytes), (3, 3_800));
        assert_eq!(certificates.other_names, 4);
        assert_eq!(
            certificates.some_other_names,
            ["a.test", "*.test", "b.test"]
        );
    }

    #[test]
    fn resumption_follows_from_the_ticket_and_the_second_handshake() {
        let resumption = |ticket, counts: (u64, u64)| {
            let mut seen = seen(1_448, &[]);
            seen.tickets.push((Version::Http2, ticket));
            let mut second = step(StepKind::Resumption, Version::Http2);
            second.round = 2;
            (second.counts.tls_full, second.counts.tls_resumed) = counts;
            seen.steps.push(second);
            let facts = only(&seen);
            (facts.resumption, facts.early_data_bytes)
        };
        assert_eq!(resumption(None, (1, 0)), (Some(Resumption::NoTicket), None));
        let refused = (Some(Resumption::Refused), Some(0));
        assert_eq!(resumption(Some(0), (1, 0)), refused);
        let resumed = (Some(Resumption::Resumed), Some(16_384));
        assert_eq!(resumption(Some(16_384), (0, 1)), resumed);
        assert_eq!(resumption(Some(0), (0, 0)), (None, Some(0)));
        assert_eq!(only(&seen(1_448, &[])).resumption, None);
    }

    #[test]
    fn hello_over_quic_ends_before_the_servers_first_answer() {
        let crypto = |time_us, way, offset, length| {
            let facts = FrameFacts {
                offset: Some(offset),
                ..FrameFacts::new(way, FrameLayer::Quic, CRYPTO, length)
            };
            frame(time_us, facts)
        };
        let frames = [
            crypto(1, Way::Sent, 0, 1_150),
            crypto(1, Way::Sent, 1_150, 600),
            // Retransmitted after a loss.
            crypto(2, Way::Sent, 0, 1_150),
            crypto(3, Way::Received, 0, 90),
            crypto(4, Way::Sent, 0, 36),
        ];
        let hello = ClientHello::in_frames(&frames).expect("a ClientHello");
        assert_eq!((hello.bytes, hello.packets), (1_750, 2));
        assert_eq!(ClientHello::in_frames(&frames[3..]), None);
    }

    #[test]
    fn host_of_a_url_has_neither_port_nor_brackets() {
        assert_eq!(host("https://server:8443/a:b"), "server");
        assert_eq!(host("https://[::1]:8443/"), "::1");
        assert_eq!(host("https://server?x"), "server");
    }
}

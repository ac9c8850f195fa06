//! Runs squall's own engines in memory, turns their bytes into packets, and builds the TCP/IP headers. What the link
//! does to the packets is up to each test.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, OnceLock};

use squall_base::Time;
use squall_base::plan::{Protocol, SideSettings, TlsSettings};
use squall_base::record::Direction;
use squall_http::tls::{ClientContext, Identity, ServerContext, Trust, Validity};
use squall_http::{
    Body, Bytes, ClientConnection, Inbox, Request, Response, Scheme, ServerConnection, ServerEvent,
};
use squall_observe::{
    Checksums, ConnectionRecord, Observations, ObservedPacket, Observer, Secrets,
};

/// The bytes of one write by one side.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) direction: Direction,
    pub(crate) bytes: Vec<u8>,
}

fn identity() -> &'static Identity {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        let validity = Validity {
            not_before_unix_s: 1_700_000_000,
            days: 36_500,
        };
        Identity::self_signed(&["server"], validity).unwrap()
    })
}

fn connections(protocol: Protocol) -> (ClientConnection, ServerConnection) {
    let settings = SideSettings::default();
    if !protocol.is_secure() {
        let client = ClientConnection::plain(protocol.version(), &settings).unwrap();
        return (
            client,
            ServerConnection::plain(protocol.version(), &settings).unwrap(),
        );
    }
    let offered = match protocol {
        Protocol::H2 => ["h2"],
        _ => ["http/1.1"],
    };
    let tls = TlsSettings::default();
    let client = ClientContext::new(&tls, &offered, &Trust::Anyone).unwrap();
    let server = ServerContext::new(&tls, &offered, identity()).unwrap();
    let client = ClientConnection::secure(&client, Some("server"), &settings).unwrap();
    (
        client,
        ServerConnection::secure(&server, &settings).unwrap(),
    )
}

/// The writes of a client and a server that exchange these requests, given by the body lengths of request and response;
/// and the TLS key log. HTTP/2 requests are concurrent, as far as windows allow.
pub(crate) fn conversation(protocol: Protocol, bodies: &[(usize, usize)]) -> (Vec<Write>, String) {
    let (mut client, mut server) = connections(protocol);
    let (mut client_inbox, mut server_inbox) = (Inbox::default(), Inbox::default());
    let mut due = bodies.iter();
    let mut answers = bodies.iter().map(|(_, response)| *response);
    let mut writes: Vec<Write> = Vec::new();
    loop {
        while client.is_ready()
            && let Some((request, _)) = due.next()
        {
            let body: Bytes = vec![b'q'; *request].into();
            let request = Request::new("POST", Scheme::Http, "server", "/", &[], body).unwrap();
            client.streams().submit(&Arc::new(request)).unwrap();
            if matches!(protocol, Protocol::H1 | Protocol::H1s) {
                break;
            }
        }
        let up = client.output(Time::ZERO).to_vec();
        client.advance_output(up.len(), &mut client_inbox);
        server.receive(&up, &mut server_inbox).unwrap();
        for event in std::mem::take(&mut server_inbox.events) {
            if let ServerEvent::RequestEnd { stream, .. } = event {
                let body: Bytes = vec![b'a'; answers.next().unwrap()].into();
                let response = Response::new(200, &[], Body::from(body)).unwrap();
                server
                    .streams()
                    .respond(stream, &Arc::new(response))
                    .unwrap();
            }
        }
        let down = server.output(Time::ZERO).to_vec();
        server.advance_output(down.len(), &mut server_inbox);
        client.receive(&down, &mut client_inbox).unwrap();
        client_inbox.clear();
        if up.is_empty() && down.is_empty() {
            let key_log = client.take_key_log().join("\n");
            return (writes, key_log);
        }
        for (direction, bytes) in [(Direction::Up, up), (Direction::Down, down)] {
            if !bytes.is_empty() {
                writes.push(Write { direction, bytes });
            }
        }
    }
}

/// TCP flags.
pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const ACK: u8 = 0x10;

/// The endpoints of a connection and their sequence numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoints {
    pub(crate) is_ipv6: bool,
    /// The sequence number of the first byte, for the client and for the server.
    pub(crate) first: [u32; 2],
}

impl Endpoints {
    fn seq(&self, direction: Direction, offset: u64) -> u32 {
        self.first[direction as usize].wrapping_add(offset as u32)
    }

    /// A packet that carries these bytes of its direction's stream and acknowledges `acked` bytes of the other. A SYN
    /// precedes the first byte.
    pub(crate) fn packet(
        &self,
        direction: Direction,
        offset: u64,
        payload: &[u8],
        acked: u64,
        flags: u8,
    ) -> Vec<u8> {
        let seq = self
            .seq(direction, offset)
            .wrapping_sub(u32::from(flags & SYN != 0));
        let ack = self.seq(direction.opposite(), acked);
        let ports: [u16; 2] = match direction {
            Direction::Up => [40_000, 80],
            Direction::Down => [80, 40_000],
        };
        let mut tcp = Vec::new();
        tcp.extend(ports.map(u16::to_be_bytes).concat());
        tcp.extend(seq.to_be_bytes());
        tcp.extend(ack.to_be_bytes());
        let options: &[u8] = if flags & SYN != 0 { &[3, 3, 7, 1] } else { &[] };
        tcp.extend([
            ((20 + options.len()) as u8 / 4) << 4,
            flags,
            0xff,
            0xff,
            0,
            0,
            0,
            0,
        ]);
        tcp.extend(options);
        tcp.extend(payload);
        let (client, server): (Vec<u8>, Vec<u8>) = if self.is_ipv6 {
            (
                [&[0xfd; 15][..], &[1]].concat(),
                [&[0xfd; 15][..], &[2]].concat(),
            )
        } else {
            (vec![10, 0, 0, 1], vec![10, 0, 0, 2])
        };
        let addresses = match direction {
            Direction::Up => [client, server].concat(),
            Direction::Down => [server, client].concat(),
        };
        let sum = checksum(&addresses, &tcp);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        let length = tcp.len() as u16;
        let mut ip = Vec::new();
        if self.is_ipv6 {
            ip.extend([0x60, 0, 0, 0]);
            ip.extend(length.to_be_bytes());
            ip.extend([6, 64]);
        } else {
            ip.extend([0x45, 0]);
            ip.extend((length + 20).to_be_bytes());
            ip.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        }
        ip.extend(addresses);
        ip.extend(tcp);
        ip
    }
}

/// The TCP checksum over these addresses (RFC 9293, section 3.1).
fn checksum(addresses: &[u8], tcp: &[u8]) -> u16 {
    let mut all = addresses.to_vec();
    all.extend([0, 6]);
    all.extend((tcp.len() as u16).to_be_bytes());
    all.extend(tcp);
    let mut sum: u32 = all
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A packet on the link.
#[derive(Clone, Debug)]
pub(crate) struct LinkPacket {
    pub(crate) direction: Direction,
    pub(crate) time_in: u64,
    pub(crate) release: Option<u64>,
    pub(crate) bytes: Vec<u8>,
    /// The bytes of its direction's stream that it carries.
    pub(crate) range: std::ops::Range<u64>,
}

/// When the observer gets the TLS secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyArrival {
    First,
    /// Before the last packets, which end the connection.
    Late,
}

/// Runs the observer over packets, which are sorted by arrival first.
pub(crate) fn observe(
    packets: &[LinkPacket],
    key_log: &str,
    key_arrival: KeyArrival,
) -> (Observations, Vec<ConnectionRecord>) {
    let secrets = match key_arrival {
        KeyArrival::First => Secrets::Complete,
        KeyArrival::Late => Secrets::MayCome,
    };
    let mut observer = Observer::new(Checksums::Verified, secrets);
    let mut rows = Observations::default();
    if key_arrival == KeyArrival::First {
        observer.add_keys(key_log, &mut rows);
    }
    let mut packets: Vec<&LinkPacket> = packets.iter().collect();
    packets.sort_by_key(|packet| packet.time_in);
    let last = packets.len().saturating_sub(2);
    for (at, packet) in packets.into_iter().enumerate() {
        if at == last && key_arrival == KeyArrival::Late {
            observer.add_keys(key_log, &mut rows);
        }
        let seen = ObservedPacket {
            time_in: Time::from_nanos(packet.time_in),
            release: packet.release.map(Time::from_nanos),
            direction: packet.direction,
            bytes: &packet.bytes,
        };
        observer.observe(&seen, &mut rows);
    }
    let counts = observer.finish(&mut rows);
    assert_eq!(
        (counts.corrupt, counts.unreadable, counts.out_of_order),
        (0, 0, 0)
    );
    let connections = rows.connections.clone();
    (rows, connections)
}

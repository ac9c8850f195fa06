//! Chooses one of a name's addresses: the first that accepts a connection, before anything is measured.
//!
//! A single address is not tried: if it does not respond, the requests will show it. Addresses are tried one after the
//! other in the resolver's order, not in a race (RFC 8305), so that the same machine always makes the same choice. The
//! choice is remembered, so that all rounds of a comparison use the same address.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use squall_http::{Inbox, InboxOptions, h3};

use crate::outcome::BadInput;
use crate::output;
use squall_http::values::alt_svc::Alternative;

/// How long to try one address. A lost SYN is retransmitted after 1 s, and again after 2 s (tcp_syn_linear_timeouts);
/// QUIC sends as many packets in that time (RFC 9002, section 6.2).
const TRY_FOR: Duration = Duration::from_secs(3);

/// The largest UDP payload read.
const DATAGRAM_BYTES: usize = 65_536;

/// The only address family to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// What a command knows about its servers.
#[derive(Debug, Default)]
pub(crate) struct AddressBook {
    chosen: BTreeMap<(String, bool), SocketAddr>,
    /// Alternative services, by the authority that advertised them.
    alternatives: BTreeMap<String, Alternative>,
    /// Whether to print the choice even if the first address accepted.
    prints_all: bool,
    /// When the last try must end; if this is `None`, each try has its full time.
    give_up: Option<Instant>,
}

/// The transport used to try an address.
pub(crate) enum ProbeTransport<'a> {
    Tcp,
    /// A proxy connects to the address, so it is not tried from here: the first address is chosen.
    ByProxy,
    Quic {
        context: &'a mut h3::ClientContext,
        server_name: &'a str,
    },
}

/// Why a QUIC handshake was not completed.
#[derive(Debug)]
pub(crate) enum HandshakeFailure {
    /// Nothing was received.
    Silent(String),
    /// The server responded, but the handshake failed.
    Refused(String),
    /// There was too little time for a lost packet and its retransmission, so this says nothing about the server.
    OutOfTime(String),
}

impl HandshakeFailure {
    /// What happened.
    pub(super) fn why(self) -> String {
        let (HandshakeFailure::Silent(why)
        | HandshakeFailure::Refused(why)
        | HandshakeFailure::OutOfTime(why)) = self;
        why
    }
}

impl AddressBook {
    /// An `AddressBook` that always prints which of several addresses it chose.
    pub(crate) fn printing_all() -> AddressBook {
        AddressBook {
            prints_all: true,
            ..AddressBook::default()
        }
    }

    /// An `AddressBook` that tries no address after `give_up`.
    pub(crate) fn until(give_up: Instant) -> AddressBook {
        AddressBook {
            give_up: Some(give_up),
            ..AddressBook::default()
        }
    }

    /// The time for the next try of an address.
    pub(super) fn time_to_try(&self) -> Duration {
        // A time limit of 0 is an error.
        const AT_LEAST: Duration = Duration::from_millis(1);
        let now = Instant::now();
        let left = self
            .give_up
            .map_or(TRY_FOR, |at| at.saturating_duration_since(now));
        left.clamp(AT_LEAST, TRY_FOR)
    }

    /// Stores the alternative service that an authority advertised, for use over HTTP/3.
    pub(crate) fn add_alternative(&mut self, authority: &str, alternative: Alternative) {
        self.alternatives.insert(authority.to_owned(), alternative);
    }

    pub(crate) fn alternative(&self, authority: &str) -> Option<&Alternative> {
        self.alternatives.get(authority)
    }

    /// The address to use for `host` and `port`.
    ///
    /// # Errors
    /// [`BadInput`] if there is no such name, if it has no address of this family, or if no name server answered; another
    /// error if this machine could not look the name up.
    pub(crate) fn address(
        &mut self,
        (host, port): (&str, u16),
        family: Option<Family>,
        mut transport: ProbeTransport<'_>,
    ) -> Result<SocketAddr> {
        let name = if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        let key = (name, matches!(transport, ProbeTransport::Quic { .. }));
        if let Some(chosen) = self.chosen.get(&key) {
            return Ok(*chosen);
        }
        let found = resolve(host, port, family)?;
        let chosen = match found.as_slice() {
            [only] => *only,
            several => {
                let (chosen, said) = choose(several, |address| {
                    transport.probe(address, self.time_to_try())
                });
                if self.prints_all || !said.is_empty() {
                    let all = several.len();
                    output::eprint(format_args!(
                        "{} has {all} addresses: {}using {chosen}\n",
                        key.0,
                        said.concat()
                    ));
                }
                chosen
            }
        };
        self.chosen.insert(key, chosen);
        Ok(chosen)
    }
}

/// The addresses of a name without duplicates, in the resolver's order.
pub(super) fn resolve(host: &str, port: u16, family: Option<Family>) -> Result<Vec<SocketAddr>> {
    let found = (host, port).to_socket_addrs();
    let found = found.map_err(|error| lookup_error(host, &error))?;
    let mut all: Vec<SocketAddr> = Vec::new();
    for address in found {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    let fits = |address: &&SocketAddr| match family {
        None => true,
        Some(Family::V4) => address.is_ipv4(),
        Some(Family::V6) => address.is_ipv6(),
    };
    let fitting: Vec<SocketAddr> = all.iter().filter(fits).copied().collect();
    match (fitting.is_empty(), all.is_empty(), family) {
        (false, ..) => Ok(fitting),
        (true, false, Some(family)) => {
            let wanted = match family {
                Family::V4 => "IPv4",
                Family::V6 => "IPv6",
            };
            let ips: Vec<String> = all.iter().map(|address| address.ip().to_string()).collect();
            let said = format!("{host} has no {wanted} address, only {}", ips.join(", "));
            Err(BadInput::new(said).into())
        }
        _ => Err(BadInput::new(format!("{host} has no address")).into()),
    }
}

const CHECK_NAME: &str = "check the spelling, or use its IP address";

/// The error of a command whose server was not found. If the name does not exist or no name server answered, it is bad input:
/// nothing was sent, and another name or an address fixes both. An error of the system, such as too many open files, has
/// nothing to do with the name. A name that ends in `.invalid` does not exist (RFC 6761, section 6.4), whatever name servers
/// say.
fn lookup_error(host: &str, error: &io::Error) -> anyhow::Error {
    // The standard library keeps only the texts of EAI_AGAIN (no answer, or SERVFAIL) and EAI_FAIL (another failure of the
    // server): those of glibc, then of musl.
    const NO_ANSWER: [&str; 4] = [
        "Temporary failure in name resolution",
        "Non-recoverable failure in name resolution",
        "Try again",
        "Non-recoverable error",
    ];
    let text = error.to_string();
    let said = format!("cannot find {host}: {text}");
    if host.trim_end_matches('.').ends_with(".invalid") {
        return BadInput::new(format!("{said}; {CHECK_NAME}")).into();
    }
    // EAI_SYSTEM: the standard library passes on the system's error.
    let is_timeout = error.kind() == io::ErrorKind::TimedOut;
    if error.raw_os_error().is_some() && !is_timeout {
        return anyhow!("{said}");
    }
    if is_timeout || NO_ANSWER.iter().any(|answer| text.ends_with(answer)) {
        return BadInput::new(format!(
            "{said}: the name server did not answer, or failed (/etc/resolv.conf): give an address in the URL, or use \
             --connect-to ADDRESS"
        ))
        .into();
    }
    BadInput::new(format!("{said}; {CHECK_NAME}")).into()
}

/// The first address that accepts, and messages about those before it. If none accepts, the first of all: requests to
/// it fail and show why.
fn choose(
    addresses: &[SocketAddr],
    mut probe: impl FnMut(SocketAddr) -> Result<(), String>,
) -> (SocketAddr, Vec<String>) {
    let mut said = Vec::new();
    for address in addresses {
        match probe(*address) {
            Ok(()) => return (*address, said),
            Err(why) => said.push(format!("{address} does not accept connections ({why}), ")),
        }
    }
    said.push("none accepts connections, ".to_owned());
    (addresses[0], said)
}

impl ProbeTransport<'_> {
    fn probe(&mut self, address: SocketAddr, time: Duration) -> Result<(), String> {
        match self {
            ProbeTransport::ByProxy => Ok(()),
            ProbeTransport::Tcp => TcpStream::connect_timeout(&address, time)
                .map(drop)
                .map_err(|error| error.to_string()),
            ProbeTransport::Quic {
                context,
                server_name,
            } => match try_handshake(context, server_name, address, time, |_| {}) {
                // A refusal does not depend on the address.
                Ok(()) | Err(HandshakeFailure::Refused(_)) => Ok(()),
                Err(HandshakeFailure::Silent(why) | HandshakeFailure::OutOfTime(why)) => Err(why),
            },
        }
    }
}

/// Opens a QUIC connection to this address within `time`, and closes it. `opened` gets the local address before anything is
/// sent.
pub(crate) fn try_handshake(
    context: &mut h3::ClientContext,
    server_name: &str,
    address: SocketAddr,
    time: Duration,
    opened: impl FnOnce(SocketAddr),
) -> Result<(), HandshakeFailure> {
    let silent = |error: io::Error| HandshakeFailure::Silent(error.to_string());
    let anywhere = match address {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((anywhere, 0)).map_err(silent)?;
    socket.connect(address).map_err(silent)?;
    let local = socket.local_addr().map_err(silent)?;
    opened(local);
    let mut client = h3::Client::new(context, server_name, local, address)
        .map_err(|error| HandshakeFailure::Refused(error.to_string()))?;
    let ended = run_handshake(&mut client, &socket, local, address, time);
    if ended.is_ok() {
        client.close(h3::code::NO_ERROR);
        // If the close is lost, the server's idle timeout ends the connection.
        let _ = send(&mut client, &socket);
    }
    ended
}

/// Sends and receives until the handshake is complete or has failed.
fn run_handshake(
    client: &mut h3::Client,
    socket: &UdpSocket,
    local: SocketAddr,
    peer: SocketAddr,
    time: Duration,
) -> Result<(), HandshakeFailure> {
    let give_up = Instant::now() + time;
    let mut has_received = false;
    let mut buffer = vec![0; DATAGRAM_BYTES];
    let mut inbox = Inbox::new(InboxOptions::default());
    loop {
        send(client, socket).map_err(|error| HandshakeFailure::Silent(error.to_string()))?;
        if client.is_established() {
            return Ok(());
        }
        if let Some(closing) = client.closing() {
            return Err(HandshakeFailure::Refused(closing.to_string()));
        }
        let now = Instant::now();
        if now >= give_up {
            let tenths = (time.as_secs_f64() * 10.0).round();
            let said = format!("no handshake within {} s", tenths / 10.0);
            return Err(if time < TRY_FOR {
                HandshakeFailure::OutOfTime(said)
            } else if has_received {
                HandshakeFailure::Refused(said)
            } else {
                HandshakeFailure::Silent(said)
            });
        }
        let own = client.timeout(now).map(std::time::Duration::from);
        let wait = (give_up - now).min(own.unwrap_or(time));
        // A timeout of 0 would mean no timeout.
        let wait = wait.max(Duration::from_millis(1));
        let read = socket
            .set_read_timeout(Some(wait))
            .and_then(|()| socket.recv(&mut buffer));
        // `closing` reports the engine's errors.
        let _ = match read {
            Ok(count) => {
                has_received = true;
                client.receive(&mut buffer[..count], peer, local, &mut inbox)
            }
            Err(error) if is_timeout(&error) => client.on_timeout(Instant::now()),
            Err(error) => return Err(HandshakeFailure::Silent(error.to_string())),
        };
    }
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Sends everything the engine has to send, without pacing.
fn send(client: &mut h3::Client, socket: &UdpSocket) -> io::Result<()> {
    let mut batch = h3::Batch::new();
    let mut inbox = Inbox::new(InboxOptions::default());
    while client.output(Instant::now(), &mut batch, &mut inbox) {
        for datagram in batch.datagrams() {
            socket.send(datagram)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn first_accepting_address_is_chosen() {
        let all = ["[::1]:80", "10.0.0.1:80", "10.0.0.2:80"].map(address);
        let accepting = |which: usize| {
            choose(&all, |tried| {
                if tried == all[which] {
                    Ok(())
                } else {
                    Err("refused".to_owned())
                }
            })
        };
        assert_eq!(accepting(0), (all[0], Vec::new()));
        let (chosen, said) = accepting(1);
        assert_eq!(
            (chosen, said.concat().as_str()),
            (all[1], "[::1]:80 does not accept connections (refused), ")
        );
        let (chosen, said) = choose(&all, |_| Err("no".to_owned()));
        assert_eq!((chosen, said.len()), (all[0], 4));
    }

    #[test]
    fn port_accepts_only_until_its_listener_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(ProbeTransport::Tcp.probe(address, TRY_FOR), Ok(()));
        drop(listener);
        assert!(
            ProbeTransport::Tcp
                .probe(address, TRY_FOR)
                .unwrap_err()
                .contains("refused")
        );
    }

    #[test]
    fn tries_end_when_the_command_has_no_time_left() {
        assert_eq!(AddressBook::default().time_to_try(), TRY_FOR);
        let now = Instant::now();
        let soon = AddressBook::until(now + Duration::from_millis(500)).time_to_try();
        assert!(soon <= Duration::from_millis(500), "{soon:?}");
        let late = AddressBook::until(now + 100 * TRY_FOR).time_to_try();
        assert_eq!(late, TRY_FOR);
        assert!(AddressBook::until(now).time_to_try() > Duration::ZERO);
    }

    #[test]
    fn unanswered_lookup_is_bad_input_with_advice() {
        let is_bad_input = |host: &str, error: io::Error| {
            let error = lookup_error(host, &error);
            assert!(error.to_string().contains(host), "{error}");
            error.is::<BadInput>()
        };
        let gai =
            |text: &str| io::Error::other(format!("failed to lookup address information: {text}"));
        let unanswered = "Temporary failure in name resolution";
        assert!(is_bad_input("server", gai("Name or service not known")));
        assert!(is_bad_input("server.invalid", gai(unanswered)));
        assert!(!is_bad_input("server", io::Error::from_raw_os_error(24)));
        let is_advised = |host: &str, error: &io::Error| {
            let said = lookup_error(host, error).to_string();
            said.contains("the name server did not answer") && said.contains("--connect-to")
        };
        let timeout = io::Error::from_raw_os_error(110);
        let failures = [
            gai(unanswered),
            gai("Non-recoverable failure in name resolution"),
            gai("Try again"),
            timeout,
        ];
        for failure in failures {
            assert!(is_advised("server", &failure), "{failure}");
            assert!(is_bad_input("server", failure));
        }
        let unknown = gai("Name or service not known");
        assert!(!is_advised("server", &unknown));
        assert!(!is_advised("server.invalid", &gai(unanswered)));
    }

    #[test]
    fn addresses_of_the_other_family_are_ignored() {
        let found = resolve("127.0.0.1", 80, Some(Family::V4)).unwrap();
        assert_eq!(found, [address("127.0.0.1:80")]);
        let error = resolve("127.0.0.1", 80, Some(Family::V6)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "squall: 127.0.0.1 has no IPv6 address, only 127.0.0.1"
        );
        assert!(resolve("::1", 80, None).unwrap()[0].is_ipv6());
    }
}

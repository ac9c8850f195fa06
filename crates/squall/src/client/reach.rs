//! Which of a name's addresses is asked: the first that accepts a connection, before anything is measured.
//!
//! Of one address nothing is tried: if it does not answer, requests say so. Addresses are tried one after the other in
//! the resolver's order, not in a race (RFC 8305), so that the same machine chooses the same one again. What is chosen is
//! kept, so that all rounds of a comparison ask the same address.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

use squall_http::{Inbox, Wants, h3};

use crate::{BadInput, output};
use squall_http::values::alt_svc::Alternative;

/// How long one address is tried: a SYN that is lost is sent again after 1 s, and once more after 2 s
/// (tcp_syn_linear_timeouts); of QUIC so many are sent too (RFC 9002, section 6.2).
const TRY_FOR: Duration = Duration::from_secs(3);

/// The largest UDP payload that is read.
const DATAGRAM_BYTES: usize = 65_536;

/// The only addresses that are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// What is known of the servers of a command.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    chosen: BTreeMap<(String, bool), SocketAddr>,
    /// What else an authority has said of itself.
    alternatives: BTreeMap<String, Alternative>,
    /// Whether a choice is told though the first address accepted.
    tells_all: bool,
}

/// How an address is tried.
pub(crate) enum Over<'a> {
    Tcp,
    Quic {
        context: &'a mut h3::ClientContext,
        server_name: &'a str,
    },
}

/// Why a handshake of QUIC was not completed.
#[derive(Debug)]
pub(crate) enum Unfinished {
    /// Nobody answered.
    Silent(String),
    /// The server answered, and it came to nothing.
    Refused(String),
}

impl Reach {
    /// One that says which of several addresses is taken.
    pub(crate) fn telling_all() -> Reach {
        Reach {
            tells_all: true,
            ..Reach::default()
        }
    }

    /// Notes an alternative of an authority, which HTTP/3 then goes to.
    pub(crate) fn add_alternative(&mut self, authority: &str, alternative: Alternative) {
        self.alternatives.insert(authority.to_owned(), alternative);
    }

    /// The alternative of this authority, if one is to be used.
    pub(crate) fn alternative(&self, authority: &str) -> Option<&Alternative> {
        self.alternatives.get(authority)
    }

    /// The address of `host` and `port` to ask.
    pub(crate) fn address(
        &mut self,
        (host, port): (&str, u16),
        family: Option<Family>,
        mut over: Over<'_>,
    ) -> Result<SocketAddr, BadInput> {
        let name = match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        let key = (name, matches!(over, Over::Quic { .. }));
        if let Some(chosen) = self.chosen.get(&key) {
            return Ok(*chosen);
        }
        let found = resolve(host, port, family)?;
        let chosen = match found.as_slice() {
            [only] => *only,
            several => {
                let (chosen, said) = choose(several, |address| over.try_out(address));
                if self.tells_all || !said.is_empty() {
                    let all = several.len();
                    output::talk(format_args!(
                        "{} has {all} addresses: {}{chosen} is asked\n",
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

/// The addresses of a name, each once, in the resolver's order.
fn resolve(host: &str, port: u16, family: Option<Family>) -> Result<Vec<SocketAddr>, BadInput> {
    let found = (host, port).to_socket_addrs();
    let found = found.map_err(|error| BadInput::new(format!("cannot find {host}: {error}")))?;
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
            let said = format!("{host} has no address of {wanted}, only {}", ips.join(", "));
            Err(BadInput::new(said))
        }
        _ => Err(BadInput::new(format!("{host} has no address"))),
    }
}

/// The first that accepts, and what to say of those before it. If none does, the first of all: requests to it fail, and
/// say why.
fn choose(
    addresses: &[SocketAddr],
    mut try_out: impl FnMut(SocketAddr) -> Result<(), String>,
) -> (SocketAddr, Vec<String>) {
    let mut said = Vec::new();
    for address in addresses {
        match try_out(*address) {
            Ok(()) => return (*address, said),
            Err(why) => said.push(format!("{address} does not accept ({why}), ")),
        }
    }
    said.push("none does, ".to_owned());
    (addresses[0], said)
}

impl Over<'_> {
    fn try_out(&mut self, address: SocketAddr) -> Result<(), String> {
        match self {
            Over::Tcp => TcpStream::connect_timeout(&address, TRY_FOR)
                .map(drop)
                .map_err(|error| error.to_string()),
            Over::Quic {
                context,
                server_name,
            } => match shake_hands(context, server_name, address) {
                // What it refuses is no matter of the address.
                Ok(()) | Err(Unfinished::Refused(_)) => Ok(()),
                Err(Unfinished::Silent(why)) => Err(why),
            },
        }
    }
}

/// Makes a connection of QUIC to this address, and ends it.
pub(crate) fn shake_hands(
    context: &mut h3::ClientContext,
    server_name: &str,
    address: SocketAddr,
) -> Result<(), Unfinished> {
    let silent = |error: io::Error| Unfinished::Silent(error.to_string());
    let anywhere = match address {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((anywhere, 0)).map_err(silent)?;
    socket.connect(address).map_err(silent)?;
    let local = socket.local_addr().map_err(silent)?;
    let mut client = h3::Client::new(context, server_name, local, address)
        .map_err(|error| Unfinished::Refused(error.to_string()))?;
    let ended = converse(&mut client, &socket, (local, address));
    if ended.is_ok() {
        client.close(h3::code::NO_ERROR);
        // If it does not arrive, the server waits for its idle time.
        let _ = send(&mut client, &socket);
    }
    ended
}

/// Sends and receives until the handshake is complete or has failed.
fn converse(
    client: &mut h3::Client,
    socket: &UdpSocket,
    (local, peer): (SocketAddr, SocketAddr),
) -> Result<(), Unfinished> {
    let give_up = Instant::now() + TRY_FOR;
    let mut has_heard = false;
    let mut buffer = vec![0; DATAGRAM_BYTES];
    let mut inbox = Inbox::new(Wants::default());
    loop {
        send(client, socket).map_err(|error| Unfinished::Silent(error.to_string()))?;
        if client.is_established() {
            return Ok(());
        }
        if let Some(closing) = client.closing() {
            return Err(Unfinished::Refused(closing.to_string()));
        }
        let now = Instant::now();
        if now >= give_up {
            let said = format!("no handshake within {} s", TRY_FOR.as_secs());
            return Err(match has_heard {
                true => Unfinished::Refused(said),
                false => Unfinished::Silent(said),
            });
        }
        let own = client.timeout(now).map(std::time::Duration::from);
        let wait = (give_up - now).min(own.unwrap_or(TRY_FOR));
        // A timeout of 0 would be none.
        let wait = wait.max(Duration::from_millis(1));
        let read = socket
            .set_read_timeout(Some(wait))
            .and_then(|()| socket.recv(&mut buffer));
        // Errors of the engine are what `closing` says.
        let _ = match read {
            Ok(count) => {
                has_heard = true;
                client.receive(&mut buffer[..count], peer, local, &mut inbox)
            }
            Err(error) if is_no_answer_yet(&error) => client.on_timeout(Instant::now()),
            Err(error) => return Err(Unfinished::Silent(error.to_string())),
        };
    }
}

fn is_no_answer_yet(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Sends everything that the engine has to say, without pacing.
fn send(client: &mut h3::Client, socket: &UdpSocket) -> io::Result<()> {
    let mut batch = h3::Batch::new();
    let mut inbox = Inbox::new(Wants::default());
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
    fn the_first_address_that_accepts_is_taken() {
        let all = ["[::1]:80", "10.0.0.1:80", "10.0.0.2:80"].map(address);
        let accepting = |which: usize| {
            choose(&all, |tried| match tried == all[which] {
                true => Ok(()),
                false => Err("refused".to_owned()),
            })
        };
        assert_eq!(accepting(0), (all[0], Vec::new()));
        let (chosen, said) = accepting(1);
        assert_eq!(
            (chosen, said.concat().as_str()),
            (all[1], "[::1]:80 does not accept (refused), ")
        );
        let (chosen, said) = choose(&all, |_| Err("no".to_owned()));
        assert_eq!((chosen, said.len()), (all[0], 4));
    }

    #[test]
    fn a_port_where_nobody_listens_does_not_accept() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(Over::Tcp.try_out(address), Ok(()));
        drop(listener);
        assert!(Over::Tcp.try_out(address).unwrap_err().contains("refused"));
    }

    #[test]
    fn only_addresses_of_the_family_count() {
        let found = resolve("127.0.0.1", 80, Some(Family::V4)).unwrap();
        assert_eq!(found, [address("127.0.0.1:80")]);
        let error = resolve("127.0.0.1", 80, Some(Family::V6)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "squall: 127.0.0.1 has no address of IPv6, only 127.0.0.1"
        );
        assert!(resolve("::1", 80, None).unwrap()[0].is_ipv6());
    }
}

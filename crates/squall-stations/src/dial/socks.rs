//! A tunnel through a SOCKS5 proxy, while it is being opened (RFC 1928; user name and password: RFC 1929).
//!
//! It knows only the messages; `tcp` moves their bytes. No error message contains the user name or the password. GSSAPI
//! is not supported, and neither is UDP ASSOCIATE, so HTTP/3 cannot go through it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

const VERSION: u8 = 5;
/// The version of the negotiation of user name and password (RFC 1929, section 2).
const LOGIN_VERSION: u8 = 1;
const CONNECT: u8 = 1;

/// Authentication methods (RFC 1928, section 3).
const NO_AUTHENTICATION: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;
const NO_ACCEPTABLE_METHOD: u8 = 0xff;

/// Address types (RFC 1928, section 5).
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// A route through a SOCKS5 proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocksRoute {
    /// What the proxy is to connect to.
    pub destination: SocksDestination,
    /// The user to log in as; `None` for no authentication.
    pub login: Option<SocksLogin>,
}

/// What a proxy is to connect to: an address, or a name that it resolves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocksDestination {
    /// As error messages show it.
    text: String,
    /// Address type, address and port, as in a request.
    encoded: Vec<u8>,
}

/// A user name and a password. Its `Debug` shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct SocksLogin {
    /// Both, each preceded by its length.
    encoded: Vec<u8>,
}

impl SocksDestination {
    /// An address.
    pub fn of_address(address: SocketAddr) -> SocksDestination {
        let mut encoded = Vec::new();
        match address.ip() {
            IpAddr::V4(ip) => {
                encoded.push(IPV4);
                encoded.extend(ip.octets());
            }
            IpAddr::V6(ip) => {
                encoded.push(IPV6);
                encoded.extend(ip.octets());
            }
        }
        encoded.extend(address.port().to_be_bytes());
        SocksDestination {
            text: address.to_string(),
            encoded,
        }
    }

    /// A name of 1 to 255 bytes and a port; `None` if the name has another length.
    pub fn of_name(name: &str, port: u16) -> Option<SocksDestination> {
        let mut encoded = vec![NAME];
        encoded.extend(with_length(name.as_bytes()).filter(|_| !name.is_empty())?);
        encoded.extend(port.to_be_bytes());
        Some(SocksDestination {
            text: format!("{name}:{port}"),
            encoded,
        })
    }
}

impl SocksLogin {
    /// A user name of 1 to 255 bytes and a password of at most 255; `None` if one of them has another length.
    pub fn new(user: &[u8], password: &[u8]) -> Option<SocksLogin> {
        let mut encoded = with_length(user).filter(|_| !user.is_empty())?;
        encoded.extend(with_length(password)?);
        Some(SocksLogin { encoded })
    }
}

impl fmt::Debug for SocksLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocksLogin").finish_non_exhaustive()
    }
}

/// The bytes after a byte that holds their number; `None` if there are more than 255.
fn with_length(bytes: &[u8]) -> Option<Vec<u8>> {
    let length = u8::try_from(bytes.len()).ok()?;
    let mut found = vec![length];
    found.extend(bytes);
    Some(found)
}

/// The answer that is awaited from the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaits {
    Method,
    Login,
    Reply,
}

pub(crate) struct SocksTunnel {
    route: SocksRoute,
    awaits: Awaits,
    /// What has not been sent.
    unsent: Vec<u8>,
    /// What has arrived of the next answer.
    received: Vec<u8>,
}

impl SocksTunnel {
    pub(crate) fn new(route: &SocksRoute) -> SocksTunnel {
        // The version, how many methods it offers, and these.
        let unsent = match route.login {
            None => vec![VERSION, 1, NO_AUTHENTICATION],
            Some(_) => vec![VERSION, 2, NO_AUTHENTICATION, USER_AND_PASSWORD],
        };
        SocksTunnel {
            route: route.clone(),
            awaits: Awaits::Method,
            unsent,
            received: Vec::new(),
        }
    }

    /// Bytes for the proxy; empty if there are none.
    pub(crate) fn output(&self) -> &[u8] {
        &self.unsent
    }

    /// Notes that the socket took the first `n` bytes of the output.
    pub(crate) fn advance_output(&mut self, n: usize) {
        self.unsent.drain(..n.min(self.unsent.len()));
    }

    /// Takes bytes from the proxy. Once the tunnel is open, returns those that follow the proxy's last answer.
    ///
    /// # Errors
    /// The proxy refused, or does not speak SOCKS5.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
        self.received.extend_from_slice(bytes);
        loop {
            let expected = match self.awaits {
                Awaits::Method | Awaits::Reply => VERSION,
                Awaits::Login => LOGIN_VERSION,
            };
            // The second byte of each answer says whether the proxy goes on.
            let &[version, code, ..] = self.received.as_slice() else {
                return match self.received.first() {
                    Some(version) if *version != expected => Err(no_socks(*version)),
                    _ => Ok(None),
                };
            };
            if version != expected {
                return Err(no_socks(version));
            }
            match self.awaits {
                Awaits::Method => self.choose_method(code)?,
                Awaits::Login if code != 0 => {
                    return Err("the SOCKS proxy refused the user name or the password".to_owned());
                }
                Awaits::Login => self.ask(),
                Awaits::Reply => return self.open(code),
            }
        }
    }

    /// Goes on with the authentication method that the proxy has chosen.
    fn choose_method(&mut self, method: u8) -> Result<(), String> {
        match (method, &self.route.login) {
            (NO_AUTHENTICATION, _) => self.ask(),
            (USER_AND_PASSWORD, Some(login)) => {
                self.unsent.push(LOGIN_VERSION);
                self.unsent.extend_from_slice(&login.encoded);
                self.received.drain(..2);
                self.awaits = Awaits::Login;
            }
            (NO_ACCEPTABLE_METHOD, None) => {
                return Err(
                    "the SOCKS proxy wants a user name and a password, or another authentication: give \
                     --proxy socks5://USER:PASSWORD@HOST:PORT"
                        .to_owned(),
                );
            }
            (NO_ACCEPTABLE_METHOD, Some(_)) => {
                return Err(
                    "the SOCKS proxy accepts neither a user name with a password nor no authentication"
                        .to_owned(),
                );
            }
            (method, _) => {
                return Err(format!(
                    "the SOCKS proxy chose authentication method {method}, which was not offered"
                ));
            }
        }
        Ok(())
    }

    /// Asks for the connection, after an answer of two bytes.
    fn ask(&mut self) {
        self.unsent.extend([VERSION, CONNECT, 0]);
        self.unsent
            .extend_from_slice(&self.route.destination.encoded);
        self.received.drain(..2);
        self.awaits = Awaits::Reply;
    }

    /// What follows the reply with this code, once it is complete: version, code, a reserved byte, and the address of the
    /// proxy's own end, which does not matter.
    fn open(&self, code: u8) -> Result<Option<Vec<u8>>, String> {
        if code != 0 {
            let to = &self.route.destination.text;
            let words = reply_words(code);
            return Err(format!(
                "the SOCKS proxy did not connect to {to}: {words} (reply {code})"
            ));
        }
        let address = match self.received.get(3..) {
            None | Some([]) => return Ok(None),
            Some([IPV4, ..]) => 4,
            Some([IPV6, ..]) => 16,
            Some([NAME]) => return Ok(None),
            Some([NAME, length, ..]) => 1 + usize::from(*length),
            Some([kind, ..]) => {
                return Err(format!(
                    "the SOCKS proxy answered with an address of unknown type {kind}"
                ));
            }
        };
        // Four bytes precede the address, and a port follows it.
        Ok(self.received.get(4 + address + 2..).map(<[u8]>::to_vec))
    }
}

fn no_socks(first: u8) -> String {
    format!("the proxy does not speak SOCKS5: its answer begins with the byte {first:#04x}")
}

/// A reply's code in words (RFC 1928, section 6).
fn reply_words(code: u8) -> &'static str {
    match code {
        1 => "general failure of the proxy",
        2 => "its rules do not allow the connection",
        3 => "the network is unreachable",
        4 => "the host is unreachable, or its name is unknown",
        5 => "the connection was refused",
        6 => "the TTL expired",
        7 => "it does not support CONNECT",
        8 => "it does not support this address type",
        _ => "for a reason that SOCKS5 does not define",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENED: &[u8] = &[5, 0, 0, 1, 127, 0, 0, 1, 0x1f, 0x90];

    fn tunnel(login: Option<SocksLogin>) -> SocksTunnel {
        SocksTunnel::new(&SocksRoute {
            destination: SocksDestination::of_name("server", 443).unwrap(),
            login,
        })
    }

    /// Takes everything that there is to send.
    fn sent(tunnel: &mut SocksTunnel) -> Vec<u8> {
        let sent = tunnel.output().to_vec();
        tunnel.advance_output(sent.len());
        sent
    }

    /// What the tunnel returns for this reply to its request.
    fn answered(reply: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let mut tunnel = tunnel(None);
        assert_eq!(tunnel.receive(&[5, 0]), Ok(None));
        tunnel.receive(reply)
    }

    #[test]
    fn tunnel_opens_after_the_login_in_any_pieces() {
        let answers = [&[5, 2, 1, 0][..], OPENED, b"more"].concat();
        for piece in [1, 3, answers.len()] {
            let mut tunnel = tunnel(SocksLogin::new(b"me", b"secret"));
            let (mut said, mut passed) = (sent(&mut tunnel), Vec::<u8>::new());
            for bytes in answers.chunks(piece) {
                if passed.is_empty() {
                    passed.extend(tunnel.receive(bytes).unwrap().unwrap_or_default());
                } else {
                    passed.extend(bytes);
                }
                said.extend(sent(&mut tunnel));
            }
            let expected: [&[u8]; 3] = [
                &[5, 2, 0, 2],
                b"\x01\x02me\x06secret",
                b"\x05\x01\x00\x03\x06server\x01\xbb",
            ];
            assert_eq!(said, expected.concat());
            assert_eq!(passed, b"more");
        }
    }

    #[test]
    fn addresses_are_sent_with_their_type() {
        let encoded = |text: &str| SocksDestination::of_address(text.parse().unwrap()).encoded;
        assert_eq!(encoded("10.0.0.1:80"), [1, 10, 0, 0, 1, 0, 80]);
        let mut v6 = vec![4_u8];
        v6.extend([0_u8; 15]);
        v6.extend([1_u8, 0x1f, 0x90]);
        assert_eq!(encoded("[::1]:8080"), v6);
    }

    #[test]
    fn reply_ends_correctly_for_every_address_type() {
        let v6 = [&[5, 0, 0, 4][..], &[0; 18]].concat();
        let name = [&[5, 0, 0, 3, 2][..], b"ab\0\x50"].concat();
        for reply in [OPENED, &v6[..], &name[..]] {
            for short in 0..reply.len() {
                assert_eq!(answered(&reply[..short]), Ok(None), "{reply:?} {short}");
            }
            let more = [reply, b"x"].concat();
            assert_eq!(answered(reply), Ok(Some(Vec::new())));
            assert_eq!(answered(&more), Ok(Some(b"x".to_vec())));
        }
    }

    #[test]
    fn each_refusal_has_a_description() {
        for (code, words) in [
            (1, "general failure of the proxy"),
            (2, "its rules do not allow the connection"),
            (3, "the network is unreachable"),
            (4, "the host is unreachable, or its name is unknown"),
            (5, "the connection was refused"),
            (6, "the TTL expired"),
            (7, "it does not support CONNECT"),
            (8, "it does not support this address type"),
            (99, "for a reason that SOCKS5 does not define"),
        ] {
            let said =
                format!("the SOCKS proxy did not connect to server:443: {words} (reply {code})");
            assert_eq!(answered(&[5, code]), Err(said));
        }
        let said = answered(&[5, 0, 0, 9]).unwrap_err();
        assert!(said.contains("unknown type 9"), "{said}");
        for (answer, said) in [
            (&[5_u8, 0xff][..], "wants a user name and a password"),
            (&[5, 2], "method 2, which was not offered"),
            (
                b"HTTP/1.1 400",
                "does not speak SOCKS5: its answer begins with the byte 0x48",
            ),
            (&[4], "does not speak SOCKS5"),
        ] {
            let found = tunnel(None).receive(answer).unwrap_err();
            assert!(found.contains(said), "{found}");
        }
    }

    #[test]
    fn no_message_contains_the_password() {
        let login = || SocksLogin::new(b"me", b"secret");
        for answer in [&[5, 0xff][..], &[5, 2, 1, 1], &[5, 2, 1, 0, 5, 2], &[5, 3]] {
            let found = tunnel(login()).receive(answer).unwrap_err();
            assert!(!found.contains("secret"), "{found}");
        }
        let shown = format!("{:?}", tunnel(login()).route);
        assert!(shown.contains("SocksLogin { .. }"), "{shown}");
        assert_eq!(SocksLogin::new(b"", b"x"), None);
        assert_eq!(SocksLogin::new(b"x", &[0; 256]), None);
        assert!(SocksDestination::of_name(&"x".repeat(256), 1).is_none());
    }
}

//! A tunnel through a proxy, while it is being opened: an HTTP proxy (CONNECT; RFC 9110, section 9.3.6), or one of SOCKS5
//! (`socks`).
//!
//! It knows only the messages; `tcp` moves their bytes. Once the tunnel is open, the connection's bytes pass as if there
//! were no proxy.

use std::borrow::Cow;

use super::Route;
use super::socks::SocksTunnel;

/// The longest head of a proxy's response.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// How many characters of a refusal an error message quotes.
const SHOWN_CHARACTERS: usize = 100;

/// A tunnel that is not open yet.
pub(crate) enum Tunnel {
    Http(HttpTunnel),
    Socks(SocksTunnel),
}

pub(crate) struct HttpTunnel {
    /// What has not been sent of the request.
    unsent: Vec<u8>,
    /// What has arrived of the response.
    head: Vec<u8>,
}

impl Tunnel {
    /// The tunnel that connections on this route begin with.
    pub(crate) fn of(route: &Route) -> Option<Tunnel> {
        match route {
            Route::Direct | Route::UnixSocket(_) => None,
            Route::Tunnel(authority) => Some(Tunnel::Http(HttpTunnel::to(authority))),
            Route::Socks(route) => Some(Tunnel::Socks(SocksTunnel::new(route))),
        }
    }

    /// Bytes for the proxy; empty if there are none.
    pub(crate) fn output(&self) -> &[u8] {
        match self {
            Tunnel::Http(tunnel) => tunnel.output(),
            Tunnel::Socks(tunnel) => tunnel.output(),
        }
    }

    /// Notes that the socket took the first `n` bytes of the output.
    pub(crate) fn advance_output(&mut self, n: usize) {
        match self {
            Tunnel::Http(tunnel) => tunnel.advance_output(n),
            Tunnel::Socks(tunnel) => tunnel.advance_output(n),
        }
    }

    /// What it means if the proxy closes the connection now.
    pub(crate) fn closed(&self) -> &'static str {
        match self {
            Tunnel::Http(_) => "the proxy closed the connection instead of answering CONNECT",
            Tunnel::Socks(_) => {
                "the SOCKS proxy closed the connection instead of opening the tunnel"
            }
        }
    }

    /// Takes bytes from the proxy. Once the tunnel is open, returns those that follow the proxy's answer.
    ///
    /// # Errors
    /// The proxy refused, or speaks another protocol.
    fn receive(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
        match self {
            Tunnel::Http(tunnel) => tunnel.receive(bytes),
            Tunnel::Socks(tunnel) => tunnel.receive(bytes),
        }
    }
}

impl HttpTunnel {
    /// A tunnel to `authority`, a host and a port.
    fn to(authority: &str) -> HttpTunnel {
        HttpTunnel {
            unsent: format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n\r\n")
                .into_bytes(),
            head: Vec::new(),
        }
    }

    fn output(&self) -> &[u8] {
        &self.unsent
    }

    fn advance_output(&mut self, n: usize) {
        self.unsent.drain(..n.min(self.unsent.len()));
    }

    /// Takes bytes from the proxy. Once the tunnel is open, returns those that follow the head of the response.
    ///
    /// # Errors
    /// The proxy refused, or its response is not one of HTTP/1.
    fn receive(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
        self.head.extend_from_slice(bytes);
        let end = self.head.windows(4).position(|four| four == b"\r\n\r\n");
        let line = self.head.split(|byte| *byte == b'\r').next();
        let line = String::from_utf8_lossy(line.unwrap_or_default());
        let shown: String = line.chars().take(SHOWN_CHARACTERS).collect();
        match end {
            Some(end) if is_success(&line) => Ok(Some(self.head[end + 4..].to_vec())),
            None if self.head.len() <= MAX_HEAD_BYTES => Ok(None),
            _ => Err(format!("the proxy answered CONNECT with {shown:?}")),
        }
    }
}

/// Passes received bytes through the tunnel, if there is one: while it is being opened, only those that follow the
/// proxy's answer remain. Removes the tunnel once it is open.
///
/// # Errors
/// As for [`Tunnel::receive`].
pub(crate) fn pass<'a>(
    tunnel: &mut Option<Tunnel>,
    bytes: &'a [u8],
) -> Result<Cow<'a, [u8]>, String> {
    let Some(opening) = tunnel else {
        return Ok(Cow::Borrowed(bytes));
    };
    let rest = opening.receive(bytes)?;
    if rest.is_some() {
        *tunnel = None;
    }
    Ok(Cow::Owned(rest.unwrap_or_default()))
}

/// Whether a status line of HTTP/1 has a status of 200 to 299.
fn is_success(line: &str) -> bool {
    let rest = line.strip_prefix("HTTP/1.");
    let status = rest.and_then(|rest| rest.split(' ').nth(1));
    let status = status.and_then(|digits| digits.parse::<u16>().ok());
    status.is_some_and(|status| (200..300).contains(&status))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(authority: &str) -> Tunnel {
        Tunnel::of(&Route::Tunnel(authority.to_owned())).expect("it has a tunnel")
    }

    #[test]
    fn tunnel_opens_on_a_2xx_response_in_any_pieces() {
        let answer = b"HTTP/1.1 200 Connection established\r\nvia: x\r\n\r\nmore";
        for piece in [1, 7, answer.len()] {
            let mut tunnel = Some(to("server:443"));
            let mut passed = Vec::new();
            for bytes in answer.chunks(piece) {
                passed.extend_from_slice(&pass(&mut tunnel, bytes).unwrap());
            }
            assert_eq!((passed.as_slice(), tunnel.is_none()), (&b"more"[..], true));
        }
    }

    #[test]
    fn refusals_say_what_the_proxy_answered() {
        for (answer, said) in [
            (
                "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
                "the proxy answered CONNECT with \"HTTP/1.1 407 Proxy Authentication Required\"",
            ),
            (
                "220 mail\r\n\r\n",
                "the proxy answered CONNECT with \"220 mail\"",
            ),
        ] {
            let mut tunnel = Some(to("server:443"));
            assert_eq!(pass(&mut tunnel, answer.as_bytes()).unwrap_err(), said);
        }
        let mut tunnel = Some(to("server:443"));
        let endless = pass(&mut tunnel, &[b'x'; MAX_HEAD_BYTES + 1]).unwrap_err();
        assert!(endless.len() < 200, "{endless}");
    }

    #[test]
    fn request_names_the_server_and_is_sent_once() {
        let mut tunnel = to("[::1]:80");
        let request = b"CONNECT [::1]:80 HTTP/1.1\r\nhost: [::1]:80\r\n\r\n";
        assert_eq!(tunnel.output(), request);
        tunnel.advance_output(8);
        assert_eq!(tunnel.output(), &request[8..]);
        tunnel.advance_output(1_000);
        assert!(tunnel.output().is_empty());
    }
}

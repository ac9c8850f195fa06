//! What to try after a request that got no response: the flag or URL that fits what the server seems to speak.
//!
//! It judges by the outcome and the text of the error, because a record has nothing else, and sends nothing itself. The texts
//! come from squall-http and squall-stations; the tests generate them from the errors themselves.

use squall_base::plan::Protocol;
use squall_base::record::Outcome;
use squall_http::tls::{Alert, TlsError};
use squall_http::{ConnectionError, Scheme};

use super::flags::ConnectionFlags;
use super::target::HttpUrl;

/// `no_application_protocol` (RFC 7301, section 3.2).
const NO_APPLICATION_PROTOCOL: Alert = Alert(120);

/// Linux's text for ECONNREFUSED.
const REFUSED: &str = "Connection refused";

pub(crate) struct Attempt<'a> {
    pub(crate) url: &'a HttpUrl,
    /// The protocol of the first connection.
    pub(crate) protocol: Protocol,
    pub(crate) flags: &'a ConnectionFlags,
}

impl Attempt<'_> {
    /// What to try if a request without a response ended with this outcome and error; `None` if nothing is known.
    pub(crate) fn advice(&self, outcome: Outcome, error: &str) -> Option<String> {
        let is_handshake = outcome == Outcome::TlsFailed;
        if is_handshake && error.contains("certificate") {
            return self.about_certificate(error);
        }
        match (outcome, self.protocol) {
            (
                Outcome::TlsFailed
                | Outcome::ConnectFailed
                | Outcome::Censored
                | Outcome::TimedOut,
                Protocol::H3,
            ) => Some(
                "HTTP/3 needs a server that accepts QUIC on this UDP port, and a network that lets UDP through. Otherwise try \
                 --http 2, --http 1.1 or --http auto"
                    .to_owned(),
            ),
            (Outcome::TlsFailed, _) => self.about_tls(error),
            (Outcome::ConnectFailed, _) if error.contains(REFUSED) => Some(self.about_refusal()),
            (Outcome::ConnectionClosed | Outcome::ProtocolError, Protocol::H1) => Some(format!(
                "If this port speaks TLS, try {}; if it speaks HTTP/2 only, --http 2",
                self.url_with("https")
            )),
            (Outcome::ConnectionClosed | Outcome::ProtocolError, Protocol::H2c) => Some(format!(
                "If the server speaks HTTP/1.1 only, try --http 1.1; if this port speaks TLS, {}",
                self.url_with("https")
            )),
            _ => None,
        }
    }

    /// What to try after a response with this status.
    pub(crate) fn advice_for_status(&self, status: u16) -> Option<String> {
        // nginx and others answer plain HTTP on a TLS port with 400.
        let is_suspect = status == 400 && self.url.scheme == Scheme::Http;
        is_suspect.then(|| format!("If this port speaks TLS, try {}", self.url_with("https")))
    }

    fn about_refusal(&self) -> String {
        let flags = self.flags;
        match (&flags.unix_socket, &flags.proxy, &flags.connect_to) {
            (Some(path), ..) => format!(
                "No program accepts connections at {}: check that its server runs",
                path.display()
            ),
            (None, Some(proxy), _) => {
                format!("The proxy {proxy} refused: check its host and port, and that it runs")
            }
            (None, None, Some(to)) => format!(
                "No program listens on {to} (--connect-to): check the host and the port, and that the server runs"
            ),
            (None, None, None) => format!(
                "No program listens on {}: check the host and the port, and that the server runs",
                self.url.host_and_port()
            ),
        }
    }

    fn about_certificate(&self, error: &str) -> Option<String> {
        if error.contains("certificate_required") || error.contains("client certificate") {
            return Some(
                "The server requests a client certificate: give it with --cert FILE".to_owned(),
            );
        }
        // The server refused the client's certificate.
        if error.contains("the peer ") {
            return None;
        }
        let words = ["mismatch", "another name", "expired", "not yet valid"];
        let is_of_known_issuer = words.iter().any(|word| error.contains(word));
        let said = if is_of_known_issuer || self.flags.cacert.is_some() {
            "To accept any certificate: -k"
        } else {
            "To trust this server, name its certificate or that of its issuer with --cacert FILE (PEM); to accept any \
             certificate: -k"
        };
        Some(said.to_owned())
    }

    fn about_tls(&self, error: &str) -> Option<String> {
        let is = |known: TlsError| error == ConnectionError::Tls(known).to_string();
        let plain = self.url_with("http");
        if is(TlsError::NotTls) {
            return Some(format!("For HTTP without TLS, try {plain}"));
        }
        if is(TlsError::Alert(NO_APPLICATION_PROTOCOL)) || error.contains(" instead of ") {
            let other = match self.protocol {
                Protocol::H1s => "--http 2",
                _ => "--http 1.1",
            };
            return Some(format!(
                "The server speaks another version of HTTP: try {other}, or leave --http out, so that ALPN decides"
            ));
        }
        let is_closed = error.contains("closed the connection") || error.contains("os error 104");
        (is_closed || is(TlsError::Truncated))
            .then(|| format!("If this port speaks HTTP without TLS, try {plain}"))
    }

    /// The URL with another scheme. A port in the URL stays; without one, the default port of the new scheme applies.
    fn url_with(&self, scheme: &str) -> String {
        format!("{scheme}://{}{}", self.url.authority, self.url.target)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use squall_http::h3::{CloseFrame, CloseReason, ErrorSpace};

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        connection: ConnectionFlags,
        /// Must exist, because the connection flags refer to it.
        #[arg(id = "http", long = "http")]
        _http: Option<String>,
    }

    /// The advice after this failure; empty if squall has nothing to suggest.
    fn advice(
        protocol: Protocol,
        flags: &[&str],
        (outcome, error): (Outcome, ConnectionError),
    ) -> String {
        let scheme = if protocol.is_secure() {
            "https"
        } else {
            "http"
        };
        let url = HttpUrl::parse(&format!("{scheme}://server:8443/a?b=c")).unwrap();
        let flags = Flags::parse_from([&["squall"][..], flags].concat());
        let attempt = Attempt {
            url: &url,
            protocol,
            flags: &flags.connection,
        };
        let said = attempt.advice(outcome, &error.to_string());
        said.unwrap_or_default()
    }

    fn tls(error: TlsError) -> (Outcome, ConnectionError) {
        (Outcome::TlsFailed, ConnectionError::Tls(error))
    }

    /// The end of a QUIC connection with this TLS alert.
    fn quic(alert: u64) -> (Outcome, ConnectionError) {
        let frame = CloseFrame {
            space: ErrorSpace::Transport,
            code: 0x100 + alert,
            text: String::new(),
        };
        let reason = ConnectionError::Quic(CloseReason::ByUs(frame));
        (Outcome::TlsFailed, reason)
    }

    #[test]
    fn advice_on_untrusted_certificates_names_the_flags_that_trust_them() {
        let unknown = || tls(TlsError::Certificate("self signed certificate"));
        for said in [
            advice(Protocol::H2, &[], unknown()),
            advice(Protocol::H3, &[], quic(48)),
        ] {
            assert!(
                said.contains("--cacert FILE") && said.contains("-k"),
                "{said}"
            );
        }
        // A file of certificates does not help with these.
        for said in [
            advice(Protocol::H2, &["--cacert", "a.pem"], unknown()),
            advice(
                Protocol::H1s,
                &[],
                tls(TlsError::Certificate("Hostname mismatch")),
            ),
            advice(Protocol::H3, &[], quic(42)),
            advice(Protocol::H3, &[], quic(45)),
        ] {
            assert!(!said.contains("--cacert") && said.contains("-k"), "{said}");
        }
        let wanted = advice(Protocol::H2, &[], tls(TlsError::Alert(Alert(116))));
        assert!(wanted.contains("--cert FILE"), "{wanted}");
        let refused = advice(Protocol::H2, &[], tls(TlsError::Alert(Alert(42))));
        assert_eq!(refused, "");
    }

    #[test]
    fn advice_on_a_refused_connection_names_what_refused_it() {
        let refused = || {
            let error = ConnectionError::UnexpectedBytes;
            (Outcome::ConnectFailed, error)
        };
        assert_eq!(advice(Protocol::H1, &[], refused()), "");
        let url = HttpUrl::parse("http://server/").unwrap();
        for (arguments, named) in [
            (&["squall"][..], "server:80:"),
            (&["squall", "--connect-to", "a:1"], "a:1 "),
            (&["squall", "--proxy", "http://b:2"], "http://b:2 "),
            (&["squall", "--unix-socket", "c"], " c:"),
        ] {
            let flags = Flags::parse_from(arguments.to_vec());
            let attempt = Attempt {
                url: &url,
                protocol: Protocol::H1,
                flags: &flags.connection,
            };
            let error = std::io::Error::from_raw_os_error(111).to_string();
            let said = attempt.advice(Outcome::ConnectFailed, &error);
            let said = said.expect("squall knows what to try");
            assert!(said.contains(named), "{said}");
        }
    }

    #[test]
    fn advice_on_a_wrong_scheme_has_the_url_with_the_other_one() {
        let no_tls = advice(Protocol::H2, &[], tls(TlsError::NotTls));
        assert!(no_tls.ends_with("try http://server:8443/a?b=c"), "{no_tls}");
        let closed = (Outcome::ConnectionClosed, ConnectionError::UnexpectedEnd);
        for protocol in [Protocol::H1, Protocol::H2c] {
            let said = advice(protocol, &[], closed.clone());
            assert!(said.contains("https://server:8443/a?b=c"), "{said}");
        }
    }

    #[test]
    fn advice_names_another_http_version_to_try() {
        let none_common = || tls(TlsError::Alert(NO_APPLICATION_PROTOCOL));
        let broken = ConnectionError::UnexpectedBytes;
        for (protocol, failure, other) in [
            (Protocol::H2, none_common(), "--http 1.1"),
            (Protocol::H1s, none_common(), "--http 2"),
            (
                Protocol::H2c,
                (Outcome::ProtocolError, broken.clone()),
                "--http 1.1",
            ),
            (Protocol::H1, (Outcome::ProtocolError, broken), "--http 2"),
            (Protocol::H3, quic(120), "--http 2"),
        ] {
            let said = advice(protocol, &[], failure);
            assert!(said.contains(other), "{protocol}: {said}");
        }
        let idle = ConnectionError::Quic(CloseReason::Idle);
        let said = advice(Protocol::H3, &[], (Outcome::TlsFailed, idle));
        assert!(said.contains("UDP"), "{said}");
    }
}

//! Alternative services (RFC 7838): other endpoints and protocols through which a server can be reached.
//!
//! Only the field value is parsed; the caller decides whether to use an alternative. The unquoted forms of early drafts
//! are refused, because section 3 requires quotation marks.

use thiserror::Error;

use super::percent::decoded;

/// How long an alternative stays fresh if it has no `ma` parameter (RFC 7838, section 3.1): 24 hours.
const DEFAULT_MAX_AGE_S: u64 = 86_400;

/// The content of one or more Alt-Svc fields, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AltSvc {
    /// All previous alternatives are withdrawn.
    Clear,
    /// The alternatives, the preferred one first.
    Services(Vec<Alternative>),
}

/// One alternative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// Its ALPN protocol, percent-decoded.
    pub protocol: Vec<u8>,
    /// Its host, if it differs from the origin's. IPv6 addresses have no brackets.
    pub host: Option<String>,
    /// Its port, never 0.
    pub port: u16,
    /// How long it stays fresh, in seconds.
    pub max_age_s: u64,
    /// Whether it stays valid when the network changes.
    pub persist: bool,
}

/// An invalid Alt-Svc value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AltSvcError {
    /// A part was expected but something else was found.
    #[error("expected {expected} at byte {at}")]
    Expected {
        /// What was expected.
        expected: &'static str,
        /// Where, in bytes from the start.
        at: usize,
    },
    /// `clear` appears alongside alternatives.
    #[error("\"clear\" together with alternatives")]
    ClearAndMore,
}

impl AltSvc {
    /// Parses the value of one field, or of several joined by commas.
    pub fn parse(value: &str) -> Result<AltSvc, AltSvcError> {
        // Case-sensitive (section 3).
        if value.trim_matches([' ', '\t']) == "clear" {
            return Ok(AltSvc::Clear);
        }
        let mut reader = Reader { text: value, at: 0 };
        let mut services = Vec::new();
        loop {
            // Lists may have empty elements (RFC 9110, section 5.6.1.2).
            reader.skip_blanks();
            if reader.take(b',') {
                continue;
            }
            if reader.is_at_end() {
                break;
            }
            services.push(reader.alternative()?);
            reader.skip_blanks();
            if !reader.is_at_end() && !reader.take(b',') {
                return Err(reader.expected("a comma"));
            }
        }
        if services.is_empty() {
            Err(reader.expected("an alternative"))
        } else {
            Ok(AltSvc::Services(services))
        }
    }

    /// The first alternative that is fresh and speaks HTTP/3.
    pub fn http3(&self) -> Option<&Alternative> {
        match self {
            AltSvc::Clear => None,
            AltSvc::Services(services) => {
                (services.iter()).find(|service| service.protocol == b"h3" && service.max_age_s > 0)
            }
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    fn take(&mut self, wanted: u8) -> bool {
        let is_there = self.peek() == Some(wanted);
        self.at += usize::from(is_there);
        is_there
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    fn expected(&self, expected: &'static str) -> AltSvcError {
        AltSvcError::Expected {
            expected,
            at: self.at,
        }
    }

    /// `alternative *( OWS ";" OWS parameter )`.
    fn alternative(&mut self) -> Result<Alternative, AltSvcError> {
        let start = self.at;
        let name = self.token()?;
        if name == "clear" && self.peek() != Some(b'=') {
            return Err(AltSvcError::ClearAndMore);
        }
        let protocol = decoded(name).ok_or(AltSvcError::Expected {
            expected: "a protocol whose percent signs are encoded",
            at: start,
        })?;
        if !self.take(b'=') {
            return Err(self.expected("="));
        }
        let start = self.at;
        let authority = self.quoted()?;
        let (host, port) = host_and_port(&authority).ok_or(AltSvcError::Expected {
            expected: "a quoted host and port",
            at: start,
        })?;
        let mut found = Alternative {
            protocol,
            host,
            port,
            max_age_s: DEFAULT_MAX_AGE_S,
            persist: false,
        };
        loop {
            let end = self.at;
            self.skip_blanks();
            if !self.take(b';') {
                self.at = end;
                return Ok(found);
            }
            self.skip_blanks();
            self.parameter(&mut found)?;
        }
    }

    /// Ignores unknown parameters, and a `persist` value other than 1 (section 3.1).
    fn parameter(&mut self, of: &mut Alternative) -> Result<(), AltSvcError> {
        let name = self.token()?.to_ascii_lowercase();
        if !self.take(b'=') {
            return Err(self.expected("="));
        }
        let start = self.at;
        let value = match self.peek() {
            Some(b'"') => self.quoted()?,
            _ => self.token()?.to_owned(),
        };
        match name.as_str() {
            "ma" if value.bytes().all(|byte| byte.is_ascii_digit()) && !value.is_empty() => {
                // A value that overflows means forever (RFC 9111, section 1.2.2).
                of.max_age_s = value.parse().unwrap_or(u64::MAX);
            }
            "ma" => {
                return Err(AltSvcError::Expected {
                    expected: "seconds",
                    at: start,
                });
            }
            "persist" => of.persist = value == "1",
            _ => {}
        }
        Ok(())
    }

    /// A token (RFC 9110, section 5.6.2).
    fn token(&mut self) -> Result<&'a str, AltSvcError> {
        let start = self.at;
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        while self.peek().is_some_and(is_token) {
            self.at += 1;
        }
        if start == self.at {
            Err(self.expected("a word"))
        } else {
            Ok(&self.text[start..self.at])
        }
    }

    /// A quoted string (RFC 9110, section 5.6.4), returned without its quotation marks and backslashes.
    fn quoted(&mut self) -> Result<String, AltSvcError> {
        if !self.take(b'"') {
            return Err(self.expected("a quotation mark"));
        }
        let mut found = String::new();
        let mut is_escaped = false;
        for (place, letter) in self.text[self.at..].char_indices() {
            match letter {
                _ if is_escaped => {
                    found.push(letter);
                    is_escaped = false;
                }
                '\\' => is_escaped = true,
                '"' => {
                    self.at += place + 1;
                    return Ok(found);
                }
                _ => found.push(letter),
            }
        }
        self.at = self.text.len();
        Err(self.expected("a closing quotation mark"))
    }
}

/// `[ uri-host ] ":" port`.
fn host_and_port(authority: &str) -> Option<(Option<String>, u16)> {
    let (host, port) = authority.rsplit_once(':')?;
    let port = Some(port)
        .filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()))?
        .parse()
        .ok()
        .filter(|port| *port > 0)?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').filter(|host| !host.is_empty())?,
        None if host.contains(':') => return None,
        None => host,
    };
    if host.contains(['[', ']']) {
        return None;
    }
    Some(((!host.is_empty()).then(|| host.to_owned()), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn services(value: &str) -> Vec<Alternative> {
        match AltSvc::parse(value) {
            Ok(AltSvc::Services(services)) => services,
            other => panic!("{value}: {other:?}"),
        }
    }

    fn service(protocol: &str, host: Option<&str>, port: u16) -> Alternative {
        Alternative {
            protocol: protocol.into(),
            host: host.map(str::to_owned),
            port,
            max_age_s: DEFAULT_MAX_AGE_S,
            persist: false,
        }
    }

    /// RFC 7838, sections 3 and 3.1.
    #[test]
    fn examples_of_the_rfc_are_parsed() {
        assert_eq!(services("h2=\":8000\""), [service("h2", None, 8000)]);
        let other = service("h2", Some("new.example.org"), 80);
        assert_eq!(services("h2=\"new.example.org:80\""), [other]);
        assert_eq!(
            services("h2=\"alt.example.com:8000\", h2=\":443\""),
            [
                service("h2", Some("alt.example.com"), 8000),
                service("h2", None, 443)
            ]
        );
        let hour = Alternative {
            max_age_s: 3_600,
            ..service("h2", None, 443)
        };
        assert_eq!(services("h2=\":443\"; ma=3600"), [hour]);
        let kept = Alternative {
            max_age_s: 2_592_000,
            persist: true,
            ..service("h2", None, 443)
        };
        assert_eq!(services("h2=\":443\"; ma=2592000; persist=1"), [kept]);
        assert_eq!(AltSvc::parse("clear"), Ok(AltSvc::Clear));
        for (encoded, protocol) in [("h2", "h2"), ("w%3Dx%3Ay#z", "w=x:y#z"), ("x%25y", "x%y")] {
            let value = format!("{encoded}=\":1\"");
            assert_eq!(services(&value), [service(protocol, None, 1)]);
        }
    }

    #[test]
    fn values_from_real_servers_are_parsed() {
        let google = services("h3=\":443\"; ma=2592000,h3-29=\":443\"; ma=2592000");
        assert_eq!(google.len(), 2);
        let found = AltSvc::parse("h2=\":443\", h3-29=\":1\" , h3=\"[2001:db8::1]:8443\" ;v=\"1\"");
        let found = found.unwrap();
        let found = found.http3().unwrap();
        assert_eq!(
            (found.host.as_deref(), found.port),
            (Some("2001:db8::1"), 8443)
        );
        assert_eq!(services(", h3=\":1\",,h3=\":2\", ").len(), 2);
        assert_eq!(
            services("h3=\":443\"; persist=2; ma=\"60\"")[0].max_age_s,
            60
        );
    }

    #[test]
    fn http3_skips_stale_alternatives_and_other_protocols() {
        for value in ["h3=\":443\"; ma=0", "h2=\":443\"", "H3=\":443\"", "clear"] {
            assert_eq!(AltSvc::parse(value).unwrap().http3(), None, "{value}");
        }
    }

    #[test]
    fn invalid_values_are_refused() {
        for value in [
            "",
            " , ",
            "h3",
            "h3=",
            "h3=:443",
            "h3=\"443\"",
            "h3=\":0\"",
            "h3=\":65536\"",
            "h3=\":+1\"",
            "h3=\"::1:443\"",
            "h3=\"[]:443\"",
            "h3=\":443",
            "h3=\":443\" h2=\":443\"",
            "h3=\":443\"; ma",
            "h3=\":443\"; ma=soon",
            "h3=\":443\"; ma=-1",
            "x%2=\":1\"",
            "x%zz=\":1\"",
            "clear, h3=\":443\"",
            "h3=\":443\", clear",
            "Clear",
        ] {
            assert!(AltSvc::parse(value).is_err(), "{value}");
        }
        let error = AltSvc::parse("h3=\":443\"; ma").unwrap_err();
        assert_eq!(error.to_string(), "expected = at byte 13");
    }
}

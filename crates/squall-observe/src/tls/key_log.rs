//! Secrets of TLS connections, as logged by NSS, BoringSSL and OpenSSL (draft-ietf-tls-keylogfile).
//!
//! Comments, garbage and lines with other labels are skipped, because several programs may append to one key log. Which
//! secret applies when is decided in `tls` and `quic`.

use std::collections::BTreeMap;

use squall_base::text::without_bom;

/// The random of a connection's first ClientHello, by which its secrets are found.
pub(crate) type ClientRandom = [u8; 32];

/// The secrets of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsSecrets {
    /// TLS 1.2: the master secret.
    pub(crate) master: Option<Vec<u8>>,
    pub(crate) client_early: Option<Vec<u8>>,
    pub(crate) client_handshake: Option<Vec<u8>>,
    pub(crate) server_handshake: Option<Vec<u8>>,
    pub(crate) client_traffic: Option<Vec<u8>>,
    pub(crate) server_traffic: Option<Vec<u8>>,
}

/// Secrets by connection.
#[derive(Debug, Default)]
pub(crate) struct KeyLog {
    secrets: BTreeMap<ClientRandom, TlsSecrets>,
}

impl KeyLog {
    /// Adds the lines of a key log. Returns how many had a secret.
    pub(crate) fn add(&mut self, text: &str) -> usize {
        text.lines()
            .filter(|line| self.add_line(line).is_some())
            .count()
    }

    fn add_line(&mut self, line: &str) -> Option<()> {
        // Concatenated logs may each begin with a byte order mark.
        let mut words = without_bom(line).split_ascii_whitespace();
        let (label, random, secret) = (words.next()?, words.next()?, words.next()?);
        let random: ClientRandom = bytes(random)?.try_into().ok()?;
        // SHA-384 secrets and the master secret have 48 bytes; none is longer than SHA-512's 64.
        let secret = bytes(secret).filter(|secret| (1..=64).contains(&secret.len()))?;
        let field = |secrets: &mut TlsSecrets, secret| {
            let slot = match label {
                "CLIENT_RANDOM" => &mut secrets.master,
                "CLIENT_EARLY_TRAFFIC_SECRET" => &mut secrets.client_early,
                "CLIENT_HANDSHAKE_TRAFFIC_SECRET" => &mut secrets.client_handshake,
                "SERVER_HANDSHAKE_TRAFFIC_SECRET" => &mut secrets.server_handshake,
                "CLIENT_TRAFFIC_SECRET_0" => &mut secrets.client_traffic,
                "SERVER_TRAFFIC_SECRET_0" => &mut secrets.server_traffic,
                _ => return None,
            };
            *slot = Some(secret);
            Some(())
        };
        let mut fresh = TlsSecrets::default();
        field(self.secrets.get_mut(&random).unwrap_or(&mut fresh), secret)?;
        self.secrets.entry(random).or_insert(fresh);
        Some(())
    }

    /// The secrets known so far for a connection.
    pub(crate) fn find(&self, random: &ClientRandom) -> Option<&TlsSecrets> {
        self.secrets.get(random)
    }
}

/// Decodes hexadecimal digits.
fn bytes(text: &str) -> Option<Vec<u8>> {
    // `from_str_radix` accepts a sign as well.
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) || !text.len().is_multiple_of(2) {
        return None;
    }
    let pair = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_a_known_secret_are_skipped() {
        let random = "ab".repeat(32);
        let text = format!(
            "# comment\r\nCLIENT_RANDOM {random} 0102\nEXPORTER_SECRET {random} 00\nCLIENT_RANDOM {random}\n\
             SERVER_TRAFFIC_SECRET_0 {random} 03\r\nCLIENT_RANDOM abcd 00\nCLIENT_RANDOM {random} 0g\n\
             CLIENT_RANDOM {random} +1\nrubbish"
        );
        let mut log = KeyLog::default();
        assert_eq!(log.add(&text), 2);
        let secrets = log.find(&[0xab; 32]).unwrap();
        assert_eq!(secrets.master.as_deref(), Some(&[1, 2][..]));
        assert_eq!(secrets.server_traffic.as_deref(), Some(&[3][..]));
        assert!(secrets.client_traffic.is_none());
        assert!(log.find(&[0; 32]).is_none());
    }

    #[test]
    fn line_after_a_byte_order_mark_is_read() {
        let random = "ab".repeat(32);
        let text = format!(
            "\u{feff}CLIENT_RANDOM {random} 01\n\u{feff}SERVER_TRAFFIC_SECRET_0 {random} 02\n"
        );
        let mut log = KeyLog::default();
        assert_eq!(log.add(&text), 2);
        let secrets = log.find(&[0xab; 32]).unwrap();
        assert_eq!(secrets.master.as_deref(), Some(&[1][..]));
    }
}

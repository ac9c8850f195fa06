//! The name that has the HTTPS records of an origin.
//!
//! This module sends nothing: `https_record` asks for the records.

use std::net::IpAddr;

/// The longest label and the longest name (RFC 1035, section 2.3.4).
pub(super) const LABEL_AT_MOST: usize = 63;
const NAME_AT_MOST: usize = 253;

/// The name that has the HTTPS records of an origin (RFC 9460, section 9.1); `None` for addresses and for names that are not
/// in the public DNS.
pub(super) fn record_name(host: &str, port: u16) -> Option<String> {
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_public = host.contains('.') && !host.ends_with(".localhost");
    if !is_public || host.parse::<IpAddr>().is_ok() {
        return None;
    }
    let name = match port {
        443 => host.to_owned(),
        port => format!("_{port}._https.{host}"),
    };
    let is_label = |label: &str| !label.is_empty() && label.len() <= LABEL_AT_MOST;
    (name.len() <= NAME_AT_MOST && name.split('.').all(is_label)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_in_the_public_dns_are_asked_about() {
        let name = record_name;
        assert_eq!(name("a.test", 443).as_deref(), Some("a.test"));
        assert_eq!(
            name("a.test.", 8443).as_deref(),
            Some("_8443._https.a.test")
        );
        let long = format!("{}.test", "a".repeat(64));
        for host in [
            "localhost",
            "a.localhost",
            "server",
            "192.0.2.1",
            "2001:db8::1",
            "a..test",
        ] {
            assert_eq!(name(host, 443), None, "{host}");
        }
        assert_eq!(name(&long, 443), None);
    }
}

//! Lookups of names: all addresses of the URL's host, with a TCP handshake over each family, and whether other names of the
//! certificate have the address that is probed.
//!
//! No request is sent to another address or name. squall-analysis' `addresses` has the facts.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use squall_analysis::probe::Observations;
use squall_base::Duration;
use squall_linux::clock;

use super::drive::{Drive, connect};
use super::plan::OTHER_NAMES;

/// The most time for a TCP handshake.
const CONNECT_AT_MOST: Duration = Duration::from_secs(1);
/// The most time for the lookups of other names.
const LOOKUPS_AT_MOST: Duration = Duration::from_secs(2);
/// The longest name (RFC 1035, section 2.3.4).
const NAME_AT_MOST: usize = 253;

/// A name, and its addresses.
type NameAddresses = (String, Vec<IpAddr>);

impl Drive<'_> {
    /// Looks up all addresses, and connects once to the first one of each family.
    pub(super) fn look_up_addresses(&mut self) {
        let plan = self.plan();
        let all = plan.url.addresses(&plan.connection);
        for is_ipv4 in [true, false] {
            let mut of_family = all.iter().filter(|address| address.is_ipv4() == is_ipv4);
            let Some(address) = of_family.next() else {
                continue;
            };
            let Some(time) = self.time() else {
                break;
            };
            let recording = &mut *self.environment.recording;
            recording.watch(Some(*address));
            let took = connect(*address, time.min(CONNECT_AT_MOST), recording);
            self.seen.families.push((address.ip(), took));
        }
        self.seen.addresses = all.iter().map(SocketAddr::ip).collect();
    }

    /// Looks up a few other names of the certificate, except with `--connect-to`: then names do not determine where
    /// connections go.
    pub(super) fn look_up_other_names(&mut self) {
        let plan = self.plan();
        let Ok(asked) = self.seen.address.parse::<SocketAddr>() else {
            return;
        };
        let names = other_names(&self.seen, plan.url.server_name());
        if names.is_empty() || plan.connection.connect_to.is_some() {
            return;
        }
        let Some(time) = self.time() else {
            return;
        };
        let count = names.len();
        let found = looked_up(names, asked.port());
        let deadline = clock::now() + time.min(LOOKUPS_AT_MOST);
        for _ in 0..count {
            let left = deadline.since(clock::now());
            let Ok((name, addresses)) = found.recv_timeout(left.into()) else {
                // Names that the resolver did not find in time are left out.
                break;
            };
            let has_same = (!addresses.is_empty()).then(|| addresses.contains(&asked.ip()));
            self.seen.other_names.push((name, has_same));
        }
    }
}

/// The addresses of names as the system's resolver finds them, on a thread of its own, because lookups have no time limit.
fn looked_up(names: Vec<String>, port: u16) -> Receiver<NameAddresses> {
    let (sender, found) = mpsc::channel();
    thread::spawn(move || {
        for name in names {
            let addresses = (name.as_str(), port).to_socket_addrs();
            let addresses = addresses.map(|all| all.map(|address| address.ip()).collect());
            // The send fails once the probe no longer waits.
            if sender.send((name, addresses.unwrap_or_default())).is_err() {
                return;
            }
        }
    });
    found
}

/// The first names of the certificates that are neither the host's nor wildcards.
fn other_names(seen: &Observations, host: &str) -> Vec<String> {
    let handshakes = seen.steps.iter().filter_map(|step| step.handshake.as_ref());
    let chains = handshakes.filter_map(|handshake| handshake.certificates.as_ref());
    let mut known = BTreeSet::from([host.to_ascii_lowercase()]);
    let mut others = Vec::new();
    for name in chains.flat_map(|chain| &chain.names) {
        if is_host_name(name) && known.insert(name.to_ascii_lowercase()) {
            others.push(name.clone());
        }
        if others.len() == OTHER_NAMES {
            break;
        }
    }
    others
}

/// Whether a name of a certificate is one that can be looked up.
fn is_host_name(name: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_whole = !name.is_empty() && name.len() <= NAME_AT_MOST;
    is_whole && name.chars().all(is_of_name) && name.contains(|c: char| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_and_addresses_are_not_looked_up() {
        for name in ["a.test", "localhost", "xn--bcher-kva.test", "_a.test"] {
            assert!(is_host_name(name), "{name}");
        }
        let long = "a".repeat(NAME_AT_MOST + 1);
        for name in ["", "*.test", "192.0.2.1", "a b", "a/b", long.as_str()] {
            assert!(!is_host_name(name), "{name}");
        }
    }
}

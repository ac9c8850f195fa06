//! The kernel's packet counters of a host, from /proc/net/dev, snmp and netstat. They are read through /proc/thread-self,
//! so that they are those of the calling thread's network namespace.

use std::collections::BTreeMap;
use std::fs;

use crate::error::SetupError;
use crate::machine::field;

/// Counters of one device and of its host's IP layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// Packets that the device accepted from its other end.
    pub device_received: u64,
    /// Packets that the device refused from its other end.
    pub device_receive_dropped: u64,
    /// Packets that the device passed to its other end.
    pub device_sent: u64,
    /// Packets that the device discarded instead of passing them on, because its queue was full.
    pub device_dropped: u64,
    /// Packets that the IP layer received (RFC 4293 ipIfStatsInReceives).
    pub ip_received: u64,
    /// Packets that the IP layer sent (OutRequests, which counts locally generated packets, as all packets of these hosts
    /// are).
    pub ip_sent: u64,
    /// Segments that TCP sent on the wire, retransmissions included. This is correct only for hosts that either connect or
    /// accept, not both: see `read`.
    pub tcp_sent: u64,
    /// Connections that the listening socket dropped although their handshake arrived.
    pub listen_dropped: u64,
}

const DEVICES: &str = "/proc/thread-self/net/dev";
const SNMP: &str = "/proc/thread-self/net/snmp";
const NETSTAT: &str = "/proc/thread-self/net/netstat";

impl HostCounters {
    /// Reads the counters in the calling thread's network namespace.
    pub fn read(device: &str) -> Result<HostCounters, SetupError> {
        let devices = text_of(DEVICES)?;
        let snmp = text_of(SNMP)?;
        let missing = |file, what: &str| SetupError::Counters {
            file,
            problem: format!("no readable counters of {what} in it"),
        };
        let [received, receive_dropped, sent, dropped] =
            parse_device(&devices, device).ok_or_else(|| missing(DEVICES, device))?;
        let snmp_value = |table: &'static str, name: &'static str| {
            parse_table(&snmp, table, name).ok_or_else(|| missing(SNMP, name))
        };
        let netstat = text_of(NETSTAT)?;
        let tcp_ext = |name: &'static str| {
            parse_table(&netstat, "TcpExt: ", name).ok_or_else(|| missing(NETSTAT, name))
        };
        // A retransmitted SYN-ACK counts in both OutSegs and RetransSegs (tcp_rtx_synack and tcp_make_synack,
        // net/ipv4/tcp_output.c), a retransmitted SYN only in RetransSegs. TCPSynRetrans counts both kinds, but on a host
        // that has opened no connection it counts only SYN-ACKs.
        let is_passive = snmp_value("Tcp: ", "ActiveOpens")? == 0;
        let syn_acks_counted_twice = if is_passive {
            tcp_ext("TCPSynRetrans")?
        } else {
            0
        };
        Ok(HostCounters {
            device_received: received,
            device_receive_dropped: receive_dropped,
            device_sent: sent,
            device_dropped: dropped,
            ip_received: snmp_value("Ip: ", "InReceives")?,
            ip_sent: snmp_value("Ip: ", "OutRequests")?,
            tcp_sent: snmp_value("Tcp: ", "OutSegs")? + snmp_value("Tcp: ", "RetransSegs")?
                - syn_acks_counted_twice,
            listen_dropped: tcp_ext("ListenDrops")?,
        })
    }
}

/// All protocol counters of a host, named as `nstat` prints them: table and name joined, such as `TcpExtTCPLossProbes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtocolCounters(BTreeMap<String, u64>);

impl ProtocolCounters {
    /// Reads the counters in the calling thread's network namespace.
    pub fn read() -> Result<ProtocolCounters, SetupError> {
        let mut counters = BTreeMap::new();
        for file in [SNMP, NETSTAT] {
            counters.extend(parse_tables(&text_of(file)?));
        }
        Ok(ProtocolCounters(counters))
    }

    /// A counter's value; 0 if this kernel lacks it.
    pub fn count(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// A counter's increase since `earlier`.
    pub fn growth(&self, earlier: &ProtocolCounters, name: &str) -> u64 {
        self.count(name).saturating_sub(earlier.count(name))
    }
}

fn text_of(file: &'static str) -> Result<String, SetupError> {
    fs::read_to_string(file).map_err(|error| SetupError::Counters {
        file,
        problem: error.to_string(),
    })
}

/// All counters in the text of /proc/net/snmp or netstat, without those that can be negative (Tcp: MaxConn).
fn parse_tables(text: &str) -> Vec<(String, u64)> {
    let mut counters = Vec::new();
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let (Some((table, names)), Some((_, values))) =
            (names.split_once(": "), values.split_once(": "))
        else {
            continue;
        };
        let pairs = names.split_whitespace().zip(values.split_whitespace());
        counters.extend(pairs.filter_map(|(name, value)| {
            let value = value.parse().ok()?;
            Some((format!("{table}{name}"), value))
        }));
    }
    counters
}

/// Packets received, dropped on receive, sent, dropped on send, of `device` in the text of /proc/net/dev.
fn parse_device(text: &str, device: &str) -> Option<[u64; 4]> {
    let counts: Vec<u64> = field(text, device)?
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    // Receive: bytes packets errs drop fifo frame compressed multicast; then the same for transmit.
    Some([
        *counts.get(1)?,
        *counts.get(3)?,
        *counts.get(9)?,
        *counts.get(11)?,
    ])
}

/// The counter `name` of a table in /proc/net/snmp or netstat: a line of names, then a line of values, both starting with
/// the table's name.
fn parse_table(text: &str, table: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(table));
    let at = lines
        .next()?
        .split_whitespace()
        .position(|word| word == name)?;
    lines.next()?.split_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEV: &str = "Inter-|   Receive   |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed\n    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0\nsquall0: 1000 11 0 2 0 0 0 0 2000 33 0 4 0 0 0 0\n";
    const SNMP: &str =
        "Ip: Forwarding DefaultTTL InReceives OutRequests\nIp: 2 64 11 37\nIcmp: InMsgs\nIcmp: 0\n";

    #[test]
    fn counters_are_found_by_name() {
        assert_eq!(parse_device(DEV, "squall0"), Some([11, 2, 33, 4]));
        assert_eq!(parse_table(SNMP, "Ip: ", "InReceives"), Some(11));
        assert_eq!(parse_table(SNMP, "Ip: ", "OutRequests"), Some(37));
    }

    #[test]
    fn all_counters_are_read_by_table_and_name() {
        let counters = |text| ProtocolCounters(parse_tables(text).into_iter().collect());
        let earlier = counters(SNMP);
        assert_eq!(earlier.count("IpInReceives"), 11);
        assert_eq!(
            (earlier.count("IcmpInMsgs"), earlier.count("InMsgs")),
            (0, 0)
        );
        let later = counters("Ip: InReceives MaxConn\nIp: 31 -1\n");
        assert_eq!(later.growth(&earlier, "IpInReceives"), 20);
        assert_eq!(later.growth(&earlier, "IpOutRequests"), 0);
        assert_eq!(later.count("IpMaxConn"), 0);
    }

    #[test]
    fn counters_of_scarce_memory_are_found_in_netstat() {
        let netstat = "TcpExt: SyncookiesSent PruneCalled RcvPruned TCPRcvCollapsed TCPMemoryPressures \
                       TCPMemoryPressuresChrono\nTcpExt: 0 7 1 23 2 150\nIpExt: InNoRoutes\nIpExt: 0\n";
        let counters = ProtocolCounters(parse_tables(netstat).into_iter().collect());
        for (name, count) in [
            ("TcpExtTCPMemoryPressures", 2),
            ("TcpExtTCPMemoryPressuresChrono", 150),
            ("TcpExtPruneCalled", 7),
            ("TcpExtTCPRcvCollapsed", 23),
        ] {
            assert_eq!(counters.count(name), count, "{name}");
        }
    }

    #[test]
    fn missing_counters_have_no_value() {
        assert_eq!(parse_device(DEV, "squall1"), None);
        assert_eq!(parse_device("squall0: 1 2", "squall0"), None);
        assert_eq!(parse_table(SNMP, "Ip: ", "InMsgs"), None);
        assert_eq!(parse_table("", "Ip: ", "InReceives"), None);
    }
}

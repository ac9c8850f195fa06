//! Whether any program in a host accepts connections or datagrams yet.

use std::fs;

use crate::error::SetupError;
use crate::host::Host;

/// TCP_LISTEN, and the state of an unconnected UDP socket, as /proc/net/tcp and udp show them (include/net/tcp_states.h).
const LISTENS: &str = "0A";
const BOUND: &str = "07";

/// Whether any TCP socket of `host` is listening, or any UDP socket is bound.
pub fn has_listener(host: &Host) -> Result<bool, SetupError> {
    host.run(|| {
        let has = |table: &str, state: &str| {
            let path = format!("/proc/thread-self/net/{table}");
            fs::read_to_string(path).is_ok_and(|text| any_in_state(&text, state))
        };
        let tcp = has("tcp", LISTENS) || has("tcp6", LISTENS);
        Ok(tcp || has("udp", BOUND) || has("udp6", BOUND))
    })
}

/// Whether a line of such a table has this state in its fourth column.
fn any_in_state(table: &str, state: &str) -> bool {
    table
        .lines()
        .skip(1)
        .any(|line| line.split_whitespace().nth(3) == Some(state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listening_socket_is_found() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue\n   \
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n";
        assert!(any_in_state(table, LISTENS));
        assert!(!any_in_state(table, "01") && !any_in_state("", LISTENS));
    }
}

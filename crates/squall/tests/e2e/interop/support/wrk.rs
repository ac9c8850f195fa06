//! wrk: HTTP/1.1 as fast as the server responds, over connections that stay open.

use std::net::SocketAddrV4;

use super::Http;
use super::program::{command, run};

/// Requests a path for one second over `connections` connections. Returns the number of responses; all must have a
/// status of 200 to 399.
pub(crate) fn load(address: SocketAddrV4, path: &str, connections: u32) -> u64 {
    let mut wrk = command("wrk");
    wrk.args([
        "--threads",
        "1",
        "--duration",
        "1s",
        "--connections",
        &connections.to_string(),
    ]);
    let printed = run(wrk.arg(Http::H1.url(address, path))).stdout;
    let printed = String::from_utf8_lossy(&printed);
    for fault in ["Socket errors", "Non-2xx"] {
        assert!(!printed.contains(fault), "{printed}");
    }
    // "  12345 requests in 1.00s, 4.56MB read"
    let line = printed
        .lines()
        .find_map(|line| line.split_once(" requests in "));
    let count = line.and_then(|(count, _)| count.trim().parse().ok());
    count.unwrap_or_else(|| panic!("no count in: {printed}"))
}

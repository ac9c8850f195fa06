//! A load that needs more local ports than there are: in a private network namespace that has sixty.

use std::path::Path;
use std::process::{Command, Output};

use squall_base::record::{Outcome, RequestRecord};
use squall_record::read_requests;
use tempfile::TempDir;

use crate::support::{have, is_root, seat, stderr, stdout};

/// The number of local ports.
const PORTS: usize = 60;

/// Runs `squall load` next to a server of all protocols on other ports, and reads the load's rows.
fn load(home: &Path, arguments: &[&str]) -> (Output, Vec<RequestRecord>) {
    // The file is emptied first: lines of an earlier server would look as if this one listened.
    let script = "ip link set lo up && \
        echo 40000 40059 > /proc/sys/net/ipv4/ip_local_port_range || exit 9; \
        : > serve.txt; \
        \"$0\" serve --h1 8080 --h2c 8081 --h3 8443 --write-cert cert.pem 2> serve.txt & server=$!; \
        until [ \"$(grep -c listening serve.txt)\" = 3 ]; do sleep 0.02; done; \
        \"$0\" load --cacert cert.pem -q --output requests.parquet \"$@\"; code=$?; \
        kill $server; exit $code";
    let output = Command::new("unshare")
        .args(["--net", "sh", "-c", script])
        .arg(env!("CARGO_BIN_EXE_squall"))
        .args(arguments)
        .current_dir(home)
        .env("NO_COLOR", "1")
        .output()
        .expect("unshare starts");
    assert_ne!(output.status.code(), Some(9), "{}", stderr(&output));
    let rows = read_requests(home.join("requests.parquet")).expect("rows");
    (output, rows)
}

fn check(home: &Path, arguments: &[&str], action: &str, requests: usize) {
    let (output, rows) = load(home, arguments);
    let shown = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{shown}{}", stderr(&output));
    let (answered, others): (Vec<_>, Vec<_>) =
        (rows.iter()).partition(|row| row.outcome == Outcome::Answered);
    assert_eq!(rows.len(), requests, "the load went on to its end");
    assert_eq!(answered.len(), PORTS, "{shown}");
    for row in others {
        assert_eq!(row.outcome, Outcome::ConnectFailed, "{row:?}");
        let said = row.error.as_deref().expect("it says why");
        assert!(said.starts_with(action), "{said}");
        assert!(said.contains(": no local port is free, or "), "{said}");
    }
    let failed = requests - PORTS;
    assert!(
        shown.contains(&format!("{failed} without a connection")),
        "{shown}"
    );
    let one_line = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let advice = "Open fewer connections at once, use each for more requests, or allow more ports with `sudo sysctl -w \
        net.ipv4.ip_local_port_range=\"1024 65535\"`";
    assert!(
        one_line.contains(&format!(
            "this machine could not open {failed} connections: "
        )) && one_line.contains(advice),
        "{shown}"
    );
}

/// Each request opens a connection that stays open: requests without a port fail, the others are unaffected.
#[test]
fn requests_without_a_local_port_are_counted_and_the_load_continues() {
    if !is_root() || !have(&["unshare", "ip"]) {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let open = [
        "--rate", "100", "-D", "2s", "-c", "1000", "--cold", "-t", "1",
    ];
    let tcp = [&open[..], &["http://127.0.0.1:8080/?delay=500ms"]].concat();
    check(home.path(), &tcp, "cannot connect to 127.0.0.1:8080", 200);
    let quic = [&open[..], &["--http", "3", "https://127.0.0.1:8443/"]].concat();
    let action = "cannot send datagrams to 127.0.0.1:8443";
    check(home.path(), &quic, action, 200);
}

/// A connection for each request: the side that closes first, sometimes the client and sometimes the server, keeps the port
/// for a minute (TIME_WAIT, RFC 9293, section 3.6.1). Requests without a port are reported as above, and nothing else fails.
#[test]
fn one_connection_per_request_exhausts_the_local_ports() {
    if !is_root() || !have(&["unshare", "ip"]) {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let arguments = [
        "--set",
        "http1.requests_per_connection=1",
        "--cold",
        "-n",
        "300",
        "http://127.0.0.1:8080/",
    ];
    let (output, rows) = load(home.path(), &arguments);
    let shown = stdout(&output);
    assert_eq!(rows.len(), 300, "{shown}");
    let failed: Vec<_> = (rows.iter())
        .filter(|row| row.outcome != Outcome::Answered)
        .collect();
    for row in &failed {
        assert_eq!(row.outcome, Outcome::ConnectFailed, "{row:?}");
        let said = row.error.as_deref().expect("it says why");
        assert!(said.contains(": no local port is free, or "), "{said}");
    }
    assert!(failed.len() <= 300 - PORTS, "{shown}");
    let answered = rows.iter().filter(|row| row.outcome == Outcome::Answered);
    assert!(answered.clone().all(|row| row.opened_connection), "{shown}");
    let code = if failed.is_empty() { 0 } else { 1 };
    assert_eq!(output.status.code(), Some(code), "{shown}");
}

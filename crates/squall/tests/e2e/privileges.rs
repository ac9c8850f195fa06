//! What squall and its programs may do as root: the rights in /proc/PID/status of each thread, and the user of `--user`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::served::Serving;
use crate::serving;
use crate::stand_ins::copy_program;
use crate::support::{is_root, profile, recipe, run_recipe, run_squall, seat, squall, stderr};

/// Bits of capabilities (linux/capability.h).
const NET_ADMIN: u64 = 1 << 12;
const SYS_MODULE: u64 = 1 << 16;
const SYS_PTRACE: u64 = 1 << 19;
const SYS_ADMIN: u64 = 1 << 21;

/// The fields of a status file (proc(5)).
fn value<'a>(status: &'a str, name: &str) -> &'a str {
    let mut lines = status.lines();
    let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.expect("the field is there").trim()
}

fn bits(status: &str, name: &str) -> u64 {
    u64::from_str_radix(value(status, name), 16).expect("a set of capabilities")
}

/// The status of every thread of a process.
fn threads(process: i32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let status = |task: fs::DirEntry| fs::read_to_string(task.path().join("status"));
    tasks
        .map(|task| status(task.expect("a thread")).expect("its status"))
        .collect()
}

/// Checks that a process with a key log is user 65534 of group 65533 and has no rights.
fn check_is_another_user(process: i32) {
    let threads = threads(process);
    assert!(threads.len() > 1, "the key log has its own thread");
    for status in &threads {
        assert_eq!(value(status, "Uid"), "65534\t65534\t65534\t65534");
        assert_eq!(value(status, "Gid"), "65533\t65533\t65533\t65533");
        assert_eq!(value(status, "Groups"), "65533");
        for set in ["CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(bits(status, set), 0, "{set}");
        }
        assert_eq!(value(status, "NoNewPrivs"), "1");
    }
}

fn fetch(home: &Path, server: &Serving) -> Output {
    run_squall(
        home,
        ["fetch", &format!("http://{}/", server.address("h1"))],
    )
}

#[test]
fn server_becomes_the_named_user_and_answers() {
    if !is_root() {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let arguments = ["--h1", "0", "--https", "0", "--key-log", "keys.log"];
    let arguments = [&arguments[..], &["--user", "65534:65533"]].concat();
    let server = Serving::start(home.path(), &arguments);
    check_is_another_user(server.pid());
    let output = fetch(home.path(), &server);
    assert!(output.status.success(), "{}", stderr(&output));
    let (status, said) = server.end();
    assert!(status.success(), "{said}");
}

#[test]
fn proxy_becomes_the_named_user_and_forwards() {
    if !is_root() {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0", "--body", "8"]);
    let upstream = format!("http://{}", server.address("h1"));
    let flags = ["--key-log", "keys.log", "--user", "65534:65533"];
    let flags = [&["--to", upstream.as_str()][..], &flags].concat();
    let proxy = serving::Serving::of("proxy", &["h1", "https"], &flags);
    check_is_another_user(proxy.pid());
    for (kind, scheme) in [("h1", "http"), ("https", "https")] {
        let url = format!("{scheme}://{}/", proxy.address(kind));
        let output = run_squall(home.path(), ["fetch", "-k", &url]);
        assert!(output.status.success(), "{kind}: {}", stderr(&output));
        assert_eq!(output.stdout.len(), 8, "{kind}");
    }
    proxy.check_ends_well();
}

#[test]
fn server_of_root_drops_the_rights_that_it_needs_only_to_listen() {
    if !is_root() {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0", "--key-log", "keys.log"]);
    for status in threads(server.pid()) {
        assert_eq!(bits(&status, "CapPrm") & !NET_ADMIN, 0, "{status}");
        assert_eq!(value(&status, "NoNewPrivs"), "1");
    }
    let output = fetch(home.path(), &server);
    assert!(output.status.success(), "{}", stderr(&output));
}

/// The folder belongs to an ordinary user and is closed to all others.
#[test]
fn server_of_root_serves_files_that_only_their_owner_may_read() {
    if !is_root() {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let folder = home.path().join("site");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("index.html"), "theirs").expect("a file");
    let given = Command::new("sh")
        .args([
            "-c",
            "chmod 600 index.html; chmod 700 .; chown 65534:65534 index.html .",
        ])
        .current_dir(&folder)
        .status()
        .expect("a shell");
    assert!(given.success());
    let server = Serving::start(home.path(), &["--h1", "0", "--dir", "site"]);
    let output = fetch(home.path(), &server);
    assert_eq!(output.stdout, b"theirs", "{}", stderr(&output));
}

#[test]
fn user_that_squall_cannot_become_is_refused_before_listening() {
    let home = TempDir::new().expect("a temporary folder");
    let cases = [
        ("serve", "no-such-user", "there is no user"),
        ("serve", "root", "user and group 0 are root's"),
        ("proxy", "4242424", "write it too, as in 4242424:4242424"),
    ];
    for (command, user, expected) in cases {
        let mut squall = squall(home.path());
        squall.args([command, "--h1", "0", "--user", user]);
        if command == "proxy" {
            squall.args(["--to", "http://127.0.0.1:1"]);
        }
        let output = squall.output().expect("squall starts");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
        assert!(!said.contains("listening"), "{said}");
    }
    if !is_root() {
        return;
    }
    let binary = home.path().join("squall");
    copy_program(Path::new(env!("CARGO_BIN_EXE_squall")), &binary);
    let open = Command::new("chmod").arg("755").arg(home.path()).status();
    assert!(open.expect("chmod starts").success());
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&binary)
        .args(["serve", "--h1", "0", "--user", "4242:4242"])
        .output()
        .expect("setpriv starts; it is in util-linux");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("only root can become another user"), "{said}");
}

/// The server is a shell script that writes down its own rights and those of the process that started it.
#[test]
fn worker_and_programs_of_a_trial_have_no_right_that_they_do_not_need() {
    let _seat = seat();
    let station = format!(
        "[station.mine]\ncommand = \"sh {{configuration}}\"\nconfiguration = '''\n\
         cat /proc/self/status > program\ncat /proc/$PPID/status > worker\n\
         exec {} serve --h1 {{listen_host}}:{{listen_port}} --body 8\n'''\n",
        env!("CARGO_BIN_EXE_squall")
    );
    let variant = "[[variant]]\nname = \"mine\"\npath = \"client ~h1~> mine\"\n";
    let text = recipe("50/s", "delay = \"2ms\"", &[variant], &profile("500ms", 1));
    let text = text.replace("[response]\nstatus = 200\nbody = \"1KiB\"\n", "") + &station;
    let run = run_recipe(&text, &[]);
    let trial = run
        .folder
        .join("trials")
        .join(run.trials[0].record.trial.folder());
    let read = |name: &str| {
        let file = trial.join("stations/1-mine").join(name);
        fs::read_to_string(file).expect("the script has written it")
    };
    let [worker, program] = ["worker", "program"].map(read);
    let needless = SYS_MODULE | SYS_PTRACE;
    for (status, forbidden) in [(&worker, needless), (&program, needless | SYS_ADMIN)] {
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(bits(status, set) & forbidden, 0, "{set}: {status}");
        }
        assert_eq!(value(status, "NoNewPrivs"), "1");
    }
    assert_ne!(bits(&worker, "CapEff") & SYS_ADMIN, 0, "hosts take it");
    // Other users may not enter the folder that programs write to.
    let stations = fs::metadata(trial.join("stations")).expect("the folder");
    assert_eq!(stations.permissions().mode() & 0o777, 0o700);
}

/// What `squall link` runs is the user's own choice, so it has the user's rights.
#[test]
fn program_behind_a_link_has_the_rights_of_the_user() {
    if !is_root() {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let output = run_squall(
        home.path(),
        ["link", "--quiet", "--", "cat", "/proc/self/status"],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let own = fs::read_to_string("/proc/self/status").expect("the status of this process");
    let found = String::from_utf8(output.stdout).expect("text");
    for set in ["CapPrm", "CapEff", "CapBnd"] {
        assert_eq!(bits(&found, set), bits(&own, set), "{set}");
    }
    assert_eq!(value(&found, "NoNewPrivs"), value(&own, "NoNewPrivs"));
}

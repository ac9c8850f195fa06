//! The commands of README.md and of the documents for users run as they are written there, so that documents and program
//! agree. They are taken from the code blocks; `REPLACED` has all that is changed in them: hosts, ports, programs that are
//! not installed everywhere, and how long they take.
//!
//! Here each command must be accepted, do its work and end well. What it prints is tested elsewhere.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use squall_record::RunFolder;
use tempfile::TempDir;

use crate::ordinary_user::{Home, TunMode};
use crate::served::{CERTIFICATE, Serving};
use crate::stand_ins::{copy_program, path_from};
use crate::support::{
    H1, free_port, have, is_root, only_run, peers, seat, short_recipe, squall, stderr,
};

const README: &str = "README.md";
const LOAD: &str = "docs/LOAD.md";
const SERVE: &str = "docs/SERVE.md";
const LINK: &str = "docs/LINK.md";
const TUTORIAL: &str = "docs/TUTORIAL.md";
const HOWTO: &str = "docs/HOWTO.md";

/// How the commands begin that are run: squall's, and those that prepare or read its files.
const STARTS: [&str; 3] = ["squall ", "sed ", "tshark "];

/// An output and a synopsis, which begin like commands.
const NO_COMMANDS: [&str; 2] = ["squall link: ", "squall link [settings]"];

/// Parts of commands and their replacements, in the order in which they apply. `{HTTP}`, `{HTTPS}` and `{H2C}` are the ports
/// of the test's server.
const REPLACED: [(&str, &str); 33] = [
    // Servers take free ports and leave the certificate of the test's server alone.
    ("--h1 8080", "--h1 0"),
    ("--https 8443", "--https 0"),
    ("--h3 8443", "--h3 0"),
    ("--write-cert cert.pem", "--write-cert own.pem"),
    // Clients ask the test's server.
    ("https://origin.example", "https://localhost:{HTTPS}"),
    ("https://server/", "https://localhost:{HTTPS}/"),
    ("http://server/Service", "http://localhost:{H2C}/Service"),
    ("localhost:8443", "localhost:{HTTPS}"),
    ("localhost:28443", "localhost:{HTTPS}"),
    ("localhost:8080", "localhost:{HTTP}"),
    ("--forward 8080", "--forward {HTTP}"),
    ("server:8080", "server:{HTTP}"),
    ("--forward 8443", "--forward {HTTPS}"),
    // squall itself stands for a program that may not be installed.
    ("'iperf3 -s'", "'squall serve --h1 198.18.0.2:5201'"),
    (
        "iperf3 -c server -t 3",
        "squall fetch -o body http://server:5201/",
    ),
    (
        "iperf3 -c server -n 500K",
        "squall fetch -o body http://server:5201/",
    ),
    (
        "iperf3 -c server",
        "squall fetch -o body http://server:5201/",
    ),
    (
        "chromium --no-sandbox --user-data-dir=profile https://server:8443/",
        "squall fetch -k --key-log page.keys -o body https://server:{HTTPS}/",
    ),
    // Long commands get shorter.
    ("-D 30s", "-D 200ms"),
    ("-D 10s", "-D 200ms"),
    ("-D 3s", "-D 200ms"),
    ("-D 2s", "-D 200ms"),
    ("--stagger 1s", "--stagger 1ms"),
    ("chunks=200", "chunks=5"),
    (
        "100/s 10s, 100/s..1000/s 30s, 0 5s",
        "100/s 100ms, 100/s..1000/s 300ms, 0 50ms",
    ),
    (
        "squall run twilio --profile quick --stations embedded",
        "squall run twilio --profile quick --stations embedded --dry-run",
    ),
    (
        "squall run ./mine.toml --profile quick --brief",
        "sed -i /primary_repetitions/d mine.toml && \
         squall run ./mine.toml --profile quick --brief --repetitions 1",
    ),
    // Six trials with real programs instead of eighteen, shorter ones and with a tenth of the load.
    (
        "squall run ./mine.toml --profile quick\n",
        "sed -i -e /primary_repetitions/d -e s/'\"1s\"'/'\"400ms\"'/ -e s,1000/s,100/s, mine.toml && \
         squall run ./mine.toml --profile quick --repetitions 1\n",
    ),
    // One round, in which idle connections are not watched.
    (
        "squall probe --cacert",
        "squall probe --rounds 1 --idle 0s --cacert",
    ),
    ("--upload 5MB", "--upload 100kB"),
    (
        "--behind 'delay 15ms'",
        "--duration 5s --behind 'delay 1ms'",
    ),
    ("--repetitions 6", "--repetitions 1"),
    // The latest run.
    ("runs/twilio-20261125T191917Z", "$(ls -d runs/* | tail -n1)"),
];

/// Parts of commands that may also end with this exit code: a threshold that depends on the machine, a machine that lacks
/// something, and trials that other work has disturbed.
const MAY_END_WITH: [(&str, i32); 7] = [
    ("--threshold", 99),
    ("squall doctor", 1),
    // The test's server does not speak gRPC.
    ("application/grpc", 1),
    ("squall run", 3),
    ("squall report", 3),
    // One repetition proves nothing.
    ("--fail-if-unknown", 1),
    ("squall compare", 3),
];

/// The commands of a document's code blocks, without the prompt. A line that ends with a backslash continues on the next.
fn commands(document: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(path.join(document)).expect("the document is there");
    let begins_with = |line: &str, starts: &[&str]| starts.iter().any(|it| line.starts_with(it));
    let mut commands: Vec<String> = Vec::new();
    let mut fence = None;
    let mut is_continued = false;
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("```") {
            fence = match fence {
                None => Some(kind),
                Some(_) => None,
            };
            continue;
        }
        let is_shown = match fence {
            None => line.starts_with("    "),
            Some(kind) => kind == "sh",
        };
        let line = line.trim().trim_start_matches("$ ");
        let is_first = is_shown && begins_with(line, &STARTS) && !begins_with(line, &NO_COMMANDS);
        if !is_continued && !is_first {
            continue;
        }
        let part = line.strip_suffix('\\').unwrap_or(line);
        match commands.last_mut().filter(|_| is_continued) {
            Some(command) => command.push_str(part),
            None => commands.push(part.to_owned()),
        }
        is_continued = line.ends_with('\\');
    }
    commands
}

/// A folder with the files that the commands name, and a server for them.
struct Place<'a> {
    home: &'a Path,
    /// Whether commands run as the user `nobody`, with the binary in the folder.
    is_ordinary: bool,
    server: Serving,
}

impl<'a> Place<'a> {
    fn new(home: &'a Path, is_ordinary: bool) -> Place<'a> {
        let recorded = r#"{"log": {"entries": [{"startedDateTime": "2026-01-02T03:04:05Z",
            "request": {"method": "GET", "url": "http://a.test/"}}]}}"#;
        let files = [
            ("recorded.har", recorded),
            ("timing-script.tsv", "0.0\thttp://a.test/\n"),
            ("message.bin", "\0\0\0\0\0"),
        ];
        for (name, content) in files {
            fs::write(home.join(name), content).expect("a file");
        }
        // QUIC has the port of TCP.
        let port = free_port().to_string();
        let listeners = ["--h1", "0", "--h2c", "0", "--https", &port, "--h3", &port];
        Place {
            home,
            is_ordinary,
            server: Serving::start(home, &listeners),
        }
    }

    /// The folder with the programs that do not come from Debian. Other users may not be able to read the tests' own folder,
    /// so an ordinary user has a copy in this place's home.
    fn peers(&self) -> PathBuf {
        if self.is_ordinary {
            self.home.to_owned()
        } else {
            peers()
        }
    }

    /// A command with its parts replaced.
    fn replaced(&self, command: &str) -> String {
        // The end of a command is the end of its line.
        let mut text = format!("{command}\n");
        for (part, instead) in REPLACED {
            text = text.replace(part, instead);
        }
        for (name, kind) in [("{HTTP}", "h1"), ("{HTTPS}", "https"), ("{H2C}", "h2c")] {
            let port = self.server.address(kind).port().to_string();
            text = text.replace(name, &port);
        }
        text
    }

    /// A shell that finds squall and trusts the test's server.
    fn shell(&self, command: &str) -> Command {
        let binary = Path::new(env!("CARGO_BIN_EXE_squall"));
        let folder = if self.is_ordinary {
            self.home
        } else {
            binary.parent().expect("it is in a folder")
        };
        let mut shell = if self.is_ordinary {
            let mut shell = Command::new("setpriv");
            shell.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
            shell.arg("sh");
            shell
        } else {
            Command::new("sh")
        };
        shell
            .args(["-c", command])
            .current_dir(self.home)
            .env("PATH", path_from(folder))
            .env("SSL_CERT_FILE", self.home.join(CERTIFICATE))
            .env("SQUALL_PEERS", self.peers())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        shell
    }

    /// Runs a command to its end; a server until it listens.
    fn try_out(&self, command: &str) {
        let text = self.replaced(command);
        if text.starts_with("squall serve") || text.starts_with("squall proxy") {
            return self.try_out_server(&text);
        }
        let output = self.shell(&text).output().expect("the shell starts");
        let code = output.status.code();
        let mut allowed = MAY_END_WITH
            .iter()
            .filter(|(part, _)| text.contains(part))
            .map(|(_, code)| *code);
        assert!(
            code == Some(0) || allowed.any(|it| code == Some(it)),
            "{command} ended with {code:?}:\n{}",
            stderr(&output)
        );
    }

    fn try_out_server(&self, text: &str) {
        // The shell becomes the server, so that the signal reaches it.
        let mut child = self
            .shell(&format!("exec {text}"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the shell starts");
        let mut talk = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
        let mut said = String::new();
        talk.read_line(&mut said).expect("text");
        // It can be interrupted from the first of these lines on.
        let is_listening = said.starts_with("listening ");
        if is_listening {
            kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("it is there");
        }
        talk.read_to_string(&mut said).expect("text");
        let status = child.wait().expect("it can be waited for");
        assert!(is_listening && status.success(), "{text}: {said}");
    }
}

#[test]
fn every_replacement_matches_a_command() {
    let documents = [README, TUTORIAL, HOWTO, LOAD, SERVE, LINK];
    let all: Vec<String> = documents.iter().flat_map(|it| commands(it)).collect();
    assert!(all.len() > 30, "{all:#?}");
    let all = all.join("\n") + "\n";
    let mut unused = REPLACED.iter().filter(|(part, _)| !all.contains(part));
    assert_eq!(unused.next(), None);
}

#[test]
fn commands_of_the_readme_run() {
    if !have(&["curl", "envoy", "nginx"]) {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let place = Place::new(home.path(), false);
    for command in commands(README) {
        place.try_out(&command);
    }
    check_run(home.path());
}

#[test]
fn commands_of_the_readme_run_for_an_ordinary_user() {
    if !is_root() || !have(&["curl", "envoy", "nginx"]) {
        return;
    }
    let _seat = seat();
    let _open = TunMode::set(0o666);
    let home = Home::of_nobody();
    let programs = home.path().join("bin");
    fs::create_dir(&programs).expect("a folder");
    copy_program(&peers().join("bin/envoy"), &programs.join("envoy"));
    let place = Place::new(home.path(), true);
    for command in commands(README) {
        place.try_out(&command);
    }
    check_run(home.path());
}

/// Checks that the README's run has become one with a report and six trials: three variants without and with loss.
fn check_run(home: &Path) {
    let run = only_run(home);
    let folder = RunFolder::open(&run).expect("the run's folder");
    assert_eq!(folder.complete_trials().expect("its trials").len(), 6);
    assert!(folder.report().is_file() && folder.summary().is_file());
}

#[test]
fn commands_about_load_and_servers_run() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let place = Place::new(home.path(), false);
    fs::write(home.path().join("page.json"), page()).expect("a page");
    for command in [commands(LOAD), commands(SERVE)].concat() {
        place.try_out(&command);
    }
}

/// The page that docs/LOAD.md shows.
fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(path.join(LOAD)).expect("the document is there");
    let (_, shown) = text
        .split_once("$ cat page.json\n")
        .expect("a page is shown");
    let (page, _) = shown.split_once("$ ").expect("a command follows");
    page.to_owned()
}

#[test]
fn commands_about_links_run() {
    if !have(&["curl", "tshark"]) {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let place = Place::new(home.path(), false);
    for command in commands(LINK) {
        place.try_out(&command);
    }
}

#[test]
fn commands_of_the_how_tos_run() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let place = Place::new(home.path(), false);
    let recipe = short_recipe(&[H1], 1).replace("name = \"test\"", "name = \"mine\"");
    fs::write(home.path().join("mine.toml"), recipe).expect("a recipe");
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cases/pcap-without-syn");
    for (kept, name) in [("tls_nosyn.pcap", "capture.pcap"), ("keys.log", "keys.log")] {
        fs::copy(captures.join(kept), home.path().join(name)).expect("a capture and its secrets");
    }
    for command in commands(HOWTO) {
        place.try_out(&command);
    }
}

#[test]
fn commands_of_the_tutorial_run() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let place = Place::new(home.path(), false);
    for command in commands(TUTORIAL) {
        place.try_out(&command);
    }
    let output = squall(home.path()).args(["recipes", "--schema"]).output();
    assert!(output.expect("squall starts").status.success());
}

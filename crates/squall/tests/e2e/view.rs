//! `squall view` of real runs: the page, its data, the list of runs, and the requests that the server refuses.
//!
//! squall-report tests what a part of a plot shows, and what the list of runs says; `page_view` and `large_view` use the
//! page in a browser.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use squall_base::Time;

use crate::constructed::recipe;
use crate::support::{FinishedRun, TrialFiles, alone_if_it_fails, run_until_valid, seat, squall};

/// Killed on drop.
pub(crate) struct Viewing {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Viewing {
    pub(crate) fn start(runs: &[&Path]) -> Viewing {
        Viewing::start_with(&[], runs)
    }

    fn start_with(flags: &[&str], runs: &[&Path]) -> Viewing {
        let mut child = squall(Path::new("."))
            .arg("view")
            .args(flags)
            .args(runs.iter().map(|run| OsStr::new(*run)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("squall starts");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        stdout.read_line(&mut line).expect("it prints its URL");
        let address = line
            .strip_prefix("http://")
            .and_then(|url| url.strip_suffix("/\n"));
        let address = address.and_then(|address| address.parse().ok());
        Viewing {
            child,
            address: address.unwrap_or_else(|| panic!("no URL: {line}")),
        }
    }

    /// The status, head and body of the response to a request with this first line and host.
    pub(crate) fn ask(&self, line: &str, host: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        let request = format!("{line} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("it responds");
        let (head, body) = response.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).expect("a status");
        let status = status.parse().expect("a number");
        (status, head.to_owned(), body.to_owned())
    }

    /// The body at a path.
    pub(crate) fn get(&self, path: &str) -> String {
        let (status, head, body) = self.ask(&format!("GET {path}"), &self.address.to_string());
        assert_eq!(status, 200, "{path}: {head} {body}");
        body
    }

    pub(crate) fn get_json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path)).expect("JSON")
    }

    /// The status at a path.
    fn status(&self, path: &str) -> u16 {
        let (status, ..) = self.ask(&format!("GET {path}"), &self.address.to_string());
        status
    }

    /// The processor time that its threads have taken so far (proc_pid_stat(5): utime and stime, in hundredths of a second).
    pub(crate) fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.expect("it runs");
        // The name, which may contain anything, is the second field and in parentheses.
        let (_, behind) = stat.rsplit_once(") ").expect("a name");
        let ticks = behind.split(' ').skip(11).take(2);
        let ticks = ticks.map(|field| field.parse::<u64>().expect("a number"));
        Duration::from_millis(10 * ticks.sum::<u64>())
    }

    /// Ends it as Ctrl-C does.
    fn end(mut self) -> ExitStatus {
        let pid = Pid::from_raw(self.child.id() as i32);
        kill(pid, Signal::SIGINT).expect("it runs");
        self.child.wait().expect("it ends")
    }
}

impl Drop for Viewing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A trial of 100 requests on a link that drops packets.
pub(crate) fn lossy() -> FinishedRun {
    let text = recipe(&["h2c"], "100/s", ("1KiB", "3kB"), "drop every 41", "1s");
    run_until_valid(&text, &[])
}

/// The page without its links to requests: a server has all requests in full, a file only the chosen ones.
fn without_requests(page: &str) -> String {
    let mut parts = page.split("<a href=\"#request-");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let (_, rest) = part.split_once("</a>").expect("its end");
        text + rest.trim_start_matches(", ")
    })
}

#[test]
fn page_and_data_of_a_run_are_served_until_ctrl_c() {
    let _seat = seat();
    let run = lossy();
    let viewing = Viewing::start(&[&run.folder]);
    let (status, head, _) = viewing.ask("GET /", &viewing.address.to_string());
    assert_eq!(status, 302, "{head}");
    assert!(head.contains("location: /runs/1/"), "{head}");

    let page = viewing.get("/runs/1/");
    let report = std::fs::read_to_string(run.folder.join("report.html")).expect("report.html");
    let answer = |page: &str| {
        let (_, rest) = page.split_once("<header>").expect("a header");
        rest.split_once("</main>").expect("the end").0.to_owned()
    };
    // Only a server has the document about the method.
    let link = "How each number is obtained, and how large its error is: <a href=\"/METHOD.md\">docs/METHOD.md</a>";
    let text = "docs/METHOD.md, which comes with squall, says how each number is obtained and how large its error is.";
    assert!(page.contains(link) && report.contains(text));
    let of_report = without_requests(&answer(&report).replace(text, link));
    let of_page = without_requests(&answer(&page));
    assert_eq!(of_page, of_report, "the same but for its data");
    let document = viewing.get("/METHOD.md");
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/METHOD.md");
    assert_eq!(document, std::fs::read_to_string(own).expect("METHOD.md"));
    assert!(page.contains("\"source\":\"/runs/1/\"") && !report.contains("\"source\""));

    let trial = run.only("h2c");
    let folder = trial.record.trial.folder();
    let trial_path = format!("/runs/1/trials/{folder}");
    let whole =
        "from_us=0&to_us=100000000&low_us=0&high_us=100000000&columns=700&rows=160&scale=linear";
    let points = viewing.get_json(&format!("{trial_path}/points?{whole}"));
    let mut rows = trial.requests.clone();
    rows.sort_by_key(|row| (row.intended, row.request));
    let numbers: Vec<u64> = rows.iter().map(|row| row.request).collect();
    assert_eq!(points["request"], Value::from(numbers));
    let latencies = (rows.iter()).map(|row| row.response_time().as_nanos() / 1_000);
    assert_eq!(points["latency_us"], Value::from_iter(latencies));
    assert_eq!(points["total"], trial.requests.len());
    let drops = points["dropped_us"].as_array().expect("times");
    assert!(!drops.is_empty());

    let packets = viewing.get_json(&format!("{trial_path}/packets?from_us=0&to_us=100000000"));
    assert_eq!(packets["total"], trial.packets.len());
    let dropped = (trial.packets.iter()).filter(|packet| packet.fate.is_drop());
    assert_eq!(packets["dropped"], dropped.count());
    // TCP retransmits what was dropped, at the latest when its timer expires.
    assert!(packets["retransmitted"].as_u64() >= Some(1), "{packets}");

    let request = viewing.get_json(&format!("{trial_path}/requests/7"));
    assert_eq!(request["explanation"]["requests"][0]["request"], 7);
    let text = request["text"].as_str().expect("text");
    assert!(
        text.contains("request 7: answered with 200 after"),
        "{text}"
    );
    for unknown in [
        "requests/1000000",
        "requests/1000000/full",
        "requests/x/full",
    ] {
        assert_eq!(viewing.status(&format!("{trial_path}/{unknown}")), 404);
    }
    check_in_full(&viewing, trial);
    check_further_steps(&viewing, &run, trial);
    assert_eq!(viewing.end().code(), Some(0));
}

/// Checks that a request in full consists of the dialog's markup for it and for its connection at that time.
fn check_in_full(viewing: &Viewing, trial: &TrialFiles) {
    let trial_of_run = &trial.record.trial;
    let (folder, index) = (trial_of_run.folder(), trial_of_run.index);
    let full = viewing.get_json(&format!("/runs/1/trials/{folder}/requests/7/full"));
    assert_eq!(full["request"]["id"], format!("request-{index}-7"));
    let markup = full["request"]["markup"].as_str().expect("markup");
    for part in [
        "request 7: answered with 200 after",
        "data-plot=\"waterfall\"",
        "data-name=\"frames\"",
    ] {
        assert!(markup.contains(part), "no {part} in {markup}");
    }
    let connections = full["connections"].as_array().expect("a list");
    assert_eq!(connections.len(), 1);
    let number = trial.requests.iter().find(|row| row.request == 7);
    let number = number.and_then(|row| row.connection).expect("it had one");
    assert_eq!(
        connections[0]["id"],
        format!("connection-{index}-1-{number}")
    );
    let charts = connections[0]["markup"].as_str().expect("markup");
    assert!(charts.contains("-sequence\""), "{charts}");
}

/// Checks that the list, the pages, the comparison and the text about a request of the second run's trial are Chinese; data are
/// not.
fn check_in_chinese(runs: &[&Path], trial: &TrialFiles) {
    let viewing = Viewing::start_with(&["--lang", "zh"], runs);
    for path in ["/", "/runs/2/"] {
        let page = viewing.get(path);
        assert!(page.contains("<html lang=\"zh-Hans\">"), "{path}");
    }
    assert!(viewing.get("/").contains("与上一次运行比较"));
    let link = "每个数值如何得出以及误差多大： <a href=\"/METHOD.md\">docs/METHOD.md</a>";
    let page = viewing.get("/runs/2/");
    assert!(page.contains(link), "{page}");
    let compared = viewing.get("/runs/1/compare/2");
    assert!(
        compared.contains("结论") && !compared.contains("after is"),
        "{compared}"
    );
    let folder = trial.record.trial.folder();
    let request = viewing.get_json(&format!("/runs/2/trials/{folder}/requests/7"));
    let text = request["text"].as_str().expect("text");
    assert!(
        text.contains("请求 7：") && text.contains(" ms 后以 200 应答"),
        "{text}"
    );
    assert_eq!(request["explanation"]["requests"][0]["request"], 7);
    let full = viewing.get_json(&format!("/runs/2/trials/{folder}/requests/7/full"));
    let markup = full["request"]["markup"].as_str().expect("markup");
    assert!(markup.contains("所有跳"), "{markup}");
    assert!(viewing.get("/compare/").contains("并排显示各次运行"));
}

/// Checks that after the first questions about a trial further steps into its plots read no table: the tables have been
/// removed.
fn check_further_steps(viewing: &Viewing, run: &FinishedRun, trial: &TrialFiles) {
    let folder = trial.record.trial.folder();
    for table in ["requests", "causes", "drops", "packets"] {
        let name = format!("trials/{folder}/{table}.parquet");
        std::fs::remove_file(run.folder.join(name)).expect("it is there");
    }
    let (from_us, to_us) = (200_000, 399_999);
    let load_start = Time::ZERO + trial.record.load_start;
    let is_in = |at: Time| {
        let since_us = at.since(load_start).as_nanos() / 1_000;
        (from_us..=to_us).contains(&since_us)
    };
    let path = format!("/runs/1/trials/{folder}");
    let time = format!("from_us={from_us}&to_us={to_us}");
    let rest = "low_us=0&high_us=100000000&columns=700&rows=160&scale=linear";
    let points = viewing.get_json(&format!("{path}/points?{time}&{rest}"));
    let due = (trial.requests.iter()).filter(|row| is_in(row.intended));
    assert_eq!(points["total"], due.count());
    let packets = viewing.get_json(&format!("{path}/packets?{time}"));
    let arrived = (trial.packets.iter()).filter(|row| is_in(row.arrived));
    assert_eq!(packets["total"], arrived.count());
    // One request in full does need them.
    assert_eq!(viewing.status(&format!("{path}/requests/7")), 500);
}

#[test]
fn runs_of_a_recipe_are_listed_with_their_trend_and_compared() {
    alone_if_it_fails(seat(), || {
        let (first, second) = (lossy(), lossy());
        check_in_chinese(&[&second.folder, &first.folder], first.only("h2c"));
        let viewing = Viewing::start(&[&second.folder, &first.folder]);
        let list = viewing.get("/");
        assert_eq!(list.matches("<li><p><a href=\"/runs/").count(), 2, "{list}");
        // The earlier run is the first, wherever it was named.
        let (before, after) = (list.find("/runs/2/\""), list.find("/runs/1/\""));
        assert!(before < after && before.is_some(), "{list}");
        assert!(list.contains("href=\"/runs/1/compare/2\""), "{list}");
        assert!(list.contains("from run to run"), "{list}");
        assert!(!list.contains("<script"));
        let compared = viewing.get("/runs/1/compare/2");
        assert!(compared.contains("before"), "{compared}");
        assert!(list.contains("href=\"/compare/\""), "{list}");
        let beside = viewing.get("/compare/");
        for number in ["1", "2"] {
            let link = format!("<li><a href=\"/runs/{number}/\">{number}: ");
            assert!(beside.contains(&link), "{beside}");
        }
        let (status, head, _) = viewing.ask("GET /compare", &viewing.address.to_string());
        assert_eq!(status, 302, "{head}");
        assert!(viewing.get("/favicon.ico").starts_with("<svg "));
        let runs = viewing.get_json("/runs.json");
        assert_eq!(runs[1]["path"], "/runs/2/");
        assert_eq!(runs[0]["recipe"], runs[1]["recipe"]);
    });
}

/// Other sites' names can resolve to 127.0.0.1, and paths can lead out of a folder.
#[test]
fn foreign_hosts_other_methods_and_unknown_paths_are_refused() {
    let _seat = seat();
    let run = lossy();
    let viewing = Viewing::start(&[&run.folder]);
    let own = viewing.address.to_string();
    for host in ["evil.example", "127.0.0.1", "127.0.0.1.evil.example:80"] {
        let (status, _, body) = viewing.ask("GET /runs/1/", host);
        assert_eq!(status, 403, "{host}: {body}");
    }
    let localhost = format!("localhost:{}", viewing.address.port());
    assert_eq!(viewing.ask("GET /runs.json", &localhost).0, 200);
    let (status, head, _) = viewing.ask("POST /runs/1/", &own);
    assert_eq!(status, 405, "{head}");
    assert!(head.contains("allow: GET, HEAD"), "{head}");
    let (status, head, body) = viewing.ask("HEAD /runs.json", &own);
    assert_eq!((status, body.as_str()), (200, ""));
    assert!(
        head.contains("cross-origin-resource-policy: same-origin"),
        "{head}"
    );

    for path in [
        "/nothing",
        "/runs/0/",
        "/runs/2/",
        "/runs/1/summary.json",
        "/runs/1/trials/../summary.json/points",
        "/runs/1/trials/%2e%2e/points",
        "/../../etc/passwd",
    ] {
        assert_eq!(viewing.status(path), 404, "{path}");
    }
    let folder = run.only("h2c").record.trial.folder();
    assert_eq!(
        viewing.status(&format!("/runs/1/trials/{folder}/points?from_us=1")),
        400
    );
}

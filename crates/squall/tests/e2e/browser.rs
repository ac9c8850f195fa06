//! Real Chromium as a path's client: pages over each protocol, what it leaves behind, and the message if it is missing.
//!
//! Each run is one short trial of a variant. The communication with the browser is tested in squall-peers, against a
//! server of a few lines.

use std::collections::BTreeSet;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use squall_base::record::{Outcome, Phase, Validity};
use tempfile::TempDir;

use crate::ordinary_user::{Home, TunMode};
use crate::support::{
    TrialFiles, alone_if_it_fails, begin_run, check_exit_code, check_validity, have, is_root,
    only_run, read_trials, run_recipe, say_disturbed, seat, squall, stderr, wait_for,
};

/// A document and its tiles.
const REQUESTS: u64 = 1 + 30;

fn text(duration: &str, protocols: &[&str]) -> String {
    let mut text = format!(
        "name = \"test\"\nquestion = \"?\"\n[load]\nkind = \"tiles\"\ntiles = {}\ntile = \"/tile-{{}}.png?size=2KiB\"\n\
         warmup = \"200ms\"\nduration = \"{duration}\"\ndrain = \"10s\"\n[request]\ntarget = \"/?size=4KiB\"\n\
         [conditions]\ndelay = \"10ms\"\n",
        REQUESTS - 1
    );
    for protocol in protocols {
        text += &format!(
            "[[variant]]\nname = \"{protocol}\"\npath = \"client(chromium) ~{protocol}~> server\"\n"
        );
    }
    text
}

/// Checks that hold for every trial with a browser.
fn check_pages(trial: &TrialFiles, connections: RangeInclusive<u32>) {
    let name = &trial.record.trial.variant.name;
    let pages = trial.record.pages.expect("pages are summed up");
    if pages.loaded == 0 && trial.record.health.validity != Validity::Valid {
        // The page of the warm-up, the browser's first, took all of the time.
        return say_disturbed(&format!("{name}: no page to check"));
    }
    assert!(pages.loaded >= 1 && pages.failed == 0, "{name}: {pages:?}");
    assert!(trial.record.stations[0].version.is_some(), "{name}");
    let opened = trial.record.connections_opened;
    assert!(connections.contains(&opened), "{name}: {opened}");
    // Only pages were requested, and nothing was repeated or served from a cache.
    let numbers: BTreeSet<u64> = trial.requests.iter().map(|it| it.request).collect();
    assert_eq!(numbers.len(), trial.requests.len(), "{name}");
    assert_eq!(trial.record.requests, trial.requests.len() as u64, "{name}");
    let whole = trial
        .requests
        .iter()
        .filter(|it| it.request / REQUESTS < pages.loaded);
    assert_eq!(whole.count() as u64, REQUESTS * pages.loaded, "{name}");
    for request in &trial.requests {
        assert_eq!(
            u64::from(request.what),
            request.request % REQUESTS,
            "{name}"
        );
        if request.outcome == Outcome::Censored {
            continue;
        }
        let size = if request.what == 0 { 4_096 } else { 2_048 };
        assert!(request.succeeded(), "{name}: {request:?}");
        assert_eq!(request.response_body_bytes, size, "{name}: {request:?}");
        // No response is faster than a round trip of the link. The browser's clock counts whole microseconds.
        let (first, written) = (request.answered_first, request.written_first);
        let waited = first
            .expect("it was answered")
            .since(written.expect("it was sent"));
        assert!(waited.as_secs_f64() >= 0.01999, "{name}: {request:?}");
    }
    // The browser's own page time includes a round trip for the document and one for a tile.
    let least = pages.least.expect("a page was loaded").as_secs_f64();
    assert!(least >= 0.04, "{name}: {least}");
    // A connection that the browser opened in advance belongs to no request.
    let openers = trial.requests.iter().filter(|it| it.opened_connection);
    let openers = openers.count() as u32;
    assert!(openers <= opened, "{name}: {openers} of {opened}");
}

#[test]
fn chromium_loads_pages_over_each_protocol() {
    if !have(&["chromium"]) {
        return;
    }
    let _seat = seat();
    let run = run_recipe(&text("1s", &["h1", "h1s", "h2", "h3"]), &[]);
    // Before Chromium knows that the server speaks HTTP/2, it preconnects a second connection and never uses it.
    for (protocol, connections) in [("h1", 6..=6), ("h1s", 6..=6), ("h2", 1..=2), ("h3", 1..=1)] {
        let trial = run.only(protocol);
        check_pages(trial, connections);
        assert!(
            profiles(&run.folder).is_empty(),
            "{:?}",
            profiles(&run.folder)
        );
    }
}

/// Browser profile folders below this one.
fn profiles(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        for path in entries
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
        {
            if path.ends_with("profile") {
                found.push(path);
            } else {
                folders.push(path);
            }
        }
    }
    found
}

/// Processes whose working directory is below this folder.
fn processes_in(folder: &Path) -> Vec<String> {
    let folder = folder.canonicalize().expect("it is there");
    let entries = fs::read_dir("/proc").expect("there is /proc").flatten();
    let of = |process: fs::DirEntry| {
        let cwd = fs::read_link(process.path().join("cwd")).ok()?;
        let name = fs::read_to_string(process.path().join("comm")).ok()?;
        cwd.starts_with(&folder).then_some(name)
    };
    entries.filter_map(of).collect()
}

#[test]
fn interrupted_run_leaves_no_browser_and_no_profile() {
    if !have(&["chromium"]) {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let child = begin_run(home.path(), &text("60s", &["h2"]));
    let runs = home.path().join("runs");
    // The browser's processes: renderer, network service, zygotes.
    wait_for("the browser", || {
        let is_there = !profiles(&runs).is_empty() && processes_in(&runs).len() > 3;
        is_there.then_some(())
    });
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("squall runs");
    child.wait_with_output().expect("it ends");
    wait_for("the browser's end", || {
        processes_in(&runs).is_empty().then_some(())
    });
    assert_eq!(profiles(&runs), Vec::<PathBuf>::new());
}

#[test]
fn ordinary_user_can_run_the_browser() {
    if !is_root() || !have(&["chromium"]) {
        return;
    }
    alone_if_it_fails(seat(), || {
        let _open = TunMode::set(0o666);
        let home = Home::of_nobody();
        home.write_recipe(&text("2s", &["h3"]));
        let output = home.squall(&["run", "./recipe.toml"]);
        let trials = read_trials(&only_run(home.path()));
        check_exit_code(&output, &trials);
        let [trial] = &trials[..] else {
            panic!("{}", stderr(&output));
        };
        assert!(trial.record.used.user_namespace);
        check_validity(trial);
        check_pages(trial, 1..=1);
        assert!(trial.requests.iter().any(|it| it.phase == Phase::Measure));
    });
}

#[test]
fn missing_or_unsuitable_browser_is_reported_before_the_run() {
    let home = TempDir::new().expect("a temporary folder");
    let refused = |text: &str, path: Option<&str>, says: &[&str]| {
        fs::write(home.path().join("recipe.toml"), text).expect("it is written");
        let mut command = squall(home.path());
        if let Some(path) = path {
            command.env("PATH", path);
        }
        let output = command
            .args(["run", "./recipe.toml"])
            .output()
            .expect("squall starts");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(says.iter().all(|says| said.contains(says)), "{said}");
        assert!(!home.path().join("runs").exists(), "{said}");
    };
    let plain = text("1s", &["h2"]);
    refused(
        &plain,
        Some("/nowhere"),
        &[
            "chromium",
            "apt-get install chromium",
            "--stations embedded",
        ],
    );
    if !have(&["chromium"]) {
        return;
    }
    for (from, to, says) in [
        ("~h2~>", "~h2c~>", "chromium cannot speak h2c"),
        (
            "~> server",
            "~> nginx",
            "only `server` can serve the page that a browser loads",
        ),
        (
            "size=4KiB",
            "size=100",
            "the document has 100 bytes, and needs ",
        ),
        ("tile-{}", "tile", "each target of a page once"),
        (
            "kind = \"tiles\"\n",
            "kind = \"tiles\"\nusers = 2\n",
            "only one user",
        ),
        (
            "~> server\"",
            "~> server\"\nconnections = 3",
            "leave out `connections`",
        ),
        (
            "[request]\n",
            "[request]\nbrowser_headers = true\n",
            "leave out `headers`",
        ),
    ] {
        assert!(plain.contains(from), "{from}");
        if !to.contains("nginx") || have(&["nginx"]) {
            refused(&plain.replace(from, to), None, &[says]);
        }
    }
    let single = "name = \"t\"\nquestion = \"?\"\nload = { rate = \"1/s\", duration = \"1s\" }\n[[variant]]\nname = \"v\"\n\
                  path = \"client(chromium) ~h1~> server\"\n";
    refused(single, None, &["it loads pages, and nothing else"]);
}

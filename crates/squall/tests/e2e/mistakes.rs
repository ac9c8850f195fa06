//! Mistakes of new users: the exit code, and the words of the message that help. Each row is a command line, in which `_`
//! stands for a blank within an argument.
//!
//! Positions in recipes are tested in `bad_input`, what a client tries after a failure in squall's `client::advice`.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use squall_base::plan::Protocol;
use tempfile::TempDir;

use crate::served::Serving;
use crate::support::{seat, squall, stderr};

/// A command line without `squall`, the exit code, and what stderr contains.
type Mistake = (&'static str, i32, &'static str);

/// Longer than any of these commands takes on a busy machine. A server that starts by mistake is ended then.
const PATIENCE: Duration = Duration::from_secs(30);

const RECIPE: &str = "name = \"a\"\nquestion = \"b?\"\n[load]\nrate = \"1/s\"\nduration = \"1s\"\n\
    [conditions]\ndelay = \"1ms\"\n[[variant]]\nname = \"x\"\npath = \"client ~h1~> server\"\n";

/// The files that the commands name.
fn write_files(home: &Path) {
    let recipe = |from: &str, to: &str| RECIPE.replacen(from, to, 1);
    let files = [
        ("empty", String::new()),
        ("broken.toml", recipe("rate = ", "rate == ")),
        (
            "unknown.toml",
            recipe("[conditions]", "warmupp = \"1s\"\n[conditions]"),
        ),
        ("program.toml", recipe("server", "apache")),
        ("unit.toml", recipe("\"1ms\"", "\"1\"")),
        ("number.toml", recipe("\"1ms\"", "1")),
        ("twice.toml", "name = \"a\"\nname = \"b\"\n".to_owned()),
        (
            "broken.json",
            "{\"requests\": [\n {\"method\": }]}".to_owned(),
        ),
        ("list.json", "[1]".to_owned()),
        ("nothing.har", "{\"log\": {\"entries\": []}}".to_owned()),
        (
            "mixed.txt",
            "http://127.0.0.1:1/\nhttps://127.0.0.1:1/\n".to_owned(),
        ),
        ("runs/demo/plan.json", "{}".to_owned()),
        ("incomplete/recipe.toml", RECIPE.to_owned()),
    ];
    for folder in ["folder", "runs/demo", "incomplete"] {
        fs::create_dir_all(home.join(folder)).expect("a folder");
    }
    for (name, text) in files {
        fs::write(home.join(name), text).expect("a file");
    }
    let every_byte: Vec<u8> = (0..=255).collect();
    fs::write(home.join("binary"), every_byte).expect("a file");
}

/// Runs a command line to its end.
fn run(home: &Path, line: &str) -> Output {
    let arguments = line.split_whitespace().map(|word| word.replace('_', " "));
    let mut child = squall(home)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("squall starts");
    let give_up = Instant::now() + PATIENCE;
    while child.try_wait().expect("its state").is_none() && Instant::now() < give_up {
        thread::sleep(Duration::from_millis(2));
    }
    // It has ended already, unless it was patient, too.
    let _ = child.kill();
    child.wait_with_output().expect("its output")
}

/// Makes each of these mistakes. `{URL}` is a server of HTTP/1.1; `{HTTP}`, `{HTTPS}`, `{H1S}` and `{H3}` are the ports of
/// listeners.
fn make(mistakes: &[Mistake]) {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let home = home.path();
    write_files(home);
    let listeners = ["--h1", "0", "--https", "0", "--h1s", "0", "--h3", "0"];
    let server = Serving::start(home, &listeners);
    let filled = |text: &str| {
        let mut text = text.replace("{URL}", &server.url(Protocol::H1));
        for (name, kind) in [
            ("{HTTP}", "h1"),
            ("{HTTPS}", "https"),
            ("{H1S}", "h1s"),
            ("{H3}", "h3"),
        ] {
            text = text.replace(name, &server.address(kind).port().to_string());
        }
        text
    };
    for (line, code, said) in mistakes {
        let output = run(home, &filled(line));
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(*code), "squall {line}: {text}");
        assert!(text.contains(&filled(said)), "squall {line}: {text}");
    }
}

const ABOUT_RECIPES_AND_RUNS: &[Mistake] = &[
    ("", 2, "Usage: squall <COMMAND>"),
    ("lod {URL}", 2, "a similar subcommand exists: 'load'"),
    ("doctor --jsn", 2, "a similar argument exists: '--json'"),
    ("doctor x", 2, "unexpected argument 'x'"),
    ("run", 2, "<RECIPE>"),
    (
        "run twillio",
        2,
        "A file is named by its path, such as ./twillio.toml",
    ),
    ("run twilio --profile quikc", 2, "did you mean `quick`?"),
    (
        "run twilio --variant h3",
        2,
        "--variant is a flag of `squall explain`",
    ),
    (
        "run twilio --stations embeded",
        2,
        "expected `real` or `embedded`",
    ),
    (
        "run ./missing.toml",
        2,
        "cannot read the recipe ./missing.toml: No such file",
    ),
    (
        "run ./folder",
        2,
        "cannot read the recipe ./folder: Is a directory",
    ),
    ("run ./empty", 2, "missing key `name`"),
    (
        "run ./binary",
        2,
        "it is not text in UTF-8: is it the right file?",
    ),
    ("run ./broken.toml", 2, "./broken.toml:4:7: extra `=`"),
    ("run ./unknown.toml", 2, "did you mean `warmup`?"),
    ("run ./program.toml", 2, "unknown station `apache`"),
    ("run ./unit.toml", 2, "expected \"1ms\" or \"1s\""),
    ("run ./number.toml", 2, "put it in quotes, with its unit"),
    ("run ./twice.toml", 2, "./twice.toml:2:1: duplicate key"),
    (
        "run --resume nowhere",
        2,
        "check the path: a run's folder has plan.json",
    ),
    (
        "run --resume incomplete",
        2,
        "cannot read incomplete/plan.json",
    ),
    ("recipes twillio", 2, "there is no recipe \"twillio\""),
    (
        "recipes --scheme",
        2,
        "a similar argument exists: '--schema'",
    ),
    ("report", 2, "<RUN>"),
    ("report nowhere", 2, "nowhere is not the folder of a run"),
    ("report empty", 2, "empty is not the folder of a run"),
    (
        "report runs",
        2,
        "runs is a folder of runs: name one of them, such as runs/demo",
    ),
    ("view", 2, "<RUN>"),
    ("view nowhere", 2, "nowhere is not the folder of a run"),
    (
        "view runs",
        2,
        "runs is a folder of runs: name one of them, such as runs/demo",
    ),
    ("compare incomplete", 2, "<AFTER>"),
    (
        "compare nowhere folder",
        2,
        "nowhere is not the folder of a run",
    ),
    (
        "explain empty",
        2,
        "if it is a capture, `squall import pcap empty` makes one of it",
    ),
    ("explain runs", 2, "runs is a folder of runs"),
    ("explain runs --at 5", 2, "expected \"5ms\" or \"5s\""),
];

#[test]
fn mistakes_about_recipes_and_runs() {
    make(ABOUT_RECIPES_AND_RUNS);
}

const ABOUT_LOADS: &[Mistake] = &[
    ("load", 2, "give a URL"),
    (
        "load ftp://a/",
        2,
        "expected http or https, such as https://server:8443/path",
    ),
    (
        "load name.invalid",
        2,
        "check how it is written, or use its IP address",
    ),
    ("load -n 0 {URL}", 2, "0 is not in 1.."),
    ("load -n ten {URL}", 2, "'--requests <COUNT>'"),
    ("load -c 0 {URL}", 2, "expected 1 to 60000"),
    ("load -D 5 {URL}", 2, "expected \"5ms\" or \"5s\""),
    ("load -D 0s {URL}", 2, "expected more than 0"),
    ("load --rate 10 {URL}", 2, "give -D TIME or -n COUNT"),
    (
        "load --rate 10/h -D 1s {URL}",
        2,
        "such as \"1000/s\" or \"90/min\"",
    ),
    (
        "load --rate 10rps -D 1s {URL}",
        2,
        "unknown unit \"rps\" in \"10rps\"",
    ),
    (
        "load --loss 3% {URL}",
        2,
        "--loss is a flag of `squall link`",
    ),
    (
        "load --timout 2s {URL}",
        2,
        "a similar argument exists: '--timeout'",
    ),
    ("load --warm-up-time 1s {URL}", 2, "give both"),
    (
        "load --stages 10/s {URL}",
        2,
        "is no stage: expected \"100/s 10s\"",
    ),
    (
        "load --stages 10/s_1s --rate 5 {URL}",
        2,
        "cannot be used with '--rate <RATE>'",
    ),
    (
        "load --threshold p99<50 {URL}",
        2,
        "write avg, min, max, med or p(N)",
    ),
    ("load --http 4 {URL}", 2, "possible values: 1.1, 2, 3, auto"),
    ("load --http 3 {URL}", 2, "write the URL with https://"),
    ("load --http 2 {URL}", 1, "try --http 1.1"),
    (
        "load https://127.0.0.1:{HTTP}/",
        1,
        "try http://127.0.0.1:{HTTP}/",
    ),
    (
        "load http://127.0.0.1:{HTTPS}/",
        1,
        "try https://127.0.0.1:{HTTPS}/",
    ),
    ("load https://127.0.0.1:{HTTPS}/", 1, "--cacert FILE (PEM)"),
    (
        "load -k --http 3 https://127.0.0.1:{H1S}/",
        1,
        "a network that lets UDP through",
    ),
    (
        "load http://127.0.0.1:1/",
        1,
        "No program listens at 127.0.0.1:1: check the host and the port",
    ),
    ("load --output rows.txt {URL}", 2, ".parquet, .csv, .vegeta"),
    (
        "load --output missing/rows.csv {URL}",
        1,
        "cannot make missing/rows.csv",
    ),
    (
        "load --json folder {URL}",
        1,
        "cannot write folder: Is a directory",
    ),
    (
        "load --preset apache {URL}",
        2,
        "unknown preset `apache`: expected `nginx`",
    ),
    (
        "load --script missing {URL}",
        2,
        "cannot read missing: No such file",
    ),
    (
        "load --script empty {URL}",
        2,
        "docs/RECORD.md says what a script has",
    ),
    (
        "load --page empty {URL}",
        2,
        "it is a list of requests, such as [{\"url\": \"/\"}]",
    ),
    (
        "load --targets folder",
        2,
        "cannot read folder: Is a directory",
    ),
    (
        "load --targets empty",
        2,
        "can be sent; is it the right file?",
    ),
    ("load --targets -", 2, "can be sent; is it the right file?"),
    (
        "load --targets binary",
        2,
        "is no method and URL; a target is a line such as GET https://",
    ),
    (
        "load --targets mixed.txt -n 2",
        2,
        "give each scheme a command of its own",
    ),
    (
        "load --targets a --script b",
        2,
        "cannot be used with '--script <FILE>'",
    ),
    (
        "load -d missing {URL}",
        2,
        "cannot read the body missing: No such file",
    ),
    ("load -d folder {URL}", 2, "it is not a regular file"),
    ("load -H nocolon {URL}", 2, "write \"name: value\""),
];

#[test]
fn mistakes_about_loads() {
    make(ABOUT_LOADS);
}

const ABOUT_SINGLE_REQUESTS_SERVERS_AND_PROXIES: &[Mistake] = &[
    ("fetch", 2, "<URL>"),
    ("fetch http://127.0.0.1:99999/", 2, "invalid port number"),
    (
        "fetch --cacert missing.pem https://127.0.0.1:{HTTPS}/",
        2,
        "cannot read missing.pem",
    ),
    (
        "fetch --cacert empty https://127.0.0.1:{HTTPS}/",
        2,
        "expected PEM (--cacert empty)",
    ),
    ("fetch --timeout 0s {URL}", 2, "expected more than 0"),
    (
        "fetch --timeout 50ms {URL}/?delay=20s",
        1,
        "no whole answer within 50ms",
    ),
    (
        "fetch {URL}/?status=404",
        1,
        "the server answered with status 404",
    ),
    (
        "fetch -k --http 2 https://127.0.0.1:{H1S}/",
        1,
        "leave --http out, so that ALPN decides",
    ),
    (
        "fetch --proxy http://127.0.0.1:1 {URL}",
        1,
        "The proxy http://127.0.0.1:1 refused",
    ),
    (
        "fetch --connect-to 127.0.0.1:1 {URL}",
        1,
        "No program listens at 127.0.0.1:1 (--connect-to)",
    ),
    (
        "fetch -o missing/body {URL}",
        1,
        "cannot make missing/body: No such file",
    ),
    ("fetch -6 {URL}", 2, "127.0.0.1 has no address of IPv6"),
    ("fetch -F x {URL}", 2, "expected name=text or name=@FILE"),
    ("serve --h1 {HTTP}", 1, "Another program has this port"),
    ("serve --h3 {H3}", 1, "Another program has this port"),
    (
        "serve --h1 192.0.2.1:8080",
        1,
        "This machine has no such address",
    ),
    ("serve --h1 99999", 2, "such as 8080 or [::1]:8080"),
    ("serve --h1 0 --cert cert.pem", 2, "--key <FILE>"),
    (
        "serve --https 0 --cert empty --key empty",
        2,
        "expected PEM without a passphrase",
    ),
    (
        "serve --h1 0 --dir missing",
        2,
        "cannot serve missing: No such file",
    ),
    (
        "serve --h1 0 --echo --sink",
        2,
        "cannot be used with '--sink'",
    ),
    (
        "serve --h1 0 --set http1.x=1",
        2,
        "expected `framing` or `requests_per_connection`",
    ),
    (
        "serve --h1 0 --users 5",
        2,
        "--users is a flag of `squall load`",
    ),
    ("proxy --h1 0", 2, "--to <URL>"),
    ("proxy --h1 0 --to ftp://a", 2, "expected http or https"),
    (
        "proxy --h1 {HTTP} --to {URL}",
        1,
        "Another program has this port",
    ),
];

#[test]
fn mistakes_about_single_requests_servers_and_proxies() {
    make(ABOUT_SINGLE_REQUESTS_SERVERS_AND_PROXIES);
}

const ABOUT_LINKS_AND_IMPORTS: &[Mistake] = &[
    ("link --loss 3 -- true", 2, "no unit: expected \"3%\""),
    ("link --loss 140% -- true", 2, "expected 0% to 100%"),
    ("link --delay 25 -- true", 2, "expected \"25ms\" or \"25s\""),
    ("link --rate 20mb -- true", 2, "such as \"20mbit\""),
    (
        "link --queue 64k -- true",
        2,
        "nothing limits the rate there",
    ),
    (
        "link --duplicate 1 -- true",
        2,
        "a bare 1 may be meant as either",
    ),
    (
        "link --up rate_2mbit,_dleay_4ms -- true",
        2,
        "did you mean `delay`?",
    ),
    (
        "link --up missing.trace -- true",
        2,
        "cannot read the trace missing.trace: No such file",
    ),
    (
        "link --schedule binary -- true",
        2,
        "it is not text in UTF-8",
    ),
    (
        "link --los 3% -- true",
        2,
        "a similar argument exists: '--loss'",
    ),
    ("import haar x", 2, "a similar subcommand exists: 'har'"),
    (
        "import har missing.har",
        2,
        "cannot read missing.har: No such file",
    ),
    ("import har folder", 2, "cannot read folder: Is a directory"),
    (
        "import har empty",
        2,
        "save it again with the browser's \"Save all as HAR\"",
    ),
    (
        "import har binary",
        2,
        "save it again with the browser's \"Save all as HAR\"",
    ),
    ("import har broken.json", 2, "at line 2 column 13"),
    (
        "import har list.json",
        2,
        "expected an object with `entries`",
    ),
    (
        "import har nothing.har",
        2,
        "no request in the HAR file can be sent",
    ),
    ("import timing broken.json", 2, "there is no tab in it"),
    (
        "import pcap missing.pcap",
        2,
        "cannot read missing.pcap: No such file",
    ),
    ("import pcap empty", 2, "it is neither pcap nor pcapng"),
    (
        "import pcap binary",
        2,
        "let `editcap -F pcapng` convert it",
    ),
    ("import pcap -", 2, "write it to a file first"),
];

#[test]
fn mistakes_about_links_and_imports() {
    make(ABOUT_LINKS_AND_IMPORTS);
}

//! Mistakes of new users: the exit code, and the words in the message that help. Each row has the code, a command line without
//! `squall`, and what stderr must contain. In the command line, `_` stands for a space within an argument.
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
    // It has exited already, unless it is still running after `PATIENCE`.
    let _ = child.kill();
    child.wait_with_output().expect("its output")
}

/// Makes each of these mistakes. `{URL}` is a server of HTTP/1.1; `{HTTP}`, `{HTTPS}`, `{H1S}` and `{H3}` are the ports of
/// listeners.
fn make(mistakes: &str) {
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
    for row in mistakes.trim().lines() {
        let (command, said) = row.split_once(" => ").expect("a row");
        let (code, line) = command.split_once(' ').unwrap_or((command, ""));
        let code: i32 = code.parse().expect("an exit code");
        let output = run(home, &filled(line));
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "squall {line}: {text}");
        assert!(text.contains(&filled(said)), "squall {line}: {text}");
    }
}

const ABOUT_RECIPES_AND_RUNS: &str = r#"
2 => Usage: squall <COMMAND>
2 lod {URL} => a similar subcommand exists: 'load'
2 doctor --jsn => a similar argument exists: '--json'
2 doctor x => unexpected argument 'x'
2 run => <RECIPE>
2 run twillio => To use a file, give its path, such as ./twillio.toml
2 run twilio --profile quikc => did you mean `quick`?
2 run twilio --variant h3 => --variant is a flag of `squall explain`
2 run twilio --stations embeded => expected `real` or `embedded`
2 run ./missing.toml => cannot read the recipe ./missing.toml: No such file
2 run ./folder => cannot read the recipe ./folder: Is a directory
2 run ./empty => missing key `name`
2 run ./binary => it is not text in UTF-8: is it the right file?
2 run ./broken.toml => ./broken.toml:4:7: extra `=`
2 run ./unknown.toml => did you mean `warmup`?
2 run ./program.toml => unknown station `apache`
2 run ./unit.toml => expected "1ms" or "1s"
2 run ./number.toml => put it in quotes, with its unit
2 run ./twice.toml => ./twice.toml:2:1: duplicate key
2 run --resume nowhere => check the path: a run's folder has plan.json
2 run --resume incomplete => cannot read incomplete/plan.json
2 recipes twillio => there is no recipe "twillio"
2 recipes --scheme => a similar argument exists: '--schema'
2 report => <RUN>
2 report nowhere => nowhere is not the folder of a run
2 report empty => empty is not the folder of a run
2 report runs => runs is a folder of runs: name one of them, such as runs/demo
2 view => <RUN>
2 view nowhere => nowhere is not the folder of a run
2 view runs => runs is a folder of runs: name one of them, such as runs/demo
2 compare incomplete => <AFTER>
2 compare nowhere folder => nowhere is not the folder of a run
2 explain empty => if it is a capture, `squall import pcap empty` converts it to one
2 explain runs => runs is a folder of runs
2 explain runs --at 5 => expected "5ms" or "5s"
"#;

/// Each of these options would change nothing.
const ABOUT_OPTIONS_WITHOUT_EFFECT: &str = r#"
2 explain runs --threshold p(99)<50 => --threshold is a flag of `squall run`
2 explain runs 5 --at 1s => cannot be used with
2 explain runs 5 --worst 2 => cannot be used with
2 explain runs --at 1s --worst 2 => cannot be used with
2 explain runs --around 1s => --at <TIME>
2 explain runs --json --lang zh => cannot be used with
2 explain runs --json --color never => cannot be used with
2 compare a b --brief => --brief is a flag of `squall run`
2 compare a b --json --markdown => --markdown without a file and --json do not go together
2 report a --brief --full => cannot be used with
2 report a --brief --json => cannot be used with
2 report a --full --json => cannot be used with
2 report a --json --color always => cannot be used with
2 report a --json --markdown => --markdown without a file and --json do not go together
2 report a --brief --markdown => --markdown without a file and --brief do not go together
2 report a --full --markdown => --markdown without a file and --full do not go together
2 report a --color always --markdown => --markdown without a file and --color do not go together
2 report a --worst 2 => --worst is a flag of `squall explain`
2 run twilio --json --markdown => --markdown without a file and --json do not go together
2 load --json - --markdown {URL} => --markdown without a file and --json - do not go together
2 import timing a --media => unexpected argument '--media'
2 import pcap a --keep-secrets => unexpected argument '--keep-secrets'
2 import har a --key-log b => --key-log is a flag of
2 export runs --to csv --plot a => --plot is for svg and png
2 export runs --to cells --hop 1 => --hop, --connection and --side are for qlog
2 export runs --to har --connection 1 => --hop, --connection and --side are for qlog
2 export runs --to pcapng --side client => pcapng has all packets of a link
2 export runs --to svg --trial 1 -o a => svg and png are plots of the whole run
2 export runs --to png --side client -o a => svg and png are plots of the whole run
2 export runs --to svg => each plot is a file of its own
2 recipes twilio --json => cannot be used with
2 recipes --schema --json => cannot be used with
"#;

#[test]
fn options_without_effect_are_refused() {
    make(ABOUT_OPTIONS_WITHOUT_EFFECT);
}

#[test]
fn mistakes_in_recipes_and_runs_are_explained() {
    make(ABOUT_RECIPES_AND_RUNS);
}

const ABOUT_LOADS: &str = r#"
2 load => give a URL
2 load ftp://a/ => expected http or https, such as https://server:8443/path
2 load name.invalid => check the spelling, or use its IP address
2 load -n 0 {URL} => 0 is not in 1..
2 load -n ten {URL} => '--requests <COUNT>'
2 load -c 0 {URL} => expected 1 to 60000
2 load -D 5 {URL} => expected "5ms" or "5s"
2 load -D 0s {URL} => expected more than 0
2 load --rate 10 {URL} => give -D TIME or -n COUNT
2 load --rate 10/h -D 1s {URL} => such as "1000/s" or "90/min"
2 load --rate 10rps -D 1s {URL} => unknown unit "rps" in "10rps"
2 load --loss 3% {URL} => --loss is a flag of `squall link`
2 load --timout 2s {URL} => a similar argument exists: '--timeout'
2 load --warm-up-time 1s {URL} => give both
2 load --stages 10/s {URL} => is not a stage: expected "100/s 10s"
2 load --stages 10/s_1s --rate 5 {URL} => cannot be used with '--rate <RATE>'
2 load --threshold p99<50 {URL} => write avg, min, max, med or p(N)
2 load --http 4 {URL} => possible values: 1.1, 2, 3, auto
2 load --http 3 {URL} => write the URL with https://
1 load --http 2 {URL} => try --http 1.1
1 load https://127.0.0.1:{HTTP}/ => try http://127.0.0.1:{HTTP}/
1 load http://127.0.0.1:{HTTPS}/ => try https://127.0.0.1:{HTTPS}/
1 load https://127.0.0.1:{HTTPS}/ => --cacert FILE (PEM)
1 load -k --http 3 https://127.0.0.1:{H1S}/ => a network that lets UDP through
1 load http://127.0.0.1:1/ => No program listens on 127.0.0.1:1: check the host and the port
2 load --output rows.txt {URL} => .parquet, .csv, .vegeta
1 load --output missing/rows.csv {URL} => cannot make missing/rows.csv
1 load --json folder {URL} => cannot write folder: Is a directory
2 load --preset apache {URL} => unknown preset `apache`: expected `nginx`
2 load --script missing {URL} => cannot read missing: No such file
2 load --script empty {URL} => docs/RECORD.md says what a script has
2 load --page empty {URL} => it is a list of requests, such as [{"url": "/"}]
2 load --targets folder => cannot read folder: Is a directory
2 load --targets empty => can be sent; is it the right file?
2 load --targets - => can be sent; is it the right file?
2 load --targets binary => is not a method and URL; a target is a line such as GET https://
2 load --targets mixed.txt -n 2 => give each scheme a command of its own
2 load --targets a --script b => cannot be used with '--script <FILE>'
2 load -d missing {URL} => cannot read the body missing: No such file
2 load -d folder {URL} => it is not a regular file
2 load -H nocolon {URL} => write "name: value"
"#;

#[test]
fn mistakes_in_loads_are_explained() {
    make(ABOUT_LOADS);
}

const ABOUT_SINGLE_REQUESTS_SERVERS_AND_PROXIES: &str = r#"
2 fetch => <URL>
2 fetch http://127.0.0.1:99999/ => invalid port number
2 fetch --cacert missing.pem https://127.0.0.1:{HTTPS}/ => cannot read missing.pem
2 fetch --cacert empty https://127.0.0.1:{HTTPS}/ => expected PEM (--cacert empty)
2 fetch --timeout 0s {URL} => expected more than 0
1 fetch --timeout 50ms {URL}/?delay=20s => no complete response within 50ms
1 fetch {URL}/?status=404 => the server answered with status 404
1 fetch -k --http 2 https://127.0.0.1:{H1S}/ => leave --http out, so that ALPN decides
1 fetch --proxy http://127.0.0.1:1 {URL} => The proxy http://127.0.0.1:1 refused
1 fetch --connect-to 127.0.0.1:1 {URL} => No program listens on 127.0.0.1:1 (--connect-to)
1 fetch -o missing/body {URL} => cannot make missing/body: No such file
2 fetch -6 {URL} => 127.0.0.1 has no IPv6 address
2 fetch -F x {URL} => expected name=text or name=@FILE
1 serve --h1 {HTTP} => Another program uses this port
1 serve --h3 {H3} => Another program uses this port
1 serve --h1 192.0.2.1:8080 => This machine has no such address
2 serve --h1 99999 => such as 8080 or [::1]:8080
2 serve --h1 0 --cert cert.pem => --key <FILE>
2 serve --https 0 --cert empty --key empty => expected PEM without a passphrase
2 serve --h1 0 --dir missing => cannot serve missing: No such file
2 serve --h1 0 --echo --sink => cannot be used with '--sink'
2 serve --h1 0 --set http1.x=1 => expected `framing` or `requests_per_connection`
2 serve --h1 0 --users 5 => --users is a flag of `squall load`
2 proxy --h1 0 => --to <URL>
2 proxy --h1 0 --to ftp://a => expected http or https
2 proxy --h1 0 --to https://127.0.0.1:1 --http auto => expected --http 1.1, 2 or 3
1 proxy --h1 {HTTP} --to {URL} => Another program uses this port
"#;

#[test]
fn mistakes_in_single_requests_servers_and_proxies_are_explained() {
    make(ABOUT_SINGLE_REQUESTS_SERVERS_AND_PROXIES);
}

const ABOUT_LINKS_AND_IMPORTS: &str = r#"
2 link --loss 3 -- true => no unit: expected "3%"
2 link --loss 140% -- true => expected 0% to 100%
2 link --delay 25 -- true => expected "25ms" or "25s"
2 link --rate 20mb -- true => such as "20mbit"
2 link --queue 64k -- true => nothing limits the rate there
2 link --duplicate 1 -- true => a bare 1 may be meant as either
2 link --up rate_2mbit,_dleay_4ms -- true => did you mean `delay`?
2 link --up missing.trace -- true => cannot read the trace missing.trace: No such file
2 link --schedule binary -- true => it is not text in UTF-8
2 link --los 3% -- true => a similar argument exists: '--loss'
2 import haar x => a similar subcommand exists: 'har'
2 import har missing.har => cannot read missing.har: No such file
2 import har folder => cannot read folder: Is a directory
2 import har empty => save it again with the browser's "Save all as HAR"
2 import har binary => save it again with the browser's "Save all as HAR"
2 import har broken.json => at line 2 column 13
2 import har list.json => expected an object with `entries`
2 import har nothing.har => no request in the HAR file can be sent
2 import timing broken.json => it contains no tab
2 import pcap missing.pcap => cannot read missing.pcap: No such file
2 import pcap empty => it is neither pcap nor pcapng
2 import pcap binary => let `editcap -F pcapng` convert it
2 import pcap - => write it to a file first
"#;

#[test]
fn mistakes_in_links_and_imports_are_explained() {
    make(ABOUT_LINKS_AND_IMPORTS);
}

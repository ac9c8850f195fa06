//! Each load generator against a real nginx: as many rows as requests, all answered, with plausible times.

use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use squall_base::plan::Protocol;
use squall_base::record::{Outcome, RequestRecord};
use squall_base::{Bytes, Duration, Rate};
use squall_linux::other_programs::ProcessorUse;
use squall_linux::shared::SharedCounters;
use squall_peers::client::{
    Client, ClientDriver, ClientLoad, ClientOrder, ClientReport, LoadEnd, client,
};
use squall_peers::{InstalledProgram, Refusal, Version};
use tempfile::TempDir;

use crate::support::{
    NAME, PATIENCE, alone, certificate, free_address, have, known, say_disturbed, search, seat,
    server, skip, start,
};

const REQUESTS: u64 = 200;
/// Between two requests of a load at a rate.
const INTERVAL: Duration = Duration::from_millis(5);
/// From the first to the last of them.
const SPAN: Duration = Duration::from_millis(995);
/// Programs schedule their requests to a few milliseconds, and the first one may be late.
const SPAN_AT_LEAST: Duration = Duration::from_millis(900);
/// How long a load at a rate is repeated if other work makes it late.
const REPEAT_FOR: Duration = Duration::from_secs(60);

fn order(folder: &Path, name: &str, protocol: Protocol, load: ClientLoad) -> ClientOrder {
    ClientOrder {
        name: name.to_owned(),
        target: free_address(),
        server_name: NAME.to_owned(),
        protocol,
        method: "POST".to_owned(),
        path: "/answer".to_owned(),
        headers: vec![("x-test".to_owned(), "a b".to_owned())],
        body: Bytes::new(3_000),
        load,
        page: None,
        pin: None,
        trust: protocol.is_secure().then(|| certificate().chain),
        folder: folder.join(name),
    }
}

fn closed(connections: u32, streams: u32) -> ClientLoad {
    ClientLoad::Closed {
        connections,
        streams,
        end: LoadEnd::Requests(REQUESTS),
    }
}

/// 200 requests within a second.
fn rate(connections: u32) -> ClientLoad {
    let second = Duration::from_secs(1);
    ClientLoad::Rate {
        rate: Rate::new(REQUESTS, second).expect("what the test itself makes"),
        duration: second,
        connections,
    }
}

fn found(driver: &dyn ClientDriver) -> Option<InstalledProgram> {
    match driver.find(&search()) {
        Ok(found) => Some(found),
        Err(missing) => {
            skip(&missing.to_string());
            None
        }
    }
}

/// Runs a load generator against nginx, and checks what every program must report in its rows.
fn run(
    driver: &dyn ClientDriver,
    found: &InstalledProgram,
    mut order: ClientOrder,
    body_bytes: u64,
) -> Option<ClientReport> {
    let nginx = known("nginx")?;
    let folder = order.folder.clone();
    let station = server(&folder, "nginx", order.protocol, body_bytes);
    order.target = station.listen;
    let _running = start((nginx.0, &nginx.1), station);
    let unix_ns = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("what the test itself makes")
            .as_nanos() as u64
    };
    let (name, protocol, load) = (order.name.clone(), order.protocol, order.load);
    let began = unix_ns();
    let client = Client::new(driver, found, order).unwrap_or_else(|refusal| panic!("{refusal}"));
    let client = client.start(None).unwrap_or_else(|error| panic!("{error}"));
    let finished = client
        .finish(Instant::now() + PATIENCE)
        .unwrap_or_else(|error| panic!("{error}"));
    let ended = unix_ns();
    let what = format!("{name} over {protocol}, {load:?}: {}", finished.exit);
    let rows = finished.rows.len() as u64;
    assert_eq!(
        (finished.readout.rows, finished.expected_requests),
        (rows, Some(REQUESTS)),
        "{what}"
    );
    let (rows_and_dropped, is_cut_off) =
        (rows + finished.readout.dropped, finished.readout.is_cut_off);
    assert!(!is_cut_off && rows > 0, "{what}: {rows} rows");
    match load {
        ClientLoad::Rate { .. } => assert!(rows_and_dropped <= REQUESTS, "{what}: {rows} rows"),
        ClientLoad::Closed { .. } => {
            assert_eq!((rows, rows_and_dropped), (REQUESTS, REQUESTS), "{what}");
        }
    }
    for row in &finished.rows {
        assert_eq!(
            (row.outcome, row.status),
            (Outcome::Answered, Some(200)),
            "{what}: {row:?}"
        );
        assert_eq!(row.request_body_bytes, 3_000, "{what}: {row:?}");
        // Logs have a resolution of microseconds.
        let (intended, end) = (row.intended.as_nanos(), row.end.as_nanos());
        assert!(
            began <= intended + 1_000 && intended < end && end <= ended + 1_000,
            "{what}: {began} {row:?} {ended}"
        );
        check_order(row, &what);
    }
    Some(finished)
}

/// By how much the program was late, by its own account: the last requests of a load that began late are due after its end and
/// not sent, and those that it catches up with are closer together.
fn lateness(finished: &ClientReport) -> Duration {
    let due = || finished.rows.iter().map(|row| row.intended);
    let span = due().min().zip(due().max());
    let span = span.map_or(Duration::ZERO, |(first, last)| last.since(first));
    let is_in_time = finished.rows.len() as u64 == REQUESTS && span >= SPAN_AT_LEAST;
    if is_in_time {
        return Duration::ZERO;
    }
    let unsent = REQUESTS.saturating_sub(finished.rows.len() as u64);
    let unsent = Duration::from_nanos(unsent * INTERVAL.as_nanos());
    unsent.max(SPAN - span)
}

/// Runs a load. At a rate the program must send all of its requests, 199 intervals apart; a single burst would take no time.
///
/// A program that had to wait for a processor is late, but by no more than the processor time that other work took meanwhile;
/// such a load is repeated. Any other lateness is a failure, and so is a load that is late each time for a minute.
fn run_at_its_rate(
    load: ClientLoad,
    run: impl Fn() -> Option<ClientReport>,
) -> Option<ClientReport> {
    if matches!(load, ClientLoad::Closed { .. }) {
        let _seat = seat();
        return run();
    }
    let _machine = alone();
    let began = Instant::now();
    loop {
        let before = other_work();
        let finished = run()?;
        let (late, taken) = (lateness(&finished), taken_since(before));
        if late == Duration::ZERO {
            return Some(finished);
        }
        let said = format!(
            "{load:?}: {} requests, late by {late:?}; other work took {taken:?} of the processors",
            finished.rows.len()
        );
        assert!(late <= taken, "{said}");
        let is_over = began.elapsed() > REPEAT_FOR.into();
        assert!(!is_over, "late each time: {said}");
        say_disturbed(&said);
    }
}

/// The processor time that programs outside of this process, and the hypervisor, have used.
type OtherWork = (Option<ProcessorUse>, SharedCounters);

fn other_work() -> OtherWork {
    (
        ProcessorUse::read(std::process::id()),
        SharedCounters::read(),
    )
}

/// The processor time that other work has used since.
fn taken_since(before: OtherWork) -> Duration {
    let (programs, shared) = other_work();
    let programs = programs
        .zip(before.0)
        .map(|(now, before)| now.of_others_since(before));
    let stolen = shared.since(before.1).stolen;
    programs.unwrap_or_default() + stolen.unwrap_or_default()
}

fn check_order(row: &RequestRecord, what: &str) {
    let marks = [
        Some(row.intended),
        row.connected,
        row.secured,
        row.slot,
        row.written_first,
        row.written_last,
        row.answered_first,
        row.headers,
        Some(row.end),
    ];
    let marks: Vec<_> = marks.into_iter().flatten().collect();
    // Each duration is rounded separately.
    let is_ordered =
        |pair: &[squall_base::Time]| pair[0].since(pair[1]) <= Duration::from_micros(2);
    assert!(marks.windows(2).all(is_ordered), "{what}: {row:?}");
}

/// Runs every load over every protocol that the client does not refuse.
fn check(
    name: &str,
    loads: &[ClientLoad],
    protocols: &[Protocol],
    checks: impl Fn(&ClientReport, Protocol, ClientLoad),
) {
    if !have(&["nginx", "openssl"]) {
        return;
    }
    let driver = client(name).expect("squall knows it");
    let Some(found) = found(driver) else { return };
    for &protocol in protocols {
        for &load in loads {
            let finished = run_at_its_rate(load, || {
                let folder = TempDir::new().expect("what the test itself makes");
                let mut order = order(folder.path(), name, protocol, load);
                if name == "h2load" {
                    order.trust = None;
                }
                run(driver, &found, order, 700)
            });
            if let Some(finished) = finished {
                checks(&finished, protocol, load);
            }
        }
    }
}

use Protocol::{H1, H1s, H2, H2c};

#[test]
fn h2load_reports_each_request() {
    check(
        "h2load",
        &[closed(4, 1), rate(4)],
        &[H1, H1s, H2c, H2],
        |finished, _, _| {
            assert!(
                finished
                    .rows
                    .iter()
                    .all(|row| row.slot == Some(row.intended) && row.answered_first.is_none())
            );
        },
    );
    check("h2load", &[closed(2, 10)], &[H2c, H2], |_, _, _| {});
}

#[test]
fn k6_reports_each_request() {
    check(
        "k6",
        &[closed(4, 1), rate(200)],
        &[H1, H1s, H2],
        |finished, protocol, _| {
            assert!(
                finished
                    .rows
                    .iter()
                    .all(|row| row.answered_first.is_some() && row.written_last.is_some())
            );
            // Each user that has sent a request opened its own connection. k6 drops a request for which it has no free user, so
            // there are as many users as requests.
            let opened = finished
                .rows
                .iter()
                .filter(|row| row.opened_connection)
                .count();
            assert!((1..=200).contains(&opened), "{opened} connections");
            let secured = finished
                .rows
                .iter()
                .filter(|row| row.secured.is_some())
                .count();
            assert_eq!(secured, if protocol.is_secure() { opened } else { 0 });
        },
    );
}

#[test]
fn fortio_reports_each_request() {
    check(
        "fortio",
        &[closed(4, 1), rate(4)],
        &[H1, H1s, H2c, H2],
        |finished, _, _| {
            let mut users: Vec<u32> = finished.rows.iter().map(|row| row.user).collect();
            users.sort_unstable();
            users.dedup();
            assert_eq!(users, [0, 1, 2, 3]);
        },
    );
}

#[test]
fn curl_reports_each_request() {
    let checks = |finished: &ClientReport, _, load: ClientLoad| {
        assert!(
            finished
                .rows
                .iter()
                .all(|row| row.response_body_bytes == 700 && row.answered_first.is_some())
        );
        let opened = finished
            .rows
            .iter()
            .filter(|row| row.opened_connection)
            .count() as u32;
        assert!(
            (1..=load.connections() + 1).contains(&opened),
            "{opened} connections"
        );
    };
    check(
        "curl",
        &[closed(1, 1), closed(4, 1), rate(1)],
        &[H1, H1s, H2],
        checks,
    );
    check("curl", &[closed(1, 10)], &[H2], checks);
}

/// Requests without a response are rows too, as far as the program reports them.
#[test]
fn requests_to_an_unreachable_server_get_an_outcome() {
    let _seat = seat();
    for name in ["k6", "fortio", "curl"] {
        let driver = client(name).expect("squall knows it");
        let Some(found) = found(driver) else { continue };
        let folder = TempDir::new().unwrap();
        let load = ClientLoad::Closed {
            connections: 1,
            streams: 1,
            end: LoadEnd::Requests(3),
        };
        let order = order(folder.path(), name, H1, load);
        let run = Client::new(driver, &found, order)
            .unwrap()
            .start(None)
            .unwrap();
        let finished = run
            .finish(Instant::now() + PATIENCE)
            .unwrap_or_else(|error| panic!("{error}"));
        for row in &finished.rows {
            assert_ne!(row.outcome, Outcome::Answered, "{name}: {row:?}");
            assert!(
                row.status.is_none() && row.error.is_some(),
                "{name}: {row:?}"
            );
        }
        println!(
            "{name}: {} rows of 3, {}",
            finished.rows.len(),
            finished.exit
        );
        assert!(
            name == "fortio" || finished.rows.len() == 3,
            "{name}: {} rows, {}",
            finished.rows.len(),
            finished.exit
        );
        if name != "fortio" {
            assert!(
                finished
                    .rows
                    .iter()
                    .all(|row| row.outcome == Outcome::ConnectFailed),
                "{name}: {:?}",
                finished.rows
            );
        }
    }
}

#[test]
fn impossible_loads_are_refused() {
    let folder = Path::new("/nowhere");
    let h3 = order(folder, "c", Protocol::H3, closed(1, 1));
    let pipelined = order(folder, "c", H1, closed(1, 2));
    let mut braces = order(folder, "c", H1, closed(1, 1));
    braces.path = "/{a}".to_owned();
    let forever = ClientLoad::Closed {
        connections: 1,
        streams: 1,
        end: LoadEnd::After(Duration::from_secs(1)),
    };
    let mut smuggled = order(folder, "c", H1, closed(1, 1));
    smuggled.headers = vec![("a".to_owned(), "b\r\nc: d".to_owned())];
    for (name, order, said) in [
        ("h2load", &h3, "cannot speak h3"),
        (
            "k6",
            &order(folder, "c", H2c, closed(1, 1)),
            "cannot speak h2c",
        ),
        ("h2load", &pipelined, "pipeline"),
        ("k6", &pipelined, "1 stream"),
        ("fortio", &pipelined, "1 stream"),
        ("curl", &pipelined, "1 request at a time"),
        ("curl", &order(folder, "c", H1, rate(2)), "1 connection"),
        (
            "curl",
            &order(folder, "c", H1, forever),
            "cannot limit the duration",
        ),
        ("curl", &order(folder, "c", H2, closed(301, 1)), "300"),
        ("curl", &braces, "braces"),
        (
            "h2load",
            &order(folder, "c", H1, closed(201, 1)),
            "as many requests as connections",
        ),
        (
            "h2load",
            &order(folder, "c", H2, closed(1, 1)),
            "never checks certificates",
        ),
        ("curl", &smuggled, "header fields"),
    ] {
        let refused: Result<_, Refusal> = client(name).unwrap().render(order, &Default::default());
        let error = refused.expect_err(said).to_string();
        assert!(error.contains(said) && error.contains(name), "{error}");
    }
}

/// Every user of the machine can read the arguments of a program.
#[test]
fn secrets_are_passed_as_arguments_only_if_the_program_takes_them_nowhere_else() {
    let rendered = |name: &str, path: &str, field: (&str, &str)| {
        let mut order = order(Path::new("/nowhere"), "c", H1, closed(1, 1));
        order.path = path.to_owned();
        order.headers.push((field.0.to_owned(), field.1.to_owned()));
        let rendered = client(name).unwrap().render(&order, &Version::default());
        let invocation = rendered.unwrap_or_else(|refusal| panic!("{refusal}"));
        let arguments: Vec<_> = (invocation.arguments.iter())
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect();
        (arguments.join(" "), invocation.warning)
    };
    let (header, query) = (("cookie", "a=hidden-1"), "/?token=hidden-2");
    for (name, path, field, shown) in [
        ("curl", query, header, None),
        ("k6", query, header, None),
        (
            "h2load",
            query,
            header,
            Some("header fields only as arguments"),
        ),
        ("h2load", query, ("accept", "*/*"), None),
        (
            "fortio",
            query,
            header,
            Some("header fields and URLs only as arguments"),
        ),
        (
            "fortio",
            query,
            ("accept", "*/*"),
            Some("fortio takes URLs only as arguments"),
        ),
        ("fortio", "/", ("accept", "*/*"), None),
    ] {
        let (arguments, warning) = rendered(name, path, field);
        assert_eq!(arguments.contains("hidden"), shown.is_some(), "{arguments}");
        match (&warning, shown) {
            (None, None) => {}
            (Some(warning), Some(shown)) => assert!(warning.contains(shown), "{warning}"),
            _ => panic!("{name}: {warning:?}"),
        }
    }
}

/// curl 7.88, the version in Debian 12, cannot use an h2c connection twice; later versions can.
#[test]
fn curl_version_that_cannot_reuse_h2c_is_refused() {
    let curl = client("curl").unwrap();
    let order = order(Path::new("/nowhere"), "curl", H2c, closed(1, 1));
    let version = |text: &str, numbers| Version {
        text: text.to_owned(),
        numbers,
    };
    let refused = curl.render(&order, &version("7.88.1", [7, 88, 1]));
    let error = refused.expect_err("it fails").to_string();
    assert!(
        error.contains("7.88.1") && error.contains("8.0.0"),
        "{error}"
    );
    assert!(curl.render(&order, &version("8.5.0", [8, 5, 0])).is_ok());
}

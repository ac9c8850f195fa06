//! How the floods of `hostile` end, for clients that read responses and for those that do not. Each is rejected with the
//! correct response or error code, or times out after making no progress for the idle timeout, or lasts until its client
//! stops. Memory stays bounded, and the access log has a line for each exchange that has begun.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use squall_base::Time;

use crate::bounded::check_each;
use crate::hostile::{Attack, MOST_KIB, Wire, http1_attacks, http2_attacks};
use crate::serving::Serving;

/// `--idle-timeout`, as text and as a duration.
const IDLE: &str = "2s";
const IDLE_TIME: Duration = Duration::from_secs(2);

/// The time within which each flood ends on a busy machine: the server looks for idle connections once a second, and
/// keeps reading for 5 s from a client that it has rejected.
const MOST: Duration = Duration::from_secs(15);

/// How long a permitted flood runs: longer than the idle timeout plus the interval of the idle check.
const FOR_NOW: Duration = Duration::from_secs(4);

/// How long a client sends at full speed; after that it pauses 1 ms each time, to leave CPU time to others.
const FULL_SPEED: Duration = Duration::from_millis(500);

/// The number of floods that run in parallel.
const AT_ONCE: usize = 12;

/// How much of a response is kept.
const KEPT_BYTES: usize = 4_096;

/// GOAWAY codes (RFC 9113, section 7).
const INTERNAL_ERROR: u32 = 0x2;
const ENHANCE_YOUR_CALM: u32 = 0xb;

/// How a flood ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// A response with this status, after which the server closes.
    Status(u16),
    /// A GOAWAY with this code.
    GoAway(u32),
    /// The connection ends without an error message.
    Closed,
    /// As `Closed` or with ENHANCE_YOUR_CALM, depending on whether the client reads fast enough to be sent responses.
    ClosedOrCalm,
    /// The idle timeout, after no progress.
    Idle,
    /// The client stops; the server would have let it continue.
    Client,
}
use End::{Client, Closed, ClosedOrCalm, GoAway, Idle, Status};

/// The access log lines of a client's exchanges, after the protocol.
#[derive(Clone, Copy, Debug)]
enum Lines {
    Nothing,
    /// One line with this beginning.
    One(&'static str),
    /// A number of lines in this range, each with one of these beginnings.
    Many(usize, usize, &'static [&'static str]),
}

/// Requests that arrived only in part, and requests that were rejected.
const UNFINISHED_POST: Lines = Lines::One("\"POST /\" - ");
const NO_HEAD: Lines = Lines::One("\"- -\" - 0 0 ");
const REFUSED_HEAD: Lines = Lines::One("\"- -\" 400 0 0 ");
const REFUSED_POST: Lines = Lines::One("\"POST /\" 400 0 0 ");
/// With a response, or without.
const GETS: &[&str] = &["\"GET /\" 200 0 8 ", "\"GET /\" - 0 "];
/// The last read may end within a head, which then stays incomplete.
const HALF: &str = "\"- -\" - 0 0 ";
const GETS_AND_HALF: &[&str] = &[GETS[0], GETS[1], HALF];
const UNANSWERED_AND_HALF: &[&str] = &[GETS[1], HALF];

/// The expected result of each attack.
fn expected(name: &str) -> (End, Lines) {
    // SETTINGS_MAX_CONCURRENT_STREAMS: streams beyond it are refused and are not exchanges, and too many of them are a
    // flood. So are 1,000 resets in a burst and 33 a second; frames that arrived with those are still processed
    // (nghttp2's own limits).
    const STREAMS: usize = 100;
    const RESETS: usize = 1_000;
    const MANY: usize = 10_000;
    // `h1::MAX_PIPELINED`, and the one that exceeds it.
    const PIPELINED: usize = 1_024 + 1;
    match name {
        "endless field" | "endless fields" | "endless target" => (Status(400), REFUSED_HEAD),
        "empty lines" => (Idle, Lines::Nothing),
        "a giant chunk" | "chunks of one byte" => (Client, UNFINISHED_POST),
        "endless extension" | "endless trailers" => (Status(400), REFUSED_POST),
        "requests without end" => {
            let gets = &["\"GET /?size=1MiB\" ", "\"- -\" "];
            (Status(400), Lines::Many(PIPELINED, MANY, gets))
        }
        "answers that wait" => {
            let gets = &["\"GET /?delay=1h\" - 0 0 ", "\"- -\" - 0 0 "];
            (Client, Lines::Many(PIPELINED, PIPELINED, gets))
        }
        "fields in CONTINUATION" | "empty CONTINUATION" => (Closed, NO_HEAD),
        // The bomb's stream counts towards STREAMS until its reset is sent, and all other requests may arrive before that.
        "a bomb of HPACK" => (
            GoAway(ENHANCE_YOUR_CALM),
            Lines::Many(STREAMS, MANY, GETS_AND_HALF),
        ),
        "DATA of one byte" => (Client, UNFINISHED_POST),
        "empty DATA" => (GoAway(ENHANCE_YOUR_CALM), UNFINISHED_POST),
        "no window" => (
            GoAway(ENHANCE_YOUR_CALM),
            Lines::Many(STREAMS, STREAMS + 1, UNANSWERED_AND_HALF),
        ),
        "answers unread" => (
            GoAway(ENHANCE_YOUR_CALM),
            Lines::Many(STREAMS, MANY, GETS_AND_HALF),
        ),
        "rapid reset" => (
            GoAway(INTERNAL_ERROR),
            Lines::Many(RESETS, MANY, GETS_AND_HALF),
        ),
        "SETTINGS" | "PING" => (ClosedOrCalm, Lines::Nothing),
        "PRIORITY" | "WINDOW_UPDATE" => (GoAway(ENHANCE_YOUR_CALM), Lines::Nothing),
        _ => panic!("nothing is known of {name:?}"),
    }
}

/// Whether a client reads what it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ears {
    Open,
    Deaf,
}

/// The listener, and whether it speaks TLS.
type Listener = (&'static str, bool);

struct Flood {
    attack: Attack,
    listener: Listener,
    ears: Ears,
    /// How many bytes to receive per piece before the next is sent.
    awaits: usize,
}

/// The outcome of a flood.
struct Ended {
    client: SocketAddr,
    took: Duration,
    /// Whether the server ended it.
    by_server: bool,
    heard: ReceivedBytes,
}

/// What a reading client received.
#[derive(Default)]
struct ReceivedBytes {
    /// The total number of bytes.
    len: usize,
    /// The last bytes received; for HTTP/2, only the incomplete frame.
    last: Vec<u8>,
    /// The GOAWAY code.
    goaway: Option<u32>,
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("four bytes"))
}

impl ReceivedBytes {
    fn add(&mut self, bytes: &[u8], is_http2: bool) {
        self.len += bytes.len();
        self.last.extend(bytes);
        if !is_http2 {
            let rest = self.last.len().saturating_sub(KEPT_BYTES);
            self.last.drain(..rest);
            return;
        }
        let mut at = 0;
        while let Some([l0, l1, l2, kind]) = self.last.get(at..at + 4) {
            let len = 9 + word(&[0, *l0, *l1, *l2]) as usize;
            let Some(frame) = self.last.get(at..at + len) else {
                break;
            };
            if *kind == 7 {
                self.goaway = Some(word(&frame[13..17]));
            }
            at += len;
        }
        self.last.drain(..at);
    }
}

/// Moves bytes in both directions without blocking.
struct Pump<'a> {
    wire: &'a mut Wire,
    is_http2: bool,
    ears: Ears,
    unsent: Vec<u8>,
    heard: ReceivedBytes,
}

impl Pump<'_> {
    fn say(&mut self, mut bytes: &[u8]) {
        let Some(tls) = &mut self.wire.tls else {
            self.unsent.extend(bytes);
            return;
        };
        while !bytes.is_empty() {
            let taken = tls.encrypt(bytes, Time::ZERO);
            bytes = &bytes[taken..];
            self.unsent.extend(tls.output());
            tls.advance_output(tls.output().len());
        }
    }

    /// Writes and reads as much as possible. Returns whether anything moved; an error means the connection has ended.
    fn turn(&mut self) -> std::io::Result<bool> {
        let mut has_moved = false;
        if !self.unsent.is_empty() {
            match self.wire.stream.write(&self.unsent) {
                Ok(len) => {
                    self.unsent.drain(..len);
                    has_moved = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => {
                    self.hear_the_rest();
                    return Err(error);
                }
            }
        }
        if self.ears == Ears::Open {
            has_moved |= self.hear()?;
        }
        Ok(has_moved)
    }

    fn hear(&mut self) -> std::io::Result<bool> {
        let mut piece = [0; 65_536];
        let len = match self.wire.stream.read(&mut piece) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        let (heard, is_http2) = (&mut self.heard, self.is_http2);
        match &mut self.wire.tls {
            None => heard.add(&piece[..len], is_http2),
            Some(tls) => {
                let received = tls.receive(&piece[..len], |_, record| {
                    heard.add(record.bytes, is_http2);
                });
                received.map_err(std::io::Error::other)?;
            }
        }
        Ok(true)
    }

    /// When writing fails, a response may still be waiting to be read.
    fn hear_the_rest(&mut self) {
        while self.ears == Ears::Open && matches!(self.hear(), Ok(true)) {}
    }
}

impl Flood {
    fn name(&self) -> String {
        let (listener, _) = self.listener;
        format!("{listener}, {:?}: {}", self.ears, self.attack.name)
    }

    fn is_http2(&self) -> bool {
        self.listener.0 != "h1"
    }

    /// Runs the flood until the server ends it, or for `most`.
    fn carry_out(&self, serving: &Serving, most: Duration) -> Ended {
        let (kind, is_secure) = self.listener;
        let address = serving.address(kind);
        let mut wire = if is_secure {
            Wire::secure(address)
        } else {
            Wire::plain(address)
        };
        let client = wire.stream.local_addr().expect("an address");
        wire.stream.set_nonblocking(true).expect("an option");
        let mut pump = Pump {
            wire: &mut wire,
            is_http2: self.is_http2(),
            ears: self.ears,
            unsent: Vec::new(),
            heard: ReceivedBytes::default(),
        };
        let began = Instant::now();
        pump.say(&self.attack.opening);
        let (mut n, mut due, mut by_server) = (0, 0, false);
        while !by_server && began.elapsed() < most {
            let mut is_fast = true;
            if pump.unsent.is_empty() && pump.heard.len >= due {
                pump.say(&(self.attack.again)(n));
                n += 1;
                due += self.awaits;
                is_fast = began.elapsed() < FULL_SPEED;
            }
            match pump.turn() {
                Ok(true) if is_fast => {}
                Ok(_) => thread::sleep(Duration::from_millis(1)),
                Err(_) => by_server = true,
            }
        }
        let heard = pump.heard;
        // It may be closed already.
        let _ = wire.stream.shutdown(Shutdown::Both);
        Ended {
            client,
            took: began.elapsed(),
            by_server,
            heard,
        }
    }
}

fn floods(listener: Listener, attacks: fn() -> Vec<Attack>) -> Vec<Flood> {
    let mut floods = Vec::new();
    for ears in [Ears::Open, Ears::Deaf] {
        let of = |attack| Flood {
            attack,
            listener,
            ears,
            awaits: 0,
        };
        floods.extend(attacks().into_iter().map(of));
    }
    floods
}

/// Runs each flood against its own server.
fn check(floods: &[Flood]) {
    check_each(floods, AT_ONCE, |flood, home| {
        let (end, lines) = expected(flood.attack.name);
        check_one(flood, home, end, lines);
    });
}

fn check_one(flood: &Flood, home: &Path, end: End, lines: Lines) {
    let name = flood.name();
    let path = home.join("access.log");
    let log = path.to_str().expect("UTF-8");
    let arguments = ["--sink", "--idle-timeout", IDLE, "--access-log", log];
    let serving = Serving::start(&["h1", "h2c", "h2"], &arguments);
    let most = if end == Client { FOR_NOW } else { MOST };
    let ended = flood.carry_out(&serving, most);
    let peak_kib = serving.peak_kib();
    serving.check_ends_well();
    eprintln!("{name}: {:?}, {peak_kib} KiB", ended.took);
    assert!(peak_kib < MOST_KIB, "{name}: {peak_kib} KiB");
    check_end(&name, flood.ears, end, &ended);
    let log = fs::read_to_string(path).expect("the access log");
    let of_it = format!(" {} {} ", ended.client, flood.listener.0);
    let found: Vec<&str> = log
        .lines()
        .filter_map(|line| Some(line.split_once(&of_it)?.1))
        .collect();
    check_lines(&name, lines, &found);
}

fn check_end(name: &str, ears: Ears, end: End, ended: &Ended) {
    let Ended {
        took,
        by_server,
        heard,
        ..
    } = ended;
    assert_eq!(*by_server, end != Client, "{name}: after {took:?}");
    // The idle timeout runs from the start of the connection, before the flood.
    let is_early = *took < IDLE_TIME - FULL_SPEED;
    assert!(end != Idle || !is_early, "{name}: {took:?}");
    if ears == Ears::Deaf {
        return;
    }
    let said = String::from_utf8_lossy(&heard.last);
    match end {
        Status(status) => {
            let head = format!("HTTP/1.1 {status} ");
            assert!(said.contains(&head), "{name}: {said:?}");
        }
        GoAway(code) => assert_eq!(heard.goaway, Some(code), "{name}"),
        Closed => assert_eq!(heard.goaway, None, "{name}"),
        // A GOAWAY without error may be lost, because the socket is closed right after it.
        Idle => assert!(matches!(heard.goaway, None | Some(0)), "{name}"),
        ClosedOrCalm => assert!(
            matches!(heard.goaway, None | Some(ENHANCE_YOUR_CALM)),
            "{name}"
        ),
        Client => assert_eq!(heard.goaway, None, "{name}"),
    }
}

fn check_lines(name: &str, lines: Lines, found: &[&str]) {
    let (least, most, words) = match lines {
        Lines::Nothing => (0, 0, &[][..]),
        Lines::One(word) => (1, 1, &[word][..]),
        Lines::Many(least, most, words) => (least, most, words),
    };
    let count = found.len();
    assert!((least..=most).contains(&count), "{name}: {count} lines");
    let is_other = |line: &&&str| !words.iter().any(|word| line.starts_with(word));
    let other = found.iter().find(is_other);
    assert_eq!(other, None, "{name}");
}

#[test]
fn http1_floods_end_as_expected() {
    check(&floods(("h1", false), http1_attacks));
}

#[test]
fn http2_floods_end_as_expected() {
    check(&floods(("h2c", false), http2_attacks));
}

#[test]
fn http2_floods_over_tls_end_as_expected() {
    check(&floods(("h2", true), http2_attacks));
}

/// The attack with this name.
fn find(name: &str) -> Attack {
    let mut attacks = http2_attacks().into_iter();
    let found = attacks.find(|attack| attack.name == name);
    found.expect("there is one")
}

/// Waiting for acknowledgements does not count as progress, neither by itself nor for an earlier request that has no window.
/// A slow client may go on until the idle timeout; one at full speed uses up its allowance of frames.
#[test]
fn client_that_only_pings_makes_no_progress() {
    // 100 acknowledgements, of 17 or 9 bytes.
    const PINGS: usize = 1_700;
    const SETTINGS: usize = 900;
    const PING: usize = 17;
    let mut floods = Vec::new();
    for listener in [("h2c", false), ("h2", true)] {
        let no_window = find("no window");
        let opening = [no_window.opening, (no_window.again)(0)].concat();
        let waits = |name| Attack {
            name,
            opening: opening.clone(),
            ..find("PING")
        };
        let slowly = |attack: Attack| Attack {
            again: |_| {
                thread::sleep(Duration::from_millis(10));
                [&[0, 0, 8, 6, 0, 0, 0, 0, 0][..], &[0; 8]].concat()
            },
            ..attack
        };
        let unanswered = Lines::One(GETS[1]);
        let calm = GoAway(ENHANCE_YOUR_CALM);
        for (attack, awaits, end, lines) in [
            (find("PING"), PINGS, calm, Lines::Nothing),
            (find("SETTINGS"), SETTINGS, calm, Lines::Nothing),
            (waits("PING while a request waits"), PINGS, calm, unanswered),
            (slowly(find("PING")), PING, Idle, Lines::Nothing),
            (
                slowly(waits("slow PING while a request waits")),
                PING,
                Idle,
                unanswered,
            ),
        ] {
            let flood = Flood {
                attack,
                listener,
                ears: Ears::Open,
                awaits,
            };
            floods.push((flood, end, lines));
        }
    }
    check_each(&floods, AT_ONCE, |(flood, end, lines), home| {
        check_one(flood, home, *end, *lines);
    });
}

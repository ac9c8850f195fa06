//! How the floods of `hostile` end, of clients that read what they are told and of those that do not: each is refused with
//! the answer or the code that is due, or given up once nothing has got on for the idle timeout, or goes on for as long as
//! its client likes; in bounded memory, and with a line of the access log for each exchange that has begun.

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

/// `--idle-timeout`, and what it is.
const IDLE: &str = "2s";
const IDLE_TIME: Duration = Duration::from_secs(2);

/// Within which each is ended, on a busy machine: what is idle is looked for once a second, and to a client that was told
/// its end the server listens for 5 s more.
const MOST: Duration = Duration::from_secs(15);

/// How long one goes on that may: longer than the idle timeout and the time until it is looked for.
const FOR_NOW: Duration = Duration::from_secs(4);

/// For how long a client sends as fast as it can; then it waits for 1 ms each time, so that others have processors too.
const FULL_SPEED: Duration = Duration::from_millis(500);

/// How many are run at once.
const AT_ONCE: usize = 12;

/// What is kept of an answer.
const KEPT_BYTES: usize = 4_096;

/// Codes of GOAWAY (RFC 9113, section 7).
const INTERNAL_ERROR: u32 = 0x2;
const ENHANCE_YOUR_CALM: u32 = 0xb;

/// How a flood ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// By an answer with this status, after which the server closes.
    Status(u16),
    /// By a GOAWAY with this code.
    GoAway(u32),
    /// By the connection's end without a word.
    Closed,
    /// By the same, or by the idle timeout, as its client reads fast enough to be answered or not.
    ClosedOrIdle,
    /// By nothing that has got on for the idle timeout.
    Idle,
    /// By the client, which may go on.
    Client,
}
use End::{Client, Closed, ClosedOrIdle, GoAway, Idle, Status};

/// What is in the access log of a client's exchanges, behind the protocol.
#[derive(Clone, Copy, Debug)]
enum Lines {
    Nothing,
    /// One line, which begins so.
    One(&'static str),
    /// From so many to so many, each of which begins in one of these ways.
    Many(usize, usize, &'static [&'static str]),
}

/// Of requests that did not come whole, and of those that were refused.
const UNFINISHED_POST: Lines = Lines::One("\"POST /\" - ");
const NO_HEAD: Lines = Lines::One("\"- -\" - 0 0 ");
const REFUSED_HEAD: Lines = Lines::One("\"- -\" 400 0 0 ");
const REFUSED_POST: Lines = Lines::One("\"POST /\" 400 0 0 ");
/// Answered, or not.
const GETS: &[&str] = &["\"GET /\" 200 0 8 ", "\"GET /\" - 0 "];
/// The last read may end within a head, which the end of the connection then leaves so.
const HALF: &str = "\"- -\" - 0 0 ";
const GETS_AND_HALF: &[&str] = &[GETS[0], GETS[1], HALF];
const UNANSWERED_AND_HALF: &[&str] = &[GETS[1], HALF];

/// What is due to each attack.
fn expected(name: &str) -> (End, Lines) {
    // SETTINGS_MAX_CONCURRENT_STREAMS: streams beyond these are refused, which is no exchange, and too many of them are a
    // flood. So are 1,000 resets at once and 33 a second; what has come with those is read (nghttp2's own limits).
    const STREAMS: usize = 100;
    const RESETS: usize = 1_000;
    const MANY: usize = 10_000;
    // `h1::MAX_PIPELINED`, and the one that is too much.
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
        // The bomb is one of these as long as its reset is not sent, which all others may come before.
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
        "SETTINGS" | "PING" => (ClosedOrIdle, Lines::Nothing),
        "PRIORITY" => (GoAway(ENHANCE_YOUR_CALM), Lines::Nothing),
        "WINDOW_UPDATE" => (Idle, Lines::Nothing),
        _ => panic!("nothing is known of {name:?}"),
    }
}

/// Whether a client reads what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ears {
    Open,
    Deaf,
}

/// The listener, and whether TLS is spoken there.
type Listener = (&'static str, bool);

struct Flood {
    attack: Attack,
    listener: Listener,
    ears: Ears,
    /// How many bytes come of each piece before the next is sent.
    awaits: usize,
}

/// What came of a flood.
struct Ended {
    client: SocketAddr,
    took: Duration,
    /// Whether the server has ended it.
    by_server: bool,
    heard: Heard,
}

/// What a client with open ears was told.
#[derive(Default)]
struct Heard {
    /// How much it was.
    len: usize,
    /// The last of it; frames of HTTP/2 only as long as they are not whole.
    last: Vec<u8>,
    /// The code of GOAWAY.
    goaway: Option<u32>,
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("four bytes"))
}

impl Heard {
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

/// Moves bytes both ways, neither waiting for the other.
struct Pump<'a> {
    wire: &'a mut Wire,
    is_http2: bool,
    ears: Ears,
    unsent: Vec<u8>,
    heard: Heard,
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

    /// Writes and reads what can be; whether any was. An error is the end.
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

    /// Where nothing can be written any more, an answer may still be there to be read.
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

    /// Goes on until the server ends it, or for so long.
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
            heard: Heard::default(),
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

/// Each flood by itself against a server of its own.
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
    // What is progress began with the connection, before the flood.
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
        // GOAWAY of no error may be lost, for the socket is closed with it.
        Idle | ClosedOrIdle => assert!(matches!(heard.goaway, None | Some(0)), "{name}"),
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
fn floods_of_http1_come_to_an_end() {
    check(&floods(("h1", false), http1_attacks));
}

#[test]
fn floods_of_http2_come_to_an_end() {
    check(&floods(("h2c", false), http2_attacks));
}

#[test]
fn floods_of_http2_over_tls_come_to_an_end() {
    check(&floods(("h2", true), http2_attacks));
}

/// The attack with this name.
fn find(name: &str) -> Attack {
    let mut attacks = http2_attacks().into_iter();
    let found = attacks.find(|attack| attack.name == name);
    found.expect("there is one")
}

/// Who waits for each answer may ask again and again, but it is no progress: not of what was asked before either, and for
/// which there is no window.
#[test]
fn whoever_only_pings_is_idle() {
    // 100 times an acknowledgement, of 17 or 9 bytes.
    const PINGS: usize = 1_700;
    const SETTINGS: usize = 900;
    let mut floods = Vec::new();
    for listener in [("h2c", false), ("h2", true)] {
        let no_window = find("no window");
        let opening = [no_window.opening, (no_window.again)(0)].concat();
        let waits = Attack {
            name: "PING and a request without window",
            opening,
            ..find("PING")
        };
        let unanswered = Lines::One(GETS[1]);
        for (attack, awaits, lines) in [
            (find("PING"), PINGS, Lines::Nothing),
            (find("SETTINGS"), SETTINGS, Lines::Nothing),
            (waits, PINGS, unanswered),
        ] {
            let flood = Flood {
                attack,
                listener,
                ears: Ears::Open,
                awaits,
            };
            floods.push((flood, lines));
        }
    }
    check_each(&floods, AT_ONCE, |(flood, lines), home| {
        check_one(flood, home, Idle, *lines);
    });
}

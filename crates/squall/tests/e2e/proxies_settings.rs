//! Settings of `squall proxy`, each side separately: `--set` and `--preset` as its clients see them, `--back-set` and
//! `--back-preset` as its upstream does, and `--like`, which sets both.
//!
//! `settings_applied` tests which side applies which setting, `proxies_lasting` what else `--like` does.

use std::collections::BTreeSet;
use std::fs;

use squall_base::record::{FrameRecord, Way, frame_name};
use squall_record::read_frames;
use tempfile::TempDir;

use crate::proxies::{proxy, url};
use crate::proxies_lasting::listen_in;
use crate::serving::Serving;
use crate::support::{seat, squall, stderr};

/// The length of both bodies: above the protocol's windows, and several DATA frames.
const BODY_BYTES: usize = 100_000;

/// The length of a client's preface (RFC 9113, section 3.4).
const PREFACE_LEN: usize = 24;

const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;

/// What one side of an HTTP/2 connection announced, and how it sent window updates.
#[derive(Debug, Default)]
struct AnnouncedSettings {
    /// Identifiers and values (RFC 9113, section 6.5.2).
    settings: Vec<(u16, u32)>,
    /// Increments of the connection's window, and of stream windows.
    of_connection: Vec<u32>,
    of_streams: Vec<u32>,
}

impl AnnouncedSettings {
    fn setting(&self, id: u16) -> Option<u32> {
        let found = self.settings.iter().find(|(of, _)| *of == id);
        found.map(|(_, value)| *value)
    }
}

/// Parses the frames that a client sent.
fn of_client(bytes: &[u8]) -> AnnouncedSettings {
    let mut seen = AnnouncedSettings::default();
    let mut rest = &bytes[PREFACE_LEN..];
    while let [high, middle, low, kind, flags, id @ ..] = rest.get(..9).unwrap_or(&[]) {
        let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
        let payload = &rest[9..9 + length];
        match (*kind, *flags & ACK) {
            (SETTINGS, 0) => seen.settings.extend(payload.chunks_exact(6).map(|entry| {
                let value = entry[2..].try_into().expect("four bytes");
                (
                    u16::from_be_bytes([entry[0], entry[1]]),
                    u32::from_be_bytes(value),
                )
            })),
            (WINDOW_UPDATE, _) => {
                let increment = payload.try_into().expect("four bytes");
                match id {
                    [0, 0, 0, 0] => &mut seen.of_connection,
                    _ => &mut seen.of_streams,
                }
                .push(u32::from_be_bytes(increment));
            }
            _ => {}
        }
        rest = &rest[9 + length..];
    }
    seen
}

/// What a client and the upstream saw of a proxy.
struct Both {
    /// What the client received.
    front: Vec<FrameRecord>,
    /// What the proxy announced to it: `SETTINGS_MAX_CONCURRENT_STREAMS=100 ...`.
    announced: String,
    back: AnnouncedSettings,
}

impl Both {
    /// Window increments that the client received.
    fn updates(&self, is_of_connection: bool) -> BTreeSet<u64> {
        let rows = self.front.iter().filter(|row| {
            let name = frame_name(row.frame.layer, row.frame.kind);
            name == Some("WINDOW_UPDATE")
                && row.frame.way == Way::Received
                && (row.frame.stream == Some(0)) == is_of_connection
        });
        rows.filter_map(|row| row.frame.value).collect()
    }

    /// Whether the proxy announced this to the client.
    fn has_announced(&self, word: &str) -> bool {
        let word = format!("SETTINGS_{word}");
        self.announced.split(' ').any(|found| found == word)
    }
}

/// One upload and its long response, over HTTP/2 on both sides of a proxy with these flags.
fn exchange(flags: &[&str]) -> Both {
    let home = TempDir::new().expect("a temporary folder");
    fs::write(home.path().join("up"), [b'x'; BODY_BYTES]).expect("it is written");
    let server = Serving::start(&["h2c"], &[]);
    let (between, heard) = listen_in(server.address("h2c"));
    let proxy = proxy(&["h2c"], "h2c", between, flags);
    let target = format!("{}/?size={BODY_BYTES}", url("h2c", proxy.address("h2c")));
    let output = squall(home.path())
        .args(["load", "-n", "1", "--http", "2", "-d", "up"])
        .args(["--frames-to", "frames", "--json", "load.json", &target])
        .output()
        .expect("squall starts");
    assert!(output.status.success(), "{flags:?}: {}", stderr(&output));
    proxy.check_ends_well();
    server.check_ends_well();
    let json = fs::read_to_string(home.path().join("load.json")).expect("a summary");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let announced = json["connections"]["settings_received"].as_object();
    let announced = announced.and_then(|found| found.keys().next());
    let [up, _] = heard.join().expect("it was passed on");
    Both {
        front: read_frames(home.path().join("frames")).expect("the frames"),
        announced: announced.expect("the proxy's SETTINGS").clone(),
        back: of_client(&up),
    }
}

#[test]
fn each_side_of_a_proxy_uses_its_own_settings() {
    let _seat = seat();
    let both = exchange(&[
        "--set",
        "http2.stream_window=70000",
        "--set",
        "http2.max_concurrent_streams=33",
        "--set",
        "http2.window_updates.each_data=7777",
        "--back-set",
        "http2.stream_window=50000",
        "--back-set",
        "http2.connection_window=90000",
        "--back-set",
        "http2.max_frame_size=20000",
        "--back-set",
        "http2.window_updates.each_data=9999",
    ]);
    let back = &both.back;
    assert_eq!(back.setting(4), Some(50_000), "{back:?}");
    assert_eq!(back.setting(5), Some(20_000), "{back:?}");
    let (first, rest) = back.of_connection.split_first().expect("updates");
    assert_eq!(*first, 90_000 - 65_535, "{back:?}");
    // Seven DATA frames of at most 16,384 bytes; the stream gets no update after its end.
    for (updates, least) in [(rest, 7), (&back.of_streams, 6)] {
        let are_ours = updates.iter().all(|by| *by == 9_999);
        assert!(updates.len() >= least && are_ours, "{back:?}");
    }

    for word in ["INITIAL_WINDOW_SIZE=70000", "MAX_CONCURRENT_STREAMS=33"] {
        assert!(both.has_announced(word), "{word} in {}", both.announced);
    }
    assert!(
        !both.announced.contains("MAX_FRAME_SIZE=20000"),
        "{}",
        both.announced
    );
    for is_of_connection in [false, true] {
        assert_eq!(both.updates(is_of_connection), BTreeSet::from([7_777]));
    }
}

/// A preset differs by side. nghttpx opens connection windows to 2^31-1 bytes towards backends, but not towards its
/// clients; Go's client uses stream windows of 4 MiB, its server 1 MiB.
#[test]
fn each_side_of_a_proxy_uses_its_own_preset() {
    let _seat = seat();
    const OPENED: u32 = (1 << 31) - 1 - 65_535;
    let both = exchange(&["--preset", "go", "--back-preset", "nghttpx"]);
    assert_eq!(
        both.back.of_connection.first(),
        Some(&OPENED),
        "{:?}",
        both.back
    );
    for word in ["INITIAL_WINDOW_SIZE=1048576", "MAX_CONCURRENT_STREAMS=250"] {
        assert!(both.has_announced(word), "{word} in {}", both.announced);
    }

    let both = exchange(&["--preset", "nghttpx", "--back-preset", "go"]);
    assert_eq!(both.back.setting(4), Some(4 << 20), "{:?}", both.back);
    assert_eq!(
        both.back.of_connection.first(),
        Some(&(1 << 30)),
        "{:?}",
        both.back
    );
    assert!(
        both.has_announced("MAX_CONCURRENT_STREAMS=100"),
        "{}",
        both.announced
    );
    assert!(
        both.updates(true).iter().all(|by| *by < 100_000),
        "{:?}",
        both.updates(true)
    );

    let both = exchange(&["--like", "nghttpx"]);
    assert_eq!(
        both.back.of_connection.first(),
        Some(&OPENED),
        "{:?}",
        both.back
    );
    assert!(
        both.has_announced("MAX_CONCURRENT_STREAMS=100"),
        "{}",
        both.announced
    );
    // A setting for one side overrides what --like sets.
    let both = exchange(&[
        "--like",
        "nghttpx",
        "--back-set",
        "http2.connection_window=90000",
    ]);
    assert_eq!(
        both.back.of_connection.first(),
        Some(&(90_000 - 65_535)),
        "{:?}",
        both.back
    );
}

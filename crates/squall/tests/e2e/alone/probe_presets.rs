//! `squall probe` against `squall serve` with each preset, 30 ms away: it must see the windows, the updates and the stream
//! limit that the preset sets, and predict the rate of the upload where windows limit it.
//!
//! `probe_servers` has the programs that the presets are named after.

use std::ops::RangeInclusive;

use squall_base::Side;
use squall_base::plan::{Http2Settings, Preset, WindowUpdates, presets};
use tempfile::TempDir;

use super::probe_faults::{AT_A_TIME, concurrently};
use super::probe_servers::{SHORT_UPLOAD, probe_fairly};
use crate::real_servers::{USUAL, Way};
use crate::serving::Serving;
use crate::support::{OtherWork, quiet_seat};

/// The largest window (RFC 9113, section 6.9.1).
const LARGEST: u64 = 0x7fff_ffff;
/// A stream window of up to this size limits an upload from 30 ms away before slow start ends.
const SMALL: u64 = 64 << 10;
/// A server that gives back less than a packet at a time sends an update for nearly every DATA frame.
const PACKET: u64 = 1_200;

#[test]
fn probe_sees_windows_updates_and_stream_limit_of_every_preset() {
    let _seat = quiet_seat();
    concurrently(AT_A_TIME, presets().iter().collect(), check);
}

fn check(preset: &Preset) {
    let settings = preset.settings(Side::Server).http2;
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(&["h2c"], &["--sink", "--preset", preset.name]);
    let url = format!("http://localhost:{}/", server.address("h2c").port());
    let upload = upload(&settings);
    let way = Way {
        upload: &upload,
        ..USUAL
    };
    let is_limited = is_limited(&settings);
    let other_work = OtherWork::watch();
    let seen = probe_fairly(home.path(), &url, &way, is_limited);
    let name = format!("squall serve --preset {}", preset.name);
    eprintln!("{}", seen.row(&name, &way));
    let said = format!("{name}: {}", seen.0);
    seen.check_rate(is_limited, &other_work);
    let stream_bytes = settings.stream_window.get();
    assert_eq!(seen.number("stream_bytes"), stream_bytes, "{said}");
    let largest = seen.number("largest_connection_bytes");
    let allowed = connection_bytes(&settings);
    assert!(allowed.contains(&largest), "{allowed:?}, {said}");
    let policies = policies(settings.window_updates);
    assert!(policies.contains(&seen.policy()), "{policies:?}, {said}");
    let streams = seen.setting("MAX_CONCURRENT_STREAMS");
    let expected = u64::from(settings.max_concurrent_streams);
    assert_eq!(streams, Some(expected), "{said}");
}

/// An upload longer than the stream's window, so that an update at half of the window is seen.
fn upload(settings: &Http2Settings) -> String {
    let window = settings.stream_window.get();
    let megabytes = (window + window / 4).div_ceil(1_000_000).max(2);
    format!("{megabytes}MB")
}

/// Whether an upload must wait for windows.
fn is_limited(settings: &Http2Settings) -> bool {
    let is_raised = matches!(settings.window_updates, WindowUpdates::Grant(_));
    settings.stream_window.get() <= SMALL && !is_raised
}

/// The range of the connection's largest window: if the server has not yet returned the credit of the earlier short upload, the
/// window is smaller by that upload.
fn connection_bytes(settings: &Http2Settings) -> RangeInclusive<u64> {
    let window = settings.connection_window.get();
    match settings.window_updates {
        WindowUpdates::Half | WindowUpdates::Every(_) | WindowUpdates::Never => {
            window - SHORT_UPLOAD..=window
        }
        WindowUpdates::Grant(bytes) => {
            let most = (window + bytes.get()).min(LARGEST);
            most - SHORT_UPLOAD..=most
        }
        // Each update may return more than its frame used.
        WindowUpdates::EachData(_) => window - SHORT_UPLOAD..=LARGEST,
    }
}

/// What the probe may call these updates.
fn policies(updates: WindowUpdates) -> &'static [&'static str] {
    match updates {
        WindowUpdates::Half => &["half"],
        WindowUpdates::Every(bytes) if bytes.get() < PACKET => &["each_data"],
        // It depends on how much the server reads at a time.
        WindowUpdates::Every(_) => &["every", "each_data"],
        WindowUpdates::EachData(_) => &["each_data"],
        WindowUpdates::Grant(_) => &["grants"],
        WindowUpdates::Never => &["never", "unseen"],
    }
}

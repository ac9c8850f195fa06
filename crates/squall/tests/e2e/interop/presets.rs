//! `squall serve --preset NAME` announces the preset's values, as seen by nghttp and squall's own client, and behaves
//! accordingly. `announced` checks that the real programs announce the same values; e2e's `records` covers TLS records.

use squall_base::plan::{Http2Settings, presets};
use squall_base::{Bytes, Side};

use crate::interop::support::answer::Request;
use crate::interop::support::content::content;
use crate::interop::support::program::have;
use crate::interop::support::trace::{Frame, frames};
use crate::interop::support::{Http, nghttp2, squall};
use crate::support::seat;

/// The initial HTTP/2 flow-control window (RFC 9113, section 6.9.2).
const INITIAL_WINDOW: u64 = 65_535;
/// SETTINGS_MAX_FRAME_SIZE unless announced (RFC 9113, section 6.5.2).
const INITIAL_FRAME_SIZE: u64 = 16_384;

/// Checks the server's SETTINGS and its first WINDOW_UPDATE on the connection.
fn check_announced(name: &str, seen: &[Frame], settings: &Http2Settings) {
    let said = seen
        .iter()
        .find(|frame| frame.is_received("SETTINGS") && !frame.has_flag("ACK"));
    let said = said.unwrap_or_else(|| panic!("{name}: no SETTINGS in {seen:#?}"));
    let announced = |setting: &str, unless: u64| said.setting(setting).unwrap_or(unless);
    let opened = seen
        .iter()
        .find(|frame| frame.is_received("WINDOW_UPDATE") && frame.stream == 0)
        .map_or(0, Frame::increment);
    let found = (
        announced("MAX_CONCURRENT_STREAMS", u64::MAX),
        announced("INITIAL_WINDOW_SIZE", INITIAL_WINDOW),
        INITIAL_WINDOW + opened,
        announced("MAX_FRAME_SIZE", INITIAL_FRAME_SIZE),
    );
    let bytes = Bytes::get;
    let expected = (
        u64::from(settings.max_concurrent_streams),
        bytes(settings.stream_window),
        bytes(settings.connection_window),
        bytes(settings.max_frame_size),
    );
    assert_eq!(
        found, expected,
        "{name}: streams, stream and connection window, frame size, in {seen:#?}"
    );
}

#[test]
fn server_announces_the_settings_of_its_preset() {
    let _seat = seat();
    if !have(&["nghttp", "openssl"]) {
        return;
    }
    for preset in presets() {
        let server = squall::serve(&["--preset", preset.name]);
        let settings = preset.settings(Side::Server).http2;
        for http in [Http::H2c, Http::H2] {
            let url = server.url(http, "/");
            let request = Request::get(&url);
            let by_nghttp = frames(&nghttp2::frames(&request));
            check_announced(preset.name, &by_nghttp, &settings);
            let by_squall = frames(&squall::fetch(http, &request, &["--verbose"]).stderr);
            check_announced(preset.name, &by_squall, &settings);
        }
    }
}

/// As seen in a frame trace of the load balancer (docs/RECIPES.md): each DATA frame is followed by a window update of
/// 16,375 bytes.
#[test]
fn alb_preset_sends_window_update_of_16375_bytes_per_data_frame() {
    let _seat = seat();
    if !have(&["nghttp", "openssl"]) {
        return;
    }
    let server = squall::serve(&["--preset", "alb", "--sink"]);
    let body = content(1_000_000);
    for http in [Http::H2c, Http::H2] {
        let url = server.url(http, "/");
        let seen = frames(&nghttp2::frames(&Request::post(&url, &body)));
        let sent = seen.iter().filter(|frame| frame.is_sent("DATA")).count();
        let updates = |is_stream: bool| {
            let of = |frame: &&Frame| {
                frame.is_received("WINDOW_UPDATE") && (frame.stream != 0) == is_stream
            };
            seen.iter()
                .filter(of)
                .map(Frame::increment)
                .collect::<Vec<u64>>()
        };
        assert_eq!(
            updates(false),
            vec![16_375; sent],
            "of the connection, {}",
            http.name()
        );
        // After the last DATA frame the stream is closed and needs no update.
        assert_eq!(
            updates(true),
            vec![16_375; sent - 1],
            "of the stream, {}",
            http.name()
        );
    }
}

/// The preset sets the length of a server's DATA frames, even if the client would accept longer ones.
#[test]
fn preset_sets_the_length_of_data_frames() {
    let _seat = seat();
    if !have(&["nghttp", "openssl"]) {
        return;
    }
    for (name, size) in [("nginx", 8_192), ("tomcat", 8_192), ("envoy", 16_384)] {
        let server = squall::serve(&["--preset", name, "--body", "40960"]);
        let url = server.url(Http::H2c, "/");
        let seen = frames(&nghttp2::frames(&Request::get(&url)));
        let data = seen.iter().filter(|frame| frame.is_received("DATA"));
        let lengths: Vec<u64> = data
            .map(|frame| frame.length)
            .filter(|length| *length > 0)
            .collect();
        assert_eq!(lengths.iter().sum::<u64>(), 40_960, "{name}: {lengths:?}");
        assert_eq!(lengths.iter().max(), Some(&size), "{name}: {lengths:?}");
        // One extra frame is allowed: the end of a window or a buffer may split one.
        assert!(
            lengths.len() as u64 <= 40_960_u64.div_ceil(size) + 1,
            "{name}: {lengths:?}"
        );
    }
}

/// Tomcat closes a connection after 100 requests, nginx after 1,000.
#[test]
fn preset_limits_the_requests_per_connection() {
    let _seat = seat();
    if !have(&["openssl"]) {
        return;
    }
    for (name, requests, connections) in [
        ("tomcat", "201", 3),
        ("nginx", "1001", 2),
        ("envoy", "1001", 1),
    ] {
        let server = squall::serve(&["--preset", name]);
        let url = server.url(Http::H1, "/");
        let ended = squall::load_with(&["--http", "1.1", "-c", "1", "-n", requests], &url);
        let printed = String::from_utf8_lossy(&ended.stdout);
        assert_eq!(ended.code, Some(0), "{name}: {printed}{}", ended.stderr);
        let said = format!("\nconnections {connections} TCP\n");
        assert!(printed.contains(&said), "{name}: {printed}");
    }
}

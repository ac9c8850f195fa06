//! `squall serve --preset NAME` announces the values of the preset, as nghttp and squall's own client see it, and acts as
//! they say. That the programs themselves announce them is in `announced`; TLS records are in e2e's `records`.

use squall_base::plan::{Http2Settings, presets};
use squall_base::{Bytes, Side};

use crate::support::answer::Request;
use crate::support::content::content;
use crate::support::program::have;
use crate::support::trace::{Frame, frames};
use crate::support::{Http, nghttp2, squall};

/// The windows that HTTP/2 begins with (RFC 9113, section 6.9.2).
const INITIAL_WINDOW: u64 = 65_535;
/// SETTINGS_MAX_FRAME_SIZE unless it is announced (RFC 9113, section 6.5.2).
const INITIAL_FRAME_SIZE: u64 = 16_384;

/// What a server said of itself before anything else.
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
fn settings_are_those_of_the_preset() {
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
            let by_squall = frames(&squall::fetch(http, &request, &["--verbose"]).said);
            check_announced(preset.name, &by_squall, &settings);
        }
    }
}

/// What a frame trace of the balancer showed (docs/RECIPES.md): after each DATA frame, 16,375 bytes more.
#[test]
fn the_balancer_gives_back_16375_bytes_for_each_frame() {
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
        // After the last frame there is nothing to give back on the stream.
        assert_eq!(
            updates(true),
            vec![16_375; sent - 1],
            "of the stream, {}",
            http.name()
        );
    }
}

/// A server's DATA are as long as its preset has them, whatever the client would take.
#[test]
fn data_frames_are_as_long_as_the_programs() {
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
        // No more of them than that takes, but for one that the end of a window or a buffer cut in two.
        assert!(
            lengths.len() as u64 <= 40_960_u64.div_ceil(size) + 1,
            "{name}: {lengths:?}"
        );
    }
}

/// Tomcat ends a connection after 100 requests, nginx after 1,000.
#[test]
fn connections_carry_as_many_requests_as_the_programs() {
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
        assert_eq!(ended.code, Some(0), "{name}: {printed}{}", ended.said);
        let said = format!("\nconnections {connections} TCP\n");
        assert!(printed.contains(&said), "{name}: {printed}");
    }
}

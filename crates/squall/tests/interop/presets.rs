//! `squall serve --preset NAME` announces what the program of that name does, as nghttp and squall's own client see it.

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

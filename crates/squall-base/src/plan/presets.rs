//! Settings of well-known programs: named values for one side of a hop.
//!
//! Each preset is what the program does by default, with the source of every value that differs from squall's own
//! default. "Seen" means: observed on the wire, with the program and version named. A preset covers the settings alone,
//! never the program's speed, its bugs or how it reads a request's body; real peers exist for those. Parts of a
//! protocol that a program does not speak keep squall's defaults, and so does all of TCP: congestion control and
//! buffers belong to the host, and every one of these programs sets TCP_NODELAY, as the default does.

use super::settings::{
    Http1Settings, Http2Settings, Http3Settings, QuicCongestionControl, RecordSizes, SideSettings,
    TlsSettings, WindowUpdates,
};
use crate::quantity::Bytes;
use crate::side::Side;
use crate::time::Duration;

/// The largest window of HTTP/2 (RFC 9113, section 6.9.1).
const MAX_WINDOW: u64 = (1 << 31) - 1;
const INITIAL_WINDOW: u64 = super::settings::INITIAL_WINDOW.get();
/// The smallest and the largest SETTINGS_MAX_FRAME_SIZE (RFC 9113, section 6.5.2).
const MIN_FRAME: u64 = 16_384;
const MAX_FRAME: u64 = (1 << 24) - 1;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// For programs whose records stay large after the connection was idle.
const NEVER_IDLE: Duration = Duration::from_secs(24 * 3_600);

/// A program's settings, by name.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The program, such as `nginx`.
    pub name: &'static str,
    /// What is special about it, in one line.
    pub says: &'static str,
    server: fn() -> SideSettings,
    /// The client side, where it is known to differ from the server side.
    client: Option<fn() -> SideSettings>,
}

impl Preset {
    /// The program's settings on that side. Where only the server side is known, it is used for both.
    pub fn settings(&self, side: Side) -> SideSettings {
        match (side, self.client) {
            (Side::Client, Some(client)) => client(),
            _ => (self.server)(),
        }
    }
}

/// Every preset.
pub const fn presets() -> &'static [Preset] {
    &PRESETS
}

/// The settings of the program `name` on that side, or `None` if there is no such preset.
///
/// ```
/// use squall_base::plan::{Side, find_preset};
/// let nginx = find_preset("nginx", Side::Server).expect("it is one");
/// assert_eq!(nginx.http2.max_concurrent_streams, 128);
/// assert_eq!(find_preset("ngin", Side::Server), None);
/// ```
pub fn find_preset(name: &str, side: Side) -> Option<SideSettings> {
    PRESETS
        .iter()
        .find(|preset| preset.name == name)
        .map(|preset| preset.settings(side))
}

static PRESETS: [Preset; 11] = [
    Preset {
        name: "nginx",
        says: "128 streams; windows of 64 KiB a stream until the body is read, then 2 GiB; DATA of 8 KiB; \
               1,000 requests a connection",
        server: nginx,
        client: Some(nginx_to_upstream),
    },
    Preset {
        name: "envoy",
        says: "1,024 streams; windows of 16 MiB a stream and 24 MiB a connection, over HTTP/3 too",
        server: envoy,
        client: None,
    },
    Preset {
        name: "haproxy",
        says: "100 streams; windows of 65,535 bytes a stream, given back frame by frame, and 2 GiB a connection",
        server: haproxy,
        client: None,
    },
    Preset {
        name: "nghttpx",
        says: "100 streams; windows of 65,535 bytes; TLS records of 1,300 bytes for the first MiB",
        server: nghttpx,
        client: Some(nghttpx_to_backend),
    },
    Preset {
        name: "nghttpd",
        says: "100 streams; windows of 65,535 bytes",
        server: nghttpd,
        client: None,
    },
    Preset {
        name: "h2o",
        says: "100 streams; 65,535 bytes a stream until a body comes, then 16 MiB; \
               small TLS records for 64 KiB",
        server: h2o,
        client: None,
    },
    Preset {
        name: "caddy",
        says: "as go; HTTP/3 by quic-go with 512 KiB a stream and 768 KiB a connection",
        server: caddy,
        client: Some(caddy_transport),
    },
    Preset {
        name: "go",
        says: "250 streams; windows of 1 MiB, given back in pieces of at least 4 KiB; small TLS records \
               at first",
        server: go_server,
        client: Some(go_transport),
    },
    Preset {
        name: "cowboy",
        says: "100 streams; windows of 65,535 bytes, then grants of 8,000,000; \
               1,000 requests a connection over HTTP/1.1",
        server: cowboy,
        client: None,
    },
    Preset {
        name: "tomcat",
        says: "100 streams; windows of 65,535 bytes, given back in pieces of about 1 KiB; DATA of 8 KiB; \
               100 requests a connection over HTTP/1.1",
        server: tomcat,
        client: None,
    },
    Preset {
        name: "alb",
        says: "128 streams; 65,535 bytes, given back 16,375 bytes for each DATA frame: it starved uploads",
        server: alb,
        client: None,
    },
];

/// nginx 1.31.5 (source of August 2026); its HTTP/2 announcements were also seen in 1.22 and 1.31.3.
///
/// `http2_max_concurrent_streams` 128; `http2_body_preread_size` 64k is the stream window; the connection's window is
/// opened to 2^31-1 immediately (`ngx_http_v2_init`); the largest possible frame is accepted
/// (`NGX_HTTP_V2_MAX_FRAME_SIZE`); `http2_chunk_size` 8k is the largest DATA payload; `keepalive_requests` 1000 ends
/// connections of both versions; `ssl_buffer_size` 16k is the record. HTTP/3, not seen: `http3_max_concurrent_streams`
/// 128, `http3_stream_buffer_size` 64k for a stream, and that times the number of all streams (three are
/// unidirectional) for the connection, CUBIC, `quic_gso` off.
///
/// When it begins to read a body, which it does unless `proxy_request_buffering` is off, it raises the stream's window
/// to 2^31-1, and again when a quarter is left (`ngx_http_v2_read_request_body`). The closest setting is one grant of
/// that size with the first DATA.
fn nginx() -> SideSettings {
    SideSettings {
        http1: Http1Settings {
            requests_per_connection: Some(1_000),
            ..Http1Settings::default()
        },
        http2: Http2Settings {
            stream_window: Bytes::new(64 * KIB),
            connection_window: Bytes::new(MAX_WINDOW),
            window_updates: WindowUpdates::Grant(Bytes::new(MAX_WINDOW - 64 * KIB)),
            max_frame_size: Bytes::new(MAX_FRAME),
            max_concurrent_streams: 128,
            data_size: Bytes::new(8 * KIB),
            goaway_after: Some(1_000),
            ..Http2Settings::default()
        },
        http3: Http3Settings {
            stream_window: Bytes::new(64 * KIB),
            connection_window: Bytes::new((128 + 3) * 64 * KIB),
            max_concurrent_streams: 128,
            gso: false,
            ..Http3Settings::default()
        },
        ..SideSettings::default()
    }
}

/// nginx towards its upstream (`ngx_http_proxy_v2_module`, `ngx_http_grpc_module`): both windows are 2^31-1 and are
/// opened again when a quarter is left; the closest setting is half. Seen in 1.31.3: these windows, no dynamic table
/// for header fields, and frames of the protocol's default size; it sends DATA of 8 KiB here too.
fn nginx_to_upstream() -> SideSettings {
    let mut settings = nginx();
    settings.http2.stream_window = Bytes::new(MAX_WINDOW);
    settings.http2.window_updates = WindowUpdates::Half;
    settings.http2.max_frame_size = Bytes::new(MIN_FRAME);
    settings.http2.header_table_size = Bytes::new(0);
    settings
}

/// Envoy 1.36 and later (v1.36.0, "Incompatible behavior changes", http2), seen in 1.40.
///
/// `max_concurrent_streams` 1024, `initial_stream_window_size` 16 MiB, `initial_connection_window_size` 24 MiB, also
/// towards its upstream. It returns what was consumed when half of a window is used up, as its codecs (nghttp2,
/// oghttp2) do. HTTP/3, seen in 1.40 on both sides: the same windows, 100 streams, and UDP payloads of 1,472 bytes
/// accepted. It sends 1,200, but one setting covers both directions, and the peer acts on the announced value.
fn envoy() -> SideSettings {
    SideSettings {
        http2: Http2Settings {
            stream_window: Bytes::new(16 * MIB),
            connection_window: Bytes::new(24 * MIB),
            max_concurrent_streams: 1_024,
            ..Http2Settings::default()
        },
        http3: Http3Settings {
            stream_window: Bytes::new(16 * MIB),
            connection_window: Bytes::new(24 * MIB),
            max_concurrent_streams: 100,
            max_udp_payload: Bytes::new(1_472),
            ..Http3Settings::default()
        },
        ..SideSettings::default()
    }
}

/// HAProxy 2.6 (its source, and seen), the same values on both sides.
///
/// `tune.h2.max-concurrent-streams` 100, `tune.h2.initial-window-size` 65535, `tune.ssl.maxrecord` 0: no small records.
/// 3.0 begins with 65,536, later versions with `tune.bufsize`, 16,384, and divide `tune.h2.fe.rxbuf` among the streams
/// that receive. With the first DATA it opens the connection's window to 2^31-1 (`h2c_send_conn_wu`); here it is open
/// from the start. It returns each frame's length after the frame.
fn haproxy() -> SideSettings {
    SideSettings {
        http2: Http2Settings {
            stream_window: Bytes::new(INITIAL_WINDOW),
            connection_window: Bytes::new(MAX_WINDOW),
            window_updates: WindowUpdates::Every(Bytes::new(1)),
            ..Http2Settings::default()
        },
        ..SideSettings::default()
    }
}

/// nghttpx 1.52 to 1.70 (source, and seen).
///
/// `--frontend-http2-max-concurrent-streams` 100, `--frontend-http2-window-size` and
/// `--frontend-http2-connection-window-size` 65535, updates at half by nghttp2 (`nghttp2_should_send_window_update`).
/// `--tls-dyn-rec-warmup-threshold` 1 MiB in records of 1,300 bytes (`SHRPX_SMALL_WRITE_LIMIT`), again after
/// `--tls-dyn-rec-idle-timeout` 1 s. HTTP/3: `--frontend-http3-window-size` 256 KiB,
/// `--frontend-http3-connection-window-size` 1 MiB, 100 streams.
fn nghttpx() -> SideSettings {
    SideSettings {
        http3: Http3Settings {
            stream_window: Bytes::new(256 * KIB),
            connection_window: Bytes::new(MIB),
            ..Http3Settings::default()
        },
        tls: TlsSettings {
            records: RecordSizes::Dynamic {
                small: Bytes::new(1_300),
                warmup: Bytes::new(MIB),
                idle: Duration::from_secs(1),
            },
            ..TlsSettings::default()
        },
        ..nghttpd()
    }
}

/// nghttpx towards its backend: `--backend-http2-connection-window-size` 2147483647, otherwise as towards clients.
fn nghttpx_to_backend() -> SideSettings {
    let mut settings = nghttpx();
    settings.http2.connection_window = Bytes::new(MAX_WINDOW);
    settings
}

/// nghttpd 1.52 to 1.70 (source, and seen): `--max-concurrent-streams` 100, the protocol's windows, updates by nghttp2.
fn nghttpd() -> SideSettings {
    SideSettings {
        http2: Http2Settings {
            max_concurrent_streams: 100,
            stream_window: Bytes::new(INITIAL_WINDOW),
            connection_window: Bytes::new(INITIAL_WINDOW),
            window_updates: WindowUpdates::Half,
            ..Http2Settings::default()
        },
        ..SideSettings::default()
    }
}

/// h2o 2.3 (source of June 2026).
///
/// 100 streams (`H2O_HTTP2_SETTINGS_HOST_MAX_CONCURRENT_STREAMS`), a connection window of 16 MiB, stream windows of
/// 65,535 bytes that are raised to `http2-input-window-size`, 16 MiB, once a body is being received. That is a grant of
/// the difference with the first DATA; h2o's later updates come at half of the window, the grant's a little before the
/// window is used up. Records fit into 1,400 bytes (22 of them are TLS 1.3's own) until 64 KiB were sent, and are never
/// small again (`calc_tls_write_size`); its latency optimizer is off unless configured.
fn h2o() -> SideSettings {
    SideSettings {
        http2: Http2Settings {
            stream_window: Bytes::new(INITIAL_WINDOW),
            connection_window: Bytes::new(16 * MIB),
            window_updates: WindowUpdates::Grant(Bytes::new(16 * MIB - INITIAL_WINDOW)),
            ..Http2Settings::default()
        },
        tls: TlsSettings {
            records: RecordSizes::Dynamic {
                small: Bytes::new(1_400 - 22),
                warmup: Bytes::new(64 * KIB),
                idle: NEVER_IDLE,
            },
            ..TlsSettings::default()
        },
        ..SideSettings::default()
    }
}

/// Go's net/http with golang.org/x/net/http2 (source of v0.57; v0.25 in fortio 1.63.9 announces the same).
///
/// `MaxConcurrentStreams` 250, `MaxUploadBufferPerStream` and `MaxUploadBufferPerConnection` 1 MiB, `MaxReadFrameSize`
/// 1 MiB; updates for what was read, once that is 4 KiB (`inflowMinRefresh`). crypto/tls begins with records that fill
/// one segment (1,208 bytes minus the record's own 22). Each is one such unit larger than the one before until the 14th
/// is full, and they never become small again; the closest setting is thirteen small ones.
fn go_server() -> SideSettings {
    const SEGMENT: u64 = 1_208 - 22;
    SideSettings {
        http2: Http2Settings {
            stream_window: Bytes::new(MIB),
            connection_window: Bytes::new(MIB),
            window_updates: WindowUpdates::Every(Bytes::new(4 * KIB)),
            max_frame_size: Bytes::new(MIB),
            max_concurrent_streams: 250,
            ..Http2Settings::default()
        },
        tls: TlsSettings {
            records: RecordSizes::Dynamic {
                small: Bytes::new(SEGMENT),
                warmup: Bytes::new(13 * SEGMENT),
                idle: NEVER_IDLE,
            },
            ..TlsSettings::default()
        },
        ..SideSettings::default()
    }
}

/// Go's http.Transport: `transportDefaultStreamFlow` 4 MiB, `transportDefaultConnFlow` 1 GiB above the protocol's
/// initial window. Until the server's SETTINGS arrive, it assumes `initialMaxConcurrentStreams` 100.
/// `configFromTransport` uses frames of 16,384 bytes if no size is set, which is what fortio 1.63.9 and Caddy 2.11.7
/// were seen to announce.
fn go_transport() -> SideSettings {
    let mut settings = go_server();
    settings.http2.stream_window = Bytes::new(4 * MIB);
    settings.http2.connection_window = Bytes::new((1 << 30) + INITIAL_WINDOW);
    settings.http2.max_frame_size = Bytes::new(MIN_FRAME);
    settings.http2.max_concurrent_streams = 100;
    settings
}

/// Caddy 2.11 (source of August 2026, and seen in 2.11.7): Go's server, and quic-go 0.60.
fn caddy() -> SideSettings {
    SideSettings {
        http3: quic_go(),
        ..go_server()
    }
}

/// Caddy towards its upstream: Go's transport, and quic-go as towards clients (seen in 2.11.7).
fn caddy_transport() -> SideSettings {
    SideSettings {
        http3: quic_go(),
        ..go_transport()
    }
}

/// quic-go: `DefaultInitialMaxStreamData` 512 KiB, 1.5 times that for the connection, `DefaultMaxIncomingStreams` 100,
/// NewReno (`NewCubicSender` with Reno), `MaxAckDelay` 25 ms, announced with an additional timer granularity of 1 ms.
/// Its windows grow with the traffic, to 6 and 15 MiB. Caddy starts with 1,200 bytes a packet, and path MTU discovery
/// raises that to at most 1,452: the preset uses the largest.
fn quic_go() -> Http3Settings {
    Http3Settings {
        stream_window: Bytes::new(512 * KIB),
        connection_window: Bytes::new(768 * KIB),
        max_concurrent_streams: 100,
        congestion_control: QuicCongestionControl::Reno,
        max_ack_delay: Duration::from_millis(26),
        max_udp_payload: Bytes::new(1_452),
        ..Http3Settings::default()
    }
}

/// Cowboy 2.18 (source of July 2026), windows and grants also seen in 2.8.
///
/// `max_concurrent_streams` 100 (2.8 set no limit), `initial_stream_window_size` and `initial_connection_window_size`
/// 65535. A handler that calls `cowboy_req:read_body` requests `length` 8000000, and both windows are raised by that.
/// `max_keepalive` 1000 of cowboy_http.
fn cowboy() -> SideSettings {
    SideSettings {
        http1: Http1Settings {
            requests_per_connection: Some(1_000),
            ..Http1Settings::default()
        },
        http2: Http2Settings {
            window_updates: WindowUpdates::Grant(Bytes::new(8_000_000)),
            ..nghttpd().http2
        },
        ..SideSettings::default()
    }
}

/// Tomcat 12 (source of August 2026), streams and windows also seen in 10.1.
///
/// `maxConcurrentStreams` 100, `initialWindowSize` 65535. It returns what the application read, for a stream once that
/// exceeds `overheadWindowUpdateThreshold` 1024. Its output buffer for a stream is 8 KiB, and so are DATA frames.
/// `maxKeepAliveRequests` 100. It also executes 20 streams of a connection concurrently
/// (`maxConcurrentStreamExecution`), which is not a protocol setting and is left out here.
fn tomcat() -> SideSettings {
    SideSettings {
        http1: Http1Settings {
            requests_per_connection: Some(100),
            ..Http1Settings::default()
        },
        http2: Http2Settings {
            window_updates: WindowUpdates::Every(Bytes::new(KIB + 1)),
            data_size: Bytes::new(8 * KIB),
            ..nghttpd().http2
        },
        ..SideSettings::default()
    }
}

/// AWS's Application Load Balancer, as seen in a frame trace of 2018 from an experiment on uploads (docs/RECIPES.md).
///
/// 128 streams, as its documentation still states. It sends a WINDOW_UPDATE of 16,375 bytes after each DATA frame,
/// sometimes two of these together. The trace does not show its initial windows: these are the protocol's. To its
/// targets it speaks HTTP/1.1 unless the target group is configured otherwise.
fn alb() -> SideSettings {
    SideSettings {
        http2: Http2Settings {
            window_updates: WindowUpdates::EachData(Bytes::new(16_375)),
            max_concurrent_streams: 128,
            ..nghttpd().http2
        },
        ..SideSettings::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn preset_names_are_unique_and_found() {
        let names: BTreeSet<&str> = presets().iter().map(|preset| preset.name).collect();
        assert_eq!(names.len(), presets().len());
        for preset in presets() {
            assert!(!preset.says.contains('\n') && !preset.says.is_empty());
            for side in [Side::Client, Side::Server] {
                assert_eq!(find_preset(preset.name, side), Some(preset.settings(side)));
            }
        }
        assert_eq!(find_preset("", Side::Server), None);
    }

    #[test]
    fn all_preset_values_are_valid_in_their_protocols() {
        for preset in presets() {
            for side in [Side::Client, Side::Server] {
                let settings = preset.settings(side);
                let http2 = settings.http2;
                assert!((1..=MAX_WINDOW).contains(&http2.stream_window.get()));
                assert!((INITIAL_WINDOW..=MAX_WINDOW).contains(&http2.connection_window.get()));
                assert!((MIN_FRAME..=MAX_FRAME).contains(&http2.max_frame_size.get()));
                assert!(Http3Settings::UDP_PAYLOADS.contains(&settings.http3.max_udp_payload));
                if let WindowUpdates::Grant(amount) = http2.window_updates {
                    assert!(amount.get() + http2.stream_window.get() <= MAX_WINDOW);
                }
                if let WindowUpdates::Every(amount) = http2.window_updates {
                    assert!(amount <= http2.stream_window);
                }
                if let RecordSizes::Dynamic { small, .. } = settings.tls.records {
                    assert!(small <= RecordSizes::LARGEST);
                }
                assert_eq!(settings.tcp, super::super::TcpSettings::default());
            }
        }
    }

    #[test]
    fn presets_of_some_programs_differ_by_side() {
        let window = |name, side| find_preset(name, side).unwrap().http2.connection_window;
        assert_eq!(window("go", Side::Server).get(), 1_048_576);
        assert_eq!(window("go", Side::Client).get(), 1_073_807_359);
        assert_eq!(window("nghttpx", Side::Server).get(), 65_535);
        assert_eq!(window("nghttpx", Side::Client).get(), 2_147_483_647);
        assert_eq!(window("envoy", Side::Client), window("envoy", Side::Server));
    }
}

//! What a setting is called in the program that runs at a station.
//!
//! Names are those of the programs' documentation: nginx 1.31, HAProxy 2.6 to 3.0, Envoy 1.36, nghttp2 1.52 to 1.70
//! (nghttpx, nghttpd, h2load), Caddy 2.11. If a program has no such setting, the fix says so instead of naming one that
//! does not exist. Values are not computed: the detector's evidence has the numbers to choose one by. All settings of
//! programs are listed in `golden/settings.txt`, which a test keeps up to date.

use squall_base::plan::{Connections, Implementation, Protocol, Side, Station, Variant, Version};

use super::finding::Fix;

/// A setting to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Knob {
    StreamWindow,
    ConnectionWindow,
    WindowUpdates,
    MaxStreams,
    RespectLimits,
    RequestsPerConnection,
    Connections,
    MoreConnections,
    Resumption,
    RecordSize,
    ShortRecords,
    HeaderTable,
    DataSize,
    NoDelay,
    ReceiveBuffer,
    SendBuffer,
    SlowStartAfterIdle,
    CongestionControl,
    Pacing,
    Reordering,
    OtherProtocol,
    KeepInFlight,
    Backlog,
    Reader,
    Ports,
    DatagramBuffers,
    QueueDiscipline,
    Load,
}

/// The fix for a setting at one side of a hop, in words; hops count from 1. `changes` has it as settings of a recipe.
pub(super) fn fix(variant: &Variant, hop: u8, side: Side, knob: Knob) -> Fix {
    let place = usize::from(hop.max(1)) - 1;
    let station = variant
        .stations
        .get(place + usize::from(side == Side::Server));
    let settings = variant.hops.get(place);
    let protocol = settings.map(|hop| hop.protocol);
    let version = protocol.map(Protocol::version);
    let connections = settings.map(|hop| hop.connections);
    let has_several = matches!(connections, Some(Connections::Fixed(count)) if count > 1);
    let setting = match (knob, program(station)) {
        (Knob::QueueDiscipline, _) => return path_fix(variant, hop),
        // Over HTTP/1.1, requests share no connection that more connections would relieve.
        (Knob::OtherProtocol, _) if version == Some(Version::Http1) => "HTTP/3".to_owned(),
        (Knob::OtherProtocol, "") if has_several => "HTTP/3, or more connections".to_owned(),
        // HTTP/2 and HTTP/3 share connections already.
        (Knob::Connections, "") if version != Some(Version::Http1) => {
            "connections: more of them".to_owned()
        }
        // The kernel's settings concern TCP.
        (Knob::KeepInFlight, _) if version == Some(Version::Http3) => {
            "keep data in flight".to_owned()
        }
        (knob, "") => recipe_key(knob, protocol).to_owned(),
        (knob, program) => program_setting(knob, program, side),
    };
    let name = station.map_or("", |station| station.name.as_str());
    let side = match side {
        Side::Client => "client side",
        Side::Server => "server side",
    };
    let station = if variant.stations.len() > 2 {
        format!("{name} ({side} of hop {hop})")
    } else {
        name.to_owned()
    };
    Fix {
        station,
        setting,
        changes: Vec::new(),
    }
}

/// What still helps where our own station has the setting of a fix in force; `None` if nothing does.
pub(super) fn beyond(knob: Knob) -> Option<&'static str> {
    match knob {
        Knob::WindowUpdates => Some("http2.window_updates: every quarter of the window"),
        Knob::Reader => Some("a faster reader"),
        // The kernel sizes the buffer, within the host's limits.
        Knob::ReceiveBuffer | Knob::SendBuffer | Knob::DatagramBuffers => host_setting(knob),
        _ => None,
    }
}

const QUEUE_DISCIPLINE: &str =
    "an active queue (CoDel, FQ-CoDel, PIE) or a shorter one at the bottleneck";

fn path_fix(variant: &Variant, hop: u8) -> Fix {
    Fix {
        station: match variant.links() {
            0 | 1 => "the path".to_owned(),
            _ => format!("the link of hop {hop}"),
        },
        setting: QUEUE_DISCIPLINE.to_owned(),
        changes: Vec::new(),
    }
}

/// The program that runs at a station; empty for squall's own stations.
fn program(station: Option<&Station>) -> &str {
    match station.map(|station| &station.runs) {
        Some(Implementation::Program { program }) => program,
        Some(Implementation::Own(_)) => "own",
        Some(Implementation::Embedded) | None => "",
    }
}

/// A key of a recipe (docs/RECIPES.md).
fn recipe_key(knob: Knob, protocol: Option<Protocol>) -> &'static str {
    let is_http3 = protocol.is_some_and(|protocol| protocol.version() == Version::Http3);
    match knob {
        Knob::StreamWindow if is_http3 => {
            "http3.stream_window: at least twice the bandwidth-delay product"
        }
        Knob::StreamWindow => "http2.stream_window: at least twice the bandwidth-delay product",
        Knob::ConnectionWindow if is_http3 => {
            "http3.connection_window: the stream window times the streams in use"
        }
        Knob::ConnectionWindow => {
            "http2.connection_window: the stream window times the streams in use"
        }
        Knob::WindowUpdates => "http2.window_updates: \"half\", or every quarter of the window",
        Knob::MaxStreams if is_http3 => "http3.max_concurrent_streams, or more connections",
        Knob::MaxStreams => "http2.max_concurrent_streams, or more connections",
        Knob::RespectLimits => {
            "http2.max_concurrent_streams of the client: what the server allows, until its SETTINGS have come"
        }
        Knob::RequestsPerConnection => {
            "http1.requests_per_connection and http2.goaway_after: more, or \"never\""
        }
        Knob::Connections => "connections: more of them, or HTTP/2",
        Knob::MoreConnections => "connections = N, so that losses are spread",
        Knob::Resumption => "tls.resumption = true",
        Knob::RecordSize => "tls.records: one fixed size of 4KiB to 16KiB",
        Knob::ShortRecords => "tls.records = \"4KiB\"",
        Knob::HeaderTable => {
            "http2.header_table_size: at least the 4096 that HTTP/2 begins with, more than the fields take"
        }
        Knob::DataSize => "http2.data_size: 16384, gathered before it is sent",
        Knob::NoDelay => "tcp.no_delay = true",
        Knob::ReceiveBuffer => "tcp.receive_buffer = \"kernel\" (tcp_rmem), or larger",
        Knob::SendBuffer => "tcp.send_buffer = \"kernel\" (tcp_wmem), or larger",
        Knob::SlowStartAfterIdle => "tcp.slow_start_after_idle = false",
        Knob::CongestionControl if is_http3 => "http3.congestion_control = \"bbr2\"",
        Knob::CongestionControl => "tcp.congestion_control = \"bbr\"",
        Knob::Pacing if is_http3 => "http3.pacing = true",
        Knob::Pacing => "tcp.congestion_control = \"bbr\", which paces",
        Knob::Reordering => {
            "a path that keeps the order; net.ipv4.tcp_recovery = 1 (RACK), larger net.ipv4.tcp_reordering"
        }
        Knob::OtherProtocol => "h3 instead of HTTP over TCP, or several connections",
        Knob::KeepInFlight => {
            "fewer tails: keep data in flight (larger responses together, more requests a connection)"
        }
        Knob::Backlog => "reuse connections (pool.warm, a fixed number of connections)",
        Knob::Reader => "http2.window_updates: give back what was read, or a faster reader",
        Knob::Ports => {
            "fewer connections: keep-alive (http1.requests_per_connection = \"never\"), a pool; more ports (local_ports)"
        }
        Knob::DatagramBuffers => {
            "http3.receive_buffer = \"kernel\" (net.core.rmem_default), or larger; http3.pacing = true of its peer"
        }
        Knob::QueueDiscipline => QUEUE_DISCIPLINE,
        Knob::Load => "load.rate: less than this machine's generator can do",
    }
}

/// What to set in a program that squall knows, or on its host, or advice if no setting is known.
fn program_setting(knob: Knob, program: &str, side: Side) -> String {
    let own = own_setting(knob, program, side);
    match own.or_else(|| host_setting(knob)) {
        Some(setting) => setting.to_owned(),
        None => format!(
            "no setting of {program} is known for this ({})",
            recipe_key(knob, None)
        ),
    }
}

/// A setting by its name in the program. As a client, a program may have another name for it than as a server.
fn own_setting(knob: Knob, program: &str, side: Side) -> Option<&'static str> {
    use Knob::*;
    use Side::{Client, Server};
    Some(match (knob, program, side) {
        (StreamWindow, "nginx", Server) => "http2_body_preread_size",
        (StreamWindow, "haproxy", _) => "tune.h2.initial-window-size",
        (StreamWindow, "envoy", _) => "initial_stream_window_size of http2_protocol_options",
        (StreamWindow, "nghttpx", Server) => "--frontend-http2-window-size",
        (StreamWindow, "nghttpx", Client) => "--backend-http2-window-size",
        (StreamWindow, "nghttpd" | "h2load", _) => "--window-bits",
        (ConnectionWindow, "envoy", _) => {
            "initial_connection_window_size of http2_protocol_options"
        }
        (ConnectionWindow, "nghttpx", Server) => "--frontend-http2-connection-window-size",
        (ConnectionWindow, "nghttpx", Client) => "--backend-http2-connection-window-size",
        (ConnectionWindow, "nghttpd" | "h2load", _) => "--connection-window-bits",
        (MaxStreams | RespectLimits, "nginx", Server) => "http2_max_concurrent_streams",
        (MaxStreams | RespectLimits, "haproxy", _) => "tune.h2.max-concurrent-streams",
        (MaxStreams | RespectLimits, "envoy", _) => {
            "max_concurrent_streams of http2_protocol_options"
        }
        (MaxStreams | RespectLimits, "nghttpx", Server) => {
            "--frontend-http2-max-concurrent-streams"
        }
        (MaxStreams | RespectLimits, "nghttpx", Client) => "--backend-http2-max-concurrent-streams",
        (MaxStreams | RespectLimits, "nghttpd" | "h2load", _) => "--max-concurrent-streams",
        (RequestsPerConnection, "nginx", _) => "keepalive_requests",
        (RequestsPerConnection, "envoy", _) => {
            "max_requests_per_connection of common_http_protocol_options"
        }
        (RequestsPerConnection, "haproxy", _) => "option http-keep-alive",
        (Connections | Backlog | Ports, "nginx", _) => "keepalive of the upstream block",
        (Connections | Backlog | Ports, "haproxy", _) => {
            "http-reuse and pool-max-conn of the server line"
        }
        (Connections | Backlog | Ports, "envoy", _) => "max_connections of circuit_breakers",
        (Connections | Backlog | Ports, "nghttpx", _) => "--backend-connections-per-frontend",
        (Connections | MoreConnections | Backlog | Ports, "h2load", _) => "--clients",
        (MoreConnections, "envoy", _) => {
            "a lower max_concurrent_streams of the upstream's http2_protocol_options, or a higher --concurrency: each worker has connections of its own"
        }
        (MoreConnections, "haproxy", _) => "a lower tune.h2.be.max-concurrent-streams",
        (MoreConnections, "nghttpx", _) => "a higher --workers: each has connections of its own",
        (MoreConnections, "caddy", _) => {
            "`versions 1.1` in the transport block, or several upstreams"
        }
        (Resumption, "nginx", _) => "ssl_session_tickets on, ssl_session_cache",
        (Resumption, "haproxy", _) => "tune.ssl.cachesize; without no-tls-tickets",
        (Resumption, "envoy", _) => {
            "session_ticket_keys, without disable_stateless_session_resumption"
        }
        (Resumption, "nghttpx", _) => "--tls-ticket-key-file",
        (RecordSize | ShortRecords, "nginx", _) => "ssl_buffer_size",
        (RecordSize | ShortRecords, "haproxy", _) => "tune.ssl.maxrecord",
        (RecordSize, "nghttpx", _) => "--tls-dyn-rec-warmup-threshold=0",
        (ShortRecords, "nghttpx", _) => "a larger --tls-dyn-rec-warmup-threshold",
        (HeaderTable, "haproxy", _) => "tune.h2.header-table-size",
        (HeaderTable, "envoy", _) => "hpack_table_size of http2_protocol_options",
        (HeaderTable, "nghttpx", Server) => "--frontend-http2-decoder-dynamic-table-size",
        (HeaderTable, "nghttpx", Client) => "--backend-http2-decoder-dynamic-table-size",
        (HeaderTable, "nghttpd" | "h2load", _) => "--header-table-size",
        (DataSize, "nginx", _) => "http2_chunk_size",
        (DataSize, "haproxy", _) => "tune.bufsize",
        (NoDelay, "nginx", _) => "tcp_nodelay on",
        (NoDelay, "haproxy", _) => "option http-no-delay",
        (ReceiveBuffer, "nginx", _) => "rcvbuf of listen, or net.ipv4.tcp_rmem of its host",
        (ReceiveBuffer, "haproxy", _) => "tune.rcvbuf.client and tune.rcvbuf.server",
        (SendBuffer, "nginx", _) => "sndbuf of listen, or net.ipv4.tcp_wmem of its host",
        (SendBuffer, "haproxy", _) => "tune.sndbuf.client and tune.sndbuf.server",
        _ => return None,
    })
}

/// A kernel setting of the program's host, or other advice that holds for any program.
fn host_setting(knob: Knob) -> Option<&'static str> {
    Some(match knob {
        Knob::ReceiveBuffer => "net.ipv4.tcp_rmem of its host",
        Knob::SendBuffer => "net.ipv4.tcp_wmem of its host",
        Knob::SlowStartAfterIdle => "net.ipv4.tcp_slow_start_after_idle = 0 on its host",
        Knob::CongestionControl => "net.ipv4.tcp_congestion_control = bbr on its host",
        Knob::Pacing => "the fq queueing discipline, or BBR, on its host",
        Knob::Reordering => "net.ipv4.tcp_recovery = 1 (RACK), larger net.ipv4.tcp_reordering",
        Knob::DatagramBuffers => "net.core.rmem_max and rmem_default of its host",
        Knob::OtherProtocol => "HTTP/3, or several connections",
        Knob::KeepInFlight => {
            "keep data in flight; RACK and TLP (net.ipv4.tcp_recovery, tcp_early_retrans)"
        }
        Knob::Ports => "fewer connections; net.ipv4.ip_local_port_range of its host",
        Knob::Backlog => "fewer new connections; net.core.somaxconn of the server's host",
        Knob::Reader => "a faster reader, or larger buffers in the program",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::made;
    use super::*;

    #[test]
    fn settings_use_the_programs_own_names() {
        let mut trial = made::trial(Protocol::H2).trial;
        let mut of = |program: &str, knob| {
            trial.variant.stations[1] = Station {
                name: program.to_owned(),
                runs: Implementation::Program {
                    program: program.to_owned(),
                },
                asked: squall_base::plan::StationOptions::default(),
            };
            fix(&trial.variant, 1, Side::Server, knob)
        };
        let nginx = of("nginx", Knob::StreamWindow);
        assert_eq!(nginx.station, "nginx");
        assert_eq!(nginx.setting, "http2_body_preread_size");
        let envoy = of("envoy", Knob::StreamWindow).setting;
        assert!(envoy.contains("initial_stream_window_size"), "{envoy}");
        let caddy = of("caddy", Knob::StreamWindow).setting;
        assert!(caddy.starts_with("no setting of caddy is known"), "{caddy}");
        let host = of("caddy", Knob::SlowStartAfterIdle).setting;
        assert!(host.contains("tcp_slow_start_after_idle = 0"), "{host}");
    }

    /// Every knob except that of the path.
    const KNOBS: [Knob; 27] = [
        Knob::StreamWindow,
        Knob::ConnectionWindow,
        Knob::WindowUpdates,
        Knob::MaxStreams,
        Knob::RespectLimits,
        Knob::RequestsPerConnection,
        Knob::Connections,
        Knob::MoreConnections,
        Knob::Resumption,
        Knob::RecordSize,
        Knob::ShortRecords,
        Knob::HeaderTable,
        Knob::DataSize,
        Knob::NoDelay,
        Knob::ReceiveBuffer,
        Knob::SendBuffer,
        Knob::SlowStartAfterIdle,
        Knob::CongestionControl,
        Knob::Pacing,
        Knob::Reordering,
        Knob::OtherProtocol,
        Knob::KeepInFlight,
        Knob::Backlog,
        Knob::Reader,
        Knob::Ports,
        Knob::DatagramBuffers,
        Knob::Load,
    ];

    /// For each knob, the advice for a program that has no setting of its own for it, here called PROGRAM; below it, the
    /// programs that have one.
    #[test]
    fn each_setting_has_its_golden_text() {
        let mut found = String::new();
        for knob in KNOBS {
            let unknown = program_setting(knob, "PROGRAM", Side::Server);
            found += &format!("{knob:?}: {unknown}\n");
            for program in [
                "nginx", "haproxy", "envoy", "nghttpx", "nghttpd", "h2load", "caddy",
            ] {
                let unnamed = unknown.replace("PROGRAM", program);
                let [client, server] = Side::ALL.map(|side| program_setting(knob, program, side));
                let both = if client == server {
                    vec![("", client)]
                } else {
                    vec![(" client", client), (" server", server)]
                };
                for (side, setting) in both.iter().filter(|(_, it)| *it != unnamed) {
                    found += &format!("  {program}{side}: {setting}\n");
                }
            }
        }
        assert_eq!(found, include_str!("golden/settings.txt"), "\n{found}");
    }

    #[test]
    fn several_connections_and_http2_are_not_proposed_where_they_are_used() {
        let mut trial = made::trial(Protocol::H2).trial;
        let of = |trial: &squall_base::plan::Trial, knob| {
            fix(&trial.variant, 1, Side::Client, knob).setting
        };
        assert!(of(&trial, Knob::OtherProtocol).contains("several connections"));
        assert_eq!(of(&trial, Knob::Connections), "connections: more of them");
        trial.variant.hops[0].connections = Connections::Fixed(4);
        assert_eq!(
            of(&trial, Knob::OtherProtocol),
            "HTTP/3, or more connections"
        );
        trial.variant.hops[0].protocol = Protocol::H1;
        assert_eq!(of(&trial, Knob::OtherProtocol), "HTTP/3");
        assert!(of(&trial, Knob::Connections).ends_with("or HTTP/2"));
    }

    #[test]
    fn our_own_stations_use_recipe_keys() {
        let trial = made::trial(Protocol::H3).trial;
        let window = fix(&trial.variant, 1, Side::Client, Knob::StreamWindow);
        assert_eq!(window.station, "client");
        assert!(
            window.setting.starts_with("http3.stream_window"),
            "{}",
            window.setting
        );
    }
}

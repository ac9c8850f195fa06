//! Every key of the settings either has an effect or is refused: keys of the other side, of hosts and of programs. Also
//! which programs are pinned to a processor.
//!
//! What a program does with its settings is tested in squall-peers.

use squall_base::plan::{
    Connections, Implementation, ProgramSetting, Side, StationSetting, Variant, Version,
    find_preset,
};
use squall_base::{Bytes, Duration};
use squall_recipe::{NoFiles, StationMode, parse_with};

const OWN: &str = "[station.mine]\ncommand = \"mine -p {listen_port}\"\n";

fn recipe(path: &str, lines: &str) -> String {
    format!(
        "name = \"x\"\nquestion = \"?\"\nload = {{ rate = \"1/s\", duration = \"1s\" }}\n{OWN}\
         [[variant]]\nname = \"v\"\npath = \"{path}\"\n{lines}\n"
    )
}

/// The variant of a path with these lines.
#[track_caller]
fn variant(path: &str, lines: &str, stations: StationMode) -> Variant {
    let text = recipe(path, lines);
    parse_with(&text, stations, &NoFiles)
        .unwrap_or_else(|e| panic!("{}", e.render("x", &text)))
        .variants()[0]
        .clone()
}

/// The variant of a path whose stations the lines `own` describe, or the rendered mistakes.
fn with_stations(own: &str, path: &str, stations: StationMode) -> Result<Variant, String> {
    let text = recipe(path, "").replace(OWN, own);
    let recipe = parse_with(&text, stations, &NoFiles);
    let recipe = recipe.map_err(|error| error.render("x", &text))?;
    Ok(recipe.variants()[0].clone())
}

/// The only mistake in that variant, without its place.
#[track_caller]
fn refusal(path: &str, lines: &str) -> String {
    let text = recipe(path, lines);
    let error = parse_with(&text, StationMode::Real, &NoFiles).expect_err(lines);
    let [problem] = error.problems() else {
        panic!("{lines}: {error}");
    };
    format!("{}: {}", problem.mistake, problem.expected)
}

#[track_caller]
fn check_all(cases: &[(&str, &str, &str)]) {
    for (path, lines, said) in cases {
        let found = refusal(path, lines);
        assert!(found.starts_with(said), "{path} {lines}:\n{found}\n{said}");
    }
}

#[test]
fn keys_of_the_other_side_are_refused() {
    let ports = "`local_ports` of a server: it in `client`";
    let goaway = "`goaway_after` of a client: it in `server`";
    let streams = "`max_concurrent_streams` of a client: it in `server`: no HTTP/3 server opens";
    check_all(&[
        (
            "client ~h1~> server",
            "server = { tcp.local_ports = \"40000-40100\" }",
            ports,
        ),
        (
            "client ~h3~> server",
            "server = { http3.local_ports = \"40000-40100\" }",
            ports,
        ),
        (
            "client -h1-> proxy ~h1~> server",
            "hop.1.server.tcp.local_ports = \"40000-40100\"",
            ports,
        ),
        (
            "client ~h2~> server",
            "client = { http2.goaway_after = 5 }",
            goaway,
        ),
        (
            "client ~h3~> server",
            "client = { http3.max_concurrent_streams = 5 }",
            streams,
        ),
        (
            "client ~h2~> server",
            "server = { http2.retry_unprocessed = true }",
            "`retry_unprocessed` of a server: it in `client`",
        ),
        (
            "client -h1-> proxy ~h2c~> server",
            "hop.2.client.http2.retry_unprocessed = true",
            "`retry_unprocessed` of a proxy: it in the client",
        ),
        // This key is set for both sides, but the side that could use it is a program.
        ("client ~h2c~> nginx", "http2.goaway_after = 5", goaway),
        (
            "client(curl) ~h1~> server",
            "tcp.local_ports = \"40000-40100\"",
            ports,
        ),
    ]);
    let both = variant(
        "client ~h1~> server",
        "tcp.local_ports = \"40000-40100\"",
        StationMode::Real,
    );
    assert!(both.hops[0].client.tcp.local_ports.is_some());
    let streams = "http3.max_concurrent_streams = 5";
    let both = variant("client ~h3~> server", streams, StationMode::Real);
    assert_eq!(both.hops[0].server.http3.max_concurrent_streams, 5);
}

#[test]
fn host_settings_belong_on_a_hop_across_a_link() {
    let path = "client -h1-> proxy ~h1~> server";
    let inside = "`slow_start_after_idle` on a hop inside a host: it on a hop across a link";
    check_all(&[
        (
            path,
            "client = { tcp.slow_start_after_idle = true }",
            inside,
        ),
        (path, "hop.1.tcp.slow_start_after_idle = true", inside),
        (
            path,
            "hop.1.server.tcp.slow_start_after_idle = true",
            inside,
        ),
    ]);
    let two = "client ~h1~> proxy -h1-> envoy ~h1~> server";
    let differs = |key: &str| {
        format!(
            "`tcp.{key}` differs on hops 1 and 3, which share a host: the same value in `server` of hop 1"
        )
    };
    let programs = "client ~h1~> haproxy -h1-> envoy ~h1~> server";
    check_all(&[
        (
            two,
            "hop.1.server.tcp.slow_start_after_idle = false",
            &differs("slow_start_after_idle"),
        ),
        (
            programs,
            "hop.3.client.tcp.send_buffer = \"64KiB\"",
            &differs("send_buffer"),
        ),
    ]);
    variant(
        two,
        "hop.3.client.tcp.send_buffer = \"64KiB\"",
        StationMode::Real,
    );
    variant(two, "tcp.slow_start_after_idle = false", StationMode::Real);
    let capped = "`max_cwnd` on a hop inside a host: it on a hop across a link";
    check_all(&[
        (path, "client = { tcp.max_cwnd = 4 }", capped),
        (path, "hop.1.tcp.max_cwnd = 4", capped),
    ]);
    let over = "server = { tcp.slow_start_after_idle = false }\ntcp.slow_start_after_idle = true";
    let found = variant(path, over, StationMode::Real);
    let [near, far] = [&found.hops[1].client, &found.hops[1].server];
    assert_eq!(near.tcp.slow_start_after_idle, Some(true));
    assert_eq!(far.tcp.slow_start_after_idle, Some(false));
    // A program's host applies `slow_start_after_idle`, and its route the congestion control.
    let said = "server.tcp = { slow_start_after_idle = false, congestion_control = \"reno\" }";
    let found = variant("client ~h1~> nginx", said, StationMode::Real);
    let tcp = &found.hops[0].server.tcp;
    assert_eq!(tcp.slow_start_after_idle, Some(false));
    assert_eq!(tcp.congestion_control.as_deref(), Some("reno"));
    assert_eq!(
        found.hops[0].client.tcp.congestion_control.as_deref(),
        Some("cubic")
    );
    assert!(found.stations[1].asked.is_empty());
}

#[test]
fn station_that_extends_a_program_adds_threads_and_configuration() {
    let own =
        "[station.edge]\nextends = \"envoy\"\nthreads = 4\nextra = \"stats_flush_interval: 60s\"\n";
    let found = with_stations(own, "client -h1-> edge ~h2c~> nginx", StationMode::Real).unwrap();
    let edge = &found.stations[1];
    let program = "envoy".to_owned();
    assert_eq!(edge.runs, Implementation::Program { program });
    assert_eq!(edge.asked.threads, Some(4));
    assert_eq!(
        edge.asked.extra.as_deref(),
        Some("stats_flush_interval: 60s")
    );
    let embedded = with_stations(own, "client -h1-> edge ~h2c~> nginx", StationMode::Embedded);
    let edge = &embedded.unwrap().stations[1];
    assert_eq!(edge.runs, Implementation::Embedded);
    assert!(edge.asked.is_empty());
    let refused = |own: &str| {
        let said = with_stations(own, "client -h1-> edge ~h2c~> nginx", StationMode::Real);
        said.unwrap_err()
    };
    let said = refused("[station.edge]\nextends = \"envoi\"\n");
    assert!(
        said.contains("\"envoi\" is not a program that squall knows"),
        "{said}"
    );
    assert!(said.contains("did you mean `envoy`?"), "{said}");
    let said = refused("[station.edge]\nextends = \"envoy\"\ncommand = \"envoy\"\n");
    assert!(said.contains("`command` together with `extends`"), "{said}");
    let said = refused("[station.edge]\ncommand = \"envoy\"\nthreads = 2\n");
    assert!(said.contains("`threads` without `extends`"), "{said}");
}

#[test]
fn hosts_of_programs_apply_tcp_caps_and_buffers() {
    let path = "client -h1-> envoy ~h2~> envoy -h1-> nginx";
    let side = "tcp = { max_cwnd = 4, receive_buffer = \"4KiB\", send_buffer = \"8KiB\" }";
    for lines in [
        format!("hop.2 = {{ client = {{ {side} }}, server = {{ {side} }} }}"),
        format!("hop.2.{side}"),
    ] {
        let found = variant(path, &lines, StationMode::Real);
        for side in [&found.hops[1].client, &found.hops[1].server] {
            assert_eq!(side.tcp.max_cwnd, Some(4));
            assert_eq!(side.tcp.receive_buffer, Some(Bytes::new(4_096)));
            assert_eq!(side.tcp.send_buffer, Some(Bytes::new(8_192)));
        }
    }
    let paced = |station: &str| {
        format!("`{station}` is a program, which cannot be given `max_pacing_rate`: `http2.")
    };
    check_all(&[
        (
            path,
            "hop.1.server.tcp.receive_buffer = \"4KiB\"",
            "`envoy` is a program, which cannot be given `receive_buffer`: ",
        ),
        (
            path,
            "hop.2.client.tcp.max_pacing_rate = \"8mbit\"",
            &paced("envoy"),
        ),
        (
            path,
            "hop.2.tcp.max_pacing_rate = \"8mbit\"",
            "`max_pacing_rate` between programs: it on a hop that begins or ends at one of squall's own stations",
        ),
        (
            "client ~h3~> server",
            "tcp.max_cwnd = 4",
            "`tcp` without TCP: `tcp` where",
        ),
    ]);
}

#[test]
fn proxy_delay_applies_to_the_proxy_that_its_hop_leads_to() {
    let path = "client -h1-> proxy ~h2~> envoy -h1-> server";
    let found = variant(path, "hop.1.proxy_delay = \"20ms\"", StationMode::Real);
    let delays = found.stations.iter().map(|it| it.asked.proxy_delay);
    let none = Duration::ZERO;
    let expected = [none, Duration::from_millis(20), none, none];
    assert_eq!(delays.collect::<Vec<_>>(), expected);
    let embedded = variant(path, "hop.2.proxy_delay = \"1s\"", StationMode::Embedded);
    let delay = embedded.stations[2].asked.proxy_delay;
    assert_eq!(delay, Duration::from_secs(1));
    let no = |station: &str| {
        format!(
            "`proxy_delay` of `{station}`, which is not one of squall's own proxies: it on a hop that leads to a proxy"
        )
    };
    check_all(&[
        (path, "hop.2.proxy_delay = \"20ms\"", &no("envoy")),
        (path, "hop.3.proxy_delay = \"20ms\"", &no("server")),
        (
            path,
            "hop.1.proxy_delay = \"11s\"",
            "`proxy_delay` is out of range: 11s: 0ms to 10s",
        ),
        (
            path,
            "proxy_delay = \"20ms\"",
            "unknown key `proxy_delay` in [[variant]]",
        ),
    ]);
}

#[test]
fn settings_of_our_own_stations_between_programs_are_refused() {
    let path = "client -h1-> envoy ~h2~> nginx";
    let between = |key: &str| {
        format!(
            "`{key}` between programs: it on a hop that begins or ends at one of squall's own stations"
        )
    };
    for (lines, key) in [
        ("http2.stream_window = \"1MiB\"", "stream_window"),
        ("tls.min_version = \"1.3\"", "min_version"),
        ("hop.2.tcp.no_delay = false", "no_delay"),
        ("hop.2.http2.data_size = \"1KiB\"", "data_size"),
    ] {
        let found = refusal(path, lines);
        assert!(found.starts_with(&between(key)), "{lines}: {found}");
    }
    // The client applies the first two, and the route across the link the congestion control.
    let applied = "http1.framing = \"chunked\"\ntcp.no_delay = false\nhop.2.tcp.congestion_control = \"reno\"";
    variant(path, applied, StationMode::Real);
    variant(
        "client(h2load) ~h1~> nginx",
        "congestion_control = \"bbr\"",
        StationMode::Real,
    );
    check_all(&[(
        "client(curl) -h1-> nginx ~h3~> envoy",
        "congestion_control = \"reno\"",
        "`congestion_control` between programs",
    )]);
    // With embedded stations, every key has an effect.
    for lines in [
        "http2.stream_window = \"1MiB\"",
        "tls.min_version = \"1.3\"",
    ] {
        variant(path, lines, StationMode::Embedded);
    }
}

#[test]
fn program_receives_its_settings() {
    let found = variant(
        "client -h1-> envoy ~h2~> nginx",
        "server = { http2 = { stream_window = \"1MiB\", max_concurrent_streams = 7 } }\n\
         hop.1.server.http1.requests_per_connection = 1000\n\
         hop.2 = { client.http2.connection_window = \"24MiB\", server.http2 = { max_concurrent_streams = 9, \
         goaway_after = 50 } }",
        StationMode::Real,
    );
    let asked = |side, setting, value| StationSetting {
        side,
        setting,
        value,
    };
    let (client, server) = (Side::Client, Side::Server);
    assert_eq!(
        found.stations[1].asked.settings,
        [
            asked(client, ProgramSetting::ConnectionWindow, 24 << 20),
            asked(server, ProgramSetting::RequestsPerConnection, 1_000),
        ]
    );
    assert_eq!(
        found.stations[2].asked.settings,
        [
            asked(server, ProgramSetting::StreamWindow, 1 << 20),
            asked(server, ProgramSetting::MaxConcurrentStreams, 9),
            asked(server, ProgramSetting::RequestsPerConnection, 50),
        ]
    );
    assert!(found.stations[0].asked.is_empty());
    let found = variant(
        "client ~h2~> nghttpx -h1-> server",
        "hop.1.server.tls.records = \"16KiB\"",
        StationMode::Real,
    );
    assert_eq!(
        found.stations[1].asked.settings,
        [asked(server, ProgramSetting::SmallRecords, 0)]
    );
}

#[test]
fn settings_that_cannot_be_passed_to_a_program_are_refused() {
    let no = |station: &str, key: &str| {
        format!("`{station}` is a program, which cannot be given `{key}`: ")
    };
    let cases = [
        (
            "client ~h2~> nginx",
            "server.http2.window_updates = \"never\"",
            "nginx",
            "window_updates",
        ),
        (
            "client ~h2~> nginx",
            "server.tls.records = \"4KiB\"",
            "nginx",
            "records",
        ),
        (
            "client ~h2~> nghttpx -h1-> server",
            "hop.1.server.tls.records = { small = \"1400\", warmup = \"1MiB\", idle = \"1s\" }",
            "nghttpx",
            "records",
        ),
        (
            "client ~h2~> nginx",
            "server.tcp.no_delay = false",
            "nginx",
            "no_delay",
        ),
        (
            "client -h1-> envoy ~h2~> server",
            "hop.2.client.http2.goaway_after = 5",
            "envoy",
            "goaway_after",
        ),
        (
            "client -h1-> envoy -h1-> envoy ~h2~> server",
            "hop.2.client.tcp.congestion_control = \"reno\"",
            "envoy",
            "congestion_control",
        ),
        (
            "client ~h2~> mine",
            "server.http2.stream_window = \"1MiB\"",
            "mine",
            "stream_window",
        ),
        (
            "client(h2load) ~h2~> server",
            "client.http2.stream_window = \"1MiB\"",
            "client(h2load)",
            "stream_window",
        ),
    ];
    for (path, lines, station, key) in cases {
        let found = refusal(path, lines);
        assert!(found.starts_with(&no(station, key)), "{lines}: {found}");
    }
}

#[test]
fn refusal_lists_the_settings_that_programs_accept() {
    let words = refusal(
        "client ~h2~> nginx",
        "server.http2.window_updates = \"never\"",
    );
    assert!(
        words.contains("`http2.stream_window`") && words.contains("`tcp.congestion_control`"),
        "{words}"
    );
    check_all(&[
        (
            "client ~h1~> nginx",
            "server.http1.requests_per_connection = \"never\"",
            "`requests_per_connection` is out of range: never",
        ),
        (
            "client -h1-> envoy ~h2~> server",
            "hop.2.connections = 3",
            "`envoy` is a program with its own settings",
        ),
        (
            "client(h2load) ~h2~> server",
            "pool.warm = 0",
            "`client(h2load)` is a program with its",
        ),
    ]);
}

/// Load generators such as h2load open as many connections as the recipe says.
#[test]
fn load_generator_accepts_a_number_of_connections() {
    let found = variant(
        "client(h2load) ~h2~> server",
        "connections = 3",
        StationMode::Real,
    );
    assert_eq!(found.hops[0].connections, Connections::Fixed(3));
}

#[test]
fn response_is_refused_if_the_server_is_a_program_of_the_recipe() {
    let response = "[response]\nbody = \"1KiB\"";
    let found = refusal("client ~h1~> mine", response);
    let said = "`mine` is a program, which cannot be given `response`: its response";
    assert!(found.starts_with(said), "{found}");
    variant(
        "client ~h1~> mine -h1-> server",
        response,
        StationMode::Real,
    );
    variant("client ~h1~> mine", response, StationMode::Embedded);
}

#[test]
fn programs_are_pinned_by_name_or_all_at_once() {
    let path = "client(h2load) -h1-> envoy ~h2c~> proxy -h1-> mine";
    let pinned = |lines: &str, stations| {
        let found = variant(path, lines, stations);
        let stations = found.stations.iter();
        stations.map(|it| it.asked.is_pinned).collect::<Vec<_>>()
    };
    assert_eq!(pinned("", StationMode::Real), [false; 4]);
    assert_eq!(pinned("pinned = false", StationMode::Real), [false; 4]);
    let programs = [true, true, false, true];
    assert_eq!(pinned("pinned = true", StationMode::Real), programs);
    let named = "pinned = [\"mine\", \"client(h2load)\"]";
    assert_eq!(pinned(named, StationMode::Real), [true, false, false, true]);
    assert_eq!(
        pinned("pinned = \"envoy\"", StationMode::Real),
        [false, true, false, false]
    );
    assert_eq!(pinned("pinned = true", StationMode::Embedded), [false; 4]);
    let programs = "programs: the threads of squall's own stations have real-time priority";
    check_all(&[
        (
            path,
            "pinned = [\"proxy\"]",
            &format!("`proxy` cannot be pinned: {programs}"),
        ),
        (
            "client ~h1~> server",
            "pinned = true",
            &format!("a path without programs cannot be pinned: {programs}"),
        ),
        (
            path,
            "pinned = [\"envoi\"]",
            "there is no station `envoi` on the path: true, or the names of programs",
        ),
        (
            path,
            "pinned = 3",
            "`pinned` is a whole number: true, or the names",
        ),
        (path, "pinned = []", "`pinned` is an empty list"),
    ]);
}

/// A `server` table overrides the preset that the path names.
#[test]
fn settings_of_a_side_keep_the_rest_of_the_preset_in_the_path() {
    let said = "server.http2.max_concurrent_streams = 256";
    let found = variant("client ~h2c~> server(nginx)", said, StationMode::Real);
    let preset = find_preset("nginx", Side::Server).unwrap();
    let http2 = found.hops[0].server.http2;
    assert_eq!(http2.max_concurrent_streams, 256);
    assert_eq!(http2.stream_window, preset.http2.stream_window);
    assert_ne!(http2.stream_window, Bytes::new(65_535), "the default");
    assert_eq!(found.hops[0].protocol.version(), Version::Http2);
}

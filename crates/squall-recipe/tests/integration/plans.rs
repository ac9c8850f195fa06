//! What recipes expand to: the grid, the order of the trials, their seeds, the defaults, and the bundled recipes.
//!
//! Mistakes are in `errors`, properties over random texts in `laws.rs`.

use std::num::NonZeroU32;

use squall_base::plan::{
    BodyFraming, Connections, Hop, Http1Settings, Http2Settings, Http3Settings, Implementation,
    LoadKind, Plan, PoolOrder, PoolSettings, PortRange, Protocol, QuicCongestionControl,
    RecordSizes, RequestBody, RequestTemplate, Script, ScriptBody, ScriptRequest, ScriptStep, Side,
    SideSettings, TcpSettings, TlsGroup, TlsSettings, TlsVersion, Trial, Variant, WindowUpdates,
    find_preset,
};
use squall_base::{BitRate, Bytes, Duration};
use squall_recipe::{
    Files, NoFiles, Recipe, RecordingChoice, StationMode, bundled, bundled_files, parse, parse_with,
};

const GRID: &str = r#"
name = "grid"
question = "In which order?"
congestion_control = "bbr"
[load]
rate = "10/s"
[conditions]
delay = ["0ms", "5ms", "10ms"]
loss = "1%"
[[variant]]
name = "A"
path = "client ~h1~> server"
[[variant]]
name = "B"
path = " client  ~h2c~>server"
congestion_control = "cubic"
[[variant]]
name = "C"
path = "client ~h2c~> server"
connections = { at_most = 7 }
[profile.b]
duration = "1s"
repetitions = 2
[profile.a]
duration = "2s"
delay = "1ms"
loss = ["0%", "0.5"]
warmup = "0s"
drain = "1ms"
"#;

fn order(plan: &Plan) -> Vec<String> {
    plan.trials
        .iter()
        .map(|t| format!("r{} {} {}", t.repetition, t.condition.delay, t.variant.name))
        .collect()
}

#[test]
fn blocks_alternate_and_repetitions_come_last() {
    let plan = parse(GRID).unwrap().plan("b", 1).unwrap();
    let expected = [
        "r0 0ms A",
        "r0 0ms B",
        "r0 0ms C",
        "r0 5ms C",
        "r0 5ms B",
        "r0 5ms A",
        "r0 10ms A",
        "r0 10ms B",
        "r0 10ms C",
        "r1 0ms C",
        "r1 0ms B",
        "r1 0ms A",
        "r1 5ms A",
        "r1 5ms B",
        "r1 5ms C",
        "r1 10ms C",
        "r1 10ms B",
        "r1 10ms A",
    ];
    assert_eq!(order(&plan), expected);
    let indices: Vec<u32> = plan.trials.iter().map(|t| t.index).collect();
    assert_eq!(indices, (0..18).collect::<Vec<u32>>());
}

#[test]
fn repetitions_of_one_profile_can_be_replaced() {
    let repeated = |times| {
        let times = NonZeroU32::new(times).unwrap();
        parse(GRID).unwrap().with_repetitions("b", times)
    };
    let recipe = repeated(3).unwrap();
    // Three conditions and three variants.
    assert_eq!(recipe.plan("b", 1).unwrap().trials.len(), 27);
    let other = recipe.plan("a", 1).unwrap();
    assert_eq!(other, parse(GRID).unwrap().plan("a", 1).unwrap());
    let once = repeated(1).unwrap().plan("b", 1).unwrap();
    assert_eq!(once.trials.len(), 9);
    assert!(repeated(1_111).is_ok());
    assert_eq!(
        repeated(1_112).unwrap_err().to_string(),
        "profile `b` would have 10008 trials: expected at most 10000"
    );
}

#[test]
fn trials_of_a_block_share_a_seed_that_no_other_block_has() {
    let recipe = parse(GRID).unwrap();
    let plan = recipe.plan("b", 7).unwrap();
    let blocks: Vec<u64> = plan
        .trials
        .chunks(3)
        .map(|block| {
            assert!(block.iter().all(|t| t.seed == block[0].seed));
            block[0].seed
        })
        .collect();
    let mut distinct = blocks.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 6);
    assert_eq!(
        plan,
        recipe.plan("b", 7).unwrap(),
        "the same seed gives the same plan"
    );
    assert_ne!(plan, recipe.plan("b", 8).unwrap());
}

#[test]
fn profiles_replace_what_they_name_and_keep_the_rest() {
    let recipe = parse(GRID).unwrap();
    assert_eq!(
        recipe.profiles().collect::<Vec<_>>(),
        ["b", "a"],
        "in the order of the text"
    );
    assert_eq!(
        recipe.default_profile(),
        "b",
        "the first, as there is no `standard`"
    );
    let (a, b) = (recipe.plan("a", 1).unwrap(), recipe.plan("b", 1).unwrap());
    let conditions: Vec<String> = a.conditions.iter().map(ToString::to_string).collect();
    assert_eq!(conditions, ["delay 1ms, loss 0%", "delay 1ms, loss 50%"]);
    assert_eq!(a.trials.len(), 6);
    let (a, b) = (&a.trials[0].load, &b.trials[0].load);
    assert_eq!(
        (a.warmup, a.drain),
        (Duration::ZERO, Duration::from_millis(1))
    );
    assert_eq!(
        (b.warmup, b.drain),
        (Duration::from_secs(2), Duration::from_secs(5))
    );
    assert_eq!(b.constant_rate().unwrap().to_string(), "10/s");
}

#[test]
fn an_unknown_profile_names_the_known_ones() {
    let error = parse(&GRID.replace("profile.a", "profile.standard"))
        .unwrap()
        .plan("standrd", 1);
    assert_eq!(
        error.unwrap_err().to_string(),
        "recipe `grid` has no profile `standrd`: expected `b` or `standard` \
         (did you mean `standard`?)"
    );
}

#[test]
fn omitted_keys_have_their_documented_defaults() {
    let recipe = parse(
        "name = \"x\"\nquestion = \"?\"\nload = { rate = \"1/s\", duration = \"1s\" }\n\
         [[variant]]\nname = \"h1\"\npath = \"client ~h1~> server\"\n\
         [[variant]]\nname = \"h2\"\npath = \"client ~h2c~> server\"\n",
    )
    .unwrap();
    assert_eq!(recipe.profiles().collect::<Vec<_>>(), ["standard"]);
    let plan = recipe.plan("standard", 0).unwrap();
    assert_eq!(plan.trials.len(), 2);
    let (h1, h2) = (&plan.variants[0], &plan.variants[1]);
    assert_eq!(
        h1.hops[0].connections,
        Connections::OnDemand { at_most: 4_096 }
    );
    assert_eq!(h2.hops[0].connections, Connections::Fixed(1));
    for variant in &plan.variants {
        assert_eq!(variant.hops[0].client, SideSettings::default());
        assert_eq!(variant.hops[0].server, SideSettings::default());
    }
    let trial = &plan.trials[0];
    assert_eq!(trial.condition.to_string(), "delay 0ms, loss 0%");
    assert_eq!(
        plan.requests,
        [RequestTemplate {
            method: "GET".into(),
            target: "/".into(),
            headers: vec![],
            body: RequestBody::default()
        }]
    );
    assert_eq!(
        (trial.response.status, trial.response.body),
        (200, Bytes::new(0))
    );
}

#[test]
fn variants_override_the_settings_of_the_recipe() {
    let variants = parse(GRID).unwrap().variants().to_vec();
    let congestion: Vec<&str> = variants
        .iter()
        .map(|v| {
            assert_eq!(v.hops[0].client.tcp, v.hops[0].server.tcp);
            v.hops[0].client.tcp.congestion_control.as_deref().unwrap()
        })
        .collect();
    assert_eq!(congestion, ["bbr", "cubic", "bbr"]);
    assert_eq!(
        variants[1].path, "client ~h2c~> server",
        "one blank between words"
    );
    assert_eq!(
        variants[2].hops[0].connections,
        Connections::OnDemand { at_most: 7 }
    );
}

/// The hop of a recipe with one variant, which has that protocol and those lines.
#[track_caller]
fn variant(protocol: &str, lines: &str) -> Hop {
    let text = format!(
        "name = \"x\"\nquestion = \"?\"\nload = {{ rate = \"1/s\", duration = \"1s\" }}\n\
         [[variant]]\nname = \"v\"\npath = \"client ~{protocol}~> server\"\n{lines}\n"
    );
    let recipe = parse(&text).unwrap_or_else(|e| panic!("{}", e.render("x", &text)));
    recipe.variants()[0].hops[0].clone()
}

#[test]
fn every_protocol_has_its_default_connections() {
    let on_demand = (
        Connections::OnDemand { at_most: 4_096 },
        PoolSettings {
            order: PoolOrder::LastUsed,
            streams_at_most: None,
            warm: 0,
        },
    );
    let one = (
        Connections::Fixed(1),
        PoolSettings {
            order: PoolOrder::Turns,
            streams_at_most: None,
            warm: 1,
        },
    );
    for protocol in Protocol::ALL {
        let found = variant(protocol.name(), "");
        let expected = match protocol {
            Protocol::H1 | Protocol::H1s => on_demand,
            Protocol::H2c | Protocol::H2 | Protocol::H3 => one,
        };
        assert_eq!(found.protocol, protocol);
        assert_eq!((found.connections, found.pool), expected, "{protocol}");
    }
}

#[test]
fn pool_defaults_depend_on_the_kind_of_connections() {
    let fixed = variant("h2", "connections = 8").pool;
    assert_eq!((fixed.order, fixed.warm), (PoolOrder::Turns, 8));
    let cold = variant(
        "h3",
        "connections = 8\npool = { warm = 0, order = \"least_busy\" }",
    )
    .pool;
    assert_eq!((cold.order, cold.warm), (PoolOrder::LeastBusy, 0));
    let demand = variant(
        "h2",
        "connections = { at_most = 7 }\npool = { streams_at_most = 10, warm = 7 }",
    );
    assert_eq!(demand.connections, Connections::OnDemand { at_most: 7 });
    assert_eq!(
        demand.pool,
        PoolSettings {
            order: PoolOrder::LastUsed,
            streams_at_most: Some(10),
            warm: 7
        }
    );
    for order in PoolOrder::ALL {
        let lines = format!("pool = {{ order = \"{order}\" }}");
        assert_eq!(variant("h1", &lines).pool.order, order);
    }
}

#[test]
fn every_key_of_http1_is_read() {
    let found = variant(
        "h1s",
        "http1 = { framing = \"chunked\", requests_per_connection = 9 }",
    );
    let http1 = Http1Settings {
        framing: BodyFraming::Chunked(Bytes::new(16_384)),
        requests_per_connection: Some(9),
    };
    assert_eq!((found.client.http1, found.server.http1), (http1, http1));
    let found = variant("h1", "http1 = { framing = { chunked = \"1KiB\" } }");
    assert_eq!(
        found.client.http1.framing,
        BodyFraming::Chunked(Bytes::new(1_024))
    );
    let lines = "http1 = { framing = \"length\", requests_per_connection = \"never\" }";
    assert_eq!(variant("h1", lines).client.http1, Http1Settings::default());
}

#[test]
fn every_key_of_http2_is_read() {
    let found = variant(
        "h2",
        "[variant.http2]\nstream_window = \"1MiB\"\nconnection_window = \"2MiB\"\n\
         window_updates = { every = \"64KiB\" }\nmax_frame_size = \"1MiB\"\n\
         max_concurrent_streams = 7\nheader_table_size = \"0\"\ndata_size = \"8KiB\"\n\
         goaway_after = 100\nrequests_per_connection = 50\nretry_unprocessed = true",
    );
    let http2 = Http2Settings {
        stream_window: Bytes::new(1 << 20),
        connection_window: Bytes::new(2 << 20),
        window_updates: WindowUpdates::Every(Bytes::new(1 << 16)),
        max_frame_size: Bytes::new(1 << 20),
        max_concurrent_streams: 7,
        header_table_size: Bytes::new(0),
        data_size: Bytes::new(8_192),
        goaway_after: Some(100),
        requests_per_connection: Some(50),
        retry_unprocessed: true,
    };
    assert_eq!((found.client.http2, found.server.http2), (http2, http2));
    let rules = [
        ("\"half\"", WindowUpdates::Half),
        ("\"never\"", WindowUpdates::Never),
        (
            "{ each_data = \"16375\" }",
            WindowUpdates::EachData(Bytes::new(16_375)),
        ),
        (
            "{ grant = \"8000000\" }",
            WindowUpdates::Grant(Bytes::new(8_000_000)),
        ),
    ];
    for (text, rule) in rules {
        let found = variant("h2c", &format!("http2 = {{ window_updates = {text} }}"));
        assert_eq!(found.server.http2.window_updates, rule);
    }
}

#[test]
fn every_key_of_http3_is_read() {
    let found = variant(
        "h3",
        "[variant.http3]\nstream_window = \"1KiB\"\nconnection_window = \"2KiB\"\n\
         max_concurrent_streams = 7\ncongestion_control = \"bbr2\"\npacing = false\n\
         max_ack_delay = \"5ms\"\nmax_udp_payload = \"1200\"\ngso = false\nsend_buffer = \"8KiB\"\n\
         receive_buffer = \"4KiB\"\nlocal_ports = \"1024-1030\"\nrequests_per_connection = 50\n\
         retry_unprocessed = true",
    );
    let http3 = Http3Settings {
        stream_window: Bytes::new(1_024),
        connection_window: Bytes::new(2_048),
        max_concurrent_streams: 7,
        congestion_control: QuicCongestionControl::Bbr2,
        pacing: false,
        max_ack_delay: Duration::from_millis(5),
        max_udp_payload: Bytes::new(1_200),
        gso: false,
        send_buffer: Some(Bytes::new(8_192)),
        receive_buffer: Some(Bytes::new(4_096)),
        local_ports: PortRange::new(1_024, 1_030),
        requests_per_connection: Some(50),
        retry_unprocessed: true,
    };
    assert_eq!((found.client.http3, found.server.http3), (http3, http3));
    let lines = "http3 = { send_buffer = \"1KiB\", receive_buffer = \"1KiB\", local_ports = \"1-2\" }\n\
                 client = { http3 = { send_buffer = \"kernel\", receive_buffer = \"kernel\", local_ports = \"kernel\" } }";
    assert_eq!(variant("h3", lines).client.http3, Http3Settings::default());
}

#[test]
fn every_key_of_tls_is_read() {
    let found = variant(
        "h2",
        "[variant.tls]\nmin_version = \"1.2\"\nmax_version = \"1.2\"\nciphers = \"AES128\"\n\
         groups = \"P-521:X25519MLKEM768\"\nresumption = false\nrecords = \"4KiB\"",
    );
    let tls = TlsSettings {
        min_version: TlsVersion::Tls12,
        max_version: TlsVersion::Tls12,
        ciphers: Some("AES128".to_owned()),
        groups: Some(vec![TlsGroup::P521, TlsGroup::X25519MlKem768]),
        resumption: false,
        records: RecordSizes::Fixed(Bytes::new(4_096)),
    };
    assert_eq!(found.client.tls, tls);
    assert_eq!(found.server.tls, tls);
    let lines = "tls = { ciphers = \"default\", groups = \"default\", \
                 records = { small = \"1300\", warmup = \"1MiB\", idle = \"1s\" } }";
    let tls = variant("h1s", lines).server.tls;
    assert_eq!((tls.ciphers, tls.groups), (None, None));
    assert_eq!(
        tls.records,
        RecordSizes::Dynamic {
            small: Bytes::new(1_300),
            warmup: Bytes::new(1 << 20),
            idle: Duration::from_secs(1)
        }
    );
    assert_eq!(
        variant("h3", "tls = { min_version = \"1.3\", resumption = false }")
            .client
            .tls
            .min_version,
        TlsVersion::Tls13
    );
}

#[test]
fn every_key_of_tcp_is_read() {
    let found = variant(
        "h2c",
        "[variant.tcp]\ncongestion_control = \"reno\"\nno_delay = false\nnotsent_lowat = \"16KiB\"\n\
         send_buffer = \"64KiB\"\nreceive_buffer = \"128KiB\"\nkeep_alive = \"15s\"\n\
         slow_start_after_idle = false\nmax_cwnd = 4\nmax_pacing_rate = \"8mbit\"\nwrite_size = \"512\"\n\
         local_ports = \"40000-40100\"",
    );
    let tcp = TcpSettings {
        congestion_control: Some("reno".to_owned()),
        no_delay: false,
        notsent_lowat: Some(Bytes::new(16_384)),
        send_buffer: Some(Bytes::new(65_536)),
        receive_buffer: Some(Bytes::new(131_072)),
        keep_alive: Some(Duration::from_secs(15)),
        slow_start_after_idle: Some(false),
        max_cwnd: Some(4),
        max_pacing_rate: BitRate::new(8_000_000),
        write_size: Some(Bytes::new(512)),
        local_ports: PortRange::new(40_000, 40_100),
    };
    assert_eq!(found.client.tcp, tcp);
    assert_eq!(found.server.tcp, tcp);
    let lines = "tcp = { send_buffer = \"1KiB\", keep_alive = \"1s\", slow_start_after_idle = true, \
                 max_cwnd = 1, max_pacing_rate = \"1kbit\", \
                 write_size = \"1KiB\", local_ports = \"1-2\" }\n\
                 client = { tcp = { notsent_lowat = \"kernel\", send_buffer = \"kernel\", \
                 receive_buffer = \"kernel\", keep_alive = \"off\", slow_start_after_idle = \"kernel\", \
                 max_cwnd = \"kernel\", max_pacing_rate = \"kernel\", \
                 write_size = \"all\", local_ports = \"kernel\" } }";
    assert_eq!(variant("h1", lines).client.tcp, TcpSettings::default());
}

/// Defaults, then the variant's settings for both sides, then the side's preset, then the side's own settings.
#[test]
fn settings_override_each_other_in_the_documented_order() {
    let found = variant(
        "h2",
        "congestion_control = \"bbr\"\nhttp2 = { stream_window = \"1MiB\", data_size = \"1KiB\" }\n\
         client = { http2 = { stream_window = \"2MiB\" }, tcp = { congestion_control = \"reno\" } }\n\
         server = { preset = \"nginx\", http2 = { max_concurrent_streams = 7 } }",
    );
    let client = Http2Settings {
        stream_window: Bytes::new(2 << 20),
        data_size: Bytes::new(1_024),
        ..Http2Settings::default()
    };
    let nginx = find_preset("nginx", Side::Server).unwrap();
    let server = Http2Settings {
        max_concurrent_streams: 7,
        ..nginx.http2
    };
    assert_eq!((found.client.http2, found.server.http2), (client, server));
    assert_eq!(found.server.http1, nginx.http1);
    assert_eq!(found.client.tcp.congestion_control.as_deref(), Some("reno"));
    assert_eq!(
        found.server.tcp.congestion_control.as_deref(),
        Some("bbr"),
        "a preset leaves TCP alone"
    );
    let table = "congestion_control = \"bbr\"\ntcp = { congestion_control = \"reno\" }";
    assert_eq!(
        variant("h1", table)
            .client
            .tcp
            .congestion_control
            .as_deref(),
        Some("reno")
    );
}

#[test]
fn every_preset_is_valid_for_every_protocol_and_side() {
    for preset in squall_base::plan::presets() {
        for protocol in Protocol::ALL {
            let name = preset.name;
            let lines =
                format!("client = {{ preset = \"{name}\" }}\nserver = {{ preset = \"{name}\" }}");
            let found = variant(protocol.name(), &lines);
            assert_eq!(found.client, preset.settings(Side::Client));
            assert_eq!(found.server, preset.settings(Side::Server));
        }
    }
}

#[test]
fn headers_keep_the_order_of_the_text_and_may_repeat() {
    let text = format!("{GRID}[request.headers]\nz = \"1\"\na = [\"2\", \"3\"]\nm = \"\"\n");
    let plan = parse(&text).unwrap().plan("b", 1).unwrap();
    let headers: Vec<String> = plan.requests[0]
        .headers
        .iter()
        .map(|(n, v)| format!("{n}={v}"))
        .collect();
    assert_eq!(headers, ["z=1", "a=2", "a=3", "m="]);
}

/// The files of bundled recipes, all of them timing scripts. How squall reads those is tested in squall-record.
struct BundledFiles;

impl Files for BundledFiles {
    fn script(&self, path: &str, _: RecordingChoice) -> Result<Script, String> {
        let (_, text) = bundled_files()
            .iter()
            .find(|(name, _)| *name == path)
            .ok_or("it is not bundled")?;
        let mut script = Script {
            requests: Vec::new(),
            steps: Vec::new(),
        };
        for line in text.lines() {
            let (at_ms, target) = line.split_once('\t').expect("a tab");
            let at_ms: f64 = at_ms.parse().expect("milliseconds");
            script.steps.push(ScriptStep {
                at: Duration::from_nanos((at_ms * 1e6) as u64),
                request: script.requests.len() as u32,
            });
            script.requests.push(ScriptRequest {
                method: "GET".to_owned(),
                url: target.to_owned(),
                headers: Vec::new(),
                body: ScriptBody::Empty,
            });
        }
        Ok(script)
    }
}

fn bundled_recipe(name: &str) -> Recipe {
    let (_, text) = bundled()
        .iter()
        .find(|(n, _)| *n == name)
        .expect("it is bundled");
    parse_with(text, StationMode::Real, &BundledFiles)
        .unwrap_or_else(|e| panic!("{}", e.render(name, text)))
}

#[test]
fn every_bundled_recipe_parses_and_each_profile_expands_to_a_plan() {
    for (name, _) in bundled() {
        let recipe = bundled_recipe(name);
        assert_eq!(recipe.name(), *name);
        for profile in recipe.profiles() {
            assert!(
                !recipe.plan(profile, 1).unwrap().trials.is_empty(),
                "{name} {profile}"
            );
        }
    }
}

/// The application speaks HTTP/1.1 to the station on its host, and one hop crosses the link.
#[test]
fn twilio_has_the_published_paths_and_http3() {
    let recipe = bundled_recipe("twilio");
    let paths: Vec<(&str, &str)> = recipe
        .variants()
        .iter()
        .map(|variant| (variant.name.as_str(), variant.path.as_str()))
        .collect();
    assert_eq!(
        paths,
        [
            ("direct", "client ~h1~> nginx"),
            ("haproxy", "client -h1-> haproxy ~h1~> nginx"),
            ("1 envoy", "client -h1-> envoy ~h1~> nginx"),
            ("2 envoys h1", "client -h1-> envoy ~h1~> envoy -h1-> nginx"),
            (
                "2 envoys h2c",
                "client -h1-> envoy ~h2c~> envoy -h1-> nginx"
            ),
            ("2 envoys h2", "client -h1-> envoy ~h2~> envoy -h1-> nginx"),
            ("2 envoys h3", "client -h1-> envoy ~h3~> envoy -h1-> nginx"),
        ]
    );
}

/// Three delays by three losses; `standard` has additional pairs of the primary comparison.
#[test]
fn twilio_has_the_published_grid() {
    let recipe = bundled_recipe("twilio");
    assert_eq!(recipe.default_profile(), "standard");
    for (profile, more) in [("standard", 10), ("full", 0)] {
        let plan = recipe.plan(profile, 1).unwrap();
        assert_eq!(
            (plan.conditions.len(), plan.trials.len()),
            (9, 9 * 7 + more),
            "{profile}"
        );
    }
    assert_eq!(
        recipe.plan("full", 1).unwrap().trials[0]
            .load
            .duration
            .to_string(),
        "15min"
    );
}

/// 91 players of a stream of 34 minutes, three runs: the manifest, an initialisation and 540 segments of each kind.
#[test]
fn bbc_has_the_published_players_and_requests() {
    let plan = bundled_recipe("bbc").plan("full", 1).unwrap();
    assert_eq!(plan.trials.len(), 3 * plan.variants.len());
    let load = &plan.trials[0].load;
    let LoadKind::Script { clients, steps, .. } = &load.kind else {
        panic!("it is a script");
    };
    assert_eq!((*clients, steps.len()), (91, 1_083));
    let minutes = load.duration.as_secs_f64() / 60.0;
    assert!((33.0..38.0).contains(&minutes), "{minutes}");
    for (kind, count) in [("/video/", 540), ("/audio/", 540), ("/init/", 2)] {
        let own = plan
            .requests
            .iter()
            .filter(|it| it.target.starts_with(kind));
        assert_eq!(own.count(), count, "{kind}");
    }
}

/// A trial needs less than 0.5 s to set up and to write its records.
fn planned_seconds(recipe: &str, profile: &str) -> f64 {
    let plan = bundled_recipe(recipe)
        .plan(profile, 1)
        .expect("the recipe has the profile");
    let seconds = |trial: &Trial| trial.load_time_at_most().as_secs_f64() + 0.5;
    plan.trials.iter().map(seconds).sum()
}

#[test]
fn the_quick_profile_of_twilio_ends_within_90_seconds() {
    let planned = planned_seconds("twilio", "quick");
    assert!(planned <= 90.0, "{planned} s");
}

#[test]
fn every_standard_profile_ends_within_30_minutes() {
    for (name, _) in bundled() {
        let planned = planned_seconds(name, "standard");
        eprintln!("{name}: {:.1} min", planned / 60.0);
        assert!(planned <= 30.0 * 60.0, "{name}: {planned} s");
    }
}

/// Fewer than six pairs prove nothing, regardless of their results.
#[test]
fn every_quick_profile_can_prove_its_primary_comparison() {
    for (name, _) in bundled() {
        let plan = bundled_recipe(name).plan("quick", 1).unwrap();
        let primary = plan.primary.clone().expect("a primary comparison");
        for variant in [&primary.variant, &primary.baseline] {
            let is_of = |trial: &&Trial| {
                trial.variant.name == *variant && trial.condition == primary.condition
            };
            let count = plan.trials.iter().filter(is_of).count();
            assert!(count >= 6, "{name}: {count} trials of {variant}");
        }
    }
}

/// The only variant of a recipe with these lines.
#[track_caller]
fn path_variant(lines: &str, stations: StationMode) -> Variant {
    let text = format!(
        "name = \"x\"\nquestion = \"?\"\nload = {{ rate = \"1/s\", duration = \"1s\" }}\n\
         [station.mine]\ncommand = \"mine -p {{listen_port}}\"\n[[variant]]\nname = \"v\"\n{lines}\n"
    );
    let recipe = parse_with(&text, stations, &NoFiles);
    recipe
        .unwrap_or_else(|e| panic!("{}", e.render("x", &text)))
        .variants()[0]
        .clone()
}

#[test]
fn every_hop_has_its_own_connections_and_settings() {
    let lines = r#"
        path = "client -h1-> proxy ~h2c~> proxy -h1s-> server"
        connections = 3
        http2 = { max_frame_size = "32KiB" }
        tls = { min_version = "1.3" }
        client = { http1.requests_per_connection = 7 }
        server = { tls.resumption = false }
        hop.2 = { connections = 8, http2.stream_window = "1MiB", server.http2.max_concurrent_streams = 9 }
    "#;
    let variant = path_variant(lines, StationMode::Real);
    assert_eq!(
        variant.path,
        "client -h1-> proxy ~h2c~> proxy -h1s-> server"
    );
    assert!(
        variant
            .stations
            .iter()
            .all(|station| station.runs == Implementation::Embedded)
    );
    let [first, second, third] = variant.hops.as_slice() else {
        panic!("three hops: {variant:?}");
    };
    let crosses = variant.hops.iter().map(|hop| hop.across_link);
    assert!(crosses.eq([false, true, false]));
    assert_eq!(variant.link_hop().0, 2);
    let connections = variant.hops.iter().map(|hop| hop.connections);
    let usual = Connections::OnDemand { at_most: 1_024 };
    assert!(connections.eq([Connections::Fixed(3), Connections::Fixed(8), usual]));
    assert_eq!(first.client.http1.requests_per_connection, Some(7));
    assert_eq!(first.server.http1.requests_per_connection, None);
    assert_eq!(
        second.client.http2.max_concurrent_streams,
        Http2Settings::default().max_concurrent_streams
    );
    for side in [&second.client, &second.server] {
        assert_eq!(side.http2.stream_window, Bytes::new(1 << 20));
        assert_eq!(side.http2.max_frame_size, Bytes::new(32 << 10));
    }
    assert_eq!(second.server.http2.max_concurrent_streams, 9);
    assert!(third.client.tls.resumption && !third.server.tls.resumption);
    assert_eq!(third.server.tls.min_version, TlsVersion::Tls13);
}

#[test]
fn hop_of_a_proxy_with_only_a_pool_keeps_the_limit_of_proxies() {
    let lines = "path = \"client -h1-> proxy ~h1~> server\"\n\
                 hop.1.pool.warm = 1\nhop.2.pool.warm = 1";
    let variant = path_variant(lines, StationMode::Real);
    let limits = [4_096, 1_024].map(|at_most| Connections::OnDemand { at_most });
    let connections = variant.hops.iter().map(|hop| hop.connections);
    assert!(connections.eq(limits), "{variant:?}");
}

#[test]
fn embedded_stations_have_the_presets_of_the_programs() {
    let lines = "path = \"client -h1-> envoy ~h2c~> mine -h1-> nginx\"";
    let real = path_variant(lines, StationMode::Real);
    let program = |program: &str| Implementation::Program {
        program: program.to_owned(),
    };
    assert_eq!(real.stations[1].runs, program("envoy"));
    assert!(
        matches!(&real.stations[2].runs, Implementation::Own(own) if own.command.contains("mine"))
    );
    assert_eq!(real.stations[3].runs, program("nginx"));

    let played = path_variant(lines, StationMode::Embedded);
    assert!(
        played
            .stations
            .iter()
            .all(|station| station.runs == Implementation::Embedded)
    );
    let preset = find_preset("envoy", Side::Client).unwrap();
    assert_eq!(played.hops[1].client.http2, preset.http2);
    assert_ne!(preset.http2, Http2Settings::default());
    assert_eq!(played.hops[1].server.http2, Http2Settings::default());
    let over = path_variant(
        &format!("{lines}\nhop.2.client.http2.data_size = \"1KiB\""),
        StationMode::Embedded,
    );
    assert_eq!(
        over.hops[1].client.http2.stream_window,
        preset.http2.stream_window
    );
    assert_eq!(over.hops[1].client.http2.data_size, Bytes::new(1_024));
}

//! Which settings are proposed for a trial, and which are in force. What detectors do with them is tested in the file of
//! each detector.

use squall_base::Duration;
use squall_base::plan::{Protocol, StationOptions, StationSetting};

use super::super::made;
use super::*;

fn trial(protocol: Protocol) -> Trial {
    made::trial(protocol).trial
}

/// The changes as `hop side setting = value`; none if there are no settings to change.
fn words(changes: &Changes) -> Vec<String> {
    match changes {
        Changes::Settings(changes) => setting_words(changes),
        Changes::InWords | Changes::InForce => Vec::new(),
    }
}

fn setting_words(changes: &[SettingChange]) -> Vec<String> {
    let word = |it: &SettingChange| format!("{} {} {it}", it.hop, it.side.name());
    changes.iter().map(word).collect()
}

fn program(name: &str) -> Implementation {
    Implementation::Program {
        program: name.to_owned(),
    }
}

#[test]
fn window_that_fills_the_path_is_proposed_for_stream_and_connection() {
    let mut trial = trial(Protocol::H2);
    let at = |trial: &Trial| words(&changes(trial, 1, Side::Client, Knob::StreamWindow));
    // No rate is known: sixteen times as much.
    assert_eq!(
        at(&trial),
        [
            "1 client http2.stream_window = 1MiB",
            "1 client http2.connection_window = 1MiB"
        ]
    );
    // 200 Mbit/s over a round trip of 50 ms are 1.25 MB.
    trial.condition.link = "rate 200mbit, queue 1MiB".to_owned().into();
    assert_eq!(at(&trial)[0], "1 client http2.stream_window = 4MiB");
    // A connection window that does not limit the stream stays.
    trial.variant.hops[0].client.http2.connection_window = Bytes::new(1 << 24);
    assert_eq!(at(&trial), ["1 client http2.stream_window = 4MiB"]);
    // Nothing larger is proposed than the protocols allow.
    trial.variant.hops[0].client.http2.stream_window = Bytes::new((1 << 31) - 1);
    let found = changes(&trial, 1, Side::Client, Knob::StreamWindow);
    assert_eq!(found, Changes::InForce);
}

/// The defaults of recipes, for which there is nothing to change.
#[test]
fn settings_in_force_are_not_proposed() {
    let trial = trial(Protocol::H2);
    for knob in [
        Knob::WindowUpdates,
        Knob::Reader,
        Knob::Resumption,
        Knob::RecordSize,
        Knob::NoDelay,
        Knob::DataSize,
        Knob::ReceiveBuffer,
        Knob::SendBuffer,
        Knob::RequestsPerConnection,
        Knob::Backlog,
    ] {
        for side in Side::ALL {
            let found = changes(&trial, 1, side, knob);
            assert_eq!(found, Changes::InForce, "{knob:?}");
        }
    }
    // The pool sets no limit of its own, and the client assumes the server's.
    for knob in [Knob::MaxStreams, Knob::RespectLimits] {
        let found = changes(&trial, 1, Side::Client, knob);
        assert_eq!(found, Changes::InForce, "{knob:?}");
    }
}

#[test]
fn settings_in_force_over_quic_are_not_proposed() {
    let mut trial = trial(Protocol::H3);
    for knob in [Knob::Pacing, Knob::DatagramBuffers, Knob::OtherProtocol] {
        let found = changes(&trial, 1, Side::Server, knob);
        assert_eq!(found, Changes::InForce, "{knob:?}");
    }
    let hop = &mut trial.variant.hops[0];
    hop.client.http3.pacing = false;
    hop.server.http3.congestion_control = QuicCongestionControl::Bbr2;
    let of = |knob| changes(&trial, 1, Side::Server, knob);
    assert_eq!(
        words(&of(Knob::DatagramBuffers)),
        ["1 client http3.pacing = true"],
        "its peer sends in bursts"
    );
    assert_eq!(of(Knob::CongestionControl), Changes::InForce);
}

#[test]
fn settings_that_the_recipe_already_has_are_not_proposed() {
    let mut trial = trial(Protocol::H1s);
    let server = &mut trial.variant.hops[0].server;
    server.tcp.congestion_control = Some("bbr".to_owned());
    server.tcp.slow_start_after_idle = Some(false);
    server.tls.records = RecordSizes::Fixed(SHORT_RECORD);
    for knob in [
        Knob::CongestionControl,
        Knob::Pacing,
        Knob::SlowStartAfterIdle,
        Knob::ShortRecords,
    ] {
        let of = |side| changes(&trial, 1, side, knob);
        assert_eq!(of(Side::Server), Changes::InForce, "{knob:?}");
        assert_eq!(words(&of(Side::Client)).len(), 1, "{knob:?}");
    }
}

#[test]
fn program_settings_that_a_recipe_omits_do_not_count_as_in_force() {
    let mut trial = trial(Protocol::H2);
    trial.variant.stations[1].runs = program("nginx");
    for knob in [
        Knob::WindowUpdates,
        Knob::Resumption,
        Knob::NoDelay,
        Knob::ReceiveBuffer,
        Knob::SendBuffer,
    ] {
        let found = changes(&trial, 1, Side::Server, knob);
        assert_eq!(found, Changes::InWords, "{knob:?}");
    }
    // Our own client keeps its connections, and the server may end them.
    let found = changes(&trial, 1, Side::Client, Knob::Backlog);
    assert_eq!(found, Changes::InWords);
}

#[test]
fn active_queue_of_the_senders_direction_is_in_force() {
    let mut trial = trial(Protocol::H1);
    let of = |trial: &Trial, side| changes(trial, 1, side, Knob::QueueDiscipline);
    for (settings, expected) in [
        ("", Changes::InWords),
        ("rate 10mbit, queue 400 packets", Changes::InWords),
        ("queue drop-head 64KiB", Changes::InWords),
        (
            "rate 10mbit, queue codel target 5ms interval 100ms",
            Changes::InForce,
        ),
        ("queue fq-codel target 5ms", Changes::InForce),
        ("queue pie target 15ms update 15ms", Changes::InForce),
        ("queue red 30KiB 90KiB 10%", Changes::InForce),
    ] {
        trial.condition.link.down = settings.to_owned();
        assert_eq!(of(&trial, Side::Server), expected, "{settings}");
        assert_eq!(of(&trial, Side::Client), Changes::InWords, "{settings}");
    }
}

#[test]
fn resumption_is_turned_on_wherever_it_is_off() {
    let mut trial = trial(Protocol::H2);
    trial.variant.hops[0].client.tls.resumption = false;
    trial.variant.hops[0].server.tls.resumption = false;
    let found = changes(&trial, 1, Side::Server, Knob::Resumption);
    assert_eq!(
        words(&found),
        [
            "1 client tls.resumption = true",
            "1 server tls.resumption = true"
        ]
    );
}

#[test]
fn programs_get_only_settings_that_recipes_can_give_them() {
    let mut trial = trial(Protocol::H2);
    trial.variant.stations[1].runs = program("nginx");
    let of = |trial: &Trial, knob| words(&changes(trial, 1, Side::Server, knob));
    assert_eq!(
        of(&trial, Knob::StreamWindow),
        ["1 server http2.stream_window = 1MiB"]
    );
    assert!(of(&trial, Knob::NoDelay).is_empty());
    assert_eq!(
        of(&trial, Knob::SlowStartAfterIdle),
        ["1 server tcp.slow_start_after_idle = false"],
        "its host has it"
    );
    trial.variant.stations[1].asked = StationOptions {
        settings: vec![StationSetting {
            side: Side::Server,
            setting: ProgramSetting::MaxConcurrentStreams,
            value: 10,
        }],
        ..StationOptions::default()
    };
    assert_eq!(
        of(&trial, Knob::MaxStreams),
        ["1 server http2.max_concurrent_streams = 40"]
    );
}

#[test]
fn connections_and_record_sizes_are_proposed_with_values() {
    let mut trial = trial(Protocol::H1s);
    trial.variant.hops[0].connections = Connections::OnDemand { at_most: 6 };
    let found = changes(&trial, 1, Side::Client, Knob::Connections);
    assert_eq!(words(&found), ["1 client connections.at_most = 24"]);
    assert_eq!(more_connections(&trial, 1, 5.2), [], "not a fixed number");
    trial.variant.hops[0].connections = Connections::Fixed(1);
    let found = more_connections(&trial, 1, 5.2);
    assert_eq!(setting_words(&found), ["1 client connections = 5"]);
    let found = changes(&trial, 1, Side::Server, Knob::ShortRecords);
    assert_eq!(words(&found), ["1 server tls.records = 4KiB"]);
    trial.variant.hops[0].server.tls.records = RecordSizes::Dynamic {
        small: Bytes::new(1_300),
        warmup: Bytes::new(1 << 20),
        idle: Duration::from_secs(1),
    };
    let found = changes(&trial, 1, Side::Server, Knob::RecordSize);
    assert_eq!(words(&found), ["1 server tls.records = 16KiB"]);
}

#[test]
fn rates_are_read_from_the_links_settings() {
    let rate = |text| super::rate(text).map(BitRate::bits_per_s);
    assert_eq!(rate("queue codel, rate 2mbit bucket 32kB"), Some(2_000_000));
    assert_eq!(rate("rate unlimited"), None);
    assert_eq!(rate(""), None);
}

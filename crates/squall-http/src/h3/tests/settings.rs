//! The effect of HTTP/3 settings on the wire: transport parameters and datagram sizes.

use squall_base::plan::TlsGroup;

use super::*;

#[test]
fn settings_are_announced_as_transport_parameters() {
    let settings = Http3Settings {
        stream_window: squall_base::Bytes::new(111_111),
        connection_window: squall_base::Bytes::new(222_222),
        max_concurrent_streams: 33,
        max_ack_delay: squall_base::Duration::from_millis(44),
        max_udp_payload: squall_base::Bytes::new(1_444),
        ..Http3Settings::default()
    };
    let pair = Pair::established(&settings, InboxOptions::default());
    let servers = pair.client.connection.quic().peer_transport_params();
    let servers = servers.unwrap();
    assert_eq!(servers.initial_max_stream_data_bidi_local, 111_111);
    assert_eq!(servers.initial_max_stream_data_bidi_remote, 111_111);
    assert_eq!(servers.initial_max_data, 222_222);
    assert_eq!(servers.initial_max_streams_bidi, 33);
    assert_eq!(servers.max_ack_delay, 44);
    assert_eq!(servers.max_udp_payload_size, 1_444);
}

#[test]
fn handshakes_use_the_configured_groups() {
    let only = |group| TlsSettings {
        groups: Some(vec![group]),
        ..TlsSettings::default()
    };
    for group in TlsGroup::ALL {
        let tls = only(group);
        let sides = (&tls, &tls);
        let mut pair = Pair::secured_by(&Http3Settings::default(), sides, InboxOptions::default());
        pair.run();
        let facts = pair.client.handshake_facts();
        assert_eq!(facts.unwrap().group, Some(group.name()));
        // The ClientHello with the keys of ML-KEM does not fit one datagram.
        let mut other = connect(&mut pair.context, "server");
        let (mut batch, mut inbox) = (Batch::new(), Inbox::default());
        let mut datagrams = 0;
        while other.output(now(), &mut batch, &mut inbox) {
            datagrams += batch.datagrams().count();
        }
        let is_long = group == TlsGroup::X25519MlKem768;
        assert_eq!(datagrams > 1, is_long, "{group:?}: {datagrams}");
    }
    let (client, server) = (only(TlsGroup::P384), only(TlsGroup::P521));
    let sides = (&client, &server);
    let mut pair = Pair::secured_by(&Http3Settings::default(), sides, InboxOptions::default());
    pair.run();
    assert!(!pair.client.is_established());
}

#[test]
fn server_keys_of_every_usual_kind_are_accepted() {
    let (settings, tls) = (Http3Settings::default(), TlsSettings::default());
    for (name, identity) in crate::tls::tests::identities_of_every_usual_kind() {
        let mut pair = Pair::new();
        pair.context = ClientContext::new(&settings, &tls, &Trust::Anyone, 1).unwrap();
        pair.client = connect(&mut pair.context, "server");
        pair.server = Server::new(&settings, &tls, &identity, 2).unwrap();
        pair.run();
        assert!(pair.client.is_ready(), "{name}: {:?}", pair.failure);
    }
}

#[test]
fn a_client_takes_only_the_configured_number_of_requests() {
    let settings = Http3Settings {
        requests_per_connection: Some(2),
        ..Http3Settings::default()
    };
    let mut pair = Pair::established(&settings, InboxOptions::default());
    for is_last in [false, true] {
        let answers = pair.answers();
        pair.submit(&request("GET", Body::EMPTY));
        // The last request keeps the connection open, but no other one may follow it.
        assert!(pair.client.is_open());
        assert_eq!(pair.client.is_ready(), !is_last);
        pair.run();
        pair.answer(&response(Body::EMPTY));
        pair.run_until(|pair| pair.answers() > answers);
        assert_eq!(pair.client.is_open(), !is_last);
    }
    let refused = pair.client.submit(&request("GET", Body::EMPTY));
    assert_eq!(refused, Err(crate::error::SubmitError::Closed));
}

/// A megabyte each way.
fn exchange(mut pair: Pair) -> Pair {
    pair.submit(&request("POST", megabyte()));
    pair.run_until(Pair::has_ended);
    pair.answer(&response(megabyte()));
    pair.run_until(|pair| pair.answers() == 1);
    pair
}

#[test]
fn full_datagrams_have_the_maximum_udp_payload() {
    for bytes in [1_200, 1_444, 9_000] {
        let settings = Http3Settings {
            max_udp_payload: squall_base::Bytes::new(bytes),
            ..Http3Settings::default()
        };
        let pair = exchange(Pair::established(&settings, InboxOptions::default()));
        assert_eq!(pair.longest as u64, bytes);
    }
}

#[test]
fn packets_are_held_back_only_with_pacing() {
    let kinds = [
        QuicCongestionControl::Cubic,
        QuicCongestionControl::Reno,
        QuicCongestionControl::Bbr2,
    ];
    for congestion_control in kinds {
        for pacing in [false, true] {
            let settings = Http3Settings {
                congestion_control,
                pacing,
                ..Http3Settings::default()
            };
            let pair = Pair::established_at_distance(&settings);
            let was_held = !exchange(pair).ahead.is_zero();
            assert_eq!(was_held, pacing, "{congestion_control:?}");
        }
    }
}

#[test]
fn stream_windows_do_not_grow() {
    const MAX_STREAM_DATA: u64 = 0x11;
    for window in [2, 100, 4_096, 20_000] {
        let settings = Http3Settings {
            stream_window: squall_base::Bytes::new(window),
            ..Http3Settings::default()
        };
        let mut pair = Pair::established(&settings, FRAMES);
        pair.submit(&request("GET", Bytes::new()));
        pair.run();
        let body = vec![7; 50 * window as usize];
        pair.answer(&response(Bytes::from(body)));
        pair.run_until(|pair| pair.answers() == 1);
        let is_credit = |frame: &&FrameFacts| {
            frame.way == Way::Sent && frame.kind == MAX_STREAM_DATA && frame.stream == Some(0)
        };
        let mut limit = window;
        for credit in pair.to_client.frames.iter().filter(is_credit) {
            let next = credit.value.expect("a limit");
            assert!(next <= limit + window, "{window}: {limit}, then {next}");
            limit = next;
        }
        assert!(limit >= 50 * window, "{window}: up to {limit}");
    }
}

//! Other things that can happen between the two sides: losses, strangers, other versions, forged datagrams; and the
//! marks and frames they report.

use super::*;

#[test]
fn lost_datagrams_are_retransmitted() {
    for congestion_control in QuicCongestionControl::ALL {
        let settings = Http3Settings {
            congestion_control,
            ..Http3Settings::default()
        };
        let mut pair = Pair::with(&settings, MESSAGES);
        pair.run_until(|pair| pair.client.is_ready());
        pair.lose = |n| n.is_multiple_of(17);
        pair.submit(&request("POST", megabyte()));
        pair.run_until(Pair::has_ended);
        assert!(pair.to_server.bodies == megabyte());
        assert!(pair.client.path().lost > 0);
        let marks = pair
            .to_client
            .events
            .iter()
            .filter(|event| matches!(event, ClientEvent::RequestWritten { .. }));
        assert_eq!(marks.count(), 1, "{congestion_control}");
    }
}

#[test]
fn untrusted_and_misnamed_certificates_are_refused() {
    let mut pair = Pair::new();
    let other = identity();
    let (settings, tls) = (Http3Settings::default(), TlsSettings::default());
    let strict = ClientContext::new(&settings, &tls, &trust_in(&other), 3);
    pair.client = connect(&mut strict.unwrap(), "server");
    pair.run();
    let words = pair.failure.take().unwrap();
    assert!(words.contains("the certificate is not trusted"), "{words}");
    assert!(!pair.client.is_open());

    let mut pair = Pair::new();
    pair.client = connect(&mut pair.context, "another");
    pair.run();
    let words = pair.failure.take().unwrap();
    assert!(words.contains("certificate was refused"), "{words}");

    let easy = ClientContext::new(&settings, &tls, &Trust::Anyone, 3);
    pair.client = connect(&mut easy.unwrap(), "another");
    pair.run();
    assert!(pair.client.is_ready());
}

#[test]
fn another_application_protocol_is_refused() {
    let mut pair = Pair::new();
    pair.context
        .config
        .set_application_protos(&[b"hq-interop"])
        .unwrap();
    pair.client = connect(&mut pair.context, "server");
    pair.run();
    let words = pair.failure.unwrap();
    assert!(words.contains("does not speak HTTP/3"), "{words}");
}

/// By what factor a loss during a long upload shrinks the congestion window, and whether the bandwidth is estimated.
fn reduced(congestion_control: QuicCongestionControl) -> (f64, bool) {
    // Without pacing, pauses of the real clock have no effect.
    let settings = Http3Settings {
        congestion_control,
        pacing: false,
        gso: false,
        ..Http3Settings::default()
    };
    let mut pair = Pair::established(&settings, InboxOptions::default());
    pair.submit(&request("POST", megabyte()));
    // Adjacent datagrams are one loss event for congestion control, and they carry bytes of the body.
    pair.lose = |n| (100..104).contains(&n);
    let mut least = f64::INFINITY;
    let mut before = pair.client.path().cwnd_bytes as f64;
    while pair.step() {
        let now = pair.client.path().cwnd_bytes as f64;
        least = least.min(now / before);
        before = now;
    }
    let path = pair.client.path();
    assert!((1..=4).contains(&path.lost), "{path:?}");
    (least, path.max_bandwidth_bytes_per_s.is_some())
}

/// CUBIC continues with 0.7 of its congestion window (RFC 9438, section 4.6), NewReno with half (RFC 9002, section 7.3.2).
/// BBR's congestion window follows its bandwidth estimate, which the others do not make.
#[test]
fn a_loss_shrinks_the_congestion_window_by_the_algorithms_factor() {
    for (congestion_control, expected, is_estimating) in [
        (QuicCongestionControl::Cubic, 0.66..=0.74, false),
        (QuicCongestionControl::Reno, 0.46..=0.54, false),
        (QuicCongestionControl::Bbr2, 0.0..=f64::INFINITY, true),
    ] {
        let (least, estimates) = reduced(congestion_control);
        assert!(expected.contains(&least), "{congestion_control:?}: {least}");
        assert_eq!(estimates, is_estimating, "{congestion_control:?}");
    }
}

/// Either side alone can disable resumption.
#[test]
fn sessions_are_resumed_unless_a_side_disables_it() {
    let only = |resumption| TlsSettings {
        resumption,
        ..TlsSettings::default()
    };
    for (client, server) in [(true, true), (false, true), (true, false), (false, false)] {
        let sides = (&only(client), &only(server));
        let mut pair = Pair::secured_by(&Http3Settings::default(), sides, InboxOptions::default());
        pair.run();
        assert!(pair.client.is_ready() && !pair.client.is_resumed());
        pair.client = connect(&mut pair.context, "server");
        pair.run();
        let is_resumed = client && server;
        assert!(pair.client.is_ready(), "{client}, {server}");
        assert_eq!(pair.client.is_resumed(), is_resumed, "{client}, {server}");
        assert_eq!(pair.server.is_resumed(1), is_resumed, "{client}, {server}");
        assert!(!pair.server.is_resumed(0));
    }
}

#[test]
fn client_sees_the_certificates_and_the_transport_parameters() {
    let settings = Http3Settings {
        max_udp_payload: squall_base::Bytes::new(1_300),
        ..Http3Settings::default()
    };
    let mut pair = Pair::with(&settings, MESSAGES);
    assert_eq!(pair.client.handshake_facts(), None);
    pair.run();
    let facts = pair.client.handshake_facts().unwrap();
    assert!(facts.group.is_some());
    assert_eq!(facts.certificates.unwrap().count, 1);
    let transport = facts.transport.unwrap();
    assert_eq!(transport.max_udp_payload_bytes, 1_300);
    assert_eq!(transport.max_idle_timeout, crate::h3::IDLE_TIMEOUT);
    assert_eq!(
        transport.initial_max_data_bytes,
        settings.connection_window.get()
    );
    assert_eq!(
        transport.initial_max_stream_data_bytes,
        settings.stream_window.get()
    );
    let streams = u64::from(settings.max_concurrent_streams);
    assert_eq!(transport.initial_max_streams_bidi, streams);
    assert!(!transport.used_retry);
    assert!((1_200..=1_300).contains(&pair.client.largest_datagram()));
    assert_eq!(pair.context.early_data_bytes("server"), Some(0));
}

/// The call that reports a mark must be the one that sent the packet with those bytes, according to quiche's own log.
#[test]
fn marks_belong_to_the_packets_that_carry_the_bytes() {
    let mut pair = Pair::usual(FRAMES);
    for _ in 0..5 {
        pair.submit(&request("POST", megabyte().slice(..200_000)));
    }
    pair.submit(&request("GET", Body::EMPTY));
    pair.lose = |n| n.is_multiple_of(23);
    let mut sent: BTreeMap<u64, u64> = BTreeMap::new();
    let mut ended = BTreeSet::new();
    let start = now();
    while ended.len() < 6 {
        assert!(start.elapsed().as_secs() < 5);
        pair.to_client.clear();
        if !pair.step() {
            wait(std::time::Duration::from_millis(1));
            let _ = pair.client.on_timeout(now());
            while pair.server.on_timeout(now()).is_some() {}
        }
        let (mut begins, mut ends) = (BTreeSet::new(), BTreeSet::new());
        for frame in &pair.to_client.frames {
            let is_stream = frame.layer == FrameLayer::Quic && frame.kind & !0x7 == 0x8;
            if !is_stream || frame.way != Way::Sent || frame.stream.is_some_and(|id| id % 4 != 0) {
                continue;
            }
            let id = frame.stream.unwrap();
            if sent
                .insert(id, frame.offset.unwrap() + frame.length)
                .is_none()
            {
                begins.insert(id);
            }
            if frame.kind & 0x1 != 0 && ended.insert(id) {
                ends.insert(id);
            }
        }
        let mut marks = (BTreeSet::new(), BTreeSet::new());
        for event in &pair.to_client.events {
            match event {
                ClientEvent::RequestFirstByteWritten { stream, .. } => marks.0.insert(stream.0),
                ClientEvent::RequestWritten { stream, .. } => marks.1.insert(stream.0),
                _ => false,
            };
        }
        assert_eq!(marks, (begins, ends));
    }
}

#[test]
fn frames_of_quic_and_http3_are_reported() {
    let mut pair = Pair::usual(FRAMES);
    let stream = pair.submit(&request("POST", vec![1; 3_000]));
    pair.run();
    pair.answer(&response(b"hello".to_vec()));
    pair.run();
    let of = |frames: &[FrameFacts], way, layer| -> Vec<FrameFacts> {
        let frames = frames.iter().filter(|f| f.way == way && f.layer == layer);
        frames.copied().collect()
    };
    // Every HTTP/3 frame that was sent was received, at the same offset of its stream.
    for (sent, got) in [
        (&pair.to_client.frames, &pair.to_server.frames),
        (&pair.to_server.frames, &pair.to_client.frames),
    ] {
        let sent = of(sent, Way::Sent, FrameLayer::Http3);
        let got = of(got, Way::Received, FrameLayer::Http3);
        let place = |f: &FrameFacts| (f.stream, f.offset, f.kind, f.length);
        let mut sent_places: Vec<_> = sent.iter().map(place).collect();
        let mut got_places: Vec<_> = got.iter().map(place).collect();
        sent_places.sort_unstable();
        got_places.sort_unstable();
        assert_eq!(sent_places, got_places);
        assert!(sent.iter().all(|f| f.packet.is_some()));
    }
    let frames = of(&pair.to_client.frames, Way::Sent, FrameLayer::Http3);
    let of_request: Vec<_> = frames
        .iter()
        .filter(|f| f.stream == Some(stream.0))
        .collect();
    let [head, data] = of_request.as_slice() else {
        panic!("{of_request:?}")
    };
    assert_eq!(
        (head.kind, head.offset, data.kind, data.length),
        (1, Some(0), 0, 3_000)
    );
    assert_eq!(data.offset, Some(head.length + 2));
    // Every QUIC frame arrived too: nothing is lost here.
    let count = |frames: &[FrameFacts], way, kind: u64| {
        let frames = of(frames, way, FrameLayer::Quic);
        frames.iter().filter(|f| f.kind & !0x1 == kind).count()
    };
    for kind in [0x02, 0x06, 0x0e, 0x1e] {
        let sent = count(&pair.to_client.frames, Way::Sent, kind)
            + count(&pair.to_server.frames, Way::Sent, kind);
        let got = count(&pair.to_client.frames, Way::Received, kind)
            + count(&pair.to_server.frames, Way::Received, kind);
        assert!(
            sent > 0 && sent == got,
            "{kind:#x}: {sent} sent, {got} received"
        );
    }
}

#[test]
fn unknown_versions_are_answered_with_version_negotiation() {
    let mut pair = Pair::new();
    let mut datagram = vec![0; 1_200];
    // A long header of version 0x1a2a3a4a (RFC 9000, section 15) with ids of 8 bytes.
    datagram[..6].copy_from_slice(&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8]);
    datagram[14] = 8;
    let (from, to): (SocketAddr, SocketAddr) = (CLIENT.parse().unwrap(), SERVER.parse().unwrap());
    for _ in 0..100 {
        let owner = pair.give_server(&mut datagram, from, to);
        assert_eq!(owner, None);
    }
    let mut answers = 0;
    while let Some(sender) = pair.server_output(now()) {
        assert_eq!((sender, pair.batch.to()), (BatchSource::Endpoint, from));
        answers += 1;
    }
    assert_eq!((answers, pair.server.len()), (16, 0));
}

#[test]
fn short_first_packets_are_dropped() {
    let mut pair = Pair::new();
    pair.client
        .output(now(), &mut pair.batch, &mut pair.to_client);
    let (from, to) = (pair.batch.from(), pair.batch.to());
    let mut datagram = pair.batch.bytes()[..1_199].to_vec();
    let owner = pair.give_server(&mut datagram, from, to);
    assert_eq!((owner, pair.server.len()), (None, 0));
}

#[test]
fn a_protocol_violation_is_reported_in_words() {
    let mut pair = Pair::usual(InboxOptions::default());
    assert!(pair.client.connection.open(0));
    pair.client.connection.send(0, |out| {
        out.push(wire::frame(wire::SETTINGS, b""));
    });
    pair.run();
    assert_eq!(
        pair.failure.as_deref(),
        Some(
            "the peer closed the connection: a frame came where it is not allowed (HTTP/3 error 0x105): \
             a frame of another stream in a message"
        )
    );
}

#[test]
fn a_thousand_connections_share_a_server() {
    let mut pair = Pair::new();
    let mut clients: Vec<Client> = (0..1_000)
        .map(|_| connect(&mut pair.context, "server"))
        .collect();
    // All share one address. The server tells them apart by connection id, so separate ports would not matter.
    for client in &mut clients {
        std::mem::swap(&mut pair.client, client);
        pair.run();
        assert!(pair.client.is_ready());
        pair.submit(&request("GET", Body::EMPTY));
        pair.run();
        std::mem::swap(&mut pair.client, client);
    }
    assert_eq!(pair.server.len(), 1_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn garbage_never_panics(
        garbage in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..1_400), 1..8),
        flips in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..4),
    ) {
        let mut pair = Pair::new();
        let (client, server): (SocketAddr, SocketAddr) =
            (CLIENT.parse().unwrap(), SERVER.parse().unwrap());
        pair.client.output(now(), &mut pair.batch, &mut pair.to_client);
        let mut first = pair.batch.bytes().to_vec();
        for (at, mask) in flips {
            let at = usize::from(at) % first.len();
            first[at] ^= mask;
        }
        pair.server.receive(&mut first, client, server, &mut pair.to_server);
        for mut bytes in garbage {
            pair.server.receive(&mut bytes.clone(), client, server, &mut pair.to_server);
            let _ = pair.client.receive(&mut bytes, server, client, &mut pair.to_client);
        }
        pair.run();
    }

    #[test]
    fn garbage_in_streams_never_panics(
        pieces in proptest::collection::vec((0_u64..3, proptest::collection::vec(any::<u8>(), 1..80)), 1..20),
    ) {
        let mut pair = Pair::usual(FRAMES);
        for (lane, bytes) in pieces {
            // A request stream, the control stream, and a unidirectional stream without a type yet.
            let id = [0, 2, 6][lane as usize];
            if id != 2 && pair.client.connection.body_room(id) == 0 {
                pair.client.connection.open(id);
            }
            pair.client.connection.send(id, |out| out.push(bytes.into()));
            pair.run();
        }
    }
}

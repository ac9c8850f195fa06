//! What `squall probe` must find out about each real server that the tests start. docs/PROBE.md, "Real servers", has a row
//! for each.
//!
//! A value is here only if the server's documentation or source says it, so that it does not depend on the machine; the tests
//! print the others. `alone::probe_servers` and `alone::probe_servers_tls` start the servers and compare.

use std::fs;

/// How far away a server is, and how much is uploaded.
#[derive(Clone, Copy)]
pub(crate) struct Way<'a> {
    /// The settings of the link.
    pub(crate) link: &'a str,
    /// Its round trip.
    pub(crate) round_trip: &'a str,
    /// The size of the upload.
    pub(crate) upload: &'a str,
}

/// For windows of 64 KiB: the upload takes about thirty of them.
pub(crate) const USUAL: Way<'static> = Way {
    link: "delay 15ms",
    round_trip: "30 ms",
    upload: "2MB",
};

/// For windows of 1 MiB: the upload takes about sixty of them, so that slow start is a tenth of its time, and it still fits
/// into the 5 s of a step.
const LONG: Way<'static> = Way {
    link: "delay 25ms",
    round_trip: "50 ms",
    upload: "60MB",
};

/// What is known about a server.
pub(crate) struct Expected {
    /// Its name in docs/PROBE.md.
    pub(crate) name: &'static str,
    /// What it is recognised as; `-` if nothing identifies it.
    pub(crate) product: &'static str,
    /// How it is probed.
    pub(crate) way: Way<'static>,
    /// The stream's window at its first DATA frame.
    pub(crate) stream_bytes: u64,
    /// The connection's largest window. The probe may see less, by the size of the earlier short upload, if the server has not
    /// returned that credit.
    pub(crate) connection_bytes: Option<u64>,
    /// How it opens the stream's window: one of these. There are several if the sizes of its updates depend on how much it
    /// reads at a time, and none if it is not known.
    pub(crate) policies: &'static [&'static str],
    /// SETTINGS_MAX_CONCURRENT_STREAMS.
    pub(crate) streams: Option<u64>,
    /// Whether windows must be what limits the upload.
    pub(crate) is_limited: bool,
}

/// The largest window of HTTP/2 (RFC 9113, section 6.9.1).
const LARGEST: u64 = 0x7fff_ffff;

/// Windows of 65,535 bytes, 100 streams, and updates at half of a window: nghttp2's defaults.
const NGHTTP2: Expected = Expected {
    name: "",
    product: "",
    way: USUAL,
    stream_bytes: 65_535,
    connection_bytes: Some(65_535),
    policies: &["half"],
    streams: Some(100),
    is_limited: true,
};

/// `http2_body_preread_size` is 64k, and the connection's window is opened fully. The window is opened again whenever the
/// buffer of that size is empty (src/http/v2/ngx_http_v2.c, `ngx_http_v2_read_unbuffered_request_body`): after several DATA
/// frames if nginx reads them together, after each one if it reads them one by one.
const NGINX: Expected = Expected {
    name: "nginx, proxy_request_buffering off",
    product: "nginx",
    stream_bytes: 65_536,
    connection_bytes: Some(LARGEST),
    policies: &["half", "every", "each_data"],
    streams: Some(128),
    ..NGHTTP2
};

/// `MaxUploadBufferPerStream` and `MaxUploadBufferPerConnection` are 1 MiB. Each read of the body is given back.
const GO: Expected = Expected {
    name: "Go net/http",
    product: "go",
    way: LONG,
    stream_bytes: 1 << 20,
    connection_bytes: Some(1 << 20),
    policies: &["every", "each_data"],
    streams: Some(250),
    is_limited: true,
};

/// The servers, in the order of docs/PROBE.md.
static SERVERS: [Expected; 14] = [
    Expected {
        name: "nginx, default",
        policies: &["grants"],
        is_limited: false,
        ..NGINX
    },
    NGINX,
    Expected {
        name: "nginx, the same with http2_body_preread_size 1m",
        way: LONG,
        stream_bytes: 1 << 20,
        policies: &[],
        ..NGINX
    },
    Expected {
        name: "HAProxy",
        product: "haproxy",
        connection_bytes: Some(LARGEST),
        policies: &["each_data"],
        ..NGHTTP2
    },
    Expected {
        name: "nghttpx",
        product: "nghttpx",
        ..NGHTTP2
    },
    Expected {
        name: "nghttpd",
        product: "nghttpd",
        ..NGHTTP2
    },
    Expected {
        name: "Caddy",
        product: "caddy",
        ..GO
    },
    // The upload is shorter than half of its window.
    Expected {
        name: "Envoy",
        product: "envoy",
        way: USUAL,
        stream_bytes: 16 << 20,
        connection_bytes: Some(24 << 20),
        policies: &["unseen"],
        streams: Some(1_024),
        is_limited: false,
    },
    // H2WindowSize is 65535, H2MaxSessionStreams is 100. Newer versions let the window grow.
    Expected {
        name: "Apache httpd",
        product: "apache",
        connection_bytes: Some(LARGEST),
        policies: &[],
        is_limited: false,
        ..NGHTTP2
    },
    Expected {
        name: "h2o",
        product: "h2o",
        way: USUAL,
        stream_bytes: 16 << 20,
        connection_bytes: None,
        policies: &[],
        streams: Some(100),
        is_limited: false,
    },
    // It uses nghttp2 with another limit of streams.
    Expected {
        name: "Node.js",
        product: "-",
        streams: None,
        ..NGHTTP2
    },
    GO,
    // It gives back what the application has read.
    Expected {
        name: "Tomcat",
        product: "-",
        policies: &[],
        ..NGHTTP2
    },
    // Both windows are 1 MiB, max_concurrent_streams is 200.
    Expected {
        name: "hyper (granian)",
        product: "-",
        policies: &[],
        streams: Some(200),
        ..GO
    },
];

/// A gRPC server accepts only its own messages as uploads, so only its SETTINGS are known.
pub(crate) const GRPC: &str = "gRPC (C core)";

/// What is known about the server of this name.
pub(crate) fn expected(name: &str) -> &'static Expected {
    let found = SERVERS.iter().find(|server| server.name == name);
    found.unwrap_or_else(|| panic!("{name} is not in the list of servers"))
}

/// The cells of the table, without the row of titles.
fn rows() -> Vec<Vec<String>> {
    const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/PROBE.md");
    let docs = fs::read_to_string(DOCS).expect("the docs");
    let (_, section) = docs.split_once("## Real servers").expect("the section");
    let (section, _) = section.split_once("\n## ").unwrap_or((section, ""));
    let lines = section
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows = lines.map(|line| line.split(" | ").map(str::to_owned).collect());
    rows.skip(1).collect()
}

#[test]
fn docs_have_a_row_for_every_server_that_is_probed() {
    let rows = rows();
    let of = |place: usize| -> Vec<&str> {
        let cells = rows.iter().map(|row| row[place].as_str());
        cells.collect()
    };
    let names = SERVERS.iter().map(|server| server.name);
    let names: Vec<&str> = names.chain([GRPC]).collect();
    assert_eq!(of(0), names);
    assert!(rows.iter().all(|row| row.len() == 10), "{rows:#?}");
}

#[test]
fn rows_of_the_docs_show_what_is_known_about_each_server() {
    for (row, server) in rows().iter().zip(&SERVERS) {
        let [name, product, round_trip, stream, _, updates, streams, ..] = row.as_slice() else {
            panic!("too few cells: {row:?}");
        };
        let number = |cell: &str| cell.replace(',', "").parse::<u64>();
        assert_eq!(product, server.product, "{name}");
        assert_eq!(round_trip, server.way.round_trip, "{name}");
        assert_eq!(number(stream), Ok(server.stream_bytes), "{name}");
        if let [policy] = server.policies {
            assert_eq!(*updates, policy.replace('_', " "), "{name}");
        }
        if let Some(known) = server.streams {
            assert_eq!(number(streams), Ok(known), "{name}");
        }
    }
}

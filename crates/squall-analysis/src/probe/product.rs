//! Which program ends a client's connections, by its header fields and its SETTINGS, and what its settings are called.
//!
//! A proxy passes on the `server` field of the server behind it, so announcements that only one program makes count more. The
//! sources of the SETTINGS are with the presets (squall-base `plan/presets.rs`); the names of settings are those of each
//! program's documentation. If no setting is known, nothing is named.

use std::collections::BTreeMap;

use serde::Serialize;

use super::fault::Fault;
use super::observed::Head;
use super::windows::{UpdatePolicy, UploadWindows};

squall_base::words! {
    /// A server or proxy whose settings are known.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Product {
        /// nginx.
        Nginx = "nginx",
        /// Envoy.
        Envoy = "Envoy",
        /// HAProxy.
        Haproxy = "HAProxy",
        /// Caddy.
        Caddy = "Caddy",
        /// h2o.
        H2o = "h2o",
        /// nghttpx.
        Nghttpx = "nghttpx",
        /// nghttpd.
        Nghttpd = "nghttpd",
        /// Apache httpd.
        Apache = "Apache httpd",
        /// IIS.
        Iis = "IIS",
        /// Kestrel of ASP.NET Core.
        Kestrel = "Kestrel",
        /// Tomcat.
        Tomcat = "Tomcat",
        /// Jetty.
        Jetty = "Jetty",
        /// Netty.
        Netty = "Netty",
        /// Go's net/http.
        Go = "Go net/http",
        /// Node.js.
        Node = "Node.js",
        /// hyper.
        Hyper = "hyper",
        /// AWS's Application Load Balancer.
        Alb = "AWS ALB",
        /// CloudFront.
        CloudFront = "CloudFront",
        /// Cowboy.
        Cowboy = "Cowboy",
    }
}

/// A product, and how it was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RecognisedProduct {
    /// The product.
    pub product: Product,
    /// By what, such as `its server field`.
    pub by: &'static str,
}

/// SETTINGS of HTTP/2 (RFC 9113, section 6.5.2).
const MAX_STREAMS: u64 = 0x3;
const INITIAL_WINDOW: u64 = 0x4;
const MAX_FRAME: u64 = 0x5;
const CONNECT_PROTOCOL: u64 = 0x8;

/// The largest window (RFC 9113, section 6.9.1).
const LARGEST_WINDOW: u64 = 0x7fff_ffff;

/// The increments of the load balancer that the preset `alb` describes.
const ALB_INCREMENTS: std::ops::RangeInclusive<u64> = 16_300..=33_000;

/// The product that a client talks to, if anything identifies it.
pub(super) fn recognise(
    heads: &[Head],
    settings: &BTreeMap<u64, u64>,
    windows: Option<&UploadWindows>,
) -> Option<RecognisedProduct> {
    by_fields_of_its_own(heads)
        .or_else(|| by_settings(heads, settings, windows))
        .or_else(|| by_server_field(heads))
}

/// Recognises a product by fields that only the program at the edge adds.
fn by_fields_of_its_own(heads: &[Head]) -> Option<RecognisedProduct> {
    let by = "its header fields";
    heads.iter().find_map(|head| {
        let field = |name| head.field(name).unwrap_or_default();
        let product = if !field("x-amz-cf-id").is_empty() {
            Product::CloudFront
        } else if field("server").starts_with("awselb/") || is_alb(head) {
            Product::Alb
        } else {
            return None;
        };
        Some(RecognisedProduct { product, by })
    })
}

/// Whether the load balancer's cookie came without a trace of a cache in front of it.
fn is_alb(head: &Head) -> bool {
    let has_cookie = head
        .field("set-cookie")
        .is_some_and(|cookie| cookie.starts_with("AWSALB"));
    has_cookie
        && ["via", "cf-ray"]
            .iter()
            .all(|name| head.field(name).is_none())
}

fn by_settings(
    heads: &[Head],
    settings: &BTreeMap<u64, u64>,
    windows: Option<&UploadWindows>,
) -> Option<RecognisedProduct> {
    let policy = windows.map(|windows| windows.policy);
    let get = |id| settings.get(&id).copied();
    let (streams, window) = (get(MAX_STREAMS)?, get(INITIAL_WINDOW));
    let each = match policy {
        Some(UpdatePolicy::EachData { bytes }) => Some(bytes),
        _ => None,
    };
    let is_alb = each.is_some_and(|bytes| ALB_INCREMENTS.contains(&bytes));
    let grants = matches!(policy, Some(UpdatePolicy::Grants { bytes }) if bytes >= 1 << 30);
    // HAProxy opens the connection's window to its maximum with the first DATA, and gives streams the RFC's.
    let is_haproxy = get(CONNECT_PROTOCOL) == Some(1)
        && windows.is_some_and(|windows| {
            windows.largest_connection_bytes == LARGEST_WINDOW && windows.stream_bytes <= 65_536
        });
    let product = match (streams, window, get(MAX_FRAME)) {
        (128, None | Some(65_535 | 65_536), _) if is_alb => Product::Alb,
        // The load balancer announces the same, but does not open the window to its maximum.
        (128, Some(65_536), Some(16_777_215)) if grants => Product::Nginx,
        (100, None, None) if is_haproxy => Product::Haproxy,
        (250, Some(1_048_576), Some(1_048_576)) if is_caddy(heads) => Product::Caddy,
        (250, Some(1_048_576), Some(1_048_576)) => Product::Go,
        (1_024, Some(16_777_216), _) => Product::Envoy,
        _ => return None,
    };
    let by = match each {
        Some(_) => "its SETTINGS and window updates",
        None => "its SETTINGS",
    };
    Some(RecognisedProduct { product, by })
}

/// Whether a field names Caddy, which is written in Go: the `server` field of its own responses, or `via` of those that it
/// passes on.
fn is_caddy(heads: &[Head]) -> bool {
    let names_it =
        |head: &Head, field| head.field(field).is_some_and(|said| said.contains("Caddy"));
    heads
        .iter()
        .any(|head| names_it(head, "server") || names_it(head, "via"))
}

fn by_server_field(heads: &[Head]) -> Option<RecognisedProduct> {
    // Envoy adds this field wherever it is on the way, so the field says no more than `server`.
    let is_envoy = |head: &Head| head.field("x-envoy-upstream-service-time").is_some();
    if heads.iter().any(is_envoy) {
        return Some(RecognisedProduct {
            product: Product::Envoy,
            by: "its header fields",
        });
    }
    let server = heads.iter().find_map(|head| head.field("server"))?;
    let server = server.to_ascii_lowercase();
    // The more specific names come first.
    let names = [
        ("apache-coyote", Product::Tomcat),
        ("apache tomcat", Product::Tomcat),
        ("tomcat", Product::Tomcat),
        ("apache", Product::Apache),
        ("openresty", Product::Nginx),
        ("nginx", Product::Nginx),
        ("envoy", Product::Envoy),
        ("istio-envoy", Product::Envoy),
        ("haproxy", Product::Haproxy),
        ("caddy", Product::Caddy),
        ("h2o", Product::H2o),
        ("nghttpx", Product::Nghttpx),
        ("nghttpd", Product::Nghttpd),
        ("microsoft-iis", Product::Iis),
        ("kestrel", Product::Kestrel),
        ("jetty", Product::Jetty),
        ("netty", Product::Netty),
        ("cloudfront", Product::CloudFront),
        ("cowboy", Product::Cowboy),
        ("hyper", Product::Hyper),
    ];
    let found = names.iter().find(|(name, _)| server.starts_with(*name));
    found.map(|(_, product)| RecognisedProduct {
        product: *product,
        by: "its server field",
    })
}

/// The setting of a product that fixes a fault; `None` if the product has no such setting, or the setting is unknown.
pub(super) fn setting(product: Product, fault: Fault) -> Option<&'static str> {
    match fault {
        Fault::StreamWindow => stream_window(product),
        Fault::ConnectionWindow => connection_window(product),
        Fault::QuicWindow => quic_window(product),
        Fault::OldTls => old_tls(product),
        Fault::BufferedUpload => buffered_upload(product),
        Fault::ShortConnections => short_connections(product),
        Fault::DelayedAck | Fault::SmallRecords | Fault::SmallFrames | Fault::NoCompression => {
            writing(product, fault)
        }
        _ => None,
    }
}

fn stream_window(product: Product) -> Option<&'static str> {
    Some(match product {
        Product::Nginx => {
            "a larger http2_body_preread_size (64k by default); nginx opens the window fully once it reads the body"
        }
        Product::Envoy => "initial_stream_window_size of http2_protocol_options",
        Product::Haproxy => {
            "tune.h2.fe.initial-window-size (before 2.9: tune.h2.initial-window-size); since 3.1 also tune.h2.fe.rxbuf"
        }
        Product::H2o => "http2-input-window-size",
        Product::Nghttpx => "--frontend-http2-window-size",
        Product::Nghttpd => "--window-bits",
        Product::Apache => "H2WindowSize",
        Product::Kestrel => "Limits.Http2.InitialStreamWindowSize",
        Product::Tomcat => "initialWindowSize of the UpgradeProtocol element (Http2Protocol)",
        Product::Jetty => "initialStreamRecvWindow of HTTP2ServerConnectionFactory",
        Product::Netty => "Http2Settings.initialWindowSize",
        Product::Go => {
            "http2.Server's MaxUploadBufferPerStream (since Go 1.24: http.Server's HTTP2.MaxReceiveBufferPerStream)"
        }
        Product::Caddy => {
            "Caddy has no setting for it: Go's http2.Server uses MaxUploadBufferPerStream"
        }
        Product::Node => "settings.initialWindowSize of http2.createSecureServer",
        Product::Hyper => "http2().initial_stream_window_size, or adaptive_window(true)",
        Product::Alb => {
            "AWS offers no setting: end TLS and HTTP/2 at the target behind a Network Load Balancer, or send uploads over HTTP/1.1"
        }
        Product::CloudFront => {
            "AWS offers no setting: send uploads over HTTP/1.1, or to the origin itself"
        }
        Product::Cowboy => "initial_stream_window_size of the protocol options",
        Product::Iis => return None,
    })
}

fn connection_window(product: Product) -> Option<&'static str> {
    Some(match product {
        Product::Envoy => "initial_connection_window_size of http2_protocol_options",
        Product::Nghttpx => "--frontend-http2-connection-window-size",
        Product::Nghttpd => "--connection-window-bits",
        Product::Kestrel => "Limits.Http2.InitialConnectionWindowSize",
        Product::Jetty => "initialSessionRecvWindow of HTTP2ServerConnectionFactory",
        Product::Go => {
            "http2.Server's MaxUploadBufferPerConnection (since Go 1.24: http.Server's HTTP2.MaxReceiveBufferPerConnection)"
        }
        Product::Caddy => {
            "Caddy has no setting for it: Go's http2.Server uses MaxUploadBufferPerConnection"
        }
        Product::Node => "session.setLocalWindowSize() in the session event",
        Product::Hyper => "http2().initial_connection_window_size",
        Product::Cowboy => "initial_connection_window_size of the protocol options",
        Product::Alb => stream_window(Product::Alb)?,
        _ => return None,
    })
}

fn quic_window(product: Product) -> Option<&'static str> {
    Some(match product {
        Product::Nginx => "http3_stream_buffer_size (64k by default)",
        Product::Envoy => {
            "initial_stream_window_size and initial_connection_window_size of quic_protocol_options"
        }
        Product::Nghttpx => {
            "--frontend-http3-window-size and --frontend-http3-connection-window-size"
        }
        _ => return None,
    })
}

fn old_tls(product: Product) -> Option<&'static str> {
    Some(match product {
        Product::Nginx => {
            "ssl_protocols TLSv1.2 TLSv1.3 (before 1.23.4 TLSv1.3 is not in the default)"
        }
        Product::Haproxy => {
            "ssl-max-ver TLSv1.3, or no ssl-max-ver and no no-tlsv13, with OpenSSL 1.1.1"
        }
        Product::Apache => "SSLProtocol all -SSLv3 -TLSv1 -TLSv1.1, with OpenSSL 1.1.1",
        Product::Alb => {
            "a security policy of the listener with TLS 1.3, such as ELBSecurityPolicy-TLS13-1-2-2021-06"
        }
        _ => return None,
    })
}

fn buffered_upload(product: Product) -> Option<&'static str> {
    Some(match product {
        Product::Nginx => {
            "proxy_request_buffering off (also fastcgi_, uwsgi_ and scgi_request_buffering)"
        }
        Product::Envoy => "remove the buffer filter (envoy.filters.http.buffer)",
        Product::Haproxy => "no option http-buffer-request",
        Product::Caddy => "remove request_buffers of reverse_proxy",
        _ => return None,
    })
}

fn short_connections(product: Product) -> Option<&'static str> {
    Some(match product {
        Product::Nginx => "keepalive_requests",
        Product::Envoy => "max_requests_per_connection of common_http_protocol_options",
        Product::Haproxy => "option http-keep-alive, without option httpclose",
        Product::Apache => "MaxKeepAliveRequests, KeepAlive On",
        Product::Tomcat => "maxKeepAliveRequests of the Connector",
        Product::Node => "server.maxRequestsPerSocket",
        Product::Cowboy => "max_keepalive of the protocol options",
        _ => return None,
    })
}

fn writing(product: Product, fault: Fault) -> Option<&'static str> {
    Some(match (fault, product) {
        (Fault::DelayedAck, Product::Nginx) => "tcp_nodelay on",
        (Fault::DelayedAck, Product::Haproxy) => "option http-no-delay",
        (Fault::DelayedAck, Product::Tomcat) => "tcpNoDelay of the Connector",
        (Fault::DelayedAck, Product::Netty) => "ChannelOption.TCP_NODELAY of the child channels",
        (Fault::DelayedAck, Product::Node) => "noDelay: true of http.createServer",
        (Fault::SmallRecords, Product::Nginx) => "ssl_buffer_size (16k)",
        (Fault::SmallRecords, Product::Haproxy) => "tune.ssl.maxrecord (0: no limit)",
        (Fault::SmallRecords, Product::Nghttpx) => "--tls-dyn-rec-warmup-threshold=0",
        (Fault::SmallRecords, Product::Apache) => "H2TLSWarmUpSize 0",
        (Fault::SmallFrames, Product::Nginx) => "http2_chunk_size",
        (Fault::SmallFrames, Product::Haproxy) => "tune.bufsize",
        (Fault::NoCompression, Product::Nginx) => "gzip on, and gzip_types for the content type",
        (Fault::NoCompression, Product::Apache) => "mod_deflate or mod_brotli for the content type",
        (Fault::NoCompression, Product::Caddy) => "encode",
        (Fault::NoCompression, Product::Haproxy) => "compression algo and compression type",
        (Fault::NoCompression, Product::Tomcat) => "compression=\"on\" of the Connector",
        (Fault::NoCompression, Product::CloudFront) => "Compress of the cache behavior",
        _ => return None,
    })
}

//! What fixes the faults that `squall probe` finds: in the terms of the RFCs, and as the settings of servers.
//!
//! The English texts are in squall-analysis' `probe` (`fault`, `detect`, `product`). The faults are in `probe`.

use super::{Phrase, phrase};

/// Two phrases for each fix: alone, and after `Fix: `. A pattern with a slot after `Fix: ` would not translate the slot.
macro_rules! fixes {
    ($($en:literal => $zh:literal,)*) => {
        &[$(
            phrase($en, $zh),
            phrase(concat!("Fix: ", $en), concat!("修复：", $zh)),
        )*]
    };
}

/// In the terms of the RFCs.
pub(super) const FIXES: &[Phrase] = fixes! {
    "check the address, the port and the scheme, and that the server runs"
        => "请检查地址、端口与协议方案，以及服务器是否在运行",
    "probe a URL that the server answers with success; check scheme, port and path"
        => "请探测服务器能成功应答的 URL；请检查协议方案、端口与路径",
    "write the URL with https:// if the port expects TLS; otherwise probe a URL that succeeds"
        => "如果该端口要求 TLS，请用 https:// 写 URL；否则请探测能成功的 URL",
    "write the URL with http://, or probe the port that speaks TLS"
        => "请用 http:// 写 URL，或探测使用 TLS 的端口",
    "--cacert FILE trusts the server's certificate, -k accepts any"
        => "--cacert FILE 信任服务器的证书，-k 接受任何证书",
    "probe a URL that the server answers to GET; a gRPC server answers its own methods only"
        => "请探测服务器对 GET 应答的 URL；gRPC 服务器只应答自己的方法",
    "start the server, or check the port: nothing listens there"
        => "请启动服务器，或检查端口：没有程序在那里监听",
    "look into the server's log; if the port expects TLS, write https://"
        => "请查看服务器日志；如果该端口要求 TLS，请写 https://",
    "look into the server's log: it takes connections and does not respond"
        => "请查看服务器日志：它接受连接却不响应",
    "look into the server's log: --trace shows where the exchange stops"
        => "请查看服务器日志：--trace 可显示交换停在何处",
    "a larger SETTINGS_INITIAL_WINDOW_SIZE (RFC 9113, section 6.5.2): twice the rate times the round trip"
        => "更大的 SETTINGS_INITIAL_WINDOW_SIZE（RFC 9113, 6.5.2）：速率与往返时间之积的两倍",
    "a WINDOW_UPDATE for stream 0 at the connection's start (RFC 9113, section 6.9.2): at least the stream's window"
        => "在连接开始时对流 0 发送 WINDOW_UPDATE（RFC 9113, 6.9.2）：至少为流窗口的大小",
    "larger initial_max_stream_data_bidi_remote and initial_max_data (RFC 9000, section 18.2), raised before they are used up"
        => "更大的 initial_max_stream_data_bidi_remote 与 initial_max_data（RFC 9000, 18.2），并在耗尽之前提高",
    "a larger SETTINGS_INITIAL_WINDOW_SIZE of the client (RFC 9113, section 6.5.2); nghttp and h2load have --window-bits, curl has no option for it"
        => "客户端使用更大的 SETTINGS_INITIAL_WINDOW_SIZE（RFC 9113, 6.5.2）；nghttp 与 h2load 有 --window-bits，curl 没有对应的选项",
    "a WINDOW_UPDATE for stream 0 by the client at the connection's start (RFC 9113, section 6.9.2); nghttp and h2load have --connection-window-bits, curl has no option for it"
        => "客户端在连接开始时对流 0 发送 WINDOW_UPDATE（RFC 9113, 6.9.2）；nghttp 与 h2load 有 --connection-window-bits，curl 没有对应的选项",
    "larger initial_max_stream_data_bidi_local and initial_max_data of the client (RFC 9000, section 18.2)"
        => "客户端使用更大的 initial_max_stream_data_bidi_local 与 initial_max_data（RFC 9000, 18.2）",
    "send WINDOW_UPDATE when half of the window is used up (RFC 9113, section 6.9)"
        => "在窗口用去一半时发送 WINDOW_UPDATE（RFC 9113, 6.9）",
    "TCP_NODELAY on the server's sockets, and one write for each response"
        => "在服务器的套接字上设置 TCP_NODELAY，并且每个响应只写一次",
    "TLS records of 16 kB for large responses (RFC 8446, section 5.1)"
        => "对大响应使用 16 kB 的 TLS 记录（RFC 8446, 5.1）",
    "DATA frames of 8 kB or more, filled before they are sent (RFC 9113, section 6.1)"
        => "使用 8 kB 或更大的 DATA 帧，填满后再发送（RFC 9113, 6.1）",
    "net.ipv4.tcp_slow_start_after_idle = 0 on the server's host (Linux)"
        => "在服务器的主机上设置 net.ipv4.tcp_slow_start_after_idle = 0（Linux）",
    "a shorter chain, without the root; ECDSA keys; certificate compression (RFC 8879)"
        => "更短的证书链，不含根证书；ECDSA 密钥；证书压缩（RFC 8879）",
    "enable TLS 1.3 (RFC 8446)"
        => "启用 TLS 1.3（RFC 8446）",
    "open UDP for the advertised port, or remove the Alt-Svc field"
        => "为通告的端口放行 UDP，或去掉 Alt-Svc 字段",
    "an active queue (CoDel, FQ-CoDel, PIE) at the bottleneck, or BBR on the server"
        => "在瓶颈处使用主动队列管理（CoDel、FQ-CoDel、PIE），或在服务器上使用 BBR",
    "find the lossy link; until then BBR on the server, or HTTP/3"
        => "请找出丢包的链路；在此之前可在服务器上使用 BBR，或使用 HTTP/3",
    "stream request bodies through the proxy instead of storing them"
        => "让请求消息体以流的方式通过代理，而不是先存储",
    "handle the streams of a connection concurrently (RFC 9113, section 5)"
        => "并发处理一个连接的各个流（RFC 9113, 5）",
    "handle the requests of a connection concurrently: more threads or workers, no lock around each request"
        => "并发处理一个连接的请求：更多线程或工作进程，不要在每个请求外加锁",
    "more requests per connection, or no limit"
        => "允许每个连接承载更多请求，或不设上限",
    "content-encoding: gzip or br for text (RFC 9110, section 8.4)"
        => "对文本使用 content-encoding: gzip 或 br（RFC 9110, 8.4）",
    "profile the application; the network is not what takes the time"
        => "请剖析应用程序的性能；耗时的不是网络",
    "compare the server's processor time for both; check its TLS record and DATA frame sizes"
        => "请比较服务器在两者上的处理器时间；并检查其 TLS 记录与 DATA 帧的大小",
    "find what limits UDP, usually the server or a network: compare from another network; on the server, larger UDP buffers and segmentation offload (UDP_SEGMENT on Linux)"
        => "请找出是什么限制了 UDP，多半是服务器或某个网络：请从另一个网络比较；在服务器上使用更大的 UDP 缓冲区与分段卸载（Linux 上为 UDP_SEGMENT）",
};

/// Settings of servers, which stand after the name of the server.
pub(super) const SETTINGS: &[Phrase] = &[
    phrase(
        "a larger http2_body_preread_size (64k by default)",
        "更大的 http2_body_preread_size（默认 64k）",
    ),
    phrase(
        "nginx opens the window fully once it reads the body",
        "nginx 一旦读取消息体就会完全打开窗口",
    ),
    phrase(
        "{~setting} of http2_protocol_options",
        "http2_protocol_options 的 {setting}",
    ),
    phrase(
        "{~setting} of common_http_protocol_options",
        "common_http_protocol_options 的 {setting}",
    ),
    phrase(
        "{~a} and {~b} of quic_protocol_options",
        "quic_protocol_options 的 {a} 与 {b}",
    ),
    phrase(
        "tune.h2.fe.initial-window-size (before 2.9: tune.h2.initial-window-size)",
        "tune.h2.fe.initial-window-size（2.9 之前为 tune.h2.initial-window-size）",
    ),
    phrase(
        "since 3.1 also tune.h2.fe.rxbuf",
        "自 3.1 起还有 tune.h2.fe.rxbuf",
    ),
    phrase("http2-input-window-size", "http2-input-window-size"),
    phrase(
        "initialWindowSize of the UpgradeProtocol element (Http2Protocol)",
        "UpgradeProtocol 元素（Http2Protocol）的 initialWindowSize",
    ),
    phrase(
        "{~setting} of HTTP2ServerConnectionFactory",
        "HTTP2ServerConnectionFactory 的 {setting}",
    ),
    phrase(
        "http2.Server's {~field} (since Go 1.24: http.Server's {~later})",
        "http2.Server 的 {field}（自 Go 1.24 起为 http.Server 的 {later}）",
    ),
    phrase(
        "Caddy has no setting for it: Go's http2.Server uses {~field}",
        "Caddy 没有对应的设置：Go 的 http2.Server 使用 {field}",
    ),
    phrase(
        "settings.initialWindowSize of http2.createSecureServer",
        "http2.createSecureServer 的 settings.initialWindowSize",
    ),
    phrase(
        "http2().initial_stream_window_size, or adaptive_window(true)",
        "http2().initial_stream_window_size，或 adaptive_window(true)",
    ),
    phrase(
        "AWS offers no setting: end TLS and HTTP/2 at the target behind a Network Load Balancer, or send uploads over HTTP/1.1",
        "AWS 没有对应的设置：请在 Network Load Balancer 之后的目标上终止 TLS 与 HTTP/2，或通过 HTTP/1.1 上传",
    ),
    phrase(
        "AWS offers no setting: send uploads over HTTP/1.1, or to the origin itself",
        "AWS 没有对应的设置：请通过 HTTP/1.1 上传，或直接上传到源站",
    ),
    phrase(
        "{~setting} of the protocol options",
        "协议选项中的 {setting}",
    ),
    phrase(
        "session.setLocalWindowSize() in the session event",
        "session 事件中的 session.setLocalWindowSize()",
    ),
    phrase(
        "http3_stream_buffer_size (64k by default)",
        "http3_stream_buffer_size（默认 64k）",
    ),
    phrase(
        "--frontend-http3-window-size and --frontend-http3-connection-window-size",
        "--frontend-http3-window-size 与 --frontend-http3-connection-window-size",
    ),
    phrase(
        "ssl_protocols TLSv1.2 TLSv1.3 (before 1.23.4 TLSv1.3 is not in the default)",
        "ssl_protocols TLSv1.2 TLSv1.3（1.23.4 之前默认不含 TLSv1.3）",
    ),
    phrase(
        "ssl-max-ver TLSv1.3, or no ssl-max-ver and no no-tlsv13, with OpenSSL 1.1.1",
        "ssl-max-ver TLSv1.3，或不设 ssl-max-ver 与 no-tlsv13，需要 OpenSSL 1.1.1",
    ),
    phrase(
        "SSLProtocol all -SSLv3 -TLSv1 -TLSv1.1, with OpenSSL 1.1.1",
        "SSLProtocol all -SSLv3 -TLSv1 -TLSv1.1，需要 OpenSSL 1.1.1",
    ),
    phrase(
        "a security policy of the listener with TLS 1.3, such as ELBSecurityPolicy-TLS13-1-2-2021-06",
        "监听器使用含 TLS 1.3 的安全策略，例如 ELBSecurityPolicy-TLS13-1-2-2021-06",
    ),
    phrase(
        "proxy_request_buffering off (also fastcgi_, uwsgi_ and scgi_request_buffering)",
        "proxy_request_buffering off（以及 fastcgi_、uwsgi_ 与 scgi_request_buffering）",
    ),
    phrase(
        "remove the buffer filter (envoy.filters.http.buffer)",
        "去掉缓冲过滤器（envoy.filters.http.buffer）",
    ),
    phrase(
        "no option http-buffer-request",
        "no option http-buffer-request",
    ),
    phrase(
        "remove request_buffers of reverse_proxy",
        "去掉 reverse_proxy 的 request_buffers",
    ),
    phrase(
        "option http-keep-alive, without option httpclose",
        "option http-keep-alive，不设 option httpclose",
    ),
    phrase(
        "MaxKeepAliveRequests, KeepAlive On",
        "MaxKeepAliveRequests、KeepAlive On",
    ),
    phrase("{~setting} of the Connector", "Connector 的 {setting}"),
    phrase(
        "ChannelOption.TCP_NODELAY of the child channels",
        "子通道的 ChannelOption.TCP_NODELAY",
    ),
    phrase(
        "noDelay: true of http.createServer",
        "http.createServer 的 noDelay: true",
    ),
    phrase("ssl_buffer_size (16k)", "ssl_buffer_size（16k）"),
    phrase(
        "tune.ssl.maxrecord (0: no limit)",
        "tune.ssl.maxrecord（0：不限）",
    ),
    phrase("H2TLSWarmUpSize 0", "H2TLSWarmUpSize 0"),
    phrase(
        "gzip on, and gzip_types for the content type",
        "gzip on，并为该内容类型设置 gzip_types",
    ),
    phrase(
        "mod_deflate or mod_brotli for the content type",
        "为该内容类型启用 mod_deflate 或 mod_brotli",
    ),
    phrase(
        "compression algo and compression type",
        "compression algo 与 compression type",
    ),
    phrase("Compress of the cache behavior", "缓存行为的 Compress"),
    phrase("H2WindowSize", "H2WindowSize"),
    phrase("encode", "encode"),
];

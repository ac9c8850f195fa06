//! What `squall probe` prints of an endpoint: the answer, the faults with their evidence, what could not be done, and the
//! results of several probes.
//!
//! The English texts are made in squall-analysis' `probe` and in `crate::probe`. The facts are in `probe_facts`, the fixes in
//! `probe_fixes`.

use super::{Phrase, phrase};

pub(super) const PHRASES: &[Phrase] = &[
    // The answer.
    phrase("Fix", "修复"),
    phrase("Also", "此外"),
    phrase("Nothing is wrong", "一切正常"),
    phrase(
        "Nothing is wrong with the HTTP of {~url}, as seen from here",
        "从这里看，{url} 的 HTTP 没有问题",
    ),
    phrase(
        "squall looked for {#n} faults over {=versions}: small requests, downloads and uploads",
        "squall 在 {versions} 上检查了 {n} 种问题：小请求、下载与上传",
    ),
    phrase(
        "squall looked for {#n} faults over {=versions}: small requests, downloads but no uploads (--upload SIZE sends some)",
        "squall 在 {versions} 上检查了 {n} 种问题：小请求与下载，但没有上传（用 --upload SIZE 发送）",
    ),
    phrase(
        "squall looked for {#n} faults over {=versions}: small requests, uploads but no downloads",
        "squall 在 {versions} 上检查了 {n} 种问题：小请求与上传，但没有下载",
    ),
    phrase(
        "squall looked for {#n} faults over {=versions}: small requests, but no downloads and no uploads",
        "squall 在 {versions} 上检查了 {n} 种问题：小请求，但没有下载与上传",
    ),
    phrase("Nothing slows HTTP down here", "这里没有什么拖慢 HTTP"),
    phrase("{time} lost for each {per}", "每次{per}损失 {time}"),
    phrase("{time} for each {per}", "每次{per}损失 {time}"),
    phrase(
        "{time} lost for each upload of 10 MB at 100 ms",
        "往返时间 100 ms 时每上传 10 MB 损失 {time}",
    ),
    phrase(
        "{time} for each upload of 10 MB at 100 ms",
        "往返时间 100 ms 时每上传 10 MB 损失 {time}",
    ),
    phrase("for clients farther away", "对更远的客户端"),
    phrase("overhead", "额外开销"),
    phrase("download", "下载"),
    phrase("upload", "上传"),
    phrase("small request", "小请求"),
    phrase("download after a pause", "停顿后的下载"),
    phrase("request during a download", "下载期间的请求"),
    phrase("request during an upload", "上传期间的请求"),
    phrase("concurrent request", "并发请求"),
    // Titles.
    phrase("No answer", "没有应答"),
    phrase("The URL is answered with an error", "该 URL 以错误应答"),
    phrase("A transfer stalls", "传输停滞"),
    phrase(
        "Stream window too small for uploads",
        "流窗口对上传而言过小",
    ),
    phrase(
        "Connection window too small for uploads",
        "连接窗口对上传而言过小",
    ),
    phrase(
        "QUIC limits too small for uploads",
        "QUIC 限额对上传而言过小",
    ),
    phrase(
        "Pauses of about 40 ms in small responses",
        "小响应中有约 40 ms 的停顿",
    ),
    phrase("Small DATA frames", "DATA 帧过小"),
    phrase(
        "Certificate chain too large for one flight",
        "证书链过大，一批发送不完",
    ),
    phrase(
        "HTTP/3 advertised, but not reachable",
        "通告了 HTTP/3，但无法到达",
    ),
    phrase("Queues grow under load", "队列在负载下增长"),
    phrase("Packets are lost", "数据包丢失"),
    phrase(
        "Uploads are stored before they are passed on",
        "上传先被存储再转发",
    ),
    phrase("Requests are not multiplexed", "请求未被多路复用"),
    phrase("Requests are not handled concurrently", "请求未被并发处理"),
    phrase("Connections end after few requests", "连接在少量请求后结束"),
    phrase("Text without compression", "文本未压缩"),
    phrase("The server takes long to answer", "服务器应答缓慢"),
    phrase("HTTP/2 slower than HTTP/1.1", "HTTP/2 比 HTTP/1.1 慢"),
    phrase(
        "HTTP/3 slower than the other versions",
        "HTTP/3 比其他版本慢",
    ),
    phrase(
        "This client's windows too small for downloads",
        "本客户端的窗口对下载而言过小",
    ),
    // What happens, and what shows it.
    phrase("{~url} gave no HTTP response", "{url} 没有给出 HTTP 响应"),
    phrase(
        "Over {~version} the server answers this URL with status {#n}, so the figures are those of that response",
        "服务器在 {version} 上以状态码 {n} 应答该 URL：测得的是这一响应",
    ),
    phrase(
        "A download over {~version} stopped before its end",
        "{version} 上的一次下载未完成就停止了",
    ),
    phrase(
        "{#n} bytes of the body arrived, then nothing for {time}",
        "消息体到达 {n} 字节后，{time} 内再无数据",
    ),
    phrase(
        "Short responses over {~version} come in two parts, {time} apart: the second one waits for a delayed acknowledgement",
        "{version} 上的短响应分两部分到达，相隔 {time}：第二部分在等待延迟确认",
    ),
    phrase(
        "{#a} of {#b} responses have such a pause",
        "{b} 个响应中有 {a} 个含有这种停顿",
    ),
    phrase(
        "Downloads come in TLS records of {#n} bytes on average, where 16,384 are possible",
        "下载的 TLS 记录平均为 {n} 字节，而最大可为 16,384 字节",
    ),
    phrase(
        "{#n} records for each megabyte; each is encrypted, sent and decrypted by itself",
        "每兆字节 {n} 个记录，每个记录都单独加密、发送和解密",
    ),
    phrase(
        "Downloads over HTTP/2 come in DATA frames of {#n} bytes",
        "HTTP/2 上的下载以 {n} 字节的 DATA 帧到达",
    ),
    phrase(
        "each frame has a header of 9 bytes, and usually a TLS record of its own",
        "每个帧有 9 字节的帧头，多半还单独占一个 TLS 记录",
    ),
    phrase(
        "After a pause, the same {#n} bytes take {a} instead of {b}: the server's congestion window is small again",
        "停顿之后，同样的 {n} 字节需要 {a}，而不是 {b}：服务器的拥塞窗口又变小了",
    ),
    phrase("the round trip is {time}", "往返时间为 {time}"),
    phrase(
        "The server sends {#a} bytes in the TLS handshake, more than the {#b} of an initial congestion window: each new connection takes a further round trip",
        "服务器在 TLS 握手中发送 {a} 字节，超过初始拥塞窗口的 {b} 字节：每个新连接都要多花一个往返",
    ),
    phrase("the handshake took {time}", "握手耗时 {time}"),
    phrase(
        "The server sends {#n} bytes in each TLS handshake, most of them certificates",
        "服务器在每次 TLS 握手中发送 {n} 字节，其中大部分是证书",
    ),
    phrase(
        "over HTTP/3 a server may send three times what it has received until it knows the client's address (RFC 9000, section 8.1)",
        "在 HTTP/3 上，服务器在验证客户端地址之前最多只能发送所收数据的三倍（RFC 9000, 8.1）",
    ),
    phrase(
        "The server speaks TLS {=cipher}: its handshake takes a round trip more than that of TLS 1.3",
        "服务器使用 TLS {cipher}：其握手比 TLS 1.3 多花一个往返",
    ),
    phrase(
        "The server speaks TLS {~version} with {=cipher}: its handshake takes a round trip more than that of TLS 1.3",
        "服务器使用 TLS {version} 与 {cipher}：其握手比 TLS 1.3 多花一个往返",
    ),
    phrase(
        "Responses advertise HTTP/3, but nothing answers over UDP: clients try it, wait, and fall back",
        "响应通告了 HTTP/3，但 UDP 上没有应答：客户端尝试、等待，然后回退",
    ),
    phrase(
        "Responses advertise HTTP/3, but its handshake fails: clients try it and fall back",
        "响应通告了 HTTP/3，但其握手失败：客户端尝试后回退",
    ),
    phrase(
        "During {what} a round trip takes {a} instead of {b}: a queue on the way fills up",
        "{what}期间一个往返需要 {a}，而不是 {b}：路径上的某个队列被填满",
    ),
    phrase(
        "{#n} TCP handshakes during {what}",
        "在{what}期间进行了 {n} 次 TCP 握手",
    ),
    phrase("downloads over six connections", "六个连接的下载"),
    phrase(
        "Packets are lost on the way, so senders slow down and wait for repairs",
        "数据包在途中丢失，发送方因此减速并等待修复",
    ),
    phrase("received after a gap", "在缺口之后收到"),
    phrase("lost over QUIC", "QUIC 上丢失"),
    phrase(
        "the server's data that came late over QUIC",
        "服务器在 QUIC 上迟到的数据",
    ),
    phrase(
        "{#a} of {#b} segments with data",
        "{b} 个数据报文段中的 {a} 个",
    ),
    phrase("{#a} of {#b} packets sent", "{b} 个已发送数据包中的 {a} 个"),
    phrase("{#a} of {#b} STREAM frames", "{b} 个 STREAM 帧中的 {a} 个"),
    phrase(
        "this machine dropped {#n} datagram, because its receive buffer was full",
        "本机丢弃了 {n} 个数据报，因为接收缓冲区已满",
    ),
    phrase(
        "this machine dropped {#n} datagrams, because its receive buffer was full",
        "本机丢弃了 {n} 个数据报，因为接收缓冲区已满",
    ),
    phrase(
        "Once a long upload over {~version} has arrived, its response takes {time} longer than the response to a short one: something stores the body before passing it on, or processes it only then",
        "{version} 上的长上传到达之后，其响应比短上传的多花 {time}：某处先存储消息体再转发，或到那时才开始处理",
    ),
    phrase(
        "Over {~version} a small request waits until the long response before it has ended: the streams of a connection are not multiplexed",
        "在 {version} 上，小请求要等到之前的长响应结束：连接的各流没有多路复用",
    ),
    phrase(
        "more than 4 MiB of the long response arrived after the small request was sent",
        "小请求发出之后，长响应又到达了超过 4 MiB",
    ),
    phrase(
        "Over HTTP/2 the server allows one request at a time on a connection: each waits for the one before it",
        "在 HTTP/2 上，服务器在一个连接上一次只允许一个请求：每个请求都要等待前一个",
    ),
    phrase(
        "the server announces MAX_CONCURRENT_STREAMS=1 (RFC 9113, section 6.5.2)",
        "服务器通告 MAX_CONCURRENT_STREAMS=1（RFC 9113, 6.5.2）",
    ),
    phrase(
        "Over {~version} the server handles the requests of a connection one after the other: a second one waits until the first is answered",
        "在 {version} 上，服务器逐个处理一个连接的请求：第二个请求要等到第一个得到应答",
    ),
    phrase(
        "of two requests sent together, the first took {a} and the second {b}",
        "同时发出的两个请求中，第一个耗时 {a}，第二个耗时 {b}",
    ),
    phrase(
        "The server ends a connection after {#n} request (with a GOAWAY), and clients connect again",
        "服务器在 {n} 个请求之后以 GOAWAY 结束连接，客户端重新连接",
    ),
    phrase(
        "The server ends a connection after {#n} requests (with a GOAWAY), and clients connect again",
        "服务器在 {n} 个请求之后以 GOAWAY 结束连接，客户端重新连接",
    ),
    phrase(
        "The server ends a connection after {#n} request (by closing it), and clients connect again",
        "服务器在 {n} 个请求之后关闭连接，客户端重新连接",
    ),
    phrase(
        "The server ends a connection after {#n} requests (by closing it), and clients connect again",
        "服务器在 {n} 个请求之后关闭连接，客户端重新连接",
    ),
    phrase(
        "one request in {#n} takes {time} longer",
        "每 {n} 个请求中有一个多花 {time}",
    ),
    phrase(
        "{#n} bytes of {~type} were sent without compression, although the request allowed gzip and br",
        "{n} 字节的 {type} 未经压缩发送，尽管请求允许 gzip 与 br",
    ),
    phrase(
        "The server takes {time} to begin its response, over every version and on open connections too",
        "服务器需要 {time} 才开始响应，各个版本以及已打开的连接上都是如此",
    ),
    phrase(
        "Downloads over {~version} are slower than over one connection of {~other}, in every round",
        "每一轮中，{version} 上的下载都比单个 {other} 连接慢",
    ),
    phrase(
        "Uploads over {~version} are slower than over one connection of {~other}, in every round",
        "每一轮中，{version} 上的上传都比单个 {other} 连接慢",
    ),
    phrase("at most {a} over {~version}", "在 {version} 上至多 {a}"),
    phrase("at least {b} over {~version}", "在 {version} 上至少 {b}"),
    phrase("no loss was seen over QUIC", "QUIC 上没有发现丢包"),
    phrase(
        "an upload waited {time} for QUIC's flow control",
        "一次上传为 QUIC 的流量控制等待了 {time}",
    ),
    phrase(
        "no upload reached a limit of QUIC's flow control",
        "没有上传达到 QUIC 流量控制的限额",
    ),
    phrase(
        "{#a} of the first {#b} datagrams of a download came in bursts",
        "一次下载的前 {b} 个数据报中有 {a} 个成批到达",
    ),
    // Windows of downloads.
    phrase(
        "Downloads over {~version} wait for this client's own windows",
        "{version} 上的下载在等待本客户端自身的窗口",
    ),
    phrase(
        "Downloads over {~version} wait for this client's own connection window: {#n} bytes per round trip",
        "{version} 上的下载在等待本客户端自身的连接窗口：每个往返 {n} 字节",
    ),
    phrase(
        "Downloads over {~version} wait for this client's own stream window: {#n} bytes per round trip",
        "{version} 上的下载在等待本客户端自身的流窗口：每个往返 {n} 字节",
    ),
    phrase(
        "this client keeps some of each window, so {#n} bytes per round trip are expected: {rate}",
        "本客户端会保留每个窗口的一部分，因此预期每个往返 {n} 字节：{rate}",
    ),
    // Windows of uploads.
    phrase("the server {policy}", "服务器{policy}"),
    phrase(
        "the server lets the window grow, to {#n} bytes here",
        "服务器让窗口增长，此处增至 {n} 字节",
    ),
    phrase("needed no update", "无需更新窗口"),
    phrase("never updates the window", "从不更新窗口"),
    phrase(
        "gives back {#n} bytes after each DATA frame",
        "在每个 DATA 帧之后归还 {n} 字节",
    ),
    phrase(
        "gives back half of the window at a time",
        "每次归还窗口的一半",
    ),
    phrase("gives back {#n} bytes at a time", "每次归还 {n} 字节"),
    phrase("grants up to {#n} bytes", "最多授予 {n} 字节"),
    phrase(
        "one window per round trip of {time} is {rate}",
        "每个往返时间 {time} 一个窗口，即 {rate}",
    ),
    phrase(
        "the server keeps some of each window, so {#n} bytes per round trip are expected: {rate}",
        "服务器会保留每个窗口的一部分，因此预期每个往返 {n} 字节：{rate}",
    ),
    phrase(
        "the window was smaller at first, so {#n} bytes per round trip are expected: {rate}",
        "窗口起初较小，因此预期每个往返 {n} 字节：{rate}",
    ),
    phrase(
        "an upload waited {time} for its congestion window too",
        "一次上传还为其拥塞窗口等待了 {time}",
    ),
    phrase("at 100 ms that is {rate}", "往返时间 100 ms 时为 {rate}"),
    phrase(
        "measured over {~version}: {rate}",
        "在 {version} 上测得：{rate}",
    ),
    phrase(
        "An upload over HTTP/2 stops after {#n} bytes: the server never opens the stream's window again",
        "HTTP/2 上的上传在 {n} 字节后停止：服务器不再打开流窗口",
    ),
    phrase(
        "Uploads over HTTP/2 wait for the stream's window, although it grows to {#n} bytes per round trip",
        "HTTP/2 上的上传在等待流窗口，尽管它会增长到每个往返 {n} 字节",
    ),
    phrase(
        "Uploads over HTTP/2 wait for the stream's window: {#n} bytes per round trip",
        "HTTP/2 上的上传在等待流窗口：每个往返 {n} 字节",
    ),
    phrase(
        "Uploads over HTTP/2 may have only {#n} bytes in flight: fast enough from here, slow for clients farther away",
        "HTTP/2 上的上传最多只能有 {n} 字节在途：从这里看足够快，对更远的客户端则慢",
    ),
    phrase(
        "Uploads over HTTP/2 share a connection window of {#a} bytes, although each stream has {#b}",
        "HTTP/2 上的上传共用 {a} 字节的连接窗口，尽管每个流有 {b} 字节",
    ),
    phrase(
        "Uploads over HTTP/3 wait for QUIC's flow control: only {#n} bytes may be in flight, once per round trip",
        "HTTP/3 上的上传在等待 QUIC 的流量控制：每个往返最多只能有 {n} 字节在途",
    ),
    phrase(
        "Uploads over HTTP/3 may have only {#n} bytes in flight: fast enough from here, slow for clients farther away",
        "HTTP/3 上的上传最多只能有 {n} 字节在途：从这里看足够快，对更远的客户端则慢",
    ),
    phrase(
        "limit of the stream in bytes: {a}, of the connection: {b}",
        "流的限额（字节）：{a}，连接的限额：{b}",
    ),
    phrase("not reached", "未达到"),
    phrase(
        "The server answers every DATA frame of an upload with a WINDOW_UPDATE, long before one is needed",
        "服务器对上传的每个 DATA 帧都回以 WINDOW_UPDATE，远早于需要之时",
    ),
    phrase(
        "{#a} updates of about {#n} bytes for {#b} DATA frames",
        "{b} 个 DATA 帧对应 {a} 次约 {n} 字节的更新",
    ),
    // What could not be done.
    phrase("no response", "没有响应"),
    phrase("no connection was established", "未能建立连接"),
    phrase("no connection was established in time", "未能及时建立连接"),
    phrase("connected, but no response", "已连接，但没有响应"),
    phrase(
        "connected, but no TLS handshake in time",
        "已连接，但未及时完成 TLS 握手",
    ),
    phrase(
        "connected, but no response in time",
        "已连接，但没有及时响应",
    ),
    phrase("no complete response", "没有完整的响应"),
    phrase("no complete response in time", "没有及时给出完整的响应"),
    phrase("connect failed", "连接失败"),
    phrase("tls failed", "TLS 失败"),
    phrase("timed out", "超时"),
    phrase("no handshake within {#n} s", "{n} s 内没有完成握手"),
    phrase("the first response was not complete", "第一个响应不完整"),
    phrase(
        "The server redirects (status {#n}) to {~url}: probe that URL instead",
        "服务器重定向（状态码 {n}）到 {url}：请探测该 URL",
    ),
    phrase(
        "{~time} was too short for all steps; --duration allows more time",
        "{time} 不足以完成所有步骤；用 --duration 可给更多时间",
    ),
    phrase(
        "{~version}: the download was answered with status {#n}; --download names another one",
        "{version}：下载以状态码 {n} 应答；用 --download 可指定其他下载",
    ),
    phrase(
        "{~version}: an upload was answered with status {#n}; --upload-to names another path",
        "{version}：上传以状态码 {n} 应答；用 --upload-to 可指定其他路径",
    ),
    phrase(
        "{~version}: an upload was answered before its end, so the server did not read it; --upload-to names another path",
        "{version}：上传在结束之前就得到应答，说明服务器没有读取它；用 --upload-to 可指定其他路径",
    ),
    phrase(
        "A download of {#n} bytes is too short to show rates and multiplexing; --download names a longer one",
        "{n} 字节的下载太短，看不出速率与多路复用；用 --download 可指定更长的下载",
    ),
    phrase(
        "robots.txt of the server disallows {~path}: squall leaves out downloads, uploads and many requests there; --ignore-robots sends them",
        "服务器的 robots.txt 不允许 {path}：squall 在那里不进行下载、上传与大量请求；用 --ignore-robots 可照常发送",
    ),
    phrase(
        "{~version}: this machine's TCP receive window held downloads up, so their rate says nothing about the server: lower --bytes, or raise net.ipv4.tcp_rmem",
        "{version}：本机的 TCP 接收窗口拖住了下载，因此其速率不能说明服务器：请降低 --bytes，或提高 net.ipv4.tcp_rmem",
    ),
    // What will be sent.
    phrase(
        "squall probe sends at most this to {~url}, within {~time}",
        "squall probe 在 {time} 内最多向 {url} 发送",
    ),
    phrase(
        "Each of them sends at most this to {~url}, within {~time}",
        "每次探测在 {time} 内最多向 {url} 发送",
    ),
    phrase(
        "{#n} GET and HEAD requests for {size} of responses,",
        "{n} 个 GET 与 HEAD 请求，响应共 {size}，",
    ),
    phrase(
        "{#n} of them in a row for each version, with small responses",
        "其中每个版本连续 {n} 个，响应较小",
    ),
    phrase(
        "{#n} POST requests with {size} in all, to {~url}",
        "{n} 个 POST 请求，共 {size}，发往 {url}",
    ),
    phrase(
        "{#n} POST requests with {size} in all as multipart/form-data, to {~url}",
        "{n} 个 POST 请求，以 multipart/form-data 共发送 {size}，发往 {url}",
    ),
    phrase(
        "and at most {size} of responses to these,",
        "其响应最多 {size}，",
    ),
    phrase(
        "over one connection at a time (HTTP/1.1: up to {#n}), and TCP handshakes",
        "一次使用一个连接（HTTP/1.1 最多 {n} 个），以及 TCP 握手",
    ),
    phrase(
        "It watches an idle connection of each version for up to {~time}",
        "并观察每个版本的一个空闲连接，最长 {time}",
    ),
    phrase(
        "It looks up at most {#n} other names of the certificate",
        "并查询证书的至多 {n} 个其他名称的地址",
    ),
    phrase(
        "It asks DNS for HTTPS records of the name",
        "并向 DNS 查询该名称的 HTTPS 记录",
    ),
    phrase(
        "squall probe makes {#n} probes, one after the other, within {~time} in all, behind",
        "squall probe 依次进行 {n} 次探测，总共在 {time} 内，链路为",
    ),
    // Several probes.
    phrase(
        "the probe did not end within {~time}",
        "探测未在 {time} 内结束",
    ),
    phrase("the probe ended without a result", "探测结束而没有结果"),
    phrase("exit status", "退出状态"),
    phrase("signal", "信号"),
    phrase(
        "{~version} is fastest at {~value}",
        "在 {value} 时 {version} 最快",
    ),
    phrase(
        "{~version} is fastest from {~a} to {~b}",
        "从 {a} 到 {b} {version} 最快",
    ),
    phrase(
        "{~version} is fastest at every {condition}",
        "在每个{condition}下都是 {version} 最快",
    ),
    phrase(
        "no version is ahead by more than 10 % at any {condition}",
        "在任何{condition}下都没有版本领先超过 10 %",
    ),
    phrase(
        "elsewhere no version is ahead by more than 10 %",
        "其余情况下没有版本领先超过 10 %",
    ),
    phrase(
        "No two versions have figures to compare over the {condition}",
        "没有两个版本有可按{condition}比较的数值",
    ),
    phrase(
        "The stream's window of uploads over HTTP/2 grows with the round trip: {#a} bytes at {~near}, {#b} bytes at {~far}",
        "HTTP/2 上传的流窗口随往返时间增长：在 {near} 时 {a} 字节，在 {far} 时 {b} 字节",
    ),
    phrase(
        "The stream's window of uploads over HTTP/2 does not grow with the round trip: {#a} bytes at every delay",
        "HTTP/2 上传的流窗口不随往返时间增长：在每个时延下都是 {a} 字节",
    ),
    phrase(
        "The stream's window of uploads over HTTP/2 does not grow with the round trip: {#a} to {#b} bytes",
        "HTTP/2 上传的流窗口不随往返时间增长：{a} 至 {b} 字节",
    ),
    phrase("delay", "时延"),
    phrase("jitter", "抖动"),
    phrase("downloads", "下载"),
    phrase("uploads", "上传"),
    phrase("Downloads", "下载"),
    phrase("Uploads", "上传"),
    phrase("First byte", "首字节"),
    phrase("First byte of a fresh connection", "新连接的首字节"),
    phrase(
        "First byte of a fresh connection in ms",
        "新连接的首字节，单位 ms",
    ),
    phrase("Downloads in Mbit/s", "下载，单位 Mbit/s"),
    phrase("Uploads in Mbit/s", "上传，单位 Mbit/s"),
];

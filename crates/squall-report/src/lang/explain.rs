//! What `squall explain` prints: a request in full, which the page has too, and a moment.
//!
//! The English texts are made in `crate::explain`.

use super::{Phrase, phrase};

pub(super) const PHRASES: &[Phrase] = &[
    phrase("total", "合计"),
    phrase("longest gap in the response", "响应中最长的间隔"),
    phrase("{#n} ms from {#from} ms on", "{n} ms，始于 {from} ms"),
    phrase("{#n} % {cause}", "{n} % {cause}"),
    phrase("a packet of its own was lost", "自身的一个数据包丢失"),
    phrase("a lost packet of others held it up", "被其他请求的丢包拖住"),
    phrase(
        "on each hop, from when it was due",
        "在每一跳上，从应开始时算起",
    ),
    phrase(
        "its server time is what the next hop took",
        "其“服务器”为下一跳所做的事",
    ),
    phrase("{~a} to {~b}", "{a} 到 {b}"),
    phrase("{#a} to {#b} ms", "{a} 至 {b} ms"),
    phrase("not seen there", "在那里没有看到"),
    phrase(
        "this is how long the hop before waited for it",
        "这是前一跳等待它的时间",
    ),
    phrase(
        "what it waited for, and what happened",
        "它在等待什么，以及发生了什么",
    ),
    phrase("{cause} for {#n} ms", "{cause} {n} ms"),
    phrase(
        "in {#n} pieces with {#other} ms of other causes between them",
        "分 {n} 段，其间有 {other} ms 属于其他原因",
    ),
    phrase("it was due", "应开始"),
    phrase("it was started", "开始处理"),
    phrase("it had a connection and stream", "获得连接与流"),
    phrase("TCP or QUIC was connected", "TCP 或 QUIC 已连接"),
    phrase("the TLS or QUIC handshake was done", "TLS 或 QUIC 握手完成"),
    phrase("its first byte was written", "写出第一个字节"),
    phrase("its last byte was written", "写出最后一个字节"),
    phrase("the server had all of it", "服务器收到全部请求"),
    phrase(
        "the server wrote the response's first byte",
        "服务器写出应答的第一个字节",
    ),
    phrase(
        "the server wrote the response's last byte",
        "服务器写出应答的最后一个字节",
    ),
    phrase("the response's first byte was read", "读到应答的第一个字节"),
    phrase(
        "the response's header section was complete",
        "应答的头部完整",
    ),
    phrase("it was over", "结束"),
    phrase("its first byte left the client", "第一个字节离开客户端"),
    phrase("its last byte left the client", "最后一个字节离开客户端"),
    phrase(
        "the response's first byte left the server",
        "应答的第一个字节离开服务器",
    ),
    phrase(
        "the response's last byte left the server",
        "应答的最后一个字节离开服务器",
    ),
    phrase(
        "the client had the response's first byte",
        "客户端收到应答的第一个字节",
    ),
    phrase("until {#n} ms", "直到 {n} ms"),
    phrase("its stream's window was used up", "其流的窗口耗尽"),
    phrase(
        "its stream's window was used up {#n} times",
        "其流的窗口耗尽 {n} 次",
    ),
    phrase(
        "its stream's window of hop {#hop} was used up",
        "其流的窗口在第 {hop} 跳耗尽",
    ),
    phrase(
        "its stream's window of hop {#hop} was used up {#n} times",
        "其流的窗口在第 {hop} 跳耗尽 {n} 次",
    ),
    phrase("its connection's window was used up", "其连接的窗口耗尽"),
    phrase(
        "its connection's window was used up {#n} times",
        "其连接的窗口耗尽 {n} 次",
    ),
    phrase(
        "its connection's window of hop {#hop} was used up",
        "其连接的窗口在第 {hop} 跳耗尽",
    ),
    phrase(
        "its connection's window of hop {#hop} was used up {#n} times",
        "其连接的窗口在第 {hop} 跳耗尽 {n} 次",
    ),
    phrase("up", "上行"),
    phrase("down", "下行"),
    phrase("packet {way} {#n}", "数据包 {way} {n}"),
    phrase(
        "packet {way} {#n} of hop {#hop}",
        "数据包 {way} {n}（第 {hop} 跳）",
    ),
    phrase("{way} {#a} to {#b}", "{way} {a} 至 {b}"),
    phrase(
        "{way} {#a} to {#b} of hop {#hop}",
        "{way} {a} 至 {b}（第 {hop} 跳）",
    ),
    phrase("{#n} packet", "{n} 个数据包"),
    phrase("{#n} packets", "{n} 个数据包"),
    phrase(
        "{#n} more packets {way} with its bytes",
        "另有 {n} 个{way}数据包含有其字节",
    ),
    phrase(
        "{#n} more packets {way} of hop {#hop} with its bytes",
        "第 {hop} 跳另有 {n} 个{way}数据包含有其字节",
    ),
    phrase("bytes {#a} to {#b}", "字节 {a} 至 {b}"),
    phrase("bytes {#a} to {#b} again", "再次为字节 {a} 至 {b}"),
    phrase("arrived at {#n} ms", "于 {n} ms 到达"),
    phrase("the last arrived at {#n} ms", "最后一个于 {n} ms 到达"),
    phrase("arrived damaged", "到达时已损坏"),
    phrase("was lost", "丢失"),
    phrase("was lost in a burst", "在突发丢包中丢失"),
    phrase("was dropped by a drop list", "按丢弃清单被丢弃"),
    phrase("was lost in a blackout", "在中断中丢失"),
    phrase("found no room in the queue", "因队列已满被丢弃"),
    phrase("was dropped early by the queue", "被队列提前丢弃"),
    phrase("was refused by the other host", "被另一主机拒绝"),
    phrase(
        "was still on its way when the link stopped",
        "链路停止时仍在途中",
    ),
    phrase(
        "packet {way} {#n} with {*carried} arrived damaged",
        "数据包 {way} {n}（{carried}）到达时已损坏",
    ),
    phrase(
        "packet {way} {#n} of hop {#hop} with {*carried} arrived damaged",
        "第 {hop} 跳的数据包 {way} {n}（{carried}）到达时已损坏",
    ),
    phrase(
        "packet {way} {#n} with {*carried} was lost",
        "数据包 {way} {n}（{carried}）丢失",
    ),
    phrase(
        "packet {way} {#n} of hop {#hop} with {*carried} was lost",
        "第 {hop} 跳的数据包 {way} {n}（{carried}）丢失",
    ),
    phrase(
        "packet {way} {#n} with {*carried} was lost in a burst",
        "数据包 {way} {n}（{carried}）在突发丢包中丢失",
    ),
    phrase(
        "packet {way} {#n} of hop {#hop} with {*carried} was lost in a burst",
        "第 {hop} 跳的数据包 {way} {n}（{carried}）在突发丢包中丢失",
    ),
    phrase(
        "packet {way} {#n} with {*carried} was dropped by a drop list",
        "数据包 {way} {n}（{carried}）按丢弃清单被丢弃",
    ),
    phrase(
        "packet {way} {#n} of hop {#hop} with {*carried} was dropped by a drop list",
        "第 {hop} 跳的数据包 {way} {n}（{carried}）按丢弃清单被丢弃",
    ),
    phrase(
        "packet {way} {#n} with {*carried} was lost in a blackout",
        "数据包 {way} {n}（{carried}）在中断中丢失",
    ),
    phrase(
        "packet {way} {#n} of hop {#hop} with {*carried} was lost in a blackout",
        "第 {hop} 跳的数据包 {way} {n}（{carried}）在中断中丢失",
    ),
    phrase(
        "packet {way} {#n} with {*carried} found no room in the queue",
        "数据包 {way} {n}（{carried}）因队列已满被丢弃",
    ),
    phrase(
        "packet {way} {#n} of hop {#hop} with {*carried} found no room in the queue",
        "第 {hop} 跳的数据包 {way} {n}（{carried}）因队列已满被丢弃",
    ),
    phrase(
        "packet {way} {#n} with {*carried} was dropped early by the queue",
        "数据包 {way} {n}（{carried}）被队列提前丢弃",
    ),
    phrase(
        "packet {way} {#n} of hop {#hop} with {*carried} was dropped early by the queue",
        "第 {hop} 跳的数据包 {way} {n}（{carried}）被队列提前丢弃",
    ),
    phrase(
        "packet {way} {#n} with {*carried} was refused by the other host",
        "数据包 {way} {n}（{carried}）被另一主机拒绝",
    ),
    phrase(
        "packet {way} {#n} of hop {#hop} with {*carried} was refused by the other host",
        "第 {hop} 跳的数据包 {way} {n}（{carried}）被另一主机拒绝",
    ),
    phrase(
        "packet {way} {#n} with {*carried} was still on its way when the link stopped",
        "数据包 {way} {n}（{carried}）链路停止时仍在途中",
    ),
    phrase(
        "packet {way} {#n} of hop {#hop} with {*carried} was still on its way when the link stopped",
        "第 {hop} 跳的数据包 {way} {n}（{carried}）链路停止时仍在途中",
    ),
    phrase("sent again by fast retransmit", "由快速重传重发"),
    phrase("sent again by RACK", "由 RACK 重发"),
    phrase("sent again by a tail loss probe", "由尾部丢包探测重发"),
    phrase("sent again by a retransmission timeout", "由重传超时重发"),
    phrase(
        "sent again by a tail loss probe or a retransmission timeout",
        "由尾部丢包探测或重传超时重发",
    ),
    phrase("sent again by the SYN's timer", "由 SYN 的定时器重发"),
    phrase(
        "sent again after three later packets were acknowledged",
        "因之后三个数据包已被确认而重发",
    ),
    phrase("sent again by the time threshold", "由时间阈值重发"),
    phrase("sent again by a probe timeout", "由探测超时重发"),
    phrase("nothing needed repair", "无需修复"),
    phrase("its bytes never arrived", "其字节始终没有到达"),
    phrase("how it was repaired is not known", "如何修复未知"),
    phrase("there at {#n} ms", "于 {n} ms 到达"),
    phrase(
        "there at {#n} ms as {way} {#packet}",
        "于 {n} ms 到达，为 {way} {packet}",
    ),
    phrase("it cost {#n} ms of {cause}", "耗费 {n} ms 的{cause}"),
    phrase(
        "it cost {#a} ms of {first} and {#b} ms of {second}",
        "耗费 {a} ms 的{first}与 {b} ms 的{second}",
    ),
    phrase("and delayed {#n} other request", "并延误了 {n} 个其他请求"),
    phrase("and delayed {#n} other requests", "并延误了 {n} 个其他请求"),
    phrase("it cost this request nothing", "对该请求没有影响"),
    phrase(
        "bytes {#a} to {#b} of {*requests}",
        "{requests} 的字节 {a} 至 {b}",
    ),
    phrase(
        "bytes {#a} to {#b} of stream {#stream}",
        "流 {stream} 的字节 {a} 至 {b}",
    ),
    phrase("of {*requests}", "属于 {requests}"),
    phrase("bytes of {*requests}", "{requests} 的字节"),
    phrase("no bytes of a request", "没有请求的字节"),
    phrase("no request", "没有请求"),
    phrase("requests {#a} and {#b}", "请求 {a} 与 {b}"),
    phrase("requests {#a} and {#n} more", "请求 {a} 与另外 {n} 个"),
    phrase(
        "waited {#n} ms in {=station}'s send queue",
        "在 {station} 的发送队列中等待了 {n} ms",
    ),
    phrase(
        "{#a} packet of {#b} other request went first",
        "先发送了 {b} 个其他请求的 {a} 个数据包",
    ),
    phrase(
        "{#a} packet of {#b} other requests went first",
        "先发送了 {b} 个其他请求的 {a} 个数据包",
    ),
    phrase(
        "{#a} packets of {#b} other request went first",
        "先发送了 {b} 个其他请求的 {a} 个数据包",
    ),
    phrase(
        "{#a} packets of {#b} other requests went first",
        "先发送了 {b} 个其他请求的 {a} 个数据包",
    ),
    phrase("the window was {size}", "窗口为 {size}"),
    phrase(
        "the window was {size} because of {#n} loss",
        "因 {n} 次丢包，窗口为 {size}",
    ),
    phrase(
        "the window was {size} because of {#n} losses",
        "因 {n} 次丢包，窗口为 {size}",
    ),
    phrase("{#n} segment", "{n} 个报文段"),
    phrase("{#n} segments", "{n} 个报文段"),
    phrase("{#a} to {#b} segments", "{a} 至 {b} 个报文段"),
    phrase(
        "its slot was that of {*requests}, which had just ended",
        "其位置之前属于刚刚结束的 {requests}",
    ),
    phrase(
        "it waited for lost bytes of {*requests}",
        "它等待 {requests} 丢失的字节",
    ),
    phrase(
        "{#n} packet with bytes of {*requests} went while it waited",
        "等待期间发送了 {requests} 的 {n} 个数据包",
    ),
    phrase(
        "{#n} packets with bytes of {*requests} went while it waited",
        "等待期间发送了 {requests} 的 {n} 个数据包",
    ),
];

/// A moment, captures, and several requests at once, as only the command prints them.
pub(super) const MOMENTS: &[Phrase] = &[
    phrase("{#n} request in flight", "{n} 个在途请求"),
    phrase("{#n} requests in flight", "{n} 个在途请求"),
    phrase("waiting for", "在等待"),
    phrase("{#n} queue", "{n} 个排队"),
    phrase("{#n} connect", "{n} 个建立连接"),
    phrase("{#n} tls", "{n} 个TLS 握手"),
    phrase("{#n} window_stream", "{n} 个流窗口"),
    phrase("{#n} window_connection", "{n} 个连接窗口"),
    phrase("{#n} window_receive", "{n} 个接收窗口"),
    phrase("{#n} cwnd", "{n} 个拥塞窗口"),
    phrase("{#n} pacing", "{n} 个发送调速"),
    phrase("{#n} send_buffer", "{n} 个发送缓冲区"),
    phrase("{#n} link", "{n} 个链路"),
    phrase("{#n} distance", "{n} 个传播时延"),
    phrase("{#n} loss", "{n} 个丢包"),
    phrase("{#n} hol", "{n} 个队头阻塞"),
    phrase("{#n} record", "{n} 个等待 TLS 记录"),
    phrase("{#n} server", "{n} 个服务器"),
    phrase("{#n} host", "{n} 个主机"),
    phrase("{#n} unknown", "{n} 个未知"),
    phrase("due {#n} ms ago", "应在 {n} ms 前开始"),
    phrase("over in {#n} ms", "{n} ms 后结束"),
    phrase("{cause} since {#n} ms", "{cause}已持续 {n} ms"),
    phrase("for {#n} ms more", "还将持续 {n} ms"),
    phrase("{#n} stream without window", "{n} 个流没有窗口"),
    phrase("{#n} streams without window", "{n} 个流没有窗口"),
    phrase("cwnd not known", "拥塞窗口未知"),
    phrase("{#n} in flight", "{n} 个在途"),
    phrase("rtt", "往返时间"),
    phrase("sampled {#n} ms before", "采样于 {n} ms 之前"),
    phrase("nothing was recorded", "没有记录"),
    phrase("the link", "链路"),
    phrase(
        "the path between client and server",
        "客户端与服务器之间的路径",
    ),
    phrase(
        "{#n} packet of {#bytes} bytes waited for the rate",
        "{n} 个数据包共 {bytes} 字节在等待速率",
    ),
    phrase(
        "{#n} packets of {#bytes} bytes waited for the rate",
        "{n} 个数据包共 {bytes} 字节在等待速率",
    ),
    phrase("{#n} inside", "内部有 {n} 个"),
    phrase(
        "within {#time} ms {#n} came and {#dropped} were dropped",
        "前后 {time} ms 内到达 {n} 个，丢弃 {dropped} 个",
    ),
    phrase("queues are not seen", "看不到队列"),
    phrase(
        "no queue, because no rate is set",
        "没有队列，因为没有速率限制",
    ),
    phrase(
        "no drops within {#n} ms, and none before that was still missing",
        "前后 {n} ms 内没有丢弃，之前也没有仍然缺失的",
    ),
    phrase(
        "drops within {#n} ms, and those before that were still missing",
        "前后 {n} ms 内的丢弃，以及之前仍然缺失的",
    ),
    phrase("times from this moment", "时间从此刻算起"),
    phrase(
        "packet {way} {#n} with {*carried}",
        "数据包 {way} {n}（{carried}）",
    ),
    phrase(
        "packet {way} {#n} of hop {#hop} with {*carried}",
        "第 {hop} 跳的数据包 {way} {n}（{carried}）",
    ),
    phrase("it delayed {#n} request", "延误了 {n} 个请求"),
    phrase("it delayed {#n} requests", "延误了 {n} 个请求"),
    phrase("and {#n} more requests", "另有 {n} 个请求"),
    phrase("and {#n} more connections", "另有 {n} 个连接"),
    phrase("and {#n} more drops", "另有 {n} 个丢弃"),
    phrase("most of it {cause}", "大部分是{cause}"),
    phrase("the slowest", "最慢的"),
    phrase("This trial is not valid", "该试验并非有效"),
    phrase("trial.json says why", "原因见 trial.json"),
    phrase(
        "The capture has one point. Each end is assumed to be half of its shortest round trip away from it; any longer time on the",
        "抓包只有一个点。每一端都被视为距该点有其最小往返时间的一半；该点以外的路径所花的时间",
    ),
    phrase(
        "path beyond the point is not distinguished from the end's own time (`server`, `host`)",
        "如果超出这一估计，则无法与该端自身的时间（`server`、`host`）区分",
    ),
    phrase(
        "shortest round trip to the client {#n} ms",
        "到客户端的最小往返时间 {n} ms",
    ),
    phrase(
        "shortest round trip to the client not known",
        "到客户端的最小往返时间未知",
    ),
    phrase("to the server {#n} ms", "到服务器 {n} ms"),
    phrase("to the server not known", "到服务器未知"),
    phrase("taken as zero", "视为零"),
];

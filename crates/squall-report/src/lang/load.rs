//! What `squall load` prints: its summary, the comparison of several versions, the screen while it runs, and its page.
//!
//! The English texts are made in `crate::load`, in `html::load` and in squall-analysis' `load`. Measures and causes, which
//! other reports have too, are in `words`.

use super::{Phrase, phrase};

pub(super) const PHRASES: &[Phrase] = &[
    // The first lines of a finished load.
    phrase("{#n} request in {time}", "{time} 内 {n} 个请求"),
    phrase("{#n} requests in {time}", "{time} 内 {n} 个请求"),
    phrase("{#n} succeeded/s", "每秒成功 {n} 个"),
    phrase(
        "{#n} succeeded/s of {#asked} asked",
        "每秒成功 {n} 个，要求 {asked} 个",
    ),
    phrase("{rate} of bodies in", "接收消息体 {rate}"),
    phrase("{rate} of bodies out", "发送消息体 {rate}"),
    phrase("{#n} succeeded", "{n} 个成功"),
    phrase(
        "{#n} with a status of 400 or more",
        "{n} 个状态码不低于 400",
    ),
    phrase("{#n} answered with a gRPC error", "{n} 个以 gRPC 错误应答"),
    phrase("{#n} without a connection", "{n} 个未能建立连接"),
    phrase("{#n} without TLS", "{n} 个未能完成 TLS 握手"),
    phrase(
        "{#n} cut off by the end of the connection",
        "{n} 个因连接结束而中断",
    ),
    phrase("{#n} reset", "{n} 个被重置"),
    phrase("{#n} with a protocol error", "{n} 个出现协议错误"),
    phrase("{#n} timed out", "{n} 个超时"),
    phrase("{#n} of the warm-up not counted", "预热阶段的 {n} 个不计入"),
    phrase("status {=all}", "状态码 {all}"),
    phrase("pages", "页面"),
    phrase("{#n} loaded", "{n} 个已加载"),
    phrase("nothing said", "没有说明"),
    phrase("{#n} failed in other ways", "另有 {n} 个以其他方式失败"),
    phrase(
        "this machine could not open {#n} connection",
        "本机未能发起 {n} 个连接",
    ),
    phrase(
        "this machine could not open {#n} connections",
        "本机未能发起 {n} 个连接",
    ),
    phrase(
        "Of all pages, those with a failed request never loaded",
        "按全部页面计算（含失败请求的页面视为从未加载）",
    ),
    phrase(
        "{#n} unfinished request was given up after up to {time}, so their response times are longer",
        "{n} 个未完成的请求在等待最多 {time} 后被放弃，因此其响应时间更长",
    ),
    phrase(
        "{#n} unfinished requests were given up after up to {time}, so their response times are longer",
        "{n} 个未完成的请求在等待最多 {time} 后被放弃，因此其响应时间更长",
    ),
    phrase(
        "Of all requests, failed ones never answered",
        "按全部请求计算（失败的请求视为从未应答）",
    ),
    phrase("{~statistic} at least {value}", "{statistic} 至少 {value}"),
    // Tables.
    phrase("service time", "服务时间"),
    phrase("min", "最小值"),
    phrase("first chunk", "首块"),
    phrase("gaps", "间隔"),
    phrase("longest gap", "最长间隔"),
    phrase("to", "至"),
    phrase("up to here", "累计"),
    phrase("time in", "阶段"),
    phrase("share", "占比"),
    phrase("lag", "滞后"),
    phrase("send", "发送"),
    phrase("wait", "等待"),
    phrase("receive", "接收"),
    phrase("no connection or stream was free", "没有空闲的连接或流"),
    phrase("TCP's handshake", "TCP 握手"),
    phrase("TLS's or QUIC's handshake", "TLS 或 QUIC 握手"),
    phrase("until the socket had the request", "直到套接字收下请求"),
    phrase("network and server", "网络与服务器"),
    phrase("the response, first to last byte", "响应，从首字节到末字节"),
    phrase("median of rounds", "各轮的中位数"),
    phrase("lowest of {#n}", "{n} 轮中最低"),
    phrase("highest of {#n}", "{n} 轮中最高"),
    phrase("errors", "错误"),
    // What held up sending.
    phrase(
        "HTTP/2's flow control held up {#n} body for {#p} of the time that sending took",
        "HTTP/2 的流量控制拖住了 {n} 个消息体，占发送时间的 {p}",
    ),
    phrase(
        "HTTP/2's flow control held up {#n} bodies for {#p} of the time that sending took",
        "HTTP/2 的流量控制拖住了 {n} 个消息体，占发送时间的 {p}",
    ),
    phrase("{#p} for a stream's window", "等待流窗口占 {p}"),
    phrase("{#p} for the connection's", "等待连接窗口占 {p}"),
    phrase(
        "TCP was sending for {#p} of its connections' time",
        "TCP 在连接时间的 {p} 内处于发送状态",
    ),
    phrase(
        "{#p} of that limited by the receiver's window",
        "其中 {p} 受接收窗口限制",
    ),
    phrase("{#p} by the send buffer", "{p} 受发送缓冲区限制"),
    phrase(
        "{#p} by the congestion window or waiting for acknowledgements",
        "{p} 受拥塞窗口限制或在等待确认",
    ),
    phrase(
        "{#a} of {#b} segments sent again",
        "{b} 个报文段中重传 {a} 个",
    ),
    phrase("{#a} of {#b} packets lost", "{b} 个数据包中丢失 {a} 个"),
    // Connections.
    phrase("connections {#n} TCP", "TCP 连接 {n} 个"),
    phrase("connections {#n} QUIC", "QUIC 连接 {n} 个"),
    phrase(
        "connections {#a} TCP, {#b} QUIC",
        "TCP 连接 {a} 个，QUIC 连接 {b} 个",
    ),
    phrase("handshakes/s {#n}", "每秒握手 {n} 次"),
    phrase("handshakes {#n} full", "完整握手 {n} 次"),
    phrase("handshakes {#n} resumed", "恢复的握手 {n} 次"),
    phrase("{#n} resumed", "恢复 {n} 次"),
    phrase("spoken {=names}", "所用协议 {names}"),
    phrase("key exchange {=names}", "密钥交换 {names}"),
    phrase("SETTINGS sent {=names}", "发送的 SETTINGS {names}"),
    phrase("SETTINGS received {=names}", "收到的 SETTINGS {names}"),
    phrase("GOAWAY {#n} sent", "发送 GOAWAY {n} 个"),
    phrase("GOAWAY {#n} received", "收到 GOAWAY {n} 个"),
    phrase("resets {#n} sent", "发送流重置 {n} 个"),
    phrase("resets {#n} received", "收到流重置 {n} 个"),
    phrase("{#n} received", "收到 {n} 个"),
    phrase(
        "retried {#n} request, which the server had not processed",
        "重试了服务器未处理的 {n} 个请求",
    ),
    phrase(
        "retried {#n} requests, which the server had not processed",
        "重试了服务器未处理的 {n} 个请求",
    ),
    // The health of the generator.
    phrase("generator lag {value}", "负载发生器滞后 {value}"),
    phrase("generator CPU {#p}", "负载发生器 CPU {p}"),
    phrase("max {value}", "最大 {value}"),
    phrase("now {value}", "当前 {value}"),
    phrase("the machine", "本机"),
    phrase("woke it late by {value}", "唤醒延迟 {value}"),
    phrase("that is {#p} of all lag", "占全部滞后的 {p}"),
    phrase("which without it would be {value}", "除去后为 {value}"),
    phrase("{a} of the longest lag of {b}", "最长的滞后 {b} 中占 {a}"),
    phrase("{time} behind other threads", "其中 {time} 在等待其他线程"),
    phrase("no other thread in the way", "没有其他线程占用处理器"),
    phrase(
        "its hypervisor took {#p} of all processor time",
        "虚拟机监控程序占用了全部处理器的 {p}",
    ),
    phrase("its processors may have slept", "其处理器可能曾休眠"),
    phrase("INVALID", "无效"),
    phrase(
        "the generator's lag {~p} of {lag} is above 5 % of the median latency of {median}",
        "负载发生器的滞后 {p} 为 {lag}，超过延迟中位数 {median} 的 5 %",
    ),
    phrase(
        "The generator's lag {~p} of {lag} is above 5 % of the median latency of {median}",
        "负载发生器的滞后 {p} 为 {lag}，超过延迟中位数 {median} 的 5 %",
    ),
    phrase(
        "so these latencies are not to be trusted",
        "因此这些延迟不可信",
    ),
    phrase(
        "Lower the rate, or leave the machine idle",
        "请降低速率，或让机器保持空闲",
    ),
    phrase(
        "the highest percentiles may be the generator's own",
        "最高的百分位数可能来自发生器自身",
    ),
    phrase("The load was not carried", "负载未被承受"),
    phrase(
        "Where requests pile up, latencies grow for as long as the load lasts",
        "请求堆积时，负载持续多久，延迟就增长多久",
    ),
    phrase("find the rate that is carried", "请找出能够承受的速率"),
    phrase(
        "The generator used {#p} of a processor",
        "负载发生器使用了一个处理器的 {p}",
    ),
    phrase("it may be what limits the load", "限制负载的可能是它"),
    phrase(
        "Use more threads, or a lower rate",
        "请使用更多线程，或降低速率",
    ),
    // Several versions.
    phrase("{#ratio} ({a} against {b})", "{ratio}（{a}，对比 {b}）"),
    phrase("{what} higher", "{what} 更高"),
    phrase("{what} lower", "{what} 更低"),
    phrase("rate", "速率"),
    phrase("no difference shown in {*list}", "未显示差异：{list}"),
    phrase("nothing can be said about {*list}", "无法判断：{list}"),
    phrase("A single round shows no difference", "单独一轮显示不出差异"),
    phrase("any two differ", "任意两轮都不相同"),
    phrase(
        "Run each variant 4 times or more",
        "请将每个变体运行 4 次或更多",
    ),
    phrase(
        "A difference is shown if all rounds of one lie beyond all of the other",
        "若一方的所有轮次都超出另一方的所有轮次，则认为显示了差异",
    ),
    phrase(
        "chance alone does that to {#p} of figures of equal variants",
        "对相同的变体，仅凭偶然也有 {p} 的数值如此",
    ),
    // A running load.
    phrase("{#a} of {#b}", "{a} / {b}"),
    phrase("rate {value} now", "当前速率 {value}"),
    phrase("{value} overall", "总体 {value}"),
    phrase("{value} asked", "要求 {value}"),
    phrase("latency", "延迟"),
    phrase("now", "当前"),
    phrase("overall", "总体"),
    phrase("{#n} begun", "已开始 {n} 个"),
    phrase("{#n} ended", "已结束 {n} 个"),
    phrase(
        "{#n} in flight on {#c} connection",
        "{c} 个连接上有 {n} 个在途",
    ),
    phrase(
        "{#n} in flight on {#c} connections",
        "{c} 个连接上有 {n} 个在途",
    ),
    phrase(
        "{#time} {#rate}/s of {#asked}/s",
        "{time} {rate}/s（要求 {asked}/s）",
    ),
    phrase(
        "{#time} n/a/s of {#asked}/s",
        "{time} n/a/s（要求 {asked}/s）",
    ),
    phrase("{#time} warm-up {#rate}/s", "{time} 预热 {rate}/s"),
    phrase("{#time} warm-up n/a/s", "{time} 预热 n/a/s"),
    phrase(
        "{#time} warm-up {#rate}/s of {#asked}/s",
        "{time} 预热 {rate}/s（要求 {asked}/s）",
    ),
    phrase(
        "{#time} warm-up n/a/s of {#asked}/s",
        "{time} 预热 n/a/s（要求 {asked}/s）",
    ),
    phrase("{#n} failed", "{n} 个失败"),
    phrase("{#n} now", "当前 {n} 个"),
    phrase("Ctrl-C ends it early", "按 Ctrl-C 提前结束"),
    phrase("ending", "正在结束"),
    phrase("round {#n}", "第 {n} 轮"),
    phrase("round {#n} of {#all}", "第 {n} 轮，共 {all} 轮"),
    // Below the summary.
    phrase("given up", "已放弃"),
    phrase(
        "none of the open requests had ended for {~time}",
        "{time} 内没有一个未完成的请求结束",
    ),
    phrase("asked", "目标地址"),
    phrase("asked {=addresses}", "目标地址 {addresses}"),
    phrase("threads {#n}", "线程 {n}"),
    phrase("last of {#n} rounds", "{n} 轮中的最后一轮"),
    phrase("held", "阻塞测试"),
    phrase("the first response took {#n} ms", "第一个应答耗时 {n} ms"),
    phrase("the second {#n} ms", "另一个耗时 {n} ms"),
    phrase("the second request waited for the first", "它等待了前者"),
    phrase(
        "the second request did not wait for the first",
        "它没有等待前者",
    ),
    // The page.
    phrase("ended", "结束于"),
    phrase("last round", "最后一轮"),
    phrase("Versions", "版本"),
    phrase("rounds", "轮数"),
    phrase(
        "Medians over the rounds; below them the lowest and the highest round",
        "各轮的中位数，下方为最低与最高的一轮",
    ),
    phrase("Percentiles", "百分位数"),
    phrase("Requests", "请求"),
    phrase("Requests of the last round", "最后一轮的请求"),
    phrase(
        "Response time of all requests, {statistic}",
        "全部请求的响应时间，{statistic}",
    ),
    phrase(
        "Response time of all requests, {statistic}: the bar is the median over the rounds, each dot a round, the line their range",
        "全部请求的响应时间，{statistic}：条形为各轮的中位数，每个点是一轮，线为其范围",
    ),
    phrase(
        "{statistic} of the response time of all requests",
        "全部请求的响应时间的{statistic}",
    ),
    phrase(
        "Response time of all requests in ms, with failed ones as never answered: median over the rounds, and below it the range of the rounds",
        "全部请求的响应时间，单位 ms，失败的请求视为从未应答：各轮的中位数，下方为各轮的范围",
    ),
    phrase("Counts are those of all rounds", "数量为各轮之和"),
    phrase(
        "Response time of all requests in ms; failed ones count as never answered",
        "全部请求的响应时间，单位 ms；失败的请求视为从未应答",
    ),
    phrase(
        "Response times of all requests: the box reaches from the 25th to the 75th percentile (IQR), the line in it is the median, the whiskers reach from the 1st to the 99th percentile. Hatched: it took at least that long",
        "全部请求的响应时间：箱体从第 25 百分位到第 75 百分位 (IQR)，其中的线为中位数，须线从第 1 百分位到第 99 百分位。斜线：至少花了这么长时间",
    ),
    phrase("Box plots of the response time", "响应时间的箱线图"),
    phrase(
        "All requests, warm-up included, by when they were due and by response time. The stronger the colour, the more requests; the legend has the least number for each step",
        "全部请求（含预热），按到期时间与响应时间排列。颜色越强，请求越多；图例为每一级的最少请求数",
    ),
    phrase(
        "Requests over time: those that were due and had not ended, and below it how many per second were due (line) and succeeded (area)",
        "请求随时间的变化：已到期但尚未结束的请求，其下为每秒到期（线）与成功（面积）的请求数",
    ),
    phrase(
        "The {#n} URLs are drawn together. Up to 7 URLs have colours of their own in a load of a single version",
        "{n} 个 URL 绘制在一起。单一版本的负载中，至多 7 个 URL 各有自己的颜色",
    ),
    phrase(
        "Of a colour with more than 40,000 requests, only the slowest and an even share of the others are drawn as points; everything else on this page counts all requests",
        "某种颜色的请求超过 40,000 个时，以点绘出最慢的以及其余请求的均匀抽样；本页其余内容均计入全部请求",
    ),
    phrase("writes a row for each request", "为每个请求写一行"),
    phrase(
        "A load records no packets, so this page does not say what a request waited for on the network",
        "负载不记录数据包，因此本页不说明请求在网络上等待什么",
    ),
    phrase(
        "measures over a link of its own, and its report has the causes and single requests in full",
        "在自己的链路上测量，其报告有原因以及单个请求的详情",
    ),
    phrase(
        "The plots of single requests need scripts; everything else does not",
        "单个请求的散点图需要脚本，其余内容不需要",
    ),
    phrase("unfinished when the load ended", "负载结束时未完成"),
    phrase(
        "Values that may be secret are left out of it",
        "其中略去了可能是机密的值",
    ),
    phrase(
        "A load has no link of squall’s: its response times depend on the network and on the server as they are then. The seed repeats only what is chosen at random",
        "负载没有 squall 的链路：其响应时间取决于当时的网络与服务器。种子只能重现随机选择的内容",
    ),
    phrase("Response times", "响应时间"),
    phrase("response", "响应"),
    phrase("service", "服务"),
    phrase(
        "Requests that succeeded, in the last round: response time from when a request was due, service time from when it had a connection",
        "最后一轮中成功的请求：响应时间从请求到期时算起，服务时间从获得连接时算起",
    ),
    phrase(
        "Percentiles of all requests; failed ones count as never answered. Each step has a tenth of the requests beyond the one before. Dashed: it took at least that long",
        "全部请求的百分位数，失败的请求视为从未应答。每一格包含的请求是前一格的十分之一。虚线：至少花了这么长时间",
    ),
    phrase("Response time by percentile", "按百分位数的响应时间"),
    phrase("All figures as text", "全部数值（文本）"),
    phrase("what it is", "含义"),
    phrase("Where the time went", "时间花在哪里"),
    phrase(
        "Requests that succeeded; shares of the sum of their response times",
        "成功的请求，占其响应时间总和的比例",
    ),
    phrase("Over time", "随时间的变化"),
    phrase(
        "Requests that ended per second, in intervals of {~time}: the area succeeded, the red line failed",
        "每秒结束的请求数，间隔 {time}：面积为成功，红线为失败",
    ),
    phrase(
        "Requests per second over time, succeeded and failed",
        "每秒请求数随时间的变化，成功与失败",
    ),
    phrase(
        "Response times of requests that succeeded: the solid line is the median, the dashed one the 99th percentile, the grey one the longest. An interval with too few requests for a percentile has no point of it",
        "成功请求的响应时间：实线为中位数，虚线为第 99 百分位，灰线为最长值。请求太少而得不出百分位数的间隔没有对应的点",
    ),
    phrase("Response time in ms", "响应时间，单位 ms"),
    phrase(
        "Response times over time: median, 99th percentile and longest",
        "响应时间随时间的变化：中位数、第 99 百分位与最长值",
    ),
];

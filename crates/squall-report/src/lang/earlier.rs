//! Texts of findings and of reasons in an earlier wording, which the records of older runs still have, such as those in
//! docs/findings. The other tables here have the current wording.

use super::{Phrase, phrase};

pub(super) const PHRASES: &[Phrase] = &[
    phrase(
        "Every request behind that queue pays for it, also the small ones",
        "排在该队列后面的每个请求都要付出代价，小请求也不例外",
    ),
    phrase(
        "Requests so wait for each other although each stream was promised more",
        "于是请求互相等待，尽管每个流被承诺了更多",
    ),
    phrase(
        "Requests were taken up later than the schedule wanted them, by more than a sound trial allows",
        "请求开始处理的时间晚于计划，超出了可靠试验允许的程度",
    ),
    phrase(
        "Their latencies are partly the generator's own, so the trial is no evidence",
        "其延迟部分来自发生器自身，因此该试验不能作为证据",
    ),
    phrase(
        "Connections were used for one request or two and then opened anew",
        "连接只用于一两个请求，随后又重新建立",
    ),
    phrase(
        "One lost packet so delays every request that shares its connection",
        "因此一个丢失的数据包会延误共享该连接的所有请求",
    ),
    phrase(
        "Packets were lost although no queue had built up, and a congestion control that goes by losses made its window smaller each time",
        "虽然没有形成队列，数据包仍然丢失，而基于丢包的拥塞控制每次都缩小窗口",
    ),
    phrase(
        "Further requests waited in line before anything of them was sent",
        "其余请求在发送任何内容之前排队等待",
    ),
    phrase(
        "The bytes of these requests had arrived in order, but a record can be deciphered only as a whole, and its last segment was still to come",
        "这些请求的字节已按序到达，但记录只能整体解密，而其最后一个报文段尚未到达",
    ),
    phrase(
        "Several messages in one large record so wait for each other",
        "因此同一个大记录中的多条消息会互相等待",
    ),
    phrase(
        "Nothing was lost: the congestion window is only young",
        "没有丢包：只是拥塞窗口尚未增长",
    ),
    phrase(
        "Large bodies went out in records of about a packet each, by a fixed small size or because records start small on connections that are fresh or were idle",
        "大的消息体以每个约一个数据包大小的记录发出，因为记录大小固定且较小，或因为连接新建或空闲后记录从小开始",
    ),
    phrase(
        "Large bodies, or their first megabyte, went out in records of about a packet each, by a fixed small size or because records start small on connections that are fresh or were idle",
        "大的消息体或其第一个兆字节以每个约一个数据包大小的记录发出，因为记录大小固定且较小，或因为连接新建或空闲后记录从小开始",
    ),
    phrase(
        "Each record costs 22 bytes and more on the wire and one pass of the cipher at both ends",
        "每个记录在线路上至少多占 22 字节，两端还要各做一次加解密",
    ),
    phrase(
        "A stream so carries at most one window in a round trip, whatever the link could do",
        "因此无论链路能力如何，一个流在一个往返时间内最多传输一个窗口",
    ),
    phrase(
        "Every request that had to wait for such a connection pays it",
        "等待这种连接的每个请求都要付出这一代价",
    ),
    phrase(
        "The last packets of a flight were lost, so no later one told the sender, which found out by a timer: a retransmission timeout of 200 ms and more, or a tail loss probe",
        "一批数据的最后几个数据包丢失，没有后续数据包告知发送方，只能靠定时器发现：200 ms 以上的重传超时，或尾部丢包探测",
    ),
    phrase(
        "A sender does so that takes every few bytes of window or of its source at once",
        "发送方一拿到几个字节的窗口或数据就立即发送时会这样",
    ),
    phrase(
        "The program that reads them is short of processor time, or the buffer too small for a burst",
        "读取它们的程序缺少处理器时间，或者缓冲区容不下一次突发",
    ),
    phrase(
        "The receiver gives back each DATA frame by itself, long before the sender could be short of window",
        "接收方逐个归还 DATA 帧的窗口，远早于发送方窗口不足之时",
    ),
    phrase(
        "DATA frames below 64 bytes, ends of streams aside",
        "小于 64 字节的 DATA 帧（不含流的末尾）",
    ),
    phrase("sound, at most", "可靠的上限"),
    phrase(
        "A ticket of the first one would have saved that work, and with TLS 1.2 a round trip",
        "首个连接的会话票据本可以省去这些工作，在 TLS 1.2 下还可省去一个往返",
    ),
    phrase(
        "The receiver gives its window back in large steps, and what has not reached a step stays with it while the sender waits",
        "接收方以大步长归还窗口，未满一步的部分留在接收方，而发送方在等待",
    ),
    phrase(
        "As many requests were under way on the connections as may be at once, by the server's limit or the client's own",
        "连接上同时进行的请求数已达到服务器或客户端自身的上限",
    ),
    phrase(
        "Further ones waited in line before anything of them was sent",
        "其余请求在发送任何内容之前排队等待",
    ),
    phrase(
        "The sender held a small segment back until everything before it was acknowledged (RFC 896), and the receiver held that acknowledgement back for 40 ms and more",
        "发送方扣住一个小报文段，直到之前的数据都被确认 (RFC 896)，而接收方把该确认延迟了 40 ms 以上",
    ),
    phrase(
        "The kernel had no local port left for further connections to the same destination: 28,232 by default, each kept for 60 s after its side has closed it (TIME_WAIT)",
        "内核已没有可用于连接同一目的地的本地端口：默认 28,232 个，每个在本端关闭后还保留 60 s (TIME_WAIT)",
    ),
    phrase(
        "That allows about 470 new connections a second, and what comes above it fails",
        "这大约允许每秒 470 个新连接，超出部分会失败",
    ),
    phrase(
        "The server reset requests with REFUSED_STREAM, which says that it has done nothing for them (RFC 9113, section 8.7)",
        "服务器用 REFUSED_STREAM 重置请求，表示它没有为这些请求做任何处理 (RFC 9113, 8.7)",
    ),
    phrase(
        "A client may send them again, a round trip later at least, if it does so at all",
        "客户端可以重新发送，但至少晚一个往返时间，也可能根本不重发",
    ),
    phrase(
        "The sender took segments for lost that were only late or had been overtaken, and the receiver said that it had them twice (DSACK, RFC 2883)",
        "发送方把只是迟到或被超越的报文段当作丢失，而接收方表示收到了两次 (DSACK, RFC 2883)",
    ),
    phrase(
        "Each time data is sent in vain, and the congestion window may shrink for nothing",
        "每次都白白发送数据，拥塞窗口也可能无谓缩小",
    ),
    phrase("under way in them, at most", "其间在途数据，至多"),
    phrase("give `rate`", "请设置 `rate`"),
    phrase(
        "as no setting of a recipe does this",
        "因为配方没有对应的设置",
    ),
    phrase("an offload is at work", "有卸载功能在起作用"),
    phrase(
        "the hosts did not fall silent, so the kernel's counters are not final",
        "主机没有静默，因此内核计数器不是最终值",
    ),
    phrase(
        "no HTTP was seen on hop {#n}, and yet requests were answered",
        "第 {n} 跳上没有看到任何 HTTP，请求却得到了应答",
    ),
];

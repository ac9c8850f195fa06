//! Texts of findings in an earlier wording, which the findings.json of older runs still has, such as those in docs/findings.

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
];

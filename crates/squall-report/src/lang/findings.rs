//! Texts of what can be wrong in a run: the titles of findings, what happens, the evidence with its numbers, and the fixes.
//!
//! Names of settings and programs are the same in both languages. squall-analysis has the detectors and their English texts.

use super::{Phrase, phrase};

pub(super) const PHRASES: &[Phrase] = &[
    phrase("What is wrong", "问题所在"),
    phrase("Fix: {=station}: {*setting}", "修复：{station}：{setting}"),
    phrase("Fix: {=station}: {=setting}", "修复：{station}：{setting}"),
    phrase("Fix: {=station}", "修复：{station}"),
    phrase("Fix: the path: {*setting}", "修复：路径：{setting}"),
    phrase("Fix: the path", "修复：路径"),
    phrase(
        "Fix: the link of hop {#n}: {*setting}",
        "修复：第 {n} 跳的链路：{setting}",
    ),
    phrase("Fix: the link of hop {#n}", "修复：第 {n} 跳的链路"),
    phrase(
        "Fix: {=station} (client side of hop {#n}): {*setting}",
        "修复：{station}（第 {n} 跳的客户端侧）：{setting}",
    ),
    phrase(
        "Fix: {=station} (client side of hop {#n})",
        "修复：{station}（第 {n} 跳的客户端侧）",
    ),
    phrase(
        "Fix: {=station} (server side of hop {#n}): {*setting}",
        "修复：{station}（第 {n} 跳的服务器侧）：{setting}",
    ),
    phrase(
        "Fix: {=station} (server side of hop {#n})",
        "修复：{station}（第 {n} 跳的服务器侧）",
    ),
    phrase("the link of hop {#n}", "第 {n} 跳的链路"),
    phrase(
        "{=station} (client side of hop {#n})",
        "{station}（第 {n} 跳的客户端侧）",
    ),
    phrase(
        "{=station} (server side of hop {#n})",
        "{station}（第 {n} 跳的服务器侧）",
    ),
    phrase("and {#n} more fix", "另有 {n} 个修复"),
    phrase("and {#n} more fixes", "另有 {n} 个修复"),
    phrase("{#n} minor finding", "{n} 个轻微问题"),
    phrase("{#n} minor findings", "{n} 个轻微问题"),
    phrase(
        "how all variants compare, all causes and findings",
        "所有变体的比较、全部原因与问题",
    ),
    phrase("{*title}, on hop {#n}", "{title}（第 {n} 跳）"),
    phrase("{p} of the response time", "占响应时间的 {p}"),
    phrase("{p} of the requests", "占请求的 {p}"),
    phrase("{p} of the sending time", "占发送时间的 {p}"),
    phrase("{p} of the packets with data", "占数据包的 {p}"),
    phrase("{p} of the frames", "占帧的 {p}"),
    phrase("up to {p} of the response time", "最多占响应时间的 {p}"),
    phrase("up to {p} of the requests", "最多占请求的 {p}"),
    phrase("up to {p} of the sending time", "最多占发送时间的 {p}"),
    phrase("up to {p} of the packets with data", "最多占数据包的 {p}"),
    phrase("up to {p} of the frames", "最多占帧的 {p}"),
    phrase("in {#a} of {#b} trial", "{b} 次试验中的 {a} 次"),
    phrase("in {#a} of {#b} trials", "{b} 次试验中的 {a} 次"),
    phrase("under {#n} condition", "涉及 {n} 个条件"),
    phrase("under {#n} conditions", "涉及 {n} 个条件"),
    phrase("at {@a} or {@b}", "条件为 {a} 或 {b}"),
    phrase("at {@a} or {@b} or {@c}", "条件为 {a}、{b} 或 {c}"),
    phrase(
        "at {@a} or {@b} or {@c} or {#n} more",
        "条件为 {a}、{b}、{c} 等，另有 {n} 个",
    ),
    phrase("Bufferbloat", "缓冲区膨胀 (bufferbloat)"),
    phrase(
        "Packets waited in a queue for longer than the whole round trip takes without it, and hardly any was dropped, so the senders kept it full",
        "数据包在队列中等待的时间超过了没有该队列时的整个往返时间，而且几乎没有被丢弃，因此发送方一直让队列保持满载",
    ),
    phrase(
        "Every request behind that queue pays for it, even small ones",
        "排在该队列后面的每个请求都要付出代价，小请求也不例外",
    ),
    phrase("Bursts overflow the queue", "突发使队列溢出"),
    phrase(
        "The queue dropped packets that came back to back behind many others of the same flow",
        "队列丢弃了同一流中紧跟在许多数据包之后背靠背到达的数据包",
    ),
    phrase(
        "A sender that spaces its packets over the round trip would have fitted the same data into the same queue",
        "如果发送方在往返时间内均匀发送，同样的数据本可以放进同一个队列",
    ),
    phrase("Connection window too small", "连接窗口过小"),
    phrase(
        "The window that all streams of the connection share was used up, while streams still had some of their own",
        "连接中所有流共享的窗口已耗尽，而各流自己的窗口还有剩余",
    ),
    phrase(
        "So requests wait for each other although each stream was promised more",
        "于是请求互相等待，尽管每个流被承诺了更多",
    ),
    phrase("TLS sessions are not resumed", "未恢复 TLS 会话"),
    phrase(
        "The client opened connection after connection to the same server, and most of them exchanged and checked certificates anew",
        "客户端不断与同一服务器建立连接，其中大多数都重新交换并校验证书",
    ),
    phrase(
        "A ticket from the first one would have saved that work, and with TLS 1.2 a round trip",
        "首个连接的会话票据本可以省去这些工作，在 TLS 1.2 下还可省去一个往返",
    ),
    phrase("The generator was late", "负载发生器滞后"),
    phrase(
        "The generator started requests later than they were due, by more than a valid trial allows",
        "请求开始处理的时间晚于计划，超出了可靠试验允许的程度",
    ),
    phrase(
        "Their latencies are partly the generator's own",
        "其延迟部分来自发生器自身",
    ),
    phrase("GOAWAY after a few requests", "少量请求后即发送 GOAWAY"),
    phrase(
        "The server ended its connections with GOAWAY while the load went on",
        "负载仍在进行时，服务器用 GOAWAY 结束了连接",
    ),
    phrase(
        "Each time a request had to wait for a new connection with its handshakes, and for its congestion window to grow again",
        "每次都有请求要等待新连接及其握手，并等待拥塞窗口重新增长",
    ),
    phrase("A handshake for most requests", "大多数请求都要握手"),
    phrase(
        "Connections carried one or two requests, and then new ones were opened",
        "连接只用于一两个请求，随后又重新建立",
    ),
    phrase(
        "Each time the request waits a round trip for TCP and one or two for TLS before its first byte can leave",
        "每次请求都要为 TCP 等待一个往返，为 TLS 再等待一到两个往返，才能发出第一个字节",
    ),
    phrase("TCP head-of-line blocking", "TCP 队头阻塞"),
    phrase(
        "Bytes of these requests had arrived, but TCP held them back because bytes of other requests before them were missing",
        "这些请求的字节已经到达，但因为之前其他请求的字节缺失，TCP 没有交付它们",
    ),
    phrase(
        "So one lost packet delays every request that shares its connection",
        "因此一个丢失的数据包会延误共享该连接的所有请求",
    ),
    phrase("Header fields are not compressed", "头部字段未被压缩"),
    phrase(
        "Header sections stay as long as the first one on their connection, although a trial sends the same fields every time",
        "头部与连接上的第一个一样长，尽管试验每次发送相同的字段",
    ),
    phrase(
        "The dynamic table of HPACK is too small to hold them, or is not used",
        "HPACK 的动态表太小，放不下这些字段，或者没有使用",
    ),
    phrase("Window updates come late", "窗口更新过晚"),
    phrase(
        "The receiver returns its window in large steps, and holds back what is less than a step while the sender waits",
        "接收方以大步长归还窗口，未满一步的部分留在接收方，而发送方在等待",
    ),
    phrase(
        "So a stream carries much less than its window in a round trip, as little as half of it",
        "因此一个流在一个往返时间内传输的数据远少于其窗口，最少只有一半",
    ),
    phrase("Loss taken for congestion", "丢包被当作拥塞"),
    phrase(
        "Packets were lost although no queue had built up, and a loss-based congestion control shrank its window each time",
        "虽然没有形成队列，数据包仍然丢失，而基于丢包的拥塞控制每次都缩小窗口",
    ),
    phrase(
        "Data waited in the sender on a path that was free",
        "路径空闲，数据却在发送方等待",
    ),
    phrase(
        "All streams of the connections are in use",
        "连接的所有流都在使用中",
    ),
    phrase(
        "As many requests were in flight on the connections as the server's limit or the client's own allows",
        "连接上同时进行的请求数已达到服务器或客户端自身的上限",
    ),
    phrase(
        "Further ones waited before any of their bytes was sent",
        "其余请求在发送任何内容之前排队等待",
    ),
    phrase(
        "Nagle's algorithm meets delayed acknowledgements",
        "Nagle 算法遇上延迟确认",
    ),
    phrase(
        "The sender held a small segment back until everything before it was acknowledged (RFC 896), and the receiver held that acknowledgement back for 40 ms or more",
        "发送方扣住一个小报文段，直到之前的数据都被确认 (RFC 896)，而接收方把该确认延迟了 40 ms 以上",
    ),
    phrase(
        "Each such message waits for a timer of its peer, on an idle network",
        "每条这样的消息都在空闲的网络上等待对端的定时器",
    ),
    phrase("Loss of a request's own packets", "请求自身的数据包丢失"),
    phrase(
        "Packets of these requests were lost, and each waited until its own bytes had been sent again",
        "这些请求的数据包丢失，每个请求都要等到自己的字节重新发送",
    ),
    phrase(
        "That takes at least a round trip, and much longer where nothing follows that would reveal the gap",
        "这至少需要一个往返时间；如果后面没有能暴露缺口的数据，则要长得多",
    ),
    phrase(
        "All connections of the pool are busy",
        "连接池的所有连接都在忙",
    ),
    phrase(
        "HTTP/1.1 carries one request at a time on a connection, and all that the client may open were in use",
        "HTTP/1.1 的一个连接同一时间只能承载一个请求，而客户端可打开的连接都在使用中",
    ),
    phrase(
        "Further requests waited before any of their bytes was sent",
        "其余请求在发送任何内容之前排队等待",
    ),
    phrase("No free ports", "没有空闲端口"),
    phrase(
        "The kernel had no local port left for further connections to the same destination: 28,232 by default, each kept for 60 s after its side has closed the connection (TIME_WAIT)",
        "内核已没有可用于连接同一目的地的本地端口：默认 28,232 个，每个在本端关闭后还保留 60 s (TIME_WAIT)",
    ),
    phrase(
        "That allows about 470 new connections a second, and any beyond that fail",
        "这大约允许每秒 470 个新连接，超出部分会失败",
    ),
    phrase("The receiving program does not read", "接收程序没有读取"),
    phrase(
        "The receiver had every byte that its window allowed, and gave nothing back for much longer than a round trip",
        "接收方已收到其窗口允许的全部字节，却在远长于一个往返的时间里没有归还窗口",
    ),
    phrase(
        "The network had nothing to do with it: the program was busy, waited for its own upstream, or never returns what it reads",
        "这与网络无关：程序在忙、在等待自己的上游，或者从不归还已读取的部分",
    ),
    phrase("Limited by TCP's receive window", "受 TCP 接收窗口限制"),
    phrase(
        "The kernel had data and congestion window left, and the receiving socket had announced no more room",
        "内核还有数据，拥塞窗口也有余量，但接收套接字没有通告更多空间",
    ),
    phrase(
        "Its buffer holds less than what a round trip carries, or its program does not read",
        "其缓冲区小于一个往返时间内可传输的数据，或者其程序没有读取",
    ),
    phrase(
        "Bytes wait for the rest of their TLS record",
        "字节等待其 TLS 记录的其余部分",
    ),
    phrase(
        "The bytes of these requests had arrived in order, but a record can be decrypted only as a whole, and its last segment was still to come",
        "这些请求的字节已按序到达，但记录只能整体解密，而其最后一个报文段尚未到达",
    ),
    phrase(
        "So several messages in one large record wait for each other",
        "因此同一个大记录中的多条消息会互相等待",
    ),
    phrase("Refused streams", "流被拒绝"),
    phrase(
        "The server reset requests with REFUSED_STREAM, which says that it has not processed them (RFC 9113, section 8.7)",
        "服务器用 REFUSED_STREAM 重置请求，表示它没有为这些请求做任何处理 (RFC 9113, 8.7)",
    ),
    phrase(
        "A client may send them again, at least a round trip later, if it does so at all",
        "客户端可以重新发送，但至少晚一个往返时间，也可能根本不重发",
    ),
    phrase("Limited by the send buffer", "受发送缓冲区限制"),
    phrase(
        "The congestion window and the peer's window had room, and the sending socket's buffer was full of bytes that were not acknowledged yet",
        "拥塞窗口和对端窗口都有余量，而发送套接字的缓冲区已被尚未确认的字节占满",
    ),
    phrase(
        "A buffer below two bandwidth-delay products cannot keep the path busy",
        "小于两倍带宽时延积的缓冲区无法让路径保持繁忙",
    ),
    phrase(
        "One congestion window, cut by every loss, for all requests",
        "所有请求共用一个拥塞窗口，每次丢包都会缩小它",
    ),
    phrase(
        "All requests share so few connections that each lost packet holds many of them up and shrinks the window of all",
        "所有请求共用的连接太少，每个丢失的数据包都会拖住许多请求，并缩小所有请求的窗口",
    ),
    phrase(
        "The path could carry the load over more connections, or with a congestion control that does not take each loss for congestion",
        "如果使用更多连接，或使用不把每次丢包都当作拥塞的拥塞控制，路径本可以承受该负载",
    ),
    phrase("Slow start on fresh connections", "新连接上的慢启动"),
    phrase(
        "These messages are larger than the ten segments that a fresh connection may send, and each further flight waits a round trip for acknowledgements",
        "这些消息大于新连接可以发送的十个报文段，之后的每一批数据都要等待一个往返的确认",
    ),
    phrase(
        "Nothing was lost: the congestion window just has not grown yet",
        "没有丢包：只是拥塞窗口尚未增长",
    ),
    phrase("Slow start after idle", "空闲后的慢启动"),
    phrase(
        "The connection had sent large flights before it was idle for longer than a retransmission timeout, and began again with a small one while more data waited",
        "该连接曾发送大批数据，空闲超过一个重传超时后，又从小批量重新开始，而更多数据在等待",
    ),
    phrase(
        "The kernel forgets the congestion window by default, and the next message pays round trips to get it back",
        "内核默认会丢弃拥塞窗口，下一条消息要花若干往返才能恢复",
    ),
    phrase("Small TLS records", "TLS 记录过小"),
    phrase(
        "Large bodies, or their first megabyte, went out in records of about a packet each, because their size is fixed and small, or because records start small on connections that are fresh or were idle",
        "大的消息体或其第一个兆字节以每个约一个数据包大小的记录发出，因为记录大小固定且较小，或因为连接新建或空闲后记录从小开始",
    ),
    phrase(
        "Each record costs at least 22 bytes on the wire and one pass of the cipher at both ends",
        "每个记录在线路上至少多占 22 字节，两端还要各做一次加解密",
    ),
    phrase("Spurious retransmissions", "虚假重传"),
    phrase(
        "The sender declared segments lost that were only late or had been overtaken, and the receiver reported that it got them twice (DSACK, RFC 2883)",
        "发送方把只是迟到或被超越的报文段当作丢失，而接收方表示收到了两次 (DSACK, RFC 2883)",
    ),
    phrase(
        "Each time, data is sent again needlessly, and the congestion window may shrink for no reason",
        "每次都白白发送数据，拥塞窗口也可能无谓缩小",
    ),
    phrase("Stream window too small", "流窗口过小"),
    phrase(
        "The sender had data, and the stream's flow-control window was used up until an update came back",
        "发送方还有数据，而流的流量控制窗口已耗尽，直到收到更新",
    ),
    phrase(
        "So a stream carries at most one window in a round trip, whatever the link could do",
        "因此无论链路能力如何，一个流在一个往返时间内最多传输一个窗口",
    ),
    phrase("Lost SYN", "SYN 丢失"),
    phrase(
        "The packet that opens a connection was lost, and without a measured round trip TCP waits a whole second before it tries again (RFC 6298, section 2)",
        "建立连接的数据包丢失，而 TCP 在没有测得往返时间时要等整整一秒才重试 (RFC 6298, 2)",
    ),
    phrase(
        "Every request that had to wait for such a connection pays for it",
        "等待这种连接的每个请求都要付出这一代价",
    ),
    phrase("Tail loss repaired by a timer", "尾部丢包由定时器修复"),
    phrase(
        "The last packets of a flight were lost, so no later one told the sender, which found out by a timer: a retransmission timeout of 200 ms or more, or a tail loss probe",
        "一批数据的最后几个数据包丢失，没有后续数据包告知发送方，只能靠定时器发现：200 ms 以上的重传超时，或尾部丢包探测",
    ),
    phrase(
        "Small responses on connections with little else in flight are hit most",
        "在途数据很少的连接上的小响应受影响最大",
    ),
    phrase("Tiny DATA frames", "DATA 帧过小"),
    phrase(
        "Bodies were sent in DATA frames of less than 64 bytes, each with its own header, and often its own record and packet",
        "消息体以小于 64 字节的 DATA 帧发送，每帧都有自己的帧头，往往还有自己的记录和数据包",
    ),
    phrase(
        "A sender does this if it sends every few bytes as soon as the window or its source provides them",
        "发送方一拿到几个字节的窗口或数据就立即发送时会这样",
    ),
    phrase(
        "Datagrams dropped by a full socket",
        "套接字已满，数据报被丢弃",
    ),
    phrase(
        "The receiving socket's buffer was full, and the kernel dropped datagrams that the network had delivered",
        "接收套接字的缓冲区已满，内核丢弃了网络已送达的数据报",
    ),
    phrase(
        "The program that reads them is short of processor time, or the buffer is too small for a burst",
        "读取它们的程序缺少处理器时间，或者缓冲区容不下一次突发",
    ),
    phrase(
        "A window update for every DATA frame",
        "每个 DATA 帧都发一个窗口更新",
    ),
    phrase(
        "The receiver returns the window of each DATA frame by itself, long before the sender could run short of it",
        "接收方逐个归还 DATA 帧的窗口，远早于发送方窗口不足之时",
    ),
    phrase(
        "Every update is a frame, often a packet and a wake-up at both ends, and none of them is needed",
        "每个更新都是一个帧，往往还是一个数据包和两端的一次唤醒，而它们都不是必需的",
    ),
    phrase("Uploads wait for their first window", "上传等待首个窗口"),
    phrase(
        "The server announced an initial stream window that holds next to nothing, so no body could follow its header section",
        "服务器通告的初始流窗口几乎为零，因此头部之后无法发送消息体",
    ),
    phrase(
        "Every upload waits for the first update, a round trip or more",
        "每次上传都要等待第一个更新，耗时一个往返或更久",
    ),
    phrase(
        "DATA frames below 64 bytes, not counting the last of each stream",
        "小于 64 字节的 DATA 帧（不含流的末尾）",
    ),
    phrase("DATA frames received", "收到的 DATA 帧"),
    phrase("DATA frames sent there", "在该方向发送的 DATA 帧"),
    phrase("GOAWAY received", "收到的 GOAWAY"),
    phrase(
        "WINDOW_UPDATE frames of streams sent",
        "发送的流 WINDOW_UPDATE 帧",
    ),
    phrase("a flight before one", "空闲前一批的数据量"),
    phrase("after it", "丢包之后"),
    phrase(
        "at most, by window over round trip",
        "按窗口除以往返时间，至多",
    ),
    phrase(
        "congestion window before a loss, median",
        "丢包前的拥塞窗口，中位数",
    ),
    phrase("congestion window in them, at most", "其间的拥塞窗口，至多"),
    phrase("connection window", "连接窗口"),
    phrase("connections that carried everything", "承载全部请求的连接"),
    phrase("connections that the client may have", "客户端可有的连接"),
    phrase("connections that would carry it", "能够承载的连接"),
    phrase("connections with a loss, left out", "有丢包而略去的连接"),
    phrase(
        "connections with a lost SYN or SYN-ACK",
        "丢失 SYN 或 SYN-ACK 的连接",
    ),
    phrase("datagrams dropped", "被丢弃的数据报"),
    phrase("datagrams received there", "在那里收到的数据报"),
    phrase("dropped by a queue", "被队列丢弃"),
    phrase("full handshakes", "完整握手"),
    phrase("in flight, median", "在途数据，中位数"),
    phrase("initial window", "初始窗口"),
    phrase("lag at the tail", "尾部滞后"),
    phrase("large messages in small records", "以小记录发送的大消息"),
    phrase("large messages", "大消息"),
    phrase("largest window that was announced", "通告过的最大窗口"),
    phrase(
        "later ones at least half as long as their first",
        "长度不小于首个一半的后续头部",
    ),
    phrase("longest first header section", "最长的首个头部"),
    phrase("longest", "最长"),
    phrase("lost packets repaired by a probe", "由探测修复的丢包"),
    phrase(
        "lost packets repaired by a retransmission timeout",
        "由重传超时修复的丢包",
    ),
    phrase(
        "lost packets repaired by one or the other",
        "由两者之一修复的丢包",
    ),
    phrase("lost packets that delayed others", "延误其他请求的丢包"),
    phrase("lost packets that delayed requests", "延误请求的丢包"),
    phrase(
        "lost packets that delayed their own request",
        "延误自身请求的丢包",
    ),
    phrase("mean increment", "平均增量"),
    phrase("median time in queues", "在队列中的时间中位数"),
    phrase("median time in the queue", "在队列中的时间中位数"),
    phrase(
        "of it, sent in a round trip, at least",
        "其中在一个往返内发送的，至少",
    ),
    phrase("of them in use at once", "其中同时使用的"),
    phrase(
        "of them, behind ten or more back to back",
        "其中跟在十个以上背靠背数据包之后的",
    ),
    phrase("of them, dropped by a queue", "其中被队列丢弃的"),
    phrase("packets dropped by the queue", "被队列丢弃的数据包"),
    phrase("packets lost at random", "随机丢失的数据包"),
    phrase("packets that the queue dropped", "队列丢弃的数据包"),
    phrase("packets that waited for longer", "等待更久的数据包"),
    phrase("records a megabyte in them", "其中每兆字节的记录数"),
    phrase(
        "requests at once on each, on average",
        "每个连接上平均同时的请求",
    ),
    phrase(
        "requests that each of them delayed, median",
        "每个丢包延误的请求，中位数",
    ),
    phrase("requests that it cost time", "受影响的请求"),
    phrase(
        "requests that one of them delayed, at most",
        "单个丢包延误的请求，至多",
    ),
    phrase("requests that opened a connection", "建立连接的请求"),
    phrase("requests without a port", "没有端口可用的请求"),
    phrase("restarts after idle time", "空闲后的重新开始"),
    phrase("resumed handshakes", "恢复的握手"),
    phrase("round trip without it", "没有该队列时的往返时间"),
    phrase(
        "samples of a full buffer with more to write",
        "缓冲区已满且仍有数据要写的样本",
    ),
    phrase("samples with something to send", "有数据要发送的样本"),
    phrase("segments sent again", "重发的报文段"),
    phrase("segments that arrived twice", "到达两次的报文段"),
    phrase("segments that were held back", "被扣住的报文段"),
    phrase("send buffer (SO_SNDBUF)", "发送缓冲区 (SO_SNDBUF)"),
    phrase("allowed, at most", "可靠的上限"),
    phrase("stalls", "停顿"),
    phrase(
        "stopped by the peer's window, beyond its growth",
        "除窗口增长期外被对端窗口阻止",
    ),
    phrase("stopped by the send buffer", "被发送缓冲区阻止"),
    phrase("stream window", "流窗口大小"),
    phrase("streams refused", "被拒绝的流"),
    phrase(
        "streams that may be open at once on a connection",
        "一个连接上可同时打开的流",
    ),
    phrase("the flight after it", "空闲后一批的数据量"),
    phrase(
        "throughput of a connection, measured",
        "一个连接的实测吞吐量",
    ),
    phrase(
        "throughput that a connection can have at this loss (Mathis, CUBIC)",
        "此丢包率下一个连接可达的吞吐量 (Mathis, CUBIC)",
    ),
    phrase("throughput that the load needs", "负载所需的吞吐量"),
    phrase("time that it cost", "耗费的时间"),
    phrase("times that reordering was seen", "观察到乱序的次数"),
    phrase("in flight in them, at most", "其间在途数据，至多"),
    phrase(
        "uploads that waited for their first window",
        "等待首个窗口的上传",
    ),
    phrase("with something to send", "有数据要发送的时间"),
];

pub(super) const FIXES: &[Phrase] = &[
    phrase(
        "an active queue (CoDel, FQ-CoDel, PIE) or a shorter one at the bottleneck",
        "在瓶颈处使用主动队列管理 (CoDel, FQ-CoDel, PIE) 或更短的队列",
    ),
    phrase("keep data in flight", "保持有数据在途"),
    phrase("the path", "路径"),
    phrase("{*setting} (about {#n})", "{setting}（约 {n}）"),
    phrase(
        "at least twice the bandwidth-delay product",
        "至少为带宽时延积的两倍",
    ),
    phrase(
        "the stream window times the streams in use",
        "流窗口乘以使用中的流数",
    ),
    phrase(
        "\"half\", or every quarter of the window",
        "\"half\"，或每用去四分之一窗口",
    ),
    phrase("every quarter of the window", "每用去四分之一窗口"),
    phrase("{key}, or more connections", "{key}，或更多连接"),
    phrase("HTTP/3, or more connections", "HTTP/3，或更多连接"),
    phrase(
        "http2.max_concurrent_streams of the client: what the server allows, until its SETTINGS have come",
        "客户端的 http2.max_concurrent_streams：在收到服务器的 SETTINGS 之前设为服务器允许的值",
    ),
    phrase(
        "http1.requests_per_connection and http2.goaway_after: more, or \"never\"",
        "http1.requests_per_connection 与 http2.goaway_after：调大，或 \"never\"",
    ),
    phrase(
        "connections: more of them, or HTTP/2",
        "connections：更多连接，或使用 HTTP/2",
    ),
    phrase("connections: more of them", "connections：更多连接"),
    phrase(
        "connections = N, so that losses are spread",
        "connections = N，使丢包分散",
    ),
    phrase("tls.resumption = true", "tls.resumption = true"),
    phrase(
        "tls.records: one fixed size of 4KiB to 16KiB",
        "tls.records：固定为 4KiB 至 16KiB 中的一个大小",
    ),
    phrase(
        "at least the 4096 that HTTP/2 begins with, more than the fields take",
        "至少为 HTTP/2 的初始值 4096，且大于字段所占空间",
    ),
    phrase(
        "http2.data_size: 16384, gathered before it is sent",
        "http2.data_size：16384，攒够后再发送",
    ),
    phrase("tls.records = \"4KiB\"", "tls.records = \"4KiB\""),
    phrase("tcp.no_delay = true", "tcp.no_delay = true"),
    phrase(
        "tcp.receive_buffer = \"kernel\" (tcp_rmem), or larger",
        "tcp.receive_buffer = \"kernel\" (tcp_rmem)，或更大",
    ),
    phrase(
        "tcp.send_buffer = \"kernel\" (tcp_wmem), or larger",
        "tcp.send_buffer = \"kernel\" (tcp_wmem)，或更大",
    ),
    phrase(
        "tcp.slow_start_after_idle = false",
        "tcp.slow_start_after_idle = false",
    ),
    phrase("http3.pacing = true", "http3.pacing = true"),
    phrase(
        "tcp.congestion_control = \"bbr\", which paces",
        "tcp.congestion_control = \"bbr\"，它会调速发送",
    ),
    phrase("a path that keeps the order", "保持顺序的路径"),
    phrase(
        "net.ipv4.tcp_recovery = 1 (RACK), larger net.ipv4.tcp_reordering",
        "net.ipv4.tcp_recovery = 1 (RACK)，更大的 net.ipv4.tcp_reordering",
    ),
    phrase(
        "h3 instead of HTTP over TCP, or several connections",
        "用 h3 代替基于 TCP 的 HTTP，或使用多个连接",
    ),
    phrase(
        "fewer tails: keep data in flight (larger responses together, more requests a connection)",
        "减少尾部：保持有数据在途（合并更大的响应，每个连接更多请求）",
    ),
    phrase(
        "reuse connections (pool.warm, a fixed number of connections)",
        "复用连接（pool.warm，固定数量的连接）",
    ),
    phrase(
        "http2.window_updates: give back what was read, or a faster reader",
        "http2.window_updates：归还已读取的部分，或加快读取",
    ),
    phrase(
        "fewer connections: keep-alive (http1.requests_per_connection = \"never\"), a pool; more ports (local_ports)",
        "减少连接：保持连接 (http1.requests_per_connection = \"never\")、使用连接池；增加端口 (local_ports)",
    ),
    phrase(
        "fewer connections: keep-alive (http1.requests_per_connection = \"never\"), a pool",
        "减少连接：保持连接 (http1.requests_per_connection = \"never\")、使用连接池",
    ),
    phrase("more ports (local_ports)", "增加端口 (local_ports)"),
    phrase(
        "http3.receive_buffer = \"kernel\" (net.core.rmem_default), or larger",
        "http3.receive_buffer = \"kernel\" (net.core.rmem_default)，或更大",
    ),
    phrase(
        "http3.pacing = true of its peer",
        "其对端的 http3.pacing = true",
    ),
    phrase(
        "load.rate: less than this machine's generator can do",
        "load.rate：低于这台机器的发生器所能达到的速率",
    ),
    phrase(
        "no setting of {=program} is known for this",
        "{program} 没有已知的对应设置",
    ),
    phrase("{key} of its host", "其主机的 {key}"),
    phrase("{key} on its host", "在其主机上设 {key}"),
    phrase(
        "the fq queueing discipline, or BBR, on its host",
        "在其主机上使用 fq 排队规则或 BBR",
    ),
    phrase("HTTP/3, or several connections", "HTTP/3，或使用多个连接"),
    phrase(
        "RACK and TLP (net.ipv4.tcp_recovery, tcp_early_retrans)",
        "RACK 与 TLP (net.ipv4.tcp_recovery, tcp_early_retrans)",
    ),
    phrase("fewer connections", "减少连接"),
    phrase("fewer new connections", "减少新建连接"),
    phrase(
        "net.core.somaxconn of the server's host",
        "服务器主机的 net.core.somaxconn",
    ),
    phrase(
        "net.core.rmem_max and rmem_default of its host",
        "其主机的 net.core.rmem_max 与 rmem_default",
    ),
    phrase("a faster reader", "加快读取"),
    phrase(
        "a larger --tls-dyn-rec-warmup-threshold",
        "更大的 --tls-dyn-rec-warmup-threshold",
    ),
    phrase(
        "a faster reader, or larger buffers in the program",
        "加快读取，或加大程序中的缓冲区",
    ),
    phrase(
        "{key} of http2_protocol_options",
        "http2_protocol_options 的 {key}",
    ),
    phrase(
        "{key} of common_http_protocol_options",
        "common_http_protocol_options 的 {key}",
    ),
    phrase(
        "max_connections of circuit_breakers",
        "circuit_breakers 的 max_connections",
    ),
    phrase("keepalive of the upstream block", "upstream 块的 keepalive"),
    phrase(
        "http-reuse and pool-max-conn of the server line",
        "server 行的 http-reuse 与 pool-max-conn",
    ),
    phrase(
        "a lower max_concurrent_streams of the upstream's http2_protocol_options, or a higher --concurrency: each worker has connections of its own",
        "降低上游 http2_protocol_options 的 max_concurrent_streams，或提高 --concurrency：每个工作线程有自己的连接",
    ),
    phrase(
        "a lower tune.h2.be.max-concurrent-streams",
        "降低 tune.h2.be.max-concurrent-streams",
    ),
    phrase(
        "a higher --workers: each has connections of its own",
        "提高 --workers：每个都有自己的连接",
    ),
    phrase(
        "`versions 1.1` in the transport block, or several upstreams",
        "transport 的 versions 1.1，或多个上游",
    ),
    phrase(
        "ssl_session_tickets on, ssl_session_cache",
        "ssl_session_tickets on，ssl_session_cache",
    ),
    phrase("without no-tls-tickets", "不使用 no-tls-tickets"),
    phrase(
        "session_ticket_keys, without disable_stateless_session_resumption",
        "session_ticket_keys，不使用 disable_stateless_session_resumption",
    ),
    phrase("option http-keep-alive", "option http-keep-alive"),
    phrase("option http-no-delay", "option http-no-delay"),
    phrase("tcp_nodelay on", "tcp_nodelay on"),
    phrase(
        "rcvbuf of listen, or net.ipv4.tcp_rmem of its host",
        "listen 的 rcvbuf，或其主机的 net.ipv4.tcp_rmem",
    ),
    phrase(
        "sndbuf of listen, or net.ipv4.tcp_wmem of its host",
        "listen 的 sndbuf，或其主机的 net.ipv4.tcp_wmem",
    ),
    phrase(
        "tune.rcvbuf.client and tune.rcvbuf.server",
        "tune.rcvbuf.client 与 tune.rcvbuf.server",
    ),
    phrase(
        "tune.sndbuf.client and tune.sndbuf.server",
        "tune.sndbuf.client 与 tune.sndbuf.server",
    ),
];

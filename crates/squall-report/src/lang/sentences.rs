//! The sentences of squall-analysis: the answer, the verdicts, the thresholds, the tried fixes, and what to doubt.
//!
//! Longer sentences consist of these clauses, as squall-analysis composes them. `findings` has those about faults.

use super::{Phrase, phrase};

pub(super) const PHRASES: &[Phrase] = &[
    // The answer in a clause.
    phrase("{@variant} wins", "{variant} 胜出"),
    phrase(
        "its {what} is {ratio} that of {@other}",
        "其 {what} 是 {other} 的 {ratio}",
    ),
    phrase(
        "its {what} is lower than that of {@other}",
        "其 {what} 低于 {other}",
    ),
    phrase(
        "its {what} is higher than that of {@other}",
        "其 {what} 高于 {other}",
    ),
    phrase("and neither can carry the load", "且两者都无法承受负载"),
    phrase("which cannot carry the load", "而后者无法承受负载"),
    phrase("but it cannot carry the load", "但它无法承受负载"),
    phrase("at {@condition}", "条件为 {condition}"),
    phrase(
        "It cannot be told whether {@a} or {@b} has the better {what}",
        "无法判断 {a} 与 {b} 谁的 {what} 更好",
    ),
    phrase("No winner", "没有胜者"),
    phrase(
        "{@a} and {@b} differ by at most {#n} in {what}",
        "{a} 与 {b} 的 {what} 至多相差 {n}",
    ),
    phrase(
        "No winner is shown between {@a} and {@b} by {what}",
        "按 {what} 比较，看不出 {a} 与 {b} 谁胜出",
    ),
    // The answer in a sentence.
    phrase("{@a} is slower than {@b}", "{a} 比 {b} 慢"),
    phrase("{@a} is faster than {@b}", "{a} 比 {b} 快"),
    phrase("{@a} varies more than {@b}", "{a} 的波动比 {b} 大"),
    phrase("{@a} varies less than {@b}", "{a} 的波动比 {b} 小"),
    phrase(
        "{@a} has a higher throughput than {@b}",
        "{a} 的吞吐量高于 {b}",
    ),
    phrase(
        "{@a} has a lower throughput than {@b}",
        "{a} 的吞吐量低于 {b}",
    ),
    phrase(
        "{@a} opens more connections than {@b}",
        "{a} 打开的连接多于 {b}",
    ),
    phrase(
        "{@a} opens fewer connections than {@b}",
        "{a} 打开的连接少于 {b}",
    ),
    phrase(
        "{@a} makes more handshakes than {@b}",
        "{a} 的握手次数多于 {b}",
    ),
    phrase(
        "{@a} makes fewer handshakes than {@b}",
        "{a} 的握手次数少于 {b}",
    ),
    phrase(
        "{@a} fails more requests than {@b}",
        "{a} 失败的请求多于 {b}",
    ),
    phrase(
        "{@a} fails fewer requests than {@b}",
        "{a} 失败的请求少于 {b}",
    ),
    phrase("{what} {a} against {b}", "{what} {a}，对比 {b}"),
    phrase(
        "{what} {a} against {b} over {#n} of {#all} pairs",
        "{what} {a}，对比 {b}（{all} 对中的 {n} 对）",
    ),
    phrase(
        "{what} {a} against {b} over {#n} pairs of which {#doubtful} is doubtful",
        "{what} {a}，对比 {b}（{n} 对，其中 {doubtful} 对存疑）",
    ),
    phrase(
        "{what} {a} against {b} over {#n} pairs of which {#doubtful} are doubtful",
        "{what} {a}，对比 {b}（{n} 对，其中 {doubtful} 对存疑）",
    ),
    phrase(
        "{what} {a} against {b} over {#n} pair of which {#doubtful} is doubtful",
        "{what} {a}，对比 {b}（{n} 对，其中 {doubtful} 对存疑）",
    ),
    phrase(
        "{what} {a} against {b} over {#n} of {#all} pair",
        "{what} {a}，对比 {b}（{all} 对中的 {n} 对）",
    ),
    phrase("{@variant} cannot carry the load", "{variant} 无法承受负载"),
    phrase("neither can carry the load", "两者都无法承受负载"),
    phrase("{@a} and {@b} cannot be compared", "{a} 与 {b} 无法比较"),
    phrase(
        "{@a} and {@b} cannot be compared by {what}",
        "{a} 与 {b} 无法按 {what} 比较",
    ),
    phrase(
        "because no pair of their trials is valid",
        "因为它们没有一对有效的试验",
    ),
    phrase("because {*why}", "因为 {why}"),
    phrase(
        "The trials of {@a} and {@b} disagree on which is better by {what}",
        "{a} 与 {b} 的各次试验对谁的 {what} 更好结论不一",
    ),
    phrase(
        "{@a} and {@b} do not differ by more than {#n}",
        "{a} 与 {b} 相差不超过 {n}",
    ),
    phrase(
        "No difference is shown between {@a} and {@b}",
        "{a} 与 {b} 之间未显示差异",
    ),
    phrase(
        "A difference is proven in {#n} of {#all} comparisons",
        "{all} 个比较中有 {n} 个证实了差异",
    ),
    phrase(
        "{@variant} cannot carry the load under {#n} of {#all} conditions",
        "{variant} 在 {all} 个条件中的 {n} 个下无法承受负载",
    ),
    phrase(
        "{@variant} cannot carry the load under {#n} of {#all} condition",
        "{variant} 在 {all} 个条件中的 {n} 个下无法承受负载",
    ),
    // The number of connections needed.
    phrase("Nothing is known of {@a}'s {what}", "{a} 的 {what} 未知"),
    phrase(
        "{#n} connection reaches {@a}'s {what}",
        "{n} 个连接即可达到 {a} 的 {what}",
    ),
    phrase(
        "{#n} connections reaches {@a}'s {what}",
        "{n} 个连接即可达到 {a} 的 {what}",
    ),
    phrase(
        "It takes about {#n} connections to reach {@a}'s {what}",
        "大约需要 {n} 个连接才能达到 {a} 的 {what}",
    ),
    phrase(
        "{#n} connections do not reach {@a}'s {what}",
        "{n} 个连接达不到 {a} 的 {what}",
    ),
    phrase(
        "{#n} connection do not reach {@a}'s {what}",
        "{n} 个连接达不到 {a} 的 {what}",
    ),
    phrase(
        "No single number of connections reaches {@a}'s {what}",
        "没有哪一个连接数能达到 {a} 的 {what}",
    ),
    phrase("more of them are not simply better", "连接并非越多越好"),
    phrase(
        "{#a} to {#b} with 95 % confidence",
        "95 % 置信度下为 {a} 至 {b}",
    ),
    phrase(
        "{#n} or more with 95 % confidence",
        "95 % 置信度下为 {n} 或更多",
    ),
    phrase(
        "{#n} or fewer with 95 % confidence",
        "95 % 置信度下为 {n} 或更少",
    ),
    phrase(
        "any number that was tried with 95 % confidence",
        "95 % 置信度下为试过的任一数目",
    ),
    // How sure it is, and why.
    phrase("Why", "原因"),
    phrase("The question", "问题"),
    phrase("Proven by {pairs}", "已由 {pairs} 证实"),
    phrase("{#n} pair of trials", "{n} 个试验对"),
    phrase("{#n} pairs of trials", "{n} 个试验对"),
    phrase("pairs of trials", "试验对"),
    phrase(
        "chance alone does as much in {p} % of runs",
        "仅凭偶然，{p} % 的运行也会出现这样的差异",
    ),
    phrase(
        "the ratio is {#a} to {#b} with 95 % confidence",
        "比值在 95 % 置信度下为 {a} 至 {b}",
    ),
    phrase("95 % confidence", "95 % 置信度"),
    phrase("Likely, but not proven", "很可能，但未证实"),
    phrase("{#n} pair of trials says so", "{n} 个试验对如此显示"),
    phrase("{#n} pairs of trials all say so", "{n} 个试验对都如此显示"),
    phrase("and it takes {#n}", "而证实需要 {n} 个"),
    phrase("among {#n} comparison", "在 {n} 个比较中"),
    phrase("among {#n} comparisons", "在 {n} 个比较中"),
    phrase(
        "chance shows one so large in {p} % of runs",
        "{p} % 的运行会偶然出现一个这么大的差异",
    ),
    phrase("Not shown", "未证明"),
    phrase("which prove nothing", "这不足以证明什么"),
    phrase("Cannot be told from {pairs}", "无法由 {pairs} 判断"),
    phrase(
        "The trials have too few values for a {what}",
        "试验的数值太少，得不出 {what}",
    ),
    phrase(
        "{#n} % of what {@a} takes longer than {@b} at the {what} is {cause}",
        "在 {what} 处，{a} 比 {b} 多花的时间中有 {n} % 是{cause}",
    ),
    phrase(
        "{#n} % of what the slowest requests of {@a} take longer than those of {@b} is {cause}",
        "{a} 最慢的请求比 {b} 多花的时间中有 {n} % 是{cause}",
    ),
    phrase("Its throughput is {value}", "其吞吐量为 {value}"),
    phrase(
        "of {value} that a window of {#n} bytes in a round trip of {time} allows",
        "而每个往返时间 {time} 内 {n} 字节的窗口允许 {value}",
    ),
    // Verdicts.
    phrase("{@a} and {@b}", "{a} 与 {b}"),
    phrase(
        "{@variant} cannot carry the load here",
        "{variant} 在此无法承受负载",
    ),
    phrase("{#a} of {#b} requests/s", "{a} / {b} 请求/s"),
    phrase(
        "{@a} and {@b} have the same {what}",
        "{a} 与 {b} 的 {what} 相同",
    ),
    phrase(
        "no difference of {what} beyond our own error of {value}",
        "{what} 的差异未超出 {value} 的自身误差",
    ),
    phrase("our own error", "自身误差"),
    phrase(
        "no difference of {what} beyond the noise floor",
        "{what} 的差异未超出噪声下限",
    ),
    phrase(
        "no difference of {what} beyond the noise floor of {#n}",
        "{what} 的差异未超出 {n} 的噪声下限",
    ),
    phrase("noise floor", "噪声下限"),
    phrase(
        "no difference of {what} larger than {#n}",
        "{what} 没有大于 {n} 的差异",
    ),
    phrase("no difference of {what} shown", "{what} 未显示差异"),
    phrase("the {#n} pairs disagree", "{n} 对的结论不一"),
    phrase("the {#n} pair disagree", "{n} 对的结论不一"),
    phrase(
        "a limit, because the link itself was a bottleneck",
        "这是界限，因为链路本身是瓶颈",
    ),
    phrase(
        "{#n} doubtful pair counted without squall's own part",
        "{n} 个存疑的对已扣除 squall 自身的部分后计入",
    ),
    phrase(
        "{#n} doubtful pairs counted without squall's own part",
        "{n} 个存疑的对已扣除 squall 自身的部分后计入",
    ),
    phrase("{#n} doubtful pair left out", "略去 {n} 个存疑的对"),
    phrase("{#n} doubtful pairs left out", "略去 {n} 个存疑的对"),
    phrase(
        "{#n} pair left out whose bottleneck was the link itself",
        "略去 {n} 对，其瓶颈是链路本身",
    ),
    phrase(
        "{#n} pairs left out whose bottleneck was the link itself",
        "略去 {n} 对，其瓶颈是链路本身",
    ),
    phrase("{#n} invalid pair left out", "略去 {n} 个无效对"),
    phrase("{#n} invalid pairs left out", "略去 {n} 个无效对"),
    phrase(
        "there are too few values for a {what}",
        "数值太少，得不出 {what}",
    ),
    phrase(
        "{@a}'s {what} is higher than {@b}'s",
        "{a} 的 {what} 高于 {b}",
    ),
    phrase(
        "{@a}'s {what} is lower than {@b}'s",
        "{a} 的 {what} 低于 {b}",
    ),
    phrase(
        "{@a}'s {what} seems higher than {@b}'s",
        "{a} 的 {what} 似乎高于 {b}",
    ),
    phrase(
        "{@a}'s {what} seems lower than {@b}'s",
        "{a} 的 {what} 似乎低于 {b}",
    ),
    phrase(
        "{@a}'s {what} was higher than {@b}'s",
        "{a} 的 {what} 曾高于 {b}",
    ),
    phrase(
        "{@a}'s {what} was lower than {@b}'s",
        "{a} 的 {what} 曾低于 {b}",
    ),
    phrase(
        "{@a}'s {what} is {ratio} {@b}'s",
        "{a} 的 {what} 是 {b} 的 {ratio}",
    ),
    phrase(
        "{@a}'s {what} seems {ratio} {@b}'s",
        "{a} 的 {what} 似乎是 {b} 的 {ratio}",
    ),
    phrase(
        "{@a}'s {what} was {ratio} {@b}'s",
        "{a} 的 {what} 测得为 {b} 的 {ratio}",
    ),
    phrase(
        "{@a}'s {what} is at least {#n} {@b}'s",
        "{a} 的 {what} 至少是 {b} 的 {n}",
    ),
    phrase(
        "{@a}'s {what} is at most {#n} {@b}'s",
        "{a} 的 {what} 至多是 {b} 的 {n}",
    ),
    phrase(
        "{@a}'s {what} seems at least {#n} {@b}'s",
        "{a} 的 {what} 似乎至少是 {b} 的 {n}",
    ),
    phrase(
        "{@a}'s {what} seems at most {#n} {@b}'s",
        "{a} 的 {what} 似乎至多是 {b} 的 {n}",
    ),
    phrase(
        "{@a}'s {what} was at least {#n} {@b}'s",
        "{a} 的 {what} 测得至少为 {b} 的 {n}",
    ),
    phrase(
        "{@a}'s {what} was at most {#n} {@b}'s",
        "{a} 的 {what} 测得至多为 {b} 的 {n}",
    ),
    phrase(
        "its {what} is at least {#n} that of {@other}",
        "其 {what} 至少是 {other} 的 {n}",
    ),
    phrase(
        "its {what} is at most {#n} that of {@other}",
        "其 {what} 至多是 {other} 的 {n}",
    ),
    phrase("{a} against {b}", "{a}，对比 {b}"),
    phrase("{a} to {#b} over {#n} pairs", "{n} 对之间为 {a} 至 {b}"),
    phrase("95 % {#a} to {#b}", "95 % 区间 {a} 至 {b}"),
    phrase("{p} among {#n}", "{n} 个比较中为 {p}"),
    phrase("p {p}", "p {p}"),
    phrase("p {p} at best", "p 最好也只有 {p}"),
    phrase("chance alone", "仅凭偶然"),
    phrase("MDE {ratio}", "MDE {ratio}"),
    phrase(
        "by how much depends on how long it runs",
        "差多少取决于运行多久",
    ),
    phrase("not proved", "未证实"),
    phrase(
        "as chance shows one so large among {#n} comparison",
        "因为 {n} 个比较中偶然就会出现这么大的差异",
    ),
    phrase(
        "as chance shows one so large among {#n} comparisons",
        "因为 {n} 个比较中偶然就会出现这么大的差异",
    ),
    phrase(
        "the {#n} pairs disagree on whose {what} is higher",
        "{n} 对对谁的 {what} 更高结论不一",
    ),
    phrase("{#n} pair proves nothing", "{n} 对不足以证明什么"),
    phrase("{#n} pairs prove nothing", "{n} 对不足以证明什么"),
    phrase(
        "{#n} % of its extra time is {cause}",
        "其多花的时间中有 {n} % 是{cause}",
    ),
    phrase(
        "{#n} % of the time that it saves is {cause}",
        "其节省的时间中有 {n} % 是{cause}",
    ),
    phrase("No pair of valid trials yet", "尚无有效的试验对"),
    phrase("No pair of valid trials", "没有有效的试验对"),
    phrase("No trials yet", "尚无试验"),
    phrase("there is no pair of valid trials", "没有有效的试验对"),
    phrase(
        "trials have too few values, or none",
        "试验的数值太少或没有",
    ),
    phrase(
        "unfinished or failed requests hide which is higher",
        "未完成或失败的请求掩盖了哪个更高",
    ),
    phrase("the link itself was the bottleneck", "链路本身是瓶颈"),
    phrase("set `rate`", "请设置 `rate`"),
    phrase(
        "squall itself was so late that it may have made the difference",
        "squall 自身过于滞后，差异可能由此造成",
    ),
    // Thresholds.
    phrase(
        "{@variant} at {@condition}",
        "{variant}，条件为 {condition}",
    ),
    phrase("holds", "满足"),
    phrase("FAILED", "未满足"),
    phrase("{value} or more", "{value} 或更多"),
    phrase(
        "unfinished requests hide the rest",
        "其余被未完成的请求掩盖",
    ),
    phrase("unbounded", "无穷"),
    phrase("too many requests failed", "失败的请求太多"),
    phrase("not measured", "未测量"),
    phrase("or too few gaps for it", "或间隔太少"),
    phrase("or too few requests for it", "或请求太少"),
    phrase("{#n} requests a second", "每秒 {n} 个请求"),
    phrase("{#n} error", "{n} 个错误"),
    phrase("{#n} errors", "{n} 个错误"),
    phrase("{#n} % errors", "错误占 {n} %"),
    phrase(
        "a limit, because the link itself was the bottleneck",
        "这是界限，因为链路本身是瓶颈",
    ),
    // Tried fixes.
    phrase("Tried fixes", "试过的修复"),
    phrase(
        "{=key} = {=value} on {=station}",
        "{station} 上 {key} = {value}",
    ),
    phrase("{what} {a} -> {b}", "{what} {a} -> {b}"),
    phrase("cannot be compared", "无法比较"),
    phrase("not proven", "未证实"),
    phrase("{#n} pair cannot prove it", "{n} 对无法证实"),
    phrase("{#n} pairs cannot prove it", "{n} 对无法证实"),
    phrase("a likely gain by {pairs}", "由 {pairs} 看很可能有改善"),
    phrase("a likely loss by {pairs}", "由 {pairs} 看很可能变差"),
    phrase(
        "not proven among all tried fixes",
        "在所有试过的修复中未证实",
    ),
    phrase("a proven gain by {pairs}", "由 {pairs} 证实有改善"),
    phrase("a proven loss by {pairs}", "由 {pairs} 证实变差"),
    phrase("no difference shown by {pairs}", "{pairs} 未显示差异"),
    phrase("Not tried for {@variant}", "未对 {variant} 尝试"),
    phrase("as no recipe setting does this", "因为配方没有对应的设置"),
];

pub(super) const DOUBTS: &[Phrase] = &[
    // Health.
    phrase("{#a} of {#b} trial valid", "{b} 次试验中 {a} 次有效"),
    phrase("{#a} of {#b} trials valid", "{b} 次试验中 {a} 次有效"),
    phrase(
        "{#a} of {#b} combination of variant and condition have no valid trial",
        "{b} 个变体与条件的组合中有 {a} 个没有有效试验",
    ),
    phrase(
        "{#a} of {#b} combinations of variant and condition have no valid trial",
        "{b} 个变体与条件的组合中有 {a} 个没有有效试验",
    ),
    phrase("{#n} doubt", "{n} 处存疑"),
    phrase("{#n} doubts", "{n} 处存疑"),
    // Warnings.
    phrase("Warning", "警告"),
    phrase(
        "{#a} of {#b} trial has no record",
        "{b} 次试验中有 {a} 次没有记录",
    ),
    phrase(
        "{#a} of {#b} trials has no record",
        "{b} 次试验中有 {a} 次没有记录",
    ),
    phrase(
        "{#a} of {#b} trials have no record",
        "{b} 次试验中有 {a} 次没有记录",
    ),
    phrase(
        "Finish the run with `squall run --resume RUN`",
        "请用 `squall run --resume RUN` 完成该运行",
    ),
    phrase(
        "Trial {=folder} is invalid and left out",
        "试验 {folder} 无效，已略去",
    ),
    phrase("Trial {=folder} is doubtful", "试验 {folder} 存疑"),
    phrase(
        "It is compared only where that cannot change the answer",
        "仅在不会改变答案时用于比较",
    ),
    phrase(
        "Repeat it with `squall run --resume RUN`",
        "请用 `squall run --resume RUN` 重做",
    ),
    phrase(
        "In {#n} trial the link itself was the bottleneck, so the figures are limits",
        "{n} 次试验中链路本身是瓶颈，因此数值只是界限",
    ),
    phrase(
        "In {#n} trials the link itself was the bottleneck, so the figures are limits",
        "{n} 次试验中链路本身是瓶颈，因此数值只是界限",
    ),
    phrase(
        "the variant would be at least as good on a faster link",
        "在更快的链路上该变体至少同样好",
    ),
    phrase("The first", "首例"),
    phrase(
        "so that all variants meet a link that squall can carry",
        "使所有变体遇到的都是 squall 能承载的链路",
    ),
    phrase(
        "{#a} of {#b} trial was repeated because it was disturbed",
        "{b} 次试验中有 {a} 次因受干扰而重做",
    ),
    phrase(
        "{#a} of {#b} trials was repeated because it was disturbed",
        "{b} 次试验中有 {a} 次因受干扰而重做",
    ),
    phrase(
        "{#a} of {#b} trials were repeated because they were disturbed",
        "{b} 次试验中有 {a} 次因受干扰而重做",
    ),
    phrase(
        "If they are all of one variant, it may be what disturbs this machine, and only its calmest trials are left",
        "如果它们都落在同一变体上，可能正是它在干扰这台机器，留下的只是它最平静的试验",
    ),
    phrase("lower the rate", "请降低速率"),
    phrase(
        "Otherwise leave the machine idle while squall runs",
        "否则请在 squall 运行时让机器保持空闲",
    ),
    phrase(
        "{@variant} asked for {=asked}, but its sockets had {=used}",
        "{variant} 要求 {asked}，但其套接字使用的是 {used}",
    ),
    phrase(
        "Load the kernel module for {=asked}, or allow it for unprivileged users (net.ipv4.tcp_allowed_congestion_control)",
        "请加载 {asked} 的内核模块，或允许非特权用户使用（net.ipv4.tcp_allowed_congestion_control）",
    ),
    phrase("{#a} of {#b} request failed", "{b} 个请求中有 {a} 个失败"),
    phrase("{#a} of {#b} requests failed", "{b} 个请求中有 {a} 个失败"),
    phrase("They count as never answered", "它们计为从未应答"),
    phrase(
        "the error column of the trials' request records says what happened",
        "试验请求记录的 error 列说明了发生了什么",
    ),
    phrase("A trial has only {#n} request", "某次试验只有 {n} 个请求"),
    phrase("A trial has only {#n} requests", "某次试验只有 {n} 个请求"),
    phrase(
        "p99 needs {#a} and p95 needs {#b}",
        "p99 需要 {a} 个，p95 需要 {b} 个",
    ),
    phrase(
        "Make the load longer or its rate higher",
        "请延长负载或提高其速率",
    ),
    phrase(
        "A comparison rests on only {pairs}",
        "某个比较只基于 {pairs}",
    ),
    phrase(
        "with {#n} comparison it takes {#m} that all agree to bring chance below 5 %",
        "有 {n} 个比较时，需要 {m} 对结论一致才能使偶然概率低于 5 %",
    ),
    phrase(
        "with {#n} comparisons it takes {#m} that all agree to bring chance below 5 %",
        "有 {n} 个比较时，需要 {m} 对结论一致才能使偶然概率低于 5 %",
    ),
    phrase("Repeat each cell {#n} times", "请将每个单元重复 {n} 次"),
    phrase(
        "Add repetitions with `squall run --resume RUN --repetitions {#n}`",
        "请用 `squall run --resume RUN --repetitions {n}` 增加重复次数",
    ),
    phrase(
        "At {@condition} a variant differs from itself",
        "条件为 {condition} 时，某个变体与自身有差异",
    ),
    phrase(
        "Something besides the variants is at work, such as the order of trials or a machine that was not idle",
        "除变体之外还有别的因素起作用，例如试验的顺序，或机器不空闲",
    ),
    phrase(
        "repeat the run before you believe its other verdicts",
        "在相信其他结论之前，请重做该运行",
    ),
    phrase(
        "The version of {=program} is unknown in {#n} trial",
        "{n} 次试验中 {program} 的版本未知",
    ),
    phrase(
        "The version of {=program} is unknown in {#n} trials",
        "{n} 次试验中 {program} 的版本未知",
    ),
    phrase(
        "In {#n} trial other programs used up to {#a} of {#b} processor",
        "{n} 次试验中，其他程序最多占用了 {b} 个处理器中的 {a} 个",
    ),
    phrase(
        "In {#n} trial other programs used up to {#a} of {#b} processors",
        "{n} 次试验中，其他程序最多占用了 {b} 个处理器中的 {a} 个",
    ),
    phrase(
        "In {#n} trials other programs used up to {#a} of {#b} processor",
        "{n} 次试验中，其他程序最多占用了 {b} 个处理器中的 {a} 个",
    ),
    phrase(
        "In {#n} trials other programs used up to {#a} of {#b} processors",
        "{n} 次试验中，其他程序最多占用了 {b} 个处理器中的 {a} 个",
    ),
    phrase(
        "real programs may have waited for a processor",
        "真实程序可能等待过处理器",
    ),
    phrase(
        "Leave the machine idle while squall runs",
        "请在 squall 运行时让机器保持空闲",
    ),
    phrase("its version command failed", "询问版本时该程序出错"),
    phrase(
        "Run that command by hand, and check that the program was not replaced during the run",
        "请手动运行其版本命令，并确认它在运行期间没有被替换",
    ),
    phrase(
        "{=program} in trial {=trial} (variant {@variant}) after {=time} s",
        "{program}：试验 {trial}（变体 {variant}），{time} s 之后",
    ),
    phrase("its log, in the run's folder", "其日志在该运行的文件夹中"),
    phrase("Its last output", "其最后输出"),
    phrase(
        "That attempt is left out of all figures",
        "该次尝试不计入任何数值",
    ),
    phrase("Find out why the program ended", "请查明该程序为何结束"),
    phrase(
        "it may do so again under this load",
        "在此负载下它可能再次结束",
    ),
    phrase("The trial is left out", "该试验已略去"),
    phrase(
        "Find out why the program ended before you repeat it",
        "请在重做之前查明该程序为何结束",
    ),
    phrase(
        "An attempt at trial {=trial} (variant {@variant}) did not finish and is left out of all figures",
        "试验 {trial}（变体 {variant}）的一次尝试没有完成，不计入任何数值",
    ),
    phrase(
        "What it left behind is in the run's folder, in {=folder}",
        "其遗留文件在该运行的文件夹的 {folder} 中",
    ),
    phrase("Report it if it keeps happening", "如果问题依旧，请报告"),
    // Why a trial does not count as evidence.
    phrase("the link's thread woke up late", "链路的线程唤醒过晚"),
    phrase("the link released packets late", "链路放行数据包过晚"),
    phrase("the link was up to {#n} ms late", "链路最多晚了 {n} ms"),
    phrase("p99 {#n} ms", "p99 {n} ms"),
    phrase("at most {#n} ms is sound", "至多 {n} ms 才可靠"),
    phrase("the generator was late", "负载发生器滞后"),
    phrase("lag {statistic} {#n} ms", "滞后 {statistic} {n} ms"),
    phrase(
        "the device dropped {#n} packets before the link saw them",
        "设备在链路看到之前丢弃了 {n} 个数据包",
    ),
    phrase(
        "the receiving device refused {#n} packets",
        "接收设备拒绝了 {n} 个数据包",
    ),
    phrase("an offload is active", "有卸载功能在起作用"),
    phrase("a packet of {#n} bytes", "一个 {n} 字节的数据包"),
    phrase(
        "the hosts kept sending, so the kernel's counters are not final",
        "主机没有静默，因此内核计数器不是最终值",
    ),
    phrase(
        "the kernel turned {#n} connections away from the queue of a listening socket (net.core.somaxconn)",
        "内核因监听套接字的队列已满拒绝了 {n} 个连接（net.core.somaxconn）",
    ),
    phrase(
        "the cgroup's limit of processor time stopped squall for {#n} ms",
        "cgroup 的处理器时间限制使 squall 停顿了 {n} ms",
    ),
    phrase("raise cpu.max", "请提高 cpu.max"),
    phrase(
        "the link's schedule, blackouts, weather and traces began {#n} ms after the load",
        "链路的时间表、中断、天气和轨迹比负载晚 {n} ms 开始",
    ),
    phrase(
        "no HTTP was seen on hop {#n}, yet requests were answered",
        "第 {n} 跳上没有看到任何 HTTP，请求却得到了应答",
    ),
    phrase("no reason is recorded", "没有记录原因"),
];

//! What `squall compare` prints, and the list of runs of `squall view`, which compares them too.
//!
//! The English texts are made in `crate::changes`, in `html::runs` and in squall-analysis' `change`. The page of a run is in
//! `page`.

use super::{Phrase, phrase};

pub(super) const PHRASES: &[Phrase] = &[
    // The sentence.
    phrase(
        "p99 is higher than before in {#a} of {#b} cell",
        "{b} 个单元中有 {a} 个的 p99 高于之前",
    ),
    phrase(
        "p99 is higher than before in {#a} of {#b} cells",
        "{b} 个单元中有 {a} 个的 p99 高于之前",
    ),
    phrase(
        "p99 is lower than before in {#a} of {#b} cell",
        "{b} 个单元中有 {a} 个的 p99 低于之前",
    ),
    phrase(
        "p99 is lower than before in {#a} of {#b} cells",
        "{b} 个单元中有 {a} 个的 p99 低于之前",
    ),
    phrase(
        "and lower than before in {#a} of {#b} cells",
        "并且 {b} 个中有 {a} 个低于之前",
    ),
    phrase("most", "变化最大"),
    phrase(
        "No change of p99 is shown in any of {#n} cell",
        "{n} 个单元均未显示 p99 有变化",
    ),
    phrase(
        "No change of p99 is shown in any of {#n} cells",
        "{n} 个单元均未显示 p99 有变化",
    ),
    phrase(
        "No change of p99 can be shown in {#a} of {#b} cell",
        "{b} 个单元中有 {a} 个无法显示 p99 的变化",
    ),
    phrase(
        "No change of p99 can be shown in {#a} of {#b} cells",
        "{b} 个单元中有 {a} 个无法显示 p99 的变化",
    ),
    phrase(
        "it takes at least 6 pairs of the same seeds, or 4 against 4 of others",
        "至少需要 6 对相同种子的试验，或种子不同时每边 4 次",
    ),
    // Tables.
    phrase("before", "之前"),
    phrase("after", "之后"),
    phrase("ratio", "比值"),
    phrase("after is", "结论"),
    phrase("higher", "更高"),
    phrase("lower", "更低"),
    phrase("seems higher", "似乎更高"),
    phrase("seems lower", "似乎更低"),
    phrase("too few trials", "试验太少"),
    phrase("within our own error", "在自身误差之内"),
    phrase("within noise", "在噪声之内"),
    phrase("no difference", "无差异"),
    phrase("trials disagree", "各次试验结论不一"),
    phrase("no valid trials", "没有有效试验"),
    phrase("too few requests", "请求太少"),
    phrase("hidden by unfinished requests", "被未完成的请求掩盖"),
    phrase("limited by the emulated path", "受模拟路径限制"),
    phrase("{#n} pair of the same seeds", "{n} 对相同种子的试验"),
    phrase("{#n} pairs of the same seeds", "{n} 对相同种子的试验"),
    phrase("unpaired", "未配对"),
    phrase("{#n} trial before", "之前 {n} 次试验"),
    phrase("{#n} trials before", "之前 {n} 次试验"),
    phrase("{#n} trial after", "之后 {n} 次试验"),
    phrase("{#n} trials after", "之后 {n} 次试验"),
    phrase("of other seeds", "种子不同"),
    phrase("did not carry the load after", "之后未能承受负载"),
    phrase("did not carry the load before", "之前未能承受负载"),
    phrase(
        "did not carry the load before and after",
        "之前与之后都未能承受负载",
    ),
    phrase(
        "latencies grow for as long as it lasts",
        "负载持续多久，延迟就增长多久",
    ),
    phrase("Not compared", "未比较"),
    phrase("only after", "仅在之后"),
    phrase("only before", "仅在之前"),
    // Limits.
    phrase(
        "{~limit} for {@variant} at {@condition}",
        "{limit}，{variant}，条件为 {condition}",
    ),
    phrase("but from too few trials to be sure", "但试验太少，无法确定"),
    phrase("the runs have no cell in common", "两次运行没有共同的单元"),
    phrase("comparison", "比较"),
    phrase("of", "对象"),
    phrase("checked", "检查项"),
    phrase("found", "结果"),
    phrase("no p99 is worse", "没有 p99 变差"),
    phrase("a verdict on each p99", "每个 p99 都有结论"),
    phrase("there is one for each cell", "每个单元都有"),
    phrase("these comparisons have no verdict", "以下比较没有结论"),
    // What else differs.
    phrase("Note", "注意"),
    phrase("the recipes are {=a} and {=b}", "配方分别为 {a} 与 {b}"),
    phrase("the profiles are {=a} and {=b}", "配置档分别为 {a} 与 {b}"),
    phrase(
        "{=variant} has different settings or a different path than before, so the comparison includes these changes",
        "{variant} 的设置或路径与之前不同，因此比较的也包括这些差异",
    ),
    phrase(
        "another load than before, so the results are not comparable",
        "负载与之前不同，因此数值不可比",
    ),
    phrase(
        "other requests than before, so the results are not comparable",
        "请求与之前不同，因此数值不可比",
    ),
    phrase(
        "another response than before, so the results are not comparable",
        "响应与之前不同，因此数值不可比",
    ),
    phrase(
        "{~key} ({=before}, now {=after})",
        "{key}（{before}，现为 {after}）",
    ),
    phrase(
        "{~key} (not set, now {=after})",
        "{key}（未设置，现为 {after}）",
    ),
    phrase(
        "{~key} ({=before}, now not set)",
        "{key}（{before}，现未设置）",
    ),
    phrase(
        "{~key} (a list of {#a}, now a list of {#b})",
        "{key}（{a} 项的列表，现为 {b} 项）",
    ),
    phrase(
        "the kernel, processor, memory, squall's version or processor sleep setting differs from the earlier run or is unknown",
        "内核、处理器、内存、squall 的版本或处理器能否休眠与之前不同，或无从得知",
    ),
    phrase("this may explain the changes", "变化可能由此而来"),
    // The list of runs.
    phrase("Runs", "运行"),
    phrase("Runs beside each other", "并排显示各次运行"),
    phrase("variant and condition", "变体与条件"),
    phrase("run", "运行"),
    phrase("compared with the run before", "与上一次运行比较"),
    phrase("profile {~name}", "配置档 {name}"),
    phrase("no trial yet", "尚无试验"),
    phrase("It compares nothing", "该运行没有比较"),
    phrase(
        "{*measure}, from run to run: the median over the trials of each run",
        "{measure}，逐次运行：每次运行各试验的中位数",
    ),
    phrase("{*measure} from run to run", "{measure} 逐次运行的变化"),
    phrase(
        "There is nothing here. / lists the runs",
        "这里没有内容。/ 列出所有运行",
    ),
];

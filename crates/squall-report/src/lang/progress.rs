//! What `squall run` prints while it works: its size, the line of a trial, repeats, the time left.
//!
//! `crate::progress` composes them, with the figures of a trial in between. The sentences about disturbances and failures,
//! which reports have too, are in `sentences`.

use super::{Phrase, phrase};

pub(super) const PHRASES: &[Phrase] = &[
    phrase(
        "{@recipe}, profile {@profile}",
        "{recipe}，配置档 {profile}",
    ),
    phrase("{#n} trial", "{n} 次试验"),
    phrase("{#n} trials", "{n} 次试验"),
    phrase("about {#time} at most", "最多约 {time}"),
    phrase("variants", "变体"),
    phrase("conditions", "条件"),
    phrase("fixes to try, {#n} at most", "要尝试的修复，最多 {n} 项"),
    phrase("{#time} left", "剩余 {time}"),
    // What a trial found.
    phrase("p50 never ms", "p50 未应答"),
    phrase("p99 never ms", "p99 未应答"),
    phrase("mean {#n} ms", "平均 {n} ms"),
    phrase("mean never ms", "平均未应答"),
    phrase("mean n/a ms", "平均 n/a"),
    phrase("least {#n}", "最短 {n}"),
    phrase("median {#n}", "中位数 {n}"),
    phrase("most {#n}", "最长 {n}"),
    phrase("least n/a", "最短 n/a"),
    phrase("median n/a", "中位数 n/a"),
    phrase("most n/a", "最长 n/a"),
    phrase("DOUBTFUL", "存疑"),
    // Repeats.
    phrase("trying again", "正在重试"),
    phrase("disturbed", "受到干扰"),
    phrase(
        "{=program} was killed by {~signal} after {#time} s",
        "{program} 在 {time} s 后被 {signal} 终止",
    ),
    phrase(
        "{=program} ended with code {#n} after {#time} s",
        "{program} 在 {time} s 后结束，退出码 {n}",
    ),
    phrase(
        "{=program} ended, and its exit code is not known after {#time} s",
        "{program} 在 {time} s 后结束，退出码未知",
    ),
    phrase("its log", "其日志"),
    phrase(
        "squall's own process for the trial ended with signal",
        "squall 的试验进程因信号而结束",
    ),
    phrase(
        "squall's own process for the trial ended with exit status",
        "squall 的试验进程已结束，退出状态",
    ),
    // Between and after the trials.
    phrase("tries a fix for {@variant}", "尝试修复 {variant}"),
    phrase(
        "no finding of this run has a fix that it can try",
        "该运行的问题都没有可以尝试的修复",
    ),
    phrase("interrupted", "已中断"),
    phrase(
        "{#a} of {#b} trials are complete",
        "{b} 次试验中已完成 {a} 次",
    ),
    phrase("go on with", "继续运行"),
];

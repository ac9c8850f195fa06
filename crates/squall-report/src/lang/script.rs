//! The texts of the page's scripts. The page has their Chinese as JSON, keyed by the English, which the scripts pass to `say`
//! (assets/data.js).
//!
//! Texts in the page's markup are in `page`.

use super::{Phrase, phrase};

pub(super) const PHRASES: &[Phrase] = &[
    phrase("Reset zoom", "重置缩放"),
    phrase(
        "Drag to zoom, Shift-drag to move, Ctrl-wheel or + − to zoom time, double-click to reset.",
        "拖动缩放，按住 Shift 拖动平移，Ctrl + 滚轮或 + − 键缩放时间轴，双击重置。",
    ),
    phrase(
        "Each dot is a request. Pale and shaded: warm-up. Open square below a hatched band: unfinished, it took at least that long. Cross at the top: failed. Mark on the time axis: the link dropped a packet.",
        "每个点是一个请求。浅色且带底纹：预热阶段。斜线带下方的空心方块：未完成，耗时至少这么长。顶部的叉：失败。时间轴上的标记：链路丢弃了一个数据包。",
    ),
    phrase(
        "Each dot is a request. Pale and shaded: warm-up. Open square below a hatched band: unfinished, it took at least that long. Cross at the top: failed.",
        "每个点是一个请求。浅色且带底纹：预热阶段。斜线带下方的空心方块：未完成，耗时至少这么长。顶部的叉：失败。",
    ),
    phrase(
        "Coloured by cause, each dot has the colour of what the request was mostly spent on: the colours of the table above.",
        "按原因着色时，每个点的颜色表示该请求的时间主要花在什么上，颜色与上方表格一致。",
    ),
    phrase("variant above, cause below", "上图按变体，下图按原因"),
    phrase("variant", "变体"),
    phrase("cause", "原因"),
    phrase("Repetition", "重复"),
    phrase("{#n} of {#all}", "{n} / {all}"),
    phrase(
        "(has an invalid or doubtful trial)",
        "（含无效或存疑的试验）",
    ),
    phrase("Logarithmic latency", "对数延迟轴"),
    phrase("Colour by", "着色依据"),
    phrase("Shown together", "叠加显示"),
    phrase("All repetitions side by side", "并排显示所有重复"),
    phrase("{=name}, repetition {#n}", "{name}，第 {n} 次重复"),
    phrase("Download this plot as {=format}", "将此图下载为 {format}"),
    phrase(
        "Download as {=format}: {=label}",
        "下载为 {format}：{label}",
    ),
    phrase(
        "the browser cannot draw it; take the SVG",
        "浏览器无法绘制，请下载 SVG",
    ),
    phrase(
        "it is too large for the browser; take the SVG",
        "对浏览器来说太大，请下载 SVG",
    ),
    phrase(
        "Start time and latency of each request: {=names}",
        "每个请求的开始时间与延迟：{names}",
    ),
    phrase(
        "The points could not be unpacked: {=why}. The tables are complete.",
        "无法解开这些点的数据：{why}。表格是完整的。",
    ),
    phrase(
        "squall view did not answer, so this is incomplete: {=why}",
        "squall view 没有应答，因此显示不完整：{why}",
    ),
    phrase("invalid or doubtful trial", "无效或存疑的试验"),
    phrase("Print", "打印"),
    phrase("Statistic", "统计量"),
    phrase("Measure", "指标"),
    phrase("Variants", "变体"),
    phrase("more than {=time}", "超过 {time}"),
    phrase("gave up after {=time}", "{time} 后放弃"),
    phrase(
        "request {#n}, due at {#time} s",
        "请求 {n}，应在 {time} s 开始",
    ),
    phrase("warm-up", "预热"),
    phrase("mostly {cause}", "主要是 {cause}"),
    phrase("and {#n} more on this pixel", "此像素上还有 {n} 个"),
    phrase(
        "Click on a request to see it in full.",
        "点击一个请求可查看其详情。",
    ),
    phrase("Packets in the visible time", "可见时段内的数据包"),
    phrase("{=name}, request {#n}", "{name}，请求 {n}"),
    phrase(
        "This request was not on that connection.",
        "该请求不在那条连接上。",
    ),
    phrase("{=title}: reading the record", "{title}：正在读取记录"),
    phrase(
        "Zoom in to see each; below are the first {#n} of the dropped and the repeated ones.",
        "放大可查看每个数据包；下面是被丢弃和重传的前 {n} 个。",
    ),
    phrase(
        "{#all} packets, {#dropped} dropped, {#again} sent again by TCP.",
        "{all} 个数据包，丢弃 {dropped} 个，TCP 重传 {again} 个。",
    ),
    phrase("time", "时间"),
    phrase("hop", "跳"),
    phrase("direction", "方向"),
    phrase("number", "编号"),
    phrase("flow", "流"),
    phrase("kind", "类型"),
    phrase("bytes", "字节"),
    phrase("fate", "结果"),
    phrase("sent again", "重传"),
    phrase("all", "全部"),
];

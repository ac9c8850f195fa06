//! The text of a finished load: how its requests ended, how long they took, where that time went, and what to doubt.
//!
//! It computes no statistic, and figures without data have no line. Percentiles cover requests that succeeded; if others
//! failed or were unfinished, a sentence has the percentiles of all. `json` has the figures for programs.

use std::collections::BTreeMap;

use squall_analysis::load::{
    Latencies, LoadTotals, LongestLag, PageTotals, Part, Punctuality, SendLimits,
};
use squall_analysis::{Quantile, figure};
use squall_base::Duration;
use squall_base::record::{Outcome, SideCounts};

use super::FinishedLoad;
use super::chart::chart;
use super::text::{Style, TextFormat, fit, known, percent, row, size, span};

/// The percentiles of the table.
pub(crate) const PERCENTILES: [(&str, f64); 7] = [
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// If bytes arrive closer together than this, they count as one piece.
const PAUSE: Duration = Duration::from_millis(1);

/// The text; every line ends with a line feed.
pub fn summary(load: &FinishedLoad<'_>, format: &TextFormat) -> String {
    let totals = load.totals;
    let mut text = format.paragraph(Style::Bold, "", &headline(load));
    text += &format.paragraph(Style::Plain, "", &outcomes(totals));
    if let Some(statuses) = statuses(totals) {
        text += &format.paragraph(Style::Plain, "", &statuses);
    }
    if let Some(pages) = load.pages {
        text += &format.paragraph(Style::Plain, "", &page_counts(pages));
    }
    let translator = format.translator().keeping(foreign(load));
    for line in failures(load) {
        text += &format.said_paragraph(Style::Warning, "  ", &translator.say(&line));
    }
    if !totals.response().is_empty() {
        section(&mut text, latency_table(totals, format));
    }
    section(&mut text, stream_table(totals, format));
    if let Some(sentence) = unsuccessful_requests(totals) {
        text += &format.paragraph(Style::Warning, "", &sentence);
    }
    if let Some(pages) = load.pages.filter(|pages| pages.count() > 0) {
        section(&mut text, page_table(pages, format));
    }
    // A single bar shows nothing.
    if totals.response().count() > 1 {
        section(&mut text, chart(totals.response(), format));
    }
    section(&mut text, parts_table(totals, format));
    section(&mut text, causes(load.causes, format));
    section(&mut text, connections(load, format));
    section(&mut text, generator(load, format));
    text
}

/// The first lines of the text.
pub(crate) struct Overview {
    /// How many requests there were, and how many succeeded per second.
    pub(crate) headline: String,
    /// How they ended.
    pub(crate) outcomes: Vec<String>,
    /// The error messages of those that failed.
    pub(crate) failures: Vec<String>,
}

impl Overview {
    pub(crate) fn of(load: &FinishedLoad<'_>) -> Overview {
        let mut outcomes = vec![outcomes(load.totals)];
        outcomes.extend(statuses(load.totals));
        outcomes.extend(load.pages.map(page_counts));
        outcomes.extend(unsuccessful_requests(load.totals));
        Overview {
            headline: headline(load),
            outcomes,
            failures: failures(load),
        }
    }
}

/// Appends an empty line and `lines`, unless there are none.
fn section(text: &mut String, lines: Vec<String>) {
    if lines.is_empty() {
        return;
    }
    text.push('\n');
    for line in lines {
        text.push_str(line.trim_end_matches('\n'));
        text.push('\n');
    }
}

fn headline(load: &FinishedLoad<'_>) -> String {
    let totals = load.totals;
    let requests = figure::counted(totals.requests(), "request", "requests");
    let mut text = format!("{requests} in {}", span(totals.measured_for(load.end)));
    if let Some(achieved) = totals.achieved_per_s(load.end) {
        text += &format!(": {} succeeded/s", figure::rate(achieved));
        if let Some(asked) = load.generator.rate_asked_per_s {
            text += &format!(" of {} asked", figure::rate(asked));
        }
    }
    for (bytes, way) in [
        (totals.body_bytes_in(), "in"),
        (totals.body_bytes_out(), "out"),
    ] {
        if let Some(per_s) = totals.per_s(bytes, load.end).filter(|_| bytes > 0) {
            text += &format!(
                ", {}/s of bodies {way} ({})",
                size(per_s),
                size(bytes as f64)
            );
        }
    }
    text
}

/// `9,990 succeeded (99.9 %), 5 connection_closed, 5 with a status of 400 or more`.
fn outcomes(totals: &LoadTotals) -> String {
    let all = totals.requests() as f64;
    let counted = |count: u64, what: &str| {
        format!(
            "{} {what} ({})",
            figure::count(count),
            percent(count as f64, all)
        )
    };
    let mut words = vec![counted(totals.succeeded(), "succeeded")];
    if totals.error_statuses() > 0 {
        words.push(counted(
            totals.error_statuses(),
            "with a status of 400 or more",
        ));
    }
    if totals.failed_calls() > 0 {
        let what = outcome_words(Outcome::Answered);
        words.push(counted(totals.failed_calls(), what));
    }
    for outcome in Outcome::ALL
        .into_iter()
        .filter(|outcome| *outcome != Outcome::Answered)
    {
        if totals.with_outcome(outcome) > 0 {
            words.push(counted(
                totals.with_outcome(outcome),
                outcome_words(outcome),
            ));
        }
    }
    let mut text = words.join(", ");
    if totals.warmup() > 0 {
        text += &format!(
            "; {} of the warm-up not counted",
            figure::count(totals.warmup())
        );
    }
    text
}

/// The outcome of a failure in words for people.
pub(super) fn outcome_words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Answered => "answered with a gRPC error",
        Outcome::Censored => "unfinished",
        Outcome::ConnectFailed => "without a connection",
        Outcome::TlsFailed => "without TLS",
        Outcome::ConnectionClosed => "cut off by the end of the connection",
        Outcome::StreamReset => "reset",
        Outcome::ProtocolError => "with a protocol error",
        Outcome::TimedOut => "timed out",
    }
}

fn statuses(totals: &LoadTotals) -> Option<String> {
    let words: Vec<String> = totals
        .statuses()
        .iter()
        .map(|(status, count)| format!("{status} ({})", figure::count(*count)))
        .collect();
    (!words.is_empty()).then(|| format!("status {}", words.join(", ")))
}

/// The error messages of failures, and what this machine could not do.
fn failures(load: &FinishedLoad<'_>) -> Vec<String> {
    let failures = load.totals.failures();
    let mut lines: Vec<String> = failures
        .kinds()
        .into_iter()
        .map(|kind| {
            let said = if kind.text.is_empty() {
                "nothing said"
            } else {
                &kind.text
            };
            format!(
                "{} {}: {said}",
                figure::count(kind.count),
                outcome_words(kind.outcome)
            )
        })
        .collect();
    if failures.others() > 0 {
        lines.push(format!(
            "{} failed in other ways",
            figure::count(failures.others())
        ));
    }
    lines.extend(load.machine_errors.iter().map(|(said, count)| {
        let connections = figure::counted(*count, "connection", "connections");
        format!("this machine could not open {connections}: {said}")
    }));
    lines
}

/// The error messages of a load, which are not ours: its peers' and the kernel's.
pub(crate) fn foreign(load: &FinishedLoad<'_>) -> Vec<String> {
    let kinds = load.totals.failures().kinds().into_iter();
    let said = kinds.map(|kind| kind.text.clone());
    said.chain(load.machine_errors.keys().cloned()).collect()
}

fn latency_table(totals: &LoadTotals, format: &TextFormat) -> Vec<String> {
    let both = [totals.response(), totals.service()];
    let mut rows = vec![row(["", "response time", "service time"])];
    rows.push(figures("mean", &both, Latencies::mean));
    rows.extend(percentile_rows(&both));
    rows.push(figures("max", &both, Latencies::max));
    format.titled(&format.aligned(&rows))
}

/// When responses that came in pieces began, and how long the pauses between the pieces were; empty without a pause of a
/// millisecond.
fn stream_table(totals: &LoadTotals, format: &TextFormat) -> Vec<String> {
    if totals.longest_gap().max().is_none_or(|gap| gap < PAUSE) {
        return Vec::new();
    }
    let all = [totals.first_chunk(), totals.gaps(), totals.longest_gap()];
    let mut rows = vec![row(["", "first chunk", "gaps", "longest gap"])];
    rows.push(figures("mean", &all, Latencies::mean));
    rows.extend(percentile_rows(&all));
    rows.push(figures("max", &all, Latencies::max));
    format.titled(&format.aligned(&rows))
}

/// A figure of each of `all`, after its name.
fn figures(
    name: &str,
    all: &[&Latencies],
    of: impl Fn(&Latencies) -> Option<Duration>,
) -> Vec<String> {
    let values = all.iter().map(|latencies| known(of(latencies)));
    std::iter::once(name.to_owned()).chain(values).collect()
}

/// The percentiles of each of `all`.
fn percentile_rows(all: &[&Latencies]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (name, share) in PERCENTILES {
        rows.push(figures(name, all, |of| of.quantile(share)));
        // If there are too few samples for one percentile, there are too few for all higher ones.
        if all[0].quantile(share).is_none() {
            break;
        }
    }
    rows
}

/// `20 pages loaded, 1 with a failed request, 2 unfinished`.
fn page_counts(pages: &PageTotals) -> String {
    format!(
        "pages: {} loaded, {} with a failed request, {} unfinished",
        figure::count(pages.times().count()),
        figure::count(pages.failed()),
        figure::count(pages.unfinished().count()),
    )
}

/// The page times of pages that loaded, and how the other pages change the percentiles.
fn page_table(pages: &PageTotals, format: &TextFormat) -> Vec<String> {
    let times = pages.times();
    let mut lines = Vec::new();
    if !times.is_empty() {
        let mut rows = vec![row(["", "page time"])];
        rows.push(figures("mean", &[times], Latencies::mean));
        rows.push(figures("min", &[times], Latencies::min));
        rows.extend(percentile_rows(&[times]));
        rows.push(figures("max", &[times], Latencies::max));
        lines = format.titled(&format.aligned(&rows));
    }
    let not_loaded = pages.count() - times.count();
    let all = quantiles_of_all(|share| pages.quantile_of_all(share));
    if not_loaded > 0 && !all.is_empty() {
        let said = format!("Of all pages, those with a failed request never loaded: {all}");
        lines.push(format.paragraph(Style::Warning, "", &said));
    }
    lines
}

/// `p50 2.51 ms, p90 at least 12.6 ms, p99 never`, as far as there are enough samples.
fn quantiles_of_all(quantile: impl Fn(f64) -> Option<Quantile>) -> String {
    let known = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)]
        .into_iter()
        .filter_map(|(name, share)| {
            let value = match quantile(share)? {
                Quantile::Exact(value) => span(value),
                Quantile::AtLeast(value) => format!("at least {}", span(value)),
                Quantile::Never => "never".to_owned(),
            };
            Some(format!("{name} {value}"))
        });
    known.collect::<Vec<_>>().join(", ")
}

/// How requests that did not succeed change the percentiles.
fn unsuccessful_requests(totals: &LoadTotals) -> Option<String> {
    let (failed, unfinished) = (totals.failed(), totals.censored());
    if failed + unfinished == 0 {
        return None;
    }
    let all = quantiles_of_all(|share| totals.response_quantile(share));
    let mut text = String::new();
    if let Some(longest) = totals.unfinished().max() {
        text += &format!(
            "{} given up after up to {}, so their response times are longer. ",
            match unfinished {
                1 => "1 unfinished request was".to_owned(),
                count => format!("{} unfinished requests were", figure::count(count)),
            },
            span(longest),
        );
    }
    if !all.is_empty() {
        text += &format!("Of all requests, failed ones never answered: {all}");
    }
    (!text.is_empty()).then_some(text)
}

fn parts_table(totals: &LoadTotals, format: &TextFormat) -> Vec<String> {
    let whole_ns = totals.response().sum_ns();
    let mut meanings = vec![""];
    let mut rows = vec![row(["time in", "share", "mean", "p99", "max"])];
    for part in Part::ALL
        .into_iter()
        .filter(|part| totals.part(*part).sum_ns() > 0)
    {
        let latencies = totals.part(part);
        meanings.push(part.meaning());
        rows.push(vec![
            part.name().to_owned(),
            percent(latencies.sum_ns() as f64, whole_ns as f64),
            known(latencies.mean()),
            known(latencies.quantile(0.99)),
            known(latencies.max()),
        ]);
    }
    if rows.len() == 1 {
        return Vec::new();
    }
    let mut lines = format.aligned(&rows);
    let explained = lines
        .iter()
        .zip(meanings)
        .map(|(line, means)| format!("{line}  {}", format.say(means)));
    let explained: Vec<String> = explained.collect();
    // Nothing is cut off: explanations that do not fit are left out, and then columns.
    if fit(&explained, format.columns()) {
        lines = explained;
    } else if !fit(&lines, format.columns()) {
        rows.iter_mut().for_each(|row| row.truncate(4));
        lines = format.aligned(&rows);
    }
    format.titled(&lines)
}

/// What held up sending, for the protocols that report it.
fn causes(causes: &SendLimits, format: &TextFormat) -> Vec<String> {
    let mut lines = Vec::new();
    let of = |share: f64| percent(share, 1.0);
    if let Some(found) = causes.http2_bodies {
        lines.push(format!(
            "HTTP/2's flow control held up {} for {} of the time that sending took: {} for a stream's window, {} for the \
             connection's",
            figure::counted(found.bodies, "body", "bodies"),
            of(found.stream_window + found.connection_window),
            of(found.stream_window),
            of(found.connection_window),
        ));
    }
    if let Some(tcp) = causes.tcp {
        let mut line = format!(
            "TCP was sending for {} of its connections' time",
            of(tcp.busy)
        );
        if tcp.busy > 0.0 {
            line += &format!(
                ": {} of that limited by the receiver's window, {} by the send buffer, {} by the congestion window or \
                 waiting for acknowledgements",
                of(tcp.receive_window),
                of(tcp.send_buffer),
                of(tcp.congestion_window_or_acknowledgement),
            );
        }
        line += &format!(
            "; {}",
            counted_share(tcp.retransmitted, tcp.segments, "segments", "sent again")
        );
        lines.push(line);
    }
    if let Some(quic) = causes.quic {
        let lost = counted_share(quic.lost, quic.packets, "packets", "lost");
        lines.push(format!("QUIC: {lost}"));
    }
    lines
        .iter()
        .map(|line| format.paragraph(Style::Plain, "", line))
        .collect()
}

/// `3 of 1,234 segments sent again (0.2 %)`.
fn counted_share(some: u64, all: u64, what: &str, fate: &str) -> String {
    format!(
        "{} of {} {what} {fate} ({})",
        figure::count(some),
        figure::count(all),
        percent(some as f64, all as f64)
    )
}

fn connections(load: &FinishedLoad<'_>, format: &TextFormat) -> Vec<String> {
    let opened = [
        (load.counts.tcp_connections, "TCP"),
        (load.counts.quic_connections, "QUIC"),
    ];
    let opened = counted_words(&opened).map(|words| format!("connections {words}"));
    let per_s = handshakes_per_s(load).map(|per_s| format!("handshakes/s {}", figure::rate(per_s)));
    (opened.into_iter().chain(per_s))
        .chain(counts(load.counts))
        .map(|line| format.paragraph(Style::Plain, "", &line))
        .collect()
}

/// Handshakes of requests that opened a connection, per second; `None` if there are fewer than two, which have no rate.
fn handshakes_per_s(load: &FinishedLoad<'_>) -> Option<f64> {
    let count = load.totals.handshakes();
    let per_s = load.totals.per_s(count, load.end);
    per_s.filter(|_| count > 1)
}

/// What one side counted on its connections, in lines: handshakes, what was negotiated and announced, GOAWAYs and resets.
pub fn counts(counts: &SideCounts) -> Vec<String> {
    let handshakes = [(counts.tls_full, "full"), (counts.tls_resumed, "resumed")];
    let mut lines = Vec::new();
    if let Some(words) = counted_words(&handshakes) {
        lines.push(format!("handshakes {words}"));
    }
    for (what, found) in [
        ("spoken", &counts.protocols),
        ("ALPN", &counts.alpn),
        ("TLS", &counts.ciphers),
        ("key exchange", &counts.groups),
        ("SETTINGS sent", &counts.settings_sent),
        ("SETTINGS received", &counts.settings_received),
    ] {
        if !found.is_empty() {
            lines.push(format!("{what} {}", counted_names(found)));
        }
    }
    let ends = &counts.endings;
    for (what, sent, received) in [
        ("GOAWAY", ends.goaways_sent, ends.goaways_received),
        ("resets", ends.resets_sent, ends.resets_received),
    ] {
        if let Some(words) = counted_words(&[(sent, "sent"), (received, "received")]) {
            lines.push(format!("{what} {words}"));
        }
    }
    if counts.retried > 0 {
        let requests = figure::counted(counts.retried, "request", "requests");
        lines.push(format!(
            "retried {requests}, which the server had not processed"
        ));
    }
    lines
}

fn counted_words(counts: &[(u64, &str)]) -> Option<String> {
    let words: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", figure::count(*count)))
        .collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// `h2 (4), http/1.1 (1)`.
fn counted_names(found: &BTreeMap<String, u64>) -> String {
    let word = |(name, count): (&String, &u64)| format!("{name} ({})", figure::count(*count));
    found.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// The health of the generator, and the doubts that follow from it.
fn generator(load: &FinishedLoad<'_>, format: &TextFormat) -> Vec<String> {
    let totals = load.totals;
    let mut words = Vec::new();
    // In a closed loop a request is due the moment it is started, so there is no lag.
    if totals.lag().max().is_some_and(|lag| !lag.is_zero()) {
        let lag = totals.lag();
        words.push(format!(
            "lag p50 {}, p99 {}, p99.9 {}, max {}",
            known(lag.quantile(0.5)),
            known(lag.quantile(0.99)),
            known(lag.quantile(0.999)),
            known(lag.max())
        ));
    }
    if let Some(cpu) = load.generator.cpu_percent {
        words.push(format!("CPU {cpu:.0} %"));
    }
    let mut lines = Vec::new();
    if !words.is_empty() {
        lines.push(format.paragraph(Style::Plain, "", &format!("generator {}", words.join("; "))));
    }
    let doubts = load.generator.doubts(totals, load.end);
    if let Some(said) = load
        .generator
        .punctuality
        .and_then(|of| machine_delays(&of))
    {
        lines.push(format.paragraph(Style::Plain, "", &said));
    }
    lines.extend(
        doubts
            .iter()
            .map(|doubt| format.paragraph(Style::Warning, "", &doubt.to_string())),
    );
    lines
}

/// How the machine delayed it: `the machine woke it late by p50 2.10 us, ...; 1.30 ms of the longest lag of 1.50 ms, ...`.
fn machine_delays(of: &Punctuality) -> Option<String> {
    let late = of.woken_late;
    let mut words = Vec::new();
    if late.count > 0 {
        words.push(format!(
            "woke it late by p50 {}, p99 {}, max {}",
            known(Punctuality::known(late, 0.5, late.p50)),
            known(Punctuality::known(late, 0.99, late.p99)),
            span(late.max)
        ));
    }
    if let Some(share) = of.share_of_lag.filter(|share| *share > 0.0) {
        let own = of.own_lag;
        words.push(format!(
            "that is {} of all lag, which without it would be p99 {}, max {}",
            percent(share, 1.0),
            known(Punctuality::known(own, 0.99, own.p99)),
            span(own.max)
        ));
    }
    if let Some(longest) = of.longest.filter(|longest| !longest.machine.is_zero()) {
        words.push(longest_lag(&longest));
    }
    if let Some(stolen) = of.stolen_share.filter(|stolen| *stolen > 0.0) {
        let stolen = percent(stolen, 1.0);
        words.push(format!(
            "its hypervisor took {stolen} of all processor time"
        ));
    }
    if !of.has_awake_processors {
        words.push("its processors may have slept".to_owned());
    }
    (!words.is_empty()).then(|| format!("the machine: {}", words.join("; ")))
}

fn longest_lag(longest: &LongestLag) -> String {
    let said = format!(
        "{} of the longest lag of {}",
        span(longest.machine),
        span(longest.lag)
    );
    match longest.run_queue_delay {
        None => said,
        Some(run_queue_delay) if run_queue_delay.is_zero() => said + ", no other thread in the way",
        Some(run_queue_delay) => {
            said + &format!(", {} behind other threads", span(run_queue_delay))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Colour;
    use crate::load::Glyphs;
    use crate::load::samples::{self, FORMAT, Sample};

    fn check(sample: &Sample, format: &TextFormat, golden: &str) {
        let text = summary(&sample.finished(), format);
        assert_eq!(text, golden, "\n{text}");
    }

    #[test]
    fn summary_of_a_load_with_everything_matches_its_golden_file() {
        check(&samples::mixed(), &FORMAT, include_str!("golden/mixed.txt"));
        let narrow = TextFormat {
            width: 40,
            glyphs: Glyphs::Ascii,
            ..FORMAT
        };
        check(
            &samples::mixed(),
            &narrow,
            include_str!("golden/mixed-40-ascii.txt"),
        );
    }

    #[test]
    fn summary_of_a_load_with_few_figures_is_short() {
        check(
            &samples::empty(),
            &FORMAT,
            "0 requests in 0 us\n0 succeeded (0 %)\n",
        );
        check(&samples::one(), &FORMAT, include_str!("golden/one.txt"));
        check(
            &samples::failed(),
            &FORMAT,
            include_str!("golden/failed.txt"),
        );
    }

    #[test]
    fn failed_grpc_calls_are_counted_by_their_status() {
        let text = summary(&samples::grpc().finished(), &FORMAT);
        for line in [
            "1 succeeded (16.7 %), 5 answered with a gRPC error (83.3 %)",
            "2 answered with a gRPC error: grpc-status 13 (INTERNAL)",
            "1 answered with a gRPC error: no grpc-status",
            "status 200 (6)",
        ] {
            let is_it = |found: &str| found.trim_start() == line;
            assert!(text.lines().any(is_it), "{line}\n{text}");
        }
    }

    #[test]
    fn responses_that_come_in_pieces_have_their_own_table() {
        let text = summary(&samples::streamed().finished(), &FORMAT);
        let table: Vec<&str> = (text.lines())
            .skip_while(|line| !line.contains("first chunk"))
            .take_while(|line| !line.is_empty())
            .collect();
        let words = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            words(table[0]),
            ["first", "chunk", "gaps", "longest", "gap"],
            "{text}"
        );
        assert_eq!(
            words(table[table.len() - 1]),
            ["max", "40.0", "ms", "90.0", "ms", "90.0", "ms"],
            "{text}"
        );
        // Bytes that arrive within a millisecond count as one piece.
        let text = summary(&samples::mixed().finished(), &FORMAT);
        assert!(!text.contains("first chunk"), "{text}");
    }

    #[test]
    fn load_with_a_connection_for_each_request_shows_its_handshake_rate() {
        let text = summary(&samples::connections().finished(), &FORMAT);
        let line = "\nconnections 50 TCP\nhandshakes/s 25\nhandshakes 50 full\n";
        assert!(text.contains(line), "{text}");
        // A single handshake has no rate.
        let text = summary(&samples::one().finished(), &FORMAT);
        assert!(!text.contains("handshakes/s"), "{text}");
    }

    #[test]
    fn pages_have_their_own_table() {
        check(
            &samples::of_pages(),
            &FORMAT,
            include_str!("golden/pages.txt"),
        );
    }

    #[test]
    fn counts_of_millions_fit_into_the_tables() {
        check(
            &samples::millions(),
            &FORMAT,
            include_str!("golden/millions.txt"),
        );
    }

    #[test]
    fn summaries_fit_the_width_and_are_coloured_only_if_asked() {
        let samples = [
            samples::mixed(),
            samples::one(),
            samples::failed(),
            samples::of_pages(),
            samples::millions(),
        ];
        for (sample, width) in samples
            .iter()
            .flat_map(|s| [40, 60, 80, 120, 200].map(|w| (s, w)))
        {
            let text = summary(&sample.finished(), &TextFormat { width, ..FORMAT });
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest.is_some_and(|longest| longest <= width), "{text}");
            assert!(
                !text.contains('\x1b') && text.lines().all(|l| l == l.trim_end()),
                "{text}"
            );
        }
        let ansi = TextFormat {
            colour: Colour::Ansi,
            ..FORMAT
        };
        assert!(summary(&samples::failed().finished(), &ansi).contains("\x1b[33m"));
    }
}

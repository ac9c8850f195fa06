//! The result of `squall probe` as text for a terminal and as Markdown: the answer first, then the other faults, then the
//! facts.
//!
//! It judges nothing: squall-analysis' `probe` has found everything that is printed. `facts` puts figures into rows, which
//! all forms share, with the help of `behaviour`; `sweep` has the texts of several probes behind different links. The pages
//! are in `html::probe` and `html::probe_sweep`.

mod behaviour;
pub(crate) mod facts;
mod markdown;
mod sweep;

use squall_analysis::figure;
use squall_analysis::probe::{DetectedFault, Diagnosis, Relevance};

use crate::lang::{Language, Translator};
use crate::terminal::TerminalWriter;
use crate::text::{Colour, Style, aligned, printable};

pub use crate::html::probe::{ProbeCost, ProbePage, ProbedEndpoint, probe_page, probe_page_in};
pub use crate::html::probe_sweep::{SweepPage, sweep_page, sweep_page_in};
pub use markdown::markdown_in;
pub(crate) use sweep::table_of;
#[cfg(test)]
pub(crate) use sweep::tests as tests_of_sweeps;
pub use sweep::{sweep_markdown_in, sweep_text_in};

/// The widest line, so that the text fits into an e-mail and a small terminal.
const WIDTH_AT_MOST: usize = 80;

/// The result as text of at most `width` columns, and never more than 80. Two endpoints are printed side by side.
pub fn text_in(language: Language, of: &[Diagnosis], width: usize, colour: Colour) -> String {
    let translator = Translator::of_probe(language, of);
    let writer = TerminalWriter::new(width.min(WIDTH_AT_MOST), colour).saying(translator.clone());
    let mut text = String::new();
    for (place, diagnosis) in of.iter().enumerate() {
        if place > 0 {
            text.push('\n');
        }
        if of.len() > 1 {
            let endpoint = &diagnosis.endpoint;
            let letter = facts::letter(place);
            let said = format!("{letter}: {} ({})", endpoint.url, endpoint.address);
            writer.paragraph(&mut text, Style::Bold, "", &said);
        }
        answer(&writer, &mut text, diagnosis);
        others(&writer, &mut text, diagnosis);
    }
    match of {
        [one] => single(&writer, &translator, &mut text, one),
        several => {
            text.push('\n');
            table(&mut text, &facts::beside(several), &translator);
        }
    }
    text
}

/// The answer: what is wrong and what it costs, the fix, and then what happens and what shows it.
fn answer(writer: &TerminalWriter, text: &mut String, diagnosis: &Diagnosis) {
    let verdict = &diagnosis.verdict;
    let style = match diagnosis.faults.first() {
        Some(first) if first.matters == Relevance::Here => Style::Warning,
        _ => Style::Bold,
    };
    writer.paragraph(text, style, "", &verdict.headline);
    if !verdict.fix.is_empty() {
        writer.paragraph(text, Style::Bold, "", &format!("Fix: {}", verdict.fix));
    }
    writer.paragraph(text, Style::Plain, "", &verdict.sentence);
    match diagnosis.faults.first() {
        None => writer.paragraph(text, Style::Plain, "", &verdict.cause),
        Some(first) => {
            for evidence in &first.evidence {
                writer.paragraph(text, Style::Plain, "  ", evidence);
            }
        }
    }
}

/// The faults after the first one.
fn others(writer: &TerminalWriter, text: &mut String, diagnosis: &Diagnosis) {
    if diagnosis.faults.len() < 2 {
        return;
    }
    text.push('\n');
    writer.paragraph(text, Style::Bold, "", "Also");
    for found in diagnosis.faults.iter().skip(1) {
        writer.paragraph(text, Style::Plain, "  ", &headline(found));
        writer.paragraph(text, Style::Faint, "    ", &found.sentence);
        writer.paragraph(text, Style::Faint, "    ", &format!("Fix: {}", found.fix));
    }
}

/// A fault in a few words, with how much it matters.
pub(crate) fn headline(found: &DetectedFault) -> String {
    let matters = match found.matters {
        Relevance::Here => String::new(),
        Relevance::FartherAway => " (for clients farther away)".to_owned(),
        Relevance::Overhead => " (overhead)".to_owned(),
    };
    let title = found.fault.title();
    match found.lost {
        Some(lost) if !found.per.is_empty() => format!(
            "{title}{matters}: {} for each {}",
            figure::time(lost),
            found.per
        ),
        _ => format!("{title}{matters}"),
    }
}

/// The tables and facts of one endpoint.
fn single(
    writer: &TerminalWriter,
    translator: &Translator,
    text: &mut String,
    diagnosis: &Diagnosis,
) {
    let endpoint = &diagnosis.endpoint;
    let has_answer = endpoint
        .versions
        .iter()
        .any(|facts| facts.problem.is_none());
    if !has_answer {
        // Without figures, the answer already states every reason.
        let mut facts = vec![("asked", endpoint.address.clone())];
        facts.extend(facts::announced(endpoint));
        for (name, value) in facts {
            writer.paragraph(text, Style::Plain, "  ", &format!("{name}: {value}"));
        }
        return;
    }
    text.push('\n');
    table(text, &facts::versions(endpoint), translator);
    for facts in &endpoint.versions {
        if let Some(problem) = &facts.problem {
            let said = format!("{}: {problem}", facts.version);
            writer.paragraph(text, Style::Faint, "  ", &said);
        }
    }
    let predictions = facts::predictions(endpoint);
    if !predictions.is_empty() {
        text.push('\n');
        table(text, &predictions, translator);
    }
    text.push('\n');
    for (name, value) in facts::facts(endpoint) {
        writer.paragraph(text, Style::Plain, "  ", &format!("{name}: {value}"));
    }
    for note in &endpoint.notes {
        writer.paragraph(text, Style::Faint, "  ", note);
    }
}

fn table(text: &mut String, rows: &[Vec<String>], translator: &Translator) {
    for line in aligned(&translator.rows(rows)) {
        text.push_str(printable(line.trim_end()).as_str());
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use squall_analysis::probe::{AnnouncedWindows, Fault, Http3Reach, Observations};
    use squall_base::Duration;
    use squall_base::plan::Version;

    use super::*;
    use crate::columns::width_of;

    fn silent() -> Diagnosis {
        Diagnosis::of(&Observations {
            url: "https://server/\u{1b}[31m".to_owned(),
            address: "192.0.2.1:443".to_owned(),
            failures: vec![(
                Version::Http2,
                "connected, but no response in time".to_owned(),
            )],
            http3: Http3Reach::NotTried,
            ..Observations::default()
        })
    }

    #[test]
    fn answer_is_in_the_first_three_lines_and_no_line_is_longer_than_80_columns() {
        let text = text_in(Language::En, &[silent()], 200, Colour::Plain);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "No answer");
        assert!(lines[1].starts_with("Fix: "), "{text}");
        assert!(lines[2].contains("gave no HTTP response"), "{text}");
        let reason = "HTTP/2: connected, but no response in time";
        assert_eq!(text.matches(reason).count(), 1, "{text}");
        assert!(
            lines.iter().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(
            !text.contains('\u{1b}'),
            "foreign text cannot control the terminal"
        );
    }

    /// An endpoint with a URL of 139 characters, two faults, and windows that limit uploads.
    fn limited() -> Diagnosis {
        let url = format!("https://server.example/{}", "a".repeat(116));
        assert_eq!(url.len(), 139);
        let mut diagnosis = Diagnosis::of(&Observations {
            url: url.clone(),
            address: "192.0.2.1:443".to_owned(),
            ..Observations::default()
        });
        let found = |fault: Fault| DetectedFault {
            fault,
            matters: Relevance::FartherAway,
            sentence: format!("{url} is slow."),
            evidence: vec![format!("asked: {url}")],
            lost: Some(Duration::from_millis(2_460)),
            per: "upload of 10 MB at 100 ms",
            fix: format!("{}: {url}", fault.general_fix()),
        };
        diagnosis.faults = vec![found(Fault::StreamWindow), found(Fault::Loss)];
        facts::tests::limit(&mut diagnosis.endpoint);
        diagnosis
    }

    #[test]
    fn long_urls_are_broken_so_that_no_line_is_longer_than_80_columns() {
        for language in [Language::En, Language::Zh] {
            for of in [vec![limited()], vec![limited(), limited()]] {
                let text = text_in(language, &of, 200, Colour::Plain);
                let is_narrow = text.lines().all(|line| width_of(line) <= 80);
                assert!(is_narrow, "{text}");
                let whole: String = text.split_whitespace().collect();
                assert!(whole.contains(&limited().endpoint.url), "{text}");
            }
            let text = text_in(language, &[limited()], 200, Colour::Plain);
            assert!(text.contains("52.4"), "the predictions: {text}");
        }
    }

    #[test]
    fn announcements_of_a_server_that_did_not_answer_are_printed() {
        let mut diagnosis = silent();
        let settings = &mut diagnosis.endpoint.settings;
        settings.insert("MAX_CONCURRENT_STREAMS".to_owned(), 7);
        let settings = &mut diagnosis.endpoint.http3_settings;
        settings.insert("MAX_FIELD_SECTION_SIZE".to_owned(), 65_536);
        settings.insert("QPACK_BLOCKED_STREAMS".to_owned(), 100);
        diagnosis.endpoint.announced_windows = Some(AnnouncedWindows {
            stream_bytes: 65_535,
            connection_bytes: 4_194_304,
        });
        let text = text_in(Language::En, &[diagnosis], 80, Colour::Plain);
        for line in [
            "  SETTINGS: MAX_CONCURRENT_STREAMS=7\n",
            "  HTTP/3 SETTINGS: MAX_FIELD_SECTION_SIZE=65536 QPACK_BLOCKED_STREAMS=100\n",
            "  announced windows: 65,535 bytes for a stream, 4,194,304 for the connection\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn two_endpoints_are_side_by_side() {
        let text = text_in(Language::En, &[silent(), silent()], 80, Colour::Plain);
        assert_eq!(text.matches("No answer").count(), 2, "{text}");
        assert_eq!(text.matches("192.0.2.1:443").count(), 2, "{text}");
    }

    #[test]
    fn markdown_has_the_same_answer() {
        let text = markdown_in(Language::En, &[silent()]);
        assert!(text.starts_with("**No answer**"), "{text}");
        assert!(text.contains("| HTTP/2 |"), "{text}");
    }
}

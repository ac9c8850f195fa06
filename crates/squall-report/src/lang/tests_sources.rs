//! Every sentence in the sources of `squall probe`, `squall load` and `squall compare` has an entry in the tables.
//!
//! The sentences are read from the sources, with a number in each of their slots, because producing most of them takes a server
//! with a fault. Complete results are tested beside the code that prints them.

use std::path::{Path, PathBuf};

use super::*;

/// Sources with sentences that people read.
const SOURCES: [&str; 24] = [
    "squall-analysis/src/probe/detect.rs",
    "squall-analysis/src/probe/detect_slow.rs",
    "squall-analysis/src/probe/detect_windows.rs",
    "squall-analysis/src/probe/downloads.rs",
    "squall-analysis/src/probe/endpoint.rs",
    "squall-analysis/src/probe/fault.rs",
    "squall-analysis/src/probe/product.rs",
    "squall-analysis/src/probe/sweep.rs",
    "squall-analysis/src/probe/verdict.rs",
    "squall-analysis/src/probe/windows.rs",
    "squall-analysis/src/load/health.rs",
    "squall-analysis/src/load/parts.rs",
    "squall-analysis/src/threshold.rs",
    "squall-report/src/changes.rs",
    "squall-report/src/load/comparison.rs",
    "squall-report/src/probe/behaviour.rs",
    "squall-report/src/probe/facts.rs",
    "squall-report/src/probe/markdown.rs",
    "squall-report/src/probe/mod.rs",
    "squall-report/src/probe/sweep.rs",
    "squall/src/commands/differing_keys.rs",
    "squall/src/probe/ask.rs",
    "squall/src/probe/drive.rs",
    "squall/src/probe/robots.rs",
];

/// Text that is not a sentence by itself: parts of sentences, and words of other programs. Sentences with these parts
/// are below.
const PARTS: [&str; 35] = [
    "lone segment",
    "lone segments",
    "address hint",
    "address hints",
    "does not speak TLS",
    "not trusted",
    "reset the stream",
    "no response in time",
    "segments with data",
    "packets sent",
    "this machine dropped 7, because its receive buffer was full",
    "by closing it",
    "The server ends a connection after 7 (7), and clients connect again.",
    "downloads and uploads",
    "downloads but no uploads (--upload SIZE sends some)",
    "uploads but no downloads",
    "but no downloads and no uploads",
    "squall looked for 7 faults over 7: small requests, 7.",
    "lets the window grow, to 7 bytes here",
    "its header fields",
    "its server field",
    "its SETTINGS and window updates",
    "apache tomcat",
    "before and after",
    "did not carry the load 7: latencies grow for as long as it lasts",
    "7 of the same seeds",
    "no limit reached",
    ", and this machine dropped 7",
    "7 of the first 7 datagrams, in 7, came in the same millisecond as an earlier one",
    "not set",
    "a list of 7",
    "upload of 10 MB at 100 ms",
    "probe timeout",
    "probe timeouts",
    "round trips",
];

/// Sentences as they are made of such parts.
const MADE: [&str; 45] = [
    "sent again: 30 of 1,000 segments with data (3.0 %)",
    "lost over QUIC: 30 of 1,000 packets sent (3.0 %)",
    "this machine dropped 1 datagram, because its receive buffer was full",
    "this machine dropped 7 datagrams, because its receive buffer was full",
    "The server ends a connection after 1 request (by closing it), and clients connect again.",
    "The server ends a connection after 100 requests (with a GOAWAY), and clients connect again.",
    "squall looked for 22 faults over HTTP/1.1, HTTP/2: small requests, downloads and uploads.",
    "squall looked for 22 faults over HTTP/2: small requests, downloads but no uploads (--upload SIZE sends some).",
    "squall looked for 23 faults over HTTP/2: small requests, but no downloads and no uploads.",
    "squall looked for 23 faults over HTTP/2: small requests, uploads but no downloads.",
    "During uploads a round trip takes 210 ms instead of 30.0 ms: a queue on the way fills up.",
    "12 TCP handshakes during downloads over six connections",
    "addresses: 192.0.2.1, 192.0.2.2",
    "TCP handshake: IPv4: 12.0 ms; IPv6: no connection",
    "coalescing: a.test: same address; b.test: another address; c.test: no address found",
    "HTTPS record: alpn h3,h2, port 8443, 2 address hints, Encrypted Client Hello; target b.test, default alpn; alias of c.test",
    "record sizes: HTTP/1.1: up to 16,384 bytes from the beginning; HTTP/2: the first 1,048,600 bytes in records of \
     about 1,300 bytes, then up to 16,384 bytes, small again after a pause",
    "packets received: 4,000 with data, 0 reordered, 12 lost and sent again, 0 sent again needlessly; losses repaired within 43.0 ms",
    "acknowledgements: 1.00 ms later than a round trip, 40.0 ms at most, of 96 lone segments",
    "the server's receive window: closed for 1.20 s",
    "slow requests: HTTP/2: handled concurrently; HTTP/3: handled one after the other",
    "the server lets the window grow, to 200,000 bytes here",
    "announced windows: 65,535 bytes for a stream, 4,194,304 for the connection",
    "upload windows: 65,535 bytes for a stream, 65,535 for the connection; the server gives back half of the window at a time; \
     waited 2.30 s for the stream's and 0 us for the connection's",
    "recognised as: Go net/http, by its header fields",
    "recognised as: nginx, by its server field",
    "recognised as: nginx, by its SETTINGS and window updates",
    "did not carry the load before and after: latencies grow for as long as it lasts",
    "8 pairs of the same seeds",
    "HTTP/3 upload limits: stream 65,535 bytes, connection no limit reached; waited 2.30 s and 0 us",
    "losses over QUIC: 30 of 1,000 packets sent were lost, 28 carried data again, 2 probe timeouts; 5 of 2,000 STREAM frames \
     received came late, and this machine dropped 7 datagrams",
    "pacing: 67 of the first 70 datagrams, in 3 round trips, came in the same millisecond as an earlier one",
    "key exchange: HTTP/1.1, HTTP/2: X25519MLKEM768; HTTP/3: X25519",
    "certificate also covers: HTTP/1.1, HTTP/2: 4 names (a.test, localhost ...)",
    "priorities: HTTP/2: honoured; HTTP/3: cannot be told (the download is too short, or the order is unclear)",
    "idle connections: HTTP/1.1: 75.0 s announced, still open after 5.00 s; HTTP/2: ended by the server after 5.00 s, with a \
     GOAWAY",
    "Stream window too small for uploads (for clients farther away): 2.38 s for each upload of 10 MB at 100 ms",
    "Bufferbloat: 120 ms lost for each request during a download",
    "Fix: nginx: a larger http2_body_preread_size (64k by default); nginx opens the window fully once it reads the body",
    "Fix: Go net/http: http2.Server's MaxUploadBufferPerStream (since Go 1.24: http.Server's \
     HTTP2.MaxReceiveBufferPerStream)",
    "path (\"client ~h1~> server\", now \"client ~h2~> server\"), hops.0.tcp.buffers (a list of 2, now a list of 1), \
     hops.0.tcp.max_cwnd (not set, now 10), 5 more",
    "HTTP/2: connected, but no response in time",
    "downloads: at most 15.6 Mbit/s over HTTP/3, at least 60.6 Mbit/s over HTTP/1.1",
    "Downloads: HTTP/1.1 is fastest at 10ms, HTTP/2 is fastest from 50ms to 200ms, elsewhere no version is ahead by more than \
     10 %; first byte: HTTP/2 is fastest at every delay.",
    "HTTP/2 over the delay: the probe ended without a result (exit status: 1)",
];

/// The command line words that settings and messages have in any language.
const VERBATIM: [&str; 7] = [
    "no option http-buffer-request",
    "option http-keep-alive",
    "option httpclose",
    "compression algo",
    "compression type",
    "client ~h1~> server",
    "client ~h2~> server",
];

fn source(path: &str) -> Option<String> {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::fs::read_to_string(root.join(path)).ok()
}

/// The literals of a source before its tests, as the compiler reads them.
fn literals(source: &str) -> Vec<String> {
    let code = source.split("mod tests {").next().unwrap();
    let code: Vec<&str> = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let code = code.join("\n").replace("'\"'", "");
    let mut literals = Vec::new();
    let mut rest = code.as_str();
    while let Some((_, behind)) = rest.split_once('"') {
        let mut literal = String::new();
        let mut chars = behind.char_indices();
        let mut end = behind.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    end = at + 1;
                    break;
                }
                '\\' => match chars.next() {
                    Some((_, '\n')) => {
                        // The literal does not include the indent of the next line.
                        let after = chars.as_str();
                        let indent = after.len() - after.trim_start().len();
                        for _ in 0..indent {
                            chars.next();
                        }
                    }
                    Some((_, 'n')) => literal.push('\n'),
                    Some((_, escaped)) => literal.push(escaped),
                    None => {}
                },
                c => literal.push(c),
            }
        }
        rest = &behind[end..];
        literals.push(literal);
    }
    literals
}

/// A literal with a number in each of its slots.
fn filled(literal: &str) -> String {
    let mut text = String::new();
    let mut rest = literal;
    while let Some((before, behind)) = rest.split_once('{') {
        text.push_str(before);
        text.push('7');
        rest = behind.split_once('}').map_or("", |(_, behind)| behind);
    }
    text + rest
}

/// Whether two or more words of English follow each other in a text, apart from those of settings.
fn has_english(text: &str) -> bool {
    let text = VERBATIM
        .iter()
        .fold(text.to_owned(), |text, words| text.replace(words, "7"));
    let is_word = |word: &&str| word.len() > 1 && word.chars().all(|c| c.is_ascii_lowercase());
    let words: Vec<&str> = text.split(' ').collect();
    words.windows(2).any(|two| two.iter().all(is_word))
}

#[test]
fn every_sentence_in_the_sources_is_translated() {
    let mut count = 0;
    for path in SOURCES {
        // A source may be split or renamed; the count below says whether too many are gone.
        let Some(source) = source(path) else {
            continue;
        };
        for literal in literals(&source) {
            for line in filled(&literal).lines() {
                let line = line
                    .trim()
                    .trim_start_matches("- ")
                    .trim_start_matches("## ");
                if !has_english(line) || PARTS.contains(&line) {
                    continue;
                }
                let said = Language::Zh.say(line);
                assert!(!has_english(&said), "{path}: {line}: {said}");
                count += 1;
            }
        }
    }
    assert!(count > 150, "only {count} sentences");
}

#[test]
fn sentences_made_of_parts_are_translated() {
    for english in MADE {
        let said = Language::Zh.say(english);
        assert!(!has_english(&said), "{english}: {said}");
        assert!(!said.is_ascii(), "{english}: {said}");
    }
}

#[test]
fn fixes_are_translated_with_and_without_their_heading() {
    for fault in squall_analysis::probe::Fault::ALL {
        for text in [fault.title().to_owned(), fault.general_fix().to_owned()] {
            let said = Language::Zh.say(&text);
            assert!(text == "TLS 1.2" || !said.is_ascii(), "{text}: {said}");
        }
        let fix = fault.general_fix();
        let said = Language::Zh.say(&format!("Fix: {fix}"));
        assert_eq!(said, format!("修复：{}", Language::Zh.say(fix)));
    }
}

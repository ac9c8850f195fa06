//! Translates a page: the same markup, with its texts, the labels of its elements and the words of its scripts in another
//! language.
//!
//! It reads only pages that this crate has made, in which no attribute has a `>`. Scripts, styles and preformatted text stay
//! as they are. Exceptions are the manifest, the explanation of a request, the compressed requests and connections, which
//! are markup too, and the words that the scripts show (assets/data.js). `matching` translates each text.

use std::collections::BTreeMap;
use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use serde_json::Value;
use squall_base::record::Cause;

use super::{Translator, script};
use crate::deflate::deflated;
use crate::html::escaped;

/// The attributes that a reader sees or hears.
const ATTRIBUTES: [&str; 5] = [
    "aria-label",
    "title",
    "data-label",
    "data-measure",
    "data-pair",
];

/// The elements whose content is not text of the report.
const RAW: [&str; 3] = ["script", "style", "pre"];

/// The beginning of the button of an explained term (html/terms.rs).
const TERM: &str = "<button type=\"button\" class=\"term\" popovertarget=\"";

/// The beginning of the text of a request in full (html/request.rs); other preformatted text is not translated.
const EXPLANATION: &str = "<pre tabindex=\"0\">";

/// The first of the characters that stand for terms while a sentence is translated. No text has them, because they are from
/// Unicode's private use area.
const TERM_MARK: u32 = 0xe000;

/// The page of a run in the translator's language.
pub(super) fn page(translator: &Translator, english: &str) -> String {
    let page = part(translator, english);
    let page = page.replacen("<html lang=\"en\">", "<html lang=\"zh-Hans\">", 1);
    page.replacen("<script", &(words(translator) + "<script"), 1)
}

/// A part of a page in the translator's language.
pub(super) fn part(translator: &Translator, english: &str) -> String {
    let mut pass = Pass {
        translator,
        said: BTreeMap::new(),
    };
    pass.markup(english)
}

/// The words that the page's scripts show, keyed by the English ones.
fn words(translator: &Translator) -> String {
    let phrases = script::PHRASES.iter();
    let mut words: BTreeMap<&str, String> = phrases
        .map(|phrase| (phrase.en, phrase.zh.to_owned()))
        .collect();
    // The scripts take these texts from the page.
    let shared = Cause::ALL
        .map(Cause::name)
        .into_iter()
        .chain(["mean", "median"]);
    words.extend(shared.map(|word| (word, translator.say(word))));
    let json: Value = words.into_iter().collect();
    format!(
        "<script type=\"application/json\" id=\"words\">{}</script>\n",
        in_script(&json)
    )
}

/// JSON that cannot end its element (HTML, section 4.12.1.3).
fn in_script(json: &Value) -> String {
    json.to_string().replace('<', "\\u003c")
}

struct Pass<'t> {
    translator: &'t Translator,
    /// The texts translated so far, because pages repeat many of them.
    said: BTreeMap<String, String>,
}

/// The text between two tags, in which terms are plain words.
#[derive(Default)]
struct Run<'p> {
    text: String,
    /// The id and the words of each term.
    terms: Vec<(&'p str, &'p str)>,
}

impl Pass<'_> {
    fn markup(&mut self, english: &str) -> String {
        let mut page = String::with_capacity(english.len());
        let mut run = Run::default();
        let mut rest = english;
        while let Some(at) = rest.find('<') {
            let (text, from_tag) = rest.split_at(at);
            run.text.push_str(text);
            if let Some((id, words, behind)) = term(from_tag) {
                run.text.push_str(words);
                run.terms.push((id, words));
                rest = behind;
                continue;
            }
            page.push_str(&self.run(&std::mem::take(&mut run)));
            let end = from_tag.find('>').map_or(from_tag.len(), |end| end + 1);
            let (tag, behind) = from_tag.split_at(end);
            page.push_str(&self.tag(tag));
            let (content, behind) = raw_content(tag, behind);
            if tag == EXPLANATION {
                let lines = content.split('\n').map(|line| self.line(line));
                page.push_str(&lines.collect::<Vec<String>>().join("\n"));
            } else if let Some(said) = self.packed(tag, content) {
                page.push_str(&said);
            } else {
                page.push_str(content);
            }
            rest = behind;
        }
        run.text.push_str(rest);
        page + &self.run(&run)
    }

    /// The text of a run as markup, with its terms turned back into buttons.
    fn run(&mut self, run: &Run<'_>) -> String {
        let mut said = escaped(&self.text(&unescaped(&run.text)));
        let mut buttons: Vec<(String, String)> = Vec::new();
        for ((id, words), mark) in run.terms.iter().zip(TERM_MARK..) {
            let Some(mark) = char::from_u32(mark).map(String::from) else {
                break;
            };
            let chinese = self.translator.say(words);
            let shown = [chinese.as_str(), *words];
            if let Some(shown) = shown.into_iter().find(|shown| said.contains(shown)) {
                said = said.replacen(shown, &mark, 1);
                buttons.push((mark, format!("{TERM}{id}\">{shown}</button>")));
            }
        }
        for (mark, button) in buttons {
            said = said.replace(&mark, &button);
        }
        said
    }

    /// A line of preformatted text as markup.
    fn line(&self, line: &str) -> String {
        escaped(&self.translator.line(&unescaped(line)))
    }

    /// A text, with the punctuation and the space around it.
    fn text(&mut self, english: &str) -> String {
        if english.trim() == "." {
            return english.replace('.', "。");
        }
        if !english.contains(|c: char| c.is_ascii_alphabetic()) {
            return english.to_owned();
        }
        if let Some(said) = self.said.get(english) {
            return said.clone();
        }
        let is_before = |c: char| c.is_whitespace() || ":,;.✓≈=?·".contains(c);
        let core = english.trim_start_matches(is_before);
        let (lead, core) = english.split_at(english.len() - core.len());
        let is_behind = |c: char| c.is_whitespace() || ",;".contains(c);
        let (core, trail) = core.split_at(core.trim_end_matches(is_behind).len());
        let chinese = self.translator.say(core);
        let said = if chinese == core {
            english.to_owned()
        } else {
            format!("{}{chinese}{}", wide(lead), wide(trail))
        };
        self.said.insert(english.to_owned(), said.clone());
        said
    }

    /// A tag, with its labels in the language.
    fn tag(&mut self, tag: &str) -> String {
        let mut said = tag.to_owned();
        for attribute in ATTRIBUTES {
            let opening = format!(" {attribute}=\"");
            let Some((before, behind)) = said.split_once(&opening) else {
                continue;
            };
            let Some((value, behind)) = behind.split_once('"') else {
                continue;
            };
            let value = escaped(&self.text(&unescaped(value)));
            said = format!("{before}{opening}{value}\"{behind}");
        }
        said
    }

    /// The content of a script that has texts of the report.
    fn packed(&mut self, tag: &str, content: &str) -> Option<String> {
        if !tag.starts_with("<script") {
            None
        } else if tag.contains(" id=\"manifest\"") {
            self.manifest(content)
        } else if tag.contains(" id=\"detail-") {
            self.detail(content)
        } else {
            None
        }
    }

    /// The manifest (payload.rs): the words for marks, and the captions of trials.
    fn manifest(&mut self, json: &str) -> Option<String> {
        let mut manifest: Value = serde_json::from_str(json).ok()?;
        let marks = manifest.get_mut("marks")?.as_array_mut()?;
        marks.iter_mut().for_each(|mark| self.value(mark));
        for condition in manifest.get_mut("conditions")?.as_array_mut()? {
            let trials = condition.get_mut("trials")?.as_array_mut()?;
            let captions = trials
                .iter_mut()
                .filter_map(|trial| trial.get_mut("caption"));
            captions.for_each(|caption| self.value(caption));
        }
        Some(in_script(&manifest))
    }

    fn value(&mut self, value: &mut Value) {
        if let Value::String(text) = value {
            *text = self.text(text);
        }
    }

    /// A request or connection (html/details.rs): deflated markup in base64.
    fn detail(&mut self, packed: &str) -> Option<String> {
        let packed = STANDARD.decode(packed).ok()?;
        let mut english = String::new();
        let mut decoder = ZlibDecoder::new(packed.as_slice());
        decoder.read_to_string(&mut english).ok()?;
        Some(deflated(self.markup(&english).as_bytes()))
    }
}

/// If `markup` begins with a term: its id, its words, and the rest. Causes do not count as terms here, because each is a text
/// by itself.
fn term(markup: &str) -> Option<(&str, &str, &str)> {
    let (id, behind) = markup.strip_prefix(TERM)?.split_once("\">")?;
    let (words, behind) = behind.split_once("</button>")?;
    id.starts_with("term-").then_some((id, words, behind))
}

/// The content of the element that `tag` begins, and the rest. The content is empty if the element contains texts.
fn raw_content<'p>(tag: &str, behind: &'p str) -> (&'p str, &'p str) {
    let name = tag.trim_start_matches('<').split([' ', '>']).next();
    let end = name
        .filter(|name| RAW.contains(name))
        .and_then(|name| behind.find(&format!("</{name}>")));
    behind.split_at(end.unwrap_or(0))
}

/// The Chinese counterpart of punctuation between texts.
fn wide(punctuation: &str) -> String {
    let mut text = punctuation.to_owned();
    for (latin, chinese) in [(": ", "："), (", ", "，"), ("; ", "；"), (". ", "。")] {
        text = text.replace(latin, chinese);
    }
    text
}

/// The text of markup without tags.
fn unescaped(markup: &str) -> String {
    let plain = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ];
    let mut text = markup.to_owned();
    for (reference, character) in plain {
        text = text.replace(reference, character);
    }
    text
}

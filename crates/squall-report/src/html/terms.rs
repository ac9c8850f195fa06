//! The terms of a report, explained where they occur: each is a button that opens its explanation, by pointer, touch and
//! keyboard, without a script.
//!
//! It explains and computes nothing. docs/METHOD.md has the rules behind the terms; those of causes are in `palette`.

use squall_base::record::Cause;

use super::text::escaped;
use crate::palette::CauseLook;

/// A term, as it appears in sentences.
struct Term {
    id: &'static str,
    words: &'static str,
    meaning: &'static str,
}

static TERMS: [Term; 9] = [
    Term {
        id: "term-mde",
        words: "MDE",
        meaning: "Minimum detectable effect: the smallest ratio that this many such pairs of trials show in four of five runs. A \
                  smaller difference may exist without being seen.",
    },
    Term {
        id: "term-own-error",
        words: "our own error",
        meaning: "How far squall itself may have moved a time: by sending late, and by running its links late. No smaller \
                  difference is reported.",
    },
    Term {
        id: "term-noise",
        words: "noise floor",
        meaning: "How much a variant differs from itself, measured because the recipe has it twice under two names.",
    },
    Term {
        id: "term-load",
        words: "cannot carry the load",
        meaning: "Fewer than 95 % of the requests asked for succeeded in time. Waiting requests pile up for as long as the load \
                  lasts, so response times depend on how long that is.",
    },
    Term {
        id: "term-pairs",
        words: "pairs of trials",
        meaning: "Trials of both variants under the same condition with the same seed: their links drop the same \
                  packets as long as the variants send the same ones. Only such pairs are compared.",
    },
    Term {
        id: "term-confidence",
        words: "95 % confidence",
        meaning: "Of a hundred such runs, about 95 would have an interval that contains the true value.",
    },
    Term {
        id: "term-cwnd",
        words: "congestion window",
        meaning: "How much a sender may have in flight without an acknowledgement. It shrinks when packets are lost.",
    },
    Term {
        id: "term-hol",
        words: "head-of-line blocking",
        meaning: "Bytes that have arrived wait for lost bytes of other requests, because a connection delivers bytes in order.",
    },
    Term {
        id: "term-distance",
        words: "the configured delay",
        meaning: "The time that packets need on a link without loss and queues, there and back. No protocol can avoid it.",
    },
];

/// `text` as markup in which each known term is explained.
pub(super) fn explained(text: &str) -> String {
    let mut markup = String::new();
    let mut rest = text;
    while let Some((at, term)) = first_term(rest) {
        let (before, after) = rest.split_at(at);
        markup += &escaped(before);
        markup += &button(term.id, term.words);
        rest = &after[term.words.len()..];
    }
    markup + &escaped(rest)
}

fn first_term(text: &str) -> Option<(usize, &'static Term)> {
    let found = TERMS
        .iter()
        .filter_map(|term| Some((text.find(term.words)?, term)));
    found.min_by_key(|(at, _)| *at)
}

/// The name of a cause, explained.
pub(super) fn cause(cause: Cause) -> String {
    button(&format!("cause-{}", cause.name()), cause.name())
}

fn button(id: &str, words: &str) -> String {
    format!("<button type=\"button\" class=\"term\" popovertarget=\"{id}\">{words}</button>")
}

/// Appends the explanations that `page` refers to.
pub(super) fn push_explanations(page: &mut String) {
    let is_used = |id: &str| page.contains(&format!("popovertarget=\"{id}\""));
    let terms = TERMS
        .iter()
        .filter(|term| is_used(term.id))
        .map(|term| explanation(term.id, term.words, term.meaning));
    let causes = Cause::ALL.into_iter().filter_map(|cause| {
        let id = format!("cause-{}", cause.name());
        is_used(&id).then(|| explanation(&id, cause.name(), CauseLook::of(cause).meaning))
    });
    let all: String = terms.chain(causes).collect();
    if !all.is_empty() {
        page.push_str(&format!(
            "<aside class=\"terms\" aria-label=\"Terms\">\n{all}</aside>\n"
        ));
    }
}

fn explanation(id: &str, words: &str, meaning: &str) -> String {
    format!("<p popover id=\"{id}\"><b>{words}</b>: {meaning}</p>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_become_buttons_and_the_rest_is_escaped() {
        let markup = explained("h1 <b>: beyond our own error of 2 ms, MDE n/a");
        assert_eq!(
            markup,
            "h1 &lt;b&gt;: beyond <button type=\"button\" class=\"term\" popovertarget=\"term-own-error\">our own \
             error</button> of 2 ms, <button type=\"button\" class=\"term\" popovertarget=\"term-mde\">MDE</button> n/a"
        );
        assert_eq!(explained("nothing & more"), "nothing &amp; more");
    }

    #[test]
    fn only_terms_that_are_used_are_explained() {
        let mut page = explained("MDE 1.2x") + &cause(Cause::Hol);
        push_explanations(&mut page);
        assert_eq!(page.matches("<p popover id=").count(), 2);
        assert!(page.contains("<p popover id=\"term-mde\"><b>MDE</b>: Minimum"));
        assert!(page.contains("<p popover id=\"cause-hol\"><b>hol</b>: Head-of-line"));
    }

    #[test]
    fn page_without_terms_has_no_explanations() {
        let mut page = String::from("h1 wins");
        push_explanations(&mut page);
        assert_eq!(page, "h1 wins");
    }
}

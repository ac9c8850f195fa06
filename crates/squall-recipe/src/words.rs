//! Words in messages: a guess at what was meant, lists of what is allowed, and text without control characters.
//!
//! It knows neither recipes nor mistakes, and imports nothing of this crate: every other module may use it. `error` has
//! the messages themselves.

use std::borrow::Cow;

use squall_base::text::is_terminal_control;

/// `did you mean ...?` with the candidate closest to `word`, if one is close enough.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    // A third of the letters may be wrong, and always at least one: `h2` for `h2c`, `dleay` for `delay`.
    let tolerance = (word.chars().count() / 3).clamp(1, 4);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= tolerance)
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= tolerance)
        // If two are equally close, prefer the one that begins like the word: `h2` for `h2s`, not `h1s`.
        .min_by_key(|(distance, candidate)| {
            let begins_alike = candidate.starts_with(word) || word.starts_with(candidate);
            (*distance, !begins_alike)
        })
        .map(|(_, candidate)| format!("did you mean `{candidate}`?"))
}

/// `` `a`, `b` or `c` ``.
pub(crate) fn listed<S: AsRef<str>>(words: &[S]) -> Cow<'static, str> {
    let mut quoted: Vec<String> = words.iter().map(|w| format!("`{}`", w.as_ref())).collect();
    match quoted.pop() {
        None => "nothing".into(),
        Some(last) if quoted.is_empty() => last.into(),
        Some(last) => format!("{} or {last}", quoted.join(", ")).into(),
    }
}

/// Replaces control characters, which must not reach a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if is_terminal_control(c) && c != '\t' {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_similar_words_are_suggested() {
        let keys = ["delay", "loss"];
        assert_eq!(
            did_you_mean("dleay", keys).as_deref(),
            Some("did you mean `delay`?")
        );
        assert_eq!(
            did_you_mean("los", keys).as_deref(),
            Some("did you mean `loss`?")
        );
        assert_eq!(
            did_you_mean("h2", ["h1", "h2c"]).as_deref(),
            Some("did you mean `h2c`?")
        );
        assert_eq!(
            did_you_mean("h2s", ["h1s", "h2"]).as_deref(),
            Some("did you mean `h2`?")
        );
        assert_eq!(did_you_mean("jitter", keys), None);
        assert_eq!(did_you_mean(&"x".repeat(100_000), keys), None);
    }
}

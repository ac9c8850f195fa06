//! Escapes foreign text for markup, and has the few pieces of markup that several modules share.
//!
//! Variant names, questions and error texts come from recipes and peers; none of them may become markup.

use squall_analysis::{Quantile, figure};

/// `text` escaped for use between tags and in quoted attributes (HTML, section 13.3).
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

/// A latency in milliseconds, ready for markup.
pub(crate) fn latency(value: Quantile) -> String {
    escaped(&figure::quantile(value))
}

/// The swatch that shows the colour of a variant's points beside its name.
pub(crate) fn swatch(variant: usize) -> String {
    format!(
        "<i class=\"swatch\" style=\"--series: var(--series-{})\"></i>",
        variant % SERIES
    )
}

/// The number of colours in style.css; further variants start over with the first.
pub(crate) const SERIES: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped() {
        assert_eq!(
            escaped("<img src=x onerror='a'>&\""),
            "&lt;img src=x onerror=&#39;a&#39;&gt;&amp;&quot;"
        );
    }
}

//! Commands and configurations with placeholders in braces, commands split into words, and paths in quotes.
//!
//! The caller decides which placeholders exist and what they stand for.

use std::path::Path;

/// A text as a sequence of pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Placeholder(&'static str),
}

/// Splits at blanks; quotes of both kinds hold blanks together. `None`: a quote is not closed.
pub(crate) fn words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in command.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// A path in quotes, as nginx and HAProxy read them.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

impl Template {
    /// Parses a text. The error is a text in braces that is not a placeholder.
    pub(crate) fn read(text: &str, placeholders: &[&'static str]) -> Result<Template, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain += &rest[..at];
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                plain += brace;
                rest = after;
                continue;
            }
            let (name, after) = match rest.split_once('}') {
                Some((name, after)) if brace == "{" => (name, after),
                _ => return Err(rest.chars().take(20).collect()),
            };
            let known = placeholders.iter().copied().find(|known| *known == name);
            let known = known.ok_or_else(|| name.chars().take(40).collect::<String>())?;
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Placeholder(known));
            rest = after;
        }
        plain += rest;
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Template(pieces))
    }

    pub(crate) fn has(&self, placeholder: &str) -> bool {
        let is_it =
            |piece: &Piece| matches!(piece, Piece::Placeholder(name) if *name == placeholder);
        self.0.iter().any(is_it)
    }

    /// The text, if it has no placeholders.
    pub(crate) fn plain(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Fills in the placeholders. The error is a placeholder without a value.
    pub(crate) fn fill(
        &self,
        value: impl Fn(&str) -> Option<String>,
    ) -> Result<String, &'static str> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(plain) => text += plain,
                Piece::Placeholder(name) => text += &value(name).ok_or(*name)?,
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn commands_are_split_into_words() {
        let read = |text: &str| words(text).map(|words| words.join("|"));
        assert_eq!(
            read(" a  'b c' d\"e f\"g '' ").as_deref(),
            Some("a|b c|de fg|")
        );
        assert_eq!(read("a 'b"), None);
    }

    #[test]
    fn placeholders_are_filled_in_and_doubled_braces_are_literal() {
        let template = Template::read("{{a {b}}} {c}", &["b", "c"]).unwrap();
        let fill = |name: &str| (name == "b").then(|| "{c}".to_owned());
        assert_eq!(template.fill(fill), Err("c"));
        assert_eq!(
            template.fill(|_| Some("{c}".to_owned())).unwrap(),
            "{a {c}} {c}"
        );
        assert_eq!(Template::read("{d}", &["b"]), Err("d".to_owned()));
    }

    proptest! {
        #[test]
        fn doubled_braces_become_single_ones(text in "\\PC{0,40}") {
            let doubled = text.replace('{', "{{").replace('}', "}}");
            let template = Template::read(&doubled, &[]).unwrap();
            prop_assert_eq!(template.fill(|_| None).unwrap(), text);
        }

        #[test]
        fn parsing_never_panics(text in "[ a'\"{}_\\PC]{0,40}") {
            let _ = Template::read(&text, &["a", "_"]);
            let _ = words(&text);
        }
    }
}

//! The command line as results show it, without what may be a credential: the values of header fields, bodies and form
//! fields, and the user of a URL.
//!
//! clap does the parsing; a flag that is not known here is shown unchanged. This module also quotes words for a shell.

use squall_base::secrets::redacted_text;

/// What stands in place of a value that is left out.
const LEFT_OUT: &str = "...";

/// Flags whose value may be a credential, in their long and their short form.
const LONG: [&str; 3] = ["--header", "--data-text", "--form"];
const SHORT: [char; 2] = ['H', 'F'];

/// Short flags without a value, which may stand before another short flag in the same argument.
const SWITCHES: [char; 6] = ['k', '4', '6', 'q', 'v', 'h'];

/// This process's command line.
pub(crate) fn shown() -> Vec<String> {
    // The path of the program says nothing about the results.
    let arguments = std::env::args_os().skip(1);
    let arguments = arguments.map(|it| it.to_string_lossy().into_owned());
    std::iter::once("squall".to_owned())
        .chain(without_credentials(arguments))
        .collect()
}

/// `text` without the user and the password of a URL in it.
pub(crate) fn without_user(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..authority_end].rfind('@') {
        Some(at) => format!("{scheme}://{LEFT_OUT}{}", &rest[at..]),
        None => text.to_owned(),
    }
}

/// `arguments` without what may be a credential in them.
pub(crate) fn without_credentials(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut shown = Vec::new();
    let mut is_value = false;
    for argument in arguments {
        if is_value {
            shown.push(LEFT_OUT.to_owned());
            is_value = false;
            continue;
        }
        match Credential::in_argument(&argument) {
            Credential::None => shown.push(without_user(&argument)),
            Credential::From(place) => shown.push(format!("{}{LEFT_OUT}", &argument[..place])),
            Credential::Next => {
                shown.push(argument);
                is_value = true;
            }
        }
    }
    shown
}

/// Words of a command as one line for a shell, without what looks like a secret in them.
pub(crate) fn redacted_in_shell(words: &[String]) -> String {
    // Secrets are removed before quotes are added: a quote would look like part of a URL.
    let quoted: Vec<String> = (words.iter())
        .map(|word| in_shell(&redacted_text(word)))
        .collect();
    quoted.join(" ")
}

/// A word as a POSIX shell reads it back.
pub(crate) fn in_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Where a credential may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Credential {
    /// Nowhere.
    None,
    /// In this argument, from this byte on.
    From(usize),
    /// In the next argument.
    Next,
}

impl Credential {
    fn in_argument(argument: &str) -> Credential {
        for long in LONG {
            match argument.strip_prefix(long) {
                Some("") => return Credential::Next,
                Some(rest) if rest.starts_with('=') => return Credential::From(long.len() + 1),
                _ => {}
            }
        }
        let Some(cluster) = argument.strip_prefix('-') else {
            return Credential::None;
        };
        let flag = cluster.trim_start_matches(SWITCHES);
        if !flag.starts_with(SHORT) {
            return Credential::None;
        }
        let value = argument.len() - flag.len() + 1;
        if value == argument.len() {
            Credential::Next
        } else {
            Credential::From(value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_left_out() {
        let shown = |line: &str| without_credentials(line.split(' ').map(str::to_owned)).join(" ");
        for (line, expected) in [
            ("load -H a:b -n 3", "load -H ... -n 3"),
            ("load -Ha:b http://x/", "load -H... http://x/"),
            ("load -kH a:b", "load -kH ..."),
            (
                "load --header=a:b --header c:d",
                "load --header=... --header ...",
            ),
            ("load -F a=b --data-text z", "load -F ... --data-text ..."),
            ("load http://u:p@x/a@b", "load http://...@x/a@b"),
            (
                "load -m 16 --http 2 http://x/?a=1",
                "load -m 16 --http 2 http://x/?a=1",
            ),
        ] {
            assert_eq!(shown(line), expected);
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell_only_if_necessary() {
        for (word, expected) in [
            ("./mine.toml", "./mine.toml"),
            ("my recipe.toml", "'my recipe.toml'"),
            ("it's", "'it'\\''s'"),
            ("$HOME", "'$HOME'"),
            ("", "''"),
        ] {
            assert_eq!(in_shell(word), expected);
        }
    }
}

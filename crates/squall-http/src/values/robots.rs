//! robots.txt (RFC 9309): what a server asks automatic clients not to request.
//!
//! Only the text is read here; the caller fetches it, and decides which requests to skip. `Sitemap` and other lines that the
//! RFC does not define are skipped. Paths are compared as octets, because they need not be text.

/// The rules of a robots.txt for one client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Robots {
    rules: Vec<Rule>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// A path in normal form, which may contain `*` and end with `$`.
    pattern: Vec<u8>,
    allows: bool,
}

/// A group: the clients that it is for, and its rules.
#[derive(Default)]
struct Group {
    is_named: bool,
    is_for_all: bool,
    rules: Vec<Rule>,
}

impl Robots {
    /// The rules for the client with this product token: those of all groups that name it, or if no group does, those of the
    /// groups for `*` (RFC 9309, section 2.2.1). Lines that are not rules are skipped.
    pub fn parse(text: &[u8], product: &str) -> Robots {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut groups: Vec<Group> = Vec::new();
        let mut is_heading = false;
        for line in text.split(|byte| matches!(byte, b'\r' | b'\n')) {
            let Some((key, value)) = key_and_value(line) else {
                continue;
            };
            if key.eq_ignore_ascii_case(b"user-agent") {
                if !is_heading {
                    groups.push(Group::default());
                }
                is_heading = true;
                if let Some(group) = groups.last_mut() {
                    group.is_named |= token(value).eq_ignore_ascii_case(product.as_bytes());
                    group.is_for_all |= value == b"*";
                }
                continue;
            }
            let allows = key.eq_ignore_ascii_case(b"allow");
            if !allows && !key.eq_ignore_ascii_case(b"disallow") {
                continue;
            }
            is_heading = false;
            // A rule before the first group applies to no client, and an empty one allows everything.
            if let Some(group) = groups.last_mut()
                && !value.is_empty()
            {
                let pattern = normal(value);
                group.rules.push(Rule { pattern, allows });
            }
        }
        let is_named = groups.iter().any(|group| group.is_named);
        let own = groups
            .into_iter()
            .filter(|group| group.is_named || (!is_named && group.is_for_all));
        Robots {
            rules: own.flat_map(|group| group.rules).collect(),
        }
    }

    /// Whether the path and query of a URL may be requested. Of the rules that match, the one with the longest pattern
    /// decides, and `Allow` among equally long ones (RFC 9309, section 2.2.2). A target that no rule matches may be
    /// requested; robots.txt itself always may.
    pub fn allows(&self, target: &str) -> bool {
        let target = normal(target.as_bytes());
        if target == b"/robots.txt" {
            return true;
        }
        let matching = self.rules.iter();
        let matching = matching.filter(|rule| is_match(&rule.pattern, &target));
        let strongest = matching.max_by_key(|rule| (rule.pattern.len(), rule.allows));
        strongest.is_none_or(|rule| rule.allows)
    }
}

/// The key and the value of a line, without its comment.
fn key_and_value(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.split(|byte| *byte == b'#').next()?;
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (key, value) = (line.get(..colon)?, line.get(colon + 1..)?);
    Some((key.trim_ascii(), value.trim_ascii()))
}

/// The product token at the beginning of a value: letters, `_` and `-`.
fn token(value: &[u8]) -> &[u8] {
    let is_of_token = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-');
    let end = value.iter().position(|byte| !is_of_token(byte));
    &value[..end.unwrap_or(value.len())]
}

/// A path or pattern in the form in which RFC 9309, section 2.2.2, compares them: unreserved characters are not
/// percent-encoded, octets beyond ASCII are, and percent-encodings have upper-case digits.
fn normal(text: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut form = Vec::with_capacity(text.len());
    let encode = |form: &mut Vec<u8>, byte: u8| {
        let digit = |value: u8| DIGITS[usize::from(value & 0xf)];
        form.extend([b'%', digit(byte >> 4), digit(byte)]);
    };
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (*first, encoded_octet(after)) {
            (b'%', Some((octet, after))) => {
                rest = after;
                if octet.is_ascii_alphanumeric() || b"-._~".contains(&octet) {
                    form.push(octet);
                } else {
                    encode(&mut form, octet);
                }
            }
            (byte, _) if byte.is_ascii() => form.push(byte),
            (byte, _) => encode(&mut form, byte),
        }
    }
    form
}

/// The octet of two hexadecimal digits, and what follows them.
fn encoded_octet(text: &[u8]) -> Option<(u8, &[u8])> {
    let ([high, low], after) = text.split_first_chunk::<2>()?;
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let octet = digit(*high)? * 16 + digit(*low)?;
    Some((u8::try_from(octet).ok()?, after))
}

/// Whether a pattern matches the beginning of a target, or the whole target if the pattern ends with `$`.
fn is_match(pattern: &[u8], target: &[u8]) -> bool {
    let (pattern, is_whole) = match pattern.strip_suffix(b"$") {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let mut parts = pattern.split(|byte| *byte == b'*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = target.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&[u8]> = parts.collect();
    let Some(last) = parts.pop() else {
        return !is_whole || rest.is_empty();
    };
    // Taking the first occurrence of each part leaves the most text for the parts that follow.
    for part in parts {
        match after(part, rest) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    if is_whole {
        rest.ends_with(last)
    } else {
        after(last, rest).is_some()
    }
}

/// What follows the first occurrence of a part.
fn after<'t>(part: &[u8], text: &'t [u8]) -> Option<&'t [u8]> {
    if part.is_empty() {
        return Some(text);
    }
    let mut windows = text.windows(part.len());
    let at = windows.position(|window| window == part)?;
    text.get(at + part.len()..)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn allows(text: &str, target: &str) -> bool {
        Robots::parse(text.as_bytes(), "squall").allows(target)
    }

    #[test]
    fn longest_rule_wins_and_allow_wins_ties() {
        let text = "User-agent: *\nDisallow: /a\nAllow: /a/b\nDisallow: /c\nAllow: /c\n";
        assert!(!allows(text, "/a"));
        assert!(!allows(text, "/a/c?d"));
        assert!(allows(text, "/a/b/c"));
        assert!(allows(text, "/c/d"));
        assert!(allows(text, "/"));
    }

    #[test]
    fn stars_and_dollars_are_special() {
        let text = "User-agent: *\nDisallow: /*.iso$\nDisallow: /d*/e*f\nDisallow: /g$\n";
        assert!(!allows(text, "/x/y.iso"));
        assert!(!allows(text, "/.iso.iso"));
        assert!(allows(text, "/y.iso?a"));
        assert!(!allows(text, "/d1/e2f3"));
        assert!(allows(text, "/d1/f"));
        assert!(!allows(text, "/g"));
        assert!(allows(text, "/g/h"));
        assert!(!allows("User-agent: *\nDisallow: *\n", "/anything"));
    }

    #[test]
    fn groups_for_the_product_replace_those_for_all() {
        let text = "user-agent: other\nuser-agent: SQUALL/1.0\ndisallow: /a # no load\n\n\
            user-agent: *\ndisallow: /\n\nuser-agent: squall\nsitemap: /s\ndisallow: /b\n";
        assert!(!allows(text, "/a"));
        assert!(!allows(text, "/b"));
        assert!(allows(text, "/c"));
        let others = Robots::parse(text.as_bytes(), "somebody");
        assert!(!others.allows("/c"));
        assert!(others.allows("/robots.txt"));
        assert!(allows("user-agent: other\ndisallow: /\n", "/"));
    }

    #[test]
    fn lines_that_are_not_rules_restrict_nothing() {
        for text in [
            "",
            "Disallow: /",
            "User-agent: *\nDisallow:\n",
            "User-agent: *\nDisallow /\n",
            "<!doctype html><p>Disallow: /",
            "User-agent: *\n# Disallow: /\n",
        ] {
            assert!(allows(text, "/a"), "{text}");
        }
        let marked = b"\xef\xbb\xbfUser-agent: *\rDisallow: /\r";
        assert!(!Robots::parse(marked, "squall").allows("/a"));
    }

    #[test]
    fn encoded_octets_are_compared_in_one_form() {
        assert!(!allows("User-agent: *\nDisallow: /a%3cd\n", "/a%3Cd"));
        assert!(!allows("User-agent: *\nDisallow: /%7ejoe/\n", "/~joe/x"));
        assert!(!allows("User-agent: *\nDisallow: /\u{e4}\n", "/%C3%A4"));
        assert!(allows("User-agent: *\nDisallow: /a%2fb\n", "/a/b"));
        assert!(!allows("User-agent: *\nDisallow: /a%\n", "/a%"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(text in vec(any::<u8>(), 0..300), target in ".{0,40}") {
            Robots::parse(&text, "squall").allows(&target);
        }

        #[test]
        fn any_pattern_matches_without_panic(pattern in "[/ab*$%0-9]{0,12}", target in "[/ab%0-9]{0,12}") {
            let text = format!("User-agent: squall\nDisallow: {pattern}\n");
            Robots::parse(text.as_bytes(), "squall").allows(&target);
        }

        /// A pattern without special characters is a prefix.
        #[test]
        fn plain_pattern_is_a_prefix(pattern in "/[ab/]{0,6}", target in "/[ab/]{0,8}") {
            let is_disallowed = !allows(&format!("User-agent: *\nDisallow: {pattern}\n"), &target);
            prop_assert_eq!(is_disallowed, target.starts_with(&pattern));
        }
    }
}

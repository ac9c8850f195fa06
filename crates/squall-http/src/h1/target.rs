//! The target of a request: reduces all its forms to the path and query (RFC 9112, section 3.2).

use std::borrow::Cow;

use crate::error::ConnectionError;

/// What a request targets.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target<'a> {
    /// The path and query, or `*`.
    pub(super) path: Cow<'a, str>,
    /// The host, if the target names one.
    pub(super) authority: Option<&'a str>,
}

impl<'a> Target<'a> {
    pub(super) fn read(method: &str, text: &'a str) -> Result<Target<'a>, ConnectionError> {
        if method == "CONNECT" {
            return Err(ConnectionError::Connect);
        }
        // A fragment is never sent (RFC 9112, section 3.2.1).
        if !text.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
            return Err(ConnectionError::Target);
        }
        if text.starts_with('/') || (method, text) == ("OPTIONS", "*") {
            return Ok(Target {
                path: text.into(),
                authority: None,
            });
        }
        absolute(method, text).ok_or(ConnectionError::Target)
    }
}

/// The absolute form, which only proxies need but every server must accept.
fn absolute<'a>(method: &str, text: &'a str) -> Option<Target<'a>> {
    let (scheme, rest) = text.split_once("://")?;
    let is_known = ["http", "https"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known));
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let path = match path {
        "" if method == "OPTIONS" => "*".into(),
        "" => "/".into(),
        query if query.starts_with('?') => format!("/{query}").into(),
        path => path.into(),
    };
    let is_right = is_known && !authority.is_empty() && is_host(authority.as_bytes());
    is_right.then_some(Target {
        path,
        authority: Some(authority),
    })
}

/// Whether this can be a host, with or without a port, judging by the characters of RFC 3986, sections 3.2.2 and 3.2.3.
/// The host may be empty (RFC 9110, section 7.2).
pub(super) fn is_host(text: &[u8]) -> bool {
    text.iter().all(|b| {
        matches!(b, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'%')
            || matches!(
                b,
                b'!' | b'$' | b'&'..=b',' | b';' | b'=' | b':' | b'[' | b']'
            )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, text: &str) -> Result<(String, Option<String>), ConnectionError> {
        let target = Target::read(method, text)?;
        Ok((
            target.path.into_owned(),
            target.authority.map(str::to_owned),
        ))
    }

    #[test]
    fn all_target_forms_become_path_and_query() {
        for (method, text, path, authority) in [
            ("GET", "/a?b", "/a?b", None),
            ("OPTIONS", "*", "*", None),
            ("GET", "http://a:80/b?c", "/b?c", Some("a:80")),
            ("get", "HTTPS://[::1]?c", "/?c", Some("[::1]")),
            ("GET", "http://a", "/", Some("a")),
            ("OPTIONS", "http://a", "*", Some("a")),
            ("OPTIONS", "http://a/", "/", Some("a")),
        ] {
            let expected = (path.to_owned(), authority.map(str::to_owned));
            assert_eq!(read(method, text), Ok(expected), "{method} {text}");
        }
    }

    #[test]
    fn invalid_targets_are_refused() {
        for text in [
            "*",
            "a",
            "a:80",
            "/#a",
            "/\u{e9}",
            "/\u{7f}",
            "http:///a",
            "http://u@a/",
            "http:/a",
            "ftp://a/",
            "://a/",
        ] {
            assert_eq!(read("GET", text), Err(ConnectionError::Target), "{text}");
        }
        assert_eq!(read("CONNECT", "a:80"), Err(ConnectionError::Connect));
    }
}

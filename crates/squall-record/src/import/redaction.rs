//! A recording without the secrets in it, for the copy in a run's folder: HAR files, scripts, vegeta's targets, and any other
//! text.
//!
//! `squall_base::secrets` defines what counts as a secret; this module knows where the formats have names and values. The copy
//! is for people: nothing is checked, and the order of fields may change.

use std::borrow::Cow;

use serde_json::Value;
use squall_base::secrets::{REDACTED, is_secret_name, is_secret_parameter, redacted_text};
use squall_base::text::bytes_without_bom;

/// `bytes` without secrets; borrowed if there are none, or if it is not text.
pub fn redacted_recording(bytes: &[u8]) -> Cow<'_, [u8]> {
    let Ok(text) = std::str::from_utf8(bytes_without_bom(bytes)) else {
        return Cow::Borrowed(bytes);
    };
    if let Some(shown) = redacted_json(text) {
        return match shown {
            Cow::Borrowed(_) => Cow::Borrowed(bytes),
            Cow::Owned(shown) => Cow::Owned(shown.into_bytes()),
        };
    }
    let mut is_changed = false;
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        // A line of vegeta's JSON format, or of any text.
        let redacted = redacted_json(line).unwrap_or_else(|| redacted_text(line));
        is_changed |= matches!(redacted, Cow::Owned(_));
        shown.push_str(&redacted);
    }
    if is_changed {
        Cow::Owned(shown.into_bytes())
    } else {
        Cow::Borrowed(bytes)
    }
}

/// `None` if the text is not a JSON object or list.
fn redacted_json(text: &str) -> Option<Cow<'_, str>> {
    let mut value: Value = serde_json::from_str(text).ok()?;
    if !value.is_object() && !value.is_array() {
        return None;
    }
    if !redact(&mut value) {
        return Some(Cow::Borrowed(text));
    }
    Some(Cow::Owned(format!("{value}\n")))
}

/// Takes the secrets out of a value. Returns whether there were any.
fn redact(value: &mut Value) -> bool {
    match value {
        Value::String(text) => {
            let shown = redacted_text(text).into_owned();
            let is_changed = shown != *text;
            *text = shown;
            is_changed
        }
        Value::Array(values) => match values.as_mut_slice() {
            // A header field of a script.
            [Value::String(name), content @ Value::String(_)] if is_secret_name(name.as_str()) => {
                blank(content)
            }
            values => redact_all(values),
        },
        Value::Object(fields) => {
            let name = fields.get("name").and_then(Value::as_str);
            let is_named_secret = name.is_some_and(is_secret_parameter);
            let mut is_changed = false;
            for (key, content) in fields {
                is_changed |= match key.as_str() {
                    // A header field or a parameter of a HAR file.
                    "value" if is_named_secret => blank(content),
                    "cookies" => blank_cookies(content),
                    key if is_secret_name(key) => blank(content),
                    _ => redact(content),
                };
            }
            is_changed
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn redact_all(values: &mut [Value]) -> bool {
    values
        .iter_mut()
        .fold(false, |is_changed, value| redact(value) | is_changed)
}

/// Replaces a secret, or each of a list.
fn blank(value: &mut Value) -> bool {
    match value {
        Value::Array(values) => values
            .iter_mut()
            .fold(false, |is_changed, value| blank(value) | is_changed),
        Value::String(text) if text.as_str() != REDACTED => {
            REDACTED.clone_into(text);
            true
        }
        other => redact(other),
    }
}

/// Replaces the values of a HAR file's cookies, whatever their names.
fn blank_cookies(cookies: &mut Value) -> bool {
    let cookies = cookies.as_array_mut().into_iter().flatten();
    cookies
        .filter_map(|cookie| cookie.get_mut("value"))
        .fold(false, |is_changed, value| blank(value) | is_changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_recordings_have_no_secrets() {
        let har = r#"{"log": {"entries": [{"request": {
            "url": "http://me:k1@server/a?token=k2&size=1",
            "headers": [{"name": "Authorization", "value": "Bearer k3"}, {"name": "Accept", "value": "*/*"}],
            "cookies": [{"name": "id", "value": "k4"}],
            "queryString": [{"name": "token", "value": "k5"}, {"name": "size", "value": "1"}]}}]}}"#;
        let script =
            r#"{"requests": [{"headers": [["cookie", "k1"], ["accept", "*/*"]]}], "steps": []}"#;
        let lines = "{\"url\": \"http://a/\", \"header\": {\"X-Api-Key\": [\"k1\", \"k2\"], \"Accept\": [\"*/*\"]}}\n\n";
        let targets = "GET http://a/\nAuthorization: Basic k1\nAccept: */*\n";
        for text in [har, script, lines, targets] {
            let shown =
                String::from_utf8(redacted_recording(text.as_bytes()).into_owned()).unwrap();
            for secret in ["k1", "k2", "k3", "k4", "k5"] {
                assert!(!shown.contains(secret), "{secret}: {shown}");
            }
            assert!(shown.contains(REDACTED) && shown.contains("*/*"), "{shown}");
            let again = redacted_recording(shown.as_bytes());
            assert!(matches!(again, Cow::Borrowed(_)), "{shown}");
        }
    }

    /// Programs on Windows begin files with a byte order mark, which every parser here skips.
    #[test]
    fn recording_with_a_byte_order_mark_has_no_secrets_either() {
        let field = "\u{feff}{\n  \"name\": \"Authorization\",\n  \"value\": \"Bearer k1\"\n}\n";
        let shown = String::from_utf8(redacted_recording(field.as_bytes()).into_owned()).unwrap();
        assert!(!shown.contains("k1") && shown.contains(REDACTED), "{shown}");
    }

    #[test]
    fn recording_without_secrets_stays_as_it_is() {
        for bytes in [
            &b""[..],
            b"0.0\t/a\n",
            b"\xff\xfe: token",
            b"\xef\xbb\xbf{\"url\": \"/a\"}",
            b"{\"url\":  \"/a\"}\n",
            b"12",
        ] {
            assert!(matches!(redacted_recording(bytes), Cow::Borrowed(_)));
        }
    }
}

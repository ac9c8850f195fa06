//! Which keys of two values differ, and how; keys and values are written as in plan.json.
//!
//! This module does not know plans: `compare` says what the values are.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

/// At most this many keys are named.
const KEYS_AT_MOST: usize = 5;
/// At most this much of a value is shown.
const VALUE_CHARS: usize = 40;

/// The keys in which `after` differs from `before`, with both values: `tcp.no_delay (true, now false)`. `None` if they do not
/// differ.
pub(super) fn differing_keys(before: &impl Serialize, after: &impl Serialize) -> Option<String> {
    let json = |error: serde_json::Error| Value::String(error.to_string());
    let before = serde_json::to_value(before).unwrap_or_else(json);
    let after = serde_json::to_value(after).unwrap_or_else(json);
    let mut found = Vec::new();
    collect("", &before, &after, &mut found);
    let further = found.len().saturating_sub(KEYS_AT_MOST);
    found.truncate(KEYS_AT_MOST);
    if further > 0 {
        found.push(format!("{further} more"));
    }
    (!found.is_empty()).then(|| found.join(", "))
}

fn collect(key: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    match (before, after) {
        _ if before == after => {}
        (Value::Object(before), Value::Object(after)) => {
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for name in names {
                let value_in = |side: &serde_json::Map<String, Value>| {
                    side.get(name).cloned().unwrap_or(Value::Null)
                };
                let key = below(key, name);
                collect(&key, &value_in(before), &value_in(after), found);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (place, (before, after)) in before.iter().zip(after).enumerate() {
                collect(&below(key, &place.to_string()), before, after, found);
            }
        }
        _ => found.push(format!("{key} ({}, now {})", short(before), short(after))),
    }
}

fn below(key: &str, name: &str) -> String {
    if key.is_empty() {
        name.to_owned()
    } else {
        format!("{key}.{name}")
    }
}

fn short(value: &Value) -> String {
    let text = match value {
        Value::Null => return "not set".to_owned(),
        Value::Array(list) => return format!("a list of {}", list.len()),
        value => value.to_string(),
    };
    match text.char_indices().nth(VALUE_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differing_keys_are_named_with_both_values() {
        let before = json!({
            "path": "client ~h1~> server",
            "hops": [{ "tcp": { "no_delay": true, "max_cwnd": null, "buffers": [1, 2] } }],
        });
        let mut after = before.clone();
        assert_eq!(differing_keys(&before, &after), None);
        after["hops"][0]["tcp"] = json!({ "no_delay": false, "max_cwnd": 10, "buffers": [1] });
        assert_eq!(
            differing_keys(&before, &after).as_deref(),
            Some(
                "hops.0.tcp.buffers (a list of 2, now a list of 1), hops.0.tcp.max_cwnd (not set, now 10), \
                 hops.0.tcp.no_delay (true, now false)"
            )
        );
    }

    #[test]
    fn many_keys_and_long_values_are_cut() {
        let object = |value: &str| {
            let keys = (0..7).map(|n| (format!("key{n}"), Value::String(value.repeat(50))));
            Value::Object(keys.collect())
        };
        let said = differing_keys(&object("a"), &object("b")).unwrap();
        assert!(said.contains("key4 (\"aaa"), "{said}");
        assert!(said.ends_with("bbb...), 2 more"), "{said}");
        assert!(!said.contains("key5"), "{said}");
    }
}

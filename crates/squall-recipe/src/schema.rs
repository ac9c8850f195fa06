//! A JSON Schema of recipes, for editors that complete keys and flag unknown ones.
//!
//! It is generated from the vocabulary (`shapes`), so it has every key. It describes values only as far as an editor can
//! use it: tables, words and lists. Only `parse` decides whether a value is valid; docs/RECIPES.md explains each key.

use serde_json::{Map, Value, json};
use squall_base::plan::{Measure, PROGRAMS};

use crate::fast::FastPath;
use crate::shapes::{self, Shape};

/// The dialect that it is written in.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// A part of every measure that is restricted to some targets: there are too many of these to list.
const OF_TARGETS: &str = " of /";

/// The schema of a recipe, for its TOML converted to JSON.
pub fn schema() -> Value {
    let mut schema = table(&shapes::RECIPE);
    schema["$schema"] = json!(DIALECT);
    schema["title"] = json!("A recipe of squall");
    schema["required"] = json!(["name", "question", "load", "variant"]);
    schema
}

/// A table with these keys and no others.
fn table(shape: &Shape) -> Value {
    let keys = shape.keys().into_iter();
    let keys = keys.map(|key| (key.to_owned(), value(shape, key)));
    json!({
        "type": "object",
        "title": shape.label,
        "properties": Map::from_iter(keys),
        "additionalProperties": false,
    })
}

/// Tables under arbitrary names.
fn named_tables(shape: &Shape) -> Value {
    json!({ "type": "object", "additionalProperties": table(shape) })
}

fn one_or_more(value: &Value) -> Value {
    json!({ "anyOf": [value, { "type": "array", "items": value, "minItems": 1 }] })
}

fn text_or(shape: &Shape) -> Value {
    json!({ "anyOf": [{ "type": "string" }, table(shape)] })
}

fn words(words: impl Iterator<Item = String>) -> Value {
    json!({ "enum": words.collect::<Vec<String>>() })
}

/// The values that a key of a table may have.
fn value(of: &Shape, key: &str) -> Value {
    let is_of = |shape: &Shape| of.label == shape.label;
    match key {
        "load" => table(&shapes::LOAD),
        "request" if is_of(&shapes::RECIPE) => json!({ "anyOf": [
            table(&shapes::REQUEST),
            { "type": "array", "items": table(&shapes::REQUESTS), "minItems": 1 },
        ] }),
        "response" => table(&shapes::RESPONSE),
        "conditions" => table(&shapes::CONDITIONS),
        "variant" if is_of(&shapes::RECIPE) => {
            json!({ "type": "array", "items": table(&shapes::VARIANT), "minItems": 1 })
        }
        "station" => named_tables(&shapes::STATION),
        "profile" => named_tables(&shapes::PROFILE),
        "hop" => named_tables(&shapes::HOP),
        "primary" => table(&shapes::PRIMARY),
        "client" | "server" => table(&shapes::SIDE),
        "pool" => table(&shapes::POOL),
        "http1" => table(&shapes::HTTP1),
        "http2" => table(&shapes::HTTP2),
        "http3" => table(&shapes::HTTP3),
        "tls" => table(&shapes::TLS),
        "tcp" => table(&shapes::TCP),
        "records" => text_or(&shapes::RECORDS),
        "framing" => text_or(&shapes::FRAMING),
        "window_updates" => text_or(&shapes::WINDOW_UPDATES),
        "connections" => json!({ "anyOf": [
            { "type": ["string", "integer"] },
            table(&shapes::CONNECTIONS),
        ] }),
        "body" if !is_of(&shapes::RESPONSE) => text_or(&shapes::BODY),
        "measure" => one_or_more(&json!({ "anyOf": [
            words(Measure::all().map(|measure| measure.to_string())),
            { "type": "string", "pattern": OF_TARGETS },
        ] })),
        "extends" => words(PROGRAMS.into_iter().map(str::to_owned)),
        "next_link" => {
            json!({ "type": "array", "items": table(&shapes::NEXT_LINK), "minItems": 1 })
        }
        "delay" | "loss" | "link" if is_of(&shapes::PRIMARY) || is_of(&shapes::NEXT_LINK) => {
            text_or(&shapes::DIRECTIONS)
        }
        "delay" | "loss" | "link" if !is_of(&shapes::PAGE) => {
            one_or_more(&text_or(&shapes::DIRECTIONS))
        }
        "schedule" if is_of(&shapes::PRIMARY) => json!({ "type": "string" }),
        "schedule" | "hosts" => one_or_more(&json!({ "type": "string" })),
        "fast" => words(FastPath::WORDS.iter().map(|(word, _)| (*word).to_owned())),
        "up" | "down" => json!({ "type": "string" }),
        "name" | "question" | "path" | "command" => json!({ "type": "string" }),
        // Any value: the parser checks it.
        _ => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the schema allows a value. Knows only the keywords that this schema uses.
    fn allows(schema: &Value, value: &Value) -> bool {
        let is_of = |kind: &Value| match kind.as_str() {
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("integer") => value.is_i64(),
            _ => false,
        };
        let has_type = match &schema["type"] {
            Value::Null => true,
            Value::Array(kinds) => kinds.iter().any(is_of),
            kind => is_of(kind),
        };
        let is_any = schema["anyOf"].as_array();
        let is_any = is_any.is_none_or(|any| any.iter().any(|it| allows(it, value)));
        let is_word = schema["enum"].as_array();
        let is_word = is_word.is_none_or(|words| words.contains(value));
        // The patterns of this schema have no special characters.
        let has_part = schema["pattern"]
            .as_str()
            .is_none_or(|part| value.as_str().is_some_and(|text| text.contains(part)));
        let members = value.as_object().into_iter().flatten();
        let members_fit = members.into_iter().all(|(name, member)| {
            match (&schema["properties"][name], &schema["additionalProperties"]) {
                (Value::Null, Value::Bool(false)) => false,
                (Value::Null, Value::Object(_)) => allows(&schema["additionalProperties"], member),
                (Value::Null, _) => true,
                (own, _) => allows(own, member),
            }
        });
        let items = value.as_array().into_iter().flatten();
        let items_fit = schema["items"].is_null()
            || items.into_iter().all(|item| allows(&schema["items"], item));
        has_type && is_any && is_word && has_part && members_fit && items_fit
    }

    fn as_json(text: &str) -> Value {
        let table: toml::Table = toml::from_str(text).expect("TOML");
        serde_json::to_value(table).expect("JSON")
    }

    #[test]
    fn every_bundled_recipe_is_allowed() {
        let schema = schema();
        for (name, text) in crate::bundled() {
            assert!(allows(&schema, &as_json(text)), "{name}");
        }
    }

    #[test]
    fn unknown_keys_and_measures_are_not_allowed() {
        let schema = schema();
        let (_, text) = crate::bundled().first().expect("there are some");
        for wrong in ["questions = \"?\"\n", "measure = \"speed\"\n"] {
            assert!(!allows(
                &schema,
                &as_json(&format!("{wrong}{}", without_measure(text)))
            ));
        }
        assert!(allows(&schema, &as_json(&without_measure(text))));
        let deep = format!(
            "{}\n[profile.mine]\njitter = \"1ms\"\n",
            without_measure(text)
        );
        assert!(!allows(&schema, &as_json(&deep)));
    }

    #[test]
    fn conditions_have_one_value_for_both_directions_or_one_for_each() {
        let schema = schema();
        let with = |conditions: &str| {
            let text = format!(
                "name = \"x\"\nquestion = \"?\"\n[load]\nrate = \"1/s\"\n[[variant]]\nname = \"a\"\n{conditions}"
            );
            allows(&schema, &as_json(&text))
        };
        for right in [
            "[conditions]\ndelay = [\"1ms\", { up = \"1ms\", down = \"2ms\" }]\nloss = { down = \"1%\" }",
            "[conditions]\nlink = { up = \"rate 1mbit\" }\nschedule = [\"\", \"a.schedule\"]",
            "[conditions]\nfast = \"off\"",
            "[profile.x]\nlink = [\"\", { down = \"trace a.trace\" }]\nschedule = \"a.schedule\"",
            "[profile.x.primary]\nvariant = \"a\"\nloss = { up = \"1%\" }\nschedule = \"\"",
            "[[conditions.next_link]]\ndelay = \"20ms\"\nloss = { down = \"1%\" }",
        ] {
            assert!(with(right), "{right}");
        }
        for wrong in [
            "[conditions]\ndelay = { both = \"1ms\" }",
            "[conditions]\nloss = { up = [\"1%\"] }",
            "[conditions]\nfast = true",
            "[conditions]\nschedule = { up = \"a.schedule\" }",
            "[profile.x.primary]\nvariant = \"a\"\nschedule = [\"a.schedule\"]",
            "[[conditions.next_link]]\ndelay = [\"20ms\"]",
            "[[conditions.next_link]]\nschedule = \"a.schedule\"",
        ] {
            assert!(!with(wrong), "{wrong}");
        }
    }

    fn without_measure(text: &str) -> String {
        let lines = text.lines().filter(|line| !line.starts_with("measure"));
        lines.map(|line| format!("{line}\n")).collect()
    }
}

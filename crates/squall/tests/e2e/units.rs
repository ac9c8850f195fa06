//! docs/schemas: the name of every number states its unit, or is listed here as having none.
//!
//! Only names are checked. `result_files` tests that squall's output matches the schemas.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

/// The ends of names that state a unit. Shares are from 0 to 1.
const UNITS: [&str; 5] = ["_ns", "_bytes", "_per_s", "_percent", "_share"];

/// Names of numbers without a unit.
const WITHOUT_UNIT: &[&[&str]] = &[
    // Requests, pages and what happened to them.
    &[
        "answered",
        "asked",
        "bodies",
        "censored",
        "count",
        "ended",
        "failed",
        "loaded",
        "outcomes",
        "requests",
        "retried",
        "statuses",
        "succeeded",
        "unfinished",
        "warmup",
    ],
    // Trials and comparisons.
    &[
        "comparisons",
        "doubtful_pairs",
        "fast_trials",
        "invalid_pairs",
        "limited_pairs",
        "missing",
        "needed",
        "of",
        "pairs",
        "planned",
        "trials",
        "trials_after",
        "trials_before",
        "trials_planned",
    ],
    // Connections, and what was counted on them.
    &[
        "active_connection_id_limit",
        "address_hints",
        "alpn",
        "ciphers",
        "connections",
        "connections_opened",
        "data_frames",
        "datagrams",
        "goaways_received",
        "goaways_sent",
        "groups",
        "handshakes",
        "in_bursts",
        "initial_max_streams_bidi",
        "link_connections",
        "lone_segments",
        "lost",
        "machine_errors",
        "other_failures",
        "other_names",
        "out_of_order",
        "packets",
        "processors",
        "protocols",
        "quic",
        "received",
        "reordered",
        "repaired",
        "repeated",
        "resets_received",
        "resets_sent",
        "retransmitted",
        "round_trips",
        "segments",
        "sent",
        "http3_settings",
        "settings",
        "settings_received",
        "settings_sent",
        "takes",
        "tcp",
        "threads",
        "tls_full",
        "tls_resumed",
        "updates",
    ],
    // Ratios, probabilities and exponents.
    &[
        "ack_delay_exponent",
        "by_chance",
        "loss",
        "noise_floor",
        "p",
        "p_adjusted",
        "part",
        "ratio",
        "ratio_interval_95",
        "share",
        "share_of_lag",
    ],
    // Places, and numbers that identify something.
    &[
        "attempt",
        "code",
        "hop",
        "index",
        "number",
        "place",
        "port",
        "priority",
        "repetition",
        "repetitions",
        "schema",
        "seed",
        "seeds",
    ],
];

/// Names that say which part of a figure a number is. The figure's own name is that of an enclosing object.
const PARTS: &[&str] = &[
    "about",
    "at_least",
    "at_most",
    "down",
    "exact",
    "high",
    "interquartile_range",
    "interval",
    "least_visible",
    "low",
    "max",
    "mean",
    "median",
    "min",
    "p50",
    "p75",
    "p90",
    "p95",
    "p99",
    "p999",
    "p99_9",
    "p99_99",
    "up",
];

/// Stands for the entries of a list in a path.
const ENTRY: &str = "[]";

/// Fields that have the name of a part but no unit, because they are ranges of numbers of connections.
const RANGES_OF_COUNTS: [&str; 2] = [
    "conditions.[].crossovers.[].interval.low",
    "conditions.[].crossovers.[].interval.high",
];

/// Names of values whose unit is in the field `unit` beside them, or beside the object that has them.
const IN_UNIT_BESIDE: &[&str] = &[
    "baseline",
    "latency",
    "measured",
    "own_error",
    "value",
    "variant",
];

/// Looks for fields without a unit.
struct Search<'s> {
    /// The whole schema, which has the definitions.
    root: &'s Value,
    /// The fields that were found, as paths.
    found: BTreeSet<String>,
}

impl<'s> Search<'s> {
    /// Searches what a schema describes. `path` has the names that lead to that place; `has_unit` says whether there is a
    /// `unit` beside one of these names.
    fn within(&mut self, schema: &'s Value, path: &[&'s str], has_unit: bool) {
        if let Some(name) = schema["$ref"].as_str() {
            let target = self.root.pointer(name.trim_start_matches('#'));
            return self.within(target.expect("a definition"), path, has_unit);
        }
        if is_numeric(&schema["type"]) && !is_named_well(path, has_unit) {
            self.found.insert(path.join("."));
        }
        let has_unit = has_unit || schema["properties"].get("unit").is_some();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            self.within(field, &[path, &[name.as_str()]].concat(), has_unit);
        }
        for option in schema["anyOf"].as_array().into_iter().flatten() {
            self.within(option, path, has_unit);
        }
        if let Some(others) = schema.get("additionalProperties") {
            self.within(others, path, has_unit);
        }
        if let Some(entries) = schema.get("items") {
            self.within(entries, &[path, &[ENTRY]].concat(), has_unit);
        }
    }
}

fn is_numeric(types: &Value) -> bool {
    let is = |name: &Value| name == "integer" || name == "number";
    is(types) || types.as_array().is_some_and(|types| types.iter().any(is))
}

/// Whether the innermost name that says what a number is has a unit or needs none. The name of a list says what its entries
/// are if they are numbers, but not what the fields of its entries are.
fn is_named_well(path: &[&str], has_unit: bool) -> bool {
    if RANGES_OF_COUNTS.contains(&path.join(".").as_str()) {
        return true;
    }
    let names = path.iter().rev();
    let mut names = names.skip_while(|name| **name == ENTRY);
    let Some(name) = names.find(|name| !PARTS.contains(name)) else {
        return false;
    };
    ["ns", "bytes"].contains(name)
        || UNITS.iter().any(|unit| name.ends_with(unit))
        || WITHOUT_UNIT.iter().any(|names| names.contains(name))
        || (has_unit && IN_UNIT_BESIDE.contains(name))
}

/// The fields of a schema whose names lack a unit.
fn without_unit(schema: &Value) -> BTreeSet<String> {
    let mut search = Search {
        root: schema,
        found: BTreeSet::new(),
    };
    search.within(schema, &[], false);
    search.found
}

#[test]
fn every_number_of_the_schemas_has_its_unit_in_its_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
    let mut schemas = 0;
    for entry in fs::read_dir(folder).expect("docs/schemas") {
        let path = entry.expect("an entry").path();
        let text = fs::read(&path).expect("a schema");
        let schema = serde_json::from_slice(&text).expect("JSON");
        let found = without_unit(&schema);
        assert!(found.is_empty(), "{}: {found:#?}", path.display());
        schemas += 1;
    }
    assert!(schemas >= 4, "only {schemas} schemas");
}

#[test]
fn number_without_a_unit_is_found_at_any_depth() {
    let number = json!({ "type": ["integer", "null"] });
    let schema = json!({
        "properties": {
            "delay": { "anyOf": [number, { "properties": { "up": number } }] },
            "p99": { "$ref": "#/$defs/spread" },
            "p99_ns": { "$ref": "#/$defs/spread" },
            "trials": { "items": { "properties": { "seeds": { "items": number }, "max": number, "rate_per_s": number } } },
            "outcomes": { "additionalProperties": number },
            "causes": { "items": { "properties": { "ns": number } } },
            "values": { "properties": { "variant": { "$ref": "#/$defs/spread" } } },
        },
        "$defs": { "spread": { "properties": { "median": { "anyOf": [number] } } } },
    });
    let expected = [
        "delay",
        "delay.up",
        "p99.median",
        "trials.[].max",
        "values.variant.median",
    ];
    let found = without_unit(&schema);
    assert_eq!(found, BTreeSet::from(expected.map(str::to_owned)));
    let mut with_unit = schema;
    with_unit["properties"]["unit"] = json!({ "type": "string" });
    assert!(!without_unit(&with_unit).contains("values.variant.median"));
}

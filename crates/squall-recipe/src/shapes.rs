//! The tables of a recipe and their keys: the whole vocabulary in one place.
//!
//! It does not say what the values mean: `read` does, and docs/RECIPES.md for those who write recipes.

/// Which keys a kind of table has.
pub(crate) struct Shape {
    /// What messages call the table.
    pub(crate) label: &'static str,
    pub(crate) keys: &'static [&'static str],
}

pub(crate) const RECIPE: Shape = Shape {
    label: "the recipe",
    keys: &[
        "name",
        "question",
        "default_profile",
        "repetitions",
        "congestion_control",
        "load",
        "request",
        "response",
        "conditions",
        "variant",
        "profile",
    ],
};
pub(crate) const LOAD: Shape = Shape {
    label: "[load]",
    keys: &["rate", "warmup", "duration", "drain"],
};
pub(crate) const REQUEST: Shape = Shape {
    label: "[request]",
    keys: &["method", "target", "body", "headers"],
};
pub(crate) const RESPONSE: Shape = Shape {
    label: "[response]",
    keys: &["status", "body"],
};
pub(crate) const CONDITIONS: Shape = Shape {
    label: "[conditions]",
    keys: &["delay", "loss", "link"],
};
pub(crate) const VARIANT: Shape = Shape {
    label: "[[variant]]",
    keys: &["name", "path", "connections", "http2", "congestion_control"],
};
pub(crate) const CONNECTIONS: Shape = Shape {
    label: "`connections`",
    keys: &["at_most"],
};
pub(crate) const HTTP2: Shape = Shape {
    label: "`http2`",
    keys: &[
        "stream_window",
        "connection_window",
        "max_concurrent_streams",
    ],
};
pub(crate) const PROFILE: Shape = Shape {
    label: "[profile.NAME]",
    keys: &[
        "delay",
        "loss",
        "link",
        "warmup",
        "duration",
        "drain",
        "repetitions",
    ],
};

/// Where a key that stands in the wrong table is looked for, in this order.
pub(crate) const ALL: [&Shape; 9] = [
    &RECIPE,
    &LOAD,
    &REQUEST,
    &RESPONSE,
    &CONDITIONS,
    &VARIANT,
    &HTTP2,
    &PROFILE,
    &CONNECTIONS,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_in_the_reference() {
        let reference = include_str!("../../../docs/RECIPES.md");
        for shape in ALL.iter().filter(|shape| shape.label != PROFILE.label) {
            for key in shape.keys {
                // A row of a table, the title of a section, or an example.
                let forms = [
                    format!("| `{key}` |"),
                    format!("`[{key}]`"),
                    format!("[[{key}]]"),
                    format!("[{key}.NAME]"),
                    format!("{{ {key} ="),
                ];
                let is_there = forms.iter().any(|form| reference.contains(form));
                assert!(
                    is_there,
                    "`{key}` of {} is not in docs/RECIPES.md",
                    shape.label
                );
            }
        }
    }
}

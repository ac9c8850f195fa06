//! The text of a recipe without the secrets in it, for the copy in a run's folder.
//!
//! Secret values of header fields are found by their place in the document, all other secrets by their form, as in any text.
//! What counts as a secret is defined in `squall_base::secrets`. Comments, layout and bodies stay.

use std::ops::Range;

use squall_base::secrets::{REDACTED, is_secret_name, redacted_text, replaced};
use toml::de::{DeTable, DeValue};

/// The key of a table of header fields.
const HEADERS: &str = "headers";

/// `text` without the values of secret header fields, and without secrets in URLs. It is still TOML, if it was.
pub fn redacted(text: &str) -> String {
    let mut secrets = Vec::new();
    if let Ok(document) = DeTable::parse(text) {
        find_in_table(document.get_ref(), &mut secrets);
    }
    let shown = replaced(text, secrets, &format!("\"{REDACTED}\""));
    redacted_text(&shown).into_owned()
}

fn find_in_table(table: &DeTable<'_>, secrets: &mut Vec<Range<usize>>) {
    for (key, value) in table {
        match value.get_ref() {
            DeValue::Table(fields) if key.get_ref() == HEADERS => {
                let are_secret = fields.iter().filter(|(name, value)| {
                    let is_text = matches!(value.get_ref(), DeValue::String(_) | DeValue::Array(_));
                    is_text && is_secret_name(name.get_ref())
                });
                secrets.extend(are_secret.map(|(_, value)| value.span()));
            }
            value => find(value, secrets),
        }
    }
}

fn find(value: &DeValue<'_>, secrets: &mut Vec<Range<usize>>) {
    match value {
        DeValue::Table(table) => find_in_table(table, secrets),
        DeValue::Array(values) => {
            for value in values {
                find(value.get_ref(), secrets);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_of_a_recipe_has_no_secrets_and_is_otherwise_the_same() {
        let text = "# mine\nname = \"x\" # as ever\n[request]\ntarget = \"/a?api_key=k1&size=1\"\n\
                    headers = { accept = \"a\", authorization = \"Bearer k2\", x-api-key = ['k3', \"k4\"] }\n\
                    [[load.request]]\n[load.request.headers]\nCookie = \"\"\"\nk5\"\"\"\n\
                    [station.mine]\ncommand = \"my -H 'x-token: k6' http://me:k7@server/\"\n";
        let expected = "# mine\nname = \"x\" # as ever\n[request]\ntarget = \"/a?api_key=[redacted]&size=1\"\n\
                    headers = { accept = \"a\", authorization = \"[redacted]\", x-api-key = \"[redacted]\" }\n\
                    [[load.request]]\n[load.request.headers]\nCookie = \"[redacted]\"\n\
                    [station.mine]\ncommand = \"my -H 'x-token: [redacted]' http://[redacted]@server/\"\n";
        assert_eq!(redacted(text), expected);
        assert_eq!(redacted(expected), expected);
        assert!(DeTable::parse(expected).is_ok());
        let plain = "name = \"x\"\n[request]\nheaders = { accept = \"a\" }\n";
        assert_eq!(redacted(plain), plain);
        assert_eq!(redacted("no = = toml"), "no = = toml");
    }

    /// The recipes that come with squall have made-up secrets; a copy without these is still TOML.
    #[test]
    fn redacted_copies_of_bundled_recipes_are_still_toml() {
        for (name, text) in crate::bundled() {
            assert!(DeTable::parse(&redacted(text)).is_ok(), "{name}");
        }
    }
}

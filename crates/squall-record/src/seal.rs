//! The checksum of trial.json itself, which is its last field.
//!
//! Nothing here reads or writes a file. `checksum` has the checksums of the other files.

/// What precedes the checksum at the end of trial.json: the last field of its object, as `serde_json` indents it.
const OWN_CHECKSUM: &str = ",\n  \"crc32\": ";
const END: &str = "\n}\n";

/// Adds the checksum of an indented JSON object to that object, as its last field, and ends the line.
pub(crate) fn seal(mut object: String) -> String {
    let open = object.trim_end();
    let content = open.strip_suffix('}').unwrap_or(open).trim_end().len();
    object.truncate(content);
    let crc32 = crc32fast::hash(object.as_bytes());
    object += &format!("{OWN_CHECKSUM}{crc32}{END}");
    object
}

/// Whether the text is damaged: it ends with a checksum that does not match its content.
pub(crate) fn is_seal_broken(text: &[u8]) -> bool {
    let marker = OWN_CHECKSUM.as_bytes();
    let mut places = text.windows(marker.len());
    let Some(place) = places.rposition(|window| window == marker) else {
        return false;
    };
    let (content, end) = text.split_at(place);
    let expected = format!("{OWN_CHECKSUM}{}{END}", crc32fast::hash(content));
    end != expected.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_flipped_bit_of_a_sealed_object_is_detected() {
        let object = "{\n  \"schema\": 9,\n  \"files\": [\n    {\n      \"name\": \"a\",\n      \"crc32\": 7\n    \
                      }\n  ]\n}";
        let sealed = seal(object.to_owned()).into_bytes();
        assert!(!is_seal_broken(&sealed));
        let read: serde_json::Value = serde_json::from_slice(&sealed).unwrap();
        assert_eq!(read["schema"], 9);
        assert_eq!(read["files"][0]["crc32"], 7);
        // Everything before the last brace and its line break.
        let content = object.len() - 2;
        for bit in 0..content * 8 {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(is_seal_broken(&damaged), "bit {bit}");
        }
    }

    #[test]
    fn objects_without_a_checksum_are_accepted() {
        for text in [
            "",
            "{}",
            "{\n  \"schema\": 8\n}\n",
            "{\n  \"a\": {\n    \"b\": 1,\n    \"crc32\": 3\n  }\n}\n",
        ] {
            assert!(!is_seal_broken(text.as_bytes()), "{text}");
        }
    }
}

//! Decodes percent-encoding (RFC 3986, section 2.1).
//!
//! Whether the bytes are text, and what they mean, is up to the caller.

/// Decodes `text`; `None` if a percent sign is not followed by two hexadecimal digits.
pub fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut rest = text.as_bytes();
    let mut found = Vec::with_capacity(rest.len());
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            found.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        found.push((digit(digits[0])? * 16 + digit(digits[1])?) as u8);
        rest = after;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn percent_and_two_hex_digits_decode_to_a_byte() {
        assert_eq!(decoded("a%20b%fF").as_deref(), Some(&b"a b\xff"[..]));
        for bad in ["%", "%2", "a%", "%2g", "%+1", "%-1", "% 1"] {
            assert_eq!(decoded(bad), None, "{bad}");
        }
    }
}

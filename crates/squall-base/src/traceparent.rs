//! The `traceparent` field by which a trial's requests are known on every hop of a path (W3C Trace Context, section 3.2).
//!
//! The client writes it, proxies pass it on, and whoever reads a request's head learns which of the schedule's it is. The
//! id says which request, so nothing has to be looked up; what other traces mean is nobody's business here.

/// Its length in bytes: `00-`, 32 digits, `-`, 16 digits, `-`, 2 digits.
pub const TRACEPARENT_BYTES: usize = 55;
/// The field's name.
pub const TRACEPARENT: &str = "traceparent";

/// The first half of every trace id of ours, in digits: `squall` and a version.
const OURS: &[u8; 16] = b"737175616c6c0001";

/// The field's value for a request, by its place in the schedule: its number is the second half of the trace id. The
/// flags say that nobody is known to record it.
pub fn traceparent(request: u64) -> String {
    let ours = OURS.escape_ascii();
    // The parent's id must not be 0 (section 3.2.2.4).
    let parent = request.wrapping_add(1).max(1);
    format!("00-{ours}{request:016x}-{parent:016x}-00")
}

/// The request that a value of the field names; `None`: it is of another trace, or none. Who passes it on may put itself
/// in the place of the parent.
pub fn traced_request(value: &[u8]) -> Option<u64> {
    let (version, rest) = value.split_at_checked(3)?;
    let (ours, rest) = rest.split_at_checked(OURS.len())?;
    let (request, rest) = rest.split_at_checked(16)?;
    if version != b"00-" || ours != OURS || rest.first() != Some(&b'-') {
        return None;
    }
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if !request.iter().all(is_digit) || value.len() != TRACEPARENT_BYTES {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(request).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        for request in [0, 1, 0x1234, u64::MAX] {
            let value = traceparent(request);
            assert_eq!(value.len(), TRACEPARENT_BYTES);
            assert_eq!(traced_request(value.as_bytes()), Some(request));
        }
    }

    #[test]
    fn a_proxy_may_be_the_parent_and_other_traces_name_no_request() {
        let value = traceparent(7);
        let passed_on = format!("{}-b7ad6b7169203331-01", &value[..35]);
        assert_eq!(traced_request(passed_on.as_bytes()), Some(7));
        for other in [
            "",
            "00-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            &value[..54],
            &format!("{value}0"),
            &value.replace("00-7371", "01-7371"),
            &value.replace("0000000007-", "000000000G-"),
        ] {
            assert_eq!(traced_request(other.as_bytes()), None, "{other}");
        }
    }
}

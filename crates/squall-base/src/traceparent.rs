//! The `traceparent` field, by which a trial's requests are recognised on every hop of a path (W3C Trace Context,
//! section 3.2).
//!
//! The client writes it, proxies pass it on, and a reader of a request's head learns which request of the schedule it
//! is. The id contains the request's number, so no lookup is needed. Other traces are not interpreted here.

/// Its length in bytes: `00-`, 32 digits, `-`, 16 digits, `-`, 2 digits.
pub const TRACEPARENT_BYTES: usize = 55;
/// The field's name.
pub const TRACEPARENT: &str = "traceparent";

/// The first half of all our trace ids, in digits: `squall` and a version.
const TRACE_ID_PREFIX: &[u8; 16] = b"737175616c6c0001";

/// The field's value for a request, by its place in the schedule: that number is the second half of the trace id. The
/// flags do not claim that anything records the trace.
pub fn traceparent(request: u64) -> String {
    let prefix = TRACE_ID_PREFIX.escape_ascii();
    // The parent's id must not be 0 (section 3.2.2.4).
    let parent = request.wrapping_add(1).max(1);
    format!("00-{prefix}{request:016x}-{parent:016x}-00")
}

/// The request that a value of the field names; `None` if it belongs to another trace or is invalid. A hop that passes
/// it on may have replaced the parent.
pub fn traced_request(value: &[u8]) -> Option<u64> {
    let (version, rest) = value.split_at_checked(3)?;
    let (prefix, rest) = rest.split_at_checked(TRACE_ID_PREFIX.len())?;
    let (request, rest) = rest.split_at_checked(16)?;
    if version != b"00-" || prefix != TRACE_ID_PREFIX || rest.first() != Some(&b'-') {
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
    fn request_number_survives_a_round_trip() {
        for request in [0, 1, 0x1234, u64::MAX] {
            let value = traceparent(request);
            assert_eq!(value.len(), TRACEPARENT_BYTES);
            assert_eq!(traced_request(value.as_bytes()), Some(request));
        }
    }

    #[test]
    fn proxies_may_replace_the_parent_and_other_traces_name_no_request() {
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

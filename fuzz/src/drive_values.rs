//! Feeds any bytes to the parsers of field values and robots.txt, and checks what must hold for any bytes.
//!
//! Nothing may panic. A value that was parsed and written again parses to the same value.

use squall_base::traceparent;
use squall_http::values::alt_svc::{AltSvc, Alternative};
use squall_http::values::percent;
use squall_http::values::range::{self, Range};
use squall_http::values::robots::Robots;

/// The value of an Alt-Svc field.
pub fn alt_svc(input: &[u8]) {
    let Ok(AltSvc::Services(services)) = AltSvc::parse(&String::from_utf8_lossy(input)) else {
        return;
    };
    assert!(!services.is_empty());
    let written: Vec<String> = services.iter().map(write_alternative).collect();
    let again = AltSvc::parse(&written.join(", "));
    assert_eq!(again, Ok(AltSvc::Services(services)));
}

fn write_alternative(of: &Alternative) -> String {
    assert!(of.port > 0);
    let host = match &of.host {
        Some(host) if host.contains(':') => format!("[{host}]"),
        Some(host) => host.clone(),
        None => String::new(),
    };
    let host = host.replace('\\', "\\\\").replace('"', "\\\"");
    let (protocol, persist) = (encoded(&of.protocol), u8::from(of.persist));
    format!(
        "{protocol}=\"{host}:{}\"; ma={}; persist={persist}",
        of.port, of.max_age_s
    )
}

/// The value of a Range field; the first 8 bytes are the length of the file.
pub fn range(input: &[u8]) {
    let (length, value) = match input.split_first_chunk() {
        Some((length, value)) => (u64::from_le_bytes(*length), value),
        None => (0, input),
    };
    if let Range::Part { start, end } = range::parse(value, length) {
        assert!(start < end && end <= length, "{start} to {end} of {length}");
    }
}

/// A robots.txt, with the target that it is asked for in its first line.
pub fn robots(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n');
    let (target, text) = input.split_at(end.unwrap_or(0));
    let target = String::from_utf8_lossy(target);
    let rules = Robots::parse(text, "squall");
    assert!(rules.allows("/robots.txt"));
    assert!(rules.allows(&target) || rules != Robots::default());
}

/// The value of a traceparent field.
pub fn traced(input: &[u8]) {
    if let Some(request) = traceparent::traced_request(input) {
        let written = traceparent::traceparent(request);
        assert_eq!(
            traceparent::traced_request(written.as_bytes()),
            Some(request)
        );
    }
}

/// A percent-encoded text.
pub fn percent_encoded(input: &[u8]) {
    assert_eq!(percent::decoded(&encoded(input)).as_deref(), Some(input));
    let text = String::from_utf8_lossy(input);
    if let Some(bytes) = percent::decoded(&text) {
        assert!(bytes.len() <= text.len());
    }
}

fn encoded(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("%{byte:02x}")).collect()
}

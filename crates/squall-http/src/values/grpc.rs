//! The result of a gRPC call, as the fields of its response state it (gRPC over HTTP/2, section "Responses"): the HTTP
//! status is 200 even if the call failed, and `grpc-status` is in the trailers, or in the head if there is nothing else.
//!
//! Bodies and their messages are not read. gRPC-Web is not gRPC here, because it states its result in the body.

use crate::event::Field;

/// The names of the codes, from 0 (gRPC's "Status codes and their use in gRPC").
const NAMES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// The status of a gRPC call, as far as the fields seen so far state it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrpcStatus {
    /// There was no `grpc-status`.
    Missing,
    /// `grpc-status` was not a number of up to 32 bits.
    Malformed,
    /// The code; 0 is success.
    Code(u32),
}

impl GrpcStatus {
    /// The status in the head of a response; `None` if this is not a gRPC response.
    pub fn of_head(fields: &[Field]) -> Option<GrpcStatus> {
        has_grpc_type(fields).then(|| stated(fields).unwrap_or(GrpcStatus::Missing))
    }

    /// The status of the whole response: that of the trailers, if they have one.
    #[must_use]
    pub fn with_trailers(self, trailers: &[Field]) -> GrpcStatus {
        stated(trailers).unwrap_or(self)
    }

    /// How the call failed, as `grpc-status 13 (INTERNAL)`; `None` if it succeeded. The server's message is not part of
    /// it, so that failures of one kind have one text.
    pub fn failure(self) -> Option<String> {
        match self {
            GrpcStatus::Code(0) => None,
            GrpcStatus::Code(code) => Some(match NAMES.get(code as usize) {
                Some(name) => format!("grpc-status {code} ({name})"),
                None => format!("grpc-status {code}"),
            }),
            GrpcStatus::Missing => Some("no grpc-status".to_owned()),
            GrpcStatus::Malformed => Some("an invalid grpc-status".to_owned()),
        }
    }
}

/// Whether the content type is gRPC's: `application/grpc`, with or without a format (`+proto`) or parameters.
pub fn has_grpc_type(fields: &[Field]) -> bool {
    const TYPE: &[u8] = b"application/grpc";
    value(fields, b"content-type").is_some_and(|value| {
        value
            .split_at_checked(TYPE.len())
            .is_some_and(|(start, rest)| {
                start.eq_ignore_ascii_case(TYPE)
                    && matches!(rest.first(), None | Some(b'+' | b';' | b' ' | b'\t'))
            })
    })
}

/// The status among these fields, if they have one.
fn stated(fields: &[Field]) -> Option<GrpcStatus> {
    let text = value(fields, b"grpc-status")?;
    let is_number = text.iter().all(u8::is_ascii_digit);
    let code = std::str::from_utf8(text)
        .ok()
        .filter(|_| is_number)
        .and_then(|text| text.parse().ok());
    Some(code.map_or(GrpcStatus::Malformed, GrpcStatus::Code))
}

/// The value of the first field of this name.
fn value<'a>(fields: &'a [Field], name: &[u8]) -> Option<&'a [u8]> {
    let field = fields.iter().find(|field| *field.name == *name)?;
    Some(&field.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> Vec<Field> {
        let field = |(name, value): &(&str, &str)| Field::new(name, value);
        pairs.iter().map(field).collect()
    }

    /// How a call failed, given the fields of its response besides the content type: those of the head and of the
    /// trailers.
    fn failure(head: &[(&str, &str)], trailers: &[(&str, &str)]) -> Option<String> {
        let head = [&[("content-type", "application/grpc+proto")][..], head].concat();
        let status = GrpcStatus::of_head(&fields(&head)).expect("it is gRPC");
        status.with_trailers(&fields(trailers)).failure()
    }

    #[test]
    fn status_in_trailers_takes_precedence_over_the_head() {
        let (ok, failed) = ([("grpc-status", "0")], [("grpc-status", "13")]);
        let internal = Some("grpc-status 13 (INTERNAL)".to_owned());
        assert_eq!(failure(&[], &ok), None);
        assert_eq!(failure(&ok, &[]), None);
        assert_eq!(failure(&[], &failed), internal);
        assert_eq!(failure(&failed, &[]), internal);
        assert_eq!(failure(&ok, &failed), internal);
        let message = [("grpc-message", "boom"), ("grpc-status", "13")];
        assert_eq!(failure(&[], &message), internal, "one text for one kind");
    }

    #[test]
    fn calls_without_a_readable_status_have_failed() {
        let said = |text: &str| failure(&[], &[("grpc-status", text)]).expect("it failed");
        assert_eq!(failure(&[], &[]).as_deref(), Some("no grpc-status"));
        for text in ["", "x", "-1", "+0", "0.0", "99999999999"] {
            assert_eq!(said(text), "an invalid grpc-status", "{text:?}");
        }
        assert_eq!(said("16"), "grpc-status 16 (UNAUTHENTICATED)");
        assert_eq!(said("17"), "grpc-status 17");
    }

    #[test]
    fn other_content_types_are_not_grpc() {
        let is_grpc = |text: &str| has_grpc_type(&fields(&[("content-type", text)]));
        for text in [
            "application/grpc",
            "application/grpc+json",
            "application/grpc; charset=utf-8",
            "Application/GRPC",
        ] {
            assert!(is_grpc(text), "{text}");
        }
        for text in [
            "",
            "application/json",
            "application/grp",
            "application/grpc-web",
            "application/grpc-web+proto",
        ] {
            assert!(!is_grpc(text), "{text}");
        }
        assert_eq!(GrpcStatus::of_head(&[]), None);
    }
}

//! The messages that a station sends, validated and serialised once and then shared.
//!
//! Received messages are not represented here; events report them.

mod body;
mod fields;
mod interim;
mod request;
mod response;
mod trailers;
mod wire;

pub use body::Body;
pub(crate) use fields::{is_name_in_lower_case, is_relayed_value, parse_content_length};
pub use interim::Interim;
pub use request::{Request, RequestLine, Scheme};
pub use response::Response;
pub use trailers::Trailers;
pub(crate) use wire::Wire;

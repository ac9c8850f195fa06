//! The messages that a station sends, checked and serialised once and then shared.
//!
//! Nothing of a message that arrives is kept here: events say what was heard.

mod body;
mod fields;
mod interim;
mod request;
mod response;
mod trailers;
mod wire;

pub use body::Body;
pub(crate) use fields::is_name_in_lower_case;
pub use interim::Interim;
pub use request::{Line, Request, Scheme};
pub use response::Response;
pub use trailers::Trailers;
pub(crate) use wire::Wire;

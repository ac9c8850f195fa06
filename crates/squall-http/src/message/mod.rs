//! The messages that a station sends, checked and serialised once and then shared.
//!
//! Nothing of a message that arrives is kept here: events say what was heard.

mod fields;
mod request;
mod response;
mod wire;

pub use request::Request;
pub use response::Response;
pub(crate) use wire::Wire;

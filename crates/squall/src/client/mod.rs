//! What `squall fetch`, `squall load` and `squall probe` share: flags, requests, targets, protocols and settings.
//!
//! Only flags and what they turn into; the client itself is in squall-stations.

mod advice;
mod flags;
mod form;
mod payload;
mod pool;
mod reach;
mod request;
mod settings;
mod single;
pub(crate) mod spin;
mod target;
mod verbose;
mod version;

pub(crate) use advice::Attempt;
pub(crate) use flags::{ConnectionFlags, Http, RequestFlags};
pub(crate) use form::{FieldValue, encode_fields};
pub(crate) use payload::{Payload, PreparedRequest, check_upload, file_length};
pub(crate) use pool::{WarmCount, pool_orders};
pub(crate) use reach::{AddressBook, HandshakeFailure};
pub(crate) use settings::{SET, side_settings};
pub(crate) use single::single;
pub(crate) use target::{HttpUrl, TlsCredentials};
pub(crate) use verbose::{LinePrefix, VerbosePrinter};
pub(crate) use version::{quic_handshake, resolve_auto};

//! What `squall fetch`, `squall load` and `squall probe` share: flags, requests, targets, protocols and settings.
//!
//! Only flags and what they turn into; the client itself is in squall-stations.

mod advice;
mod flags;
mod form;
pub(crate) mod numbers;
mod payload;
mod pool;
mod proxy_url;
mod reach;
mod request;
mod settings;
mod single;
pub(crate) mod spin;
mod target;
mod verbose;
mod version;

use squall_linux::privileges::Rights;

pub(crate) use advice::Attempt;
pub(crate) use flags::{ConnectionFlags, Http, ProtocolChoice, RequestFlags, positive_time};
pub(crate) use form::{FieldValue, encode_fields};
pub(crate) use payload::{Payload, PreparedRequest, check_upload, file_length};
pub(crate) use pool::{WarmCount, pool_orders};
pub(crate) use reach::{AddressBook, HandshakeFailure};
pub(crate) use settings::{SET, side_settings};
pub(crate) use single::single;
pub(crate) use target::{HttpUrl, TlsCredentials};
pub(crate) use verbose::{LinePrefix, VerbosePrinter};
pub(crate) use version::{quic_handshake, resolve_auto};

/// The rights that a client uses if it has them: to files of any user, to local ports below 1024, to congestion controls that
/// not everyone may set, and to real-time scheduling of its threads.
pub(crate) const RIGHTS: Rights = Rights::FILES
    .and(Rights::PORTS)
    .and(Rights::SOCKETS)
    .and(Rights::REAL_TIME);

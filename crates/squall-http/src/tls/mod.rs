//! TLS over TCP as a sans-IO layer on BoringSSL: ciphertext in, plaintext out, one TLS record at a time.
//!
//! A [`Session`] is one connection; all connections of a side share the [`ClientContext`] or [`ServerContext`] from
//! which they begin. HTTP above it and TCP below it belong to the owner:
//!
//! 1. bytes read from the socket go to [`Session::receive`], which passes plaintext on as [`Record`]s;
//! 2. plaintext goes to [`Session::encrypt`], which splits it into records of the configured sizes;
//! 3. [`Session::output`] goes to the socket, and [`Session::advance_output`] records how much the socket took.
//!
//! Both byte streams of each direction are counted from 0. [`Session::locate`] maps a byte of plaintext to its record,
//! and so to bytes of the TCP payload.
//!
//! A client presents a certificate if it has one and is asked for it; a server does not ask. Deliberately not
//! supported: early data, renegotiation, and switching contexts by server name. BoringSSL itself uses the system's
//! clock and randomness (for the validity of certificates and tickets, and for keys); no recorded time is derived from
//! them.
//!
//! Where to go next: `session` for one connection, `context` for what connections share, `identity` for certificates,
//! `records` for the map between plaintext and wire, `sizes` for how large records are, `chain` and `early_data` for what a
//! server's certificates and tickets say.

mod chain;
mod context;
mod early_data;
mod error;
mod identity;
mod records;
mod session;
mod sizes;
mod tickets;
mod wire;

#[cfg(test)]
pub(crate) mod tests;

pub use chain::CertificateChain;
pub use context::{ClientContext, OfferSession, ServerContext, Trust};
pub(crate) use context::{set_groups, set_server_name};
pub(crate) use early_data::early_data_bytes;
pub use error::{Alert, IdentityError, SetupError, TlsError};
pub use identity::{Identity, Validity};
pub use records::{Record, RecordLocation};
pub use session::{HandshakeOutcome, Session};

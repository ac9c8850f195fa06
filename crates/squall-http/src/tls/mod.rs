//! TLS over TCP as a sans-IO layer on BoringSSL: ciphertext in, plaintext out, one TLS record at a time.
//!
//! A [`Session`] is one connection; the [`ClientContext`] or [`ServerContext`] that it begins from is shared by all of
//! a side. HTTP above it and TCP below it belong to the owner:
//!
//! 1. what was read from the socket goes to [`Session::receive`], which hands on plaintext as [`Record`]s;
//! 2. plaintext goes to [`Session::encrypt`], which cuts it into records of the sizes asked for;
//! 3. [`Session::output`] goes to the socket, and [`Session::advance_output`] hears how much the socket took.
//!
//! Both byte streams of each direction are counted from 0, and [`Session::locate`] says which record, and so which
//! bytes of TCP's payload, carry a byte of plaintext.
//!
//! A client shows a certificate if it has one and is asked; a server does not ask. Deliberately not here: early data,
//! renegotiation, and any switch of context by server name.
//! BoringSSL itself reads the system's clock and randomness (validity of certificates and tickets, keys); nothing that
//! is recorded as a time comes from it.
//!
//! Where to go next: `session` for one connection, `context` for what connections share, `identity` for certificates,
//! `records` for the map between plaintext and wire, `sizes` for how large records are.

mod context;
mod error;
mod identity;
mod records;
mod session;
mod sizes;
mod tickets;
mod wire;

#[cfg(test)]
mod tests;

pub(crate) use context::name_server;
pub use context::{ClientContext, OfferSession, ServerContext, Trust};
pub use error::{Alert, IdentityError, SetupError, TlsError};
pub use identity::{Identity, Validity};
pub use records::{Place, Record};
pub use session::{Secured, Session};

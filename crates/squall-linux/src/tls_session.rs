//! Offering a TLS session for resumption: the one call of BoringSSL that its safe wrapper leaves to its callers.
//!
//! It is here because unsafe code is, and for no other reason; what a session is and whose it is, squall-http knows.

use boring::error::ErrorStack;
use boring::ssl::{SslRef, SslSessionRef};

/// Has a connection that has not begun offer `session`. The caller must have got it from a connection of the same
/// context (`squall_http::tls::ClientContext` does).
pub fn offer(connection: &mut SslRef, session: &SslSessionRef) -> Result<(), ErrorStack> {
    // SAFETY: `SslRef::set_session` asks that the session be of the same context as the connection: otherwise the
    // context's session id would not fit. The function is given away for `ClientContext::resuming_with` alone, which
    // offers only what connections of the same `SslContext` were given.
    unsafe { connection.set_session(session) }
}

//! Offering a TLS session for resumption: the one BoringSSL call whose safety its wrapper leaves to the caller.
//!
//! It is here only because unsafe code is. squall-http knows what a session is and which connection it came from.

use boring::error::ErrorStack;
use boring::ssl::{SslRef, SslSessionRef};

/// Makes a connection that has not started offer `session`. The session must come from a connection of the same context
/// (`squall_http::tls::ClientContext` ensures that).
pub fn offer(connection: &mut SslRef, session: &SslSessionRef) -> Result<(), ErrorStack> {
    // SAFETY: `SslRef::set_session` requires that the session belong to the connection's context; otherwise the context's
    // session id would not fit. The only caller is `ClientContext::resuming_with`, which offers only sessions from
    // connections of the same `SslContext`.
    unsafe { connection.set_session(session) }
}

//! Why a station could not do its work at all. A failed request is not an error but a record.

use squall_http::{CreateError, SubmitError};
use squall_linux::SetupError;
use squall_linux::socket::SocketError;
use thiserror::Error;

/// A station's failure: the machine's or our own, never a peer's.
#[derive(Debug, Error)]
pub enum StationError {
    /// Setting up the reactor, or entering the host, failed.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A socket could not be set up as requested.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A connection's engine could not be created.
    #[error("cannot set up the protocol of a connection: {0}")]
    Engine(#[from] CreateError),
    /// The engine refused a request although it was ready.
    #[error("the engine refused a request: {0}")]
    Submit(#[from] SubmitError),
    /// QUIC could not be set up.
    #[error("cannot set up QUIC: {0}")]
    Quic(#[from] squall_http::h3::SetupError),
    /// Another part of the trial failed; its own error says why.
    #[error("another part of the trial failed")]
    OtherPartFailed,
}

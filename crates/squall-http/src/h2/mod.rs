//! HTTP/2 (RFC 9113) over nghttp2: many streams on a connection.
//!
//! nghttp2 does frames, header compression, flow control and the answers to SETTINGS and PING. Here is
//! the policy: the settings of both sides, when a request may be submitted, what ends an exchange, and the
//! marks of what was written (`output`). Server push is refused; priorities are ignored.

mod client;
mod output;
mod server;
mod streams;

use squall_base::Bytes;
use squall_base::plan::Http2Settings;
use squall_nghttp2::{Handler, MAX_WINDOW_BYTES, Session, Setting};

use crate::error::{ConnectionError, CreateError};

pub use client::Client;
pub use server::Server;

/// The connection window that both sides begin with (RFC 9113, section 6.9.2).
const INITIAL_WINDOW_BYTES: u32 = 65_535;

/// Windows that HTTP/2 can express.
#[derive(Clone, Copy, Debug)]
struct Windows {
    stream_bytes: u32,
    connection_bytes: u32,
}

impl Windows {
    fn of(settings: &Http2Settings) -> Result<Windows, CreateError> {
        Ok(Windows {
            stream_bytes: window(settings.stream_window)?,
            connection_bytes: window(settings.connection_window)?,
        })
    }

    /// Announces them, and other settings before them.
    fn announce<H: Handler>(
        self,
        session: &mut Session<H>,
        first: Setting,
    ) -> Result<(), CreateError> {
        session.submit_settings(&[first, Setting::InitialWindowBytes(self.stream_bytes)])?;
        if self.connection_bytes != INITIAL_WINDOW_BYTES {
            session.set_connection_window(self.connection_bytes)?;
        }
        Ok(())
    }
}

/// An empty window would never be updated, so it is none.
fn window(bytes: Bytes) -> Result<u32, CreateError> {
    u32::try_from(bytes.get())
        .ok()
        .filter(|bytes| (1..=MAX_WINDOW_BYTES).contains(bytes))
        .ok_or(CreateError::Window { bytes: bytes.get() })
}

/// What the peer did to make nghttp2 send GOAWAY, if it did.
#[derive(Debug, Default)]
struct Offence(Option<ConnectionError>);

impl Offence {
    fn note(&mut self, code: u32, reason: &[u8]) {
        if code != 0 && self.0.is_none() {
            let reason = String::from_utf8_lossy(reason).into_owned();
            self.0 = Some(ConnectionError::Http2 { code, reason });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_limits() {
        let settings = |stream, connection| Http2Settings {
            stream_window: Bytes::new(stream),
            connection_window: Bytes::new(connection),
            max_concurrent_streams: 100,
        };
        assert!(Windows::of(&settings(1, (1 << 31) - 1)).is_ok());
        for (stream, connection, bytes) in [
            (1 << 31, 1, 1 << 31),
            (1, 1 << 31, 1 << 31),
            (0, 1, 0),
            (1, 0, 0),
        ] {
            let error = Windows::of(&settings(stream, connection)).unwrap_err();
            assert_eq!(error, CreateError::Window { bytes });
            assert!(Client::new(&settings(stream, connection)).is_err());
            assert!(Server::new(&settings(stream, connection)).is_err());
        }
    }
}

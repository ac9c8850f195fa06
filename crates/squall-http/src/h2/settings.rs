//! What a side announces: a plan's settings in HTTP/2's terms.
//!
//! It refuses sizes that HTTP/2 cannot express. When windows are updated is decided in `updates`; what the peer announces
//! is the session's to apply.

use squall_base::Bytes;
use squall_base::plan::Http2Settings;
use squall_nghttp2::{Error, Http2Session, MAX_WINDOW_BYTES, Options, Setting};

use crate::error::CreateError;

/// The longest header section accepted, counting 32 bytes per field in addition to its text (RFC 9113, section 6.5.2).
/// Our HTTP/1.1 has the same limit.
pub const MAX_HEADER_LIST_BYTES: u32 = 64 * 1024;

/// The connection window that both sides begin with (RFC 9113, section 6.9.2).
pub(super) const INITIAL_WINDOW_BYTES: u32 = 65_535;

/// Default values of SETTINGS (RFC 9113, section 6.5.2).
const INITIAL_HEADER_TABLE_BYTES: u32 = 4_096;
const INITIAL_MAX_FRAME_BYTES: u32 = 16_384;

/// Which side announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Server,
}

/// Window sizes that HTTP/2 can express.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    pub(super) stream_bytes: u32,
    pub(super) connection_bytes: u32,
}

impl Windows {
    pub(super) fn of(settings: &Http2Settings) -> Result<Windows, CreateError> {
        Ok(Windows {
            stream_bytes: window(settings.stream_window)?,
            connection_bytes: window(settings.connection_window)?,
        })
    }

    /// Announces the connection window if it is larger than the initial one. A smaller one is achieved by not returning
    /// the first bytes.
    pub(super) fn announce<H>(self, session: &mut impl Http2Session<H>) -> Result<(), CreateError> {
        if self.connection_bytes > INITIAL_WINDOW_BYTES {
            session.set_connection_window(self.connection_bytes)?;
        }
        Ok(())
    }
}

/// Rejects an empty window too: it would never be updated.
fn window(bytes: Bytes) -> Result<u32, CreateError> {
    u32::try_from(bytes.get())
        .ok()
        .filter(|bytes| (1..=MAX_WINDOW_BYTES).contains(bytes))
        .ok_or(CreateError::Window(bytes.get()))
}

/// The entries of a side's SETTINGS: those specific to its role, and those that differ from the defaults.
pub(super) fn announced(role: Role, settings: &Http2Settings) -> Result<Vec<Setting>, CreateError> {
    let table_bytes = number(settings.header_table_size)?;
    let frame_bytes = number(settings.max_frame_size)?;
    let own = match role {
        Role::Client => Setting::EnablePush(false),
        Role::Server => Setting::MaxConcurrentStreams(settings.max_concurrent_streams),
    };
    let mut entries = vec![
        own,
        Setting::InitialWindowBytes(window(settings.stream_window)?),
        Setting::MaxHeaderListBytes(MAX_HEADER_LIST_BYTES),
    ];
    if table_bytes != INITIAL_HEADER_TABLE_BYTES {
        entries.push(Setting::HeaderTableBytes(table_bytes));
    }
    if frame_bytes != INITIAL_MAX_FRAME_BYTES {
        entries.push(Setting::MaxFrameBytes(frame_bytes));
    }
    Ok(entries)
}

/// Options for the session.
pub(super) fn options(settings: &Http2Settings) -> Result<Options, CreateError> {
    Ok(Options {
        assumed_max_concurrent_streams: settings.max_concurrent_streams,
        data_bytes: number(settings.data_size)?.max(1),
    })
}

fn number(bytes: Bytes) -> Result<u32, CreateError> {
    u32::try_from(bytes.get()).map_err(|_| CreateError::Session(Error::INVALID_ARGUMENT))
}

#[cfg(test)]
mod tests {
    use crate::h2::{Client, Server};

    use super::*;

    #[test]
    fn windows_outside_the_protocol_limits_are_refused() {
        let settings = |stream, connection| Http2Settings {
            stream_window: Bytes::new(stream),
            connection_window: Bytes::new(connection),
            ..Http2Settings::default()
        };
        assert!(Windows::of(&settings(1, (1 << 31) - 1)).is_ok());
        for (stream, connection, bytes) in [
            (1 << 31, 1, 1 << 31),
            (1, 1 << 31, 1 << 31),
            (0, 1, 0),
            (1, 0, 0),
        ] {
            let error = Windows::of(&settings(stream, connection)).unwrap_err();
            assert_eq!(error, CreateError::Window(bytes));
            assert!(Client::new(&settings(stream, connection)).is_err());
            assert!(Server::new(&settings(stream, connection)).is_err());
        }
    }

    #[test]
    fn frame_sizes_outside_the_protocol_limits_are_refused() {
        for (bytes, is_fine) in [
            (16_383, false),
            (16_384, true),
            ((1 << 24) - 1, true),
            (1 << 24, false),
            (1 << 40, false),
        ] {
            let settings = Http2Settings {
                max_frame_size: Bytes::new(bytes),
                ..Http2Settings::default()
            };
            assert_eq!(Client::new(&settings).is_ok(), is_fine, "{bytes}");
            assert_eq!(Server::new(&settings).is_ok(), is_fine, "{bytes}");
        }
    }
}

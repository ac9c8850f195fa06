//! The access log: one line for each exchange, when its last byte was written or it failed.
//!
//! `time address protocol "method target" status request_bytes response_bytes us`: the time is that of the first byte
//! of the request, in UTC with microseconds; `us` is the time from there to the last byte of the response, in
//! microseconds; the status is `-` if the response was not written in full, method and target are `-` if the head was
//! refused. In method and target, each byte of a character other than visible ASCII, and each quote and backslash, is
//! `\xHH`, as in nginx's log, so that clients can neither forge lines nor control the terminal that shows them.

use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::net::SocketAddr;

use squall_base::Time;
use squall_base::civil::rfc3339;
use squall_base::plan::Protocol;
use squall_linux::clock;

/// Size of the buffer whose content is written in one call.
const BUFFER_BYTES: usize = 32 * 1024;

/// An access log.
pub struct AccessLog {
    out: Box<dyn Write + Send>,
    buffer: String,
    /// Offset from CLOCK_MONOTONIC to the wall clock, in nanoseconds.
    unix_offset_ns: u64,
}

/// The content of a line.
pub(crate) struct AccessEntry<'a> {
    pub(crate) peer: SocketAddr,
    pub(crate) protocol: Protocol,
    pub(crate) method: &'a str,
    pub(crate) target: &'a str,
    pub(crate) status: Option<u16>,
    pub(crate) request_body_bytes: u64,
    pub(crate) response_body_bytes: u64,
    pub(crate) began: Time,
    pub(crate) ended: Time,
}

impl AccessLog {
    /// A log that writes to `out`.
    pub fn new(out: Box<dyn Write + Send>) -> AccessLog {
        AccessLog {
            out,
            buffer: String::with_capacity(BUFFER_BYTES),
            unix_offset_ns: clock::unix_nanos().saturating_sub(clock::now().as_nanos()),
        }
    }

    pub(crate) fn write(&mut self, entry: &AccessEntry<'_>) {
        let began_ns = self.unix_offset_ns + entry.began.as_nanos();
        let status = entry
            .status
            .map_or_else(|| "-".to_owned(), |status| status.to_string());
        let _ = writeln!(
            self.buffer,
            "{} {} {} \"{} {}\" {status} {} {} {:.3}",
            rfc3339(began_ns),
            entry.peer,
            entry.protocol,
            Escaped(entry.method),
            Escaped(entry.target),
            entry.request_body_bytes,
            entry.response_body_bytes,
            entry.ended.since(entry.began).as_nanos() as f64 / 1_000.0,
        );
        if self.buffer.len() >= BUFFER_BYTES - 1024 {
            // A log that cannot be written must not stop the server; the last flush reports the error.
            let _ = self.flush();
        }
    }

    /// Writes what has been buffered.
    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let result = self.out.write_all(self.buffer.as_bytes());
        self.buffer.clear();
        result.and_then(|()| self.out.flush())
    }
}

/// A client's text in a form that is safe inside quotes.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        if self.0.bytes().all(is_plain) {
            return f.write_str(self.0);
        }
        for byte in self.0.bytes() {
            if is_plain(byte) {
                f.write_char(char::from(byte))?;
            } else {
                write!(f, "\\x{byte:02X}")?;
            }
        }
        Ok(())
    }
}

/// Writes what has been buffered; called when a station has nothing else to do. A log that fails is given up.
pub(crate) fn flush_access(log: &mut Option<AccessLog>) {
    if let Some(access) = log
        && let Err(error) = access.flush()
    {
        eprintln!("warning: cannot write the access log: {error}; continuing without it");
        *log = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_text_is_escaped() {
        let escaped = |text| Escaped(text).to_string();
        assert_eq!(escaped("/a?b=%20&c=~"), "/a?b=%20&c=~");
        assert_eq!(escaped("-"), "-");
        assert_eq!(escaped("/\"\\"), r"/\x22\x5C");
        assert_eq!(escaped("/\u{9b}31m"), r"/\xC2\x9B31m");
        assert_eq!(escaped("\u{1b}[2J\n\0\u{7f} "), r"\x1B[2J\x0A\x00\x7F\x20");
        assert_eq!(escaped("/\u{202e}\u{fffd}"), r"/\xE2\x80\xAE\xEF\xBF\xBD");
    }
}

//! The state of an open stream: its windows, which sides have finished, and how much of the response has arrived.
//!
//! It only counts and validates; `receive` and `send` handle the frames.

use super::sections::Facts;
use crate::h1::MAX_INTERIM_RESPONSES;

/// The largest flow-control window (RFC 9113, section 6.9.1).
const MAX_WINDOW_BYTES: i64 = i32::MAX as i64;

/// A send window grew beyond the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

/// How much the peer lets us send (RFC 9113, section 5.2). Negative after the peer shrinks a window already in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowToSend(pub(super) i64);

impl WindowToSend {
    pub(super) fn change(&mut self, bytes: i64) -> Result<(), TooLarge> {
        self.0 += bytes;
        if self.0 > MAX_WINDOW_BYTES {
            return Err(TooLarge);
        }
        Ok(())
    }
}

/// How much we let the peer send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowToReceive {
    pub(super) size: i64,
    /// The part that was used and not returned.
    pub(super) used: i64,
}

impl WindowToReceive {
    pub(super) fn of(size: u32) -> WindowToReceive {
        WindowToReceive {
            size: i64::from(size),
            used: 0,
        }
    }

    /// Takes bytes from the peer; returns whether they fit into the window.
    pub(super) fn take(&mut self, bytes: u32) -> bool {
        self.used += i64::from(bytes);
        self.used <= self.size
    }

    /// Grants bytes to the peer: first returns used ones, then enlarges the window.
    pub(super) fn give(&mut self, bytes: u32) -> Result<(), TooLarge> {
        let bytes = i64::from(bytes);
        let back = bytes.min(self.used.max(0));
        if self.size + (bytes - back) > MAX_WINDOW_BYTES {
            return Err(TooLarge);
        }
        self.used -= back;
        self.size += bytes - back;
        Ok(())
    }

    /// The unused part of the window.
    pub(super) fn left(&self) -> u32 {
        u32::try_from(self.size - self.used).unwrap_or(0)
    }
}

/// An open stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) to_send: WindowToSend,
    pub(super) to_receive: WindowToReceive,
    /// END_STREAM was sent.
    pub(super) is_sent: bool,
    /// END_STREAM was received.
    pub(super) is_answered: bool,
    /// RST_STREAM is queued: received frames are ignored.
    pub(super) is_reset: bool,
    /// The stream is in the queue of bodies.
    pub(super) is_queued: bool,
    pub(super) response: Response,
}

/// The received part of a response.
#[derive(Debug, Default)]
pub(super) struct Response {
    /// The request was HEAD.
    is_bodiless: bool,
    /// Interim responses received.
    interims: u32,
    /// The head of the final response arrived.
    has_head: bool,
    /// The announced length of the body, if any.
    length: Option<u64>,
    received: u64,
}

impl Response {
    /// The response to a request, which may be HEAD.
    pub(super) fn to(is_head: bool) -> Response {
        Response {
            is_bodiless: is_head,
            ..Response::default()
        }
    }

    /// Handles a header section. An error says why the message is malformed (RFC 9113, section 8.1.1).
    pub(super) fn head(&mut self, facts: Facts, ends_stream: bool) -> Result<(), &'static str> {
        if let Some(fault) = facts.fault {
            return Err(fault);
        }
        if self.has_head {
            return match (facts.status, ends_stream) {
                (None, true) => Ok(()),
                (None, false) => Err("trailers that do not end the stream"),
                (Some(_), _) => Err("a second response on a stream"),
            };
        }
        match facts.status {
            None => Err("a response without :status"),
            Some(..200) if ends_stream => Err("an interim response that ends the stream"),
            Some(..200) => {
                self.interims += 1;
                Ok(())
            }
            Some(status) => {
                self.has_head = true;
                let has_none = self.is_bodiless || matches!(status, 204 | 304);
                self.length = if has_none { Some(0) } else { facts.length };
                Ok(())
            }
        }
    }

    /// Whether more interim responses have arrived than any server has reason to send.
    pub(super) fn has_too_many_interims(&self) -> bool {
        self.interims > MAX_INTERIM_RESPONSES
    }

    /// Handles bytes of the body.
    pub(super) fn body(&mut self, bytes: u64) -> Result<(), &'static str> {
        self.received += bytes;
        if !self.has_head {
            return Err("DATA before the head of a response");
        }
        if self.length.is_some_and(|length| self.received > length) {
            return Err("a body longer than its content-length");
        }
        Ok(())
    }

    /// Handles the end of the stream.
    pub(super) fn end(&self) -> Result<(), &'static str> {
        if self.length.is_some_and(|length| self.received < length) {
            return Err("a body shorter than its content-length");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_bytes_are_returned_before_the_window_grows() {
        let mut window = WindowToReceive::of(100);
        assert!(window.take(60));
        window.give(50).unwrap();
        assert_eq!((window.left(), window.used), (90, 10));
        window.give(50).unwrap();
        assert_eq!((window.left(), window.size), (140, 140));
        assert_eq!(window.give(i32::MAX as u32), Err(TooLarge));
        assert_eq!(window.left(), 140);
        assert!(!window.take(141));
        assert_eq!(window.left(), 0);
    }

    #[test]
    fn responses_are_interims_then_a_head_a_body_and_trailers() {
        let facts = |status, length| Facts {
            status,
            length,
            ..Facts::default()
        };
        let mut response = Response::default();
        response.head(facts(Some(103), None), false).unwrap();
        assert!(response.body(1).is_err());
        let mut response = Response::default();
        response.head(facts(Some(200), Some(5)), false).unwrap();
        response.body(2).unwrap();
        assert!(response.end().is_err());
        response.body(3).unwrap();
        response.end().unwrap();
        assert!(response.head(facts(Some(200), None), true).is_err());
        assert!(response.head(facts(None, None), false).is_err());
        response.head(facts(None, None), true).unwrap();
        assert!(response.body(1).is_err());
        assert!(Response::default().head(facts(None, None), true).is_err());
        assert!(
            Response::default()
                .head(facts(Some(100), None), true)
                .is_err()
        );
        let mut response = Response::default();
        for _ in 0..MAX_INTERIM_RESPONSES {
            response.head(facts(Some(103), None), false).unwrap();
        }
        assert!(!response.has_too_many_interims());
        response.head(facts(Some(103), None), false).unwrap();
        assert!(response.has_too_many_interims());
        let mut head = Response::to(true);
        head.head(facts(Some(200), Some(5)), true).unwrap();
        head.end().unwrap();
    }
}

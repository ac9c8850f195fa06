//! A request for a client to send, and the response.

/// A request: its URL, and what differs from a plain GET.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) url: &'a str,
    pub(crate) method: &'a str,
    pub(crate) body: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    pub(crate) fn get(url: &'a str) -> Request<'a> {
        Request {
            url,
            method: "GET",
            body: None,
        }
    }

    pub(crate) fn put(url: &'a str, body: &'a [u8]) -> Request<'a> {
        Request {
            url,
            method: "PUT",
            body: Some(body),
        }
    }

    pub(crate) fn post(url: &'a str, body: &'a [u8]) -> Request<'a> {
        Request {
            method: "POST",
            ..Request::put(url, body)
        }
    }
}

/// The response that a client received.
pub(crate) struct Answer {
    /// Client, method and URL, printed when a check fails.
    pub(crate) asked: String,
    pub(crate) status: u16,
    /// "1.1", "2" or "3".
    pub(crate) version: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Checks status, version and body. The message shows only the start of the body, which may be very long.
    pub(crate) fn check(&self, status: u16, version: &str, body: &[u8]) {
        let found = (self.status, self.version.as_str(), self.body.len());
        let start = String::from_utf8_lossy(&self.body[..self.body.len().min(200)]);
        assert_eq!(
            found,
            (status, version, body.len()),
            "status, version and length of the body of {}, which begins {start:?}",
            self.asked
        );
        assert!(
            self.body == body,
            "another body of {}: {start:?}",
            self.asked
        );
    }
}

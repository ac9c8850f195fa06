//! The handshake messages that determine the keys and describe the connection: ClientHello, ServerHello and
//! EncryptedExtensions (RFC 8446, section 4; RFC 5246, section 7.4.1).
//!
//! Parses complete messages only and verifies nothing; `half` and `quic::handshake` assemble them.

use super::key_log::ClientRandom;

/// The random that marks a ServerHello as a HelloRetryRequest (RFC 8446, section 4.1.3).
const RETRY_RANDOM: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// Extensions (IANA's TLS ExtensionType Values).
const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
const PRE_SHARED_KEY: u16 = 41;
const EARLY_DATA: u16 = 42;
const SUPPORTED_VERSIONS: u16 = 43;

/// The version number of TLS 1.3.
pub(crate) const TLS13: u16 = 0x0304;

/// A ClientHello.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClientHello {
    pub(crate) random: ClientRandom,
    pub(crate) session_id: Vec<u8>,
    pub(crate) server_name: Option<String>,
    pub(crate) alpn: Vec<String>,
    pub(crate) offers_early_data: bool,
}

/// A ServerHello.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ServerHello {
    pub(crate) random: [u8; 32],
    pub(crate) session_id: Vec<u8>,
    pub(crate) cipher: u16,
    pub(crate) version: u16,
    /// The ALPN protocol, in TLS 1.2.
    pub(crate) alpn: Option<String>,
    pub(crate) has_psk: bool,
}

impl ServerHello {
    /// Whether it is a HelloRetryRequest.
    pub(crate) fn is_retry(&self) -> bool {
        self.random == RETRY_RANDOM
    }
}

/// EncryptedExtensions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EncryptedExtensions {
    pub(crate) alpn: Option<String>,
    pub(crate) takes_early_data: bool,
}

/// Reads fields from the front of a byte slice.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn word(&mut self) -> Option<u16> {
        self.take(2)
            .map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A vector with a one-byte length.
    fn short(&mut self) -> Option<&'a [u8]> {
        let length = self.byte()?;
        self.take(usize::from(length))
    }

    /// A vector with a two-byte length.
    fn long(&mut self) -> Option<&'a [u8]> {
        let length = self.word()?;
        self.take(usize::from(length))
    }

    /// The extensions, which fill the rest; a hello may have none.
    fn extensions(&mut self) -> Option<Vec<(u16, &'a [u8])>> {
        let mut extensions = Vec::new();
        if self.0.is_empty() {
            return Some(extensions);
        }
        let mut list = Reader(self.long()?);
        while !list.0.is_empty() {
            extensions.push((list.word()?, list.long()?));
        }
        Some(extensions)
    }
}

/// Parses the body of a ClientHello.
pub(crate) fn client_hello(body: &[u8]) -> Option<ClientHello> {
    let mut reader = Reader(body);
    reader.word()?;
    let random = reader.take(32)?.try_into().ok()?;
    let session_id = reader.short()?.to_vec();
    reader.long()?;
    reader.short()?;
    let mut hello = ClientHello {
        random,
        session_id,
        server_name: None,
        alpn: Vec::new(),
        offers_early_data: false,
    };
    for (kind, data) in reader.extensions()? {
        match kind {
            SERVER_NAME => hello.server_name = server_name(data),
            ALPN => hello.alpn = protocols(data),
            EARLY_DATA => hello.offers_early_data = true,
            _ => {}
        }
    }
    Some(hello)
}

/// Parses the body of a ServerHello.
pub(crate) fn server_hello(body: &[u8]) -> Option<ServerHello> {
    let mut reader = Reader(body);
    let version = reader.word()?;
    let random = reader.take(32)?.try_into().ok()?;
    let session_id = reader.short()?.to_vec();
    let cipher = reader.word()?;
    reader.byte()?;
    let mut hello = ServerHello {
        random,
        session_id,
        cipher,
        version,
        alpn: None,
        has_psk: false,
    };
    for (kind, data) in reader.extensions()? {
        match kind {
            SUPPORTED_VERSIONS => hello.version = Reader(data).word()?,
            ALPN => hello.alpn = protocols(data).pop(),
            PRE_SHARED_KEY => hello.has_psk = true,
            _ => {}
        }
    }
    Some(hello)
}

/// Parses the body of EncryptedExtensions.
pub(crate) fn encrypted_extensions(body: &[u8]) -> Option<EncryptedExtensions> {
    let mut read = EncryptedExtensions {
        alpn: None,
        takes_early_data: false,
    };
    for (kind, data) in Reader(body).extensions()? {
        match kind {
            ALPN => read.alpn = protocols(data).pop(),
            EARLY_DATA => read.takes_early_data = true,
            _ => {}
        }
    }
    Some(read)
}

/// The first host name of a server name list (RFC 6066, section 3).
fn server_name(data: &[u8]) -> Option<String> {
    let mut list = Reader(Reader(data).long()?);
    let _host_name = list.byte()?;
    Some(String::from_utf8_lossy(list.long()?).into_owned())
}

/// The protocol names of a list (RFC 7301, section 3.1), as far as they can be read.
fn protocols(data: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    let mut list = Reader(Reader(data).long().unwrap_or(&[]));
    while let Some(name) = list.short() {
        names.push(String::from_utf8_lossy(name).into_owned());
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(length_bytes: usize, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32).to_be_bytes();
        [&length[4 - length_bytes..], body].concat()
    }

    fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &vector(2, body)].concat()
    }

    #[test]
    fn truncated_client_hello_is_rejected() {
        let name = [&[0][..], &vector(2, b"example.org")].concat();
        let alpn = [vector(1, b"h2"), vector(1, b"http/1.1")].concat();
        let extensions = [
            extension(SERVER_NAME, &vector(2, &name)),
            extension(0x4a4a, b"grease"),
            extension(ALPN, &vector(2, &alpn)),
            extension(EARLY_DATA, &[]),
        ]
        .concat();
        let body = [
            &[3, 3][..],
            &[7; 32],
            &vector(1, &[5; 32]),
            &vector(2, &[0x13, 1]),
            &vector(1, &[0]),
            &vector(2, &extensions),
        ]
        .concat();
        let hello = client_hello(&body).unwrap();
        assert_eq!(hello.random, [7; 32]);
        assert_eq!(hello.server_name.as_deref(), Some("example.org"));
        assert_eq!(hello.alpn, ["h2", "http/1.1"]);
        assert!(hello.offers_early_data);
        let without = body.len() - extensions.len() - 2;
        for length in 0..body.len() {
            let read = client_hello(&body[..length]);
            assert_eq!(read.is_some(), length == without, "{length}");
        }
    }

    #[test]
    fn server_hello_and_hello_retry_request_are_distinguished() {
        let extensions = [
            extension(SUPPORTED_VERSIONS, &[3, 4]),
            extension(PRE_SHARED_KEY, &[0, 0]),
        ]
        .concat();
        let body = |random: [u8; 32]| {
            [
                &[3, 3][..],
                &random,
                &vector(1, &[]),
                &[0x13, 2, 0],
                &vector(2, &extensions),
            ]
            .concat()
        };
        let hello = server_hello(&body([1; 32])).unwrap();
        assert_eq!(
            (hello.version, hello.cipher, hello.has_psk),
            (TLS13, 0x1302, true)
        );
        assert!(!hello.is_retry());
        assert!(server_hello(&body(RETRY_RANDOM)).unwrap().is_retry());
    }

    #[test]
    fn encrypted_extensions_are_parsed() {
        let extensions = [
            extension(ALPN, &vector(2, &vector(1, b"h2"))),
            extension(EARLY_DATA, &[]),
        ]
        .concat();
        let read = encrypted_extensions(&vector(2, &extensions)).unwrap();
        assert_eq!(read.alpn.as_deref(), Some("h2"));
        assert!(read.takes_early_data);
    }
}

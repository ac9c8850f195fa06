//! TLS errors, grouped by which side caused them.
//!
//! [`TlsError`] ends a connection: the peer broke the protocol, refused us, or was refused. [`SetupError`] and
//! [`IdentityError`] are the caller's fault: settings and certificates that cannot be used.

use std::fmt;

use boring::error::ErrorStack;
use boring::ssl;
use boring::x509::X509VerifyResult;
use squall_base::plan::TlsVersion;
use thiserror::Error;

/// BoringSSL reports the peer's alerts as this number plus the alert's (SSL_AD_REASON_OFFSET in its ssl.h).
const ALERT_REASON_OFFSET: i32 = 1_000;

/// The connection is over. If we refused the peer, the alert that says so is the last output.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TlsError {
    /// The byte stream ended without the peer's close_notify, so data may be missing (RFC 8446, section 6.1).
    #[error("the peer ended the connection without close_notify")]
    Truncated,
    /// The first bytes are not TLS.
    #[error("the peer does not speak TLS")]
    NotTls,
    /// The peer sent a fatal alert.
    #[error("the peer refused: alert {0}")]
    Alert(Alert),
    /// We do not trust the server's certificate, for this reason in BoringSSL's words.
    #[error("the server's certificate is not trusted: {0}")]
    Certificate(&'static str),
    /// As the server: the client offers none of our application protocols.
    #[error("the client offers no application protocol that this server speaks")]
    NoCommonProtocol,
    /// The peer supports no version that we allow.
    #[error("the peer speaks no TLS version that is allowed here")]
    NoCommonVersion,
    /// As the server: the client offers no cipher suite that we allow.
    #[error("the client offers no cipher suite that is allowed here")]
    NoCommonCipher,
    /// A record that was not encrypted with the connection's keys, or was modified in transit.
    #[error("a record cannot be decrypted")]
    BadRecord,
    /// A record larger than TLS allows (RFC 8446, section 5.2).
    #[error("a record of more than 16 KiB and its overhead")]
    RecordTooLong,
    /// The peer broke the protocol in another way, in BoringSSL's words.
    #[error("the peer broke the TLS protocol: {0}")]
    Protocol(String),
}

impl TlsError {
    /// Converts an error from BoringSSL; `verified` is the result of verifying the peer's certificate.
    pub(super) fn new(error: &ssl::Error, verified: X509VerifyResult) -> TlsError {
        let Some(first) = error.ssl_error().and_then(|stack| stack.errors().first()) else {
            return TlsError::Protocol(error.to_string());
        };
        let alert = first.reason_code() - ALERT_REASON_OFFSET;
        if let (Some("SSL routines"), Ok(alert)) =
            (boring::error::Error::library(first), u8::try_from(alert))
        {
            return TlsError::Alert(Alert(alert));
        }
        match first.reason().unwrap_or_default() {
            "CERTIFICATE_VERIFY_FAILED" => {
                let reason = verified.map_or_else(|error| error.error_string(), |()| "refused");
                TlsError::Certificate(reason)
            }
            "NO_APPLICATION_PROTOCOL" => TlsError::NoCommonProtocol,
            "UNSUPPORTED_PROTOCOL" => TlsError::NoCommonVersion,
            "NO_SHARED_CIPHER" => TlsError::NoCommonCipher,
            "DECRYPTION_FAILED_OR_BAD_RECORD_MAC" => TlsError::BadRecord,
            "ENCRYPTED_LENGTH_TOO_LONG" | "DATA_LENGTH_TOO_LONG" => TlsError::RecordTooLong,
            reason => TlsError::Protocol(reason.to_lowercase().replace('_', " ")),
        }
    }
}

/// The description of an alert (RFC 8446, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alert(pub u8);

impl Alert {
    /// Its name in RFC 8446, section 6; `None` if it is not listed there.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "close_notify",
            10 => "unexpected_message",
            20 => "bad_record_mac",
            22 => "record_overflow",
            40 => "handshake_failure",
            42 => "bad_certificate",
            43 => "unsupported_certificate",
            44 => "certificate_revoked",
            45 => "certificate_expired",
            46 => "certificate_unknown",
            47 => "illegal_parameter",
            48 => "unknown_ca",
            49 => "access_denied",
            50 => "decode_error",
            51 => "decrypt_error",
            70 => "protocol_version",
            71 => "insufficient_security",
            80 => "internal_error",
            86 => "inappropriate_fallback",
            90 => "user_canceled",
            109 => "missing_extension",
            110 => "unsupported_extension",
            112 => "unrecognized_name",
            113 => "bad_certificate_status_response",
            115 => "unknown_psk_identity",
            116 => "certificate_required",
            120 => "no_application_protocol",
            _ => return None,
        })
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => self.0.fmt(f),
        }
    }
}

/// Settings with which no connection can begin.
#[derive(Debug, Error)]
pub enum SetupError {
    /// No version is allowed.
    #[error(
        "TLS from {min} to {max} allows no version: the oldest must not be newer than the newest"
    )]
    Versions {
        /// The oldest version allowed.
        min: TlsVersion,
        /// The newest version allowed.
        max: TlsVersion,
    },
    /// A name in the cipher list that BoringSSL does not know for TLS 1.2.
    #[error("{0:?} is not a cipher suite of TLS 1.2 in OpenSSL's notation that BoringSSL has")]
    Cipher(String),
    /// Every name in the cipher list is known, but the resulting list is empty.
    #[error("the cipher list {0:?} allows no cipher suite")]
    NoCiphers(String),
    /// A name that ALPN cannot carry (RFC 7301, section 3.1).
    #[error("{0:?} is not an application protocol: expected 1 to 255 bytes")]
    Protocol(String),
    /// A record size that TLS does not allow.
    #[error("records of {0} bytes: expected 1 to 16,384")]
    RecordSize(u64),
    /// The PEM text of trusted certificates contains none.
    #[error("the trusted certificates are empty: expected PEM")]
    NoRoots,
    /// An invalid server name.
    #[error("{0:?} is not a server name: expected a host name or an IP address")]
    ServerName(String),
    /// Any other error from BoringSSL.
    #[error("BoringSSL refused: {0}")]
    Boring(#[from] ErrorStack),
}

/// A certificate or key that cannot be used or generated.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// A certificate without names.
    #[error("a certificate needs at least one name")]
    NoNames,
    /// An invalid name for a certificate.
    #[error("{0:?} is not a name for a certificate: expected a host name or an IP address")]
    Name(String),
    /// A validity that cannot be expressed.
    #[error("a certificate cannot be valid for {days} days from {not_before_unix_s} s after 1970")]
    Validity {
        /// The start of the validity.
        not_before_unix_s: i64,
        /// The length of the validity.
        days: u32,
    },
    /// The chain cannot be read.
    #[error("the certificate chain cannot be read as PEM: {0}")]
    Chain(ErrorStack),
    /// The chain contains no certificate.
    #[error("there is no certificate in the chain: expected PEM")]
    NoCertificate,
    /// The key cannot be read.
    #[error("the private key cannot be read: expected PEM without a passphrase: {0}")]
    Key(ErrorStack),
    /// The key and the first certificate do not belong together.
    #[error("the private key is not that of the first certificate in the chain")]
    KeyMismatch,
    /// Any other error from BoringSSL.
    #[error("BoringSSL refused: {0}")]
    Boring(#[from] ErrorStack),
}

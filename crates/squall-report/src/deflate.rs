//! Deflated bytes as text, for data in a page.
//!
//! What the bytes mean is in `payload`; the page's scripts inflate them.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;

/// Deflates bytes with a zlib header (RFC 1950), in base64. The page's scripts inflate them.
pub(crate) fn deflated(bytes: &[u8]) -> String {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    let deflated = encoder.write_all(bytes).and_then(|()| encoder.finish());
    STANDARD.encode(deflated.expect("writing to memory does not fail"))
}

//! Packet protection: derives keys from secrets and header protection masks, decrypts, updates keys (RFC 9001, sections
//! 5 and 6; RFC 9369, section 3.3).
//!
//! BoringSSL does the cryptography. `connection` decides which secret protects which packet.

use boring::aead::AeadCtx;
use boring::hash::MessageDigest;
use boring::hkdf::HkdfSuite;
use boring::symm::{Cipher, Crypter, Mode};

use super::chacha20;
use super::header::{SAMPLE_BYTES, Version};
use crate::tls::{Suite, decipher, expand_label, nonce};

/// TLS_AES_128_GCM_SHA256, which protects Initial packets (RFC 9001, section 5.2).
const INITIAL_SUITE: u16 = 0x1301;

/// The salts of Initial secrets (RFC 9001, section 5.2; RFC 9369, section 3.3.1).
const SALT_V1: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad,
    0xcc, 0xbb, 0x7f, 0x0a,
];
const SALT_V2: [u8; 20] = [
    0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb,
    0xf9, 0xbd, 0x2e, 0xd9,
];

/// The labels of HKDF-Expand-Label (RFC 9001, sections 5.1 and 6.1; RFC 9369, section 3.3.2).
struct Labels {
    key: &'static [u8],
    iv: &'static [u8],
    header: &'static [u8],
    update: &'static [u8],
}

fn labels(version: Version) -> Labels {
    match version {
        Version::V1 => Labels {
            key: b"quic key",
            iv: b"quic iv",
            header: b"quic hp",
            update: b"quic ku",
        },
        Version::V2 => Labels {
            key: b"quicv2 key",
            iv: b"quicv2 iv",
            header: b"quicv2 hp",
            update: b"quicv2 ku",
        },
    }
}

/// The header protection key of one direction. Key updates do not change it (RFC 9001, section 6.1).
pub(crate) struct HeaderKey(Mask);

enum Mask {
    Aes(Crypter),
    ChaCha20([u8; 32]),
}

impl HeaderKey {
    fn new(suite: Suite, key: &[u8]) -> Option<HeaderKey> {
        let cipher = match suite {
            Suite::Aes128Gcm => Cipher::aes_128_ecb(),
            Suite::Aes256Gcm => Cipher::aes_256_ecb(),
            Suite::ChaCha20Poly1305 => {
                return Some(HeaderKey(Mask::ChaCha20(key.try_into().ok()?)));
            }
        };
        let mut crypter = Crypter::new(cipher, Mode::Encrypt, key, None).ok()?;
        crypter.pad(false);
        Some(HeaderKey(Mask::Aes(crypter)))
    }

    /// The header protection mask for this sample.
    pub(crate) fn mask(&mut self, sample: &[u8; SAMPLE_BYTES]) -> Option<[u8; 5]> {
        match &mut self.0 {
            Mask::Aes(crypter) => {
                // `update` requires room for one block more than it writes.
                let mut block = [0; 2 * SAMPLE_BYTES];
                crypter.update(sample, &mut block).ok()?;
                block.first_chunk().copied()
            }
            Mask::ChaCha20(key) => chacha20::block(key, sample).first_chunk().copied(),
        }
    }
}

/// The keys of one direction at one encryption level, in one key phase.
pub(crate) struct PacketKeys {
    version: Version,
    suite: Suite,
    secret: Vec<u8>,
    context: AeadCtx,
    iv: Vec<u8>,
}

impl PacketKeys {
    /// The keys of a traffic secret; `None` if its length is not that of the suite's hash.
    pub(crate) fn new(version: Version, suite: Suite, secret: &[u8]) -> Option<PacketKeys> {
        let labels = labels(version);
        let (context, iv) = suite.keys(secret, [labels.key, labels.iv])?;
        Some(PacketKeys {
            version,
            suite,
            secret: secret.to_vec(),
            context,
            iv,
        })
    }

    /// The header protection key derived from the same secret.
    pub(crate) fn header_key(&self) -> Option<HeaderKey> {
        let hkdf = HkdfSuite::new(self.suite.digest());
        let length = self.suite.algorithm().key_length();
        let key = expand_label(hkdf, &self.secret, labels(self.version).header, length)?;
        HeaderKey::new(self.suite, &key)
    }

    /// The keys after a key update.
    pub(crate) fn updated(&self) -> Option<PacketKeys> {
        let hkdf = HkdfSuite::new(self.suite.digest());
        let label = labels(self.version).update;
        let next = expand_label(hkdf, &self.secret, label, hkdf.prk_size())?;
        PacketKeys::new(self.version, self.suite, &next)
    }

    /// Decrypts a packet's payload, the bytes after its header; `None` if the keys do not fit.
    pub(crate) fn open(&mut self, number: u64, header: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let nonce = nonce(&self.iv, number);
        decipher(&mut self.context, &nonce, sealed, header)
    }
}

/// The client's and the server's Initial secrets. `destination` is the destination connection ID of the client's first
/// Initial packet, or the source connection ID of a Retry (RFC 9001, section 5.2).
pub(crate) fn initial_secrets(version: Version, destination: &[u8]) -> Option<[Vec<u8>; 2]> {
    let salt = match version {
        Version::V1 => &SALT_V1,
        Version::V2 => &SALT_V2,
    };
    let hkdf = HkdfSuite::new(MessageDigest::sha256());
    let common = hkdf.extract(salt, destination).ok()?;
    let secret = |label| expand_label(hkdf, &common, label, hkdf.prk_size());
    Some([secret(b"client in")?, secret(b"server in")?])
}

/// The cipher suite of Initial packets.
pub(crate) fn initial_suite() -> Option<Suite> {
    Suite::of(INITIAL_SUITE)
}

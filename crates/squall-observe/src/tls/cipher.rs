//! Decrypts records: TLS 1.3 (RFC 8446, section 5) and the AEAD suites of TLS 1.2 (RFC 5246, section 6.2.3.3; RFC 5288;
//! RFC 7905).
//!
//! BoringSSL does the cryptography; the caller decides which secret applies when.

use boring::aead::{AeadCtx, Algorithm};
use boring::hash::MessageDigest;
use boring::hkdf::HkdfSuite;
use boring::hmac::Hmac;

use super::key_log::ClientRandom;

/// Length of the tag of every AEAD here.
const TAG_BYTES: usize = 16;

/// A cipher suite, by its AEAD, which determines the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suite {
    Aes128Gcm,
    Aes256Gcm,
    ChaCha20Poly1305,
}

impl Suite {
    /// The suite with this number (IANA's TLS Cipher Suites); `None` if it has no AEAD that this module supports.
    pub(crate) fn of(number: u16) -> Option<Suite> {
        match number {
            // TLS 1.3; then TLS 1.2 with RSA, DHE-RSA, ECDHE-ECDSA and ECDHE-RSA.
            0x1301 | 0x009c | 0x009e | 0xc02b | 0xc02f => Some(Suite::Aes128Gcm),
            0x1302 | 0x009d | 0x009f | 0xc02c | 0xc030 => Some(Suite::Aes256Gcm),
            0x1303 | 0xcca8 | 0xcca9 | 0xccaa => Some(Suite::ChaCha20Poly1305),
            _ => None,
        }
    }

    /// Its AEAD.
    pub(crate) fn algorithm(self) -> Algorithm {
        match self {
            Suite::Aes128Gcm => Algorithm::aes_128_gcm(),
            Suite::Aes256Gcm => Algorithm::aes_256_gcm(),
            Suite::ChaCha20Poly1305 => Algorithm::chacha20_poly1305(),
        }
    }

    /// The hash of its key derivation.
    pub(crate) fn digest(self) -> MessageDigest {
        match self {
            Suite::Aes128Gcm | Suite::ChaCha20Poly1305 => MessageDigest::sha256(),
            Suite::Aes256Gcm => MessageDigest::sha384(),
        }
    }

    /// The AEAD and the IV of a traffic secret, by their labels; `None` if its length is not that of the hash.
    pub(crate) fn keys(self, secret: &[u8], [key, iv]: [&[u8]; 2]) -> Option<(AeadCtx, Vec<u8>)> {
        let hkdf = HkdfSuite::new(self.digest());
        if secret.len() != hkdf.prk_size() {
            return None;
        }
        let algorithm = self.algorithm();
        let key = expand_label(hkdf, secret, key, algorithm.key_length())?;
        let iv = expand_label(hkdf, secret, iv, algorithm.nonce_len())?;
        Some((AeadCtx::new_default_tag(&algorithm, &key).ok()?, iv))
    }
}

/// The keys and state of one direction.
pub(crate) struct Cipher {
    suite: Suite,
    context: AeadCtx,
    iv: Vec<u8>,
    /// The sequence number of the next record.
    number: u64,
    kind: Kind,
}

enum Kind {
    /// With the traffic secret, from which a KeyUpdate derives the next one.
    Tls13(Vec<u8>),
    Tls12,
}

/// The content of a decrypted record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DecryptedRecord {
    /// Its content type.
    pub(crate) kind: u8,
    pub(crate) bytes: Vec<u8>,
}

impl Cipher {
    /// The keys of a TLS 1.3 traffic secret (RFC 8446, section 7.3); `None` if its length is not that of the suite's
    /// hash.
    pub(crate) fn tls13(suite: Suite, secret: &[u8]) -> Option<Cipher> {
        let (context, iv) = suite.keys(secret, [b"key", b"iv"])?;
        Some(Cipher {
            suite,
            context,
            iv,
            number: 0,
            kind: Kind::Tls13(secret.to_vec()),
        })
    }

    /// The keys of both directions in TLS 1.2, the client's first, from the master secret (RFC 5246, section 6.3).
    pub(crate) fn tls12(
        suite: Suite,
        master: &[u8],
        client_random: &ClientRandom,
        server_random: &[u8; 32],
    ) -> Option<(Cipher, Cipher)> {
        let algorithm = suite.algorithm();
        let key_bytes = algorithm.key_length();
        let iv_bytes = match suite {
            Suite::Aes128Gcm | Suite::Aes256Gcm => 4,
            Suite::ChaCha20Poly1305 => 12,
        };
        let mut block = vec![0; 2 * (key_bytes + iv_bytes)];
        let seed = [&server_random[..], client_random].concat();
        prf(suite.digest(), master, b"key expansion", &seed, &mut block)?;
        let (keys, ivs) = block.split_at(2 * key_bytes);
        let cipher = |which: usize| {
            let key = &keys[which * key_bytes..][..key_bytes];
            Some(Cipher {
                suite,
                context: AeadCtx::new_default_tag(&algorithm, key).ok()?,
                iv: ivs[which * iv_bytes..][..iv_bytes].to_vec(),
                number: 0,
                kind: Kind::Tls12,
            })
        };
        Some((cipher(0)?, cipher(1)?))
    }

    /// The keys after a KeyUpdate (RFC 8446, section 7.2); `None` in TLS 1.2.
    pub(crate) fn updated(&self) -> Option<Cipher> {
        let Kind::Tls13(secret) = &self.kind else {
            return None;
        };
        let hkdf = HkdfSuite::new(self.suite.digest());
        let next = expand_label(hkdf, secret, b"traffic upd", hkdf.prk_size())?;
        Cipher::tls13(self.suite, &next)
    }

    /// Decrypts the record with this header. Returns `None`, and changes nothing, if the keys do not fit.
    pub(crate) fn open(&mut self, header: [u8; 5], payload: &[u8]) -> Option<DecryptedRecord> {
        let record = match self.kind {
            Kind::Tls13(_) => self.open_tls13(header, payload),
            Kind::Tls12 => self.open_tls12(header, payload),
        }?;
        self.number += 1;
        Some(record)
    }

    fn open_tls13(&mut self, header: [u8; 5], payload: &[u8]) -> Option<DecryptedRecord> {
        let nonce = nonce(&self.iv, self.number);
        let mut bytes = decipher(&mut self.context, &nonce, payload, &header)?;
        // The type is followed by zero padding (RFC 8446, section 5.4).
        let kind_at = bytes.iter().rposition(|byte| *byte != 0)?;
        let kind = bytes[kind_at];
        bytes.truncate(kind_at);
        Some(DecryptedRecord { kind, bytes })
    }

    fn open_tls12(&mut self, header: [u8; 5], payload: &[u8]) -> Option<DecryptedRecord> {
        let (nonce, sealed) = match self.suite {
            Suite::Aes128Gcm | Suite::Aes256Gcm => {
                let (explicit, sealed) = payload.split_at_checked(8)?;
                ([&self.iv[..], explicit].concat(), sealed)
            }
            Suite::ChaCha20Poly1305 => (nonce(&self.iv, self.number), payload),
        };
        let length = u16::try_from(sealed.len().checked_sub(TAG_BYTES)?).ok()?;
        let number = self.number.to_be_bytes();
        let data = [&number[..], &header[..3], &length.to_be_bytes()].concat();
        Some(DecryptedRecord {
            kind: header[0],
            bytes: decipher(&mut self.context, &nonce, sealed, &data)?,
        })
    }
}

/// The IV XORed with the number of a record or packet (RFC 8446, section 5.3; RFC 7905, section 2; RFC 9001, section
/// 5.3).
pub(crate) fn nonce(iv: &[u8], number: u64) -> Vec<u8> {
    let mut nonce = iv.to_vec();
    let number = number.to_be_bytes();
    for (byte, number) in nonce.iter_mut().rev().zip(number.iter().rev()) {
        *byte ^= number;
    }
    nonce
}

/// Decrypts what an AEAD has sealed together with `data`; `None` if the key does not fit.
pub(crate) fn decipher(
    context: &mut AeadCtx,
    nonce: &[u8],
    sealed: &[u8],
    data: &[u8],
) -> Option<Vec<u8>> {
    let (text, tag) = sealed.split_at_checked(sealed.len().checked_sub(TAG_BYTES)?)?;
    let mut text = text.to_vec();
    context.open_gather_mut(nonce, &mut text, tag, data).ok()?;
    Some(text)
}

/// HKDF-Expand-Label with an empty context (RFC 8446, section 7.1).
pub(crate) fn expand_label(
    hkdf: HkdfSuite,
    secret: &[u8],
    label: &[u8],
    length: usize,
) -> Option<Vec<u8>> {
    let mut info = u16::try_from(length).ok()?.to_be_bytes().to_vec();
    info.push(u8::try_from(6 + label.len()).ok()?);
    info.extend_from_slice(b"tls13 ");
    info.extend_from_slice(label);
    info.push(0);
    let mut out = vec![0; length];
    hkdf.expand(secret, &info, &mut out).ok()?;
    Some(out)
}

/// The pseudorandom function of TLS 1.2 (RFC 5246, section 5); fills `out`.
fn prf(
    digest: MessageDigest,
    secret: &[u8],
    label: &[u8],
    seed: &[u8],
    out: &mut [u8],
) -> Option<()> {
    let hmac = |parts: &[&[u8]]| {
        let mut hmac = Hmac::init(secret, &digest).ok()?;
        parts.iter().try_for_each(|part| hmac.update(part)).ok()?;
        hmac.finalize().ok()
    };
    let seed = [label, seed].concat();
    let mut a = hmac(&[&seed])?;
    for piece in out.chunks_mut(digest.size()) {
        let block = hmac(&[&a, &seed])?;
        piece.copy_from_slice(&block[..piece.len()]);
        a = hmac(&[&a])?;
    }
    Some(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text
            .bytes()
            .filter(|byte| !byte.is_ascii_whitespace())
            .collect();
        let pair =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(pair).collect()
    }

    /// RFC 8448, section 3 ("Simple 1-RTT Handshake"): the client's application data and the alert after it.
    #[test]
    fn records_of_rfc_8448_are_decrypted() {
        let secret = hex(
            "9e 40 64 6c e7 9a 7f 9d c0 5a f8 88 9b ce 65 52 87 5a fa 0b 06 df 00 87 f7 92 eb b7 c1 75 04 a5",
        );
        let data = hex(
            "a2 3f 70 54 b6 2c 94 d0 af fa fe 82 28 ba 55 cb ef ac ea 42 f9 14 aa 66 bc ab 3f 2b 98 19 a8 a5 b4 6b
             39 5b d5 4a 9a 20 44 1e 2b 62 97 4e 1f 5a 62 92 a2 97 70 14 bd 1e 3d ea e6 3a ee bb 21 69 49 15 e4",
        );
        let alert = hex("c9 87 27 60 65 56 66 b7 4d 7f f1 15 3e fd 6d b6 d0 b0 e3");
        let mut cipher = Cipher::tls13(Suite::of(0x1301).unwrap(), &secret).unwrap();
        assert_eq!(cipher.open([23, 3, 3, 0, 0x43], &alert), None);
        let record = cipher.open([23, 3, 3, 0, 0x43], &data).unwrap();
        assert_eq!(
            (record.kind, record.bytes),
            (23, (0..50).collect::<Vec<u8>>())
        );
        let record = cipher.open([23, 3, 3, 0, 0x13], &alert).unwrap();
        assert_eq!((record.kind, record.bytes), (21, vec![1, 0]));
        let mut updated = cipher.updated().unwrap();
        assert_eq!(updated.open([23, 3, 3, 0, 0x13], &alert), None);
    }

    /// A test vector of the TLS working group ("Test vectors for TLS 1.2 PRF with SHA-256", J. Luik, 2010).
    #[test]
    fn tls12_prf_matches_the_published_vector() {
        let secret = hex("9b be 43 6b a9 40 f0 17 b1 76 52 84 9a 71 db 35");
        let seed = hex("a0 ba 9f 93 6c da 31 18 27 a6 f7 96 ff d5 19 8c");
        let expected = hex(
            "e3 f2 29 ba 72 7b e1 7b 8d 12 26 20 55 7c d4 53 c2 aa b2 1d 07 c3 d4 95
             32 9b 52 d4 e6 1e db 5a 6b 30 17 91 e9 0d 35 c9 c9 a4 6b 4e 14 ba f9 af",
        );
        let mut out = vec![0; expected.len()];
        prf(
            MessageDigest::sha256(),
            &secret,
            b"test label",
            &seed,
            &mut out,
        )
        .unwrap();
        assert_eq!(out, expected);
    }

    #[test]
    fn suites_without_aead_are_not_supported() {
        assert_eq!(Suite::of(0x002f), None, "TLS_RSA_WITH_AES_128_CBC_SHA");
        assert_eq!(
            Suite::of(0xc027),
            None,
            "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"
        );
        assert!(Cipher::tls13(Suite::of(0x1302).unwrap(), &[0; 32]).is_none());
    }
}

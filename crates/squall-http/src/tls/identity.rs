//! The identity of a server, or of a client that is asked for one: a certificate chain and its private key.
//!
//! It is generated for a trial or read from PEM. No files are opened; that is up to the caller.

use std::fmt;
use std::net::IpAddr;

use boring::asn1::Asn1Time;
use boring::bn::{BigNum, MsbOption};
use boring::ec::{EcGroup, EcKey};
use boring::error::ErrorStack;
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::{PKey, Private};
use boring::sha::sha256;
use boring::ssl::SslContextBuilder;
use boring::x509::extension::{BasicConstraints, ExtendedKeyUsage, SubjectAlternativeName};
use boring::x509::{X509, X509Builder, X509Name, X509Ref};
use squall_base::text::bytes_without_bom;

use super::error::IdentityError;

/// The longest DNS name in text form (RFC 1035, section 2.3.4).
const MAX_NAME_BYTES: usize = 253;

/// The longest common name (ub-common-name of RFC 5280, appendix A.1).
const MAX_COMMON_NAME_BYTES: usize = 64;

/// X.509 numbers its versions from 0 (RFC 5280, section 4.1.2.1).
const X509_VERSION_3: i32 = 2;

const SECONDS_PER_DAY: i64 = 86_400;

/// A certificate chain, leaf first, and the leaf's private key. Clones share both.
#[derive(Clone)]
pub struct Identity {
    chain: Vec<X509>,
    key: PKey<Private>,
}

/// When a certificate becomes valid, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Start of the validity, in seconds since 1970.
    pub not_before_unix_s: i64,
    /// Length of the validity.
    pub days: u32,
}

impl Identity {
    /// Generates a key (EC P-256) and a self-signed certificate for `names`: DNS names, which may begin with `*.`, and
    /// IP addresses. It is not a certificate authority, so it vouches only for itself.
    ///
    /// # Errors
    /// The variants of [`IdentityError`] about names and validity.
    pub fn self_signed(names: &[&str], validity: Validity) -> Result<Identity, IdentityError> {
        let subject = subject_name(names)?;
        let (not_before, not_after) = times(validity)?;
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
        let key = PKey::from_ec_key(EcKey::generate(&group)?)?;
        let mut builder = X509::builder()?;
        builder.set_version(X509_VERSION_3)?;
        let mut serial = BigNum::new()?;
        // At most 20 octets with the sign (RFC 5280, section 4.1.2.2).
        serial.rand(159, MsbOption::MAYBE_ZERO, false)?;
        let serial = serial.to_asn1_integer()?;
        builder.set_serial_number(&serial)?;
        builder.set_subject_name(&subject)?;
        builder.set_issuer_name(&subject)?;
        builder.set_pubkey(&key)?;
        builder.set_not_before(&not_before)?;
        builder.set_not_after(&not_after)?;
        append_extensions(&mut builder, names)?;
        builder.sign(&key, MessageDigest::sha256())?;
        Ok(Identity {
            chain: vec![builder.build()],
            key,
        })
    }

    /// Reads a chain, leaf first, and its key without a passphrase. Both may be in the same text.
    ///
    /// # Errors
    /// [`IdentityError`] if one of them cannot be read, or if they do not belong together.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Identity, IdentityError> {
        let (chain, key) = (bytes_without_bom(chain), bytes_without_bom(key));
        let chain = X509::stack_from_pem(chain).map_err(IdentityError::Chain)?;
        let key = PKey::private_key_from_pem(key).map_err(IdentityError::Key)?;
        let leaf = chain.first().ok_or(IdentityError::NoCertificate)?;
        if !leaf.public_key()?.public_eq(&key) {
            return Err(IdentityError::KeyMismatch);
        }
        Ok(Identity { chain, key })
    }

    /// Installs this chain and key in a context. TLS over TCP calls this itself; for QUIC, the creator of the context
    /// does.
    ///
    /// # Errors
    /// If BoringSSL rejects the chain or the key.
    pub fn install(&self, builder: &mut SslContextBuilder) -> Result<(), ErrorStack> {
        let (leaf, rest) = self.split();
        builder.set_certificate(leaf)?;
        for issuer in rest {
            builder.add_extra_chain_cert(issuer.clone())?;
        }
        builder.set_private_key(&self.key)
    }

    /// The owner's own certificate.
    pub fn certificate(&self) -> &X509Ref {
        self.split().0
    }

    /// The private key.
    pub fn key(&self) -> &PKey<Private> {
        &self.key
    }

    /// The chain as PEM, leaf first.
    ///
    /// # Errors
    /// If BoringSSL cannot encode it.
    pub fn chain_pem(&self) -> Result<Vec<u8>, ErrorStack> {
        let mut pem = Vec::new();
        for certificate in &self.chain {
            pem.extend(certificate.to_pem()?);
        }
        Ok(pem)
    }

    /// The private key as PEM (PKCS #8).
    ///
    /// # Errors
    /// If BoringSSL cannot encode it.
    pub fn key_pem(&self) -> Result<Vec<u8>, ErrorStack> {
        self.key.private_key_to_pem_pkcs8()
    }

    /// SHA-256 of the public key with its algorithm (SubjectPublicKeyInfo) in base64, in the form of Chromium's
    /// `--ignore-certificate-errors-spki-list`.
    ///
    /// # Errors
    /// If BoringSSL cannot encode the key.
    pub fn fingerprint(&self) -> Result<String, ErrorStack> {
        let info = self.certificate().public_key()?.public_key_to_der()?;
        Ok(boring::base64::encode_block(&sha256(&info)))
    }

    fn split(&self) -> (&X509, &[X509]) {
        self.chain
            .split_first()
            .expect("both constructors put a certificate into the chain")
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("chain", &self.chain)
            .finish_non_exhaustive()
    }
}

/// The first name that fits, for people who inspect the certificate: only subjectAltName matters (RFC 9525).
fn subject_name(names: &[&str]) -> Result<X509Name, IdentityError> {
    if names.is_empty() {
        return Err(IdentityError::NoNames);
    }
    if let Some(name) = names.iter().find(|name| !is_name(name)) {
        return Err(IdentityError::Name((*name).to_owned()));
    }
    let common_name = names
        .iter()
        .find(|name| name.len() <= MAX_COMMON_NAME_BYTES)
        .unwrap_or(&"squall");
    let mut builder = X509Name::builder()?;
    builder.append_entry_by_nid(Nid::COMMONNAME, common_name)?;
    Ok(builder.build())
}

fn is_name(name: &str) -> bool {
    let host = name.strip_prefix("*.").unwrap_or(name);
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    name.parse::<IpAddr>().is_ok()
        || (name.len() <= MAX_NAME_BYTES && host.split('.').all(is_label))
}

fn times(validity: Validity) -> Result<(Asn1Time, Asn1Time), IdentityError> {
    let Validity {
        not_before_unix_s,
        days,
    } = validity;
    let refused = IdentityError::Validity {
        not_before_unix_s,
        days,
    };
    let end = not_before_unix_s.checked_add(i64::from(days) * SECONDS_PER_DAY);
    match (
        Asn1Time::from_unix(not_before_unix_s),
        end.map(Asn1Time::from_unix),
    ) {
        (Ok(not_before), Some(Ok(not_after))) => Ok((not_before, not_after)),
        _ => Err(refused),
    }
}

/// Adds no keyUsage: one without keyCertSign keeps BoringSSL and OpenSSL from accepting a self-signed certificate as its
/// own issuer, and keyCertSign is not allowed with CA:FALSE (RFC 5280, section 4.2.1.9).
fn append_extensions(builder: &mut X509Builder, names: &[&str]) -> Result<(), ErrorStack> {
    let mut alternatives = SubjectAlternativeName::new();
    for name in names {
        if name.parse::<IpAddr>().is_ok() {
            alternatives.ip(name);
        } else {
            alternatives.dns(name);
        }
    }
    let alternatives = alternatives.build(&builder.x509v3_context(None, None))?;
    let constraints = BasicConstraints::new().critical().build()?;
    let purpose = ExtendedKeyUsage::new().server_auth().build()?;
    for extension in [alternatives, constraints, purpose] {
        builder.append_extension(&extension)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALIDITY: Validity = Validity {
        not_before_unix_s: 1_700_000_000,
        days: 365,
    };

    #[test]
    fn a_generated_certificate_is_valid_for_its_names() {
        let names = ["server.test", "*.many.test", "10.0.0.2", "::1"];
        let identity = Identity::self_signed(&names, VALIDITY).unwrap();
        let certificate = identity.certificate();
        assert!(certificate.check_host("server.test").unwrap());
        assert!(certificate.check_host("one.many.test").unwrap());
        assert!(!certificate.check_host("other.test").unwrap());
        assert!(certificate.check_ip_asc("10.0.0.2").unwrap());
        assert!(certificate.check_ip_asc("::1").unwrap());
        assert!(!certificate.check_ip_asc("10.0.0.3").unwrap());
        assert_eq!(
            certificate.not_before().to_string(),
            "Nov 14 22:13:20 2023 GMT"
        );
        assert_eq!(
            certificate.not_after().to_string(),
            "Nov 13 22:13:20 2024 GMT"
        );
    }

    #[test]
    fn an_identity_survives_a_round_trip_through_pem() {
        let identity = Identity::self_signed(&["server.test"], VALIDITY).unwrap();
        let (chain, key) = (identity.chain_pem().unwrap(), identity.key_pem().unwrap());
        let again = Identity::from_pem(&chain, &key).unwrap();
        assert_eq!(again.chain_pem().unwrap(), chain);
        let marked = |pem: &[u8]| [&b"\xef\xbb\xbf"[..], pem].concat();
        let again = Identity::from_pem(&marked(&chain), &marked(&key)).unwrap();
        assert_eq!(again.chain_pem().unwrap(), chain);
        assert_eq!(
            again.fingerprint().unwrap(),
            identity.fingerprint().unwrap()
        );
        // SHA-256 in base64.
        assert_eq!(identity.fingerprint().unwrap().len(), 44);

        let other = Identity::self_signed(&["server.test"], VALIDITY).unwrap();
        assert!(matches!(
            Identity::from_pem(&chain, &other.key_pem().unwrap()),
            Err(IdentityError::KeyMismatch)
        ));
        assert!(matches!(
            Identity::from_pem(b"", &key),
            Err(IdentityError::NoCertificate)
        ));
        assert!(matches!(
            Identity::from_pem(&chain, b"none"),
            Err(IdentityError::Key(_))
        ));
    }

    #[test]
    fn invalid_names_and_validities_are_refused() {
        for name in ["", "a b", "a..b", "*", "server.test,DNS:other", "a\0b"] {
            let made = Identity::self_signed(&[name], VALIDITY);
            assert!(matches!(made, Err(IdentityError::Name(_))), "{name:?}");
        }
        assert!(matches!(
            Identity::self_signed(&[], VALIDITY),
            Err(IdentityError::NoNames)
        ));
        for not_before_unix_s in [i64::MAX, i64::MAX / 2, i64::MIN] {
            let validity = Validity {
                not_before_unix_s,
                days: 1,
            };
            assert!(matches!(
                Identity::self_signed(&["a"], validity),
                Err(IdentityError::Validity { .. })
            ));
        }
    }
}

//! The certificates that a server presented: how many, how long, and for which names.
//!
//! Nothing is verified here; BoringSSL does that during the handshake.

use boring::x509::{GeneralNameRef, X509, X509Ref};

/// A certificate chain as a client received it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateChain {
    /// The number of certificates.
    pub count: u64,
    /// The length of all certificates in DER, in bytes.
    pub der_bytes: u64,
    /// The DNS names in the first certificate's subjectAltName, in its order.
    pub names: Vec<String>,
}

impl CertificateChain {
    /// The chain of these certificates in DER, the server's own first.
    pub(crate) fn of_der<'a>(chain: impl IntoIterator<Item = &'a [u8]>) -> CertificateChain {
        let mut found = CertificateChain::default();
        for der in chain {
            if found.count == 0 {
                found.names = X509::from_der(der).map_or_else(|_| Vec::new(), |leaf| names(&leaf));
            }
            found.count += 1;
            found.der_bytes += der.len() as u64;
        }
        found
    }
}

fn names(certificate: &X509Ref) -> Vec<String> {
    let Some(names) = certificate.subject_alt_names() else {
        return Vec::new();
    };
    let names = names.iter().filter_map(GeneralNameRef::dnsname);
    names.map(str::to_owned).collect()
}

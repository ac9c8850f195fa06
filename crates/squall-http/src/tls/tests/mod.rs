//! Two sessions in memory. This module holds the shared helpers; each submodule tests one behaviour.

use boring::asn1::Asn1Time;
use boring::bn::BigNum;
use boring::ec::{EcGroup, EcKey};
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::{Id, PKey, Private};
use boring::rsa::Rsa;
use boring::x509::X509;
use squall_base::plan::{RecordSizes, TlsSettings, TlsVersion};
use squall_base::time::Time;

use super::*;

mod ending;
mod handshake;
mod records;
mod settings;

/// The system's clock decides whether a certificate is valid: from 2020 for a century.
const VALIDITY: Validity = Validity {
    not_before_unix_s: 1_577_836_800,
    days: 36_500,
};

pub(super) fn identity() -> Identity {
    Identity::self_signed(&["server.test", "10.0.0.2"], VALIDITY).unwrap()
}

/// An identity with that key; another key signs the certificate.
fn identity_with(key: &PKey<Private>) -> Identity {
    let signer = identity();
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    let serial = BigNum::from_u32(1).unwrap().to_asn1_integer().unwrap();
    builder.set_serial_number(&serial).unwrap();
    builder.set_pubkey(key).unwrap();
    let name = signer.certificate().subject_name();
    builder.set_subject_name(name).unwrap();
    builder.set_issuer_name(name).unwrap();
    builder
        .set_not_before(&Asn1Time::days_from_now(0).unwrap())
        .unwrap();
    builder
        .set_not_after(&Asn1Time::days_from_now(1).unwrap())
        .unwrap();
    builder.sign(signer.key(), MessageDigest::sha256()).unwrap();
    let chain = builder.build().to_pem().unwrap();
    Identity::from_pem(&chain, &key.private_key_to_pem_pkcs8().unwrap()).unwrap()
}

/// A server's identity with each kind of key that servers have. `h3` tries them, too.
pub(crate) fn identities_of_every_usual_kind() -> [(&'static str, Identity); 5] {
    let on_curve = |curve: Nid| {
        let group = EcGroup::from_curve_name(curve).unwrap();
        PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap()
    };
    let keys = [
        ("P-256", on_curve(Nid::X9_62_PRIME256V1)),
        ("P-384", on_curve(Nid::SECP384R1)),
        ("P-521", on_curve(Nid::SECP521R1)),
        ("Ed25519", PKey::generate(Id::ED25519).unwrap()),
        (
            "RSA",
            PKey::from_rsa(Rsa::generate(2_048).unwrap()).unwrap(),
        ),
    ];
    keys.map(|(name, key)| (name, identity_with(&key)))
}

pub(super) fn only(version: TlsVersion) -> TlsSettings {
    TlsSettings {
        min_version: version,
        max_version: version,
        ..TlsSettings::default()
    }
}

pub(super) fn with_records(version: TlsVersion, records: RecordSizes) -> TlsSettings {
    TlsSettings {
        records,
        ..only(version)
    }
}

/// A client and a server with the same settings; the client trusts only this server.
pub(super) fn pair(settings: &TlsSettings) -> (Session, Session) {
    let identity = identity();
    let trust = Trust::Pem(identity.chain_pem().unwrap());
    let client = ClientContext::new(settings, &["h2", "http/1.1"], &trust).unwrap();
    let server = ServerContext::new(settings, &["h2", "http/1.1"], &identity).unwrap();
    (
        Session::client(&client, Some("server.test")).unwrap(),
        Session::server(&server).unwrap(),
    )
}

/// A record with a copy of its plaintext.
#[derive(Debug, PartialEq)]
pub(super) struct Got {
    pub(super) place: RecordLocation,
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
}

/// Moves all output of one session to the other, in pieces; returns what the other received.
pub(super) fn carry(
    from: &mut Session,
    to: &mut Session,
    piece: usize,
) -> Result<Vec<Got>, TlsError> {
    let mut got = Vec::new();
    while !from.output().is_empty() {
        let n = piece.min(from.output().len());
        let received = to.receive(&from.output()[..n], |_, record| {
            assert_eq!(
                record.plain.end - record.plain.start,
                record.bytes.len() as u64
            );
            got.push(Got {
                place: RecordLocation {
                    record: record.number,
                    wire: record.wire,
                },
                start: record.plain.start,
                bytes: record.bytes.to_vec(),
            });
        });
        from.advance_output(n);
        received?;
    }
    Ok(got)
}

/// Moves output both ways until there is none.
pub(super) fn shake(
    client: &mut Session,
    server: &mut Session,
    piece: usize,
) -> Result<(), TlsError> {
    while !client.output().is_empty() || !server.output().is_empty() {
        carry(client, server, piece)?;
        carry(server, client, piece)?;
    }
    Ok(())
}

pub(super) fn secured_pair(settings: &TlsSettings) -> (Session, Session) {
    let (mut client, mut server) = pair(settings);
    shake(&mut client, &mut server, usize::MAX).unwrap();
    assert!(client.is_secured() && server.is_secured());
    (client, server)
}

pub(super) fn send(from: &mut Session, to: &mut Session, plain: &[u8], now: Time) -> Vec<Got> {
    let mut got = Vec::new();
    let mut rest = plain;
    while !rest.is_empty() {
        rest = &rest[from.encrypt(rest, now)..];
        got.extend(carry(from, to, usize::MAX).unwrap());
    }
    got
}

pub(super) fn lengths(got: &[Got]) -> Vec<usize> {
    got.iter().map(|got| got.bytes.len()).collect()
}

pub(super) const BOTH: [TlsVersion; 2] = [TlsVersion::Tls12, TlsVersion::Tls13];

pub(super) fn shaken(
    client: &ClientContext,
    server: &ServerContext,
) -> (Session, Session, Result<(), TlsError>) {
    let mut client = Session::client(client, Some("server.test")).unwrap();
    let mut server = Session::server(server).unwrap();
    let result = shake(&mut client, &mut server, usize::MAX);
    (client, server, result)
}

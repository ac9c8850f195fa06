//! Contexts: impossible settings, and sharing between threads.

use squall_base::plan::{RecordSizes, TlsSettings, TlsVersion};
use squall_base::quantity::Bytes;

use super::*;

#[test]
fn impossible_settings_are_refused_by_name() {
    let refused = |settings: &TlsSettings, alpn: &[&str], trust: &Trust| {
        ClientContext::new(settings, alpn, trust)
            .unwrap_err()
            .to_string()
    };
    let settings = TlsSettings::default();
    let ciphers = |list: &str| TlsSettings {
        ciphers: Some(list.to_owned()),
        ..TlsSettings::default()
    };
    let said = refused(
        &ciphers("ECDHE-ECDSA-AES128-GCM-SHA256:!ECDHE-NONE"),
        &[],
        &Trust::Anyone,
    );
    assert!(said.starts_with("\"ECDHE-NONE\" is not a cipher"), "{said}");
    let said = refused(&ciphers("TLS_AES_128_GCM_SHA256"), &[], &Trust::Anyone);
    assert!(said.starts_with("\"TLS_AES_128_GCM_SHA256\" is"), "{said}");
    let said = refused(&ciphers("ALL:!ALL"), &[], &Trust::Anyone);
    assert!(said.contains("allows no cipher suite"), "{said}");
    let versions = TlsSettings {
        min_version: TlsVersion::Tls13,
        max_version: TlsVersion::Tls12,
        ..TlsSettings::default()
    };
    assert!(refused(&versions, &[], &Trust::Anyone).contains("from 1.3 to 1.2"));
    assert!(refused(&settings, &["h2", ""], &Trust::Anyone).contains("\"\""));
    assert!(refused(&settings, &[], &Trust::Pem(Vec::new())).contains("certificates are empty"));
    for bytes in [0, 16_385] {
        let settings = with_records(TlsVersion::Tls13, RecordSizes::Fixed(Bytes::new(bytes)));
        assert!(refused(&settings, &[], &Trust::Anyone).contains("expected 1 to 16,384"));
    }
    let client = ClientContext::new(&settings, &[], &Trust::Anyone).unwrap();
    let named = Session::client(&client, Some("a\0b"));
    assert!(matches!(named, Err(SetupError::ServerName(_))));
}

#[test]
fn sessions_and_contexts_can_move_to_other_threads() {
    fn goes<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    goes::<Session>();
    is_shared::<ClientContext>();
    is_shared::<ServerContext>();
    is_shared::<Identity>();
}

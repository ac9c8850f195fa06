//! A self-signed P-256 certificate, made by openssl: what the peers speak TLS with.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::program::{command, run};

/// The name of this machine in certificates and URLs, besides its address: Chromium does not speak HTTP/3 to
/// localhost.
pub(crate) const HOST: &str = "test.local";

/// Two PEM files.
#[derive(Clone)]
pub(crate) struct Certificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificate {
    /// Writes certificate.pem and key.pem into the folder: for 127.0.0.1, localhost and `HOST`, valid for ten days
    /// (Chromium takes no more than 14 from a certificate that WebTransport pins; nothing here needs more).
    pub(crate) fn create(folder: &Path) -> Certificate {
        let made = Certificate {
            certificate: folder.join("certificate.pem"),
            key: folder.join("key.pem"),
        };
        run(command("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
            ])
            .args(["-nodes", "-days", "10", "-subj", &format!("/CN={HOST}")])
            .args([
                "-addext",
                &format!("subjectAltName=DNS:{HOST},DNS:localhost,IP:127.0.0.1"),
            ])
            .arg("-keyout")
            .arg(&made.key)
            .arg("-out")
            .arg(&made.certificate));
        made
    }

    /// SHA-256 of the public key, in base64: how Chromium is told to trust it.
    pub(crate) fn public_key_sha256(&self) -> String {
        let pipeline = "openssl x509 -in \"$1\" -pubkey -noout | openssl pkey -pubin -outform der \
            | openssl dgst -sha256 -binary | openssl base64 -A";
        let output = run(Command::new("sh")
            .args(["-c", pipeline, "sh"])
            .arg(&self.certificate));
        String::from_utf8(output.stdout).expect("base64")
    }
}

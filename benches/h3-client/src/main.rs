//! Sends HTTP/3 requests over a number of connections, with a number in flight on each, and counts the responses.
//!
//! It runs on one thread, like squall's client. It accepts any certificate and measures nothing: its cost is measured
//! from outside (crates/squall/benches/engines). Usage: h3-client -n REQUESTS -c CONNECTIONS -m STREAMS [-d FILE] URL

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bytes::{Buf, Bytes};
use http::{Method, Request, Uri};
use quinn::crypto::rustls::QuicClientConfig;
use rustls::DigitallySignedStruct;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::task::LocalSet;

/// The command-line arguments.
struct Arguments {
    requests: u64,
    connections: u64,
    streams: u64,
    body: Option<Bytes>,
    url: Uri,
}

type Sender = h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>;

fn main() -> Result<()> {
    let arguments = Rc::new(Arguments::read()?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let succeeded = LocalSet::new().block_on(&runtime, load(arguments))?;
    println!("succeeded {succeeded}");
    Ok(())
}

impl Arguments {
    fn read() -> Result<Arguments> {
        let mut words = std::env::args().skip(1);
        let (mut requests, mut connections, mut streams) = (1, 1, 1);
        let (mut body, mut url) = (None, None);
        while let Some(word) = words.next() {
            if !word.starts_with('-') {
                url = Some(word.parse().context("the URL")?);
                continue;
            }
            let value = words.next().context("a value")?;
            match word.as_str() {
                "-n" => requests = value.parse()?,
                "-c" => connections = value.parse()?,
                "-m" => streams = value.parse()?,
                "-d" => body = Some(std::fs::read(value)?.into()),
                _ => bail!("unknown argument {word}"),
            }
        }
        Ok(Arguments {
            requests,
            connections,
            streams,
            body,
            url: url.context("no URL")?,
        })
    }

    fn request(&self) -> Result<Request<()>> {
        let method = match self.body {
            Some(_) => Method::POST,
            None => Method::GET,
        };
        Ok(Request::builder()
            .method(method)
            .uri(self.url.clone())
            .header("user-agent", "h3-client")
            .body(())?)
    }
}

async fn load(arguments: Rc<Arguments>) -> Result<u64> {
    let address: SocketAddr = arguments
        .url
        .authority()
        .context("no host in the URL")?
        .as_str()
        .parse()
        .context("the URL needs an address and a port")?;
    let mut endpoint = quinn::Endpoint::client("127.0.0.1:0".parse()?)?;
    endpoint.set_default_client_config(config()?);
    let left = Rc::new(Cell::new(arguments.requests));
    let mut users = Vec::new();
    for _ in 0..arguments.connections {
        let connection = endpoint.connect(address, "localhost")?.await?;
        let connection = h3_quinn::Connection::new(connection);
        let (mut driver, sender) = h3::client::new(connection).await?;
        tokio::task::spawn_local(async move {
            // It ends with the connection, which the requests notice.
            let _ = std::future::poll_fn(|context| driver.poll_close(context)).await;
        });
        for _ in 0..arguments.streams {
            let user = user(sender.clone(), Rc::clone(&arguments), Rc::clone(&left));
            users.push(tokio::task::spawn_local(user));
        }
    }
    let mut succeeded = 0;
    for user in users {
        succeeded += user.await??;
    }
    Ok(succeeded)
}

/// Sends the next request as soon as a response has arrived. Returns how many succeeded.
async fn user(mut sender: Sender, arguments: Rc<Arguments>, left: Rc<Cell<u64>>) -> Result<u64> {
    let mut succeeded = 0;
    while let Some(rest) = left.get().checked_sub(1) {
        left.set(rest);
        let mut stream = sender.send_request(arguments.request()?).await?;
        if let Some(body) = &arguments.body {
            stream.send_data(body.clone()).await?;
        }
        stream.finish().await?;
        let response = stream.recv_response().await?;
        while let Some(mut data) = stream.recv_data().await? {
            data.advance(data.remaining());
        }
        succeeded += u64::from(response.status().is_success());
    }
    Ok(succeeded)
}

fn config() -> Result<quinn::ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    Ok(quinn::ClientConfig::new(Arc::new(
        QuicClientConfig::try_from(tls)?,
    )))
}

/// Accepts any certificate, but no invalid signature.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("QUIC is TLS 1.3".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

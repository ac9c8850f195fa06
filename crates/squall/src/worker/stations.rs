//! The stations of a trial: what client and server are told, and how they run.

use std::net::SocketAddrV4;
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Context, Result, anyhow};
use squall_base::Duration;
use squall_base::plan::{OpenLoad, Protocol, Trial, Workload};
use squall_http::{Request, Response, Scheme, Wants, h3, tls};
use squall_linux::stop::StopSignal;
use squall_linux::tls_session;
use squall_load::Share;
use squall_stations::client::{Asked, Client, ClientReport, ClientSettings, ClientSinks, Target};
use squall_stations::server::{Listener, Server, ServerReport, ServerSettings, Site, Spoken};

use super::collect::StationSinks;
use super::trial::{Hosts, PORT, SERVER_ADDRESS};

/// What the client calls the server.
const SERVER_NAME: &str = "server";
/// How often sockets are sampled: often enough to see a congestion window move within a round trip of an ocean.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// Runs client and server until the load is over.
pub(super) fn run(
    trial: &Trial,
    hosts: &Hosts,
    sinks: StationSinks,
    failed: &StopSignal,
) -> Result<(ClientReport, ServerReport)> {
    let identity = identity(trial)?;
    let StationSinks {
        requests,
        client_log,
        server_log,
    } = sinks;
    hosts.client.configure_tcp(&trial.variant.client.tcp)?;
    hosts.server.configure_tcp(&trial.variant.server.tcp)?;
    let stop = StopSignal::new()?;
    let mut settings = server_settings(trial, identity.as_ref())?;
    settings.log = server_log;
    let server = hosts
        .server
        .run(|| Ok(Server::listen(settings, stop.clone())))??;
    let settings = client_settings(trial, identity.as_ref())?;
    let sinks = ClientSinks {
        log: client_log,
        ..ClientSinks::new(requests)
    };
    let (client, server) = thread::scope(|scope| {
        let server = named("squall-server").spawn_scoped(scope, || failed.guard(|| server.run()));
        let client = named("squall-client").spawn_scoped(scope, || {
            hosts.client.enter()?;
            Client::new(settings, sinks, failed.clone(), StopSignal::new()?)?.run()
        });
        let client = client
            .context("cannot start the client's thread")
            .map(thread::ScopedJoinHandle::join);
        let stopped = stop.request();
        let server = server
            .context("cannot start the server's thread")
            .map(thread::ScopedJoinHandle::join);
        stopped.map(|()| (client, server))
    })?;
    let server = server?
        .map_err(|_| anyhow!("the server's thread panicked"))?
        .context("the server failed")?;
    let client = client?
        .map_err(|_| anyhow!("the client's thread panicked"))?
        .context("the client failed")?;
    Ok((client, server))
}

fn named(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.to_owned())
}

/// The server's certificate, if the path needs one.
fn identity(trial: &Trial) -> Result<Option<tls::Identity>> {
    if !trial.variant.protocol.is_secure() {
        return Ok(None);
    }
    let validity = crate::environment::certificate_validity();
    tls::Identity::self_made(&[SERVER_NAME], validity)
        .map(Some)
        .context("cannot make the server's certificate")
}

fn server_settings(trial: &Trial, identity: Option<&tls::Identity>) -> Result<ServerSettings> {
    let content_type = (
        "content-type".to_owned(),
        "application/octet-stream".to_owned(),
    );
    let body = body(trial.response.body.get());
    let response = Response::new(trial.response.status, &[content_type], body)
        .context("cannot make the response")?;
    let side = trial.variant.server.clone();
    let protocol = trial.variant.protocol;
    let speaks = match (protocol, identity) {
        (Protocol::H3, Some(identity)) => Spoken::Quic(identity.clone()),
        (_, Some(identity)) => Spoken::Secure(
            tls::ServerContext::new(&side.tls, &[protocol.alpn()], identity)
                .context("cannot set up the server's TLS")?,
        ),
        (_, None) => Spoken::Plain(protocol.version()),
    };
    Ok(ServerSettings {
        listeners: vec![Listener {
            address: SocketAddrV4::new(SERVER_ADDRESS, PORT).into(),
            speaks,
        }],
        side,
        site: Site::fixed(Arc::new(response)),
        log: squall_stations::LogSinks::default(),
        access: None,
        sample_every: SAMPLE_EVERY,
        idle_timeout: None,
        seed: trial.seed,
        is_realtime: true,
    })
}

fn client_settings(trial: &Trial, identity: Option<&tls::Identity>) -> Result<ClientSettings> {
    let variant = &trial.variant;
    let scheme = match variant.protocol.is_secure() {
        true => Scheme::Https,
        false => Scheme::Http,
    };
    let request = Request::new(
        &trial.request.method,
        scheme,
        &format!("{SERVER_NAME}:{PORT}"),
        &trial.request.target,
        &trial.request.headers,
        body(trial.request.body.get()),
    )
    .context("cannot make the request")?;
    let load = OpenLoad::try_from(trial.load).context("the load cannot be run")?;
    Ok(ClientSettings {
        targets: vec![target(trial, identity)?],
        protocol: variant.protocol,
        is_strict: true,
        asks_for_http2: false,
        side: variant.client.clone(),
        connections: variant.connections,
        pool_per_user: false,
        pool: variant.pool,
        seed: trial.seed,
        workload: Workload::Open(load),
        share: Share::WHOLE,
        requests: vec![Asked {
            request: Arc::new(request),
            target: 0,
        }],
        spin: Duration::ZERO,
        observed: Wants::default(),
        sample_every: SAMPLE_EVERY,
    })
}

/// The server, with its own certificate as the only one that is trusted.
fn target(trial: &Trial, identity: Option<&tls::Identity>) -> Result<Target> {
    let mut target = Target {
        address: SocketAddrV4::new(SERVER_ADDRESS, PORT).into(),
        server_name: SERVER_NAME.to_owned(),
        security: None,
        quic: None,
    };
    let Some(identity) = identity else {
        return Ok(target);
    };
    let (protocol, side) = (trial.variant.protocol, &trial.variant.client);
    let chain = identity
        .chain_pem()
        .context("cannot read the server's certificate")?;
    let trust = tls::Trust::Pem(chain);
    if protocol == Protocol::H3 {
        let context = h3::ClientContext::new(&side.http3, &side.tls, &trust, trial.seed)
            .context("cannot set up the client's QUIC")?;
        target.quic = Some(Arc::new(Mutex::new(context)));
    } else {
        let context = tls::ClientContext::new(&side.tls, &[protocol.alpn()], &trust)
            .context("cannot set up the client's TLS")?;
        target.security = Some(context.resuming_with(tls_session::offer));
    }
    Ok(target)
}

/// A body of `len` bytes, printable so that it can be read in a capture.
fn body(len: u64) -> Vec<u8> {
    (b'a'..=b'z').cycle().take(len as usize).collect()
}

//! `squall serve`: the embedded server as a standalone server on real ports.
//!
//! Only the flags; the server itself is in squall-stations. It runs until Ctrl-C.

use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use squall_base::plan::{Protocol, SAMPLE_EVERY, SideSettings, Version};
use squall_base::record::SideCounts;
use squall_base::{Bytes, Duration, Side};
use squall_http::tls;
use squall_linux::scheduling;
use squall_linux::stop::StopSignal;
use squall_stations::LogSinks;
use squall_stations::server::{
    AccessLog, Listener, ListenerProtocol, Server, ServerSettings, Site,
};

use crate::client::{SET, side_settings};
use crate::key_log::KeyLog;
use crate::{BadInput, CommandOutcome, interrupt, output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  squall serve --h1 8080 --https 8443 --h3 8443 --dir public\n  \
        squall serve --h2c 8080 --preset alb --sink\n  \
        squall serve --h2 8443 --set tls.records=1300 --body 64KiB --access-log -\n\n\
        Without a listener it takes --h1 8080 --https 8443 --h3 8443. A request may ask for another size, a delay and a \
        status: http://localhost:8080/?size=1MiB&delay=2s&status=503. Without --cert it makes a certificate for \
        localhost and every --name, and writes it where --write-cert says."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    listeners: Listeners,
    #[command(flatten)]
    content: Content,
    #[command(flatten)]
    certificate: Certificate,
    /// Use the protocol settings of a well-known program (docs/RECIPES.md lists them)
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Change one setting, such as `http2.window_updates=never` or `tls.records=1300` (docs/RECIPES.md; may be
    /// repeated)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Close connections without progress for this long (no request, and no part of a body); those of HTTP/3 also close
    /// after 30s without a packet
    #[arg(long, value_name = "TIME", default_value = "75s")]
    idle_timeout: Duration,
    /// Write one line per exchange to this file, with times in microseconds; `-` is stdout
    #[arg(long, value_name = "FILE")]
    access_log: Option<String>,
    /// Append TLS secrets to this file in NSS format (SSLKEYLOGFILE), as they become known
    #[arg(long, value_name = "FILE")]
    key_log: Option<PathBuf>,
}

/// Listening addresses: a port (of 127.0.0.1) or ADDRESS:PORT; port 0 takes any free port.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Listeners: PORT or ADDRESS:PORT, each may be repeated")]
pub(super) struct Listeners {
    /// HTTP/1.1 without TLS
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    h1: Vec<SocketAddr>,
    /// HTTP/1.1 over TLS
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    h1s: Vec<SocketAddr>,
    /// HTTP/2 without TLS, with prior knowledge
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    h2c: Vec<SocketAddr>,
    /// HTTP/2 over TLS
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    h2: Vec<SocketAddr>,
    /// HTTP/2 or HTTP/1.1 over TLS, as ALPN negotiates
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    https: Vec<SocketAddr>,
    /// HTTP/3
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    h3: Vec<SocketAddr>,
}

/// The content of responses.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What it answers (1KiB of text, if nothing is said)")]
#[group(multiple = false)]
struct Content {
    /// Static body of this size
    #[arg(long, value_name = "SIZE")]
    body: Option<Bytes>,
    /// Files below this folder, with ranges and content types
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// Body of the request itself
    #[arg(long)]
    echo: bool,
    /// Number of bytes in the request's body
    #[arg(long)]
    sink: bool,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "The certificate")]
pub(super) struct Certificate {
    /// Certificate with its chain (PEM)
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of --cert (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Name or address to include in the generated certificate (may be repeated)
    #[arg(long, value_name = "NAME", conflicts_with = "cert")]
    name: Vec<String>,
    /// Write the generated certificate to this file (PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "cert")]
    write_cert: Option<PathBuf>,
}

/// The default body size.
const USUAL_BODY: Bytes = Bytes::new(1024);

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome> {
    let requested = arguments.listeners.requested();
    let protocols: Vec<Protocol> = (requested.iter())
        .flat_map(|(kind, _)| kind.protocols())
        .collect();
    let side = side_settings(
        arguments.preset.as_deref(),
        (SET, &arguments.sets),
        Side::Server,
        &protocols,
    )?;
    let identity = if protocols.iter().any(|protocol| protocol.is_secure()) {
        Some(arguments.certificate.identity()?)
    } else {
        None
    };
    // Each connection is an open file. If the limit cannot be raised, it stays in force.
    scheduling::raise_open_files().context("cannot raise the limit of open files")?;
    let mut listeners = Vec::new();
    for (kind, address) in &requested {
        listeners.push(Listener {
            address: *address,
            protocol: kind.listener_protocol(&side, identity.as_ref())?,
        });
    }
    let keys = KeyLog::open(arguments.key_log.as_deref())?;
    let settings = ServerSettings {
        listeners,
        side,
        site: arguments.content.site()?,
        log: LogSinks {
            key_log: keys.as_ref().map(KeyLog::sender),
            ..LogSinks::default()
        },
        access: access_log(arguments.access_log.as_deref())?,
        sample_every: SAMPLE_EVERY,
        idle_timeout: Some(arguments.idle_timeout),
        seed: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64),
        is_realtime: false,
    };
    let stop = StopSignal::new()?;
    let server = Server::listen(settings, stop.clone())?;
    let addresses = server
        .addresses()
        .context("cannot find where the listeners are")?;
    interrupt::watch_and_signal(stop)?;
    for ((kind, _), address) in requested.iter().zip(addresses) {
        output::eprint(format_args!("listening {} on {address}\n", kind.name()));
    }
    let report = server.run()?;
    output::eprint(format_args!(
        "{} connections, {} responses\n",
        report.counts.tcp_connections + report.counts.quic_connections,
        report.responses_written
    ));
    print_counts("", &report.counts);
    keys.map_or(Ok(()), KeyLog::finish)?;
    Ok(CommandOutcome::Success)
}

/// Prints further counts, one per line.
pub(super) fn print_counts(of: &str, counts: &SideCounts) {
    for line in squall_report::load::counts(counts) {
        output::eprint(format_args!("  {of}{line}\n"));
    }
}

/// Parses a port of 127.0.0.1, or an address with a port.
fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.trim_start_matches(':').parse::<u16>() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse().map_err(|_| {
        "expected a port or an address with one, such as 8080 or [::1]:8080".to_owned()
    })
}

/// A kind of listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListenerKind {
    One(Protocol),
    /// HTTP/2 or HTTP/1.1, as ALPN negotiates.
    Https,
}

impl ListenerKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            ListenerKind::One(protocol) => protocol.name(),
            ListenerKind::Https => "https",
        }
    }

    /// The protocols whose settings it needs.
    pub(super) fn protocols(self) -> Vec<Protocol> {
        match self {
            ListenerKind::One(protocol) => vec![protocol],
            ListenerKind::Https => vec![Protocol::H2, Protocol::H1s],
        }
    }

    pub(super) fn listener_protocol(
        self,
        side: &SideSettings,
        identity: Option<&tls::Identity>,
    ) -> Result<ListenerProtocol> {
        let offers: &[&str] = match self {
            ListenerKind::One(Protocol::H1) => return Ok(ListenerProtocol::Plain(Version::Http1)),
            ListenerKind::One(Protocol::H2c) => return Ok(ListenerProtocol::Plain(Version::Http2)),
            ListenerKind::One(Protocol::H1s) => &["http/1.1"],
            ListenerKind::One(Protocol::H2) => &["h2"],
            ListenerKind::Https => &["h2", "http/1.1"],
            ListenerKind::One(Protocol::H3) => {
                let identity = identity.context("HTTP/3 needs a certificate")?;
                return Ok(ListenerProtocol::Quic(identity.clone()));
            }
        };
        let identity = identity.context("TLS needs a certificate")?;
        let context = tls::ServerContext::new(&side.tls, offers, identity);
        Ok(ListenerProtocol::Secure(
            context.context("cannot set up TLS")?,
        ))
    }
}

impl Listeners {
    pub(super) fn requested(&self) -> Vec<(ListenerKind, SocketAddr)> {
        let all = [
            (ListenerKind::One(Protocol::H1), &self.h1),
            (ListenerKind::One(Protocol::H1s), &self.h1s),
            (ListenerKind::One(Protocol::H2c), &self.h2c),
            (ListenerKind::One(Protocol::H2), &self.h2),
            (ListenerKind::Https, &self.https),
            (ListenerKind::One(Protocol::H3), &self.h3),
        ];
        let requested: Vec<_> = all
            .into_iter()
            .flat_map(|(kind, addresses)| addresses.iter().map(move |address| (kind, *address)))
            .collect();
        if !requested.is_empty() {
            return requested;
        }
        let local = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        vec![
            (ListenerKind::One(Protocol::H1), local(8080)),
            (ListenerKind::Https, local(8443)),
            (ListenerKind::One(Protocol::H3), local(8443)),
        ]
    }
}

impl Content {
    fn site(&self) -> Result<Site> {
        if self.echo {
            return Ok(Site::echo());
        }
        if self.sink {
            return Ok(Site::sink());
        }
        if let Some(folder) = &self.dir {
            let metadata = std::fs::metadata(folder).map_err(|error| {
                BadInput::new(format!("cannot serve {}: {error}", folder.display()))
            })?;
            if !metadata.is_dir() {
                let said = format!("cannot serve {}: it is no folder", folder.display());
                return Err(BadInput::new(said).into());
            }
            return Ok(Site::folder(folder.clone()));
        }
        Site::sized(self.body.unwrap_or(USUAL_BODY)).context("cannot make the response")
    }
}

impl Certificate {
    pub(super) fn identity(&self) -> Result<tls::Identity> {
        if let (Some(cert), Some(key)) = (&self.cert, &self.key) {
            let read = |path: &PathBuf| {
                std::fs::read(path).map_err(|error| {
                    BadInput::new(format!("cannot read {}: {error}", path.display()))
                })
            };
            return tls::Identity::from_pem(&read(cert)?, &read(key)?).map_err(|error| {
                BadInput::new(format!(
                    "cannot use the certificate {} with the key {}: {error}",
                    cert.display(),
                    key.display()
                ))
                .into()
            });
        }
        let mut names = vec!["localhost", "127.0.0.1", "::1"];
        names.extend(self.name.iter().map(String::as_str));
        let identity =
            tls::Identity::self_signed(&names, crate::environment::certificate_validity())
                .context("cannot make a certificate")?;
        if let Some(path) = &self.write_cert {
            let pem = identity.chain_pem().context("cannot write a certificate")?;
            std::fs::write(path, pem)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(identity)
    }
}

/// Opens an access log; `-` is stdout.
pub(super) fn access_log(path: Option<&str>) -> Result<Option<AccessLog>> {
    let Some(path) = path else {
        return Ok(None);
    };
    let out: Box<dyn Write + Send> = match path {
        "-" => Box::new(io::stdout()),
        path => {
            let mut options = File::options();
            let opened = options.create(true).append(true).open(path);
            Box::new(opened.map_err(|error| {
                BadInput::new(format!("cannot write the access log {path}: {error}"))
            })?)
        }
    };
    Ok(Some(AccessLog::new(out)))
}

//! The servers, each configured as its authors would for speed: no log, no limits, one worker.
//!
//! All answer a GET with 1 KiB of text, nginx from memory or from a file. To a POST, nghttpd and Caddy respond with the
//! same file, all others with their usual response. `least_server` is not a contender: it only has to be faster than
//! its clients.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::least_server;
use crate::programs::{self, Daemon, find, free_port};

/// The protocol to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Http {
    H1,
    H2c,
    H2,
    H3,
}

impl Http {
    pub(crate) const fn is_tls(self) -> bool {
        matches!(self, Http::H2 | Http::H3)
    }
}

/// A server program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    Squall,
    /// squall counting uploads, with windows of 16 MiB.
    Sink,
    Nginx,
    /// nginx with the page in a file, configured as in packages.
    NginxFile,
    Nghttpd,
    Caddy,
    /// The bench's own server, which only waits, reads and writes: `least_server`.
    Least,
}

impl Server {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Server::Squall | Server::Sink => "squall serve",
            Server::Nginx | Server::NginxFile => "nginx",
            Server::Nghttpd => "nghttpd",
            Server::Caddy => "caddy",
            Server::Least => "the least server",
        }
    }
}

/// The servers' folder: a page, bodies to send, a certificate.
pub(crate) struct Site {
    folder: tempfile::TempDir,
    squall: PathBuf,
    core: usize,
    has_certificate: bool,
}

/// A running server.
pub(crate) struct RunningServer {
    pub(crate) daemon: Daemon,
    pub(crate) url: String,
}

const PAGE_BYTES: usize = 1024;
/// 65 MB: a thousand times the window of HTTP/2.
pub(crate) const UPLOAD_BYTES: u64 = 65_000_000;

impl Site {
    pub(crate) fn make(squall: &Path, core: usize) -> Result<Site> {
        let folder = tempfile::tempdir()?;
        let text = |count: usize| -> Vec<u8> { (b'a'..=b'z').cycle().take(count).collect() };
        fs::create_dir(folder.path().join("www"))?;
        fs::write(folder.path().join("www/index.html"), text(PAGE_BYTES))?;
        fs::write(folder.path().join("1KiB"), text(PAGE_BYTES))?;
        fs::write(folder.path().join("65MB"), text(UPLOAD_BYTES as usize))?;
        let has_certificate = make_certificate(folder.path())?;
        Ok(Site {
            folder,
            squall: squall.to_path_buf(),
            core,
            has_certificate,
        })
    }

    /// A body of 1 KiB to send.
    pub(crate) fn small_body(&self) -> PathBuf {
        self.folder.path().join("1KiB")
    }

    /// A body of `UPLOAD_BYTES` to send.
    pub(crate) fn large_body(&self) -> PathBuf {
        self.folder.path().join("65MB")
    }

    /// Starts a server, if it is installed.
    pub(crate) fn start(&self, server: Server, http: Http) -> Result<Option<RunningServer>> {
        self.start_on(self.core, server, http)
    }

    /// Like `start`, but on the given processor; squall always runs on the servers' processor.
    pub(crate) fn start_on(
        &self,
        core: usize,
        server: Server,
        http: Http,
    ) -> Result<Option<RunningServer>> {
        if http.is_tls() && !self.has_certificate {
            println!("LEFT OUT: no openssl to make a certificate with");
            return Ok(None);
        }
        let program = match server {
            Server::Squall | Server::Sink => Some(self.squall.clone()),
            Server::Least => Some(std::env::current_exe()?),
            _ => find(server.name()),
        };
        let Some(program) = program else {
            println!(
                "LEFT OUT: {} is missing; scripts/peers installs it",
                server.name()
            );
            return Ok(None);
        };
        let mut command = Command::new(program);
        let port = match server {
            Server::Squall | Server::Sink => return self.start_squall(command, server, http),
            Server::Nginx | Server::NginxFile => self.nginx(&mut command, server, http)?,
            Server::Nghttpd => self.nghttpd(&mut command, http)?,
            Server::Caddy => self.caddy(&mut command)?,
            Server::Least => least(&mut command, http)?,
        };
        let log = format!("{server:?}.log");
        let mut daemon = Daemon::start_on(core, self.folder.path(), &log, &mut command)?;
        daemon.wait_for_port(port)?;
        Ok(Some(running(daemon, http, port)))
    }

    fn start_squall(
        &self,
        mut command: Command,
        server: Server,
        http: Http,
    ) -> Result<Option<RunningServer>> {
        let listener = match http {
            Http::H1 => "--h1",
            Http::H2c => "--h2c",
            Http::H2 => "--h2",
            Http::H3 => "--h3",
        };
        command.args(["serve", listener, "0"]);
        if http.is_tls() {
            command.args(["--cert", "certificate.pem", "--key", "key.pem"]);
        }
        if server == Server::Sink {
            let windows = ["http2.stream_window=16MiB", "http2.connection_window=16MiB"];
            command.args(["--sink", "--set", windows[0], "--set", windows[1]]);
        }
        let mut daemon =
            Daemon::start_on(self.core, self.folder.path(), "squall.log", &mut command)?;
        let port = daemon.wait_for_words(|log| {
            let address = log
                .lines()
                .find_map(|line| line.split_once(" on 127.0.0.1:"))?;
            address.1.trim().parse().ok()
        })?;
        Ok(Some(running(daemon, http, port)))
    }

    fn nginx(&self, command: &mut Command, server: Server, http: Http) -> Result<u16> {
        let port = free_port()?;
        let listen = match http {
            Http::H1 => "",
            Http::H2c => " http2",
            Http::H2 => " ssl http2",
            Http::H3 => bail!("Debian's nginx has no HTTP/3"),
        };
        let certificate = if http.is_tls() {
            "ssl_certificate certificate.pem; ssl_certificate_key key.pem;"
        } else {
            ""
        };
        let page = match server {
            Server::NginxFile => "root www; sendfile on; tcp_nopush on;".to_owned(),
            // From memory, which is nginx's fastest way.
            _ => format!("return 200 \"{}\";", fs::read_to_string(self.small_body())?),
        };
        let configuration = format!(
            "daemon off; master_process off; pid nginx.pid; error_log stderr;
             events {{ worker_connections 1024; }}
             http {{
                 access_log off; keepalive_requests 1000000000; client_body_temp_path body;
                 proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
                 scgi_temp_path scgi; http2_max_concurrent_streams 1000;
                 server {{
                     listen 127.0.0.1:{port}{listen}; {certificate}
                     location / {{ {page} }}
                 }}
             }}\n"
        );
        fs::write(self.folder.path().join("nginx.conf"), configuration)?;
        command
            .arg("-p")
            .arg(self.folder.path())
            .args(["-e", "stderr", "-c", "nginx.conf"]);
        Ok(port)
    }

    fn nghttpd(&self, command: &mut Command, http: Http) -> Result<u16> {
        let port = free_port()?;
        command.args(["--address=127.0.0.1", "--workers=1", "--htdocs=www"]);
        match http {
            Http::H2c => command.args(["--no-tls", &port.to_string()]),
            Http::H2 => command.args([&port.to_string(), "key.pem", "certificate.pem"]),
            Http::H1 | Http::H3 => bail!("nghttpd speaks HTTP/2 only"),
        };
        Ok(port)
    }

    fn caddy(&self, command: &mut Command) -> Result<u16> {
        let port = free_port()?;
        let page = fs::read_to_string(self.small_body())?;
        let configuration = serde_json::json!({
            "admin": { "disabled": true, "config": { "persist": false } },
            "logging": { "logs": { "default": { "level": "WARN" } } },
            "apps": {
                "tls": { "certificates": { "load_files": [
                    { "certificate": "certificate.pem", "key": "key.pem" },
                ] } },
                "http": { "servers": { "tls": {
                    "listen": [format!("127.0.0.1:{port}")],
                    "protocols": ["h1", "h2", "h3"],
                    "automatic_https": { "disable": true },
                    "tls_connection_policies": [{}],
                    "routes": [{ "handle": [{ "handler": "static_response", "body": page }] }],
                } } },
            },
        });
        fs::write(
            self.folder.path().join("caddy.json"),
            configuration.to_string(),
        )?;
        command.args(["run", "--config", "caddy.json"]).envs(
            ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"].map(|home| (home, self.folder.path())),
        );
        Ok(port)
    }
}

fn least(command: &mut Command, http: Http) -> Result<u16> {
    let spoken = match http {
        Http::H1 => "h1",
        Http::H2c => "h2c",
        Http::H2 | Http::H3 => bail!("the least server has no TLS"),
    };
    let port = free_port()?;
    command.args([least_server::ARGUMENT, spoken, &port.to_string()]);
    Ok(port)
}

fn running(daemon: Daemon, http: Http, port: u16) -> RunningServer {
    let scheme = if http.is_tls() { "https" } else { "http" };
    RunningServer {
        daemon,
        url: format!("{scheme}://127.0.0.1:{port}/"),
    }
}

/// Writes certificate.pem and key.pem, if openssl is installed.
fn make_certificate(folder: &Path) -> Result<bool> {
    let Some(openssl) = programs::find("openssl") else {
        return Ok(false);
    };
    let made = Command::new(openssl)
        .current_dir(folder)
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
        ])
        .args(["-days", "10", "-subj", "/CN=localhost", "-addext"])
        .args([
            "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-keyout",
            "key.pem",
        ])
        .args(["-out", "certificate.pem"])
        .output()
        .context("cannot run openssl")?;
    Ok(made.status.success())
}

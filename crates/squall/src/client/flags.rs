//! The flags of the connection and of the request that `squall fetch` and `squall load` share. `squall probe` has those of the
//! connection, too.
//!
//! Only the flags, and what follows from them alone. `request` turns them into a request, `settings` into the client's
//! settings, `target` into an address and certificates.

use squall_base::Duration;
use squall_base::plan::Protocol;
use squall_http::Scheme;

use super::reach::Family;
use crate::outcome::BadInput;

/// The HTTP version that the user chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Http {
    /// HTTP/1.1, over TLS for https
    #[value(name = "1.1", aliases = ["1", "h1", "h1s"])]
    One,
    /// HTTP/2: by ALPN for https, with prior knowledge for http
    #[value(name = "2", aliases = ["h2", "h2c"])]
    Two,
    /// HTTP/3, for https
    #[value(name = "3", aliases = ["h3"])]
    Three,
    /// HTTP/3 if the server advertises it (`alt-svc`), otherwise what ALPN negotiates
    #[value(name = "auto")]
    Auto,
}

/// The protocol that connections start with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProtocolChoice {
    pub(crate) protocol: Protocol,
    /// Whether a connection with any other protocol counts as failed.
    pub(crate) is_strict: bool,
}

/// Parses a time greater than 0.
pub(crate) fn positive_time(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(Duration::ZERO) => Err("expected more than 0".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}

/// Flags of the request.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "The request")]
pub(crate) struct RequestFlags {
    /// Request method [default: POST with a body, otherwise GET]
    #[arg(short = 'X', long, value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// Header field, as `name: value`; `host: NAME` replaces the URL's host in the request (may be repeated)
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    pub(crate) headers: Vec<String>,
    /// Send the content of this file as the body; `-` reads stdin
    #[arg(short = 'd', long, value_name = "FILE", conflicts_with_all = ["data_text", "data_size", "form"])]
    pub(crate) data: Option<String>,
    /// Send this text as the body
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["data_size", "form"])]
    pub(crate) data_text: Option<String>,
    /// Send a generated body of this size, for example 10KiB
    #[arg(long, value_name = "SIZE", conflicts_with = "form")]
    pub(crate) data_size: Option<squall_base::Bytes>,
    /// Form field, sent as multipart/form-data: `name=text` or `name=@FILE` (may be repeated)
    #[arg(short = 'F', long, value_name = "FIELD")]
    pub(crate) form: Vec<String>,
    /// Add a browser's typical header fields, including a cookie: about 1 KiB
    #[arg(long)]
    pub(crate) browser_headers: bool,
}

/// Flags of the connection.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "The connection")]
pub(crate) struct ConnectionFlags {
    /// Start each connection to an http server with an upgrade to HTTP/2 (`upgrade: h2c`)
    #[arg(long, conflicts_with = "http")]
    pub(crate) upgrade: bool,
    /// Use the protocol settings of a well-known program (docs/RECIPES.md lists them)
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// Change one setting, such as `http2.stream_window=1MiB` or `tls.records=1300` (docs/RECIPES.md; may be repeated)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// Accept any server certificate
    #[arg(short = 'k', long)]
    pub(crate) insecure: bool,
    /// Trust only the certificates in this file (PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) cacert: Option<std::path::PathBuf>,
    /// Client certificate with its chain (PEM), for servers that request one
    #[arg(short = 'E', long, value_name = "FILE")]
    pub(crate) cert: Option<std::path::PathBuf>,
    /// Private key of --cert (PEM, without a passphrase) [default: taken from the file of --cert]
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<std::path::PathBuf>,
    /// Connect to this address instead of the URL's: `IP:PORT` or `NAME:PORT`
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) connect_to: Option<String>,
    /// Reach servers through this proxy: `http://HOST:PORT` opens a tunnel (CONNECT), `socks5://USER:PASSWORD@HOST:PORT`
    /// uses SOCKS5, and with `socks5h://...` the proxy also resolves the servers' names; not for HTTP/3
    #[arg(long, value_name = "URL")]
    pub(crate) proxy: Option<String>,
    /// Connect to this UNIX socket instead of the URL's address; not for HTTP/3
    #[arg(long, value_name = "PATH", conflicts_with_all = ["connect_to", "proxy", "ipv4", "ipv6"])]
    pub(crate) unix_socket: Option<std::path::PathBuf>,
    /// Use IPv4 addresses only
    #[arg(short = '4', long)]
    pub(crate) ipv4: bool,
    /// Use IPv6 addresses only
    #[arg(short = '6', long, conflicts_with = "ipv4")]
    pub(crate) ipv6: bool,
    /// Retry a request, up to ten times, if a GOAWAY or a refused stream shows that the server has not processed it; for
    /// HTTP/2 and HTTP/3 [default: count it as failed]
    #[arg(long)]
    pub(crate) retry_unprocessed: bool,
    /// Append TLS secrets to this file in NSS format (SSLKEYLOGFILE)
    #[arg(long, value_name = "FILE")]
    pub(crate) key_log: Option<std::path::PathBuf>,
}

impl ConnectionFlags {
    /// The protocol to start with.
    pub(crate) fn protocol(
        &self,
        http: Option<Http>,
        scheme: Scheme,
    ) -> Result<ProtocolChoice, BadInput> {
        if self.upgrade && scheme == Scheme::Https {
            let said = "--upgrade is for http: over TLS, ALPN selects HTTP/2 without an upgrade";
            return Err(BadInput::new(said));
        }
        // `version` resolves `auto` later; until then ALPN decides.
        let http = http.filter(|http| *http != Http::Auto);
        let is_strict = http.is_some();
        let protocol = match (http, scheme) {
            (None | Some(Http::One | Http::Auto), Scheme::Http) => Protocol::H1,
            (Some(Http::One), Scheme::Https) => Protocol::H1s,
            (Some(Http::Two), Scheme::Http) => Protocol::H2c,
            (None | Some(Http::Two | Http::Auto), Scheme::Https) => Protocol::H2,
            (Some(Http::Three), Scheme::Https) => Protocol::H3,
            (Some(Http::Three), Scheme::Http) => {
                return Err(BadInput::new(
                    "HTTP/3 is always encrypted: write the URL with https://",
                ));
            }
        };
        Ok(ProtocolChoice {
            protocol,
            is_strict,
        })
    }

    /// Whether the flags rule out connections over UDP.
    pub(crate) fn lacks_udp(&self) -> bool {
        self.proxy.is_some() || self.unix_socket.is_some()
    }

    /// The only address family to use, if one was chosen.
    pub(crate) fn family(&self) -> Option<Family> {
        match (self.ipv4, self.ipv6) {
            (true, _) => Some(Family::V4),
            (_, true) => Some(Family::V6),
            _ => None,
        }
    }
}

impl RequestFlags {
    pub(crate) fn method(&self) -> &str {
        match &self.method {
            Some(method) => method,
            None if self.has_body() => "POST",
            None => "GET",
        }
    }

    /// Whether the flags define the message beyond its header fields.
    pub(crate) fn has_message(&self) -> bool {
        self.method.is_some() || self.has_body()
    }

    fn has_body(&self) -> bool {
        self.data.is_some()
            || self.data_text.is_some()
            || self.data_size.is_some()
            || !self.form.is_empty()
    }
}

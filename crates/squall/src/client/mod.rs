//! What `squall fetch` and `squall load` share: whom they ask, over what, and with which settings.
//!
//! Only what can be asked for and what is wrong with it; the client itself is in squall-stations.

mod target;
mod verbose;

use std::sync::Arc;

use anyhow::{Context, Result};
use squall_base::plan::{Protocol, SideSettings};
use squall_base::{Duration, Side};
use squall_http::{Body, Request, Scheme};
use squall_recipe::settings;

use crate::BadInput;
pub(crate) use target::{Place, Trusting};
pub(crate) use verbose::Verbose;

/// The protocol that the person wants.
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
}

/// Flags of the request.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "The request")]
pub(crate) struct RequestFlags {
    /// The method; POST if there is a body, else GET
    #[arg(short = 'X', long, value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// A header field, as `name: value` (may be repeated)
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    pub(crate) headers: Vec<String>,
    /// The file whose content is sent as the body; `-` reads stdin
    #[arg(short = 'd', long, value_name = "FILE")]
    pub(crate) data: Option<String>,
}

/// Flags of the connection.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "The connection")]
pub(crate) struct ConnectionFlags {
    /// The version of HTTP; without it ALPN decides for https, and it is 1.1 for http
    #[arg(long, value_name = "VERSION")]
    pub(crate) http: Option<Http>,
    /// Ask an http server for HTTP/2 with the first request of each connection (`upgrade: h2c`)
    #[arg(long, conflicts_with = "http")]
    pub(crate) upgrade: bool,
    /// Settings of a well-known program instead of the protocols' own (docs/RECIPES.md)
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// One setting, such as `http2.stream_window=1MiB` or `tls.records=1300` (docs/RECIPES.md; may be repeated)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// Take any certificate
    #[arg(short = 'k', long)]
    pub(crate) insecure: bool,
    /// Trust the certificates of this file (PEM) only
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) cacert: Option<std::path::PathBuf>,
    /// Connect to this address instead of the URL's: `IP:PORT` or `NAME:PORT`
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) connect_to: Option<String>,
    /// Append TLS secrets to this file in the format of NSS (SSLKEYLOGFILE)
    #[arg(long, value_name = "FILE")]
    pub(crate) key_log: Option<std::path::PathBuf>,
}

impl ConnectionFlags {
    /// The protocol to begin with, and whether another one would be a failure.
    pub(crate) fn protocol(&self, scheme: Scheme) -> Result<(Protocol, bool), BadInput> {
        if self.upgrade && scheme == Scheme::Https {
            let said =
                "--upgrade is for http: over TLS, ALPN agrees on HTTP/2 without asking twice";
            return Err(BadInput::new(said));
        }
        let is_strict = self.http.is_some();
        let protocol = match (self.http, scheme) {
            (None | Some(Http::One), Scheme::Http) => Protocol::H1,
            (Some(Http::One), Scheme::Https) => Protocol::H1s,
            (Some(Http::Two), Scheme::Http) => Protocol::H2c,
            (None | Some(Http::Two), Scheme::Https) => Protocol::H2,
            (Some(Http::Three), Scheme::Https) => Protocol::H3,
            (Some(Http::Three), Scheme::Http) => {
                return Err(BadInput::new(
                    "HTTP/3 is always encrypted: write the URL with https://",
                ));
            }
        };
        Ok((protocol, is_strict))
    }

    /// The settings of the client's side.
    pub(crate) fn settings(&self, protocol: Protocol) -> Result<SideSettings, BadInput> {
        side_settings(
            self.preset.as_deref(),
            &self.sets,
            Side::Client,
            &[protocol],
        )
    }
}

/// A preset with single settings on top, fit for all of the protocols.
pub(crate) fn side_settings(
    preset: Option<&str>,
    sets: &[String],
    side: Side,
    protocols: &[Protocol],
) -> Result<SideSettings, BadInput> {
    let mut found = match preset {
        Some(name) => settings::preset(name, side).map_err(BadInput::new)?,
        None => SideSettings::default(),
    };
    for text in sets {
        settings::apply(&mut found, text)
            .map_err(|error| BadInput::new(format!("--set {error}")))?;
    }
    for protocol in protocols {
        settings::check(&found, *protocol).map_err(BadInput::new)?;
    }
    Ok(found)
}

impl RequestFlags {
    /// The request for this place.
    pub(crate) fn request(&self, place: &Place) -> Result<Arc<Request>> {
        let body = self.body()?;
        let method = match &self.method {
            Some(method) => method.as_str(),
            None if self.data.is_some() => "POST",
            None => "GET",
        };
        let mut headers = Vec::new();
        for text in &self.headers {
            headers.push(header(text)?);
        }
        if !headers.iter().any(|(name, _)| name == "user-agent") {
            let agent = concat!("squall/", env!("CARGO_PKG_VERSION"));
            headers.push(("user-agent".to_owned(), agent.to_owned()));
        }
        Request::new(
            method,
            place.scheme,
            &place.authority,
            &place.target,
            &headers,
            body,
        )
        .map(Arc::new)
        .map_err(|error| BadInput::new(error).into())
    }

    fn body(&self) -> Result<Body> {
        Ok(match self.data.as_deref() {
            None => Body::EMPTY,
            Some("-") => {
                let mut bytes = Vec::new();
                std::io::Read::read_to_end(&mut std::io::stdin(), &mut bytes)
                    .context("cannot read the body from stdin")?;
                bytes.into()
            }
            Some(path) => std::fs::read(path)
                .map_err(|error| BadInput::new(format!("cannot read the body {path}: {error}")))?
                .into(),
        })
    }
}

/// `name: value`; names have no case, and HTTP/2 wants lower case.
fn header(text: &str) -> Result<(String, String), BadInput> {
    text.split_once(':')
        .filter(|(name, _)| !name.trim().is_empty())
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .ok_or_else(|| {
            BadInput::new(format!(
                "{text:?} is no header field: write \"name: value\""
            ))
        })
}

/// How often sockets are sampled.
pub(crate) const SAMPLE_EVERY: Duration = Duration::from_millis(100);

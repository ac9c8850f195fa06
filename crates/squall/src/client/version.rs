//! Resolves `--http auto`: HTTP/3 if the server advertises it, otherwise what ALPN negotiates.
//!
//! One HEAD request for the same URL returns the server's alternatives (RFC 7838). The alternative is verified by a
//! handshake before it is used, because UDP may be blocked on the path. All of this happens before anything is
//! measured, and the reason for the result is printed.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result, anyhow};
use squall_base::Duration;
use squall_base::plan::{Protocol, SideSettings};
use squall_base::record::{Outcome, RequestRecord};
use squall_http::{Body, ClientEvent, InboxOptions, Scheme};
use squall_linux::stop::StopSignal;
use squall_stations::client::{Client, ClientSinks, Observation, Observer};
use squall_stations::rows::{self, Capacity};

use super::flags::{ConnectionFlags, Http, RequestFlags};
use super::reach::{AddressBook, HandshakeFailure, ProbeTransport, try_handshake};
use super::single::single;
use super::target::{HttpUrl, TlsCredentials};
use crate::outcome::BadInput;
use crate::output::eprint;
use squall_http::values::alt_svc::{AltSvc, Alternative};

/// How long to wait for the response that lists the server's alternatives.
const ASK_FOR: Duration = Duration::from_secs(5);

/// The protocols that `--http auto` may end up with.
fn possible_protocols(flags: &ConnectionFlags, url: &HttpUrl) -> Result<Vec<Protocol>, BadInput> {
    flags.possible_protocols(&[Http::Auto], url.scheme)
}

/// What an origin revealed about itself.
struct OriginFacts {
    /// The protocol of its response.
    protocol: String,
    /// Its Alt-Svc fields, joined; `None` if it sent none.
    alt_svc: Option<String>,
}

/// Decides on one version for all of these URLs, and prints why. Alternatives to use are added to `address_book`.
pub(crate) fn resolve_auto(
    flags: &ConnectionFlags,
    request: &RequestFlags,
    urls: &[HttpUrl],
    address_book: &mut AddressBook,
) -> Result<Option<Http>> {
    let mut found = Vec::new();
    let mut said = String::new();
    for url in urls {
        match alternative(flags, request, url, address_book)? {
            Ok((alternative, why)) => {
                found.push((url.authority.clone(), alternative));
                said += &format!("--http auto: HTTP/3, {why}\n");
            }
            Err(why) => {
                eprint(format_args!("--http auto: {why}\n"));
                return Ok(None);
            }
        }
    }
    eprint(said);
    for (authority, alternative) in found {
        address_book.add_alternative(&authority, alternative);
    }
    Ok(Some(Http::Three))
}

/// The HTTP/3 alternative of a URL and why it is used; or the reason why HTTP/3 is not used, and what is used
/// instead.
fn alternative(
    flags: &ConnectionFlags,
    request: &RequestFlags,
    url: &HttpUrl,
    address_book: &mut AddressBook,
) -> Result<Result<(Alternative, String), String>> {
    if url.scheme == Scheme::Http {
        return Ok(Err("HTTP/1.1, because HTTP/3 is for https only".to_owned()));
    }
    if flags.lacks_udp() {
        let said = "as ALPN decides, because --proxy and --unix-socket cannot carry UDP";
        return Ok(Err(said.to_owned()));
    }
    let side = match flags.settings(Protocol::H3, &possible_protocols(flags, url)?) {
        Ok(side) => side,
        Err(conflict) => {
            let said = conflict.to_string();
            let said = said.trim_start_matches("squall: ");
            return Ok(Err(format!(
                "as ALPN decides, because of the settings: {said}"
            )));
        }
    };
    let text = url.to_text();
    let facts = match discover(flags, request, url, address_book)? {
        Ok(facts) => facts,
        Err(why) => {
            return Ok(Err(format!(
                "as ALPN decides, because {text} did not answer: {why}"
            )));
        }
    };
    let instead = format!("as ALPN decides, {} now, because", facts.protocol);
    let Some(value) = facts.alt_svc else {
        return Ok(Err(format!(
            "{instead} {text} advertised no alternative (alt-svc)"
        )));
    };
    let alternative = match fresh_http3(&value, &text) {
        Ok(alternative) => alternative,
        Err(why) => return Ok(Err(format!("{instead} {why}"))),
    };
    let mut alternative_url = url.clone();
    alternative_url.alternative = Some(alternative.clone());
    let credentials = TlsCredentials::of(flags)?;
    let (host, port) = alternative_url.destination(flags.connect_to.as_deref())?;
    let server_name = alternative_url.server_name();
    let mut probe_context = credentials.quic(&side)?;
    let transport = ProbeTransport::Quic {
        context: &mut probe_context,
        server_name,
    };
    let address = address_book.address((host, port), flags.family(), transport)?;
    let mut context = credentials.quic(&side)?;
    let time = address_book.time_to_try();
    match try_handshake(&mut context, server_name, address, time, |_| {}) {
        Ok(()) => {
            let why = format!("at {host}:{port} ({address}), because {text} says alt-svc: {value}");
            Ok(Ok((alternative, why)))
        }
        Err(failure) => Ok(Err(format!(
            "{instead} the alternative of {text} for HTTP/3, {host}:{port} ({address}), cannot be used: {}",
            failure.why()
        ))),
    }
}

/// The first alternative in an alt-svc value that is fresh and speaks HTTP/3, or the reason why the value has no such
/// alternative. `text` is the URL whose server sent the value.
fn fresh_http3(value: &str, text: &str) -> Result<Alternative, String> {
    let parsed = AltSvc::parse(value)
        .map_err(|error| format!("the alt-svc of {text} cannot be parsed: {error} of {value}"))?;
    (parsed.http3().cloned())
        .ok_or_else(|| format!("{text} has no fresh h3 among its alternatives: {value}"))
}

/// Completes a handshake of HTTP/3 with the server of a URL, or with its alternative, and closes the connection. `opened`
/// gets the addresses of the client and of the server before anything is sent.
///
/// # Errors
/// If the flags do not allow it, or the name cannot be found. What the server or the network did is the inner result.
pub(crate) fn quic_handshake(
    flags: &ConnectionFlags,
    url: &HttpUrl,
    side: &SideSettings,
    address_book: &mut AddressBook,
    opened: impl FnOnce(SocketAddr, SocketAddr),
) -> Result<Result<(), HandshakeFailure>> {
    let credentials = TlsCredentials::of(flags)?;
    let destination = url.destination(flags.connect_to.as_deref())?;
    let server_name = url.server_name();
    let mut probe_context = credentials.quic(side)?;
    let transport = ProbeTransport::Quic {
        context: &mut probe_context,
        server_name,
    };
    let address = address_book.address(destination, flags.family(), transport)?;
    let mut context = credentials.quic(side)?;
    let time = address_book.time_to_try();
    Ok(try_handshake(
        &mut context,
        server_name,
        address,
        time,
        |from| opened(from, address),
    ))
}

/// Sends a HEAD request to a URL and returns what its response reveals.
fn discover(
    flags: &ConnectionFlags,
    request: &RequestFlags,
    url: &HttpUrl,
    address_book: &mut AddressBook,
) -> Result<Result<OriginFacts, String>> {
    let choice = flags.protocol(None, url.scheme)?;
    let side = flags.settings(choice.protocol, &possible_protocols(flags, url)?)?;
    let target = TlsCredentials::target(flags, url, choice, &side, address_book)?;
    let head = request.request_of("HEAD", url, &[], Body::EMPTY.into())?;
    let head = head.request;
    let wants = InboxOptions {
        fields: true,
        ..InboxOptions::default()
    };
    let settings = single(target, choice, side, head, wants, ASK_FOR);
    let (sender, records) = rows::queue(Capacity::Unbounded);
    let (alternatives, received) = mpsc::channel();
    let sinks = ClientSinks {
        observer: Some(Box::new(AltSvcCollector { alternatives })),
        ..ClientSinks::new(sender)
    };
    let client = Client::new(settings, sinks, StopSignal::new()?, StopSignal::new()?)?;
    // On its own thread, because the client may change the thread's priority.
    let report = thread::Builder::new()
        .name("squall-client".to_owned())
        .spawn(move || client.run())
        .context("cannot start a client")?
        .join()
        .map_err(|_| anyhow!("a client panicked"))??;
    let records: Vec<RequestRecord> = records
        .flat_map(|mut chunk| std::mem::take(&mut *chunk))
        .collect();
    let values: Vec<String> = received.into_iter().collect();
    let Some(record) = records.first() else {
        return Ok(Err("no request was sent".to_owned()));
    };
    Ok(match record.outcome {
        Outcome::Answered => Ok(OriginFacts {
            protocol: report.counts.protocols.into_keys().collect(),
            alt_svc: (!values.is_empty()).then(|| values.join(", ")),
        }),
        Outcome::Censored => Err(format!("no response within {ASK_FOR}")),
        outcome => Err(record
            .error
            .clone()
            .unwrap_or_else(|| outcome.name().to_owned())),
    })
}

/// Collects the Alt-Svc fields of responses.
struct AltSvcCollector {
    alternatives: mpsc::Sender<String>,
}

impl Observer for AltSvcCollector {
    fn observe(&mut self, seen: Observation<'_>) {
        for event in &seen.inbox.events {
            let ClientEvent::ResponseHeaders { fields, .. } = event else {
                continue;
            };
            let said = fields.iter().filter(|field| &*field.name == b"alt-svc");
            for field in said {
                // If the receiver is dropped, the field is no longer needed.
                let _ =
                    (self.alternatives).send(String::from_utf8_lossy(&field.value).into_owned());
            }
        }
    }
}

//! What `--http auto` comes to: HTTP/3 where the server itself says that it has it, else what ALPN decides.
//!
//! One request, HEAD of what will be asked for, tells the server's alternatives (RFC 7838); what they say is tried by a
//! handshake before it is believed, because UDP may be blocked on the way. All of it is over before anything is measured,
//! and why it came out so is said.

use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result, anyhow};
use squall_base::Duration;
use squall_base::plan::Protocol;
use squall_base::record::{Outcome, RequestRecord};
use squall_http::{Body, ClientEvent, Scheme, Wants};
use squall_linux::stop::StopSignal;
use squall_stations::client::{Client, ClientSinks, Observer, Seen};
use squall_stations::rows::{self, Capacity};

use super::reach::{Over, Reach, Unfinished, shake_hands};
use super::{ConnectionFlags, Http, Place, RequestFlags, Trusting, single};
use crate::BadInput;
use crate::output::talk;
use squall_http::values::alt_svc::{AltSvc, Alternative};

/// How long the server has for the answer that tells its alternatives.
const ASK_FOR: Duration = Duration::from_secs(5);

/// What that version may still come to.
fn may_speak(flags: &ConnectionFlags, place: &Place) -> Result<Vec<Protocol>, BadInput> {
    flags.may_speak(&[Http::Auto], place.scheme)
}

/// What an origin has told.
struct Told {
    /// The protocol of its answer.
    spoken: String,
    /// Its Alt-Svc fields, joined; `None`: there was none.
    alt_svc: Option<String>,
}

/// Decides on a version for all of these places, and says why. Alternatives to be used are then known to `reach`.
pub(crate) fn settle(
    (flags, request): (&ConnectionFlags, &RequestFlags),
    places: &[Place],
    reach: &mut Reach,
) -> Result<Option<Http>> {
    let mut found = Vec::new();
    let mut said = String::new();
    for place in places {
        match alternative(flags, request, place, reach)? {
            Ok((alternative, why)) => {
                found.push((place.authority.clone(), alternative));
                said += &format!("--http auto: HTTP/3, {why}\n");
            }
            Err(why) => {
                talk(format_args!("--http auto: {why}\n"));
                return Ok(None);
            }
        }
    }
    talk(said);
    for (authority, alternative) in found {
        reach.add_alternative(&authority, alternative);
    }
    Ok(Some(Http::Three))
}

/// The alternative of a place for HTTP/3, and why it is believed; or what there is instead, and why.
fn alternative(
    flags: &ConnectionFlags,
    request: &RequestFlags,
    place: &Place,
    reach: &mut Reach,
) -> Result<Result<(Alternative, String), String>> {
    if place.scheme == Scheme::Http {
        return Ok(Err("HTTP/1.1, because HTTP/3 is for https only".to_owned()));
    }
    let side = match flags.settings(Protocol::H3, &may_speak(flags, place)?) {
        Ok(side) => side,
        Err(conflict) => {
            let said = conflict.to_string();
            let said = said.trim_start_matches("squall: ");
            return Ok(Err(format!(
                "as ALPN decides, because of the settings: {said}"
            )));
        }
    };
    let url = place.url();
    let told = match ask(flags, request, place, reach)? {
        Ok(told) => told,
        Err(why) => {
            return Ok(Err(format!(
                "as ALPN decides, because {url} did not answer: {why}"
            )));
        }
    };
    let instead = format!("as ALPN decides, {} now, because", told.spoken);
    let Some(value) = told.alt_svc else {
        return Ok(Err(format!(
            "{instead} {url} told no alternative (alt-svc)"
        )));
    };
    let parsed = match AltSvc::parse(&value) {
        Ok(parsed) => parsed,
        Err(error) => {
            let said = format!("{instead} the alt-svc of {url} cannot be read: {error} of {value}");
            return Ok(Err(said));
        }
    };
    let Some(alternative) = parsed.http3() else {
        return Ok(Err(format!(
            "{instead} {url} has no fresh h3 among its alternatives: {value}"
        )));
    };
    let mut there = place.clone();
    there.alternative = Some(alternative.clone());
    let trusting = Trusting::of(flags)?;
    let (host, port) = there.reached(flags.connect_to.as_deref())?;
    let server_name = there.server_name();
    let mut trying = trusting.quic(&side)?;
    let over = Over::Quic {
        context: &mut trying,
        server_name,
    };
    let address = reach.address((host, port), flags.family(), over)?;
    match shake_hands(&mut trusting.quic(&side)?, server_name, address) {
        Ok(()) => {
            let why = format!("at {host}:{port} ({address}), because {url} says alt-svc: {value}");
            Ok(Ok((alternative.clone(), why)))
        }
        Err(Unfinished::Silent(why) | Unfinished::Refused(why)) => Ok(Err(format!(
            "{instead} the alternative of {url} for HTTP/3, {host}:{port} ({address}), cannot be used: {why}"
        ))),
    }
}

/// Asks for what a place tells of itself.
fn ask(
    flags: &ConnectionFlags,
    request: &RequestFlags,
    place: &Place,
    reach: &mut Reach,
) -> Result<Result<Told, String>> {
    let spoken = flags.protocol(None, place.scheme)?;
    let side = flags.settings(spoken.0, &may_speak(flags, place)?)?;
    let target = Trusting::target(flags, place, spoken, &side, reach)?;
    let head = request.request_of("HEAD", place, &[], Body::EMPTY.into())?;
    let head = head.request;
    let wants = Wants {
        fields: true,
        ..Wants::default()
    };
    let settings = single(target, spoken, side, head, (wants, ASK_FOR));
    let (sender, records) = rows::queue(Capacity::Unbounded);
    let (alternatives, heard) = mpsc::channel();
    let sinks = ClientSinks {
        observer: Some(Box::new(Listening { alternatives })),
        ..ClientSinks::new(sender)
    };
    let client = Client::new(settings, sinks, StopSignal::new()?, StopSignal::new()?)?;
    // On a thread of its own, which it may give another priority.
    let report = thread::Builder::new()
        .name("squall-client".to_owned())
        .spawn(move || client.run())
        .context("cannot start a client")?
        .join()
        .map_err(|_| anyhow!("a client panicked"))??;
    let records: Vec<RequestRecord> = records
        .flat_map(|mut chunk| std::mem::take(&mut *chunk))
        .collect();
    let values: Vec<String> = heard.into_iter().collect();
    let Some(record) = records.first() else {
        return Ok(Err("it was never asked".to_owned()));
    };
    Ok(match record.outcome {
        Outcome::Answered => Ok(Told {
            spoken: report.counts.protocols.into_keys().collect(),
            alt_svc: (!values.is_empty()).then(|| values.join(", ")),
        }),
        Outcome::Censored => Err(format!("not within {ASK_FOR}")),
        outcome => Err(record
            .error
            .clone()
            .unwrap_or_else(|| outcome.name().to_owned())),
    })
}

/// Hands on the Alt-Svc fields of answers.
struct Listening {
    alternatives: mpsc::Sender<String>,
}

impl Observer for Listening {
    fn observe(&mut self, seen: Seen<'_>) {
        for event in &seen.inbox.events {
            let ClientEvent::ResponseHeaders { fields, .. } = event else {
                continue;
            };
            let said = fields.iter().filter(|field| &*field.name == b"alt-svc");
            for field in said {
                // Who no longer listens has given up.
                let _ =
                    (self.alternatives).send(String::from_utf8_lossy(&field.value).into_owned());
            }
        }
    }
}

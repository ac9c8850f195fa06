//! squall's own script file: a `Script` as JSON, read with every check that the other formats pass on their way.
//!
//! Nothing is mended: what squall did not write or a person changed for the worse is an error with its place.

use squall_base::plan::{Script, ScriptRequest};

use super::error::{Fault, Format, ImportError, Place, excerpt};
use super::{LONGEST_NS, check_size, sendable};

/// Reads a script: every step has a request, no time is before that of the step above it, and every request can be sent.
pub fn parse_script(bytes: &[u8]) -> Result<Script, ImportError> {
    check_size(Format::Script, bytes)?;
    let script: Script = serde_json::from_slice(bytes).map_err(|source| ImportError::Json {
        format: Format::Script,
        source,
    })?;
    check(&script)?;
    Ok(script)
}

/// The text of a script's file, which [`parse_script`] reads again; so what it would refuse is refused here too.
pub fn script_text(script: &Script) -> Result<String, ImportError> {
    check(script)?;
    let text = serde_json::to_string_pretty(script);
    text.map(|text| text + "\n")
        .map_err(|source| ImportError::Write { source })
}

fn check(script: &Script) -> Result<(), ImportError> {
    let at = |place, fault| ImportError::at(Format::Script, place, fault);
    for (request, place) in script.requests.iter().zip((0..).map(Place::Request)) {
        check_request(request).map_err(|fault| at(place, fault))?;
    }
    let requests = script.requests.len() as u64;
    let mut before = None;
    for (step, place) in script.steps.iter().zip((0..).map(Place::Step)) {
        let fault = match step.request {
            request if u64::from(request) >= requests => Fault::NoRequest { request, requests },
            _ if Some(step.at) < before => Fault::TimeGoesBack,
            _ if step.at.as_nanos() > LONGEST_NS => Fault::TooLate,
            _ => {
                before = Some(step.at);
                continue;
            }
        };
        return Err(at(place, fault));
    }
    match script.steps.is_empty() {
        false => Ok(()),
        true => Err(ImportError::Nothing {
            format: Format::Script,
            omissions: Vec::new(),
        }),
    }
}

fn check_request(request: &ScriptRequest) -> Result<(), Fault> {
    if !sendable::is_method(&request.method) {
        return Err(Fault::Method {
            text: excerpt(&request.method),
        });
    }
    sendable::url(&request.url)?;
    for (name, value) in &request.headers {
        if !sendable::is_field(name, value) {
            return Err(Fault::Field {
                text: excerpt(&format!("{name}: {value}")),
            });
        }
        if sendable::is_own(name) || name.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(Fault::OwnField {
                name: excerpt(name),
            });
        }
    }
    Ok(())
}

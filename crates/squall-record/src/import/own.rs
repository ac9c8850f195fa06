//! squall's own script file: a `Script` as JSON, read with the same checks that the other formats undergo.
//!
//! Nothing is corrected: anything that squall would not have written is an error with its location.

use squall_base::plan::{Script, ScriptRequest};
use squall_base::text::bytes_without_bom;

use super::error::{Fault, ImportError, excerpt};
use super::place::{Format, Location};
use super::{LONGEST_NS, check_size, sendable};

/// Reads a script. Every step must name an existing request, no step may be earlier than the one before it, and every
/// request must be sendable.
pub fn parse_script(bytes: &[u8]) -> Result<Script, ImportError> {
    check_size(Format::Script, bytes)?;
    let script: Result<Script, serde_json::Error> =
        serde_json::from_slice(bytes_without_bom(bytes));
    let script = script.map_err(|source| ImportError::Json {
        format: Format::Script,
        source,
    })?;
    check(&script)?;
    Ok(script)
}

/// The text of a script's file, which [`parse_script`] can read back. It refuses the same scripts.
pub fn script_text(script: &Script) -> Result<String, ImportError> {
    check(script)?;
    let text = serde_json::to_string_pretty(script);
    text.map(|text| text + "\n").map_err(ImportError::Write)
}

fn check(script: &Script) -> Result<(), ImportError> {
    let at = |location, fault| ImportError::at(Format::Script, location, fault);
    for (request, location) in script.requests.iter().zip((0..).map(Location::Request)) {
        check_request(request).map_err(|fault| at(location, fault))?;
    }
    let requests = script.requests.len() as u64;
    let mut before = None;
    for (step, location) in script.steps.iter().zip((0..).map(Location::Step)) {
        let fault = match step.request {
            request if u64::from(request) >= requests => Fault::NoRequest { request, requests },
            _ if Some(step.at) < before => Fault::TimeGoesBack,
            _ if step.at.as_nanos() > LONGEST_NS => Fault::TooLate,
            _ => {
                before = Some(step.at);
                continue;
            }
        };
        return Err(at(location, fault));
    }
    if !script.steps.is_empty() {
        Ok(())
    } else {
        Err(ImportError::Nothing {
            format: Format::Script,
            omissions: Vec::new(),
        })
    }
}

fn check_request(request: &ScriptRequest) -> Result<(), Fault> {
    if !sendable::is_method(&request.method) {
        return Err(Fault::Method(excerpt(&request.method)));
    }
    sendable::url(&request.url)?;
    for (name, value) in &request.headers {
        if !sendable::is_field(name, value) {
            return Err(Fault::Field(excerpt(&format!("{name}: {value}"))));
        }
        if sendable::is_reserved(name, value) || name.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(Fault::OwnField(excerpt(name)));
        }
    }
    Ok(())
}

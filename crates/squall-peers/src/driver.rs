//! What squall knows about a program: the contract of all drivers, and why an order is refused.
//!
//! Each program has its own file in `drivers`. `Refusal` is about the order; a program that is not installed is
//! `find::FindError`.

use squall_base::Side;
use squall_base::plan::{Protocol, Version};
use thiserror::Error;

use crate::find::{self, Installable};
use crate::order::{Invocation, Order, Setting};
use crate::ready::ReadinessCheck;

/// A program that can be a station.
pub trait Driver: Installable {
    /// Whether any version speaks `front` to clients and `upstream` to upstreams; without `upstream` it is to be a
    /// server. Some programs can do all of that.
    fn check_protocols(
        &self,
        _front: Protocol,
        _upstream: Option<Protocol>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// Whether this version can do what `check_protocols` promises of some version.
    fn check_version(
        &self,
        _version: &find::Version,
        _front: Protocol,
        _upstream: Option<Protocol>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// The files, arguments and environment with which this version starts as ordered. Only for orders that have passed
    /// `check`.
    fn configure(&self, order: &Order, version: &find::Version) -> Result<Invocation, Refusal>;

    /// How to find out that it is ready.
    fn readiness_check(&self, order: &Order) -> ReadinessCheck {
        ReadinessCheck::of(order)
    }

    /// Checks the order and returns what it takes to start this version of the program as ordered.
    fn render(&self, order: &Order, version: &find::Version) -> Result<Invocation, Refusal> {
        let mut invocation = self.try_render(order, version);
        if let Err(Refusal::Setting { side, can, .. }) = &mut invocation {
            *can = self.settable(order, *side, version);
        }
        invocation
    }

    /// `render`, without listing alternative settings in a refusal.
    fn try_render(&self, order: &Order, version: &find::Version) -> Result<Invocation, Refusal> {
        check(self.name(), order)?;
        let upstream = order.upstream_protocol.filter(|_| order.is_proxy());
        self.check_protocols(order.front, upstream)?;
        self.check_version(version, order.front, upstream)?;
        self.configure(order, version)
    }

    /// The settings that this order could have on that side.
    fn settable(&self, order: &Order, side: Side, version: &find::Version) -> Vec<Setting> {
        let is_accepted = |setting: Setting, sides: &[Side]| {
            let mut asked = order.clone();
            let value = usual_value(setting);
            asked.settings = sides.iter().map(|&side| ((side, setting), value)).collect();
            self.try_render(&asked, version).is_ok()
        };
        // Some versions have a setting only for both sides together.
        let can =
            |&setting: &Setting| is_accepted(setting, &[side]) || is_accepted(setting, &Side::ALL);
        Setting::ALL.into_iter().filter(can).collect()
    }
}

/// Why a program cannot do what is ordered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It does not speak this protocol to clients.
    #[error("{program} cannot speak {asked} to clients, only {}; choose one of these, or another program", names(.can))]
    Front {
        /// Its name.
        program: String,
        /// The requested protocol.
        asked: Protocol,
        /// The protocols that it speaks.
        can: Vec<Protocol>,
    },
    /// It does not speak this protocol to upstreams.
    #[error("{program} cannot speak {asked} to its upstream, only {}; choose one of these, or another program", names(.can))]
    Upstream {
        /// Its name.
        program: String,
        /// The requested protocol.
        asked: Protocol,
        /// The protocols that it speaks.
        can: Vec<Protocol>,
    },
    /// It is not a server.
    #[error(
        "{0} only passes requests on: it cannot be the path's end. Let nginx, envoy or caddy respond after it"
    )]
    NoServer(String),
    /// It is not a proxy.
    #[error(
        "{0} only answers itself: it cannot have an upstream. Use nginx, haproxy, envoy, nghttpx or caddy"
    )]
    NoProxy(String),
    /// This version lacks something that others have.
    #[error("{program} {version} cannot speak {asked} {}, which takes {needs}", hop(.side))]
    Version {
        /// Its name.
        program: String,
        /// Its version.
        version: String,
        /// The side that it concerns.
        side: Side,
        /// The requested protocol.
        asked: Protocol,
        /// Which version would do, and how to install it.
        needs: &'static str,
    },
    /// It does not have this setting.
    #[error("{program} cannot be given {setting} {value} {}: {why}; {}", hop(.side), settable(.can))]
    Setting {
        /// Its name.
        program: String,
        /// The side that it concerns.
        side: Side,
        /// The setting.
        setting: Setting,
        /// The requested value.
        value: u64,
        /// Why not, and what is possible.
        why: String,
        /// The settings that it has on that side.
        can: Vec<Setting>,
    },
    /// The order contradicts itself, or requires something else that the program does not do; with why, and what is
    /// possible.
    #[error("{0} cannot do what is required: {1}")]
    Order(String, String),
}

/// A value that every program with the setting accepts: HTTP/2's initial value (RFC 9113, section 6.5.2), otherwise
/// 100.
fn usual_value(setting: Setting) -> u64 {
    match setting {
        Setting::StreamWindow | Setting::ConnectionWindow => 65_535,
        Setting::MaxFrameSize | Setting::DataSize => 16_384,
        Setting::HeaderTableSize => 4_096,
        Setting::MaxConcurrentStreams | Setting::RequestsPerConnection => 100,
        Setting::SmallRecords => 0,
    }
}

fn settable(can: &[Setting]) -> String {
    let names: Vec<&str> = can.iter().map(|setting| setting.name()).collect();
    if names.is_empty() {
        "it accepts no settings there".to_owned()
    } else {
        format!("it accepts {}", names.join(", "))
    }
}

fn names(protocols: &[Protocol]) -> String {
    let names: Vec<&str> = protocols.iter().map(|protocol| protocol.name()).collect();
    names.join(", ")
}

fn hop(side: &Side) -> &'static str {
    match side {
        Side::Server => "to its clients",
        Side::Client => "to its upstream",
    }
}

/// What every order must satisfy, regardless of the program.
fn check(program: &str, order: &Order) -> Result<(), Refusal> {
    let wrong = |why: &str| refuse_order(program, why);
    if order.is_proxy() == order.answer.is_some() {
        return wrong("it takes either upstreams or an answer of its own");
    }
    if order.is_proxy() != order.upstream_protocol.is_some() {
        return wrong("an upstream's address and its protocol belong together");
    }
    if order.front.is_secure() && order.certificate.is_none() {
        return wrong("it speaks TLS to its clients, and has no certificate for that");
    }
    if order.threads == 0 {
        return wrong("it needs at least 1 thread");
    }
    if !is_name(&order.name) {
        return wrong("its name may have letters, digits, '.', '-' and '_' only: it names files");
    }
    check_settings(program, order)?;
    // Configurations contain it without quotes.
    if !is_name(&order.server_name) {
        return wrong("its server_name is not a host name or address");
    }
    Ok(())
}

/// Settings must belong to an existing hop, and to the protocol of that hop.
fn check_settings(program: &str, order: &Order) -> Result<(), Refusal> {
    for (&(side, setting), &value) in &order.settings {
        let why = match order.hop(side).map(Protocol::version) {
            None => "it has no upstream",
            Some(Version::Http1) if setting != Setting::RequestsPerConnection => {
                "HTTP/1.1 has no such setting"
            }
            Some(Version::Http3) if is_of_http2(setting) => "HTTP/3 has no such setting",
            Some(_) => continue,
        };
        return Err(setting_refusal(program, side, setting, value, why));
    }
    Ok(())
}

/// Whether only HTTP/2 has this setting.
fn is_of_http2(setting: Setting) -> bool {
    use Setting::{DataSize, HeaderTableSize, MaxFrameSize};
    matches!(setting, DataSize | HeaderTableSize | MaxFrameSize)
}

fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    !text.is_empty() && !text.starts_with(['.', '-']) && text.chars().all(plain)
}

/// Refuses `front` unless it is one of `can`.
pub(crate) fn front_is_one_of(
    program: &str,
    front: Protocol,
    can: &[Protocol],
) -> Result<(), Refusal> {
    if can.contains(&front) {
        return Ok(());
    }
    Err(Refusal::Front {
        program: program.to_owned(),
        asked: front,
        can: can.to_vec(),
    })
}

/// Refuses an upstream unless it is one of `can`.
pub(crate) fn upstream_is_one_of(
    program: &str,
    upstream: Option<Protocol>,
    can: &[Protocol],
) -> Result<(), Refusal> {
    match upstream {
        Some(asked) if !can.contains(&asked) => Err(Refusal::Upstream {
            program: program.to_owned(),
            asked,
            can: can.to_vec(),
        }),
        _ => Ok(()),
    }
}

/// Refuses to write TLS secrets.
pub(crate) fn refuse_key_log(program: &str, order: &Order) -> Result<(), Refusal> {
    let why = "it cannot write TLS secrets; Envoy and Caddy can";
    match order.key_log {
        Some(_) => refuse_order(program, why),
        None => Ok(()),
    }
}

pub(crate) fn setting_refusal(
    program: &str,
    side: Side,
    setting: Setting,
    value: u64,
    why: &str,
) -> Refusal {
    Refusal::Setting {
        program: program.to_owned(),
        side,
        setting,
        value,
        why: why.to_owned(),
        can: Vec::new(),
    }
}

/// A refusal for any other reason.
pub(crate) fn order_refusal(program: &str, why: &str) -> Refusal {
    Refusal::Order(program.to_owned(), why.to_owned())
}

/// Refuses an order for any other reason.
pub(crate) fn refuse_order<T>(program: &str, why: &str) -> Result<T, Refusal> {
    Err(order_refusal(program, why))
}

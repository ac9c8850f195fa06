//! `[[variant]]`: a path, the client's connections, and the settings of the protocol and of TCP.

use squall_base::Bytes;
use squall_base::plan::{Connections, Http2Settings, Protocol, Variant};
use toml::de::DeValue;

use super::distinct;
use crate::error::Mistake;
use crate::path::{self, PathError};
use crate::problems::Reported;
use crate::section::{At, Field, Section};
use crate::shapes;

/// Connections on demand unless the recipe says how many. Each is a file descriptor on both sides: 8,192
/// stay far below the hard limit of 524,288 that systemd sets (since version 240).
const DEFAULT_AT_MOST: u32 = 4_096;
/// One client address has fewer ports than this for one server address.
const MAX_CONNECTIONS: u32 = 60_000;
/// The largest flow-control window (RFC 9113, section 6.9.1).
const MAX_WINDOW: Bytes = Bytes::new((1 << 31) - 1);
/// A connection's window begins with this and can only be raised (RFC 9113, section 6.9.2).
const MIN_CONNECTION_WINDOW: Bytes = Bytes::new(65_535);
/// More than there are stream identifiers (RFC 9113, section 5.1.1); Envoy's word for "no limit".
const MAX_STREAMS: u32 = (1 << 31) - 1;
/// TCP_CA_NAME_MAX of the kernel is 16, with the closing zero.
const MAX_CONGESTION_CONTROL_LEN: usize = 15;
const DEFAULT_CONGESTION_CONTROL: &str = "cubic";
/// Variant names are columns of tables and parts of folder names.
const MAX_NAME_LEN: usize = 40;

const SOME_VARIANTS: &str = "at least one [[variant]]";
const DOUBLE_BRACKETS: &str = "write [[variant]] with two brackets on each side";

/// Reads all variants, in the order of the text.
pub(super) fn read_all(root: &Section<'_>) -> Result<Vec<Variant>, Reported> {
    let usual = root
        .maybe("congestion_control", |f| congestion_control(&f))
        .map(|name| name.unwrap_or_else(|| DEFAULT_CONGESTION_CONTROL.to_owned()));
    let fields = root.required("variant", SOME_VARIANTS, |f| {
        f.tables(SOME_VARIANTS, DOUBLE_BRACKETS)
    })?;
    let sections: Vec<Result<Section<'_>, Reported>> = fields
        .iter()
        .map(|f| f.section(&shapes::VARIANT, shapes::VARIANT.label))
        .collect();
    let names: Vec<Result<At<String>, Reported>> = sections
        .iter()
        .map(|s| {
            s.as_ref()
                .map_err(|r| *r)?
                .required("name", NAME, |f| variant_name(&f))
        })
        .collect();
    let known: Vec<At<String>> = names.iter().flatten().cloned().collect();
    let unique = distinct(root.problems(), "variant", &known);
    let variants: Vec<Result<Variant, Reported>> = sections
        .iter()
        .zip(names)
        .map(|(section, name)| variant(section.as_ref().map_err(|r| *r)?, name, &usual))
        .collect();
    unique?;
    variants.into_iter().collect()
}

fn variant(
    section: &Section<'_>,
    name: Result<At<String>, Reported>,
    usual_congestion_control: &Result<String, Reported>,
) -> Result<Variant, Reported> {
    let path = section.required("path", "a path, such as \"client ~h1~> server\"", |f| {
        path(&f)
    });
    let connections = section.maybe("connections", |f| connections(&f));
    let http2 = section.maybe("http2", |f| http2(&f));
    let own_congestion_control = section.maybe("congestion_control", |f| congestion_control(&f));
    let (path, protocol) = path?;
    if let (Protocol::H1, Some(field)) = (protocol, section.field("http2")) {
        return Err(field.refuse_key(Mistake::UnusedHttp2, "`http2` where the path says h2c"));
    }
    let congestion_control = match own_congestion_control? {
        Some(own) => own,
        None => usual_congestion_control.clone()?,
    };
    Ok(Variant {
        name: name?.value,
        path,
        protocol,
        connections: connections?.unwrap_or(usual_connections(protocol)),
        http2: http2?.unwrap_or_default(),
        congestion_control,
    })
}

/// What clients of the protocol do: HTTP/1.1 opens a connection when none is free, HTTP/2 shares one
/// (RFC 9113, section 9.1).
fn usual_connections(protocol: Protocol) -> Connections {
    match protocol {
        Protocol::H1 => Connections::OnDemand {
            at_most: DEFAULT_AT_MOST,
        },
        Protocol::H2c => Connections::Fixed(1),
    }
}

const NAME: &str = "a name of 1 to 40 visible ASCII characters, with blanks only between them";

fn variant_name(field: &Field<'_>) -> Result<At<String>, Reported> {
    let At { value, span } = field.text()?;
    let is_name = (1..=MAX_NAME_LEN).contains(&value.len())
        && value.chars().all(|c| c.is_ascii_graphic() || c == ' ')
        && value.trim() == value;
    if is_name {
        return Ok(At {
            value: value.to_owned(),
            span,
        });
    }
    let mistake = Mistake::Malformed {
        text: value.to_owned(),
        rule: "a variant's name",
    };
    Err(field.refuse(mistake, NAME))
}

fn path(field: &Field<'_>) -> Result<(String, Protocol), Reported> {
    let text = field.text()?.value;
    path::parse(text)
        .and_then(|path| Ok((path.to_string(), path.protocol_across_link()?)))
        .map_err(
            |PathError {
                 mistake,
                 span,
                 expected,
                 hint,
             }| { field.refuse_part(span, mistake.into(), &expected, hint) },
        )
}

fn connections(field: &Field<'_>) -> Result<Connections, Reported> {
    const EXPECTED: &str = "\"on demand\", a number, or { at_most = 100 }";
    let range = 1..=MAX_CONNECTIONS;
    match field.value() {
        DeValue::String(text) if text == "on demand" => Ok(Connections::OnDemand {
            at_most: DEFAULT_AT_MOST,
        }),
        DeValue::String(text) => {
            let mistake = Mistake::Malformed {
                text: text.to_string(),
                rule: "a way to get connections",
            };
            Err(field.refuse(mistake, EXPECTED))
        }
        DeValue::Integer(_) => field.integer(&range).map(Connections::Fixed),
        DeValue::Table(_) => field
            .section(&shapes::CONNECTIONS, shapes::CONNECTIONS.label)?
            .required("at_most", "the most connections at once", |f| {
                f.integer(&range)
            })
            .map(|at_most| Connections::OnDemand { at_most }),
        _ => Err(field.wrong_type(EXPECTED, None)),
    }
}

fn http2(field: &Field<'_>) -> Result<Http2Settings, Reported> {
    let table = field.section(&shapes::HTTP2, shapes::HTTP2.label)?;
    let stream_window = table.maybe("stream_window", |f| {
        f.quantity_in(&(Bytes::new(1)..=MAX_WINDOW), "1 to 2147483647 bytes")
    });
    let connection_window = table.maybe("connection_window", |f| {
        f.quantity_in(
            &(MIN_CONNECTION_WINDOW..=MAX_WINDOW),
            "65535 to 2147483647 bytes",
        )
    });
    let streams = table.maybe("max_concurrent_streams", |f| f.integer(&(1..=MAX_STREAMS)));
    let usual = Http2Settings::default();
    Ok(Http2Settings {
        stream_window: stream_window?.map_or(usual.stream_window, |w| w.value),
        connection_window: connection_window?.map_or(usual.connection_window, |w| w.value),
        max_concurrent_streams: streams?.unwrap_or(usual.max_concurrent_streams),
    })
}

fn congestion_control(field: &Field<'_>) -> Result<String, Reported> {
    let text = field.text()?.value;
    let is_name = (1..=MAX_CONGESTION_CONTROL_LEN).contains(&text.len())
        && text
            .chars()
            .all(|c| matches!(c, 'a'..='z' | '0'..='9' | '_'));
    if is_name {
        return Ok(text.to_owned());
    }
    let mistake = Mistake::Malformed {
        text: text.to_owned(),
        rule: "a congestion control",
    };
    Err(field.refuse(
        mistake,
        "the kernel's name for it, such as \"cubic\" or \"bbr\"",
    ))
}

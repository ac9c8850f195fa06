//! What a program of somebody else's is told by `client`, `server`, `connections` and `pool` of its hops.
//!
//! Only what programs may have words for passes here; whether this one has, its driver says before the run starts
//! (squall-peers). What its host hears, such as a congestion control, is in the settings of the hop.

use std::collections::BTreeMap;

use squall_base::plan::{
    AskedSetting, CLIENT_PROGRAMS, ProgramSetting, Protocol, RecordSizes, Runs, Side, SideSettings,
    Version,
};
use toml::de::DeValue;

use super::heard::{self, End};
use super::side::{self, PARTS};
use crate::error::Mistake;
use crate::path::Role;
use crate::problems::Reported;
use crate::section::{Section, listed};

const EXPECTED: &str =
    "settings of our own stations; a [station.NAME] has a configuration of its own";
const NO_PRESET: &str = "no preset: the program itself runs; `proxy(PRESET)` and `server(PRESET)` have \
                         a preset's settings";
/// Which keys of `tcp` are its host's.
const OF_THE_HOST: &str = "across the link also `tcp.congestion_control`, `tcp.max_cwnd`, `tcp.send_buffer`, \
                           `tcp.receive_buffer` and `tcp.slow_start_after_idle`, which its host has";

/// What is asked of one side of a program.
pub(super) type Told = BTreeMap<(Side, ProgramSetting), u64>;

/// As the plan has it.
pub(super) fn in_plan(told: Told) -> Vec<AskedSetting> {
    told.into_iter()
        .map(|((side, setting), value)| AskedSetting {
            side,
            setting,
            value,
        })
        .collect()
}

/// Reads what `section`, a variant or a table of a hop, says of a program's side, over what it was told.
pub(super) fn read(
    section: &Section<'_>,
    role: &Role,
    end: End,
    told: &mut Told,
) -> Result<(), Reported> {
    let station = || role.name.clone();
    let is_load = is_load_generator(role);
    let hints: &[&str] = match end.side {
        Side::Client if is_load => &["pool"],
        Side::Client => &["connections", "pool"],
        Side::Server => &[],
    };
    if let Some(field) = hints.iter().find_map(|key| section.field(key)) {
        let mistake = Mistake::NotOurs { station: station() };
        return Err(field.refuse_key(mistake, EXPECTED));
    }
    let Some(field) = section.field(side::key_of(end.side)) else {
        return Ok(());
    };
    let has_words = matches!(role.runs, Runs::Program { .. }) && !is_load;
    let table = field.section(&crate::shapes::SIDE, &format!("`{}`", field.key))?;
    if let Some(preset) = table.field("preset") {
        let mistake = Mistake::NotOurs { station: station() };
        return Err(preset.refuse_key(mistake, NO_PRESET));
    }
    let mut settings = SideSettings::default();
    side::tables(&table, &[end.protocol], &mut settings)?;
    for part in PARTS {
        let Some(inner) = table.field(part.key) else {
            continue;
        };
        for key in part.shape.keys {
            let Some(field) = inner.inner(key) else {
                continue;
            };
            let is_of_requests = ["requests_per_connection", "goaway_after"].contains(key);
            if is_of_requests && matches!(field.value(), DeValue::String(_)) {
                let expected = "a number of requests; without one the program does as it does";
                return Err(field.out_of_range("never", expected));
            }
            let value = value_of(&settings, part.key, key, end.side).filter(|_| has_words);
            if let Some((setting, value)) = value {
                told.insert((end.side, setting), value);
                continue;
            }
            if !heard::is_for_host(end, part.key, key) {
                let mistake = Mistake::NoWords {
                    station: station(),
                    key: (*key).to_owned(),
                };
                return Err(field.refuse_key(mistake, &expected(end, has_words)));
            }
        }
    }
    Ok(())
}

fn is_load_generator(role: &Role) -> bool {
    matches!(&role.runs, Runs::Program { program } if CLIENT_PROGRAMS.contains(&program.as_str()))
}

/// What a server may be told of HTTP/2; the last is nothing for clients.
const HTTP2: [&str; 7] = [
    "http2.stream_window",
    "http2.connection_window",
    "http2.max_concurrent_streams",
    "http2.max_frame_size",
    "http2.header_table_size",
    "http2.data_size",
    "http2.goaway_after",
];

/// What a program may be told on that side of such a hop.
fn expected(end: End, has_words: bool) -> String {
    let words: &[&str] = match (end.protocol.version(), has_words) {
        (_, false) => &[],
        (Version::Http1, _) => &["http1.requests_per_connection"],
        // Only servers end connections by GOAWAY.
        (Version::Http2, _) if end.side == Side::Client => &HTTP2[..HTTP2.len() - 1],
        (Version::Http2, _) => &HTTP2,
        (Version::Http3, _) if end.side == Side::Client => {
            &["http3.stream_window", "http3.connection_window"]
        }
        (Version::Http3, _) => &[
            "http3.stream_window",
            "http3.connection_window",
            "http3.max_concurrent_streams",
        ],
    };
    let of_host = end.across_link && end.protocol != Protocol::H3;
    match (words.is_empty(), of_host) {
        (false, true) => format!("{}; {OF_THE_HOST}", listed(words)),
        (false, false) => listed(words).into_owned(),
        (true, true) => format!("settings in its own words; {OF_THE_HOST}"),
        (true, false) => "settings in its own words, which squall does not know".to_owned(),
    }
}

/// The setting of a program that a key is, with the value that was read; `None`: programs have no such setting.
fn value_of(
    settings: &SideSettings,
    table: &str,
    key: &str,
    side: Side,
) -> Option<(ProgramSetting, u64)> {
    use ProgramSetting::{
        ConnectionWindow, DataSize, HeaderTableSize, MaxConcurrentStreams, MaxFrameSize,
        RequestsPerConnection, SmallRecords, StreamWindow,
    };
    let SideSettings {
        http1,
        http2,
        http3,
        tls,
        ..
    } = settings;
    Some(match (table, key) {
        ("http1", "requests_per_connection") => {
            (RequestsPerConnection, http1.requests_per_connection?.into())
        }
        ("http2", "goaway_after") if side == Side::Server => {
            (RequestsPerConnection, http2.goaway_after?.into())
        }
        ("http2", "stream_window") => (StreamWindow, http2.stream_window.get()),
        ("http2", "connection_window") => (ConnectionWindow, http2.connection_window.get()),
        ("http2", "max_concurrent_streams") => {
            (MaxConcurrentStreams, http2.max_concurrent_streams.into())
        }
        ("http2", "max_frame_size") => (MaxFrameSize, http2.max_frame_size.get()),
        ("http2", "header_table_size") => (HeaderTableSize, http2.header_table_size.get()),
        ("http2", "data_size") => (DataSize, http2.data_size.get()),
        ("http3", "stream_window") => (StreamWindow, http3.stream_window.get()),
        ("http3", "connection_window") => (ConnectionWindow, http3.connection_window.get()),
        ("http3", "max_concurrent_streams") if side == Side::Server => {
            (MaxConcurrentStreams, http3.max_concurrent_streams.into())
        }
        // How small they are, and for how long a silence, is a program's own matter.
        ("tls", "records") if side == Side::Server => match tls.records {
            RecordSizes::Fixed(RecordSizes::LARGEST) => (SmallRecords, 0),
            RecordSizes::Fixed(_) | RecordSizes::Dynamic { .. } => return None,
        },
        _ => return None,
    })
}

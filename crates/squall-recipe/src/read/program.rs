//! The settings that a third-party program receives from `client`, `server`, `connections` and `pool` of its hops.
//!
//! A setting passes here if some program supports it; the driver of this program checks before the run whether it does
//! (squall-peers). Settings that the program's host applies, such as a congestion control, stay in the hop.

use std::collections::BTreeMap;

use squall_base::plan::{
    CLIENT_PROGRAMS, Implementation, ProgramSetting, Protocol, RecordSizes, Side, SideSettings,
    StationSetting, Version,
};
use toml::de::DeValue;

use super::effect::{self, HopEnd};
use super::side::{self, SETTINGS_TABLES};
use crate::error::Mistake;
use crate::path::LayoutStation;
use crate::problems::ReportedProblem;
use crate::section::Section;
use crate::words::listed;

const EXPECTED: &str =
    "settings of squall's own stations; a [station.NAME] has its own configuration";
const NO_PRESET: &str = "no preset: the program itself runs; `proxy(PRESET)` and `server(PRESET)` have \
                         a preset's settings";
/// The keys of `tcp` that a program's host applies.
const HOST_KEYS: &str = "across a link also `tcp.congestion_control`, `tcp.max_cwnd`, `tcp.send_buffer`, \
                         `tcp.receive_buffer` and `tcp.slow_start_after_idle`, which its host applies";

pub(super) type ProgramSettings = BTreeMap<(Side, ProgramSetting), u64>;

/// Converts the settings to the form of a plan.
pub(super) fn into_plan_settings(program_settings: ProgramSettings) -> Vec<StationSetting> {
    program_settings
        .into_iter()
        .map(|((side, setting), value)| StationSetting {
            side,
            setting,
            value,
        })
        .collect()
}

/// Reads the settings of a program's side in `section`, a variant or a hop's table, over those in `program_settings`.
pub(super) fn read(
    section: &Section<'_>,
    station: &LayoutStation,
    end: HopEnd,
    program_settings: &mut ProgramSettings,
) -> Result<(), ReportedProblem> {
    let station_name = || station.name.clone();
    let is_load = is_load_generator(station);
    let station_keys: &[&str] = match end.side {
        Side::Client if is_load => &["pool"],
        Side::Client => &["connections", "pool"],
        Side::Server => &[],
    };
    if let Some(field) = station_keys.iter().find_map(|key| section.field(key)) {
        let mistake = Mistake::NotEmbedded(station_name());
        return Err(field.refuse_key(mistake, EXPECTED));
    }
    let Some(field) = section.field(end.side.name()) else {
        return Ok(());
    };
    let may_have_settings = matches!(station.runs, Implementation::Program { .. }) && !is_load;
    let table = field.section(&crate::shapes::SIDE, &format!("`{}`", field.key))?;
    if let Some(preset) = table.field("preset") {
        let mistake = Mistake::NotEmbedded(station_name());
        return Err(preset.refuse_key(mistake, NO_PRESET));
    }
    let mut settings = SideSettings::default();
    side::read_tables(&table, &[end.protocol], &mut settings)?;
    for kind in SETTINGS_TABLES {
        let Some(inner) = table.field(kind.key) else {
            continue;
        };
        for key in kind.shape.keys() {
            let Some(field) = inner.inner(key) else {
                continue;
            };
            let is_of_requests = ["requests_per_connection", "goaway_after"].contains(&key);
            if is_of_requests && matches!(field.value(), DeValue::String(_)) {
                let expected = "a number of requests; without one, the program's default applies";
                return Err(field.out_of_range("never", expected));
            }
            let value = value_of(&settings, kind.key, key, end.side).filter(|_| may_have_settings);
            if let Some((setting, value)) = value {
                program_settings.insert((end.side, setting), value);
                continue;
            }
            if !effect::is_for_host(end, kind.key, key) {
                let mistake = Mistake::UnsupportedSetting {
                    station: station_name(),
                    key: key.to_owned(),
                };
                return Err(field.refuse_key(mistake, &expected(end, may_have_settings)));
            }
        }
    }
    Ok(())
}

fn is_load_generator(station: &LayoutStation) -> bool {
    matches!(&station.runs, Implementation::Program { program } if CLIENT_PROGRAMS.contains(&program.as_str()))
}

/// The HTTP/2 keys that a server accepts; clients accept all but the last.
const HTTP2: [&str; 7] = [
    "http2.stream_window",
    "http2.connection_window",
    "http2.max_concurrent_streams",
    "http2.max_frame_size",
    "http2.header_table_size",
    "http2.data_size",
    "http2.goaway_after",
];

/// The keys that a program may accept on that side of such a hop.
fn expected(end: HopEnd, may_have_settings: bool) -> String {
    let words: &[&str] = match (end.protocol.version(), may_have_settings) {
        (_, false) => &[],
        (Version::Http1, _) => &["http1.requests_per_connection"],
        // Only servers close connections with GOAWAY.
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
        (false, true) => format!("{}; {HOST_KEYS}", listed(words)),
        (false, false) => listed(words).into_owned(),
        (true, true) => format!("settings in its own configuration; {HOST_KEYS}"),
        (true, false) => "settings in its own configuration, which squall does not know".to_owned(),
    }
}

/// The program setting that a key stands for, with its value; `None` if programs have no such setting.
pub(crate) fn value_of(
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
        // Programs choose the size of small records and the idle time themselves: they can only be turned off.
        ("tls", "records") if side == Side::Server => match tls.records {
            RecordSizes::Fixed(RecordSizes::LARGEST) => (SmallRecords, 0),
            RecordSizes::Fixed(_) | RecordSizes::Dynamic { .. } => return None,
        },
        _ => return None,
    })
}

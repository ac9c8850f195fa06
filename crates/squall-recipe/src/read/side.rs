//! The settings of a side: `http1`, `http2`, `http3`, `tls` and `tcp`, in a variant, in its `client` or `server`, and
//! in one assignment of the command line.
//!
//! Each table changes the keys that it has and keeps the rest, so each layer overrides the one before: defaults, the
//! variant's tables, a preset, the side's own tables. `conflict` checks whether the result is consistent.

use std::ops::RangeInclusive;

use squall_base::plan::{
    BodyFraming, Http1Settings, Http2Settings, Http3Settings, PortRange, Protocol,
    QuicCongestionControl, RecordSizes, Side, SideSettings, TcpSettings, TlsGroup, TlsSettings,
    TlsVersion, WindowUpdates,
};
use squall_base::{BitRate, Bytes, Duration};
use toml::de::DeValue;

use crate::conflict;
use crate::error::Mistake;
use crate::presets::{self, UnknownPreset};
use crate::problems::ReportedProblem;
use crate::section::{Field, Section};
use crate::shapes::{self, Shape};
use crate::words::listed;

/// quiche grants new credit once less than half of a window, rounded down, is left. With a window of 1 byte it never does.
const HTTP3_WINDOWS: RangeInclusive<Bytes> = Bytes::new(2)..=MAX_WINDOW;
/// The largest window of HTTP/2 (RFC 9113, section 6.9.1). QUIC allows larger ones, but no sender fills them.
const MAX_WINDOW: Bytes = Bytes::new((1 << 31) - 1);
/// The initial window of a connection can only be raised (RFC 9113, section 6.9.2).
const CONNECTION_WINDOWS: RangeInclusive<Bytes> = Bytes::new(65_535)..=MAX_WINDOW;
const WINDOW: &str = "1 to 2147483647 bytes";
/// More than there are stream identifiers (RFC 9113, section 5.1.1); Envoy's old value for "no limit".
const MAX_COUNT: u32 = (1 << 31) - 1;
/// The range of SETTINGS_MAX_FRAME_SIZE (RFC 9113, section 6.5.2).
const FRAME_SIZES: RangeInclusive<Bytes> = Bytes::new(16_384)..=Bytes::new((1 << 24) - 1);
/// Chunks are held in memory, as bodies are.
const MAX_CHUNK: Bytes = Bytes::new(1 << 30);
/// The chunk size of `framing = "chunked"`: as much as fits into a TLS record.
const USUAL_CHUNK: Bytes = Bytes::new(16_384);
/// Values of 2^14 ms and more are invalid (RFC 9000, section 18.2). quiche does not announce 0 ms, so the peer would assume
/// the default of 25 ms.
const ACK_DELAYS: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_millis((1 << 14) - 1);
/// SO_SNDBUF and SO_RCVBUF are an int, which the kernel doubles (socket(7)).
const MAX_BUFFER: Bytes = Bytes::new((1 << 30) - 1);
/// SO_MAX_PACING_RATE is in bytes a second; a segment of 1,448 bytes takes 11.6 s at the lowest rate.
const PACING_RATES: RangeInclusive<BitRate> =
    BitRate::new(1_000).expect("above none")..=BitRate::new(1_000_000_000_000).expect("above none");
/// TCP_KEEPIDLE is in whole seconds, at most the kernel's MAX_TCP_KEEPIDLE.
const MAX_KEEP_ALIVE: Duration = Duration::from_secs(32_767);
/// The kernel's TCP_CA_NAME_MAX is 16, including the terminating NUL.
const MAX_CONGESTION_CONTROL_LEN: usize = 15;
/// Longer than a list of all of OpenSSL's names.
const MAX_CIPHERS_LEN: usize = 1_000;
const MAX_IDLE: Duration = Duration::from_secs(24 * 3_600);

/// One of the five tables, and the protocols that use it.
pub(super) struct SettingsTable {
    pub(super) shape: &'static Shape,
    pub(super) key: &'static str,
    /// What a path without those protocols lacks.
    lacking: &'static str,
    pub(super) is_used: fn(Protocol) -> bool,
}

pub(super) const SETTINGS_TABLES: [&SettingsTable; 5] = [&HTTP1, &HTTP2, &HTTP3, &TLS, &TCP];

const HTTP1: SettingsTable = SettingsTable {
    shape: &shapes::HTTP1,
    key: "http1",
    lacking: "HTTP/1.1",
    is_used: |protocol| matches!(protocol, Protocol::H1 | Protocol::H1s),
};
const HTTP2: SettingsTable = SettingsTable {
    shape: &shapes::HTTP2,
    key: "http2",
    lacking: "HTTP/2",
    is_used: |protocol| matches!(protocol, Protocol::H2c | Protocol::H2),
};
const HTTP3: SettingsTable = SettingsTable {
    shape: &shapes::HTTP3,
    key: "http3",
    lacking: "HTTP/3",
    is_used: |protocol| protocol == Protocol::H3,
};
const TLS: SettingsTable = SettingsTable {
    shape: &shapes::TLS,
    key: "tls",
    lacking: "TLS",
    is_used: Protocol::is_secure,
};
const TCP: SettingsTable = SettingsTable {
    shape: &shapes::TCP,
    key: "tcp",
    lacking: "TCP",
    is_used: is_tcp,
};

/// Whether the protocol runs over TCP.
pub(super) fn is_tcp(protocol: Protocol) -> bool {
    protocol != Protocol::H3
}

/// Reads the table of that side over the settings for both sides.
pub(super) fn read(
    variant: &Section<'_>,
    side: Side,
    protocols: &[Protocol],
    both: &SideSettings,
) -> Result<SideSettings, ReportedProblem> {
    let Some(field) = variant.field(side.name()) else {
        return Ok(both.clone());
    };
    let table = field.section(&shapes::SIDE, &format!("`{}`", side.name()))?;
    let preset = table.optional("preset", |f| preset(&f, side));
    let mut settings = both.clone();
    if let Ok(Some(preset)) = &preset {
        // TCP belongs to the host rather than the program, so presets leave it alone: see squall_base::plan::presets.
        let tcp = settings.tcp;
        settings = SideSettings {
            tcp,
            ..preset.clone()
        };
    }
    let own = read_tables(&table, protocols, &mut settings);
    preset?;
    own?;
    Ok(settings)
}

/// Reports a contradiction in one side's settings, at the table that overrides the others.
pub(super) fn check(
    variant: &Section<'_>,
    side: Side,
    protocol: Protocol,
    settings: &SideSettings,
) -> Result<(), ReportedProblem> {
    let Err(conflict) = conflict::check(settings, protocol) else {
        return Ok(());
    };
    let blamed = variant
        .field(side.name())
        .and_then(|own| own.inner(conflict.table()))
        .or_else(|| variant.field(conflict.table()));
    let expected = conflict.expected();
    Err(match blamed {
        Some(table) => table.refuse_key(conflict.into(), expected),
        None => variant.refuse(conflict.into(), expected),
    })
}

pub(super) fn has_settings_of(table: &Section<'_>, side: Side) -> bool {
    let common = SETTINGS_TABLES.map(|kind| kind.key);
    let mut keys = common.into_iter().chain([side.name()]);
    keys.any(|key| table.field(key).is_some())
}

fn preset(field: &Field<'_>, side: Side) -> Result<SideSettings, ReportedProblem> {
    let name = field.text()?.value;
    presets::preset(name, side).map_err(|UnknownPreset { name, known, hint }| {
        let mistake = Mistake::UnknownPreset(name.clone());
        field.refuse_part(0..name.len(), mistake, &listed(&known), hint)
    })
}

/// Reads those of the five tables that are present into `to`. If the protocols are known, tables that none of them uses
/// are refused.
pub(crate) fn read_tables(
    section: &Section<'_>,
    protocols: &[Protocol],
    to: &mut SideSettings,
) -> Result<(), ReportedProblem> {
    all([
        read_table(section, &HTTP1, protocols, |t| http1(t, &mut to.http1)),
        read_table(section, &HTTP2, protocols, |t| http2(t, &mut to.http2)),
        read_table(section, &HTTP3, protocols, |t| http3(t, &mut to.http3)),
        read_table(section, &TLS, protocols, |t| tls(t, protocols, &mut to.tls)),
        read_table(section, &TCP, protocols, |t| tcp(t, &mut to.tcp)),
    ])
}

fn read_table<'d>(
    section: &Section<'d>,
    kind: &SettingsTable,
    protocols: &[Protocol],
    read: impl FnOnce(&Section<'d>) -> Result<(), ReportedProblem>,
) -> Result<(), ReportedProblem> {
    let Some(field) = section.field(kind.key) else {
        return Ok(());
    };
    let result = field
        .section(kind.shape, kind.shape.label)
        .and_then(|table| read(&table));
    refuse_unused(&field, kind.lacking, protocols, kind.is_used)?;
    result
}

/// Refuses a key that has no effect on hops of these protocols. If `protocols` is empty, they are not known.
pub(super) fn refuse_unused(
    field: &Field<'_>,
    lacking: &'static str,
    protocols: &[Protocol],
    is_used: fn(Protocol) -> bool,
) -> Result<(), ReportedProblem> {
    if protocols.is_empty() || protocols.iter().any(|&protocol| is_used(protocol)) {
        return Ok(());
    }
    let users: Vec<&str> = Protocol::ALL
        .into_iter()
        .filter(|&protocol| is_used(protocol))
        .map(Protocol::name)
        .collect();
    let expected = format!("`{}` where {} is spoken", field.key, listed(&users));
    let mistake = Mistake::Unused {
        key: field.key.to_owned(),
        lacking,
    };
    Err(field.refuse_key(mistake, &expected))
}

/// Combines the results of readers that have all run; the first error stands for all.
fn all<const N: usize>(readings: [Result<(), ReportedProblem>; N]) -> Result<(), ReportedProblem> {
    readings.into_iter().collect()
}

/// Puts the value of `key` into `place`, if the table has it.
fn set<'d, T>(
    table: &Section<'d>,
    key: &str,
    place: &mut T,
    read: impl FnOnce(&Field<'d>) -> Result<T, ReportedProblem>,
) -> Result<(), ReportedProblem> {
    if let Some(value) = table.optional(key, |field| read(&field))? {
        *place = value;
    }
    Ok(())
}

/// Reads each of these keys of the table into the setting of that name.
macro_rules! fields {
    ($table:ident, $to:ident, { $($key:ident: $read:expr,)+ }) => {
        all([$(set($table, stringify!($key), &mut $to.$key, $read)),+])
    };
}

fn http1(table: &Section<'_>, to: &mut Http1Settings) -> Result<(), ReportedProblem> {
    fields!(table, to, {
        framing: framing,
        requests_per_connection: count_or_never,
    })
}

fn framing(field: &Field<'_>) -> Result<BodyFraming, ReportedProblem> {
    const EXPECTED: &str = "\"length\", \"chunked\" or { chunked = \"16KiB\" }";
    match field.value() {
        DeValue::String(text) => match text.as_ref() {
            "length" => Ok(BodyFraming::Length),
            "chunked" => Ok(BodyFraming::Chunked(USUAL_CHUNK)),
            _ => Err(field.malformed(
                text,
                "a way to frame bodies",
                EXPECTED,
                &["length", "chunked"],
            )),
        },
        DeValue::Table(_) => field
            .section(&shapes::FRAMING, shapes::FRAMING.label)?
            .required("chunked", "the most bytes of a chunk", |f| {
                f.within(&(Bytes::new(1)..=MAX_CHUNK), "1 byte to 1GiB")
            })
            .map(BodyFraming::Chunked),
        _ => Err(field.wrong_type(EXPECTED, None)),
    }
}

fn http2(table: &Section<'_>, to: &mut Http2Settings) -> Result<(), ReportedProblem> {
    // Values in SETTINGS have 32 bits.
    let table_sizes = Bytes::default()..=Bytes::new((1 << 32) - 1);
    let data_sizes = Bytes::new(1)..=*FRAME_SIZES.end();
    fields!(table, to, {
        stream_window: window,
        connection_window: |f| f.within(&CONNECTION_WINDOWS, "65535 to 2147483647 bytes"),
        window_updates: window_updates,
        max_frame_size: |f| f.within(&FRAME_SIZES, "16384 to 16777215 bytes"),
        max_concurrent_streams: count,
        header_table_size: |f| f.within(&table_sizes, "at most 4294967295 bytes"),
        data_size: |f| f.within(&data_sizes, "1 to 16777215 bytes"),
        goaway_after: count_or_never,
        requests_per_connection: count_or_never,
        retry_unprocessed: Field::boolean,
    })
}

fn window(field: &Field<'_>) -> Result<Bytes, ReportedProblem> {
    field.within(&(Bytes::new(1)..=MAX_WINDOW), WINDOW)
}

fn window_updates(field: &Field<'_>) -> Result<WindowUpdates, ReportedProblem> {
    const EXPECTED: &str = "\"half\", \"never\", { every = \"64KiB\" }, { each_data = \"16375\" } or \
                            { grant = \"8000000\" }";
    match field.value() {
        DeValue::String(text) => match text.as_ref() {
            "half" => Ok(WindowUpdates::Half),
            "never" => Ok(WindowUpdates::Never),
            _ => Err(field.malformed(
                text,
                "a rule for window updates",
                EXPECTED,
                &["half", "never"],
            )),
        },
        DeValue::Table(_) => {
            let table = field.section(&shapes::WINDOW_UPDATES, shapes::WINDOW_UPDATES.label)?;
            let rules = [
                table.optional("every", |f| window(&f).map(WindowUpdates::Every)),
                table.optional("each_data", |f| window(&f).map(WindowUpdates::EachData)),
                table.optional("grant", |f| window(&f).map(WindowUpdates::Grant)),
            ];
            let rules: Vec<_> = rules.into_iter().collect::<Result<_, _>>()?;
            match rules.into_iter().flatten().collect::<Vec<_>>().as_slice() {
                [rule] => Ok(*rule),
                rules => {
                    let mistake = Mistake::NotOneKey {
                        key: field.key.to_owned(),
                        count: rules.len(),
                    };
                    Err(field.refuse(mistake, EXPECTED))
                }
            }
        }
        _ => Err(field.wrong_type(EXPECTED, None)),
    }
}

fn http3(table: &Section<'_>, to: &mut Http3Settings) -> Result<(), ReportedProblem> {
    let window = |f: &Field<'_>| f.within(&HTTP3_WINDOWS, "2 to 2147483647 bytes");
    fields!(table, to, {
        stream_window: window,
        connection_window: window,
        max_concurrent_streams: count,
        congestion_control: |f| {
            let words = QuicCongestionControl::ALL.map(|word| (word.name(), word));
            f.word("a congestion control of QUIC", &words)
        },
        pacing: Field::boolean,
        max_ack_delay: |f| {
            let expected = "1ms to 16383ms, in whole milliseconds";
            multiple_of(f, &ACK_DELAYS, Duration::from_millis(1), expected)
        },
        max_udp_payload: |f| f.within(&Http3Settings::UDP_PAYLOADS, "1200 to 65507 bytes"),
        gso: Field::boolean,
        send_buffer: buffer,
        receive_buffer: buffer,
        local_ports: local_ports,
        requests_per_connection: count_or_never,
        retry_unprocessed: Field::boolean,
    })
}

fn tls(
    table: &Section<'_>,
    protocols: &[Protocol],
    to: &mut TlsSettings,
) -> Result<(), ReportedProblem> {
    let not_quic = |key: &str, lacking: &'static str| match table.field(key) {
        Some(field) => refuse_unused(&field, lacking, protocols, |p| {
            p.is_secure() && p != Protocol::H3
        }),
        None => Ok(()),
    };
    all([
        set(table, "min_version", &mut to.min_version, tls_version),
        set(table, "max_version", &mut to.max_version, tls_version),
        set(table, "ciphers", &mut to.ciphers, ciphers),
        set(table, "groups", &mut to.groups, groups),
        set(table, "resumption", &mut to.resumption, Field::boolean),
        set(table, "records", &mut to.records, records),
        not_quic("ciphers", "TLS 1.2"),
        not_quic("records", "TLS records"),
    ])
}

fn tls_version(field: &Field<'_>) -> Result<TlsVersion, ReportedProblem> {
    let words = [TlsVersion::Tls12, TlsVersion::Tls13].map(|version| (version.name(), version));
    field.word("a version of TLS", &words)
}

fn ciphers(field: &Field<'_>) -> Result<Option<String>, ReportedProblem> {
    let expected =
        "cipher suites of TLS 1.2 as OpenSSL names them, with colons between them, or \"default\"";
    let ciphers = field.text_that("a list of ciphers", expected, |text| {
        // The characters of OpenSSL's cipher lists (openssl-ciphers(1)), without the spaces that may separate entries.
        let is_of_list = |b: u8| b.is_ascii_alphanumeric() || b"-_+!@=:".contains(&b);
        (1..=MAX_CIPHERS_LEN).contains(&text.len()) && text.bytes().all(is_of_list)
    })?;
    Ok(Some(ciphers).filter(|ciphers| ciphers != "default"))
}

/// Different groups of the key exchange with colons between them, or `"default"`.
fn groups(field: &Field<'_>) -> Result<Option<Vec<TlsGroup>>, ReportedProblem> {
    let text = field.text()?.value;
    if text == "default" {
        return Ok(None);
    }
    let names = TlsGroup::ALL.map(TlsGroup::name);
    let mut groups: Vec<TlsGroup> = Vec::new();
    for name in text.split(':') {
        match name.parse() {
            Ok(group) if !groups.contains(&group) => groups.push(group),
            _ => {
                let expected = format!(
                    "one or several of {}, with colons between them, or \"default\"",
                    names.join(", ")
                );
                return Err(field.malformed(text, "a list of groups", &expected, &[]));
            }
        }
    }
    Ok(Some(groups))
}

fn records(field: &Field<'_>) -> Result<RecordSizes, ReportedProblem> {
    const EXPECTED: &str = "a size, or { small = \"1300\", warmup = \"1MiB\", idle = \"1s\" }";
    let size =
        |f: &Field<'_>| f.within(&(Bytes::new(1)..=RecordSizes::LARGEST), "1 to 16384 bytes");
    match field.value() {
        DeValue::String(_) => size(field).map(RecordSizes::Fixed),
        DeValue::Table(_) => {
            let table = field.section(&shapes::RECORDS, shapes::RECORDS.label)?;
            let small = table.required("small", "the size of a small record", |f| size(&f));
            let warmup = table.required("warmup", "after how many bytes records grow", |f| {
                window(&f)
            });
            let idle = table.required("idle", "after what idle time it starts over", |f| {
                let some = Duration::from_nanos(1)..=MAX_IDLE;
                f.within(&some, "more than 0 and at most 24h")
            });
            Ok(RecordSizes::Dynamic {
                small: small?,
                warmup: warmup?,
                idle: idle?,
            })
        }
        _ => {
            let is_number = matches!(field.value(), DeValue::Integer(_));
            let hint = is_number.then(|| "put it in quotes".to_owned());
            Err(field.wrong_type(EXPECTED, hint))
        }
    }
}

fn tcp(table: &Section<'_>, to: &mut TcpSettings) -> Result<(), ReportedProblem> {
    fields!(table, to, {
        congestion_control: |f| congestion_control(f).map(Some),
        no_delay: Field::boolean,
        notsent_lowat: buffer,
        send_buffer: buffer,
        receive_buffer: buffer,
        keep_alive: keep_alive,
        slow_start_after_idle: slow_start_after_idle,
        max_cwnd: segments,
        max_pacing_rate: pacing_rate,
        write_size: |f| size_or(f, "all"),
        local_ports: local_ports,
    })
}

/// A time, or `"off"`.
fn keep_alive(field: &Field<'_>) -> Result<Option<Duration>, ReportedProblem> {
    if is_word(field, "off") {
        return Ok(None);
    }
    let second = Duration::from_secs(1);
    let expected = "1s to 32767s, in whole seconds, or \"off\"";
    multiple_of(field, &(second..=MAX_KEEP_ALIVE), second, expected).map(Some)
}

/// `true`, `false` or `"kernel"`.
fn slow_start_after_idle(field: &Field<'_>) -> Result<Option<bool>, ReportedProblem> {
    const EXPECTED: &str = "true, false or \"kernel\"";
    match field.value() {
        DeValue::Boolean(value) => Ok(Some(*value)),
        _ if is_word(field, "kernel") => Ok(None),
        DeValue::String(text) => Err(field.malformed(text, "true or false", EXPECTED, &["kernel"])),
        _ => Err(field.wrong_type(EXPECTED, None)),
    }
}

/// A size, or `"kernel"`.
fn buffer(field: &Field<'_>) -> Result<Option<Bytes>, ReportedProblem> {
    size_or(field, "kernel")
}

/// A size, or that word.
fn size_or(field: &Field<'_>, word: &str) -> Result<Option<Bytes>, ReportedProblem> {
    if is_word(field, word) {
        return Ok(None);
    }
    let expected = format!("1 to 1073741823 bytes, or \"{word}\"");
    let size = field.within(&(Bytes::new(1)..=MAX_BUFFER), &expected)?;
    Ok(Some(size))
}

/// A number of segments, or `"kernel"`.
fn segments(field: &Field<'_>) -> Result<Option<u32>, ReportedProblem> {
    count_or(field, "kernel", "a number of segments")
}

/// A rate in bits, or `"kernel"`.
fn pacing_rate(field: &Field<'_>) -> Result<Option<BitRate>, ReportedProblem> {
    if is_word(field, "kernel") {
        return Ok(None);
    }
    let expected = "1kbit to 1000gbit, or \"kernel\"";
    field.within(&PACING_RATES, expected).map(Some)
}

/// Two ports with a dash between them, or `"kernel"`.
fn local_ports(field: &Field<'_>) -> Result<Option<PortRange>, ReportedProblem> {
    const EXPECTED: &str =
        "two ports of 1 to 65535, the lower one first, such as \"40000-40100\", or \"kernel\"";
    match field.value() {
        DeValue::String(text) if text == "kernel" => Ok(None),
        DeValue::String(text) => (text.parse().map(Some))
            .map_err(|_| field.malformed(text, "a range of ports", EXPECTED, &["kernel"])),
        _ => Err(field.wrong_type(EXPECTED, None)),
    }
}

/// A congestion control of TCP, by its name in the kernel.
pub(super) fn congestion_control(field: &Field<'_>) -> Result<String, ReportedProblem> {
    let expected = "the kernel's name for it, such as \"cubic\" or \"bbr\"";
    field.text_that("a congestion control", expected, |text| {
        let is_of_name = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '_');
        (1..=MAX_CONGESTION_CONTROL_LEN).contains(&text.len()) && text.chars().all(is_of_name)
    })
}

fn count(field: &Field<'_>) -> Result<u32, ReportedProblem> {
    field.integer(&(1..=MAX_COUNT))
}

/// A number of requests, or `"never"`.
fn count_or_never(field: &Field<'_>) -> Result<Option<u32>, ReportedProblem> {
    count_or(field, "never", "a number of requests")
}

/// A count, or that word.
fn count_or(
    field: &Field<'_>,
    word: &'static str,
    rule: &'static str,
) -> Result<Option<u32>, ReportedProblem> {
    match field.value() {
        DeValue::String(text) if text == word => Ok(None),
        DeValue::String(text) => {
            let expected = format!("a whole number from 1 to 2147483647, or \"{word}\"");
            Err(field.malformed(text, rule, &expected, &[word]))
        }
        _ => count(field).map(Some),
    }
}

/// A time within `range` that is a multiple of `unit`; `expected` describes both.
fn multiple_of(
    field: &Field<'_>,
    range: &RangeInclusive<Duration>,
    unit: Duration,
    expected: &str,
) -> Result<Duration, ReportedProblem> {
    let found = field.within(range, expected)?;
    if found.as_nanos().is_multiple_of(unit.as_nanos()) {
        return Ok(found);
    }
    Err(field.out_of_range(field.text()?.value, expected))
}

fn is_word(field: &Field<'_>, word: &str) -> bool {
    matches!(field.value(), DeValue::String(text) if text == word)
}

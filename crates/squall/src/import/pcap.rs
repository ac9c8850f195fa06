//! `squall import pcap`: converts a capture into the tables of a run: exchanges, requests, frames and packets.
//!
//! squall-observe interprets packets, squall-record reads the file format. A capture is taken at one point, so the rows
//! of both sides have its times; nothing here estimates what lies beyond it (squall-analysis `capture` does). The file
//! is read three times: for its secrets and its earliest time; for connections, exchanges and frames; and, once it is
//! known which end of each connection is the client, for the table of packets (`packets`). `requests` derives requests
//! from exchanges.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use squall_base::record::{Direction, ExchangeRecord, Side};
use squall_base::text::is_terminal_control;
use squall_base::{Duration, Time};
use squall_observe::{
    Checksums, ConnectionRecord, Observations, ObservedPacket, Observer, PacketCounts,
    ReorderBuffer, Secrets, Transport,
};
use squall_record::capture::{CaptureEntry, CaptureNotes, CaptureReader};
use squall_record::{ExchangeWriter, FrameWriter, RequestWriter, read_at_most, write_json};

use super::packets::PacketTable;
use super::requests::{NumberedExchanges, number_requests};
use crate::client::file_length;
use crate::limits;
use crate::outcome::{BadInput, CommandOutcome};
use crate::output::{self, eprint};

/// How far packets of a capture may be out of time order: several devices and processors write to it.
const DISORDER: Duration = Duration::from_secs(1);

/// Rows per write.
const ROWS_A_CHUNK: usize = 4096;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "TLS and QUIC are decrypted with the secrets in the capture (Decryption Secrets Blocks) or in --key-log. \
        Without secrets, only a connection's server name, times and byte counts are known. Packets in tunnels (VXLAN, \
        Geneve, GRE, ERSPAN, GTP-U, IP in IP, MPLS, PPPoE) are unwrapped. The rows of both sides have the times of the one \
        capture point, counted from the first packet. `squall explain FOLDER` shows what the slowest requests waited for."
)]
pub(super) struct Arguments {
    /// The capture file
    capture: PathBuf,
    /// Folder for the tables and import.json [default: the capture's name without its extension]
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// TLS secrets in SSLKEYLOGFILE format (may be repeated)
    #[arg(long, value_name = "FILE")]
    key_log: Vec<PathBuf>,
    /// Print the connections as JSON
    #[arg(long)]
    json: bool,
}

/// The file with the output of `--json`, next to the tables.
const SUMMARY: &str = "import.json";

#[derive(Debug, Default, Serialize)]
struct ImportSummary {
    capture: PathBuf,
    folder: PathBuf,
    /// The origin of the tables' times.
    epoch_unix_ns: u64,
    /// The number of points of the path where packets were captured.
    points: u32,
    /// Whether the file ends in the middle of a packet.
    is_cut: bool,
    /// Captured frames without IP or without a time.
    frames_without_ip: u64,
    /// Packets that were not read, by the protocol in them.
    unread: BTreeMap<String, u64>,
    /// Packets of which only the first bytes were captured (snaplen).
    shortened: u64,
    /// The largest number of bytes captured of any of those packets.
    shortened_to_bytes: usize,
    packets: PacketCounts,
    exchanges: u64,
    requests: u64,
    frames: u64,
    connections: Vec<ConnectionRecord>,
}

/// The results of the first reading.
#[derive(Debug, Default)]
struct CaptureSurvey {
    secrets: Vec<String>,
    earliest_unix_ns: Option<u64>,
    frames_without_ip: u64,
    is_cut: bool,
    notes: CaptureNotes,
}

pub(super) fn run(arguments: &Arguments) -> Result<CommandOutcome> {
    let survey = survey(&arguments.capture)?;
    let mut observer = Observer::new(Checksums::Ignored, Secrets::Complete);
    let mut rows = Observations::default();
    for path in &arguments.key_log {
        let text = read_at_most(path, limits::KEY_LOG)
            .map_err(|error| BadInput::new(format!("cannot read {}: {error}", path.display())))?;
        if observer.add_keys(&String::from_utf8_lossy(&text), &mut rows) == 0 {
            eprint(format_args!("{} has no TLS secrets\n", path.display()));
        }
    }
    for secrets in &survey.secrets {
        observer.add_keys(secrets, &mut rows);
    }
    let folder = folder(arguments)?;
    let epoch_unix_ns = survey.earliest_unix_ns.unwrap_or(0);
    let mut tables = Tables::create(&folder)?;
    // The connection of each packet, in order.
    let mut connections_of: Vec<Option<u32>> = Vec::new();
    each_packet(&arguments.capture, epoch_unix_ns, |packet| {
        connections_of.push(observer.observe(packet, &mut rows));
        tables.take(&mut rows, ROWS_A_CHUNK)
    })?;
    let packets = observer.finish(&mut rows);
    tables.take(&mut rows, 0)?;
    tables
        .connections
        .sort_by_key(|connection| connection.connection);
    let mut table = PacketTable::create(&folder, &tables.connections)?;
    let mut connections_of = connections_of.into_iter();
    each_packet(&arguments.capture, epoch_unix_ns, |packet| {
        table.add(packet, connections_of.next().flatten())
    })?;
    table.finish()?;
    let notes = survey.notes;
    let unread = notes.unread.iter();
    let summary = ImportSummary {
        capture: arguments.capture.clone(),
        folder,
        epoch_unix_ns,
        points: 1,
        is_cut: survey.is_cut,
        frames_without_ip: survey.frames_without_ip,
        unread: unread
            .map(|(protocol, count)| (protocol.to_string(), *count))
            .collect(),
        shortened: notes.shortened,
        shortened_to_bytes: notes.shortened_to,
        packets,
        ..tables.finish()?
    };
    write_json(summary.folder.join(SUMMARY), &summary)?;
    report(&summary, notes.unreadable, arguments.json)?;
    Ok(CommandOutcome::Success)
}

/// Calls `on_packet` with each packet of a capture, in time order.
fn each_packet(
    capture: &Path,
    epoch_unix_ns: u64,
    mut on_packet: impl FnMut(&ObservedPacket<'_>) -> Result<()>,
) -> Result<()> {
    let mut order = ReorderBuffer::default();
    let mut failure = Ok(());
    let mut deliver = |packet: &ObservedPacket<'_>| {
        if failure.is_ok() {
            failure = on_packet(packet);
        }
    };
    read(capture, |entry| {
        let CaptureEntry::Packet {
            time_unix_ns,
            bytes,
        } = entry
        else {
            return;
        };
        let now = Time::from_nanos(time_unix_ns.saturating_sub(epoch_unix_ns));
        order.push(now, Some(now), direction(&bytes), bytes);
        let complete = Time::from_nanos(now.as_nanos().saturating_sub(DISORDER.as_nanos()));
        order.deliver_until(complete, &mut deliver);
    })?;
    order.finish(deliver);
    failure
}

/// Calls `on_entry` with everything in a capture. Returns whether the file was cut short, and what is missing from its
/// entries.
fn read(
    path: &Path,
    mut on_entry: impl FnMut(CaptureEntry),
) -> Result<(bool, CaptureNotes), BadInput> {
    if path == Path::new("-") {
        let said =
            "a capture is read several times, which stdin cannot be: write it to a file first";
        return Err(BadInput::new(said));
    }
    let wrong =
        |error: &dyn std::fmt::Display| BadInput::new(format!("{}: {error}", path.display()));
    // Pipes are refused: the file is read several times, and opening a pipe would wait for a writer.
    let file = file_length(path)
        .and_then(|_| File::open(path))
        .map_err(|error| BadInput::new(format!("cannot read {}: {error}", path.display())))?;
    let mut capture = CaptureReader::new(BufReader::new(file)).map_err(|error| wrong(&error))?;
    while let Some(entry) = capture.next_entry().map_err(|error| wrong(&error))? {
        on_entry(entry);
    }
    Ok((capture.is_truncated(), capture.notes().clone()))
}

fn survey(path: &Path) -> Result<CaptureSurvey, BadInput> {
    let mut survey = CaptureSurvey::default();
    let (is_cut, notes) = read(path, |entry| match entry {
        CaptureEntry::Packet { time_unix_ns, .. } => {
            let earliest = survey.earliest_unix_ns.get_or_insert(time_unix_ns);
            *earliest = (*earliest).min(time_unix_ns);
        }
        CaptureEntry::Secrets(text) => survey.secrets.push(text),
        CaptureEntry::Other => survey.frames_without_ip += 1,
    })?;
    Ok(CaptureSurvey {
        is_cut,
        notes,
        ..survey
    })
}

/// A preliminary direction: up for packets from the lower address and port, down for the others. The observer works out
/// which end is the client. Addresses and ports are read at their usual offsets in IP, TCP and UDP.
fn direction(packet: &[u8]) -> Direction {
    let (addresses, header) = match packet.first().map(|first| first >> 4) {
        Some(4) => (packet.get(12..20), usize::from(packet[0] & 0x0f) * 4),
        // With IPv6 extension headers only the addresses count, unless they are equal.
        _ => (packet.get(8..40), 40),
    };
    let ends = |bytes: Option<&[u8]>| -> (Vec<u8>, Vec<u8>) {
        let bytes = bytes.unwrap_or(&[]);
        let (source, destination) = bytes.split_at(bytes.len() / 2);
        (source.to_vec(), destination.to_vec())
    };
    let (source, destination) = ends(addresses);
    let (from_port, to_port) = ends(packet.get(header..header + 4));
    if (source, from_port) <= (destination, to_port) {
        Direction::Up
    } else {
        Direction::Down
    }
}

/// The folder for the tables. It must not contain any of them yet.
fn folder(arguments: &Arguments) -> Result<PathBuf> {
    let folder = match &arguments.output {
        Some(folder) => folder.clone(),
        None => {
            let name = arguments
                .capture
                .file_stem()
                .filter(|_| arguments.capture.extension().is_some());
            let name = name.map(PathBuf::from);
            name.ok_or_else(|| {
                BadInput::new("the capture's name has no ending: name a folder with --output")
            })?
        }
    };
    for table in [
        "exchanges.parquet",
        "frames.parquet",
        "requests.parquet",
        "packets.parquet",
        SUMMARY,
    ] {
        let path = folder.join(table);
        if path.exists() {
            return Err(BadInput::new(format!(
                "{} is there already: remove it, or name another folder with --output",
                path.display()
            ))
            .into());
        }
    }
    fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    Ok(folder)
}

/// The tables of exchanges, requests and frames.
struct Tables {
    folder: PathBuf,
    frames: FrameWriter,
    /// Kept until the order of their first bytes is known, by which they are numbered.
    exchanges: Vec<ExchangeRecord>,
    /// One per connection: the records of both sides differ only in the side.
    connections: Vec<ConnectionRecord>,
}

impl Tables {
    fn create(folder: &Path) -> Result<Tables> {
        Ok(Tables {
            folder: folder.to_owned(),
            frames: FrameWriter::create(folder.join("frames.parquet"))?,
            exchanges: Vec::new(),
            connections: Vec::new(),
        })
    }

    /// Takes all rows out of `rows` once there are more than `more_than` of any kind.
    fn take(&mut self, rows: &mut Observations, more_than: usize) -> Result<()> {
        let kinds = [
            rows.exchanges.len(),
            rows.frames.len(),
            rows.connections.len(),
        ];
        if kinds.into_iter().max() > Some(more_than) {
            self.exchanges.append(&mut rows.exchanges);
            self.frames.append(&rows.frames)?;
            let of_client = |connection: &ConnectionRecord| connection.side == Side::Client;
            let connections = rows.connections.drain(..);
            self.connections.extend(connections.filter(of_client));
            rows.clear();
        }
        Ok(())
    }

    /// Writes the remaining rows. The returned summary has only these counts and connections.
    fn finish(self) -> Result<ImportSummary> {
        let NumberedExchanges {
            exchanges,
            requests,
        } = number_requests(self.exchanges, &self.connections);
        let mut table = ExchangeWriter::create(self.folder.join("exchanges.parquet"))?;
        table.append(&exchanges)?;
        let exchanges = table.finish()?;
        let mut table = RequestWriter::create(self.folder.join("requests.parquet"))?;
        table.append(&requests)?;
        Ok(ImportSummary {
            exchanges,
            requests: table.finish()?,
            frames: self.frames.finish()?,
            connections: self.connections,
            ..ImportSummary::default()
        })
    }
}

/// Prints the summary. `unreadable` frames ended before any IP header.
fn report(summary: &ImportSummary, unreadable: u64, as_json: bool) -> Result<()> {
    if summary.is_cut {
        eprint("the capture ends within a packet: it was cut short\n");
    }
    if summary.shortened > 0 {
        eprint(format_args!(
            "{} packets were captured only up to {} bytes (snaplen), and the rest is missing; `tcpdump -s 0` captures whole \
             packets\n",
            summary.shortened, summary.shortened_to_bytes
        ));
    }
    if summary.packets.out_of_order > 0 {
        eprint(format_args!(
            "{} packets are more than {DISORDER} out of order; `reordercap` sorts a capture\n",
            summary.packets.out_of_order
        ));
    }
    if as_json {
        let text =
            serde_json::to_string_pretty(summary).context("cannot express the summary as JSON")?;
        return output::print(format_args!("{text}\n"));
    }
    let mut text = String::new();
    for connection in &summary.connections {
        text += &line(connection);
    }
    let counts = &summary.packets;
    text += &format!(
        "{} packets of TCP, {} of UDP, {} fragments, {} unreadable; {} connections\n{}{} rows of exchanges and {} of frames, \
         half of them for each side, and {} requests, in {folder}\nBoth sides have the times of the single capture point.\n",
        counts.tcp,
        counts.udp,
        counts.fragments,
        counts.unreadable + unreadable,
        summary.connections.len(),
        unread_lines(&summary.unread),
        summary.exchanges,
        summary.frames,
        summary.requests,
        folder = summary.folder.display()
    );
    if summary.requests > 0 {
        text += &format!(
            "`squall explain {}` says what the slowest requests waited for.\n",
            summary.folder.display()
        );
    }
    output::print(text)
}

/// A line for each protocol that is not read.
fn unread_lines(unread: &BTreeMap<String, u64>) -> String {
    let line = |(protocol, count): (&String, &u64)| {
        let packets = if *count == 1 {
            "packet is"
        } else {
            "packets are"
        };
        format!("{count} {packets} {protocol}, which is not read\n")
    };
    unread.iter().map(line).collect()
}

/// One or two lines of text about a connection.
fn line(connection: &ConnectionRecord) -> String {
    let spoken = match (connection.protocol, connection.transport) {
        (Some(protocol), _) => protocol.name(),
        (None, Transport::Quic) => "quic",
        (None, Transport::Tcp) if connection.tls.is_some() => "tls",
        (None, Transport::Tcp) => "tcp",
    };
    let mut text = format!(
        "{:>5}  {} -> {}  {spoken}  {} exchanges, {} frames, {} bytes up, {} down, {:.3} s",
        connection.connection,
        connection.client,
        connection.server,
        connection.exchanges,
        connection.frames,
        connection.from_client.bytes,
        connection.from_server.bytes,
        connection.last.since(connection.opened).as_secs_f64(),
    );
    let repeated = connection.from_client.repeated_bytes + connection.from_server.repeated_bytes;
    if repeated > 0 {
        text += &format!(", {repeated} bytes repeated");
    }
    if let Some(tls) = &connection.tls {
        let name = tls.server_name.as_deref().unwrap_or("no name");
        // The name comes from an untrusted client and goes to a terminal.
        let name: String = name
            .chars()
            .map(|c| if is_terminal_control(c) { '.' } else { c })
            .collect();
        text += &format!(
            "\n       TLS for {name}, ALPN {}",
            tls.alpn.as_deref().unwrap_or("not seen").escape_debug()
        );
    }
    if let Some(opaque) = &connection.opaque {
        text += &format!("\n       not read (any further): {opaque}");
    }
    text.push('\n');
    text
}

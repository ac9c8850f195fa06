//! `squall import pcap`: the exchanges, requests, frames and packets of a capture, as the tables that a run has.
//!
//! What the packets say is squall-observe's, what the file's format is squall-record's. A capture has one point, so the
//! rows of both sides have its times; nothing here estimates what lies beyond it (squall-analysis `capture` does). The
//! file is read three times: for its secrets and its earliest time, for connections, exchanges and frames, and, when it
//! is known whose client is where, for the table of packets (`packets`). `requests` makes requests of exchanges.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use squall_base::record::{Direction, ExchangeRecord, Side};
use squall_base::{Duration, Time};
use squall_observe::{
    Checksums, ConnectionRecord, InArrivalOrder, Observations, Observer, PacketCounts, Secrets,
    SeenPacket, Transport,
};
use squall_record::capture::{CaptureEntry, CaptureReader};
use squall_record::{ExchangeWriter, FrameWriter, RequestWriter, write_json};

use super::packets::PacketTable;
use super::requests::{Numbered, number_requests};
use crate::output::{self, talk};
use crate::{BadInput, Ending};

/// How far packets of a capture may be from the order of their times: several devices and processors write to it.
const DISORDER: Duration = Duration::from_secs(1);

/// Rows that are written at once.
const ROWS_A_CHUNK: usize = 4096;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "TLS and QUIC are read if their secrets are in the capture (Decryption Secrets Blocks) or in --key-log; \
        else a connection has its name, times and bytes only. The capture has one point, so both sides' \
        rows have its times, counted from its first packet. `squall explain FOLDER` says what the slowest exchanges \
        waited for."
)]
pub(super) struct Arguments {
    /// The capture
    capture: PathBuf,
    /// The folder for the tables and import.json; without it, the capture's name without its ending
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Secrets of TLS, as SSLKEYLOGFILE gets them; may be repeated
    #[arg(long, value_name = "FILE")]
    key_log: Vec<PathBuf>,
    /// Print the connections as JSON
    #[arg(long)]
    json: bool,
}

/// The file beside the tables that has what `--json` prints.
const SUMMARY: &str = "import.json";

/// What a capture came to.
#[derive(Debug, Default, Serialize)]
struct Imported {
    capture: PathBuf,
    folder: PathBuf,
    /// What the tables' times count from.
    epoch_unix_ns: u64,
    /// At how many points of the path packets were seen.
    points: u32,
    /// Whether the file ends within a packet.
    is_cut: bool,
    /// Frames without IP, and without a time.
    frames_without_ip: u64,
    packets: PacketCounts,
    exchanges: u64,
    requests: u64,
    frames: u64,
    connections: Vec<ConnectionRecord>,
}

/// What the first reading finds.
#[derive(Debug, Default)]
struct Found {
    secrets: Vec<String>,
    earliest_unix_ns: Option<u64>,
    frames_without_ip: u64,
    is_cut: bool,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> Result<Ending> {
    let found = survey(&arguments.capture)?;
    let mut observer = Observer::new(Checksums::Ignored, Secrets::Complete);
    let mut rows = Observations::default();
    for path in &arguments.key_log {
        let text = fs::read(path)
            .map_err(|error| BadInput::new(format!("cannot read {}: {error}", path.display())))?;
        if observer.add_keys(&String::from_utf8_lossy(&text), &mut rows) == 0 {
            talk(format_args!("{} has no secrets of TLS\n", path.display()));
        }
    }
    for secrets in &found.secrets {
        observer.add_keys(secrets, &mut rows);
    }
    let folder = folder(arguments)?;
    let epoch_unix_ns = found.earliest_unix_ns.unwrap_or(0);
    let mut tables = Tables::create(&folder)?;
    // Of each packet, in order.
    let mut connections_of: Vec<Option<u32>> = Vec::new();
    each_packet(&arguments.capture, epoch_unix_ns, |packet| {
        connections_of.push(observer.see(packet, &mut rows));
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
    let imported = Imported {
        capture: arguments.capture.clone(),
        folder,
        epoch_unix_ns,
        points: 1,
        is_cut: found.is_cut,
        frames_without_ip: found.frames_without_ip,
        packets,
        ..tables.finish()?
    };
    write_json(imported.folder.join(SUMMARY), &imported)?;
    report(&imported, arguments.json)?;
    Ok(Ending::Fine)
}

/// Calls `on_packet` with each packet of a capture, in the order of their times.
fn each_packet(
    capture: &Path,
    epoch_unix_ns: u64,
    mut on_packet: impl FnMut(&SeenPacket<'_>) -> Result<()>,
) -> Result<()> {
    let mut order = InArrivalOrder::default();
    let mut failure = Ok(());
    let mut see = |packet: &SeenPacket<'_>| {
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
        order.hand_on(complete, &mut see);
    })?;
    order.finish(see);
    failure
}

/// Calls `on_entry` with everything in a capture; says whether it was cut short.
fn read(path: &Path, mut on_entry: impl FnMut(CaptureEntry)) -> Result<bool, BadInput> {
    let wrong =
        |error: &dyn std::fmt::Display| BadInput::new(format!("{}: {error}", path.display()));
    let file = File::open(path)
        .map_err(|error| BadInput::new(format!("cannot read {}: {error}", path.display())))?;
    let mut capture = CaptureReader::new(BufReader::new(file)).map_err(|error| wrong(&error))?;
    while let Some(entry) = capture.next_entry().map_err(|error| wrong(&error))? {
        on_entry(entry);
    }
    Ok(capture.was_cut())
}

fn survey(path: &Path) -> Result<Found, BadInput> {
    let mut found = Found::default();
    let is_cut = read(path, |entry| match entry {
        CaptureEntry::Packet { time_unix_ns, .. } => {
            let earliest = found.earliest_unix_ns.get_or_insert(time_unix_ns);
            *earliest = (*earliest).min(time_unix_ns);
        }
        CaptureEntry::Secrets(text) => found.secrets.push(text),
        CaptureEntry::Other => found.frames_without_ip += 1,
    })?;
    Ok(Found { is_cut, ..found })
}

/// One direction for what goes from the lower address and port, the other for what comes from there: the observer finds
/// out who the client is. Addresses are compared where IP has them, ports where TCP and UDP do.
fn direction(packet: &[u8]) -> Direction {
    let (addresses, header) = match packet.first().map(|first| first >> 4) {
        Some(4) => (packet.get(12..20), usize::from(packet[0] & 0x0f) * 4),
        // Behind extension headers the addresses alone decide, unless they are the same.
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

/// The folder of the tables, which must not have such tables yet.
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
    /// Kept until the order of their first bytes is known.
    exchanges: Vec<ExchangeRecord>,
    /// One of each connection: both sides' records are the same but for the side.
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

    /// Takes the rows, once there are more of one kind than this.
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

    /// Writes what is left; the summary has these counts and connections, and nothing else yet.
    fn finish(self) -> Result<Imported> {
        let Numbered {
            exchanges,
            requests,
        } = number_requests(self.exchanges, &self.connections);
        let mut table = ExchangeWriter::create(self.folder.join("exchanges.parquet"))?;
        table.append(&exchanges)?;
        let exchanges = table.finish()?;
        let mut table = RequestWriter::create(self.folder.join("requests.parquet"))?;
        table.append(&requests)?;
        Ok(Imported {
            exchanges,
            requests: table.finish()?,
            frames: self.frames.finish()?,
            connections: self.connections,
            ..Imported::default()
        })
    }
}

fn report(imported: &Imported, as_json: bool) -> Result<()> {
    if imported.is_cut {
        talk("the capture ends within a packet: it was cut short\n");
    }
    if imported.packets.out_of_order > 0 {
        talk(format_args!(
            "{} packets are more than {DISORDER} out of order; `reordercap` sorts a capture\n",
            imported.packets.out_of_order
        ));
    }
    if as_json {
        let text =
            serde_json::to_string_pretty(imported).context("cannot express the summary as JSON")?;
        return output::print(format_args!("{text}\n"));
    }
    let mut text = String::new();
    for connection in &imported.connections {
        text += &line(connection);
    }
    let counts = &imported.packets;
    text += &format!(
        "{} packets of TCP, {} of UDP, {} others, {} fragments, {} unreadable; {} connections\n{} rows of exchanges and {} of \
         frames, half of them of either side, and {} requests, in {folder}\nThe capture has one point: both sides have its \
         times.\n`squall explain {folder}` says what the slowest requests waited for.\n",
        counts.tcp,
        counts.udp,
        counts.others + imported.frames_without_ip,
        counts.fragments,
        counts.unreadable,
        imported.connections.len(),
        imported.exchanges,
        imported.frames,
        imported.requests,
        folder = imported.folder.display()
    );
    output::print(text)
}

/// A connection in a line or two.
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
        // A name comes from a stranger, and goes to a terminal.
        let name: String = name
            .chars()
            .map(|c| if c.is_control() { '.' } else { c })
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

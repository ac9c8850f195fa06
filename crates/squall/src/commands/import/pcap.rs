//! `squall import pcap`: the exchanges and frames of a capture, as the tables that a run has.
//!
//! What the packets say is squall-observe's, what the file's format is squall-record's. A capture has one point, so the
//! rows of both sides have its times. The file is read twice: first for its secrets and its earliest time.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use squall_base::record::{Direction, Side};
use squall_base::{Duration, Time};
use squall_observe::{
    Checksums, ConnectionRecord, InArrivalOrder, Observations, Observer, PacketCounts, Secrets,
    SeenPacket, Transport,
};
use squall_record::capture::{CaptureEntry, CaptureReader};
use squall_record::{ExchangeWriter, FrameWriter};

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
        rows have its times, counted from its first packet."
)]
pub(super) struct Arguments {
    /// The capture
    capture: PathBuf,
    /// The folder for exchanges.parquet and frames.parquet; without it, the capture's name without its ending
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Secrets of TLS, as SSLKEYLOGFILE gets them; may be repeated
    #[arg(long, value_name = "FILE")]
    key_log: Vec<PathBuf>,
    /// Print the connections as JSON
    #[arg(long)]
    json: bool,
}

/// What a capture came to.
#[derive(Debug, Serialize)]
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
    let mut tables = Tables::create(&folder)?;
    let epoch_unix_ns = found.earliest_unix_ns.unwrap_or(0);
    let mut connections = Vec::new();
    let mut order = InArrivalOrder::default();
    let mut see = |packet: &SeenPacket<'_>, observer: &mut Observer| -> Result<()> {
        observer.see(packet, &mut rows);
        tables.take(&mut rows, &mut connections, ROWS_A_CHUNK)
    };
    let mut failure = Ok(());
    read(&arguments.capture, |entry| {
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
        order.hand_on(complete, |packet| {
            if failure.is_ok() {
                failure = see(packet, &mut observer);
            }
        });
    })?;
    order.finish(|packet| {
        if failure.is_ok() {
            failure = see(packet, &mut observer);
        }
    });
    failure?;
    let packets = observer.finish(&mut rows);
    tables.take(&mut rows, &mut connections, 0)?;
    let (exchanges, frames) = tables.finish()?;
    connections.sort_by_key(|connection| connection.connection);
    let imported = Imported {
        capture: arguments.capture.clone(),
        folder,
        epoch_unix_ns,
        points: 1,
        is_cut: found.is_cut,
        frames_without_ip: found.frames_without_ip,
        packets,
        exchanges,
        frames,
        connections,
    };
    report(&imported, arguments.json)?;
    Ok(Ending::Fine)
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
    for table in ["exchanges.parquet", "frames.parquet"] {
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

/// The tables.
struct Tables {
    exchanges: ExchangeWriter,
    frames: FrameWriter,
}

impl Tables {
    fn create(folder: &Path) -> Result<Tables> {
        Ok(Tables {
            exchanges: ExchangeWriter::create(folder.join("exchanges.parquet"))?,
            frames: FrameWriter::create(folder.join("frames.parquet"))?,
        })
    }

    /// Writes the rows, once there are more than so many, and keeps one record of each connection: both sides' are the
    /// same but for the side.
    fn take(
        &mut self,
        rows: &mut Observations,
        connections: &mut Vec<ConnectionRecord>,
        more_than: usize,
    ) -> Result<()> {
        if rows
            .exchanges
            .len()
            .max(rows.frames.len())
            .max(rows.connections.len())
            > more_than
        {
            self.exchanges.append(&rows.exchanges)?;
            self.frames.append(&rows.frames)?;
            let of_client = |connection: &ConnectionRecord| connection.side == Side::Client;
            connections.extend(rows.connections.drain(..).filter(of_client));
            rows.clear();
        }
        Ok(())
    }

    fn finish(self) -> Result<(u64, u64)> {
        Ok((self.exchanges.finish()?, self.frames.finish()?))
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
         frames, half of them of either side, in {}\nThe capture has one point: both sides have its times.\n",
        counts.tcp,
        counts.udp,
        counts.others + imported.frames_without_ip,
        counts.fragments,
        counts.unreadable,
        imported.connections.len(),
        imported.exchanges,
        imported.frames,
        imported.folder.display()
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

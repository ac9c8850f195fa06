//! Writes tables of requests and packets as in a realistic trial, and prints what a row costs in disk space and time.
//!
//! The rows are synthetic, but modelled on an HTTP/1.1 trial with 25 ms delay and 1 % loss: all times have a jitter of
//! microseconds, payload sizes repeat, and sequence numbers come from several flows. `repack` measures recorded tables
//! instead. The numbers in docs/RECORD.md are from `cargo run --release -p squall-record --example bytes_per_row
//! [FOLDER]`; with a folder, the files are kept.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use squall_base::record::{
    Direction, Fate, Outcome, PacketClass, PacketRecord, Phase, RequestRecord,
};
use squall_base::{Duration, Time};
use squall_record::{PacketWriter, RequestWriter, read_packets, read_requests};

const REQUESTS: u64 = 200_000;
const PACKETS: u64 = 1_000_000;
const FLOWS: u64 = 64;
const DELAY: Duration = Duration::from_millis(25);

/// A pseudorandom number generator (SplitMix64, Steele et al. 2014).
struct Noise(u64);

impl Noise {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// A duration below `most` microseconds.
    fn span(&mut self, most: u64) -> Duration {
        Duration::from_nanos(self.below(most * 1_000))
    }
}

/// Requests at 2,000/s, one round trip each; every fiftieth is delayed by a retransmission.
fn requests(noise: &mut Noise) -> Vec<RequestRecord> {
    let row = |request| {
        let intended = Time::from_nanos(request * 500_000);
        let taken_up = intended + noise.span(60);
        let slot = taken_up + noise.span(5);
        let written = slot + noise.span(20);
        let resent = if noise.below(50) == 0 {
            noise.span(200_000)
        } else {
            Duration::ZERO
        };
        let answered = written + Duration::from_millis(50) + noise.span(300) + resent;
        RequestRecord {
            phase: if request < REQUESTS / 10 {
                Phase::Warmup
            } else {
                Phase::Measure
            },
            taken_up,
            slot: Some(slot),
            connected: Some(Time::from_nanos(50_000_000 + noise.below(FLOWS))),
            written_first: Some(written),
            written_last: Some(written + noise.span(3)),
            answered_first: Some(answered),
            headers: Some(answered + noise.span(3)),
            end: answered + noise.span(10),
            status: Some(200),
            connection: Some(noise.below(FLOWS) as u32),
            stream: Some(request / FLOWS),
            opened_connection: request < FLOWS,
            request_body_bytes: 2_048,
            response_body_bytes: 512,
            outcome: Outcome::Answered,
            ..RequestRecord::due(request, intended)
        }
    };
    (0..REQUESTS).map(row).collect()
}

/// Packets of 64 flows in both directions, alternating data and acknowledgements.
fn packets(noise: &mut Noise) -> Vec<PacketRecord> {
    let mut sent = [0_u32; FLOWS as usize];
    let mut now = Time::ZERO;
    let row = |i: u64| {
        now += noise.span(200);
        let flow = noise.below(FLOWS);
        let (is_data, is_up) = (i.is_multiple_of(2), i % 4 < 2);
        let payload_len = if is_data { 1_448 } else { 0 };
        let seq = sent[flow as usize];
        sent[flow as usize] = seq.wrapping_add(payload_len);
        let lost = noise.below(100) == 0;
        let direction = if is_up {
            Direction::Up
        } else {
            Direction::Down
        };
        PacketRecord {
            index: i / 2,
            flow: flow as u32,
            client_port: 40_000 + flow as u16,
            class: if is_data {
                PacketClass::Data
            } else {
                PacketClass::Ack
            },
            class_index: seq / 1_448,
            length: 52 + payload_len as u16,
            seq: seq.wrapping_add((flow as u32) << 24),
            ack: seq.wrapping_sub(512),
            payload_len: payload_len as u16,
            tcp_flags: if is_data { 0x18 } else { 0x10 },
            planned: (!lost).then_some(now + DELAY),
            released: (!lost).then_some(now + DELAY + noise.span(12)),
            fate: if lost {
                Fate::LossDrop
            } else {
                Fate::Delivered
            },
            ..squall_made::packet(now, direction)
        }
    };
    (0..PACKETS).map(row).collect()
}

fn report(what: &str, rows: u64, path: &Path, wrote: f64, read: f64) -> Result<(), Box<dyn Error>> {
    let bytes = std::fs::metadata(path)?.len();
    let per_row = |seconds: f64| seconds * 1e9 / rows as f64;
    println!(
        "{what}: {rows} rows, {:.1} bytes a row, {:.0} ns a row to write, {:.0} ns to read",
        bytes as f64 / rows as f64,
        per_row(wrote),
        per_row(read)
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let temporary = tempfile::tempdir()?;
    let folder = std::env::args_os()
        .nth(1)
        .map_or(temporary.path().to_path_buf(), PathBuf::from);
    let mut noise = Noise(1);

    let (rows, path) = (requests(&mut noise), folder.join("requests.parquet"));
    let start = Instant::now();
    let mut writer = RequestWriter::create(&path)?;
    writer.append(&rows)?;
    writer.finish()?;
    let (wrote, start) = (start.elapsed(), Instant::now());
    assert!(read_requests(&path)? == rows, "requests must come back");
    report(
        "requests",
        REQUESTS,
        &path,
        wrote.as_secs_f64(),
        start.elapsed().as_secs_f64(),
    )?;

    let (rows, path) = (packets(&mut noise), folder.join("packets.parquet"));
    let start = Instant::now();
    let mut writer = PacketWriter::create(&path)?;
    writer.append(&rows)?;
    writer.finish()?;
    let (wrote, start) = (start.elapsed(), Instant::now());
    assert!(read_packets(&path)? == rows, "packets must come back");
    report(
        "packets",
        PACKETS,
        &path,
        wrote.as_secs_f64(),
        start.elapsed().as_secs_f64(),
    )
}

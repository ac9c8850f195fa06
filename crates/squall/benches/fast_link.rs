//! The throughput of one TCP flow over a trial's link, and how super-packets at the link's devices change its acknowledgements:
//! `cargo bench -p squall --bench fast_link`, as root, on a quiet machine. (`cargo bench -p squall-linux` has the costs of a
//! link alone.)
//!
//! Contenders run in turns, so that a slow machine slows all alike: a veth pair, and a link whose packets are written to a
//! table by a thread in the background, as in a trial, once with super-packets (`fast`) and once packet by packet. No
//! thread is pinned. First nothing limits the rate. Then the link has a rate that both kinds carry: there its packets leave
//! one at a time, so the receiver gets them one at a time, and both kinds should show equal acknowledgements and
//! throughputs. The last column says whether they do, within a tenth.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use squall_base::BitRate;
use squall_base::record::{Direction, Fate, PacketClass, PacketRecord};
use squall_link::settings::Capacity;
use squall_link::{LaneSettings, LinkSettings};
use squall_linux::clock;
use squall_linux::host::Host;
use squall_linux::link_thread::{LinkDevices, LinkReport, LinkThread, Sinks};
use squall_linux::spans::DurationHistogram;
use squall_linux::stop::StopSignal;
use squall_linux::tun::{Offload, Tun};
use squall_linux::{scheduling, veth};
use squall_record::PacketWriter;

/// As in the binary, because the table is written as in a trial.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const PREFIX_LEN: u8 = 30;
const DEVICE: &str = "squall0";
const PORT: u16 = 9;
const BLOCK_BYTES: usize = 256 * 1024;
const RUNS: usize = 5;
const RUN: Duration = Duration::from_secs(2);
/// Rates that a link can carry packet by packet (docs/LINK.md, Limits).
const RATES_MBIT: [u64; 3] = [50, 200, 500];
/// Kinds of link differ by less than this where they should not differ.
const TENTH: f64 = 0.1;

/// What joins the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joint {
    Veth,
    Fast,
    PacketByPacket,
}

impl Joint {
    const fn name(self) -> &'static str {
        match self {
            Joint::Veth => "veth pair",
            Joint::Fast => "link, fast",
            Joint::PacketByPacket => "link, packet by packet",
        }
    }
}

/// The figures of one run. Those of packets are 0 for the veth pair.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    mbit_per_s: f64,
    /// Data packets for each acknowledgement.
    data_per_ack: f64,
    /// Bytes of acknowledgements for each megabyte that arrived.
    ack_bytes_per_mb: f64,
    /// The 99th percentile of how late packets were released.
    late_us: f64,
    /// The share of the run in which the thread worked without a pause.
    full: f64,
}

fn main() -> Result<()> {
    println!("one TCP flow, its packets recorded; medians of {RUNS} runs of {RUN:?}");
    let heading = format!(
        "{:>9} {:>8} {:>9} {:>12} {:>11} {:>7}",
        "Mbit/s", "of veth", "data/ACK", "ACK bytes/MB", "late p99", "full"
    );
    println!("{:<24} {heading}", "no rate");
    let joints = [Joint::Veth, Joint::Fast, Joint::PacketByPacket];
    let figures = in_turns(&joints, None)?;
    for (joint, own) in joints.iter().zip(&figures) {
        println!(
            "{:<24} {}",
            joint.name(),
            row(own, Some(figures[0].mbit_per_s))
        );
    }
    for mbit in RATES_MBIT {
        let rate = BitRate::new(mbit * 1_000_000);
        println!("\n{:<24} {heading}", format!("rate {mbit}mbit"));
        let joints = [Joint::Fast, Joint::PacketByPacket];
        let figures = in_turns(&joints, rate)?;
        for (joint, own) in joints.iter().zip(&figures) {
            println!("{:<24} {}", joint.name(), row(own, None));
        }
        let is_equal = |figure: fn(&Figures) -> f64| {
            (figure(&figures[0]) / figure(&figures[1]) - 1.0).abs() < TENTH
        };
        let same = |is_same: bool| if is_same { "same" } else { "DIFFERENT" };
        println!(
            "throughput {}, data packets per acknowledgement {}",
            same(is_equal(|it| it.mbit_per_s)),
            same(is_equal(|it| it.data_per_ack))
        );
    }
    Ok(())
}

fn row(own: &Figures, veth: Option<f64>) -> String {
    let of_veth = veth.map_or_else(String::new, |veth| format!("{:.2}", own.mbit_per_s / veth));
    format!(
        "{:>9.0} {of_veth:>8} {:>9.1} {:>12.0} {:>8.0} us {:>6.0}%",
        own.mbit_per_s,
        own.data_per_ack,
        own.ack_bytes_per_mb,
        own.late_us,
        own.full * 100.0
    )
}

/// Runs each joint in turn, several times, and takes the medians.
fn in_turns(joints: &[Joint], rate: Option<BitRate>) -> Result<Vec<Figures>> {
    let mut runs = vec![Vec::new(); joints.len()];
    for _ in 0..RUNS {
        for (joint, runs) in joints.iter().zip(&mut runs) {
            runs.push(run(*joint, rate)?);
        }
    }
    let median = |runs: &[Figures], figure: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let medians = runs.iter().map(|runs| Figures {
        mbit_per_s: median(runs, |it| it.mbit_per_s),
        data_per_ack: median(runs, |it| it.data_per_ack),
        ack_bytes_per_mb: median(runs, |it| it.ack_bytes_per_mb),
        late_us: median(runs, |it| it.late_us),
        full: median(runs, |it| it.full),
    });
    Ok(medians.collect())
}

/// One run over fresh hosts.
fn run(joint: Joint, rate: Option<BitRate>) -> Result<Figures> {
    let hosts = [Host::create()?, Host::create()?];
    let folder = tempfile::tempdir().context("cannot make a folder for the table")?;
    let link = match joint {
        Joint::Veth => {
            let ends = [(&hosts[0], CLIENT), (&hosts[1], SERVER)];
            veth::join(DEVICE, ends, PREFIX_LEN)?;
            None
        }
        Joint::Fast => Some(RecordedLink::start(
            &hosts,
            Offload::Segments,
            rate,
            folder.path(),
        )?),
        Joint::PacketByPacket => Some(RecordedLink::start(
            &hosts,
            Offload::None,
            rate,
            folder.path(),
        )?),
    };
    let began = Instant::now();
    let bytes = send_bulk(&hosts)? as f64;
    let seconds = began.elapsed().as_secs_f64();
    let mbit_per_s = bytes * 8.0 / seconds / 1e6;
    let Some(link) = link else {
        return Ok(Figures {
            mbit_per_s,
            ..Figures::default()
        });
    };
    let (report, packets) = link.stop()?;
    Ok(Figures {
        mbit_per_s,
        data_per_ack: packets.data as f64 / packets.acks.max(1) as f64,
        ack_bytes_per_mb: packets.ack_bytes as f64 / (bytes / 1e6),
        late_us: packets.late.lateness().p99.as_nanos() as f64 / 1e3,
        full: report.full.length().as_secs_f64() / seconds,
    })
}

/// Sums over the table of a link's packets.
#[derive(Default)]
struct PacketSums {
    data: u64,
    acks: u64,
    ack_bytes: u64,
    late: DurationHistogram,
}

impl PacketSums {
    fn add(&mut self, packet: &PacketRecord) {
        if packet.fate != Fate::Delivered {
            return;
        }
        if let (Some(planned), Some(released)) = (packet.planned, packet.released) {
            self.late.add(released.since(planned));
        }
        match (packet.direction, packet.class) {
            (Direction::Up, PacketClass::Data) => self.data += 1,
            (Direction::Down, PacketClass::Ack) => {
                self.acks += 1;
                self.ack_bytes += u64::from(packet.length);
            }
            _ => {}
        }
    }
}

/// A link whose packets are written to a table, as those of a trial are.
struct RecordedLink {
    link: LinkThread,
    table: JoinHandle<Result<PacketSums>>,
}

impl RecordedLink {
    fn start(
        hosts: &[Host; 2],
        offload: Offload,
        rate: Option<BitRate>,
        folder: &Path,
    ) -> Result<RecordedLink> {
        let device = |host: &Host, address| {
            host.run(|| {
                let device = Tun::create(DEVICE, address, PREFIX_LEN, offload)?;
                device.use_congestion_control("cubic")?;
                Ok(device)
            })
        };
        let devices = LinkDevices {
            client: device(&hosts[0], CLIENT)?,
            server: device(&hosts[1], SERVER)?,
        };
        let lane = LaneSettings {
            capacity: rate.map_or(Capacity::Unlimited, Capacity::Rate),
            ..LaneSettings::default()
        };
        let (records, chunks) = mpsc::channel::<Vec<PacketRecord>>();
        let mut writer = PacketWriter::create(folder.join("packets.parquet"))?;
        let epoch = clock::now();
        let table = thread::spawn(move || -> Result<PacketSums> {
            scheduling::make_background();
            let mut sums = PacketSums::default();
            for mut chunk in chunks {
                for packet in &mut chunk {
                    sums.add(packet);
                    packet.count_from(epoch);
                }
                writer.append(&chunk)?;
            }
            writer.finish()?;
            Ok(sums)
        });
        let sinks = Sinks {
            hop: 1,
            records,
            packets: None,
        };
        let settings = LinkSettings::symmetric(lane, 1);
        let link = LinkThread::start(&settings, devices, sinks, StopSignal::new()?)?;
        Ok(RecordedLink { link, table })
    }

    fn stop(self) -> Result<(LinkReport, PacketSums)> {
        let report = self.link.stop()?;
        let sums = self.table.join();
        let sums = sums.map_err(|_| anyhow!("the thread that writes the table panicked"))??;
        Ok((report, sums))
    }
}

/// A TCP connection from the client that sends as much as it can; the bytes that arrived.
fn send_bulk(hosts: &[Host; 2]) -> Result<u64> {
    let listener = hosts[1].run(|| Ok(TcpListener::bind((SERVER, PORT))))??;
    let mut sender = hosts[0].run(|| Ok(TcpStream::connect((SERVER, PORT))))??;
    let (mut receiver, _) = listener.accept()?;
    let receiving = thread::spawn(move || -> std::io::Result<u64> {
        let (mut block, mut bytes) = (vec![0; BLOCK_BYTES], 0);
        loop {
            match receiver.read(&mut block)? {
                0 => return Ok(bytes),
                len => bytes += len as u64,
            }
        }
    });
    let (block, began) = (vec![0; BLOCK_BYTES], Instant::now());
    while began.elapsed() < RUN {
        sender.write_all(&block)?;
    }
    drop(sender);
    let received = receiving.join();
    Ok(received.map_err(|_| anyhow!("the receiver panicked"))??)
}

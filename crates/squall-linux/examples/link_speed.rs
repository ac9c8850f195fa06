//! How fast a link without loss is, and what each packet costs its thread.
//!
//! `packets`: UDP datagrams of 64 bytes with their headers, as fast as one thread can send them. `bulk`: one TCP flow
//! from client to server. Needs root, and a quiet machine:
//! `cargo run --release -p squall-linux --example link_speed -- packets|bulk none|segments [DELAY_MS [SECONDS]]`.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use squall_base::record::{Direction, Fate, PacketRecord};
use squall_link::{LaneSettings, LinkSettings};
use squall_linux::host::Host;
use squall_linux::link_thread::{Ends, LinkThread, Sinks};
use squall_linux::stop::StopSignal;
use squall_linux::tun::{Offload, Tun};

const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const PORT: u16 = 9;
/// 64 bytes less the headers of IPv4 and UDP.
const PAYLOAD_BYTES: usize = 64 - 20 - 8;
const BLOCK_BYTES: usize = 256 * 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let word = |at: usize| words.get(at).map(String::as_str);
    let load = match word(0) {
        Some("packets") => send_packets,
        Some("bulk") => send_bulk,
        _ => return Err("packets or bulk?".into()),
    };
    let offload = match word(1) {
        Some("none") => Offload::None,
        Some("segments") => Offload::Segments,
        _ => return Err("none or segments?".into()),
    };
    let delay_ms = word(2).map_or(Ok(0), str::parse)?;
    let span = Duration::from_secs(word(3).map_or(Ok(3), str::parse)?);

    let (client, server) = (Host::create()?, Host::create()?);
    let device = |host: &Host, address| {
        host.run(|| {
            let device = Tun::create("squall0", address, 30, offload)?;
            device.use_congestion_control("cubic")?;
            Ok(device)
        })
    };
    let ends = Ends {
        client: device(&client, CLIENT)?,
        server: device(&server, SERVER)?,
    };
    let (records, chunks) = mpsc::channel();
    let counting = thread::spawn(move || Counts::of(&chunks));
    let sinks = Sinks {
        records,
        packets: None,
    };
    let lane = LaneSettings {
        delay: squall_base::Duration::from_millis(delay_ms),
        ..LaneSettings::default()
    };
    let settings = LinkSettings::symmetric(lane, 1);
    let link = LinkThread::start(&settings, ends, sinks, StopSignal::new()?)?;
    load(&client, &server, span)?;
    let processor_time = link_thread_time()?;
    let crossings = link.stop()?.crossings;
    let counts = counting.join().expect("counting does not panic");
    let packets = counts.packets[0] + counts.packets[1];
    println!(
        "up {}, down {} packets in {} and {} reads, {} delivered; {:.0} thousand a second, {:.2} Gbit/s up; {:.0} ns of \
         the link's thread each",
        counts.packets[0],
        counts.packets[1],
        crossings[0].read,
        crossings[1].read,
        counts.delivered,
        packets as f64 / span.as_secs_f64() / 1e3,
        counts.bytes_up as f64 * 8.0 / span.as_secs_f64() / 1e9,
        processor_time.as_nanos() as f64 / packets as f64
    );
    Ok(())
}

fn send_packets(client: &Host, server: &Host, span: Duration) -> Result<(), Box<dyn Error>> {
    // The datagrams find a socket, or each would be answered with an ICMP message.
    let _receiver = server.run(|| Ok(UdpSocket::bind((SERVER, PORT))))??;
    let socket = client.run(|| Ok(UdpSocket::bind((CLIENT, 0))))??;
    socket.connect((SERVER, PORT))?;
    let began = Instant::now();
    while began.elapsed() < span {
        for _ in 0..100 {
            socket.send(&[0; PAYLOAD_BYTES])?;
        }
    }
    Ok(())
}

fn send_bulk(client: &Host, server: &Host, span: Duration) -> Result<(), Box<dyn Error>> {
    let listener = server.run(|| Ok(TcpListener::bind((SERVER, PORT))))??;
    let receiving = thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        let mut block = vec![0; BLOCK_BYTES];
        while stream.read(&mut block)? > 0 {}
        Ok(())
    });
    let mut stream = client.run(|| Ok(TcpStream::connect((SERVER, PORT))))??;
    let block = vec![0; BLOCK_BYTES];
    let began = Instant::now();
    while began.elapsed() < span {
        stream.write_all(&block)?;
    }
    drop(stream);
    receiving.join().expect("receiving does not panic")?;
    Ok(())
}

#[derive(Default)]
struct Counts {
    /// By direction.
    packets: [u64; 2],
    delivered: u64,
    bytes_up: u64,
}

impl Counts {
    fn of(chunks: &mpsc::Receiver<Vec<PacketRecord>>) -> Counts {
        let mut counts = Counts::default();
        for packet in chunks.iter().flatten() {
            counts.packets[packet.direction as usize] += 1;
            counts.delivered += u64::from(packet.fate == Fate::Delivered);
            if packet.direction == Direction::Up {
                counts.bytes_up += u64::from(packet.length);
            }
        }
        counts
    }
}

/// Time that the link's thread has spent on a processor (the first figure of /proc's schedstat, in ns).
fn link_thread_time() -> Result<Duration, Box<dyn Error>> {
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        if fs::read_to_string(task.join("comm"))?.trim() == "squall-link" {
            let figures = fs::read_to_string(task.join("schedstat"))?;
            let nanos = figures
                .split_whitespace()
                .next()
                .ok_or("an empty schedstat")?;
            return Ok(Duration::from_nanos(nanos.parse()?));
        }
    }
    Err("the link's thread is not there".into())
}

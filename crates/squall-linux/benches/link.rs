//! How fast a whole link is, compared with its parts: `cargo bench -p squall-linux`, as root, on a quiet machine.
//!
//! Two baselines run in turns with it, so that a slow or busy machine slows all of them alike: a veth pair (two hosts
//! joined by the kernel alone), and a bare forwarder (a thread that copies packets between two TUN devices and does nothing
//! else), which is the cost of the system calls of any link over TUN devices. Absolute figures depend on the machine; the
//! ratios are squall's. For the cost of the model alone, run `cargo bench -p squall-link`.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use squall_base::Probability;
use squall_base::record::PacketRecord;
use squall_link::settings::Loss;
use squall_link::{LaneSettings, LinkSettings};
use squall_linux::bare::BareForwarder;
use squall_linux::host::Host;
use squall_linux::link_thread::{LinkDevices, LinkThread, Sinks};
use squall_linux::stop::StopSignal;
use squall_linux::tun::{Offload, Tun};
use squall_linux::{scheduling, veth};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const PREFIX_LEN: u8 = 30;
const DEVICE: &str = "squall0";
const PORT: u16 = 9;
/// 64 bytes less the headers of IPv4 and UDP.
const PAYLOAD_BYTES: usize = 64 - 20 - 8;
const BLOCK_BYTES: usize = 256 * 1024;
const RUNS: usize = 5;
const RUN: Duration = Duration::from_secs(1);

/// What joins the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joint {
    Veth,
    Bare,
    Link,
    LossyLink,
    FastLink,
}

impl Joint {
    const fn name(self) -> &'static str {
        match self {
            Joint::Veth => "veth pair",
            Joint::Bare => "bare forwarder",
            Joint::Link => "link",
            Joint::LossyLink => "link, 10 ms, 3 % lost",
            Joint::FastLink => "link, --fast",
        }
    }
}

/// The figures of one run.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    packets_per_s: f64,
    /// Processor time of the forwarding thread per packet; 0 if there is no such thread.
    ns_per_packet: f64,
    mbit_per_s: f64,
}

fn main() -> Outcome<()> {
    println!(
        "{:<24} {:>14} {:>13} {:>9}",
        "64-byte packets", "packets/s", "ns of thread", "of bare"
    );
    let joints = [Joint::Bare, Joint::Link, Joint::LossyLink, Joint::FastLink];
    let figures = in_turns(&joints, send_packets)?;
    for (joint, figure) in joints.iter().zip(&figures) {
        println!(
            "{:<24} {:>14.0} {:>13.0} {:>9.2}",
            joint.name(),
            figure.packets_per_s,
            figure.ns_per_packet,
            figure.ns_per_packet / figures[0].ns_per_packet
        );
    }
    for streams in [1, 8] {
        let title = format!("TCP, {streams} stream(s)");
        println!(
            "\n{title:<24} {:>14} {:>13} {:>9}",
            "Mbit/s", "of veth", "of bare"
        );
        let joints = [Joint::Veth, Joint::Bare, Joint::Link, Joint::FastLink];
        let figures = in_turns(&joints, move |hosts| send_bulk(hosts, streams))?;
        for (joint, figure) in joints.iter().zip(&figures) {
            println!(
                "{:<24} {:>14.0} {:>13.2} {:>9.2}",
                joint.name(),
                figure.mbit_per_s,
                figure.mbit_per_s / figures[0].mbit_per_s,
                figure.mbit_per_s / figures[1].mbit_per_s
            );
        }
    }
    Ok(())
}

/// Runs each joint in turn, several times, and takes the medians.
fn in_turns(joints: &[Joint], load: impl Fn(&[Host; 2]) -> Outcome<u64>) -> Outcome<Vec<Figures>> {
    let mut runs = vec![Vec::new(); joints.len()];
    for _ in 0..RUNS {
        for (joint, runs) in joints.iter().zip(&mut runs) {
            runs.push(run(*joint, &load)?);
        }
    }
    let median = |runs: &[Figures], figure: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let medians = runs.iter().map(|runs| Figures {
        packets_per_s: median(runs, |figures| figures.packets_per_s),
        ns_per_packet: median(runs, |figures| figures.ns_per_packet),
        mbit_per_s: median(runs, |figures| figures.mbit_per_s),
    });
    Ok(medians.collect())
}

/// One run over fresh hosts. The forwarding thread is pinned to the last processor; the kernel places the others.
fn run(joint: Joint, load: impl Fn(&[Host; 2]) -> Outcome<u64>) -> Outcome<Figures> {
    let hosts = [Host::create()?, Host::create()?];
    let forwarding = on_last_processor(|| Forwarding::start(joint, &hosts))?;
    let began = Instant::now();
    let bytes = load(&hosts)?;
    let seconds = began.elapsed().as_secs_f64();
    let (packets, processor_time) = forwarding.stop()?;
    Ok(Figures {
        packets_per_s: packets as f64 / seconds,
        ns_per_packet: processor_time.as_nanos() as f64 / packets.max(1) as f64,
        mbit_per_s: bytes as f64 * 8.0 / seconds / 1e6,
    })
}

/// Runs `work` on a new thread pinned to one processor; the threads that it starts inherit that.
fn on_last_processor<T: Send>(work: impl FnOnce() -> Outcome<T> + Send) -> Outcome<T> {
    thread::scope(|scope| {
        let pinned = scope.spawn(|| {
            let processors = scheduling::usable_processors()?;
            scheduling::pin_to(*processors.last().ok_or("no processor to run on")?)?;
            work()
        });
        pinned.join().map_err(|_| "a thread panicked")?
    })
}

/// What carries packets between the hosts.
enum Forwarding {
    ByKernel,
    Bare(BareForwarder),
    Link(LinkThread, JoinHandle<u64>),
}

impl Forwarding {
    fn start(joint: Joint, hosts: &[Host; 2]) -> Outcome<Forwarding> {
        let offload = match joint {
            Joint::Veth => {
                let ends = [(&hosts[0], CLIENT), (&hosts[1], SERVER)];
                veth::join(DEVICE, ends, PREFIX_LEN)?;
                return Ok(Forwarding::ByKernel);
            }
            Joint::FastLink => Offload::Segments,
            Joint::Bare | Joint::Link | Joint::LossyLink => Offload::None,
        };
        let device = |host: &Host, address| {
            host.run(|| {
                let device = Tun::create(DEVICE, address, PREFIX_LEN, offload)?;
                device.use_congestion_control("cubic")?;
                Ok(device)
            })
        };
        let (client, server) = (device(&hosts[0], CLIENT)?, device(&hosts[1], SERVER)?);
        let devices = LinkDevices { client, server };
        if joint == Joint::Bare {
            return Ok(Forwarding::Bare(BareForwarder::start(devices)?));
        }
        let mut lane = LaneSettings::default();
        if joint == Joint::LossyLink {
            lane.delay = squall_base::Duration::from_millis(10);
            lane.loss = Loss::Independent(Probability::new(0.03).unwrap_or_default());
        }
        let (records, chunks) = mpsc::channel::<Vec<PacketRecord>>();
        // The records are read, as they are in any trial.
        let counting = thread::spawn(move || chunks.iter().map(|chunk| chunk.len() as u64).sum());
        let sinks = Sinks {
            hop: 1,
            records,
            packets: None,
        };
        let settings = LinkSettings::symmetric(lane, 1);
        let link = LinkThread::start(&settings, devices, sinks, StopSignal::new()?)?;
        Ok(Forwarding::Link(link, counting))
    }

    /// Packets carried, and the forwarding thread's processor time.
    fn stop(self) -> Outcome<(u64, squall_base::Duration)> {
        match self {
            Forwarding::ByKernel => Ok((0, squall_base::Duration::ZERO)),
            Forwarding::Bare(forwarder) => {
                let forwarded = forwarder.stop()?;
                Ok((forwarded.packets, forwarded.processor_time))
            }
            Forwarding::Link(link, counting) => {
                let processor_time = link.stop()?.processor_time;
                let packets = counting.join().map_err(|_| "counting panicked")?;
                Ok((packets, processor_time))
            }
        }
    }
}

/// Datagrams of 64 bytes as fast as one thread can send them.
fn send_packets(hosts: &[Host; 2]) -> Outcome<u64> {
    // The datagrams need a receiving socket, or each would be answered with an ICMP message.
    let _receiver = hosts[1].run(|| Ok(UdpSocket::bind((SERVER, PORT))))??;
    let socket = hosts[0].run(|| Ok(UdpSocket::bind((CLIENT, 0))))??;
    socket.connect((SERVER, PORT))?;
    let (began, mut bytes) = (Instant::now(), 0);
    while began.elapsed() < RUN {
        for _ in 0..100 {
            socket.send(&[0; PAYLOAD_BYTES])?;
            bytes += 64;
        }
    }
    Ok(bytes)
}

/// TCP connections that send as much as they can; the bytes that arrived.
fn send_bulk(hosts: &[Host; 2], streams: usize) -> Outcome<u64> {
    let listener = hosts[1].run(|| Ok(TcpListener::bind((SERVER, PORT))))??;
    let connect = || hosts[0].run(|| Ok(TcpStream::connect((SERVER, PORT))));
    thread::scope(|scope| {
        let mut receiving = Vec::new();
        for _ in 0..streams {
            let mut sender = connect()??;
            let (mut receiver, _) = listener.accept()?;
            receiving.push(scope.spawn(move || -> std::io::Result<u64> {
                let (mut block, mut bytes) = (vec![0; BLOCK_BYTES], 0);
                loop {
                    match receiver.read(&mut block)? {
                        0 => return Ok(bytes),
                        len => bytes += len as u64,
                    }
                }
            }));
            scope.spawn(move || -> std::io::Result<()> {
                let (block, began) = (vec![0; BLOCK_BYTES], Instant::now());
                while began.elapsed() < RUN {
                    sender.write_all(&block)?;
                }
                Ok(())
            });
        }
        let mut bytes = 0;
        for receiving in receiving {
            bytes += receiving.join().map_err(|_| "receiving panicked")??;
        }
        Ok(bytes)
    })
}

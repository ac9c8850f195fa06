//! The link's maximum throughput: small packets, and the bytes of one TCP connection.
//!
//! The link runs on one thread, so its own processor time is the limit. The rate of arrivals also depends on the sender
//! and the receiver, which share the machine with it. The cost of system calls differs between machines, so the link is
//! judged against a bare forwarder over the same devices in the same run.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use anyhow::{Context, Result, anyhow};
use squall_base::Duration;
use squall_base::record::{Direction, Fate};
use squall_link::LaneSettings;
use squall_linux::bare::BareForwarder;
use squall_linux::clock;
use squall_linux::host::Host;

use super::bench::{self, Bench, Retention, SEED};
use super::row::{Group, Row, Target};
use super::traffic;
use crate::link::hosts::SERVER_ADDRESS;

const LASTS: Duration = Duration::from_millis(1_500);
/// Ethernet carries IP packets of 46 bytes and more without padding; 64 bytes is the usual size in such figures.
const PACKET_BYTES: usize = 64;
/// Never reached: a flood polls for received datagrams.
const PATIENCE: Duration = Duration::from_secs(1);
const BUFFER_BYTES: usize = 256 << 10;
const PORT: u16 = 8080;

/// The least share of a bare forwarder's throughput that the link must reach. Its clock, decisions and records cost 5
/// to 17 % (benches/RESULTS.md); the rest is a margin for noise of the machine.
const OF_BARE: f64 = 0.75;

pub(super) fn measure() -> Result<Vec<Row>> {
    let (link_packets, read_per_s) = small_packets_over_link()?;
    let bare_packets = small_packets_over_bare()?;
    let (link_mbit, bare_mbit) = (bulk_over_link()?, bulk_over_bare()?);
    let note = |name: &str, value, unit| Row::note(Group::Throughput, name, value, unit);
    let of_bare = |name: &str, value| {
        Row::judged(Group::Throughput, name, value, "", Target::AtLeast(OF_BARE))
    };
    let packets = "64-byte packets a second of the link's processor time";
    let connection = "one TCP connection";
    Ok(vec![
        note(packets, link_packets, "packets"),
        note("the same of a bare forwarder's", bare_packets, "packets"),
        of_bare(
            &format!("{packets}, of a bare forwarder's"),
            link_packets / bare_packets,
        ),
        note(
            "64-byte packets a second, by their reader",
            read_per_s,
            "packets",
        ),
        note(connection, link_mbit, "Mbit/s"),
        note("the same over a bare forwarder", bare_mbit, "Mbit/s"),
        of_bare(
            &format!("{connection}, of that over a bare forwarder"),
            link_mbit / bare_mbit,
        ),
    ])
}

fn unlimited(retention: Retention) -> Result<Bench> {
    let lanes = [LaneSettings::default(), LaneSettings::default()];
    Bench::start(lanes, SEED, retention)
}

/// Packets per second of processor time, and per second of wall-clock time.
fn small_packets_over_link() -> Result<(f64, f64)> {
    let bench = unlimited(Retention::TotalsOnly)?;
    let sockets = bench.datagrams(PATIENCE)?;
    let began = clock::now();
    let read = traffic::flood(&sockets, PACKET_BYTES, began + LASTS)?;
    let took = clock::now().since(began);
    let measured = bench.end()?;
    let totals = measured.totals.of(Direction::Up);
    let delivered = totals.count(Fate::Delivered) as f64;
    let processor_secs = measured.report.processor_time.as_secs_f64();
    Ok((delivered / processor_secs, read as f64 / took.as_secs_f64()))
}

fn small_packets_over_bare() -> Result<f64> {
    let (hosts, devices) = bench::hosts_with_devices()?;
    let forwarder = BareForwarder::start(devices)?;
    let sockets = bench::datagrams_between([&hosts[0], &hosts[1]], PATIENCE)?;
    traffic::flood(&sockets, PACKET_BYTES, clock::now() + LASTS)?;
    let forwarded = forwarder.stop()?;
    Ok(forwarded.packets as f64 / forwarded.processor_time.as_secs_f64())
}

fn bulk_over_link() -> Result<f64> {
    let bench = unlimited(Retention::TotalsOnly)?;
    let mbit_per_s = one_connection([&bench.client, &bench.server])?;
    bench.end()?;
    Ok(mbit_per_s)
}

fn bulk_over_bare() -> Result<f64> {
    let (hosts, devices) = bench::hosts_with_devices()?;
    let forwarder = BareForwarder::start(devices)?;
    let mbit_per_s = one_connection([&hosts[0], &hosts[1]])?;
    forwarder.stop()?;
    Ok(mbit_per_s)
}

fn one_connection([client, server]: [&Host; 2]) -> Result<f64> {
    let listener = server
        .run(|| Ok(TcpListener::bind((SERVER_ADDRESS, PORT))))?
        .context("cannot listen")?;
    let sender = client
        .run(|| Ok(TcpStream::connect((SERVER_ADDRESS, PORT))))?
        .context("cannot connect over the link")?;
    let (receiver, _) = listener.accept().context("cannot accept")?;
    Ok(bulk(sender, receiver)? / 1e6)
}

/// Sends until the deadline; returns what the receiver read, in bits per second.
fn bulk(mut sender: TcpStream, mut receiver: TcpStream) -> Result<f64> {
    let deadline = clock::now() + LASTS;
    thread::scope(|scope| {
        let sending = scope.spawn(move || -> Result<()> {
            let buffer = vec![0; BUFFER_BYTES];
            while clock::now() < deadline {
                sender.write_all(&buffer)?;
            }
            Ok(sender.shutdown(Shutdown::Write)?)
        });
        let reading = scope.spawn(move || -> Result<f64> {
            let mut buffer = vec![0; BUFFER_BYTES];
            let began = clock::now();
            let mut bytes = 0;
            loop {
                match receiver.read(&mut buffer)? {
                    0 => break,
                    length => bytes += length,
                }
            }
            Ok(8.0 * bytes as f64 / clock::now().since(began).as_secs_f64())
        });
        let panicked = |_| anyhow!("a thread of the measurement panicked");
        sending.join().map_err(panicked)??;
        reading.join().map_err(panicked)?
    })
    .context("cannot send bytes over the link")
}

//! UDP traffic between two sockets, stamped on both sides by who sends and who reads.
//!
//! The stamps are the witness beside the link's own records. Reading threads ask for real time as squall's stations
//! do; what waking them up costs is part of what they see. TCP traffic is in `repair` and `throughput`.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, anyhow};
use squall_base::{Duration, Time};
use squall_linux::{clock, datagrams, scheduling};

/// As the stations of `squall run` have it: below the link.
const PRIORITY: i32 = 1;
/// Number, time of sending, time of answering.
const HEADER_BYTES: usize = 24;
/// Headers of IPv4 and UDP.
pub(super) const IP_AND_UDP_BYTES: usize = 28;
/// Numbered datagrams that are under way at once: few enough for the reader's socket, whatever it was granted.
const NUMBERED_AT_ONCE: u32 = 64;
/// Datagrams of a flood that are under way at once. An ordinary user's socket has room for some 550 (net.core.rmem_max
/// of 208 KiB, doubled, at 768 bytes each).
const FLOOD_AT_ONCE: usize = 448;
/// After so long a flood gives up on what is under way: a link without delay holds nothing for a tenth of it.
const GIVEN_UP_AFTER: Duration = Duration::from_millis(20);

/// One datagram's way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trip {
    pub(super) sent: Time,
    pub(super) received: Time,
}

impl Trip {
    /// How much longer than `delay` it took; negative if it was early.
    pub(super) fn error_ns(&self, delay: Duration) -> i64 {
        self.received.as_nanos() as i64 - self.sent.as_nanos() as i64 - delay.as_nanos() as i64
    }
}

/// Datagrams at a steady pace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) packets: u32,
    /// Packets that are sent at once.
    pub(super) burst: u32,
    /// From one burst to the next.
    pub(super) every: Duration,
    /// Bytes of each IP packet, 52 at least.
    pub(super) packet_bytes: usize,
}

impl Pace {
    /// When packet `number` is due.
    fn due(&self, start: Time, number: u32) -> Time {
        let bursts = u64::from(number / self.burst);
        start + Duration::from_nanos(bursts * self.every.as_nanos())
    }
}

/// Sends to and fro, one datagram at a time; returns the round trips.
pub(super) fn ping_pong([near, far]: &[UdpSocket; 2], count: u32) -> Result<Vec<Duration>> {
    thread::scope(|scope| {
        let answering = scope.spawn(|| -> io::Result<()> {
            scheduling::make_realtime(PRIORITY);
            let mut datagram = [0; HEADER_BYTES];
            for _ in 0..count {
                far.recv(&mut datagram)?;
                far.send(&datagram)?;
            }
            Ok(())
        });
        let asking = scope.spawn(|| -> io::Result<Vec<Duration>> {
            scheduling::make_realtime(PRIORITY);
            let mut datagram = [0; HEADER_BYTES];
            let mut round_trips = Vec::with_capacity(count as usize);
            for _ in 0..count {
                let sent = clock::now();
                near.send(&datagram)?;
                near.recv(&mut datagram)?;
                round_trips.push(clock::now().since(sent));
            }
            Ok(round_trips)
        });
        joined(answering)?;
        joined(asking)
    })
    .context("a datagram did not come back")
}

/// Sends at a pace from one socket to the other; returns the trips of those that arrived, in order.
pub(super) fn one_way([from, to]: &[UdpSocket; 2], pace: &Pace) -> Result<Vec<Trip>> {
    thread::scope(|scope| {
        let reading = scope.spawn(|| read_trips(to, pace.packets));
        let sending = scope.spawn(|| send_paced(from, pace));
        joined(sending)?;
        joined(reading)
    })
    .context("cannot send datagrams over the link")
}

/// Sends requests at a pace, each answered at once; returns the trips there and those back.
pub(super) fn requests([near, far]: &[UdpSocket; 2], pace: &Pace) -> Result<[Vec<Trip>; 2]> {
    thread::scope(|scope| {
        let answering = scope.spawn(|| answer(far, pace));
        let reading = scope.spawn(|| read_trips(near, pace.packets));
        let sending = scope.spawn(|| send_paced(near, pace));
        joined(sending)?;
        anyhow::Ok([joined(answering)?, joined(reading)?])
    })
    .context("cannot send requests over the link")
}

/// Sends numbered datagrams, a few at a time, and returns the numbers of those that arrived, in the order of arrival.
/// The sockets' patience ends the waiting for those that were lost.
pub(super) fn numbered(
    [from, to]: &[UdpSocket; 2],
    count: u32,
    packet_bytes: usize,
) -> Result<Vec<u32>> {
    let mut datagram = vec![0; packet_bytes - IP_AND_UDP_BYTES];
    let mut arrived = Vec::with_capacity(count as usize);
    let mut next = 0;
    while next < count {
        let end = count.min(next + NUMBERED_AT_ONCE);
        for number in next..end {
            datagram[..4].copy_from_slice(&number.to_le_bytes());
            from.send(&datagram).context("cannot send a datagram")?;
        }
        while arrived.last() != Some(&(end - 1)) && receive(to, &mut datagram)?.is_some() {
            arrived.push(number_of(&datagram));
        }
        next = end;
    }
    Ok(arrived)
}

/// Sends and reads datagrams as fast as one thread can, until `deadline`, with so few under way that no queue overflows
/// and the link never waits. Returns how many were read.
pub(super) fn flood(
    [from, to]: &[UdpSocket; 2],
    packet_bytes: usize,
    deadline: Time,
) -> Result<u64> {
    let datagram = vec![0; packet_bytes - IP_AND_UDP_BYTES];
    let (mut under_way, mut read) = (0, 0);
    let mut last_read = clock::now();
    loop {
        let now = clock::now();
        if now >= deadline {
            return Ok(read as u64);
        }
        if under_way < FLOOD_AT_ONCE {
            let sent = datagrams::send_many(from, &datagram);
            under_way += sent.context("cannot send datagrams")?;
        }
        let more = datagrams::take_many(to).context("cannot read datagrams")?;
        read += more;
        under_way = under_way.saturating_sub(more);
        if more > 0 {
            last_read = now;
        } else if now > last_read + GIVEN_UP_AFTER {
            // Whatever is still missing, the reader's socket had no room for.
            under_way = 0;
            last_read = now;
        }
    }
}

/// Does `work` while a thread of ordinary priority keeps each processor busy.
pub(super) fn with_busy_processors<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let processors = scheduling::usable_processors()?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for processor in processors {
            let is_over = &is_over;
            scope.spawn(move || {
                // Where it is refused, the scheduler spreads the threads as well.
                let _ = scheduling::stay_on(processor);
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = work();
        is_over.store(true, Ordering::Relaxed);
        result
    })
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, io::Result<T>>) -> Result<T> {
    let ended = thread
        .join()
        .map_err(|_| anyhow!("a thread of the measurement panicked"))?;
    Ok(ended?)
}

fn send_paced(socket: &UdpSocket, pace: &Pace) -> io::Result<()> {
    scheduling::make_realtime(PRIORITY);
    let mut datagram = vec![0; pace.packet_bytes - IP_AND_UDP_BYTES];
    let start = clock::now();
    for number in 0..pace.packets {
        if number % pace.burst == 0 {
            clock::sleep_until(pace.due(start, number)).map_err(io::Error::other)?;
        }
        datagram[..4].copy_from_slice(&number.to_le_bytes());
        datagram[8..16].copy_from_slice(&clock::now().as_nanos().to_le_bytes());
        socket.send(&datagram)?;
    }
    Ok(())
}

/// Reads until the last of `count` datagrams has come, or none comes for as long as the socket waits.
fn read_trips(socket: &UdpSocket, count: u32) -> io::Result<Vec<Trip>> {
    scheduling::make_realtime(PRIORITY);
    let mut datagram = [0; 2048];
    let mut trips = Vec::with_capacity(count as usize);
    while receive(socket, &mut datagram)?.is_some() {
        trips.push(trip_of(&datagram));
        if number_of(&datagram) + 1 == count {
            break;
        }
    }
    Ok(trips)
}

/// Answers each request with its own time of sending; returns the requests' trips.
fn answer(socket: &UdpSocket, pace: &Pace) -> io::Result<Vec<Trip>> {
    scheduling::make_realtime(PRIORITY);
    let mut datagram = [0; 2048];
    let mut trips = Vec::with_capacity(pace.packets as usize);
    while let Some(length) = receive(socket, &mut datagram)? {
        trips.push(trip_of(&datagram));
        datagram[8..16].copy_from_slice(&clock::now().as_nanos().to_le_bytes());
        socket.send(&datagram[..length])?;
        if number_of(&datagram) + 1 == pace.packets {
            break;
        }
    }
    Ok(trips)
}

/// The next datagram's length; `None` if none comes for as long as the socket waits.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match socket.recv(buffer) {
        Ok(length) => Ok(Some(length)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// The trip of a datagram that has just been read.
fn trip_of(datagram: &[u8]) -> Trip {
    let mut sent = [0; 8];
    sent.copy_from_slice(&datagram[8..16]);
    Trip {
        sent: Time::from_nanos(u64::from_le_bytes(sent)),
        received: clock::now(),
    }
}

fn number_of(datagram: &[u8]) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&datagram[..4]);
    u32::from_le_bytes(number)
}

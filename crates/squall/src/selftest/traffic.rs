//! UDP traffic between two sockets, timestamped by both the sender and the reader.
//!
//! The timestamps are a check on the link's own records. Reading threads request real-time scheduling as squall's
//! stations do; the cost of waking them is part of what they measure. TCP traffic is in `repair` and `throughput`.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, anyhow};
use squall_base::{Duration, Time};
use squall_linux::{clock, datagrams, scheduling};

/// The priority of the stations of `squall run`: below the link's.
const PRIORITY: i32 = 1;
/// The shortest datagram: its number, the time when it was sent (bytes 8 to 15), and padding.
const HEADER_BYTES: usize = 24;
/// Bytes of the IPv4 and UDP headers.
pub(super) const IP_AND_UDP_BYTES: usize = 28;
/// Most numbered datagrams in flight: few enough to fit into the reader's socket buffer, whatever size the kernel
/// granted.
const NUMBERED_AT_ONCE: u32 = 64;
/// Most datagrams of a flood in flight. An ordinary user's socket has room for about 550 (net.core.rmem_max of 208 KiB,
/// doubled, at 768 bytes each).
const FLOOD_AT_ONCE: usize = 448;
/// After this long without a datagram, a flood gives up on those in flight. A link without delay holds a packet for
/// less than a tenth of it.
const GIVEN_UP_AFTER: Duration = Duration::from_millis(20);

/// One datagram's trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trip {
    pub(super) sent: Time,
    pub(super) received: Time,
}

impl Trip {
    /// How much longer than `delay` the trip took; negative if it was shorter.
    pub(super) fn error_ns(&self, delay: Duration) -> i64 {
        self.received.as_nanos() as i64 - self.sent.as_nanos() as i64 - delay.as_nanos() as i64
    }
}

/// A steady pace of datagrams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) packets: u32,
    /// Packets sent back to back.
    pub(super) burst: u32,
    /// Time between two bursts.
    pub(super) every: Duration,
    /// Bytes of each IP packet, at least 52.
    pub(super) packet_bytes: usize,
}

impl Pace {
    /// When packet `number` is due.
    fn due(&self, start: Time, number: u32) -> Time {
        let bursts = u64::from(number / self.burst);
        start + Duration::from_nanos(bursts * self.every.as_nanos())
    }
}

/// Sends one datagram at a time there and back; returns the round trips.
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

/// Sends at a pace from one socket to the other; returns the trips of the datagrams that arrived, in order.
pub(super) fn one_way([from, to]: &[UdpSocket; 2], pace: &Pace) -> Result<Vec<Trip>> {
    thread::scope(|scope| {
        let reading = scope.spawn(|| read_trips(to, pace.packets));
        let sending = scope.spawn(|| send_paced(from, pace));
        joined(sending)?;
        joined(reading)
    })
    .context("cannot send datagrams over the link")
}

/// Sends requests at a pace, each answered immediately; returns the trips of the requests and those of the replies.
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

/// Sends numbered datagrams, a few at a time, and returns the numbers of those that arrived, in order of arrival. The
/// sockets' read timeout ends the wait for lost ones.
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

/// Sends and reads datagrams as fast as one thread can, until `deadline`. Few enough are in flight that no queue
/// overflows, and enough that the link never waits. Returns how many were read.
pub(super) fn flood(
    [from, to]: &[UdpSocket; 2],
    packet_bytes: usize,
    deadline: Time,
) -> Result<u64> {
    let datagram = vec![0; packet_bytes - IP_AND_UDP_BYTES];
    let (mut in_flight, mut read) = (0, 0);
    let mut last_read = clock::now();
    loop {
        let now = clock::now();
        if now >= deadline {
            return Ok(read as u64);
        }
        if in_flight < FLOOD_AT_ONCE {
            let sent = datagrams::send_many(from, &datagram);
            in_flight += sent.context("cannot send datagrams")?;
        }
        let more = datagrams::receive_many(to).context("cannot read datagrams")?;
        read += more;
        in_flight = in_flight.saturating_sub(more);
        if more > 0 {
            last_read = now;
        } else if now > last_read + GIVEN_UP_AFTER {
            // Whatever is still missing did not fit into the reader's socket buffer.
            in_flight = 0;
            last_read = now;
        }
    }
}

/// Runs `work` while a thread of ordinary priority keeps each processor busy.
pub(super) fn with_busy_processors<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let processors = scheduling::usable_processors()?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for processor in processors {
            let is_over = &is_over;
            scope.spawn(move || {
                // If pinning is refused, the scheduler spreads the threads anyway.
                let _ = scheduling::pin_to(processor);
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

/// Reads until the last of `count` datagrams has arrived, or the socket's read timeout expires.
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

/// Answers each request with a reply that carries its own send time; returns the requests' trips.
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

/// The next datagram's length, or `None` if the socket's read timeout expires.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match socket.recv(buffer) {
        Ok(length) => Ok(Some(length)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// The trip of a datagram that was read just now.
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

//! Computes `loss` and `hol` by a different method: byte by byte from the link's capture, as read by tshark.
//!
//! A packet in the capture has the time at which it entered the link, and its comment records whether the link dropped
//! it. With a constant delay and no rate it arrives that delay later, or a little later still if the link's thread had to wait
//! for a processor: the record has when it was released. tshark reports which bytes of which stream it carries, and decrypts
//! QUIC. The reassembled bytes themselves show which message they belong to. The requests' connections and streams, and when
//! each got its slot, come from the record, too. Nothing comes from squall's attribution, whose result for the same requests
//! is under test. A response counts as ready when its request has been delivered, because these servers respond immediately.
//!
//! The meaning of the causes is in docs/METHOD.md, section "Causes". Single drops and their repairs are in
//! `constructed`.

use std::collections::BTreeMap;
use std::path::Path;

use squall_base::Duration;
use squall_base::record::{Cause, Direction, Outcome, PacketRecord};
use squall_record::{RunFolder, TrialFolder, read_causes, read_packets, read_requests};

use crate::capture::fields;
use crate::support::{
    FinishedRun, OtherWork, have, is_root, quiet_seat, run_whatever, say_disturbed,
};

/// One-way delay.
const DELAY_NS: u64 = 25_000_000;
/// How far the two methods may differ: neither side sends at the very moment at which it could.
const TOLERANCE: Duration = Duration::from_millis(1);
/// The percentage of responses that must agree.
const AGREEING_PERCENT: usize = 99;
/// HTTP/2 windows too large to hold anything back: their waits would not be caused by loss.
const WINDOWS: &str = "http2 = { stream_window = \"16MiB\", connection_window = \"64MiB\" }\n";
/// How many times a run is made at most if other work on the machine disturbs it.
const ATTEMPTS: usize = 3;

/// No packet.
const NONE: u32 = u32::MAX;
/// The time of something that never arrived.
const NEVER: u64 = u64::MAX;

/// A packet with bytes of some stream.
struct Packet {
    sent: u64,
    /// `None` if the link dropped it.
    released: Option<u64>,
}

impl Packet {
    /// When it arrived, or would have arrived.
    fn due(&self) -> u64 {
        self.released.unwrap_or(self.sent + DELAY_NS)
    }

    fn arrived(&self) -> u64 {
        self.released.unwrap_or(NEVER)
    }
}

/// When the link released packets that it had read at these times, by direction. It reads one packet at a time.
type Releases = BTreeMap<(usize, u64), u64>;

fn releases(trial: &TrialFolder, epoch_unix_ns: u64) -> Releases {
    let packets = read_packets(trial.packets()).expect("packets.parquet");
    let release = |packet: PacketRecord| {
        let read = (
            packet.direction as usize,
            epoch_unix_ns + packet.arrived.as_nanos(),
        );
        Some((read, epoch_unix_ns + packet.released?.as_nanos()))
    };
    packets.into_iter().filter_map(release).collect()
}

/// The contents of a capture.
#[derive(Default)]
struct Traffic {
    releases: Releases,
    packets: Vec<Packet>,
    /// By connection, in the order in which they were opened; a TCP connection has only stream 0.
    connections: Vec<BTreeMap<u64, [Bytes; 2]>>,
}

/// One direction of a byte stream.
#[derive(Default)]
struct Bytes {
    /// The bytes themselves, if the capture shows them.
    content: Vec<u8>,
    /// For each byte, the packet that carried it first.
    first: Vec<u32>,
    /// For each byte, the packet that first delivered it.
    by: Vec<u32>,
    /// For each byte, when it and all bytes before it had arrived. Like `holes`, it is known only for TCP, once all
    /// packets have been read.
    in_order: Vec<u64>,
    /// When bytes were missing: from the due time of the lost packet until another packet delivered them.
    holes: Vec<(u64, u64)>,
}

/// Shorter waits do not count: the sender sent immediately.
const WAIT_AT_LEAST: u64 = 1_000_000;

impl Bytes {
    /// Adds a packet's bytes from `start` on.
    fn add(&mut self, packets: &[Packet], number: u32, start: usize, length: usize) {
        let end = start + length;
        if self.first.len() < end {
            self.first.resize(end, NONE);
            self.by.resize(end, NONE);
        }
        let arrived = packets[number as usize].arrived();
        for at in start..end {
            if self.first[at] == NONE {
                self.first[at] = number;
            }
            if arrived < arrival(packets, self.by[at]) {
                self.by[at] = number;
            }
        }
    }

    /// Like [`Bytes::add`], and also stores the content.
    fn add_content(&mut self, packets: &[Packet], number: u32, start: usize, content: &[u8]) {
        self.add(packets, number, start, content.len());
        self.content.resize(self.first.len(), 0);
        self.content[start..start + content.len()].copy_from_slice(content);
    }

    /// Works out what all messages of the stream have in common.
    fn complete(&mut self, packets: &[Packet]) {
        let mut latest = 0;
        for at in 0..self.len() {
            let arrived = arrival(packets, self.by[at]);
            latest = latest.max(arrived);
            self.in_order.push(latest);
            let first = packets.get(self.first[at] as usize);
            if let Some(first) = first.filter(|first| first.released.is_none()) {
                self.holes.push((first.due(), arrived));
            }
        }
        self.holes.dedup();
    }

    /// When all bytes before `end` had arrived.
    fn all_before(&self, end: usize) -> Option<u64> {
        self.in_order.get(end.checked_sub(1)?).copied()
    }

    fn len(&self) -> usize {
        self.first.len()
    }
}

fn arrival(packets: &[Packet], number: u32) -> u64 {
    match number {
        NONE => NEVER,
        number => packets[number as usize].arrived(),
    }
}

/// Where a message lies in its stream, in order.
type Ranges = Vec<(usize, usize)>;

/// What a message waited for, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    loss: u64,
    hol: u64,
}

impl Traffic {
    /// What a message waited for, if its sender had it ready at `ready`; `None` if it never arrived. `is_ordered` is
    /// true for TCP: no byte is read before all earlier bytes have arrived, and a sender that lacks acknowledgements
    /// sends nothing new.
    fn waits(&self, bytes: &Bytes, own: &Ranges, is_ordered: bool, ready: u64) -> Option<Waits> {
        let packet = |number: u32| &self.packets[number as usize];
        let arrived = |at: usize| arrival(&self.packets, bytes.by[at]);
        let places = || own.iter().flat_map(|(from, to)| *from..*to);
        // The byte that arrived last. If several arrived together, it is the last of them in the message: earlier ones may be
        // retransmitted together with a byte that is sent for the first time.
        let critical = places().max_by_key(|at| (arrived(*at), *at))?;
        let at_last = arrived(critical);
        if at_last == NEVER {
            return None;
        }
        let first = packet(bytes.first[critical]);
        let mut loss = at_last - first.due().min(at_last);
        // The message's own bytes that were missing before the critical byte was sent.
        let missing = places().filter_map(|at| {
            let own_first = packet(bytes.first[at]);
            let span = (own_first.due(), arrived(at).min(first.sent));
            (own_first.sent < first.sent && span.0 < span.1).then_some(span)
        });
        let missing: Vec<(u64, u64)> = missing.collect();
        let while_unsent = covered(missing.clone());
        loss += while_unsent;
        let end = own.last()?.1;
        if !is_ordered {
            return Some(Waits { loss, hol: 0 });
        }
        let mut hol = bytes.all_before(end)?.saturating_sub(at_last);
        if first.sent.saturating_sub(ready) >= WAIT_AT_LEAST {
            let holes = bytes.holes.iter().copied().chain(missing);
            let during = holes.map(|(from, to)| (from.max(ready), to.min(first.sent)));
            let during = during.filter(|(from, to)| from < to).collect();
            hol += covered(during).saturating_sub(while_unsent);
        }
        Some(Waits { loss, hol })
    }

    /// When a message had been delivered: all of it, and over TCP also everything before it.
    fn delivered(&self, bytes: &Bytes, own: &Ranges, is_ordered: bool) -> u64 {
        let arrived = |at: usize| arrival(&self.packets, bytes.by[at]);
        let end = own.last().map_or(0, |(_, to)| *to);
        if is_ordered {
            bytes.all_before(end).unwrap_or(NEVER)
        } else {
            own.iter()
                .flat_map(|(from, to)| *from..*to)
                .map(arrived)
                .max()
                .unwrap_or(NEVER)
        }
    }
}

/// The time covered by the spans, counting overlaps once.
fn covered(mut spans: Vec<(u64, u64)>) -> u64 {
    spans.sort_unstable();
    spans.dedup();
    let (mut sum, mut until) = (0, 0);
    for (from, to) in spans {
        sum += to.saturating_sub(from.max(until));
        until = until.max(to);
    }
    sum
}

/// Parses a time of tshark, in seconds with nine decimals.
fn nanos(field: &str) -> u64 {
    let (seconds, fraction) = field.split_once('.').expect("seconds with decimals");
    let number = |digits: &str| digits.parse::<u64>().expect("digits");
    assert_eq!(fraction.len(), 9, "{field}");
    number(seconds) * 1_000_000_000 + number(fraction)
}

/// Adds the packet of a row that begins with time, interface and comment. Returns its number and direction.
fn add_packet(traffic: &mut Traffic, row: &[String]) -> (u32, Direction) {
    let number = traffic.packets.len() as u32;
    let direction = match row[1].as_str() {
        "up" => Direction::Up,
        "down" => Direction::Down,
        other => panic!("no direction: {other}"),
    };
    let (sent, is_dropped) = (nanos(&row[0]), row[2].contains("dropped"));
    let release = traffic.releases.get(&(direction as usize, sent));
    let released = (!is_dropped).then(|| *release.expect("the record has each packet"));
    assert!(
        released.is_none_or(|released| released >= sent + DELAY_NS),
        "{row:?} was released too early"
    );
    traffic.packets.push(Packet { sent, released });
    (number, direction)
}

/// The bytes of every TCP connection.
fn read_tcp(file: &Path, releases: Releases) -> Traffic {
    let names = [
        "frame.time_epoch",
        "frame.interface_name",
        "frame.comment",
        "tcp.stream",
        "tcp.flags.syn",
        "tcp.seq_raw",
        "tcp.payload",
    ];
    // This file parses the contents itself.
    let more = ["--disable-protocol", "http", "--disable-protocol", "http2"];
    let rows = fields(
        file,
        None,
        "tcp.flags.syn == 1 || tcp.len > 0",
        &names,
        &more,
    );
    let mut traffic = Traffic {
        releases,
        ..Traffic::default()
    };
    let mut beginnings: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    for row in rows {
        let (number, direction) = add_packet(&mut traffic, &row);
        let connection: usize = row[3].parse().expect("a stream's number");
        let seq: u32 = row[5].parse().expect("a sequence number");
        let place = (connection, direction as usize);
        if ["1", "True"].contains(&row[4].as_str()) {
            // The first byte follows the SYN (RFC 9293, section 3.4).
            beginnings.insert(place, seq.wrapping_add(1));
            continue;
        }
        while traffic.connections.len() <= connection {
            traffic.connections.push(BTreeMap::new());
        }
        let start = seq.wrapping_sub(beginnings[&place]) as usize;
        let content: Vec<u8> = (0..row[6].len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&row[6][at..at + 2], 16).expect("hexadecimal"))
            .collect();
        let ways = traffic.connections[connection].entry(0).or_default();
        ways[direction as usize].add_content(&traffic.packets, number, start, &content);
    }
    let streams = traffic.connections.iter_mut();
    for bytes in streams.flat_map(BTreeMap::values_mut).flatten() {
        bytes.complete(&traffic.packets);
    }
    traffic
}

/// The bytes of the request streams of every QUIC connection.
fn read_quic(file: &Path, releases: Releases) -> Traffic {
    let names = [
        "frame.time_epoch",
        "frame.interface_name",
        "frame.comment",
        "udp.srcport",
        "udp.dstport",
        "quic.stream.stream_id",
        "quic.stream.off",
        "quic.stream.len",
        "quic.stream.offset",
        "quic.stream.length",
    ];
    let mut traffic = Traffic {
        releases,
        ..Traffic::default()
    };
    let mut clients: Vec<String> = Vec::new();
    // tshark may take a client's port for another protocol's.
    let more = ["-d", "udp.port==8080,quic"];
    for row in fields(file, None, "quic", &names, &more) {
        let (number, direction) = add_packet(&mut traffic, &row);
        let client = &row[3 + direction as usize];
        let connection = clients.iter().position(|of| of == client);
        let connection = connection.unwrap_or_else(|| {
            clients.push(client.clone());
            traffic.connections.push(BTreeMap::new());
            clients.len() - 1
        });
        let list = |place: usize| row[place].split(',').filter(|word| !word.is_empty());
        let number_of = |word: &str| word.parse::<u64>().expect("a number");
        let is_set = |word: &str| ["1", "True"].contains(&word);
        let (mut offsets, mut lengths) = (list(8).map(number_of), list(9).map(number_of));
        let frames = list(5).map(number_of).zip(list(6)).zip(list(7));
        for ((stream, has_offset), has_length) in frames {
            assert!(is_set(has_length), "quiche says how long each frame is");
            let offset = if is_set(has_offset) {
                offsets.next().expect("an offset")
            } else {
                0
            };
            let length = lengths.next().expect("a length") as usize;
            // Bidirectional streams opened by the client (RFC 9000, section 2.1) carry requests.
            if stream % 4 == 0 {
                let ways = traffic.connections[connection].entry(stream).or_default();
                let bytes = &mut ways[direction as usize];
                bytes.add(&traffic.packets, number, offset as usize, length);
            }
        }
    }
    traffic
}

/// The messages in one direction of an HTTP/1.1 connection, one after the other.
fn http1_messages(content: &[u8]) -> Vec<Ranges> {
    const BLANK_LINE: &[u8] = b"\r\n\r\n";
    const LENGTH: &str = "content-length:";
    let (mut messages, mut at) = (Vec::new(), 0);
    while let Some(head) = content[at..].windows(4).position(|it| it == BLANK_LINE) {
        let body = at + head + BLANK_LINE.len();
        let text = String::from_utf8_lossy(&content[at..body]).to_ascii_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix(LENGTH));
        let length = length.map_or(0, |it| it.trim().parse::<usize>().expect("a length"));
        let end = body + length;
        if end > content.len() {
            break;
        }
        messages.push(vec![(at, end)]);
        at = end;
    }
    messages
}

/// The messages in one direction of an HTTP/2 connection, by stream: their HEADERS, CONTINUATION and DATA frames
/// including the frame headers (RFC 9113, sections 4.1 and 6).
fn http2_messages(content: &[u8]) -> BTreeMap<u64, Ranges> {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const HEADER_BYTES: usize = 9;
    let mut messages: BTreeMap<u64, Ranges> = BTreeMap::new();
    let mut at = if content.starts_with(PREFACE) {
        PREFACE.len()
    } else {
        0
    };
    while let Some(header) = content.get(at..at + HEADER_BYTES) {
        let length =
            usize::from(header[0]) << 16 | usize::from(header[1]) << 8 | usize::from(header[2]);
        let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        let end = at + HEADER_BYTES + length;
        if end > content.len() {
            break;
        }
        if [0x0, 0x1, 0x9].contains(&header[3]) {
            messages
                .entry(u64::from(stream))
                .or_default()
                .push((at, end));
        }
        at = end;
    }
    messages
}

/// What the requests of a trial waited for, by connection and stream, in both directions together. `ready` has the time
/// at which each got its slot.
fn all_waits(
    file: &Path,
    releases: Releases,
    protocol: &str,
    ready: &BTreeMap<(u32, u64), u64>,
) -> BTreeMap<(u32, u64), Waits> {
    let traffic = match protocol {
        "h3" => read_quic(file, releases),
        _ => read_tcp(file, releases),
    };
    let is_ordered = protocol != "h3";
    let mut all = BTreeMap::new();
    for (connection, streams) in (0..).zip(&traffic.connections) {
        for (stream, ways) in streams {
            let [up, down] = ways;
            let [requests, responses] = [up, down].map(|bytes| messages(protocol, *stream, bytes));
            for (stream, request) in requests {
                let on = (connection, stream);
                let (Some(response), Some(ready)) = (responses.get(&stream), ready.get(&on)) else {
                    continue;
                };
                let delivered = traffic.delivered(up, &request, is_ordered);
                let waits = [
                    traffic.waits(up, &request, is_ordered, *ready),
                    traffic.waits(down, response, is_ordered, delivered),
                ];
                if let [Some(up), Some(down)] = waits {
                    let (loss, hol) = (up.loss + down.loss, up.hol + down.hol);
                    all.insert(on, Waits { loss, hol });
                }
            }
        }
    }
    all
}

/// The messages in one direction of a connection, by stream; for QUIC, only those of `stream`.
fn messages(protocol: &str, stream: u64, bytes: &Bytes) -> BTreeMap<u64, Ranges> {
    match protocol {
        "h3" => BTreeMap::from([(stream, vec![(0, bytes.len())])]),
        "h1" => (0..).zip(http1_messages(&bytes.content)).collect(),
        _ => http2_messages(&bytes.content),
    }
}

/// How a trial's attribution compares with this method.
#[derive(Debug, Default)]
struct Compared {
    responses: usize,
    agreeing: usize,
    with_loss: usize,
    with_hol: usize,
    /// Descriptions of the responses on which the methods differ too much.
    apart: Vec<String>,
}

fn compare(trial: &TrialFolder) -> Compared {
    let record = trial.read_record().expect("trial.json");
    let protocol = record.trial.variant.first_hop().protocol.name();
    let requests = read_requests(trial.requests()).expect("requests.parquet");
    let ready = requests.iter().filter_map(|request| {
        let on = (request.connection?, request.stream?);
        let slot = request.slot?.max(request.connected?);
        Some((on, record.epoch_unix_ns + slot.as_nanos()))
    });
    let releases = releases(trial, record.epoch_unix_ns);
    let waits = all_waits(&trial.capture(), releases, protocol, &ready.collect());
    let causes = read_causes(trial.causes()).expect("causes.parquet");
    let causes: BTreeMap<u64, _> = causes.into_iter().map(|row| (row.request, row)).collect();
    let mut compared = Compared::default();
    for request in requests {
        if request.outcome != Outcome::Answered {
            continue;
        }
        let on = (
            request.connection.expect("it was answered"),
            request.stream.expect("it was answered"),
        );
        let expected = waits
            .get(&on)
            .unwrap_or_else(|| panic!("{}: {on:?} is not in the capture", trial.name()));
        let spans = &causes[&request.request].spans;
        let (loss, hol) = (spans[Cause::Loss].as_nanos(), spans[Cause::Hol].as_nanos());
        let apart = loss.abs_diff(expected.loss).max(hol.abs_diff(expected.hol));
        compared.responses += 1;
        compared.with_loss += usize::from(expected.loss > 0);
        compared.with_hol += usize::from(expected.hol > 0);
        if apart <= TOLERANCE.as_nanos() {
            compared.agreeing += 1;
        } else {
            compared.apart.push(format!(
                "request {} on {on:?}: loss {loss} hol {hol}, expected {expected:?}",
                request.request
            ));
        }
    }
    compared
}

/// Responses of 1 to 30 KiB over a link that loses 2 % of the packets in each direction.
fn lossy(protocol: &str, connections: &str, (rate, duration): (&str, &str)) -> FinishedRun {
    let windows = if protocol == "h2c" { WINDOWS } else { "" };
    let text = format!(
        "name = \"test\"\nquestion = \"Who waits for whom?\"\n[load]\nrate = \"{rate}\"\n\
         [[request]]\ntarget = \"/?size=1KiB\"\nweight = 3\n\
         [[request]]\ntarget = \"/?size=8KiB\"\nweight = 2\n\
         [[request]]\ntarget = \"/?size=30KiB\"\n\
         [response]\nstatus = 200\n[conditions]\ndelay = \"25ms\"\nloss = \"2%\"\n\
         [[variant]]\nname = \"{protocol}\"\npath = \"client ~{protocol}~> server\"\n\
         connections = {connections}\n{windows}\
         [profile.standard]\nwarmup = \"0s\"\nduration = \"{duration}\"\ndrain = \"4s\"\n"
    );
    run_whatever(&text, &["--pcap"])
}

/// Describes the errors in a trial's attribution, if there are too many.
fn faults(trial: &TrialFolder, compared: &Compared) -> Option<String> {
    let wanted = (compared.responses * AGREEING_PERCENT).div_ceil(100);
    (compared.agreeing < wanted).then(|| {
        format!(
            "{}: {} of {} agree:\n{}",
            trial.name(),
            compared.agreeing,
            compared.responses,
            compared.apart.join("\n")
        )
    })
}

/// Checks that both methods agree. A trial that other work on the machine disturbs is repeated: its servers do not respond
/// immediately, on which this method relies. `None` if all attempts are disturbed.
fn check(protocol: &str, connections: &str, load: (&str, &str)) -> Option<Compared> {
    for _ in 0..ATTEMPTS {
        let other_work = OtherWork::watch();
        let run = lossy(protocol, connections, load);
        let folder = RunFolder::open(&run.folder).expect("the run");
        let trials = folder.complete_trials().expect("its trials");
        let [trial] = &trials[..] else {
            panic!("one trial: {trials:?}");
        };
        let compared = compare(trial);
        eprintln!(
            "{protocol} x {connections}: {} of {} agree, {} with loss, {} with hol",
            compared.agreeing, compared.responses, compared.with_loss, compared.with_hol
        );
        compared.apart.iter().for_each(|it| eprintln!("  {it}"));
        match faults(trial, &compared) {
            None => return Some(compared),
            Some(said) if run.has_disturbed_trials() || other_work.disturbs_a_second() => {
                say_disturbed(&said);
            }
            Some(said) => panic!("{said}"),
        }
    }
    None
}

/// Checks that at least this many of these responses waited for lost bytes of their own.
#[track_caller]
fn check_losses(compared: Option<&Compared>, at_least: usize) {
    let losses = compared.map(|compared| compared.with_loss);
    assert!(losses.is_none_or(|losses| losses >= at_least), "{losses:?}");
}

fn have_tools() -> bool {
    is_root() && have(&["tshark"])
}

#[test]
fn http1_attribution_agrees_with_byte_by_byte_reassembly() {
    if !have_tools() {
        return;
    }
    let _seat = quiet_seat();
    let compared = check("h1", "\"on demand\"", ("200/s", "3s"));
    check_losses(compared.as_ref(), 30);
}

#[test]
fn http2_attribution_agrees_with_byte_by_byte_reassembly() {
    if !have_tools() {
        return;
    }
    let _seat = quiet_seat();
    // The first load is near the capacity of one connection at this loss.
    for (connections, load) in [("1", ("15/s", "8s")), ("16", ("300/s", "3s"))] {
        let compared = check("h2c", connections, load);
        check_losses(compared.as_ref(), 10);
        let held = compared.map(|compared| compared.with_hol);
        assert!(held.is_none_or(|held| held >= 10), "{held:?}");
    }
}

#[test]
fn http3_attribution_agrees_with_byte_by_byte_reassembly() {
    if !have_tools() {
        return;
    }
    let _seat = quiet_seat();
    // The second load exceeds what the congestion windows allow, so packets carry retransmitted and new bytes together.
    for (connections, rate) in [("16", "300/s"), ("4", "400/s")] {
        let compared = check("h3", connections, (rate, "3s"));
        check_losses(compared.as_ref(), 30);
    }
}

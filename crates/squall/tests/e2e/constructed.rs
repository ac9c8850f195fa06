//! Constructed truth over TCP: drop lists lose packets, and this file works out independently what they carried, which
//! requests they delayed and when they were repaired. drops.parquet and causes.parquet must agree exactly.
//!
//! The truth is computed by brute force from packets.parquet: sequence numbers become offsets, every byte gets the time
//! of its first arrival, and a request's delay is what its last byte and the bytes before it waited for. The code
//! shares nothing with squall's attribution. `constructed_quic` does the same over QUIC.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use squall_base::plan::Protocol;
use squall_base::record::{
    Cause, CausesRecord, Direction, DropRecord, ExchangeRecord, Fate, FrameLayer, FrameRecord,
    PacketClass, PacketRecord, PacketRef, Repair, RequestRecord, Side, TrialRecord,
};
use squall_base::{Duration, Time};
use squall_record::{
    RunFolder, TrialFolder, read_causes, read_drops, read_exchanges, read_frames, read_packets,
    read_requests,
};

use crate::support::{FinishedRun, alone_if_it_fails, joined, run_recipe, seat};

/// One-way delay.
pub(crate) const DELAY: Duration = Duration::from_millis(10);
/// Payload of a segment with timestamps (RFC 7323) at an MTU of 1,500.
const MSS: u64 = 1_448;

/// A trial with its records and the findings derived from them.
pub(crate) struct TrialRows {
    pub(crate) record: TrialRecord,
    pub(crate) requests: Vec<RequestRecord>,
    pub(crate) packets: Vec<PacketRecord>,
    pub(crate) causes: BTreeMap<u64, CausesRecord>,
    pub(crate) drops: Vec<DropRecord>,
    /// By direction: where each request, or its response, lies in the TCP payload, as one range or the ranges of its
    /// frames.
    own: [BTreeMap<u64, Vec<(u64, u64)>>; 2],
    /// By direction: when the sender had each message ready to send.
    ready: [BTreeMap<u64, Time>; 2],
}

/// Shorter waits do not count: the sender sent immediately.
const WAIT_AT_LEAST: Duration = Duration::from_millis(1);

/// When the senders had their messages ready: a request as soon as it had its slot, a response when the server had
/// generated it.
fn ready(requests: &[RequestRecord], exchanges: &[ExchangeRecord]) -> [BTreeMap<u64, Time>; 2] {
    let up = requests
        .iter()
        .filter_map(|row| Some((row.request, row.slot?)));
    let servers = exchanges.iter().filter(|row| row.side == Side::Server);
    let made: BTreeMap<u64, Option<Time>> = servers
        .map(|row| (row.stream, row.beginning.offered))
        .collect();
    // There is only one connection, so a stream identifies a request.
    let down = requests.iter().filter_map(|row| {
        let made = made.get(&row.stream?)?;
        Some((row.request, (*made)?))
    });
    [up.collect(), down.collect()]
}

impl TrialRows {
    fn read(folder: &TrialFolder) -> TrialRows {
        let causes = read_causes(folder.causes()).expect("causes.parquet");
        let exchanges = read_exchanges(folder.exchanges()).expect("exchanges.parquet");
        let record = folder.read_record().expect("trial.json");
        let own = match record.trial.variant.first_hop().protocol {
            Protocol::H2c => {
                let frames = read_frames(folder.frames()).expect("frames.parquet");
                Direction::ALL.map(|direction| of_frames(&exchanges, &frames, direction))
            }
            _ => Direction::ALL.map(|direction| of_extents(&exchanges, direction)),
        };
        let requests = read_requests(folder.requests()).expect("requests.parquet");
        let found = TrialRows {
            record,
            ready: ready(&requests, &exchanges),
            requests,
            packets: read_packets(folder.packets()).expect("packets.parquet"),
            causes: causes.into_iter().map(|row| (row.request, row)).collect(),
            drops: read_drops(folder.drops()).expect("drops.parquet"),
            own,
        };
        found.check_sums();
        found
    }

    pub(crate) fn of(run: &FinishedRun) -> Vec<TrialRows> {
        let folder = RunFolder::open(&run.folder).expect("the run");
        let trials = folder.complete_trials().expect("its trials");
        trials.iter().map(TrialRows::read).collect()
    }

    pub(crate) fn name(&self) -> String {
        self.record.trial.folder()
    }

    fn check_sums(&self) {
        for request in &self.requests {
            let row = &self.causes[&request.request];
            assert_eq!(row.spans.total(), request.response_time(), "{request:?}");
        }
    }

    pub(crate) fn row_of(&self, packet: &PacketRecord) -> &DropRecord {
        let name = PacketRef {
            hop: 1,
            direction: packet.direction,
            index: packet.index,
        };
        let mut rows = self.drops.iter().filter(|row| row.packet == name);
        let row = rows
            .next()
            .unwrap_or_else(|| panic!("{}: {packet:?} is missing", self.name()));
        assert!(rows.next().is_none(), "{}: {packet:?} twice", self.name());
        assert_eq!((row.fate, row.dropped_at), (packet.fate, packet.arrived));
        row
    }

    /// Checks that the time of each request under `cause` equals the cost that the drops charge to it.
    pub(crate) fn check_blames(&self, cause: Cause) {
        let mut blamed = BTreeMap::<u64, Duration>::new();
        for victim in self.drops.iter().flat_map(|row| &row.victims) {
            if victim.cause == cause {
                let sum = blamed.entry(victim.request).or_default();
                *sum = *sum + victim.delay;
            }
        }
        for (request, row) in &self.causes {
            let blamed = blamed.get(request).copied().unwrap_or_default();
            assert_eq!(
                blamed,
                row.spans[cause],
                "{}: request {request}, {cause:?}",
                self.name()
            );
        }
    }
}

/// From the first byte of each message to its last: of HTTP itself in cleartext, of the TLS records otherwise.
fn of_extents(
    exchanges: &[ExchangeRecord],
    direction: Direction,
) -> BTreeMap<u64, Vec<(u64, u64)>> {
    let client = exchanges.iter().filter(|row| row.side == Side::Client);
    let extents = client.filter_map(|row| {
        let extent = match direction {
            Direction::Up => row.request_extent?,
            Direction::Down => row.response_extent?,
        };
        Some((row.request?, vec![(extent.wire_start?, extent.wire_end?)]))
    });
    extents.collect()
}

/// Cleartext HTTP/2: DATA, HEADERS and CONTINUATION (RFC 9113, section 6) as written by the sender, with 9 bytes of
/// header each.
fn of_frames(
    exchanges: &[ExchangeRecord],
    frames: &[FrameRecord],
    direction: Direction,
) -> BTreeMap<u64, Vec<(u64, u64)>> {
    let sender = match direction {
        Direction::Up => Side::Client,
        Direction::Down => Side::Server,
    };
    let requests: BTreeMap<u64, u64> = exchanges
        .iter()
        .filter_map(|row| Some((row.stream, row.request?)))
        .collect();
    let mut own: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for FrameRecord { side, frame, .. } in frames {
        let is_sent = *side == sender && frame.way == squall_base::record::Way::Sent;
        let is_of_message =
            frame.layer == FrameLayer::Http2 && [0x0, 0x1, 0x9].contains(&frame.kind);
        let request = frame.stream.and_then(|stream| requests.get(&stream));
        if let (true, Some(request), Some(from)) = (is_sent && is_of_message, request, frame.offset)
        {
            own.entry(*request)
                .or_default()
                .push((from, from + 9 + frame.length));
        }
    }
    own
}

/// Whether no other message's range overlaps one of these: two messages may share a TLS record, whose bytes then belong
/// to both.
fn is_clear(all: &BTreeMap<u64, Vec<(u64, u64)>>, request: u64) -> bool {
    let own = &all[&request];
    let mut others = all
        .iter()
        .filter(|(other, _)| **other != request)
        .flat_map(|(_, ranges)| ranges);
    others.all(|other| {
        own.iter()
            .all(|range| range.1 <= other.0 || other.1 <= range.0)
    })
}

/// What was sent in one direction on the trial's only connection, byte by byte.
struct Way<'a> {
    direction: Direction,
    /// Segments with payload, in the order in which the link read them, with the offset of their first byte.
    segments: Vec<(u64, &'a PacketRecord)>,
    /// When each byte was first sent.
    sent: Vec<Time>,
    /// When each byte first arrived, and in which packet; `None` if it never did.
    arrivals: Vec<Option<(Time, u64)>>,
}

impl<'a> Way<'a> {
    fn of(found: &'a TrialRows, direction: Direction) -> Way<'a> {
        let packets = found
            .packets
            .iter()
            .filter(|packet| packet.direction == direction);
        let mut packets: Vec<&PacketRecord> = packets.collect();
        packets.sort_by_key(|packet| packet.index);
        assert!(
            packets.iter().all(|packet| packet.flow == 0),
            "one connection"
        );
        let syn = packets
            .iter()
            .find(|packet| packet.class == PacketClass::Syn);
        let first = syn.expect("a SYN").seq.wrapping_add(1);
        // The connection carries far less than 4 GB.
        let offset = |packet: &PacketRecord| u64::from(packet.seq.wrapping_sub(first));
        let segments: Vec<(u64, &PacketRecord)> = packets
            .into_iter()
            .filter(|packet| packet.payload_len > 0)
            .map(|packet| (offset(packet), packet))
            .collect();
        let end = segments
            .iter()
            .map(|(from, packet)| from + u64::from(packet.payload_len))
            .max();
        let mut arrivals: Vec<Option<(Time, u64)>> = vec![None; end.unwrap_or(0) as usize];
        let mut sent = Vec::with_capacity(arrivals.len());
        for (from, packet) in &segments {
            let to = *from as usize + usize::from(packet.payload_len);
            sent.resize(to.max(sent.len()), packet.arrived);
            let Some(released) = packet.released else {
                continue;
            };
            for byte in &mut arrivals[*from as usize..][..usize::from(packet.payload_len)] {
                if byte.is_none_or(|(time, _)| released < time) {
                    *byte = Some((released, packet.index));
                }
            }
        }
        Way {
            direction,
            segments,
            sent,
            arrivals,
        }
    }

    /// The last arrival among these bytes, and the packet that delivered it.
    fn last_arrival(&self, from: u64, to: u64) -> Option<(Time, u64)> {
        let bytes = self.arrivals[from as usize..to as usize].iter();
        bytes
            .copied()
            .collect::<Option<Vec<_>>>()?
            .into_iter()
            .max_by_key(|(time, _)| *time)
    }

    fn dropped(&self) -> impl Iterator<Item = (u64, &'a PacketRecord)> {
        let dropped = self
            .segments
            .iter()
            .filter(|(_, packet)| packet.fate == Fate::ListDrop);
        dropped.map(|(from, packet)| (*from, *packet))
    }

    /// The dropped segments whose bytes were missing for a time, each with its due time and its repair. Overlapping
    /// ones are left out, so that each hole can be judged on its own.
    fn separable(&self) -> Vec<Hole<'a>> {
        let holes = self.dropped().filter_map(|(from, packet)| {
            let to = from + u64::from(packet.payload_len);
            let (repaired, by) = self.last_arrival(from, to)?;
            let due = packet.arrived + DELAY;
            (due < repaired).then_some(Hole {
                packet,
                from,
                to,
                due,
                repaired,
                by,
            })
        });
        let holes: Vec<Hole<'_>> = holes.collect();
        let is_alone = |hole: &&Hole<'_>| {
            let others = holes
                .iter()
                .filter(|other| other.packet.index != hole.packet.index);
            others
                .clone()
                .all(|other| other.repaired < hole.due || hole.repaired < other.due)
        };
        holes.iter().filter(is_alone).cloned().collect()
    }
}

/// Bytes that were missing for a time.
#[derive(Clone, Debug)]
struct Hole<'a> {
    packet: &'a PacketRecord,
    from: u64,
    to: u64,
    due: Time,
    repaired: Time,
    by: u64,
}

/// The requests that the hole delayed, by TCP's rule: a message is available once its last byte and all bytes before it
/// have arrived. A message waits for the last of its own bytes to arrive; until that byte is even sent, it waits for
/// its own missing bytes.
fn victims(found: &TrialRows, way: &Way<'_>, hole: &Hole<'_>) -> BTreeMap<u64, (Cause, Duration)> {
    let mut victims = BTreeMap::new();
    for (request, ranges) in &found.own[way.direction as usize] {
        let arrivals = ranges.iter().map(|(from, to)| way.last_arrival(*from, *to));
        let Some(arrivals) = arrivals.collect::<Option<Vec<_>>>() else {
            continue;
        };
        let own = arrivals
            .into_iter()
            .map(|(time, _)| time)
            .max()
            .expect("it has bytes");
        let bytes = || ranges.iter().flat_map(|(from, to)| *from..*to);
        let last =
            bytes().rfind(|byte| way.arrivals[*byte as usize].is_some_and(|(time, _)| time == own));
        let last = last.expect("a byte that came last");
        let end = ranges
            .iter()
            .map(|(_, to)| *to)
            .max()
            .expect("it has bytes");
        let is_own = bytes().any(|byte| (hole.from..hole.to).contains(&byte));
        if is_own && (hole.from..hole.to).contains(&last) {
            victims.insert(*request, (Cause::Loss, own.since(hole.due)));
        } else if is_own && way.sent[last as usize] > hole.due {
            let until = hole.repaired.min(way.sent[last as usize]);
            victims.insert(*request, (Cause::Loss, until.since(hole.due)));
        } else {
            let mut delay = Duration::ZERO;
            let sent = way.sent[last as usize];
            let ready = found.ready[way.direction as usize].get(request);
            if let Some(ready) = ready
                && sent.since(*ready) >= WAIT_AT_LEAST
            {
                // It was not sent while its sender was repairing a loss.
                delay = sent.min(hole.repaired).since((*ready).max(hole.due));
            }
            if hole.from < end && own < hole.repaired {
                // All of its bytes had arrived, but bytes before its end were missing.
                delay = delay + hole.repaired.since(own.max(hole.due));
            }
            if !delay.is_zero() {
                victims.insert(*request, (Cause::Hol, delay));
            }
        }
    }
    victims
}

/// How many segments sent after the hole had been acknowledged by the time the hole was retransmitted, as a minimum and a
/// maximum: whether an acknowledgement that arrived just before had any effect is unknown.
fn beyond(found: &TrialRows, way: &Way<'_>, hole: &Hole<'_>) -> (usize, usize) {
    const MOMENT: Duration = Duration::from_micros(200);
    let again = way.segments.iter().find(|(from, packet)| {
        let end = *from + u64::from(packet.payload_len);
        packet.index > hole.packet.index && *from < hole.to && hole.from < end
    });
    let (_, again) = again.expect("it was repaired");
    let known = |until: Time| {
        let back = found
            .packets
            .iter()
            .filter(|packet| packet.direction != way.direction);
        let heard = back.filter(|packet| packet.released.is_some_and(|released| released <= until));
        let Some(last) = heard.max_by_key(|packet| packet.released) else {
            return 0;
        };
        let between = way.segments.iter().filter(|(_, packet)| {
            let is_between = hole.packet.index < packet.index && packet.index < again.index;
            is_between
                && packet
                    .released
                    .is_some_and(|released| released <= last.arrived)
        });
        between.count()
    };
    let sure = known(Time::from_nanos(
        again.arrived.as_nanos() - MOMENT.as_nanos(),
    ));
    (sure, known(again.arrived))
}

/// A lost segment of a message.
#[derive(Debug)]
struct Lost {
    direction: Direction,
    /// Its position among the segments of its message, from 1.
    place: u64,
    /// The number of segments of the message.
    segments: u64,
    beyond: (usize, usize),
    repair: Repair,
    /// The number of victims checked, besides the requests whose bytes it carried.
    others: usize,
}

/// Checks which requests' bytes a dropped segment carried, among those with unambiguous ranges.
fn check_carried(
    row: &DropRecord,
    own: &BTreeMap<u64, Vec<(u64, u64)>>,
    clear: &BTreeSet<u64>,
    (from, to): (u64, u64),
) {
    let reach =
        |ranges: &Vec<(u64, u64)>| ranges.iter().any(|range| range.0 < to && from < range.1);
    let reaching = own
        .iter()
        .filter(|(request, ranges)| clear.contains(request) && reach(ranges));
    let expected: Vec<u64> = reaching.map(|(request, _)| *request).collect();
    let carried = row
        .carried
        .iter()
        .copied()
        .filter(|request| clear.contains(request));
    assert_eq!(carried.collect::<Vec<u64>>(), expected, "{row:?}");
}

/// Checks every dropped segment of a trial.
fn check(found: &TrialRows) -> Vec<Lost> {
    let name = found.name();
    let mut lost = Vec::new();
    for direction in Direction::ALL {
        let way = Way::of(found, direction);
        let own = &found.own[direction as usize];
        let clear: BTreeSet<u64> = own
            .keys()
            .copied()
            .filter(|request| is_clear(own, *request))
            .collect();
        for (from, packet) in way.dropped() {
            let row = found.row_of(packet);
            let to = from + u64::from(packet.payload_len);
            assert_eq!(
                (row.connection, row.stream),
                (Some(0), None),
                "{name}: {row:?}"
            );
            assert_eq!(
                (row.start, row.end),
                (Some(from), Some(to)),
                "{name}: {row:?}"
            );
            check_carried(row, own, &clear, (from, to));
        }
        for hole in way.separable() {
            let row = found.row_of(hole.packet);
            assert_eq!(row.repaired_at, Some(hole.repaired), "{name}: {row:?}");
            assert_eq!(row.repaired_by, Some(hole.by), "{name}: {row:?}");
            let mut expected = victims(found, &way, &hole);
            expected.retain(|request, _| clear.contains(request));
            let mut told: BTreeMap<u64, (Cause, Duration)> = row
                .victims
                .iter()
                .map(|victim| (victim.request, (victim.cause, victim.delay)))
                .collect();
            assert_eq!(told.len(), row.victims.len(), "{name}: {row:?}");
            told.retain(|request, _| clear.contains(request));
            assert_eq!(told, expected, "{name}: {row:?}");
            let others = expected
                .keys()
                .filter(|request| !row.carried.contains(request))
                .count();
            for request in &row.carried {
                let ranges = &own[request];
                let (start, end) = (ranges[0].0, ranges[ranges.len() - 1].1);
                lost.push(Lost {
                    direction,
                    place: hole.from.saturating_sub(start) / MSS + 1,
                    segments: (end - start).div_ceil(MSS),
                    beyond: beyond(found, &way, &hole),
                    repair: row.repair,
                    others,
                });
            }
        }
    }
    found.check_blames(Cause::Loss);
    lost
}

/// A recipe with one connection for each protocol.
pub(crate) fn recipe(
    protocols: &[&str],
    rate: &str,
    (request, response): (&str, &str),
    link: &str,
    duration: &str,
) -> String {
    let variants: Vec<String> = protocols
        .iter()
        .map(|protocol| {
            format!(
                "[[variant]]\nname = \"{protocol}\"\npath = \"client ~{protocol}~> server\"\nconnections = 1\n"
            )
        })
        .collect();
    format!(
        "name = \"test\"\nquestion = \"Who waits for whom?\"\n[load]\nrate = \"{rate}\"\n\
         [request]\nmethod = \"POST\"\ntarget = \"/\"\nbody = \"{request}\"\n\
         [response]\nstatus = 200\nbody = \"{response}\"\n\
         [conditions]\ndelay = \"10ms\"\nlink = \"{link}\"\n{}\n\
         [profile.standard]\nwarmup = \"0s\"\nduration = \"{duration}\"\ndrain = \"1s\"\n",
        variants.concat()
    )
}

const TCP: [&str; 4] = ["h1", "h1s", "h2c", "h2"];

/// Checks drops at every position of a message. Three messages a second have ten segments each; every twelfth data packet is
/// dropped. With one retransmission a message takes eleven data packets, so each drop is at another position.
fn check_every_position(direction: Direction, sizes: (&str, &str)) {
    // Two protocols at a time, because they mostly wait.
    let runs = thread::scope(|scope| {
        let begun = [&TCP[..2], &TCP[2..]].map(|protocols| {
            let text = recipe(protocols, "3/s", sizes, "drop every 12 data", "6s");
            scope.spawn(move || run_recipe(&text, &[]))
        });
        begun.map(joined)
    });
    let trials: Vec<TrialRows> = runs.iter().flat_map(TrialRows::of).collect();
    assert_eq!(trials.len(), TCP.len());
    for found in &trials {
        let name = found.name();
        let lost = check(found);
        let of_message: Vec<&Lost> = lost
            .iter()
            .filter(|lost| lost.direction == direction)
            .collect();
        let seen: BTreeSet<u64> = of_message.iter().map(|lost| lost.place).collect();
        let counts: BTreeSet<u64> = of_message.iter().map(|lost| lost.segments).collect();
        eprintln!("{name}: {direction:?}: places {seen:?} of {counts:?}");
        let segments = counts.first().copied().expect("messages were lost");
        assert!(
            counts.len() == 1 && (10..=11).contains(&segments),
            "{name}: {lost:?}"
        );
        let missed: Vec<u64> = (1..=segments)
            .filter(|place| !seen.contains(place))
            .collect();
        assert!(
            missed.is_empty(),
            "{name}: {missed:?} of {segments} were never lost"
        );
        of_message.iter().for_each(|lost| check_repair(&name, lost));
    }
}

/// Checks how a loss was repaired. With three later segments acknowledged, a lost segment is retransmitted immediately (RFC
/// 6675); with fewer, by RACK's timer (RFC 8985, section 6.2); with none, by a probe (section 7), or by the timeout if that is
/// no longer than the probe's.
fn check_repair(name: &str, lost: &Lost) {
    let (least, most) = lost.beyond;
    let kinds = |beyond: usize| -> &[Repair] {
        match beyond {
            0 => &[Repair::Tlp, Repair::Rto, Repair::Timeout],
            1 | 2 => &[Repair::Rack],
            _ => &[Repair::FastRetransmit],
        }
    };
    let mut expected = (least.max(most.min(1))..=most).flat_map(kinds);
    assert!(
        expected.any(|kind| *kind == lost.repair),
        "{name}: {lost:?}"
    );
}

#[test]
fn each_lost_segment_of_a_response_is_reported_with_victim_and_repair() {
    let _seat = seat();
    check_every_position(Direction::Down, ("0", "14kB"));
}

#[test]
fn each_lost_segment_of_an_upload_is_reported_with_victim_and_repair() {
    let _seat = seat();
    check_every_position(Direction::Up, ("14kB", "0"));
}

/// The client must not be late: if it starts many requests at once, their responses wait for the congestion window, and
/// [`victims`] takes that for waiting for the repair.
#[test]
fn loss_on_a_shared_tcp_connection_has_other_requests_as_victims() {
    alone_if_it_fails(seat(), || {
        let protocols = ["h2c", "h2"];
        let text = recipe(
            &protocols,
            "150/s",
            ("1KiB", "3kB"),
            "drop every 71 data",
            "3s",
        );
        let trials = TrialRows::of(&run_recipe(&text, &[]));
        assert_eq!(trials.len(), protocols.len());
        for found in &trials {
            let lost = check(found);
            let others: usize = lost.iter().map(|lost| lost.others).sum();
            eprintln!(
                "{}: {} lost, {others} other victims",
                found.name(),
                lost.len()
            );
            assert!(lost.len() >= 8, "{}: {lost:?}", found.name());
            assert!(others >= 8, "{}: {lost:?}", found.name());
        }
    });
}

/// The first SYN of each direction is lost: the client retransmits its SYN after a second (RFC 6298, section 2.1), then
/// the server's response is lost, which either side's timer retransmits.
#[test]
fn lost_syn_is_charged_to_the_request_that_opened_the_connection() {
    let _seat = seat();
    let protocols = ["h1", "h1s", "h2c", "h2"];
    let text = recipe(&protocols, "2/s", ("0", "1KiB"), "drop syn 1", "1s")
        .replace("connections = 1", "connections = { at_most = 1 }")
        .replace("drain = \"1s\"", "drain = \"4s\"");
    let trials = TrialRows::of(&run_recipe(&text, &[]));
    assert_eq!(trials.len(), protocols.len());
    for found in &trials {
        let name = found.name();
        let dropped = found
            .packets
            .iter()
            .filter(|packet| packet.fate == Fate::ListDrop);
        let dropped: Vec<&PacketRecord> = dropped.collect();
        let directions: Vec<Direction> = dropped.iter().map(|packet| packet.direction).collect();
        assert_eq!(directions.len(), 2, "{name}: {dropped:?}");
        assert!(
            dropped
                .iter()
                .all(|packet| packet.class == PacketClass::Syn)
        );
        let opener = found.requests.iter().find(|row| row.opened_connection);
        let opener = opener.expect("it opened a connection");
        let connect = opener
            .connected
            .expect("it connected")
            .since(opener.slot.expect("it had one"));
        let mut blamed = Duration::ZERO;
        for packet in &dropped {
            let row = found.row_of(packet);
            assert_eq!(row.repair, Repair::SynTimer, "{name}: {row:?}");
            assert_eq!(row.connection, Some(0), "{name}: {row:?}");
            let [victim] = row.victims.as_slice() else {
                panic!("{name}: {row:?}");
            };
            assert_eq!(
                (victim.request, victim.cause),
                (opener.request, Cause::Connect),
                "{name}: {row:?}"
            );
            blamed = blamed + victim.delay;
        }
        let row = &found.causes[&opener.request];
        // A round trip and both timers.
        assert!(connect >= Duration::from_millis(2_000), "{name}: {connect}");
        assert_eq!(row.spans[Cause::Connect], connect, "{name}: {row:?}");
        assert!(
            blamed >= Duration::from_millis(1_980) && blamed < connect,
            "{name}: {blamed}"
        );
        assert!(row.responsible.is_some(), "{name}: {row:?}");
    }
}

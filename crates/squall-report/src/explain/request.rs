//! One request as text: its title, its causes, its timeline, and the requests that it waited for.
//!
//! The timeline has the stages of the walk, which have no gaps, and under each stage the events during it. Packets that
//! simply arrived are combined into runs; the tables, and the JSON of the same command, list each packet.

use squall_analysis::causes::{MessagePacket, Passage, Stage};
use squall_analysis::explain::{Blocker, CauseTime, DropImpact, Explanation, Mark, PacketName};
use squall_analysis::figure;
use squall_base::record::{Cause, Direction, Outcome};
use squall_base::{Duration, Time};

use super::ExplanationContext;
use super::words::{self, bytes, millis, since};
use crate::causes::percent;
use crate::text::{Colour, Style, printable};

/// The widest bar of a cause, in characters.
const BAR: f64 = 30.0;
/// The most rows for packets in one direction.
const PACKET_ROWS: usize = 24;
/// A shorter stage of another cause does not end a period.
const SHORT: Duration = Duration::from_millis(1);

/// The request as text, ending with a line feed.
pub fn request(context: &ExplanationContext, explanation: &Explanation, colour: Colour) -> String {
    let mut text = colour.styled(Style::Bold, &title(context, explanation));
    text.push('\n');
    push_causes(&mut text, explanation);
    push_gap(&mut text, explanation);
    push_hops(&mut text, context, explanation);
    text.push_str("\n        ms  what it waited for, and what happened\n");
    push_timeline(&mut text, context, explanation);
    for line in send_queues(context, explanation) {
        text.push_str(&format!("  {line}\n"));
    }
    for line in waits(&explanation.waited_for) {
        text.push_str(&format!("  {line}\n"));
    }
    text
}

fn title(context: &ExplanationContext, it: &Explanation) -> String {
    let ending = match (it.outcome, it.status) {
        (Outcome::Answered, Some(status)) => format!("answered with {status} after"),
        (Outcome::Answered, None) => "answered after".to_owned(),
        (Outcome::Censored, _) => "unfinished after".to_owned(),
        (outcome, _) => format!("failed ({}) after", outcome.name()),
    };
    let place = words::place(it.connection, it.stream);
    let error = it
        .error
        .as_ref()
        .map_or_else(String::new, |error| format!(": {}", printable(error)));
    format!(
        "request {}: {ending} {} ms, {} at {}; {place}{error}",
        it.request,
        millis(it.latency),
        if context.is_capture() { "sent" } else { "due" },
        context.time(it.intended),
    )
}

fn push_causes(text: &mut String, it: &Explanation) {
    let total = it.latency.as_nanos();
    let width = figure::count(total).len();
    for CauseTime { cause, time } in &it.causes {
        let share = time.as_nanos() as f64 / total.max(1) as f64;
        let bar = "█".repeat((share * BAR).round() as usize);
        let ns = figure::count(time.as_nanos());
        let line = format!(
            "  {:<17}  {ns:>width$} ns  {:>5.1} %  {bar}",
            cause.name(),
            100.0 * share
        );
        text.push_str(line.trim_end());
        text.push('\n');
        if *cause == Cause::Queue {
            push_behind(text, &it.queue_behind);
        }
    }
    text.push_str(&format!("  {:<17}  {} ns\n", "total", figure::count(total)));
}

/// The longest gap in the response, and what the request waited for meanwhile.
fn push_gap(text: &mut String, it: &Explanation) {
    let Some(gap) = it.longest_gap.as_ref().filter(|gap| gap.length >= SHORT) else {
        return;
    };
    let total = gap.length.as_nanos().max(1) as f64;
    let causes = gap.causes.iter().map(|CauseTime { cause, time }| {
        let share = percent(time.as_nanos() as f64 / total);
        match cause {
            Cause::Loss => format!("{share} loss (a packet of its own was lost)"),
            Cause::Hol => format!("{share} hol (a lost packet of others held it up)"),
            cause => format!("{share} {}", cause.name()),
        }
    });
    let causes: Vec<String> = causes.collect();
    text.push_str(&format!(
        "  longest gap in the response: {} ms from {} ms on: {}\n",
        millis(gap.length),
        since(it.intended, gap.from),
        causes.join(", "),
    ));
}

/// What the requests ahead of this one in the queue waited for.
fn push_behind(text: &mut String, roots: &[CauseTime]) {
    let total: u64 = roots.iter().map(|share| share.time.as_nanos()).sum();
    let known = roots.iter().filter(|share| share.cause != Cause::Queue);
    let named: Vec<String> = known
        .map(|CauseTime { cause, time }| {
            let share = time.as_nanos() as f64 / total.max(1) as f64;
            format!("{} {}", cause.name(), percent(share))
        })
        .collect();
    if !named.is_empty() {
        text.push_str(&format!("    behind: {}\n", named.join(", ")));
    }
}

/// On a path of several hops, the causes on each hop.
fn push_hops(text: &mut String, context: &ExplanationContext, it: &Explanation) {
    if it.hops.is_empty() {
        return;
    }
    text.push_str(
        "\n  on each hop, from when it was due; its server time is what the next hop took\n",
    );
    let name = |place: usize| context.station(place).map_or_else(String::new, printable);
    for hop in &it.hops {
        let place = usize::from(hop.hop);
        let causes = hop.causes.iter();
        let causes = causes.map(|share| format!("{} {}", share.cause.name(), millis(share.time)));
        let not_seen = if hop.is_joined {
            ""
        } else {
            "; not seen there, this is how long the hop before waited for it"
        };
        text.push_str(&format!(
            "  hop {}, {} to {}: {} to {} ms, {}{not_seen}\n",
            hop.hop,
            name(place.saturating_sub(1)),
            name(place),
            since(it.intended, hop.from),
            since(it.intended, hop.to),
            causes.collect::<Vec<String>>().join(", "),
        ));
    }
}

/// One direction of the link of a hop.
struct HopDirection {
    hop: u8,
    direction: Direction,
    /// ` of hop 2`, or empty if the path has one link.
    of_hop: String,
}

impl HopDirection {
    /// `up 17`.
    fn packet(&self, index: u64) -> String {
        format!("{} {index}{}", self.direction.name(), self.of_hop)
    }
}

/// An event of the timeline.
struct TimelineEvent {
    at: Time,
    text: String,
}

fn push_timeline(text: &mut String, context: &ExplanationContext, it: &Explanation) {
    let mut events: Vec<TimelineEvent> = if context.is_capture() {
        it.marks.iter().filter_map(seen_mark).collect()
    } else {
        it.marks.iter().map(mark).collect()
    };
    let passages = context.passages(&it.course);
    for (hop, direction, passage) in &passages {
        let hop_direction = HopDirection {
            hop: *hop,
            direction: *direction,
            of_hop: context.of_hop(*hop),
        };
        events.extend(packets(it, &hop_direction, passage));
        events.extend(windows(&passage.held, it.intended, &hop_direction));
    }
    let is_listed = |impact: &DropImpact| {
        let dropped = impact.drop.packet;
        let mut directions = passages.iter();
        directions.any(|(hop, direction, passage)| {
            (*hop, *direction) == (dropped.hop, dropped.direction)
                && passage.packets.iter().any(|it| it.index == dropped.index)
        })
    };
    let others = it.drops.iter().filter(|impact| !is_listed(impact));
    events.extend(others.map(|impact| drop(impact, it.intended, context)));
    events.sort_by_key(|event| event.at);
    let mut events = events.into_iter().peekable();
    for period in cause_periods(&it.course.stages) {
        while let Some(event) = events.next_if(|event| event.at < period.from) {
            push_event(text, it.intended, &event);
        }
        let at = since(it.intended, period.from);
        text.push_str(&format!("{at:>10}  {}\n", period.words()));
    }
    events.for_each(|event| push_event(text, it.intended, &event));
}

/// Stages of one cause, with short stages of other causes between them.
struct CausePeriod {
    from: Time,
    to: Time,
    cause: Cause,
    pieces: usize,
    between: Duration,
}

impl CausePeriod {
    fn words(&self) -> String {
        let length = millis(self.to.since(self.from));
        let cause = self.cause.name();
        match self.pieces {
            1 => format!("{cause} for {length} ms"),
            n => format!(
                "{cause} for {length} ms, in {n} pieces with {} ms of other causes between them",
                millis(self.between)
            ),
        }
    }
}

fn cause_periods(stages: &[Stage]) -> Vec<CausePeriod> {
    let mut cause_periods = Vec::new();
    let mut rest = stages;
    while let [first, after @ ..] = rest {
        rest = after;
        let mut period = CausePeriod {
            from: first.from,
            to: first.to,
            cause: first.cause,
            pieces: 1,
            between: Duration::ZERO,
        };
        while let [short, next, after @ ..] = rest
            && next.cause == first.cause
            && short.to.since(short.from) < SHORT
        {
            period.to = next.to;
            period.pieces += 1;
            period.between = period.between + short.to.since(short.from);
            rest = after;
        }
        cause_periods.push(period);
    }
    cause_periods
}

fn push_event(text: &mut String, begin: Time, event: &TimelineEvent) {
    text.push_str(&format!(
        "{:>10}    . {}\n",
        since(begin, event.at),
        event.text
    ));
}

fn mark(mark: &Mark) -> TimelineEvent {
    let words = match mark.name {
        "intended" => "it was due",
        "taken_up" => "it was started",
        "slot" => "it had a connection and stream",
        "connected" => "TCP or QUIC was connected",
        "secured" => "the TLS or QUIC handshake was done",
        "written_first" => "its first byte was written",
        "written_last" => "its last byte was written",
        "server_request_last" => "the server had all of it",
        "server_response_first" => "the server wrote the response's first byte",
        "server_response_last" => "the server wrote the response's last byte",
        "answered_first" => "the response's first byte was read",
        "headers" => "the response's header section was complete",
        "end" => "it was over",
        name => name,
    };
    TimelineEvent {
        at: mark.at,
        text: words.to_owned(),
    }
}

/// A mark of a request in a capture, which does not show anything before the request was sent.
fn seen_mark(mark: &Mark) -> Option<TimelineEvent> {
    let words = match mark.name {
        "taken_up" | "slot" | "connected" | "secured" | "written_first" => return None,
        "intended" => "its first byte left the client",
        "written_last" => "its last byte left the client",
        "server_request_last" => "the server had all of it",
        "server_response_first" => "the response's first byte left the server",
        "server_response_last" => "the response's last byte left the server",
        "answered_first" => "the client had the response's first byte",
        "end" => "it was over",
        name => name,
    };
    Some(TimelineEvent {
        at: mark.at,
        text: words.to_owned(),
    })
}

/// When flow-control windows were used up. Periods with only short openings between them are one event.
fn windows(stages: &[Stage], begin: Time, hop_direction: &HopDirection) -> Vec<TimelineEvent> {
    let mut events = Vec::new();
    let mut rest = stages;
    while let [first, after @ ..] = rest {
        rest = after;
        let (mut to, mut times) = (first.to, 1);
        while let [next, after @ ..] = rest
            && next.cause == first.cause
            && next.from.since(to) < SHORT
        {
            to = next.to;
            times += 1;
            rest = after;
        }
        let whose = match first.cause {
            Cause::WindowStream => "its stream's window",
            _ => "its connection's window",
        };
        let often = match times {
            1 => String::new(),
            n => format!(" {n} times"),
        };
        events.push(TimelineEvent {
            at: first.from,
            text: format!(
                "{whose}{} was used up{often}, until {} ms",
                hop_direction.of_hop,
                since(begin, to)
            ),
        });
    }
    events
}

/// The packets of one direction: each that was dropped or retransmitted, and runs of the others.
fn packets(it: &Explanation, hop_direction: &HopDirection, way: &Passage) -> Vec<TimelineEvent> {
    let mut events = Vec::new();
    let mut rest = way.packets.as_slice();
    while let Some(first) = rest.first() {
        if events.len() + 1 == PACKET_ROWS && rest.len() > 1 {
            let text = format!(
                "{} more packets {}{} with its bytes",
                rest.len(),
                hop_direction.direction.name(),
                hop_direction.of_hop
            );
            events.push(TimelineEvent {
                at: first.sent,
                text,
            });
            break;
        }
        let run = &rest[..run_length(rest)];
        rest = &rest[run.len()..];
        let text = match run {
            [one] => packet(it, hop_direction, one),
            run => packet_run(it, hop_direction, run),
        };
        events.push(TimelineEvent {
            at: first.sent,
            text,
        });
    }
    events
}

/// How many of the first packets form a run: those that simply arrived and left one right after the other.
fn run_length(packets: &[MessagePacket]) -> usize {
    let both = packets.iter().zip(&packets[1..]);
    let together = both.take_while(|(one, next)| {
        is_plain(one) && is_plain(next) && next.sent.since(one.sent) < SHORT
    });
    1 + together.count()
}

/// Whether the packet arrived and was not a retransmission.
fn is_plain(packet: &MessagePacket) -> bool {
    packet.arrived.is_some() && !packet.is_again
}

fn packet_run(it: &Explanation, hop_direction: &HopDirection, run: &[MessagePacket]) -> String {
    let (first, last) = (run[0], run[run.len() - 1]);
    let start = run
        .iter()
        .map(|packet| packet.start)
        .min()
        .unwrap_or(first.start);
    let end = run
        .iter()
        .map(|packet| packet.end)
        .max()
        .unwrap_or(last.end);
    let arrived = run.iter().filter_map(|packet| packet.arrived).max();
    let arrived = arrived.map_or_else(String::new, |at| {
        format!(", the last arrived at {} ms", since(it.intended, at))
    });
    format!(
        "{} packets, {} {} to {}{}: bytes {}{arrived}",
        run.len(),
        hop_direction.direction.name(),
        first.index,
        last.index,
        hop_direction.of_hop,
        bytes((start, end)),
    )
}

fn packet(it: &Explanation, hop_direction: &HopDirection, packet: &MessagePacket) -> String {
    let name = format!("packet {}", hop_direction.packet(packet.index));
    let again = if packet.is_again { " again" } else { "" };
    let carried = format!("bytes {}{again}", bytes((packet.start, packet.end)));
    if let Some(at) = packet.arrived {
        return format!(
            "{name}: {carried}, arrived at {} ms",
            since(it.intended, at)
        );
    }
    let own = PacketName {
        hop: hop_direction.hop,
        direction: hop_direction.direction,
        index: packet.index,
    };
    let impact = it.drops.iter().find(|impact| impact.drop.packet == own);
    let consequence = impact.map_or_else(String::new, |impact| {
        format!(
            "; {}{}",
            words::repaired(&impact.drop, it.intended),
            cost(impact)
        )
    });
    format!(
        "{name}: {carried}, {}{consequence}",
        words::fate(packet.fate)
    )
}

/// A dropped packet without bytes of this request.
fn drop(impact: &DropImpact, begin: Time, context: &ExplanationContext) -> TimelineEvent {
    let drop = &impact.drop;
    TimelineEvent {
        at: drop.dropped_at,
        text: format!(
            "packet {}{} with {} {}; {}{}",
            words::packet(drop.packet),
            context.of_hop(drop.packet.hop),
            words::contents(drop),
            words::fate(drop.fate),
            words::repaired(drop, begin),
            cost(impact),
        ),
    }
}

/// What the drop cost this request, and how many others it delayed.
fn cost(impact: &DropImpact) -> String {
    let costs: Vec<String> = impact
        .cost
        .iter()
        .map(|share| format!("{} ms of {}", millis(share.time), share.cause.name()))
        .collect();
    if costs.is_empty() {
        return "; it cost this request nothing".to_owned();
    }
    let others = match impact.drop.victims.saturating_sub(1) {
        0 => String::new(),
        n => format!(
            ", and delayed {}",
            figure::counted(n as u64, "other request", "other requests")
        ),
    };
    format!("; it cost {}{others}", costs.join(" and "))
}

/// One sentence for each direction in which the message waited in its sender's send queue.
fn send_queues(context: &ExplanationContext, it: &Explanation) -> Vec<String> {
    let passages = context.passages(&it.course).into_iter();
    let waits = passages.filter_map(|(hop, direction, way)| {
        let queue = way.send_queue?;
        let sender = match direction {
            Direction::Up => usize::from(hop) - 1,
            Direction::Down => usize::from(hop),
        };
        let station = context.station(sender)?;
        let others: u64 = way.behind.iter().map(|ahead| ahead.packets).sum();
        let (least, most) = queue.in_flight;
        let window = if least == most {
            figure::counted(most, "segment", "segments")
        } else {
            format!("{least} to {}", figure::counted(most, "segment", "segments"))
        };
        let because = match queue.losses {
            0 => String::new(),
            losses => format!(" because of {}", figure::counted(losses, "loss", "losses")),
        };
        Some(format!(
            "waited {} ms in {}'s send queue: {} of {} went first; the window was {window}{because}",
            millis(queue.to.since(queue.from)),
            printable(station),
            figure::counted(others, "packet", "packets"),
            figure::counted(way.behind.len() as u64, "other request", "other requests"),
        ))
    });
    waits.collect()
}

/// One line for each cause that makes a request wait for others.
fn waits(waited_for: &[Blocker]) -> Vec<String> {
    let mut lines = Vec::new();
    let of = |cause: Cause| -> Vec<u64> {
        let mut requests: Vec<u64> = waited_for
            .iter()
            .filter(|it| it.cause == cause)
            .map(|it| it.request)
            .collect();
        let mut seen = std::collections::BTreeSet::new();
        requests.retain(|request| seen.insert(*request));
        requests
    };
    let packets = |cause: Cause| -> u64 {
        waited_for
            .iter()
            .filter(|it| it.cause == cause)
            .filter_map(|it| it.packets)
            .sum()
    };
    for cause in [
        Cause::Queue,
        Cause::Hol,
        Cause::Cwnd,
        Cause::WindowConnection,
    ] {
        let requests = of(cause);
        if requests.is_empty() {
            continue;
        }
        let who = words::requests(&requests);
        lines.push(match cause {
            Cause::Queue => format!("queue: its slot was that of {who}, which had just ended"),
            Cause::Hol => format!("hol: it waited for lost bytes of {who}"),
            _ => format!(
                "{}: {} with bytes of {who} went while it waited",
                cause.name(),
                figure::counted(packets(cause), "packet", "packets"),
            ),
        });
    }
    lines
}

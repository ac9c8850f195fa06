//! One request's timeline: queue, handshakes, the request's way, the server, the response's way.
//!
//! It joins the marks of both sides with the ways of the bytes (`transfer`). Whatever it is not told stays unknown: it
//! guesses nothing. Where a message's bytes are is `message`'s business, when they arrived `stream`'s.

use squall_base::record::{Cause, Direction, Outcome};

use super::connection::{Connection, Handshake};
use super::intake::Marks;
use super::message::Message;
use super::quic::QuicConnection;
use super::sending::{State, Timeline};
use super::stream::Stream;
use super::transfer::{AT_ONCE, Transfer, spans_within};
use super::walk::{NEVER, Span, Walk, Walked};
use super::windows::Windows;

/// As much of a request as a server answers to that does not wait for its end: what a first segment holds.
const HEAD_BYTES: u64 = 1_200;

/// What one direction of a connection knows of a message.
pub(super) struct Way<'a> {
    pub(super) stream: &'a Stream,
    pub(super) message: &'a Message,
    pub(super) connection: &'a Connection,
    pub(super) direction: Direction,
    /// Flow control of the sender, if it has any, and the stream's id.
    pub(super) windows: Option<(&'a Windows, u64)>,
    /// A QUIC engine holds bytes until their packet may leave; a TCP socket takes them before.
    pub(super) quic: Option<&'a QuicConnection>,
    /// Its sender's rows were read from packets.
    pub(super) is_observed: bool,
}

impl<'a> Way<'a> {
    /// What held its sender back.
    pub(super) fn timeline(&self) -> &'a Timeline {
        self.connection.timeline(self.direction)
    }

    /// When its sender first got an acknowledgement after `time`.
    pub(super) fn acknowledged_after(&self, time: u64) -> Option<u64> {
        self.connection.acknowledged_after(self.direction, time)
    }

    /// When the message's first byte first reached the link.
    fn first_sent(&self) -> Option<u64> {
        let start = self.message.start();
        let place = self.stream.places(start, start + 1).next()?;
        let piece = &self.stream.pieces[place];
        Some(self.stream.txs[piece.first as usize].sent)
    }
}

/// What the server's side recorded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServerMarks {
    pub(super) request_last: Option<u64>,
    pub(super) response_first: Option<u64>,
    pub(super) response_last: Option<u64>,
    /// When it had the response to send, if it is a station of ours.
    pub(super) ready: Option<u64>,
}

/// Of a server that recorded nothing.
const UNMARKED: ServerMarks = ServerMarks {
    request_last: None,
    response_first: None,
    response_last: None,
    ready: None,
};

/// All that is known of a request.
pub(super) struct Known<'a> {
    pub(super) marks: &'a Marks,
    /// Its connection's handshake, if its connection is known.
    pub(super) handshake: Option<&'a Handshake>,
    pub(super) request: Option<Way<'a>>,
    pub(super) response: Option<Way<'a>>,
    pub(super) server: Option<&'a ServerMarks>,
    /// Somebody asks for its stages.
    pub(super) is_watched: bool,
}

/// What the request's time was spent on, and which drops answer for it.
pub(super) fn attribute(known: &Known<'_>) -> Walked {
    let marks = known.marks;
    let mut walk = Walk::new(marks.intended, marks.end);
    if known.is_watched {
        walk = walk.watched();
    }
    let taken_up = marks.taken_up.as_nanos();
    walk.to(taken_up, Cause::Host);
    let Some(slot) = marks.slot else {
        return walk.finish(Cause::Queue);
    };
    walk.to(slot, Cause::Queue);
    let rest = match handshake(known, &mut walk) {
        Some(rest) => rest,
        None => exchange(known, slot, &mut walk),
    };
    walk.finish(rest)
}

/// The handshake of its own connection; what the rest was if it never ended.
fn handshake(known: &Known<'_>, walk: &mut Walk) -> Option<Cause> {
    let marks = known.marks;
    let begin = walk.at();
    let Some(connected) = marks.connected else {
        // It was given to no connection: its own one was never ready.
        let answered = known
            .handshake
            .map_or(NEVER, |handshake| handshake.answered);
        let is_tls = answered != NEVER && marks.outcome != Outcome::ConnectFailed;
        blame_connect(known, walk, begin, answered);
        return Some(match (known.handshake, is_tls) {
            (Some(_), true) => {
                walk.to(answered, Cause::Connect);
                blame_tls(known, walk, walk.at(), NEVER);
                Cause::Tls
            }
            (Some(_), false) => Cause::Connect,
            (None, _) if marks.outcome == Outcome::ConnectFailed => Cause::Connect,
            (None, _) => Cause::Unknown,
        });
    };
    if connected > begin {
        blame_connect(known, walk, begin, connected);
        walk.to(connected, Cause::Connect);
    }
    if let Some(secured) = marks.secured
        && secured > walk.at()
    {
        blame_tls(known, walk, walk.at(), secured);
        walk.to(secured, Cause::Tls);
    }
    None
}

fn blame_connect(known: &Known<'_>, walk: &mut Walk, begin: u64, end: u64) {
    let Some(handshake) = known.handshake else {
        return;
    };
    let lost = &handshake.lost_syns;
    for (n, tx) in lost.iter().enumerate() {
        let next = lost.get(n + 1).map_or(end, |next| next.due.min(end));
        let span = Span {
            from: tx.due,
            to: next,
        };
        walk.blame(tx.packet, Cause::Connect, span, begin);
    }
}

fn blame_tls(known: &Known<'_>, walk: &mut Walk, begin: u64, end: u64) {
    let Some(handshake) = known.handshake else {
        return;
    };
    for (packet, span) in &handshake.lost_tls {
        let span = Span {
            from: span.from,
            to: span.to.min(end),
        };
        walk.blame(*packet, Cause::Tls, span, begin);
    }
}

/// Request, server, response; what the rest was.
fn exchange(known: &Known<'_>, slot: u64, walk: &mut Walk) -> Cause {
    let marks = known.marks;
    let server = known.server.unwrap_or(&UNMARKED);
    let answered = server.response_first.unwrap_or(NEVER);
    let Some(request) = &known.request else {
        return without_request(known, walk);
    };
    // A server that was done before it had the whole request waited for its head at most.
    let is_early = match (server.request_last, server.response_last) {
        (Some(request), Some(response)) => response < request,
        (None, Some(_)) => true,
        _ => false,
    };
    let head = match is_early {
        true => request.message.head(HEAD_BYTES),
        false => None,
    };
    let message = match &head {
        Some(head) => head,
        None => request.message,
    };
    let is_quic = request.quic.is_some();
    let written_last = if is_quic {
        Some(slot)
    } else {
        marks.written_last
    };
    let sending = Transfer {
        way: request,
        message,
        // A request that has its place is written as soon as the socket takes it.
        offered_first: Some(slot),
        offered_last: if request.is_observed {
            written_last
        } else {
            Some(slot)
        },
        taken: written_last.filter(|_| !request.is_observed),
        held: held(request, walk),
        offering: Cause::Host,
        received: if is_early { None } else { server.request_last },
    };
    if is_early {
        let mut until_answer = walk.until(answered);
        sending.walk(&mut until_answer);
        walk.take_over(until_answer);
    } else {
        sending.walk(walk);
    }
    if walk.is_over() {
        return Cause::Host;
    }
    let is_delivered = server.request_last.is_some() || is_early;
    if !is_delivered && known.server.is_some() {
        // All of it arrived at the server's host, and the server never had it.
        return after_failure(marks.outcome, Cause::Host);
    }
    response(known, server, walk)
}

/// Neither side says where the request's bytes were.
fn without_request(known: &Known<'_>, walk: &mut Walk) -> Cause {
    let marks = known.marks;
    let Some(written) = marks.written_first else {
        return Cause::Unknown;
    };
    walk.to(written, Cause::Host);
    let Some(server) = known.server else {
        return Cause::Unknown;
    };
    let Some(received) = server.request_last else {
        return Cause::Unknown;
    };
    walk.to(received, Cause::Unknown);
    response(known, server, walk)
}

fn response(known: &Known<'_>, server: &ServerMarks, walk: &mut Walk) -> Cause {
    let marks = known.marks;
    let is_whole = marks.outcome == Outcome::Answered;
    if known.server.is_none() {
        // It is not known whose connection of the server's it was.
        return Cause::Unknown;
    }
    let Some(first) = server.response_first else {
        return after_failure(marks.outcome, Cause::Server);
    };
    let Some(response) = &known.response else {
        walk.to(first, Cause::Server);
        return Cause::Unknown;
    };
    // Its packet may be on the link before the call that sent it returns.
    let sent = response.first_sent().map_or(first, |sent| sent.min(first));
    wait_for_engine(response, sent, walk);
    let taken = if response.is_observed {
        None
    } else if response.quic.is_some() {
        Some(first)
    } else {
        server.response_last
    };
    let received = walk.at().min(sent);
    let (offered_first, offered_last) = match marks.relayed {
        Some((first, last)) if response.quic.is_none() => (first.max(received), Some(last)),
        // When others made it is not known: it counts as their work for as long as the connection could have taken it.
        _ if response.is_observed => (received, None),
        _ if response.quic.is_some() => (first, taken),
        // A full socket may have kept it in the station.
        _ => match server.ready {
            Some(ready) => (ready.clamp(received, first.max(received)), taken),
            None => (first, taken),
        },
    };
    let arriving = Transfer {
        way: response,
        message: response.message,
        offered_first: Some(offered_first),
        offered_last,
        taken,
        held: held(response, walk),
        offering: Cause::Server,
        received: is_whole.then(|| marks.end.as_nanos()),
    };
    arriving.walk(walk);
    if is_whole || walk.is_over() {
        return Cause::Host;
    }
    after_failure(marks.outcome, Cause::Host)
}

/// What a request that never ended was waiting for when nothing more is known of it: of one that was given up, what it
/// would have waited for next; one that failed was waiting for its failure.
pub(super) fn after_failure(outcome: Outcome, next: Cause) -> Cause {
    match outcome {
        Outcome::Answered | Outcome::Censored => next,
        _ => Cause::Unknown,
    }
}

/// A QUIC server's first byte is marked when its packet leaves, not when the server had it. So what lies between the
/// request and it is the server's only as far as flow control and the congestion window had room.
fn wait_for_engine(response: &Way<'_>, first: u64, walk: &mut Walk) {
    let Some(quic) = response.quic.filter(|_| !response.is_observed) else {
        return;
    };
    let direction = response.direction;
    let held = held(response, walk);
    let idle = spans_within(&quic.idle[direction as usize], walk.at(), first);
    // An engine that has something to send answers an acknowledgement with it at once.
    let mut idle = idle.iter().rev();
    let idle = idle.find(|span| span.to - span.from >= AT_ONCE);
    let idle_until = idle.map_or(0, |last| last.to.min(first));
    let mut edges = vec![idle_until, first];
    edges.extend(held.iter().flat_map(|(span, _)| [span.from, span.to]));
    edges.retain(|edge| *edge <= first);
    edges.sort_unstable();
    let mut was_held = false;
    for edge in edges {
        let at = walk.at();
        if edge <= at {
            continue;
        }
        let holds = |span: &Span| span.from <= at && edge <= span.to;
        if let Some((_, cause)) = held.iter().find(|(span, _)| holds(span)) {
            was_held = true;
            walk.to(edge, *cause);
        } else if edge <= idle_until || edge - at < AT_ONCE {
            walk.to(edge, Cause::Server);
        } else {
            for (span, state) in response.timeline().within(at, edge) {
                let cause = match state {
                    State::Held(cause) => {
                        was_held = true;
                        cause
                    }
                    // After a wait it is first the turn of what waited before it.
                    _ if was_held => Cause::Cwnd,
                    _ => Cause::Server,
                };
                walk.to(span.to, cause);
            }
        }
    }
}

/// When flow control held the message back: its own stream's window first, for that is the one to enlarge.
fn held(way: &Way<'_>, walk: &Walk) -> Vec<(Span, Cause)> {
    let Some((windows, id)) = way.windows else {
        return Vec::new();
    };
    let (from, to) = (walk.at(), walk.end());
    let stream = windows.stream(id, from, to);
    let connection = windows.connection(from, to);
    let stream = stream.map(|span| (span, Cause::WindowStream));
    stream
        .chain(connection.map(|span| (span, Cause::WindowConnection)))
        .collect()
}

//! One request's timeline: queue, handshakes, the request's passage, the server, the response's passage.
//!
//! It joins the marks of both sides (`request_marks`) with the passage of the bytes (`transfer`). What was not recorded
//! stays unknown; nothing is guessed. `message` says where a message's bytes are, `stream` when they arrived.

use squall_base::record::{Cause, Outcome};

use super::connection::Handshake;
use super::request_marks::{RequestMarks, ServerMarks};
use super::sending::SenderState;
use super::transfer::{AT_ONCE, MessageContext, Transfer, spans_within};
use super::walk::{NEVER, Span, Walk, WalkResult};

/// How much of a request a server is assumed to have when it responds without waiting for the end: what a first segment
/// holds.
const HEAD_BYTES: u64 = 1_200;

/// All that is known about a request.
pub(super) struct RequestContext<'a> {
    pub(super) marks: &'a RequestMarks,
    /// Its connection's handshake, if its connection is known.
    pub(super) handshake: Option<&'a Handshake>,
    pub(super) request: Option<MessageContext<'a>>,
    pub(super) response: Option<MessageContext<'a>>,
    pub(super) server: Option<&'a ServerMarks>,
    pub(super) is_followed: bool,
}

/// What the request's time was spent on, and which drops are responsible.
pub(super) fn attribute(context: &RequestContext<'_>) -> WalkResult {
    let marks = context.marks;
    let mut walk = Walk::new(marks.intended, marks.end);
    if context.is_followed {
        walk = walk.with_stages();
    }
    let taken_up = marks.taken_up.as_nanos();
    walk.to(taken_up, Cause::Host);
    let Some(slot) = marks.slot else {
        return walk.finish(Cause::Queue);
    };
    walk.to(slot, Cause::Queue);
    let rest = match handshake(context, &mut walk) {
        Some(rest) => rest,
        None => exchange(context, slot, &mut walk),
    };
    walk.finish(rest)
}

/// Walks through the handshake of its own connection. Returns the cause of the rest if the handshake never ended.
fn handshake(context: &RequestContext<'_>, walk: &mut Walk) -> Option<Cause> {
    let marks = context.marks;
    let begin = walk.at();
    let Some(connected) = marks.connected else {
        // It never got a connection: the one that was opened for it was never ready.
        let answered = context
            .handshake
            .map_or(NEVER, |handshake| handshake.answered);
        let is_tls = answered != NEVER && marks.outcome != Outcome::ConnectFailed;
        blame_connect(context, walk, begin, answered);
        return Some(match (context.handshake, is_tls) {
            (Some(_), true) => {
                walk.to(answered, Cause::Connect);
                blame_tls(context, walk, walk.at(), NEVER);
                Cause::Tls
            }
            (Some(_), false) => Cause::Connect,
            (None, _) if marks.outcome == Outcome::ConnectFailed => Cause::Connect,
            (None, _) => Cause::Unknown,
        });
    };
    if connected > begin {
        blame_connect(context, walk, begin, connected);
        walk.to(connected, Cause::Connect);
    }
    if let Some(secured) = marks.secured
        && secured > walk.at()
    {
        blame_tls(context, walk, walk.at(), secured);
        walk.to(secured, Cause::Tls);
    }
    None
}

fn blame_connect(context: &RequestContext<'_>, walk: &mut Walk, begin: u64, end: u64) {
    let Some(handshake) = context.handshake else {
        return;
    };
    let lost = &handshake.lost_syns;
    for (n, tx) in lost.iter().enumerate() {
        let next = lost.get(n + 1).map_or(end, |next| next.due.min(end));
        walk.blame(tx.packet, Cause::Connect, Span::new(tx.due, next), begin);
    }
}

fn blame_tls(context: &RequestContext<'_>, walk: &mut Walk, begin: u64, end: u64) {
    let Some(handshake) = context.handshake else {
        return;
    };
    for (packet, span) in &handshake.lost_tls {
        let span = Span::new(span.from, span.to.min(end));
        walk.blame(*packet, Cause::Tls, span, begin);
    }
}

/// Walks through request, server and response. Returns the cause of the rest.
fn exchange(context: &RequestContext<'_>, slot: u64, walk: &mut Walk) -> Cause {
    let marks = context.marks;
    let server = &context.server.copied().unwrap_or_default();
    let answered = server.response_first.unwrap_or(NEVER);
    let Some(request) = &context.request else {
        return without_request(context, walk);
    };
    let is_early = server.is_early();
    let head = is_early.then(|| request.message.head(HEAD_BYTES)).flatten();
    let written_last = request.quic.map_or(marks.written_last, |_| Some(slot));
    let request_transfer = Transfer {
        context: request,
        message: head.as_ref().unwrap_or(request.message),
        // A request that has its slot is written as soon as the socket takes it.
        offered_first: Some(slot),
        offered_last: if request.is_observed {
            written_last
        } else {
            Some(slot)
        },
        buffered_at: written_last.filter(|_| !request.is_observed),
        held: held(request, walk),
        offering: Cause::Host,
        received: if is_early { None } else { server.request_last },
    };
    if is_early {
        let mut until_answer = walk.until(answered);
        request_transfer.walk(&mut until_answer);
        walk.merge(until_answer);
    } else {
        request_transfer.walk(walk);
    }
    if walk.is_over() {
        return Cause::Host;
    }
    let is_delivered = server.request_last.is_some() || is_early;
    if !is_delivered && context.server.is_some() {
        // All of the request arrived at the server's host, but the server never read it.
        return after_failure(marks.outcome, Cause::Host);
    }
    response(context, server, walk)
}

/// For a request whose bytes were located by neither side.
fn without_request(context: &RequestContext<'_>, walk: &mut Walk) -> Cause {
    let marks = context.marks;
    let Some(written) = marks.written_first else {
        return Cause::Unknown;
    };
    walk.to(written, Cause::Host);
    let Some(server) = context.server else {
        return Cause::Unknown;
    };
    let Some(received) = server.request_last else {
        return Cause::Unknown;
    };
    walk.to(received, Cause::Unknown);
    response(context, server, walk)
}

fn response(context: &RequestContext<'_>, server: &ServerMarks, walk: &mut Walk) -> Cause {
    let marks = context.marks;
    let is_whole = marks.outcome == Outcome::Answered;
    if context.server.is_none() {
        // It is not known which of the server's connections it was on.
        return Cause::Unknown;
    }
    let Some(first) = server.response_first else {
        return after_failure(marks.outcome, Cause::Server);
    };
    let Some(response) = &context.response else {
        walk.to(first, Cause::Server);
        return Cause::Unknown;
    };
    // Its packet may be on the link before the call that sent it returns.
    let sent = response.first_sent().map_or(first, |sent| sent.min(first));
    wait_for_engine(response, sent, walk);
    let buffered_at = if response.is_observed {
        None
    } else if response.quic.is_some() {
        Some(first)
    } else {
        server.response_last
    };
    let received = walk.at().min(sent);
    let (offered_first, offered_last) = match marks.relayed {
        Some((first, last)) if response.quic.is_none() => (first.max(received), Some(last)),
        // It is not known when a third-party station made the response. The time counts as that station's work for as long
        // as the connection could have taken it.
        _ if response.is_observed => (received, None),
        _ if response.quic.is_some() => (first, buffered_at),
        // A full socket may have kept the response in the station.
        _ => match server.ready {
            Some(ready) => (ready.clamp(received, first.max(received)), buffered_at),
            None => (first, buffered_at),
        },
    };
    let response_transfer = Transfer {
        context: response,
        message: response.message,
        offered_first: Some(offered_first),
        offered_last,
        buffered_at,
        held: held(response, walk),
        offering: Cause::Server,
        received: is_whole.then(|| marks.end.as_nanos()),
    };
    response_transfer.walk(walk);
    if is_whole || walk.is_over() {
        return Cause::Host;
    }
    after_failure(marks.outcome, Cause::Host)
}

/// The cause of the rest of a request's time, after the last mark that is known. A request that the trial's end cut off was
/// waiting for what would have come `next`. What a failed one was waiting for is unknown.
pub(super) fn after_failure(outcome: Outcome, next: Cause) -> Cause {
    match outcome {
        Outcome::Answered | Outcome::Censored => next,
        _ => Cause::Unknown,
    }
}

/// A QUIC server's first byte is marked when its packet leaves, not when the server had it. So the time between the request
/// and that mark is the server's only while flow control and the congestion window had room.
fn wait_for_engine(response: &MessageContext<'_>, first: u64, walk: &mut Walk) {
    let Some(quic) = response.quic.filter(|_| !response.is_observed) else {
        return;
    };
    let direction = response.direction;
    let held = held(response, walk);
    let idle = spans_within(&quic.idle[direction as usize], walk.at(), first);
    // An engine that has something to send sends it immediately when an acknowledgement arrives.
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
                    SenderState::Held(cause) => {
                        was_held = true;
                        cause
                    }
                    // After a wait, data that was queued before the response goes first.
                    _ if was_held => Cause::Cwnd,
                    _ => Cause::Server,
                };
                walk.to(span.to, cause);
            }
        }
    }
}

/// When flow control held the message back.
fn held(context: &MessageContext<'_>, walk: &Walk) -> Vec<(Span, Cause)> {
    let (from, to) = (walk.at(), walk.end());
    let waits = context
        .windows
        .map(|(windows, id)| windows.waits(id, from, to));
    waits.into_iter().flatten().collect()
}

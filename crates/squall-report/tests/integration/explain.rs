//! A request's timeline as text: runs of packets, stages with short interruptions, drops with their repair.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use squall_analysis::causes::{
    Course, HopCourse, MessagePacket, Passage, RequestAhead, SendQueue, ServerTimes, Stage,
};
use squall_analysis::explain::{
    Blocker, CauseTime, DropImpact, DroppedPacket, Explanation, GapCauses, HopTime, Mark,
    PacketName,
};
use squall_base::record::{Cause, Direction, Fate, Outcome, Phase, Repair, TrialRecord};
use squall_base::{Duration, Time};
use squall_report::{Colour, explain};

use crate::support::run::{Size, run};

/// The time `micros` microseconds after the request was due.
pub(crate) fn at(micros: u64) -> Time {
    Time::from_nanos(1_500_000_000) + Duration::from_micros(micros)
}

pub(crate) fn stage(from: u64, to: u64, cause: Cause) -> Stage {
    Stage {
        from: at(from),
        to: at(to),
        cause,
    }
}

fn message_packet(index: u64, start: u64, sent: u64, arrived: Option<u64>) -> MessagePacket {
    MessagePacket {
        index,
        start,
        end: start + 1_448,
        is_again: sent > 90_000,
        sent: at(sent),
        queueing: Duration::ZERO,
        arrived: arrived.map(at),
        fate: if arrived.is_some() {
            Fate::Delivered
        } else {
            Fate::ListDrop
        },
    }
}

fn drop(index: u64, carried: Vec<u64>) -> DroppedPacket {
    DroppedPacket {
        packet: PacketName {
            hop: 1,
            direction: Direction::Down,
            index,
        },
        dropped_at: at(25_200),
        fate: Fate::ListDrop,
        connection: Some(0),
        stream: None,
        start: Some(1_448),
        end: Some(2_896),
        carried,
        repair: Repair::FastRetransmit,
        repaired_at: Some(at(125_000)),
        repaired_by: Some(30),
        victims: 3,
        delay: Duration::from_millis(200),
    }
}

fn cost(cause: Cause, micros: u64) -> CauseTime {
    CauseTime {
        cause,
        time: Duration::from_micros(micros),
    }
}

fn course() -> Course {
    let packets = vec![
        message_packet(20, 0, 25_100, Some(50_100)),
        message_packet(21, 1_448, 25_200, None),
        message_packet(22, 2_896, 25_300, Some(50_300)),
        message_packet(23, 4_344, 25_400, Some(50_400)),
        message_packet(30, 1_448, 100_000, Some(125_000)),
    ];
    let stages = vec![
        stage(0, 25_000, Cause::Distance),
        stage(25_000, 50_200, Cause::WindowConnection),
        stage(50_200, 50_250, Cause::Cwnd),
        stage(50_250, 60_200, Cause::WindowConnection),
        stage(60_200, 125_000, Cause::Loss),
        stage(125_000, 125_400, Cause::Host),
    ];
    Course {
        request: 7,
        stages,
        server: Some(ServerTimes {
            connection: Some(0),
            request_last: Some(at(25_000)),
            response_first: None,
            response_last: None,
        }),
        up: None,
        down: Some(Passage {
            own: vec![(0, 5_792)],
            needed: 5_792,
            is_open: false,
            packets,
            held: vec![
                stage(25_000, 50_200, Cause::WindowConnection),
                stage(50_250, 60_200, Cause::WindowConnection),
            ],
            send_queue: None,
            behind: Vec::new(),
        }),
        hops: Vec::new(),
    }
}

fn drops() -> Vec<DropImpact> {
    vec![
        DropImpact {
            drop: drop(19, vec![3, 4]),
            is_own: false,
            cost: vec![cost(Cause::Hol, 1_000)],
        },
        DropImpact {
            drop: drop(21, vec![7]),
            is_own: true,
            cost: vec![cost(Cause::Loss, 64_800)],
        },
    ]
}

pub(crate) fn explanation() -> Explanation {
    Explanation {
        request: 7,
        phase: Phase::Measure,
        outcome: Outcome::Answered,
        error: None,
        status: Some(200),
        connection: Some(0),
        server_connection: Some(0),
        stream: Some(15),
        opened_connection: false,
        request_body_bytes: 0,
        response_body_bytes: 5_000,
        intended: at(0),
        end: at(125_400),
        latency: Duration::from_micros(125_400),
        causes: vec![
            cost(Cause::Loss, 64_800),
            cost(Cause::WindowConnection, 35_150),
            cost(Cause::Distance, 25_000),
            cost(Cause::Host, 400),
            cost(Cause::Cwnd, 50),
        ],
        longest_gap: None,
        queue_behind: Vec::new(),
        hops: Vec::new(),
        responsible: Some(PacketName {
            hop: 1,
            direction: Direction::Down,
            index: 21,
        }),
        marks: vec![
            Mark {
                at: at(0),
                name: "intended",
            },
            Mark {
                at: at(25_000),
                name: "server_request_last",
            },
            Mark {
                at: at(125_400),
                name: "end",
            },
        ],
        course: course(),
        drops: drops(),
        waited_for: vec![3, 4]
            .into_iter()
            .map(|request| Blocker {
                cause: Cause::Hol,
                request,
                packet: None,
                packets: None,
            })
            .collect(),
    }
}

#[test]
fn longest_gap_of_a_response_is_described_with_its_causes() {
    let run = run(&["h1"], Size::SMALL);
    let context = explain::ExplanationContext::of_trial(&run.records[0].0);
    let told = |micros: u64| {
        let explanation = Explanation {
            longest_gap: Some(GapCauses {
                from: at(1_300_000),
                length: Duration::from_micros(micros),
                causes: vec![
                    cost(Cause::Hol, micros * 96 / 100),
                    cost(Cause::Server, micros * 4 / 100),
                ],
            }),
            ..explanation()
        };
        let text = explain::request(&context, &explanation, Colour::Plain);
        let mut lines = text.lines().map(str::to_owned);
        lines.find(|line| line.contains("longest gap"))
    };
    let line = "  longest gap in the response: 200.000 ms from 1300.000 ms on: 96 % hol (a lost packet of others held it \
                up), 4.0 % server";
    assert_eq!(told(200_000).as_deref(), Some(line));
    // A pause of less than a millisecond is not worth a line.
    assert_eq!(told(900), None);
}

#[test]
fn each_of_several_hops_is_described() {
    let mut run = run(&["h1"], Size::SMALL);
    let record = &mut run.records[0].0;
    let variant = &mut record.trial.variant;
    variant.hops.push(variant.hops[0].clone());
    variant.hops[0].across_link = false;
    variant.stations.insert(1, variant.stations[1].clone());
    variant.stations[1].name = "proxy\n".to_owned();
    let hop = |hop, is_joined, (from, to)| HopTime {
        hop,
        is_joined,
        from: at(from),
        to: at(to),
        causes: vec![cost(Cause::Server, to - from - 100), cost(Cause::Host, 100)],
    };
    let explanation = Explanation {
        hops: vec![hop(1, true, (0, 125_400)), hop(2, false, (200, 125_000))],
        ..explanation()
    };
    let text = explain::request(
        &explain::ExplanationContext::of_trial(record),
        &explanation,
        Colour::Plain,
    );
    let told: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("  hop "))
        .collect();
    let ends = |place: usize| variant_name(record, place);
    assert_eq!(
        told,
        [
            format!(
                "  hop 1, {} to proxy\u{fffd}: 0.000 to 125.400 ms, server 125.300, host 0.100",
                ends(0)
            ),
            format!(
                "  hop 2, proxy\u{fffd} to {}: 0.200 to 125.000 ms, server 124.700, host 0.100; not seen there, this is how \
                 long the hop before waited for it",
                ends(2)
            ),
        ]
    );
}

#[test]
fn packets_of_two_links_are_named_with_their_hops() {
    let mut run = run(&["h1"], Size::SMALL);
    let record = &mut run.records[0].0;
    let variant = &mut record.trial.variant;
    variant.hops.push(variant.hops[0].clone());
    variant.stations.insert(1, variant.stations[1].clone());
    let mut explanation = explanation();
    let hop = |hop, down: Option<Passage>| HopCourse {
        hop,
        is_joined: true,
        connection: Some(0),
        stream: Some(0),
        server: None,
        stages: Vec::new(),
        up: None,
        down,
    };
    let behind = explanation.course.down.clone();
    explanation.course.hops = vec![hop(1, None), hop(2, behind)];
    let text = explain::request(
        &explain::ExplanationContext::of_trial(record),
        &explanation,
        Colour::Plain,
    );
    for line in [
        "packet down 21 of hop 1: bytes 1,448 to 2,896, was dropped by a drop list; sent again by fast retransmit",
        "packet down 21 of hop 2: bytes 1,448 to 2,896, was dropped by a drop list\n",
        "packet down 19 of hop 1 with",
        "its connection's window of hop 2 was used up",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

fn variant_name(record: &TrialRecord, place: usize) -> &str {
    &record.trial.variant.stations[place].name
}

#[test]
fn request_is_printed_as_causes_and_a_timeline() {
    let run = run(&["h1"], Size::SMALL);
    let text = explain::request(
        &explain::ExplanationContext::of_trial(&run.records[0].0),
        &explanation(),
        Colour::Plain,
    );
    assert_eq!(text, include_str!("explain.txt"), "\n{text}");
}

#[test]
fn wait_in_a_send_queue_is_printed_with_its_window_and_losses() {
    let run = run(&["h1"], Size::SMALL);
    let mut explanation = explanation();
    let way = explanation.course.down.as_mut().expect("it has a way");
    way.send_queue = Some(SendQueue {
        from: at(25_000),
        to: at(100_000),
        packets: 14,
        in_flight: (6, 12),
        losses: 3,
    });
    let ahead = |request, packets| RequestAhead { request, packets };
    way.behind = vec![ahead(3, 4), ahead(4, 8)];
    let text = explain::request(
        &explain::ExplanationContext::of_trial(&run.records[0].0),
        &explanation,
        Colour::Plain,
    );
    let sentence = "  waited 75.000 ms in server's send queue: 12 packets of 2 other requests went first; the window was 6 \
                    to 12 segments because of 3 losses\n";
    assert!(text.contains(sentence), "{text}");
}

#[test]
fn queue_is_printed_with_what_the_requests_ahead_waited_for() {
    let run = run(&["h1"], Size::SMALL);
    let explanation = Explanation {
        causes: vec![cost(Cause::Queue, 100_000), cost(Cause::Host, 25_400)],
        queue_behind: vec![cost(Cause::Cwnd, 75_000), cost(Cause::Loss, 25_000)],
        ..explanation()
    };
    let text = explain::request(
        &explain::ExplanationContext::of_trial(&run.records[0].0),
        &explanation,
        Colour::Plain,
    );
    assert!(
        text.contains("    behind: cwnd 75 %, loss 25 %\n"),
        "{text}"
    );
}

#[test]
fn long_transfers_are_cut_with_a_note() {
    let run = run(&["h1"], Size::SMALL);
    let mut explanation = explanation();
    let way = explanation.course.down.as_mut().unwrap();
    way.packets = (0..100)
        .map(|n| message_packet(n, n * 1_448, n * 2_000, Some(n * 2_000 + 25_000)))
        .collect();
    let text = explain::request(
        &explain::ExplanationContext::of_trial(&run.records[0].0),
        &explanation,
        Colour::Plain,
    );
    let rows = text
        .lines()
        .filter(|line| line.contains("packet down ") && line.contains("arrived at"));
    assert_eq!(rows.count(), 23, "{text}");
    assert!(
        text.contains("77 more packets down with its bytes"),
        "{text}"
    );
}

#[test]
fn control_characters_in_foreign_words_do_not_reach_the_terminal() {
    let mut run = run(&["h\u{1b}1"], Size::SMALL);
    let record = &mut run.records[0].0;
    assert!(!explain::heading(record, Colour::Plain).contains('\u{1b}'));
    let mut explanation = explanation();
    explanation.outcome = Outcome::ConnectionClosed;
    explanation.error = Some("reset\u{1b}[2J".to_owned());
    let text = explain::request(
        &explain::ExplanationContext::of_trial(record),
        &explanation,
        Colour::Plain,
    );
    assert!(
        text.starts_with("request 7: failed (connection_closed) after 125.400 ms")
            && !text.contains('\u{1b}'),
        "{text}"
    );
}

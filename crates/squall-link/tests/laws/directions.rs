//! The two directions do not influence each other.
//!
//! They share one thing: flows are numbered in the order in which either direction saw them, and a SYN from the client may
//! begin a new one. So in these tests all flows have begun before, and unreadable packets, which together form one flow,
//! are left out.

use proptest::prelude::*;
use squall_base::record::Direction;

use crate::drive::{Calls, TakenPacket, drive};
use crate::traffic::{Arrival, Content, FLOWS, START, opening, tcp, traffic_of};
use crate::world::link;

fn openings() -> Vec<Arrival> {
    let begins = |flow| Arrival {
        at: START,
        direction: Direction::Up,
        packet: opening(flow),
    };
    (0..FLOWS).map(begins).collect()
}

/// Packets of flows that have begun.
fn later_packets() -> impl Strategy<Value = Content> {
    tcp().prop_map(|content| match content {
        Content::Tcp {
            flow,
            payload_len,
            ecn,
            seq,
            ..
        } => Content::Tcp {
            flow,
            flags: 0x10,
            payload_len,
            ecn,
            seq,
        },
        bytes @ Content::Bytes(_) => bytes,
    })
}

proptest! {
    #[test]
    fn one_direction_does_not_influence_the_other(settings in link(), arrivals in traffic_of(later_packets())) {
        let all: Vec<Arrival> = openings().into_iter().chain(arrivals.clone()).collect();
        let together = drive(&settings, &all, &Calls::WhenDue);
        for direction in Direction::ALL {
            let alone = arrivals.iter().filter(|arrival| arrival.direction == direction).cloned();
            let alone: Vec<Arrival> = openings().into_iter().chain(alone).collect();
            let alone = drive(&settings, &alone, &Calls::WhenDue);
            let goes = |taken: &&TakenPacket| taken.record.direction == direction;
            let facts = |taken: &TakenPacket| (taken.packet.clone(), taken.record);
            let one: Vec<_> = together.departed.iter().filter(goes).map(facts).collect();
            let other: Vec<_> = alone.departed.iter().filter(goes).map(facts).collect();
            prop_assert_eq!(one, other, "{:?}", direction);
        }
    }
}

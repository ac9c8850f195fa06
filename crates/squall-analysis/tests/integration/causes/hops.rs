//! Paths of several hops: a request for which the truth is known on each hop, and what holds for arbitrary records.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use squall_analysis::causes::{Attribution, PathInputs, PathShape, attribute_path};
use squall_analysis::explain::{Tables, explain};
use squall_base::plan::{Hop, Implementation, Protocol, Variant};
use squall_base::record::{
    Beginning, Cause, CauseSpans, CausesRecord, ExchangeRecord, Extent, PacketRecord, Side,
};
use squall_base::{Duration, Time};

use super::laws::{any_extent, any_time, garbage};
use super::world::{ConnectionStream, DELAY, Delivered, Down, READ, Times, Up, World, clear, time};

/// `client -- proxy ~~ proxy -- server`, with our own stations except for programs at the indices in `real`.
fn variant(real: &[usize]) -> Variant {
    variant_across(real, [false, true, false])
}

/// The same stations, with links where `links` has true.
fn variant_across(real: &[usize], links: [bool; 3]) -> Variant {
    let station = |place: usize| {
        let mut station = squall_made::station(&place.to_string());
        if real.contains(&place) {
            station.runs = Implementation::Program {
                program: "envoy".to_owned(),
            };
        }
        station
    };
    let hops = links.map(|across_link| Hop {
        across_link,
        ..squall_made::hop(Protocol::H2c)
    });
    Variant {
        name: "test".to_owned(),
        path: String::new(),
        stations: (0..4).map(station).collect(),
        hops: hops.into(),
    }
}

fn attribute(world: &World, path: &PathShape) -> Attribution {
    let mut inputs = PathInputs::new(path.clone());
    world.frames.iter().for_each(|row| inputs.add_frame(row));
    let exchanges = world.exchanges.iter();
    exchanges.for_each(|row| inputs.add_exchange(row));
    world.packets.iter().for_each(|row| inputs.add_packet(row));
    world
        .requests
        .iter()
        .for_each(|row| inputs.add_request(row));
    attribute_path(inputs)
}

/// Checks what holds on every path.
fn check(world: &World, hops: usize, found: &Attribution) -> Result<(), TestCaseError> {
    prop_assert_eq!(found.causes.len(), world.requests.len());
    prop_assert_eq!(found.hops.len(), hops * world.requests.len());
    for (row, request) in found.causes.iter().zip(&world.requests) {
        prop_assert_eq!((row.request, row.hop), (request.request, 0));
        prop_assert_eq!(row.spans.total(), request.response_time());
    }
    let in_order = found.hops.windows(2).all(|pair| pair[0].hop <= pair[1].hop);
    prop_assert!(in_order);
    // The first hop has all of the request's time.
    for (row, request) in found.hops.iter().zip(&world.requests) {
        prop_assert_eq!((row.request, row.hop), (request.request, 1));
        prop_assert_eq!(row.spans.total(), request.response_time());
    }
    Ok(())
}

fn micros(spans: &CauseSpans) -> Vec<(Cause, u64)> {
    let all = Cause::ALL.into_iter();
    let all = all.map(|cause| (cause, spans[cause].as_nanos() / 1_000));
    all.filter(|(_, micros)| *micros > 0).collect()
}

const AT: u64 = 1_000_000;
/// When the request is over on the hop across the link.
const BACK: u64 = AT + 300 + DELAY + READ + 500 + DELAY + READ;

/// Makes all records those of request 0 on the link's hop, whose client side waits 100 us for a connection.
fn move_to_link(world: &mut World) {
    for row in &mut world.packets {
        row.hop = 2;
    }
    for row in &mut world.exchanges {
        row.hop = 2;
        row.request = Some(0);
        if row.side == Side::Client {
            row.beginning = Beginning {
                offered: Some(time(AT + 150)),
                slot: Some(time(AT + 250)),
                ..Beginning::default()
            };
        }
    }
}

/// A request that waits for a connection across the link, and is answered by the far server after 400 us.
fn world() -> World {
    let mut world = World::default();
    world.handshake(0, 0);
    // On the link's hop, from 300 us on.
    let sent = AT + 300;
    world.request(sent, ConnectionStream(0, 0));
    world.bytes(Up, 0, sent, (0, 100), Delivered);
    let received = sent + DELAY + READ;
    let answered = received + 500;
    world.bytes(Down, 0, answered, (0, 200), Delivered);
    let times = Times {
        written: sent,
        received,
        answered,
        answered_last: answered,
        end: BACK,
    };
    world.exchange(Protocol::H1, times, clear(0, 100), clear(0, 200));
    move_to_link(&mut world);
    // On the client's own hop: 100 us until the first proxy has it, 70 us back from that proxy.
    let request = world.requests.last_mut().expect("there is one");
    (request.intended, request.taken_up) = (time(AT), time(AT));
    request.slot = Some(time(AT + 20));
    request.written_first = Some(time(AT + 40));
    request.written_last = request.written_first;
    request.end = time(BACK + 100);
    let row = |hop, side, [first, last, answered, end]: [u64; 4]| ExchangeRecord {
        hop,
        side,
        beginning: Beginning::default(),
        request_first: Some(time(first)),
        request_last: Some(time(last)),
        response_first: Some(time(answered)),
        response_last: Some(time(end)),
        request_extent: None,
        response_extent: None,
        ..world.exchanges[0].clone()
    };
    let near = row(1, Side::Server, [AT + 90, AT + 100, BACK + 30, BACK + 30]);
    let far_server = row(
        3,
        Side::Server,
        [received + 50, received + 60, received + 460, received + 460],
    );
    let far_client = ExchangeRecord {
        beginning: Beginning {
            offered: Some(time(received + 10)),
            slot: Some(time(received + 10)),
            ..Beginning::default()
        },
        ..row(
            3,
            Side::Client,
            [received + 40, received + 40, received + 480, received + 490],
        )
    };
    world.exchanges.extend([near, far_server, far_client]);
    world
}

fn row(found: &Attribution, hop: u8) -> CausesRecord {
    let rows = found.causes.iter().chain(found.hops.iter().copied());
    let mut rows = rows.filter(|row| row.hop == hop);
    rows.next().expect("it has that hop")
}

#[test]
fn server_time_of_a_hop_is_the_work_of_the_next_hop() {
    use Cause::{Distance, Host, Queue, Server};
    let world = world();
    let found = attribute(&world, &PathShape::of(&variant(&[])));
    let spans = |hop| micros(&row(&found, hop).spans);
    assert_eq!(
        spans(1),
        [(Queue, 20), (Server, BACK + 30 - AT - 100), (Host, 80 + 70)]
    );
    assert_eq!(
        spans(2),
        [
            (Queue, 100),
            (Distance, 2 * DELAY),
            // Until the far proxy had the whole response from upstream; the 10 us of writing it are host time.
            (Server, 490),
            (Host, 50 + 2 * READ + 10)
        ]
    );
    assert_eq!(spans(3), [(Server, 400), (Host, 50 + 30)]);
    // Between the hops: 50 us in the near proxy and 30 back, 10 us in the far one and 10 back.
    let hosts = 80 + 70 + 50 + 2 * READ + 80 + 50 + 30 + 10 + 10;
    assert_eq!(
        spans(0),
        [
            (Queue, 120),
            (Distance, 2 * DELAY),
            (Server, 400),
            (Host, hosts)
        ]
    );
}

#[test]
fn time_on_an_unseen_hop_is_unknown_except_for_the_next_hops_time() {
    use Cause::{Host, Queue, Server, Unknown};
    let mut world = world();
    world.exchanges.retain(|row| row.hop != 2);
    let found = attribute(&world, &PathShape::of(&variant(&[])));
    let spans = |hop| micros(&row(&found, hop).spans);
    let waited = BACK + 30 - AT - 100;
    let behind = 490 - 10;
    assert_eq!(spans(1), [(Queue, 20), (Server, waited), (Host, 150)]);
    assert_eq!(spans(2), [(Server, behind), (Unknown, waited - behind)]);
    assert_eq!(spans(3), [(Server, 400), (Host, 80)]);
    assert_eq!(
        spans(0),
        [
            (Queue, 20),
            (Server, 400),
            (Host, 150 + 80),
            (Unknown, waited - behind)
        ]
    );
}

#[test]
fn causes_are_unknown_if_the_load_generator_is_foreign() {
    let found = attribute(&world(), &PathShape::of(&variant(&[0])));
    let total = BACK + 100 - AT;
    assert_eq!(micros(&row(&found, 0).spans), [(Cause::Unknown, total)]);
}

#[test]
fn packets_without_a_hop_are_those_of_the_only_link() {
    let path = PathShape::of(&variant(&[]));
    let mut world = world();
    let found = attribute(&world, &path);
    for row in &mut world.packets {
        row.hop = PacketRecord::ONLY_LINK;
    }
    let again = attribute(&world, &path);
    assert_eq!((again.hops, again.drops), (found.hops, found.drops));
}

#[test]
fn each_hop_is_explained() {
    let world = world();
    let tables = Tables {
        requests: &world.requests,
        exchanges: &world.exchanges,
        frames: &world.frames,
        packets: &world.packets,
        sockets: &[],
    };
    let path = PathShape::of(&variant(&[]));
    let told = explain(&tables, &path, &BTreeSet::from([0]));
    let [told] = &told[..] else {
        panic!("there is one request");
    };
    let hops: Vec<(u8, bool, u64)> = (told.hops.iter())
        .map(|hop| {
            (
                hop.hop,
                hop.is_joined,
                hop.to.since(hop.from).as_nanos() / 1_000,
            )
        })
        .collect();
    let of_link = BACK - AT - 150;
    assert_eq!(
        hops,
        [
            (1, true, BACK + 100 - AT),
            (2, true, of_link),
            (3, true, 480)
        ]
    );
    assert_eq!(told.latency, Duration::from_micros(BACK + 100 - AT));
    let packets = told.course.down.as_ref().map(|way| way.packets.len());
    assert_eq!(packets, Some(1), "the way across the link");
}

/// Marks, sides and numbers of an exchange that do not match anything.
type ArbitraryExchange = (
    (u8, bool, u32, u64, Option<u64>),
    Vec<Option<Time>>,
    Option<Extent>,
    Option<Extent>,
);

fn arbitrary_exchange() -> impl Strategy<Value = ArbitraryExchange> {
    (
        (
            1..=4_u8,
            any::<bool>(),
            0..3_u32,
            0..4_u64,
            proptest::option::of(0..6_u64),
        ),
        vec(proptest::option::of(any_time()), 9),
        any_extent(),
        any_extent(),
    )
}

proptest! {
    #[test]
    fn spans_of_arbitrary_records_on_any_path_add_up(
        mut world in garbage(),
        loose in vec(arbitrary_exchange(), 0..40),
        real in vec(0..4_usize, 0..3),
        links in any::<[bool; 3]>().prop_filter("a path has a link", |links| links.contains(&true)),
    ) {
        let across: Vec<u8> = (1..).zip(links).filter(|(_, is)| *is).map(|(hop, _)| hop).collect();
        for (packet, hop) in world.packets.iter_mut().zip(across.into_iter().cycle()) {
            packet.hop = hop;
        }
        for (frame, hop) in world.frames.iter_mut().zip((1..=3).cycle()) {
            frame.hop = hop;
        }
        world.exchanges.clear();
        for ((hop, is_client, connection, stream, request), times, sent, received) in loose {
            let side = if is_client { Side::Client } else { Side::Server };
            world.exchanges.push(ExchangeRecord {
                hop,
                request,
                beginning: Beginning {
                    offered: times[4],
                    slot: times[5],
                    opened: times[6],
                    connected: times[7],
                    secured: times[8],
                },
                request_first: times[0],
                request_last: times[1],
                response_first: times[2],
                response_last: times[3],
                request_extent: sent,
                response_extent: received,
                ..ExchangeRecord::unseen(side, connection, stream, Protocol::H2c)
            });
        }
        let path = PathShape::of(&variant_across(&real, links));
        let found = attribute(&world, &path);
        check(&world, 3, &found)?;
        // `explain` walks the records again, stage by stage, and must find the same.
        let tables = Tables {
            requests: &world.requests,
            exchanges: &world.exchanges,
            frames: &world.frames,
            packets: &world.packets,
            sockets: &[],
        };
        let all: BTreeSet<u64> = world.requests.iter().map(|row| row.request).collect();
        let told = explain(&tables, &path, &all);
        prop_assert_eq!(told.len(), world.requests.len());
        for (it, row) in told.iter().zip(found.causes.iter()) {
            let mut spans = CauseSpans::default();
            let mut at = it.intended;
            for stage in &it.course.stages {
                prop_assert_eq!(stage.from, at);
                prop_assert!(stage.from < stage.to);
                spans[stage.cause] = spans[stage.cause] + stage.to.since(stage.from);
                at = stage.to;
            }
            prop_assert_eq!(spans, row.spans);
        }
    }
}

//! A connection that the kernel does not let the client watch (epoll_ctl(2)) fails its request, and the load goes on.
//!
//! The kernel refuses to watch a file twice (EEXIST), so the test watches it first.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use squall_base::Duration;
use squall_base::plan::{ClosedLoad, Connections, PoolOrder, PoolSettings, SideSettings, Urgency};
use squall_base::record::{Phase, Side};
use squall_http::{Body, Request, Scheme};
use squall_load::Share;

use super::*;
use crate::client::requests::Recorder;
use crate::client::{ClientSettings, Route, Spin, Target, Uploads};
use crate::rows::{Capacity, RowPoll, RowSender, queue};
use crate::{Buffers, LogSinks, log::StationLog};

fn traffic(server: SocketAddr, records: RowSender<RequestRecord>) -> Traffic {
    let get = Request::new("GET", Scheme::Http, "server", "/", &[], Body::EMPTY).unwrap();
    let settings = ClientSettings {
        targets: vec![Target {
            address: server,
            server_name: "server".to_owned(),
            security: None,
            quic: None,
            route: Route::Direct,
        }],
        protocol: Protocol::H1,
        is_strict: true,
        asks_for_http2: false,
        side: SideSettings::default(),
        connections: Connections::Fixed(1),
        pool_per_user: false,
        pool: PoolSettings {
            order: PoolOrder::Turns,
            streams_at_most: None,
            warm: 0,
        },
        seed: 0,
        workload: Workload::Closed(ClosedLoad::of(1)),
        share: Share::WHOLE,
        requests: vec![TargetedRequest {
            request: Arc::new(get),
            target: 0,
        }],
        traces: false,
        spin: Spin::default(),
        observed: InboxOptions::default(),
        sample_every: Duration::from_secs(1),
        stall_timeout: None,
        request_timeout: None,
    };
    Traffic::new(Shared {
        settings,
        uploads: Uploads::new(),
        recorder: Recorder::new(records, None),
        log: StationLog::new(Side::Client, LogSinks::default()),
        buffers: Buffers::new(),
        causes: None,
    })
}

/// Takes up a request and assigns it to a connection.
fn begin(request: u64, traffic: &mut Traffic, reactor: &Reactor) {
    let now = clock::now();
    let arrival = Arrival {
        request,
        intended: now,
        phase: Phase::Measure,
        user: 0,
        what: 0,
        urgency: Urgency::new(3).unwrap(),
    };
    traffic.enqueue(arrival, now, &mut LagMeter::default());
    traffic.dispatch(reactor).unwrap();
}

#[test]
fn unwatchable_connection_fails_its_request_and_the_next_opens_another() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (sender, mut records) = queue(Capacity::Unbounded);
    let mut traffic = traffic(listener.local_addr().unwrap(), sender);
    let reactor = Reactor::new().unwrap();
    begin(0, &mut traffic, &reactor);
    assert_eq!(traffic.pools.open(), 1);
    traffic.watch(ConnectionKey::FIRST, &reactor);
    assert_eq!(traffic.pools.open(), 0);

    let ended: Vec<u64> = (traffic.shared.recorder.ended.iter())
        .map(|(ended, _)| ended.request)
        .collect();
    assert_eq!(ended, [0]);
    traffic.shared.recorder.flush();
    let RowPoll::Rows(rows) = records.poll() else {
        panic!("no row");
    };
    assert_eq!(rows[0].outcome, Outcome::ConnectFailed);
    let said = rows[0].error.clone().unwrap();
    assert!(said.contains("cannot watch a file descriptor"), "{said}");
    assert_eq!(traffic.machine_errors, BTreeMap::from([(said, 1)]));

    begin(1, &mut traffic, &reactor);
    assert_eq!((traffic.pools.open(), traffic.pools.added()), (1, 2));
}

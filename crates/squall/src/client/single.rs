//! A load of one request over one connection: `squall fetch`, and the request that discovers what a server supports.

use std::sync::Arc;

use squall_base::Duration;
use squall_base::plan::{
    ClosedLoad, Connections, PoolOrder, PoolSettings, SAMPLE_EVERY, SideSettings, Workload,
};
use squall_http::{InboxOptions, Request};
use squall_load::Share;
use squall_stations::client::{ClientSettings, Spin, Target, TargetedRequest};

use super::flags::ProtocolChoice;

/// Settings for one request to this target, abandoned after `timeout`.
pub(crate) fn single(
    target: Target,
    choice: ProtocolChoice,
    side: SideSettings,
    request: Arc<Request>,
    observed: InboxOptions,
    timeout: Duration,
) -> ClientSettings {
    ClientSettings {
        targets: vec![target],
        protocol: choice.protocol,
        is_strict: choice.is_strict,
        asks_for_http2: false,
        side,
        connections: Connections::Fixed(1),
        pool_per_user: false,
        pool: PoolSettings {
            order: PoolOrder::Turns,
            streams_at_most: None,
            warm: 0,
        },
        seed: 0,
        workload: Workload::Closed(ClosedLoad {
            requests: Some(1),
            duration: Some(timeout),
            ..ClosedLoad::of(1)
        }),
        share: Share::WHOLE,
        requests: vec![TargetedRequest { request, target: 0 }],
        traces: false,
        spin: Spin::default(),
        observed,
        sample_every: SAMPLE_EVERY,
        stall_timeout: None,
        request_timeout: None,
    }
}

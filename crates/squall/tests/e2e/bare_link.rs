//! Two hosts and a squall link without squall's stations, for programs and sockets that the test provides.
//!
//! Needs root, because a test program has threads and therefore cannot enter a user namespace.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::Command;
use std::sync::mpsc::{self, Receiver};

use squall_base::record::PacketRecord;
use squall_base::{Duration, Probability};
use squall_link::settings::Loss;
use squall_link::{LaneSettings, LinkSettings};
use squall_linux::counters::HostCounters;
use squall_linux::host::Host;
use squall_linux::link_thread::{LinkDevices, LinkReport, LinkThread, Sinks};
use squall_linux::stop::StopSignal;
use squall_linux::tun::{Offload, Tun};

const DEVICE: &str = "squall0";
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// Where the server of such a test listens.
pub(crate) const ADDRESS: SocketAddrV4 = SocketAddrV4::new(SERVER, 8080);

pub(crate) struct BareLink {
    pub(crate) client: Host,
    pub(crate) server: Host,
    link: LinkThread,
    packets: Receiver<Vec<PacketRecord>>,
}

/// A finished link with its results.
pub(crate) struct EndedLink {
    pub(crate) report: LinkReport,
    pub(crate) packets: Vec<PacketRecord>,
    /// The kernel's counters of the client's host and of the server's.
    pub(crate) counters: [HostCounters; 2],
}

impl BareLink {
    /// A round trip of 20 ms and 3 % loss in each direction, CUBIC unless a socket chooses otherwise.
    pub(crate) fn lossy(seed: u64) -> BareLink {
        let loss = Probability::new(0.03).expect("3 % is a probability");
        let lane = LaneSettings {
            delay: Duration::from_millis(10),
            loss: Loss::Independent(loss),
            ..LaneSettings::default()
        };
        BareLink::start(lane, seed, Offload::None)
    }

    /// The same lane in both directions, CUBIC unless a socket chooses otherwise.
    pub(crate) fn start(lane: LaneSettings, seed: u64, offload: Offload) -> BareLink {
        let settings = LinkSettings::symmetric(lane, seed);
        let (client, server) = (
            Host::create().expect("a host"),
            Host::create().expect("a host"),
        );
        let end = |host: &Host, address: Ipv4Addr| {
            let device = host
                .run(|| Tun::create(DEVICE, address, 30, offload))
                .expect("a device");
            use_cubic(host, address);
            device
        };
        let devices = LinkDevices {
            client: end(&client, CLIENT),
            server: end(&server, SERVER),
        };
        let (records, packets) = mpsc::channel();
        let failed = StopSignal::new().expect("a signal");
        let sinks = Sinks {
            hop: 1,
            records,
            packets: None,
        };
        let link = LinkThread::start(&settings, devices, sinks, failed).expect("a link");
        BareLink {
            client,
            server,
            link,
            packets,
        }
    }

    pub(crate) fn end(self) -> EndedLink {
        let report = self.link.stop().expect("the link ends");
        let counters =
            [&self.client, &self.server].map(|host| host.counters(DEVICE).expect("counters"));
        EndedLink {
            report,
            packets: self.packets.iter().flatten().collect(),
            counters,
        }
    }
}

/// Makes CUBIC the default of a host's route: a namespace may select it by sysctl only if the machine allows it.
fn use_cubic(host: &Host, address: Ipv4Addr) {
    let route = format!("route replace 198.18.0.0/30 dev {DEVICE} src {address} congctl cubic");
    let status = host
        .run(|| Ok(Command::new("ip").args(route.split(' ')).status()))
        .expect("the host");
    assert!(
        status.expect("ip starts; it is in iproute2").success(),
        "ip {route}"
    );
}

//! Samples of sockets that are not ours: TCP_INFO and congestion control, asked of the kernel from outside.
//!
//! A socket is known by its addresses only. Which connection of the hop it is, `observe_hop` finds out by packets.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::Sender;
use std::thread;

use anyhow::{Context, Result};
use squall_base::plan::Side;
use squall_base::record::TcpInfo;
use squall_base::{Duration, Time};
use squall_linux::clock;
use squall_linux::host::Host;
use squall_linux::inet_diag::{PortOf, SocketDiagnosis, TcpSocket};
use squall_linux::stop::StopSignal;

use super::observe_hop::Watched;

/// The kernel needs a few microseconds for each socket, and hops can have thousands. For so many times as long nothing is
/// asked, so that it never takes more than a twentieth of a processor.
const REST: u64 = 19;

/// It hears within this that it shall stop.
const NAP: Duration = Duration::from_millis(100);

/// What the kernel said of a socket.
pub(super) struct Sample {
    pub(super) time: Time,
    pub(super) side: Side,
    /// The client's address, which tells connections of a hop apart.
    pub(super) client: SocketAddr,
    pub(super) info: TcpInfo,
}

/// Names of congestion control, by side.
pub(super) type CongestionControls = [BTreeSet<String>; 2];

/// Asks after the sockets of the programs of a hop.
pub(super) struct Sampler {
    sides: Vec<(Side, SocketDiagnosis)>,
    server: SocketAddr,
    /// Where clients of the hop are. Others ask whether the station is ready.
    client_host: Ipv4Addr,
    every: Duration,
}

impl Sampler {
    /// The stations of the hop are in `hosts`, the client's first; clients have the address `client_host`.
    pub(super) fn new(
        watched: &Watched,
        hosts: [&Host; 2],
        client_host: Ipv4Addr,
    ) -> Result<Sampler> {
        let sides = Side::ALL.into_iter().zip(hosts);
        let sides = sides.filter(|(side, _)| watched.sides.contains(side));
        let sides: Result<Vec<_>> = sides
            .map(|(side, host)| Ok((side, SocketDiagnosis::of(host)?)))
            .collect();
        Ok(Sampler {
            sides: sides?,
            server: watched.server,
            client_host,
            every: watched.sample_every,
        })
    }

    /// Samples again and again until it is told to stop: what the sockets used.
    pub(super) fn run(
        &self,
        samples: &Sender<Vec<Sample>>,
        stop: &StopSignal,
    ) -> Result<CongestionControls> {
        let mut used = CongestionControls::default();
        let mut due = clock::now();
        while !stop.is_requested() {
            let begun = clock::now();
            if begun < due {
                thread::sleep(due.since(begun).min(NAP).into());
                continue;
            }
            for (side, diagnosis) in &self.sides {
                // Who takes them is gone only if it panicked, which is told elsewhere.
                let _ = samples.send(self.sample(*side, diagnosis, &mut used[*side as usize])?);
            }
            let took_ns = clock::now().since(begun).as_nanos();
            let rest = Duration::from_nanos(took_ns.saturating_mul(REST));
            due = clock::now() + self.every.max(rest);
        }
        Ok(used)
    }

    fn sample(
        &self,
        side: Side,
        diagnosis: &SocketDiagnosis,
        used: &mut BTreeSet<String>,
    ) -> Result<Vec<Sample>> {
        let port = match side {
            Side::Client => PortOf::Remote(self.server.port()),
            Side::Server => PortOf::Local(self.server.port()),
        };
        let time = clock::now();
        let sockets = diagnosis
            .sockets(port)
            .context("cannot ask the kernel after a program's sockets")?;
        let sample = |socket: TcpSocket| {
            let (client, server) = match side {
                Side::Client => (socket.local, socket.remote),
                Side::Server => (socket.remote, socket.local),
            };
            let is_of_it =
                *client.ip() == self.client_host && SocketAddr::from(server) == self.server;
            is_of_it.then(|| {
                used.insert(socket.congestion_control);
                Sample {
                    time,
                    side,
                    client: client.into(),
                    info: TcpInfo::from_bytes(&socket.info),
                }
            })
        };
        Ok(sockets.into_iter().filter_map(sample).collect())
    }
}

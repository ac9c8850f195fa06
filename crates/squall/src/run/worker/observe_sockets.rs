//! Samples of sockets that belong to other programs: TCP_INFO and congestion control, queried from the kernel.
//!
//! A socket is identified by its addresses only. `observe_hop` works out from packets which connection of the hop it
//! is.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::Sender;
use std::thread;

use anyhow::{Context, Result};
use squall_base::Duration;
use squall_base::plan::Side;
use squall_base::record::TcpInfo;
use squall_linux::clock;
use squall_linux::host::Host;
use squall_linux::inet_diag::{PortFilter, SocketDiagnosis, TcpSocket};
use squall_linux::stop::StopSignal;

use super::watched::{CongestionControls, Sample, WatchedHop};

/// The kernel takes a few microseconds per socket, and hops can have thousands. After each query, the sampler rests for
/// this many times the query's duration, so that it never uses more than a twentieth of a processor.
const REST: u64 = 19;

/// The sampler notices a stop request within this time.
const NAP: Duration = Duration::from_millis(100);

/// Samples the sockets of a hop's programs.
pub(super) struct Sampler {
    sides: Vec<(Side, SocketDiagnosis)>,
    server: SocketAddr,
    /// The address of the hop's clients. Connections from other addresses are readiness checks.
    client_host: Ipv4Addr,
    every: Duration,
}

impl Sampler {
    /// `hosts` are those of the hop's stations, the client's first; clients have the address `client_host`.
    pub(super) fn new(
        watched: &WatchedHop,
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

    /// Samples repeatedly until asked to stop; returns the congestion controls in use.
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
                // The receiver is gone only if it panicked, which is reported elsewhere.
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
            Side::Client => PortFilter::Remote(self.server.port()),
            Side::Server => PortFilter::Local(self.server.port()),
        };
        let time = clock::now();
        let sockets = diagnosis
            .sockets(port)
            .context("cannot query the kernel for a program's sockets")?;
        let sample = |socket: TcpSocket| {
            let (client, server) = match side {
                Side::Client => (socket.local, socket.remote),
                Side::Server => (socket.remote, socket.local),
            };
            let is_of_hop =
                *client.ip() == self.client_host && SocketAddr::from(server) == self.server;
            is_of_hop.then(|| {
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

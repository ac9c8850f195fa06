//! A bare forwarder: a thread that copies packets from one TUN device to the other, in both directions, and does nothing
//! else.
//!
//! No clock, no decision, no record. It shows what the system calls of any link over TUN devices cost on a machine, and so
//! serves as the baseline for the link's own thread (`link_thread`). Two hosts without any forwarder are `veth`.

use std::io::ErrorKind;
use std::thread::{self, JoinHandle};

use squall_base::Duration;

use crate::clock;
use crate::error::SetupError;
use crate::link_thread::{LinkDevices, PRIORITY};
use crate::reactor::Reactor;
use crate::scheduling;
use crate::stop::StopSignal;
use crate::sys::returned;

/// As many as the link's own thread reads in a turn (`link_thread`).
const READS_A_TURN: usize = 64;
const WAKE: u64 = 2;

/// A running forwarder.
#[derive(Debug)]
pub struct BareForwarder {
    handle: JoinHandle<Result<ForwarderReport, SetupError>>,
    stop: StopSignal,
}

/// What a forwarder has done.
#[derive(Debug)]
pub struct ForwarderReport {
    /// Packets in both directions.
    pub packets: u64,
    /// Processor time of its thread.
    pub processor_time: Duration,
}

impl BareForwarder {
    /// Starts forwarding between devices without offloads, with the scheduling of a link's thread.
    pub fn start(devices: LinkDevices) -> Result<BareForwarder, SetupError> {
        let stop = StopSignal::new()?;
        let reactor = Reactor::new()?;
        reactor.add(&devices.client, 0)?;
        reactor.add(&devices.server, 1)?;
        reactor.add(&stop, WAKE)?;
        let seen_stop = stop.clone();
        let handle = thread::Builder::new()
            .name("squall-bare".to_owned())
            .spawn(move || forward(&devices, reactor, &seen_stop))
            .map_err(SetupError::system("start a forwarder's thread"))?;
        Ok(BareForwarder { handle, stop })
    }

    /// Stops the forwarder at once.
    pub fn stop(self) -> Result<ForwarderReport, SetupError> {
        self.stop.request()?;
        returned(self.handle.join())
    }
}

fn forward(
    devices: &LinkDevices,
    mut reactor: Reactor,
    stop: &StopSignal,
) -> Result<ForwarderReport, SetupError> {
    scheduling::make_realtime(PRIORITY);
    let failed = SetupError::system("forward a packet");
    let directions = [
        (&devices.client, &devices.server),
        (&devices.server, &devices.client),
    ];
    let (mut buffer, mut packets) = (vec![0; 65_536], 0);
    while !stop.is_requested() {
        let mut idle = 0;
        for (from, to) in directions {
            for _ in 0..READS_A_TURN {
                match from.read(&mut buffer) {
                    Ok(len) => {
                        to.write(&buffer[..len]).map_err(failed)?;
                        packets += 1;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        idle += 1;
                        break;
                    }
                    Err(error) => return Err(failed(error)),
                }
            }
        }
        if idle == directions.len() {
            reactor.wait(clock::now(), None)?;
        }
    }
    Ok(ForwarderReport {
        packets,
        processor_time: clock::processor_time_of_thread(),
    })
}

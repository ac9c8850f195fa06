//! A bare forwarder: a thread that reads one TUN device and writes the other, and does nothing else.
//!
//! No clock, no decision, no record. It is what the system calls of any link over TUN devices cost on a machine, and so
//! what the link's own thread (`link_thread`) is held against. Two hosts without a forwarder at all are `veth`.

use std::io::ErrorKind;
use std::thread::{self, JoinHandle};

use squall_base::Duration;

use crate::clock;
use crate::error::SetupError;
use crate::link_thread::{Ends, PRIORITY};
use crate::reactor::Reactor;
use crate::scheduling;
use crate::stop::StopSignal;

/// As the link has it.
const READS_A_TURN: usize = 64;
const WAKE: u64 = 2;

/// A running forwarder.
#[derive(Debug)]
pub struct BareForwarder {
    handle: JoinHandle<Result<Forwarded, SetupError>>,
    stop: StopSignal,
}

/// What a forwarder has done.
#[derive(Debug)]
pub struct Forwarded {
    /// Packets of both directions.
    pub packets: u64,
    /// Processor time of its thread.
    pub processor_time: Duration,
}

impl BareForwarder {
    /// Starts to forward between devices without offloads, scheduled as a link's thread is.
    pub fn start(ends: Ends) -> Result<BareForwarder, SetupError> {
        let stop = StopSignal::new()?;
        let reactor = Reactor::new()?;
        reactor.add(&ends.client, 0)?;
        reactor.add(&ends.server, 1)?;
        reactor.add(&stop, WAKE)?;
        let seen_stop = stop.clone();
        let handle = thread::Builder::new()
            .name("squall-bare".to_owned())
            .spawn(move || forward(&ends, reactor, &seen_stop))
            .map_err(|source| SetupError::System {
                action: "start a forwarder's thread",
                source,
            })?;
        Ok(BareForwarder { handle, stop })
    }

    /// Ends it at once.
    pub fn stop(self) -> Result<Forwarded, SetupError> {
        self.stop.request()?;
        match self.handle.join() {
            Ok(forwarded) => forwarded,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn forward(ends: &Ends, mut reactor: Reactor, stop: &StopSignal) -> Result<Forwarded, SetupError> {
    scheduling::make_realtime(PRIORITY);
    let failed = |source| SetupError::System {
        action: "forward a packet",
        source,
    };
    let ways = [(&ends.client, &ends.server), (&ends.server, &ends.client)];
    let (mut buffer, mut packets) = (vec![0; 65_536], 0);
    while !stop.is_requested() {
        let mut idle = 0;
        for (from, to) in ways {
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
        if idle == ways.len() {
            reactor.wait(clock::now(), None)?;
        }
    }
    Ok(Forwarded {
        packets,
        processor_time: clock::processor_time_of_thread(),
    })
}

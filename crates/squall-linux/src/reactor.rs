//! Waits for sockets and for a point in time: epoll, edge-triggered, with an absolute timerfd.
//!
//! The timer is absolute, so that a late wake-up does not delay the next one, and a timerfd, because epoll's own timeout
//! counts in milliseconds. The reactor knows file descriptors by tokens and does not look at what they carry.
//!
//! A client may wait once per response, so the system calls go through rustix, which issues them directly. The C library's
//! calls are thread cancellation points, and do bookkeeping before and after.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use squall_base::Time;

use crate::clock::time_spec;
use crate::error::SetupError;

/// The events of one token. Edge-triggered: work until `WouldBlock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyEvent {
    /// The token given to `Reactor::add`.
    pub token: u64,
    /// There may be something to read, including the end of the stream or an error.
    pub readable: bool,
    /// There may be room to write.
    pub writable: bool,
    /// The peer has closed its side, or the connection is gone: reading will reach the end of the stream. A read that
    /// returned less than it had room for has not seen the end yet, and no further edge will report it.
    pub ended: bool,
}

/// What a file descriptor is watched for. End of stream and errors are always reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Data to read. Meant for UDP sockets: the kernel reports room to write whenever a datagram has left, wanted or not
    /// (sock_def_write_space in net/core/sock.c), which costs a wake-up per datagram sent.
    Reading,
    /// Room to write as well. TCP reports it only after a write that returned `WouldBlock`.
    ReadingAndWriting,
}

impl Interest {
    fn flags(self) -> EventFlags {
        let reading = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        match self {
            Interest::Reading => reading,
            Interest::ReadingAndWriting => reading | EventFlags::OUT,
        }
    }
}

/// The token of the reactor's own timer.
const TIMER: u64 = u64::MAX;
const EVENTS_A_TURN: usize = 256;
const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// An epoll instance with one timer.
pub struct Reactor {
    epoll: OwnedFd,
    timer: TimerFd,
    armed: Option<Time>,
    ready: Vec<ReadyEvent>,
}

impl Reactor {
    /// An empty reactor.
    pub fn new() -> Result<Reactor, SetupError> {
        let epoll =
            epoll::create(CreateFlags::CLOEXEC).map_err(SetupError::system("make an epoll"))?;
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)
            .map_err(SetupError::system("make a timer"))?;
        // Edge-triggered, so the timer need not be read; rearming it resets it.
        let often = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), often)
            .map_err(SetupError::system("watch a timer"))?;
        Ok(Reactor {
            epoll,
            timer,
            armed: None,
            ready: Vec::with_capacity(EVENTS_A_TURN),
        })
    }

    /// Watches `fd` for reading and writing. Closing `fd` removes it.
    pub fn add(&self, fd: impl AsFd, token: u64) -> Result<(), SetupError> {
        self.add_for(Interest::ReadingAndWriting, fd, token)
    }

    /// Watches `fd` for `interest`. Closing `fd` removes it.
    pub fn add_for(&self, interest: Interest, fd: impl AsFd, token: u64) -> Result<(), SetupError> {
        epoll::add(&self.epoll, fd, EventData::new_u64(token), interest.flags())
            .map_err(SetupError::system("watch a file descriptor"))
    }

    /// Changes the interest of an `fd` that is already watched. Its current readiness is reported again, so no edge is
    /// lost.
    pub fn change(&self, interest: Interest, fd: impl AsFd, token: u64) -> Result<(), SetupError> {
        epoll::modify(&self.epoll, fd, EventData::new_u64(token), interest.flags())
            .map_err(SetupError::system("watch a file descriptor"))
    }

    /// Waits until something is ready or the `deadline` is reached; without a deadline, until something is ready. A
    /// deadline in the past only collects what is ready.
    pub fn wait(&mut self, now: Time, deadline: Option<Time>) -> Result<&[ReadyEvent], SetupError> {
        let timeout = match deadline {
            Some(deadline) if deadline <= now => Some(&AT_ONCE),
            Some(deadline) => {
                self.arm(deadline)?;
                None
            }
            None => None,
        };
        self.ready.clear();
        let mut events = [MaybeUninit::<Event>::uninit(); EVENTS_A_TURN];
        let events: &[Event] = match epoll::wait(&self.epoll, &mut events, timeout) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => &[],
            Err(errno) => return Err(SetupError::system("wait for events")(errno)),
        };
        for event in events {
            let (flags, token) = (event.flags, event.data.u64());
            if token == TIMER {
                self.armed = None;
                continue;
            }
            let ended = EventFlags::ERR | EventFlags::HUP;
            self.ready.push(ReadyEvent {
                token,
                readable: flags.intersects(EventFlags::IN | EventFlags::RDHUP | ended),
                writable: flags.intersects(EventFlags::OUT | ended),
                ended: flags.intersects(EventFlags::RDHUP | ended),
            });
        }
        Ok(&self.ready)
    }

    fn arm(&mut self, deadline: Time) -> Result<(), SetupError> {
        if self.armed == Some(deadline) {
            return Ok(());
        }
        // A timer set to 0 would be disarmed, so time 0 becomes 1 ns.
        let spec = time_spec(deadline.max(Time::from_nanos(1)));
        self.timer
            .set(
                Expiration::OneShot(spec),
                TimerSetTimeFlags::TFD_TIMER_ABSTIME,
            )
            .map_err(SetupError::system("arm a timer"))?;
        self.armed = Some(deadline);
        Ok(())
    }
}

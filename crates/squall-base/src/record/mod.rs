//! What a trial found: one row per request, exchange, frame, packet and sample of a socket, and the trial's own
//! summary.
//!
//! These are the rows in memory; squall-record writes and reads them, docs/RECORD.md describes their schema.

mod arrivals;
mod causes;
mod counts;
mod drops;
mod exchange;
mod failure;
mod frame;
mod lag;
mod late;
mod packet;
mod projection;
mod request;
mod socket;
mod trial;

pub use crate::side::Side;
pub use arrivals::{BodyArrivals, Gap, GapFigures};
pub use causes::{Cause, CauseSpans, CausesRecord, PacketRef};
pub use counts::{EndingCounts, SideCounts, WireCounts};
pub use drops::{DropRecord, Repair, Victim};
pub use exchange::{Beginning, ExchangeRecord, Extent};
pub use failure::{FailedAttempt, ProcessEnd, StationExit};
pub use frame::{FrameFacts, FrameLayer, FrameRecord, PerWay, Way, frame_name};
pub use lag::{LAG_QUANTILES, LagFault, is_slight, lag_fault};
pub use late::{LateSpan, LateSpans};
pub use packet::{Direction, Fate, PacketClass, PacketRecord};
pub use projection::Projection;
pub use request::{Outcome, Phase, RequestRecord};
pub use socket::{QuicPath, SocketRecord, SocketSample, TcpField, TcpInfo};
pub use trial::{
    DirectionHealth, EffectiveSettings, FileChecksum, Health, HopRecord, KernelCounters, Lateness,
    LinkCongestionControl, LinkThreadHealth, MachineHealth, OpenFiles, OtherPrograms, PageRecord,
    SharedMemory, StationRecord, TcpShortage, TrialRecord, Validity,
};

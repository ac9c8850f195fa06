//! What a connection gets with each packet, over TCP and over QUIC: when it passed, which way, the keys that are known, and
//! where rows go.
//!
//! Nothing is done here; `tap` makes it.

use squall_base::Time;
use squall_base::record::Way;

use crate::exchange::Observations;
use crate::tls::Keys;

/// The context in which a connection processes a packet.
pub(crate) struct Context<'a> {
    pub(crate) now: Time,
    pub(crate) way: Way,
    pub(crate) keys: Keys<'a>,
    pub(crate) rows: &'a mut Observations,
}

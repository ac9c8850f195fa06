//! The largest numbers that loads take, for recipes and for the flags of the commands alike.
//!
//! Only the numbers, each with its reason; `read` and the commands refuse what is larger.

use squall_base::Duration;

/// Connections to one server: a client address has fewer ports than this towards one server address.
pub const MAX_CONNECTIONS: u32 = 60_000;

/// Concurrent requests on a connection: more than there are stream identifiers (RFC 9113, section 5.1.1).
pub const MAX_STREAMS: u32 = (1 << 31) - 1;

/// Users: each with its own connections needs file descriptors for them.
pub const MAX_USERS: u32 = 60_000;

/// Requests a second: more than the client of one machine can send, so a higher rate is a mistake.
pub const MAX_PER_SECOND: f64 = 1e6;

/// How long a client spins before a request: one that spins longer does nothing else.
pub const MAX_SPIN: Duration = Duration::from_millis(10);

/// Tiles of a page: each is a request of the page, and no page has more.
pub const MAX_TILES: u32 = 10_000;

/// The relative share of a request.
pub const MAX_WEIGHT: u32 = 1_000_000;

/// Repetitions of a cell, or rounds of a comparison.
pub const MAX_REPETITIONS: u32 = 1_000;

//! What a request asks for in its query, as in `/?size=1MiB&delay=0.5s..2s&status=404`.
//!
//! Only parses; `site` decides on the response. `fuzz/src/drive_query.rs` states what holds for any query.

use std::fmt;
use std::str::FromStr;

use squall_base::{Bytes, Duration, ParseQuantityError};
use thiserror::Error;

/// What a query asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryOptions {
    /// The size of the body.
    pub size: Option<Bytes>,
    /// How long to delay the response.
    pub delay: Delay,
    /// The status, 200 to 599.
    pub status: Option<u16>,
    /// A body in pieces, in place of one of that size.
    pub chunks: Option<Chunks>,
}

/// A body in pieces: the first immediately, each other one after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    /// How many pieces, at least 1.
    pub count: u32,
    /// The size of each, from 1 byte to 1 MiB; of an event, at least [`Chunks::LEAST_EVENT`].
    pub size: Bytes,
    /// The time from when one piece is due to when the next one is.
    pub every: Delay,
    /// Whether each is an event of `text/event-stream` (the HTML standard's server-sent events).
    pub are_events: bool,
}

impl Chunks {
    /// The size of a piece unless the query has another.
    pub const USUAL_SIZE: Bytes = Bytes::new(64);
    /// The size of an event with one byte of data: `data: `, the byte, and an empty line.
    pub const LEAST_EVENT: Bytes = Bytes::new(9);
    /// The largest piece.
    pub const MOST: Bytes = Bytes::new(1 << 20);
}

/// A delay, uniformly distributed between two times. Written `2s`, or `0.5s..2s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// The shortest delay.
    pub from: Duration,
    /// The longest delay, which is not less than `from`.
    pub to: Duration,
}

impl Delay {
    /// Maps a number, any of 64 bits, to a delay.
    pub(super) fn sample(self, random: u64) -> Duration {
        let times = u128::from((self.to - self.from).as_nanos()) + 1;
        let extra_ns = (times * u128::from(random)) >> 64;
        self.from + Duration::from_nanos(extra_ns as u64)
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.from == self.to {
            self.to.fmt(f)
        } else {
            write!(f, "{}..{}", self.from, self.to)
        }
    }
}

impl FromStr for Delay {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Delay, QueryError> {
        let time = |text: &str| text.parse().map_err(QueryError::Delay);
        let (from, to) = match text.split_once("..") {
            Some((from, to)) => (time(from)?, time(to)?),
            None => (time(text)?, time(text)?),
        };
        if from <= to {
            Ok(Delay { from, to })
        } else {
            Err(QueryError::DelayOrder)
        }
    }
}

/// The words of a query about pieces. Without `chunks`, which says how many, the others mean nothing.
#[derive(Clone, Copy, Debug, Default)]
struct ChunkWords<'q> {
    count: Option<&'q str>,
    size: Option<&'q str>,
    every: Option<&'q str>,
    are_events: bool,
}

impl ChunkWords<'_> {
    fn chunks(self) -> Result<Option<Chunks>, QueryError> {
        let Some(count) = self.count else {
            return Ok(None);
        };
        let count = count.parse::<u32>().ok().filter(|count| *count > 0);
        let size = match self.size {
            Some(size) => size.parse::<Bytes>().map_err(QueryError::Chunk)?,
            None => Chunks::USUAL_SIZE,
        };
        let least = if self.are_events {
            Chunks::LEAST_EVENT
        } else {
            Bytes::new(1)
        };
        if !(least..=Chunks::MOST).contains(&size) {
            return Err(QueryError::ChunkSize { least });
        }
        Ok(Some(Chunks {
            count: count.ok_or(QueryError::ChunkCount)?,
            size,
            every: self.every.map_or(Ok(Delay::default()), str::parse)?,
            are_events: self.are_events,
        }))
    }
}

/// A query that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QueryError {
    /// The size is invalid.
    #[error("size: {0}")]
    Size(ParseQuantityError),
    /// The time is invalid.
    #[error("delay or every: {0}")]
    Delay(ParseQuantityError),
    /// Two times in the wrong order.
    #[error("delay or every: expected the shorter of two times first, such as 0.5s..2s")]
    DelayOrder,
    /// Not a status that can be sent.
    #[error("status: expected 200 to 599")]
    Status,
    /// Not a number of pieces.
    #[error("chunks: expected a number from 1 to 4294967295")]
    ChunkCount,
    /// The size of a piece is invalid.
    #[error("chunk: {0}")]
    Chunk(ParseQuantityError),
    /// A piece cannot have this size.
    #[error("chunk: expected a size from {least} to 1MiB")]
    ChunkSize {
        /// The smallest.
        least: Bytes,
    },
    /// A body of one size, and in pieces.
    #[error("chunks: expected either size, or chunks with chunk as the size of each")]
    SizeAndChunks,
}

impl FromStr for QueryOptions {
    type Err = QueryError;

    /// Parses `size=1MiB&delay=2s&status=404` and `chunks=20&chunk=64&every=50ms&sse`; ignores other names, and all words
    /// about pieces unless `chunks` is among them.
    fn from_str(query: &str) -> Result<QueryOptions, QueryError> {
        let mut options = QueryOptions::default();
        let mut chunk_words = ChunkWords::default();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "size" => options.size = Some(value.parse().map_err(QueryError::Size)?),
                "delay" => options.delay = value.parse()?,
                "status" => options.status = Some(status(value).ok_or(QueryError::Status)?),
                "chunks" => chunk_words.count = Some(value),
                "chunk" => chunk_words.size = Some(value),
                "every" => chunk_words.every = Some(value),
                "sse" => chunk_words.are_events = true,
                _ => {}
            }
        }
        options.chunks = chunk_words.chunks()?;
        if options.chunks.is_some() && options.size.is_some() {
            return Err(QueryError::SizeAndChunks);
        }
        Ok(options)
    }
}

fn status(value: &str) -> Option<u16> {
    let status = value.parse().ok()?;
    (200..=599).contains(&status).then_some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_ask_for_sizes_delays_and_statuses() {
        let found: QueryOptions = "a=b&size=1MiB&delay=2s&status=404".parse().unwrap();
        assert_eq!(found.size, Some(Bytes::new(1 << 20)));
        assert_eq!(found.status, Some(404));
        let two = Duration::from_secs(2);
        assert_eq!(found.delay, Delay { from: two, to: two });
        assert_eq!("".parse(), Ok(QueryOptions::default()));
        let bad = [
            "size=x",
            "delay=2",
            "delay=2s..1s",
            "delay=1s..",
            "status=99",
            "status=",
        ];
        for bad in bad {
            assert!(bad.parse::<QueryOptions>().is_err(), "{bad}");
        }
    }

    #[test]
    fn queries_ask_for_pieces() {
        let chunks = |query: &str| query.parse::<QueryOptions>().map(|options| options.chunks);
        let ms = Duration::from_millis;
        let tokens = Chunks {
            count: 20,
            size: Bytes::new(32),
            every: Delay {
                from: ms(10),
                to: ms(30),
            },
            are_events: true,
        };
        assert_eq!(
            chunks("chunks=20&chunk=32&every=10ms..30ms&sse"),
            Ok(Some(tokens))
        );
        let usual = Chunks {
            count: 3,
            size: Chunks::USUAL_SIZE,
            every: Delay::default(),
            are_events: false,
        };
        assert_eq!(chunks("chunks=3"), Ok(Some(usual)));
        // Without a number, these words belong to the URLs of another application.
        assert_eq!(chunks("chunk=last&every=day&sse"), Ok(None));
        let bad = [
            "chunks=",
            "chunks=0",
            "chunks=-1",
            "chunks=4294967296",
            "chunks=1&chunk=0",
            "chunks=1&chunk=2MiB",
            "chunks=1&chunk=8&sse",
            "chunks=1&every=5",
            "chunks=1&size=5",
        ];
        for bad in bad {
            assert!(chunks(bad).is_err(), "{bad}");
        }
        let error = chunks("chunks=1&chunk=8&sse").unwrap_err().to_string();
        assert_eq!(error, "chunk: expected a size from 9B to 1MiB");
    }

    #[test]
    fn delay_is_drawn_from_its_range() {
        let delay: Delay = "500ms..2s".parse().unwrap();
        assert_eq!(delay.to_string().parse(), Ok(delay));
        assert_eq!(delay.sample(0), delay.from);
        assert_eq!(delay.sample(u64::MAX), delay.to);
        assert_eq!(delay.sample(1 << 63), Duration::from_micros(1_250_000));
        let always: Delay = "10ms".parse().unwrap();
        assert_eq!(always.sample(u64::MAX), Duration::from_millis(10));
        // The longest delay that can be written.
        let long = Delay {
            from: Duration::ZERO,
            to: Duration::from_nanos(u64::MAX),
        };
        assert_eq!(long.sample(u64::MAX), long.to);
    }
}

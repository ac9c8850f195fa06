//! Writes the rows of the simulated trial as squall's stations and link would, through the same writers.
//!
//! `world` decides what happens when.

use std::ops::Range;
use std::path::Path;

use anyhow::Result;
use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::{
    ExchangeRecord, FrameFacts, FrameLayer, FrameRecord, Outcome, PacketRecord, RequestRecord,
    Side, SocketRecord, SocketSample, TcpInfo, Way,
};
use squall_made::in_cleartext;
use squall_record::{
    ExchangeWriter, FrameWriter, PacketWriter, RequestWriter, SocketWriter, TableRow, TableWriter,
};

const DATA: u64 = 0;
const HEADERS: u64 = 1;
const SETTINGS: u64 = 4;
const WINDOW_UPDATE: u64 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// The default window (RFC 9113, section 6.9.2).
const WINDOW: i64 = 65_535;

/// Numbers of rows written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) packets: u64,
    pub(crate) exchanges: u64,
    pub(crate) frames: u64,
    pub(crate) sockets: u64,
}

/// Bytes of one direction of a connection that are sent as one packet.
#[derive(Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) start: u64,
    pub(crate) length: u64,
}

impl Segment {
    pub(crate) fn empty(start: u64) -> Segment {
        Segment { start, length: 0 }
    }
}

/// A request and its response, as far as they have progressed. Times are in nanoseconds, ranges in bytes of the
/// connection.
#[derive(Clone)]
pub(crate) struct SimulatedExchange {
    pub(crate) number: u64,
    pub(crate) connection: u32,
    /// The server's number for the connection.
    pub(crate) accepted: u32,
    pub(crate) stream: u64,
    pub(crate) is_first: bool,
    pub(crate) intended: u64,
    pub(crate) taken_up: u64,
    pub(crate) slot: u64,
    pub(crate) written: u64,
    pub(crate) connected: Option<u64>,
    pub(crate) request: (u64, u64),
    pub(crate) request_header: u64,
    pub(crate) received: u64,
    pub(crate) answered: u64,
    pub(crate) response: (u64, u64),
    pub(crate) response_header: u64,
    pub(crate) body: u64,
    pub(crate) answered_first: Option<u64>,
}

impl SimulatedExchange {
    pub(crate) fn new(
        number: u64,
        connection: u32,
        stream: u64,
        intended: u64,
    ) -> SimulatedExchange {
        SimulatedExchange {
            number,
            connection,
            accepted: 0,
            stream,
            is_first: false,
            intended,
            taken_up: 0,
            slot: 0,
            written: 0,
            connected: None,
            request: (0, 0),
            request_header: 0,
            received: 0,
            answered: 0,
            response: (0, 0),
            response_header: 0,
            body: 0,
            answered_first: None,
        }
    }

    fn frame(&self, kind: u64, flags: u8, offset: u64, length: u64) -> FrameFacts {
        FrameFacts {
            flags,
            stream: Some(self.stream),
            offset: Some(offset),
            ..FrameFacts::new(Way::Sent, FrameLayer::Http2, kind, length)
        }
    }

    fn request_headers(&self) -> FrameFacts {
        let flags = END_STREAM | END_HEADERS;
        self.frame(HEADERS, flags, self.request.0, self.request_header)
    }

    fn response_headers(&self) -> FrameFacts {
        let header = self.response_header;
        self.frame(HEADERS, END_HEADERS, self.response.0, header)
    }

    fn data(&self) -> FrameFacts {
        let offset = self.response.0 + 9 + self.response_header;
        let left = WINDOW - self.body as i64;
        FrameFacts {
            stream_window: Some(left),
            connection_window: Some(1_000_000 + left),
            ..self.frame(DATA, END_STREAM, offset, self.body)
        }
    }

    fn record(&self, side: Side, times: [Option<u64>; 4]) -> ExchangeRecord {
        let [request_first, request_last, response_first, response_last] = times.map(time);
        let connection = match side {
            Side::Client => self.connection,
            Side::Server => self.accepted,
        };
        ExchangeRecord {
            request: (side == Side::Client).then_some(self.number),
            request_first,
            request_last,
            response_first,
            response_last,
            request_extent: Some(in_cleartext(self.request.0, self.request.1)),
            response_extent: Some(in_cleartext(self.response.0, self.response.1)),
            response_body_bytes: self.body,
            status: Some(200),
            ..ExchangeRecord::unseen(side, connection, self.stream, Protocol::H2c)
        }
    }
}

fn time(nanos: Option<u64>) -> Option<Time> {
    nanos.map(Time::from_nanos)
}

/// A table being written.
struct Table<R: TableRow> {
    writer: TableWriter<R>,
}

impl<R: TableRow> Table<R> {
    fn add(&mut self, row: R) -> Result<()> {
        self.writer.append(&[row])?;
        Ok(())
    }
}

/// The tables of a trial, while they are being written.
pub(crate) struct Tables {
    requests: Table<RequestRecord>,
    packets: Table<PacketRecord>,
    exchanges: Table<ExchangeRecord>,
    frames: Table<FrameRecord>,
    sockets: Table<SocketRecord>,
}

impl Tables {
    pub(crate) fn create(folder: &Path) -> Result<Tables> {
        Ok(Tables {
            requests: Table {
                writer: RequestWriter::create(folder.join("requests.parquet"))?,
            },
            packets: Table {
                writer: PacketWriter::create(folder.join("packets.parquet"))?,
            },
            exchanges: Table {
                writer: ExchangeWriter::create(folder.join("exchanges.parquet"))?,
            },
            frames: Table {
                writer: FrameWriter::create(folder.join("frames.parquet"))?,
            },
            sockets: Table {
                writer: SocketWriter::create(folder.join("sockets.parquet"))?,
            },
        })
    }

    pub(crate) fn finish(self) -> Result<Counts> {
        Ok(Counts {
            requests: self.requests.writer.finish()?,
            packets: self.packets.writer.finish()?,
            exchanges: self.exchanges.writer.finish()?,
            frames: self.frames.writer.finish()?,
            sockets: self.sockets.writer.finish()?,
        })
    }

    pub(crate) fn packet(&mut self, packet: &PacketRecord) -> Result<()> {
        self.packets.add(*packet)
    }

    fn frame(&mut self, side: Side, connection: u32, at: u64, frame: FrameFacts) -> Result<()> {
        self.frames.add(FrameRecord {
            connection,
            ..squall_made::frame(Time::from_nanos(at), side, frame)
        })
    }

    fn received(&mut self, side: Side, connection: u32, at: u64, frame: FrameFacts) -> Result<()> {
        let way = Way::Received;
        self.frame(side, connection, at, FrameFacts { way, ..frame })
    }

    /// Writes the SETTINGS with which a side opens its connection `number`.
    pub(crate) fn settings(&mut self, side: Side, number: u32, at: u64) -> Result<()> {
        // The client's SETTINGS follow its preface (RFC 9113, section 3.4).
        let offset = match side {
            Side::Client => 24,
            Side::Server => 0,
        };
        let connection = SimulatedExchange::new(0, number, 0, 0);
        self.frame(side, number, at, connection.frame(SETTINGS, 0, offset, 18))
    }

    pub(crate) fn request_frame(&mut self, exchange: &SimulatedExchange) -> Result<()> {
        let frame = exchange.request_headers();
        self.frame(Side::Client, exchange.connection, exchange.written, frame)
    }

    pub(crate) fn request_frame_received(&mut self, exchange: &SimulatedExchange) -> Result<()> {
        let frame = exchange.request_headers();
        self.received(Side::Server, exchange.accepted, exchange.received, frame)
    }

    pub(crate) fn answer_frames(&mut self, exchange: &SimulatedExchange) -> Result<()> {
        for frame in [exchange.response_headers(), exchange.data()] {
            self.frame(Side::Server, exchange.accepted, exchange.answered, frame)?;
        }
        Ok(())
    }

    pub(crate) fn server_exchange(&mut self, exchange: &SimulatedExchange) -> Result<()> {
        let (read, written) = (Some(exchange.received), Some(exchange.answered));
        let times = [read, read, written, written];
        self.exchanges.add(exchange.record(Side::Server, times))
    }

    /// Writes what the client records of a response that it has received whole.
    pub(crate) fn answered(&mut self, exchange: &SimulatedExchange, end: u64) -> Result<()> {
        for frame in [exchange.response_headers(), exchange.data()] {
            self.received(Side::Client, exchange.connection, end, frame)?;
        }
        let written = Some(exchange.written);
        let times = [written, written, exchange.answered_first, Some(end)];
        self.exchanges.add(exchange.record(Side::Client, times))?;
        self.requests.add(RequestRecord {
            taken_up: Time::from_nanos(exchange.taken_up),
            slot: Some(Time::from_nanos(exchange.slot)),
            connected: time(exchange.connected),
            written_first: time(written),
            written_last: time(written),
            answered_first: time(exchange.answered_first),
            headers: time(exchange.answered_first),
            end: Time::from_nanos(end),
            status: Some(200),
            connection: Some(exchange.connection),
            stream: Some(exchange.stream),
            opened_connection: exchange.is_first,
            response_body_bytes: exchange.body,
            outcome: Outcome::Answered,
            ..RequestRecord::due(exchange.number, Time::from_nanos(exchange.intended))
        })
    }

    /// Writes only the rows in `requests` of answered requests. `times` says when each was due and how long it took, in
    /// nanoseconds.
    pub(crate) fn plain_requests(
        &mut self,
        numbers: Range<u64>,
        times: impl Fn(u64) -> (u64, u64),
    ) -> Result<()> {
        let count = usize::try_from(numbers.end - numbers.start)?;
        let blank = RequestRecord {
            connected: Some(Time::ZERO),
            status: Some(200),
            response_body_bytes: 1_500,
            outcome: Outcome::Answered,
            ..RequestRecord::due(0, Time::ZERO)
        };
        let writer = &mut self.requests.writer;
        writer.append_made(count, blank, |place, row| {
            row.request = numbers.start + place as u64;
            let (due, took) = times(row.request);
            row.intended = Time::from_nanos(due);
            row.taken_up = Time::from_nanos(due + 5_000);
            row.slot = Some(row.taken_up);
            row.written_first = Some(Time::from_nanos(due + 13_000));
            row.written_last = row.written_first;
            row.end = Time::from_nanos(due + took);
            row.answered_first = Some(row.end);
            row.headers = Some(row.end);
        })?;
        Ok(())
    }

    /// Writes a WINDOW_UPDATE that the client sends for the connection, which has these `numbers` at client and server.
    pub(crate) fn window_update(
        &mut self,
        numbers: [u32; 2],
        increment: u64,
        at: u64,
    ) -> Result<()> {
        let connection = SimulatedExchange::new(0, numbers[0], 0, 0);
        let frame = FrameFacts {
            value: Some(increment),
            connection_window: Some(1_000_000 + WINDOW),
            ..connection.frame(WINDOW_UPDATE, 0, 0, 4)
        };
        self.frame(Side::Client, numbers[0], at, frame)?;
        self.received(Side::Server, numbers[1], at + 25_100_000, frame)
    }

    /// Writes samples of both sockets of a connection, as the kernel reports them.
    pub(crate) fn samples(
        &mut self,
        numbers: [Option<u32>; 2],
        sent_bytes: [u64; 2],
        rtt_us: u32,
        at: u64,
    ) -> Result<()> {
        for ((side, bytes), number) in Side::ALL.into_iter().zip(sent_bytes).zip(numbers) {
            let Some(connection) = number else { continue };
            let mut info = [0; TcpInfo::SIZE];
            let mut put = |offset: usize, value: u32| {
                info[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
            };
            // tcpi_state, tcpi_rto, tcpi_snd_mss, tcpi_rtt, tcpi_rttvar, tcpi_snd_cwnd, tcpi_segs_out.
            for (offset, value) in [
                (0, 1),
                (8, 200_000 + rtt_us),
                (16, 1_448),
                (68, rtt_us),
                (72, rtt_us / 50),
                (80, 10 + rtt_us % 50),
                (136, (bytes / 1_000) as u32),
            ] {
                put(offset, value);
            }
            let sample = SocketSample::Tcp(TcpInfo::from_bytes(&info));
            self.sockets.add(SocketRecord {
                connection,
                ..squall_made::socket(Time::from_nanos(at), side, sample)
            })?;
        }
        Ok(())
    }
}

//! A fix as settings of a recipe, with values, so that a run can try it.
//!
//! `knob` names the same fix in words. A setting that already has the value is not proposed at all. Some fixes cannot
//! be written as a setting of a recipe, such as another protocol or a faster reader, or settings of programs that
//! recipes cannot pass on. Those are described in words only. Whether a change can be applied is squall-recipe's
//! decision.

use squall_base::plan::{
    Connections, Hop, Implementation, ProgramSetting, QuicCongestionControl, RecordSizes,
    SettingChange, Side, SideSettings, Station, Trial, Version, WindowUpdates,
};
use squall_base::{BitRate, Bytes};

use super::knob::Knob;

/// The largest window that is proposed: a power of two below the protocol's limit of 2^31-1.
const WINDOW_AT_MOST: u64 = 1 << 30;
/// The window assumed for a program if the recipe sets none: HTTP/2's initial window.
const USUAL_WINDOW: u64 = 65_535;
/// A window that was used up grows at least this much, even if it could fill the path without queues, because a queue may
/// lengthen the round trip. A judgement.
const WINDOW_GROWTH: u64 = 4;
/// How much a window grows if the path's rate is not known. A judgement.
const WINDOW_GROWTH_WITHOUT_RATE: u64 = 16;
/// How much limits of streams, connections and tables grow. A judgement.
const LIMIT_GROWTH: u32 = 4;
/// More requests than a trial sends on a connection, for programs whose limit cannot be turned off.
const MANY_REQUESTS: u64 = 1_000_000;
/// Streams for a program whose own limit is not known.
const MANY_STREAMS: u64 = 4_096;
/// The most connections that are proposed, which is the most that a recipe accepts.
const CONNECTIONS_AT_MOST: u32 = 60_000;
/// The largest count that a recipe accepts.
const COUNT_AT_MOST: u32 = (1 << 31) - 1;
/// The dynamic table that HTTP/2 begins with (RFC 9113, section 6.5.2).
const USUAL_TABLE: u64 = 4_096;
/// The largest dynamic table that is proposed.
const TABLE_AT_MOST: u64 = 1 << 20;
/// The size of a full DATA frame, unless the peer accepts larger ones (RFC 9113, section 4.2).
const FULL_DATA: u64 = 16_384;
/// A record of this size arrives in three segments, so that its bytes wait little for each other.
const SHORT_RECORD: Bytes = Bytes::new(4_096);

/// A fix, in terms of the recipe of a trial.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Changes {
    /// Settings to change, with values.
    Settings(Vec<SettingChange>),
    /// A recipe cannot express the fix, or does not say whether it is in force.
    InWords,
    /// The setting has that value already.
    InForce,
}

impl Changes {
    /// These settings, or `otherwise` if there are none to change.
    fn of(settings: Vec<SettingChange>, otherwise: Changes) -> Changes {
        if settings.is_empty() {
            otherwise
        } else {
            Changes::Settings(settings)
        }
    }
}

/// The fix as settings of the trial's recipe. Hops count from 1.
pub(super) fn changes(trial: &Trial, hop: u8, side: Side, knob: Knob) -> Changes {
    let Some(place) = HopSide::of(trial, hop, side) else {
        return Changes::InWords;
    };
    let SideSettings { tcp, .. } = place.settings();
    match knob {
        Knob::StreamWindow => place.stream_window(),
        Knob::ConnectionWindow => place.connection_window(),
        Knob::WindowUpdates => place.window_updates(),
        Knob::Reader => place.reader(),
        Knob::MaxStreams => place.max_streams(),
        Knob::RespectLimits => place.respected_streams(),
        Knob::RequestsPerConnection => place.requests_per_connection(),
        Knob::Connections => place.more_connections_on_demand(),
        Knob::Backlog => place.kept_connections(),
        Knob::Resumption => place.resumption(),
        Knob::RecordSize => place.large_records(),
        Knob::ShortRecords => place.short_records(),
        Knob::HeaderTable => place.header_table(),
        Knob::DataSize => place.data_size(),
        Knob::NoDelay => {
            let is_known = place.is_tcp() && !place.is_program();
            place.change_unless(tcp.no_delay, is_known, "tcp.no_delay", "true")
        }
        Knob::ReceiveBuffer => {
            place.buffer_of_kernel("tcp.receive_buffer", tcp.receive_buffer.is_some())
        }
        Knob::SendBuffer => place.buffer_of_kernel("tcp.send_buffer", tcp.send_buffer.is_some()),
        Knob::DatagramBuffers => place.datagram_buffers(),
        Knob::SlowStartAfterIdle => place.slow_start_after_idle(),
        Knob::CongestionControl => place.congestion_control(),
        Knob::Pacing => place.pacing(),
        Knob::Ports => place.ports(),
        Knob::QueueDiscipline => place.queue_discipline(),
        Knob::OtherProtocol if !place.is_tcp() => Changes::InForce,
        // `single_connection` computes how many.
        Knob::MoreConnections
        // No settings of a recipe, or none with a value that suits every trial.
        | Knob::OtherProtocol
        | Knob::Reordering
        | Knob::KeepInFlight
        | Knob::Load => Changes::InWords,
    }
}

/// Replaces a smaller fixed number of connections by about `needed`. Empty if the number is not fixed or not smaller, or if
/// the client is a program.
pub(super) fn more_connections(trial: &Trial, hop: u8, needed: f64) -> Vec<SettingChange> {
    let Some(place) = HopSide::of(trial, hop, Side::Client) else {
        return Vec::new();
    };
    // More would be another experiment. A judgement.
    let wanted = needed.round().clamp(2.0, 64.0) as u32;
    let is_more = matches!(place.hop.connections, Connections::Fixed(count) if count < wanted);
    let is_needed = is_more && !place.is_program();
    let change = is_needed.then(|| place.change("connections", &wanted.to_string()));
    change.into_iter().collect()
}

/// One side of a hop of a trial.
struct HopSide<'a> {
    trial: &'a Trial,
    /// The hop's number, from 1.
    number: u8,
    hop: &'a Hop,
    side: Side,
    station: &'a Station,
}

impl<'a> HopSide<'a> {
    fn of(trial: &'a Trial, number: u8, side: Side) -> Option<HopSide<'a>> {
        let index = usize::from(number).checked_sub(1)?;
        let variant = &trial.variant;
        Some(HopSide {
            trial,
            number,
            hop: variant.hops.get(index)?,
            side,
            station: match side {
                Side::Client => variant.stations.get(index)?,
                Side::Server => variant.stations.get(index + 1)?,
            },
        })
    }

    fn of_side(&self, side: Side) -> Option<HopSide<'a>> {
        HopSide::of(self.trial, self.number, side)
    }

    fn settings(&self) -> &'a SideSettings {
        match self.side {
            Side::Client => &self.hop.client,
            Side::Server => &self.hop.server,
        }
    }

    /// Whether a third-party program runs there, which ignores most settings of the hop.
    fn is_program(&self) -> bool {
        self.station.runs != Implementation::Embedded
    }

    /// The value that the recipe gives the program there.
    fn asked(&self, setting: ProgramSetting) -> Option<u64> {
        let mut settings = self.station.asked.settings.iter();
        let found = settings.find(|it| it.side == self.side && it.setting == setting);
        found.map(|it| it.value)
    }

    /// The size in force there: `own` for our own stations; for a program what the recipe gives it, otherwise `usual`.
    fn current(&self, own: Bytes, setting: ProgramSetting, usual: u64) -> u64 {
        if self.is_program() {
            self.asked(setting).unwrap_or(usual)
        } else {
            own.get()
        }
    }

    fn version(&self) -> Version {
        self.hop.protocol.version()
    }

    fn is_tcp(&self) -> bool {
        self.version() != Version::Http3
    }

    /// Whether the hop is TCP across a link, so that its hosts have TCP settings.
    fn is_across_tcp(&self) -> bool {
        self.hop.across_link && self.is_tcp()
    }

    /// Whether settings of TCP apply there: our own stations have them, and the host of a program across a link.
    fn has_tcp(&self) -> bool {
        self.is_tcp() && (!self.is_program() || self.hop.across_link)
    }

    fn change(&self, setting: &str, value: &str) -> SettingChange {
        SettingChange {
            hop: self.number,
            side: self.side,
            setting: setting.to_owned(),
            value: value.to_owned(),
        }
    }

    /// Changes a setting to a value, unless it is in force. `is_known` is whether a recipe has the setting for this
    /// place.
    fn change_unless(
        &self,
        is_in_force: bool,
        is_known: bool,
        setting: &str,
        value: &str,
    ) -> Changes {
        if !is_known {
            Changes::InWords
        } else if is_in_force {
            Changes::InForce
        } else {
            Changes::Settings(vec![self.change(setting, value)])
        }
    }

    /// The settings of the hop's link for what a side sends, or of the link before it if it does not cross one.
    fn link_settings(&self, sender: Side) -> String {
        let link = (self.trial.variant).links_before(usize::from(self.number) - 1);
        let condition = self.trial.condition.of_link(link);
        condition.link.of(sender.sends()).clone()
    }

    /// Raises `setting` from `current` to `wanted`; `None` if that would not be an increase.
    fn larger(&self, setting: &str, current: u64, wanted: u64) -> Option<SettingChange> {
        (wanted > current).then(|| self.change(setting, &Bytes::new(wanted).to_string()))
    }

    /// The window that lets the peer fill the path: twice the bytes that the path holds, or many times `current` if its
    /// rate is not known.
    fn window_beyond(&self, current: u64) -> u64 {
        let wanted = match rate(&self.link_settings(self.side.peer())) {
            Some(rate) => {
                let round_trip = self.trial.link_round_trip(self.number).as_secs_f64();
                let held = rate.bits_per_s() as f64 / 8.0 * round_trip;
                let twice = (2.0 * held).ceil() as u64;
                twice.max(current.saturating_mul(WINDOW_GROWTH))
            }
            None => current.saturating_mul(WINDOW_GROWTH_WITHOUT_RATE),
        };
        wanted.min(WINDOW_AT_MOST).next_power_of_two()
    }

    /// The windows of a stream and of the connection that this side grants, each with its key.
    fn windows(&self) -> Option<[(&'static str, u64); 2]> {
        let SideSettings { http2, http3, .. } = self.settings();
        let [stream, connection] = match self.version() {
            Version::Http1 => return None,
            Version::Http2 => [
                ("http2.stream_window", http2.stream_window),
                ("http2.connection_window", http2.connection_window),
            ],
            Version::Http3 => [
                ("http3.stream_window", http3.stream_window),
                ("http3.connection_window", http3.connection_window),
            ],
        };
        let granted = |(key, own), setting| (key, self.current(own, setting, USUAL_WINDOW));
        Some([
            granted(stream, ProgramSetting::StreamWindow),
            granted(connection, ProgramSetting::ConnectionWindow),
        ])
    }

    /// A larger window for streams, and for the connection if it would limit a stream to less.
    fn stream_window(&self) -> Changes {
        let Some([(stream_key, stream), (connection_key, connection)]) = self.windows() else {
            return Changes::InWords;
        };
        let window = self.window_beyond(stream);
        let of_stream = self.larger(stream_key, stream, window);
        // The size of a program's connection window is unknown unless the recipe sets it.
        let is_known = !self.is_program() || self.asked(ProgramSetting::ConnectionWindow).is_some();
        let of_connection = self.larger(connection_key, connection, window);
        let of_connection = of_connection.filter(|_| is_known && of_stream.is_some());
        let larger = of_stream.into_iter().chain(of_connection);
        Changes::of(larger.collect(), Changes::InForce)
    }

    /// A larger window for the connection, and for streams if a single stream may use it up.
    fn connection_window(&self) -> Changes {
        let Some([(stream_key, stream), (connection_key, connection)]) = self.windows() else {
            return Changes::InWords;
        };
        let window = self.window_beyond(connection);
        let of_connection = self.larger(connection_key, connection, window);
        let is_alone = !self.is_program() && stream >= connection && of_connection.is_some();
        let of_stream = self.larger(stream_key, stream, window);
        let of_stream = of_stream.filter(|_| is_alone);
        let larger = of_connection.into_iter().chain(of_stream);
        Changes::of(larger.collect(), Changes::InForce)
    }

    fn window_updates(&self) -> Changes {
        let is_half = self.settings().http2.window_updates == WindowUpdates::Half;
        let is_known = self.version() == Version::Http2 && !self.is_program();
        self.change_unless(is_half, is_known, "http2.window_updates", "half")
    }

    /// A reader that returns window credit for what it has read.
    fn reader(&self) -> Changes {
        let updates = self.settings().http2.window_updates;
        match self.window_updates() {
            // Only `never` is certainly at fault; for other policies it depends on the window.
            Changes::Settings(_) if updates != WindowUpdates::Never => Changes::InWords,
            changes => changes,
        }
    }

    /// More streams on a connection: the client's own limit, or the server's.
    fn max_streams(&self) -> Changes {
        let grown = |limit: u32| limit.saturating_mul(LIMIT_GROWTH).min(COUNT_AT_MOST);
        let SideSettings { http2, http3, .. } = self.settings();
        let (key, limit) = match (self.side, self.version()) {
            (Side::Client, _) => match self.hop.pool.streams_at_most {
                Some(limit) => ("pool.streams_at_most", limit),
                None if self.is_program() => return Changes::InWords,
                None => return Changes::InForce,
            },
            (Side::Server, Version::Http1) => return Changes::InWords,
            (Side::Server, Version::Http2) => {
                ("http2.max_concurrent_streams", http2.max_concurrent_streams)
            }
            (Side::Server, Version::Http3) => {
                ("http3.max_concurrent_streams", http3.max_concurrent_streams)
            }
        };
        if self.side == Side::Server && self.is_program() {
            let asked = self.asked(ProgramSetting::MaxConcurrentStreams);
            let wanted = asked.map_or(MANY_STREAMS, |limit| {
                limit.saturating_mul(LIMIT_GROWTH.into())
            });
            let wanted = wanted.min(COUNT_AT_MOST.into());
            let is_largest = asked.is_some_and(|limit| limit >= wanted);
            return self.change_unless(is_largest, true, key, &wanted.to_string());
        }
        let wanted = grown(limit);
        self.change_unless(limit >= wanted, true, key, &wanted.to_string())
    }

    /// A client that assumes the limit that the server announces.
    fn respected_streams(&self) -> Changes {
        let assumed = self.hop.client.http2.max_concurrent_streams;
        let limit = self.hop.server.http2.max_concurrent_streams;
        let server = self.of_side(Side::Server);
        let is_known = self.version() == Version::Http2
            && self.side == Side::Client
            && !self.is_program()
            && server.is_some_and(|server| !server.is_program());
        let value = limit.to_string();
        self.change_unless(
            assumed <= limit,
            is_known,
            "http2.max_concurrent_streams",
            &value,
        )
    }

    /// Connections that neither side ends after some requests.
    fn requests_per_connection(&self) -> Changes {
        let Hop { client, server, .. } = self.hop;
        let limits = match self.version() {
            Version::Http1 => vec![
                (
                    Side::Server,
                    "http1.requests_per_connection",
                    server.http1.requests_per_connection,
                ),
                (
                    Side::Client,
                    "http1.requests_per_connection",
                    client.http1.requests_per_connection,
                ),
            ],
            Version::Http2 => vec![
                (
                    Side::Server,
                    "http2.goaway_after",
                    server.http2.goaway_after,
                ),
                (
                    Side::Client,
                    "http2.requests_per_connection",
                    client.http2.requests_per_connection,
                ),
            ],
            Version::Http3 => vec![(
                Side::Client,
                "http3.requests_per_connection",
                client.http3.requests_per_connection,
            )],
        };
        let change = |(side, key, limit): (Side, &str, Option<u32>)| {
            let place = self.of_side(side)?;
            let asked = place.asked(ProgramSetting::RequestsPerConnection);
            match (place.is_program(), side) {
                (false, _) => limit.map(|_| place.change(key, "never")),
                (true, Side::Server) if asked != Some(MANY_REQUESTS) => {
                    Some(place.change(key, &MANY_REQUESTS.to_string()))
                }
                (true, _) => None,
            }
        };
        let mut sides = Side::ALL.into_iter().filter_map(|side| self.of_side(side));
        let is_known = sides.all(|place| {
            let asked = place.asked(ProgramSetting::RequestsPerConnection);
            !place.is_program() || asked == Some(MANY_REQUESTS)
        });
        let otherwise = if is_known {
            Changes::InForce
        } else {
            Changes::InWords
        };
        Changes::of(limits.into_iter().filter_map(change).collect(), otherwise)
    }

    /// Connections that are open before the load begins, and stay open.
    fn kept_connections(&self) -> Changes {
        let is_fixed = matches!(self.hop.connections, Connections::Fixed(_));
        match self.requests_per_connection() {
            Changes::InForce if is_fixed && !self.is_program() => Changes::InForce,
            _ => Changes::InWords,
        }
    }

    /// More connections of a client that is at its limit.
    fn more_connections_on_demand(&self) -> Changes {
        let grown = |limit: u32| limit.saturating_mul(LIMIT_GROWTH).min(CONNECTIONS_AT_MOST);
        let (key, limit) = match self.hop.connections {
            Connections::OnDemand { at_most } => ("connections.at_most", at_most),
            Connections::Fixed(count) => ("connections", count),
        };
        // At the maximum number of connections, another protocol still helps.
        let is_more = grown(limit) > limit && !self.is_program();
        self.change_unless(false, is_more, key, &grown(limit).to_string())
    }

    /// Turns resumption on at each of our own stations that lacks it, because it needs both sides.
    fn resumption(&self) -> Changes {
        if self.is_program() {
            return Changes::InWords;
        }
        if self.settings().tls.resumption {
            return Changes::InForce;
        }
        let sides = Side::ALL.into_iter().filter_map(|side| self.of_side(side));
        let lacking = sides.filter(|it| !it.is_program() && !it.settings().tls.resumption);
        let changes = lacking.map(|it| it.change("tls.resumption", "true"));
        Changes::Settings(changes.collect())
    }

    fn has_records(&self) -> bool {
        self.is_tcp() && self.hop.protocol.is_secure()
    }

    fn large_records(&self) -> Changes {
        let largest = RecordSizes::LARGEST;
        let is_large = if self.is_program() {
            // The record sizes of a program are known only if the recipe sets them; 0 means that it sends no small ones.
            self.asked(ProgramSetting::SmallRecords) == Some(0)
        } else {
            self.settings().tls.records == RecordSizes::Fixed(largest)
        };
        let value = largest.to_string();
        self.change_unless(is_large, self.has_records(), "tls.records", &value)
    }

    /// Short records, whose bytes wait less for each other.
    fn short_records(&self) -> Changes {
        let is_short = match self.settings().tls.records {
            RecordSizes::Fixed(size) => size <= SHORT_RECORD,
            RecordSizes::Dynamic { .. } => false,
        };
        // The recipe wants this program's records large.
        let is_large = self.is_program() && self.asked(ProgramSetting::SmallRecords) == Some(0);
        let is_known = self.has_records() && !is_large;
        let value = SHORT_RECORD.to_string();
        self.change_unless(is_short, is_known, "tls.records", &value)
    }

    fn header_table(&self) -> Changes {
        let own = self.settings().http2.header_table_size;
        let current = self.current(own, ProgramSetting::HeaderTableSize, USUAL_TABLE);
        let wanted = current.max(USUAL_TABLE).saturating_mul(LIMIT_GROWTH.into());
        self.larger_in_http2(
            "http2.header_table_size",
            current,
            wanted.min(TABLE_AT_MOST),
        )
    }

    fn data_size(&self) -> Changes {
        let own = self.settings().http2.data_size;
        let current = self.current(own, ProgramSetting::DataSize, 0);
        self.larger_in_http2("http2.data_size", current, FULL_DATA)
    }

    fn larger_in_http2(&self, key: &str, current: u64, wanted: u64) -> Changes {
        if self.version() != Version::Http2 {
            return Changes::InWords;
        }
        let larger = self.larger(key, current, wanted);
        Changes::of(larger.into_iter().collect(), Changes::InForce)
    }

    /// Has the kernel size a TCP buffer; `is_set` is whether the recipe sizes it now. A program may size its own.
    fn buffer_of_kernel(&self, key: &str, is_set: bool) -> Changes {
        let is_known = self.has_tcp() && (is_set || !self.is_program());
        self.change_unless(!is_set, is_known, key, "kernel")
    }

    /// Has the kernel size QUIC's receive buffer; if it does already, has the peer pace its datagrams.
    fn datagram_buffers(&self) -> Changes {
        if self.is_tcp() || self.is_program() {
            return Changes::InWords;
        }
        if self.settings().http3.receive_buffer.is_some() {
            return Changes::Settings(vec![self.change("http3.receive_buffer", "kernel")]);
        }
        let peer = self.of_side(self.side.peer());
        let peer = peer.filter(|peer| !peer.is_program() && !peer.settings().http3.pacing);
        let pacing = peer.map(|peer| peer.change("http3.pacing", "true"));
        Changes::of(pacing.into_iter().collect(), Changes::InForce)
    }

    /// An active queue on the link; in force if the link has one before its schedule changes anything.
    fn queue_discipline(&self) -> Changes {
        if self.hop.across_link && has_active_queue(&self.link_settings(self.side)) {
            Changes::InForce
        } else {
            Changes::InWords
        }
    }

    /// The setting belongs to the host. If two links meet there, both hops get it.
    fn slow_start_after_idle(&self) -> Changes {
        let links: Vec<u8> = (self.trial.variant.link_hops())
            .map(|(number, _)| number)
            .collect();
        let at = links.iter().position(|number| *number == self.number);
        let beyond = at.and_then(|at| match self.side {
            Side::Client => at.checked_sub(1),
            Side::Server => Some(at + 1),
        });
        let beyond = beyond.and_then(|at| links.get(at));
        let beyond = beyond.and_then(|hop| HopSide::of(self.trial, *hop, self.side.peer()));
        let here = self.of_side(self.side);
        let on = here.into_iter().chain(beyond).filter(|place| {
            let setting = place.settings().tcp.slow_start_after_idle;
            place.is_across_tcp() && setting != Some(false)
        });
        let changes = on.map(|place| place.change("tcp.slow_start_after_idle", "false"));
        let otherwise = if self.is_across_tcp() {
            Changes::InForce
        } else {
            Changes::InWords
        };
        Changes::of(changes.collect(), otherwise)
    }

    fn congestion_control(&self) -> Changes {
        let SideSettings { http3, tcp, .. } = self.settings();
        if !self.is_tcp() {
            let is_bbr = http3.congestion_control == QuicCongestionControl::Bbr2;
            let is_known = !self.is_program();
            return self.change_unless(is_bbr, is_known, "http3.congestion_control", "bbr2");
        }
        let name = tcp.congestion_control.as_deref().unwrap_or_default();
        let is_bbr = name.starts_with("bbr");
        self.change_unless(is_bbr, self.has_tcp(), "tcp.congestion_control", "bbr")
    }

    fn pacing(&self) -> Changes {
        if self.is_tcp() {
            return self.congestion_control();
        }
        let is_paced = self.settings().http3.pacing;
        self.change_unless(is_paced, !self.is_program(), "http3.pacing", "true")
    }

    /// Lets the client use all ports of its host. Even then, fewer connections still help.
    fn ports(&self) -> Changes {
        let SideSettings { http3, tcp, .. } = self.settings();
        let (key, ports) = if self.is_tcp() {
            ("tcp.local_ports", tcp.local_ports)
        } else {
            ("http3.local_ports", http3.local_ports)
        };
        let is_limited = ports.is_some() && self.side == Side::Client && !self.is_program();
        self.change_unless(false, is_limited, key, "kernel")
    }
}

/// Whether a queue among the settings of a link, such as `rate 20mbit, queue codel target 5ms`, manages its length actively
/// (RFC 7567).
fn has_active_queue(settings: &str) -> bool {
    let mut settings = settings.split(", ");
    let queue = settings.find_map(|setting| setting.strip_prefix("queue "));
    let discipline = queue.and_then(|queue| queue.split(' ').next());
    discipline.is_some_and(|name| ["codel", "fq-codel", "pie", "red"].contains(&name))
}

/// The rate among the settings of a link's direction, such as `rate 20mbit, queue codel`.
fn rate(settings: &str) -> Option<BitRate> {
    let mut settings = settings.split(", ");
    let rate = settings.find_map(|setting| setting.strip_prefix("rate "))?;
    rate.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests;

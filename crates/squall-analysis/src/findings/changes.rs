//! A fix as settings of a recipe, with values, so that a run can try it.
//!
//! `knob` names the same fix in words. A setting that already has the value is not changed. Fixes that are no setting of a
//! recipe, such as another protocol or a faster reader, have words only; so have settings of programs that recipes cannot
//! give them. Whether a change can be applied is squall-recipe's decision.

use squall_base::plan::{
    Connections, Hop, Implementation, ProgramSetting, QuicCongestionControl, RecordSizes,
    SettingChange, Side, SideSettings, Station, Trial, Version, WindowUpdates,
};
use squall_base::{BitRate, Bytes};

use super::knob::Knob;

/// The largest window that is proposed: a power of two below the protocol's limit of 2^31-1.
const WINDOW_AT_MOST: u64 = 1 << 30;
/// The window of a program that the recipe gives none: HTTP/2's initial window.
const USUAL_WINDOW: u64 = 65_535;
/// A window was used up although it may fill the path, for example because a queue lengthens the round trip: it grows at
/// least this much. A judgement.
const WINDOW_GROWTH: u64 = 4;
/// How much a window grows if the path's rate is not known. A judgement.
const WINDOW_GROWTH_WITHOUT_RATE: u64 = 16;
/// How much limits of streams, connections and tables grow. A judgement.
const LIMIT_GROWTH: u32 = 4;
/// More than the load of a trial sends on a connection, for programs that know no "never".
const MANY_REQUESTS: u64 = 1_000_000;
/// Streams for a program whose own limit is not known.
const MANY_STREAMS: u64 = 4_096;
/// The most connections that are proposed, as in a recipe.
const CONNECTIONS_AT_MOST: u32 = 60_000;
/// The largest count of a recipe.
const COUNT_AT_MOST: u32 = (1 << 31) - 1;
/// The dynamic table that HTTP/2 begins with (RFC 9113, section 6.5.2).
const USUAL_TABLE: u64 = 4_096;
/// The largest dynamic table that is proposed.
const TABLE_AT_MOST: u64 = 1 << 20;
/// The size of a full DATA frame, unless the peer accepts larger ones (RFC 9113, section 4.2).
const FULL_DATA: u64 = 16_384;
/// A record of this size arrives in three segments, so that its bytes wait little for each other.
const SHORT_RECORD: Bytes = Bytes::new(4_096);

/// The fix as settings; empty if it cannot be expressed, or is in force already. Hops count from 1.
pub(super) fn changes(trial: &Trial, hop: u8, side: Side, knob: Knob) -> Vec<SettingChange> {
    let Some(place) = Place::of(trial, hop, side) else {
        return Vec::new();
    };
    match knob {
        Knob::StreamWindow => place.stream_window(),
        Knob::ConnectionWindow => place.connection_window(),
        Knob::WindowUpdates => place.window_updates(|updates| updates != WindowUpdates::Half),
        Knob::Reader => place.window_updates(|updates| updates == WindowUpdates::Never),
        Knob::MaxStreams => place.max_streams(),
        Knob::RespectLimits => place.respected_streams(),
        Knob::RequestsPerConnection => place.requests_per_connection(),
        Knob::Connections => place.more_connections_on_demand(),
        Knob::Resumption => place.resumption(),
        Knob::RecordSize => place.records(RecordSizes::LARGEST),
        Knob::HeaderTable => place.header_table(),
        Knob::DataSize => place.data_size(),
        Knob::NoDelay => {
            let is_delayed = !place.settings().tcp.no_delay && !place.is_program();
            place.change_if(is_delayed && place.is_tcp(), "tcp.no_delay", "true")
        }
        Knob::ReceiveBuffer => {
            let is_set = place.settings().tcp.receive_buffer.is_some();
            place.change_if(is_set && place.has_tcp(), "tcp.receive_buffer", "kernel")
        }
        Knob::SendBuffer => {
            let is_set = place.settings().tcp.send_buffer.is_some();
            place.change_if(is_set && place.has_tcp(), "tcp.send_buffer", "kernel")
        }
        Knob::SlowStartAfterIdle => place.slow_start_after_idle(),
        Knob::CongestionControl => place.congestion_control(),
        Knob::Pacing => place.pacing(),
        Knob::Ports => place.ports(),
        Knob::DatagramBuffers => {
            let is_set = place.settings().http3.receive_buffer.is_some() && !place.is_program();
            place.change_if(is_set && !place.is_tcp(), "http3.receive_buffer", "kernel")
        }
        // `single_connection` knows how many.
        Knob::MoreConnections
        // No settings of a recipe, or none with a value that suits every trial.
        | Knob::Reordering
        | Knob::OtherProtocol
        | Knob::KeepInFlight
        | Knob::Backlog
        | Knob::QueueDiscipline
        | Knob::Load => Vec::new(),
    }
}

/// About this many connections in place of a smaller fixed number; empty if the client does not have a fixed number.
pub(super) fn more_connections(trial: &Trial, hop: u8, needed: f64) -> Vec<SettingChange> {
    let Some(place) = Place::of(trial, hop, Side::Client) else {
        return Vec::new();
    };
    // More would be another experiment. A judgement.
    let wanted = needed.round().clamp(2.0, 64.0) as u32;
    let is_more = matches!(place.hop.connections, Connections::Fixed(count) if count < wanted);
    place.change_if(
        is_more && !place.is_program(),
        "connections",
        &wanted.to_string(),
    )
}

/// Records whose bytes wait less for each other.
pub(super) fn short_records(trial: &Trial, hop: u8, side: Side) -> Vec<SettingChange> {
    let place = Place::of(trial, hop, side);
    let place = place.filter(|place| match place.settings().tls.records {
        RecordSizes::Fixed(size) => size > SHORT_RECORD,
        RecordSizes::Dynamic { .. } => true,
    });
    place.map_or_else(Vec::new, |place| place.records(SHORT_RECORD))
}

/// One side of a hop of a trial.
struct Place<'a> {
    trial: &'a Trial,
    /// The hop's number, from 1.
    number: u8,
    hop: &'a Hop,
    side: Side,
    station: &'a Station,
}

impl<'a> Place<'a> {
    fn of(trial: &'a Trial, number: u8, side: Side) -> Option<Place<'a>> {
        let index = usize::from(number).checked_sub(1)?;
        let variant = &trial.variant;
        Some(Place {
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

    fn of_side(&self, side: Side) -> Option<Place<'a>> {
        Place::of(self.trial, self.number, side)
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

    /// The size in force there: our own stations', or what the recipe gives the program, otherwise its usual one.
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

    fn change_if(&self, is_needed: bool, setting: &str, value: &str) -> Vec<SettingChange> {
        let changes = is_needed.then(|| self.change(setting, value));
        changes.into_iter().collect()
    }

    /// A larger size in place of `current`; nothing if it would not be larger.
    fn larger(&self, setting: &str, current: u64, wanted: u64) -> Option<SettingChange> {
        (wanted > current).then(|| self.change(setting, &Bytes::new(wanted).to_string()))
    }

    /// The window that lets the peer fill the path: twice what the path holds, or many times `current` if its rate is not
    /// known.
    fn window_beyond(&self, current: u64) -> u64 {
        let link = (self.trial.variant).links_before(usize::from(self.number) - 1);
        let condition = self.trial.condition.of_link(link);
        let wanted = match rate(condition.link.of(self.side.peer().sends())) {
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
    fn stream_window(&self) -> Vec<SettingChange> {
        let Some([(stream_key, stream), (connection_key, connection)]) = self.windows() else {
            return Vec::new();
        };
        let window = self.window_beyond(stream);
        let of_stream = self.larger(stream_key, stream, window);
        // A program has a connection window of its own unless the recipe gives it one.
        let is_known = !self.is_program() || self.asked(ProgramSetting::ConnectionWindow).is_some();
        let of_connection = self.larger(connection_key, connection, window);
        let of_connection = of_connection.filter(|_| is_known && of_stream.is_some());
        of_stream.into_iter().chain(of_connection).collect()
    }

    /// A larger window for the connection, and for streams if one alone used it up.
    fn connection_window(&self) -> Vec<SettingChange> {
        let Some([(stream_key, stream), (connection_key, connection)]) = self.windows() else {
            return Vec::new();
        };
        let window = self.window_beyond(connection);
        let of_connection = self.larger(connection_key, connection, window);
        let is_alone = !self.is_program() && stream >= connection && of_connection.is_some();
        let of_stream = self.larger(stream_key, stream, window);
        let of_stream = of_stream.filter(|_| is_alone);
        of_connection.into_iter().chain(of_stream).collect()
    }

    fn window_updates(&self, is_at_fault: fn(WindowUpdates) -> bool) -> Vec<SettingChange> {
        let is_needed = self.version() == Version::Http2
            && !self.is_program()
            && is_at_fault(self.settings().http2.window_updates);
        self.change_if(is_needed, "http2.window_updates", "half")
    }

    /// More streams on a connection: the client's own limit, or the server's.
    fn max_streams(&self) -> Vec<SettingChange> {
        let grown = |limit: u32| limit.saturating_mul(LIMIT_GROWTH).min(COUNT_AT_MOST);
        if self.side == Side::Client {
            let limit = self.hop.pool.streams_at_most.map(grown);
            let limit = limit.map(|limit| self.change("pool.streams_at_most", &limit.to_string()));
            return limit.into_iter().collect();
        }
        let SideSettings { http2, http3, .. } = self.settings();
        let (key, limit) = match self.version() {
            Version::Http1 => return Vec::new(),
            Version::Http2 => ("http2.max_concurrent_streams", http2.max_concurrent_streams),
            Version::Http3 => ("http3.max_concurrent_streams", http3.max_concurrent_streams),
        };
        let asked = self.asked(ProgramSetting::MaxConcurrentStreams);
        let wanted = if self.is_program() {
            asked.map_or(MANY_STREAMS, |limit| {
                limit.saturating_mul(LIMIT_GROWTH.into())
            })
        } else {
            grown(limit).into()
        };
        vec![self.change(key, &wanted.min(COUNT_AT_MOST.into()).to_string())]
    }

    /// A client that assumes the limit that the server announces.
    fn respected_streams(&self) -> Vec<SettingChange> {
        let assumed = self.hop.client.http2.max_concurrent_streams;
        let limit = self.hop.server.http2.max_concurrent_streams;
        let server = self.of_side(Side::Server);
        let is_known = server.is_some_and(|server| !server.is_program());
        let is_needed = self.version() == Version::Http2
            && self.side == Side::Client
            && !self.is_program()
            && is_known
            && assumed > limit;
        self.change_if(
            is_needed,
            "http2.max_concurrent_streams",
            &limit.to_string(),
        )
    }

    /// Connections that neither side ends after some requests.
    fn requests_per_connection(&self) -> Vec<SettingChange> {
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
        limits.into_iter().filter_map(change).collect()
    }

    /// More connections of a client that is at its limit.
    fn more_connections_on_demand(&self) -> Vec<SettingChange> {
        let grown = |limit: u32| limit.saturating_mul(LIMIT_GROWTH).min(CONNECTIONS_AT_MOST);
        let (key, limit) = match self.hop.connections {
            Connections::OnDemand { at_most } => ("connections.at_most", at_most),
            Connections::Fixed(count) => ("connections", count),
        };
        let is_more = grown(limit) > limit && !self.is_program();
        self.change_if(is_more, key, &grown(limit).to_string())
    }

    /// Resumption needs both sides.
    fn resumption(&self) -> Vec<SettingChange> {
        let sides = Side::ALL.into_iter().filter_map(|side| self.of_side(side));
        let lacking = sides.filter(|it| !it.is_program() && !it.settings().tls.resumption);
        lacking
            .map(|it| it.change("tls.resumption", "true"))
            .collect()
    }

    fn records(&self, size: Bytes) -> Vec<SettingChange> {
        let is_other = self.settings().tls.records != RecordSizes::Fixed(size);
        let has_records = self.is_tcp() && self.hop.protocol.is_secure();
        // A program's records are known only if the recipe sets them: 0 bytes in small ones.
        let is_set = self.is_program() && self.asked(ProgramSetting::SmallRecords) == Some(0);
        let is_needed = has_records && !is_set && (is_other || self.is_program());
        self.change_if(is_needed, "tls.records", &size.to_string())
    }

    fn header_table(&self) -> Vec<SettingChange> {
        let own = self.settings().http2.header_table_size;
        let current = self.current(own, ProgramSetting::HeaderTableSize, USUAL_TABLE);
        let wanted = current.max(USUAL_TABLE).saturating_mul(LIMIT_GROWTH.into());
        self.larger_in_http2(
            "http2.header_table_size",
            current,
            wanted.min(TABLE_AT_MOST),
        )
    }

    fn data_size(&self) -> Vec<SettingChange> {
        let own = self.settings().http2.data_size;
        let current = self.current(own, ProgramSetting::DataSize, 0);
        self.larger_in_http2("http2.data_size", current, FULL_DATA)
    }

    fn larger_in_http2(&self, key: &str, current: u64, wanted: u64) -> Vec<SettingChange> {
        let larger = self.larger(key, current, wanted);
        let larger = larger.filter(|_| self.version() == Version::Http2);
        larger.into_iter().collect()
    }

    /// The setting belongs to the host: where two links meet in it, both hops get it.
    fn slow_start_after_idle(&self) -> Vec<SettingChange> {
        let is_on = |place: &Place<'_>| {
            let tcp = &place.settings().tcp;
            place.hop.across_link && place.is_tcp() && tcp.slow_start_after_idle != Some(false)
        };
        let links: Vec<u8> = (self.trial.variant.link_hops())
            .map(|(number, _)| number)
            .collect();
        let at = links.iter().position(|number| *number == self.number);
        let beyond = at.and_then(|at| match self.side {
            Side::Client => at.checked_sub(1),
            Side::Server => Some(at + 1),
        });
        let beyond = beyond.and_then(|at| links.get(at));
        let beyond = beyond.and_then(|hop| Place::of(self.trial, *hop, self.side.peer()));
        let here = self.of_side(self.side);
        let places = here.into_iter().chain(beyond).filter(is_on);
        places
            .map(|place| place.change("tcp.slow_start_after_idle", "false"))
            .collect()
    }

    fn congestion_control(&self) -> Vec<SettingChange> {
        let SideSettings { http3, tcp, .. } = self.settings();
        if !self.is_tcp() {
            let is_other = http3.congestion_control != QuicCongestionControl::Bbr2;
            let is_needed = is_other && !self.is_program();
            return self.change_if(is_needed, "http3.congestion_control", "bbr2");
        }
        let name = tcp.congestion_control.as_deref().unwrap_or_default();
        let is_needed = self.has_tcp() && !name.starts_with("bbr");
        self.change_if(is_needed, "tcp.congestion_control", "bbr")
    }

    fn pacing(&self) -> Vec<SettingChange> {
        if self.is_tcp() {
            return self.congestion_control();
        }
        let is_needed = !self.settings().http3.pacing && !self.is_program();
        self.change_if(is_needed, "http3.pacing", "true")
    }

    fn ports(&self) -> Vec<SettingChange> {
        let SideSettings { http3, tcp, .. } = self.settings();
        let (key, ports) = if self.is_tcp() {
            ("tcp.local_ports", tcp.local_ports)
        } else {
            ("http3.local_ports", http3.local_ports)
        };
        let is_limited = ports.is_some() && self.side == Side::Client && !self.is_program();
        self.change_if(is_limited, key, "kernel")
    }
}

/// The rate among the settings of a link's direction, such as `rate 20mbit, queue codel`.
fn rate(settings: &str) -> Option<BitRate> {
    let mut settings = settings.split(", ");
    let rate = settings.find_map(|setting| setting.strip_prefix("rate "))?;
    rate.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use squall_base::Duration;
    use squall_base::plan::{Protocol, StationOptions, StationSetting};

    use super::super::made;
    use super::*;

    fn trial(protocol: Protocol) -> Trial {
        made::trial(protocol).trial
    }

    /// The changes as `hop side setting = value`.
    fn words(changes: &[SettingChange]) -> Vec<String> {
        let word = |it: &SettingChange| format!("{} {} {it}", it.hop, it.side.name());
        changes.iter().map(word).collect()
    }

    #[test]
    fn window_that_fills_the_path_is_proposed_for_stream_and_connection() {
        let mut trial = trial(Protocol::H2);
        let at = |trial: &Trial| words(&changes(trial, 1, Side::Client, Knob::StreamWindow));
        // No rate is known: sixteen times as much.
        assert_eq!(
            at(&trial),
            [
                "1 client http2.stream_window = 1MiB",
                "1 client http2.connection_window = 1MiB"
            ]
        );
        // 200 Mbit/s over a round trip of 50 ms are 1.25 MB.
        trial.condition.link = "rate 200mbit, queue 1MiB".to_owned().into();
        assert_eq!(at(&trial)[0], "1 client http2.stream_window = 4MiB");
        // A connection window that does not limit the stream stays.
        trial.variant.hops[0].client.http2.connection_window = Bytes::new(1 << 24);
        assert_eq!(at(&trial), ["1 client http2.stream_window = 4MiB"]);
        // Nothing larger is proposed than the protocols allow.
        trial.variant.hops[0].client.http2.stream_window = Bytes::new((1 << 31) - 1);
        assert!(at(&trial).is_empty());
    }

    #[test]
    fn settings_in_force_are_not_proposed() {
        let trial = trial(Protocol::H2);
        for knob in [
            Knob::WindowUpdates,
            Knob::Resumption,
            Knob::RecordSize,
            Knob::NoDelay,
            Knob::DataSize,
            Knob::ReceiveBuffer,
            Knob::SendBuffer,
            Knob::RequestsPerConnection,
            Knob::Ports,
        ] {
            for side in Side::ALL {
                assert_eq!(changes(&trial, 1, side, knob), [], "{knob:?}");
            }
        }
    }

    #[test]
    fn resumption_is_turned_on_wherever_it_is_off() {
        let mut trial = trial(Protocol::H2);
        trial.variant.hops[0].client.tls.resumption = false;
        trial.variant.hops[0].server.tls.resumption = false;
        let found = changes(&trial, 1, Side::Server, Knob::Resumption);
        assert_eq!(
            words(&found),
            [
                "1 client tls.resumption = true",
                "1 server tls.resumption = true"
            ]
        );
    }

    #[test]
    fn programs_get_only_what_recipes_can_give_them() {
        let mut trial = trial(Protocol::H2);
        trial.variant.stations[1].runs = Implementation::Program {
            program: "nginx".to_owned(),
        };
        let of = |trial: &Trial, knob| words(&changes(trial, 1, Side::Server, knob));
        assert_eq!(
            of(&trial, Knob::StreamWindow),
            ["1 server http2.stream_window = 1MiB"]
        );
        assert!(of(&trial, Knob::NoDelay).is_empty());
        assert_eq!(
            of(&trial, Knob::SlowStartAfterIdle),
            ["1 server tcp.slow_start_after_idle = false"],
            "its host has it"
        );
        trial.variant.stations[1].asked = StationOptions {
            settings: vec![StationSetting {
                side: Side::Server,
                setting: ProgramSetting::MaxConcurrentStreams,
                value: 10,
            }],
            ..StationOptions::default()
        };
        assert_eq!(
            of(&trial, Knob::MaxStreams),
            ["1 server http2.max_concurrent_streams = 40"]
        );
    }

    #[test]
    fn limits_of_connections_and_records_grow_or_shrink() {
        let mut trial = trial(Protocol::H1s);
        trial.variant.hops[0].connections = Connections::OnDemand { at_most: 6 };
        let found = changes(&trial, 1, Side::Client, Knob::Connections);
        assert_eq!(words(&found), ["1 client connections.at_most = 24"]);
        assert_eq!(more_connections(&trial, 1, 5.2), [], "not a fixed number");
        trial.variant.hops[0].connections = Connections::Fixed(1);
        let found = more_connections(&trial, 1, 5.2);
        assert_eq!(words(&found), ["1 client connections = 5"]);
        let found = short_records(&trial, 1, Side::Server);
        assert_eq!(words(&found), ["1 server tls.records = 4KiB"]);
        trial.variant.hops[0].server.tls.records = RecordSizes::Dynamic {
            small: Bytes::new(1_300),
            warmup: Bytes::new(1 << 20),
            idle: Duration::from_secs(1),
        };
        let found = changes(&trial, 1, Side::Server, Knob::RecordSize);
        assert_eq!(words(&found), ["1 server tls.records = 16KiB"]);
    }

    #[test]
    fn rates_are_read_from_the_links_settings() {
        let rate = |text| super::rate(text).map(BitRate::bits_per_s);
        assert_eq!(rate("queue codel, rate 2mbit bucket 32kB"), Some(2_000_000));
        assert_eq!(rate("rate unlimited"), None);
        assert_eq!(rate(""), None);
    }
}

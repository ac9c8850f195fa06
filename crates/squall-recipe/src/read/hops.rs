//! The hops of a variant: connections and settings of both sides of each.
//!
//! Keys of the variant itself apply to all hops (`http1` to `tcp`, `congestion_control`), to the client's hop
//! (`connections`, `pool`, `client`) or to the server's (`server`). A table `hop.N`, N from 1, applies to that hop and
//! overrides them. Both override the defaults and the presets of embedded stations.
//!
//! The settings themselves are read in `side`, those of programs in `program`, connections in `pool`.

use squall_base::Duration;
use squall_base::plan::{
    Connections, Hop, Implementation, PoolSettings, Protocol, Side, SideSettings, Variant,
    find_preset,
};

use super::effect::{self, Applier, HopEnd};
use super::load::OwnConnections;
use super::pool::Pool;
use super::program::{self, ProgramSettings};
use super::side;
use crate::conflict::{self, Disagreement};
use crate::error::Mistake;
use crate::path::{Layout, LayoutStation, StationDefinition};
use crate::presets::PROXY_DELAYS;
use crate::problems::ReportedProblem;
use crate::section::{Field, Section};
use crate::shapes;
use crate::stations::StationMode;

/// Values that all variants share.
pub(super) struct VariantContext<'u> {
    pub(super) congestion_control: Result<String, ReportedProblem>,
    /// The recipe's own stations.
    pub(super) own_stations: &'u [(String, StationDefinition)],
    /// Whether programs run, or our own stations stand in for them.
    pub(super) station_mode: StationMode,
    /// How many connections each user may have for itself; `None` if users share all connections.
    pub(super) own_connections: Option<OwnConnections>,
}

/// The hops of a variant, and the settings of its stations.
#[derive(Default)]
pub(super) struct VariantHops {
    pub(super) hops: Vec<Hop>,
    /// The settings that the program at each station receives.
    pub(super) program_settings: Vec<ProgramSettings>,
    /// How long each station holds back the head of a response; zero except for our own proxies.
    pub(super) proxy_delays: Vec<Duration>,
}

/// Reads the hops of a path. Without a path it only reports mistakes.
pub(super) fn read(
    variant: &Section<'_>,
    layout: Option<&Layout>,
    context: &VariantContext<'_>,
) -> Result<VariantHops, ReportedProblem> {
    let protocols: Vec<Protocol> = layout.map_or_else(Vec::new, |layout| {
        layout.hops.iter().map(|&(protocol, _)| protocol).collect()
    });
    let first: Vec<Protocol> = protocols.first().copied().into_iter().collect();
    let last: Vec<Protocol> = protocols.last().copied().into_iter().collect();
    let ends = layout.map_or_else(Vec::new, |layout| ends(layout, context.station_mode));
    let both = common(variant, &protocols, &ends.concat(), context);
    // The tables are read even if the path is wrong, so that mistakes in them are reported.
    let tables = hop_tables(variant, layout);
    let fallback = SideSettings::default();
    let base = both.as_ref().unwrap_or(&fallback);
    let server_base = server_base(base, layout, context.station_mode);
    let client = side::read(variant, Side::Client, &first, base);
    let server = side::read(variant, Side::Server, &last, &server_base);
    let pool = Pool::read(variant, &first);
    let tables = tables?;
    let (both, client, server) = (both?, client?, server?);
    let Some(layout) = layout else {
        return Ok(VariantHops::default());
    };
    let mut pool = Some(pool);
    let mut hops = Vec::new();
    let program_settings = read_program_settings(variant, layout, &tables, &ends)?;
    let proxy_delays = read_proxy_delays(layout, &tables, &ends)?;
    for (place, &(protocol, across_link)) in layout.hops.iter().enumerate() {
        let [near, far] = [place, place + 1].map(|place| &layout.stations[place]);
        let table = tables[place].as_ref();
        let mut sides = HopSettings {
            client: with_preset(&both, near, Side::Client, context.station_mode),
            server: with_preset(&both, far, Side::Server, context.station_mode),
        };
        if place == 0 && variant.field("client").is_some() {
            sides.client = client.clone();
        }
        if place + 1 == layout.hops.len() && variant.field("server").is_some() {
            sides.server = server.clone();
        }
        if let Some(table) = table {
            sides = sides.overridden_by(table, protocol)?;
        }
        for (side, settings) in [(Side::Client, &sides.client), (Side::Server, &sides.server)] {
            let blamed = table
                .filter(|table| side::has_settings_of(table, side))
                .unwrap_or(variant);
            side::check(blamed, side, protocol, settings)?;
        }
        let (connections, pool) = hop_pool(variant, table, place, protocol, pool.take(), context)?;
        hops.push(Hop {
            protocol,
            across_link,
            connections,
            pool,
            client: sides.client,
            server: sides.server,
        });
    }
    Ok(VariantHops {
        hops,
        program_settings,
        proxy_delays,
    })
}

/// The connections of the hop at `place`, and how they are used: by the hop's own table, by the variant (`variant_pool`,
/// which the first hop gets), or by default.
fn hop_pool<'d>(
    variant: &Section<'d>,
    table: Option<&Section<'d>>,
    place: usize,
    protocol: Protocol,
    variant_pool: Option<Result<Pool, ReportedProblem>>,
    context: &VariantContext<'_>,
) -> Result<(Connections, PoolSettings), ReportedProblem> {
    let own_pool = table.filter(|table| Pool::is_in(table));
    let (pool, blamed) = match (own_pool, variant_pool) {
        (Some(table), _) if place == 0 => (Pool::read(table, &[protocol])?, table),
        (Some(table), _) => (Pool::read_of_proxy(table, protocol)?, table),
        (None, Some(pool)) => (pool?, variant),
        (None, None) => (Pool::of_proxy(protocol), variant),
    };
    match context.own_connections.filter(|_| place == 0) {
        Some(own) => pool.into_user_settings(blamed, protocol, own),
        None => pool.into_settings(blamed, protocol),
    }
}

/// Refuses host settings that differ between two links that share a host.
pub(super) fn check_shared_hosts(
    section: &Section<'_>,
    variant: &Variant,
) -> Result<(), ReportedProblem> {
    let Some(Disagreement {
        key,
        before,
        behind,
    }) = conflict::shared_hosts(variant)
    else {
        return Ok(());
    };
    let mistake = Mistake::SharedHost {
        key,
        before,
        behind,
    };
    let expected = format!(
        "the same value in `server` of hop {before} and in `client` of hop {behind}: it applies to the whole host"
    );
    Err(section.refuse(mistake, &expected))
}

/// Reads `proxy_delay` of each hop's table, which applies to the proxy that the hop leads to.
fn read_proxy_delays(
    layout: &Layout,
    tables: &[Option<Section<'_>>],
    ends: &[[HopEnd; 2]],
) -> Result<Vec<Duration>, ReportedProblem> {
    let mut delays = vec![Duration::ZERO; layout.stations.len()];
    for (place, table) in tables.iter().enumerate() {
        let Some(field) = table.as_ref().and_then(|table| table.field("proxy_delay")) else {
            continue;
        };
        let station_index = place + 1;
        let station = &layout.stations[station_index];
        if ends[place][1].applier != Applier::Embedded || station_index + 1 == layout.stations.len()
        {
            let mistake = Mistake::NoProxy {
                key: field.key.to_owned(),
                station: station.name.clone(),
            };
            return Err(field.refuse_key(mistake, PROXIES));
        }
        delays[station_index] = field.within(&PROXY_DELAYS, "0ms to 10s")?;
    }
    Ok(delays)
}

const PROXIES: &str =
    "it on a hop that leads to a proxy of squall's own; its server waits by `/?delay=20ms`";

/// The settings that `server` of a variant overrides; the path may name a preset for its last station.
fn server_base(
    base: &SideSettings,
    layout: Option<&Layout>,
    station_mode: StationMode,
) -> SideSettings {
    match layout.and_then(|layout| layout.stations.last()) {
        Some(station) => with_preset(base, station, Side::Server, station_mode),
        None => base.clone(),
    }
}

/// Both sides of each hop, as settings apply to them.
fn ends(layout: &Layout, station_mode: StationMode) -> Vec<[HopEnd; 2]> {
    let hops = layout.hops.iter().enumerate();
    hops.map(|(place, &(protocol, across_link))| {
        [(Side::Client, place), (Side::Server, place + 1)].map(|(side, station_index)| HopEnd {
            protocol,
            side,
            across_link,
            is_proxy: station_index > 0 && station_index + 1 < layout.stations.len(),
            applier: match (station_mode, &layout.stations[station_index].runs) {
                (StationMode::Embedded, _) | (_, Implementation::Embedded) => Applier::Embedded,
                (StationMode::Real, Implementation::Program { .. } | Implementation::Own(_)) => {
                    Applier::Host
                }
            },
        })
    })
    .collect()
}

/// The settings of each program. Keys that would have no effect are refused.
fn read_program_settings(
    variant: &Section<'_>,
    layout: &Layout,
    tables: &[Option<Section<'_>>],
    ends: &[[HopEnd; 2]],
) -> Result<Vec<ProgramSettings>, ReportedProblem> {
    let mut program_settings = vec![ProgramSettings::new(); layout.stations.len()];
    for (place, ends) in ends.iter().enumerate() {
        let table = tables[place].as_ref();
        let is_outer = [place == 0, place + 1 == layout.hops.len()];
        for (index, &end) in ends.iter().enumerate() {
            let outer = Some(variant).filter(|_| is_outer[index]);
            let station_index = place + index;
            for section in outer.into_iter().chain(table) {
                let station = &layout.stations[station_index];
                read_program_side(section, station, end, &mut program_settings[station_index])?;
            }
        }
        if let Some(table) = table {
            effect::check(table, ends)?;
        }
    }
    Ok(program_settings)
}

/// Reads the settings of a program from the table `client` or `server` in a variant or in a hop's table. For one of our own
/// stations, only refuses the keys that the station would ignore.
fn read_program_side(
    section: &Section<'_>,
    station: &LayoutStation,
    end: HopEnd,
    program_settings: &mut ProgramSettings,
) -> Result<(), ReportedProblem> {
    if end.applier == Applier::Host {
        return program::read(section, station, end, program_settings);
    }
    let Some(field) = section.field(end.side.name()) else {
        return Ok(());
    };
    let table = field.section(&shapes::SIDE, &format!("`{}`", field.key))?;
    effect::check(&table, &[end])
}

struct HopSettings {
    client: SideSettings,
    server: SideSettings,
}

impl HopSettings {
    /// These settings as the hop's own table overrides them.
    fn overridden_by(
        mut self,
        table: &Section<'_>,
        protocol: Protocol,
    ) -> Result<HopSettings, ReportedProblem> {
        let protocols = [protocol];
        let read = [
            side::read_tables(table, &protocols, &mut self.client),
            side::read_tables(table, &protocols, &mut self.server),
        ];
        let client = side::read(table, Side::Client, &protocols, &self.client);
        let server = side::read(table, Side::Server, &protocols, &self.server);
        read.into_iter().collect::<Result<(), _>>()?;
        Ok(HopSettings {
            client: client?,
            server: server?,
        })
    }
}

/// The variant's settings for all hops.
fn common(
    variant: &Section<'_>,
    protocols: &[Protocol],
    ends: &[HopEnd],
    context: &VariantContext<'_>,
) -> Result<SideSettings, ReportedProblem> {
    let own = variant.optional("congestion_control", |f| {
        let name = side::congestion_control(&f);
        side::refuse_unused(&f, "TCP", protocols, side::is_tcp)?;
        effect::check_congestion_control(&f, ends)?;
        name
    });
    let name = match own {
        Ok(Some(own)) => Ok(own),
        Ok(None) => context.congestion_control.clone(),
        Err(reported) => Err(reported),
    };
    let mut both = SideSettings::default();
    if let Ok(name) = &name {
        both.tcp.congestion_control = Some(name.clone());
    }
    let tables = side::read_tables(variant, protocols, &mut both);
    let unused = effect::check(variant, ends);
    name?;
    tables?;
    unused?;
    Ok(both)
}

/// The tables `hop.N`, in the order of the hops.
fn hop_tables<'d>(
    variant: &Section<'d>,
    layout: Option<&Layout>,
) -> Result<Vec<Option<Section<'d>>>, ReportedProblem> {
    let count = layout.map_or(usize::MAX, |layout| layout.hops.len());
    let mut tables: Vec<Option<Section<'d>>> = Vec::new();
    tables.resize_with(layout.map_or(0, |layout| layout.hops.len()), || None);
    let Some(field) = variant.field("hop") else {
        return Ok(tables);
    };
    for entry in field.entries("a table for each hop, such as [variant.hop.2]")? {
        let number = number_of(&entry, count)?;
        let table = entry.section(&shapes::HOP, &format!("`hop.{number}`"))?;
        if let Some(place) = tables.get_mut(number - 1) {
            *place = Some(table);
        }
    }
    Ok(tables)
}

fn number_of(entry: &Field<'_>, count: usize) -> Result<usize, ReportedProblem> {
    let number = entry.key.parse().ok();
    number
        .filter(|number| (1..=count).contains(number))
        .ok_or_else(|| {
            let mistake = Mistake::UnknownHop(entry.key.to_owned());
            let expected = match count {
                usize::MAX => "a number from 1, counted from the client".to_owned(),
                1 => "1: the path has one hop".to_owned(),
                _ => format!("1 to {count}, counted from the client"),
            };
            entry.refuse_key(mistake, &expected)
        })
}

/// The settings of an embedded station with a preset. Each table that the variant leaves at its default comes from the
/// preset; TCP always comes from the variant.
fn with_preset(
    both: &SideSettings,
    station: &LayoutStation,
    side: Side,
    station_mode: StationMode,
) -> SideSettings {
    let is_embedded =
        station_mode == StationMode::Embedded || station.runs == Implementation::Embedded;
    let preset = station.preset.as_deref().filter(|_| is_embedded);
    let Some(preset) = preset.and_then(|name| find_preset(name, side)) else {
        return both.clone();
    };
    let default = SideSettings::default();
    let mut settings = preset;
    settings.tcp.clone_from(&both.tcp);
    if both.http1 != default.http1 {
        settings.http1.clone_from(&both.http1);
    }
    if both.http2 != default.http2 {
        settings.http2.clone_from(&both.http2);
    }
    if both.http3 != default.http3 {
        settings.http3.clone_from(&both.http3);
    }
    if both.tls != default.tls {
        settings.tls.clone_from(&both.tls);
    }
    settings
}

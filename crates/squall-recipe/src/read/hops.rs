//! The hops of a variant: connections and settings of both sides of each.
//!
//! What stands in the variant itself is for all hops (`http1` to `tcp`, `congestion_control`), for the client's hop
//! (`connections`, `pool`, `client`) or for the server's (`server`). A table `hop.N`, N from 1, is for that hop and goes
//! over it. Below both are the defaults, and the presets of embedded stations.

use squall_base::Duration;
use squall_base::plan::{Hop, Protocol, Runs, Side, SideSettings, find_preset};

use super::heard::{self, Ear, End};
use super::pool::Pool;
use super::program::{self, Told};
use super::side;
use super::variant::Usual;
use crate::error::Mistake;
use crate::path::{Layout, Role};
use crate::problems::Reported;
use crate::section::{Field, Section};
use crate::settings;
use crate::shapes;
use crate::stations::Stations;

/// What a variant says of its hops.
#[derive(Default)]
pub(super) struct Read {
    pub(super) hops: Vec<Hop>,
    /// What the station of each place is told in its own words.
    pub(super) told: Vec<Told>,
    /// How long the station of each place, a proxy of our own, holds the head of a response.
    pub(super) delays: Vec<Duration>,
}

/// Reads the hops of a path; without one, only for the mistakes.
pub(super) fn read(
    variant: &Section<'_>,
    layout: Option<&Layout>,
    usual: &Usual<'_>,
) -> Result<Read, Reported> {
    let protocols: Vec<Protocol> = layout.map_or_else(Vec::new, |layout| {
        layout.hops.iter().map(|&(protocol, _)| protocol).collect()
    });
    let (first, last) = (
        protocols.first().into_iter().copied().collect::<Vec<_>>(),
        protocols.last().into_iter().copied().collect::<Vec<_>>(),
    );
    let ends = layout.map_or_else(Vec::new, |layout| ends(layout, usual.stations));
    let both = common(variant, &protocols, &ends.concat(), usual);
    // Read for the mistakes even if the path has some.
    let own = own_tables(variant, layout);
    let fallback = SideSettings::default();
    let base = both.as_ref().unwrap_or(&fallback);
    let of_server = of_server(base, layout, usual.stations);
    let client = side::read(variant, Side::Client, &first, base);
    let server = side::read(variant, Side::Server, &last, &of_server);
    let pool = Pool::read(variant, &first);
    let own = own?;
    let (both, client, server) = (both?, client?, server?);
    let Some(layout) = layout else {
        return Ok(Read::default());
    };
    let mut pool = Some(pool);
    let mut hops = Vec::new();
    let told = hear(variant, layout, &own, &ends)?;
    let delays = proxy_delays(layout, &own, &ends)?;
    for (place, &(protocol, across_link)) in layout.hops.iter().enumerate() {
        let [near, far] = [place, place + 1].map(|place| &layout.stations[place]);
        let table = own[place].as_ref();
        let mut sides = Sides {
            client: preset_over(&both, near, Side::Client, usual.stations),
            server: preset_over(&both, far, Side::Server, usual.stations),
        };
        if place == 0 && variant.field("client").is_some() {
            sides.client = client.clone();
        }
        if place + 1 == layout.hops.len() && variant.field("server").is_some() {
            sides.server = server.clone();
        }
        if let Some(table) = table {
            sides = sides.over(table, protocol)?;
        }
        for (side, settings) in [(Side::Client, &sides.client), (Side::Server, &sides.server)] {
            let blamed = table
                .filter(|table| side::touches(table, side))
                .unwrap_or(variant);
            side::check(blamed, side, protocol, settings)?;
        }
        let own_pool = table.filter(|table| Pool::is_in(table));
        let (pool, blamed) = match (own_pool, pool.take()) {
            (Some(table), _) => (Pool::read(table, &[protocol])?, table),
            (None, Some(pool)) => (pool?, variant),
            (None, None) => (Pool::of_proxy(protocol), variant),
        };
        let (connections, pool) = match usual.own_connections.filter(|_| place == 0) {
            Some(own) => pool.of_each_user(blamed, protocol, own)?,
            None => pool.over(blamed, protocol)?,
        };
        hops.push(Hop {
            protocol,
            across_link,
            connections,
            pool,
            client: sides.client,
            server: sides.server,
        });
    }
    Ok(Read { hops, told, delays })
}

/// Reads `proxy_delay` of each hop's table: that of the proxy to which the hop leads.
fn proxy_delays(
    layout: &Layout,
    own: &[Option<Section<'_>>],
    ends: &[[End; 2]],
) -> Result<Vec<Duration>, Reported> {
    let mut delays = vec![Duration::ZERO; layout.stations.len()];
    for (place, table) in own.iter().enumerate() {
        let Some(field) = table.as_ref().and_then(|table| table.field("proxy_delay")) else {
            continue;
        };
        let station = place + 1;
        let role = &layout.stations[station];
        if ends[place][1].ear != Ear::Ours || station + 1 == layout.stations.len() {
            let mistake = Mistake::NoProxy {
                key: field.key.to_owned(),
                station: role.name.clone(),
            };
            return Err(field.refuse_key(mistake, PROXIES));
        }
        delays[station] = field
            .quantity_in(&settings::PROXY_DELAYS, "0ms to 10s")?
            .value;
    }
    Ok(delays)
}

const PROXIES: &str =
    "it on a hop that leads to a proxy of squall's own; its server waits by `/?delay=20ms`";

/// What `server` of a variant goes over: the path may name a preset for its last station.
fn of_server(base: &SideSettings, layout: Option<&Layout>, stations: Stations) -> SideSettings {
    match layout.and_then(|layout| layout.stations.last()) {
        Some(role) => preset_over(base, role, Side::Server, stations),
        None => base.clone(),
    }
}

/// Both sides of each hop, as settings reach them.
fn ends(layout: &Layout, stations: Stations) -> Vec<[End; 2]> {
    let hops = layout.hops.iter().enumerate();
    hops.map(|(place, &(protocol, across_link))| {
        [(Side::Client, place), (Side::Server, place + 1)].map(|(side, station)| End {
            protocol,
            side,
            across_link,
            ear: match (stations, &layout.stations[station].runs) {
                (Stations::Embedded, _) | (_, Runs::Embedded) => Ear::Ours,
                (Stations::Real, Runs::Program { .. } | Runs::Own(_)) => Ear::Host,
            },
        })
    })
    .collect()
}

/// What each program is told, after what nobody would hear was refused.
fn hear(
    variant: &Section<'_>,
    layout: &Layout,
    own: &[Option<Section<'_>>],
    ends: &[[End; 2]],
) -> Result<Vec<Told>, Reported> {
    let mut told = vec![Told::new(); layout.stations.len()];
    for (place, ends) in ends.iter().enumerate() {
        let table = own[place].as_ref();
        let is_outer = [place == 0, place + 1 == layout.hops.len()];
        for (index, &end) in ends.iter().enumerate() {
            let outer = Some(variant).filter(|_| is_outer[index]);
            let station = place + index;
            for section in outer.into_iter().chain(table) {
                let role = &layout.stations[station];
                hear_side(section, role, end, &mut told[station])?;
            }
        }
        if let Some(table) = table {
            heard::check(table, ends)?;
        }
    }
    Ok(told)
}

/// Reads what a variant or a hop's table says in `client` or `server`, if a program is there, and else refuses what a
/// station of our own would not hear.
fn hear_side(
    section: &Section<'_>,
    role: &Role,
    end: End,
    told: &mut Told,
) -> Result<(), Reported> {
    if end.ear == Ear::Host {
        return program::read(section, role, end, told);
    }
    let Some(field) = section.field(side::key_of(end.side)) else {
        return Ok(());
    };
    let table = field.section(&shapes::SIDE, &format!("`{}`", field.key))?;
    heard::check(&table, &[end])
}

/// Settings of both sides of a hop.
struct Sides {
    client: SideSettings,
    server: SideSettings,
}

impl Sides {
    /// With what the hop's own table says.
    fn over(mut self, table: &Section<'_>, protocol: Protocol) -> Result<Sides, Reported> {
        let on = [protocol];
        let read = [
            side::tables(table, &on, &mut self.client),
            side::tables(table, &on, &mut self.server),
        ];
        let client = side::read(table, Side::Client, &on, &self.client);
        let server = side::read(table, Side::Server, &on, &self.server);
        read.into_iter().collect::<Result<(), _>>()?;
        Ok(Sides {
            client: client?,
            server: server?,
        })
    }
}

/// What the variant says for all hops.
fn common(
    variant: &Section<'_>,
    protocols: &[Protocol],
    ends: &[End],
    usual: &Usual<'_>,
) -> Result<SideSettings, Reported> {
    let own = variant.maybe("congestion_control", |f| {
        let name = side::congestion_control(&f);
        side::used(&f, "TCP", protocols, side::is_tcp)?;
        heard::check_congestion_control(&f, ends)?;
        name
    });
    let name = match own {
        Ok(Some(own)) => Ok(own),
        Ok(None) => usual.congestion_control.clone(),
        Err(reported) => Err(reported),
    };
    let mut both = SideSettings::default();
    if let Ok(name) = &name {
        both.tcp.congestion_control.clone_from(name);
    }
    let tables = side::tables(variant, protocols, &mut both);
    let heard = heard::check(variant, ends);
    name?;
    tables?;
    heard?;
    Ok(both)
}

/// The tables `hop.N`, in the order of the hops.
fn own_tables<'d>(
    variant: &Section<'d>,
    layout: Option<&Layout>,
) -> Result<Vec<Option<Section<'d>>>, Reported> {
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

fn number_of(entry: &Field<'_>, count: usize) -> Result<usize, Reported> {
    let number = entry.key.parse().ok();
    number
        .filter(|number| (1..=count).contains(number))
        .ok_or_else(|| {
            let mistake = Mistake::UnknownHop {
                found: entry.key.to_owned(),
            };
            let expected = match count {
                usize::MAX => "a number from 1, counted from the client".to_owned(),
                1 => "1: the path has one hop".to_owned(),
                _ => format!("1 to {count}, counted from the client"),
            };
            entry.refuse_key(mistake, &expected)
        })
}

/// The settings of an embedded station that stands for a program, under what the variant says itself: where the
/// variant keeps the default, the preset's value holds.
fn preset_over(both: &SideSettings, role: &Role, side: Side, stations: Stations) -> SideSettings {
    let is_embedded = stations == Stations::Embedded || role.runs == Runs::Embedded;
    let preset = role.preset.as_deref().filter(|_| is_embedded);
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

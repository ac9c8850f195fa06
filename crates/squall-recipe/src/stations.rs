//! Which stations of a path are programs, and which of them squall plays itself.
//!
//! What programs there are is in squall-base, how they are started in squall-peers.

use squall_base::plan::{Asked, Runs, Station};

use crate::path::Role;

/// What runs where a path names a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stations {
    /// That program.
    #[default]
    Real,
    /// A client, proxy or server of our own, with the settings of the program's preset.
    Embedded,
}

impl Stations {
    /// Its word on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Stations::Real => "real",
            Stations::Embedded => "embedded",
        }
    }
}

impl Role {
    /// The station of a plan, of which so much is asked: a program's part if it is one, else that of our own.
    pub(crate) fn into_station(self, stations: Stations, asked: Asked) -> Station {
        let runs = match (stations, self.runs) {
            (Stations::Embedded, _) => Runs::Embedded,
            (Stations::Real, runs) => runs,
        };
        Station {
            name: self.name,
            asked: match runs {
                Runs::Embedded => Asked {
                    proxy_delay: asked.proxy_delay,
                    ..Asked::default()
                },
                Runs::Program { .. } | Runs::Own(_) => asked,
            },
            runs,
        }
    }
}

//! Whether the programs on a path run, or our own stations stand in for them.
//!
//! squall-base lists the programs, squall-peers starts them.

use squall_base::plan::{Implementation, Station, StationOptions};

use crate::path::LayoutStation;

squall_base::words! {
    /// What runs where a path names a program.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum StationMode {
        /// That program.
        #[default]
        Real = "real",
        /// A client, proxy or server of our own, with the settings of the program's preset.
        Embedded = "embedded",
    }
}

impl LayoutStation {
    /// The station in the form of a plan. A program receives all of `asked`, one of our own stations only `proxy_delay`.
    pub(crate) fn into_station(self, station_mode: StationMode, asked: StationOptions) -> Station {
        let runs = match (station_mode, self.runs) {
            (StationMode::Embedded, _) => Implementation::Embedded,
            (StationMode::Real, runs) => runs,
        };
        Station {
            name: self.name,
            asked: match runs {
                Implementation::Embedded => StationOptions {
                    proxy_delay: asked.proxy_delay,
                    ..StationOptions::default()
                },
                Implementation::Program { .. } | Implementation::Own(_) => asked,
            },
            runs,
        }
    }
}

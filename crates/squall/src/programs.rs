//! Programs of somebody else's that recipes name: which they are, whether they are here, and whether they can do what a
//! path asks of them. This is asked before a run starts.
//!
//! How they run in a trial is `worker/programs`, what each can is squall-peers'.

use anyhow::{Context, Result, anyhow, bail};
use squall_base::plan::{Plan, Runs, Variant};
use squall_peers::client::{self, ClientDriver};
use squall_peers::{Driver, Found, GenericStation, RawStation, Search, driver};

/// The program of a station.
pub(crate) enum Program {
    /// One that squall knows.
    Known(&'static dyn Driver),
    /// One that the recipe describes.
    Own(Box<GenericStation>),
    /// A load generator.
    Client(&'static dyn ClientDriver),
}

/// The program of a station, if it has one.
pub(crate) fn of(name: &str, runs: &Runs) -> Result<Option<Program>> {
    Ok(match runs {
        Runs::Embedded => None,
        Runs::Program { program } => Some(match (driver(program), client::client(program)) {
            (Some(driver), _) => Program::Known(driver),
            (None, Some(client)) => Program::Client(client),
            (None, None) => bail!("station {name}: squall knows no program `{program}`"),
        }),
        Runs::Own(own) => {
            let station = GenericStation::check(&RawStation {
                name: name.to_owned(),
                command: own.command.clone(),
                configuration: own.configuration.clone(),
                ready: own.ready.clone(),
            })?;
            Some(Program::Own(Box::new(station)))
        }
    })
}

impl Program {
    /// The driver of a server or proxy.
    pub(crate) fn driver(&self) -> &dyn Driver {
        match self {
            Program::Known(driver) => *driver,
            Program::Own(station) => station.as_ref(),
            Program::Client(_) => unreachable!(
                "the recipe's reader has load generators at the beginning of paths only"
            ),
        }
    }

    /// The program itself, as it is on this machine.
    pub(crate) fn found(&self) -> Result<Found> {
        match self {
            Program::Client(client) => Ok(client.find(&Search::usual())?),
            Program::Known(_) | Program::Own(_) => {
                Ok(squall_peers::find(self.driver(), &Search::usual())?)
            }
        }
    }

    /// The load generator, as it is on this machine.
    pub(crate) fn client(&self) -> Result<(&'static dyn ClientDriver, Found)> {
        match self {
            Program::Client(client) => Ok((*client, client.find(&Search::usual())?)),
            Program::Known(_) | Program::Own(_) => {
                Err(anyhow!("a server cannot be a path's client"))
            }
        }
    }
}

/// Whether every program of a plan is here and can do its part. The first that cannot is told, with what it can.
pub(crate) fn check(plan: &Plan) -> Result<()> {
    for variant in &plan.variants {
        check_variant(variant).with_context(|| format!("variant {}", variant.name))?;
    }
    Ok(())
}

fn check_variant(variant: &Variant) -> Result<()> {
    for (place, station) in variant.stations.iter().enumerate() {
        let Some(program) = of(&station.name, &station.runs)? else {
            continue;
        };
        let found = program.found()?;
        if let Program::Client(_) = program {
            continue;
        }
        let front = variant.hops[place - 1].protocol;
        let upstream = variant.hops.get(place).map(|hop| hop.protocol);
        let driver = program.driver();
        driver.can(front, upstream)?;
        driver.version_can(&found.version, front, upstream)?;
    }
    Ok(())
}

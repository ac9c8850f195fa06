//! The load of a trial: the source of its requests, what triggers them, and for how long. A client's workload is made from it.
//!
//! Everything is decided here except the seed, which belongs to the trial. The requests themselves are in the plan's
//! list; a load refers to them by place. squall-recipe maps a recipe's keys to these values.

use serde::{Deserialize, Serialize};

use super::{
    ClosedLoad, Mix, OpenLoad, Page, PageLoad, Rounds, ScriptLoad, ScriptStep, Spacing, Speed,
    Stage, Stages, StagesError, ThinkTime, Version, Warmup, Workload,
};
use crate::quantity::Rate;
use crate::splitmix::splitmix64;
use crate::time::Duration;

/// Separates the load's random numbers from the link's, which use the same seed.
const LOAD_SALT: u64 = u64::from_be_bytes(*b"the load");

/// The load of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// The source of the requests, and what triggers them.
    pub kind: LoadKind,
    /// Time before the measurement begins: its requests are recorded, but are not part of any statistic.
    pub warmup: Duration,
    /// Time that is measured.
    pub duration: Duration,
    /// How long to wait for unfinished requests after that; then they are censored.
    pub drain: Duration,
    /// How long before a due request the client stops sleeping and polls the clock; zero: it always sleeps.
    #[serde(default)]
    pub spin: Duration,
}

/// What triggers a client's requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadKind {
    /// The clock: requests are sent at their times, whatever happens to earlier ones.
    Open {
        /// The rate over time, as long as the warm-up and the measured time together.
        stages: Stages,
        /// How requests are spaced at that rate.
        spacing: Spacing,
        /// The relative frequency of each of the plan's requests.
        mix: Mix,
    },
    /// Responses: each user sends the next request after a response and its think time.
    Closed {
        /// The users, each with one request at a time.
        users: Users,
        /// The total number of requests, if the load may end early.
        requests: Option<u64>,
        /// The relative frequency of each of the plan's requests.
        mix: Mix,
    },
    /// A recording: each client sends all of it at the recorded times.
    Script {
        /// The requests and their times.
        steps: Vec<ScriptStep>,
        /// The number of clients that replay it.
        clients: u32,
        /// Client k starts k times this after the first.
        stagger: Duration,
        /// The replay speed, relative to the recording.
        speed: Speed,
    },
    /// Pages: requests that depend on each other.
    Pages {
        /// The page that each user loads again and again.
        page: Page,
        /// The users, each with one page at a time.
        users: Users,
        /// The total number of pages, if the load may end early.
        pages: Option<u64>,
        /// What the load is to find out.
        question: PageQuestion,
    },
}

/// Users that do one thing at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Users {
    /// The number of users.
    pub count: u32,
    /// From the end of one thing to the start of the next.
    pub think: ThinkTime,
    /// User k of n begins k/n of this after the start.
    pub starts_over: Duration,
}

/// What a load of pages is to find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageQuestion {
    /// How long a page takes.
    PageTime,
    /// Whether its second request waits for the first, whose response the server holds back.
    Held,
}

impl Load {
    /// Evenly spaced copies of the plan's first request at a constant rate.
    ///
    /// # Errors
    /// If the rate and the times cannot be computed exactly.
    pub fn constant(
        rate: Rate,
        warmup: Duration,
        duration: Duration,
        drain: Duration,
    ) -> Result<Load, StagesError> {
        Ok(Load {
            kind: LoadKind::Open {
                stages: Stages::new(vec![Stage::constant(rate, warmup + duration)])?,
                spacing: Spacing::Constant,
                mix: Mix::default(),
            },
            warmup,
            duration,
            drain,
            spin: Duration::ZERO,
        })
    }

    /// The workload of a client; `seed` decides what is random in it.
    pub fn workload(&self, seed: u64) -> Workload {
        let seed = splitmix64(seed, LOAD_SALT);
        let whole = self.warmup + self.duration;
        let Load { warmup, drain, .. } = *self;
        match &self.kind {
            LoadKind::Open {
                stages,
                spacing,
                mix,
            } => Workload::Open(OpenLoad {
                stages: stages.clone(),
                spacing: *spacing,
                warmup,
                drain,
                mix: mix.clone(),
                seed,
            }),
            LoadKind::Closed {
                users,
                requests,
                mix,
            } => Workload::Closed(ClosedLoad {
                users: users.count,
                think: users.think,
                starts_over: users.starts_over,
                requests: *requests,
                duration: Some(whole),
                warmup: Warmup::Time(warmup),
                drain,
                mix: mix.clone(),
                seed,
            }),
            LoadKind::Script {
                steps,
                clients,
                stagger,
                speed,
            } => Workload::Script(ScriptLoad {
                steps: steps.clone(),
                clients: *clients,
                stagger: *stagger,
                speed: *speed,
                rounds: Rounds::Once,
                duration: Some(whole),
                warmup,
                drain,
            }),
            LoadKind::Pages {
                page, users, pages, ..
            } => Workload::Pages(PageLoad {
                page: page.clone(),
                users: users.count,
                think: users.think,
                starts_over: users.starts_over,
                pages: *pages,
                duration: Some(whole),
                warmup: Warmup::Time(warmup),
                drain,
                seed,
            }),
        }
    }

    /// Whether the load may end early, because it consists of a number of requests or pages.
    pub fn may_end_early(&self) -> bool {
        match &self.kind {
            LoadKind::Closed { requests: end, .. } | LoadKind::Pages { pages: end, .. } => {
                end.is_some()
            }
            LoadKind::Open { .. } | LoadKind::Script { .. } => false,
        }
    }

    /// The number of users with separate connections; 0 if all requests share connections.
    pub fn users_with_own_connections(&self) -> u32 {
        match &self.kind {
            LoadKind::Script { clients, .. } => *clients,
            LoadKind::Pages { users, .. } => users.count,
            LoadKind::Open { .. } | LoadKind::Closed { .. } => 0,
        }
    }

    /// The rate, if the load consists of evenly spaced requests at a constant rate.
    pub fn constant_rate(&self) -> Option<Rate> {
        let LoadKind::Open {
            stages,
            spacing: Spacing::Constant,
            ..
        } = &self.kind
        else {
            return None;
        };
        match stages.as_slice() {
            [stage] if stage.from == stage.to => stage.from,
            _ => None,
        }
    }
}

impl Workload {
    /// Whether each user has separate connections, as each browser and each player does.
    pub fn has_own_connections(&self) -> bool {
        matches!(self, Workload::Script(_) | Workload::Pages(_))
    }
}

/// The number of connections that a browser opens to one host: six (Chromium's `kMaxSocketsPerGroup`), or one if
/// requests share it.
pub const fn browser_connections(version: Version) -> u32 {
    match version {
        Version::Http1 => 6,
        Version::Http2 | Version::Http3 => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn constant_load_is_one_stage() {
        let rate: Rate = "90/min".parse().unwrap();
        let load = Load::constant(rate, seconds(1), seconds(2), seconds(3)).unwrap();
        assert_eq!(load.constant_rate(), Some(rate));
        assert_eq!(load.users_with_own_connections(), 0);
        assert!(!load.may_end_early());
        let Workload::Open(open) = load.workload(7) else {
            panic!("it is open");
        };
        assert_eq!(open.stages.duration(), seconds(3));
        assert_eq!((open.warmup, open.drain), (seconds(1), seconds(3)));
        assert_ne!(open.seed, 7, "the link has that one");
        assert!(!Workload::Open(open).has_own_connections());
    }

    #[test]
    fn ramps_and_random_spacing_have_no_constant_rate() {
        let rate: Rate = "10/s".parse().unwrap();
        let constant = Load::constant(rate, seconds(0), seconds(4), seconds(0)).unwrap();
        let of = |stages, spacing| Load {
            kind: LoadKind::Open {
                stages: Stages::new(stages).unwrap(),
                spacing,
                mix: Mix::default(),
            },
            ..constant.clone()
        };
        let steady = || Stage::constant(rate, seconds(2));
        let ramp = Stage::ramp(None, Some(rate), seconds(4));
        assert!(of(vec![ramp], Spacing::Constant).constant_rate().is_none());
        let steps = of(vec![steady(), steady()], Spacing::Constant);
        assert!(steps.constant_rate().is_none());
        let random = of(vec![steady()], Spacing::Poisson);
        assert!(random.constant_rate().is_none());
    }

    #[test]
    fn times_are_passed_to_the_workload_of_every_kind() {
        let users = Users {
            count: 3,
            think: ThinkTime::Constant(seconds(1)),
            starts_over: seconds(2),
        };
        let load = |kind| Load {
            kind,
            warmup: seconds(1),
            duration: seconds(4),
            drain: seconds(2),
            spin: Duration::ZERO,
        };
        let closed = load(LoadKind::Closed {
            users,
            requests: Some(9),
            mix: Mix::default(),
        });
        let Workload::Closed(it) = closed.workload(1) else {
            panic!("it is closed");
        };
        assert!(closed.may_end_early());
        assert_eq!((it.users, it.requests), (3, Some(9)));
        assert_eq!((it.duration, it.drain), (Some(seconds(5)), seconds(2)));
        assert_eq!(it.warmup, Warmup::Time(seconds(1)));
        let pages = load(LoadKind::Pages {
            page: Page::tiles(0, 1, 2),
            users,
            pages: None,
            question: PageQuestion::PageTime,
        });
        let workload = pages.workload(1);
        assert!(workload.has_own_connections() && !pages.may_end_early());
        assert_eq!(pages.users_with_own_connections(), 3);
        let Workload::Pages(it) = workload else {
            panic!("it is one of pages");
        };
        assert_eq!((it.duration, it.pages), (Some(seconds(5)), None));
    }
}

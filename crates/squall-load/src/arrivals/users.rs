//! What loads with users have in common: the users, when they begin, how long they think, and how their requests or pages
//! are numbered.
//!
//! What a user does is in `closed` and `pages`.

use squall_base::plan::{ThinkTime, Warmup};
use squall_base::record::Phase;
use squall_base::splitmix::splitmix64;
use squall_base::{Duration, Time};

use super::{Share, later, phase, unit};

/// The numbers of a share's requests or pages: those n with (n % users) % shares = its index, so that each share gets
/// numbers in proportion to its users.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    next: Option<u64>,
    /// How many numbers are left in this round, including the next. Each user of the load has one number per round.
    left_in_round: u32,
    mine: u32,
    step: u64,
    /// The step from the last number of a round to the first of the next.
    to_next_round: u64,
    /// All numbers are below this one.
    end: u64,
}

impl Numbers {
    pub(super) fn new(users: u32, share: Share, at_most: Option<u64>) -> Numbers {
        let (mine, step) = (share.count(users), u64::from(share.of));
        let first_to_last = step * u64::from(mine.saturating_sub(1));
        Numbers {
            next: (mine > 0).then_some(u64::from(share.index)),
            left_in_round: mine,
            mine,
            step,
            to_next_round: u64::from(users).saturating_sub(first_to_last),
            end: at_most.unwrap_or(u64::MAX),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.next.is_none_or(|next| next >= self.end)
    }

    pub(super) fn take(&mut self) -> Option<u64> {
        let taken = self.next.filter(|next| *next < self.end)?;
        self.left_in_round -= 1;
        let step = if self.left_in_round == 0 {
            self.left_in_round = self.mine;
            self.to_next_round
        } else {
            self.step
        };
        self.next = taken.checked_add(step);
        Some(taken)
    }
}

/// When the users of a share begin: user k of n starts k/n of `over` after the start.
pub(super) fn starts(
    users: u32,
    share: Share,
    start: Time,
    over: Duration,
) -> impl Iterator<Item = (Time, u32)> {
    share.members(users).map(move |user| {
        let nanos = u128::from(over.as_nanos()) * u128::from(user) / u128::from(users);
        (later(start, Duration::from_nanos(nanos as u64)), user)
    })
}

/// Which part of the load is warm-up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phases {
    warmup: Warmup,
    start: Time,
}

impl Phases {
    pub(super) fn new(warmup: Warmup, start: Time) -> Phases {
        Phases { warmup, start }
    }

    /// The phase of item number `n`, which begins at `begin`.
    pub(super) fn of(&self, n: u64, begin: Time) -> Phase {
        phase(match self.warmup {
            Warmup::Time(span) => begin.since(self.start) < span,
            Warmup::First(count) => n < count,
        })
    }
}

/// The think times of a share's users.
#[derive(Clone, Debug)]
pub(super) struct ThinkTimes {
    think: ThinkTime,
    seed: u64,
    share: Share,
    /// How many times each user has thought so far; empty unless the think times are random.
    turns: Vec<u64>,
}

impl ThinkTimes {
    pub(super) fn new(think: ThinkTime, seed: u64, users: u32, share: Share) -> ThinkTimes {
        let is_random = matches!(think, ThinkTime::Uniform { .. } | ThinkTime::Exponential(_));
        let turns = if is_random { share.count(users) } else { 0 };
        ThinkTimes {
            think,
            seed,
            share,
            turns: vec![0; turns as usize],
        }
    }

    /// How long `user` thinks now. This depends only on the seed, the user and how many times it has thought before.
    pub(super) fn next(&mut self, user: u32) -> Duration {
        match self.think {
            ThinkTime::None => Duration::ZERO,
            ThinkTime::Constant(span) => span,
            ThinkTime::Uniform { from, to } => {
                let (seed, turn) = self.turn(user);
                let span = u128::from((to - from).as_nanos()) + 1;
                let drawn = (u128::from(splitmix64(seed, turn)) * span) >> 64;
                Duration::from_nanos(from.as_nanos() + drawn as u64)
            }
            ThinkTime::Exponential(mean) => {
                let (seed, turn) = self.turn(user);
                let nanos = -unit(seed, turn).ln() * mean.as_nanos() as f64;
                Duration::from_nanos(nanos as u64)
            }
        }
    }

    /// The seed of a user, and the index of the output to draw next.
    fn turn(&mut self, user: u32) -> (u64, u64) {
        let turns = &mut self.turns[self.share.place(user)];
        let turn = *turns;
        *turns += 1;
        (splitmix64(self.seed, u64::from(user)), turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(users: u32, share: Share, at_most: u64) -> Vec<u64> {
        let mut numbers = Numbers::new(users, share, Some(at_most));
        std::iter::from_fn(|| numbers.take()).collect()
    }

    proptest! {
        #[test]
        fn shares_have_every_number_once_and_in_order(users in 1_u32..20, of in 1_u32..9, at_most in 0_u64..200) {
            let mut seen = Vec::new();
            for index in 0..of {
                let mine = all(users, Share::new(index, of).unwrap(), at_most);
                prop_assert!(mine.is_sorted());
                prop_assert!(mine.iter().all(|n| n % u64::from(users) % u64::from(of) == u64::from(index)));
                seen.extend(mine);
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..at_most).collect::<Vec<_>>());
        }
    }

    #[test]
    fn numbering_ends_at_the_largest_integer() {
        let mut numbers = Numbers::new(1, Share::WHOLE, None);
        numbers.next = Some(u64::MAX - 1);
        assert_eq!((numbers.take(), numbers.take()), (Some(u64::MAX - 1), None));
        assert!(numbers.is_empty() && Numbers::new(0, Share::WHOLE, None).is_empty());
    }

    #[test]
    fn think_times_have_the_requested_distribution() {
        const USERS: u32 = 4;
        const DRAWS: u64 = 10_000;
        let [from, to] = [10, 30].map(Duration::from_micros);
        let mean = |think, share| {
            let mut think_times = ThinkTimes::new(think, 9, USERS, share);
            let drawn: Vec<Duration> = (0..DRAWS).map(|_| think_times.next(3)).collect();
            (
                drawn.iter().map(|d| d.as_nanos()).sum::<u64>() / DRAWS,
                drawn,
            )
        };
        let (constant, _) = mean(ThinkTime::Constant(from), Share::WHOLE);
        assert_eq!(constant, 10_000);
        let (uniform, drawn) = mean(ThinkTime::Uniform { from, to }, Share::WHOLE);
        // Five standard errors: 5 * 20,000 / sqrt(12 * 10,000) = 289.
        assert!(uniform.abs_diff(20_000) < 289, "{uniform}");
        assert!(drawn.iter().all(|span| (from..=to).contains(span)));
        let half = Share::new(1, 2).unwrap();
        assert_eq!(mean(ThinkTime::Uniform { from, to }, half).1, drawn);
        let (exponential, _) = mean(ThinkTime::Exponential(to), Share::WHOLE);
        // 5 * 30,000 / sqrt(10,000) = 1,500.
        assert!(exponential.abs_diff(30_000) < 1_500, "{exponential}");
    }

    #[test]
    fn the_longest_think_times_do_not_wrap() {
        let most = Duration::from_nanos(u64::MAX);
        let uniform = ThinkTime::Uniform {
            from: Duration::ZERO,
            to: most,
        };
        for think in [
            uniform,
            ThinkTime::Exponential(most),
            ThinkTime::Constant(most),
        ] {
            let mut think_times = ThinkTimes::new(think, 1, 1, Share::WHOLE);
            assert!((0..100).all(|_| think_times.next(0) <= most));
        }
    }
}

//! Jitter: how much a packet's delay differs from the configured one.
//!
//! Every shape derives from one standard normal number per packet, so that packets of a flow can resemble each other in
//! every shape alike (a Gaussian copula): the normal distribution function makes the number uniform, and the shape's
//! quantile function gives the jitter. The numbers of a flow and class are a first-order autoregressive series, z = rho * z
//! before + sqrt(1 - rho^2) * e, where e is the packet's own draw. Without correlation, a packet's jitter depends only on
//! its own draw.
//!
//! Whether packets overtake each other is decided in `delay`.

use std::collections::BTreeMap;

use squall_base::Duration;
use squall_base::record::PacketClass;

use crate::random::{Luck, PacketKey, Purpose};
use crate::settings::{Jitter, JitterShape};

/// Draws delays.
#[derive(Debug)]
pub(crate) struct Variation {
    jitter: Jitter,
    luck: Luck,
    /// The last number of each flow and class; empty without correlation.
    before: BTreeMap<(u32, PacketClass), Deviate>,
}

/// A packet's number within its flow and class, and its standard normal number.
#[derive(Clone, Copy, Debug)]
struct Deviate {
    class_index: u32,
    z: f64,
}

impl Variation {
    pub(crate) fn new(jitter: Jitter, luck: Luck) -> Variation {
        Variation {
            jitter,
            luck,
            before: BTreeMap::new(),
        }
    }

    /// The settings it was made from.
    pub(crate) fn settings(&self) -> Jitter {
        self.jitter
    }

    /// Whether packets may overtake each other.
    pub(crate) fn may_reorder(&self) -> bool {
        self.jitter.may_reorder
    }

    /// The delay of the packet with this key, which varies around `delay`. With correlation it resembles the delay of the
    /// previous packet of the same flow and class.
    pub(crate) fn vary(&mut self, delay: Duration, key: PacketKey) -> Duration {
        /// The longest duration that can be written (`Duration::from_str`), so that sums with it fit.
        const LONGEST_NS: i128 = 1_000_000_000_000_000_000;
        let spreads = in_spreads(self.jitter.shape, self.deviate(key));
        let change_ns = (spreads * self.jitter.spread.as_nanos() as f64).round() as i128;
        let delay_ns = i128::from(delay.as_nanos());
        let varied_ns = (delay_ns + change_ns).clamp(0, LONGEST_NS.max(delay_ns));
        Duration::from_nanos(varied_ns as u64)
    }

    /// The packet's standard normal number.
    fn deviate(&mut self, key: PacketKey) -> f64 {
        let own = normal_quantile(self.luck.unit(Purpose::Jitter, key));
        let rho = self.jitter.correlation.get();
        if rho == 0.0 {
            return own;
        }
        let z = match self.before.get(&(key.flow, key.class)) {
            None => own,
            // A copy shares the draw of its original; another step with it would spoil the distribution.
            Some(before) if before.class_index == key.class_index => before.z,
            Some(before) => rho * before.z + (1.0 - rho * rho).sqrt() * own,
        };
        let class_index = key.class_index;
        self.before
            .insert((key.flow, key.class), Deviate { class_index, z });
        z
    }
}

/// By how many spreads the delay differs if the standard normal number is `z`.
fn in_spreads(shape: JitterShape, z: f64) -> f64 {
    /// Pareto's tail is cut off where one packet in a million would be: 198 spreads. Without a cutoff, a long run's one
    /// packet in 10^12 would wait for 20,000 spreads, and all packets after it. The cutoff lowers the mean by a
    /// ten-thousandth.
    const RAREST: f64 = 1e-6;
    match shape {
        JitterShape::Uniform => 2.0 * normal_share_below(z) - 1.0,
        JitterShape::Normal => z,
        // Lomax's form, which starts at 0: P(X > x) = (1 + x/s)^-3 with mean s/2, so s is twice the spread.
        JitterShape::Pareto => 2.0 * (normal_share_below(-z).max(RAREST).cbrt().recip() - 1.0),
    }
}

/// The standard normal distribution function, to about 15 decimals: Hart et al., "Computer Approximations" (1968),
/// algorithm 5666, as in West, "Better approximations to cumulative normal functions", Wilmott Magazine, May 2005.
/// Beyond 7 deviations it stays at 8e-13: no shape looks farther.
fn normal_share_below(z: f64) -> f64 {
    const NUMERATOR: [f64; 7] = [
        220.206867912376,
        221.213596169931,
        112.079291497871,
        33.912866078383,
        6.37396220353165,
        0.700383064443688,
        3.52624965998911e-2,
    ];
    const DENOMINATOR: [f64; 8] = [
        440.413735824752,
        793.826512519948,
        637.333633378831,
        296.564248779674,
        86.7807322029461,
        16.064177579207,
        1.75566716318264,
        8.83883476483184e-2,
    ];
    const FARTHEST: f64 = 7.07106781186547;
    let x = z.abs().min(FARTHEST);
    let density = (-x * x / 2.0).exp();
    let beyond = density * polynomial(&NUMERATOR, x) / polynomial(&DENOMINATOR, x);
    if z > 0.0 { 1.0 - beyond } else { beyond }
}

/// The inverse of the standard normal distribution function for a `share` between 0 and 1, to about 16 digits:
/// PPND16 of Wichura, algorithm AS 241, Applied Statistics 37 (1988), pages 477 to 484.
fn normal_quantile(share: f64) -> f64 {
    let from_middle = share - 0.5;
    if from_middle.abs() <= 0.425 {
        let r = 0.180625 - from_middle * from_middle;
        return from_middle * polynomial(&wichura::A, r) / polynomial(&wichura::B, r);
    }
    let r = (-share.min(1.0 - share).ln()).sqrt();
    let distance = if r <= 5.0 {
        polynomial(&wichura::C, r - 1.6) / polynomial(&wichura::D, r - 1.6)
    } else {
        polynomial(&wichura::E, r - 5.0) / polynomial(&wichura::F, r - 5.0)
    };
    distance.copysign(from_middle)
}

/// Coefficients of AS 241, by the letters of the paper and from the constant term on.
mod wichura {
    pub(super) const A: [f64; 8] = [
        3.3871328727963665,
        133.14166789178438,
        1971.5909503065513,
        13731.69376550946,
        45921.95393154987,
        67265.7709270087,
        33430.57558358813,
        2509.0809287301227,
    ];
    pub(super) const B: [f64; 8] = [
        1.0,
        42.31333070160091,
        687.1870074920579,
        5394.196021424751,
        21213.794301586597,
        39307.89580009271,
        28729.085735721943,
        5226.495278852854,
    ];
    pub(super) const C: [f64; 8] = [
        1.4234371107496835,
        4.630337846156546,
        5.769497221460691,
        3.6478483247632045,
        1.2704582524523684,
        0.2417807251774506,
        0.022723844989269184,
        0.0007745450142783414,
    ];
    pub(super) const D: [f64; 8] = [
        1.0,
        2.053191626637759,
        1.6763848301838038,
        0.6897673349851,
        0.14810397642748008,
        0.015198666563616457,
        0.0005475938084995345,
        1.0507500716444169e-09,
    ];
    pub(super) const E: [f64; 8] = [
        6.657904643501103,
        5.463784911164114,
        1.7848265399172913,
        0.29656057182850487,
        0.026532189526576124,
        0.0012426609473880784,
        2.7115555687434876e-05,
        2.0103343992922881e-07,
    ];
    pub(super) const F: [f64; 8] = [
        1.0,
        0.599832206555888,
        0.1369298809227358,
        0.014875361290850615,
        0.0007868691311456133,
        1.8463183175100548e-05,
        1.421511758316446e-07,
        2.0442631033899397e-15,
    ];
}

/// A polynomial's value at `x`; coefficients from the constant term on (Horner's rule).
fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients
        .iter()
        .rev()
        .fold(0.0, |value, coefficient| value * x + coefficient)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::tests::assert_binomial;
    use squall_base::Probability;
    use squall_base::record::Direction;

    const DRAWS: u32 = 100_000;
    const DELAY_NS: f64 = 100e6;
    const SPREAD_NS: f64 = 5e6;
    const SHAPES: [JitterShape; 3] = [
        JitterShape::Uniform,
        JitterShape::Normal,
        JitterShape::Pareto,
    ];

    fn variation(shape: JitterShape, correlation: f64, seed: u64) -> Variation {
        let jitter = Jitter {
            shape,
            spread: Duration::from_nanos(SPREAD_NS as u64),
            correlation: Probability::new(correlation).unwrap(),
            may_reorder: false,
        };
        Variation::new(jitter, Luck::new(seed))
    }

    fn key(flow: u32, class_index: u32) -> PacketKey {
        PacketKey {
            direction: Direction::Down,
            flow,
            class: PacketClass::Data,
            class_index,
        }
    }

    fn draw(variation: &mut Variation, flow: u32, class_index: u32) -> f64 {
        let delay = Duration::from_nanos(DELAY_NS as u64);
        variation.vary(delay, key(flow, class_index)).as_nanos() as f64
    }

    /// The distribution function that the settings promise.
    fn share_below(shape: JitterShape, delay_ns: f64) -> f64 {
        let spreads = (delay_ns - DELAY_NS) / SPREAD_NS;
        match shape {
            JitterShape::Uniform => (spreads + 1.0) / 2.0,
            JitterShape::Normal => normal_share_below(spreads),
            JitterShape::Pareto => 1.0 - (1.0 + spreads / 2.0).powi(-3),
        }
    }

    /// Kolmogorov and Smirnov's statistic: the largest distance between the two distribution functions times sqrt(n). A
    /// correct generator exceeds 1.95 for one seed in a thousand.
    fn kolmogorov_smirnov(shape: JitterShape, delays_ns: &[f64]) -> f64 {
        let n = delays_ns.len() as f64;
        let mut shares: Vec<f64> = delays_ns.iter().map(|d| share_below(shape, *d)).collect();
        shares.sort_unstable_by(f64::total_cmp);
        let distances = shares
            .iter()
            .zip(0_u32..)
            .map(|(share, i)| (share - f64::from(i) / n).max(f64::from(i + 1) / n - share));
        distances.fold(0.0, f64::max) * n.sqrt()
    }

    #[test]
    fn every_shape_has_its_distribution() {
        for shape in SHAPES {
            for seed in 1..=3 {
                let mut variation = variation(shape, 0.0, seed);
                let delays: Vec<f64> = (0..DRAWS).map(|n| draw(&mut variation, 0, n)).collect();
                let statistic = kolmogorov_smirnov(shape, &delays);
                assert!(statistic < 1.95, "{shape:?}, seed {seed}: {statistic}");
                assert!(variation.before.is_empty());
            }
        }
    }

    /// The third packet of many flows: correlated with the two before it, not with each other.
    #[test]
    fn correlation_does_not_change_the_distribution() {
        for shape in SHAPES {
            let mut variation = variation(shape, 0.8, 4);
            let third = |flow| {
                (0..3)
                    .map(|n| draw(&mut variation, flow, n))
                    .last()
                    .unwrap()
            };
            let delays: Vec<f64> = (0..DRAWS).map(third).collect();
            let statistic = kolmogorov_smirnov(shape, &delays);
            assert!(statistic < 1.95, "{shape:?}: {statistic}");
        }
    }

    /// The bound is 5 standard errors of a mean. The deviations are spread/sqrt(3), spread and spread*sqrt(3) by shape.
    #[test]
    fn mean_delays_match_the_settings() {
        for (shape, mean, deviation) in [
            (JitterShape::Uniform, 0.0, 3_f64.sqrt().recip()),
            (JitterShape::Normal, 0.0, 1.0),
            (JitterShape::Pareto, 1.0, 3_f64.sqrt()),
        ] {
            let mut variation = variation(shape, 0.0, 5);
            let sum: f64 = (0..DRAWS).map(|n| draw(&mut variation, 0, n)).sum();
            let found = (sum / f64::from(DRAWS) - DELAY_NS) / SPREAD_NS;
            let error = deviation / f64::from(DRAWS).sqrt();
            assert!((found - mean).abs() < 5.0 * error, "{shape:?}: {found}");
        }
    }

    /// The standard normal number from which a delay was made.
    fn deviate_of(shape: JitterShape, delay_ns: f64) -> f64 {
        normal_quantile(share_below(shape, delay_ns).clamp(1e-7, 1.0 - 1e-7))
    }

    fn correlation(pairs: &[(f64, f64)]) -> f64 {
        let product: f64 = pairs.iter().map(|(a, b)| a * b).sum();
        let squares: f64 = pairs.iter().map(|(a, b)| (a * a + b * b) / 2.0).sum();
        product / squares
    }

    /// Two flows alternate. The standard error of a correlation with the previous value is sqrt((1 - rho^2) / n) in an
    /// autoregressive series (Bartlett 1946). For two series it is 1/sqrt(n) if at most one has memory, and sqrt((1 +
    /// rho^2) / (1 - rho^2) / n) if both have.
    #[test]
    fn jitter_correlates_with_the_previous_packet_of_the_flow() {
        let n = f64::from(DRAWS);
        for shape in SHAPES {
            for rho in [0.0, 0.3, 0.9] {
                let mut variation = variation(shape, rho, 6);
                let z: Vec<[f64; 2]> = (0..DRAWS)
                    .map(|n| [0, 1].map(|flow| deviate_of(shape, draw(&mut variation, flow, n))))
                    .collect();
                for flow in [0, 1] {
                    let pairs: Vec<_> = z.windows(2).map(|w| (w[0][flow], w[1][flow])).collect();
                    let (found, error) = (correlation(&pairs), ((1.0 - rho * rho) / n).sqrt());
                    assert!(
                        (found - rho).abs() < 5.0 * error,
                        "{shape:?} {rho}: {found}"
                    );
                }
                let across: Vec<_> = z.iter().map(|z| (z[0], z[1])).collect();
                let error = ((1.0 + rho * rho) / (1.0 - rho * rho) / n).sqrt();
                assert!(correlation(&across).abs() < 5.0 * error, "{shape:?} {rho}");
            }
        }
    }

    #[test]
    fn copies_do_not_advance_the_series_of_their_flow() {
        let (mut one, mut other) = (
            variation(JitterShape::Normal, 0.9, 7),
            variation(JitterShape::Normal, 0.9, 7),
        );
        for n in 0..100 {
            let first = draw(&mut one, 0, n);
            assert_eq!(draw(&mut one, 0, n), first);
            assert_eq!(draw(&mut other, 0, n), first);
        }
    }

    /// Normal jitter as wide as the delay: the share cut off at zero is the share beyond one deviation, 15.9 %.
    #[test]
    fn delays_are_never_negative() {
        let mut variation = variation(JitterShape::Normal, 0.0, 8);
        let delay = Duration::from_nanos(SPREAD_NS as u64);
        let zeros = (0..DRAWS).filter(|n| variation.vary(delay, key(0, *n)).is_zero());
        assert_binomial(zeros.count(), DRAWS, 0.158_655);
    }

    #[test]
    fn jitter_of_any_width_does_not_overflow() {
        for shape in SHAPES {
            for nanos in [0, u64::MAX] {
                let spread = Duration::from_nanos(nanos);
                let jitter = Jitter {
                    spread,
                    ..variation(shape, 0.5, 9).settings()
                };
                let mut variation = Variation::new(jitter, Luck::new(9));
                for n in 0..100 {
                    let varied = variation.vary(Duration::from_secs(1), key(0, n));
                    assert!(varied <= Duration::from_secs(1_000_000_000));
                    assert!(nanos > 0 || varied == Duration::from_secs(1));
                }
            }
        }
        assert_eq!(in_spreads(JitterShape::Pareto, 40.0).round(), 198.0);
        assert_eq!(in_spreads(JitterShape::Pareto, -40.0).max(1e-12), 1e-12);
    }

    /// Values of erfc(-z / sqrt(2)) / 2 from the C library.
    #[test]
    fn normal_functions_are_correct_and_inverse_to_each_other() {
        for (z, share) in [
            (-7.0, 1.279812543885835e-12),
            (-6.0, 9.865876450377012e-10),
            (-3.5, 0.00023262907903552504),
            (-1.5, 0.06680720126885809),
            (-0.5, 0.3085375387259869),
            (0.0, 0.5),
            (0.25, 0.5987063256829237),
            (1.0, 0.8413447460685429),
            (2.0, 0.9772498680518208),
        ] {
            let (found_share, found_z) = (normal_share_below(z), normal_quantile(share));
            assert!((found_share - share).abs() < 1e-15, "{z}: {found_share}");
            assert!((found_z - z).abs() < 1e-13, "{share}: {found_z}");
        }
        // The most extreme draw: half of 2^-52.
        assert!((normal_quantile(2_f64.powi(-53)) + 8.2095361516014).abs() < 1e-12);
        for n in 1..10_000 {
            let share = f64::from(n) / 10_000.0;
            assert!((normal_share_below(normal_quantile(share)) - share).abs() < 1e-14);
            assert!((normal_quantile(share) + normal_quantile(1.0 - share)).abs() < 1e-12);
        }
    }
}

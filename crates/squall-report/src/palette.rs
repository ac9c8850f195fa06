//! How a cause looks everywhere: its colour, its letter, and what it means in a sentence.
//!
//! The page's stylesheet, its stacks and points, and the terminal's bars all take it from here. What a cause is, and how it is
//! found, is decided in squall-base and squall-analysis.

use squall_base::record::Cause;

/// The looks of a cause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CauseLook {
    cause: Cause,
    /// Stands for the cause where there is no room for its name. No two causes share one.
    pub(crate) letter: char,
    /// Red, green and blue. White text on it has a contrast of at least 4.5 (WCAG 2.2, 1.4.3). Dots have no letters, so any two
    /// causes have a CIE Lab distance of at least 8, for full vision as well as without red, green or blue vision.
    colour: u32,
    /// The most similar of xterm's 256 colours: at most 20 apart by that distance.
    pub(crate) terminal: u8,
    /// What the time was spent on.
    pub(crate) meaning: &'static str,
}

/// The looks of every cause, in the order of [`Cause::ALL`].
const LOOKS: [CauseLook; Cause::ALL.len()] = [
    look(
        Cause::Queue,
        'Q',
        (0x795094, 97),
        "No connection or stream was free.",
    ),
    look(
        Cause::Connect,
        'C',
        (0x495b79, 60),
        "The TCP handshake of the request’s own connection.",
    ),
    look(
        Cause::Tls,
        'T',
        (0x2e74b5, 32),
        "The TLS or QUIC handshake of the request’s own connection.",
    ),
    look(
        Cause::WindowStream,
        'W',
        (0x6d4413, 94),
        "Data waited while its stream’s flow-control window was exhausted.",
    ),
    look(
        Cause::WindowConnection,
        'N',
        (0x976f17, 136),
        "Data waited while its connection’s flow-control window was exhausted.",
    ),
    look(
        Cause::WindowReceive,
        'V',
        (0x804c00, 130),
        "Data waited while the peer’s TCP receive window was exhausted.",
    ),
    look(
        Cause::Cwnd,
        'G',
        (0x7e782b, 100),
        "Data waited for the congestion window: as much as it allowed was in flight.",
    ),
    look(
        Cause::Pacing,
        'P',
        (0x5d6a27, 58),
        "Data waited for its sender’s pacing, with room in every window.",
    ),
    look(
        Cause::SendBuffer,
        'B',
        (0x675930, 101),
        "Data waited for room in the socket’s send buffer, with room in every window.",
    ),
    look(
        Cause::Link,
        'K',
        (0x0e7164, 30),
        "In the link’s queue, or being sent at its rate.",
    ),
    look(
        Cause::Distance,
        'D',
        (0x577995, 67),
        "The delay that the link is configured to have. No protocol can avoid it.",
    ),
    look(
        Cause::Loss,
        'L',
        (0xc64848, 167),
        "The request’s own bytes were lost: from when they would have arrived until they did.",
    ),
    look(
        Cause::Hol,
        'H',
        (0xca4700, 166),
        "Head-of-line blocking: bytes of other requests were lost, and its own bytes had to wait behind them.",
    ),
    look(
        Cause::Record,
        'R',
        (0xb05592, 132),
        "The request’s own bytes had arrived, but the rest of their TLS record had not.",
    ),
    look(
        Cause::Server,
        'S',
        (0x458042, 65),
        "The server had the request, and had not finished its response.",
    ),
    look(
        Cause::Host,
        'O',
        (0x73767b, 244),
        "Delay added by hosts: scheduling, system calls, copying, squall’s own lateness.",
    ),
    look(
        Cause::Unknown,
        'U',
        (0x494d51, 239),
        "The cause cannot be determined.",
    ),
];

const fn look(
    cause: Cause,
    letter: char,
    (colour, terminal): (u32, u8),
    meaning: &'static str,
) -> CauseLook {
    CauseLook {
        cause,
        letter,
        colour,
        terminal,
        meaning,
    }
}

impl CauseLook {
    pub(crate) fn of(cause: Cause) -> CauseLook {
        LOOKS[cause as usize]
    }
}

/// The colours as rules of the page's stylesheet: a variable and a class for each cause.
pub(crate) fn stylesheet() -> String {
    let mut css = String::from(":root {\n");
    for look in LOOKS {
        let (name, colour) = (look.cause.name(), look.colour);
        css.push_str(&format!("  --cause-{name}: #{colour:06x};\n"));
    }
    css.push_str("}\n");
    for look in LOOKS {
        let name = look.cause.name();
        css.push_str(&format!(
            ".cause-{name} {{ --cause: var(--cause-{name}); }}\n"
        ));
    }
    css
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The least distance between two colours that a plot shows without letters. Side by side, people see a distance of about
    /// 2, but dots are small and apart. So the number is a judgement.
    const APART_AT_LEAST: f64 = 8.0;

    /// How people see colours in linear light: with full vision, and without one kind of cones, as simulated by Machado,
    /// Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency", IEEE TVCG 15(6),
    /// 2009, at severity 1.0.
    const VISIONS: [(&str, [[f64; 3]; 3]); 4] = [
        (
            "full vision",
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        ),
        (
            "protanopia",
            [
                [0.152286, 1.052583, -0.204868],
                [0.114503, 0.786281, 0.099216],
                [-0.003882, -0.048116, 1.051998],
            ],
        ),
        (
            "deuteranopia",
            [
                [0.367322, 0.860646, -0.227968],
                [0.280085, 0.672501, 0.047413],
                [-0.011820, 0.042940, 0.968881],
            ],
        ),
        (
            "tritanopia",
            [
                [1.255528, -0.076749, -0.178779],
                [-0.078411, 0.930809, 0.147602],
                [0.004733, 0.691367, 0.303900],
            ],
        ),
    ];

    /// Red, green and blue in linear light, from 0 to 1 (IEC 61966-2-1).
    fn linear(colour: u32) -> [f64; 3] {
        [16, 8, 0].map(|shift| {
            let value = f64::from((colour >> shift) & 0xff) / 255.0;
            if value <= 0.04045 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        })
    }

    fn product(matrix: [[f64; 3]; 3], vector: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
    }

    /// How bright a colour is, from 0 to 1 (WCAG 2.2, "relative luminance").
    fn luminance(colour: u32) -> f64 {
        let weights: [f64; 3] = [0.2126, 0.7152, 0.0722];
        weights.iter().zip(linear(colour)).map(|(a, b)| a * b).sum()
    }

    /// CIE 1976 L*a*b* of a colour in linear light, for daylight (D65).
    fn lab(linear: [f64; 3]) -> [f64; 3] {
        let to_xyz = [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.0721750],
            [0.0193339, 0.1191920, 0.9503041],
        ];
        let xyz = product(to_xyz, linear.map(|value| value.clamp(0.0, 1.0)));
        let white: [f64; 3] = [0.95047, 1.0, 1.08883];
        let [x, y, z] = [0, 1, 2].map(|axis: usize| {
            let share: f64 = xyz[axis] / white[axis];
            if share > 216.0 / 24_389.0 {
                share.cbrt()
            } else {
                (24_389.0 / 27.0 * share + 16.0) / 116.0
            }
        });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// The distance of two colours by CIE 1976 (Delta E*ab), as this vision sees them.
    fn distance(one: u32, other: u32, vision: [[f64; 3]; 3]) -> f64 {
        let [one, other] = [one, other].map(|colour| lab(product(vision, linear(colour))));
        let squares = one.iter().zip(other).map(|(a, b)| (a - b).powi(2));
        squares.sum::<f64>().sqrt()
    }

    /// All pairs of these colours that are too close to each other.
    fn too_close(colours: &[(String, u32)]) -> Vec<String> {
        let mut found = Vec::new();
        for (vision, matrix) in VISIONS {
            for (place, (name, colour)) in colours.iter().enumerate() {
                for (other, with) in &colours[..place] {
                    let apart = distance(*colour, *with, matrix);
                    if apart < APART_AT_LEAST {
                        found.push(format!("{name} and {other}: {apart:.1}, {vision}"));
                    }
                }
            }
        }
        found
    }

    /// Red, green and blue of one of xterm's 256 colours, from its cube of 6 x 6 x 6 and its shades of grey.
    fn of_terminal(code: u8) -> u32 {
        let code = u32::from(code);
        if code >= 232 {
            return (8 + 10 * (code - 232)) * 0x010101;
        }
        let steps = [36, 6, 1].map(|step| match (code - 16) / step % 6 {
            0 => 0,
            level => 55 + 40 * level,
        });
        steps
            .iter()
            .fold(0_u32, |colour, step| (colour << 8) | step)
    }

    #[test]
    fn dots_of_causes_differ_without_red_green_or_blue_vision() {
        let looks = Cause::ALL.map(CauseLook::of);
        let colours = looks.map(|look| (look.cause.name().to_owned(), look.colour));
        assert_eq!(too_close(&colours), Vec::<String>::new());
        let merged = [("pacing", 0x5f6b00), ("hol", 0xc75000)];
        let merged = merged.map(|(name, colour)| (name.to_owned(), colour));
        assert_eq!(too_close(&merged), ["hol and pacing: 0.1, protanopia"]);
    }

    /// Dots, lines and bars of variants, on a light background and on a dark one.
    #[test]
    fn variants_differ_without_red_green_or_blue_vision() {
        let css = include_str!("../assets/style.css");
        let colours = css.lines().filter_map(|line| {
            let (name, colour) = line.trim().strip_prefix("--series-")?.split_once(": #")?;
            let colour = u32::from_str_radix(colour.trim_end_matches(';'), 16);
            Some((name.to_owned(), colour.unwrap()))
        });
        let colours: Vec<(String, u32)> = colours.collect();
        let (light, dark) = colours.split_at(colours.len() / 2);
        let names = |scheme: &[(String, u32)]| -> Vec<String> {
            scheme.iter().map(|(name, _)| name.clone()).collect()
        };
        assert_eq!(names(light), names(dark));
        for scheme in [light, dark] {
            assert!(scheme.len() > 1);
            assert_eq!(too_close(scheme), Vec::<String>::new());
        }
    }

    #[test]
    fn terminal_colours_are_close_to_those_of_the_page() {
        let (_, full) = VISIONS[0];
        for look in LOOKS {
            let apart = distance(look.colour, of_terminal(look.terminal), full);
            assert!(apart <= 20.0, "{:?}: {apart:.1}", look.cause);
        }
    }

    #[test]
    fn white_text_is_readable_on_every_colour_of_causes() {
        for cause in Cause::ALL {
            let contrast = 1.05 / (luminance(CauseLook::of(cause).colour) + 0.05);
            assert!(contrast >= 4.5, "{cause:?} has {contrast:.2}");
        }
    }

    #[test]
    fn looks_are_in_the_order_of_the_causes() {
        assert_eq!(LOOKS.map(|look| look.cause), Cause::ALL);
    }

    #[test]
    fn causes_differ_in_colour_and_in_letter() {
        let looks = Cause::ALL.map(CauseLook::of);
        let colours: BTreeSet<u32> = looks.iter().map(|look| look.colour).collect();
        let letters: BTreeSet<char> = looks.iter().map(|look| look.letter).collect();
        let terminal: BTreeSet<u8> = looks.iter().map(|look| look.terminal).collect();
        assert_eq!((colours.len(), letters.len(), terminal.len()), (17, 17, 17));
    }

    #[test]
    fn stylesheet_has_a_colour_for_each_cause() {
        let css = stylesheet();
        assert!(css.contains("  --cause-hol: #ca4700;\n"), "{css}");
        assert_eq!(css.matches("{ --cause: var(").count(), Cause::ALL.len());
    }
}

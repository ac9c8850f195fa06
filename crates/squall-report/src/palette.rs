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
    /// Red, green and blue. White text on it has a contrast of at least 4.5 (WCAG 2.2, 1.4.3).
    colour: u32,
    /// Like it among the 256 colours of xterm.
    pub(crate) terminal: u8,
    /// What the time was spent on.
    pub(crate) meaning: &'static str,
}

/// The looks of every cause, in the order of [`Cause::ALL`].
const LOOKS: [CauseLook; Cause::ALL.len()] = [
    look(
        Cause::Queue,
        'Q',
        (0x7a5195, 97),
        "No connection or stream was free.",
    ),
    look(
        Cause::Connect,
        'C',
        (0x4f6d8f, 67),
        "The TCP handshake of the request’s own connection.",
    ),
    look(
        Cause::Tls,
        'T',
        (0x2f74b5, 32),
        "The TLS or QUIC handshake of the request’s own connection.",
    ),
    look(
        Cause::WindowStream,
        'W',
        (0x6e4212, 94),
        "Data waited while its stream’s flow-control window was exhausted.",
    ),
    look(
        Cause::WindowConnection,
        'N',
        (0xa3671c, 130),
        "Data waited while its connection’s flow-control window was exhausted.",
    ),
    look(
        Cause::WindowReceive,
        'V',
        (0x8a5a00, 136),
        "Data waited while the peer’s TCP receive window was exhausted.",
    ),
    look(
        Cause::Cwnd,
        'G',
        (0x7e7900, 100),
        "Data waited for the congestion window: as much as it allowed was in flight.",
    ),
    look(
        Cause::Pacing,
        'P',
        (0x5f6b00, 64),
        "Data waited for its sender’s pacing, with room in every window.",
    ),
    look(
        Cause::SendBuffer,
        'B',
        (0x6b5b2e, 101),
        "Data waited for room in the socket’s send buffer, with room in every window.",
    ),
    look(
        Cause::Link,
        'K',
        (0x00766c, 30),
        "In the link’s queue, or being sent at its rate.",
    ),
    look(
        Cause::Distance,
        'D',
        (0x5b7a94, 66),
        "The delay that the link is configured to have. No protocol can save it.",
    ),
    look(
        Cause::Loss,
        'L',
        (0xc2372e, 160),
        "The request’s own bytes were lost: from when they would have arrived until they did.",
    ),
    look(
        Cause::Hol,
        'H',
        (0xc75000, 166),
        "Head-of-line blocking: bytes of other requests were lost, and its own bytes had to wait behind them.",
    ),
    look(
        Cause::Record,
        'R',
        (0xb0578d, 132),
        "The request’s own bytes had arrived, but the rest of their TLS record had not.",
    ),
    look(
        Cause::Server,
        'S',
        (0x3d7d3f, 65),
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
        (0x4a4c50, 239),
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

    /// How bright a colour is, from 0 to 1 (WCAG 2.2, "relative luminance").
    fn luminance(colour: u32) -> f64 {
        [(16, 0.2126), (8, 0.7152), (0, 0.0722)]
            .into_iter()
            .map(|(shift, weight)| {
                let value = f64::from((colour >> shift) & 0xff) / 255.0;
                let linear = if value <= 0.04045 {
                    value / 12.92
                } else {
                    ((value + 0.055) / 1.055).powf(2.4)
                };
                weight * linear
            })
            .sum()
    }

    #[test]
    fn white_text_is_readable_on_every_colour_of_causes() {
        for cause in Cause::ALL {
            let contrast = 1.05 / (luminance(CauseLook::of(cause).colour) + 0.05);
            assert!(contrast >= 4.5, "{cause:?} has {contrast:.2}");
        }
    }

    #[test]
    fn table_has_the_order_of_the_causes() {
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
        assert!(css.contains("  --cause-hol: #c75000;\n"), "{css}");
        assert_eq!(css.matches("{ --cause: var(").count(), Cause::ALL.len());
    }
}

//! The letter and the colour of each cause in a terminal, which are the same in every bar of every run.
//!
//! The colours are those of assets/style.css, as far as the 256 colours of a terminal have them. What a cause means is
//! said by squall-base (`record::Cause`).

use squall_base::record::Cause;

/// The letter of a cause, which no other cause has.
pub(crate) const fn letter(cause: Cause) -> char {
    match cause {
        Cause::Queue => 'Q',
        Cause::Connect => 'C',
        Cause::Tls => 'T',
        Cause::WindowStream => 'W',
        Cause::WindowConnection => 'N',
        Cause::WindowReceive => 'V',
        Cause::Cwnd => 'G',
        Cause::Pacing => 'P',
        Cause::SendBuffer => 'B',
        Cause::Link => 'K',
        Cause::Distance => 'D',
        Cause::Loss => 'L',
        Cause::Hol => 'H',
        Cause::Record => 'R',
        Cause::Server => 'S',
        Cause::Host => 'O',
        Cause::Unknown => 'U',
    }
}

/// The colour of a cause among the 256 of xterm, which no other cause has.
pub(crate) const fn colour(cause: Cause) -> u8 {
    match cause {
        Cause::Queue => 97,
        Cause::Connect => 67,
        Cause::Tls => 32,
        Cause::WindowStream => 94,
        Cause::WindowConnection => 130,
        Cause::WindowReceive => 136,
        Cause::Cwnd => 100,
        Cause::Pacing => 64,
        Cause::SendBuffer => 101,
        Cause::Link => 30,
        Cause::Distance => 66,
        Cause::Loss => 160,
        Cause::Hol => 166,
        Cause::Record => 132,
        Cause::Server => 65,
        Cause::Host => 244,
        Cause::Unknown => 239,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_cause_has_a_letter_and_a_colour_of_its_own() {
        let letters: BTreeSet<char> = Cause::ALL.into_iter().map(letter).collect();
        let colours: BTreeSet<u8> = Cause::ALL.into_iter().map(colour).collect();
        assert_eq!((letters.len(), colours.len()), (17, 17));
    }
}

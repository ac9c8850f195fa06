//! Whether a client may watch the clock instead of sleeping: only where a processor is left for everybody else.
//!
//! How it does that is the client's own matter (squall-stations).

use squall_base::Duration;
use squall_linux::scheduling;
use squall_stations::client::Spin;

/// What is spun where nobody has said: longer than threads take to wake up on machines that sleep (38 us in the middle and
/// 82 us at p99 where this was measured), sparingly.
pub(crate) const USUAL: Spin = Spin::sparing(Duration::from_micros(60));

/// What became of the wish to spin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) spin: Spin,
    /// What to tell the person, if the machine is too small for what was asked.
    pub(crate) said: Option<String>,
}

/// Grants `asked` if this machine has a processor for each of `spinners` threads and one more.
pub(crate) fn within(asked: Spin, spinners: u32) -> Granted {
    on(asked, spinners, scheduling::processors())
}

fn on(asked: Spin, spinners: u32, processors: usize) -> Granted {
    let needed = spinners as usize + 1;
    if asked.time.is_zero() || processors >= needed {
        return Granted {
            spin: asked,
            said: None,
        };
    }
    // Nobody has asked for the sparing one, so nobody misses it.
    let said = (!asked.is_sparing).then(|| {
        format!(
            "not spinning: it takes a processor for each of {spinners} threads and one for everybody else, and there \
             are {processors}"
        )
    });
    Granted {
        spin: Spin::default(),
        said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_processors_do_not_spin() {
        let asked = Spin::always(Duration::from_micros(60));
        assert_eq!(on(asked, 1, 2).spin, asked);
        assert_eq!(on(asked, 2, 2).spin, Spin::default());
        assert!(on(asked, 2, 2).said.unwrap().contains("2 threads"));
        assert_eq!(on(Spin::default(), 8, 1).said, None, "nobody asked");
        assert_eq!(on(USUAL, 1, 2).spin, USUAL);
        assert_eq!(on(USUAL, 2, 2), on(Spin::default(), 2, 2), "nobody asked");
    }
}

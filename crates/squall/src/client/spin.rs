//! Whether a client may watch the clock instead of sleeping: only where a processor is left for everybody else.
//!
//! How it does that is the client's own matter (squall-stations).

use squall_base::Duration;
use squall_linux::scheduling;

/// What became of the wish to spin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spin {
    /// How long before a request is due the client stops sleeping; zero: it does not spin.
    pub(crate) time: Duration,
    /// What to tell the person, if the machine is too small for what was asked.
    pub(crate) said: Option<String>,
}

/// Grants `asked` if this machine has a processor for each of `spinners` threads and one more.
pub(crate) fn within(asked: Duration, spinners: u32) -> Spin {
    on(asked, spinners, scheduling::processors())
}

fn on(asked: Duration, spinners: u32, processors: usize) -> Spin {
    let needed = spinners as usize + 1;
    if asked.is_zero() || processors >= needed {
        return Spin {
            time: asked,
            said: None,
        };
    }
    Spin {
        time: Duration::ZERO,
        said: Some(format!(
            "not spinning: it takes a processor for each of {spinners} threads and one for everybody else, and there \
             are {processors}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_processors_do_not_spin() {
        let asked = Duration::from_micros(60);
        assert_eq!(on(asked, 1, 2).time, asked);
        assert_eq!(on(asked, 2, 2).time, Duration::ZERO);
        assert!(on(asked, 2, 2).said.unwrap().contains("2 threads"));
        assert_eq!(on(Duration::ZERO, 8, 1).said, None, "nobody asked");
    }
}

//! Whether a client may spin on the clock instead of sleeping: only if that leaves a processor free for everything
//! else.
//!
//! squall-stations implements the spinning.

use squall_base::Duration;
use squall_linux::scheduling;
use squall_stations::client::Spin;

/// The default: spin sparingly, but for longer than most threads take to wake up on machines whose processors sleep (where
/// this was measured, the median was 38 us and the p99 82 us).
pub(crate) const USUAL: Spin = Spin::sparing(Duration::from_micros(60));

/// The result of a request to spin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpinGrant {
    pub(crate) spin: Spin,
    /// Message for the user if the machine has too few processors.
    pub(crate) message: Option<String>,
}

/// Grants `asked` if this machine has one processor for each of `spinners` threads and one more.
pub(crate) fn grant(asked: Spin, spinners: u32) -> SpinGrant {
    grant_on(asked, spinners, scheduling::processors())
}

fn grant_on(asked: Spin, spinners: u32, processors: usize) -> SpinGrant {
    let needed = spinners as usize + 1;
    if asked.time.is_zero() || processors >= needed {
        return SpinGrant {
            spin: asked,
            message: None,
        };
    }
    // Sparing spin is never requested explicitly, so refusing it needs no message.
    let message = (!asked.is_sparing).then(|| {
        format!(
            "not spinning: it takes a processor for each of {spinners} threads and one for everything else, and there are \
             {processors}"
        )
    });
    SpinGrant {
        spin: Spin::default(),
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_processors_disable_spinning() {
        let asked = Spin::always(Duration::from_micros(60));
        assert_eq!(grant_on(asked, 1, 2).spin, asked);
        assert_eq!(grant_on(asked, 2, 2).spin, Spin::default());
        assert!(grant_on(asked, 2, 2).message.unwrap().contains("2 threads"));
        assert_eq!(
            grant_on(Spin::default(), 8, 1).message,
            None,
            "nobody asked"
        );
        assert_eq!(grant_on(USUAL, 1, 2).spin, USUAL);
        assert_eq!(
            grant_on(USUAL, 2, 2),
            grant_on(Spin::default(), 2, 2),
            "nobody asked"
        );
    }
}

//! Judges what the kernel lets this process do. The results of the attempts are passed in; nothing is tried here.

use squall_linux::SetupError;
use squall_linux::host::Host;
use squall_linux::link_thread::PRIORITY;
use squall_linux::probe::TriedCongestionControl;
use squall_linux::scheduling::Scheduling;
use squall_linux::user_namespace::Privilege;

use super::check::Check;

/// The default congestion control of recipes.
const DEFAULT_CONGESTION_CONTROL: &str = "cubic";
const NO_HOST: &str = "not tried: there is no network namespace to try it in";
const MEND_NAMESPACES: &str =
    "Fix the network namespaces first, then run this again: `squall doctor`";
const BE_ROOT: &str = "Run as root: `sudo squall doctor`; in a container, add --cap-add NET_ADMIN --cap-add SYS_ADMIN \
                       --security-opt apparmor=unconfined";

/// Whether hosts can be created.
pub(super) fn network_namespaces(
    privilege: &Result<Privilege, SetupError>,
    host: &Result<Host, SetupError>,
) -> Check {
    const NAME: &str = "network namespaces";
    match (privilege, host) {
        // If both failed, the host's failure only follows from the missing privilege.
        (Err(error), Err(_)) | (Ok(_), Err(error)) => refused(Check::missing, NAME, error),
        (Ok(Privilege::UserNamespace), Ok(_)) => {
            Check::ok(NAME, "made one, through a user namespace")
        }
        (Ok(Privilege::Own) | Err(_), Ok(_)) => {
            Check::ok(NAME, "made one, with this process's own rights")
        }
    }
}

/// Whether a link's devices can be created. The driver can be checked even without a host.
pub(super) fn tun_device(
    driver: Result<(), SetupError>,
    device: Option<Result<(), SetupError>>,
) -> Check {
    const NAME: &str = "TUN device";
    match (driver, device) {
        (Err(error), _) | (Ok(()), Some(Err(error))) => refused(Check::missing, NAME, &error),
        (Ok(()), Some(Ok(()))) => Check::ok(NAME, "/dev/net/tun opens, made a device"),
        (Ok(()), None) => Check::missing(
            NAME,
            format!("/dev/net/tun opens; a device was {NO_HOST}"),
            MEND_NAMESPACES,
        ),
    }
}

/// Whether a TUN device supports checksum and segmentation offload. The links of a trial do not use it.
pub(super) fn offloads(tried: Option<Result<(), SetupError>>) -> Check {
    const NAME: &str = "offloads";
    match tried {
        Some(Ok(())) => Check::ok(
            NAME,
            "a TUN device can have checksum and segmentation offload; faithful links use neither",
        ),
        Some(Err(error)) => refused(Check::limited, NAME, &error),
        None => Check::limited(NAME, NO_HOST, MEND_NAMESPACES),
    }
}

/// Which congestion controls sockets accept in a host, and which ones outside of hosts. Commands without a recipe work
/// outside, where an ordinary user may not set all of them.
pub(super) fn congestion_controls(
    tried: Option<Result<Vec<TriedCongestionControl>, SetupError>>,
    outside: &[TriedCongestionControl],
    available: Option<&str>,
    default: Option<&str>,
) -> Check {
    const NAME: &str = "congestion controls";
    let tried = match tried {
        Some(Ok(tried)) => tried,
        Some(Err(error)) => return refused(Check::missing, NAME, &error),
        None => return Check::missing(NAME, NO_HOST, MEND_NAMESPACES),
    };
    let (taken, refused): (Vec<_>, Vec<_>) = tried.iter().partition(|(_, result)| result.is_ok());
    let words = |of: &[&TriedCongestionControl]| {
        let names: Vec<&str> = of.iter().map(|(name, _)| *name).collect();
        names.join(" ")
    };
    let settable: Vec<_> = outside
        .iter()
        .filter(|(_, result)| result.is_ok())
        .collect();
    let mut found = format!(
        "recipes can use {}; `serve`, `proxy`, `fetch` and `load` use the default and can be set to {}; the kernel has \
         {}, by default {}",
        or_none(&words(&taken)),
        or_none(&words(&settable)),
        available.map_or("unknown", or_none),
        default.unwrap_or("unknown")
    );
    if refused.is_empty() {
        return Check::ok(NAME, found);
    }
    found += &format!("; not available: {}", words(&refused));
    let modules: Vec<String> = refused
        .iter()
        .map(|(name, _)| format!("tcp_{name}"))
        .collect();
    let advice = format!(
        "Load what recipes need: `sudo modprobe -a {}`",
        modules.join(" ")
    );
    if refused
        .iter()
        .any(|(name, _)| *name == DEFAULT_CONGESTION_CONTROL)
    {
        Check::missing(NAME, found, advice)
    } else {
        Check::limited(NAME, found, advice)
    }
}

/// A kind of namespace that only `squall link` needs: PID namespaces end the programs that it starts, and mount namespaces
/// give these programs names for the hosts.
pub(super) fn own_namespace(name: &'static str, tried: Result<(), SetupError>) -> Check {
    match tried {
        Ok(()) => Check::ok(name, "made one"),
        Err(error) => {
            let check = refused(Check::limited, name, &error);
            Check {
                found: format!("{} (needed by `squall link` only)", check.found),
                ..check
            }
        }
    }
}

/// Whether squall's threads get real-time scheduling. `None` if no thread could try.
pub(super) fn real_time(scheduling: Option<Scheduling>) -> Check {
    const NAME: &str = "real-time scheduling";
    let advice = || {
        format!(
            "Run as root, or allow it in this shell: `sudo prlimit --pid $$ --rtprio={PRIORITY}:{PRIORITY}` (for good: \
             a line `* - rtprio {PRIORITY}` in /etc/security/limits.conf); in a container, add --cap-add SYS_NICE"
        )
    };
    match scheduling {
        Some(Scheduling::Fifo) => Check::ok(NAME, format!("a thread got SCHED_FIFO {PRIORITY}")),
        Some(Scheduling::Other) => Check::limited(
            NAME,
            "refused: threads run under the default policy, with the shortest slice, and squall's own error is larger",
            advice(),
        ),
        None => Check::limited(NAME, "not tried: no thread could request it", advice()),
    }
}

/// The share of time that real-time threads may use, in us (sched(7)); -1 means no limit. The kernel's default is 95 %,
/// and the link's spinning was measured with it.
pub(super) fn real_time_share(runtime_us: Option<i64>, period_us: Option<i64>) -> Check {
    const NAME: &str = "real-time share";
    match (runtime_us, period_us) {
        (Some(runtime), _) if runtime < 0 => {
            Check::ok(NAME, "not limited (sched_rt_runtime_us -1)")
        }
        (Some(runtime), Some(period)) => {
            let found = format!("{runtime} of {period} us (sched_rt_runtime_us)");
            if runtime.saturating_mul(100) >= period.saturating_mul(95) {
                Check::ok(NAME, found)
            } else {
                Check::limited(
                    NAME,
                    found,
                    format!(
                        "Restore the kernel's default: `sudo sysctl -w kernel.sched_rt_runtime_us={}`",
                        period.saturating_mul(95) / 100
                    ),
                )
            }
        }
        _ => Check::ok(NAME, "not visible"),
    }
}

/// A check decided by the kernel's refusal. The error's text ends with its advice, which is shown on a separate line
/// here.
fn refused(
    judged: fn(&'static str, String, String) -> Check,
    name: &'static str,
    error: &SetupError,
) -> Check {
    let told = error.to_string();
    let advice = error.advice();
    let found = advice
        .and_then(|advice| told.strip_suffix(advice))
        .unwrap_or(&told);
    judged(
        name,
        found.trim_end_matches([' ', '.']).to_owned(),
        advice.unwrap_or(BE_ROOT).to_owned(),
    )
}

fn or_none(names: &str) -> &str {
    if names.is_empty() { "none" } else { names }
}

#[cfg(test)]
mod tests {
    use std::io;

    use squall_linux::socket::SocketError;

    use super::super::check::State;
    use super::*;

    fn closed_driver() -> SetupError {
        SetupError::TunDriver {
            advice: "allow all users with `sudo chmod 666 /dev/net/tun`",
            source: io::ErrorKind::PermissionDenied.into(),
        }
    }

    fn no_user_namespace() -> SetupError {
        SetupError::UserNamespace {
            advice: "Run as root".to_owned(),
            source: io::ErrorKind::PermissionDenied.into(),
        }
    }

    fn tried(names: &[&'static str], refused: &[&'static str]) -> Vec<TriedCongestionControl> {
        let refusal = |name: &str| SocketError::CongestionControl {
            name: name.to_owned(),
            choices: String::new(),
            source: nix::errno::Errno::ENOENT,
        };
        let good = names.iter().map(|name| (*name, Ok(())));
        let bad = refused.iter().map(|name| (*name, Err(refusal(name))));
        good.chain(bad).collect()
    }

    #[test]
    fn advice_is_separated_from_the_error_text() {
        let check = network_namespaces(&Err(no_user_namespace()), &Err(closed_driver()));
        assert_eq!(check.state, State::Missing);
        assert_eq!(check.advice.as_deref(), Some("Run as root"));
        assert!(check.found.contains("user namespace"), "{}", check.found);
        assert!(!check.found.contains("Run as root"), "{}", check.found);
    }

    #[test]
    fn devices_need_a_driver_and_a_host() {
        assert_eq!(tun_device(Ok(()), Some(Ok(()))).state, State::Ok);
        let closed = tun_device(Err(closed_driver()), Some(Err(closed_driver())));
        assert_eq!(closed.state, State::Missing);
        assert!(
            closed
                .advice
                .is_some_and(|advice| advice.contains("chmod 666"))
        );
        assert_eq!(tun_device(Ok(()), None).state, State::Missing);
        assert_eq!(offloads(Some(Ok(()))).state, State::Ok);
        assert_eq!(offloads(Some(Err(closed_driver()))).state, State::Limited);
        assert_eq!(offloads(None).state, State::Limited);
    }

    #[test]
    fn missing_cubic_is_fatal_and_missing_bbr_is_a_limit() {
        let state = |names: &[&'static str], refused: &[&'static str]| {
            let tried = Some(Ok(tried(names, refused)));
            let check = congestion_controls(tried, &[], Some("reno"), None);
            (check.state, check.advice.unwrap_or_default())
        };
        assert_eq!(state(&["cubic", "reno", "bbr"], &[]).0, State::Ok);
        let (limited, advice) = state(&["cubic", "reno"], &["bbr"]);
        assert_eq!(limited, State::Limited);
        assert!(advice.contains("modprobe -a tcp_bbr"), "{advice}");
        let (missing, advice) = state(&[], &["cubic", "bbr"]);
        assert_eq!(missing, State::Missing);
        assert!(advice.contains("tcp_cubic tcp_bbr"), "{advice}");
        let untried = congestion_controls(None, &[], None, None);
        assert_eq!(untried.state, State::Missing);
    }

    #[test]
    fn no_limit_if_a_user_may_set_a_congestion_control_only_in_hosts() {
        let inside = tried(&["cubic", "reno", "bbr"], &[]);
        let outside = tried(&["reno", "bbr"], &["cubic"]);
        let known = Some("reno bbr cubic");
        let check = congestion_controls(Some(Ok(inside)), &outside, known, Some("bbr"));
        assert_eq!(check.state, State::Ok);
        for part in [
            "recipes can use cubic reno bbr",
            "set to reno bbr;",
            "default bbr",
        ] {
            assert!(check.found.contains(part), "{}", check.found);
        }
    }

    #[test]
    fn missing_namespaces_for_squall_link_are_a_limit() {
        assert_eq!(own_namespace("PID namespaces", Ok(())).state, State::Ok);
        let refused = own_namespace("PID namespaces", Err(no_user_namespace()));
        assert_eq!(refused.state, State::Limited);
        assert!(refused.found.contains("squall link"), "{}", refused.found);
    }

    #[test]
    fn missing_real_time_scheduling_is_a_limit() {
        assert_eq!(real_time(Some(Scheduling::Fifo)).state, State::Ok);
        let refused = real_time(Some(Scheduling::Other));
        assert_eq!(refused.state, State::Limited);
        assert!(
            refused
                .advice
                .is_some_and(|advice| advice.contains("--rtprio=2:2"))
        );
        assert_eq!(real_time(None).state, State::Limited);
        let state = |runtime, period| real_time_share(runtime, period).state;
        assert_eq!(state(Some(950_000), Some(1_000_000)), State::Ok);
        assert_eq!(state(Some(-1), Some(1_000_000)), State::Ok);
        assert_eq!(state(Some(500_000), Some(1_000_000)), State::Limited);
        assert_eq!(state(None, None), State::Ok);
    }
}

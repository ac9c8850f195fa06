//! What the limits of this process's cgroup and of the groups above it did: processor time (cpu.max) and memory
//! (memory.high, memory.max).
//!
//! Counters since the groups were made, added up over all levels that are visible; `None` if no level has them. In a
//! container with a cgroup namespace, levels above the container are not visible. Parsers take text; `shared` has the
//! other things that programs of a machine share.

use std::fs;
use std::path::{Path, PathBuf};

use squall_base::Duration;

/// For how long the kernel stopped the groups, because their processor time was used up.
pub(crate) fn throttled() -> Option<Duration> {
    add_up(&folders("cpu"), "cpu.stat", parse_throttled).map(Duration::from_nanos)
}

/// How many times a group reached its memory limit. memory.events counts the groups below as well, the local file does not.
pub(crate) fn memory_limit_reached() -> Option<u64> {
    add_up(
        &folders("memory"),
        "memory.events.local",
        parse_memory_limit,
    )
}

fn add_up(folders: &[PathBuf], file: &str, parse: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let counts = folders
        .iter()
        .filter_map(|folder| parse(&fs::read_to_string(folder.join(file)).ok()?));
    counts.reduce(|sum, count| sum + count)
}

/// The folders of the process's groups that may have files of this controller.
fn folders(controller: &str) -> Vec<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    parse_groups(&groups, controller)
}

/// `groups` is /proc/self/cgroup: lines of hierarchy, controllers and path (cgroups(7)). Version 2 has no controllers in
/// its line. Each folder comes before those above it.
fn parse_groups(groups: &str, controller: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let root = if controllers.is_empty() {
            Path::new("/sys/fs/cgroup").to_owned()
        } else if controllers.split(',').any(|name| name == controller) {
            Path::new("/sys/fs/cgroup").join(controllers)
        } else {
            continue;
        };
        let levels = Path::new(path.trim_start_matches('/')).ancestors();
        folders.extend(levels.map(|level| root.join(level)));
    }
    folders
}

/// Nanoseconds in the text of cpu.stat: version 2 has microseconds, version 1 nanoseconds.
fn parse_throttled(stat: &str) -> Option<u64> {
    match value(stat, "throttled_usec") {
        Some(micros) => micros.checked_mul(1_000),
        None => value(stat, "throttled_time"),
    }
}

/// How many times a group was above memory.high, plus how many times it was at memory.max.
fn parse_memory_limit(events: &str) -> Option<u64> {
    Some(value(events, "high")? + value(events, "max")?)
}

/// The number after `name` in lines of a name and a number.
fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (found, number) = line.split_once(' ')?;
        (found == name).then(|| number.trim().parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_parent_cgroups_are_read_too() {
        let of = |groups, controller| -> Vec<String> {
            let folders = parse_groups(groups, controller).into_iter();
            folders
                .map(|folder| folder.to_string_lossy().trim_end_matches('/').to_owned())
                .collect()
        };
        let expected = [
            "/sys/fs/cgroup/user.slice/a:b",
            "/sys/fs/cgroup/user.slice",
            "/sys/fs/cgroup",
        ];
        assert_eq!(of("0::/user.slice/a:b\n", "cpu"), expected);
        let old = "4:memory:/job\n1:cpu,cpuacct:/\n";
        assert_eq!(of(old, "cpu"), ["/sys/fs/cgroup/cpu,cpuacct"]);
        let expected = ["/sys/fs/cgroup/memory/job", "/sys/fs/cgroup/memory"];
        assert_eq!(of(old, "memory"), expected);
        assert_eq!(of("", "cpu"), [""; 0]);
    }

    #[test]
    fn time_of_a_stopped_cgroup_is_read() {
        let stat = "usage_usec 10\nnr_throttled 2\nthrottled_usec 61234\n";
        assert_eq!(parse_throttled(stat), Some(61_234_000));
        let version_1 = "nr_periods 5\nnr_throttled 2\nthrottled_time 61234\n";
        assert_eq!(parse_throttled(version_1), Some(61_234));
        assert_eq!(parse_throttled("usage_usec 10\n"), None);
    }

    #[test]
    fn counts_of_reached_memory_limits_are_read() {
        let events = "low 9\nhigh 3\nmax 12\noom 1\noom_kill 0\n";
        assert_eq!(parse_memory_limit(events), Some(15));
        assert_eq!(parse_memory_limit("low 0\n"), None);
    }
}

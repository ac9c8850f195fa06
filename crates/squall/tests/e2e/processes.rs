//! The processes of this machine, as /proc shows them: for tests that watch or end those of a run.
//!
//! Nothing here starts or ends one; `support` starts squall.

use std::fs;

/// The ids of all processes.
pub(crate) fn all() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").expect("/proc is there").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The process of this name among the descendants of `below`.
pub(crate) fn process_below(below: u32, name: &str) -> Option<i32> {
    processes_below(below, name).first().copied()
}

/// All processes of this name among the descendants of `below`.
pub(crate) fn processes_below(below: u32, name: &str) -> Vec<i32> {
    let stat = |pid: i32| -> Option<(String, i32)> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (start, rest) = text.rsplit_once(") ")?;
        let name = start.split_once('(')?.1.to_owned();
        Some((name, rest.split(' ').nth(1)?.parse().ok()?))
    };
    let is_below = |pid: &i32| {
        let pid = *pid;
        let Some((found, mut parent)) = stat(pid) else {
            return false;
        };
        while found == name && parent > 1 {
            if parent == below as i32 {
                return true;
            }
            parent = stat(parent).map_or(0, |(_, above)| above);
        }
        false
    };
    all().filter(is_below).collect()
}

/// The worker of the run of this process, once its client is running.
pub(crate) fn worker_with_client(runner: u32) -> Option<i32> {
    squall_with_thread(runner, "squall-client")
}

/// The worker of this `squall link --forward`.
pub(crate) fn worker_that_forwards(link: u32) -> Option<i32> {
    squall_with_thread(link, "squall-forward")
}

/// The process of squall with a thread of this name among the descendants of `below`.
fn squall_with_thread(below: u32, name: &str) -> Option<i32> {
    let mut found = processes_below(below, "squall").into_iter();
    found.find(|process| has_thread(*process, name))
}

fn has_thread(process: i32, name: &str) -> bool {
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let mut names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.any(|comm| comm.trim() == name)
}

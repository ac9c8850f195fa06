//! How much processor time programs outside of a run use: what all processors worked, less what the run's processes used.
//!
//! Both are counters in ticks of 10 ms, and the kernel may estimate the first by what runs at each tick: a result of a few ticks
//! may be chance. Work in interrupts belongs to the program that it interrupts,
//! unless the kernel accounts for it separately (CONFIG_IRQ_TIME_ACCOUNTING): then the run's own interrupts look like another
//! program. Whether other programs disturbed a trial is judged elsewhere; `shared` has what a hypervisor or a cgroup takes.

use std::collections::BTreeMap;
use std::fs;

use squall_base::Duration;

use crate::machine::ProcessorTimes;

/// USER_HZ is 100 on all architectures that squall runs on.
const TICK_MS: u64 = 10;

/// The processor time that was used until some moment, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorUse {
    /// By everything on the machine, interrupts included, since boot.
    busy: u64,
    /// By the processes of a tree that still exist, and by their children that have ended and were waited for.
    own: u64,
    /// How many processors the machine has.
    processors: u64,
}

impl ProcessorUse {
    /// Reads what the machine and the processes below `top`, itself included, have used. `None` if that is not visible: in
    /// another PID namespace than `top`, and where /proc hides the processes of other users (hidepid), which may belong to the
    /// tree.
    pub fn read(top: u32) -> Option<ProcessorUse> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let processes = Process::read_all()?;
        // The first process is always there, unless other users' processes are hidden.
        if !processes.iter().any(|process| process.id == 1) {
            return None;
        }
        Some(ProcessorUse {
            busy: ProcessorTimes::parse(&stat)?.busy,
            own: ticks_below(&processes, top)?,
            processors: count_processors(&stat),
        })
    }

    /// The time that programs outside of the tree have used since `earlier`, on all processors together.
    pub fn of_others_since(self, earlier: ProcessorUse) -> Duration {
        // A counter that went backwards, as on a virtual machine that has moved to another host, counts as zero.
        let busy = self.busy.saturating_sub(earlier.busy);
        let own = self.own.saturating_sub(earlier.own);
        Duration::from_millis(busy.saturating_sub(own).saturating_mul(TICK_MS))
    }

    /// How many processors the machine has.
    pub fn processors(self) -> u64 {
        self.processors
    }
}

/// The lines `cpu0`, `cpu1` and so on of /proc/stat, one for each processor that is in use.
fn count_processors(stat: &str) -> u64 {
    let numbers = stat.lines().filter_map(|line| line.strip_prefix("cpu"));
    let lines = numbers.filter(|number| number.starts_with(|c: char| c.is_ascii_digit()));
    lines.count() as u64
}

/// What /proc/PID/stat says about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    id: u32,
    parent: u32,
    /// What it used (utime, stime), and what its children used that it waited for (cutime, cstime).
    ticks: u64,
}

impl Process {
    /// The processes that are visible. Those that end meanwhile are left out.
    fn read_all() -> Option<Vec<Process>> {
        let entries = fs::read_dir("/proc").ok()?.flatten();
        let read = |entry: fs::DirEntry| {
            let id: u32 = entry.file_name().to_str()?.parse().ok()?;
            // A name may have any bytes.
            let stat = fs::read(format!("/proc/{id}/stat")).ok()?;
            Process::parse(&String::from_utf8_lossy(&stat))
        };
        Some(entries.filter_map(read).collect())
    }

    /// Parses the text of /proc/PID/stat (proc_pid_stat(5)). The name, in parentheses, may have spaces and parentheses itself.
    fn parse(stat: &str) -> Option<Process> {
        let (id, _) = stat.split_once(' ')?;
        let (_, after_name) = stat.rsplit_once(')')?;
        // From field 3 on, the state.
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Process {
            id: id.parse().ok()?,
            parent: fields.get(1)?.parse().ok()?,
            ticks: number(14)? + number(15)? + number(16)? + number(17)?,
        })
    }
}

/// The ticks of `top` and of all processes below it; `None` if `top` is not among `all`.
fn ticks_below(all: &[Process], top: u32) -> Option<u64> {
    let mut sum = all.iter().find(|process| process.id == top)?.ticks;
    let mut children: BTreeMap<u32, Vec<Process>> = BTreeMap::new();
    // A process has one parent, so without `top` among the children none is found twice, whatever changed while they were read.
    for process in all.iter().filter(|process| process.id != top) {
        children.entry(process.parent).or_default().push(*process);
    }
    let mut parents = vec![top];
    while let Some(parent) = parents.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            sum += child.ticks;
            parents.push(child.id);
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(id: u32, parent: u32, ticks: u64) -> Process {
        Process { id, parent, ticks }
    }

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat = |name: &str| {
            format!("42 ({name}) S 7 42 42 0 -1 4194560 10 20 0 0 100 20 3 4 20 0 1 0 500 1 2\n")
        };
        for name in ["nginx", "Web Content", "a) R 1 2 (b) c", ") "] {
            assert_eq!(
                Process::parse(&stat(name)),
                Some(process(42, 7, 127)),
                "{name}"
            );
        }
        for broken in ["", "42 (nginx", "42 (nginx) S 7 42", "x (nginx) S 7"] {
            assert_eq!(Process::parse(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn only_the_processes_below_the_top_one_and_itself_belong_to_the_tree() {
        let all = [
            process(1, 0, 1_000),
            process(20, 1, 1),
            process(30, 20, 10),
            process(31, 20, 100),
            process(40, 30, 10_000),
            // Its number is smaller than its parent's.
            process(5, 40, 100_000),
            process(50, 1, 3),
            process(51, 50, 4),
        ];
        assert_eq!(ticks_below(&all, 20), Some(110_111));
        assert_eq!(ticks_below(&all, 50), Some(7));
        assert_eq!(ticks_below(&all, 40), Some(110_000));
        assert_eq!(ticks_below(&all, 0), None);
        assert_eq!(ticks_below(&all, 99), None);
    }

    #[test]
    fn processes_that_were_read_while_numbers_changed_hands_count_once() {
        let all = [process(20, 21, 1), process(21, 20, 2)];
        assert_eq!(ticks_below(&all, 20), Some(3));
    }

    #[test]
    fn what_others_used_is_what_is_left_of_the_busy_time() {
        let at = |busy, own| ProcessorUse {
            busy,
            own,
            processors: 2,
        };
        let others = |now: ProcessorUse| now.of_others_since(at(1_000, 100));
        assert_eq!(others(at(1_300, 220)), Duration::from_millis(1_800));
        // The two counters are estimates of their own.
        assert_eq!(others(at(1_100, 205)), Duration::ZERO);
        assert_eq!(others(at(900, 90)), Duration::ZERO);
    }

    #[test]
    fn processors_are_counted() {
        let stat = "cpu  1 2 3 4 5 6 7 8\ncpu0 1 2 3 4 5 6 7 8\ncpu1 1 2 3 4 5 6 7 8\nintr 5\n";
        assert_eq!(count_processors(stat), 2);
    }

    #[test]
    fn this_process_is_found_below_its_parent() {
        let all = Process::read_all().expect("/proc can be listed");
        let parent = std::os::unix::process::parent_id();
        let own = std::process::id();
        let is_own = |process: &Process| process.id == own && process.parent == parent;
        assert!(all.iter().any(is_own), "{own} below {parent}: {all:?}");
    }
}

//! How much processor time programs outside of a run use: the times of all processes that do not belong to it.
//!
//! These times are the scheduler's, exact to a tick of 10 ms for each process. The machine's own counters in /proc/stat are
//! not: where the kernel counts by what runs at a tick (CONFIG_TICK_CPU_ACCOUNTING), a run whose threads wake at ticks
//! seemed to use up to 2.5 times as much as it did. The sum leaves out interrupts, kernel threads (which
//! mostly carry the run's own packets) and processes that end without being waited for, so it may be too low. In a
//! container, only its own processes are seen. Whether other programs disturbed a trial is judged elsewhere; `shared`
//! has what a hypervisor or a cgroup takes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use squall_base::Duration;

/// USER_HZ is 100 on all architectures that squall runs on.
const TICK_MS: u64 = 10;

/// The flag of kernel threads (PF_KTHREAD, include/linux/sched.h).
const PF_KTHREAD: u64 = 0x0020_0000;

/// The processor time that programs outside of a run had used at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorUse {
    /// By processes that still exist, and by their children that have ended and were waited for, in ticks.
    others: u64,
    /// How many processors the machine has.
    processors: u64,
}

impl ProcessorUse {
    /// Reads what all processes of this PID namespace except `top` and those below it have used. `None` if `top` is not
    /// in the namespace, or if /proc hides the processes of other users (hidepid).
    pub fn read(top: u32) -> Option<ProcessorUse> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let processes = Process::read_all()?;
        // The first process is always there, unless other users' processes are hidden.
        if !processes.iter().any(|process| process.id == 1) {
            return None;
        }
        Some(ProcessorUse {
            others: ticks_of_others(&processes, top)?,
            processors: count_processors(&stat),
        })
    }

    /// The time that other programs have used since `earlier`, on all processors together.
    pub fn of_others_since(self, earlier: ProcessorUse) -> Duration {
        let ticks = self.others.saturating_sub(earlier.others);
        Duration::from_millis(ticks.saturating_mul(TICK_MS))
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
    is_of_kernel: bool,
    /// The time that it used (utime, stime), and that its children used for which it has waited (cutime, cstime).
    ticks: u64,
}

impl Process {
    /// All visible processes, except those that end while this reads them.
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
        // The first of these is field 3, the state.
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Process {
            id: id.parse().ok()?,
            parent: fields.get(1)?.parse().ok()?,
            is_of_kernel: number(9)? & PF_KTHREAD != 0,
            ticks: number(14)? + number(15)? + number(16)? + number(17)?,
        })
    }
}

/// The ticks of all processes but `top`, those below it, and kernel threads; `None` if `top` is not among `all`.
fn ticks_of_others(all: &[Process], top: u32) -> Option<u64> {
    let mut of_run = BTreeSet::from([all.iter().find(|process| process.id == top)?.id]);
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process.id);
    }
    let mut parents = vec![top];
    while let Some(parent) = parents.pop() {
        let below = children.remove(&parent).unwrap_or_default();
        parents.extend(below.into_iter().filter(|child| of_run.insert(*child)));
    }
    let is_other = |process: &&Process| !process.is_of_kernel && !of_run.contains(&process.id);
    Some(
        all.iter()
            .filter(is_other)
            .map(|process| process.ticks)
            .sum(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(id: u32, parent: u32, ticks: u64) -> Process {
        Process {
            id,
            parent,
            is_of_kernel: false,
            ticks,
        }
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
        let thread = "9 (kworker/0:1H) I 2 0 0 0 -1 69238880 0 0 0 0 0 5 0 0 0 -20 1 0 30 0 0\n";
        assert!(Process::parse(thread).is_some_and(|process| process.is_of_kernel));
        for broken in ["", "42 (nginx", "42 (nginx) S 7 42", "x (nginx) S 7"] {
            assert_eq!(Process::parse(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn only_processes_outside_the_run_and_the_kernel_count_as_others() {
        let all = [
            process(1, 0, 1_000),
            Process {
                is_of_kernel: true,
                ..process(9, 2, 70)
            },
            process(20, 1, 1),
            process(30, 20, 10),
            process(31, 20, 100),
            process(40, 30, 10_000),
            // This process has a smaller number than its parent.
            process(5, 40, 100_000),
            process(50, 1, 3),
            process(51, 50, 4),
        ];
        assert_eq!(ticks_of_others(&all, 20), Some(1_007));
        assert_eq!(ticks_of_others(&all, 50), Some(111_111));
        assert_eq!(ticks_of_others(&all, 40), Some(1_118));
        assert_eq!(ticks_of_others(&all, 99), None);
    }

    #[test]
    fn processes_in_a_parent_cycle_from_reused_ids_belong_to_the_run() {
        let all = [process(20, 21, 1), process(21, 20, 2), process(1, 0, 4)];
        assert_eq!(ticks_of_others(&all, 20), Some(4));
    }

    #[test]
    fn processor_time_of_others_is_counted_in_ticks() {
        let at = |others| ProcessorUse {
            others,
            processors: 2,
        };
        let since = |now: ProcessorUse| now.of_others_since(at(1_000));
        assert_eq!(since(at(1_180)), Duration::from_millis(1_800));
        // A process has ended that no parent waited for.
        assert_eq!(since(at(900)), Duration::ZERO);
    }

    #[test]
    fn processors_in_use_are_counted() {
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

//! environment.json: the machine a run was made on, as far as it can affect the numbers, and how the run began on it.
//!
//! It measures nothing; what was in force in a trial is in trial.json. `commands/method.rs` shows both in the report.

use serde::{Deserialize, Serialize};
use squall_analysis::figure;
use squall_http::tls::Validity;
use squall_linux::awake::SleepInhibitor;
use squall_linux::clock;
use squall_linux::machine::{self, Memory, Processor};
use squall_linux::scheduling;

/// The content of environment.json.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunBeginning {
    #[serde(flatten)]
    environment: Environment,
    /// The machine's load averages of 1, 5 and 15 minutes. Older runs lack the field.
    #[serde(default)]
    load_averages: Option<String>,
    /// The words of the command that starts the same run. Older runs lack the field.
    #[serde(default)]
    command: Vec<String>,
}

impl RunBeginning {
    /// A run that begins now; `awake` as in [`Environment::read`].
    pub(crate) fn now(awake: Option<&SleepInhibitor>, command: Vec<String>) -> RunBeginning {
        RunBeginning {
            environment: Environment::read(awake),
            load_averages: machine::load_averages(),
            command,
        }
    }

    /// The words of the command that starts the same run; empty if they are not known.
    pub(crate) fn command(&self) -> &[String] {
        &self.command
    }

    /// Changes the command to one that starts a run with this many repetitions. An unknown command stays unknown.
    pub(crate) fn set_repetitions(&mut self, count: u32) {
        const FLAG: &str = "--repetitions";
        let count = count.to_string();
        match self.command.iter().position(|word| word == FLAG) {
            Some(at) if at + 1 < self.command.len() => self.command[at + 1] = count,
            None if !self.command.is_empty() => self.command.extend([FLAG.to_owned(), count]),
            Some(_) | None => {}
        }
    }

    /// What is known of the machine, for people to read: names and values.
    pub(crate) fn facts(&self) -> Vec<(&'static str, String)> {
        let machine = &self.environment;
        let processors = machine.processors as u64;
        let sleep = if machine.processors_awake {
            "kept awake"
        } else {
            "asleep when idle"
        };
        let memory = machine.memory_kib;
        let known = [
            ("squall", Some(machine.squall.clone())),
            ("kernel", machine.kernel.clone()),
            ("processor", machine.processor.clone()),
            (
                "processors",
                Some(format!("{}, {sleep}", figure::count(processors))),
            ),
            (
                "memory",
                memory.map(|kib| format!("{} MiB", figure::count(kib / 1024))),
            ),
            (
                "virtual machine",
                Some(if machine.hypervisor { "yes" } else { "no" }.to_owned()),
            ),
            ("clock source", machine.clock_source.clone()),
            (
                "congestion controls available",
                machine.congestion_controls_available.clone(),
            ),
            (
                "load averages at the beginning (1, 5, 15 min)",
                self.load_averages.clone(),
            ),
        ];
        let known = known.into_iter();
        known
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }
}

/// The machine; `None` for facts that it does not reveal.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Environment {
    squall: String,
    kernel: Option<String>,
    processor: Option<String>,
    processors: usize,
    memory_kib: Option<u64>,
    clock_source: Option<String>,
    congestion_controls_available: Option<String>,
    hypervisor: bool,
    /// Whether idle processors were kept awake. Older runs lack the field and did not keep them awake.
    #[serde(default)]
    processors_awake: bool,
}

impl Environment {
    /// Whether idle processors were kept awake.
    pub(crate) fn has_awake_processors(&self) -> bool {
        self.processors_awake
    }

    /// Reads this machine's environment; `awake` is `Some` if its processors are kept awake.
    pub(crate) fn read(awake: Option<&SleepInhibitor>) -> Environment {
        let processor = Processor::read();
        Environment {
            squall: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: machine::kernel_version(),
            processor: processor.model,
            processors: scheduling::processors(),
            memory_kib: Memory::read().total_kib,
            clock_source: machine::clock_source(),
            congestion_controls_available: machine::congestion_controls_available(),
            hypervisor: processor.is_virtual,
            processors_awake: awake.is_some(),
        }
    }
}

/// The validity of a certificate created now: one year, starting yesterday to allow for clocks that are behind.
pub(crate) fn certificate_validity() -> Validity {
    const DAY_S: i64 = 86_400;
    let now_s = i64::try_from(clock::unix_nanos() / 1_000_000_000).unwrap_or(0);
    Validity {
        not_before_unix_s: now_s - DAY_S,
        days: 365,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginning_of_a_run_adds_two_fields_to_the_environment() {
        let command = vec!["squall".to_owned(), "run".to_owned()];
        let written = serde_json::to_string(&RunBeginning::now(None, command)).unwrap();
        let environment: Environment = serde_json::from_str(&written).unwrap();
        assert_eq!(environment, Environment::read(None));
        let read: RunBeginning = serde_json::from_str(&written).unwrap();
        assert_eq!(read.command(), ["squall", "run"]);
        let facts = read.facts();
        assert!(facts.contains(&("squall", env!("CARGO_PKG_VERSION").to_owned())));
        // A run of an earlier version.
        let older = serde_json::to_string(&environment).unwrap();
        let older: RunBeginning = serde_json::from_str(&older).unwrap();
        assert!(older.command().is_empty() && older.load_averages.is_none());
    }

    #[test]
    fn command_gets_the_repetitions_that_are_added_to_the_run() {
        let words = |text: &str| -> Vec<String> {
            let words = text.split_whitespace();
            words.map(str::to_owned).collect()
        };
        for (begun, extended) in [
            (
                "squall run x --seed 1",
                "squall run x --seed 1 --repetitions 8",
            ),
            (
                "squall run x --repetitions 3 --pcap",
                "squall run x --repetitions 8 --pcap",
            ),
            ("", ""),
        ] {
            let mut beginning = RunBeginning::now(None, words(begun));
            beginning.set_repetitions(8);
            assert_eq!(beginning.command().join(" "), extended);
        }
    }
}

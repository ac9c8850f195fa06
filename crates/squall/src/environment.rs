//! environment.json: the machine a run was made on, as far as it can affect the numbers.

use serde::{Deserialize, Serialize};
use squall_http::tls::Validity;
use squall_linux::awake::SleepInhibitor;
use squall_linux::clock;
use squall_linux::machine::{self, Memory, Processor};
use squall_linux::scheduling;

/// The content of environment.json; `None` for facts that the machine does not reveal.
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

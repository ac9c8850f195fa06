//! environment.json: the machine on which a run was made, as far as it can matter to its numbers.

use serde::{Deserialize, Serialize};
use squall_http::tls::Validity;
use squall_linux::awake::Awake;
use squall_linux::clock;
use squall_linux::machine::{self, Memory, Processor};
use squall_linux::scheduling;

/// What stands in environment.json; `None` where the machine does not say.
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
    /// Whether idle processors were kept from falling asleep; runs of before it was asked did not do so.
    #[serde(default)]
    processors_awake: bool,
}

impl Environment {
    /// Reads it from this machine, whose processors are kept awake or are not.
    pub(crate) fn read(awake: Option<&Awake>) -> Environment {
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

/// How long a certificate is valid that is made now: from yesterday, for clocks that are behind, for a year.
pub(crate) fn certificate_validity() -> Validity {
    const DAY_S: i64 = 86_400;
    let now_s = i64::try_from(clock::unix_nanos() / 1_000_000_000).unwrap_or(0);
    Validity {
        not_before_unix_s: now_s - DAY_S,
        days: 365,
    }
}

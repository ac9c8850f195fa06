//! The machine had no local port left to open a connection from.

use squall_base::record::{Cause, Side};

use super::case::{Case, count};
use super::costs::SHOWN;
use super::detector::{Detector, Scope};
use super::finding::{Detection, Whole};
use super::knob::Knob;

pub(super) const DETECTOR: Detector = Detector {
    name: "port_exhaustion",
    title: "No free ports",
    explanation: "The kernel had no local port left for further connections to the same destination: 28,232 by \
                  default, each kept for 60 s after its side has closed the connection (TIME_WAIT). That allows about \
                  470 new connections a second, and any beyond that fail.",
    scope: Scope::Path,
    causes: &[Cause::Connect],
    detect,
};

fn detect(case: &Case<'_>) -> Option<Detection> {
    let all = case.records.requests.len();
    let rows = case.records.requests.iter().filter(|row| row.has_no_port);
    let mut requests: Vec<u64> = rows.map(|row| row.request).collect();
    if requests.is_empty() {
        return None;
    }
    let failed = requests.len() as u64;
    requests.truncate(SHOWN);
    Some(Detection {
        part: failed as f64 / all as f64,
        of: Whole::Requests,
        numbers: vec![count("requests without a port", failed)],
        requests,
        fixes: case.fix(1, Side::Client, Knob::Ports).into_iter().collect(),
    })
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::Outcome;

    use super::super::made::{TestTrial, is_near};

    #[test]
    fn missing_ports_are_found_and_other_failures_are_not() {
        for (error, is_found) in [
            ("Cannot assign requested address (os error 99)", true),
            (
                "cannot send datagrams to 10.0.0.2:443: no local port is free, or no local address leads there: \
                 Address already in use (os error 98)",
                true,
            ),
            ("Connection refused (os error 111)", false),
        ] {
            let mut made = TestTrial::healthy(Protocol::H1);
            made.requests[4].outcome = Outcome::ConnectFailed;
            made.requests[4].error = Some(error.to_owned());
            let finding = made.finding("port_exhaustion");
            assert_eq!(finding.is_some(), is_found, "{error}");
            if let Some(finding) = finding {
                assert!(is_near(finding.share.part, 0.01));
                assert_eq!(finding.evidence.requests, [4]);
            }
        }
    }
}

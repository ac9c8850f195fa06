//! Attribution of real trials: squall runs a small recipe over every protocol, without and with loss, and attribution must
//! find what is known about the link.
//!
//! squall-analysis tests attribution of hand-made records; `causes` tests that the recorded causes add up. Small responses,
//! which need a quiet machine, are in `alone::attribution`.

use std::collections::BTreeMap;

use squall_analysis::causes::{Attribution, Inputs, attribute};
use squall_base::Duration;
use squall_base::record::{Cause, Fate, PacketRecord, Repair, RequestRecord, Side, TrialRecord};
use squall_record::{RunFolder, TrialFolder, read_exchanges, read_frames, read_sockets};

use crate::support::{TrialFiles, quantile, run_until_valid, seat};

pub(crate) const DELAY: Duration = Duration::from_millis(25);
const PROTOCOLS: [&str; 5] = ["h1", "h1s", "h2c", "h2", "h3"];

pub(crate) struct Trial {
    record: TrialRecord,
    pub(crate) requests: Vec<RequestRecord>,
    packets: Vec<PacketRecord>,
    pub(crate) found: Attribution,
}

impl Trial {
    fn of(folder: &TrialFolder, files: TrialFiles) -> Trial {
        let TrialFiles {
            record,
            requests,
            packets,
        } = files;
        let mut inputs = Inputs::new();
        let variant = &record.trial.variant;
        for (sender, peer) in [
            (Side::Client, &variant.first_hop().server.http3),
            (Side::Server, &variant.first_hop().client.http3),
        ] {
            let (stream, connection) = (peer.stream_window, peer.connection_window);
            inputs.begin_quic_windows(sender, stream.get(), connection.get());
        }
        requests.iter().for_each(|row| inputs.add_request(row));
        packets.iter().for_each(|row| inputs.add_packet(row));
        let exchanges = read_exchanges(folder.exchanges()).expect("exchanges.parquet");
        exchanges.iter().for_each(|row| inputs.add_exchange(row));
        let frames = read_frames(folder.frames()).expect("frames.parquet");
        frames.iter().for_each(|row| inputs.add_frame(row));
        let sockets = read_sockets(folder.sockets()).expect("sockets.parquet");
        sockets.iter().for_each(|row| inputs.add_socket(row));
        let found = attribute(inputs);
        Trial {
            record,
            requests,
            packets,
            found,
        }
    }

    pub(crate) fn name(&self) -> String {
        self.record.trial.folder()
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.record.trial.condition.loss.up.get() == 0.0
    }

    /// How much of each request's time was attributed to a cause, in ms, in ascending order.
    pub(crate) fn spans_ms(&self, cause: Cause) -> Vec<f64> {
        let rows = self.found.causes.iter();
        let mut spans: Vec<f64> = rows.map(|row| row.spans[cause].as_millis_f64()).collect();
        spans.sort_by(f64::total_cmp);
        spans
    }

    pub(crate) fn sum_ms(&self, cause: Cause) -> f64 {
        self.spans_ms(cause).iter().sum()
    }

    pub(crate) fn total_ms(&self) -> f64 {
        Cause::ALL.into_iter().map(|cause| self.sum_ms(cause)).sum()
    }

    /// How late squall's own threads were, which counts as host: the sum of their 99.9th percentiles, as in verdicts.
    pub(crate) fn own_error_ms(&self) -> f64 {
        let health = &self.record.health;
        let link = health.link.iter().map(|direction| direction.lateness.p999);
        let own = [health.schedule_lag.p999, health.link_wakeup.p999];
        own.into_iter()
            .chain(link)
            .map(Duration::as_millis_f64)
            .sum()
    }

    fn print(&self) {
        let count = self.found.causes.len();
        eprintln!(
            "{}: {count} requests, {} drops",
            self.name(),
            self.found.drops.len()
        );
        eprintln!("    cause                 share       p50       p99       max ms");
        for cause in Cause::ALL {
            let spans = self.spans_ms(cause);
            let sum: f64 = spans.iter().sum();
            if sum > 0.0 {
                let share = 100.0 * sum / self.total_ms();
                let (p50, p99, max) = (
                    quantile(&spans, 0.5),
                    quantile(&spans, 0.99),
                    quantile(&spans, 1.0),
                );
                eprintln!(
                    "    {:18}{share:7.2} %{p50:10.3}{p99:10.3}{max:10.3}",
                    cause.name()
                );
            }
        }
    }
}

/// The load of a trial, which lasts two seconds.
pub(crate) struct Load {
    rate: &'static str,
    response: &'static str,
    /// How long to wait for the last responses.
    drain: &'static str,
}

/// Each request and each response is one packet. A trial has 400 of each, so the p99 is not just the second slowest.
pub(crate) const SMALL: Load = Load {
    rate: "200/s",
    response: "1KiB",
    drain: "3s",
};

/// 3 MB/s is a lot for two connections at 2 % loss. The drain is short, so responses that outlast it are attributed as
/// unfinished ones. 200 responses have about 4,200 packets, of which 84 are lost on average.
const LARGE: Load = Load {
    rate: "100/s",
    response: "30KiB",
    drain: "1s",
};

pub(crate) fn recipe(load: &Load, loss: &str) -> String {
    let Load {
        rate,
        response,
        drain,
    } = load;
    let variants: Vec<String> = PROTOCOLS
        .iter()
        .map(|protocol| {
            let connections = if protocol.starts_with("h1") {
                "\"on demand\""
            } else {
                "2"
            };
            format!(
                "[[variant]]\nname = \"{protocol}\"\npath = \"client ~{protocol}~> server\"\n\
                 connections = {connections}\n"
            )
        })
        .collect();
    format!(
        "name = \"test\"\nquestion = \"Where does the time go?\"\n[load]\nrate = \"{rate}\"\n\
         [request]\nmethod = \"POST\"\ntarget = \"/\"\nbody = \"1KiB\"\n[response]\nstatus = 200\n\
         body = \"{response}\"\n[conditions]\ndelay = \"25ms\"\nloss = \"{loss}\"\n{}\n\
         [profile.standard]\nwarmup = \"1s\"\nduration = \"1s\"\ndrain = \"{drain}\"\nrepetitions = 1\n",
        variants.concat()
    )
}

/// The trials of a run of `recipe`.
pub(crate) fn run(recipe: &str) -> Vec<Trial> {
    let run = run_until_valid(recipe, &[]);
    let folder = RunFolder::open(&run.folder).expect("the run's folder");
    let folders = folder.complete_trials().expect("its trials");
    let trials = folders.iter().zip(run.trials);
    let trials: Vec<Trial> = trials
        .map(|(folder, files)| Trial::of(folder, files))
        .collect();
    assert_eq!(trials.len(), PROTOCOLS.len());
    trials.iter().for_each(Trial::print);
    trials
}

pub(crate) fn check_sums(trial: &Trial) {
    assert_eq!(trial.requests.len(), trial.found.causes.len());
    for (request, row) in trial.requests.iter().zip(trial.found.causes.iter()) {
        assert_eq!(request.request, row.request);
        assert_eq!(request.response_time(), row.spans.total(), "{request:?}");
    }
}

/// Asserts shares of causes in response times of 100 ms and more, which hardly change if a thread is a few milliseconds late.
#[test]
fn large_responses_under_loss_are_attributed_to_known_causes() {
    let _seat = seat();
    for trial in run(&recipe(&LARGE, "2%")) {
        check_loss(&trial);
    }
}

pub(crate) fn check_loss(trial: &Trial) {
    let name = trial.name();
    check_sums(trial);
    let host = trial.sum_ms(Cause::Host) / trial.total_ms();
    assert!(host < 0.05, "{name}: host is {host}");
    let dropped = trial.packets.iter().filter(|packet| packet.fate.is_drop());
    assert_eq!(dropped.count(), trial.found.drops.len(), "{name}");
    let unknown = trial.sum_ms(Cause::Unknown) / trial.total_ms();
    assert!(unknown < 0.05, "{name}: {unknown} is unknown");
    let mut blamed = BTreeMap::new();
    for row in &trial.found.drops {
        assert_eq!(row.fate, Fate::LossDrop);
        if row.repair == Repair::NotNeeded {
            assert!(row.victims.is_empty(), "{name}: {row:?}");
        }
        for victim in &row.victims {
            *blamed
                .entry((victim.request, victim.cause as usize))
                .or_insert(Duration::ZERO) = *blamed
                .get(&(victim.request, victim.cause as usize))
                .unwrap_or(&Duration::ZERO)
                + victim.delay;
        }
    }
    for row in trial.found.causes.iter() {
        let of = |cause: Cause| {
            let blamed = blamed.get(&(row.request, cause as usize));
            blamed.copied().unwrap_or_default()
        };
        // Drops account for all of the loss of a request's own bytes, and for at most all of the other causes, which also
        // include waiting for room.
        assert_eq!(of(Cause::Loss), row.spans[Cause::Loss], "{name}: {row:?}");
        for cause in Cause::ALL {
            assert!(of(cause) <= row.spans[cause], "{name}: {cause:?} {row:?}");
        }
        let hol = row.spans[Cause::Hol] + row.spans[Cause::Loss];
        assert!(
            hol.is_zero() || row.responsible.is_some(),
            "{name}: {row:?}"
        );
    }
}

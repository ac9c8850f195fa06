//! Attribution in real trials whose requests and responses are one packet each. They need a quiet machine: a thread that is
//! late by a few milliseconds would take a large share of their response time.
//!
//! `attribution` defines the trials and tests large responses.

use squall_base::record::{Cause, Outcome};

use crate::attribution::{DELAY, SMALL, Trial, check_loss, check_sums, recipe, run};
use crate::support::{quantile, quiet_seat};

/// Checks host time, only for requests of one packet each way: a late thread can delay such a request at only a few moments.
fn check_host_of_few_packets(trial: &Trial) {
    let name = trial.name();
    let p99 = quantile(&trial.spans_ms(Cause::Host), 0.99);
    let limit = 1.0 + trial.own_error_ms();
    assert!(
        p99 < limit,
        "{name}: host's p99 is {p99} ms, {limit} are allowed"
    );
}

#[test]
fn without_loss_distance_is_exactly_one_round_trip() {
    let _seat = quiet_seat();
    for trial in run(&recipe(&SMALL, "0%")) {
        assert!(trial.is_clean());
        check_sums(&trial);
        check_host_of_few_packets(&trial);
        let host = trial.sum_ms(Cause::Host) / trial.total_ms();
        assert!(host < 0.05, "{}: host is {host}", trial.name());
        assert_eq!(trial.found.drops, [], "{}", trial.name());
        for (request, row) in trial.requests.iter().zip(trial.found.causes.iter()) {
            assert_eq!(request.outcome, Outcome::Answered);
            // Twice the link's delay, and not a nanosecond more.
            assert_eq!(
                row.spans[Cause::Distance],
                DELAY + DELAY,
                "{request:?} {row:?}"
            );
            for cause in [
                Cause::Loss,
                Cause::Hol,
                Cause::Unknown,
                Cause::Link,
                Cause::Record,
            ] {
                assert!(row.spans[cause].is_zero(), "{request:?} {row:?}");
            }
            let connect = row.spans[Cause::Connect];
            if request.opened_connection {
                assert!(connect >= DELAY + DELAY, "{row:?}");
            } else {
                assert!(connect.is_zero(), "{row:?}");
            }
            assert_eq!(row.responsible, None);
        }
    }
}

#[test]
fn delays_by_loss_are_attributed_to_the_lost_packets() {
    let _seat = quiet_seat();
    for trial in run(&recipe(&SMALL, "2%")) {
        check_loss(&trial);
        check_host_of_few_packets(&trial);
        // Every request is one packet each way, so if that packet is lost, all time beyond the bare round trip is its own loss.
        let is_h3 = trial.name().contains("-h3-");
        let is_multiplexed = trial.name().contains("-h2");
        assert_eq!(
            trial.sum_ms(Cause::Hol) > 0.0,
            is_multiplexed,
            "{}",
            trial.name()
        );
        assert!(trial.sum_ms(Cause::Loss) > 0.0, "{}", trial.name());
        if !is_h3 {
            assert_eq!(trial.sum_ms(Cause::Unknown), 0.0, "{}", trial.name());
        }
    }
}

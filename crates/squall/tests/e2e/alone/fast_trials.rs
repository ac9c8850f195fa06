//! Trials with large bodies over a link without a rate: super-packets at the devices, wire packets in the record, and figures
//! that are valid or limits.
//!
//! What super-packets do to a single flow is in `fast_link`. No test asserts a speed.

use squall_base::record::Direction;

use crate::support::{
    FinishedRun, H1, H2C_X1, OtherWork, TrialFiles, bench, run_whatever, say_disturbed, stdout,
};

/// One download of this size, 33 ms away, by HTTP/1.1 and by HTTP/2 with large windows.
fn download(size: &str, conditions: &str) -> FinishedRun {
    let text = format!(
        "name = \"test\"\nquestion = \"Which is faster on a fast link?\"\n\
         [load]\nkind = \"closed\"\nusers = 1\nrequests = 1\nwarmup = \"0s\"\nduration = \"5s\"\ndrain = \"5s\"\n\
         [response]\nbody = \"{size}\"\n\
         [conditions]\ndelay = {{ up = \"16ms\", down = \"17ms\" }}\n{conditions}\n{H1}{H2C_X1}"
    );
    run_whatever(&text, &["--attempts", "1"])
}

fn super_packets(trial: &TrialFiles) -> bool {
    let mut link = trial.record.health.link.iter();
    let down = link.find(|it| it.direction == Direction::Down);
    let down = down.expect("a link has both directions");
    down.kernel.device_sent < down.packets / 2
}

#[test]
fn large_download_over_a_link_without_a_rate_is_valid_or_a_limit() {
    let _bench = bench();
    let other_work = OtherWork::watch();
    let run = download("23MB", "");
    let mut expected = vec![0];
    for variant in ["h1", "h2c x1"] {
        let trial = run.only(variant);
        let health = &trial.record.health;
        if health.validity.is_disturbed() {
            let said = format!("{:?}", health.validity);
            let is_explained = run.is_beside_other_work() || other_work.disturbs_a_second();
            assert!(is_explained, "{said}");
            say_disturbed(&said);
            expected = vec![0, 3];
        }
        assert_eq!(trial.record.trial.fast, [true]);
        assert!(health.links[0].fast);
        assert!(super_packets(trial), "the devices exchange super-packets");
        assert!(trial.packets.iter().all(|packet| packet.length <= 1_500));
        let answered = trial.measured().filter(|request| request.succeeded());
        assert_eq!(answered.count(), 1);
        if health.validity.is_limited() {
            let reasons = health.validity.reasons().join("; ");
            assert!(reasons.contains("the emulated path carries"), "{reasons}");
            assert!(reasons.ends_with("set `rate`"), "{reasons}");
            assert!(health.links[0].carried_bit_per_s.is_some());
        }
    }
    let code = run.output.status.code().expect("an exit code");
    assert!(expected.contains(&code), "{code}: {}", stdout(&run.output));
}

#[test]
fn recipe_can_turn_off_super_packets() {
    let _bench = bench();
    let run = download("1MB", "fast = \"off\"\nlink = \"rate 200mbit\"");
    for variant in ["h1", "h2c x1"] {
        let trial = run.only(variant);
        assert_eq!(trial.record.trial.fast, [false]);
        assert!(!trial.record.health.links[0].fast && !super_packets(trial));
    }
}

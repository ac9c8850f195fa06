//! The same variant several times within one run: squall reports no difference. Other work on the machine may disturb it,
//! because that work hits each of the equal variants alike.
//!
//! Two runs are compared in `alone::compare`; squall-analysis does the same with simulated trials (`a_a`).

use crate::support::{H1, recipe, run_until_valid, say_disturbed, seat, stdout, summary_of};

/// Six names of one variant under four conditions: 20 comparisons with the first one, of six pairs each.
///
/// How often does a correct method fail here? It shows a difference only if p, after Holm's correction, is at most
/// 0.05. With all sign flips of six pairs, p is at least 2/64, but the smallest of 20 must be at most 0.05/20. So a
/// correct method never shows a difference, "at least 19 of 20" is 20 of 20, and any difference shown is a bug.
/// (Without Holm, 5 % of 20 would break "at least 19" in 26 % of runs.)
///
/// This does not detect a bias that Holm hides, so the test also counts the comparisons that "seem" different by
/// themselves. This requires p = 2/64, with all six pairs of one sign: 1 of 32 comparisons. The five comparisons of a
/// condition share their baseline and are therefore correlated. If the baseline's trials have the ranks u among equals,
/// each comparison has the probability q = prod(u) + prod(1 - u) of seeming different, and E(q^j) = sum of C(j, i) (i!
/// (j-i)! / (j+1)!)^6. Of 20 in four independent conditions, 2 or more then seem different in 14 % of runs, 4 or more
/// in 1 %, and 8 or more in 1 of 70,000. The order alternates from block to block, so a drifting machine makes signs
/// vary rather than agree.
#[test]
fn twenty_comparisons_of_the_same_variant_show_no_difference() {
    const SEEM_AT_MOST: usize = 7;
    let _seat = seat();
    let again: Vec<String> = (2..=6)
        .map(|n| H1.replace("\"h1\"", &format!("\"h1 no {n}\"")))
        .collect();
    let names: Vec<&str> = [H1]
        .into_iter()
        .chain(again.iter().map(String::as_str))
        .collect();
    // p99 needs 368 requests, and there are 380.
    let profile = "warmup = \"20ms\"\nduration = \"190ms\"\ndrain = \"1s\"\nrepetitions = 6";
    let conditions = "delay = [\"1ms\", \"2ms\"]\nloss = [\"0%\", \"2%\"]";
    let run = run_until_valid(&recipe("2000/s", conditions, &names, profile), &["-v"]);
    let summary = summary_of(&run.folder);
    let (mut comparisons, mut shown, mut seem) = (0, 0, 0);
    for condition in summary["conditions"].as_array().expect("conditions") {
        for verdict in condition["verdicts"].as_array().expect("verdicts") {
            if verdict["is"] != "compared" {
                continue;
            }
            let pairs = verdict["pairs"].as_array().map_or(0, Vec::len);
            comparisons += 1;
            assert_eq!(verdict["is_same_variant"], true);
            match verdict["finding"]["is"].as_str().expect("a finding") {
                "higher" | "lower" => shown += 1,
                "seems_higher" | "seems_lower" => seem += 1,
                "same" | "no_difference" | "within_own_error" => {}
                other => assert!(pairs < 6, "{other}: {verdict}"),
            }
            if pairs < 6 {
                // Disturbed trials are left out, and fewer pairs show nothing.
                assert!(run.has_disturbed_trials(), "{verdict}");
                say_disturbed(&format!("{pairs} pairs of 6 are valid"));
            }
        }
    }
    let said = stdout(&run.output);
    eprintln!("{comparisons} comparisons: {shown} shown, {seem} seem so");
    assert_eq!(comparisons, 20, "{said}");
    assert_eq!(shown, 0, "{said}");
    assert!(seem <= SEEM_AT_MOST, "{seem} of 20 seem so: {said}");
    // The output names a measure ("h1 no 6's p99") only if there are fewer than six pairs.
    let is_said = said.contains("A/A: h1 no 6 and h1: ");
    assert!(is_said || run.has_disturbed_trials(), "{said}");
    assert!(!said.contains("a variant differs from itself"), "{said}");
}

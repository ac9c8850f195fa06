//! Mistakes in the directions of `[conditions]`, and in the traces and schedules that it names.
//!
//! The files are made up here. What valid ones expand to is in `conditions.rs`.

use squall_recipe::{Files, StationMode, parse_with};

use super::RIGHT;

const NONE: &str = "cannot read it: No such file";
const FILE: &str = "expected a file that can be read, by its path from the recipe's folder";
const CHANGES: &str =
    "expected changes of the link, one on a line, in the order of time, such as `at 2s: loss 1%`";
const SETTINGS: &str =
    "expected settings of the link with commas between them, such as \"rate 20mbit, queue 64KiB\"";

/// Serves text files by path, and nothing else.
struct Texts;

impl Files for Texts {
    fn text(&self, path: &str) -> Result<String, String> {
        let text = match path {
            "right.trace" | "a,b.schedule" => "1\n1\n4\n",
            "backwards.trace" => "4\n1\n",
            "empty.trace" => "",
            "words.trace" => "1\ntwo\n",
            "wrong.schedule" => "# a comment\nat 1s: loss 20%\nat 2s: rate fast\n",
            "backwards.schedule" => "at 2s: loss 1%\nat 1s: loss 2%\n",
            "second-link.schedule" => "at 1s: link 2 loss 1%\n",
            "far.schedule" => "at 1s: delay 6s\n",
            "traced.schedule" => "at 1s: down trace nowhere.trace\n",
            _ => return Err(NONE.to_owned()),
        };
        Ok(text.to_owned())
    }
}

/// Replaces the loss of the valid recipe, which is line 16, by `line` and checks the problems, one a line.
#[track_caller]
fn check(line: &str, problems: &str) {
    let text = RIGHT.replace("loss = [\"0%\", \"3%\"]", line);
    let found = parse_with(&text, StationMode::Real, &Texts).expect_err("a mistake");
    assert_eq!(found.to_string(), problems, "\n{line}");
}

#[test]
fn a_table_of_directions_has_up_or_down_and_nothing_else() {
    check(
        "loss = {}",
        "16:8: missing key `up` in the directions of `loss`: expected `up`, `down` or both",
    );
    check(
        "loss = { both = \"1%\" }",
        "16:10: unknown key `both` in the directions of `loss`: expected `up` or `down`",
    );
    check(
        "loss = [\"0%\", { up = { down = \"1%\" } }]",
        "16:22: `up` is a table: expected a share, such as \"3%\" or \"0.03\"",
    );
}

#[test]
fn values_of_one_direction_are_checked_like_those_of_both() {
    check(
        "loss = { up = \"101%\" }",
        "16:15: `up` is out of range: 101%: expected 0% to 100%",
    );
    check(
        "link = { down = \"delay 5ms\" }",
        &format!("16:17: `delay 5ms` has its own key in [conditions]: {SETTINGS}"),
    );
    check(
        "link = { down = \"rate 20mb\" }",
        &format!(
            "16:17: column 6: \"rate 20mb\": unknown unit \"mb\": expected a rate in bits, such as \"20mbit\" or \
             \"500kbit\": {SETTINGS}"
        ),
    );
    check(
        "loss = [\"1%\", { down = \"1%\", up = \"1%\" }]",
        "16:15: loss `1%` is already on line 16: expected each loss once",
    );
    let text = RIGHT.replace("[\"0ms\", \"10ms\"]", "{ up = \"6s\" }");
    let found = parse_with(&text, StationMode::Real, &Texts).expect_err("a mistake");
    assert_eq!(
        found.to_string(),
        "15:16: `up` is out of range: 6s: expected at most 5s"
    );
}

#[test]
fn unreadable_and_malformed_traces_are_refused() {
    let cannot = |column: usize, trace: &str, said: &str| {
        format!(
            "16:{column}: column 7: \"trace {trace}\": the trace cannot be used: {trace}: {said}: expected times of \
             delivery in milliseconds, one on a line (mahimahi's format): {SETTINGS}"
        )
    };
    check(
        "link = \"trace nowhere.trace\"",
        &cannot(8, "nowhere.trace", NONE),
    );
    check(
        "link = { up = \"trace backwards.trace\" }",
        &cannot(
            15,
            "backwards.trace",
            "line 2: the time goes back from 4 ms to 1 ms",
        ),
    );
    check(
        "link = [\"\", { down = \"trace words.trace\" }]",
        &cannot(
            22,
            "words.trace",
            "line 2: \"two\" is not a whole number of milliseconds",
        ),
    );
    check(
        "link = \"trace empty.trace\"",
        &cannot(8, "empty.trace", "no delivery opportunity in 0 lines"),
    );
}

#[test]
fn malformed_schedules_are_refused() {
    check(
        "schedule = 3",
        "16:12: `schedule` is a whole number: expected a text in quotes",
    );
    for (schedule, said) in [
        (
            "wrong.schedule",
            "line 3, column 13: \"rate fast\": unknown name: expected a rate, or `unlimited`",
        ),
        (
            "backwards.schedule",
            "line 2, column 4: \"at 1s\": back in time: expected a time from 2s on",
        ),
        (
            "right.trace",
            "line 1, column 1: \"1\": unexpected word: expected `at`, as in `at 10s: loss 3%`",
        ),
        (
            "traced.schedule",
            "line 1, column 19: \"trace nowhere.trace\": the trace cannot be used: nowhere.trace: cannot read it: No such \
             file: expected times of delivery in milliseconds, one on a line (mahimahi's format)",
        ),
        (
            "second-link.schedule",
            "at 1s: there is no link 2: a schedule is for a single link",
        ),
        ("far.schedule", "at 1s: delay 6s is more than 5s"),
    ] {
        check(
            &format!("schedule = \"{schedule}\""),
            &format!("16:12: {schedule}: {said}: {CHANGES}"),
        );
    }
}

#[test]
fn schedules_that_are_missing_or_have_a_comma_in_their_path_are_refused() {
    check(
        "schedule = [\"\", \"nowhere.schedule\"]",
        &format!("16:17: nowhere.schedule: {NONE}: {FILE}"),
    );
    check(
        "schedule = \"a,b.schedule\"",
        &format!(
            "16:12: a,b.schedule: its path has a comma, which separates the parts of a condition: {FILE}"
        ),
    );
}

#[test]
fn primary_comparison_under_an_unknown_condition_is_refused() {
    let primary =
        "primary = { variant = \"h2c\", delay = { up = \"10ms\" }, loss = \"3%\" }\n[load]";
    let text = RIGHT.replace("[load]", primary);
    let found = parse_with(&text, StationMode::Real, &Texts).expect_err("a mistake");
    let none = |profile: &str| {
        format!(
            "3:11: the primary comparison matches 0 conditions of profile `{profile}`: expected one condition, by \
             `delay`, `loss`, `link` and `schedule` as far as they differ; a profile may have its own `primary`"
        )
    };
    assert_eq!(
        found.to_string(),
        [none("quick"), none("full")].join("\n"),
        "a direction that is left out has no delay"
    );
}

/// Adds tables of further links to the valid recipe, whose first path then has `links` links.
#[track_caller]
fn check_next(links: usize, tables: &str, problems: &str) {
    let path = match links {
        1 => "client ~h1~> server",
        _ => "client ~h1~> proxy ~h1~> server",
    };
    let text = RIGHT.replacen("client ~h1~> server", path, 1);
    let text = format!("{text}\n{tables}\n");
    let line = RIGHT.lines().count() + 2;
    let found = parse_with(&text, StationMode::Real, &Texts).expect_err("a mistake");
    let problems = problems.replace("{line}", &line.to_string());
    assert_eq!(found.to_string(), problems, "\n{tables}");
}

#[test]
fn tables_of_links_that_no_path_has_are_refused() {
    check_next(
        1,
        "[[conditions.next_link]]",
        "{line}:1: there is no link 2: expected no such table: each path has one link, and another hop with `~p~>` would \
         be a second",
    );
    check_next(
        2,
        "[[conditions.next_link]]\n[[conditions.next_link]]",
        &format!(
            "{}:1: there is no link 3: expected one such table: no path has more than 2 links",
            RIGHT.lines().count() + 3
        ),
    );
}

#[test]
fn conditions_of_a_further_link_are_checked_like_those_of_the_first() {
    let table = "[[conditions.next_link]] # the second";
    let with = |key: &str| format!("{table}\n{key}");
    let next = RIGHT.lines().count() + 3;
    check_next(
        2,
        &with("delay = \"6s\""),
        &format!("{next}:9: `delay` is out of range: 6s: expected at most 5s"),
    );
    check_next(
        2,
        &with("delay = [\"1ms\", \"2ms\"]"),
        &format!(
            "{next}:9: `delay` is a list: expected one value: only those of the first link vary"
        ),
    );
    check_next(
        2,
        &with("schedule = \"wrong.schedule\""),
        &format!(
            "{next}:1: unknown key `schedule` in [[conditions.next_link]]: expected `delay`, `loss` or `link` (`schedule` \
             is a key of [conditions])"
        ),
    );
    check_next(
        2,
        &with("link = { up = \"rate 20mb\" }"),
        &format!(
            "{next}:15: column 6: \"rate 20mb\": unknown unit \"mb\": expected a rate in bits, such as \"20mbit\" or \
             \"500kbit\": {SETTINGS}"
        ),
    );
    check_next(
        2,
        "[conditions.next_link]",
        "{line}:1: `next_link` is a table: expected a table for each link after the first (write \
         [[conditions.next_link]] with two brackets on each side)",
    );
}

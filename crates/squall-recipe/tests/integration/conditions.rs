//! What `[conditions]` expands to: delay, loss and link of each direction, traces and schedules.
//!
//! The files that recipes name are made up here. The order of the grid is in `plans.rs`, mistakes are in `errors`.

use squall_base::Duration;
use squall_base::plan::{PerDirection, Plan, RecipeFile};
use squall_recipe::{Files, StationMode, parse_with};

/// Stands in for a folder with traces and schedules.
struct MadeUp;

impl Files for MadeUp {
    fn text(&self, path: &str) -> Result<String, String> {
        let text = match path {
            "lte/down.trace" | "lte/up.trace" => "1\n1\n4\n",
            "handover.schedule" => "at 1s: loss 20%\nat 2s: down trace lte/down.trace\n",
            _ => return Err("cannot read it: No such file".to_owned()),
        };
        Ok(text.to_owned())
    }
}

fn recipe(top: &str, conditions: &str, end: &str) -> String {
    format!(
        "name = \"x\"\nquestion = \"?\"\n{top}[load]\nrate = \"10/s\"\nduration = \"1s\"\n\
         [conditions]\n{conditions}\n\
         [[variant]]\nname = \"a\"\npath = \"client ~h1~> server\"\n\
         [[variant]]\nname = \"b\"\npath = \"client ~h2c~> server\"\n{end}"
    )
}

#[track_caller]
fn plan_of(text: &str) -> Plan {
    let recipe = parse_with(text, StationMode::Real, &MadeUp);
    let recipe = recipe.unwrap_or_else(|e| panic!("{}", e.render("x", text)));
    recipe
        .plan(recipe.default_profile(), 1)
        .expect("its own profile")
}

#[track_caller]
fn names(conditions: &str) -> Vec<String> {
    let plan = plan_of(&recipe("", conditions, ""));
    plan.conditions.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn problem(conditions: &str) -> String {
    let text = recipe("", conditions, "");
    let error = parse_with(&text, StationMode::Real, &MadeUp).expect_err("it has a mistake");
    error.to_string()
}

#[test]
fn each_direction_can_have_its_own_value() {
    assert_eq!(
        names(
            "delay = [\"10ms\", { up = \"5ms\", down = \"40ms\" }]\nloss = { down = \"3%\" }\n\
             link = { up = \"rate 2mbit,queue codel\", down = \"rate 20mbit, queue codel\" }"
        ),
        [
            "delay 10ms, loss up 0% down 3%, up rate 2mbit, down rate 20mbit, \
             queue codel target 5ms interval 100ms 1000 packets",
            "delay up 5ms down 40ms, loss up 0% down 3%, up rate 2mbit, down rate 20mbit, \
             queue codel target 5ms interval 100ms 1000 packets",
        ]
    );
    let plan = plan_of(&recipe("", "delay = { up = \"5ms\", down = \"40ms\" }", ""));
    let (up, down) = (Duration::from_millis(5), Duration::from_millis(40));
    assert_eq!(plan.conditions[0].delay, PerDirection { up, down });
    assert_eq!(
        plan.trials[0].folder(),
        "0000-a-up_5ms_down_40ms-0p-r0",
        "names of folders stay plain"
    );
}

#[test]
fn equal_directions_equal_one_value_for_both() {
    let twice = problem("delay = [\"5ms\", { up = \"5ms\", down = \"5ms\" }]");
    assert_eq!(
        twice,
        "7:17: delay `5ms` is already on line 7: expected each delay once"
    );
}

#[test]
fn primary_comparison_can_name_a_condition_by_its_directions() {
    let text = recipe(
        "primary = { variant = \"b\", link = { up = \"rate 1mbit\", down = \"rate 8mbit\" } }\n",
        "link = [\"rate 1mbit\", { down = \"rate 8mbit\", up = \"rate 1mbit\" }]",
        "[profile.standard]\nprimary_repetitions = 3\n",
    );
    let plan = plan_of(&text);
    assert_eq!(plan.primary.unwrap().condition, plan.conditions[1]);
    assert_eq!(plan.trials.len(), 4 + 4);
}

#[test]
fn run_keeps_the_files_of_traces_and_schedules() {
    let text = recipe(
        "primary = { variant = \"b\", schedule = \"handover.schedule\" }\n",
        "link = { up = \"trace lte/up.trace, queue 64KiB\", down = \"trace lte/down.trace\" }\n\
         schedule = [\"\", \"handover.schedule\"]",
        "",
    );
    let plan = plan_of(&text);
    let conditions: Vec<String> = plan.conditions.iter().map(ToString::to_string).collect();
    assert_eq!(
        conditions,
        [
            "delay 0ms, loss 0%, up trace lte/up.trace, up queue 64KiB, down trace lte/down.trace",
            "delay 0ms, loss 0%, up trace lte/up.trace, up queue 64KiB, down trace lte/down.trace, \
             schedule handover.schedule",
        ]
    );
    let kept = |path: &str, kept_as: &str| RecipeFile {
        path: path.to_owned(),
        kept_as: kept_as.to_owned(),
    };
    assert_eq!(
        plan.files,
        [
            kept("handover.schedule", "0-handover.schedule"),
            kept("lte/down.trace", "1-down.trace"),
            kept("lte/up.trace", "2-up.trace"),
        ],
        "the trace that the schedule names is one of them"
    );
    assert_eq!(plan.primary.unwrap().condition, plan.conditions[1]);
}

#[test]
fn profile_can_replace_schedules() {
    let text = recipe(
        "",
        "schedule = \"handover.schedule\"",
        "[profile.standard]\nschedule = \"\"\n",
    );
    assert_eq!(plan_of(&text).conditions[0].schedule, "");
}

#[test]
fn each_further_link_has_its_own_conditions() {
    let two = recipe(
        "",
        "delay = [\"5ms\", \"10ms\"]\nschedule = \"handover.schedule\"",
        "",
    )
    .replace(
        "client ~h2c~> server",
        "client ~h2~> balancer(alb) ~h1~> server",
    );
    let own = two.replace(
        "[[variant]]\nname = \"a\"",
        "[[conditions.next_link]]\ndelay = { down = \"20ms\" }\nlink = \"rate 2mbit,queue codel\"\n\
         [[variant]]\nname = \"a\"",
    );
    let plan = plan_of(&own);
    let names: Vec<String> = plan.conditions.iter().map(ToString::to_string).collect();
    let further = "link 2 delay up 0ms down 20ms, link 2 loss 0%, link 2 rate 2mbit, \
                   link 2 queue codel target 5ms interval 100ms 1000 packets";
    assert_eq!(
        names,
        ["5ms", "10ms"]
            .map(|delay| format!("delay {delay}, loss 0%, schedule handover.schedule, {further}"))
    );
    let trial = plan
        .trials
        .iter()
        .find(|trial| trial.variant.name == "b")
        .expect("there is one");
    assert_eq!(trial.variant.links(), 2);
    assert_eq!(trial.round_trip(), Duration::from_millis(10 + 20));
    assert_eq!(trial.link_round_trip(2), Duration::from_millis(20));
    assert_ne!(trial.link_seed(1), trial.link_seed(0));
    assert!(trial.folder().contains("link_2_delay_up_0ms_down_20ms"));

    // Without a table, a further link is like the first.
    let plan = plan_of(&two);
    let of_second = plan.conditions[0].of_link(1);
    assert_eq!(of_second, plan.conditions[0]);
    assert_eq!(of_second.schedule, "handover.schedule");
}

/// Whether each link of each trial takes the fast path.
#[track_caller]
fn fast(conditions: &str, end: &str) -> Vec<Vec<bool>> {
    let plan = plan_of(&recipe("", conditions, end));
    plan.trials.into_iter().map(|trial| trial.fast).collect()
}

const DOWNLOAD: &str = "[response]\nbody = \"23MB\"\n";
const UPLOAD: &str = "[request]\nmethod = \"POST\"\nbody = \"256KiB\"\n";

#[test]
fn large_bodies_without_a_rate_take_the_fast_path_in_every_variant() {
    let both = |is_fast: bool| [vec![is_fast], vec![is_fast]];
    assert_eq!(fast("delay = \"16500us\"", DOWNLOAD), both(true));
    assert_eq!(fast("delay = \"16500us\"", UPLOAD), both(true));
    assert_eq!(fast("link = \"rate 1gbit\"", DOWNLOAD), both(true));
    let asked = "[request]\ntarget = \"/?size=1MB\"\n";
    assert_eq!(fast("delay = \"16500us\"", asked), both(true));
    let small = "[response]\nbody = \"255KiB\"\n";
    assert_eq!(fast("delay = \"16500us\"", small), both(false));
    assert_eq!(fast("link = \"rate 500mbit\"", DOWNLOAD), both(false));
    // Only the direction in which the bodies travel matters.
    let down = "link = { down = \"rate 100mbit\" }";
    assert_eq!(fast(down, DOWNLOAD), both(false));
    assert_eq!(fast(down, UPLOAD), both(true));
    let profile = "[response]\nbody = \"1KiB\"\n[profile.large]\nresponse_body = \"1MiB\"\n";
    assert_eq!(fast("", profile), both(true), "a profile replaces sizes");
}

#[test]
fn recipe_may_choose_the_fast_path_itself() {
    let both = |is_fast: bool| [vec![is_fast], vec![is_fast]];
    assert_eq!(fast("fast = \"off\"", DOWNLOAD), both(false));
    assert_eq!(fast("fast = \"on\"\nlink = \"rate 1mbit\"", ""), both(true));
    assert_eq!(fast("fast = \"auto\"", ""), both(false));
    let two = "[[variant]]\nname = \"c\"\npath = \"client ~h2~> balancer(alb) ~h1~> server\"\n\
               [response]\nbody = \"1MiB\"\n";
    let conditions = "[[conditions.next_link]]\nlink = \"rate 10mbit\"";
    assert_eq!(
        fast(conditions, two),
        [vec![true], vec![true], vec![true, false]],
        "each link by its own settings"
    );
    assert_eq!(
        problem("fast = \"yes\""),
        "7:8: \"yes\" is not a choice of the fast path: expected `auto`, `on` or `off`"
    );
}

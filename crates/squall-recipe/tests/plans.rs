//! What recipes expand to: the grid, the order of the trials, their seeds, the defaults, and the bundled
//! recipes.
//!
//! Mistakes are in `errors.rs`, laws over random texts in `laws.rs`.

use squall_base::plan::{Connections, Http2Settings, Plan, RequestTemplate};
use squall_base::{Bytes, Duration};
use squall_recipe::{Recipe, bundled, parse};

const GRID: &str = r#"
name = "grid"
question = "In which order?"
congestion_control = "bbr"
[load]
rate = "10/s"
[conditions]
delay = ["0ms", "5ms", "10ms"]
loss = "1%"
[[variant]]
name = "A"
path = "client ~h1~> server"
[[variant]]
name = "B"
path = " client  ~h2c~>server"
congestion_control = "cubic"
[[variant]]
name = "C"
path = "client ~h2c~> server"
connections = { at_most = 7 }
[profile.b]
duration = "1s"
repetitions = 2
[profile.a]
duration = "2s"
delay = "1ms"
loss = ["0%", "0.5"]
warmup = "0s"
drain = "1ms"
"#;

fn order(plan: &Plan) -> Vec<String> {
    plan.trials
        .iter()
        .map(|t| format!("r{} {} {}", t.repetition, t.condition.delay, t.variant.name))
        .collect()
}

#[test]
fn blocks_alternate_and_repetitions_come_last() {
    let plan = parse(GRID).unwrap().plan("b", 1).unwrap();
    let expected = [
        "r0 0ms A",
        "r0 0ms B",
        "r0 0ms C",
        "r0 5ms C",
        "r0 5ms B",
        "r0 5ms A",
        "r0 10ms A",
        "r0 10ms B",
        "r0 10ms C",
        "r1 0ms C",
        "r1 0ms B",
        "r1 0ms A",
        "r1 5ms A",
        "r1 5ms B",
        "r1 5ms C",
        "r1 10ms C",
        "r1 10ms B",
        "r1 10ms A",
    ];
    assert_eq!(order(&plan), expected);
    let indices: Vec<u32> = plan.trials.iter().map(|t| t.index).collect();
    assert_eq!(indices, (0..18).collect::<Vec<u32>>());
}

#[test]
fn a_block_shares_its_seed_and_no_other_block_has_it() {
    let recipe = parse(GRID).unwrap();
    let plan = recipe.plan("b", 7).unwrap();
    let blocks: Vec<u64> = plan
        .trials
        .chunks(3)
        .map(|block| {
            assert!(block.iter().all(|t| t.seed == block[0].seed));
            block[0].seed
        })
        .collect();
    let mut distinct = blocks.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 6);
    assert_eq!(
        plan,
        recipe.plan("b", 7).unwrap(),
        "the same seed gives the same plan"
    );
    assert_ne!(plan, recipe.plan("b", 8).unwrap());
}

#[test]
fn profiles_replace_what_they_name_and_keep_the_rest() {
    let recipe = parse(GRID).unwrap();
    assert_eq!(
        recipe.profiles().collect::<Vec<_>>(),
        ["b", "a"],
        "in the order of the text"
    );
    assert_eq!(
        recipe.default_profile(),
        "b",
        "the first, as there is no `standard`"
    );
    let (a, b) = (recipe.plan("a", 1).unwrap(), recipe.plan("b", 1).unwrap());
    let conditions: Vec<String> = a.conditions.iter().map(ToString::to_string).collect();
    assert_eq!(conditions, ["delay 1ms, loss 0%", "delay 1ms, loss 50%"]);
    assert_eq!(a.trials.len(), 6);
    let (a, b) = (&a.trials[0].load, &b.trials[0].load);
    assert_eq!(
        (a.warmup, a.drain),
        (Duration::ZERO, Duration::from_millis(1))
    );
    assert_eq!(
        (b.warmup, b.drain),
        (Duration::from_secs(2), Duration::from_secs(5))
    );
    assert_eq!(b.rate.to_string(), "10/s");
}

#[test]
fn an_unknown_profile_names_the_known_ones() {
    let error = parse(&GRID.replace("profile.a", "profile.standard"))
        .unwrap()
        .plan("standrd", 1);
    assert_eq!(
        error.unwrap_err().to_string(),
        "recipe `grid` has no profile `standrd`: expected `b` or `standard` \
         (did you mean `standard`?)"
    );
}

#[test]
fn what_is_not_written_has_its_documented_default() {
    let recipe = parse(
        "name = \"x\"\nquestion = \"?\"\nload = { rate = \"1/s\", duration = \"1s\" }\n\
         [[variant]]\nname = \"h1\"\npath = \"client ~h1~> server\"\n\
         [[variant]]\nname = \"h2\"\npath = \"client ~h2c~> server\"\n",
    )
    .unwrap();
    assert_eq!(recipe.profiles().collect::<Vec<_>>(), ["standard"]);
    let plan = recipe.plan("standard", 0).unwrap();
    assert_eq!(plan.trials.len(), 2);
    let (h1, h2) = (&plan.variants[0], &plan.variants[1]);
    assert_eq!(h1.connections, Connections::OnDemand { at_most: 4_096 });
    assert_eq!(h2.connections, Connections::Fixed(1));
    assert_eq!(h2.http2, Http2Settings::default());
    assert_eq!(h2.congestion_control, "cubic");
    let trial = &plan.trials[0];
    assert_eq!(trial.condition.to_string(), "delay 0ms, loss 0%");
    assert_eq!(
        trial.request,
        RequestTemplate {
            method: "GET".into(),
            target: "/".into(),
            headers: vec![],
            body: Bytes::new(0)
        }
    );
    assert_eq!(
        (trial.response.status, trial.response.body),
        (200, Bytes::new(0))
    );
}

#[test]
fn variants_have_their_own_settings_or_the_recipes() {
    let variants = parse(GRID).unwrap().variants().to_vec();
    let congestion: Vec<&str> = variants
        .iter()
        .map(|v| v.congestion_control.as_str())
        .collect();
    assert_eq!(congestion, ["bbr", "cubic", "bbr"]);
    assert_eq!(
        variants[1].path, "client ~h2c~> server",
        "one blank between words"
    );
    assert_eq!(
        variants[2].connections,
        Connections::OnDemand { at_most: 7 }
    );
}

#[test]
fn headers_keep_the_order_of_the_text_and_may_repeat() {
    let text = format!("{GRID}[request.headers]\nz = \"1\"\na = [\"2\", \"3\"]\nm = \"\"\n");
    let trial = parse(&text).unwrap().plan("b", 1).unwrap().trials.remove(0);
    let headers: Vec<String> = trial
        .request
        .headers
        .iter()
        .map(|(n, v)| format!("{n}={v}"))
        .collect();
    assert_eq!(headers, ["z=1", "a=2", "a=3", "m="]);
}

fn bundled_recipe(name: &str) -> Recipe {
    let (_, text) = bundled()
        .iter()
        .find(|(n, _)| *n == name)
        .expect("it is bundled");
    parse(text).expect("a bundled recipe is right")
}

#[test]
fn every_bundled_recipe_parses_and_every_profile_plans() {
    for (name, text) in bundled() {
        let recipe = parse(text).unwrap_or_else(|e| panic!("{}", e.render(name, text)));
        assert_eq!(recipe.name(), *name);
        for profile in recipe.profiles() {
            assert!(
                !recipe.plan(profile, 1).unwrap().trials.is_empty(),
                "{name} {profile}"
            );
        }
    }
}

#[test]
fn twilio_has_the_published_grid() {
    let recipe = bundled_recipe("twilio");
    assert_eq!(recipe.default_profile(), "standard");
    for profile in ["standard", "full"] {
        let plan = recipe.plan(profile, 1).unwrap();
        assert_eq!((plan.conditions.len(), plan.trials.len()), (9, 27));
    }
    assert_eq!(recipe.plan("quick", 1).unwrap().trials.len(), 12);
    assert_eq!(
        recipe.plan("full", 1).unwrap().trials[0]
            .load
            .duration
            .to_string(),
        "15min"
    );
}

/// 0.5 s is what a trial needs to set up and to write its records, with some reserve.
#[test]
fn the_quick_profile_of_twilio_ends_within_90_seconds() {
    let plan = bundled_recipe("twilio").plan("quick", 1).unwrap();
    let planned: f64 = plan
        .trials
        .iter()
        .map(|t| t.load_time_at_most().as_secs_f64() + 0.5)
        .sum();
    assert!(planned <= 90.0, "{planned} s");
}

#[test]
fn the_examples_of_the_reference_are_right() {
    let reference = include_str!("../../../docs/RECIPES.md");
    let examples: Vec<&str> = reference
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    let (whole, parts): (Vec<&str>, Vec<&str>) = examples
        .into_iter()
        .partition(|example| example.starts_with("name = "));
    assert_eq!((whole.len(), parts.len()), (1, 2));
    let recipe = parse(whole[0]).unwrap();
    assert_eq!(
        recipe.plan("standard", 1).unwrap().trials.len(),
        2,
        "as the reference says"
    );
    for part in parts {
        parse(&format!("{}{part}", whole[0])).unwrap();
    }
}

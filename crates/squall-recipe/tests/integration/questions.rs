//! What a recipe measures and which comparison comes first: what they expand to, and in which order trials are run.
//!
//! Mistakes in them are in `errors/question.rs`; grids without a primary comparison are in `plans.rs`.

use squall_base::Bytes;
use squall_base::plan::{FormValue, Plan, RequestBody};
use squall_recipe::parse;

const RECIPE: &str = r#"
name = "asked"
question = "Which one?"
measure = ["transfer time mean", "throughput"]
primary = { variant = "C", baseline = "B", loss = "3%" }
[load]
rate = "10/s"
duration = "1s"
[request]
body = "1MB"
[response]
body = "2MB"
[conditions]
delay = "10ms"
loss = ["0%", "3%"]
[[variant]]
name = "A"
path = "client ~h1~> server"
[[variant]]
name = "B"
path = "client ~h2c~> server"
[[variant]]
name = "C"
path = "client ~h2~> server"
[profile.standard]
primary_repetitions = 4
[profile.small]
body = "3kB"
response_body = "4kB"
variants = ["C", "A"]
loss = "0%"
primary = { variant = "C" }
repetitions = 2
primary_repetitions = 1
"#;

fn plan(profile: &str) -> Plan {
    let recipe = parse(RECIPE).unwrap_or_else(|e| panic!("{}", e.render("x", RECIPE)));
    recipe.plan(profile, 1).expect("the recipe has the profile")
}

/// `r1 3% BC`: a block, with its variants in the order in which they are run.
fn blocks(plan: &Plan) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    for trial in &plan.trials {
        let block = format!("r{} {} ", trial.repetition, trial.condition.loss);
        match blocks.last_mut().filter(|last| last.starts_with(&block)) {
            Some(last) => *last += &trial.variant.name,
            None => blocks.push(block + &trial.variant.name),
        }
    }
    blocks
}

/// Every cell once, then pairs of the primary comparison alone, in alternating order.
#[test]
fn repetitions_of_the_primary_comparison_come_last_and_alternate() {
    let plan = plan("standard");
    assert_eq!(
        blocks(&plan),
        ["r0 0% ABC", "r0 3% CBA", "r1 3% BC", "r2 3% CB", "r3 3% BC"]
    );
    let primary = plan.primary.expect("a primary comparison");
    assert_eq!(
        (primary.variant.as_str(), primary.baseline.as_str()),
        ("C", "B")
    );
    assert_eq!(primary.condition, plan.conditions[1]);
}

/// Only trials of one condition and repetition form a pair, so both must have drawn the same random numbers.
#[test]
fn each_pair_of_the_primary_comparison_shares_a_seed_of_its_own() {
    let plan = plan("standard");
    let pairs: Vec<_> = plan.trials[6..].chunks(2).collect();
    let mut seeds: Vec<u64> = plan.trials.iter().map(|trial| trial.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!((pairs.len(), seeds.len()), (3, 5));
    for pair in pairs {
        assert_eq!(pair[0].seed, pair[1].seed);
        assert_eq!(pair[0].repetition, pair[1].repetition);
    }
}

/// The baseline defaults to the recipe's first variant, the variants keep the recipe's order, and
/// `primary_repetitions` is at least `repetitions`.
#[test]
fn profile_can_leave_variants_out_and_have_its_own_primary() {
    let plan = plan("small");
    assert_eq!(blocks(&plan), ["r0 0% AC", "r1 0% CA"]);
    let names: Vec<&str> = plan.variants.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["A", "C"]);
    let primary = plan.primary.expect("a primary comparison");
    assert_eq!(
        (primary.variant.as_str(), primary.baseline.as_str()),
        ("C", "A")
    );
}

#[test]
fn profile_can_replace_the_sizes_of_bodies() {
    for (profile, request, response) in
        [("standard", 1_000_000, 2_000_000), ("small", 3_000, 4_000)]
    {
        let plan = plan(profile);
        let [only] = plan.requests.as_slice() else {
            panic!("{profile}: {:?}", plan.requests);
        };
        assert_eq!(only.body, RequestBody::Size(Bytes::new(request)));
        assert_eq!(only.method, "POST");
        let sizes = plan.trials.iter().map(|trial| trial.response.body);
        assert!(sizes.eq(vec![Bytes::new(response); plan.trials.len()]));
    }
}

#[test]
fn profile_can_replace_the_size_of_a_forms_upload() {
    let form = "body = { form = { title = \"a\", doc = { name = \"a.pdf\", size = \"1MB\" } } }";
    let text = RECIPE.replace("body = \"1MB\"", form);
    let plan = parse(&text).unwrap().plan("small", 1).unwrap();
    let RequestBody::Form(fields) = &plan.requests[0].body else {
        panic!("it is a form");
    };
    let upload = FormValue::Generated {
        name: "a.pdf".to_owned(),
        size: Bytes::new(3_000),
    };
    assert_eq!(fields[1].value, upload);
}

#[test]
fn default_measure_is_the_median_page_time_for_pages_and_the_p99_for_others() {
    let measured = |text: &str| -> Vec<String> {
        let plan = parse(text).unwrap().plan("standard", 1).unwrap();
        plan.measures.iter().map(ToString::to_string).collect()
    };
    let named = "measure = [\"transfer time mean\", \"throughput\"]\n";
    assert_eq!(measured(RECIPE), ["transfer time mean", "throughput"]);
    let unnamed = RECIPE.replace(named, "");
    assert_eq!(measured(&unnamed), ["response time p99"]);
    let closed = unnamed.replace("rate = \"10/s\"", "kind = \"closed\"\nusers = 1");
    assert_eq!(measured(&closed), ["response time p99"]);
    let tiles = unnamed.replace("rate = \"10/s\"", "kind = \"tiles\"\ntiles = 2");
    assert_eq!(measured(&tiles), ["page time p50"]);
    let single = RECIPE.replace(named, "measure = \"failed share\"\n");
    assert_eq!(measured(&single), ["failed share"]);
}

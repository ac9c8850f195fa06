//! Properties over random inputs: no text makes the parser panic, every mistake has a place in the text, and plans have
//! the size of their grid.
//!
//! The wording of messages is tested in `errors`.

use std::collections::BTreeSet;

use proptest::prelude::*;
use squall_base::plan::{Protocol, Side, SideSettings};
use squall_recipe::settings::apply;
use squall_recipe::{bundled, parse};

/// Parses the text and renders its mistakes: both must work for any text.
fn parse_and_render(text: &str) -> Result<(), TestCaseError> {
    let Err(error) = parse(text) else {
        return Ok(());
    };
    prop_assert!(!error.problems().is_empty());
    for problem in error.problems() {
        prop_assert!(problem.line >= 1 && problem.column >= 1);
        prop_assert!(
            text.get(problem.span.clone()).is_some(),
            "{:?} is not in the text",
            problem.span
        );
        prop_assert!(problem.line <= text.split('\n').count());
        prop_assert!(!problem.expected.is_empty());
    }
    let rendered = error.render("x.toml", text);
    prop_assert!(
        rendered
            .chars()
            .all(|c| !c.is_control() || c == '\n' || c == '\t')
    );
    Ok(())
}

const WORDS: &[&str] = &[
    "[load]\n",
    "[[variant]]\n",
    "[profile.a]\n",
    "[conditions]\n",
    "[request.headers]\n",
    "rate",
    "delay",
    "loss",
    "path",
    "name",
    "http2",
    "http1",
    "http3",
    "tls",
    "tcp",
    "pool",
    "client",
    "server",
    "preset",
    "nginx",
    "window_updates",
    "records",
    "framing",
    "stream_window",
    "min_version",
    "connections",
    "body",
    "headers",
    " = ",
    "\"1s\"",
    "\"1000/s\"",
    "\"client ~h1~> server\"",
    "\"3%\"",
    "\"1KiB\"",
    "[",
    "]",
    "{",
    "}",
    ", ",
    "1",
    "-1",
    "0.5",
    "true",
    "\n",
    "'''",
    "\"\"\"",
    "\\u0000",
    "é",
    "#",
    ".",
];

/// Words that match the grammar of recipes more often than random characters do.
fn token() -> impl Strategy<Value = String> {
    prop_oneof![9 => prop::sample::select(WORDS).prop_map(str::to_owned), 1 => ".{0,4}"]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_parser_panic(text in "(?s).{0,200}") {
        parse_and_render(&text)?;
    }

    #[test]
    fn no_toml_like_text_makes_the_parser_panic(tokens in prop::collection::vec(token(), 0..60)) {
        parse_and_render(&tokens.concat())?;
    }

    /// Replaces one stretch of a valid recipe: most results are still TOML.
    #[test]
    fn no_damaged_recipe_makes_the_parser_panic(
        start in any::<prop::sample::Index>(),
        len in 0_usize..40,
        replacement in prop::collection::vec(token(), 0..3),
    ) {
        let (_, text) = bundled()[0];
        let chars: Vec<char> = text.chars().collect();
        let start = start.index(chars.len());
        let end = (start + len).min(chars.len());
        let damaged: String = chars[..start]
            .iter()
            .copied()
            .chain(replacement.concat().chars())
            .chain(chars[end..].iter().copied())
            .collect();
        parse_and_render(&damaged)?;
    }

    /// Any text in place of a path, so that mistakes can point anywhere in it.
    #[test]
    fn no_path_makes_the_parser_panic(path in "[a-z12~>\\- é]{0,24}", quote in "['\"]") {
        let (_, text) = bundled()[0];
        let text = text.replacen("\"client ~h1~> server\"", &format!("{quote}{path}{quote}"), 1);
        parse_and_render(&text)?;
    }

    /// Arbitrary settings in a variant whose path is valid.
    #[test]
    fn no_settings_make_the_parser_panic(
        protocol in prop::sample::select(&["h1", "h1s", "h2c", "h2", "h3"][..]),
        tokens in prop::collection::vec(token(), 0..12),
    ) {
        let text = format!(
            "name = \"x\"\nquestion = \"?\"\nload = {{ rate = \"1/s\", duration = \"1s\" }}\n\
             [[variant]]\nname = \"v\"\npath = \"client ~{protocol}~> server\"\n{}",
            tokens.concat()
        );
        parse_and_render(&text)?;
    }

    #[test]
    fn no_assignment_panics_and_a_refused_one_changes_nothing(
        key in prop_oneof![
            "(http[123]|tls|tcp)\\.[a-z_.]{0,24}",
            prop::sample::select(&[
                "http1.framing", "http2.window_updates", "http2.stream_window", "http2.goaway_after",
                "http3.max_ack_delay", "http3.congestion_control", "tls.records", "tls.ciphers",
                "tls.min_version", "tcp.keep_alive", "tcp.send_buffer", "tcp.slow_start_after_idle",
                "tcp.max_cwnd", "tcp.max_pacing_rate",
            ][..]).prop_map(str::to_owned),
            "(?s).{0,12}",
        ],
        equals in "=?",
        value in prop_oneof![
            "(?s).{0,20}",
            "[0-9.]{1,6}(ms|s|KiB|MiB|B|)",
            prop::collection::vec(token(), 0..6).prop_map(|tokens| tokens.concat()),
        ],
    ) {
        let mut settings = SideSettings::default();
        if let Err(error) = apply(&mut settings, &format!("{key}{equals}{value}"), Side::Client, &Protocol::ALL) {
            prop_assert_eq!(settings, SideSettings::default());
            prop_assert!(!error.expected.is_empty());
            let text = error.to_string();
            prop_assert!(text.chars().all(|c| !c.is_control() || c == '\t'), "{text:?}");
        }
    }

    /// An assignment has the effect that the same words have in a recipe.
    #[test]
    fn assignments_and_recipes_agree(size in 1_u64..100_000, key in prop::sample::select(&[
        "http2.stream_window", "http2.connection_window", "http2.max_frame_size", "http2.data_size",
        "http2.header_table_size", "http2.window_updates.grant", "tls.records", "tcp.send_buffer",
    ][..])) {
        let mut settings = SideSettings::default();
        let assigned = apply(&mut settings, &format!("{key}={size}"), Side::Server, &[Protocol::H2]);
        let parsed = parse(&format!(
            "name = \"x\"\nquestion = \"?\"\nload = {{ rate = \"1/s\", duration = \"1s\" }}\n\
             [[variant]]\nname = \"v\"\npath = \"client ~h2~> server\"\nserver.{key} = \"{size}\"\n"
        ));
        match parsed {
            Ok(recipe) => {
                prop_assert_eq!(assigned, Ok(()));
                prop_assert_eq!(&recipe.variants()[0].hops[0].server, &settings);
                prop_assert_eq!(&recipe.variants()[0].hops[0].client, &SideSettings::default());
            }
            Err(error) => {
                prop_assert_eq!(&error.problems()[0].mistake, &*assigned.unwrap_err().mistake);
            }
        }
    }

    #[test]
    fn a_plan_has_every_cell_in_every_repetition_once(
        delays in prop::collection::btree_set(0_u32..=5_000, 1..5),
        losses in prop::collection::btree_set(0_u32..=100, 1..5),
        variants in 1_usize..5,
        repetitions in 1_usize..5,
        seed in any::<u64>(),
    ) {
        let quoted = |values: &BTreeSet<u32>, unit: &str| {
            values.iter().map(|v| format!("\"{v}{unit}\"")).collect::<Vec<_>>().join(", ")
        };
        let mut text = format!(
            "name = \"x\"\nquestion = \"?\"\nrepetitions = {repetitions}\n\
             load = {{ rate = \"1/s\", duration = \"1s\" }}\n\
             [conditions]\ndelay = [{}]\nloss = [{}]\n",
            quoted(&delays, "ms"),
            quoted(&losses, "%"),
        );
        for i in 0..variants {
            text += &format!("[[variant]]\nname = \"v {i}\"\npath = \"client ~h1~> server\"\n");
        }
        let plan = parse(&text).unwrap().plan("standard", seed).unwrap();
        let cells = delays.len() * losses.len() * variants;
        prop_assert_eq!(plan.trials.len(), cells * repetitions);
        let folders: BTreeSet<String> = plan.trials.iter().map(squall_base::plan::Trial::folder).collect();
        prop_assert_eq!(folders.len(), plan.trials.len());
        let met: BTreeSet<(String, String, u32)> = plan
            .trials
            .iter()
            .map(|t| (t.variant.name.clone(), t.condition.to_string(), t.repetition))
            .collect();
        prop_assert_eq!(met.len(), plan.trials.len());
        let seeds: BTreeSet<u64> = plan.trials.iter().map(|t| t.seed).collect();
        prop_assert_eq!(seeds.len() * variants, plan.trials.len());
    }
}

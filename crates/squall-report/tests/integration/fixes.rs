//! What a run gained from the fixes that it tried, in the terminal and on the page.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use squall_analysis::{RunSummary, TriedCondition, TriedFix, Verdict};
use squall_base::plan::{SettingChange, Side, UntriedFix};
use squall_report::{Colour, Detail, html};

use crate::support::english::fixes;
use crate::support::run::{Size, run};

const RESULT: &str = "p99 412 ms -> 118 ms, 0.29x (0.27x to 0.31x), a proven gain by 6 pairs";

fn summary() -> RunSummary {
    let mut summary = run(&["h1", "h2 <x1>"], Size::SMALL).summary();
    add_fixes(&mut summary, "h2 <x1>");
    summary
}

/// As if the run had tried a fix for this variant under its first condition, and could not try another.
pub(crate) fn add_fixes(summary: &mut RunSummary, variant: &str) {
    let condition = &summary.conditions[0];
    let mut verdicts = condition.verdicts.iter();
    let comparison = verdicts.find_map(|verdict| match verdict {
        Verdict::Compared(comparison) => Some((**comparison).clone()),
        Verdict::Overloaded { .. } => None,
    });
    let result = TriedCondition {
        condition: condition.condition.clone(),
        comparison: comparison.unwrap(),
        sentence: RESULT.to_owned(),
    };
    let change = |setting: &str| SettingChange {
        hop: 1,
        side: Side::Client,
        setting: setting.to_owned(),
        value: "1MiB".to_owned(),
    };
    summary.tried_fixes = vec![TriedFix {
        finding: "stream_window".to_owned(),
        title: "Stream window too small".to_owned(),
        variant: variant.to_owned(),
        station: "client".to_owned(),
        changes: vec![
            change("http2.stream_window"),
            change("http2.connection_window"),
        ],
        results: vec![result],
    }];
    summary.fixes_not_tried = vec![UntriedFix {
        finding: "nagle".to_owned(),
        title: "Nagle".to_owned(),
        variant: "h1".to_owned(),
        station: "nginx".to_owned(),
        setting: "tcp_nodelay on".to_owned(),
        why: "no recipe setting does this".to_owned(),
    }];
}

#[test]
fn each_tried_fix_is_a_line_with_its_gain() {
    let mut summary = summary();
    let text = fixes(&summary, 200, Colour::Plain, Detail::Usual);
    let what = "http2.stream_window = 1MiB, http2.connection_window = 1MiB on client";
    let at = "at delay 25ms, loss 0%";
    let not_tried =
        "Not tried for h1, as no recipe setting does this: nginx: tcp_nodelay on (Nagle)";
    assert_eq!(
        text,
        format!("\nTried fixes\n  h2 <x1>, {at}: {what}: {RESULT}\n  {not_tried}\n")
    );
    assert_eq!(fixes(&summary, 200, Colour::Plain, Detail::Brief), "");
    // The only condition need not be named.
    summary.conditions.truncate(1);
    let text = fixes(&summary, 200, Colour::Plain, Detail::Usual);
    assert!(
        text.contains(&format!("  h2 <x1>: {what}: {RESULT}\n")),
        "{text}"
    );
}

#[test]
fn page_has_the_tried_fixes_only_if_there_are_some() {
    let mut summary = summary();
    let page = html(&summary, &[], &[], &[]);
    assert!(page.contains("<h2>Tried fixes</h2>"));
    assert!(page.contains("h2 &lt;x1&gt;, at delay 25ms, loss 0%: http2.stream_window = 1MiB"));
    assert!(page.contains("p99 412 ms -&gt; 118 ms"));
    assert!(page.contains("Not tried for h1"));
    summary.tried_fixes.clear();
    summary.fixes_not_tried.clear();
    assert!(!html(&summary, &[], &[], &[]).contains("Tried fixes"));
}

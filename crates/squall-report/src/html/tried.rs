//! What a run gained from the fixes that it tried, on the page.
//!
//! It is pure markup and needs no script. `crate::fixes` prints the same in the terminal.

use squall_analysis::RunSummary;

use super::text::escaped;
use crate::fixes::{not_tried, results, tried};

/// Appends the tried fixes; nothing if there are none.
pub(super) fn push(page: &mut String, summary: &RunSummary) {
    if summary.tried_fixes.is_empty() && summary.fixes_not_tried.is_empty() {
        return;
    }
    page.push_str(
        "<section class=\"findings\" aria-label=\"Tried fixes\">\n<h2>Tried fixes</h2>\n<ul>\n",
    );
    for (fix, result) in results(&summary.tried_fixes) {
        page.push_str(&format!(
            "<li>{}<br><small>{}</small></li>\n",
            escaped(&tried(summary, fix, result)),
            escaped(&fix.title)
        ));
    }
    for fix in &summary.fixes_not_tried {
        page.push_str(&format!("<li>{}</li>\n", escaped(&not_tried(fix))));
    }
    page.push_str("</ul>\n</section>\n");
}

//! Checks as JUnit XML, which CI systems show as tests.
//!
//! There is no schema that all readers agree on; this is what Jenkins, GitLab and GitHub have in common.

use super::Check;
use crate::text::printable;

/// The checks as one test suite of this name.
pub fn junit(suite: &str, checks: &[Check]) -> String {
    let failures = checks.iter().filter(|check| !check.holds).count();
    let counts = format!("tests=\"{}\" failures=\"{failures}\"", checks.len());
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite name=\"{}\" {counts} \
         errors=\"0\">\n",
        escaped(suite)
    );
    for check in checks {
        let (of, name) = (escaped(&check.of), escaped(&check.name));
        let found = escaped(&check.found);
        let case = format!("    <testcase classname=\"{of}\" name=\"{name}\"");
        xml += &if check.holds {
            format!("{case}>\n      <system-out>{found}</system-out>\n    </testcase>\n")
        } else {
            format!("{case}>\n      <failure message=\"{found}\"/>\n    </testcase>\n")
        };
    }
    xml + "  </testsuite>\n</testsuites>\n"
}

/// Text for an attribute or an element. XML does not allow control characters, even escaped.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_threshold_is_a_failure_and_names_are_escaped() {
        let check = |name: &str, holds| Check {
            of: "h1 & \"h2\"\u{1b}".to_owned(),
            name: name.to_owned(),
            found: format!("{name}: 60 ms"),
            holds,
        };
        let xml = junit("run", &[check("p(99)<50", false), check("p(99)<80", true)]);
        let expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\"2\" failures=\"1\">\n  \
                        <testsuite name=\"run\" tests=\"2\" failures=\"1\" errors=\"0\">\n    \
                        <testcase classname=\"h1 &amp; &quot;h2&quot;\u{fffd}\" name=\"p(99)&lt;50\">\n      \
                        <failure message=\"p(99)&lt;50: 60 ms\"/>\n    </testcase>\n    \
                        <testcase classname=\"h1 &amp; &quot;h2&quot;\u{fffd}\" name=\"p(99)&lt;80\">\n      \
                        <system-out>p(99)&lt;80: 60 ms</system-out>\n    </testcase>\n  </testsuite>\n</testsuites>\n";
        assert_eq!(xml, expected);
    }
}

//! `squall load --report`: the page of a real load.
//!
//! squall-report tests what is on the page.

use std::fs;

use squall_base::plan::Protocol;
use tempfile::TempDir;

use crate::served::{Serving, ask};
use crate::support::{run_squall, seat, stderr};

#[test]
fn report_of_a_load_has_each_section_and_no_secret() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let url = format!("{}/?token=hunter2", server.url(Protocol::H1));
    let arguments = [
        "-D",
        "300ms",
        "--rate",
        "500",
        "-c",
        "2",
        "--threshold",
        "p(50)<10000",
        "--report",
        "load.html",
    ];
    let output = ask(home.path(), "load", Protocol::H1, &arguments, &url);
    assert!(output.status.success(), "{}", stderr(&output));
    let page = fs::read_to_string(home.path().join("load.html")).expect("load.html");
    let address = server.address("h1").to_string();
    for part in [
        "<p class=\"answer\">150 requests in 300 ms",
        "<h2>Thresholds</h2>",
        "aria-label=\"Response time by percentile\"",
        "data-name=\"percentiles\"",
        "<figure data-statistic=\"p99\">",
        "data-name=\"response-times\"",
        "data-plot=\"boxes\"",
        "data-plot=\"heat map\"",
        "data-plot=\"Requests in flight\"",
        "<div class=\"plots\" data-condition=\"0\"></div>",
        "\"caption\":\"all 150 requests\"",
        "<h2>Over time</h2>",
        "<h2>Where the time went</h2>",
        address.as_str(),
        "<h3>Repeat it</h3>\n<pre class=\"command\">squall load ",
        "?token=[redacted]",
        "<dt>kernel</dt>",
    ] {
        assert!(page.contains(part), "no {part}");
    }
    assert!(!page.contains("hunter2"));
}

#[test]
fn report_of_several_versions_has_their_rounds_side_by_side() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--https", "0"]);
    let url = format!("https://{}/", server.address("https"));
    let output = run_squall(
        home.path(),
        [
            "load",
            "--http",
            "1.1,2",
            "--rounds",
            "1",
            "-n",
            "50",
            "-k",
            "--report",
            "load.html",
            &url,
        ],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let page = fs::read_to_string(home.path().join("load.html")).expect("load.html");
    assert!(page.contains("data-name=\"versions\""), "{page}");
    assert_eq!(page.matches(" id=\"variant-").count(), 2);
    assert_eq!(page.matches("\"caption\":\"all 50 requests\"").count(), 2);
}

#[test]
fn report_of_several_urls_has_a_colour_for_each() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let url = server.url(Protocol::H1);
    let output = run_squall(
        home.path(),
        [
            "load",
            "-n",
            "80",
            "--report",
            "load.html",
            &format!("{url}/first"),
            &format!("{url}/second?key=1"),
        ],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let page = fs::read_to_string(home.path().join("load.html")).expect("load.html");
    assert!(page.contains("\"variants\":[\"/first\",\"/second?key=1\"]"));
    assert_eq!(page.matches("\"caption\":\"all 40 requests\"").count(), 2);
    // A bar for each URL and statistic.
    assert_eq!(page.matches("<g class=\"bar-row\"").count(), 8);
}

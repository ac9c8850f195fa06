//! The page of a run with large bodies: what the link delivered over time, in a real upload.
//!
//! squall-analysis tests how packets are added up, squall-report how the sums are drawn.

use std::fs;

use squall_record::RunFolder;

use crate::support::{FinishedRun, run_squall, run_until_valid, seat, stderr};

const SECTION: &str = "<div class=\"multiples deliveries\">";

/// An upload of this size over HTTP/1.1 and over HTTP/3.
fn upload(body: &str) -> FinishedRun {
    let text = format!(
        "name = \"test\"\nquestion = \"What is delivered?\"\n\
         [load]\nkind = \"closed\"\nusers = 1\nrequests = 1\nwarmup = \"0s\"\nduration = \"1s\"\ndrain = \"5s\"\n\
         [request]\nmethod = \"POST\"\ntarget = \"/upload\"\nbody = \"{body}\"\n\
         [conditions]\ndelay = \"5ms\"\n\
         [[variant]]\nname = \"h1\"\npath = \"client ~h1~> server\"\n\
         [[variant]]\nname = \"h3\"\npath = \"client ~h3~> server\"\n"
    );
    run_until_valid(&text, &[])
}

fn page(run: &FinishedRun) -> String {
    fs::read_to_string(run.folder.join("report.html")).expect("report.html")
}

/// The page shows the body and at most a tenth more: its head, QUIC's headers, and the ends of both handshakes.
#[test]
fn page_shows_the_bytes_that_the_link_delivered_of_a_large_upload() {
    let _seat = seat();
    let run = upload("600kB");
    if run.has_disturbed_trials() {
        return;
    }
    let shown = page(&run);
    assert_eq!(shown.matches(SECTION).count(), 1);
    for variant in ["h1", "h3"] {
        let folder = run.only(variant).record.trial.folder();
        let before = format!("<figcaption>{folder}, hop 1, from client to server: ");
        let (_, caption) = shown.split_once(&before).expect("the variant's caption");
        let (megabytes, _) = caption.split_once(" MB in ").expect("its bytes");
        let megabytes: f64 = megabytes.parse().expect("a number");
        assert!((0.6..=0.66).contains(&megabytes), "{variant}: {megabytes}");
    }

    // The only request of a trial is its slowest one: the page has it in full, with its connection.
    let index = run.only("h1").record.trial.index;
    for id in [
        format!("request-{index}-0"),
        format!("connection-{index}-1-0"),
    ] {
        assert!(shown.contains(&format!("id=\"detail-{id}\"")), "no {id}");
    }

    // Without packets, the rest of the report is as it was.
    let folder = RunFolder::open(&run.folder).expect("a run's folder");
    for trial in folder.complete_trials().expect("its trials") {
        fs::remove_file(trial.packets()).expect("packets.parquet");
    }
    let output = run_squall(&run.folder, ["report", "."]);
    assert!(output.status.success(), "{}", stderr(&output));
    let without = page(&run);
    assert!(!without.contains(SECTION) && without.contains("id=\"condition-0\""));
    assert!(!without.contains("id=\"detail-"));
}

#[test]
fn page_of_small_bodies_has_no_graphs_of_deliveries() {
    let _seat = seat();
    let run = upload("60kB");
    assert!(!page(&run).contains(SECTION));
}

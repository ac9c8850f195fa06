//! docs/SQL.md: DuckDB runs each of its queries on a real run.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{H1, H2C_X1, python_with, recipe, run_until_valid, seat, stderr, stdout};

const H3: &str =
    "[[variant]]\nname = \"h3\"\npath = \"client ~h3~> server\"\nconnections = \"on demand\"\n";

/// The queries of the page, in order.
fn queries() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/SQL.md");
    let page = fs::read_to_string(page).expect("docs/SQL.md");
    let blocks = page.split("```sql\n").skip(1);
    let ends = blocks.map(|block| block.split("```").next().expect("it ends").to_owned());
    ends.collect()
}

#[test]
fn every_query_of_the_page_has_an_answer() {
    let queries = queries();
    assert_eq!(queries.len(), 10);
    let Some(python) = python_with("duckdb") else {
        return;
    };
    let _seat = seat();
    let text = recipe(
        "50/s",
        "delay = \"5ms\"\nlink = \"drop every 31\"",
        &[H1, H2C_X1, H3],
        "warmup = \"0s\"\nduration = \"1s\"\ndrain = \"2s\"",
    );
    let run = run_until_valid(&text, &[]);
    for (number, query) in (1..).zip(&queries) {
        let file = run.folder.join("question.sql");
        fs::write(&file, query).expect("it is written");
        let script =
            "import duckdb; print(len(duckdb.sql(open('question.sql').read()).fetchall()))";
        let output = Command::new(&python)
            .args(["-c", script])
            .current_dir(&run.folder)
            .output()
            .expect("Python starts");
        assert!(output.status.success(), "{number}: {}", stderr(&output));
        let rows: u64 = stdout(&output).trim().parse().expect("a number");
        // The queries leave out trials that are not valid.
        assert!(rows > 0 || run.has_disturbed_trials(), "{number}: no rows");
    }
}

//! docs/notebook/squall.ipynb: its format, and its code on a real run.
//!
//! Python runs the cells one after the other, as a notebook does, and draws without a screen. The results of the queries are
//! not checked here; `sql` and `figures_agree` check queries like these.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{H1, H2C_X1, python_with, recipe, run_until_valid, seat, stderr, stdout};

const H3: &str =
    "[[variant]]\nname = \"h3\"\npath = \"client ~h3~> server\"\nconnections = \"on demand\"\n";

/// Runs the code cells of the notebook in its argument, and evaluates the last expression of each cell. Prints for each
/// figure the number of points of lines and of bars.
const RUN_CELLS: &str = r#"
import ast, json, sys
import matplotlib.pyplot as plt

names = {}
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] == "code":
        body = ast.parse("".join(cell["source"])).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), cell["id"], "exec"), names)
        if last is not None:
            repr(eval(compile(ast.Expression(last.value), cell["id"], "eval"), names))
figures = [plt.figure(number) for number in plt.get_fignums()]
for figure in figures:
    figure.canvas.draw()
drawn = [sum(len(part.get_xdata()) for axes in figure.axes for part in axes.lines)
         + sum(len(axes.patches) for axes in figure.axes) for figure in figures]
print(json.dumps(drawn))
"#;

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/notebook/squall.ipynb")
}

#[test]
fn notebook_is_in_format_4_5_and_has_no_outputs() {
    let text = fs::read(path()).expect("the notebook");
    let notebook: Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(
        (&notebook["nbformat"], &notebook["nbformat_minor"]),
        (&json!(4), &json!(5))
    );
    assert!(notebook["metadata"].is_object());
    let mut ids = BTreeSet::new();
    for cell in notebook["cells"].as_array().expect("cells") {
        let id = cell["id"].as_str().expect("an id");
        let is_safe = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        assert!(id.chars().all(is_safe) && (1..=64).contains(&id.len()));
        assert!(ids.insert(id), "{id} is there twice");
        assert!(cell["metadata"].is_object(), "{id}");
        let lines = cell["source"].as_array().expect("lines");
        assert!(lines.iter().all(Value::is_string), "{id}");
        if cell["cell_type"] == "code" {
            assert!(cell["execution_count"].is_null(), "{id}");
            assert_eq!(cell["outputs"], json!([]), "{id}");
        } else {
            assert_eq!(cell["cell_type"], "markdown", "{id}");
            assert!(cell.get("outputs").is_none(), "{id}");
        }
    }
}

#[test]
fn every_cell_of_the_notebook_runs_on_a_run_and_each_figure_shows_something() {
    let Some(python) = python_with("duckdb, matplotlib") else {
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
    let output = Command::new(&python)
        .args(["-c", RUN_CELLS])
        .arg(path())
        .env("SQUALL_RUN", &run.folder)
        .env("MPLBACKEND", "Agg")
        // Where matplotlib keeps its list of fonts.
        .env(
            "MPLCONFIGDIR",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("matplotlib"),
        )
        .output()
        .expect("Python starts");
    assert!(output.status.success(), "{}", stderr(&output));
    let drawn: Vec<u64> = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!(drawn.len(), 4, "{drawn:?}");
    // Two of the figures leave out trials that are not valid.
    if !run.has_disturbed_trials() {
        assert!(drawn.iter().all(|parts| *parts > 0), "{drawn:?}");
    }
}

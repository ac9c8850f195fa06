//! The results that a user sees: progress, tables, verdicts, the report, and records of what was really used.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use squall_base::plan::Protocol;
use squall_base::record::Outcome;
use squall_linux::host::RECORDED_SYSCTLS;
use squall_linux::machine::Processor;
use tempfile::TempDir;

use crate::support::{
    FinishedRun, H1, H2C_X1, H2C_X8, check_exit_code, may_keep_awake, recipe, run_recipe,
    run_squall, run_until_valid, seat, short_recipe, squall, stderr, stdout, summary_of,
};

fn short_run() -> FinishedRun {
    let text = recipe(
        "200/s",
        "delay = \"5ms\"\nloss = [\"0%\", \"2%\"]",
        &[H1, H2C_X8],
        "warmup = \"500ms\"\nduration = \"1s\"\ndrain = \"2s\"",
    );
    run_recipe(&text, &[])
}

#[test]
fn run_prints_progress_tables_and_verdicts_and_writes_a_report() {
    let _seat = seat();
    let run = short_run();
    let (said, shown) = (stderr(&run.output), stdout(&run.output));
    for progress in ["[1/4] h1, delay 5ms, loss 0%: p50", "[4/4]", "0:00 left"] {
        assert!(
            said.contains(progress),
            "no {progress:?} in the progress:\n{said}"
        );
    }
    for part in [
        "mean",
        "median",
        "p95",
        "p99",
        "max",
        "failed",
        "delay 5ms, loss 2%",
        "h2c x8",
    ] {
        assert!(shown.contains(part), "no {part:?} in the tables:\n{shown}");
    }
    for condition in ["delay 5ms, loss 0%", "delay 5ms, loss 2%"] {
        let section = shown
            .split(condition)
            .nth(1)
            .expect("the condition has a table");
        assert!(
            section.contains("h2c x8") && section.contains("h1"),
            "no verdict:\n{section}"
        );
    }
    let path = shown
        .lines()
        .last()
        .and_then(|line| line.strip_prefix("Report: "))
        .expect("the report's path");
    assert!(run.folder.join("report.html").ends_with(path), "{path}");
    let page = fs::read_to_string(run.folder.join("report.html")).expect("the report is there");
    assert!(page.contains("Does it hold?") && page.ends_with("</html>\n"));
    for file in [
        "recipe.toml",
        "plan.json",
        "environment.json",
        "summary.json",
    ] {
        assert!(run.folder.join(file).is_file(), "no {file}");
    }
    let environment = fs::read(run.folder.join("environment.json")).expect("it is there");
    let environment: serde_json::Value = serde_json::from_slice(&environment).expect("JSON");
    let is_awake = environment["processors_awake"].as_bool();
    // In a virtual machine, whether processors are kept awake depends on how late they wake up.
    if !Processor::read().is_virtual || !may_keep_awake() {
        assert_eq!(is_awake, Some(may_keep_awake()));
    }
    let sleep = if is_awake.expect("a boolean") {
        "kept awake"
    } else {
        "asleep when idle"
    };
    assert!(page.contains(sleep));
}

#[test]
fn report_can_be_regenerated_and_printed_as_json() {
    let _seat = seat();
    let run = short_run();
    let page = run.folder.join("report.html");
    let first = fs::read(&page).expect("the report is there");
    fs::remove_file(&page).expect("it can be removed");
    let again = run_squall(&run.folder, ["report", ".", "--json"]);
    check_exit_code(&again, &run.trials);
    assert_eq!(
        fs::read(&page).expect("it is there again"),
        first,
        "the same records, the same report"
    );
    let summary: serde_json::Value = serde_json::from_slice(&again.stdout).expect("JSON on stdout");
    assert_eq!(summary, summary_of(&run.folder));
}

#[test]
fn report_of_a_kept_summary_equals_that_of_its_run() {
    let _seat = seat();
    let run = short_run();
    let kept = TempDir::new().expect("a temporary folder");
    for name in ["summary.json", "findings.json"] {
        fs::copy(run.folder.join(name), kept.path().join(name)).expect("a copy");
    }
    for detail in [&[][..], &["--brief"], &["--full"], &["--json"]] {
        let printed = |folder: &Path| {
            let mut report = squall(folder);
            let output = report.args(["report", "."]).args(detail).output();
            let output = output.expect("squall starts");
            check_exit_code(&output, &run.trials);
            let text = stdout(&output);
            // A kept summary has no page.
            let lines = text.lines().filter(|line| !line.starts_with("Report: "));
            lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
        };
        assert_eq!(printed(kept.path()), printed(&run.folder), "{detail:?}");
    }
    let left = fs::read_dir(kept.path()).expect("the folder").count();
    assert_eq!(left, 2, "nothing is written beside a kept summary");
    let mut report = squall(kept.path());
    let refused = report.args(["report", ".", "--threshold", "p(99)<80"]);
    let refused = refused.output().expect("squall starts");
    assert_eq!(refused.status.code(), Some(2));
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(message.contains("Name the folder of the run"), "{message}");
}

/// A summary that is kept without its run.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings/twilio");

#[test]
fn report_is_chinese_only_if_the_flag_asks_whatever_the_environment_says() {
    let folder = TempDir::new().expect("a temporary folder");
    let printed = |options: &[&str]| {
        let mut report = squall(folder.path());
        report.env("LANG", "zh_CN.UTF-8").args(["report", KEPT]);
        stdout(&report.args(options).output().expect("squall starts"))
    };
    let (english, chinese) = (printed(&[]), printed(&["--lang", "zh"]));
    assert!(english.contains("\nThe question: "), "{english}");
    assert_eq!(printed(&["--lang", "en"]), english);
    assert!(
        chinese.contains("\n问题：") && chinese.contains("\n问题所在\n"),
        "{chinese}"
    );
    assert!(
        chinese.ends_with("\n-v：所有变体的比较、全部原因与问题\n"),
        "{chinese}"
    );
    assert_eq!(printed(&["--lang", "zh", "--json"]), printed(&["--json"]));
}

#[test]
fn another_language_is_refused_where_it_would_change_nothing() {
    let folder = TempDir::new().expect("a temporary folder");
    for words in [
        &["explain", ".", "--lang", "zh", "--json"][..],
        &["fetch", "http://localhost/", "--lang", "zh"],
        &["report", KEPT, "--lang", "fr"],
    ] {
        let refused = squall(folder.path()).args(words).output();
        let refused = refused.expect("squall starts");
        assert_eq!(refused.status.code(), Some(2), "{words:?}");
        let message = String::from_utf8_lossy(&refused.stderr);
        assert!(message.contains("--lang"), "{message}");
    }
}

#[test]
fn load_and_probe_are_chinese_only_if_a_flag_asks_for_it() {
    let _seat = seat();
    let folder = TempDir::new().expect("a temporary folder");
    // Nothing listens on the port any more.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    drop(listener);
    for (command, english, chinese) in [
        ("load", " without a connection", "个未能建立连接"),
        ("probe", "No answer\nFix: ", "没有应答\n修复：请启动服务器"),
    ] {
        let printed = |flags: &[&str]| {
            let mut made = squall(folder.path());
            made.env("LANG", "zh_CN.UTF-8")
                .args([command, url.as_str()]);
            made.args(["--report", "page.html"]).args(flags);
            let text = stdout(&made.output().expect("squall starts"));
            let page = fs::read_to_string(folder.path().join("page.html")).expect("a page");
            (text, page)
        };
        let (text, page) = printed(&[]);
        assert!(text.contains(english), "{text}");
        assert!(page.contains("<html lang=\"en\">"), "{page}");
        let (text, page) = printed(&["--lang", "zh"]);
        assert!(text.contains(chinese), "{text}");
        assert!(page.contains("<html lang=\"zh-Hans\">"), "{page}");
    }
}

#[test]
fn progress_of_a_run_is_chinese_if_a_flag_asks_for_it() {
    let _seat = seat();
    let run = run_recipe(&short_recipe(&[H1], 1), &["--lang", "zh"]);
    let said = stderr(&run.output);
    for part in [
        "：1 次试验，最多约 0:",
        "[1/1] h1, delay 2ms, loss 0%：",
        "；剩余 0:00\n",
    ] {
        assert!(said.contains(part), "no {part:?} in the progress:\n{said}");
    }
    assert!(!said.contains("0:00 left"), "{said}");
    let home = run.folder.parent().expect("the folder of runs");
    let arguments = ["run", "../recipe.toml", "--dry-run", "--lang", "zh"];
    let preview = stdout(&run_squall(home, arguments));
    assert!(
        preview.contains("，配置档 standard：1 次试验，最多约 ")
            && preview.contains("\n变体：\n  h1: client ~h1~> server\n条件：\n"),
        "{preview}"
    );
}

#[test]
fn comparison_of_runs_is_chinese_if_a_flag_asks_for_it() {
    let _seat = seat();
    let run = short_run();
    let compare = |flags: &[&str]| {
        let mut made = squall(&run.folder);
        let made = made.args(["compare", ".", "."]).args(flags);
        stdout(&made.output().expect("squall starts"))
    };
    let (english, chinese) = (compare(&[]), compare(&["--lang", "zh"]));
    assert!(english.contains("after is"), "{english}");
    assert!(
        chinese.contains("结论") && chinese.contains("对相同种子的试验"),
        "{chinese}"
    );
    assert_eq!(compare(&["--lang", "zh", "--json"]), compare(&["--json"]));
    let markdown = compare(&["--lang", "zh", "--markdown"]);
    assert!(markdown.contains(" | 结论 |\n"), "{markdown}");
}

#[test]
fn record_has_the_congestion_control_that_the_kernel_used() {
    let _seat = seat();
    let reno = H2C_X1.to_owned() + "congestion_control = \"reno\"\n";
    let text = recipe(
        "100/s",
        "delay = \"1ms\"",
        &[H1, &reno],
        "warmup = \"0s\"\nduration = \"1s\"",
    );
    let run = run_recipe(&text, &[]);
    for (variant, expected) in [("h1", "cubic"), ("h2c x1", "reno")] {
        let record = &run.only(variant).record;
        assert_eq!(
            record.used.client_congestion_control,
            [expected],
            "{variant}"
        );
        assert_eq!(
            record.used.server_congestion_control,
            [expected],
            "{variant}"
        );
        for name in [
            "net.ipv4.tcp_rmem",
            "net.ipv4.tcp_slow_start_after_idle",
            "net.ipv4.tcp_no_metrics_save",
        ] {
            assert!(
                RECORDED_SYSCTLS.contains(&name) && record.used.sysctls.contains_key(name),
                "{name}"
            );
        }
        assert_eq!(record.used.sysctls["net.ipv4.tcp_no_metrics_save"], "1");
        assert_eq!(record.requests, 100);
        assert!(
            record
                .health
                .link
                .iter()
                .all(|link| link.lateness.count > 0)
        );
        assert_eq!(record.health.schedule_lag.count, 100);
    }
    assert_eq!(
        run.only("h2c x1").record.trial.variant.first_hop().protocol,
        Protocol::H2c
    );
}

#[test]
fn requests_without_a_response_are_recorded_as_censored() {
    let _seat = seat();
    // Everything is lost, so nothing even connects; the load must end anyway.
    let text = recipe(
        "50/s",
        "delay = \"1ms\"\nloss = \"100%\"",
        &[H1],
        "warmup = \"0s\"\nduration = \"1s\"\ndrain = \"500ms\"",
    );
    let run = run_until_valid(&text, &[]);
    let trial = run.only("h1");
    assert_eq!(trial.requests.len(), 50);
    for request in &trial.requests {
        assert_eq!(
            (request.outcome, request.status),
            (Outcome::Censored, None),
            "{request:?}"
        );
        assert!(
            request.response_time().as_millis_f64() >= 500.0,
            "{request:?}"
        );
    }
    assert!(
        run.has_disturbed_trials() || stdout(&run.output).contains("cannot carry the load"),
        "{}",
        stdout(&run.output)
    );
}

//! `squall selftest`: the flags, and the result as a table or JSON.
//!
//! Nothing is measured here; the other files of this folder have the measurements and their targets.

use std::fmt::Write;

use anyhow::Result;
use squall_linux::user_namespace;

use super::measure;
use super::row::{Group, Row};
use crate::awake::{self, IdleProcessors, MeasurementKind};
use crate::outcome::CommandOutcome;
use crate::output::{print, print_json};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  squall selftest\n  squall selftest --only delay\n  squall selftest --json\n\n\
                  It takes about a minute, and needs an otherwise idle machine. The exit code is 3 if a value misses its \
                  target."
)]
pub(crate) struct Arguments {
    /// Measure only this group
    #[arg(long, value_enum, value_name = "GROUP")]
    only: Option<Group>,
    /// Whether idle processors stay awake [default: awake if permitted; in a virtual machine, only if its host is busy]
    #[arg(long, value_enum, value_name = "STATE")]
    idle_processors: Option<IdleProcessors>,
    /// Print the rows as JSON: an array of objects {group, name, value, unit, target, pass}
    #[arg(long)]
    json: bool,
}

/// Runs the command. Call it while the process has a single thread: it may enter a user namespace.
pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome> {
    user_namespace::acquire_privilege()?;
    let awake = awake::keep(arguments.idle_processors, MeasurementKind::Timed)?;
    let rows = measure(arguments.only)?;
    if arguments.json {
        print_json(&rows, "rows")?;
    } else {
        let slept = match awake {
            Some(_) => "",
            None => "idle processors may have slept, and they wake up late\n",
        };
        print(format_args!("{}\n{slept}{}", table(&rows), summary(&rows)))?;
    }
    Ok(if failed(&rows) == 0 {
        CommandOutcome::Success
    } else {
        CommandOutcome::Invalid
    })
}

fn failed(rows: &[Row]) -> usize {
    rows.iter().filter(|row| row.pass == Some(false)).count()
}

/// Formats one line per row.
fn table(rows: &[Row]) -> String {
    let head = ["group", "what", "value", "target", ""].map(str::to_owned);
    let mut lines = vec![head];
    lines.extend(rows.iter().map(cells));
    let width = |column: usize| {
        let widths = lines.iter().map(|line| line[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let widths = [0, 1, 2, 3].map(width);
    let mut text = String::new();
    for [group, what, value, target, judgement] in &lines {
        let line = format!(
            "{group:<0$}  {what:<1$}  {value:>2$}  {target:<3$}  {judgement}",
            widths[0], widths[1], widths[2], widths[3]
        );
        writeln!(text, "{}", line.trim_end()).expect("a String takes all text");
    }
    text
}

fn cells(row: &Row) -> [String; 5] {
    let judgement = match row.pass {
        Some(true) => "pass",
        Some(false) => "FAIL",
        None => "note",
    };
    [
        row.group.name(),
        row.name.clone(),
        format!("{} {}", short(row.value), row.unit)
            .trim_end()
            .to_owned(),
        row.target.clone().unwrap_or_default(),
        judgement.to_owned(),
    ]
}

/// A value with only its significant digits.
fn short(value: f64) -> String {
    match value.abs() {
        _ if value == value.trunc() => format!("{value:.0}"),
        1_000.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

fn summary(rows: &[Row]) -> String {
    let judged = rows.iter().filter(|row| row.pass.is_some()).count();
    match failed(rows) {
        0 => format!("all {judged} targets are met\n"),
        failed => {
            format!("{failed} of {judged} targets are missed; `squall doctor` may show why\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, value: f64, pass: Option<bool>) -> Row {
        Row {
            group: Group::Delay,
            name: name.to_owned(),
            value,
            unit: "us",
            target: pass.map(|_| "<= 60".to_owned()),
            pass,
        }
    }

    #[test]
    fn table_has_a_line_per_row_and_marks_misses() {
        let rows = [
            row("round trip", 48.25, Some(true)),
            row("p99", 3_061.4, Some(false)),
            row("ratio", 1.5, None),
        ];
        assert_eq!(
            table(&rows),
            "group  what           value  target\n\
             delay  round trip   48.2 us  <= 60   pass\n\
             delay  p99          3061 us  <= 60   FAIL\n\
             delay  ratio       1.500 us          note\n"
        );
        assert!(summary(&rows).starts_with("1 of 2 targets are missed"));
        assert!(summary(&rows).contains("squall doctor"));
        assert_eq!(summary(&rows[..1]), "all 1 targets are met\n");
        assert_eq!((failed(&rows), failed(&rows[..1])), (1, 0));
    }

    #[test]
    fn row_as_json_has_six_keys() {
        let json = serde_json::to_string(&row("p99", 1.5, Some(true))).expect("plain data");
        assert_eq!(
            json,
            r#"{"group":"delay","name":"p99","value":1.5,"unit":"us","target":"<= 60","pass":true}"#
        );
    }
}

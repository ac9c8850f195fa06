//! Plots of a run's report as files: those that the buttons of the page save.
//!
//! The page's scripts draw the requests, and its styles give every plot its colours and fonts. So the page itself makes the
//! files (squall-report, assets/export.js), in the browser that squall-peers drives; a second way to draw would sooner or later
//! differ. Nothing is drawn here: this makes the page, asks for its plots and writes them.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{self, Path, PathBuf};
use std::{env, process};

use anyhow::{Context, Result, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use squall_peers::client::{OpenPage, find_browser};
use squall_peers::{InstalledProgram, SearchPath};
use squall_record::write_whole_private;
use url::Url;

use super::arguments::{Arguments, PlotFormat};
use super::destination::{cannot_make, write_bytes};
use crate::commands::named::open_run;
use crate::commands::report;
use crate::interrupt;
use crate::outcome::{BadInput, CommandOutcome};
use crate::output;

/// The beginning of a PNG from the page.
const PNG_URL: &str = "data:image/png;base64,";

/// A plot as a file.
struct Plot {
    name: String,
    content: Vec<u8>,
}

/// Refuses flags that are not for plots, and outputs that cannot take them.
pub(super) fn check(arguments: &Arguments, format: PlotFormat) -> Result<(), BadInput> {
    if arguments.selection.is_given() || arguments.part.is_given() {
        return Err(BadInput::new(
            "svg and png are plots of the whole run's report: leave --trial, --variant, --condition, --repetition, --hop, \
             --connection and --side out, and choose one with --plot",
        ));
    }
    match (&arguments.plot, arguments.output()) {
        (None, None) => Err(BadInput::new(
            "each plot is a file of its own: name a folder for them with -o, or one plot with --plot",
        )),
        (None, Some(path)) if path.exists() && !path.is_dir() => Err(BadInput::new(format!(
            "each plot is a file of its own, and {} is not a folder: name another one with -o, or one plot with --plot",
            path.display()
        ))),
        (Some(_), None) if format == PlotFormat::Png => {
            Err(BadInput::new("a PNG is binary: name a file with -o"))
        }
        (Some(_), Some(path)) if path.is_dir() => Err(BadInput::new(format!(
            "{} is a folder: name a file in it with -o, or leave --plot out to get all plots",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Writes all plots of a run to a folder, or one to a file or stdout. `check` has passed.
pub(super) fn export(arguments: &Arguments, format: PlotFormat) -> Result<CommandOutcome> {
    let (run, plan) = open_run(&arguments.run)?;
    let browser = find_browser(&SearchPath::usual())
        .map_err(|error| BadInput::new(format!("the plots are drawn by a browser: {error}")))?;
    interrupt::watch()?;
    let page = report::page(&run, &plan)?;
    let plot = arguments.plot.as_deref();
    let Some(plots) = made_by(&browser, &page, plot, format)? else {
        return Ok(CommandOutcome::Interrupted);
    };
    match (plot, arguments.output()) {
        (None, Some(folder)) => write_all(folder, &plots, format)?,
        (_, Some(file)) => plots
            .iter()
            .try_for_each(|plot| write_bytes(file, &plot.content))?,
        (_, None) => plots
            .iter()
            .try_for_each(|plot| output::print(String::from_utf8_lossy(&plot.content)))?,
    }
    Ok(CommandOutcome::Success)
}

/// The plots of a page, or the one of this name; `None` after an interrupt.
fn made_by(
    browser: &InstalledProgram,
    page: &str,
    wanted: Option<&str>,
    format: PlotFormat,
) -> Result<Option<Vec<Plot>>> {
    let folder = BrowserFolder::make()?;
    let file = folder.0.join("report.html");
    write_whole_private(&file, page)?;
    let url = Url::from_file_path(&file)
        .map_err(|()| anyhow!("{} cannot be opened by its path", file.display()))?;
    // The browser ends before its folder is removed.
    let mut page = OpenPage::open(browser, url.as_str(), &folder.0)?;
    let names = page.evaluate("squall.allPlotNames()")?;
    let names: Vec<String> = serde_json::from_value(names).context("the page names no plots")?;
    let mut plots = Vec::new();
    for name in chosen(&names, wanted)? {
        if interrupt::is_requested() {
            return Ok(None);
        }
        let content = made(&mut page, name, format)
            .with_context(|| format!("cannot make the plot {name}"))?;
        let name = name.to_owned();
        plots.push(Plot { name, content });
    }
    Ok(Some(plots))
}

/// The plots to make: all, or the one of this name.
fn chosen<'a>(names: &'a [String], wanted: Option<&str>) -> Result<Vec<&'a str>> {
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let Some(wanted) = wanted else {
        return Ok(all);
    };
    if let Some(&found) = all.iter().find(|name| **name == wanted) {
        return Ok(vec![found]);
    }
    Err(BadInput::new(format!(
        "the report has no plot {wanted:?}; it has:\n  {}",
        all.join("\n  ")
    ))
    .into())
}

/// The file of a plot.
fn made(page: &mut OpenPage, name: &str, format: PlotFormat) -> Result<Vec<u8>> {
    let call = format!("squall.plotAs({}, {})", json!(name), json!(format.name()));
    let made = page.evaluate(&call)?;
    let Some(text) = made.as_str() else {
        bail!("the page returned no text");
    };
    match format {
        PlotFormat::Svg => Ok(text.as_bytes().to_vec()),
        PlotFormat::Png => {
            let encoded = text.strip_prefix(PNG_URL);
            let encoded = encoded.context("the page returned no PNG")?;
            STANDARD
                .decode(encoded)
                .context("the page returned no base64")
        }
    }
}

/// Writes each plot to a file of its name, and makes the folder if necessary.
fn write_all(folder: &Path, plots: &[Plot], format: PlotFormat) -> Result<()> {
    if !folder.is_dir() {
        fs::create_dir(folder).map_err(|error| cannot_make(folder, error))?;
    }
    plots.iter().try_for_each(|Plot { name, content }| {
        let file = folder.join(format!("{name}.{}", format.name()));
        write_bytes(&file, content)
    })
}

/// A folder for the page and for the browser's own files, which only its owner may enter, because a page may have secrets of
/// the recipe. Dropping it removes it.
struct BrowserFolder(PathBuf);

impl BrowserFolder {
    fn make() -> Result<BrowserFolder> {
        let place = env::temp_dir().join(format!("squall-export-{}", process::id()));
        let cannot = || {
            format!(
                "cannot make {} for the browser; TMPDIR chooses another place",
                place.display()
            )
        };
        let place = path::absolute(&place).with_context(cannot)?;
        let made = DirBuilder::new().mode(0o700).create(&place);
        made.with_context(cannot)?;
        Ok(BrowserFolder(place))
    }
}

impl Drop for BrowserFolder {
    fn drop(&mut self) {
        // What cannot be removed stays in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::arguments::Kind;
    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        arguments: Arguments,
    }

    /// What `check` reports about this command line; empty if the command line is valid.
    fn said(line: &str) -> String {
        let cli = Cli::try_parse_from(["export", "run"].into_iter().chain(line.split(' ')));
        let arguments = cli.expect("the flags exist").arguments;
        let Kind::Plots(format) = arguments.to.kind() else {
            panic!("{line} is not about plots");
        };
        check(&arguments, format).map_or_else(|refusal| refusal.to_string(), |()| String::new())
    }

    #[test]
    fn plots_refuse_flags_and_outputs_that_do_not_suit_them() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().to_str().unwrap();
        let file = format!("{folder}/file");
        fs::write(&file, "").unwrap();
        let into_file = format!("--to svg -o {file}");
        let one_into_folder = format!("--to svg --plot boxes -o {folder}");
        let into_folder = format!("--to png -o {folder}");
        for (line, says) in [
            ("--to svg --variant h1 -o new", "the whole run's report"),
            ("--to png --hop 1 -o new", "the whole run's report"),
            ("--to svg", "name a folder"),
            ("--to png -o -", "name a folder"),
            (into_file.as_str(), "is not a folder"),
            ("--to png --plot boxes", "is binary"),
            (one_into_folder.as_str(), "is a folder"),
        ] {
            assert!(said(line).contains(says), "{line}: {}", said(line));
        }
        for line in [
            "--to svg -o new",
            "--to svg --plot boxes",
            "--to png --plot boxes -o new.png",
            into_folder.as_str(),
        ] {
            assert_eq!(said(line), "", "{line}");
        }
    }

    #[test]
    fn error_about_an_unknown_plot_names_all_plots() {
        let names = ["percentiles", "boxes"].map(str::to_owned);
        assert_eq!(chosen(&names, None).unwrap(), ["percentiles", "boxes"]);
        assert_eq!(chosen(&names, Some("boxes")).unwrap(), ["boxes"]);
        let refused = chosen(&names, Some("box")).unwrap_err().to_string();
        assert!(refused.contains("no plot \"box\""), "{refused}");
        assert!(refused.ends_with("\n  percentiles\n  boxes"), "{refused}");
    }

    #[test]
    fn plots_are_written_to_files_with_their_names() {
        let home = tempfile::tempdir().unwrap();
        let plot = |name: &str| Plot {
            name: name.to_owned(),
            content: name.as_bytes().to_vec(),
        };
        let folder = home.path().join("plots");
        write_all(&folder, &[plot("a"), plot("b")], PlotFormat::Svg).unwrap();
        write_all(&folder, &[plot("a")], PlotFormat::Png).unwrap();
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(["a.svg", "b.svg", "a.png"].map(read), ["a", "b", "a"]);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);
        let missing = home.path().join("no/plots");
        let error = write_all(&missing, &[], PlotFormat::Svg).unwrap_err();
        assert!(error.to_string().contains("there is no folder"), "{error}");
    }
}

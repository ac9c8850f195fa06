//! `squall run`: runs a recipe's plan, trial by trial, then reports.
//!
//! Each trial runs in its own process: `process` starts and watches it, `worker` is what happens inside, `attempts` repeats
//! trials that were disturbed or have failed, `fixes` chooses what the run tries afterwards. An interrupt ends the running
//! trial and reports the complete ones; `--resume` runs the missing and disturbed ones, and those that it adds (`extended`).

mod attempts;
mod extended;
mod fixes;
mod process;
mod programs;
mod progress;
mod secrets;
mod trial_outcome;
pub(crate) mod worker;

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};
use clap::ValueEnum;
use squall_base::plan::{Plan, Trial};
use squall_base::record::FailedAttempt;
use squall_base::text::escape_controls;
use squall_linux::awake::SleepInhibitor;
use squall_linux::program;
use squall_recipe::{Recipe, StationMode, parse_with};
use squall_record::{
    RecordError, RunFolder, create_private_folder, read_json, read_plan, run_name, write_json,
    write_plan, write_private,
};
use squall_report::{Language, ProgressLines};

use crate::awake::{self, IdleProcessors, MeasurementKind};
use crate::commands::named::{RecipeText, find_recipe, open_run};
use crate::commands::report::{ReportFlags, write_and_print};
use crate::environment::{Environment, RunBeginning};
use crate::interrupt;
use crate::outcome::{BadInput, CommandOutcome};
use crate::output::{eprint, error_chain, print};
use crate::recordings::{OutsideFiles, SiblingFiles};
use attempts::{DISTURBED_ATTEMPTS, TrialsOutcome};
use process::{RunContext, RunOptions};
use progress::Progress;
use secrets::Secrets;
use worker::assignment::LinkPackets;

/// The folder with the logs of programs in that of a trial or of a failed attempt.
const STATIONS: &str = "stations";

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  squall run twilio --profile quick --stations embedded\n  squall run ./mine.toml --dry-run\n  \
                        squall run ./mine.toml --seed 7\n  squall run ./mine.toml --try-fix\n  \
                        squall run --resume runs/twilio-20261121T120000Z\n  \
                        squall run --resume runs/twilio-20261121T120000Z --repetitions 12"
)]
pub(crate) struct Arguments {
    /// Recipe: a name (see `squall recipes`) or the path of a TOML file. With --resume, give it only if its secrets were
    /// left out of the run's folder
    #[arg(required_unless_present = "resume")]
    recipe: Option<String>,
    /// Profile of the recipe [default: the recipe's own default]
    #[arg(long, conflicts_with = "resume")]
    profile: Option<String>,
    /// Seed for all random choices: the same seed loses the same packets of each flow
    #[arg(long, default_value_t = 1, conflicts_with = "resume")]
    seed: u64,
    /// Repetitions of each cell, in place of the recipe's `repetitions`; a larger `primary_repetitions` still applies. With
    /// --resume, add repetitions to the run, even if it is complete, until each cell has this many
    #[arg(long, value_name = "COUNT")]
    repetitions: Option<NonZeroU32>,
    /// Maximum attempts at each trial: an attempt that other work on the machine disturbs is repeated. The record of the last
    /// one is kept even if it is disturbed [default: 3]
    #[arg(long, value_name = "COUNT")]
    attempts: Option<NonZeroU32>,
    /// After the planned trials, try the fixes for the N most costly findings (by default 1, at most 5). For each planned
    /// trial of the affected variant and conditions, a fix gets one pair of trials, without it and with it. With --resume,
    /// this works only if the run was started without this flag
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=fixes::FIXES_AT_MOST)
    )]
    try_fix: Option<u32>,
    /// Run the real programs that the recipe's paths name (real), or squall's own stations with the presets of these
    /// programs (embedded)
    #[arg(long, value_parser = stations, default_value = "real", value_name = "real|embedded", conflicts_with = "resume")]
    stations: StationMode,
    /// Folder in which to create the run's folder
    #[arg(long, default_value = "runs", conflicts_with = "resume")]
    output: PathBuf,
    /// Check the recipe and the programs that it needs, print what would run, and start nothing
    #[arg(long, conflicts_with_all = ["resume", "json"])]
    dry_run: bool,
    /// Keep secrets of requests in the run's folder (authorization, cookie, x-api-key and the like, and those in URLs)
    #[arg(long, conflicts_with = "resume")]
    keep_secrets: bool,
    /// Let the recipe read files outside of its folder even if squall runs as root
    #[arg(long)]
    allow_files: bool,
    /// Continue the run in this folder: run its missing, invalid and doubtful trials, and those that --repetitions and
    /// --try-fix add
    #[arg(long, value_name = "RUN")]
    resume: Option<PathBuf>,
    /// Whether idle processors stay awake [default: awake if permitted; in a virtual machine, only if its host is busy]
    #[arg(long, value_enum, value_name = "STATE")]
    idle_processors: Option<IdleProcessors>,
    /// Keep the packets of each trial's link as `link.pcapng` in the trial's folder, with TLS secrets; those of a second link
    /// as `link-2.pcapng`, and so on
    #[arg(long)]
    pcap: bool,
    #[command(flatten)]
    reporting: ReportFlags,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome> {
    arguments.reporting.check()?;
    if let (true, Some(wanted)) = (arguments.dry_run, &arguments.recipe) {
        let language = arguments.reporting.language();
        let preview = preview(&plan_recipe(arguments, wanted)?.plan, language);
        print(escape_controls(&preview))?;
        return Ok(CommandOutcome::Success);
    }
    let (folder, mut plan, awake) = match (&arguments.resume, &arguments.recipe) {
        (Some(run), recipe) => {
            let (folder, plan) = open_run(run)?;
            let outside = OutsideFiles::allowed_if(arguments.allow_files);
            let plan = secrets::complete(plan, recipe.as_deref(), outside)?;
            let before: Environment = read_json(folder.environment())?;
            let was_awake = before.has_awake_processors();
            let awake = awake::keep_again(arguments.idle_processors, was_awake)?;
            compare_environment(&folder, &before, awake.as_ref());
            (folder, plan, awake)
        }
        (None, Some(wanted)) => begin(arguments, wanted)?,
        (None, None) => return Err(BadInput::new("name a recipe, or a run to resume").into()),
    };
    let _lock = folder.lock()?;
    if arguments.resume.is_some() {
        extended::extend(&folder, &mut plan, arguments.repetitions, arguments.try_fix)?;
    }
    interrupt::watch()?;
    program::inherit_orphans()?;
    let options = RunOptions {
        packets: LinkPackets::kept_if(arguments.pcap),
        has_awake_processors: awake.is_some(),
        attempts: arguments.attempts.unwrap_or(DISTURBED_ATTEMPTS),
    };
    let language = arguments.reporting.language();
    match run_all(&folder, &mut plan, options, language) {
        Ok(TrialsOutcome::Complete) => write_and_print(&folder, &plan, &arguments.reporting),
        Ok(TrialsOutcome::Interrupted) => {
            report_part(&folder, &plan, "interrupted", &arguments.reporting);
            Ok(CommandOutcome::Interrupted)
        }
        Err(error) if arguments.resume.is_none() && has_left_nothing(&folder) => {
            remove(&folder);
            Err(error)
        }
        Err(error) => {
            report_part(&folder, &plan, "failed", &arguments.reporting);
            Err(error)
        }
    }
}

/// Whether a run could not start at all: it left neither a complete trial nor a log of a program.
fn has_left_nothing(folder: &RunFolder) -> bool {
    let (Ok(complete), Ok(failed)) = (folder.complete_trials(), folder.failed_attempts()) else {
        return false;
    };
    let has_logs =
        |attempt: &FailedAttempt| folder.root().join(attempt.folder()).join(STATIONS).exists();
    complete.is_empty() && !failed.iter().any(has_logs)
}

/// Removes the folder of a run that could not run.
fn remove(folder: &RunFolder) {
    // What stays behind is useless, but harmless; the error that led here matters more.
    let _ = fs::remove_dir_all(folder.root());
}

fn stations(word: &str) -> Result<StationMode, String> {
    [StationMode::Real, StationMode::Embedded]
        .into_iter()
        .find(|stations| stations.name() == word)
        .ok_or_else(|| "expected `real` or `embedded`".to_owned())
}

/// Reports the complete trials of an unfinished run, and how to continue it.
fn report_part(folder: &RunFolder, plan: &Plan, why: &str, reporting: &ReportFlags) {
    let complete = folder.complete_trials().map_or(0, |trials| trials.len());
    if complete > 0
        && let Err(error) = write_and_print(folder, plan, reporting)
    {
        eprint(format_args!(
            "squall: cannot report the trials that are complete: {}\n",
            error_chain(&error)
        ));
    }
    // A plan that cannot be read was damaged meanwhile, as resuming will report.
    let is_redacted = read_plan(folder.plan()).is_ok_and(|plan| plan.is_redacted());
    let recipe = if is_redacted { " RECIPE" } else { "" };
    let planned = plan.trials.len() + plan.fix_trials().count();
    let run = folder.root().display();
    let said = format!(
        "{why}: {complete} of {planned} trials are complete; go on with: squall run{recipe} --resume {run}"
    );
    eprint(reporting.language().say(&said) + "\n");
}

/// The folder of a new run, named after recipe and time. A second run within the same second gets a number.
fn new_folder(above: &Path, recipe: &str) -> Result<RunFolder, RecordError> {
    let name = run_name(recipe, SystemTime::now());
    let taken = |name: &String| above.join(name).exists();
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let name = std::iter::once(name.clone())
        .chain(numbered)
        .find(|name| !taken(name));
    RunFolder::create(above.join(name.expect("there are names without end")))
}

/// Prints a notice if the machine is no longer the one that began the run.
fn compare_environment(folder: &RunFolder, before: &Environment, awake: Option<&SleepInhibitor>) {
    if *before != Environment::read(awake) {
        eprint(format_args!(
            "squall: the kernel, processor, memory, squall's version or processor sleep setting differs from that of {}: \
             trials from different machines cannot be compared\n",
            folder.environment().display()
        ));
    }
}

/// A recipe whose plan can run on this machine.
struct PlannedRecipe {
    text: String,
    recipe_files: SiblingFiles,
    recipe: Recipe,
    plan: Plan,
}

/// Checks the recipe, and reports its errors before anything starts.
fn plan_recipe(arguments: &Arguments, wanted: &str) -> Result<PlannedRecipe> {
    let RecipeText { name, text, files } = find_recipe(wanted)?;
    let files = files.with_outside(OutsideFiles::allowed_if(arguments.allow_files));
    let recipe: Recipe = parse_with(&text, arguments.stations, &files)
        .map_err(|error| BadInput::in_file(&error.render(&name, &text)))?;
    let profile = arguments.profile.clone();
    let profile = profile.unwrap_or_else(|| recipe.default_profile().to_owned());
    let recipe = match arguments.repetitions {
        Some(count) => recipe
            .with_repetitions(&profile, count)
            .map_err(BadInput::new)?,
        None => recipe,
    };
    let mut plan = recipe
        .plan(&profile, arguments.seed)
        .map_err(BadInput::new)?;
    if let Some(at_most) = arguments.try_fix {
        fixes::ask(&mut plan, at_most)?;
    }
    for notice in files.notices() {
        eprint(format_args!("{notice}\n"));
    }
    secrets::warn_of_a_copy(&plan);
    programs::announce_own(&plan);
    let warnings = programs::check(&plan).map_err(|error| {
        BadInput::new(format!(
            "{}\nTo run squall's own stations instead of all programs, add: --stations embedded",
            error_chain(&error)
        ))
    })?;
    for warning in &warnings {
        eprint(format_args!("squall: {warning}\n"));
    }
    Ok(PlannedRecipe {
        text,
        recipe_files: files,
        recipe,
        plan,
    })
}

/// Describes what a plan would run, and for how long.
fn preview(plan: &Plan, language: Language) -> String {
    let lines = ProgressLines::of(language);
    let size = Progress::new(plan.trials.iter(), language).size();
    let variants = plan.variants.iter();
    let variants = variants.map(|variant| format!("  {}: {}\n", variant.name, variant.path));
    let conditions = plan.conditions.iter().map(|it| format!("  {it}\n"));
    format!(
        "{}\n{}{}\n{}{}\n{}",
        lines.plan(&plan.recipe, &plan.profile, &size),
        fixes::preview(plan, language),
        lines.say("variants:"),
        variants.collect::<String>(),
        lines.say("conditions:"),
        conditions.collect::<String>()
    )
}

/// Creates the run's folder and its initial files. Idle processors stay awake while the third value exists.
fn begin(arguments: &Arguments, wanted: &str) -> Result<(RunFolder, Plan, Option<SleepInhibitor>)> {
    let planned = plan_recipe(arguments, wanted)?;
    let awake = awake::keep(arguments.idle_processors, MeasurementKind::Timed)?;
    let folder = new_folder(&arguments.output, &planned.plan.recipe)?;
    let secrets = Secrets::of(&planned.text, arguments.keep_secrets);
    let command = command(arguments, wanted, &planned.plan.profile);
    let beginning = RunBeginning::now(awake.as_ref(), command);
    if let Err(error) = write_beginning(&folder, &planned, secrets, &beginning) {
        remove(&folder);
        return Err(error);
    }
    Ok((folder, planned.plan, awake))
}

/// The words of the command that starts the same run. Flags that the user left out are given with their values; `--try-fix` is
/// in the plan.
fn command(arguments: &Arguments, wanted: &str, profile: &str) -> Vec<String> {
    let seed = arguments.seed.to_string();
    let mut words = vec![
        "squall",
        "run",
        wanted,
        "--profile",
        profile,
        "--seed",
        &seed,
        "--stations",
        arguments.stations.name(),
    ];
    let repetitions = arguments.repetitions.map(|count| count.to_string());
    if let Some(count) = &repetitions {
        words.extend(["--repetitions", count]);
    }
    let attempts = arguments.attempts.map(|count| count.to_string());
    if let Some(count) = &attempts {
        words.extend(["--attempts", count]);
    }
    let idle = arguments.idle_processors;
    let idle = idle.and_then(|state| state.to_possible_value());
    if let Some(state) = &idle {
        words.extend(["--idle-processors", state.get_name()]);
    }
    let switches = [
        ("--pcap", arguments.pcap),
        ("--keep-secrets", arguments.keep_secrets),
        ("--allow-files", arguments.allow_files),
    ];
    words.extend(switches.iter().filter(|(_, on)| *on).map(|(name, _)| *name));
    words.into_iter().map(str::to_owned).collect()
}

/// Writes what a run's folder has before its first trial.
fn write_beginning(
    folder: &RunFolder,
    planned: &PlannedRecipe,
    secrets: Secrets,
    beginning: &RunBeginning,
) -> Result<()> {
    let recipe = folder.recipe();
    let text = secrets.recipe(&planned.text);
    // Commands and comments may contain secrets that squall does not recognise.
    let written = if planned.plan.has_secrets() {
        write_private(&recipe, text.as_bytes())
    } else {
        fs::write(&recipe, text.as_bytes())
    };
    written.with_context(|| format!("cannot write {}", recipe.display()))?;
    keep_files(folder, planned, secrets)?;
    write_plan(folder.plan(), &secrets.plan(&planned.plan))?;
    write_json(folder.environment(), beginning)?;
    Ok(())
}

/// Copies the files that the recipe names, so that the run can be repeated after they have changed. Only the owner may read
/// them, because recordings often contain credentials.
fn keep_files(folder: &RunFolder, planned: &PlannedRecipe, secrets: Secrets) -> Result<()> {
    if planned.recipe.files().is_empty() {
        return Ok(());
    }
    let files = folder.files();
    create_private_folder(&files).with_context(|| format!("cannot make {}", files.display()))?;
    for file in planned.recipe.files() {
        let copy = files.join(&file.kept_as);
        planned.recipe_files.copy(&file.path, &copy)?;
        secrets.settle_copy(&planned.plan, &file.kept_as, &copy)?;
    }
    Ok(())
}

/// Runs the planned trials, then those of the fixes that the run tries.
fn run_all(
    folder: &RunFolder,
    plan: &mut Plan,
    options: RunOptions,
    language: Language,
) -> Result<TrialsOutcome> {
    let versions = programs::versions(plan);
    let run = RunContext {
        folder,
        plan,
        options,
        versions: &versions,
    };
    let planned: Vec<&Trial> = run.plan.trials.iter().collect();
    let ended = run_trials(&run, &planned, language)?;
    if ended == TrialsOutcome::Interrupted || plan.fixes.is_none() {
        return Ok(ended);
    }
    fixes::choose_for(folder, plan, language)?;
    let of_fixes: Vec<&Trial> = plan.fix_trials().collect();
    if of_fixes.is_empty() {
        return Ok(ended);
    }
    let run = RunContext {
        folder,
        plan,
        options,
        versions: &versions,
    };
    run_trials(&run, &of_fixes, language)
}

/// Runs those of the trials that are not yet complete and valid.
fn run_trials(
    run: &RunContext<'_>,
    trials: &[&Trial],
    language: Language,
) -> Result<TrialsOutcome> {
    let RunContext { folder, .. } = run;
    let failed = folder.failed_attempts()?;
    let failed_before = |name: &str| {
        let own = failed.iter().filter(|attempt| attempt.trial == name);
        own.map(|attempt| attempt.attempt).max().unwrap_or(0)
    };
    let mut missing: Vec<(&Trial, u32)> = Vec::new();
    for &trial in trials {
        let name = trial.folder();
        let Some(complete) = folder.complete_trial(&name) else {
            missing.push((trial, failed_before(&name)));
            continue;
        };
        let record = complete.read_record()?;
        if record.health.validity.is_disturbed() {
            attempts::set_aside(folder, complete, &record)?;
            missing.push((trial, record.attempt));
        }
    }
    let mut progress = Progress::new(missing.iter().map(|(trial, _)| *trial), language);
    progress.announce(&folder.root().display());
    for (trial, attempts_before) in missing {
        let ended = attempts::run_trial(run, trial, attempts_before, &mut progress);
        let ended = ended.with_context(|| {
            format!(
                "trial {} ({}, {})",
                trial.index, trial.variant.name, trial.condition
            )
        });
        if !matches!(ended, Ok(TrialsOutcome::Complete)) {
            progress.abandon();
            return ended;
        }
    }
    Ok(TrialsOutcome::Complete)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use squall_record::SCHEMA;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn command_of_a_run_has_the_values_that_the_user_left_out() {
        let of = |words: &str| {
            let line = Line::parse_from(words.split(' '));
            let wanted = line.arguments.recipe.clone().unwrap();
            command(&line.arguments, &wanted, "quick").join(" ")
        };
        let usual = "squall run twilio --profile quick --seed 1 --stations real";
        assert_eq!(of("squall twilio"), usual);
        let full = "squall run ./mine.toml --profile quick --seed 7 --stations embedded --repetitions 3 \
                    --attempts 2 --idle-processors asleep --pcap --allow-files";
        let given = "squall ./mine.toml --allow-files --attempts 2 --pcap --idle-processors asleep --repetitions 3 \
                     --stations embedded --seed 7";
        assert_eq!(of(given), full);
    }

    #[test]
    fn run_is_kept_if_its_programs_left_logs() {
        let home = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(home.path().join("run")).unwrap();
        assert!(has_left_nothing(&folder));
        let attempt = FailedAttempt {
            schema: SCHEMA,
            trial: "0000-x".to_owned(),
            variant: "x".to_owned(),
            attempt: 1,
            station_exits: Vec::new(),
            failure: Some("no right to make a TUN device".to_owned()),
        };
        let kept = folder.keep_attempt(&attempt).unwrap();
        assert!(has_left_nothing(&folder));
        fs::create_dir(kept.join(STATIONS)).unwrap();
        assert!(!has_left_nothing(&folder));
        remove(&folder);
        assert!(!home.path().join("run").exists());
    }
}

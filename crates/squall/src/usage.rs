//! How clap's messages are printed, and what to add to the one about a flag that a command does not have: the commands
//! that do have it.
//!
//! A message quotes arguments, which a shell may have taken from file names of other users, so control characters in it are
//! escaped on a terminal. Otherwise clap's message stays as it is; `main` has the commands.

use std::io::IsTerminal;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use squall_report::Colour;

use crate::display::ColourChoice;
use crate::output::{draw, eprint, for_terminal};

/// Prints clap's message, and the line that this module adds. Ends the process with clap's exit code.
pub(crate) fn exit(error: &clap::Error, commands: &clap::Command) -> ! {
    if error.use_stderr() {
        let colour = ColourChoice::Auto.for_stream(std::io::stderr().is_terminal());
        draw(message(error, colour));
    } else {
        // Help and versions, which quote nothing. If stdout is closed, there is no reader.
        let _ = error.print();
    }
    if let Some(owners) = unknown_flag(error).and_then(|flag| owners(flag, commands)) {
        eprint(format_args!("squall: {owners}\n"));
    }
    std::process::exit(error.exit_code())
}

/// A message of clap in which control characters are escaped, except newlines, tabs and clap's own styles.
fn message(error: &clap::Error, colour: Colour) -> String {
    let rendered = error.render();
    match colour {
        Colour::Ansi => for_terminal(&rendered.ansi().to_string()),
        Colour::Plain => for_terminal(&rendered.to_string()),
    }
}

/// The flag that the command does not have.
fn unknown_flag(error: &clap::Error) -> Option<&str> {
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(flag))) => {
            let flag = flag.split('=').next()?;
            flag.strip_prefix("--")
        }
        _ => None,
    }
}

/// A sentence with the commands that have the flag `--name`; `None` if no command has it.
fn owners(name: &str, commands: &clap::Command) -> Option<String> {
    let owners: Vec<String> = commands
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .filter(|command| {
            let mut flags = command.get_arguments();
            flags.any(|flag| flag.get_long() == Some(name))
        })
        .map(|command| format!("`squall {}`", command.get_name()))
        .collect();
    (!owners.is_empty()).then(|| format!("--{name} is a flag of {}", owners.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Arg, Command};
    use squall_base::text::is_terminal_control;

    use super::*;

    #[test]
    fn arguments_in_messages_do_not_control_the_terminal() {
        let report = Command::new("report").arg(Arg::new("run"));
        let commands = Command::new("squall").subcommand(report);
        let name = "b\x1b]0;title\x07\u{9b}31m\u{202e}";
        let parsed = commands.try_get_matches_from(["squall", "report", "a", name]);
        let error = parsed.unwrap_err();
        let is_obeyed = |c: char| is_terminal_control(c) && c != '\n';
        let plain = message(&error, Colour::Plain);
        assert!(!plain.contains(is_obeyed), "{plain:?}");
        let styled = message(&error, Colour::Ansi);
        assert!(styled.contains("\x1b[31m"), "{styled:?}");
        assert!(styled.contains("]0;title\\u{7}"), "{styled:?}");
        let styles = ["0", "1", "4", "31", "32", "33"].map(|number| format!("\x1b[{number}m"));
        let bare = (styles.iter()).fold(styled, |text, style| text.replace(style, ""));
        assert!(!bare.contains(is_obeyed), "{bare:?}");
    }

    #[test]
    fn flag_of_another_command_names_that_command() {
        let commands = Command::new("squall")
            .subcommand(Command::new("link").arg(Arg::new("loss").long("loss")))
            .subcommand(
                Command::new("worker")
                    .hide(true)
                    .arg(Arg::new("loss").long("loss")),
            )
            .subcommand(Command::new("load").arg(Arg::new("rate").long("rate")));
        let said = |arguments: &[&str]| {
            let arguments = [&["squall"][..], arguments].concat();
            let parsed = commands.clone().try_get_matches_from(arguments);
            let error = parsed.unwrap_err();
            unknown_flag(&error).and_then(|flag| owners(flag, &commands))
        };
        let named = Some("--loss is a flag of `squall link`".to_owned());
        assert_eq!(said(&["load", "--loss", "3%"]), named);
        assert_eq!(said(&["load", "--loss=3%"]), named);
        assert_eq!(said(&["load", "--lost"]), None);
        assert_eq!(said(&["load", "-x"]), None);
        assert_eq!(said(&["lode"]), None);
    }

    #[test]
    fn every_command_with_color_accepts_colour_too() {
        let commands = <crate::Cli as clap::CommandFactory>::command();
        let mut spelled = Vec::new();
        for command in commands.get_subcommands() {
            let mut arguments = command.get_arguments();
            if let Some(colour) = arguments.find(|it| it.get_long() == Some("color")) {
                let aliases = colour.get_visible_aliases().unwrap_or_default();
                assert!(aliases.contains(&"colour"), "{}", command.get_name());
                spelled.push(command.get_name());
            }
        }
        for name in ["run", "report", "explain", "load", "probe"] {
            assert!(spelled.contains(&name), "{name}: {spelled:?}");
        }
    }
    /// The long flags of a command and of those below it.
    fn flags_of(command: &Command) -> BTreeSet<String> {
        let own = command.get_arguments();
        let own = own.filter_map(Arg::get_long_and_visible_aliases).flatten();
        let own = own.map(|name| format!("--{name}"));
        own.chain(command.get_subcommands().flat_map(flags_of))
            .collect()
    }

    #[test]
    fn pages_of_load_and_serve_describe_every_flag_and_no_removed_one() {
        // Flags of other programs that the pages mention, and clap's own.
        const FOREIGN: [&str; 5] = ["--help", "--log-file", "--path", "--strict", "--test"];
        let words = |page: &'static str| -> BTreeSet<&'static str> {
            page.split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
                .collect()
        };
        let serve = words(include_str!("../../../docs/SERVE.md"));
        let load = words(include_str!("../../../docs/LOAD.md"));
        let both: BTreeSet<&str> = serve.union(&load).copied().collect();
        let commands = <crate::Cli as clap::CommandFactory>::command();
        for (name, page) in [
            ("serve", &serve),
            ("proxy", &serve),
            ("fetch", &both),
            ("load", &both),
        ] {
            let command = commands.find_subcommand(name).expect("a command");
            for flag in command.get_arguments() {
                let Some(long) = flag.get_long() else {
                    continue;
                };
                let short = flag.get_short().map(|letter| format!("-{letter}"));
                let is_described = page.contains(format!("--{long}").as_str())
                    || short.is_some_and(|short| page.contains(short.as_str()));
                assert!(is_described, "squall {name} --{long}");
            }
        }
        let known = flags_of(&commands);
        let is_flag = |word: &&str| word.starts_with("--") && !word.trim_matches('-').is_empty();
        let gone = both.iter().copied().filter(is_flag);
        let gone = gone.filter(|word| !known.contains(*word) && !FOREIGN.contains(word));
        let gone: Vec<&str> = gone.collect();
        assert!(gone.is_empty(), "{gone:?}");
    }
}

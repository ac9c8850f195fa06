//! What to add to clap's message about a flag that a command does not have: the commands that do have it.
//!
//! It adds lines to a message and changes nothing else; `main` has the commands.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::output::eprint;

/// Prints clap's message, and the line that this module adds. Ends the process with clap's exit code.
pub(crate) fn exit(error: &clap::Error, commands: &clap::Command) -> ! {
    // Nobody reads the message if stderr is closed.
    let _ = error.print();
    if let Some(owners) = unknown_flag(error).and_then(|flag| owners(flag, commands)) {
        eprint(format_args!("squall: {owners}\n"));
    }
    std::process::exit(error.exit_code())
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
    use clap::{Arg, Command};

    use super::*;

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
    fn colours_are_spelled_in_two_ways_by_every_command_that_has_them() {
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
}

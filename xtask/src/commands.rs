//! Holds the command lines in the documents against the program that was built: every subcommand and flag that a
//! document shows has to stand in the program's own help.

use std::process::Command;

use crate::Outcome;
use crate::documents::{Shown, shown};
use crate::workspace::{Workspace, capture};

/// How the documents call the program.
const PROGRAM: [&str; 2] = ["cargo run --release -- ", "millpond "];

/// Asks the program built by `cargo build`.
pub fn check(workspace: &Workspace) -> Outcome {
    let program = workspace.target.join("debug/millpond");
    let help = |words: &[&str]| capture(Command::new(&program).args(words).arg("--help"));
    let texts = workspace.texts()?;
    let shown = shown(&texts, &PROGRAM);
    println!("{} command lines in the documents", shown.len());
    let complaints: Vec<String> = shown.iter().filter_map(|shown| complaint(shown, &help)).collect();
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

fn complaint(shown: &Shown<'_>, help: &dyn Fn(&[&str]) -> Result<String, String>) -> Option<String> {
    let line = shown.words.join(" ");
    let mut path = Vec::new();
    let mut text = match help(&path) {
        Ok(text) => text,
        Err(said) => return Some(format!("{}: `{line}`: {said}", shown.at)),
    };
    // Each word that the help lists as a command leads one level down.
    for word in &shown.words {
        let takes_commands = text.contains("\nCommands:");
        if !takes_commands || word.starts_with('-') {
            break;
        }
        path.push(*word);
        text = match help(&path) {
            Ok(text) => text,
            Err(_) => return Some(format!("{}: `{line}`: there is no command `{}`", shown.at, path.join(" "))),
        };
    }
    let flags = shown.words.iter().filter(|word| word.starts_with("--"));
    let unknown = flags.map(|flag| flag.split('=').next().unwrap_or(flag)).find(|flag| !has_flag(&text, flag))?;
    Some(format!("{}: `{line}`: `{}` has no flag {unknown}", shown.at, path.join(" ")))
}

fn has_flag(help: &str, flag: &str) -> bool {
    let longer = |c: char| c.is_ascii_alphanumeric() || c == '-';
    help.match_indices(flag).any(|(at, _)| !help[at + flag.len()..].starts_with(longer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(words: &[&str]) -> Result<String, String> {
        match words {
            [] => Ok("Usage\n\nCommands:\n  send\n".to_owned()),
            ["send"] => Ok("Usage: send [--max-size N] [--help]".to_owned()),
            _ => Err("no such command".to_owned()),
        }
    }

    #[test]
    fn commands_and_flags_are_held_against_the_help() {
        let said =
            |line: &'static str| complaint(&Shown { at: "a.md:1".to_owned(), words: line.split(' ').collect() }, &help);
        assert_eq!(said("send me --max-size 3"), None);
        assert_eq!(said("send --max-size=3"), None);
        assert!(said("send --max 3").unwrap().contains("has no flag --max"));
        assert!(said("sent me").unwrap().contains("there is no command `sent`"));
    }
}

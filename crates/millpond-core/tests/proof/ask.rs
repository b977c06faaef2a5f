//! Asks a core in the words of a script, and takes the answers.

use millpond_core::command::Command;
use millpond_core::output::{Output, Reply};

use crate::script::{self, Line, Names};
use crate::shell::Shell;

/// What a line asks that names nothing of what was told before.
pub fn asked(text: &str) -> Command {
    script::command(&Line::new(text), text, &Names::default())
}

/// The answers to commands of one turn, in the order in which they come.
pub fn answers(shell: &mut Shell, commands: Vec<Command>) -> Vec<Reply> {
    let commands = commands.into_iter().map(|command| (shell.ticket(), command)).collect();
    let replies = shell.turn(commands).into_iter().filter_map(|output| match output {
        Output::Reply { reply, .. } => Some(reply),
        _ => None,
    });
    replies.collect()
}

/// The answer to one.
pub fn answer(shell: &mut Shell, command: Command) -> Reply {
    answers(shell, vec![command]).pop().expect("it is answered")
}

/// The same, as a script writes it.
pub fn say(shell: &mut Shell, text: &str) -> Reply {
    answer(shell, asked(text))
}

use std::path::Path;

use clap::CommandFactory;

use super::Cli;

/// The reference page, made from the definitions.
fn reference() -> String {
    let mut page = String::from(
        "# Command line\n\n\
        Made from the definitions in the program; a test holds this page against them, and\n\
        `UPDATE_DOCS=1 cargo test -p millpond` writes it anew.\n\n\
        ## What all commands share\n\n\
        * An address is `NS`, `NS/TOPIC` or `NS/PREFIX*`. The namespace ends at the first `/`. A `*` at the end makes a\n  \
        prefix; inside a topic's name it is written `\\*`, and a backslash `\\\\`.\n\
        * A duration has its unit: `100ms`, `5s`, `10m`, `1h`, `7d`. A size is in bytes, or has a unit that is a power of\n  \
        1024: `64K`, `192M`, `1GiB`.\n\
        * `--output json` prints one JSON object a line. Times are in UTC, and a body is text (`\"encoding\":\"utf8\"`) or,\n  \
        where it is no UTF-8, base64.\n\
        * Errors go to stderr and say what happened, why, and what to do.\n\n\
        | exit code | meaning |\n|---|---|\n\
        | 0 | done |\n\
        | 1 | refused: by the broker, by what is on the disk, or by the system |\n\
        | 2 | wrong usage: the command line, the configuration or stdin; nothing was sent |\n\
        | 3 | the broker cannot be reached, or was lost before it answered |\n",
    );
    let mut root = Cli::command();
    root.build();
    describe(&mut root, &mut page);
    page
}

fn describe(command: &mut clap::Command, page: &mut String) {
    let name = command.get_bin_name().unwrap_or("millpond").to_owned();
    let help = command.render_help().to_string();
    // Options of every command are told once, with the program itself.
    let paragraphs = help.split("\n\n").filter(|text| name == "millpond" || !text.starts_with(super::EVERYWHERE));
    let text: Vec<&str> = paragraphs.map(str::trim_end).collect();
    *page += &format!("\n## {name}\n\n```text\n{}\n```\n", text.join("\n\n").trim_end());
    for inner in command.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
        describe(inner, page);
    }
}

#[test]
fn the_definitions_make_sense() {
    Cli::command().debug_assert();
}

#[test]
fn the_reference_page_is_that_of_the_definitions() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, reference()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == reference(), "docs/cli.md is not up to date: run `UPDATE_DOCS=1 cargo test -p millpond`");
}

#[test]
fn every_command_and_argument_is_described() {
    fn check(command: &clap::Command) {
        assert!(command.get_about().is_some(), "{}", command.get_name());
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
        }
        command.get_subcommands().for_each(check);
    }
    check(&Cli::command());
}

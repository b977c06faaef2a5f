use std::path::Path;

use clap::{CommandFactory, Parser};

use super::Cli;

/// The reference page, made from the definitions.
fn reference() -> String {
    let mut page = String::from(
        "# Command line\n\n\
        Made from the definitions in the program; a test holds this page against them, and\n\
        `UPDATE_DOCS=1 cargo test -p millpond` writes it anew.\n\n\
        ## What all commands share\n\n\
        * An address is `NS`, `NS/TOPIC` or `NS/PREFIX*`. The namespace ends at the first `/`. A `*` at the end makes a\n  \
        prefix; inside a topic's name it is written `\\*`, and a backslash `\\\\`. An option that takes a name alone\n  \
        (`topics --after`, `namespace show --topic`) takes it as it is listed, without escapes.\n\
        * A duration has its unit: `100ms`, `5s`, `10m`, `1h`, `7d`. A size is in bytes, or has a unit that is a power of\n  \
        1024: `64K`, `192M`, `1GiB`.\n\
        * `--output json` prints one JSON object a line. Times are in UTC, and a body is text (`\"encoding\":\"utf8\"`) or,\n  \
        where it is no UTF-8, base64. A message that `publish` could not store because it was refused has its object\n  \
        too, with the outcome `refused`, a code and a detail.\n\
        * Errors go to stderr and say what happened, why, and what to do.\n\n\
        | exit code | meaning |\n|---|---|\n\
        | 0 | done |\n\
        | 1 | refused: by the broker, by what is on the disk, or by the system |\n\
        | 2 | wrong usage: the command line, the configuration or stdin; nothing was sent |\n\
        | 3 | the broker cannot be reached, or was lost before it answered |\n\n\
        What cannot be written to stdout, because the disk is full for instance, makes a command that is done end with 1;\n\
        a reader that has gone away, as `head` does, does not.\n\n\
        ## What the broker answers over HTTP\n\n\
        Where `serve --http` says, to GET, one request a connection:\n\n\
        | path | answer |\n|---|---|\n\
        | `/health` | 200 and `ok`; 500 and the reason once the journal has failed, when only a restart helps |\n\
        | `/ready` | 200 and `ready` while requests are served; 503 and the reason when the broker stops or the journal has failed |\n\
        | `/metrics` | all figures in the text form of OpenMetrics, for Prometheus |\n\n\
        Any other path, `/` among them, is 404. Before it listens, the broker answers nothing. Each figure's name begins with\n\
        `millpond_`, and a line `# HELP` before it says what it is: `curl -s http://127.0.0.1:7641/metrics | grep HELP`\n\
        lists them. None has a label for a topic, a tenant or a namespace; `stats` and `topics` tell of those.\n",
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

#[test]
fn every_call_that_the_documents_show_is_right() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    for folder in ["docs", "examples/device", "examples/crawler"] {
        let files = std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten().map(|entry| entry.path());
        pages.extend(files.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    let mut calls = 0;
    for page in pages {
        for line in typed_lines(&std::fs::read_to_string(&page).unwrap()) {
            let words = words(&line);
            for call in words.split(|word| word == "|" || word == "&") {
                let program = ["millpond", "cargo run --release --"];
                let text = call.join(" ");
                let Some(name) = program.iter().find(|name| text.starts_with(&format!("{name} "))) else { continue };
                let arguments = &call[name.split(' ').count() - 1..];
                let parsed = Cli::try_parse_from(arguments);
                assert!(parsed.is_ok(), "{}: {line}\n{}", page.display(), parsed.err().unwrap());
                calls += 1;
            }
        }
    }
    assert!(calls >= 3, "the README alone shows three calls");
}

/// The lines of blocks that are meant to be typed.
fn typed_lines(page: &str) -> Vec<String> {
    let (mut lines, mut fence) = (Vec::new(), None);
    for line in page.lines() {
        match line.trim_start().strip_prefix("```") {
            Some(kind) => fence = if fence.is_some() { None } else { Some(kind.trim().to_owned()) },
            None if fence.as_deref() == Some("sh") => lines.push(line.trim_start_matches("$ ").to_owned()),
            None => {}
        }
    }
    lines
}

/// A line as a shell takes it apart, as far as the documents go: quotes, and comments at the end.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '\'' || c == '"' => (quote, _) = (Some(c), word.get_or_insert_default()),
            None if c == '#' && word.is_none() => break,
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

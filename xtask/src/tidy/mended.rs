//! Each mended bug of the table names what finds it again, by more than the file that has it, and all of that is there. And
//! there are as many as is said.

use std::collections::BTreeSet;

use super::named::{SCENARIOS, fits, spans, tests};
use crate::workspace::Text;

const PROOF: &str = "docs/testing.md";
/// What the line above the table begins with, and behind how many there are.
const MENDED: &str = "Found by these, and mended: ";
/// Where the inputs are kept, in a folder for each target.
const CORPUS: &str = "fuzz/corpus/";
/// Where the scenarios of threads are that are run in many orders, in a file for each module.
const ORDERS: &str = "crates/millpond-interleavings/src/";

/// Complaints about the table. Inputs are no texts, so it takes the paths of all committed files.
pub fn check(texts: &[Text], paths: &[String]) -> Vec<String> {
    let documents = texts.iter().filter(|text| text.path == PROOF);
    let Some((said, rows)) = documents.filter_map(|document| table(&document.text)).next() else { return Vec::new() };
    let there = There { texts, paths, tests: tests(texts) };
    let listed = rows.len();
    let miscounted = (said != listed.to_string()).then(|| format!("{PROOF}: {listed} bugs are listed, not {said}"));
    let wrong = rows.into_iter().flat_map(|row| there.complaints(row));
    miscounted.into_iter().chain(wrong).collect()
}

/// How many mended bugs a document says that it lists, and the rows of those that it does.
fn table(text: &str) -> Option<(&str, Vec<&str>)> {
    let (said, behind) = text.split_once(MENDED)?.1.split_once(' ')?;
    let rows = behind.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    // Two lines are the table's head.
    Some((said, rows.skip(2).collect()))
}

/// What can be named.
struct There<'a> {
    texts: &'a [Text],
    paths: &'a [String],
    tests: BTreeSet<&'a str>,
}

impl There<'_> {
    /// What is wrong with a row, whose last column is what finds the bug again.
    fn complaints(&self, row: &str) -> Vec<String> {
        let column = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let named: Vec<&str> = spans(column).collect();
        // Of the tests in a file nobody knows which one that is.
        if named.iter().all(|name| name.ends_with(".rs")) {
            return vec![format!("{PROOF}: no test is named that finds a mended bug again: {row}")];
        }
        let lost = named.into_iter().filter(|name| !self.has(name));
        lost.map(|name| format!("{PROOF}: a mended bug names `{name}`, and there is none")).collect()
    }

    /// A test by its name, beside that the file of one, a script, a scenario of threads, or an input of a fuzz target.
    fn has(&self, name: &str) -> bool {
        if let Some((module, scenario)) = name.split_once("::") {
            let begin = format!("pub fn {scenario}(");
            return self.any(&format!("{ORDERS}{module}.rs"), |text| text.contains(&begin));
        }
        if let Some(script) = name.strip_suffix(".txt") {
            let mut scripts = self.paths.iter().filter_map(|path| path.strip_prefix(SCENARIOS));
            return scripts.any(|file| fits(file, script));
        }
        if name.ends_with(".rs") {
            let marks = ["#[test]", "#[tokio::test"];
            return self.any(&format!("/{name}"), |text| marks.iter().any(|mark| text.contains(mark)));
        }
        self.tests.contains(name)
            || name.contains('/') && self.paths.iter().any(|path| path.strip_prefix(CORPUS) == Some(name))
    }

    /// Whether a file whose path ends so is as it has to be.
    fn any(&self, end: &str, is_right: impl Fn(&str) -> bool) -> bool {
        self.texts.iter().any(|text| text.path.ends_with(end) && is_right(&text.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of a table that says that there are so many, and has these rows.
    fn complaints(said: &str, rows: &[&str]) -> Vec<String> {
        let rows: String = rows.iter().map(|row| format!("| what `was/wrong` | {row} |\n")).collect();
        let proof =
            format!("Found by these, and mended: {said} bugs:\n\n| what | test |\n|---|---|\n{rows}\nMore `x/y`.");
        let text = |path: &str, text: &str| Text { path: path.to_owned(), text: text.to_owned() };
        let texts = [
            text(PROOF, &proof),
            text("crates/a/src/heavy.rs", "fn no_test() {}"),
            text("crates/a/tests/proof/heavy.rs", "#[test]\nfn it_holds() {}"),
            text("crates/a/src/light.rs", ""),
            text("crates/millpond-interleavings/src/queue.rs", "pub fn all_are_served() {}"),
        ];
        let paths = ["fuzz/corpus/model/an_input", "crates/millpond-core/tests/scenarios/leases.txt"];
        check(&texts, &paths.map(str::to_owned))
    }

    #[test]
    fn bugs_that_were_mended_are_counted() {
        assert_eq!(complaints("2", &["`it_holds`", "`it_holds`"]), [""; 0]);
        assert_eq!(complaints("3", &["`it_holds`", "`it_holds`"]), ["docs/testing.md: 2 bugs are listed, not 3"]);
    }

    #[test]
    fn what_finds_them_again_is_named_and_there() {
        for named in [
            "`it_holds`",
            "scenario `leases.txt`",
            "`it_holds` of the proof's `heavy.rs`",
            "`it_holds` (`proof/heavy.rs`)",
            "`queue::all_are_served`",
            "`it_holds`, with `model/an_input`",
        ] {
            assert_eq!(complaints("1", &[named]), [""; 0]);
        }
        for lost in [
            "`it_fell`",
            "`no_test`",
            "`lease.txt`",
            "`it_holds` of `light.rs`",
            "`it_holds` of `eavy.rs`",
            "`it_holds` of `a/heavy.rs`",
            "`queue::none_is_served`",
            "`model/another_input`",
            "`records/an_input`",
            "`it_holds`, with `an_input`",
            "`heavy.rs` of the proof",
            "the same",
        ] {
            assert_eq!(complaints("1", &[lost]).len(), 1, "{lost}");
        }
    }
}

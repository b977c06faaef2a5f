//! What the documents that name tests name in the code is there: the tests first of all, so that no promise stands on one that was
//! renamed or removed. Of mended bugs [`super::mended`] asks for more.

use std::collections::BTreeSet;

use crate::workspace::Text;

const PROMISES: &str = "docs/semantics.md";
const PROOF: &str = "docs/testing.md";
/// Where the scripts are that the document names by their files.
pub(super) const SCENARIOS: &str = "crates/millpond-core/tests/scenarios/";
/// A word of so many parts is a test's, or else a figure's or a code's, which have fewer as a rule.
const PARTS_MIN: usize = 3;
/// What figures begin with; the code names them without.
const FIGURES: &str = "millpond_";

/// Complaints about scripts and names that are not there.
pub fn check(texts: &[Text]) -> Vec<String> {
    let (tests, strings) = (tests(texts), strings(texts));
    let documents = texts.iter().filter(|text| [PROMISES, PROOF].contains(&&*text.path));
    documents.flat_map(|document| check_one(document, texts, &tests, &strings)).collect()
}

fn check_one(
    Text { path, text }: &Text,
    texts: &[Text],
    tests: &BTreeSet<&str>,
    strings: &BTreeSet<&str>,
) -> Vec<String> {
    let lost = |name: &&str| match name.strip_suffix(".txt") {
        Some(script) => {
            !texts.iter().any(|text| text.path.strip_prefix(SCENARIOS).is_some_and(|file| fits(file, script)))
        }
        None => {
            let is_told = strings.contains(name.strip_prefix(FIGURES).unwrap_or(name));
            is_name(name) && !tests.contains(name) && !is_told
        }
    };
    let lost: BTreeSet<&str> = spans(text).filter(lost).collect();
    let lost = lost.into_iter().map(|name| format!("{path}: there is no test or figure `{name}` any more"));
    let bare = bare(text).into_iter();
    let bare = bare.map(|name| format!("{path}: the scenario `{name}` is not looked for: write {name}.txt"));
    lost.chain(bare).collect()
}

/// The first of the scenarios that a sentence lists, where that is not named by its file: many are called like something else.
fn bare(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let listed = words.windows(2).filter(|pair| ["scenario", "scenarios"].contains(&&*word(pair[0]).to_lowercase()));
    let named = listed.filter(|pair| pair[1].starts_with('`')).map(|pair| word(pair[1]));
    named.filter(|name| !name.ends_with(".txt")).map(str::to_owned).collect()
}

/// Without what stands around it.
fn word(text: &str) -> &str {
    text.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// What stands between backticks.
pub(super) fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

fn is_name(span: &str) -> bool {
    let is_of_names = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    span.chars().all(is_of_names) && span.split('_').count() >= PARTS_MIN
}

/// Whether a file is a script of this name, in which a `*` at the end stands for anything.
pub(super) fn fits(file: &str, script: &str) -> bool {
    let Some(file) = file.strip_suffix(".txt") else { return false };
    script.strip_suffix('*').map_or(file == script, |begin| file.starts_with(begin))
}

/// The functions of the code that a run of all tests runs: none is left out of it, see [`super::words`].
pub(super) fn tests(texts: &[Text]) -> BTreeSet<&str> {
    let mut tests = BTreeSet::new();
    for text in texts.iter().filter(|text| text.path.ends_with(".rs")) {
        let mut is_test = false;
        for line in text.text.lines().map(str::trim_start) {
            if line.starts_with("#[") {
                is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
                continue;
            }
            let name = line.trim_start_matches("async ").strip_prefix("fn ").and_then(|rest| rest.split('(').next());
            if let Some(name) = name.filter(|_| is_test) {
                tests.insert(name);
            }
            // A comment may stand between an attribute and what it is of.
            if !line.starts_with("//") {
                is_test = false;
            }
        }
    }
    tests
}

/// What stands in the code between quotes: the names of figures and of codes are there.
fn strings(texts: &[Text]) -> BTreeSet<&str> {
    let code = texts.iter().filter(|text| text.path.ends_with(".rs"));
    code.flat_map(|text| text.text.lines().flat_map(|line| line.split('"').skip(1).step_by(2))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_is_gone_is_missed() {
        let complaints = |document: &str| {
            let text = |path: &str, text: &str| Text { path: path.to_owned(), text: text.to_owned() };
            let code = "#[test]\n// Why.\nfn what_was_there_stays() {}\nname(\"over_all\");\nfn not_a_test() {}\n\
                        #[tokio::test]\nasync fn it_waits_too() {}\n";
            let code = text("crates/a/tests/b.rs", code);
            let script = text("crates/millpond-core/tests/scenarios/office_lost.txt", "");
            check(&[text(PROMISES, document), code, script]).len()
        };
        assert_eq!(complaints("It holds (`what_was_there_stays`, `office_lost.txt`, `office*.txt`)."), 0);
        assert_eq!(complaints("`millpond_over_all` counts it, `some_word` is short, `in a_b_c d` is no name."), 0);
        assert_eq!(complaints("It holds (`it_waits_too`)."), 0);
        assert_eq!(complaints("It holds (`what_was_there_goes`)."), 1);
        assert_eq!(complaints("It holds (`not_a_test`)."), 1);
        assert_eq!(complaints("It holds (`office.txt`, `leases*.txt`)."), 2);
        assert_eq!(complaints("(Scenarios `office_lost.txt` and\n`over_all`.) The scenario\n`office_lost.txt`."), 0);
        assert_eq!(complaints("(Scenarios\n`office_lost` and `office_lost.txt`.)"), 1);
    }
}

//! Files that a person can hold: outside tests no source file is longer than the limit, most are far shorter.

use crate::workspace::Text;

/// Lines of a source file outside tests. Half of them should have less than a third of this.
const LINES_MAX: usize = 800;

/// Complaints about files over the limit.
pub fn check(texts: &[Text]) -> Vec<String> {
    let long = sources(texts).into_iter().filter(|(lines, _)| *lines > LINES_MAX);
    long.map(|(lines, path)| format!("{path}: {lines} lines, at most {LINES_MAX}: divide it by its ideas")).collect()
}

/// The five longest files, for the report.
pub fn longest(texts: &[Text]) -> String {
    let longest = sources(texts).into_iter().take(5);
    longest.map(|(lines, path)| format!("{path} {lines}")).collect::<Vec<_>>().join(", ")
}

fn sources(texts: &[Text]) -> Vec<(usize, &str)> {
    let sources = texts.iter().filter(|text| text.path.ends_with(".rs") && !is_test(&text.path));
    let mut lengths: Vec<_> = sources.map(|text| (text.text.lines().count(), text.path.as_str())).collect();
    lengths.sort_unstable_by_key(|(lines, path)| (std::cmp::Reverse(*lines), *path));
    lengths
}

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.split('/').any(|part| part == "tests" || part == "benches")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_named_and_tests_may_be_long() {
        let text = |path: &str, lines: usize| Text { path: path.to_owned(), text: "x\n".repeat(lines) };
        let texts = [
            text("a.rs", LINES_MAX),
            text("b.rs", LINES_MAX + 1),
            text("a/tests.rs", 9999),
            text("tests/b.rs", 9999),
            text("c.md", 9999),
        ];
        assert_eq!(check(&texts).len(), 1);
        assert!(check(&texts)[0].starts_with("b.rs: 801 lines"));
        assert_eq!(longest(&texts), "b.rs 801, a.rs 800");
    }
}

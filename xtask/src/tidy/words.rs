//! Words that may not be committed: unfinished work, tests that are switched off, names that say nothing, paths of
//! somebody's machine. This file is the only one that is not checked, since it has to name them.

use crate::workspace::Text;

/// In any text, where neither neighbour continues the word.
const WORDS: &[(&str, &str)] = &[
    ("todo!", "finish it or leave it out"),
    ("unimplemented!", "finish it or leave it out"),
    ("FIXME", "fix it, or write down the limit where users read it"),
    ("XXX", "fix it, or write down the limit where users read it"),
    ("dbg!", "a left-over of debugging"),
    ("#[ignore]", "a test runs or is removed"),
    ("#[ignore =", "a test runs or is removed"),
];

/// As the name of a source file or of a folder with source files.
const NAMES: &[&str] =
    &["util", "utils", "common", "helper", "helpers", "misc", "manager", "managers", "impl", "impls"];

/// Where an absolute path begins with one of these, it is that of somebody's machine.
const MACHINE_PATHS: &[&str] = &["/root/", "/home/", "/tmp/", "/Users/"];

const THIS_FILE: &str = "xtask/src/tidy/words.rs";

/// Complaints with file and line.
pub fn check(texts: &[Text]) -> Vec<String> {
    texts.iter().filter(|text| text.path != THIS_FILE).flat_map(check_text).collect()
}

fn check_text(text: &Text) -> Vec<String> {
    let mut complaints: Vec<String> = check_name(&text.path).into_iter().collect();
    for (line, content) in text.text.lines().enumerate() {
        for (word, instead) in WORDS.iter().filter(|(word, _)| holds_word(content, word)) {
            complaints.push(format!("{}:{}: `{word}`: {instead}", text.path, line + 1));
        }
        for path in MACHINE_PATHS.iter().filter(|path| holds_path(content, path)) {
            complaints.push(format!("{}:{}: a path of somebody's machine below {path}", text.path, line + 1));
        }
    }
    complaints
}

fn check_name(path: &str) -> Option<String> {
    let stem = path.strip_suffix(".rs")?;
    let name = stem.split('/').find(|part| NAMES.contains(part))?;
    Some(format!("{path}: `{name}` says nothing: name it after what is inside"))
}

fn holds_word(line: &str, word: &str) -> bool {
    let continues = |c: char| c.is_ascii_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (line[..at].chars().next_back(), line[at + word.len()..].chars().next());
        let goes_on = word.ends_with(continues) && after.is_some_and(continues);
        !goes_on && !before.is_some_and(continues)
    })
}

/// A relative path or an address may hold the same letters: then something of a name stands before the slash.
fn holds_path(line: &str, path: &str) -> bool {
    let of_a_name = |c: char| c.is_alphanumeric() || "_-.~/*})]>".contains(c);
    line.match_indices(path).any(|(at, _)| !line[..at].chars().next_back().is_some_and(of_a_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        check(&[Text { path: path.to_owned(), text: text.to_owned() }])
    }

    #[test]
    fn banned_words_are_found_with_their_line() {
        for bad in ["todo!()", "// FIXME: later", "XXX", "dbg!(x)", "#[ignore]", "#[ignore = \"slow\"]"] {
            let said = complaints("src/a.rs", &format!("fine\n{bad}\n"));
            assert_eq!(said.len(), 1, "{bad}");
            assert!(said[0].starts_with("src/a.rs:2: "), "{said:?}");
        }
        for good in ["todo = \"deny\"", "XXXL", "aXXX", "ignore", "a method", "prefixed_dbg!(x)"] {
            assert_eq!(complaints("src/a.rs", good), Vec::<String>::new());
        }
    }

    #[test]
    fn names_that_say_nothing_are_found() {
        for bad in ["src/utils.rs", "src/helpers/mod.rs", "src/a/manager.rs"] {
            assert_eq!(complaints(bad, "").len(), 1, "{bad}");
        }
        for good in ["src/common_prefix.rs", "docs/common.md", "src/impl_block.rs"] {
            assert_eq!(complaints(good, ""), Vec::<String>::new());
        }
    }

    #[test]
    fn paths_of_machines_are_found() {
        for bad in ["cd /root/project", "\"/tmp/x\"", "(/home/me/x)", "/Users/x"] {
            assert_eq!(complaints("a.md", bad).len(), 1, "{bad}");
        }
        for good in ["https://a.example/home/x", "target/tmp/x", "/usr/share/doc", "{dir}/tmp/x"] {
            assert_eq!(complaints("a.md", good), Vec::<String>::new());
        }
    }

    #[test]
    fn only_this_file_is_exempt() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(THIS_FILE);
        assert_eq!(std::fs::read_to_string(path).unwrap(), include_str!("words.rs"));
        assert_eq!(complaints(THIS_FILE, "FIXME"), Vec::<String>::new());
    }
}

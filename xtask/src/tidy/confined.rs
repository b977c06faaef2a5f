//! What may be named in one place only, so that a rule about a whole crate can be seen to hold.

use crate::workspace::Text;

/// Somewhere, something is named in one place only.
struct Rule {
    /// Source files below this.
    within: &'static str,
    /// May not name this,
    name: &'static str,
    /// but for these.
    only_in: &'static [&'static str],
    /// What to do instead.
    instead: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        within: "crates/millpond-storage/src/",
        name: "std::fs",
        only_in: &["crates/millpond-storage/src/disk/real.rs", "crates/millpond-storage/src/tree/files.rs"],
        instead: "every file goes through the `Disk` trait or the `Tree` trait, or crash tests do not see it",
    },
    Rule {
        within: "crates/millpond-storage/src/",
        name: "SystemTime",
        only_in: &["crates/millpond-storage/src/disk/real.rs"],
        instead: "time is handed in",
    },
];

/// Complaints about names out of their place. Tests are free.
pub fn check(texts: &[Text]) -> Vec<String> {
    RULES.iter().flat_map(|rule| texts.iter().filter_map(|text| complaint(rule, text))).collect()
}

fn complaint(rule: &Rule, text: &Text) -> Option<String> {
    let applies =
        text.path.starts_with(rule.within) && text.path.ends_with(".rs") && !rule.only_in.contains(&&*text.path);
    if !applies || text.path.ends_with("/tests.rs") || text.path.contains("/tests/") {
        return None;
    }
    let code = |line: &&str| !line.trim_start().starts_with("//") && line.contains(rule.name);
    text.text.lines().find(code).map(|line| format!("{}: `{}`: {}", text.path, line.trim(), rule.instead))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_out_of_its_place_is_found() {
        let complaints = |path: &str, text: &str| check(&[Text { path: path.to_owned(), text: text.to_owned() }]).len();
        let code = "//! About std::fs.\nuse std::fs::File;\n";
        assert_eq!(complaints("crates/millpond-storage/src/journal.rs", code), 1);
        assert_eq!(complaints("crates/millpond-storage/src/journal.rs", "//! About std::fs.\n"), 0);
        assert_eq!(complaints("crates/millpond-storage/src/disk/real.rs", code), 0);
        assert_eq!(complaints("crates/millpond-storage/src/journal/tests.rs", code), 0);
        assert_eq!(complaints("crates/millpond-server/src/lib.rs", code), 0);
    }
}

//! Every source file opens with a paragraph that says what it is.

use crate::workspace::Text;

/// Complaints about files whose first line is no `//!`.
pub fn check(texts: &[Text]) -> Vec<String> {
    let sources = texts.iter().filter(|text| text.path.ends_with(".rs"));
    let bare = sources.filter(|text| !text.text.lines().next().is_some_and(says_something));
    bare.map(|text| format!("{}: opens without a `//!` paragraph that says what it is", text.path)).collect()
}

fn says_something(line: &str) -> bool {
    line.strip_prefix("//!").is_some_and(|rest| rest.split_whitespace().count() > 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_says_what_it_is() {
        let complaints = |text: &str| check(&[Text { path: "src/a.rs".to_owned(), text: text.to_owned() }]).len();
        assert_eq!(complaints("//! What it is.\n"), 0);
        for bad in ["", "use a;\n", "//!\n", "//! Tests.\n", "// What it is.\n"] {
            assert_eq!(complaints(bad), 1, "{bad}");
        }
    }
}

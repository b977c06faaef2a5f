//! Every source file opens with a paragraph that says what it is; `foo/tests.rs` is spoken for by `foo.rs`.

use crate::workspace::Text;

/// Complaints about files whose first line is no `//!`.
pub fn check(texts: &[Text]) -> Vec<String> {
    let sources = texts.iter().filter(|text| text.path.ends_with(".rs") && !text.path.ends_with("/tests.rs"));
    let bare = sources.filter(|text| !text.text.lines().next().is_some_and(says_something));
    bare.map(|text| format!("{}: opens without a `//!` paragraph that says what it is", text.path)).collect()
}

fn says_something(line: &str) -> bool {
    line.strip_prefix("//!").is_some_and(|rest| rest.split_whitespace().count() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_says_what_it_is() {
        let complaints_in = |path: &str, text: &str| {
            let text = Text { path: path.to_owned(), text: text.to_owned() };
            check(&[text]).len()
        };
        let complaints = |text| complaints_in("src/a.rs", text);
        assert_eq!(complaints("//! What it is.\n"), 0);
        assert_eq!(complaints_in("src/a/tests.rs", "use super::*;\n"), 0);
        for bad in ["", "use a;\n", "//!\n", "//! Tests.\n", "// What it is.\n"] {
            assert_eq!(complaints(bad), 1, "{bad}");
        }
    }
}

//! Command lines that the documents show, so that they can be held against the programs.
//!
//! Only blocks fenced as `sh` are meant to be typed; of these, lines that begin with one of our programs.

use crate::CHORES;
use crate::workspace::Text;

/// A command line in a document.
#[derive(PartialEq, Eq, Debug)]
pub struct Shown<'a> {
    /// The document and the line, for a complaint.
    pub at: String,
    /// The words behind the program's name, up to a pipe, a comment or a `--` of its own.
    pub words: Vec<&'a str>,
}

/// Complaints about chores that do not exist.
pub fn check_chores(texts: &[Text]) -> Vec<String> {
    let unknown = |shown: &Shown<'_>| !CHORES.iter().any(|(name, _, _)| shown.words.first() == Some(name));
    let shown = shown(texts, &["cargo xtask "]).into_iter().filter(unknown);
    shown.map(|shown| format!("{}: there is no chore `{}`", shown.at, shown.words.join(" "))).collect()
}

/// The command lines that begin with one of the given programs.
pub fn shown<'a>(texts: &'a [Text], programs: &[&str]) -> Vec<Shown<'a>> {
    let mut found = Vec::new();
    for text in texts.iter().filter(|text| text.path.ends_with(".md")) {
        let mut fence = None;
        for (number, line) in text.text.lines().enumerate() {
            if let Some(kind) = line.trim_start().strip_prefix("```") {
                fence = if fence.is_some() { None } else { Some(kind.trim()) };
            } else if fence == Some("sh") {
                // What is piped to us is a command line as well.
                for part in line.split('|') {
                    let part = part.trim().trim_start_matches("$ ");
                    if let Some(rest) = programs.iter().find_map(|program| part.strip_prefix(program)) {
                        let ends = |word: &&str| *word != "--" && !word.starts_with('#');
                        let words = rest.split_whitespace().take_while(ends).collect();
                        found.push(Shown { at: format!("{}:{}", text.path, number + 1), words });
                    }
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> [Text; 1] {
        [Text { path: "a.md".to_owned(), text: text.to_owned() }]
    }

    #[test]
    fn only_what_is_meant_to_be_typed_is_found() {
        let texts =
            document("mill a\n```text\nmill b\n```\n```sh\necho x | mill c --d 1 -- sort # e\n$ mill f # g\n```\n");
        let found = shown(&texts, &["mill "]);
        assert_eq!(found[0], Shown { at: "a.md:6".to_owned(), words: vec!["c", "--d", "1"] });
        assert_eq!(found[1], Shown { at: "a.md:7".to_owned(), words: vec!["f"] });
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn chores_that_do_not_exist_are_named() {
        assert_eq!(check_chores(&document("```sh\ncargo xtask test\n```\n")), Vec::<String>::new());
        assert_eq!(check_chores(&document("```sh\ncargo xtask sing\n```\n")).len(), 1);
    }
}

//! Links between the committed documents resolve, headings included, and every document in `docs/` can be reached from
//! README.md.

use std::collections::BTreeSet;

use crate::workspace::Text;

/// Complaints about links that lead nowhere and documents that nothing leads to.
pub fn check(texts: &[Text]) -> Vec<String> {
    let documents: Vec<&Text> = texts.iter().filter(|text| text.path.ends_with(".md")).collect();
    let mut complaints = Vec::new();
    for document in &documents {
        for link in links(&document.text) {
            if let Err(why) = resolve(document, link, texts) {
                complaints.push(format!("{}: the link to {link} leads nowhere: {why}", document.path));
            }
        }
    }
    let reached = reached(&documents);
    let lost = documents.iter().filter(|text| text.path.starts_with("docs/") && !reached.contains(&text.path));
    complaints.extend(lost.map(|text| format!("{}: no link from README.md leads here", text.path)));
    complaints
}

/// Paths that links lead to, from README.md on.
fn reached(documents: &[&Text]) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open = vec!["README.md".to_owned()];
    while let Some(path) = open.pop() {
        let Some(document) = documents.iter().find(|text| text.path == path) else { continue };
        if reached.insert(path) {
            let targets = links(&document.text).into_iter().filter(|link| is_ours(link));
            open.extend(targets.map(|link| target(&document.path, link).0));
        }
    }
    reached
}

fn resolve(from: &Text, link: &str, texts: &[Text]) -> Result<(), String> {
    if !is_ours(link) {
        return Ok(());
    }
    let (path, heading) = target(&from.path, link);
    let is_folder = |text: &Text| text.path.starts_with(&format!("{}/", path.trim_end_matches('/')));
    let found = texts.iter().find(|text| text.path == path);
    let Some(heading) = heading else {
        let there = found.is_some() || texts.iter().any(is_folder);
        return if there { Ok(()) } else { Err(format!("there is no {path}")) };
    };
    let found = found.ok_or_else(|| format!("there is no {path}"))?;
    let headings = outside_code(&found.text).filter(|line| line.starts_with('#'));
    if headings.map(anchor).any(|anchor| anchor == heading) {
        return Ok(());
    }
    Err(format!("{path} has no such heading"))
}

fn is_ours(link: &str) -> bool {
    !link.contains("://") && !link.starts_with("mailto:")
}

/// Path from the workspace's top, and heading.
fn target<'a>(from: &str, link: &'a str) -> (String, Option<&'a str>) {
    let (path, heading) = link.split_once('#').map_or((link, None), |(path, heading)| (path, Some(heading)));
    if path.is_empty() {
        return (from.to_owned(), heading);
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    (parts.join("/"), heading)
}

/// What stands in the round brackets of `[text](link)`, outside code.
fn links(text: &str) -> Vec<&str> {
    let ends = outside_code(text).flat_map(|line| line.split("](").skip(1));
    ends.filter_map(|rest| rest.split_once(')')).map(|(link, _)| link).collect()
}

/// The lines that stand in no fenced block.
fn outside_code(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// A heading as links name it: lower case, spaces as `-`, no other signs.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().chars();
    let kept = kept.filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(documents: &[(&str, &str)]) -> Vec<String> {
        let text = |(path, text): &(&str, &str)| Text { path: (*path).to_owned(), text: (*text).to_owned() };
        check(&documents.iter().map(text).collect::<Vec<_>>())
    }

    #[test]
    fn links_that_resolve_pass() {
        let readme =
            "[a](docs/a.md), [b](docs/a.md#the-end-of-it) [c](#top) [d](https://x.example/y) [e](docs)\n# Top\n";
        let a = "[up](../README.md#top) [beside](b.md) [here](./b.md)\n## The end, of `it`\n```\n[no](link)\n```\n";
        assert_eq!(complaints(&[("README.md", readme), ("docs/a.md", a), ("docs/b.md", "")]), Vec::<String>::new());
    }

    #[test]
    fn links_that_lead_nowhere_are_named() {
        for bad in ["[a](b.md)", "[a](#nothing)", "[a](README.md#nothing)", "[a](docs/)"] {
            assert_eq!(complaints(&[("README.md", bad)]).len(), 1, "{bad}");
        }
    }

    #[test]
    fn a_document_that_nothing_leads_to_is_named() {
        let said = complaints(&[("README.md", ""), ("docs/a.md", "[b](b.md)"), ("docs/b.md", "[a](a.md)")]);
        assert_eq!(said.len(), 2);
        assert!(said[0].contains("docs/a.md: no link"));
    }
}

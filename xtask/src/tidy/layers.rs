//! Holds the table of crates in ARCHITECTURE.md against what cargo says. The table is the one place where the layers
//! are written down: `| crate | what | may depend on |`, each crate in backquotes. Dependencies of tests are free.

use std::collections::BTreeMap;

use crate::workspace::{Crate, Text};

/// Crates in the order of the table, each with those that it may depend on.
type Table<'a> = Vec<(&'a str, Vec<&'a str>)>;

/// Complaints about crates that depend on what the table does not allow, and about a table that names other crates
/// than there are or lets an arrow point up.
pub fn check(crates: &[Crate], texts: &[Text]) -> Vec<String> {
    let Some(page) = texts.iter().find(|text| text.path == "ARCHITECTURE.md") else {
        return vec!["ARCHITECTURE.md with the table of crates is missing".to_owned()];
    };
    let table = table(&page.text);
    let mut complaints = Vec::new();
    for (at, (name, allowed)) in table.iter().enumerate() {
        for upper in allowed.iter().filter(|dependency| !table[..at].iter().any(|(above, _)| above == *dependency)) {
            complaints
                .push(format!("ARCHITECTURE.md: `{name}` may depend on `{upper}`, which does not stand above it"));
        }
        if !crates.iter().any(|ours| ours.name == *name) {
            complaints.push(format!("ARCHITECTURE.md: there is no crate `{name}`"));
        }
    }
    let allowed: BTreeMap<&str, &Vec<&str>> = table.iter().map(|(name, allowed)| (*name, allowed)).collect();
    for ours in crates {
        let Some(allowed) = allowed.get(ours.name.as_str()) else {
            complaints.push(format!("ARCHITECTURE.md: the table of crates lacks `{}`", ours.name));
            continue;
        };
        for dependency in ours.depends_on.iter().filter(|name| !allowed.contains(&name.as_str())) {
            complaints.push(format!(
                "{}: {} may not depend on {dependency}: see the table in ARCHITECTURE.md",
                ours.manifest, ours.name
            ));
        }
    }
    complaints
}

fn table(page: &str) -> Table<'_> {
    let rows = page.lines().skip_while(|line| !line.starts_with("| crate |")).skip(2);
    rows.take_while(|line| line.starts_with('|')).filter_map(row).collect()
}

fn row(line: &str) -> Option<(&str, Vec<&str>)> {
    let mut cells = line.trim_matches('|').split('|');
    let name = *quoted(cells.next()?).first()?;
    Some((name, quoted(cells.next_back()?)))
}

/// What stands in backquotes.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "text\n\n| crate | what | may depend on |\n|---|---|---|\n| `low` | words of `x` | - |\n\
                        | `high` | more | `low` |\n\n| `other` | table | `high` |\n";

    fn check_with(page: &str, high: &[&str], low: &[&str]) -> Vec<String> {
        let of = |name: &str, depends_on: &[&str]| Crate {
            name: name.to_owned(),
            manifest: format!("{name}/Cargo.toml"),
            depends_on: depends_on.iter().map(|name| (*name).to_owned()).collect(),
        };
        let page = Text { path: "ARCHITECTURE.md".to_owned(), text: page.to_owned() };
        check(&[of("low", low), of("high", high)], &[page])
    }

    #[test]
    fn what_the_table_allows_passes() {
        assert_eq!(check_with(PAGE, &["low"], &[]), Vec::<String>::new());
    }

    #[test]
    fn what_it_does_not_allow_is_named() {
        let said = check_with(PAGE, &["low"], &["high"]);
        assert_eq!(said, ["low/Cargo.toml: low may not depend on high: see the table in ARCHITECTURE.md"]);
    }

    #[test]
    fn the_table_itself_is_checked() {
        let upward = PAGE.replace("| words of `x` | - |", "| words | `high` |");
        assert!(check_with(&upward, &[], &[])[0].contains("does not stand above"));
        let short = PAGE.replace("| `high` | more | `low` |\n", "");
        assert!(check_with(&short, &[], &[])[0].contains("lacks `high`"));
        let long = PAGE.replace("| `high` |", "| `gone` | old | - |\n| `high` |");
        assert!(check_with(&long, &[], &[])[0].contains("no crate `gone`"));
    }
}

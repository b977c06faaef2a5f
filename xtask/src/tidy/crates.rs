//! Every crate has the workspace's licence and lints, and the licences' texts are there.

use crate::workspace::{Crate, Text};

/// Complaints about manifests and licences.
pub fn check(crates: &[Crate], texts: &[Text]) -> Vec<String> {
    let find = |path: &str| texts.iter().find(|text| text.path == path);
    let mut complaints: Vec<String> = ["LICENSE-MIT", "LICENSE-APACHE"]
        .iter()
        .filter(|path| find(path).is_none())
        .map(|path| format!("{path} is missing"))
        .collect();
    for ours in crates {
        match find(&ours.manifest) {
            None => complaints.push(format!("{} is not committed", ours.manifest)),
            Some(manifest) => complaints.extend(check_manifest(manifest)),
        }
    }
    complaints
}

fn check_manifest(manifest: &Text) -> Vec<String> {
    let has = |wanted: &str| manifest.text.lines().any(|line| line.trim() == wanted);
    let after = |header: &str| manifest.text.lines().skip_while(|line| line.trim() != header).nth(1);
    let mut complaints = Vec::new();
    if !has("license.workspace = true") {
        complaints.push(format!("{}: wants `license.workspace = true`", manifest.path));
    }
    if after("[lints]").map(str::trim) != Some("workspace = true") {
        complaints.push(format!("{}: wants `workspace = true` under `[lints]`", manifest.path));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(manifest: &str) -> usize {
        check_manifest(&Text { path: "x/Cargo.toml".to_owned(), text: manifest.to_owned() }).len()
    }

    #[test]
    fn licence_and_lints_are_wanted() {
        assert_eq!(complaints("[package]\nlicense.workspace = true\n\n[lints]\nworkspace = true\n"), 0);
        assert_eq!(complaints("[package]\nlicense = \"MIT\"\n\n[lints]\nworkspace = true\n"), 1);
        assert_eq!(complaints("[package]\nlicense.workspace = true\n\n[dependencies]\nworkspace = true\n"), 1);
    }

    #[test]
    fn a_crate_and_the_licences_have_to_be_committed() {
        let ours = Crate { name: "x".to_owned(), manifest: "x/Cargo.toml".to_owned(), depends_on: Vec::new() };
        assert_eq!(check(&[ours], &[]).len(), 3);
    }
}

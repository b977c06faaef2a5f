//! The workspace as cargo and git see it: where it is, what its crates depend on, which files are committed.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::Outcome;

/// The workspace.
pub struct Workspace {
    /// Its top folder.
    pub root: PathBuf,
    /// Where cargo builds.
    pub target: PathBuf,
    /// Its crates.
    pub crates: Vec<Crate>,
}

/// One of our crates.
pub struct Crate {
    /// As in its manifest.
    pub name: String,
    /// The manifest, relative to the workspace.
    pub manifest: String,
    /// Those of our crates that it depends on, for more than its tests.
    pub depends_on: Vec<String>,
}

/// A committed text file.
pub struct Text {
    /// Relative to the workspace, with `/`.
    pub path: String,
    /// All of it.
    pub text: String,
}

impl Workspace {
    /// Asks cargo.
    pub fn find() -> Result<Workspace, String> {
        let args = ["metadata", "--no-deps", "--format-version", "1"];
        let answer = capture(Command::new(cargo()).args(args))?;
        let metadata: Value = serde_json::from_str(&answer).map_err(|e| format!("cargo metadata: {e}"))?;
        let path = |name: &str| metadata[name].as_str().map(PathBuf::from);
        let (Some(root), Some(target)) = (path("workspace_root"), path("target_directory")) else {
            return Err("cargo metadata named no workspace_root or target_directory".to_owned());
        };
        let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let names: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
        let crates = packages.iter().map(|package| our_crate(package, &names, &root)).collect();
        Ok(Workspace { root, target, crates })
    }

    /// The paths of the files that are committed or about to be, in their order.
    pub fn paths(&self) -> Result<Vec<String>, String> {
        let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let listed = capture(Command::new("git").args(list).current_dir(&self.root))?;
        let is_there = |path: &&str| self.root.join(path).is_file();
        let mut paths: Vec<_> = listed.split('\0').filter(is_there).map(str::to_owned).collect();
        paths.sort_unstable();
        paths.dedup();
        Ok(paths)
    }

    /// Those of them that are texts. Files that are no UTF-8 are left out: no rule speaks of them.
    pub fn texts(&self) -> Result<Vec<Text>, String> {
        let read = |path: String| Some(Text { text: std::fs::read_to_string(self.root.join(&path)).ok()?, path });
        Ok(self.paths()?.into_iter().filter_map(read).collect())
    }

    /// Runs cargo in the workspace; its output is the caller's.
    pub fn cargo(&self, args: &[&str]) -> Outcome {
        run(&mut self.cargo_command(args))
    }

    /// The same, not yet started.
    pub fn cargo_command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(cargo());
        command.args(args).current_dir(&self.root);
        command
    }
}

/// Runs a command whose output is for the person who watches.
pub fn run(command: &mut Command) -> Outcome {
    let line = shown(command);
    println!("$ {line}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{line}` ended with {status}; what it said is above")),
        Err(e) => Err(format!("`{line}` could not be started: {e}")),
    }
}

/// Runs a command whose output is for us.
pub fn capture(command: &mut Command) -> Result<String, String> {
    let line = shown(command);
    let output = command.output().map_err(|e| format!("`{line}` could not be started: {e}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{line}` ended with {}:\n{}", output.status, said.trim_end()));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("`{line}` printed something that is no UTF-8"))
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_stem().unwrap_or_default().to_string_lossy();
    let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
    std::iter::once(program.into_owned()).chain(args).collect::<Vec<_>>().join(" ")
}

/// The cargo that runs us, so that a `+toolchain` on its command line holds for what we start as well.
fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn our_crate(package: &Value, ours: &[&str], root: &Path) -> Crate {
    let text = |name: &str| package[name].as_str().unwrap_or_default();
    let manifest = Path::new(text("manifest_path"));
    let mut depends_on: Vec<String> = package["dependencies"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|dependency| dependency["kind"] != "dev")
        .filter_map(|dependency| dependency["name"].as_str())
        .filter(|name| ours.contains(name))
        .map(str::to_owned)
        .collect();
    depends_on.sort_unstable();
    depends_on.dedup();
    Crate {
        name: text("name").to_owned(),
        manifest: manifest.strip_prefix(root).unwrap_or(manifest).to_string_lossy().into_owned(),
        depends_on,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_tests_and_of_others_do_not_count() {
        let package = serde_json::json!({
            "name": "high",
            "manifest_path": "top/crates/high/Cargo.toml",
            "dependencies": [
                { "name": "low", "kind": null },
                { "name": "tool", "kind": "build" },
                { "name": "probe", "kind": "dev" },
                { "name": "bytes", "kind": null },
            ],
        });
        let found = our_crate(&package, &["high", "low", "tool", "probe"], Path::new("top"));
        assert_eq!(found.depends_on, ["low", "tool"]);
        assert_eq!((found.name.as_str(), found.manifest.as_str()), ("high", "crates/high/Cargo.toml"));
    }
}

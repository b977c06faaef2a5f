//! Proves by the compiler that the core and everything it depends on do without std, and so without IO.
//!
//! A crate that is linked may define a panic handler only where std, which brings its own, is nowhere in the tree. The
//! probe is such a crate: it depends on `millpond-core` and defines one. If anything below it links std, the compiler
//! refuses the probe with "duplicate lang item". No other target than the host's has to be installed. The probe is a
//! workspace of its own, so that features are resolved for the core alone and not unified with what the server asks for.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Outcome;
use crate::workspace::{Workspace, capture};

const PROBE: &str = "\
//! Compiles only if std is nowhere in the tree of its one dependency.
#![no_std]

use probed as _;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
";

/// Probes `millpond-core`.
pub fn check(workspace: &Workspace) -> Outcome {
    let core = workspace.root.join("crates/millpond-core");
    let lock = workspace.root.join("Cargo.lock");
    probe(&workspace.target.join("no-std-probe"), "millpond-core", &core, Some(&lock))?;
    println!("millpond-core and all it depends on do without std");
    Ok(())
}

/// Writes the probe into `folder` and compiles it against the crate at `path`, with the versions of `lock`.
fn probe(folder: &Path, name: &str, path: &Path, lock: Option<&Path>) -> Outcome {
    let manifest = format!(
        "[package]\nname = \"probe\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\nprobed = {{ package = \"{name}\", path = {path:?} }}\n\n[profile.dev]\npanic = \"abort\"\n"
    );
    let failed = |e: std::io::Error| format!("the probe could not be written to {}: {e}", folder.display());
    fs::create_dir_all(folder.join("src")).map_err(failed)?;
    fs::write(folder.join("Cargo.toml"), manifest).map_err(failed)?;
    fs::write(folder.join("src/lib.rs"), PROBE).map_err(failed)?;
    if let Some(lock) = lock {
        fs::copy(lock, folder.join("Cargo.lock")).map_err(failed)?;
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["check", "--quiet"]).current_dir(folder).env("CARGO_TARGET_DIR", folder.join("target"));
    let said = capture(&mut cargo).map(drop);
    said.map_err(|said| format!("{name} does not do without std (or does not compile):\n{said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate in the test's own folder, probed.
    fn probe_source(label: &str, source: &str) -> Outcome {
        let folder = std::env::temp_dir().join(format!("millpond-probe-{label}-{}", std::process::id()));
        let sample = folder.join("sample");
        fs::create_dir_all(sample.join("src")).unwrap();
        let manifest = "[package]\nname = \"sample\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n";
        fs::write(sample.join("Cargo.toml"), manifest).unwrap();
        fs::write(sample.join("src/lib.rs"), source).unwrap();
        let outcome = probe(&folder.join("probe"), "sample", &sample, None);
        fs::remove_dir_all(&folder).unwrap();
        outcome
    }

    #[test]
    fn the_probe_tells_std_from_no_std() {
        assert_eq!(probe_source("without", "#![no_std]\nextern crate alloc;\n"), Ok(()));
        for (label, source) in [("with", "pub fn f() {}"), ("sneaked", "#![no_std]\nextern crate std;\n")] {
            let said = probe_source(label, source).unwrap_err();
            assert!(said.contains("duplicate lang item"), "{said}");
        }
    }
}

//! What the tests need from the machine beyond Rust, and how it is got: nothing is installed that the machine's owner
//! did not ask for, but for rustup's own components.
//!
//! * rustfmt and clippy: added with rustup where they are absent. Without them the run fails.
//! * gcc: compiles the device example, and a clock that can be set. If it is absent, their tests are skipped.
//! * Loop devices and mkfs.ext4: disks that are full, read-only or fail, which takes root. If they are absent, their tests are
//!   skipped.
//! * Control groups that limit memory, which takes root as well. If they are absent, their tests are skipped.
//! * strace: tells in which order the broker writes, syncs and renames, and lets calls fail. If it is absent, or may not trace, its
//!   tests are skipped.
//! * Documentation sites: the HTML of three Debian packages, thousands of pages with real links, which the crawler
//!   crawls. Taken from the machine where the packages are installed, else downloaded with apt-get into the target
//!   directory (no root needed, nothing installed). If that fails, the crawler's test is skipped.
//! * The crate libfuzzer-sys, which the wrappers of the fuzz targets have beside the workspace's crates: downloaded as these are. If
//!   that fails, it is not looked whether they compile.
//!
//! A test that needs one of these never skips by itself. It is told through [`WITHOUT`], which names what could not be
//! got (`gcc`, `loop`, `groups`, `strace`, `sites`, `libfuzzer`, with a comma between), and finds the sites in the folder that [`SITES`] names, one folder for
//! each site. Where neither variable is set, as in a plain `cargo test`, the sites are in `sites` of the target
//! directory, once `cargo xtask setup` has been run; what is absent then fails the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::workspace::{Workspace, capture, run};
use crate::{Outcome, fuzz};

/// The variable that names what could not be got.
const WITHOUT: &str = "MILLPOND_TEST_WITHOUT";
/// The variable that names the folder of sites.
const SITES: &str = "MILLPOND_TEST_SITES";

/// A documentation site. The packages are of Debian 12 and 13: the first that is there is taken.
struct Site {
    name: &'static str,
    packages: &'static [(&'static str, &'static str)],
}

const ALL_SITES: [Site; 3] = [
    Site {
        name: "python",
        packages: &[
            ("python3.11-doc", "usr/share/doc/python3.11/html"),
            ("python3.13-doc", "usr/share/doc/python3.13/html"),
        ],
    },
    Site { name: "git", packages: &[("git-doc", "usr/share/doc/git-doc")] },
    Site {
        name: "postgresql",
        packages: &[
            ("postgresql-doc-15", "usr/share/doc/postgresql-doc-15/html"),
            ("postgresql-doc-17", "usr/share/doc/postgresql-doc-17/html"),
        ],
    },
];

/// What could not be got.
#[derive(Default)]
pub struct Missing {
    things: Vec<Thing>,
}

struct Thing {
    name: &'static str,
    skips: &'static str,
    why: String,
}

/// Gets what is absent and can be got. Fails only where no test could be run without it.
pub fn set_up(workspace: &Workspace) -> Result<Missing, String> {
    for component in ["rustfmt", "clippy"] {
        have_component(component)?;
    }
    let mut missing = Missing::default();
    if !answers("gcc", "--version") {
        let why = "there is no gcc on this machine (apt-get install gcc)".to_owned();
        missing.things.push(Thing {
            name: "gcc",
            skips: "the tests of the device example, and of clocks that jump",
            why,
        });
    }
    if let Err(why) = can_loop(&workspace.target) {
        missing.things.push(Thing { name: "loop", skips: "the tests of disks that are full, read-only or fail", why });
    }
    if let Err(why) = can_group() {
        missing.things.push(Thing { name: "groups", skips: "the test of a limit of memory", why });
    }
    if !answers("strace", "true") {
        let why = "strace is not on this machine, or may not trace (apt-get install strace)".to_owned();
        missing.things.push(Thing {
            name: "strace",
            skips: "the tests of the order of syncs, of power cuts under the real tree, and of calls that fail",
            why,
        });
    }
    if let Err(why) = have_sites(&workspace.target) {
        missing.things.push(Thing { name: "sites", skips: "the tests of the crawler over real sites", why });
    }
    if let Err(why) = fuzz::fetch(workspace) {
        missing.things.push(Thing {
            name: "libfuzzer",
            skips: "whether the wrappers of the fuzz targets compile",
            why,
        });
    }
    for line in missing.skipped_tests() {
        println!("{line}");
    }
    Ok(missing)
}

impl Missing {
    /// A line for each kind of test that is skipped.
    pub fn skipped_tests(&self) -> Vec<String> {
        self.things.iter().map(|thing| format!("SKIPPED: {}: {}", thing.skips, thing.why)).collect()
    }

    /// The variables for the tests.
    pub fn environment(&self, workspace: &Workspace) -> [(&'static str, PathBuf); 2] {
        let names: Vec<&str> = self.things.iter().map(|thing| thing.name).collect();
        [(WITHOUT, names.join(",").into()), (SITES, workspace.target.join("sites"))]
    }
}

fn have_component(name: &str) -> Outcome {
    let program = if name == "clippy" { "cargo-clippy" } else { name };
    if answers(program, "--version") {
        return Ok(());
    }
    run(Command::new("rustup").args(["component", "add", name]))
        .map_err(|what| format!("{name} is not installed, and rustup could not add it: {what}"))
}

/// Whether this user may mount a file system that is in a file.
fn can_loop(target: &Path) -> Outcome {
    let (image, place) = (target.join("loop.image"), target.join("loop"));
    fs::create_dir_all(&place).map_err(|e| format!("{} could not be made: {e}", place.display()))?;
    let io = |e| format!("{}: {e}", image.display());
    fs::File::create(&image).and_then(|file| file.set_len(8 << 20)).map_err(io)?;
    capture(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
    capture(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&place))?;
    capture(Command::new("umount").arg(&place))?;
    fs::remove_file(&image).map_err(io)
}

/// Whether this user may make a control group that limits memory.
fn can_group() -> Outcome {
    let tried = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].map(|root| {
        let group = Path::new(root).join(format!("millpond-try-{}", std::process::id()));
        fs::create_dir(&group).map_err(|e| format!("{}: {e}", group.display()))?;
        let limits = ["memory.limit_in_bytes", "memory.max"];
        let limited = limits.iter().any(|file| group.join(file).exists());
        fs::remove_dir(&group).map_err(|e| format!("{}: {e}", group.display()))?;
        if limited { Ok(()) } else { Err(format!("groups in {root} do not limit memory")) }
    });
    let [first, second] = tried;
    first.or(second)
}

fn have_sites(target: &Path) -> Outcome {
    let sites = target.join("sites");
    fs::create_dir_all(&sites).map_err(|e| format!("{} could not be made: {e}", sites.display()))?;
    let mut absent = Vec::new();
    for site in ALL_SITES.iter().filter(|site| !sites.join(site.name).is_dir()) {
        let Some(at) = installed_at(site) else {
            absent.push(site);
            continue;
        };
        // A link may be left of a package that is installed no more; if there is none, so much the better.
        _ = fs::remove_file(sites.join(site.name));
        std::os::unix::fs::symlink(&at, sites.join(site.name))
            .map_err(|e| format!("no link to {} could be made: {e}", at.display()))?;
        println!("the site {} is that of {}", site.name, at.display());
    }
    if absent.is_empty() {
        return Ok(());
    }
    let apt = Apt::new(target.join("apt"))?;
    for site in absent {
        apt.fetch(site, &sites)?;
    }
    Ok(())
}

fn installed_at(site: &Site) -> Option<PathBuf> {
    site.packages.iter().map(|(_, html)| Path::new("/").join(html)).find(|html| has_pages(html))
}

/// A minimal image may have the package installed and its documentation left out.
fn has_pages(folder: &Path) -> bool {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter(|file| file.path().extension().is_some_and(|kind| kind == "html")).count() > 10
}

/// apt-get with package lists and downloads in a folder of our own.
struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn new(folder: PathBuf) -> Result<Apt, String> {
        if !answers("apt-get", "--version") {
            return Err("the documentation packages come with apt-get, which is not on this machine".to_owned());
        }
        for sub in ["lists/partial", "cache/archives/partial", "downloads"] {
            fs::create_dir_all(folder.join(sub)).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        let apt = Apt { folder };
        println!("fetching documentation packages with apt-get");
        capture(apt.command().arg("update"))?;
        Ok(apt)
    }

    /// Downloads the first of the site's packages that there is, and puts its pages in place.
    fn fetch(&self, site: &Site, sites: &Path) -> Outcome {
        let mut said = Vec::new();
        for (package, html) in site.packages {
            match self.unpack(package) {
                Ok(unpacked) => {
                    let (from, to) = (unpacked.join(html), sites.join(site.name));
                    fs::rename(&from, &to).map_err(|e| format!("{package} has no pages in {html}: {e}"))?;
                    println!("the site {} is that of {package}", site.name);
                    return Ok(());
                }
                Err(what) => said.push(what),
            }
        }
        Err(said.join("\n"))
    }

    fn unpack(&self, package: &str) -> Result<PathBuf, String> {
        let downloads = self.folder.join("downloads");
        capture(self.command().args(["download", package]).current_dir(&downloads))?;
        let prefix = format!("{package}_");
        let archive = fs::read_dir(&downloads)
            .map_err(|e| format!("{}: {e}", downloads.display()))?
            .flatten()
            .find(|file| file.file_name().to_string_lossy().starts_with(&prefix))
            .ok_or_else(|| format!("apt-get downloaded {package} to nowhere"))?;
        let unpacked = self.folder.join(package);
        fs::create_dir_all(&unpacked).map_err(|e| format!("{}: {e}", unpacked.display()))?;
        capture(Command::new("dpkg-deb").arg("-x").arg(archive.path()).arg(&unpacked))?;
        Ok(unpacked)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("apt-get");
        let option = |name: &str, sub: &str| format!("{name}={}", self.folder.join(sub).display());
        command.args(["-q", "-o", &option("Dir::State::lists", "lists"), "-o", &option("Dir::Cache", "cache")]);
        // Without this, apt as root gives up its rights for the download and then cannot write to our folder.
        command.args(["-o", "APT::Sandbox::User=root"]);
        command
    }
}

/// Whether a program is there and can be started.
pub fn answers(program: &str, arg: &str) -> bool {
    let status = Command::new(program).arg(arg).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_and_handed_on() {
        let workspace = Workspace { root: "r".into(), target: "t".into(), crates: Vec::new() };
        let gcc = Thing { name: "gcc", skips: "the tests of the device example", why: "the reason".to_owned() };
        let sites = Thing { name: "sites", skips: "the tests of the crawler", why: "another".to_owned() };
        let missing = Missing { things: vec![gcc, sites] };
        assert_eq!(missing.environment(&workspace)[0].1, PathBuf::from("gcc,sites"));
        assert_eq!(missing.skipped_tests()[0], "SKIPPED: the tests of the device example: the reason");
        assert!(Missing::default().environment(&workspace)[0].1.as_os_str().is_empty());
    }

    #[test]
    fn a_folder_without_pages_is_no_site() {
        let folder = std::env::temp_dir().join(format!("millpond-sites-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("copyright"), "").unwrap();
        assert!(!has_pages(&folder));
        (0..11).for_each(|i| fs::write(folder.join(format!("{i}.html")), "").unwrap());
        assert!(has_pages(&folder));
        fs::remove_dir_all(&folder).unwrap();
    }
}

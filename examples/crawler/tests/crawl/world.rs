//! The websites that are crawled, as data: documentation packages, cut up into many sites, and what is wrong with some of
//! their pages. Both the server and the walk are made from this and share nothing else.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// A package, and the beginnings of the paths that have a site of their own; the rest is on the package's first site.
const PACKAGES: [(&str, &[&str], &[&str]); 3] = [
    (
        "python",
        &["/library/", "/c-api/", "/whatsnew/", "/howto/", "/_sources/"],
        &["/usr/share/doc/python3.11/html", "/usr/share/doc/python3.13/html"],
    ),
    ("git", &["/git-", "/howto/", "/technical/"], &["/usr/share/doc/git-doc"]),
    (
        "postgresql",
        &["/sql-", "/infoschema-", "/catalog-", "/spi-"],
        &["/usr/share/doc/postgresql-doc-15/html", "/usr/share/doc/postgresql-doc-17/html"],
    ),
];

/// The variable that names what this machine cannot have (`sites` here), and the one that names the folder of packages.
const WITHOUT: &str = "MILLPOND_TEST_WITHOUT";
const SITES: &str = "MILLPOND_TEST_SITES";

/// What every site says to crawlers.
pub const ROBOTS: &str = "User-agent: *\nDisallow: /howto/*\nAllow: /howto/$\nDisallow: /sql-drop\n";

/// A package that is there.
pub struct Package {
    pub name: &'static str,
    pub folder: PathBuf,
    homes: &'static [&'static str],
}

/// One site: a part of a package, at a port of its own.
pub struct Site {
    pub package: usize,
    /// The beginning of the paths that are at home here; empty for the package's first site.
    pub home: &'static str,
    /// `http://HOST:PORT`, once it is bound.
    pub origin: String,
}

/// Everything there is to crawl.
pub struct World {
    pub packages: Vec<Package>,
    pub sites: Vec<Site>,
    /// A page on the first site that is never answered, where a test has the patience.
    pub silent: Option<&'static str>,
}

/// What is wrong with a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// It answers 503 so many times, and then as it should.
    Flaky(u32),
    /// It answers 500, always.
    Broken,
    /// It never answers.
    Silent,
}

impl World {
    /// The packages of these names that are on this machine; `None` if none is and that has been said to be in order.
    pub fn of(names: &[&str]) -> Option<World> {
        let mut packages = Vec::new();
        for (name, homes, installed) in PACKAGES.into_iter().filter(|(name, _, _)| names.contains(name)) {
            match folder(name, installed) {
                Some(folder) => packages.push(Package { name, folder, homes }),
                None => eprintln!(
                    "THE DOCUMENTATION OF {name} IS NOT THERE and is not crawled: cargo xtask setup fetches it"
                ),
            }
        }
        if packages.is_empty() {
            let allowed = env::var(WITHOUT).is_ok_and(|without| without.split(',').any(|thing| thing == "sites"));
            assert!(
                allowed,
                "none of {names:?} is there to be crawled: run `cargo xtask setup`, or set {WITHOUT}=sites"
            );
            eprintln!("SKIPPED: {WITHOUT} says that there are no sites to crawl");
            return None;
        }
        let mut sites = Vec::new();
        for (package, of) in packages.iter().enumerate() {
            let homes = [&[""], of.homes].concat();
            sites.extend(homes.into_iter().map(|home| Site { package, home, origin: String::new() }));
        }
        Some(World { packages, sites, silent: None })
    }

    /// The site of a package where a path is at home.
    pub fn home(&self, package: usize, path: &str) -> &Site {
        let own = self.sites.iter().filter(|site| site.package == package && path.starts_with(site.home));
        own.max_by_key(|site| site.home.len()).expect("every path begins with nothing")
    }

    /// Whether [`ROBOTS`] asks crawlers to leave a path alone.
    pub fn is_barred(&self, path: &str) -> bool {
        (path.starts_with("/howto/") && path != "/howto/") || path.starts_with("/sql-drop")
    }

    /// What is wrong with a path, if anything. A fixed few of all pages, so that every run has the same troubles.
    pub fn trouble(&self, path: &str) -> Option<Trouble> {
        if self.silent == Some(path) {
            return Some(Trouble::Silent);
        }
        // FNV-1a: all that is asked of it is to pick some.
        let hash = path
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        match hash >> 16 {
            n if path.ends_with(".html") && n.is_multiple_of(173) => Some(Trouble::Broken),
            n if n.is_multiple_of(31) => Some(Trouble::Flaky(1 + (n % 2) as u32)),
            _ => None,
        }
    }
}

fn folder(name: &str, installed: &[&str]) -> Option<PathBuf> {
    let set_up = env::var_os(SITES).map_or_else(|| target().join("sites"), PathBuf::from).join(name);
    let has_pages = |folder: &Path| {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        files.filter(|file| file.path().extension().is_some_and(|kind| kind == "html")).count() > 10
    };
    let mut candidates = [set_up].into_iter().chain(installed.iter().map(PathBuf::from));
    candidates.find(|folder| has_pages(folder)).map(|folder| fs::canonicalize(&folder).unwrap())
}

/// The target directory: this program is two folders deep in it.
pub fn target() -> PathBuf {
    profile().parent().unwrap().to_owned()
}

/// The folder of programs of the profile that this test was built with.
pub fn profile() -> PathBuf {
    let this = env::current_exe().unwrap();
    let deps = this.parent().unwrap();
    assert!(deps.ends_with("deps"), "{} is not where cargo puts tests", this.display());
    deps.parent().unwrap().to_owned()
}

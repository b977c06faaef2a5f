//! How much memory the system grants the process, so that a broker that is told to take more says so before it is killed for it.
//!
//! What counts is the smallest of: the control group's limit and those of all groups around it, the limit of address space,
//! and the machine's memory. What cannot be read grants everything.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

/// Where control groups are shown: of the second version, of the second beside the first, and of the first, each with the file
/// that holds the limit.
const GROUPS: [(&str, &str, &str); 3] = [
    ("0::", "/sys/fs/cgroup", "memory.max"),
    ("0::", "/sys/fs/cgroup/unified", "memory.max"),
    (":memory:", "/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
];

/// Warns if the system grants less than the broker may take.
pub(super) fn warn_if_less(memory: u64) {
    let (granted, by) = granted();
    if granted < memory {
        tracing::warn!(
            memory,
            granted,
            by,
            "the system grants less memory than the broker was given with --memory, and ends a process that wants more; give it less"
        );
    }
}

/// So many bytes, and whose limit that is.
fn granted() -> (u64, &'static str) {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let space = (getrlimit(Resource::As).current.unwrap_or(u64::MAX), "the limit of address space (ulimit -v)");
    let machine = (total(&read("/proc/meminfo")).unwrap_or(u64::MAX), "the machine's memory");
    let membership = read("/proc/self/cgroup");
    let group =
        GROUPS.iter().filter_map(|(kind, root, file)| of_groups(&membership, kind, Path::new(root), file)).min();
    let group = (group.unwrap_or(u64::MAX), "the control group");
    [space, machine, group].into_iter().min().expect("there are three")
}

/// The smallest limit of a group and those around it. A container sees its own group as the root.
fn of_groups(membership: &str, kind: &str, root: &Path, file: &str) -> Option<u64> {
    let line = membership.lines().find(|line| line.contains(kind))?;
    let path = line.rsplit_once(':')?.1.trim_start_matches('/');
    let groups = Path::new(path).ancestors().map(|group| root.join(group).join(file));
    groups.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).min()
}

/// Of the text of `/proc/meminfo`.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_of_all_groups_counts() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("service/broker");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("memory.max"), "max\n").unwrap();
        fs::write(root.path().join("service/memory.max"), "400\n").unwrap();
        fs::write(root.path().join("memory.max"), "500\n").unwrap();
        let of = |membership| of_groups(membership, "0::", root.path(), "memory.max");
        assert_eq!(of("5:cpu:/x\n0::/service/broker\n"), Some(400));
        assert_eq!(of("0::/\n"), Some(500));
        assert_eq!(of("0::/elsewhere\n"), Some(500));
        assert_eq!(of("5:cpu:/x\n"), None);
    }

    #[test]
    fn the_machine_has_so_much() {
        assert_eq!(total("MemTotal:       24 kB\nMemFree: 3 kB\n"), Some(24 * 1024));
        assert_eq!(total("nothing"), None);
        assert!(granted().0 > 0);
    }
}

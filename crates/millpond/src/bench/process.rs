//! What the kernel says of a process: processor time, memory, and who listens on a port. Linux only; elsewhere, and
//! where /proc is closed to us, the answers are absent and the figures that need them are left out.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// A process that is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process(pub u32);

impl Process {
    /// This process.
    pub fn own() -> Process {
        Process(std::process::id())
    }

    /// The process that listens on a TCP port of this machine.
    pub fn listening_on(port: u16) -> Option<Process> {
        let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
            .into_iter()
            .filter_map(|table| fs::read_to_string(table).ok())
            .filter_map(|table| listener_inode(&table, port))
            .map(|inode| format!("socket:[{inode}]"))
            .collect();
        let processes = fs::read_dir("/proc").ok()?.flatten();
        processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Process).find(|process| {
            let files = fs::read_dir(format!("/proc/{}/fd", process.0)).into_iter().flatten().flatten();
            files
                .filter_map(|file| fs::read_link(file.path()).ok())
                .any(|link| inodes.iter().any(|inode| link.as_os_str() == inode.as_str()))
        })
    }

    /// Processor time that it has used, in user space and in the kernel.
    pub fn cpu(self) -> Option<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?;
        ticks(&stat).map(|ticks| Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
    }

    /// Processor time that its first thread of this name has used: the kernel counts it in nanoseconds.
    pub fn thread_cpu(self, name: &str) -> Option<Duration> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.0)).ok()?.flatten();
        let is_named = |path: &Path| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim_end() == name);
        let thread = threads.map(|entry| entry.path()).find(|path| is_named(path))?;
        let running = fs::read_to_string(thread.join("schedstat")).ok()?;
        running.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
    }

    /// Bytes of memory that it has resident: now, and at most so far.
    pub fn resident(self) -> Option<(u64, u64)> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).ok()?;
        let field = |name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
        };
        Some((field("VmRSS:")?, field("VmHWM:")?))
    }
}

/// User and system ticks: the 14th and 15th field. The name in the second may hold anything, brackets too.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// The inode of the socket that listens on a port, from a table of /proc/net.
fn listener_inode(table: &str, port: u16) -> Option<u64> {
    const LISTEN: &str = "0A";
    let local_end = format!(":{port:04X}");
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let found = fields.get(1)?.ends_with(&local_end) && *fields.get(3)? == LISTEN;
        if found { fields.get(9)?.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_a_strange_name() {
        assert_eq!(ticks("7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 40 2 0 0"), Some(42));
        assert_eq!(ticks("nonsense"), None);
    }

    #[test]
    fn a_listener_is_found_by_its_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(Process::listening_on(port), Some(Process::own()));
        drop(listener);
        assert_eq!(Process::listening_on(port), None);
    }

    #[test]
    fn a_thread_is_found_by_its_name() {
        let work = || {
            let begin = Process::own().thread_cpu("grinder").unwrap();
            let mut used = begin;
            while used == begin {
                used = Process::own().thread_cpu("grinder").unwrap();
            }
        };
        std::thread::Builder::new().name("grinder".into()).spawn(work).unwrap().join().unwrap();
        assert_eq!(Process::own().thread_cpu("nobody"), None);
    }

    #[test]
    fn this_process_has_memory() {
        let (now, most) = Process::own().resident().unwrap();
        assert!(now > 0 && most >= now);
    }
}

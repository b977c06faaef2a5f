//! What the broker asks the system for, as `strace` tells it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::broker::serve;

/// The system's calls that change a file or a name, or make these durable.
const CALLS: &str = "openat,write,pwrite64,fallocate,ftruncate,fsync,fdatasync,rename,renameat,renameat2,unlink,mkdir";

/// The command that serves a directory and has its calls written down, each with so many of the bytes that it writes.
pub fn serve_traced(place: &Path, trace: &Path, bytes: usize) -> Command {
    let broker = serve(place);
    let mut command = Command::new("strace");
    // The broker is the child, and strace its grandchild.
    command.args(["-D", "-f", "-y", "-s", &bytes.to_string(), "-e", &format!("trace={CALLS}"), "-o"]).arg(trace);
    command.arg(broker.get_program()).args(broker.get_args());
    broker.get_envs().for_each(|(name, _)| _ = command.env_remove(name));
    command
}

/// The trace of a broker that has ended like this (`exited with 0`), once it says so.
pub fn whole(trace: &Path, end: &str) -> String {
    let end = format!("+++ {end} +++");
    for _ in 0..600 {
        let text = std::fs::read_to_string(trace).unwrap();
        // Each thread's end says the same: it is the first one's that is the process's.
        let first = text.split(' ').next().expect("there is always one");
        if text.lines().rev().any(|line| line.ends_with(&end) && line.split(' ').next() == Some(first)) {
            return text;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the trace does not come to its end");
}

/// A call that came to an end and did not fail.
pub struct Call<'a> {
    pub thread: &'a str,
    /// The line that tells of its end.
    pub line: &'a str,
    /// Where in the trace the line stands that tells of its beginning, and that one.
    pub begun: usize,
    pub ended: usize,
    text: Cow<'a, str>,
}

/// The calls of a trace, in the order in which they ended.
pub fn calls(trace: &str) -> impl Iterator<Item = Call<'_>> {
    let (mut at, mut begun) = (0, BTreeMap::new());
    trace.split_inclusive('\n').filter_map(move |whole| {
        let ended = at;
        at += whole.len();
        let line = whole.trim_end_matches('\n');
        let (thread, call) = line.split_once(' ')?;
        let call = call.trim_start();
        if let Some(call) = call.strip_suffix(" <unfinished ...>") {
            begun.insert(thread, (ended, call));
            return None;
        }
        let call = match call.strip_prefix("<... ").and_then(|call| call.split_once(" resumed>")) {
            // Its beginning may have been left out.
            Some((_, rest)) => {
                let (begun, call) = begun.remove(thread)?;
                Call { thread, line, begun, ended, text: Cow::Owned(format!("{call}{rest}")) }
            }
            None => Call { thread, line, begun: ended, ended, text: Cow::Borrowed(call) },
        };
        (call.text.contains('(') && call.result().is_some()).then_some(call)
    })
}

impl Call<'_> {
    /// What is called.
    pub fn name(&self) -> &str {
        self.text.split_once('(').map_or("", |(name, _)| name)
    }

    /// Whether it makes something durable.
    pub fn is_sync(&self) -> bool {
        matches!(self.name(), "fsync" | "fdatasync")
    }

    /// What it gave; none where that is an error, or unknown because the process ended.
    pub fn result(&self) -> Option<usize> {
        let (_, result) = self.text.rsplit_once(" = ")?;
        result.split([' ', '<']).next()?.parse().ok()
    }

    /// Whether this stands among its arguments.
    pub fn says(&self, word: &str) -> bool {
        self.text.contains(word)
    }

    /// The path of the first argument, where that is something open.
    pub fn open(&self) -> Option<&Path> {
        Some(Path::new(self.text.split_once('(')?.1.split_once('<')?.1.split_once('>')?.0))
    }

    /// The paths that it names, without those that do not lie in a directory, and as they are called there.
    pub fn paths(&self, place: &Path) -> Vec<String> {
        self.text.split('"').skip(1).step_by(2).filter_map(|path| ours(Path::new(path), place)).collect()
    }

    /// The last numbers among its arguments.
    pub fn numbers<const N: usize>(&self) -> [usize; N] {
        let (args, _) = self.text.rsplit_once(')').expect("a call has arguments");
        let mut numbers = args.rsplit(", ").map(|number| number.parse().expect("it is a number"));
        let mut last = [0; N];
        last.iter_mut().rev().for_each(|number| *number = numbers.next().expect("there are so many"));
        last
    }

    /// The bytes that it writes, and whether there were more than were written down.
    pub fn bytes(&self) -> (Vec<u8>, bool) {
        let (_, text) = self.text.split_once(", \"").expect("what is written is told");
        let (text, mut bytes, mut at) = (text.as_bytes(), Vec::new(), 0);
        while text[at] != b'"' {
            // What needs no words is most of it.
            let plain = text[at..].iter().position(|byte| matches!(byte, b'"' | b'\\')).expect("the string has an end");
            bytes.extend_from_slice(&text[at..at + plain]);
            at += plain;
            if text[at] == b'\\' {
                let digits = text[at + 1..].iter().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
                let octal =
                    text[at + 1..at + 1 + digits].iter().fold(0, |sum, digit| sum * 8 + u32::from(digit - b'0'));
                bytes.push(match text[at + 1] {
                    _ if digits > 0 => u8::try_from(octal).expect("it is a byte"),
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'v' => 11,
                    b'f' => 12,
                    other => other,
                });
                at += 1 + digits.max(1);
            }
        }
        (bytes, text[at + 1..].starts_with(b"..."))
    }
}

/// A path as it is called in a directory, if it lies there; the directory itself has the empty name.
pub fn ours(path: &Path, place: &Path) -> Option<String> {
    path.strip_prefix(place).ok().map(|path| path.display().to_string())
}

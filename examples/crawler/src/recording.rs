//! `--record FILE`: a JSON object on a line of its own for each answer that this process got. Lines are appended whole,
//! so a killed crawler leaves whole lines, and several crawlers may share the file. It is a log of what was fetched, with
//! pages that were fetched again in it again; what was found, once each, is in the records.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::failure::Failure;
use crate::fetch::Fetched;
use crate::tasks::Task;

pub struct Recording {
    file: Option<File>,
    complained: AtomicBool,
}

impl Recording {
    /// Opens the file, if there is to be one.
    pub fn open(path: Option<&Path>) -> Result<Recording, Failure> {
        let open = |path: &Path| {
            let opened = OpenOptions::new().create(true).append(true).open(path);
            opened.map_err(|error| Failure::Record { path: path.to_owned(), error })
        };
        Ok(Recording { file: path.map(open).transpose()?, complained: AtomicBool::new(false) })
    }

    /// Notes an answer. A file that cannot be written is complained of once; the crawl goes on.
    pub fn note(&self, task: &Task, fetched: &Fetched, links: usize) {
        let Some(mut file) = self.file.as_ref() else { return };
        let line = json!({
            "url": task.address.url().as_str(),
            "status": fetched.status.as_u16(),
            "html": fetched.is_html,
            "bytes": fetched.body.len(),
            "links": links,
            "depth": task.depth,
        });
        let written = file.write_all(format!("{line}\n").as_bytes());
        if let Err(error) = written
            && !self.complained.swap(true, Ordering::Relaxed)
        {
            eprintln!("crawler: pages are not recorded: {error}");
        }
    }
}

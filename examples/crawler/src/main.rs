//! A crawler of websites on Millpond: a topic per site, page depth as priority, every URL once. Any number of crawler
//! processes share the work of one namespace and may be killed and started again at any moment.
//!
//! This file takes the command line apart and runs the command; `page.rs` is what becomes of one page. All that has to
//! outlive a process is in the broker (`tasks.rs`, `records.rs`), nothing is in files of the crawler's own.

mod address;
mod arguments;
mod crawl;
mod failure;
mod fetch;
mod links;
mod page;
mod recording;
mod records;
mod report;
mod robots;
mod seed;
mod tally;
mod tasks;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("crawler: the system gives no event loop: {error}");
            return ExitCode::FAILURE;
        }
    };
    let done = runtime.block_on(async {
        match arguments.command {
            Command::Seed(seed) => seed::run(seed).await,
            Command::Crawl(crawl) => crawl::run(crawl).await,
            Command::Report(report) => report::run(report).await,
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("crawler: {failure}");
            failure.exit_code()
        }
    }
}

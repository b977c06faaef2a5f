//! `serve`: where its settings come from, and what keeps it from starting.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::broker::{Broker, Said, call, fresh_directory, hangup, millpond, serve};

#[test]
fn settings_come_from_flags_variables_and_the_file_in_this_order() {
    let directory = fresh_directory();
    let in_it = |name: &str| directory.path().join(name);
    let file = in_it("settings.toml");
    let text = format!(
        "listen = '127.0.0.1:0'\nhttp = '127.0.0.1:0'\nlog = 'warn'\nmemory = '64MiB'\ndata = {:?}\n",
        in_it("from-file").to_str().unwrap()
    );
    std::fs::write(&file, text).unwrap();
    let started = |command: &mut Command| drop(Broker::run(command.arg("serve").arg("--config").arg(&file)));
    started(&mut millpond());
    assert!(in_it("from-file").exists());
    started(millpond().env("MILLPOND_DATA", in_it("from-variable")));
    assert!(in_it("from-variable").exists());
    let mut command = millpond();
    command.env("MILLPOND_DATA", in_it("not-used"));
    drop(Broker::run(command.arg("serve").arg("--config").arg(&file).arg("--data").arg(in_it("from-flag"))));
    assert!(in_it("from-flag").exists() && !in_it("not-used").exists());
}

#[test]
fn a_wrong_file_is_told_with_the_key() {
    let directory = fresh_directory();
    let file = directory.path().join("settings.toml");
    let with = |text: &str| {
        std::fs::write(&file, text).unwrap();
        call(&["serve".as_ref(), "--config".as_ref(), file.as_os_str()])
    };
    with("memmory = '1GiB'\n").failed(2, &["settings.toml", "memmory", "memory"]);
    with("memory = 1\n").failed(2, &["settings.toml", "memory"]);
    with("memory = '1GB'\n").failed(2, &["settings.toml", "1GiB"]);
    with("memory\n").failed(2, &["settings.toml"]);
    std::fs::remove_file(&file).unwrap();
    call(&["serve".as_ref(), "--config".as_ref(), file.as_os_str()]).failed(2, &["settings.toml", "cannot be read"]);
}

#[test]
fn health_readiness_and_metrics_are_answered() {
    let broker = Broker::start();
    for path in ["/health", "/ready", "/metrics"] {
        let mut stream = TcpStream::connect(&broker.http).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
}

/// A terminal that goes away stops the broker in order, unless it was told not to heed that.
#[test]
fn a_hangup_stops_the_broker_in_order() {
    // Whoever starts the tests with `nohup` tells all that they start.
    if let Some(hangup) = hangup() {
        assert_eq!(Broker::start().stop_by(hangup).0, Some(0));
    }
    let directory = fresh_directory();
    let script = "trap '' HUP; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(millpond().get_program()).args(serve(directory.path()).get_args());
    let broker = Broker::run_on(&mut command, directory);
    broker.signal(Signal::HUP);
    std::thread::sleep(std::time::Duration::from_millis(300));
    broker.ok(&["publish", "default/a", "x"]);
    assert_eq!(broker.stop().0, Some(0));
}

#[test]
fn a_port_in_use_is_told() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let directory = fresh_directory();
    let try_with = |listen: &str, http: &str| {
        let mut command = millpond();
        command.args(["serve", "--log", "error", "--listen", listen, "--http", http, "--data"]).arg(directory.path());
        Said::of(command.output().unwrap()).failed(1, &[&address, "another process"]);
    };
    try_with(&address, "127.0.0.1:0");
    try_with("127.0.0.1:0", &address);
}

#[test]
fn a_directory_in_use_is_told_and_not_harmed() {
    let broker = Broker::start();
    broker.ok(&["publish", "default/a", "x"]);
    refused(broker.data(), &["in use"]);
    assert_eq!(broker.counts("default")["waiting"], 1);
}

#[test]
fn a_directory_that_is_not_ours_is_told() {
    let directory = fresh_directory();
    std::fs::write(directory.path().join("letters.txt"), "dear aunt").unwrap();
    refused(directory.path(), &["letters.txt", "empty directory"]);
    let file = directory.path().join("letters.txt");
    refused(&file, &["letters.txt"]);
}

#[test]
fn a_directory_of_another_version_is_told() {
    let broker = Broker::start();
    broker.ok(&["publish", "default/a", "x"]);
    let (code, directory) = broker.stop();
    assert_eq!(code, Some(0));
    let path = directory.path().join("FORMAT");
    let format = std::fs::read(&path).unwrap();
    std::fs::write(&path, "a later one\n").unwrap();
    refused(directory.path(), &["FORMAT"]);
    // Nothing was changed: with the file as it was, all is there.
    std::fs::write(&path, format).unwrap();
    assert_eq!(Broker::start_on(directory).counts("default")["waiting"], 1);
}

/// Serves a directory, which has to be refused with these words.
fn refused(directory: &Path, words: &[&str]) {
    Said::of(serve(directory).output().unwrap()).failed(1, words);
}

/// Connections that come at once are not kept waiting while the system enlarges its table of their files, which has 256
/// places unless there was need of more.
#[test]
fn there_is_room_for_the_files_of_many_connections_from_the_beginning() {
    assert!(Broker::start().status("FDSize:") >= 1024);
}

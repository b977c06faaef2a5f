//! The publisher for a device's firmware, in C, against the real broker.

use std::path::Path;
use std::process::Command;

use crate::broker::{Broker, Said, is_left_out};

#[test]
fn a_page_of_c_publishes_and_is_confirmed() {
    if is_left_out("gcc") {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/device/publish.c");
    let directory = tempfile::TempDir::new().unwrap();
    let binary = directory.path().join("publish");
    let flags = ["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", "-o"];
    let compiled = Command::new("gcc").args(flags).arg(&binary).arg(source).output();
    Said::of(compiled.expect("there is gcc, or MILLPOND_TEST_WITHOUT=gcc")).ok();
    let broker = Broker::start();
    let (host, port) = broker.address.rsplit_once(':').unwrap();
    let publish = |body: &str| Command::new(&binary).args([host, port, "locks/7", body]).output().unwrap();
    let id = Said::of(publish("24 bytes of the device.")).ok();
    let message = &broker.json(&["receive", "default"])[0];
    assert_eq!(message["id"], id.trim());
    assert_eq!((&message["topic"], &message["body"]), (&"locks/7".into(), &"24 bytes of the device.".into()));
}

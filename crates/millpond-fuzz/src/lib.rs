//! What the fuzz targets do with the bytes they are given.
//!
//! A target is a function of any bytes that panics where it finds something. The same functions are run in two ways:
//! `tests/quiet.rs` gives them the kept corpora and mutations of these, with nothing to install; the wrappers in `fuzz/` hand
//! them to libFuzzer, which is guided by what the bytes reach (`cargo xtask fuzz`).
//!
//! Invariant: what a target does depends on its bytes alone, so that what was found once is found again. The two that talk to
//! a running broker keep to that as far as threads and what it holds already allow.
//!
//! Left to others: the rules themselves. A target calls what a broker, an operator or a client would call, and holds the
//! outcome against what these promise.

pub mod corpus;
mod memory;
pub mod mutation;
pub mod targets;

// The model of the core and its histories are those of the core's own tests. They, and the parsers below, name one another
// from the root of their crate, so they stand at the root of this one.
#[path = "../../millpond-core/tests/proof/agreement.rs"]
mod agreement;
#[allow(dead_code, reason = "the core's tests use more of it")]
#[path = "../../millpond-core/tests/proof/checkpoint.rs"]
mod checkpoint;
#[allow(dead_code, unused_imports, reason = "the core's tests use more of it")]
#[path = "../../millpond-core/tests/proof/history/mod.rs"]
mod history;
#[allow(dead_code, reason = "the core's tests use more of it")]
#[path = "../../millpond-core/tests/proof/journal.rs"]
mod journal;
#[allow(dead_code, reason = "the core's tests use more of it")]
#[path = "../../millpond-core/tests/proof/model/mod.rs"]
mod model;
#[path = "../../millpond-core/tests/proof/moves.rs"]
mod moves;
#[allow(dead_code, reason = "the core's tests use more of it")]
#[path = "../../millpond-core/tests/proof/shell.rs"]
mod shell;
#[allow(dead_code, reason = "the core's tests use more of it")]
#[path = "../../millpond-core/tests/proof/store.rs"]
mod store;

// What is typed and what stands in a configuration file, as the program reads it.
#[allow(dead_code, reason = "the program uses more of it")]
#[path = "../../millpond/src/address.rs"]
mod address;
#[allow(dead_code, reason = "the program uses more of it")]
#[path = "../../millpond/src/failure.rs"]
mod failure;
#[allow(dead_code, reason = "the program uses more of it")]
#[path = "../../millpond/src/policy.rs"]
mod policy;
#[allow(dead_code, reason = "the program uses more of it")]
#[path = "../../millpond/src/quantity.rs"]
mod quantity;
#[allow(dead_code, reason = "the program uses more of it")]
#[path = "../../millpond/src/settings.rs"]
mod settings;

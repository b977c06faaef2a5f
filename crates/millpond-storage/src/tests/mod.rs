//! The whole storage, over real files and over the twin.

mod crash;
mod real_disk;
mod workload;

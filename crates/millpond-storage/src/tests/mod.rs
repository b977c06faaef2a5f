//! The whole storage, over real files and over the twin.

mod crash;
mod damage;
mod real_disk;
mod workload;

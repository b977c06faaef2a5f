//! The whole storage, over real files and over the twin.

mod calls;
mod cost;
mod crash;
mod damage;
mod drain;
mod entries;
mod foreign;
mod found;
mod golden;
mod golden_all;
mod inspect;
mod met;
mod missing;
mod mover;
mod reads;
mod real_disk;
mod rebuild;
mod regions;
mod restart;
mod salvage;
mod start;
mod workload;

//! One file per command.

pub mod cancel;
pub mod dead;
pub mod exchange;
pub mod finish;
pub mod forget;
pub mod group;
pub mod inspect;
pub mod look;
pub mod namespace;
pub mod pause;
pub mod publish;
pub mod purge;
pub mod receive;
pub mod reschedule;
pub mod serve;
pub mod stats;
pub mod topics;
pub mod which;
pub mod work;

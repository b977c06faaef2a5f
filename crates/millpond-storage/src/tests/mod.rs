//! The whole storage, over real files and over the twin.

mod real_disk;

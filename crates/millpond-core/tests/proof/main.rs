//! The core proved right, in four ways: scenarios as text, random histories against a plain model, histories in which
//! topics leave memory at any moment, and the same history in rooms of several sizes.
//!
//! After every turn of the first two [`shell::Shell`] checks the invariants, that the facts replay to the same pages, that
//! pages read back are the same pages, that numbers only grow, and that every byte published is live or freed, once.

mod agreement;
mod ask;
mod bare;
mod captures;
mod checkpoint;
mod coalesce;
mod dedup;
mod expiry;
mod found;
mod groups;
mod heavy;
mod held_back;
mod held_time;
mod histories;
mod history;
mod jobs;
mod journal;
mod left_behind;
mod letters;
mod limits;
mod loud;
mod measure;
mod model;
mod moves;
mod offices;
mod parking;
mod pieces;
mod producers;
mod rations;
mod repeats;
mod resting;
mod retention;
mod rooms;
mod routes;
mod saving;
mod say;
mod scenarios;
mod script;
mod setup;
mod shell;
mod small_room;
mod store;
mod together;
mod watch;
mod weights;

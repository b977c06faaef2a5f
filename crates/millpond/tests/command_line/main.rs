//! The command line against a real broker: every command, every exit code, every kind of bad input.

#[path = "../broker/mod.rs"]
mod broker;
#[allow(dead_code, reason = "it is shared with the crashes, which draw more")]
#[path = "../crashes/random.rs"]
mod random;

mod benching;
mod coalescing;
mod cuts;
mod device;
mod exchanges;
mod failing;
mod forwarding;
mod granted;
mod hoarding;
mod hostility;
mod inspecting;
mod leading;
mod limits;
mod logging;
mod managing;
mod memory;
mod ordering;
mod paging;
mod proxy;
mod publishing;
mod quotas;
mod read_only;
mod rebuilding;
mod receiving;
mod repeating;
mod restarting;
mod retaining;
mod scraping;
mod serving;
mod setting_up;
mod small_disk;
mod space;
mod standing_still;
mod starting;
mod starving;
mod strace;
mod syncing;
mod working;
mod wrong_usage;

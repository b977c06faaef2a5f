//! A queue in front of state that one thread owns ("singular update queue").
//!
//! Many threads or tasks submit requests; one thread takes *all* that wait in one swap, changes the state it owns, and
//! answers. No lock is held while the state changes, nothing is locked or woken per request, and the thread is woken
//! only when it sleeps. Invariant: requests of one lane are taken in the order in which they were submitted, and every
//! request that was accepted is either answered or its [`Pending`] says [`Gone`].
//!
//! * **Lanes** are bounded and have an order: of what is taken together, the first lane comes first. A state may leave
//!   any but the first waiting for a while ([`State::open_lanes`]), which pushes back on whoever fills them.
//! * **Submitting** is blocking ([`Submitter::submit`]), refused when full with the request given back
//!   ([`Submitter::try_submit`]), or in bulk without an answer ([`Source::tell_all`], with [`Source::room`] to
//!   wait for asynchronously).
//! * **Fairness**: a lane holds what one turn may take. Who finds it full stands in line, and who asks for little need not:
//!   no source puts more than its share in front of the others. A state may have its turns short ([`State::is_in_haste`]).
//! * **An answer** is a [`Pending`]: a `std` future, and `wait()` for threads.
//! * **Calls outside** are never made by the thread that owns the state. Their result comes back as a request through a
//!   [`Place`], which was reserved before, so that it always finds room.
//! * **Chaining** is the same thing: [`Submitter::submit_into`] reserves a place in the next queue, and the answer of
//!   the first is a request there. A full second stage holds back the first.
//! * **Stopping** ([`UpdateQueue::stop`]) refuses what is new, finishes what was accepted and what comes back through
//!   places, and gives the state back.
//!
//! What a request means, how much it weighs and when it is answered is left to the [`State`]. Only `std` is used.
//!
//! ```
//! use millpond_server::update_queue::{Batch, Lane, Next, State, UpdateQueue};
//!
//! /// A balance that only its own thread changes.
//! struct Account(u64);
//!
//! impl State for Account {
//!     type Request = u64;
//!     type Answer = u64;
//!
//!     fn update(&mut self, batch: &mut Batch<u64, u64>) -> Next {
//!         for (deposit, answer) in batch.drain() {
//!             self.0 += deposit;
//!             answer.give(self.0);
//!         }
//!         Next::Sleep(None)
//!     }
//! }
//!
//! let queue = UpdateQueue::start("account", &[Lane::new(1000)], Account(0)).unwrap();
//! let submitter = queue.submitter();
//! let balance = submitter.submit(0, 5).unwrap();
//! let later = submitter.submit(0, 7).unwrap();
//! assert_eq!(balance.wait(), Ok(5)); // or `balance.await`
//! assert_eq!(later.wait(), Ok(12));
//! assert_eq!(queue.stop().unwrap().0, 12);
//! assert!(submitter.submit(0, 1).is_err());
//! ```

mod answer;
mod lanes;
mod line;
mod open;
mod place;
mod source;
mod submitter;
#[cfg(test)]
mod tests;
mod worker;

pub use answer::{Answer, Gone, Pending};
pub use lanes::Lane;
pub use open::Open;
pub use place::Place;
pub use source::{Room, Source};
pub use submitter::{Refused, Stopped, Submitter};
pub use worker::{Batch, Next, Panicked, State, UpdateQueue, Worker};

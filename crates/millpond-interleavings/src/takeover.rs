//! What connections share with one another: which of them has a session, what may be delivered and is not written, and who uses a
//! namespace.

use std::sync::Arc;

use millpond_types::{NamespaceName, SessionId};

use crate::credit::{Grant, Window, Windows};
use crate::registry::Registry;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, lock, thread};
use crate::uses::{Joined, Uses};

const SESSION: SessionId = SessionId(7);
const CONNECTIONS: usize = 3;

/// What the writer hears, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Heard {
    Resumed(u64),
    Spoke(u64),
    Lost(u64),
}

/// Connections take a session over from one another, speak for it, and go. The writer hears nothing of it from one that had it
/// before, and is told that it was lost by the last one alone.
pub fn a_session_speaks_through_one_connection() {
    let registry = Arc::new(Registry::default());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let connection = |_| {
        let (registry, heard) = (registry.clone(), heard.clone());
        thread::spawn(move || {
            let (number, outbox) = registry.connect(CONNECTIONS).expect("there may be so many");
            let tell = |what: Heard| lock(&heard).push(what);
            // Taken over first, and told then.
            registry.take_session(SESSION, number, &outbox);
            let mut is_open = registry.unless_closed(&outbox, || tell(Heard::Resumed(number))).is_ok();
            for _ in 0..2 {
                is_open &= registry.unless_closed(&outbox, || tell(Heard::Spoke(number))).is_ok();
                thread::yield_now();
            }
            registry.disconnect(number, vec![SESSION], |lost| {
                thread::yield_now();
                assert!(is_open || lost.is_empty(), "who was closed has no session any more");
                lost.iter().for_each(|_| tell(Heard::Lost(number)));
            });
        })
    };
    let connections: Vec<_> = (0..CONNECTIONS).map(connection).collect();
    connections.into_iter().for_each(|connection| connection.join().expect("it does not panic"));
    let heard = lock(&heard);
    let mut has = None;
    for what in heard.iter() {
        match *what {
            Heard::Resumed(number) => has = Some(number),
            Heard::Spoke(number) => assert_eq!(has, Some(number), "{heard:?}"),
            Heard::Lost(number) => assert_eq!(has.take(), Some(number), "{heard:?}"),
        }
    }
    assert_eq!(has, None, "the last one has lost it: {heard:?}");
    assert_eq!((registry.connections(), registry.has(SESSION)), (0, false));
}

/// What may be delivered and is not written is bounded over all consumers, but for the little that each always has, and comes back
/// whole.
pub fn windows_are_given_back() {
    const MOST: u32 = 640;
    /// What each has in any case, as the module says.
    const LITTLE: u32 = 16;
    let windows = Arc::new(Windows::new(MOST as usize * 256));
    let out = Arc::new(AtomicUsize::new(0));
    let consumer = |_| {
        let (windows, out) = (windows.clone(), out.clone());
        thread::spawn(move || {
            let (mut window, told) = Window::new(Grant { messages: 1000, bytes: 1 << 30 }, &windows);
            let mut mine = told.messages;
            out.fetch_add(mine as usize, Ordering::SeqCst);
            for _ in 0..2 {
                thread::yield_now();
                let most = (MOST + CONNECTIONS as u32 * LITTLE) as usize;
                assert!(out.load(Ordering::SeqCst) <= most, "more than there is may be delivered");
                out.fetch_sub(mine as usize, Ordering::SeqCst);
                let all = Grant { messages: mine, bytes: 0 };
                mine = window.written(all, all).map_or(0, |told| told.messages);
                out.fetch_add(mine as usize, Ordering::SeqCst);
            }
            out.fetch_sub(mine as usize, Ordering::SeqCst);
        })
    };
    let consumers: Vec<_> = (0..CONNECTIONS).map(consumer).collect();
    consumers.into_iter().for_each(|consumer| consumer.join().expect("it does not panic"));
    let told = |wanted| Window::new(Grant { messages: wanted, bytes: 1 << 30 }, &windows).1.messages;
    assert_eq!(told(1000), MOST / 4, "as much as at the beginning");
}

/// No more connections use a namespace than may, whoever comes and goes; and one that is gone has no users.
pub fn no_more_use_a_namespace_than_may() {
    let uses = Arc::new(Uses::default());
    let name = NamespaceName::default();
    uses.set_quota(name.clone(), Some(1));
    let inside = Arc::new(AtomicUsize::new(0));
    let connection = |number: usize| {
        let (uses, inside, name) = (uses.clone(), inside.clone(), name.clone());
        thread::spawn(move || {
            for _ in 0..2 {
                if uses.join(number as u64, &name) == Joined::Yes {
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "one may");
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
                uses.leave(number as u64);
            }
        })
    };
    let connections: Vec<_> = (0..CONNECTIONS).map(connection).collect();
    connections.into_iter().for_each(|connection| connection.join().expect("it does not panic"));
    assert_eq!(uses.count(&name), 0, "and all have left");
    let epoch = uses.epoch();
    uses.remove(&name);
    assert!(uses.epoch() != epoch && uses.join(9, &name) == Joined::Unknown);
}

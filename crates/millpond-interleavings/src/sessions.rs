//! What connections share with the writer and with one another: outboxes, room, turns.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use millpond_types::Code;
use shuttle::future::block_on;

use crate::outbox::{Close, Out, Outbox};
use crate::room::Room;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::thread;
use crate::turns::{Turns, threads};

const WRITERS: u32 = 2;
const EACH: u32 = 3;

/// Everything that is put into an outbox is taken out, in the order of whoever put it in, by a connection that now and then
/// looks whether there is something and turns to something else.
pub fn an_outbox_is_emptied() {
    let outbox = Arc::new(Outbox::default());
    let writer = |number: u32| {
        let outbox = outbox.clone();
        thread::spawn(move || {
            let item = |n| Out::Delivery { consumer: number * EACH + n, epoch: None, leases: Vec::new() };
            outbox.put([item(0)].into_iter());
            outbox.put((1..EACH).map(item));
        })
    };
    let writers: Vec<_> = (0..WRITERS).map(writer).collect();
    let mut taken = Vec::new();
    block_on(async {
        let mut items = Vec::new();
        while taken.len() < (WRITERS * EACH) as usize {
            outbox.take(&mut items);
            for item in items.drain(..) {
                let Out::Delivery { consumer, .. } = item else { panic!("{item:?} was not put in") };
                taken.push(consumer);
            }
            if taken.len() < (WRITERS * EACH) as usize && !glance(outbox.filled()).await {
                outbox.filled().await;
            }
        }
    });
    for number in 0..WRITERS {
        let of_writer = taken.iter().filter(|item| *item / EACH == number);
        assert!(of_writer.is_sorted(), "{taken:?}");
    }
    writers.into_iter().for_each(|writer| writer.join().expect("it does not panic"));
}

/// A connection that is closed is told so, whatever is put in at the same time, and nothing is kept for it then.
pub fn a_close_is_heard() {
    let outbox = Arc::new(Outbox::default());
    let (writer, closer) = (outbox.clone(), outbox.clone());
    let writer = thread::spawn(move || (0..EACH).for_each(|_| writer.put([Out::Drain].into_iter())));
    let close = Close { code: Code::Stopping, detail: String::new() };
    let closer = thread::spawn(move || closer.close(close));
    block_on(async {
        let mut items = Vec::new();
        while outbox.closed().is_none() {
            outbox.filled().await;
            items.clear();
            outbox.take(&mut items);
        }
        writer.join().expect("it does not panic");
        closer.join().expect("it does not panic");
        items.clear();
        outbox.take(&mut items);
        assert!(items.is_empty(), "nothing is kept for who is closed");
    });
}

/// Whoever waits for room gets it, or goes away; there is never more given than there is.
pub fn room_is_handed_on() {
    const BYTES: usize = 100;
    let room = Room::new(BYTES);
    let taken = Arc::new(AtomicUsize::new(0));
    let client = |number: usize| {
        let (room, taken) = (room.clone(), taken.clone());
        thread::spawn(move || {
            block_on(async {
                let bytes = [60, BYTES, 1][number % 3];
                let mut turn = room.wait(bytes);
                if number == 3 {
                    // It may have been its turn.
                    _ = glance(poll_fn(|context| turn.poll(context))).await;
                    return;
                }
                let mut held = poll_fn(|context| turn.poll(context)).await;
                let mut mine = bytes;
                assert!(taken.fetch_add(mine, Ordering::SeqCst) + mine <= BYTES);
                thread::yield_now();
                if held.try_extend(bytes + 10) && bytes < BYTES {
                    assert!(taken.fetch_add(10, Ordering::SeqCst) + 10 <= BYTES);
                    mine += 10;
                }
                taken.fetch_sub(mine, Ordering::SeqCst);
                drop(held);
            })
        })
    };
    let clients: Vec<_> = (0..4).map(client).collect();
    clients.into_iter().for_each(|client| client.join().expect("it does not panic"));
    assert!(room.try_take(BYTES).is_some(), "all of it came back");
}

/// Everybody who stands in line has a turn, and no more have one at a time than there are threads.
pub fn turns_are_handed_on() {
    let turns = Arc::new(Turns::new());
    let busy = Arc::new(AtomicUsize::new(0));
    let client = |_| {
        let (turns, busy) = (turns.clone(), busy.clone());
        thread::spawn(move || {
            block_on(async {
                for _ in 0..EACH {
                    let turn = turns.next().await;
                    assert!(busy.fetch_add(1, Ordering::SeqCst) < threads());
                    busy.fetch_sub(1, Ordering::SeqCst);
                    drop(turn);
                }
                // Who is gone while it stands in line holds up nobody.
                glance(turns.next()).await;
            })
        })
    };
    let clients: Vec<_> = (0..threads() + 2).map(client).collect();
    clients.into_iter().for_each(|client| client.join().expect("it does not panic"));
}

/// Whether a future is ready now. It is dropped, as in a `select!` that goes on with something else.
async fn glance(future: impl Future) -> bool {
    let mut future = pin!(future);
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

//! The update queue: whoever submits, waits, comes back or is told to stop is heard, in whatever order threads come to it.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use shuttle::future::block_on;

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::thread::{self, JoinHandle};
use crate::update_queue::{Batch, Lane, Next, Refused, Source, State, Stopped, Submitter, UpdateQueue};

/// Who asks, its how manieth request that is, and what it weighs.
type Ask = (usize, usize, usize);

const ASKERS: usize = 3;
const EACH: usize = 3;
/// So little that everybody finds it full.
const NARROW: [Lane; 1] = [Lane::new(1)];
/// A little more, but for short turns.
const NARROW_IN_HASTE: [Lane; 1] = [Lane { capacity: 2, short: 1 }];

/// Answers each request with the number of the turn that it was handled in.
#[derive(Default)]
struct Recorder {
    seen: Vec<Ask>,
    turns: Arc<AtomicUsize>,
    /// After so many requests it ends the queue.
    ends_after: Option<usize>,
    /// Every second turn is followed by a short one.
    hastens: bool,
}

impl State for Recorder {
    type Request = Ask;
    type Answer = usize;

    fn weight((_, _, weight): &Ask) -> usize {
        *weight
    }

    fn is_in_haste(&self) -> bool {
        self.hastens && self.turns.load(Ordering::SeqCst) % 2 == 1
    }

    fn update(&mut self, batch: &mut Batch<Ask, usize>) -> Next {
        let turn = self.turns.fetch_add(1, Ordering::SeqCst) + 1;
        for (ask, answer) in batch.drain() {
            self.seen.push(ask);
            answer.give(turn);
        }
        if self.ends_after.is_some_and(|most| self.seen.len() >= most) { Next::End } else { Next::Sleep(None) }
    }
}

impl Recorder {
    /// Each asker's requests came in order, without a gap; how many those were.
    fn in_order(&self) -> Vec<usize> {
        let mut next = vec![0; ASKERS];
        for &(who, n, _) in &self.seen {
            assert_eq!(n, next[who], "of {who}: {:?}", self.seen);
            next[who] += 1;
        }
        next
    }
}

fn start(lanes: &[Lane], state: Recorder) -> UpdateQueue<Recorder> {
    UpdateQueue::start("state", lanes, state).expect("a thread is started")
}

/// One thread for each asker, and what they return.
fn askers<T: Send + 'static>(
    queue: &UpdateQueue<Recorder>,
    ask: fn(usize, Submitter<Ask, usize>) -> T,
) -> Vec<JoinHandle<T>> {
    let one = |who| {
        let submitter = queue.submitter();
        thread::spawn(move || ask(who, submitter))
    };
    (0..ASKERS).map(one).collect()
}

fn joined<T>(threads: Vec<JoinHandle<T>>) -> Vec<T> {
    threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
}

/// Threads block until there is room, and until there is an answer.
pub fn threads_wait_for_room_and_for_answers() {
    let queue = start(&NARROW, Recorder::default());
    joined(askers(&queue, |who, submitter| {
        for n in 0..EACH {
            let answer = submitter.submit(0, (who, n, 1)).expect("it is not stopped");
            assert!(answer.wait().is_ok());
        }
    }));
    assert_eq!(queue.stop().expect("it does not panic").in_order(), [EACH; ASKERS]);
}

/// The same where nobody waits for an answer before the next request, and everybody as a task; there is room for two, or for
/// one.
pub fn tasks_wait_for_room_and_for_answers() {
    let queue = start(&NARROW_IN_HASTE, Recorder { hastens: true, ..Recorder::default() });
    joined(askers(&queue, |who, submitter| {
        let told = block_on(tell(&mut submitter.source(), asks(who, 1)));
        assert_eq!(told, EACH);
        // Who has told everything hears of it: the last answer comes behind all.
        let last = loop {
            match submitter.try_submit(0, (ASKERS, 0, 1)) {
                Ok(last) => break last,
                Err(Refused::Full(_)) => thread::yield_now(),
                Err(Refused::Stopped(_)) => panic!("it is not stopped"),
            }
        };
        assert!(block_on(last).is_ok());
    }));
    let mut state = queue.stop().expect("it does not panic");
    state.seen.retain(|(who, ..)| *who < ASKERS);
    assert_eq!(state.in_order(), [EACH; ASKERS]);
}

/// The queue is stopped while requests come in: what was accepted is handled, and who waits for room is told.
pub fn a_stop_comes_between_those_who_submit() {
    let queue = start(&NARROW, Recorder::default());
    let blocking = askers(&queue, |who, submitter| {
        if who > 0 {
            return block_on(tell(&mut submitter.source(), asks(who, 1)));
        }
        let mut accepted = 0;
        while accepted < EACH
            && let Ok(answer) = submitter.submit(0, (who, accepted, 1))
        {
            assert!(answer.wait().is_ok(), "what was accepted is answered");
            accepted += 1;
        }
        accepted
    });
    let state = queue.stop().expect("it does not panic");
    assert_eq!(state.in_order(), *joined(blocking));
}

/// The queue ends of its own accord: what it has not come to is answered all the same, and nobody waits for room in it.
pub fn an_end_leaves_nobody_waiting() {
    let mut queue = start(&NARROW, Recorder { ends_after: Some(2), ..Recorder::default() });
    let threads = askers(&queue, |who, submitter| {
        if who > 0 {
            block_on(tell(&mut submitter.source(), asks(who, 1)));
            return;
        }
        for n in 0..EACH {
            // Whether it is carried out is not known.
            let Ok(answer) = submitter.submit(0, (who, n, 1)) else { return };
            _ = answer.wait();
        }
    });
    joined(threads);
    queue.join().expect("it does not panic").in_order();
}

/// Who stands in line and goes away, called or not, holds up nobody.
pub fn who_leaves_the_line_holds_up_nobody() {
    let queue = start(&NARROW, Recorder::default());
    let threads = askers(&queue, |who, submitter| {
        let mut source = submitter.source();
        if who == 0 {
            return block_on(tell(&mut source, asks(who, 1)));
        }
        let mut requests = asks(who, 1);
        let told = source.tell_all(0, &mut requests, |_| 1).expect("it is not stopped");
        block_on(once(source.room(0, 1, requests.len())));
        if who == 1 { told } else { told + block_on(tell(&mut source, requests)) }
    });
    let told = joined(threads);
    assert_eq!((told[0], told[2]), (EACH, EACH));
    assert_eq!(queue.stop().expect("it does not panic").in_order(), told);
}

/// Some flood, and one asks for little: it is let in at once, and handled in the next turn that begins.
pub fn who_asks_for_little_finds_one_turn_in_front_of_it() {
    const CAPACITY: usize = 64;
    const HEAVY: usize = 8;
    let turns = Arc::new(AtomicUsize::new(0));
    let queue = start(&[Lane::new(CAPACITY)], Recorder { turns: turns.clone(), ..Recorder::default() });
    let flood = |who| {
        let submitter = queue.submitter();
        thread::spawn(move || {
            let mut source = submitter.source();
            let requests: VecDeque<Ask> = (0..2 * CAPACITY / HEAVY).map(|n| (who, n, HEAVY)).collect();
            let all = requests.len();
            assert_eq!(block_on(tell(&mut source, requests)), all);
        })
    };
    let floods = vec![flood(0), flood(1)];
    for n in 0..EACH {
        let answer = queue.submitter().try_submit(0, (2, n, 1)).expect("who asks for little is let in");
        // What another turn has taken may not have begun.
        let begun = turns.load(Ordering::SeqCst);
        let turn = answer.wait().expect("it is answered");
        assert!(turn <= begun + 2, "asked in turn {begun}, and handled in turn {turn}");
    }
    joined(floods);
    let state = queue.stop().expect("it does not panic");
    assert_eq!(state.in_order(), [2 * CAPACITY / HEAVY, 2 * CAPACITY / HEAVY, EACH]);
}

/// Asks others, who come back through places, or give these up.
struct Asking {
    own: Submitter<Ask, usize>,
    begun: usize,
    back: usize,
}

impl State for Asking {
    type Request = Ask;
    type Answer = usize;

    fn is_in_haste(&self) -> bool {
        self.begun % 2 == 1
    }

    fn update(&mut self, batch: &mut Batch<Ask, usize>) -> Next {
        for ((who, n, _), _) in batch.drain() {
            if who == ASKERS {
                self.back += 1;
                continue;
            }
            self.begun += 1;
            // Others may have filled the lane meanwhile.
            let Ok(place) = self.own.place(0) else { continue };
            thread::spawn(move || if n % 2 == 0 { place.put((ASKERS, n, 1)) } else { drop(place) });
        }
        Next::Sleep(None)
    }
}

/// A stop waits for places, used or given up, and so does whoever stands in line because of them.
pub fn places_are_waited_for() {
    let make = |own| Asking { own, begun: 0, back: 0 };
    let queue = UpdateQueue::start_with("state", &NARROW_IN_HASTE, make).expect("a thread is started");
    let ask = |who| {
        let submitter = queue.submitter();
        thread::spawn(move || block_on(tell(&mut submitter.source(), asks(who, 1))))
    };
    assert_eq!(joined(vec![ask(0), ask(1)]), [EACH; 2]);
    let state = queue.stop().expect("it does not panic");
    assert_eq!(state.begun, 2 * EACH);
    assert!(state.back <= state.begun);
}

/// The answer of one queue is the request of the next, which is narrower than what comes.
pub fn a_chain_hands_everything_on() {
    let hasty = Recorder { hastens: true, ..Recorder::default() };
    let (first, second) = (start(&[Lane::new(4)], Recorder::default()), start(&NARROW_IN_HASTE, hasty));
    let next = second.submitter();
    for n in 0..EACH {
        let mut ask = (0, n, 1);
        while let Err(refused) = first.submitter().submit_into(0, ask, &next, 0, move |_| (1, n, 1)) {
            let Refused::Full(back) = refused else { panic!("it is not stopped") };
            ask = back;
            thread::yield_now();
        }
    }
    assert_eq!(first.stop().expect("it does not panic").in_order(), [EACH, 0, 0]);
    assert_eq!(second.stop().expect("it does not panic").in_order(), [0, EACH, 0]);
}

fn asks(who: usize, weight: usize) -> VecDeque<Ask> {
    (0..EACH).map(|n| (who, n, weight)).collect()
}

/// Tells all, as there is room; how many, if the queue is stopped first.
async fn tell(source: &mut Source<Ask, usize>, mut requests: VecDeque<Ask>) -> usize {
    let all = requests.len();
    loop {
        let told = source.tell_all(0, &mut requests, |_| 1);
        let Some(&(_, _, weight)) = requests.front() else { return all };
        let waited = match told {
            Ok(_) => source.room(0, weight, requests.len()).await,
            Err(Stopped) => Err(Stopped),
        };
        if waited.is_err() {
            return all - requests.len();
        }
    }
}

/// Polls a future once, and drops it.
async fn once(future: impl Future) {
    let mut future = pin!(future);
    poll_fn(|context| {
        _ = future.as_mut().poll(context);
        Poll::Ready(())
    })
    .await
}

use std::collections::VecDeque;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use super::*;

mod fair;

/// Records what it was asked, in order; holds still while told to.
struct Recorder {
    seen: Vec<(usize, u64)>,
    batches: usize,
    /// Received once before each batch is handled, where a test wants to hold the state still.
    gate: Option<mpsc::Receiver<()>>,
}

impl Recorder {
    fn new() -> Recorder {
        Recorder { seen: Vec::new(), batches: 0, gate: None }
    }

    fn gated() -> (Recorder, mpsc::Sender<()>) {
        let (open, gate) = mpsc::channel();
        (Recorder { gate: Some(gate), ..Recorder::new() }, open)
    }
}

impl State for Recorder {
    type Request = (usize, u64);
    type Answer = u64;

    fn update(&mut self, batch: &mut Batch<(usize, u64), u64>) -> Next {
        if let Some(gate) = &self.gate
            && !batch.is_empty()
        {
            // A closed gate stays open.
            let _ = gate.recv();
        }
        self.batches += 1;
        for (request, answer) in batch.drain() {
            assert!(request.1 != u64::MAX, "asked to panic");
            self.seen.push(request);
            answer.give(request.1 + 1);
        }
        Next::Sleep(None)
    }
}

const LANES: [Lane; 2] = [Lane::new(4), Lane::new(4)];

#[test]
fn many_threads_are_answered_in_their_own_order() {
    let queue = UpdateQueue::start("test", &LANES, Recorder::new()).unwrap();
    thread::scope(|scope| {
        for thread in 0..8 {
            let submitter = queue.submitter();
            scope.spawn(move || {
                for n in 0..500 {
                    let answer = submitter.submit(thread % 2, (thread, n)).unwrap();
                    if n % 7 == 0 {
                        assert_eq!(answer.wait(), Ok(n + 1));
                    }
                }
            });
        }
    });
    let state = queue.stop().unwrap();
    assert_eq!(state.seen.len(), 8 * 500);
    for thread in 0..8 {
        let own: Vec<u64> = state.seen.iter().filter(|(t, _)| *t == thread).map(|(_, n)| *n).collect();
        assert_eq!(own, (0..500).collect::<Vec<_>>());
    }
}

type Held = (UpdateQueue<Recorder>, Submitter<(usize, u64), u64>, mpsc::Sender<()>);

/// A queue whose state holds one request and stands still.
fn held() -> Held {
    let (state, open) = Recorder::gated();
    let queue = UpdateQueue::start("test", &LANES, state).unwrap();
    let submitter = queue.submitter();
    submitter.tell(0, (0, 0)).unwrap();
    while submitter.weight(0) > 0 {
        thread::yield_now();
    }
    (queue, submitter, open)
}

#[test]
fn the_first_lane_goes_first_and_one_batch_takes_all() {
    let (queue, submitter, open) = held();
    submitter.tell(1, (1, 1)).unwrap();
    submitter.tell(1, (1, 2)).unwrap();
    submitter.tell(0, (0, 3)).unwrap();
    drop(open);
    let state = queue.stop().unwrap();
    assert_eq!(state.seen, [(0, 0), (0, 3), (1, 1), (1, 2)]);
}

#[test]
fn a_full_lane_gives_the_request_back_and_the_other_lane_is_free() {
    let (queue, submitter, open) = held();
    let mut many: VecDeque<_> = (0..6).map(|n| (1, n)).collect();
    assert_eq!(submitter.source().tell_all(1, &mut many, |_| 1), Ok(4));
    assert_eq!(many, [(1, 4), (1, 5)]);
    match submitter.try_submit(1, (1, 9)) {
        Err(Refused::Full(request)) => assert_eq!(request, (1, 9)),
        other => panic!("{other:?}"),
    }
    assert!(submitter.tell(0, (0, 1)).is_ok());
    drop(open);
    assert_eq!(queue.stop().unwrap().seen.len(), 6);
}

#[test]
fn stop_while_full_finishes_what_was_accepted_and_refuses_who_is_blocked() {
    let (queue, submitter, open) = held();
    let accepted: Vec<_> = (1..5).map(|n| submitter.try_submit(1, (1, n)).unwrap()).collect();
    let blocked = thread::spawn({
        let submitter = submitter.clone();
        move || submitter.submit(1, (1, 99)).map(|_| ())
    });
    let stopping = thread::spawn(move || queue.stop().unwrap());
    match blocked.join().unwrap() {
        Err(Refused::Stopped(request)) => assert_eq!(request, (1, 99)),
        other => panic!("{other:?}"),
    }
    drop(open);
    for (n, answer) in (1..5).zip(accepted) {
        assert_eq!(answer.wait(), Ok(n + 1));
    }
    assert_eq!(stopping.join().unwrap().seen.len(), 5);
    assert!(matches!(submitter.try_submit(0, (0, 7)), Err(Refused::Stopped((0, 7)))));
    assert!(matches!(submitter.place(0), Err(Refused::Stopped(()))));
}

#[test]
fn a_panicking_state_leaves_nobody_waiting() {
    let (queue, submitter, open) = held();
    let fatal = submitter.try_submit(0, (0, u64::MAX)).unwrap();
    let behind = submitter.try_submit(1, (1, 1)).unwrap();
    drop(open);
    assert_eq!(fatal.wait(), Err(Gone));
    assert_eq!(behind.wait(), Err(Gone));
    assert_eq!(queue.stop().map(|state| state.batches), Err(Panicked));
    assert!(matches!(submitter.submit(0, (0, 1)), Err(Refused::Stopped(_))));
}

#[test]
fn a_place_finds_room_in_a_full_lane_and_after_stop() {
    let (queue, submitter, open) = held();
    let place = submitter.place(1).unwrap();
    for n in 1..4 {
        submitter.tell(1, (1, n)).unwrap();
    }
    assert!(matches!(submitter.tell(1, (1, 9)), Err(Refused::Full(_))), "the place counts as taken");
    let stopping = thread::spawn(move || queue.stop().unwrap());
    while !matches!(submitter.tell(0, (0, 8)), Err(Refused::Stopped(_))) {
        thread::yield_now();
    }
    drop(open);
    thread::sleep(Duration::from_millis(1));
    place.put((1, 4));
    assert_eq!(stopping.join().unwrap().seen.last(), Some(&(1, 4)));
}

#[test]
fn a_place_given_up_lets_the_queue_stop() {
    let queue = UpdateQueue::start("test", &LANES, Recorder::new()).unwrap();
    let place = queue.submitter().place(0).unwrap();
    let stopping = thread::spawn(move || queue.stop().unwrap());
    drop(place);
    assert!(stopping.join().unwrap().seen.is_empty());
}

#[test]
fn the_answer_of_one_queue_is_the_request_of_the_next() {
    let first = UpdateQueue::start("first", &LANES, Recorder::new()).unwrap();
    let (second, next, open) = held();
    for n in 1..=4 {
        first.submitter().submit_into(0, (0, n), &next, 1, |answer| (1, answer)).unwrap();
    }
    let refused = first.submitter().submit_into(0, (0, 5), &next, 1, |answer| (1, answer));
    assert!(matches!(refused, Err(Refused::Full((0, 5)))), "the second stage is full");
    assert_eq!(first.stop().unwrap().seen.len(), 4);
    drop(open);
    assert_eq!(second.stop().unwrap().seen, [(0, 0), (1, 2), (1, 3), (1, 4), (1, 5)]);
}

/// Leaves its second lane waiting until a request in the first opens it.
struct Door(bool, Vec<u64>);

impl State for Door {
    type Request = u64;
    type Answer = ();

    fn open_lanes(&self) -> Open {
        if self.0 { Open::ALL } else { Open::ALL.without(1) }
    }

    fn update(&mut self, batch: &mut Batch<u64, ()>) -> Next {
        for (request, _) in batch.drain() {
            self.0 |= request == 0;
            self.1.push(request);
        }
        Next::Sleep(None)
    }
}

#[test]
fn a_closed_lane_waits() {
    let queue = UpdateQueue::start("test", &LANES, Door(false, Vec::new())).unwrap();
    let submitter = queue.submitter();
    let behind = submitter.submit(1, 5).unwrap();
    submitter.submit(0, 1).unwrap();
    submitter.submit(0, 0).unwrap();
    // Handled without an answer.
    assert_eq!(behind.wait(), Err(Gone));
    assert_eq!(queue.stop().unwrap().1, [1, 0, 5]);
}

#[test]
fn a_lane_behind_a_closed_one_goes_on() {
    let lanes = [Lane::new(1); 3];
    let queue = UpdateQueue::start("test", &lanes, Door(false, Vec::new())).unwrap();
    let submitter = queue.submitter();
    let behind = submitter.submit(1, 5).unwrap();
    assert_eq!(submitter.submit(2, 6).unwrap().wait(), Err(Gone));
    submitter.submit(0, 0).unwrap();
    assert_eq!(behind.wait(), Err(Gone));
    assert_eq!(queue.stop().unwrap().1, [6, 0, 5]);
}

#[test]
fn what_waits_in_a_closed_lane_is_handled_at_the_stop() {
    let queue = UpdateQueue::start("test", &LANES, Door(false, Vec::new())).unwrap();
    let behind = queue.submitter().submit(1, 5).unwrap();
    let (stopped, has_stopped) = mpsc::channel();
    thread::spawn(move || stopped.send(queue.stop().unwrap().1));
    let handled = has_stopped.recv_timeout(Duration::from_secs(60)).expect("a queue that is told to stop ends");
    assert_eq!((handled, behind.wait()), (Vec::from([5]), Err(Gone)));
}

/// Counts how often its sleep ran out.
struct Sleeper(mpsc::Sender<()>);

impl State for Sleeper {
    type Request = ();
    type Answer = ();

    fn update(&mut self, _: &mut Batch<(), ()>) -> Next {
        let _ = self.0.send(());
        Next::Sleep(Some(Duration::from_millis(1)))
    }
}

#[test]
fn a_timed_sleep_ends_without_a_request() {
    let (sender, woken) = mpsc::channel();
    let queue = UpdateQueue::start("test", &LANES, Sleeper(sender)).unwrap();
    for _ in 0..3 {
        woken.recv().unwrap();
    }
    queue.stop().unwrap();
}

#[test]
fn a_future_is_woken_and_room_is_announced() {
    let (queue, submitter, open) = held();
    let mut many: VecDeque<_> = (0..4).map(|n| (1, n)).collect();
    submitter.source().tell_all(1, &mut many, |_| 1).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let waiting = thread::spawn(move || {
        runtime.block_on(async {
            submitter.source().room(1, 1, 1).await.unwrap();
            submitter.submit(1, (1, 41)).unwrap().await
        })
    });
    drop(open);
    assert_eq!(waiting.join().unwrap(), Ok(42));
    queue.stop().unwrap();
}

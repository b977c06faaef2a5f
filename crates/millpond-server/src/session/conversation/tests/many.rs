//! Very many answers, of a client that has not read for long.

use super::*;
use crate::session::open::OPEN_MAX;
use crate::session::turns::Length;

/// Puts answers in that the client has not taken.
fn answer(rig: &Rig, replies: Vec<(u32, Reply)>) {
    rig.conversation.outbox.decided(replies.iter().map(|(index, reply)| (*index, reply)));
    rig.conversation.outbox.put(replies.into_iter().map(|(index, reply)| Out::Reply { index, reply }));
}

/// Where each end looked at those of all others, a thread served nobody else for a tenth of a second and more.
#[test]
fn the_end_of_a_session_looks_at_no_other_where_very_many_have_ended() {
    let mut rig = Rig::new();
    let mut replies = Vec::new();
    for pair in 0..OPEN_MAX as u32 / 2 {
        let session = SessionId(u64::from(pair) + 1);
        rig.accept(Asked::SessionBegin { session, resume: Default::default(), held: Vec::new() }).unwrap();
        rig.accept(Asked::SessionEnd).unwrap();
        replies.push((2 * pair, Reply::SessionBegun { resumed: false }));
        replies.push((2 * pair + 1, Reply::Done));
    }
    answer(&rig, replies);
    loop {
        rig.conversation.pump().unwrap();
        if rig.conversation.out.take().is_empty() {
            break;
        }
    }
    let registry = &rig.broker.shared().registry;
    assert!((0..OPEN_MAX as u64).all(|id| !registry.has(SessionId(id))), "all are over");
    assert_eq!(rig.conversation.ending.looked_at.get(), 0);
    rig.end();
}

/// An id that was begun several times is this connection's until the last of its ends is answered.
#[test]
fn a_session_that_ends_several_times_is_over_with_the_last_end() {
    let mut rig = Rig::new();
    for _ in 0..3 {
        rig.accept(Asked::SessionBegin { session: SessionId(7), resume: Default::default(), held: Vec::new() })
            .unwrap();
        rig.accept(Asked::SessionEnd).unwrap();
    }
    let has = |rig: &Rig| rig.broker.shared().registry.has(SessionId(7));
    for pair in 0..3 {
        assert!(has(&rig));
        rig.output(Out::Reply { index: 2 * pair, reply: Reply::SessionBegun { resumed: false } }).unwrap();
        assert!(has(&rig));
        rig.output(Out::Reply { index: 2 * pair + 1, reply: Reply::Done }).unwrap();
    }
    assert!(!has(&rig));
    rig.end();
}

/// Whatever they come to in bytes: those of publishes of level `none` come to none.
#[test]
fn many_outputs_are_dealt_with_some_at_a_time() {
    use millpond_core::command::Level;
    let most = Length::WHOLE.frames;
    for level in [frame::Level::None, frame::Level::Durable] {
        let mut rig = Rig::new();
        (0..2 * most + 1).for_each(|_| rig.accept(publish(1, level)).unwrap());
        answer(&rig, (0..2 * most as u32 + 1).map(|index| (index, published(Level::Durable))).collect());
        for rest in [most + 1, 1] {
            rig.conversation.pump().unwrap();
            assert_eq!(rig.conversation.backlog.len(), rest);
            assert!(rig.conversation.has_more_to_say(), "nothing else would lead to the rest");
        }
        rig.conversation.pump().unwrap();
        assert!(rig.conversation.backlog.is_empty() && !rig.conversation.has_more_to_say());
        rig.end();
    }
}

use super::*;
use alloc::vec;
use proptest::prelude::*;

fn id(topic: u64, priority: u8, sequence: u64) -> MessageId {
    MessageId { topic: TopicNumber(topic), priority: Priority::new(priority).unwrap(), sequence: Sequence(sequence) }
}

fn outcome() -> impl Strategy<Value = PublishOutcome> {
    let number = || prop_oneof![0..9u64, any::<u64>(), Just(u64::MAX)];
    let id = || (number(), 0..10u8, number()).prop_map(|(topic, priority, sequence)| id(topic, priority, sequence));
    let delayed = number().prop_map(|due| MessageState::Delayed { due: WallTime(due) });
    let retrying = number().prop_map(|due| MessageState::Retrying { due: WallTime(due) });
    let state = prop_oneof![
        delayed,
        retrying,
        proptest::sample::select(vec![MessageState::Waiting, MessageState::Leased]),
        proptest::sample::select(vec![MessageState::Dead, MessageState::Ended]),
    ];
    let refused = |(code, detail)| PublishOutcome::Refused { code, detail };
    prop_oneof![
        id().prop_map(|id| PublishOutcome::Queued { id }),
        (id(), state).prop_map(|(id, state)| PublishOutcome::Duplicate { id, state }),
        (id(), proptest::option::of((0..10u8, number()))).prop_map(|(id, replaced)| {
            let replaced = replaced.map(|(priority, sequence)| self::id(id.topic.0, priority, sequence));
            PublishOutcome::Coalesced { id, replaced }
        }),
        (proptest::sample::select(Code::ALL.to_vec()), "[a-zß]{0,9}").prop_map(refused),
    ]
}

proptest! {
    #[test]
    fn outcomes_come_back_as_they_were(
        runs in proptest::collection::vec((any::<u32>(), outcome()), 0..20),
        cut in any::<usize>(),
    ) {
        let runs: Vec<_> = runs.into_iter().map(|(count, outcome)| OutcomeRun { count, outcome }).collect();
        let outcomes = Outcomes::new(&runs);
        prop_assert_eq!(&outcomes.runs().collect::<Vec<_>>(), &runs);
        prop_assert_eq!(outcomes.messages(), runs.iter().map(|run| u64::from(run.count)).sum::<u64>());
        prop_assert_eq!(Outcomes::from_bytes(outcomes.as_bytes()), Some(outcomes.clone()));
        // A cut may fall between two runs.
        let cut = Outcomes::from_bytes(&outcomes.as_bytes()[..cut % (outcomes.as_bytes().len() + 1)]);
        prop_assert!(cut.is_none_or(|cut| cut.runs().zip(&runs).all(|(a, b)| a == *b)));
    }

    #[test]
    fn bytes_of_any_kind_are_refused_or_read(bytes in proptest::collection::vec(0..64u8, 0..20)) {
        if let Some(outcomes) = Outcomes::from_bytes(&bytes) {
            outcomes.runs().for_each(drop);
        }
    }
}

#[test]
fn a_message_that_made_its_topic_takes_a_byte() {
    let queued = |n: u64| PublishOutcome::Queued { id: id(90_000_000 + n, 7, 70_000_000_000 + n) };
    let made: Vec<_> = (0..1000).map(|n| OutcomeRun { count: 1, outcome: queued(n) }).collect();
    assert!(Outcomes::new(&made).as_bytes().len() < 1000 + 16);
    // Topics that were there, in no order.
    let queued = |n: u64| PublishOutcome::Queued { id: id(n * 7919 % 1000, 4, n * 104_729 % 100_000) };
    let known: Vec<_> = (0..1000).map(|n| OutcomeRun { count: 1, outcome: queued(n) }).collect();
    assert!(Outcomes::new(&known).as_bytes().len() < 6 * 1000);
}

#[test]
fn a_retry_kept_without_its_time_is_still_read() {
    let duplicate =
        |due| PublishOutcome::Duplicate { id: id(1, 4, 0), state: MessageState::Retrying { due: WallTime(due) } };
    let runs = [
        OutcomeRun { count: 1, outcome: duplicate(0) },
        OutcomeRun { count: 1, outcome: PublishOutcome::Queued { id: id(2, 4, 1) } },
    ];
    let kept = Outcomes::from_bytes(&[DUPLICATE, 2, QUEUED]).expect("bytes of format version 1");
    assert_eq!(kept.runs().collect::<Vec<_>>(), runs);
    let with_time = Outcomes::new(&[OutcomeRun { count: 1, outcome: duplicate(9) }]);
    assert_eq!(with_time.as_bytes(), [DUPLICATE, 6, 9]);
}

/// As some commits of one day wrote them; see `docs/testing.md`.
#[test]
fn a_retry_kept_with_its_time_behind_the_wrong_number_is_taken_for_nothing_else() {
    for due in [128, 1_763_935_200_000, u64::MAX] {
        let mut bytes = vec![DUPLICATE, 2];
        push_number(&mut bytes, due);
        assert!(Outcomes::from_bytes(&bytes).is_none(), "{due}");
    }
}

//! What a salvage brings of each group.

use std::collections::BTreeMap;

use millpond_core::Core;
use millpond_core::command::{Command, Finish, FinishVerb, Move, ReceiptRun, Receive};
use millpond_core::output::{Output, Reply};
use millpond_core::page::{Page, RunPage, TopicPage};
use millpond_types::block;
use millpond_types::{GroupKind, GroupName, MessageId, NamespaceName, OfficeTerms, Policy, Rules, Start};

use super::salvaged;
use crate::tests::calls::{self, receive};
use crate::tests::workload::Workload;
use crate::twin::{SECTOR, TwinDisk};
use crate::{Mark, Opened, Reader};

/// Bodies of what a group has still to do, and of its dead letters.
type OfGroup = (Vec<Vec<u8>>, Vec<Vec<u8>>);

/// What each group of `default` has.
fn bodies_by_group(core: &Core, reader: &Reader) -> BTreeMap<String, OfGroup> {
    let pages: Vec<Page> = core.pages().collect();
    let groups =
        pages.iter().filter_map(|page| if let Page::Namespace(home) = page { Some(&home.groups) } else { None });
    let names: BTreeMap<_, _> = groups.flatten().map(|group| (group.number, group.name.to_string())).collect();
    let read = |run: &RunPage| {
        let block = reader.read(run.extent()).unwrap();
        block::messages(&block).map(|message| message.unwrap().body.to_vec()).collect::<Vec<_>>()
    };
    let mut bodies: BTreeMap<_, OfGroup> = names.values().map(|name| (name.clone(), OfGroup::default())).collect();
    for page in &pages {
        match page {
            Page::Topic(topic) => {
                let (waiting, _) = bodies.get_mut(&names[&topic.group]).unwrap();
                for level in &topic.levels {
                    let aside = level.aside.iter().map(|aside| &aside.run);
                    level.runs.iter().chain(aside).for_each(|run| waiting.extend(read(run)));
                }
            }
            Page::Dead(dead) => bodies.get_mut(&names[&dead.group]).unwrap().1.extend(read(&dead.run)),
            _ => {}
        }
    }
    bodies.values_mut().for_each(|(waiting, dead)| {
        waiting.sort();
        dead.sort();
    });
    bodies
}

/// Moves all that a group has of a topic.
fn move_messages(work: &mut Workload, opened: &mut Opened, group: &str, topic: &str) {
    let pages: Vec<Page> = opened.core.pages().collect();
    let number = pages.iter().find_map(|page| match page {
        Page::Namespace(home) => home.groups.iter().find(|found| found.name.to_string() == group),
        _ => None,
    });
    let number = number.unwrap().number;
    let is_it = |page: &TopicPage| page.group == number && page.name.as_bytes() == topic.as_bytes();
    let of =
        pages.iter().find_map(|page| if let Page::Topic(of) = page { Some(of).filter(|of| is_it(of)) } else { None });
    let of = of.unwrap();
    let mut moved = 0;
    for (priority, run) in of.levels.iter().flat_map(|level| level.runs.iter().map(|run| (level.priority, run))) {
        let (run, block) = (run.compact(), opened.reader.read(run.extent()).unwrap());
        let command = Command::Move(Move {
            group: number,
            name: of.name.clone(),
            first: MessageId { topic: of.number, priority, sequence: run.first },
            count: run.count,
            from: run.position,
            block,
            sizes: run.sizes,
        });
        let outputs = work.turn(opened, command).unwrap();
        assert!(matches!(&outputs[..], [Output::Reply { reply: Reply::Count(1..), .. }]), "{outputs:?}");
        moved += 1;
    }
    assert!(moved > 0);
}

#[test]
fn what_each_group_has_still_to_do_comes_over() {
    let mut work = Workload::new(TwinDisk::new(SECTOR), 1);
    let mut opened = work.open().unwrap();
    let namespace = NamespaceName::default;
    let create = |name: &str, start, kind| {
        let name = GroupName::try_from(name).unwrap();
        Command::GroupCreate { namespace: namespace(), name, start, kind }
    };
    let publish_to = |topic: &str, body: &[u8]| calls::publish(vec![calls::run(topic, &[], [body])]);
    let finish = |verb, opened: &mut Opened, work: &mut Workload, group: &str, messages| {
        let Command::Receive(of_default) = receive(messages) else { unreachable!("it is one") };
        let group = GroupName::try_from(group).unwrap();
        let outputs = work.turn(opened, Command::Receive(Receive { group, ..of_default })).unwrap();
        let [Output::Reply { reply: Reply::Received(runs), .. }] = &outputs[..] else { panic!("{outputs:?}") };
        let receipts = runs.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }).collect();
        work.turn(opened, Command::Finish(Finish { verb, receipts, confirm: true, namespace: None })).unwrap();
    };
    work.turn(&mut opened, publish_to("early", b"early")).unwrap();
    let terms = OfficeTerms::default();
    // A namespace that is deleted takes its groups along.
    let other = || NamespaceName::try_from("other").unwrap();
    let (policy, rules) = (Policy::default(), Rules::default());
    let of_other = Command::GroupCreate {
        namespace: other(),
        name: GroupName::try_from("lost").unwrap(),
        start: Start::Latest,
        kind: GroupKind::Shared,
    };
    for command in [
        Command::NamespaceSet { name: other(), policy, rules, based_on: None },
        of_other,
        Command::NamespaceDelete(other()),
    ] {
        work.turn(&mut opened, command).unwrap();
    }
    for group in [
        create("audit", Start::Latest, GroupKind::Shared),
        create("copy", Start::Earliest, GroupKind::Shared),
        create("office", Start::Latest, GroupKind::Exclusive(terms)),
        create("gone", Start::Latest, GroupKind::Shared),
    ] {
        work.turn(&mut opened, group).unwrap();
    }
    for number in 0..6 {
        work.turn(&mut opened, publish_to("t", format!("m{number}").as_bytes())).unwrap();
    }
    finish(FinishVerb::Ack, &mut opened, &mut work, "default", 7);
    finish(FinishVerb::Ack, &mut opened, &mut work, "audit", 2);
    finish(FinishVerb::Reject { reason: "no".into() }, &mut opened, &mut work, "audit", 1);
    let gone = GroupName::try_from("gone").unwrap();
    work.turn(&mut opened, Command::GroupDelete { namespace: namespace(), name: gone }).unwrap();
    work.turn(&mut opened, publish_to("t", b"last")).unwrap();
    // For the sake of those that need them, old messages lie elsewhere by now.
    move_messages(&mut work, &mut opened, "copy", "t");
    work.mark(&mut opened, Mark::Stop).unwrap();
    let before = bodies_by_group(&opened.core, &opened.reader);
    let counts: Vec<_> = before.iter().map(|(name, (waiting, dead))| (&name[..], waiting.len(), dead.len())).collect();
    assert_eq!(counts, [("audit", 4, 1), ("copy", 8, 0), ("default", 1, 0), ("office", 7, 0)]);
    let high_water = opened.core.numbers().high_water;
    drop(opened);
    let (mut opened, told) = salvaged(&work.disk);
    assert_eq!(bodies_by_group(&opened.core, &opened.reader), before, "{told}");
    assert!(told.contains("salvaged    20 messages and 1 dead letters of 2 topics\ngroups      3 "), "{told}");
    let office = opened.core.pages().find_map(|page| match page {
        Page::Namespace(home) => home.groups.iter().find_map(|group| group.office.clone()),
        _ => None,
    });
    let office = office.expect("an exclusive group is one");
    assert!(office.terms == terms && office.leader.is_none() && office.outgoing.is_none() && office.epoch.0 > 0);
    // They go on as any others.
    opened.start(opened.report.now).unwrap();
    calls::turn(&mut opened, publish_to("t", b"more"));
    let after = bodies_by_group(&opened.core, &opened.reader);
    assert!(after.values().all(|(waiting, _)| waiting.contains(&b"more".to_vec())));
    assert!(opened.core.numbers().high_water > high_water);
}

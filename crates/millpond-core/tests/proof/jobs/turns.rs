//! What dispatch reads where each turn is another tenant's, while others publish anywhere and topics leave memory again.

use millpond_types::Priority;

use super::cold::Cold;

/// Bytes for some thousand topics, so that as much as may be is read ahead for each of some hundred tenants.
const ROOM: usize = 8 * 1024 * 1024;

/// Messages delivered, and ranges read for them.
fn deliver(tenants: u64, topics: u64, messages: usize) -> (usize, usize) {
    let name = |number: u64| format!("{:05}/{:03}", number % tenants, number / tenants);
    let mut cold = Cold::filled((0..tenants * topics).map(name));
    cold.set_room(ROOM);
    let (mut delivered, mut draw) = (0, 1u64);
    while delivered < messages {
        let some: Vec<String> = (0..30)
            .map(|_| {
                draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                name((draw >> 33) % (tenants * topics))
            })
            .collect();
        let publish = cold.publish(&some, Priority::DEFAULT, None);
        cold.answered(publish);
        let runs = cold.receive(30);
        delivered += runs.iter().map(|run| run.count as usize).sum::<usize>();
    }
    (delivered, cold.ranges)
}

#[test]
fn many_turns_cost_one_read_while_others_publish_anywhere() {
    for (tenants, topics) in [(50, 200), (400, 25), (6_000, 3)] {
        let (delivered, ranges) = deliver(tenants, topics, 6_000);
        assert!(ranges * 4 <= delivered, "{tenants} tenants: {ranges} reads for {delivered} messages");
    }
}

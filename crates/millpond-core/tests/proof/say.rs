//! What the core says, as lines that a reviewer reads. What is as usual (priority 4, the first delivery, no failure) is
//! left out.

use bytes::Bytes;
use millpond_core::Now;
use millpond_core::output::{LeasedRun, Output, Reply};
use millpond_types::{
    Binding, Condition, Counts, ExchangeView, FinishOutcome, GroupView, MessageState, MessageView, Millis,
    NamespaceView, OfficeView, OutcomeRun, Pause, Priority, PublishOutcome, Role, Standing, Tally, TopicName,
    TopicView, WallTime,
};

use crate::journal::Journal;
use crate::script::Names;

/// The lines of an output.
pub fn output(output: &Output, journal: &Journal, names: &Names, now: Now) -> Vec<String> {
    match output {
        Output::Reply { ticket, reply } => {
            let lines = self::reply(reply, journal, now);
            match names.tickets.iter().find(|(_, known)| *known == ticket) {
                Some((name, _)) => lines.into_iter().map(|line| format!("{name}: {line}")).collect(),
                None => lines,
            }
        }
        Output::Delivery { session, consumer, epoch, leases } => {
            let epoch = epoch.map_or(String::new(), |epoch| format!(", epoch {}", epoch.0));
            leases.iter().map(|run| format!("s{}.{consumer} <- {}{epoch}", session.0, leased(run, journal))).collect()
        }
        Output::Standing { session, consumer, standing } => {
            vec![format!("s{}.{consumer} {}", session.0, self::standing(standing))]
        }
        Output::SessionExpired(session) => vec![format!("s{} expired", session.0)],
    }
}

fn reply(reply: &Reply, journal: &Journal, now: Now) -> Vec<String> {
    match reply {
        Reply::Published { outcomes, topics, .. } => copies(outcomes, topics, now),
        Reply::Received(leases) if leases.is_empty() => vec!["nothing".into()],
        Reply::Received(leases) => leases.iter().map(|run| leased(run, journal)).collect(),
        Reply::Finished(outcomes) => runs(outcomes, finished),
        Reply::Lost(receipts) => vec![format!("{receipts} lost")],
        Reply::Forwarded { finished, published, topics } => {
            let mut lines = runs(finished, self::finished);
            if !published.is_empty() || finished.iter().all(|run| run.outcome == FinishOutcome::Done) {
                lines.extend(copies(published, topics, now));
            }
            lines
        }
        Reply::SessionBegun { resumed } => vec![if *resumed { "resumed".into() } else { "begun".into() }],
        Reply::Done => vec!["ok".into()],
        Reply::Count(count) => vec![count.to_string()],
        Reply::Messages(rows) if rows.is_empty() => vec!["nothing".into()],
        Reply::Messages(rows) => {
            rows.iter().map(|found| message(&journal.read(found.extent).concat(), &found.row, now)).collect()
        }
        Reply::Namespaces { rows, .. } if rows.is_empty() => vec!["nothing".into()],
        Reply::Namespaces { rows, next } => {
            let next = next.iter().map(|name| format!("next {name}"));
            rows.iter().map(namespace).chain(next).collect()
        }
        Reply::Exchanges(views) if views.is_empty() => vec!["nothing".into()],
        Reply::Exchanges(views) => {
            let line = |view: &ExchangeView| {
                format!("{}: {:?}, {:?}, {} bindings", view.name, view.kind, view.unroutable, view.bindings)
            };
            views.iter().map(line).collect()
        }
        Reply::Bindings(bindings) if bindings.is_empty() => vec!["nothing".into()],
        Reply::Bindings(bindings) => bindings.iter().map(binding).collect(),
        Reply::Topics(views) if views.is_empty() => vec!["nothing".into()],
        Reply::Topics(views) => views.iter().flat_map(|view| topic(view, now)).collect(),
        Reply::Dead { rows, next } => {
            let mut lines: Vec<String> = rows
                .iter()
                .map(|found| {
                    let body = journal.read(found.extent).concat();
                    let (row, detail) = (&found.row, &found.row.detail);
                    let detail = if detail.is_empty() { String::new() } else { format!(" \"{detail}\"") };
                    format!("{}: {}, {}{detail}", row.topic, message(&body, &row.message, now), row.reason)
                })
                .collect();
            if lines.is_empty() {
                lines.push("nothing".into());
            }
            if !next.is_empty() {
                lines.push("more".into());
            }
            lines
        }
        Reply::Refused { code, .. } => vec![format!("refused {}", code.name())],
    }
}

fn copies(outcomes: &[OutcomeRun<PublishOutcome>], topics: &[TopicName], now: Now) -> Vec<String> {
    if outcomes.is_empty() {
        return vec!["goes nowhere".into()];
    }
    let mut lines = runs(outcomes, |outcome| published(outcome, now));
    if !topics.is_empty() {
        let topics: Vec<&str> = topics.iter().map(|topic| topic.as_str()).collect();
        lines.push(format!("to {}", topics.join(" ")));
    }
    lines
}

fn binding(binding: &Binding) -> String {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let condition = match &binding.condition {
        Condition::Always => "all".to_owned(),
        Condition::Key(key) => format!("key {key}"),
        Condition::Headers { all, headers } => {
            let headers: Vec<_> = headers.iter().map(|(key, value)| format!("{}:{}", text(key), text(value))).collect();
            format!("{} of {}", if *all { "all" } else { "any" }, headers.join(","))
        }
    };
    format!("{condition} -> {}", binding.target)
}

fn runs<T>(outcomes: &[OutcomeRun<T>], say: impl Fn(&T) -> String) -> Vec<String> {
    let times = |count: u32| if count == 1 { String::new() } else { format!(" x{count}") };
    outcomes.iter().map(|run| format!("{}{}", say(&run.outcome), times(run.count))).collect()
}

fn finished(outcome: &FinishOutcome) -> String {
    match outcome {
        FinishOutcome::Done => "done".into(),
        FinishOutcome::Dead => "dead".into(),
        FinishOutcome::LeaseLost => "lease_lost".into(),
        FinishOutcome::Kept => "kept".into(),
        FinishOutcome::Deposed => "deposed".into(),
        FinishOutcome::OutOfOrder => "out_of_order".into(),
    }
}

fn published(outcome: &PublishOutcome, now: Now) -> String {
    match outcome {
        PublishOutcome::Queued { id } => format!("queued {id}"),
        PublishOutcome::Duplicate { id, state } => format!("duplicate of {id}, {}", self::state(*state, now)),
        PublishOutcome::Coalesced { id, replaced: Some(old) } => format!("queued {id} in place of {old}"),
        PublishOutcome::Coalesced { id, replaced: None } => format!("declined, {id} waits"),
        PublishOutcome::Refused { code, .. } => format!("refused {}", code.name()),
    }
}

fn leased(run: &LeasedRun, journal: &Journal) -> String {
    let bodies = journal.read(run.extent);
    assert_eq!(bodies.len(), run.count as usize, "a delivery's extent holds its messages");
    let mut line = format!("{}: {}", run.topic, bodies.join(" "));
    if run.priority != Priority::DEFAULT {
        line += &format!(", priority {}", run.priority.level());
    }
    line + &tries(run.deliveries, 1, run.failures)
}

fn tries(deliveries: u32, usual: u32, failures: u32) -> String {
    let mut line = String::new();
    if deliveries != usual {
        line += &format!(", delivery {deliveries}");
    }
    if failures > 0 {
        line += &format!(", failures {failures}");
    }
    line
}

fn message(body: &str, view: &MessageView, now: Now) -> String {
    format!("{body} {}{}", state(view.state, now), tries(view.deliveries, 0, view.failures))
}

fn state(state: MessageState, now: Now) -> String {
    match state {
        MessageState::Waiting => "waiting".into(),
        MessageState::Delayed { due } => format!("delayed for {} ms", due.since(now.wall).0),
        MessageState::Retrying { due } => format!("retrying for {} ms", due.since(now.wall).0),
        MessageState::Leased => "leased".into(),
        MessageState::Dead => "dead".into(),
        MessageState::Ended => "ended".into(),
    }
}

fn counts(counts: &Counts) -> String {
    let all = [
        ("waiting", counts.waiting),
        ("delayed", counts.delayed),
        ("retrying", counts.retrying),
        ("leased", counts.leased),
        ("dead", counts.dead),
    ];
    all.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!(", {n} {name}")).collect()
}

fn standing(standing: &Standing) -> String {
    let (epoch, Millis(handover)) = (standing.epoch.0, standing.handover);
    match standing.role {
        Role::Candidate => "waits".into(),
        Role::Inaugurate => format!("inaugurates epoch {epoch}"),
        Role::Lead => format!("leads epoch {epoch}"),
        Role::Deposed => format!("is deposed, hand-over {handover} ms"),
    }
}

fn office(view: &OfficeView) -> String {
    let leader = if view.leader.is_some() { "led" } else { "vacant" };
    let handing = if view.is_handing_over { ", handing over" } else { "" };
    format!("; office of {}, epoch {}, {leader}{handing}, {} waiting", view.group, view.epoch.0, view.candidates)
}

fn namespace(view: &NamespaceView) -> String {
    let paused = |Pause { topics, until }: &Pause| match *until {
        WallTime::NEVER => format!(", {topics} paused"),
        until => format!(", {topics} paused until {}", until.0),
    };
    let paused: String = view.paused.iter().map(paused).collect();
    let starting = |group: &GroupView| match &group.reached {
        _ if !group.is_starting => String::new(),
        None => ", starting".into(),
        Some(reached) => format!(", starting at {reached}"),
    };
    let tally = |group: &GroupView| {
        let Tally { accepted: _, declined, superseded, dropped, retained_out } = group.tally;
        let tally =
            [("retained out", retained_out), ("declined", declined), ("superseded", superseded), ("dropped", dropped)];
        tally.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!(", {n} {name}")).collect::<String>()
    };
    let others =
        view.groups[1..].iter().map(|of| format!("; {}{}{}{}", of.name, counts(&of.counts), tally(of), starting(of)));
    let first = &view.groups[0];
    let of = format!("{}{}{}", counts(&first.counts), tally(first), others.collect::<String>());
    let (quotas, usage) = (view.policy.quotas, view.usage);
    let quotas = [
        ("messages", quotas.messages, usage.messages),
        ("bytes", quotas.bytes, usage.bytes),
        ("topics", quotas.topics, usage.topics),
    ];
    let quotas = quotas.iter().filter_map(|(name, quota, used)| Some(format!(", {used} of {} {name}", (*quota)?)));
    let quotas: String = quotas.collect();
    let offices: String = view.offices.iter().map(office).collect();
    format!("{}: {} topics{of}{paused}{quotas}{offices}", view.name, usage.topics)
}

fn topic(view: &TopicView, now: Now) -> Vec<String> {
    let paused = if view.paused { ", paused" } else { "" };
    let oldest = view.oldest.map_or(String::new(), |at| format!(", oldest {} ms", now.wall.since(at).0));
    let due = view.due.map_or(String::new(), |at| format!(", due in {} ms", at.since(now.wall).0));
    let mut lines = vec![format!("{}{}{oldest}{due}{paused}", view.name, counts(&view.counts))];
    lines.extend(view.cursors.iter().map(|c| {
        let (priority, scan, completion, next) = (c.priority.level(), c.scan.0, c.completion.0, c.next.0);
        let group = if c.group.as_str() == "default" { String::new() } else { format!("{}, ", c.group) };
        let lag = if c.lag > 0 { format!(", {} behind", c.lag) } else { String::new() };
        format!("  {group}priority {priority}: completion {completion}, scan {scan}, next {next}{lag}")
    }));
    lines
}

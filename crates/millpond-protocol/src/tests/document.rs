//! Holds `docs/protocol.md` against the code: every frame, field, choice, error code and limit that it names.

use bytes::Bytes;
use millpond_types::limits::*;
use millpond_types::{
    Advice, Binding, Coalesce, Code, Condition, Counts, DeadView, DedupWindow, ExchangeKind, ExchangeView, Filter,
    FinishOutcome, GroupCursors, GroupKind, GroupView, MessageId, MessageState, MessageView, NamespaceView,
    OfficeTerms, OfficeView, OnExpiry, Overflow, Overrides, Pattern, Policy, PublishOutcome, Quotas, Receipt,
    Retention, Retry, Role, Rule, Standing, Start, Tally, TopBy, TopicView, Unroutable, Usage,
};

use super::{Record, vectors};
use crate::wire::Choice;
use crate::*;

const TEXT: &str = include_str!("../../../../docs/protocol.md");

/// The cells of the table under a heading; the table's own head is left out.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let mut lines = TEXT.lines().skip_while(|line| *line != heading);
    assert!(lines.next().is_some(), "there is no heading {heading}");
    let section = lines.take_while(|line| !line.starts_with('#'));
    let cells = |line: &'static str| line.trim_matches('|').split(" | ").map(str::trim).collect();
    section.filter(|line| line.starts_with('|')).skip(2).map(cells).collect()
}

fn fields(heading: &str) -> Vec<&'static str> {
    rows(heading).iter().map(|row| row[0]).collect()
}

#[test]
fn every_frame_has_its_number_name_and_fields() {
    let kinds: Vec<_> = REQUEST_KINDS.iter().chain(RESPONSE_KINDS).collect();
    for kind in &kinds {
        // A kind that wraps a record of its own has that record's fields.
        let expected = match kind.name {
            "Publish" => <Publish as Record>::FIELDS,
            "Forward" => <Forward as Record>::FIELDS,
            "ForwardRoute" => <ForwardRoute as Record>::FIELDS,
            "Route" => <Route as Record>::FIELDS,
            "Receive" => Receive::FIELDS,
            "Finish" => Finish::FIELDS,
            "Attach" => Attach::FIELDS,
            _ => kind.fields,
        };
        assert_eq!(fields(&format!("### 0x{:02X} {}", kind.number, kind.name)), expected, "{}", kind.name);
    }
    let frames = TEXT.lines().filter(|line| line.starts_with("### 0x"));
    assert_eq!(frames.count(), kinds.len(), "the document has a frame that does not exist");
}

#[test]
fn every_record_has_its_fields() {
    let records = [
        ("TopicRef", TopicRef::FIELDS),
        ("ProducerBatch", ProducerBatch::FIELDS),
        ("PublishRun", <PublishRun<Bytes> as Record>::FIELDS),
        ("MessageId", MessageId::FIELDS),
        ("Receipt", Receipt::FIELDS),
        ("LeasedRun", LeasedRun::FIELDS),
        ("Listing", Listing::FIELDS),
        ("Policy", Policy::FIELDS),
        ("Quotas", Quotas::FIELDS),
        ("Retention", Retention::FIELDS),
        ("Overrides", Overrides::FIELDS),
        ("Pattern", Pattern::FIELDS),
        ("Rule", Rule::FIELDS),
        ("Counts", Counts::FIELDS),
        ("OfficeTerms", OfficeTerms::FIELDS),
        ("OfficeView", OfficeView::FIELDS),
        ("Standing", Standing::FIELDS),
        ("Tally", Tally::FIELDS),
        ("Binding", Binding::FIELDS),
        ("ExchangeView", ExchangeView::FIELDS),
        ("Usage", Usage::FIELDS),
        ("NamespaceView", NamespaceView::FIELDS),
        ("TopicView", TopicView::FIELDS),
        ("GroupView", GroupView::FIELDS),
        ("GroupCursors", GroupCursors::FIELDS),
        ("MessageView", MessageView::FIELDS),
        ("DeadView", DeadView::FIELDS),
    ];
    for (name, expected) in records {
        assert_eq!(fields(&format!("### {name}")), expected, "{name}");
    }
}

#[test]
fn every_choice_has_its_numbers_and_fields() {
    let choices = [
        ("Level", Level::TABLE),
        ("Filter", Filter::TABLE),
        ("FinishVerb", FinishVerb::TABLE),
        ("PublishOutcome", PublishOutcome::TABLE),
        ("FinishOutcome", FinishOutcome::TABLE),
        ("MessageState", MessageState::TABLE),
        ("Which", Which::TABLE),
        ("LookWhich", LookWhich::TABLE),
        ("TopBy", TopBy::TABLE),
        ("GroupKind", GroupKind::TABLE),
        ("Role", Role::TABLE),
        ("DeadWhich", DeadWhich::TABLE),
        ("Start", Start::TABLE),
        ("Retry", Retry::TABLE),
        ("OnExpiry", OnExpiry::TABLE),
        ("Overflow", Overflow::TABLE),
        ("ExchangeKind", ExchangeKind::TABLE),
        ("Unroutable", Unroutable::TABLE),
        ("Condition", Condition::TABLE),
        ("Coalesce", Coalesce::TABLE),
        ("DedupWindow", DedupWindow::TABLE),
    ];
    for (name, table) in choices {
        let found: Vec<_> = rows(&format!("### {name}")).iter().map(|row| row[..3].join("|")).collect();
        let row = |kind: &Kind| format!("{}|{}|{}", kind.number, kind.name, kind.fields.join(", "));
        assert_eq!(found, table.iter().map(row).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn every_error_code_has_its_row() {
    let row = |code: Code| {
        let advice = match code.advice() {
            Advice::Retry => "retry",
            Advice::Fix => "fix",
            Advice::Report => "report",
        };
        format!("| {} | `{}` | {advice} | {} |", code.number(), code.name(), code.meaning())
    };
    let expected: Vec<_> = Code::ALL.into_iter().map(row).collect();
    let found: Vec<_> = rows("## Error codes").iter().map(|row| format!("| {} |", row.join(" | "))).collect();
    assert_eq!(found, expected, "the table should be:\n{}\n", expected.join("\n"));
}

#[test]
fn every_limit_is_the_one_of_the_code() {
    let numbers = |text: &str| -> Vec<usize> {
        text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
    };
    let found: Vec<_> = rows("## Limits").iter().map(|row| numbers(row[1])).collect();
    let expected: [&[usize]; 15] = [
        &[FRAME_MAX],
        &[BODY_MAX_DEFAULT],
        &[PUBLISH_BYTES_MAX],
        &[PUBLISH_MESSAGES_MAX, PUBLISH_RUNS_MAX, PUBLISH_DEDUP_IDS_MAX],
        &[TOPIC_NAME_MAX, SHORT_NAME_MAX, DEDUP_ID_MAX],
        &[HEADERS_MAX],
        &[RECEIPTS_MAX, CREDIT_MESSAGES_MAX as usize],
        &[RECEIVE_MESSAGES_MAX as usize, RECEIVE_BYTES_MAX as usize],
        &[FILTER_MAX],
        &[PAGE_MAX, TOP_MAX],
        &[REASON_MAX, TOKEN_MAX, TEXT_MAX],
        &[PRODUCER_WINDOW],
        &[PUBLISH_CREDIT as usize],
        &[EXCHANGES_MAX, BINDINGS_MAX],
        &[ROUTING_KEY_MAX, ROUTING_WORDS_MAX, BINDING_HEADERS_MAX, BINDING_HEADERS_BYTES_MAX],
    ];
    assert_eq!(found, expected);
    assert!(TEXT.contains(&format!("**{PUBLISH_CREDIT} bytes**")));
}

#[test]
fn examples_are_test_vectors() {
    let mut blocks = TEXT.split("```").skip(1).step_by(2).peekable();
    assert!(blocks.peek().is_some());
    for example in blocks {
        let bytes: Vec<u8> = example.lines().map(str::trim).filter(|l| !l.is_empty()).flat_map(vectors::hex).collect();
        assert!(vectors::all().iter().any(|vector| vector.bytes == bytes), "no vector has these bytes:\n{example}");
    }
}

#[test]
fn links_to_places_in_the_document_lead_somewhere() {
    let anchor = |line: &str| line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    let places: Vec<_> = TEXT.lines().filter(|line| line.starts_with('#')).map(anchor).collect();
    for link in TEXT.split("](#").skip(1) {
        let target = link.split(')').next().unwrap();
        assert!(places.iter().any(|place| place == target), "#{target} leads nowhere");
    }
}

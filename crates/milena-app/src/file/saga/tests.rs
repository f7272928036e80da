//! Tests of files with sagas.

use super::*;
use crate::saga::Step as Declared;

const ORDER: &str = r#"[saga.order]
owner = "orders"
id = { json = "order.id" }
event_type = { header = "ce_type" }
starts = "OrderCreated"
completed = "OrderCompleted"
cancelled = "OrderCancelled"
cancel_on = ["OrderCancelRequested"]
compensation_requested = "OrderCompensationRequested"
deadline = "1h"
[saga.order.topics]
orders = "orders.events"
inventory = "inventory.events"
payment = "payment.events"
shipping = "shipping.events"
[[saga.order.steps]]
name = "reserve"
participant = "inventory"
on = "OrderCreated"
done = "InventoryReserved"
failed = "InventoryRejected"
compensated = "InventoryReleased"
timeout = "none"
compensation_retries = 7
[[saga.order.steps]]
name = "charge"
participant = "payment"
kind = "pivot"
on = ["OrderCreated", "InventoryReserved"]
done = "PaymentProcessed"
failed = "PaymentFailed"
timeout = "30s"
retries = 1
[[saga.order.steps]]
name = "ship"
participant = "shipping"
kind = "retriable"
on = "PaymentProcessed"
done = "ShipmentCreated"
"#;

#[test]
fn all_that_can_be_declared_in_code_can_be_declared_in_a_file() {
    let expected = Saga::named("order")
        .participant("inventory", "inventory.events")
        .owner("orders", "orders.events")
        .participant("payment", "payment.events")
        .participant("shipping", "shipping.events")
        .id(Locator::json("order.id"))
        .event_type(Locator::header("ce_type"))
        .starts("OrderCreated")
        .completed("OrderCompleted")
        .cancelled("OrderCancelled")
        .cancel_on("OrderCancelRequested")
        .compensation_requested("OrderCompensationRequested")
        .deadline(Duration::from_secs(3_600))
        .step(
            Declared::compensatable("reserve")
                .by("inventory")
                .on("OrderCreated")
                .done("InventoryReserved")
                .failed("InventoryRejected")
                .compensated("InventoryReleased")
                .timeout(None)
                .compensation_retries(7),
        )
        .step(
            Declared::pivot("charge")
                .by("payment")
                .on("OrderCreated")
                .on("InventoryReserved")
                .done("PaymentProcessed")
                .failed("PaymentFailed")
                .timeout(Duration::from_secs(30))
                .retries(1),
        )
        .step(
            Declared::retriable("ship")
                .by("shipping")
                .on("PaymentProcessed")
                .done("ShipmentCreated"),
        )
        .build()
        .unwrap();
    let file = SagaFile::parse(ORDER).unwrap();
    assert_eq!(file.get("order"), Some(&expected));
    assert_eq!(file.get("other"), None);
}

#[test]
fn places_have_defaults() {
    let text = ORDER.replace("id = { json = \"order.id\" }\n", "");
    let text = text.replace("event_type = { header = \"ce_type\" }\n", "");
    let file = SagaFile::parse(&text).unwrap();
    assert_eq!(file.sagas[0].id(), &Locator::header("correlation_id"));
    assert_eq!(file.sagas[0].event_type(), &Locator::header("eventType"));
    let by_key = ORDER.replace("id = { json = \"order.id\" }", "id = \"key\"");
    assert_eq!(SagaFile::parse(&by_key).unwrap().sagas[0].id(), &Locator::Key);
}

/// Replaces a text of the file, and returns the errors.
#[track_caller]
fn errors(from: &str, to: &str) -> String {
    assert!(ORDER.contains(from), "{from}");
    SagaFile::parse(&ORDER.replace(from, to)).unwrap_err().to_string()
}

#[test]
fn errors_name_the_key_and_the_line() {
    for (from, to, expected) in [
        (
            "timeout = \"30s\"",
            "timeot = \"30s\"",
            "line 32: saga.order.steps[1].timeot is not a known key; did you mean timeout?",
        ),
        (
            "owner = \"orders\"",
            "owner = 3",
            "line 2: saga.order.owner cannot be 3; it must be text",
        ),
        (
            "owner = \"orders\"",
            "owner = \"order\"",
            "line 2: saga.order.owner: the owner order is not a participant; declare its topic",
        ),
        (
            "starts = \"OrderCreated\"\n",
            "",
            "line 1: saga.order.starts is missing; it must be text",
        ),
        (
            "id = { json = \"order.id\" }",
            "id = { field = \"id\" }",
            "line 3: saga.order.id cannot be a table; it must be \"key\", { header = \"NAME\" } or { json = \"FIELD\" }",
        ),
        (
            "kind = \"pivot\"",
            "kind = \"final\"",
            "it must be \"compensatable\", \"pivot\" or \"retriable\"",
        ),
        (
            "deadline = \"1h\"",
            "deadline = \"1\"",
            "line 10: saga.order.deadline: \"1\" is not a duration",
        ),
        (
            "on = \"PaymentProcessed\"",
            "on = \"PaymentDone\"",
            "line 38: saga.order.steps[2].on: step ship: PaymentDone in `on` is neither the event that starts the saga \
             nor the `done` event of a step; known events: OrderCreated, InventoryReserved, PaymentProcessed, \
             ShipmentCreated",
        ),
        (
            "compensated = \"InventoryReleased\"\n",
            "",
            "line 16: saga.order.steps[0]: step reserve is compensatable and has no compensation",
        ),
        (
            "shipping = \"shipping.events\"",
            "shipping = 7",
            "line 15: saga.order.topics.shipping cannot be 7; it must be the name of a topic",
        ),
        (
            "done = \"ShipmentCreated\"",
            "done = \"PaymentFailed\"",
            "line 39: saga.order.steps[2].done: the event PaymentFailed has two meanings: `failed` of step charge and \
             `done` of step ship",
        ),
    ] {
        let found = errors(from, to);
        assert!(
            found.contains(expected),
            "{from} → {to}:\n{found}\nexpected\n{expected}"
        );
    }
}

#[test]
fn files_without_sagas_say_how_to_declare_one() {
    let error = SagaFile::parse("").unwrap_err().to_string();
    assert!(error.contains("[saga.order]"), "{error}");
    let error = SagaFile::parse("saga = 3").unwrap_err().to_string();
    assert_eq!(error, "line 1: saga cannot be 3; it must be a table");
    let error = SagaFile::parse("[saga.x]\n[sagas.x]").unwrap_err().to_string();
    assert!(
        error.contains("sagas is not a known key; did you mean saga?"),
        "{error}"
    );
}

#[test]
fn the_example_of_the_documentation_is_a_saga() {
    let page = include_str!("../../../../../docs/sagas.md");
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let (text, _) = rest.split_once("```").unwrap();
    let file = SagaFile::parse(text).unwrap();
    let order = file.get("order").unwrap().definition();
    assert_eq!(order.steps().len(), 3);
    assert_eq!(order.topics_read_by("inventory"), ["orders.events", "payment.events"]);
}

#[test]
fn every_key_is_documented() {
    let page = include_str!("../../../../../docs/sagas.md");
    let (source, table) = Source::parse(ORDER, None).unwrap();
    let report = Report::new(&source, vec![]);
    read_all(&Keys::new("", &table, &report));
    let known = report.known();
    assert!(known.len() > 20, "{known:?}");
    for key in known.into_iter().filter(|key| *key != "saga") {
        assert!(
            page.contains(&format!("`{key}`")),
            "docs/sagas.md does not have the key {key}"
        );
    }
}

//! Tests of declarations and diagrams.

use super::*;

fn order() -> SagaBuilder {
    Saga::named("order")
        .owner("orders", "orders.events")
        .participant("inventory", "inventory.events")
        .participant("payment", "payment.events")
        .starts("OrderCreated")
        .cancelled("OrderCancelled")
        .step(
            Step::compensatable("reserve")
                .by("inventory")
                .on("OrderCreated")
                .done("InventoryReserved")
                .failed("InventoryRejected")
                .compensated("InventoryReleased"),
        )
        .step(
            Step::pivot("charge")
                .by("payment")
                .on("InventoryReserved")
                .done("PaymentProcessed")
                .failed("PaymentFailed"),
        )
}

#[test]
fn all_errors_are_reported_at_once() {
    let errors = order()
        .owner("absent", "absent.events")
        .step(
            Step::pivot("ship")
                .by("shipping")
                .on("Paid")
                .done("Shipped")
                .failed("ShipmentFailed"),
        )
        .build()
        .unwrap_err();
    let lines: Vec<String> = errors.to_string().lines().map(str::to_owned).collect();
    assert_eq!(
        lines,
        [
            "saga order: the participant orders has no steps; remove it, or give it a step",
            "saga order: step ship: the participant shipping is not declared; known participants: orders, inventory, \
             payment, absent",
            "saga order: step ship: Paid in `on` is neither the event that starts the saga nor the `done` event of a \
             step; known events: OrderCreated, InventoryReserved, PaymentProcessed, Shipped",
            "saga order: steps charge and ship are both pivots; a saga has one point of no return",
        ]
    );
}

#[test]
fn a_saga_is_shown_as_a_flowchart() {
    let saga = order().build().unwrap();
    let expected = r#"flowchart LR
  begin(["OrderCreated"])
  s0["reserve<br/>inventory, compensatable"]
  s1{{"charge<br/>payment, pivot"}}
  completed(["completed"])
  cancelled(["OrderCancelled"])
  begin --> s0
  s0 -.->|"InventoryRejected, InventoryReleased"| cancelled
  s0 -->|"InventoryReserved"| s1
  s1 -->|"PaymentProcessed"| completed
  s1 -.->|"PaymentFailed"| s0
"#;
    assert_eq!(saga.mermaid(), expected);
}

#[test]
fn names_cannot_break_a_flowchart() {
    let saga = order().cancelled("a\"b<c>#").build().unwrap();
    let text = saga.mermaid();
    assert!(text.contains(r#"cancelled(["a#quot;b#lt;c#gt;#35;"])"#), "{text}");
}

#[test]
fn a_saga_is_described_for_a_terminal() {
    let expected = "\
saga order, owned by orders; its id is the header correlation_id

OrderCreated
  reserve by inventory (compensatable)
    on          OrderCreated
    done        InventoryReserved
    failed      InventoryRejected
    compensated InventoryReleased
    timeout     5m
  charge by payment (pivot)
    on          InventoryReserved
    done        PaymentProcessed
    failed      PaymentFailed
    timeout     5m
OrderCancelled, when all steps are compensated

orders writes orders.events and reads inventory.events, orders.events, payment.events
inventory writes inventory.events and reads orders.events, payment.events
payment writes payment.events and reads inventory.events, orders.events
";
    assert_eq!(order().build().unwrap().describe(), expected);
}

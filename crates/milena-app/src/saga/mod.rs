//! Declaration of choreographed sagas.
//!
//! A [`Saga`] names the steps of a transaction over several services, their events, compensations and timeouts. It is
//! declared in Rust, as here, or in a file that all services share ([`SagaFile`]).
//!
//! ```
//! use milena_app::saga::{Saga, Step};
//!
//! let order = Saga::named("order")
//!     .owner("orders", "orders.events")
//!     .participant("inventory", "inventory.events")
//!     .participant("payment", "payment.events")
//!     .starts("OrderCreated")
//!     .completed("OrderCompleted")
//!     .cancelled("OrderCancelled")
//!     .step(
//!         Step::compensatable("reserve")
//!             .by("inventory")
//!             .on("OrderCreated")
//!             .done("InventoryReserved")
//!             .failed("InventoryRejected")
//!             .compensated("InventoryReleased"),
//!     )
//!     .step(
//!         Step::pivot("charge")
//!             .by("payment")
//!             .on("InventoryReserved")
//!             .done("PaymentProcessed")
//!             .failed("PaymentFailed"),
//!     )
//!     .build()?;
//! assert_eq!(order.definition().topics_read_by("payment"), ["inventory.events", "orders.events"]);
//! # Ok::<(), milena_app::saga::SagaErrors>(())
//! ```

mod builder;
mod diagram;
mod locator;

use milena_client::consumer::RecordRef;

pub use builder::{SagaBuilder, SagaErrors, Step};
pub use locator::{LocateError, Locator};
pub use milena_machines::saga::{Definition, DefinitionError, StepKind};

pub use crate::file::SagaFile;

/// Header with the name of the step to which a request for a compensation is addressed.
pub const STEP_HEADER: &str = "saga_step";
/// Header with the id of a saga, unless [`SagaBuilder::id`] names another place.
pub const ID_HEADER: &str = "correlation_id";
/// Header with the type of an event, unless [`SagaBuilder::event_type`] names another place.
pub const TYPE_HEADER: &str = "eventType";

/// A checked declaration of a saga type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saga {
    definition: Definition,
    id: Locator,
    event_type: Locator,
}

impl Saga {
    /// Begins the declaration of a saga type.
    pub fn named(name: impl Into<String>) -> SagaBuilder {
        SagaBuilder::new(name)
    }

    pub(crate) fn new(definition: Definition, id: Locator, event_type: Locator) -> Self {
        Self {
            definition,
            id,
            event_type,
        }
    }

    /// Steps, events and their order, for the machines of participants and owner.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Place of the saga's id in an event.
    pub fn id(&self) -> &Locator {
        &self.id
    }

    /// Place of the event's type in an event.
    pub fn event_type(&self) -> &Locator {
        &self.event_type
    }

    /// The saga's id in a record.
    pub fn id_of(&self, record: RecordRef<'_>) -> Result<String, LocateError> {
        self.id.find(record)
    }

    /// The type of the event in a record.
    pub fn event_type_of(&self, record: RecordRef<'_>) -> Result<String, LocateError> {
        self.event_type.find(record)
    }

    /// The step to which a request for a compensation is addressed.
    pub fn step_of(record: RecordRef<'_>) -> Option<String> {
        Locator::header(STEP_HEADER).find(record).ok()
    }

    /// The saga as a Mermaid flowchart.
    pub fn mermaid(&self) -> String {
        diagram::mermaid(&self.definition)
    }

    /// The saga as text for a terminal: its steps, and the topics of each participant.
    pub fn describe(&self) -> String {
        diagram::text(self)
    }
}

#[cfg(test)]
mod tests;

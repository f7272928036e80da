//! The context of a handler call.

use std::{
    any::{Any, TypeId, type_name},
    borrow::Cow,
    fmt,
    sync::Arc,
};

use milena_client::consumer::{ConsumerRecord, RecordRef};

use super::trace::TraceContext;
use crate::{
    clock::Clock,
    failure::{EVENT_IDS, FailureRecord, HeaderTrust, Origin, read_trusted},
    offset_store::PartitionOwner,
    request_reply::{AddressError, ReplyAddress},
    times::ReadMark,
};

/// States shared by all handlers.
#[derive(Default, Clone)]
pub(crate) struct States {
    states: Vec<(TypeId, Arc<dyn Any + Send + Sync>)>,
}

impl States {
    /// Replaces an earlier state of the same type.
    pub(crate) fn insert<S: Send + Sync + 'static>(&mut self, state: S) {
        self.states.retain(|(id, _)| *id != TypeId::of::<S>());
        self.states.push((TypeId::of::<S>(), Arc::new(state)));
    }

    pub(crate) fn get<S: 'static>(&self) -> Option<&S> {
        let (_, state) = self.states.iter().find(|(id, _)| *id == TypeId::of::<S>())?;
        state.downcast_ref()
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("States").field("count", &self.states.len()).finish()
    }
}

/// A handler takes a state that the application does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a handler takes State<{name}>, which the application does not have; add it with .state(…)")]
pub struct MissingState {
    pub name: &'static str,
}

/// Reason why a handler cannot have one of its arguments; found at start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentError {
    #[error(transparent)]
    State(#[from] MissingState),
    /// The text names the argument and the remedy.
    #[error("{0}")]
    Refused(Cow<'static, str>),
}

/// Context shared by all records that a source reads from a topic.
#[derive(Debug, Clone)]
pub(crate) struct TopicScope {
    /// Index of the handler.
    pub(crate) handler: usize,
    /// Index of the source.
    pub(crate) source: usize,
    pub(crate) group: Arc<str>,
    /// Name or pattern of the handler's topics.
    pub(crate) handler_name: Arc<str>,
    pub(crate) clock: Clock,
    pub(crate) states: States,
    /// Values of the pattern's captures for this topic.
    pub(crate) captures: Vec<(Arc<str>, String)>,
    /// Which failure headers are trusted on this topic.
    pub(crate) header_trust: HeaderTrust,
    /// Ownership of the partition, if its offset is stored with effects. Such a scope belongs to one partition.
    pub(crate) owner: Option<PartitionOwner>,
}

impl TopicScope {
    /// Reads the failure headers of a record, if they are trusted.
    pub(crate) fn failure_record(&self, record: RecordRef<'_>) -> Option<FailureRecord> {
        read_trusted(self.header_trust, &self.group, record)
    }
}

/// Scope of records that were polled together. Each poll has a reference counter of its own: threads that share one
/// contend for its cache line.
pub(crate) type Scope = Arc<Arc<TopicScope>>;

/// Context of a handler call: the record, the attempt, the group.
#[derive(Clone)]
pub struct Cx {
    pub(crate) scope: Scope,
    pub(crate) record: ConsumerRecord,
    pub(crate) attempt: u32,
    /// All records below are done, and the offset after this one is stored with its effect.
    pub(crate) is_lowest: bool,
    /// Set if the time to read the handler's arguments is measured.
    pub(crate) mark: Option<Arc<ReadMark>>,
}

impl Cx {
    /// Marks the end of argument extraction, successful or not.
    pub(super) fn are_read(&self) {
        if let Some(mark) = &self.mark {
            mark.set();
        }
    }

    /// Consumer group of the application.
    pub fn group(&self) -> &str {
        &self.scope.group
    }

    /// Name of the handler: the topic or pattern that it was registered for.
    pub fn handler(&self) -> &str {
        &self.scope.handler_name
    }

    /// Clock of the application. Effects that depend on the time use it, so that tests can move it.
    pub fn clock(&self) -> &Clock {
        &self.scope.clock
    }

    /// Number of this attempt, starting at 1. Attempts from retry topics are counted too.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    pub fn record(&self) -> &ConsumerRecord {
        &self.record
    }

    /// Ownership of the record's partition, with [`Delivery::StoredOffsets`](crate::Delivery::StoredOffsets): a
    /// transaction of the call must check it before it commits, and fail with [`Fenced`](crate::offset_store::Fenced).
    pub fn owner(&self) -> Option<&PartitionOwner> {
        self.scope.owner.as_ref()
    }

    /// Offset that the transaction of the call must store, if the record is the lowest unfinished one of a partition in
    /// order. Otherwise the runtime stores it when all records below are done.
    pub fn offset_to_store(&self) -> Option<i64> {
        let is_stored = self.is_lowest && self.scope.owner.is_some();
        is_stored.then(|| self.record.offset().saturating_add(1))
    }

    /// Value of a capture: with a handler for `events-{tenant}`, `capture("tenant")` of the topic `events-acme` is
    /// `acme`.
    pub fn capture(&self, name: &str) -> Option<&str> {
        let mut captures = self.scope.captures.iter();
        captures
            .find(|(capture, _)| &**capture == name)
            .map(|(_, value)| value.as_str())
    }

    /// Position where the record was published. For a record from a retry topic, or one returned from there, that is
    /// its position in the original topic.
    pub fn origin(&self) -> Origin {
        let written = self.scope.failure_record(self.record.as_ref());
        written.map_or_else(
            || Origin {
                topic: self.record.topic().to_owned(),
                partition: self.record.partition(),
                offset: self.record.offset(),
                timestamp: self.record.timestamp(),
            },
            |failure_record| failure_record.origin,
        )
    }

    /// Id of the event, the same on every delivery: the header `event_id`, `ce_id` or `id`, or else the origin as
    /// `topic-partition-offset`.
    pub fn event_id(&self) -> String {
        for name in EVENT_IDS {
            let mut headers = self.record.headers();
            let found = headers.find(|header| header.key == name.as_bytes());
            if let Some(value) = found.and_then(|header| header.value)
                && !value.is_empty()
            {
                return String::from_utf8_lossy(value).into_owned();
            }
        }
        self.origin().event_id()
    }

    /// Trace context of the record, if its headers have one. The handler's output, unless it has a `traceparent` of its
    /// own, retries and dead letters carry it on. Every call is a `tracing` span with the target `milena_app::call`, so
    /// log lines of handlers name the record and the trace.
    pub fn trace(&self) -> Option<TraceContext> {
        TraceContext::read(self.record.headers())
    }

    /// Where the reply to this record goes, and until when it is awaited. `None` if the record asks for no reply.
    /// [`Done::reply`](super::Done::reply) needs none of it.
    pub fn reply_address(&self) -> Result<Option<ReplyAddress>, AddressError> {
        ReplyAddress::read(self.record.headers())
    }

    /// A state of the application, for extractors.
    pub fn state<S: 'static>(&self) -> Result<&S, MissingState> {
        self.scope
            .states
            .get()
            .ok_or_else(|| MissingState { name: type_name::<S>() })
    }
}

impl fmt::Debug for Cx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx")
            .field("group", &self.scope.group)
            .field("record", &self.record)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

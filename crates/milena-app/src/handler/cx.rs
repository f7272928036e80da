//! What a handler may know besides the record.

use std::{
    any::{Any, TypeId, type_name},
    fmt,
    sync::Arc,
};

use milena_client::consumer::{ConsumerRecord, RecordRef};

use super::trace::TraceContext;
use crate::{
    failure::{EVENT_IDS, FailureRecord, HeaderTrust, Origin, read_trusted},
    times::ReadMark,
};

/// What the application has for all its handlers.
#[derive(Default, Clone)]
pub(crate) struct States {
    states: Vec<(TypeId, Arc<dyn Any + Send + Sync>)>,
}

impl States {
    /// A second one of the same type takes the place of the first.
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

/// A handler asks for a state that the application does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a handler asks for State<{name}>, but the application has none: add .state(…) before it is started")]
pub struct MissingState {
    pub name: &'static str,
}

/// What is the same for all records that a consumer reads of a topic.
#[derive(Debug)]
pub(crate) struct TopicScope {
    /// The place of its handler among all.
    pub(crate) handler: usize,
    /// The place of the consumer that reads it.
    pub(crate) source: usize,
    pub(crate) group: Arc<str>,
    pub(crate) states: States,
    /// What the braces of a pattern stand for in the name of this topic.
    pub(crate) captures: Vec<(Arc<str>, String)>,
    /// Whether headers of its records say where they come from.
    pub(crate) header_trust: HeaderTrust,
}

impl TopicScope {
    /// What the headers of a record tell, if they are believed.
    pub(crate) fn failure_record(&self, record: RecordRef<'_>) -> Option<FailureRecord> {
        read_trusted(self.header_trust, &self.group, record)
    }
}

/// The scope of a handful of records. A handful has a count of references of its own: threads that count the same one would
/// wait for each other.
pub(crate) type Scope = Arc<Arc<TopicScope>>;

/// The circumstances of a call: who handles, which record, for which time.
#[derive(Clone)]
pub struct Cx {
    pub(crate) scope: Scope,
    pub(crate) record: ConsumerRecord,
    pub(crate) attempt: u32,
    /// Set if it is measured how long the handler takes to read its arguments.
    pub(crate) mark: Option<Arc<ReadMark>>,
}

impl Cx {
    /// The handler has read its arguments, or could not.
    pub(super) fn are_read(&self) {
        if let Some(mark) = &self.mark {
            mark.set();
        }
    }

    /// The group that reads.
    pub fn group(&self) -> &str {
        &self.scope.group
    }

    /// Which attempt this is, the first being 1; those made from retry topics go on counting.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    pub fn record(&self) -> &ConsumerRecord {
        &self.record
    }

    /// What a name in braces stands for: with a handler for `events-{tenant}`, `capture("tenant")` of the topic
    /// `events-acme` is `acme`.
    pub fn capture(&self, name: &str) -> Option<&str> {
        let mut captures = self.scope.captures.iter();
        captures
            .find(|(capture, _)| &**capture == name)
            .map(|(_, value)| value.as_str())
    }

    /// Where the record was when it came for the first time: of one from a retry topic, or that came back from there, its
    /// place in the topic where it was published.
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

    /// What names the event, however often it comes: the header `event_id`, `ce_id` or `id` if the producer wrote one, or
    /// else the place where it was published, as `topic-partition-offset`.
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

    /// The trace that the record is part of, if its headers name one. What is published for the record is part of it too:
    /// what the handler emits, unless that has a `traceparent` of its own, and its retries and dead letters. Calls are spans
    /// of `tracing` with the target `milena_app::call`, so what handlers log names the record and the trace.
    pub fn trace(&self) -> Option<TraceContext> {
        TraceContext::read(self.record.headers())
    }

    pub(crate) fn state<S: 'static>(&self) -> Result<&S, MissingState> {
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

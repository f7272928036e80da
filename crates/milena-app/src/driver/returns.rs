//! Records that go back from a retry topic to their own topic.

use bytes::Bytes;
use milena_client::consumer::ConsumerRecord;

use crate::{
    clock::millis,
    failure::{self, EVENT_IDS, Failure, FailureRecord, Origin, Scheme},
    policy::Policy,
    topics::retry_topic,
};

/// The main topic of a retry topic, by its name. It is not taken from headers, which any client can write: they must not
/// send records to other topics.
pub(super) fn own_topic(source: &ConsumerRecord, policy: &Policy, returns: u8) -> String {
    let delay = policy.retry.topics.get(usize::from(returns).saturating_sub(1));
    let suffix = retry_topic("", millis(delay.copied().unwrap_or_default()));
    let topic = source.topic();
    topic.strip_suffix(&suffix).unwrap_or(topic).to_owned()
}

/// The failure record of a record in a retry topic without our headers; its origin is unknown.
pub(super) fn without_headers(source: &ConsumerRecord) -> FailureRecord {
    FailureRecord {
        origin: Origin {
            topic: source.topic().to_owned(),
            partition: source.partition(),
            offset: -1,
            timestamp: source.timestamp(),
        },
        failure: Failure::default(),
        attempts: 0,
        failed_at_ms: None,
        first_failed_at_ms: None,
        group: None,
        instance: None,
        due_at_ms: None,
        returns: 0,
    }
}

/// Failure headers in our own scheme in any case, because the group that the record is for looks for itself there. Other
/// groups ignore them, so the event id is also written in a header that every group reads.
pub(super) fn headers(
    failure_record: &FailureRecord,
    schemes: &[Scheme],
    source: &ConsumerRecord,
) -> Vec<(Bytes, Option<Bytes>)> {
    let mut schemes = schemes.to_vec();
    if !schemes.contains(&Scheme::Milena) {
        schemes.push(Scheme::Milena);
    }
    let mut written = failure::write(failure_record, &schemes, source.headers());
    let is_named = written
        .iter()
        .any(|(name, value)| is_event_id(name) && value.as_ref().is_some_and(|value| !value.is_empty()));
    let origin = &failure_record.origin;
    if let (Some(name), false, 0..) = (EVENT_IDS.first(), is_named, origin.offset) {
        let id = origin.event_id().into();
        written.push((Bytes::from_static(name.as_bytes()), Some(id)));
    }
    written
}

fn is_event_id(name: &[u8]) -> bool {
    EVENT_IDS.iter().any(|known| known.as_bytes() == name)
}

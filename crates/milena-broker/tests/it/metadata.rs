//! How topics are found.

use milena_wire::{Uuid, errors::ErrorCode, messages::*};

use crate::running::start;

#[test]
fn topics_are_found_by_id_whatever_stands_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    let id = client.create_topic("letters", 1, &[]);
    let unknown = Uuid::from_bytes([7; 16]);
    // Java's clients leave the name empty where the protocol has a null.
    for name in [None, Some("".into())] {
        let wanted = [id, unknown].map(|topic_id| metadata_request::MetadataRequestTopic {
            topic_id,
            name: name.clone(),
            ..Default::default()
        });
        let request = MetadataRequest {
            topics: Some(wanted.into()),
            ..Default::default()
        };
        let response = client.call(&request, 13);
        let found: Vec<_> = response
            .topics
            .iter()
            .map(|topic| (topic.error_code, topic.topic_id, topic.name.as_deref()))
            .collect();
        let expected = [
            (0, id, Some("letters")),
            (ErrorCode::UnknownTopicId.code(), unknown, None),
        ];
        assert_eq!(found, expected);
    }
}

//! A broker in this process, with helpers to write records.

use std::thread;

use milena_wire::messages::{
    ConsumerGroupDescribeRequest, DeleteTopicsRequest, DescribeGroupsRequest, delete_topics_request,
};

use crate::{
    client::{Client, batch},
    running::{self, Running},
};

/// Fast rebalances, and a short transaction timeout.
const SETTINGS: &[(&str, &str)] = &[
    ("auto.create.topics.enable", "false"),
    ("group.consumer.heartbeat.interval.ms", "50"),
    ("group.consumer.min.heartbeat.interval.ms", "50"),
    ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "100"),
];

pub(crate) struct TestBroker {
    running: Option<Running>,
    address: String,
    _directory: tempfile::TempDir,
}

impl TestBroker {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        // Its runtime can be neither started nor dropped inside the test's runtime.
        let start = move || running::start(&path, SETTINGS);
        let running = thread::spawn(start).join().unwrap();
        Self {
            address: running.address.clone(),
            running: Some(running),
            _directory: directory,
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.address)
    }

    pub(crate) fn create_topic(&self, name: &str, partitions: i32) {
        self.client().create_topic(name, partitions, &[]);
    }

    pub(crate) fn delete_topic(&self, name: &str) {
        let topic = delete_topics_request::DeleteTopicState {
            name: Some(name.into()),
            ..Default::default()
        };
        let request = DeleteTopicsRequest {
            topics: vec![topic],
            timeout_ms: 30_000,
            ..Default::default()
        };
        let response = self.client().call(&request, 6);
        assert_eq!(response.responses[0].error_code, 0, "{response:?}");
    }

    /// The number of members of a group.
    pub(crate) fn members_of(&self, group: &str) -> usize {
        let request = DescribeGroupsRequest {
            groups: vec![group.into()],
            ..Default::default()
        };
        let classic = self.client().call(&request, 5).groups.remove(0).members.len();
        let request = ConsumerGroupDescribeRequest {
            group_ids: vec![group.into()],
            ..Default::default()
        };
        let modern = self.client().call(&request, 0).groups.remove(0).members.len();
        classic + modern
    }

    /// Writes all values as one batch.
    pub(crate) fn produce(&self, topic: &str, partition: i32, values: &[&str]) {
        let produced = self.client().produce(topic, partition, batch(values));
        assert_eq!(produced.error_code, 0, "{produced:?}");
    }
}

impl Drop for TestBroker {
    fn drop(&mut self) {
        let running = self.running.take();
        let _ = thread::spawn(move || drop(running)).join();
    }
}

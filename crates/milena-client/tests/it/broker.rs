//! A broker in this process, and records in it.

use std::thread;

use milena_wire::messages::{
    ConsumerGroupDescribeRequest, DeleteTopicsRequest, DescribeGroupsRequest, delete_topics_request,
};

use crate::{
    client::{Client, batch},
    running::{self, Running},
};

/// Members are to hear of each other at once; a transaction that takes too long is to end soon.
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
        // Its runtime can be neither started nor dropped inside of the test's own.
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

    /// How many members a group has.
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

    /// All values as one batch.
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

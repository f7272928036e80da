//! Settings whose effect needs a running broker.

use milena_wire::messages::*;

use crate::{client::Client, running::start};

fn is_served(client: &mut Client) -> bool {
    client.try_call(&MetadataRequest::default(), 12).is_some()
}

#[test]
fn an_address_has_as_many_connections_as_it_may() {
    for settings in [
        &[("max.connections.per.ip", "1")][..],
        &[
            ("max.connections.per.ip", "0"),
            ("max.connections.per.ip.overrides", "10.0.0.1:7,127.0.0.1:1"),
        ],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let broker = start(dir.path(), settings);
        let mut first = broker.client();
        assert!(is_served(&mut first));
        let mut second = broker.client();
        assert_eq!(second.receive_frame(), None, "{settings:?}");
        assert!(is_served(&mut first), "{settings:?}");
        drop(first);
        // The broker may take a moment to notice that the first has gone.
        while !is_served(&mut broker.client()) {}
        broker.shutdown();
    }
}

#[test]
fn a_response_describes_no_more_partitions_than_the_broker_allows() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[("max.request.partition.size.limit", "2")]);
    let mut client = broker.client();
    client.create_topic("letters", 3, &[]);
    let request = DescribeTopicPartitionsRequest {
        response_partition_limit: 100,
        ..Default::default()
    };
    let response = client.call(&request, 0);
    assert_eq!(response.topics[0].partitions.len(), 2);
    assert_eq!(response.next_cursor.unwrap().partition_index, 2);
}

#[test]
fn records_that_must_be_flushed_are_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[("flush.messages", "1")]);
    for acks in [1, -1] {
        let mut request = crate::client::produce_request("letters", 0, crate::client::batch(&["a"]));
        request.acks = acks;
        assert_eq!(
            client.call(&request, 12).responses[0].partition_responses[0].error_code,
            0
        );
    }
    broker.shutdown();
}

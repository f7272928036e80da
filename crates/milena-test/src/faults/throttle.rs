//! Responses with a throttle time.

use milena_wire::{message::Response, messages::*};

/// A response with a throttle time.
pub trait Throttles: Response {
    fn set_throttle_time_ms(&mut self, millis: i32);
}

macro_rules! throttles {
    ($($response:ident)*) => {
        $(impl Throttles for $response {
            fn set_throttle_time_ms(&mut self, millis: i32) {
                self.throttle_time_ms = millis;
            }
        })*
    };
}

throttles! {
    AddOffsetsToTxnResponse
    AddPartitionsToTxnResponse
    ApiVersionsResponse
    ConsumerGroupDescribeResponse
    ConsumerGroupHeartbeatResponse
    CreatePartitionsResponse
    CreateTopicsResponse
    DeleteGroupsResponse
    DeleteRecordsResponse
    DeleteTopicsResponse
    DescribeClusterResponse
    DescribeConfigsResponse
    DescribeGroupsResponse
    DescribeTopicPartitionsResponse
    EndTxnResponse
    FetchResponse
    FindCoordinatorResponse
    HeartbeatResponse
    IncrementalAlterConfigsResponse
    InitProducerIdResponse
    JoinGroupResponse
    LeaveGroupResponse
    ListGroupsResponse
    ListOffsetsResponse
    MetadataResponse
    OffsetCommitResponse
    OffsetDeleteResponse
    OffsetFetchResponse
    OffsetForLeaderEpochResponse
    ProduceResponse
    SyncGroupResponse
    TxnOffsetCommitResponse
}

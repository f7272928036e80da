//! Throttling by quotas (KIP-219).
//!
//! Since some version of each API, a broker over its quota responds at once and then stops reading; the client must not
//! send on that connection for the throttle time. Before, the broker delayed the response, so the time is over when it
//! arrives.

use milena_wire::{message::Response, messages::*};

/// A response with a throttle time.
pub(crate) trait Throttled: Response {
    /// The first version in which the client must wait; `None` if there is none.
    const QUIET_SINCE: Option<i16>;

    fn throttle_time_ms(&self) -> i32;

    /// The time in which nothing may be sent after this response.
    fn quiet_ms(&self, version: i16) -> i64 {
        match Self::QUIET_SINCE {
            Some(since) if version >= since => i64::from(self.throttle_time_ms().max(0)),
            _ => 0,
        }
    }
}

macro_rules! throttled {
    ($($response:ident: $since:expr;)*) => {
        $(impl Throttled for $response {
            const QUIET_SINCE: Option<i16> = $since;

            fn throttle_time_ms(&self) -> i32 {
                self.throttle_time_ms
            }
        })*
    };
}

throttled! {
    AddOffsetsToTxnResponse: Some(1);
    AddPartitionsToTxnResponse: Some(1);
    AlterClientQuotasResponse: Some(0);
    AlterPartitionReassignmentsResponse: Some(0);
    AlterUserScramCredentialsResponse: Some(0);
    ApiVersionsResponse: Some(2);
    ConsumerGroupDescribeResponse: None;
    ConsumerGroupHeartbeatResponse: None;
    CreateAclsResponse: Some(1);
    CreatePartitionsResponse: Some(1);
    CreateTopicsResponse: Some(3);
    DeleteAclsResponse: Some(1);
    DeleteGroupsResponse: Some(1);
    DeleteRecordsResponse: Some(1);
    DeleteTopicsResponse: Some(2);
    DescribeAclsResponse: Some(1);
    DescribeClientQuotasResponse: Some(0);
    DescribeClusterResponse: Some(0);
    DescribeConfigsResponse: Some(2);
    DescribeGroupsResponse: Some(2);
    DescribeLogDirsResponse: Some(1);
    DescribeProducersResponse: Some(0);
    DescribeTopicPartitionsResponse: Some(0);
    EndTxnResponse: Some(1);
    DescribeTransactionsResponse: Some(0);
    DescribeUserScramCredentialsResponse: Some(0);
    ElectLeadersResponse: Some(0);
    FetchResponse: Some(8);
    FindCoordinatorResponse: Some(2);
    GetTelemetrySubscriptionsResponse: None;
    HeartbeatResponse: Some(2);
    IncrementalAlterConfigsResponse: Some(0);
    InitProducerIdResponse: Some(1);
    JoinGroupResponse: Some(3);
    LeaveGroupResponse: Some(2);
    ListConfigResourcesResponse: Some(0);
    ListGroupsResponse: Some(2);
    ListOffsetsResponse: Some(3);
    ListPartitionReassignmentsResponse: Some(0);
    ListTransactionsResponse: Some(0);
    MetadataResponse: Some(6);
    OffsetCommitResponse: Some(4);
    OffsetDeleteResponse: Some(0);
    OffsetFetchResponse: Some(4);
    OffsetForLeaderEpochResponse: None;
    ProduceResponse: Some(6);
    PushTelemetryResponse: None;
    SyncGroupResponse: Some(2);
    TxnOffsetCommitResponse: Some(1);
    UpdateFeaturesResponse: Some(0);
}

/// An API between brokers, which have no quota.
impl Throttled for WriteTxnMarkersResponse {
    const QUIET_SINCE: Option<i16> = None;

    fn throttle_time_ms(&self) -> i32 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_later_versions_throttle_the_client() {
        let mut response = FetchResponse {
            throttle_time_ms: 70,
            ..FetchResponse::default()
        };
        assert_eq!(response.quiet_ms(7), 0);
        assert_eq!(response.quiet_ms(8), 70);
        response.throttle_time_ms = -1;
        assert_eq!(response.quiet_ms(8), 0);
    }
}

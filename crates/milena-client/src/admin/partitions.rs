//! Leader elections.

use milena_machines::TopicPartition;
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{ElectLeadersRequest, ElectLeadersResponse, elect_leaders_request::TopicPartitions},
};

use super::{
    Admin, AdminError, Results,
    call::{AdminCall, CallContext},
    codes::named_codes,
    error::{BrokerError, Failure, check},
    own,
    route::Route,
    topics_of,
};

/// Errors that are not retried: another election has the same result.
const OUTCOMES: &[ErrorCode] = &[
    ErrorCode::ElectionNotNeeded,
    ErrorCode::EligibleLeadersNotAvailable,
    ErrorCode::PreferredLeaderNotAvailable,
    ErrorCode::UnknownTopicOrPartition,
];

named_codes! {
    /// The replicas that may become leader.
    pub enum ElectionType: i8 {
        /// The preferred replica, if it is in sync.
        Preferred = 0, "PREFERRED";
        /// Any replica, if none is in sync. Records may be lost.
        Unclean = 1, "UNCLEAN";
    }
}

impl Admin {
    /// Elects new leaders of partitions. `ELECTION_NOT_NEEDED` if the leader would not change.
    pub async fn elect_leaders(
        &self,
        election: ElectionType,
        partitions: impl IntoIterator<Item = TopicPartition>,
    ) -> Results<TopicPartition, ()> {
        let call = AdminCall::new(
            "leader of",
            |_| Route::Controller,
            move |batch| {
                let topics = topics_of(&batch.keys).map(|(topic, partitions)| TopicPartitions {
                    topic,
                    partitions,
                    ..Default::default()
                });
                ElectLeadersRequest {
                    election_type: election.code(),
                    topic_partitions: Some(topics.collect()),
                    timeout_ms: batch.timeout_ms,
                    ..Default::default()
                }
            },
            |_: &CallContext<TopicPartition>, response: ElectLeadersResponse| {
                check(response.error_code, None)?;
                Ok(elected(&response))
            },
        );
        self.call(call.version_min(version_min(election)).finals(OUTCOMES), partitions)
            .await
    }

    /// Elects new leaders of all partitions that need it. Returns the partitions whose leader changed or could not
    /// change.
    pub async fn elect_all_leaders(&self, election: ElectionType) -> Result<Results<TopicPartition, ()>, AdminError> {
        let call = AdminCall::new(
            "",
            |_| Route::Controller,
            move |batch| ElectLeadersRequest {
                election_type: election.code(),
                topic_partitions: None,
                timeout_ms: batch.timeout_ms,
                ..Default::default()
            },
            |context: &CallContext<&str>, response: ElectLeadersResponse| {
                check(response.error_code, None)?;
                context.all(&elected(&response))
            },
        );
        let call = call.version_min(version_min(election));
        let elected = self.call_one(call, "the leaders of all partitions").await?;
        let results = elected.into_iter().map(|(partition, result)| {
            let item = format!("leader of {partition}");
            (
                partition,
                result.map_err(|error| Failure::Refused(error).into_error(item)),
            )
        });
        Ok(results.collect())
    }
}

fn version_min(election: ElectionType) -> i16 {
    match election {
        ElectionType::Preferred => 0,
        _ => versions::elect_leaders::ELECTION_TYPE,
    }
}

fn elected(response: &ElectLeadersResponse) -> Vec<(TopicPartition, Result<(), BrokerError>)> {
    let topics = response.replica_election_results.iter();
    let results = topics.flat_map(|topic| {
        let name = own(&topic.topic);
        topic.partition_result.iter().map(move |result| {
            let outcome = check(result.error_code, result.error_message.as_deref());
            (TopicPartition::new(name.clone(), result.partition_id), outcome)
        })
    });
    results.collect()
}

//! The reply partition: its topic, its number, and the position from which it is read.

use std::time::Duration;

use milena_client::{
    admin::{Admin, AdminError, NewTopic},
    consumer::{Consumer, ErrorCode, TopicPartition},
};

use super::{RequesterConfig, RequesterError};
use crate::clock::millis;

/// Interval between looks at a topic that was just created.
const CREATED_POLL: Duration = Duration::from_millis(20);
/// Looks at a new topic before that is an error. Brokers may learn of it one after the other.
const CREATED_LOOKS: u32 = 500;

pub(super) struct Located {
    pub(super) partition: TopicPartition,
    /// The end of the partition. Replies to requests that are sent later are at this offset or above.
    pub(super) position: i64,
}

/// Finds or creates the reply topic, and assigns the consumer to the end of its partition.
pub(super) async fn locate(
    config: &RequesterConfig,
    admin: &Admin,
    consumer: &mut Consumer,
    random: u64,
) -> Result<Located, RequesterError> {
    let topic = &config.topic;
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if topic.is_empty() || topic.len() > 249 || !topic.bytes().all(is_legal) {
        return Err(RequesterError::TopicName { topic: topic.clone() });
    }
    let count = match partitions(admin, topic).await? {
        Some(count) => count,
        None => create(config, admin).await?,
    };
    let partition = match config.partition {
        Some(partition) if !(0..count).contains(&partition) => {
            let topic = topic.clone();
            return Err(RequesterError::NoPartition {
                topic,
                partition,
                count,
            });
        }
        Some(partition) => partition,
        None => choose(config.instance.as_deref(), random, count),
    };
    let partition = TopicPartition::new(topic.as_str(), partition);
    consumer.assign([partition.clone()])?;
    let ends = consumer.end_offsets([&partition]).await?;
    let position = ends.get(&partition).copied().unwrap_or(0);
    consumer.seek(&partition, position)?;
    Ok(Located { partition, position })
}

/// The partition of an instance: always the same for a name, any other without one.
fn choose(instance: Option<&str>, random: u64, count: i32) -> i32 {
    let hash = instance.map_or(random, |instance| {
        let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = instance.bytes().fold(0xcbf2_9ce4_8422_2325, fold);
        hash ^ hash >> 32
    });
    let count = u64::try_from(count).unwrap_or(1).max(1);
    i32::try_from(hash % count).unwrap_or(0)
}

/// The number of partitions of a topic, or `None` if it does not exist.
async fn partitions(admin: &Admin, topic: &str) -> Result<Option<i32>, RequesterError> {
    match admin.describe_topics([topic]).await.into_values().next() {
        Some(Ok(description)) => Ok(i32::try_from(description.partitions.len()).ok()),
        Some(Err(error)) if is_code(&error, ErrorCode::UnknownTopicOrPartition) => Ok(None),
        None => Ok(None),
        Some(Err(error)) => {
            let topic = topic.to_owned();
            Err(RequesterError::Topic { topic, error })
        }
    }
}

async fn create(config: &RequesterConfig, admin: &Admin) -> Result<i32, RequesterError> {
    let topic = &config.topic;
    if !config.create {
        return Err(RequesterError::NoTopic { topic: topic.clone() });
    }
    let retention_ms = millis(config.retention);
    let new = NewTopic::new(topic.as_str())
        .partitions(config.partitions)
        .config("cleanup.policy", "delete")
        .config("retention.ms", retention_ms.to_string())
        // Only closed segments are deleted.
        .config("segment.ms", (retention_ms / 4).max(60_000).to_string());
    match admin.create_topics([new]).await.into_values().next() {
        None | Some(Ok(_)) => {
            tracing::info!(
                event = "reply_topic_created",
                topic,
                partitions = config.partitions,
                retention_ms,
                "created reply topic {topic}"
            );
        }
        // Another requester was faster.
        Some(Err(error)) if is_code(&error, ErrorCode::TopicAlreadyExists) => {}
        Some(Err(error)) => {
            let topic = topic.clone();
            return Err(RequesterError::NotCreated { topic, error });
        }
    }
    for _ in 0..CREATED_LOOKS {
        if let Some(count) = partitions(admin, topic).await? {
            return Ok(count);
        }
        tokio::time::sleep(CREATED_POLL).await;
    }
    Err(RequesterError::NoTopic { topic: topic.clone() })
}

/// Deletes `replies.<instance>`.
pub(super) async fn delete_own_topic(config: &RequesterConfig) {
    let topic = &config.topic;
    let deleted = match Admin::new(config.common.clone()) {
        Ok(admin) => {
            let deleted = admin.delete_topics([topic.as_str()]).await.into_values().next();
            deleted.unwrap_or(Ok(())).map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    };
    if let Err(error) = deleted {
        tracing::warn!(event = "reply_topic_not_deleted", topic, %error,
            "reply topic {topic} was not deleted; delete it unless its instance comes back: {error}");
    }
}

fn is_code(error: &AdminError, code: ErrorCode) -> bool {
    error.code() == Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_keeps_its_partition_and_many_are_spread() {
        assert_eq!(choose(Some("svc-a"), 1, 16), choose(Some("svc-a"), 2, 16));
        let mut used = [0; 16];
        for number in 0..160 {
            let partition = choose(Some(&format!("svc-{number}")), 0, 16);
            used[usize::try_from(partition).unwrap()] += 1;
        }
        assert!(used.iter().all(|count| (2..=25).contains(count)), "{used:?}");
        assert_eq!(choose(None, 37, 16), 5);
        assert_eq!(choose(None, 37, 0), 0);
    }
}

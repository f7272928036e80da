//! Topics, configurations, records and the cluster.

use milena_client::{
    admin::{ConfigChange, ConfigResource, ConfigSource, ErrorCode, NewPartitions, NewTopic, OffsetSpec},
    consumer::TopicPartition,
};

use super::{admin, has_all, only, tool};
use crate::{bed, patience::SHORT};

#[tokio::test]
async fn kafka_tells_of_topics_that_we_made_and_changed() {
    let bed = bed::kafka();
    let admin = admin(bed);
    let topic = NewTopic::new("ours")
        .partitions(2)
        .replication_factor(1)
        .config("retention.ms", "100000");
    let tried = only(admin.validate_topics([topic.clone()]).await);
    assert_eq!(tried.partitions, Some(2));
    let created = only(admin.create_topics([topic]).await);
    let id = created.id.unwrap();
    let output = tool(bed, "topics --describe --topic ours").await;
    has_all(
        &output,
        &[
            &format!("TopicId: {id}"),
            "PartitionCount: 2",
            "ReplicationFactor: 1",
            "retention.ms=100000",
        ],
    );

    only(admin.create_partitions([("ours", NewPartitions::increase_to(3))]).await);
    let ours = ConfigResource::topic("ours");
    let changes = [
        (ours.clone(), "retention.ms", ConfigChange::Delete),
        (ours.clone(), "cleanup.policy", ConfigChange::Append("compact".into())),
    ];
    only(admin.alter_configs(changes).await);
    let output = tool(bed, "topics --describe --topic ours").await;
    has_all(&output, &["PartitionCount: 3", "cleanup.policy=delete,compact"]);
    assert!(!output.contains("retention.ms=100000"), "{output}");
    let described = only(admin.describe_configs([ours]).await);
    let policy = described.iter().find(|entry| entry.name == "cleanup.policy").unwrap();
    assert_eq!(
        (policy.value.as_deref(), policy.source),
        (Some("delete,compact"), ConfigSource::Topic)
    );
    let described = only(admin.describe_topics(["ours"]).await);
    assert_eq!((described.id, described.partitions.len()), (Some(id), 3));
    assert_eq!(only(admin.describe_topics_by_id([id]).await), described);

    let again = admin
        .create_topics([NewTopic::new("ours"), NewTopic::new("ours/")])
        .await;
    assert_eq!(
        again["ours"].as_ref().unwrap_err().code(),
        Some(ErrorCode::TopicAlreadyExists)
    );
    assert_eq!(
        again["ours/"].as_ref().unwrap_err().code(),
        Some(ErrorCode::InvalidTopicException)
    );
    only(admin.delete_topics_by_id([id]).await);
    while admin.list_topics().await.unwrap().contains_key("ours") {
        tokio::time::sleep(SHORT).await;
    }
    assert!(!tool(bed, "topics --list").await.lines().any(|name| name == "ours"));
}

#[tokio::test]
async fn records_that_java_wrote_are_found_and_deleted() {
    let bed = bed::kafka();
    let admin = admin(bed);
    let topic = bed.topic("trimmed", 2, "retention.ms=-1").await;
    bed.send(&topic, 0, "lz4", 0, 50).await;
    let (full, empty) = (TopicPartition::new(&*topic, 0), TopicPartition::new(&*topic, 1));
    let ends = admin
        .list_offsets([(full.clone(), OffsetSpec::Latest), (empty.clone(), OffsetSpec::Latest)])
        .await;
    assert_eq!(ends[&full].as_ref().unwrap().unwrap().offset, 50);
    assert_eq!(ends[&empty].as_ref().unwrap().unwrap().offset, 0);
    let by_time = OffsetSpec::Timestamp(crate::records::timestamp(33));
    assert_eq!(
        only(admin.list_offsets([(full.clone(), by_time)]).await)
            .unwrap()
            .offset,
        33
    );
    let newest = only(admin.list_offsets([(full.clone(), OffsetSpec::MaxTimestamp)]).await).unwrap();
    assert_eq!(
        (newest.offset, newest.timestamp),
        (49, Some(crate::records::timestamp(49)))
    );
    assert_eq!(only(admin.delete_records([(full.clone(), Some(7))]).await), 7);
    let output = tool(bed, &format!("get-offsets --topic {topic} --time -2")).await;
    has_all(&output, &[&format!("{topic}:0:7"), &format!("{topic}:1:0")]);
    let beyond = admin.delete_records([(full.clone(), Some(51))]).await;
    assert_eq!(
        beyond[&full].as_ref().unwrap_err().code(),
        Some(ErrorCode::OffsetOutOfRange)
    );
    let dirs = only(admin.describe_all_log_dirs().await.unwrap());
    assert!(
        dirs.iter()
            .any(|dir| dir.replicas.get(&full).is_some_and(|replica| replica.size_bytes > 0))
    );
    let producers = only(admin.describe_producers([full]).await);
    assert_eq!((producers.len(), producers[0].last_sequence), (1, 49));
}

#[tokio::test]
async fn a_cluster_says_of_itself_what_its_tools_say() {
    let bed = bed::kafka();
    let admin = admin(bed);
    let cluster = admin.describe_cluster().await.unwrap();
    assert_eq!(cluster.cluster_id.as_deref(), Some(&*bed.peer.call("cluster").await));
    assert_eq!((cluster.brokers.len(), cluster.brokers[0].fenced), (1, false));
    assert!(cluster.controller.is_some());
    let features = admin.describe_features().await.unwrap();
    let output = tool(bed, "features describe").await;
    let rows = output.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows: Vec<Vec<&str>> = rows.collect();
    for (name, levels) in &features.finalized {
        // metadata.version has names instead of numbers.
        if name != "metadata.version" {
            let row = rows
                .iter()
                .find(|row| row.windows(2).any(|words| words == ["Feature:", &**name]));
            let level = ["FinalizedVersionLevel:", &levels.max.to_string()].map(str::to_owned);
            assert!(row.unwrap().windows(2).any(|words| words == level), "{name}: {output}");
        }
    }
    let broker = ConfigResource::broker(cluster.brokers[0].node.id);
    let listed = admin.list_config_resources([]).await.unwrap();
    assert!(listed.contains(&broker), "{listed:?}");
    let settings = only(admin.describe_configs([broker]).await);
    assert!(
        settings
            .iter()
            .any(|entry| entry.name == "super.users" && entry.read_only)
    );
}

//! Number of dead letters and the age of the oldest one, as metrics.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    sync::Arc,
    time::Duration,
};

use milena_client::{
    admin::{Admin, AdminError, OffsetSpec},
    consumer::TopicPartition,
};

use crate::{
    clock::Clock,
    driver::Setup,
    metrics::{label, write_family},
    view::View,
};

/// Delay of the first count, and the interval of the following ones.
const FIRST: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_secs(15);

/// Contents of the dead letter topics.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeadLetterCounts {
    topics: BTreeMap<String, DeadLetterTopic>,
}

#[derive(Debug, Clone, Copy, Default)]
struct DeadLetterTopic {
    messages: i64,
    /// Time at which the oldest dead letter was written, in milliseconds since 1970.
    oldest_ms: Option<i64>,
}

impl DeadLetterCounts {
    /// Appends the metrics in Prometheus' text format.
    pub(crate) fn write(&self, text: &mut String) {
        let name = "dlq_message_count";
        write_family(text, name, "gauge", "Records in a dead letter topic.");
        for (topic, found) in &self.topics {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}{{topic=\"{}\"}} {}", label(topic), found.messages);
        }
        let now_ms = Clock::real().now_ms();
        let name = "dlq_oldest_message_age_seconds";
        write_family(text, name, "gauge", "Age of the oldest record in a dead letter topic.");
        for (topic, found) in &self.topics {
            let age_ms = found
                .oldest_ms
                .map_or(0, |oldest_ms| now_ms.saturating_sub(oldest_ms).max(0));
            let seconds = Duration::from_millis(age_ms.unsigned_abs()).as_secs_f64();
            let _ = writeln!(text, "{name}{{topic=\"{}\"}} {seconds}", label(topic));
        }
    }
}

/// Counts the dead letters periodically, until the task is aborted.
pub(crate) async fn watch(view: Arc<View>, setup: Arc<Setup>) {
    let mut wait = FIRST;
    loop {
        tokio::time::sleep(std::mem::replace(&mut wait, INTERVAL)).await;
        let topics = setup.dead_letter_topics().await;
        match count(setup.admin(), &topics).await {
            Ok(topics) => view.set_dead_letters(DeadLetterCounts { topics }),
            Err(error) => tracing::debug!(event = "dead_letters_unknown", %error, "cannot count dead letters: {error}"),
        }
    }
}

async fn count(admin: &Admin, wanted: &BTreeSet<String>) -> Result<BTreeMap<String, DeadLetterTopic>, AdminError> {
    if wanted.is_empty() {
        return Ok(BTreeMap::new());
    }
    let listed = admin.list_topics().await?;
    let mut found = BTreeMap::new();
    let mut partitions = vec![];
    for topic in wanted {
        // A topic that does not exist yet has no dead letters.
        found.insert(topic.clone(), DeadLetterTopic::default());
        let count = listed.get(topic.as_str()).map_or(0, |topic| topic.partitions);
        let count = i32::try_from(count).unwrap_or(0);
        partitions.extend((0..count).map(|partition| TopicPartition::new(topic.clone(), partition)));
    }
    let ask = |spec: OffsetSpec| {
        let asked: Vec<_> = partitions.iter().map(|partition| (partition.clone(), spec)).collect();
        admin.list_offsets(asked)
    };
    let ends = ask(OffsetSpec::Latest).await;
    let mut begins = ask(OffsetSpec::Earliest).await;
    let mut oldest = ask(OffsetSpec::Timestamp(0)).await;
    for (partition, end) in ends {
        let begin = begins.remove(&partition).and_then(Result::ok).flatten();
        let (Ok(Some(end)), Some(begin)) = (end, begin) else {
            continue;
        };
        let Some(topic) = found.get_mut(&*partition.topic) else {
            continue;
        };
        topic.messages += end.offset - begin.offset;
        let first = oldest.remove(&partition).and_then(Result::ok).flatten();
        let first_ms = first
            .and_then(|first| first.timestamp)
            .filter(|_| end.offset > begin.offset);
        topic.oldest_ms = topic.oldest_ms.into_iter().chain(first_ms).min();
    }
    Ok(found)
}

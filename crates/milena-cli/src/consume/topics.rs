//! Topics and partitions of `milena consume`.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use milena_client::consumer::{Consumer, TopicPartition};

use super::{Arguments, start_position::StartPosition};
use crate::{connection, log};

/// The names on the command line. A name that begins with `^` is a regular expression for whole names, as in
/// librdkafka.
struct Names<'a> {
    plain: Vec<&'a str>,
    patterns: Vec<&'a str>,
}

impl<'a> Names<'a> {
    fn of(arguments: &'a Arguments) -> Result<Self> {
        let names = arguments.names.iter().chain(&arguments.topics).map(String::as_str);
        let (patterns, plain): (Vec<&str>, Vec<&str>) = names.partition(|name| name.starts_with('^'));
        if patterns.is_empty() && plain.is_empty() {
            bail!("no topic given; `milena topic list` lists them");
        }
        Ok(Self { plain, patterns })
    }

    /// One regular expression for all names.
    fn pattern(&self) -> String {
        let plain = self.plain.iter().map(|name| regex::escape(name));
        let patterns = self.patterns.iter().map(|pattern| format!("(?:{pattern})"));
        plain.chain(patterns).collect::<Vec<_>>().join("|")
    }

    /// The matching topics that exist now.
    async fn matching(&self, consumer: &mut Consumer) -> Result<BTreeSet<String>> {
        let mut topics = BTreeSet::new();
        for name in &self.plain {
            connection::partitions(consumer, name).await?;
            topics.insert((*name).to_owned());
        }
        if self.patterns.is_empty() {
            return Ok(topics);
        }
        let pattern = regex::Regex::new(&format!("^(?:{})$", self.pattern()))?;
        let exclude_internal = consumer.config().exclude_internal_topics;
        let names = consumer.list_topics().await?.into_keys();
        let names = names.filter(|name| !(exclude_internal && name.starts_with("__")));
        topics.extend(names.filter(|name| pattern.is_match(name)).map(|name| name.to_string()));
        Ok(topics)
    }
}

/// Subscribes or assigns the consumer to the named topics, and positions it.
pub(super) async fn choose(consumer: &mut Consumer, arguments: &Arguments, start: Option<StartPosition>) -> Result<()> {
    let names = Names::of(arguments)?;
    let topics = names.matching(consumer).await?;
    let is_member = consumer.config().group_id.is_some() && arguments.partition.is_empty();
    if topics.is_empty() {
        let patterns = names.patterns.join(" ");
        if !is_member || arguments.exit_at_end {
            bail!(
                "no topic matches {patterns}; {}",
                connection::existing_topics(consumer).await?
            );
        }
        log::notice(format_args!("no topic matches {patterns} yet; waiting for one"));
    }
    if !is_member {
        return assign(consumer, arguments, &topics, start).await;
    }
    match (names.patterns.is_empty(), start) {
        (true, Some(start)) => consumer.subscribe_with(names.plain, start)?,
        (true, None) => consumer.subscribe(names.plain)?,
        (false, Some(start)) => consumer.subscribe_pattern_with(&names.pattern(), start)?,
        (false, None) => consumer.subscribe_pattern(&names.pattern())?,
    }
    Ok(())
}

async fn assign(
    consumer: &mut Consumer,
    arguments: &Arguments,
    topics: &BTreeSet<String>,
    start: Option<StartPosition>,
) -> Result<()> {
    let mut chosen = vec![];
    for topic in topics {
        let infos = connection::partitions(consumer, topic).await?;
        let partitions: BTreeSet<TopicPartition> = infos.into_iter().map(|info| info.partition).collect();
        let wanted = arguments.partition.iter();
        let wanted = wanted.map(|number| TopicPartition::new(topic.as_str(), *number));
        let wanted: BTreeSet<TopicPartition> = wanted.collect();
        if let Some(missing) = wanted.iter().find(|partition| !partitions.contains(partition)) {
            let (number, count) = (missing.partition, partitions.len());
            bail!("{topic} has no partition {number}; it has {count}, numbered from 0");
        }
        chosen.extend(if wanted.is_empty() { partitions } else { wanted });
    }
    consumer.assign(chosen.clone())?;
    match start {
        Some(start) => start.seek(consumer, &chosen).await,
        None => Ok(()),
    }
}

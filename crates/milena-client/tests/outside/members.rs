//! Members of groups: ours in tasks, Java's in a peer. All report to a ledger.

use std::sync::Arc;

use milena_client::{
    config::ConsumerConfigBuilder,
    consumer::{
        CloseOptions, Consumer, ConsumerRecords, Leave, ListenerError, RebalanceConsumer, RebalanceListener,
        TopicPartition,
    },
};
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    bed::Bed,
    ledger::Ledger,
    patience::{SHORT, in_time},
    peer::Peer,
};

/// The protocol of a group: `group.protocol`, and the assignor of the classic protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    pub protocol: &'static str,
    pub assignor: Option<&'static str>,
}

pub const KINDS: [Kind; 5] = [
    Kind::classic("range"),
    Kind::classic("roundrobin"),
    Kind::classic("sticky"),
    Kind::classic("cooperative-sticky"),
    Kind::CONSUMER,
];

impl Kind {
    pub const CONSUMER: Self = Self {
        protocol: "consumer",
        assignor: None,
    };

    pub const fn classic(assignor: &'static str) -> Self {
        Self {
            protocol: "classic",
            assignor: Some(assignor),
        }
    }

    pub fn name(self) -> &'static str {
        self.assignor.unwrap_or(self.protocol)
    }

    /// The settings of a member, ours or Java's.
    pub fn settings(self) -> Vec<(&'static str, String)> {
        let mut settings = vec![("group.protocol", self.protocol.to_owned())];
        if let Some(assignor) = self.assignor {
            let class = match assignor {
                "range" => "RangeAssignor",
                "roundrobin" => "RoundRobinAssignor",
                "sticky" => "StickyAssignor",
                _ => "CooperativeStickyAssignor",
            };
            let class = format!("org.apache.kafka.clients.consumer.{class}");
            settings.push(("partition.assignment.strategy", class));
            settings.push(("session.timeout.ms", "10000".to_owned()));
            settings.push(("heartbeat.interval.ms", "300".to_owned()));
        }
        settings
    }

    pub fn apply(self, config: ConsumerConfigBuilder) -> ConsumerConfigBuilder {
        let settings = self.settings().into_iter();
        settings.fold(config, |config, (key, value)| config.set(key, value))
    }
}

/// Reports listener calls to the ledger.
pub struct Telling {
    pub member: String,
    pub ledger: Arc<Ledger>,
}

impl RebalanceListener for Telling {
    async fn assigned(
        &mut self,
        _consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        self.ledger.change(&self.member, "assigned", partitions);
        Ok(())
    }

    async fn revoked(
        &mut self,
        _consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        self.ledger.change(&self.member, "revoked", partitions);
        Ok(())
    }

    async fn lost(
        &mut self,
        _consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        self.ledger.change(&self.member, "lost", partitions);
        Ok(())
    }
}

pub fn tell(ledger: &Ledger, member: &str, records: &ConsumerRecords) {
    for partition in records.partitions() {
        let offsets = records.partition(partition).map(|record| record.offset());
        ledger.read(member, partition, offsets);
    }
}

/// One of our consumers, in a task.
pub struct Ours {
    name: String,
    stop: oneshot::Sender<Leave>,
    task: JoinHandle<()>,
}

impl Ours {
    pub fn join(name: &str, config: ConsumerConfigBuilder, topic: &str, ledger: &Arc<Ledger>) -> Self {
        let (member, ledger) = (name.to_owned(), Arc::clone(ledger));
        let mut consumer = Consumer::new(config.set("client.id", name)).unwrap();
        let telling = Telling {
            member: member.clone(),
            ledger: Arc::clone(&ledger),
        };
        consumer.subscribe_with([topic], telling).unwrap();
        let (stop, mut stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let leave = loop {
                if let Ok(leave) = stopped.try_recv() {
                    break leave;
                }
                match consumer.poll(SHORT).await {
                    Ok(records) => tell(&ledger, &member, &records),
                    Err(error) => {
                        ledger.fail(&member, &format!("{error:?}"));
                        return;
                    }
                }
            };
            let options = CloseOptions {
                leave,
                ..CloseOptions::default()
            };
            if let Err(error) = consumer.close_with(options).await {
                ledger.fail(&member, &format!("{error:?}"));
            }
        });
        Self {
            name: name.to_owned(),
            stop,
            task,
        }
    }

    pub async fn end(self, leave: Leave) {
        let _ = self.stop.send(leave);
        in_time(&format!("{} ends", self.name), self.task).await.unwrap();
    }
}

/// A Java consumer, in a peer.
pub struct Java<'a> {
    name: String,
    peer: &'a Peer,
}

impl<'a> Java<'a> {
    pub async fn join(peer: &'a Peer, name: &str, kind: Kind, topic: &str, ledger: &Arc<Ledger>) -> Self {
        peer.tell(name, ledger);
        let settings: Vec<String> = kind
            .settings()
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        peer.call(&format!("join {name} {topic} {topic} {}", settings.join(" ")))
            .await;
        Self {
            name: name.to_owned(),
            peer,
        }
    }

    pub async fn leave(self) {
        self.peer.call(&format!("leave {}", self.name)).await;
    }
}

impl Bed {
    /// The settings of a group member that reads a topic; the group is named after the topic.
    pub fn member(&self, kind: Kind, topic: &str) -> ConsumerConfigBuilder {
        kind.apply(self.config().group_id(topic))
    }
}

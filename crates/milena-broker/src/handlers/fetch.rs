//! Fetch 4–18. Records go from the file to the socket without passing through memory.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use bytestring::ByteString;
use milena_log::{FileSlice, Isolation, LogView, ReadError};
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        FetchRequest, FetchResponse,
        fetch_response::{AbortedTransaction, EpochEndOffset, FetchableTopicResponse, NodeEndpoint, PartitionData},
    },
};

use super::{Handled, outcomes::storage_error, outgoing, reply};
use crate::{
    fetch_sessions::{Begun, Context, Finished, TopicKey, Wanted},
    net::{Incoming, Outgoing, PLACEHOLDER_LEN_MAX, placeholder},
    node::Node,
    partition::Partition,
    topics::Topic,
    waiters::Waiter,
};

/// Smaller record data is copied into the frame, so it cannot be a placeholder.
const FILE_FROM: usize = 1024;

/// Up to this size the first batch of an answer is checked whenever it is sent.
const CHECKED_ALWAYS_MAX: usize = 64 << 10;

pub(super) fn handle(node: &Arc<Node>, request: &Incoming) -> Handled {
    let body: FetchRequest = match request.body() {
        Ok(body) => body,
        Err(error) => return Handled::Close(error.to_string()),
    };
    let begun = node.fetch_sessions().begin(&body, request.version, node.now_ms());
    let Begun { context, wanted } = match begun {
        Ok(begun) => begun,
        Err(error) => return reply(request, refused(error), vec![]),
    };
    let fetch = Fetch {
        node: Arc::clone(node),
        request: request.clone(),
        body,
        context,
        wanted,
    };
    let mut read = fetch.read();
    if fetch.is_enough(&read, read.unknown) {
        let response = fetch.answer(&mut read);
        return reply(request, response, read.files);
    }
    Handled::Later(Box::pin(fetch.wait(read.unknown)))
}

/// The answer to a fetch whose session is not what the client believes: which partitions it meant, nobody knows.
fn refused(error: ErrorCode) -> FetchResponse {
    FetchResponse {
        error_code: error.code(),
        ..Default::default()
    }
}

struct Fetch {
    node: Arc<Node>,
    request: Incoming,
    body: FetchRequest,
    context: Context,
    wanted: Vec<Wanted>,
}

/// What there is to answer with.
#[derive(Default)]
struct Read {
    /// One for each wanted partition.
    rows: Vec<Option<PartitionData>>,
    files: Vec<FileSlice>,
    bytes: usize,
    /// Something the client must hear of at once: an error, or where its log diverges from ours.
    has_news: bool,
    /// Partitions that do not exist, or not any more.
    unknown: usize,
}

impl Fetch {
    /// Whether to answer now. That a partition did not exist before either is no reason to hurry, if there are others:
    /// the client would ask again and again.
    fn is_enough(&self, read: &Read, unknown_before: usize) -> bool {
        let min_bytes = usize::try_from(self.body.min_bytes).unwrap_or(0);
        let asks_nothing = read.unknown == self.wanted.len();
        let hurries = self.body.max_wait_ms <= 0 || asks_nothing || read.has_news || read.unknown > unknown_before;
        hurries || read.bytes >= min_bytes
    }

    /// Waits until there is enough or the time is over, then reads again.
    async fn wait(self, unknown_before: usize) -> Option<Outgoing> {
        let waiting = Waiting::new(self.partitions());
        let waiter = &waiting.waiter;
        let wait = Duration::from_millis(u64::try_from(self.body.max_wait_ms).unwrap_or(0));
        let deadline = tokio::time::Instant::now() + wait;
        let mut read = loop {
            let arrived = waiter.arrived_so_far();
            let read = self.read();
            if self.is_enough(&read, unknown_before) || tokio::time::Instant::now() >= deadline {
                break read;
            }
            let missing = i64::from(self.body.min_bytes) - read.bytes as i64;
            // Whether woken or out of time, it looks again: what there is now is the answer.
            let _ = tokio::time::timeout_at(deadline, waiter.wait_until(arrived + missing)).await;
        };
        drop(waiting);
        let response = self.answer(&mut read);
        outgoing(&self.request, response, read.files)
    }

    fn partitions(&self) -> Vec<Arc<Partition>> {
        let topics = self.node.topics();
        let found = self.wanted.iter().filter_map(|wanted| {
            let topic = topics.called(&wanted.topic.name, wanted.topic.id)?;
            topic.partition(wanted.partition).cloned()
        });
        found.collect()
    }

    fn partition<'a>(&self, topic: Option<&'a Topic>, wanted: &Wanted) -> Result<&'a Partition, ErrorCode> {
        let unknown_topic = match self.request.version {
            versions::fetch::TOPIC_IDS.. => ErrorCode::UnknownTopicId,
            _ => ErrorCode::UnknownTopicOrPartition,
        };
        let partition = topic.ok_or(unknown_topic)?.partition(wanted.partition);
        Ok(partition.ok_or(ErrorCode::UnknownTopicOrPartition)?)
    }

    /// Reads from every partition, in the order of the request, as far as the limits allow.
    fn read(&self) -> Read {
        let mut read = Read {
            rows: Vec::with_capacity(self.wanted.len()),
            ..Read::default()
        };
        let config = self.node.config();
        let mut room = usize::try_from(self.body.max_bytes.min(config.fetch_max_bytes)).unwrap_or(0);
        // Neighbours are most often of the same topic.
        let mut last: Option<(&TopicKey, Option<Arc<Topic>>)> = None;
        for wanted in &self.wanted {
            let topic = match &last {
                Some((key, topic)) if **key == wanted.topic => topic,
                _ => {
                    let (name, id) = (&wanted.topic.name, wanted.topic.id);
                    let topic = self.node.topics().called(name, id).cloned();
                    &last.insert((&wanted.topic, topic)).1
                }
            };
            let row = match self.partition(topic.as_deref(), wanted) {
                Ok(partition) => self.read_partition(partition, wanted, room, &mut read),
                Err(error) => {
                    read.unknown += 1;
                    Ok(failed(wanted.partition, error))
                }
            };
            let row = row.unwrap_or_else(|error| {
                read.has_news = true;
                failed(wanted.partition, error)
            });
            room = room.saturating_sub(row.records.as_ref().map_or(0, Bytes::len));
            read.rows.push(Some(row));
        }
        read
    }

    /// The answer, without what the session's client knows already.
    fn answer(&self, read: &mut Read) -> FetchResponse {
        let now_ms = self.node.now_ms();
        let Finished { error, session_id } = match self.context {
            Context::Sessionless => Finished::SESSIONLESS,
            context => {
                let mut sessions = self.node.fetch_sessions();
                sessions.finish(context, &self.wanted, &mut read.rows, now_ms)
            }
        };
        let mut responses: Vec<FetchableTopicResponse> = vec![];
        let rows = std::mem::take(&mut read.rows);
        for (wanted, row) in self.wanted.iter().zip(rows) {
            let Some(row) = row else { continue };
            match responses.last_mut() {
                Some(last) if last.topic == wanted.topic.name && last.topic_id == wanted.topic.id => {
                    last.partitions.push(row);
                }
                _ => responses.push(FetchableTopicResponse {
                    topic: wanted.topic.name.clone(),
                    topic_id: wanted.topic.id,
                    partitions: vec![row],
                    ..Default::default()
                }),
            }
        }
        if error != ErrorCode::None {
            read.files.clear();
        }
        let mut response = FetchResponse {
            error_code: error.code(),
            session_id,
            responses,
            ..Default::default()
        };
        self.tell_leader(&mut response);
        response
    }

    /// Tells a client that believes in an older leader who leads now, so that it need not ask for metadata.
    fn tell_leader(&self, response: &mut FetchResponse) {
        if self.request.version < versions::fetch::NODE_ENDPOINTS {
            return;
        }
        let node = &self.node;
        let config = node.config();
        let rows = response.responses.iter_mut().flat_map(|topic| &mut topic.partitions);
        let fenced = rows.filter(|row| row.error_code == ErrorCode::FencedLeaderEpoch.code());
        let mut is_told = false;
        for row in fenced {
            row.current_leader.leader_id = config.node_id;
            row.current_leader.leader_epoch = node.leader_epoch;
            is_told = true;
        }
        if is_told {
            response.node_endpoints.push(NodeEndpoint {
                node_id: config.node_id,
                host: node.host.clone().into(),
                port: i32::from(node.port),
                rack: config.rack.clone().map(ByteString::from),
                ..Default::default()
            });
        }
    }

    fn read_partition(
        &self,
        partition: &Partition,
        wanted: &Wanted,
        room: usize,
        read: &mut Read,
    ) -> Result<PartitionData, ErrorCode> {
        self.node.check_leader_epoch(wanted.leader_epoch)?;
        let view = partition.log.view();
        view.check_online().map_err(|error| error.error_code())?;
        let mut data = PartitionData {
            partition_index: wanted.partition,
            high_watermark: view.high_watermark,
            last_stable_offset: view.last_stable_offset,
            log_start_offset: view.log_start_offset,
            // Null would be read as a damaged set of messages by librdkafka.
            records: Some(Bytes::new()),
            ..Default::default()
        };
        if let Some(diverging) = self.diverging(&view, wanted)? {
            read.has_news = true;
            data.diverging_epoch = diverging;
            return Ok(data);
        }
        // The first records of an answer may be larger than all limits: else a large batch could never be read.
        let first = read.bytes == 0;
        let limit = usize::try_from(wanted.bytes_max)
            .unwrap_or(0)
            .min(room)
            .min(PLACEHOLDER_LEN_MAX);
        let slice = match view.read(wanted.offset, limit, self.isolation()) {
            Ok(slice) => slice.filter(|slice| first || slice.len <= limit),
            Err(ReadError::OutOfRange { .. }) => return Err(ErrorCode::OffsetOutOfRange),
            Err(ReadError::Storage(error)) => {
                let problem = error.to_string();
                self.node.damage_log.tell(partition, &problem, wanted.offset, &problem);
                return Err(error.error_code());
            }
        };
        if let Some(slice) = slice {
            self.check_first_batch(partition, wanted.offset, &slice);
            data.aborted_transactions = self.aborted(&view, wanted.offset)?;
            data.records = Some(self.records(slice, read)?);
        }
        Ok(data)
    }

    /// Tells of a damaged batch at the start of an answer. The client gets it nevertheless: it can say what is behind it. A
    /// large batch is looked at when it is asked for again.
    fn check_first_batch(&self, partition: &Partition, offset: i64, slice: &FileSlice) {
        let is_asked_again = partition.is_asked_again(offset);
        if (slice.first_batch <= CHECKED_ALWAYS_MAX || is_asked_again)
            && let Some(problem) = slice.problem()
        {
            let place = format!("byte {} of {}", slice.position, slice.path.display());
            self.node.damage_log.tell(partition, &place, offset, &problem);
        }
    }

    /// Where the records of the epoch that the client fetched last end here, if it has others than we do.
    fn diverging(&self, view: &LogView, wanted: &Wanted) -> Result<Option<EpochEndOffset>, ErrorCode> {
        if wanted.last_fetched_epoch < 0 {
            return Ok(None);
        }
        let end = view.end_of_epoch(wanted.last_fetched_epoch, self.node.leader_epoch);
        let (epoch, end_offset) = end.ok_or(ErrorCode::OffsetOutOfRange)?;
        if wanted.offset < view.log_start_offset {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let diverges = epoch < wanted.last_fetched_epoch || end_offset < wanted.offset;
        Ok(diverges.then(|| EpochEndOffset {
            epoch,
            end_offset,
            ..Default::default()
        }))
    }

    fn records(&self, slice: FileSlice, read: &mut Read) -> Result<Bytes, ErrorCode> {
        read.bytes += slice.len;
        if slice.len < FILE_FROM || slice.len > PLACEHOLDER_LEN_MAX {
            return slice.read().map_err(|error| {
                tracing::error!(%error, "records cannot be read");
                ErrorCode::KafkaStorageError
            });
        }
        let stand_in = placeholder(slice.len);
        read.files.push(slice);
        Ok(stand_in)
    }

    fn aborted(&self, view: &LogView, from: i64) -> Result<Option<Vec<AbortedTransaction>>, ErrorCode> {
        if self.isolation() == Isolation::ReadUncommitted {
            return Ok(None);
        }
        let aborted = view
            .aborted_transactions(from, view.last_stable_offset)
            .map_err(|error| storage_error(&error, "aborted transactions cannot be read"))?;
        let entries = aborted.iter().map(|entry| AbortedTransaction {
            producer_id: entry.producer_id,
            first_offset: entry.first_offset,
            ..Default::default()
        });
        Ok(Some(entries.collect()))
    }

    fn isolation(&self) -> Isolation {
        match self.body.isolation_level {
            1 => Isolation::ReadCommitted,
            _ => Isolation::ReadUncommitted,
        }
    }
}

/// A fetch that waits in its partitions. Dropping it ends that, also when its connection ends first.
struct Waiting {
    waiter: Arc<Waiter>,
    partitions: Vec<Arc<Partition>>,
}

impl Waiting {
    fn new(partitions: Vec<Arc<Partition>>) -> Self {
        let waiter = Waiter::new();
        for partition in &partitions {
            partition.waiters.add(&waiter);
        }
        Self { waiter, partitions }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        for partition in &self.partitions {
            partition.waiters.remove(&self.waiter);
        }
    }
}

pub(super) fn failed(partition_index: i32, error: ErrorCode) -> PartitionData {
    PartitionData {
        partition_index,
        error_code: error.code(),
        high_watermark: -1,
        records: Some(Bytes::new()),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use milena_log::{Log, LogConfig, Opening, disk::MemoryDisk};

    use super::*;

    #[test]
    fn a_fetch_that_is_given_up_leaves_no_trace_in_its_partitions() {
        let opening = Opening::default();
        let disk = Arc::new(MemoryDisk::new());
        let log = Log::open(disk, "/letters-0".as_ref(), LogConfig::default(), opening).unwrap();
        let partition = Arc::new(Partition::new("letters".into(), 0, log));
        let waiting = Waiting::new(vec![Arc::clone(&partition)]);
        let waiter = Arc::downgrade(&waiting.waiter);
        drop(waiting);
        assert!(waiter.upgrade().is_none());
    }
}

//! Fetch 4–18. Records go from the file to the socket without passing through memory.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use bytestring::ByteString;
use milena_invariant::invariant;
use milena_log::{FileSlice, Isolation, LogView, ReadError};
use milena_machines::authorizer::Operation;
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    message::Message,
    messages::{
        FetchRequest, FetchResponse,
        fetch_response::{AbortedTransaction, EpochEndOffset, FetchableTopicResponse, NodeEndpoint, PartitionData},
    },
};

use super::common::{FileResponse, HandlerThrottle, Outcome, RequestContext, storage_error};
use crate::{
    fetch_sessions::{PartitionFetch, SessionContext, SessionFetch, SessionResult, TopicKey},
    net::{PLACEHOLDER_LEN_MAX, placeholder},
    node::Node,
    partition::Partition,
    quotas::Charge,
    topics::Topic,
    waiters::Waiter,
};

/// The smallest slice that is sent from its file; smaller ones are copied into the frame.
const FILE_FROM: usize = 1024;

/// Up to this size the first batch of a response is verified whenever it is sent.
const CHECKED_ALWAYS_MAX: usize = 64 << 10;

pub(super) fn handle(cx: &RequestContext<'_>, request: FetchRequest) -> Outcome<FileResponse<FetchResponse>> {
    let (node, version) = (cx.node, cx.request.version);
    let accepted = node.fetch_sessions().begin(&request, version, node.now_ms());
    let SessionFetch { context, requested } = match accepted {
        Ok(accepted) => accepted,
        Err(error) => return Outcome::Ready(session_error(error).into()),
    };
    let charge = cx.request.charge().cloned();
    let quota = charge.as_ref().and_then(Charge::fetch_bytes_max).unwrap_or(usize::MAX);
    let bytes_max = request.max_bytes.min(node.config().fetch_max_bytes);
    let bytes_max = usize::try_from(bytes_max).unwrap_or(0).min(quota);
    let fetch = Fetch {
        node: Arc::clone(node),
        listener: cx.peer.listener.clone(),
        version,
        denied: denied(cx, &request, &requested),
        charge,
        bytes_max,
        bytes_min: usize::try_from(request.min_bytes).unwrap_or(0).min(bytes_max),
        request,
        context,
        requested,
    };
    let read = fetch.read();
    if fetch.is_enough(&read, read.unknown) {
        return Outcome::Ready(fetch.charged_response(read));
    }
    Outcome::later(fetch.wait(read.unknown))
}

/// The positions of partitions that the client may not read, in their order. Topics are resolved as they are now; ids of
/// no topic stay unknown.
fn denied(cx: &RequestContext<'_>, request: &FetchRequest, requested: &[PartitionFetch]) -> Vec<usize> {
    // Each version has one of the two fields; the other is negative, as it is for consumers.
    if request.replica_id.max(request.replica_state.replica_id) >= 0 {
        return match cx.authorize_cluster(Operation::ClusterAction) {
            true => vec![],
            false => (0..requested.len()).collect(),
        };
    }
    if cx.node.authorizer.is_none() {
        return vec![];
    }
    let mut denied = vec![];
    // Consecutive partitions are most often of the same topic.
    let mut last: Option<(&TopicKey, bool)> = None;
    for (position, partition) in requested.iter().enumerate() {
        let key = &partition.topic;
        let is_denied = match last {
            Some((last, is_denied)) if last == key => is_denied,
            _ if key.id.is_zero() => !cx.authorize_topic(Operation::Read, &key.name),
            _ => {
                let name = cx.node.topics().by_id(key.id).map(|topic| topic.name.clone());
                name.is_some_and(|name| !cx.authorize_topic(Operation::Read, &name))
            }
        };
        last = Some((key, is_denied));
        if is_denied {
            denied.push(position);
        }
    }
    denied
}

/// The response where the client and the broker disagree about the session, so that its partitions are unknown.
fn session_error(error: ErrorCode) -> FetchResponse {
    FetchResponse {
        error_code: error.code(),
        ..Default::default()
    }
}

struct Fetch {
    node: Arc<Node>,
    /// The listener of the client.
    listener: ByteString,
    version: i16,
    /// `None` if there are no quotas.
    charge: Option<Charge>,
    /// The size limits of the request, of the broker and of the quota.
    bytes_max: usize,
    bytes_min: usize,
    request: FetchRequest,
    context: SessionContext,
    requested: Vec<PartitionFetch>,
    /// Positions of requested partitions that the client may not read.
    denied: Vec<usize>,
}

/// The records and errors of all partitions of one fetch.
#[derive(Default)]
struct ReadResult {
    /// One row for each requested partition.
    rows: Vec<Option<PartitionData>>,
    files: Vec<FileSlice>,
    bytes: usize,
    /// Whether there is an error or a diverging epoch, which the client must learn of at once.
    is_urgent: bool,
    /// The number of partitions that do not exist or may not be read.
    unknown: usize,
}

impl Fetch {
    /// Whether to respond now. A partition that was unknown before the wait too is no reason, if there are others: the client
    /// would fetch in a busy loop.
    fn is_enough(&self, read: &ReadResult, unknown_before: usize) -> bool {
        let is_empty = read.unknown == self.requested.len();
        let is_urgent = self.request.max_wait_ms <= 0 || is_empty || read.is_urgent || read.unknown > unknown_before;
        is_urgent || read.bytes >= self.bytes_min
    }

    /// Waits until enough bytes have arrived or `max_wait_ms` is over, then reads again.
    async fn wait(self, unknown_before: usize) -> FileResponse<FetchResponse> {
        let waiting = FetchWait::new(self.partitions());
        let waiter = &waiting.waiter;
        let wait = Duration::from_millis(u64::try_from(self.request.max_wait_ms).unwrap_or(0));
        let deadline = tokio::time::Instant::now() + wait;
        let read = loop {
            let arrived = waiter.arrived_so_far();
            let read = self.read();
            if self.is_enough(&read, unknown_before) || tokio::time::Instant::now() >= deadline {
                break read;
            }
            let missing = self.bytes_min as i64 - read.bytes as i64;
            // Woken or timed out, it reads again and responds with the result.
            let _ = tokio::time::timeout_at(deadline, waiter.wait_until(arrived + missing)).await;
        };
        drop(waiting);
        self.charged_response(read)
    }

    fn partitions(&self) -> Vec<Arc<Partition>> {
        let topics = self.node.topics();
        let allowed = self.requested.iter().enumerate();
        let allowed = allowed.filter(|(position, _)| self.denied.binary_search(position).is_err());
        let found = allowed.filter_map(|(_, requested)| {
            let topic = topics.called(&requested.topic.name, requested.topic.id)?;
            topic.partition(requested.partition).cloned()
        });
        found.collect()
    }

    fn partition<'a>(&self, topic: Option<&'a Topic>, requested: &PartitionFetch) -> Result<&'a Partition, ErrorCode> {
        let unknown_topic = match self.version {
            versions::fetch::TOPIC_IDS.. => ErrorCode::UnknownTopicId,
            _ => ErrorCode::UnknownTopicOrPartition,
        };
        let partition = topic.ok_or(unknown_topic)?.partition(requested.partition);
        Ok(partition.ok_or(ErrorCode::UnknownTopicOrPartition)?)
    }

    /// Reads from every partition, in the order of the request, up to the limits.
    fn read(&self) -> ReadResult {
        let mut read = ReadResult {
            rows: Vec::with_capacity(self.requested.len()),
            ..ReadResult::default()
        };
        let mut room = self.bytes_max;
        // Consecutive partitions are most often of the same topic.
        let mut last: Option<(&TopicKey, Option<Arc<Topic>>)> = None;
        for (position, requested) in self.requested.iter().enumerate() {
            if !self.denied.is_empty() && self.denied.binary_search(&position).is_ok() {
                read.unknown += 1;
                let row = failed(requested.partition, ErrorCode::TopicAuthorizationFailed);
                read.rows.push(Some(row));
                continue;
            }
            let topic = match &last {
                Some((key, topic)) if **key == requested.topic => topic,
                _ => {
                    let (name, id) = (&requested.topic.name, requested.topic.id);
                    let topic = self.node.topics().called(name, id).cloned();
                    &last.insert((&requested.topic, topic)).1
                }
            };
            let row = match self.partition(topic.as_deref(), requested) {
                Ok(partition) => self.read_partition(partition, requested, room, &mut read),
                Err(error) => {
                    read.unknown += 1;
                    Ok(failed(requested.partition, error))
                }
            };
            let row = row.unwrap_or_else(|error| {
                read.is_urgent = true;
                failed(requested.partition, error)
            });
            room = room.saturating_sub(row.records.as_ref().map_or(0, Bytes::len));
            read.rows.push(Some(row));
        }
        read
    }

    /// The response, after it was charged to the quotas of the client. If that has used too much, the response is empty, and
    /// the client is throttled before it may fetch again.
    fn charged_response(&self, read: ReadResult) -> FileResponse<FetchResponse> {
        let Some(charge) = &self.charge else {
            return self.response(read);
        };
        let (response, throttle_time) = match charge.fetch(self.response_size(&read)) {
            Ok(throttle_time) => (self.response(read), throttle_time),
            Err(throttle_time) => (self.empty_response().into(), throttle_time),
        };
        FileResponse {
            throttle: HandlerThrottle::All(throttle_time),
            ..response
        }
    }

    /// The size of a response. Rows of a session that have neither records nor an error are not counted: most are left out.
    fn response_size(&self, read: &ReadResult) -> usize {
        let is_full = !matches!(self.context, SessionContext::Incremental { .. });
        let is_sent = |row: &&PartitionData| {
            let has_records = row.records.as_ref().is_some_and(|records| !records.is_empty());
            is_full || has_records || row.error_code != ErrorCode::None.code()
        };
        let message = FetchResponse {
            responses: vec![FetchableTopicResponse {
                partitions: read.rows.iter().flatten().filter(is_sent).cloned().collect(),
                ..Default::default()
            }],
            ..Default::default()
        };
        message.size(self.version).unwrap_or(read.bytes)
    }

    /// The response of a throttled client. Its session stays as it is.
    fn empty_response(&self) -> FetchResponse {
        let SessionResult { error, session_id } = self.node.fetch_sessions().keep(self.context);
        FetchResponse {
            error_code: error.code(),
            session_id,
            ..Default::default()
        }
    }

    /// The response. In a session it lacks the rows that did not change.
    fn response(&self, mut read: ReadResult) -> FileResponse<FetchResponse> {
        let now_ms = self.node.now_ms();
        let SessionResult { error, session_id } = match self.context {
            SessionContext::Sessionless => SessionResult::SESSIONLESS,
            context => {
                let mut sessions = self.node.fetch_sessions();
                sessions.finish(context, &self.requested, &mut read.rows, now_ms)
            }
        };
        invariant!(
            read.rows.len() == self.requested.len(),
            "every_requested_partition_has_a_row"
        );
        let mut responses: Vec<FetchableTopicResponse> = vec![];
        for (requested, row) in self.requested.iter().zip(read.rows) {
            let Some(row) = row else { continue };
            match responses.last_mut() {
                Some(last) if last.topic == requested.topic.name && last.topic_id == requested.topic.id => {
                    last.partitions.push(row);
                }
                _ => responses.push(FetchableTopicResponse {
                    topic: requested.topic.name.clone(),
                    topic_id: requested.topic.id,
                    partitions: vec![row],
                    ..Default::default()
                }),
            }
        }
        if error != ErrorCode::None {
            read.files.clear();
        }
        if read.bytes > 0 {
            self.count_bytes(&responses);
        }
        let mut message = FetchResponse {
            error_code: error.code(),
            session_id,
            responses,
            ..Default::default()
        };
        self.set_leader(&mut message);
        FileResponse {
            files: read.files,
            ..FileResponse::from(message)
        }
    }

    /// Counts the bytes of the response in the metrics of its partitions.
    fn count_bytes(&self, responses: &[FetchableTopicResponse]) {
        let topics = self.node.topics();
        for response in responses {
            let Some(topic) = topics.called(&response.topic, response.topic_id) else {
                continue;
            };
            for row in &response.partitions {
                let bytes = row.records.as_ref().map_or(0, Bytes::len);
                if let Some(partition) = topic.partition(row.partition_index).filter(|_| bytes > 0) {
                    partition.metrics.fetched(bytes);
                }
            }
        }
    }

    /// Names the leader to a client with an older leader epoch, which then needs no Metadata request.
    fn set_leader(&self, response: &mut FetchResponse) {
        if self.version < versions::fetch::NODE_ENDPOINTS {
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
            let (host, port) = node.endpoints.advertised(&self.listener);
            response.node_endpoints.push(NodeEndpoint {
                node_id: config.node_id,
                host,
                port: i32::from(port),
                rack: config.rack.clone().map(ByteString::from),
                ..Default::default()
            });
        }
    }

    fn read_partition(
        &self,
        partition: &Partition,
        requested: &PartitionFetch,
        room: usize,
        read: &mut ReadResult,
    ) -> Result<PartitionData, ErrorCode> {
        self.node.check_leader_epoch(requested.leader_epoch)?;
        let view = partition.log.view();
        view.check_online().map_err(|error| error.error_code())?;
        let mut data = PartitionData {
            partition_index: requested.partition,
            high_watermark: view.high_watermark,
            last_stable_offset: view.last_stable_offset,
            log_start_offset: view.log_start_offset,
            // librdkafka takes null for a damaged set of messages.
            records: Some(Bytes::new()),
            ..Default::default()
        };
        if let Some(diverging) = self.diverging(&view, requested)? {
            read.is_urgent = true;
            data.diverging_epoch = diverging;
            return Ok(data);
        }
        // The first records of a response may exceed all limits: else a large batch could never be read.
        let first = read.bytes == 0;
        let limit = usize::try_from(requested.bytes_max)
            .unwrap_or(0)
            .min(room)
            .min(PLACEHOLDER_LEN_MAX);
        let slice = match view.read(requested.offset, limit, self.isolation()) {
            Ok(slice) => slice.filter(|slice| first || slice.len <= limit),
            Err(ReadError::OutOfRange { .. }) => return Err(ErrorCode::OffsetOutOfRange),
            Err(ReadError::Storage(error)) => {
                let problem = error.to_string();
                self.node
                    .damage_log
                    .log(partition, &problem, requested.offset, &problem);
                return Err(error.error_code());
            }
        };
        if let Some(slice) = slice {
            self.check_first_batch(partition, requested.offset, &slice);
            data.aborted_transactions = self.aborted(&view, requested.offset)?;
            data.records = Some(self.records(slice, read)?);
        }
        Ok(data)
    }

    /// Logs a damaged batch at the start of a response. The client gets it nevertheless, because it can skip it. A large
    /// batch is verified only when it is fetched again.
    fn check_first_batch(&self, partition: &Partition, offset: i64, slice: &FileSlice) {
        let is_refetch = partition.is_refetch(offset);
        if (slice.first_batch <= CHECKED_ALWAYS_MAX || is_refetch)
            && let Some(problem) = slice.problem()
        {
            let place = format!("byte {} of {}", slice.position, slice.path.display());
            self.node.damage_log.log(partition, &place, offset, &problem);
        }
    }

    /// The end of the epoch that the client fetched last, if the client's log diverges from this one.
    fn diverging(&self, view: &LogView, requested: &PartitionFetch) -> Result<Option<EpochEndOffset>, ErrorCode> {
        if requested.last_fetched_epoch < 0 {
            return Ok(None);
        }
        let end = view.end_of_epoch(requested.last_fetched_epoch, self.node.leader_epoch);
        let (epoch, end_offset) = end.ok_or(ErrorCode::OffsetOutOfRange)?;
        if requested.offset < view.log_start_offset {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let diverges = epoch < requested.last_fetched_epoch || end_offset < requested.offset;
        Ok(diverges.then(|| EpochEndOffset {
            epoch,
            end_offset,
            ..Default::default()
        }))
    }

    fn records(&self, slice: FileSlice, read: &mut ReadResult) -> Result<Bytes, ErrorCode> {
        read.bytes += slice.len;
        if slice.len < FILE_FROM || slice.len > PLACEHOLDER_LEN_MAX {
            return slice.read().map_err(|error| {
                tracing::error!(event = "records_not_read", %error, "records cannot be read");
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
        match self.request.isolation_level {
            1 => Isolation::ReadCommitted,
            _ => Isolation::ReadUncommitted,
        }
    }
}

/// A fetch that is registered as a waiter of its partitions. Dropping it removes the waiter, also when the connection ends.
struct FetchWait {
    waiter: Arc<Waiter>,
    partitions: Vec<Arc<Partition>>,
}

impl FetchWait {
    fn new(partitions: Vec<Arc<Partition>>) -> Self {
        let waiter = Waiter::new();
        for partition in &partitions {
            partition.waiters.add(&waiter);
        }
        Self { waiter, partitions }
    }
}

impl Drop for FetchWait {
    fn drop(&mut self) {
        for partition in &self.partitions {
            partition.waiters.remove(&self.waiter);
        }
    }
}

fn failed(partition_index: i32, error: ErrorCode) -> PartitionData {
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
        let waiting = FetchWait::new(vec![Arc::clone(&partition)]);
        let waiter = Arc::downgrade(&waiting.waiter);
        drop(waiting);
        assert!(waiter.upgrade().is_none());
    }
}

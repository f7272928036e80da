//! Starts an engine: from the declared policies to running tasks.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, atomic::AtomicUsize},
    time::Duration,
};

use milena_client::{
    config::ConfigMap,
    consumer::Consumer,
    producer::{Producer, Remedy},
};
use milena_machines::app::{
    BatchConfig, BreakerConfig, BreakerId, BulkheadId, CommitConfig, Delivery as MachineDelivery, DlqLimitConfig,
    Exhausted as MachineExhausted, HandlerConfig, Limits, RateConfig, RetryPolicy, Role, Scheduler, SchedulerConfig,
    SourceId, retry_topic_suffix,
};
use tokio::{
    sync::{Notify, mpsc},
    task::{JoinHandle, JoinSet},
};

use super::{
    BreakerExchange, Engine, Setup, SourceLink, State, WorkerLink,
    finish::ResultInbox,
    keeps_key_order,
    key_holds::{self, HeldTopics, held_group},
    notices::Notices,
    publisher::{self, PublisherLink},
    replay_ranges::{self, MARK_CHARS_MAX, ReplayRanges},
    replay_source,
    replies::{expiry, reply_rules},
    source::{self, Listener, Reads, SourceTask},
    timer,
    transactions::{self, TransactionLink},
};
use crate::{
    clock::{Clock, millis},
    error::StartError,
    handler::States,
    metrics::HandlerMetrics,
    offset_store::OffsetStore,
    policy::{Breaker, Exhausted, Policy, Watermarks},
    replay::Replay,
    route::{CallLimits, Delivery, Route},
    routing::Routing,
    settings::{Limits as AppLimits, Settings},
    times::TimeMeter,
    topics::{HELD, retry_topic},
    worker::{Report, Worker},
};

/// The parts of an engine: the handlers of one delivery.
pub(crate) struct EngineParts {
    pub(crate) delivery: Delivery,
    pub(crate) routes: Vec<Route>,
    pub(crate) settings: Settings,
    pub(crate) limits: AppLimits,
    pub(crate) states: States,
    pub(crate) clock: Clock,
    pub(crate) breakers: BTreeMap<String, Breaker>,
    pub(crate) bulkheads: BTreeMap<String, u32>,
    pub(crate) setup: Arc<Setup>,
    pub(crate) routing: Arc<Routing>,
    /// Breakers that other engines have too.
    pub(crate) exchange: Option<Arc<BreakerExchange>>,
    /// The number of characters of a commit's metadata that the scheduler must not use.
    pub(crate) metadata_reserved: usize,
    /// The store of offsets, for the delivery that has them there.
    pub(crate) offset_store: Option<Arc<dyn OffsetStore>>,
}

/// The declarations that a scheduler is configured from.
pub(crate) struct Declared<'a> {
    pub(crate) delivery: Delivery,
    pub(crate) routes: &'a [Route],
    pub(crate) limits: &'a AppLimits,
    pub(crate) breakers: &'a BTreeMap<String, Breaker>,
    pub(crate) bulkheads: &'a BTreeMap<String, u32>,
    pub(crate) metadata_reserved: usize,
}

impl EngineParts {
    fn declared(&self) -> Declared<'_> {
        Declared {
            delivery: self.delivery,
            routes: &self.routes,
            limits: &self.limits,
            breakers: &self.breakers,
            bulkheads: &self.bulkheads,
            metadata_reserved: self.metadata_reserved,
        }
    }
}

/// Finds contradictions in policies before anything is started.
pub(crate) fn check_policies(declared: &Declared<'_>) -> Result<(), StartError> {
    Ok(scheduler_config(declared, &mut Names::default())?.check()?)
}

/// An engine and its tasks.
pub(crate) struct Started {
    pub(crate) engine: Arc<Engine>,
    /// Tasks that end with the engine.
    pub(crate) sources: JoinSet<()>,
    /// Tasks that end when they are aborted.
    pub(crate) helpers: Vec<JoinHandle<()>>,
    pub(crate) producer: Producer,
}

impl Drop for Started {
    fn drop(&mut self) {
        self.helpers.iter().for_each(JoinHandle::abort);
    }
}

pub(crate) async fn start(parts: EngineParts) -> Result<Started, StartError> {
    let producer = Producer::new(producer_settings(&parts)?)?;
    if parts.delivery == Delivery::ExactlyOnce {
        init_transactions(&producer).await?;
    }
    let sources = sources(&parts)?;
    let links = sources.iter().map(|source| {
        let times = TimeMeter::new(&source.group, &source.reads.to_string());
        SourceLink::new(&source.group, times)
    });
    let mut started = start_engine(&parts, producer, links.collect())?;
    for (index, prepared) in sources.into_iter().enumerate() {
        let Source {
            mut consumer, reads, ..
        } = prepared;
        let source = SourceId(u16::try_from(index).unwrap_or(u16::MAX));
        let engine = Arc::clone(&started.engine);
        let listener = Listener {
            engine: Arc::clone(&engine),
            source,
            states: parts.states.clone(),
            setup: Arc::clone(&parts.setup),
        };
        source::subscribe(&mut consumer, reads, listener)?;
        let task = SourceTask {
            engine: Arc::clone(&engine),
            source,
            states: parts.states.clone(),
            close_timeout: parts.limits.close_timeout,
        };
        let running = source::run(task, consumer);
        started.sources.spawn(engine.watched(running));
    }
    Ok(started)
}

/// CrashCounters an engine that reads a stretch and ends; also from where to where.
pub(crate) async fn replay(
    mut parts: EngineParts,
    topics: &BTreeSet<String>,
    replay: &Replay,
) -> Result<(Started, ReplayRanges), StartError> {
    let producer = Producer::new(producer_settings(&parts)?)?;
    let group = format!("{}.{}", parts.settings.group, replay.name);
    let config = parts.settings.consumer(parts.delivery, &group)?;
    let mut consumer = Consumer::new(config)?;
    let ranges = replay_ranges::find(&mut consumer, &group, topics, replay).await?;
    parts.metadata_reserved = MARK_CHARS_MAX;
    let mut started = start_engine(&parts, producer, vec![SourceLink::new(&group, TimeMeter::default())])?;
    replay_source::assign(&started.engine, &mut consumer, &parts.states, &ranges)?;
    let running = replay_source::run(Arc::clone(&started.engine), consumer);
    let running = started.engine.watched(running);
    started.sources.spawn(running);
    Ok((started, ranges))
}

/// Starts the engine and all its tasks except the sources.
fn start_engine(parts: &EngineParts, producer: Producer, sources: Vec<SourceLink>) -> Result<Started, StartError> {
    let (publisher_orders, orders) = mpsc::unbounded_channel();
    let (engine, workers) = build(parts, sources, publisher_orders)?;
    let mut started = Started {
        engine: Arc::clone(&engine),
        sources: JoinSet::new(),
        helpers: vec![],
        producer: producer.clone(),
    };
    for (route, worker) in workers {
        let limits = CallLimits {
            handler: route.topics.text().to_owned(),
            clock: parts.clock.clone(),
            timeout: route.policy.timeout,
            expiry: expiry(&engine, &route),
        };
        let worker = route.handler.run_worker(worker, limits);
        started.helpers.push(tokio::spawn(engine.watched(worker)));
    }
    let publishing = publisher::run(Arc::clone(&engine), producer.clone(), orders);
    started.helpers.push(tokio::spawn(engine.watched(publishing)));
    let reporting = Arc::clone(&engine);
    started
        .helpers
        .push(tokio::spawn(async move { reporting.notices.run().await }));
    let timer = timer::run(Arc::clone(&engine));
    started.helpers.push(tokio::spawn(engine.watched(timer)));
    let checking = key_holds::run(Arc::clone(&engine));
    started.helpers.push(tokio::spawn(engine.watched(checking)));
    if parts.delivery == Delivery::ExactlyOnce {
        let transactions = transactions::run(Arc::clone(&engine), producer, parts.limits.window);
        started.helpers.push(tokio::spawn(engine.watched(transactions)));
    }
    Ok(started)
}

/// Replies are sent at once, unless the application says otherwise.
fn producer_settings(parts: &EngineParts) -> Result<ConfigMap, StartError> {
    let mut settings = ConfigMap::new();
    if parts.routes.iter().any(|route| route.policy.replies.is_some()) {
        settings.set("linger.ms", 0);
    }
    settings.merge(parts.settings.producer(parts.delivery)?);
    Ok(settings)
}

async fn init_transactions(producer: &Producer) -> Result<(), StartError> {
    loop {
        match producer.init_transactions().await {
            Ok(()) => return Ok(()),
            Err(error) if error.remedy() == Remedy::Retry => {}
            Err(error) => return Err(StartError::Transactions(error)),
        }
    }
}

/// A consumer that is ready to subscribe.
struct Source {
    group: String,
    consumer: Consumer,
    reads: Reads,
}

impl Source {
    fn new(parts: &EngineParts, group: String, reads: Reads) -> Result<Self, StartError> {
        let config: ConfigMap = parts.settings.consumer(parts.delivery, &group)?;
        Ok(Self {
            group,
            consumer: Consumer::new(config)?,
            reads,
        })
    }
}

/// The consumers: those of the main topics, one for each delay of retry topics, and one for the held-keys topics.
fn sources(parts: &EngineParts) -> Result<Vec<Source>, StartError> {
    let mut sources = vec![];
    let group = &parts.settings.group;
    for _ in 0..parts.limits.consumers.max(1) {
        let reads = reads(parts, |_| true, "", Role::Main);
        sources.push(Source::new(parts, group.clone(), reads)?);
    }
    let overtaking = parts.routes.iter().filter(|route| !keeps_key_order(route));
    let delays = overtaking.flat_map(|route| &route.policy.retry.topics);
    let delays: BTreeSet<i64> = delays.map(|delay| millis(*delay)).collect();
    for delay_ms in delays {
        let has_delay = |route: &Route| {
            let mut delays = route.policy.retry.topics.iter();
            !keeps_key_order(route) && delays.any(|delay| millis(*delay) == delay_ms)
        };
        let role = Role::RetryTopic { index: 0, delay_ms };
        let reads = reads(parts, has_delay, &retry_topic("", delay_ms), role);
        sources.push(Source::new(
            parts,
            format!("{group}.{}", retry_topic_suffix(delay_ms)),
            reads,
        )?);
    }
    if parts.routes.iter().any(keeps_key_order) {
        let reads = reads(parts, keeps_key_order, HELD, Role::HeldKeys);
        sources.push(Source::new(parts, held_group(group), reads)?);
    }
    Ok(sources)
}

/// The subscription of a source: topic names, or a filter of all topics if a handler has a pattern.
fn reads(parts: &EngineParts, is_read: impl Fn(&Route) -> bool, suffix: &str, role: Role) -> Reads {
    let routes = parts.routes.iter().filter(|route| is_read(route));
    let routes: Vec<&Route> = routes.collect();
    let names = routes.iter().map(|route| format!("{}{suffix}", route.topics.text()));
    let names: Vec<String> = names.collect();
    if !routes.iter().any(|route| route.topics.is_pattern()) {
        return Reads::Topics(names);
    }
    Reads::Matching {
        names,
        routing: Arc::clone(&parts.routing),
        delivery: parts.delivery,
        role,
    }
}

type Workers = Vec<(Route, Worker)>;

fn build(
    parts: &EngineParts,
    sources: Vec<SourceLink>,
    publisher: mpsc::UnboundedSender<publisher::PublishOrder>,
) -> Result<(Arc<Engine>, Workers), StartError> {
    let exchange = parts.exchange.as_ref();
    let mut names = Names {
        breakers: exchange.map(|exchange| exchange.names.clone()).unwrap_or_default(),
        bulkheads: vec![],
    };
    let config = scheduler_config(&parts.declared(), &mut names)?;
    let mut links = vec![];
    let mut receivers = vec![];
    for route in &parts.routes {
        let mut of_route = vec![];
        for _ in 0..parts.limits.workers.max(1) {
            let (commands, receiver) = mpsc::unbounded_channel();
            let load = Arc::new(AtomicUsize::new(0));
            receivers.push((route.clone(), receiver, Arc::clone(&load)));
            of_route.push(WorkerLink { commands, load });
        }
        links.push(of_route);
    }
    let metrics = parts.routes.iter().map(|route| {
        let metrics = HandlerMetrics::new(route.topics.text(), route.policy.slow_after);
        Arc::new(metrics)
    });
    let engine = Arc::new(Engine {
        clock: parts.clock.clone(),
        group: Arc::from(parts.settings.group.as_str()),
        instance: Arc::from(parts.settings.instance.as_str()),
        delivery: parts.delivery,
        routes: parts.routes.clone(),
        routing: Arc::clone(&parts.routing),
        metrics: metrics.collect(),
        breakers: names.breakers,
        setup: Arc::clone(&parts.setup),
        notices: Notices::new(),
        exchange: parts.exchange.clone(),
        workers: links,
        publisher: PublisherLink::new(publisher),
        transaction: TransactionLink::new(parts.delivery != Delivery::ExactlyOnce),
        key_holds: held_topics(parts)?,
        offset_store: parts.offset_store.clone(),
        reply_rules: reply_rules(&parts.routes)?,
        timer: Notify::new(),
        ended: Notify::new(),
        inbox: ResultInbox::default(),
        state: Mutex::new(State::new(Scheduler::new(config, parts.limits.seed)?, sources.len())),
        sources,
    });
    let workers = receivers.into_iter().map(|(route, commands, load)| {
        let report: Arc<dyn Report> = Arc::clone(&engine) as Arc<dyn Report>;
        (route, Worker { commands, report, load })
    });
    let workers = workers.collect();
    Ok((engine, workers))
}

/// Access to the held-keys topics, if a handler keeps the order of keys through retries.
fn held_topics(parts: &EngineParts) -> Result<Option<HeldTopics>, StartError> {
    if !parts.routes.iter().any(keeps_key_order) {
        return Ok(None);
    }
    let group = &parts.settings.group;
    let config = parts.settings.consumer(parts.delivery, &held_group(group))?;
    Ok(Some(HeldTopics::new(parts.setup.admin().clone(), group, config)))
}

/// The names of breakers and bulkheads, by their ids.
#[derive(Default)]
struct Names {
    breakers: Vec<String>,
    bulkheads: Vec<String>,
}

fn scheduler_config(parts: &Declared<'_>, names: &mut Names) -> Result<SchedulerConfig, StartError> {
    let handlers: Result<Vec<HandlerConfig>, StartError> = parts
        .routes
        .iter()
        .map(|route| handler_config(parts, names, route))
        .collect();
    let breaker = |name: &String| breaker_config(parts.breakers.get(name).cloned().unwrap_or_default());
    let permits = |name: &String| parts.bulkheads.get(name).copied().unwrap_or(1);
    Ok(SchedulerConfig {
        delivery: match parts.delivery {
            Delivery::AtMostOnce => MachineDelivery::AtMostOnce,
            // Stored offsets are committed as those in Kafka are; only the place is another.
            Delivery::AtLeastOnce | Delivery::StoredOffsets => MachineDelivery::AtLeastOnce,
            Delivery::ExactlyOnce => MachineDelivery::ExactlyOnce,
        },
        handlers: handlers?,
        breakers: names.breakers.iter().map(breaker).collect(),
        bulkheads: names.bulkheads.iter().map(permits).collect(),
        limits: limits(parts.limits.in_flight, parts.limits.buffer),
        partition_percent: parts.limits.partition_percent,
        commit: commit_config(parts),
        drain_ms: millis(parts.limits.drain),
        final_commit_ms: millis(parts.limits.final_commit),
        stall_ms: millis(parts.limits.stalled_after),
        when_stalled: parts.limits.when_stalled,
        crash_limit: parts.limits.crash_limit,
    })
}

fn commit_config(parts: &Declared<'_>) -> CommitConfig {
    let default = CommitConfig::default();
    CommitConfig {
        interval_ms: millis(parts.limits.commit_interval),
        every_records: parts.limits.commit_every,
        metadata_chars: default.metadata_chars - parts.metadata_reserved,
        ..default
    }
}

fn handler_config(parts: &Declared<'_>, names: &mut Names, route: &Route) -> Result<HandlerConfig, StartError> {
    let policy = &route.policy;
    let bulkhead = match &policy.bulkhead {
        Some(name) if !parts.bulkheads.contains_key(name) => {
            let (topics, name) = (route.topics.text().to_owned(), name.clone());
            return Err(StartError::NoBulkhead { topics, name });
        }
        Some(name) => Some(BulkheadId(number(&mut names.bulkheads, name))),
        None => None,
    };
    let breakers = policy
        .breakers
        .iter()
        .map(|name| BreakerId(number(&mut names.breakers, name)));
    Ok(HandlerConfig {
        order: policy.order,
        null_key: policy.null_key,
        limits: limits(policy.in_flight, policy.buffer),
        concurrency: policy.concurrency,
        bulkhead,
        when_full: policy.when_full,
        rate: policy.rate.map(|rate| RateConfig {
            per_second: rate.per_second,
            burst: rate.burst,
        }),
        breakers: breakers.collect(),
        batch: route.handler.is_batch().then(|| BatchConfig {
            size: policy.batch_size,
            linger_ms: millis(policy.batch_linger),
        }),
        retry: retry_policy(policy, route.delivery),
        dlq_limit: policy.dlq_limit.map(|guard| DlqLimitConfig {
            percent: guard.percent,
            window: guard.window,
            consecutive: guard.consecutive,
        }),
    })
}

/// The id of a name; a new one if it has none.
fn number(names: &mut Vec<String>, name: &str) -> u16 {
    let index = names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    });
    u16::try_from(index).unwrap_or(u16::MAX)
}

fn retry_policy(policy: &Policy, delivery: Delivery) -> RetryPolicy {
    let retry = &policy.retry;
    RetryPolicy {
        // At most once, a record is tried once.
        attempts: if delivery == Delivery::AtMostOnce {
            1
        } else {
            retry.attempts
        },
        first_ms: millis(retry.first),
        max_ms: millis(retry.max),
        jitter_percent: retry.jitter_percent,
        elapsed_ms_max: retry.elapsed_max.map(millis),
        delays_ms: retry.topics.iter().copied().map(millis).collect(),
        delayed_attempts: retry.attempts_from_topics,
        ordering: retry.ordering,
        exhausted: match policy.exhausted {
            Exhausted::DeadLetter => MachineExhausted::DeadLetter,
            Exhausted::Skip => MachineExhausted::Skip,
            Exhausted::Stop => MachineExhausted::Stop,
        },
        ..RetryPolicy::default()
    }
}

pub(super) fn breaker_config(breaker: Breaker) -> BreakerConfig {
    BreakerConfig {
        failure_percent: breaker.failure_percent,
        window: breaker.calls,
        calls_min: breaker.calls_min,
        open_ms: millis(breaker.open),
        open_ms_max: millis(breaker.open_max),
        probes: breaker.probes,
        when_open: breaker.when_open,
        attempts: breaker.attempts,
    }
}

fn limits(records: Watermarks, bytes: Watermarks) -> Limits {
    Limits {
        records_high: records.high,
        records_low: records.low,
        bytes_high: bytes.high,
        bytes_low: bytes.low,
    }
}

impl Started {
    /// Aborts all tasks; records that are not committed are read again.
    pub(crate) fn kill(&mut self) {
        self.sources.abort_all();
        self.helpers.iter().for_each(JoinHandle::abort);
    }

    /// Closes everything after the scheduler has: sources leave their groups, the producer is flushed.
    pub(crate) async fn finish(mut self, close_timeout: Duration) {
        while self.sources.join_next().await.is_some() {}
        self.helpers.iter().for_each(JoinHandle::abort);
        self.engine.notices.flush();
        if let Err(error) = self.producer.clone().close_within(close_timeout).await {
            tracing::warn!(event = "producer_close_failed", %error, "the producer did not close in time: {error}");
        }
    }
}

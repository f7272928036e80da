//! From what was declared to running tasks.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize},
    },
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
    sync::{Notify, RwLock, mpsc, watch},
    task::{JoinHandle, JoinSet},
};

use super::{
    Engine, Setup, Shared, SourceLink, State, WorkerLink, bounded,
    held::{self, HeldTopics, held_group},
    keeps_key_order,
    notices::Notices,
    publisher,
    source::{self, Listener, Reads},
    stretches::{self, MARK_CHARS_MAX, Stretches},
    timer, transactions,
};
use crate::{
    clock::{Clock, millis},
    error::StartError,
    handler::States,
    metrics::HandlerMetrics,
    policy::{Breaker, Exhausted, Policy, Watermarks},
    replay::Replay,
    route::{CallLimits, Delivery, Route},
    routing::Routing,
    settings::{Limits as AppLimits, Settings},
    times::TimeMeter,
    topics::{HELD, retry_topic},
    worker::{Report, Worker},
};

/// What an engine is made from: the handlers of one kind of delivery.
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
    pub(crate) shared: Option<Arc<Shared>>,
    /// So many characters of a commit's metadata are not the machine's.
    pub(crate) metadata_reserved: usize,
}

/// The declarations that a machine is configured from.
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

/// Finds contradictions in policies, before anything runs.
pub(crate) fn check_policies(declared: &Declared<'_>) -> Result<(), StartError> {
    Ok(work_config(declared, &mut Names::default())?.check()?)
}

/// An engine and its tasks.
pub(crate) struct Started {
    pub(crate) engine: Arc<Engine>,
    /// They end when the engine has.
    pub(crate) sources: JoinSet<()>,
    /// They end when they are told to.
    pub(crate) helpers: Vec<JoinHandle<()>>,
    pub(crate) producer: Producer,
}

impl Drop for Started {
    fn drop(&mut self) {
        self.helpers.iter().for_each(JoinHandle::abort);
    }
}

pub(crate) async fn start(parts: EngineParts) -> Result<Started, StartError> {
    let producer = Producer::new(parts.settings.producer(parts.delivery)?)?;
    if parts.delivery == Delivery::ExactlyOnce {
        init_transactions(&producer).await?;
    }
    let sources = sources(&parts)?;
    let links = sources.iter().map(|source| {
        let times = TimeMeter::new(&source.group, &source.reads.to_string());
        SourceLink::new(times)
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
        let running = source::run(Arc::clone(&engine), source, consumer, parts.limits.close_timeout);
        started.sources.spawn(engine.watched(running));
    }
    Ok(started)
}

/// CrashCounters an engine that reads a stretch and ends; also from where to where.
pub(crate) async fn replay(
    mut parts: EngineParts,
    topics: &BTreeSet<String>,
    replay: &Replay,
) -> Result<(Started, Stretches), StartError> {
    let producer = Producer::new(parts.settings.producer(parts.delivery)?)?;
    let group = format!("{}.{}", parts.settings.group, replay.name);
    let config = parts.settings.consumer(parts.delivery, &group)?;
    let mut consumer = Consumer::new(config)?;
    let stretches = stretches::find(&mut consumer, &group, topics, replay).await?;
    parts.metadata_reserved = MARK_CHARS_MAX;
    let mut started = start_engine(&parts, producer, vec![SourceLink::default()])?;
    bounded::assign(&started.engine, &mut consumer, &parts.states, &stretches)?;
    let running = bounded::run(Arc::clone(&started.engine), consumer);
    let running = started.engine.watched(running);
    started.sources.spawn(running);
    Ok((started, stretches))
}

/// The engine and all of its tasks but those that read.
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
        };
        let worker = route.handler.run_worker(worker, limits);
        started.helpers.push(tokio::spawn(engine.watched(worker)));
    }
    let publishing = publisher::run(Arc::clone(&engine), producer.clone(), orders);
    started.helpers.push(tokio::spawn(engine.watched(publishing)));
    let telling = Arc::clone(&engine);
    started
        .helpers
        .push(tokio::spawn(async move { telling.notices.run().await }));
    let timer = timer::run(Arc::clone(&engine));
    started.helpers.push(tokio::spawn(engine.watched(timer)));
    let asking = held::run(Arc::clone(&engine));
    started.helpers.push(tokio::spawn(engine.watched(asking)));
    if parts.delivery == Delivery::ExactlyOnce {
        let transactions = transactions::run(Arc::clone(&engine), producer, parts.limits.window);
        started.helpers.push(tokio::spawn(engine.watched(transactions)));
    }
    Ok(started)
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

/// A consumer that is to read.
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

/// The consumers: those of the topics themselves, one for each delay of retry topics, and one for what is held.
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

/// The subscription of a source: names if all are, and otherwise a choice among all topics there are.
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
    publisher: mpsc::UnboundedSender<super::PublishOrder>,
) -> Result<(Arc<Engine>, Workers), StartError> {
    let shared = parts.shared.as_ref();
    let mut names = Names {
        breakers: shared.map(|shared| shared.names.clone()).unwrap_or_default(),
        bulkheads: vec![],
    };
    let config = work_config(&parts.declared(), &mut names)?;
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
        held: held_topics(parts)?,
        held_asked: Notify::new(),
        alone: RwLock::new(()),
        writing: AtomicUsize::new(0),
        written: Notify::new(),
        clock: parts.clock.clone(),
        group: Arc::from(parts.settings.group.as_str()),
        instance: Arc::from(parts.settings.instance.as_str()),
        metrics: metrics.collect(),
        delivery: parts.delivery,
        routes: parts.routes.clone(),
        routing: Arc::clone(&parts.routing),
        breakers: names.breakers,
        setup: Arc::clone(&parts.setup),
        notices: Notices::new(),
        shared: parts.shared.clone(),
        is_transactional: parts.delivery == Delivery::ExactlyOnce,
        workers: links,
        publisher,
        timer: Notify::new(),
        transactions: Notify::new(),
        transaction_open: watch::channel(parts.delivery != Delivery::ExactlyOnce).0,
        ended: Notify::new(),
        state: Mutex::new(State::new(Scheduler::new(config, parts.limits.seed)?, sources.len())),
        sources,
        results: Mutex::default(),
        is_acting: AtomicBool::new(false),
    });
    let workers = receivers.into_iter().map(|(route, commands, load)| {
        let report: Arc<dyn Report> = Arc::clone(&engine) as Arc<dyn Report>;
        (route, Worker { commands, report, load })
    });
    let workers = workers.collect();
    Ok((engine, workers))
}

/// What keys need that stay in order through retries, if any do.
fn held_topics(parts: &EngineParts) -> Result<Option<HeldTopics>, StartError> {
    if !parts.routes.iter().any(keeps_key_order) {
        return Ok(None);
    }
    let group = &parts.settings.group;
    let config = parts.settings.consumer(parts.delivery, &held_group(group))?;
    Ok(Some(HeldTopics::new(parts.setup.admin().clone(), group, config)))
}

/// What the machine knows by number.
#[derive(Default)]
struct Names {
    breakers: Vec<String>,
    bulkheads: Vec<String>,
}

fn work_config(parts: &Declared<'_>, names: &mut Names) -> Result<SchedulerConfig, StartError> {
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
            Delivery::AtLeastOnce => MachineDelivery::AtLeastOnce,
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

/// The number of a name, a new one if it has none.
fn number(names: &mut Vec<String>, name: &str) -> u16 {
    let place = names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    });
    u16::try_from(place).unwrap_or(u16::MAX)
}

fn retry_policy(policy: &Policy, delivery: Delivery) -> RetryPolicy {
    let retry = &policy.retry;
    RetryPolicy {
        // What may happen at most once is tried once.
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
    /// Ends all tasks; what was not committed comes again.
    pub(crate) fn kill(&mut self) {
        self.sources.abort_all();
        self.helpers.iter().for_each(JoinHandle::abort);
    }

    /// Lets all end in peace, once the machine has: sources leave their groups, the producer writes what it has.
    pub(crate) async fn finish(mut self, close_timeout: Duration) {
        while self.sources.join_next().await.is_some() {}
        self.helpers.iter().for_each(JoinHandle::abort);
        self.engine.notices.flush();
        if let Err(error) = self.producer.clone().close_within(close_timeout).await {
            tracing::warn!(event = "producer_close_failed", %error, "the producer did not close in time: {error}");
        }
    }
}

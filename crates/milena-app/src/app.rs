//! Declaration and start of an application.

mod check;
mod stored_offsets;

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use milena_client::{
    admin::Admin,
    auth::TokenProvider,
    config::{ConfigMap, set_token_provider},
};

use crate::{
    background::{Background, BackgroundContext, BackgroundStop, BackgroundTask},
    clock::Clock,
    driver::{self, BreakerExchange, EngineParts, Setup, start},
    error::{AppError, StartError},
    file::AppFile,
    handler::{BatchHandler, Done, Fault, Handler, States},
    offset_store::OffsetStore,
    outside::Programs,
    policy::{Breaker, Policy, RetryOrdering, Watermarks, WhenStalled},
    replay::{Replay, ReplayReport, ReplayUnfinished},
    request_reply::Requester,
    route::{AnyHandler, Delivery, Many, One, Route},
    running::{Running, RunningParts},
    serve::{Endpoint, Paths},
    settings::{Limits, Settings},
    topics::{TopicName, TopicNameError},
    view::View,
};
use check::check_replay;

/// Reaction to records of topics that match a pattern and have no handler of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownTopic {
    /// Skips the records and counts them.
    Skip,
    /// Writes the records to the dead letter topic.
    DeadLetter,
    /// Ends the application with an error that names the topic.
    Stop,
}

/// A consumer application: handlers, their policies, and shared state.
///
/// ```no_run
/// use std::time::Duration;
///
/// use milena_app::prelude::*;
///
/// #[derive(serde::Deserialize)]
/// struct OrderPlaced {
///     id: u64,
/// }
///
/// async fn charge(Event(order): Event<OrderPlaced>, cx: Cx) -> Result<Done, Fault> {
///     println!("order {} for the {}. time", order.id, cx.attempt());
///     Ok(Done::Ok)
/// }
///
/// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
/// let app = App::new("127.0.0.1:9092")
///     .group("billing")
///     .on("orders", charge, |policy| policy.then_topics([Duration::from_secs(60)]));
/// app.run_until(shutdown_signal()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "an application does nothing until it is started"]
pub struct App {
    settings: Settings,
    limits: Limits,
    clock: Clock,
    states: States,
    routes: Vec<Route>,
    pub(crate) breakers: BTreeMap<String, Breaker>,
    bulkheads: BTreeMap<String, u32>,
    offset_store: Option<Arc<dyn OffsetStore>>,
    /// Handlers that are programs.
    pub(crate) programs: Programs,
    pub(crate) background: Vec<Arc<dyn Background>>,
    /// Requesters whose counters are part of the metrics.
    pub(crate) requesters: Vec<Requester>,
    may_topics_be_missing: bool,
    /// Addresses of the HTTP endpoints, with the paths that they serve.
    endpoints: Vec<(String, Paths)>,
    problems: Vec<TopicNameError>,
    /// Policies from a file for topics whose handlers are not registered yet.
    declared: BTreeMap<String, (Policy, Option<Delivery>)>,
}

impl App {
    /// An application on a cluster, given as `host:port`; several addresses are separated by commas.
    pub fn new(bootstrap_servers: impl Into<String>) -> Self {
        let mut common = ConfigMap::new();
        common.set("bootstrap.servers", bootstrap_servers.into());
        Self::with_settings(common)
    }

    /// An application with settings for all of its clients, under Kafka's names.
    pub fn with_settings(common: ConfigMap) -> Self {
        let instance = format!("milena-{}", std::process::id());
        Self {
            settings: Settings {
                common,
                instance,
                ..Settings::default()
            },
            limits: Limits::default(),
            clock: Clock::real(),
            states: States::default(),
            routes: vec![],
            breakers: BTreeMap::new(),
            bulkheads: BTreeMap::new(),
            offset_store: None,
            programs: Programs::default(),
            background: vec![],
            requesters: vec![],
            may_topics_be_missing: false,
            endpoints: vec![],
            problems: vec![],
            declared: BTreeMap::new(),
        }
    }

    pub(crate) fn from_file(file: &AppFile) -> Self {
        let handlers = file.handlers.iter();
        let declared = handlers.map(|handler| (handler.topic.clone(), (handler.policy.clone(), handler.delivery)));
        let app = Self {
            settings: file.settings.clone(),
            limits: file.limits.clone(),
            breakers: file.breakers.clone(),
            bulkheads: file.bulkheads.clone(),
            may_topics_be_missing: file.wait_for_topics,
            declared: declared.collect(),
            ..Self::with_settings(ConfigMap::new())
        };
        let unknown_topics = file.unknown_topics.iter();
        unknown_topics.fold(app, |app, (pattern, unknown)| app.unknown_topics(pattern, *unknown))
    }

    /// Gives tokens for `sasl.mechanism=OAUTHBEARER` from code, to all clients of the application.
    pub fn token_provider(mut self, provider: impl TokenProvider + 'static) -> Self {
        set_token_provider(&mut self.settings.common, Arc::new(provider));
        self
    }

    /// Replaces the bootstrap servers.
    pub fn bootstrap_servers(mut self, bootstrap_servers: impl Into<String>) -> Self {
        self.settings.common.set("bootstrap.servers", bootstrap_servers.into());
        self
    }

    /// Names and patterns of the topics that the handlers read.
    pub fn topics(&self) -> impl Iterator<Item = &str> {
        self.routes.iter().map(|route| route.topics.text())
    }

    /// The consumer group. Retry topics are read by groups of their own: `<group>.retry-1m` and so on.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.settings.group = group.into();
        self
    }

    /// Name of this instance, the process id by default. Dead letters carry it. Exactly-once delivery requires it: it
    /// must be unique per instance and stay the same across restarts.
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.settings.instance = instance.into();
        self.settings.has_instance = true;
        self
    }

    /// Sets a consumer setting, under Kafka's name. The runtime's own defaults are `auto.offset.reset=earliest` and,
    /// with the classic protocol, `partition.assignment.strategy=cooperative-sticky`.
    pub fn consumer(mut self, key: impl Into<String>, value: impl fmt::Display) -> Self {
        self.settings.consumer.set(key, value);
        self
    }

    /// Sets a producer setting, under Kafka's name.
    pub fn producer(mut self, key: impl Into<String>, value: impl fmt::Display) -> Self {
        self.settings.producer.set(key, value);
        self
    }

    /// A value that handlers take as [`State`](crate::handler::State), one per type.
    pub fn state<S: Clone + Send + Sync + 'static>(mut self, state: S) -> Self {
        self.states.insert(state);
        self
    }

    /// Registers a handler for a topic, for a pattern such as `events-{tenant}`, or for a regular expression, which
    /// starts with `^`. [`Cx::capture`](crate::handler::Cx::capture) returns the values of braces and of named groups.
    ///
    /// A name in braces matches letters, digits, dashes and underscores, but not dots: `events-acme.eu` needs
    /// `events-{tenant}.{region}`, or `^events-(?<tenant>.*)$`. A regular expression must match the whole name; the
    /// syntax is that of the `regex` crate. A warning at start names topics that only a dot or the end of an expression
    /// excludes.
    ///
    /// Each topic has one handler: the one that names it, otherwise the first pattern that matches. Patterns do not
    /// match the retry, held-keys and dead letter topics of their topics.
    pub fn on<A: 'static>(self, topics: &str, handler: impl Handler<A>, policy: impl FnOnce(Policy) -> Policy) -> Self {
        self.add(topics, Delivery::AtLeastOnce, Arc::new(One::new(handler)), policy)
    }

    /// Registers a batch handler.
    pub fn batch<A: 'static>(
        self,
        topics: &str,
        handler: impl BatchHandler<A>,
        policy: impl FnOnce(Policy) -> Policy,
    ) -> Self {
        self.add(topics, Delivery::AtLeastOnce, Arc::new(Many::new(handler)), policy)
    }

    /// Registers a handler with at-most-once delivery: the offset is committed before the call. A crash loses the
    /// records in the handler: at most its [`concurrency`](Policy::concurrency), or 256. A shutdown or a rebalance
    /// loses none. Failures are final and not retried.
    pub fn at_most_once<A: 'static>(
        self,
        topics: &str,
        handler: impl Handler<A>,
        policy: impl FnOnce(Policy) -> Policy,
    ) -> Self {
        self.add(topics, Delivery::AtMostOnce, Arc::new(One::new(handler)), policy)
    }

    /// Registers a handler with exactly-once delivery: its output and its offsets are one transaction. Readers of the
    /// output need `isolation.level=read_committed`. Retries and dead letters are part of the transaction. Other
    /// effects, such as database writes or mails, may happen twice. Output waits for the [transaction
    /// window](Self::transaction_window).
    pub fn exactly_once<A: 'static>(
        self,
        topics: &str,
        handler: impl Handler<A>,
        policy: impl FnOnce(Policy) -> Policy,
    ) -> Self {
        self.add(topics, Delivery::ExactlyOnce, Arc::new(One::new(handler)), policy)
    }

    /// Reads all topics that match a pattern and have no handler of their own. Without this, only topics with a handler
    /// are read.
    pub fn unknown_topics(self, pattern: &str, unknown: UnknownTopic) -> Self {
        let handler = move |cx: crate::handler::Cx| async move {
            let no_handler = NoHandler {
                topic: cx.record().topic().to_owned(),
            };
            match unknown {
                UnknownTopic::Skip => Ok(Done::Skip("no handler is registered for its topic".into())),
                UnknownTopic::DeadLetter => Err(Fault::poison(no_handler)),
                UnknownTopic::Stop => Err(Fault::fatal(no_handler)),
            }
        };
        self.on(pattern, handler, |policy| policy)
    }

    pub(crate) fn add(
        mut self,
        topics: &str,
        delivery: Delivery,
        handler: Arc<dyn AnyHandler>,
        policy: impl FnOnce(Policy) -> Policy,
    ) -> Self {
        let (declared, delivery) = match self.declared.remove(topics) {
            Some((declared, stronger)) => (declared, stronger.unwrap_or(delivery)),
            None => (Policy::default(), delivery),
        };
        match TopicName::parse(topics) {
            Ok(topics) => self.routes.push(Route {
                topics,
                policy: policy(declared),
                delivery,
                handler,
            }),
            Err(problem) => self.problems.push(problem),
        }
        self
    }

    /// Declares a circuit breaker that policies can name. All handlers share it. A breaker that is named but not
    /// declared has the default settings.
    pub fn breaker(mut self, name: impl Into<String>, breaker: Breaker) -> Self {
        self.breakers.insert(name.into(), breaker);
        self
    }

    /// Declares a bulkhead that policies can name: a bound of concurrent calls. Handlers of the same delivery guarantee
    /// share the permits; each guarantee has its own.
    pub fn bulkhead(mut self, name: impl Into<String>, permits: u32) -> Self {
        self.bulkheads.insert(name.into(), permits);
        self
    }

    /// Bound of records in flight of all handlers: 10,000 by default; fetching resumes at 7,000.
    pub fn in_flight(mut self, records: u64) -> Self {
        self.limits.in_flight = Watermarks::high(records);
        self
    }

    /// Bound of bytes in flight of all handlers: 64 MiB by default; fetching resumes at 48 MiB.
    pub fn buffer(mut self, bytes: u64) -> Self {
        self.limits.buffer = Watermarks::high(bytes);
        self
    }

    /// Maximum time between a finished record and its commit: 1 s by default. A crash repeats the records of that time.
    /// Offsets are also committed when the application is idle, when partitions are revoked, and at shutdown.
    pub fn commit_interval(mut self, time: Duration) -> Self {
        self.limits.commit_interval = time;
        self
    }

    /// Commits after this number of records, in addition to the interval. 1 commits after each record.
    pub fn commit_every(mut self, records: u64) -> Self {
        self.limits.commit_every = Some(records);
        self
    }

    /// Time for which a transaction collects results: 100 ms by default. A longer window costs less and delays results.
    pub fn transaction_window(mut self, time: Duration) -> Self {
        self.limits.window = time;
        self
    }

    /// Time for which handlers may continue when their partition is revoked, and at shutdown: 30 s by default. Then
    /// their calls are dropped, and the records are delivered again.
    pub fn drain(mut self, time: Duration) -> Self {
        self.limits.drain = time;
        self
    }

    /// Maximum duration of a shutdown: 60 s by default. Then the application exits regardless, and uncommitted records
    /// are delivered again.
    pub fn shutdown_timeout(mut self, time: Duration) -> Self {
        self.limits.shutdown = time;
        self
    }

    /// Time without progress after which a partition with records is logged as stalled, with the reason: 60 s by
    /// default.
    pub fn stalled_after(mut self, time: Duration) -> Self {
        self.limits.stalled_after = time;
        self
    }

    /// Reaction to a partition that is stalled because a handler does not return. By default it is only logged.
    /// [`WhenStalled::Retry`] cancels the call and retries as the policy says; its effects may be incomplete, and
    /// code that blocks its thread cannot be cancelled. [`WhenStalled::Stop`] cancels the call and stops the partition.
    /// [`WhenStalled::End`] ends the application with an error that names the record.
    ///
    /// A partition that has records but delivers none for no known reason is fetched again from its position with
    /// `Retry`, and ends the application with `End`.
    pub fn when_stalled(mut self, action: WhenStalled) -> Self {
        self.limits.when_stalled = action;
        self
    }

    /// Number of process crashes after which the record in the handler is quarantined: it becomes a dead letter, or
    /// whatever the policy says. 3 by default, from 2 to 100; `None` disables the crash guard.
    ///
    /// It costs one commit per partition when its first record arrives. After a crash, the following records are handed
    /// out in small batches. After the last but one crash they are handed out one at a time, with a commit before each,
    /// until that offset is passed. A record that was in its handler by chance at every kill is quarantined too. The
    /// guard applies to at-least-once handlers.
    pub fn crash_limit(mut self, crashes: impl Into<Option<u32>>) -> Self {
        self.limits.crash_limit = crashes.into();
        self
    }

    /// Number of consumers: 1 by default. More help if one connection per broker is the bottleneck.
    pub fn consumers(mut self, count: usize) -> Self {
        self.limits.consumers = count;
        self
    }

    /// Number of workers per handler: the number of processors by default.
    pub fn workers(mut self, count: usize) -> Self {
        self.limits.workers = count;
        self
    }

    /// Starts although topics are missing, and reads them when they appear. By default a missing topic is an error.
    pub fn wait_for_topics(mut self) -> Self {
        self.may_topics_be_missing = true;
        self
    }

    /// Serves `/metrics`, `/healthz`, `/readyz` and `/status` over HTTP on this address, such as `0.0.0.0:9000`; by
    /// default nothing is served. With port 0 the system chooses the port: see
    /// [`Running::served_at`](crate::Running::served_at). There is no authentication: do not expose the port.
    pub fn serve(self, address: impl Into<String>) -> Self {
        self.endpoint(address.into(), Paths::All)
    }

    /// Serves only `/metrics`, in Prometheus' text format, on this address, such as `0.0.0.0:9464`. Otherwise like
    /// [`serve`](Self::serve); an application can have both. See
    /// [`Running::metrics_at`](crate::Running::metrics_at) for the bound address.
    pub fn metrics_endpoint(self, address: impl Into<String>) -> Self {
        self.endpoint(address.into(), Paths::Metrics)
    }

    /// Replaces an earlier endpoint with the same paths.
    fn endpoint(mut self, address: String, paths: Paths) -> Self {
        self.endpoints.retain(|(_, existing)| *existing != paths);
        self.endpoints.push((address, paths));
        self
    }

    pub(crate) fn background_context(&self, stop: BackgroundStop) -> BackgroundContext {
        BackgroundContext {
            group: self.settings.group.clone(),
            instance: self.settings.instance.clone(),
            clock: self.clock.clone(),
            common: self.settings.common.clone(),
            producer: self.settings.producer.clone(),
            stop,
        }
    }

    /// Replaces the clock, for tests.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Starts the application in the background. Topics are checked, and missing retry and dead letter topics created,
    /// before the first poll.
    pub async fn start(mut self) -> Result<Running, StartError> {
        self.check()?;
        self.check_store().await?;
        // Programs start first, so that a failing one is reported before partitions are assigned.
        self.programs.start().await?;
        let mut endpoints = vec![];
        for (address, paths) in &self.endpoints {
            endpoints.push(Endpoint::bind(address, *paths).await?);
        }
        let setup = self.set_up().await?;
        self.warn_of_returns();
        self.check_background().await?;
        let mut engines = vec![];
        let all = self.take_routes();
        let exchange = BreakerExchange::new(&all, &self.breakers).map(Arc::new);
        for (delivery, routes) in all {
            let parts = EngineParts {
                exchange: exchange.clone(),
                ..self.parts(delivery, routes, &setup)
            };
            engines.push(start(parts).await?);
        }
        let tasks = self.background.iter().map(Arc::clone);
        let background: Vec<_> = tasks.map(|task| BackgroundTask::spawn(task, &self)).collect();
        let views = background.iter().map(|task| task.view.clone()).collect();
        let view = View::new(&engines, views, self.requesters);
        let parts = RunningParts {
            engines,
            background,
            limits: self.limits,
            programs: self.programs,
            setup,
            view,
            endpoints,
        };
        Ok(Running::new(parts))
    }

    /// Handles a range of the topics again, and returns at its end. The group's own offsets do not change. Failed
    /// records go to retry and dead letter topics as usual; the running application handles the retry topics.
    ///
    /// A partition that cannot continue ends alone, and the others continue. Reasons are [`Fault::fatal`],
    /// [`Exhausted::Stop`](crate::policy::Exhausted), the [DLQ limit](Policy::dlq_limit), a
    /// [stalled](Self::when_stalled) handler, and unreadable records. Then the result is [`RunError::Unfinished`], with
    /// the offset that each partition has reached. The same replay continues there when it is started again.
    pub async fn replay(mut self, replay: Replay) -> Result<ReplayReport, RunError> {
        self.check()?;
        self.programs.start().await.map_err(StartError::from)?;
        let replayed = self.replay_all(replay).await;
        self.programs.begin_stop();
        self.programs.stop().await;
        replayed
    }

    async fn replay_all(&mut self, replay: Replay) -> Result<ReplayReport, RunError> {
        let began = Instant::now();
        let setup = self.set_up().await?;
        let mut report = ReplayReport::default();
        for (delivery, routes) in self.take_routes() {
            check_replay(delivery, &routes)?;
            let topics = setup.matching(delivery).await?;
            let (started, ranges) = driver::replay(self.parts(delivery, routes, &setup), &topics, &replay).await?;
            let engine = Arc::clone(&started.engine);
            engine.ended().await;
            started.finish(self.limits.close_timeout).await;
            if let Some(failure) = engine.failure() {
                return Err(failure.into());
            }
            report.counts.extend(engine.counts());
            let ranges = ranges
                .into_iter()
                .map(|(partition, range)| (partition, (range.begin, range.end)));
            report.partitions.extend(ranges);
            report.unfinished.extend(engine.unfinished());
        }
        report.took = began.elapsed();
        if report.unfinished.is_empty() {
            Ok(report)
        } else {
            Err(ReplayUnfinished { report }.into())
        }
    }

    fn warn_of_returns(&self) {
        let returns = |route: &&Route| route.policy.retry.ordering == RetryOrdering::Return;
        for route in self.routes.iter().filter(returns) {
            let topics = route.topics.text();
            tracing::warn!(
                event = "records_return_to_topic",
                topics,
                "failed records return to their own topic after each delay; every group that reads the topic sees them again"
            );
        }
    }

    async fn set_up(&self) -> Result<Arc<Setup>, StartError> {
        self.check()?;
        let admin = Admin::new(self.settings.common.clone())?;
        let setup = Arc::new(Setup::new(admin, &self.routes));
        setup.check(self.may_topics_be_missing).await?;
        Ok(setup)
    }

    fn take_routes(&mut self) -> BTreeMap<Delivery, Vec<Route>> {
        let mut by_delivery: BTreeMap<Delivery, Vec<Route>> = BTreeMap::new();
        for route in std::mem::take(&mut self.routes) {
            by_delivery.entry(route.delivery).or_default().push(route);
        }
        by_delivery
    }

    fn parts(&self, delivery: Delivery, routes: Vec<Route>, setup: &Arc<Setup>) -> EngineParts {
        EngineParts {
            delivery,
            routes,
            settings: self.settings.clone(),
            limits: self.limits.clone(),
            states: self.states.clone(),
            clock: self.clock.clone(),
            breakers: self.breakers.clone(),
            bulkheads: self.bulkheads.clone(),
            setup: Arc::clone(setup),
            routing: Arc::clone(setup.routing()),
            exchange: None,
            metadata_reserved: 0,
            offset_store: self.store_of(delivery),
        }
    }

    /// Runs until `stop` is ready, then shuts down gracefully. Returns early if the application cannot continue.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<(), RunError> {
        let running = self.start().await?;
        tokio::select! {
            () = stop => {}
            () = running.ended() => {}
        }
        running.stop().await?;
        Ok(())
    }
}

/// Error of starting, running or stopping an application. `Debug` prints the text of `Display`.
#[derive(thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    App(#[from] AppError),
    #[error(transparent)]
    Unfinished(#[from] ReplayUnfinished),
}

impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// No handler is registered for a topic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no handler is registered for topic {topic}")]
pub struct NoHandler {
    pub topic: String,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App")
            .field("group", &self.settings.group)
            .field("routes", &self.routes)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// Returns on SIGINT (Ctrl-C) and, on Unix, SIGTERM.
pub async fn shutdown_signal() {
    let interrupted = async {
        // Without a signal handler this never returns.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut terminated) => drop(terminated.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminated = std::future::pending::<()>();
    tokio::select! {
        () = interrupted => {}
        () = terminated => {}
    }
}

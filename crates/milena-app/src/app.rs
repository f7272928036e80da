//! Declaring an application.

mod check;

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use milena_client::{admin::Admin, config::ConfigMap};

use crate::{
    clock::Clock,
    driver::{self, EngineParts, Setup, Shared, start},
    error::{AppError, StartError},
    file::AppFile,
    handler::{BatchHandler, Done, Fault, Handler, States},
    outside::Programs,
    policy::{Breaker, Policy, RetryOrdering, Water, WhenStalled},
    replay::{Replay, ReplayReport, ReplayUnfinished},
    route::{AnyHandler, Delivery, Many, One, Route},
    running::Running,
    serve,
    settings::{Limits, Settings},
    topics::{TopicName, TopicNameError},
};

/// What to do with records of topics that match a pattern and have no handler of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unknown {
    /// They count as skipped.
    Skip,
    /// They go to the dead letters.
    DeadLetter,
    /// The application ends with an error that names the topic.
    Stop,
}

/// An application that reads events: handlers, their policies, and what they share.
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
    /// Handlers that are programs.
    pub(crate) programs: Programs,
    may_topics_be_missing: bool,
    /// The address to serve metrics and health on.
    serve: Option<String>,
    problems: Vec<TopicNameError>,
    /// What a file has declared for topics whose handlers are not here yet.
    declared: BTreeMap<String, (Policy, Option<Delivery>)>,
}

impl App {
    /// An application on a cluster: `host:port`, several separated by commas.
    pub fn new(bootstrap_servers: impl Into<String>) -> Self {
        let mut common = ConfigMap::new();
        common.set("bootstrap.servers", bootstrap_servers.into());
        Self::with_settings(common)
    }

    /// The same with settings for all of its clients, under Kafka's names.
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
            programs: Programs::default(),
            may_topics_be_missing: false,
            serve: None,
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
        let otherwise = file.otherwise.iter();
        otherwise.fold(app, |app, (pattern, unknown)| app.otherwise(pattern, *unknown))
    }

    /// The same application on another cluster.
    pub fn bootstrap_servers(mut self, bootstrap_servers: impl Into<String>) -> Self {
        self.settings.common.set("bootstrap.servers", bootstrap_servers.into());
        self
    }

    /// The names and patterns of the topics that its handlers read.
    pub fn topics(&self) -> impl Iterator<Item = &str> {
        self.routes.iter().map(|route| route.topics.text())
    }

    /// The group that reads. Its retry topics are read by groups of their own: `<group>.retry-1m` and so on.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.settings.group = group.into();
        self
    }

    /// Which instance of the application this is. Dead letters name it, and exactly-once delivery needs it: the same when
    /// this instance starts again, another one for each. By default it is the number of the process.
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.settings.instance = instance.into();
        self.settings.has_instance = true;
        self
    }

    /// Sets a setting of its consumers, under Kafka's name. The runtime's own defaults are `auto.offset.reset=earliest`
    /// and, with the classic protocol, `partition.assignment.strategy=cooperative-sticky`.
    pub fn consumer(mut self, key: impl Into<String>, value: impl fmt::Display) -> Self {
        self.settings.consumer.set(key, value);
        self
    }

    /// Sets a setting of its producers, under Kafka's name.
    pub fn producer(mut self, key: impl Into<String>, value: impl fmt::Display) -> Self {
        self.settings.producer.set(key, value);
        self
    }

    /// Something that handlers can ask for with [`State`](crate::handler::State), one of each type.
    pub fn state<S: Clone + Send + Sync + 'static>(mut self, state: S) -> Self {
        self.states.insert(state);
        self
    }

    /// A handler for a topic, or for all topics that match a pattern such as `events-{tenant}`, or a regular expression,
    /// which begins with `^`. The values of braces and of named groups come from
    /// [`Cx::capture`](crate::handler::Cx::capture).
    ///
    /// A name in braces stands for letters, digits, dashes and underscores, and not for dots: `events-acme.eu` needs
    /// `events-{tenant}.{region}`, or `^events-(?<tenant>.*)$`. An expression must match the whole name, in the syntax of the
    /// `regex` crate. A warning at the start names topics that only a dot or the end of an expression keeps out.
    ///
    /// Each topic has one handler: the one that names it, otherwise the first declared pattern that matches. No pattern
    /// reads the retry, held and dead letter topics of the topics that it matches.
    pub fn on<A: 'static>(self, topics: &str, handler: impl Handler<A>, policy: impl FnOnce(Policy) -> Policy) -> Self {
        self.add(topics, Delivery::AtLeastOnce, Arc::new(One::new(handler)), policy)
    }

    /// A handler of many records at once.
    pub fn batch<A: 'static>(
        self,
        topics: &str,
        handler: impl BatchHandler<A>,
        policy: impl FnOnce(Policy) -> Policy,
    ) -> Self {
        self.add(topics, Delivery::AtLeastOnce, Arc::new(Many::new(handler)), policy)
    }

    /// A handler that sees each record at most once: its offset is committed before. What a crash interrupts is lost: at most
    /// as many records as its [`concurrency`](Policy::concurrency), or 256. An end in time, or a partition that is given
    /// back, loses none. What fails is not tried again, and does what the policy says of a failure for good.
    pub fn at_most_once<A: 'static>(
        self,
        topics: &str,
        handler: impl Handler<A>,
        policy: impl FnOnce(Policy) -> Policy,
    ) -> Self {
        self.add(topics, Delivery::AtMostOnce, Arc::new(One::new(handler)), policy)
    }

    /// A handler whose output and progress are one transaction: what it emits counts exactly once, if it is read with
    /// `isolation.level=read_committed`. Retries and dead letters are part of it. What the handler does elsewhere, in a
    /// database or by mail, may happen again. It costs some speed, and results wait for the
    /// [window](Self::transaction_window).
    pub fn exactly_once<A: 'static>(
        self,
        topics: &str,
        handler: impl Handler<A>,
        policy: impl FnOnce(Policy) -> Policy,
    ) -> Self {
        self.add(topics, Delivery::ExactlyOnce, Arc::new(One::new(handler)), policy)
    }

    /// What to do with records of topics that match a pattern and have no handler of their own. Without this, only topics
    /// that have a handler are read.
    pub fn otherwise(self, pattern: &str, unknown: Unknown) -> Self {
        let handler = move |cx: crate::handler::Cx| async move {
            let no_handler = NoHandler {
                topic: cx.record().topic().to_owned(),
            };
            match unknown {
                Unknown::Skip => Ok(Done::Skip("no handler reads its topic".into())),
                Unknown::DeadLetter => Err(Fault::poison(no_handler)),
                Unknown::Stop => Err(Fault::fatal(no_handler)),
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

    /// A circuit breaker that handlers can name in their policies: one for all of them, whatever their delivery. One that is
    /// named and not declared has the defaults.
    pub fn breaker(mut self, name: impl Into<String>, breaker: Breaker) -> Self {
        self.breakers.insert(name.into(), breaker);
        self
    }

    /// So many calls at once, of all handlers together that name it in their policies and have the same delivery: those at
    /// most, at least and exactly once have so many each.
    pub fn bulkhead(mut self, name: impl Into<String>, permits: u32) -> Self {
        self.bulkheads.insert(name.into(), permits);
        self
    }

    /// How many records all handlers together may have fetched and not done: 10,000, and fetching goes on at 7,000.
    pub fn in_flight(mut self, records: u64) -> Self {
        self.limits.in_flight = Water::high(records);
        self
    }

    /// The same in bytes: 64 MiB, and fetching goes on at 48 MiB.
    pub fn buffer(mut self, bytes: u64) -> Self {
        self.limits.buffer = Water::high(bytes);
        self
    }

    /// How long something done may stay uncommitted: 1 s. After a crash that much comes again. Offsets are also committed
    /// when there is nothing to do, when partitions go, and at the end.
    pub fn commit_interval(mut self, time: Duration) -> Self {
        self.limits.commit_interval = time;
        self
    }

    /// Commits as soon as so many records are done, not only after the interval; 1 is after each record.
    pub fn commit_every(mut self, records: u64) -> Self {
        self.limits.commit_every = Some(records);
        self
    }

    /// How long a transaction collects what is done: 100 ms. Longer ones cost less and make results wait longer.
    pub fn transaction_window(mut self, time: Duration) -> Self {
        self.limits.window = time;
        self
    }

    /// How long handlers may go on when their partition is revoked, or at the end: 30 s. Then they are dropped, and what
    /// they had comes again.
    pub fn drain(mut self, time: Duration) -> Self {
        self.limits.drain = time;
        self
    }

    /// How long the end may take in all: 60 s. Then it just ends, and what was not committed comes again.
    pub fn shutdown_timeout(mut self, time: Duration) -> Self {
        self.limits.shutdown = time;
        self
    }

    /// After how long a partition that has work and does not move is told of, with the reason: 60 s.
    pub fn stalled_after(mut self, time: Duration) -> Self {
        self.limits.stalled_after = time;
        self
    }

    /// What is done about a partition that stands still because a handler does not return: by default it is only told of.
    /// [`WhenStalled::Retry`] cancels the call, which is a failure that is tried again as the policy says; what it was
    /// doing may be half done, and code that blocks its thread cannot be cancelled. [`WhenStalled::Stop`] cancels it and
    /// leaves the partition alone until somebody looks. [`WhenStalled::End`] ends the application with an error that
    /// names the record. A partition that has records and delivers none, though nothing holds it back, is read anew from
    /// where it stands by the first, and ends the application by the last.
    pub fn when_stalled(mut self, action: WhenStalled) -> Self {
        self.limits.when_stalled = action;
        self
    }

    /// After how many crashes of the whole process, by an abort or for want of memory, the record that its handler had is
    /// not handled again but becomes a dead letter, or what the policy has instead: 3. From 2 to 100; `None` counts none.
    ///
    /// It costs a commit for each partition when its first record comes. After a crash, what follows is handed out some
    /// hundred at a time; after the last but one, record by record, with a commit before each, until that place is passed.
    /// A record that only happened to be the one in its handler when somebody killed the process, having done so at the
    /// same place before, becomes a dead letter too. At-least-once handlers have this: at most once nothing comes again,
    /// and exactly once is not counted.
    pub fn crash_limit(mut self, crashes: impl Into<Option<u32>>) -> Self {
        self.limits.crash_limit = crashes.into();
        self
    }

    /// How many consumers read the topics: 1. More can help where one connection to each broker is too slow.
    pub fn consumers(mut self, count: usize) -> Self {
        self.limits.consumers = count;
        self
    }

    /// How many tasks run the calls of each handler: as many as there are processors.
    pub fn lanes(mut self, count: usize) -> Self {
        self.limits.lanes = count;
        self
    }

    /// Starts although topics are missing, and reads them when they appear. By default that is an error.
    pub fn wait_for_topics(mut self) -> Self {
        self.may_topics_be_missing = true;
        self
    }

    /// Serves `/metrics`, `/healthz`, `/readyz` and `/status` over HTTP on this address while it runs, such as
    /// `0.0.0.0:9000`; by default nothing is served. With port 0 the system chooses one:
    /// [`Running::served_at`](crate::Running::served_at) tells which. There is no authentication: keep it inside.
    pub fn serve(mut self, address: impl Into<String>) -> Self {
        self.serve = Some(address.into());
        self
    }

    /// Another clock, for tests.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Starts it in the background. Topics are looked at, and those for letters made, before anything is read.
    pub async fn start(mut self) -> Result<Running, StartError> {
        self.check()?;
        // A program that does not start is known before a partition is assigned.
        self.programs.start().await?;
        let endpoint = match &self.serve {
            Some(address) => Some(serve::bind(address).await?),
            None => None,
        };
        let setup = self.set_up().await?;
        self.warn_of_returns();
        let mut engines = vec![];
        let all = self.take_routes();
        let shared = Shared::new(&all, &self.breakers).map(Arc::new);
        for (delivery, routes) in all {
            let parts = EngineParts {
                shared: shared.clone(),
                ..self.parts(delivery, routes, &setup)
            };
            engines.push(start(parts).await?);
        }
        Ok(Running::new(engines, self.limits, self.programs, setup, endpoint))
    }

    /// Handles a stretch of its topics once more, and ends when that is done. The group itself is not touched. What fails
    /// goes to retry topics and dead letters as ever; what comes to retry topics is left to the application that runs.
    ///
    /// A partition that cannot go on, because of [`Fault::fatal`], [`Exhausted::Stop`](crate::policy::Exhausted), a
    /// [flood](Policy::flood_guard), a handler that is [stalled](Self::when_stalled), or records that cannot be read, ends
    /// for itself; the others are read to their ends. Then this is [`RunError::Unfinished`], which says how far each is,
    /// and the same replay started again goes on there.
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
            if delivery == Delivery::ExactlyOnce {
                let topics = routes
                    .iter()
                    .map(|route| route.topics.text())
                    .collect::<Vec<_>>()
                    .join(", ");
                return Err(StartError::ReplayExactlyOnce { topics }.into());
            }
            let topics = setup.matching(delivery).await?;
            let (started, stretches) = driver::replay(self.parts(delivery, routes, &setup), &topics, &replay).await?;
            let engine = Arc::clone(&started.engine);
            engine.ended().await;
            started.finish(self.limits.close_timeout).await;
            if let Some(failure) = engine.failure() {
                return Err(failure.into());
            }
            report.counts.extend(engine.counts());
            let ranges = stretches
                .into_iter()
                .map(|(partition, stretch)| (partition, (stretch.begin, stretch.end)));
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
                topics,
                "what fails goes back to its own topic after its delay: every group that reads it sees it again"
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
            shared: None,
            metadata_reserved: 0,
        }
    }

    /// Runs it until `stop` is ready, then ends in peace; or until it cannot go on.
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

/// Why an application did not run, or did not end as it should. `Debug` is the text of `Display`.
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

/// A topic that has no handler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no handler reads the topic {topic}")]
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

/// Returns when the process is asked to end: by Ctrl-C, or on Unix by SIGTERM.
pub async fn shutdown_signal() {
    let interrupted = async {
        // Without a way to hear of it nobody can end us so.
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

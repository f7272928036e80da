//! Handlers of sagas in an application.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use milena_app::{
    App,
    handler::{Cx, Done, Fault},
    policy::Policy,
};
use tokio::sync::Notify;

use super::{
    Participant, ParticipantError, SagaCounts,
    call::TransactionHolder,
    change::{ChangeError, SagaChange, Trigger},
    event::SagaEvent,
    metrics::{Happening, SagaMetrics},
    store::SagaKey,
    timers::SagaTimers,
};
use crate::{
    Database,
    once::{begin_on, fault, note_event},
};

/// Attempts against other transactions that change the same saga, before the record counts as failed.
const ATTEMPTS_MAX: u32 = 16;
/// Age at which ended sagas are deleted.
const KEEP_ENDED: Duration = Duration::from_secs(30 * 24 * 3600);
/// Time between two looks for timers and commands that other processes have set.
const POLL: Duration = Duration::from_secs(1);

/// The sagas of an application: its participants, and the database with their state.
///
/// ```
/// # use milena_app::App;
/// # use milena_sql::{Database, saga::{AppSagas as _, Participant, ParticipantError, Sagas}};
/// # fn demo(database: Database, inventory: Participant) -> Result<App, ParticipantError> {
/// let app = App::new("127.0.0.1:9092")
///     .group("inventory")
///     .sagas(Sagas::new(database).participant(inventory))?;
/// # Ok(app)
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "sagas run when they are added to an application"]
pub struct Sagas {
    pub(crate) database: Database,
    pub(crate) participants: Vec<Participant>,
    policy: fn(Policy) -> Policy,
    pub(crate) keep_ended: Option<Duration>,
    pub(crate) poll_interval: Duration,
    pub(crate) metrics: Arc<SagaMetrics>,
}

impl Sagas {
    pub fn new(database: impl Into<Database>) -> Self {
        Self {
            database: database.into(),
            participants: vec![],
            policy: |policy| policy,
            keep_ended: Some(KEEP_ENDED),
            poll_interval: POLL,
            metrics: Arc::default(),
        }
    }

    /// Adds a participant: one for each saga type that the service takes part in.
    pub fn participant(mut self, participant: Participant) -> Self {
        self.participants.push(participant);
        self
    }

    /// The policy of the handlers: retries, timeout, dead letters.
    pub fn policy(mut self, policy: fn(Policy) -> Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Age at which ended sagas are deleted: 30 days by default; `None` keeps them. It must be longer than records can be
    /// delayed: the row of a cancelled saga refuses a late action.
    pub fn keep_ended(mut self, age: impl Into<Option<Duration>>) -> Self {
        self.keep_ended = age.into();
        self
    }

    /// Time between two looks for timers and commands that other processes have stored: 1 s by default.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }

    /// Counters by saga type and participant.
    pub fn counts(&self) -> BTreeMap<(String, String), SagaCounts> {
        self.metrics.counts()
    }

    fn check(&self) -> Result<(), ParticipantError> {
        if self.participants.is_empty() {
            return Err(ParticipantError::None);
        }
        let mut names = BTreeSet::new();
        for participant in &self.participants {
            participant.check()?;
            let saga_type = participant.definition().name();
            if !names.insert((saga_type, &participant.name)) {
                return Err(ParticipantError::Twice {
                    saga_type: saga_type.to_owned(),
                    participant: participant.name.clone(),
                });
            }
        }
        Ok(())
    }
}

/// Adds sagas to an application.
pub trait AppSagas: Sized {
    /// Registers a handler for each topic that the participants read, and the timers of sagas that they own.
    fn sagas(self, sagas: Sagas) -> Result<Self, ParticipantError>;
}

impl AppSagas for App {
    fn sagas(mut self, sagas: Sagas) -> Result<Self, ParticipantError> {
        sagas.check()?;
        let topics: BTreeSet<String> = sagas
            .participants
            .iter()
            .flat_map(|participant| participant.definition().topics_read_by(&participant.name))
            .map(str::to_owned)
            .collect();
        let policy = sagas.policy;
        let driver = Arc::new(SagaDriver {
            sagas,
            wakeup: Notify::new(),
        });
        for topic in topics {
            let driver = Arc::clone(&driver);
            let handler = move |cx: Cx| {
                let driver = Arc::clone(&driver);
                async move { driver.handle(&cx).await }
            };
            self = self.on(&topic, handler, policy);
        }
        Ok(self.background(SagaTimers::new(driver)))
    }
}

/// Runs the sagas of an application.
pub(crate) struct SagaDriver {
    pub(crate) sagas: Sagas,
    /// Tells the timers that a saga has changed.
    pub(crate) wakeup: Notify,
}

/// Changes of one transaction, by saga.
type Changes = Vec<(SagaKey, Vec<Happening>)>;

impl SagaDriver {
    /// Handles a record, if it is an event of a saga.
    async fn handle(&self, cx: &Cx) -> Result<Done, Fault> {
        let mut concerned = vec![];
        for participant in &self.sagas.participants {
            let Some(event) = SagaEvent::read(&participant.saga, cx) else {
                continue;
            };
            if participant.reacts_to(&event.event_type) {
                let saga_id = participant.saga.id_of(cx.record().as_ref()).map_err(Fault::poison)?;
                concerned.push((participant, event, saga_id));
            }
        }
        if concerned.is_empty() {
            return Ok(Done::Skip("not an event of a saga of this service".into()));
        }
        let mut attempts = 1;
        loop {
            match self.handle_once(cx, &concerned).await {
                Ok(done) => return Ok(done),
                Err(ChangeError::Fault(fault)) => return Err(fault),
                Err(ChangeError::Conflict(conflict)) if attempts == ATTEMPTS_MAX => return Err(Fault::retry(conflict)),
                Err(ChangeError::Conflict(_)) => attempts += 1,
            }
        }
    }

    async fn handle_once(&self, cx: &Cx, concerned: &[(&Participant, SagaEvent, String)]) -> Result<Done, ChangeError> {
        let mut transaction = begin_on(&self.sagas.database).await.map_err(fault)?;
        if !note_event(transaction.connection(), cx).await? {
            return Ok(Done::Duplicate);
        }
        let mut holder = TransactionHolder::new(transaction);
        let now_ms = cx.clock().now_ms();
        let mut changes = vec![];
        for (participant, event, saga_id) in concerned {
            let trigger = Trigger::Event { event, cx };
            changes.push(SagaChange::run(participant, &mut holder, trigger, saga_id, now_ms).await?);
        }
        self.commit(holder, changes).await?;
        Ok(Done::Ok)
    }

    /// Commits a transaction, then counts its changes. Whether an interrupted commit has happened is found out by the next
    /// attempt: the event is a duplicate then, and a timer is not due.
    pub(crate) async fn commit(&self, holder: TransactionHolder, changes: Changes) -> Result<(), Fault> {
        holder.into_inner()?.commit().await.map_err(fault)?;
        for (key, happenings) in &changes {
            self.sagas.metrics.committed(key, happenings);
        }
        self.wakeup.notify_one();
        Ok(())
    }
}

impl fmt::Debug for SagaDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SagaDriver")
            .field("sagas", &self.sagas)
            .finish_non_exhaustive()
    }
}

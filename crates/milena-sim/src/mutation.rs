//! Known bugs, put back in on purpose: a simulation that does not find them proves nothing.

/// A bug in the broker or the application around the machines. The machines themselves have no switch for any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// Responses are sent before their records are safe from a power cut.
    ReplyBeforeDurable,
    /// A commit of a member that is no longer in the group is accepted.
    AcceptStaleCommits,
    /// A process whose instance id was taken over gets no error.
    OldStaticMembersSucceed,
    /// Heartbeats get a response but do not renew the session, so that live members expire.
    ForgetHeartbeats,
    /// A partition counts as released when its owner was told to revoke it, not when it has.
    ReleaseBeforeRevoked,
    /// The last record of a batch is not appended.
    LoseLastRecord,
    /// Offsets of open transactions are lost when the broker starts.
    LosePendingOffsets,
    /// Decisions from before a crash of the broker are not carried out after its start.
    ForgetMarkers,
    /// A fenced producer goes on writing.
    OldProducersSucceed,
    /// The application around a member does not always see revocations.
    ForgetRevoked,
    /// A batch gets other sequence numbers with each attempt.
    NumberRetriesAnew,
    /// A newer batch is written in the topic_partition of one that is retried.
    NewerOvertakesRepeated,
    /// A transaction is ended without waiting for batches in flight.
    EndBeforeWritten,
    /// A commit without a response is taken for a success.
    LostEndIsCommit,
    /// A commit without a response is taken for an abort, and its work is done again.
    LostEndIsAbort,
    /// A fenced producer continues in the epoch of its successor.
    ReuseEpochAfterFencing,
    /// All failed batches are reported as not written.
    DenyWhatIsInFlight,
    /// Offsets that were read are committed, not those that are done (Parallel Consumer, issue 826).
    CommitHighestSeen,
    /// The map of a commit is written for another offset (Parallel Consumer, issue 894).
    MapOfOtherBase,
    /// A record from before a rebalance hides the one that is read again (Parallel Consumer, issue 875).
    StaleResident,
    /// Cancelled records count as in flight for ever (Parallel Consumer, issue 547).
    LeakInFlight,
    /// While a handler waits for something, the records behind it go on, whatever their keys.
    RunGoesOn,
    /// The latest offset that is done is committed (SmallRye's latest strategy with delayed retries).
    CommitLatest,
    /// The offset moves before the dead letter is acknowledged.
    DeadLettersUnawaited,
    /// Emitted records count as acknowledged before their topic_partition in the log is certain.
    TakenUnordered,
    /// Of two records of a partition that fail, the first is lost (Spring Kafka, issue 4504).
    FirstFailureLost,
    /// The driver's clock is ahead, and retries come early.
    WakeEarly,
    /// The last commit of a revoked partition is never sent, and reported as a success.
    CommitUnsent,
    /// The offsets that a commit marks as done above its own offset are ignored.
    ForgetMap,
    /// A paused partition is never resumed.
    ForgetResume,
    /// A transaction is committed although a partition of its records was lost.
    CommitSpoiled,
    /// A key is released as soon as its held records are read, not when they are done.
    FreeKeysEarly,
    /// A new owner of a partition does not check which of its keys have held records.
    ForgetHeld,
    /// Records are handed out while the commit that announces it is still to be sent.
    StartsUnawaited,
    /// The crash counters in a commit are never cleared.
    KeepStarts,
    /// An offset in the database is stored before the transaction of its effect.
    OffsetBeforeEffect,
    /// Transactions and commits of a previous owner of a partition succeed.
    ZombiesCommit,
    /// The end of a session is not checked before a request is served.
    ForgetSessionEnd,
    /// A session is renewed while responses of earlier requests are pending.
    RenewBeforeResponses,
    /// A renewal is taken for a first log-in.
    ForgetPrincipal,
    /// Requests are served as soon as they arrive, also before the log-in.
    ServeBeforeLogin,
    /// A client goes on sending requests while it renews its session.
    SendDuringRenewal,
    /// A relay reads rows above the highest that it has read, and not by their state.
    ReadByWatermark,
    /// A relay reads rows in the order of their creation times.
    ReadByCreation,
    /// Leases of a relay that lives are given to another.
    IgnoreLeases,
    /// A relay marks events when they are sent, not when they are acknowledged.
    MarkBeforeAck,
    /// A relay continues an aggregate behind a refused event.
    IgnoreRefusals,
    /// A relay that was paused sends events whose delivery should have ended.
    SendAfterDeadline,
    /// A requester determines its position in the reply partition after its first request.
    PositionAfterSend,
    /// A reply completes the oldest pending request, so a duplicate completes another.
    MatchRepliesInOrder,
    /// A requester that starts again uses the correlation ids of its predecessor.
    KeepRequestEpoch,
    /// The deadlines of requests are not watched.
    ForgetRequestDeadlines,
    /// A request stays pending although its task has stopped waiting.
    ForgetCancelled,
    /// A service tries for ever to reply to a requester that is gone.
    ReplyForEver,
    /// A saga's step takes effect before the transaction with its state and its dedup row.
    SagaDedupAfterEffect,
    /// A compensation that arrives before its action is not remembered.
    SagaForgetsTombstone,
    /// The state of a saga is written without a look at its version.
    SagaStateUnguarded,
    /// Events of a saga are written after the transaction that they announce.
    SagaOutboxOutside,
    /// The timers of a saga's owner are lost when it crashes.
    SagaTimersInMemory,
    /// A compensation that is requested again is carried out again.
    SagaCompensationRepeats,
}

impl Mutation {
    pub const ALL: &[Self] = &[
        Self::ReplyBeforeDurable,
        Self::AcceptStaleCommits,
        Self::OldStaticMembersSucceed,
        Self::ForgetHeartbeats,
        Self::ReleaseBeforeRevoked,
        Self::LoseLastRecord,
        Self::LosePendingOffsets,
        Self::ForgetMarkers,
        Self::OldProducersSucceed,
        Self::ForgetRevoked,
        Self::NumberRetriesAnew,
        Self::NewerOvertakesRepeated,
        Self::EndBeforeWritten,
        Self::LostEndIsCommit,
        Self::LostEndIsAbort,
        Self::ReuseEpochAfterFencing,
        Self::DenyWhatIsInFlight,
        Self::CommitHighestSeen,
        Self::MapOfOtherBase,
        Self::StaleResident,
        Self::LeakInFlight,
        Self::RunGoesOn,
        Self::CommitLatest,
        Self::DeadLettersUnawaited,
        Self::TakenUnordered,
        Self::FirstFailureLost,
        Self::WakeEarly,
        Self::CommitUnsent,
        Self::ForgetMap,
        Self::ForgetResume,
        Self::CommitSpoiled,
        Self::FreeKeysEarly,
        Self::ForgetHeld,
        Self::StartsUnawaited,
        Self::KeepStarts,
        Self::OffsetBeforeEffect,
        Self::ZombiesCommit,
        Self::ForgetSessionEnd,
        Self::RenewBeforeResponses,
        Self::ForgetPrincipal,
        Self::ServeBeforeLogin,
        Self::SendDuringRenewal,
        Self::ReadByWatermark,
        Self::ReadByCreation,
        Self::IgnoreLeases,
        Self::MarkBeforeAck,
        Self::IgnoreRefusals,
        Self::SendAfterDeadline,
        Self::PositionAfterSend,
        Self::MatchRepliesInOrder,
        Self::KeepRequestEpoch,
        Self::ForgetRequestDeadlines,
        Self::ForgetCancelled,
        Self::ReplyForEver,
        Self::SagaDedupAfterEffect,
        Self::SagaForgetsTombstone,
        Self::SagaStateUnguarded,
        Self::SagaOutboxOutside,
        Self::SagaTimersInMemory,
        Self::SagaCompensationRepeats,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReplyBeforeDurable => "reply-before-durable",
            Self::AcceptStaleCommits => "accept-stale-commits",
            Self::OldStaticMembersSucceed => "old-static-members-succeed",
            Self::ForgetHeartbeats => "forget-heartbeats",
            Self::ReleaseBeforeRevoked => "release-before-revoked",
            Self::LoseLastRecord => "lose-last-record",
            Self::LosePendingOffsets => "lose-pending-offsets",
            Self::ForgetMarkers => "forget-markers",
            Self::OldProducersSucceed => "old-producers-succeed",
            Self::ForgetRevoked => "forget-revoked",
            Self::NumberRetriesAnew => "number-retries-anew",
            Self::NewerOvertakesRepeated => "newer-overtakes-repeated",
            Self::EndBeforeWritten => "end-before-written",
            Self::LostEndIsCommit => "lost-end-is-commit",
            Self::LostEndIsAbort => "lost-end-is-abort",
            Self::ReuseEpochAfterFencing => "reuse-epoch-after-fencing",
            Self::DenyWhatIsInFlight => "deny-what-is-in-flight",
            Self::CommitHighestSeen => "commit-highest-seen",
            Self::MapOfOtherBase => "map-of-other-base",
            Self::StaleResident => "stale-resident",
            Self::LeakInFlight => "leak-in-flight",
            Self::RunGoesOn => "run-goes-on",
            Self::CommitLatest => "commit-latest",
            Self::DeadLettersUnawaited => "dead-letters-unawaited",
            Self::TakenUnordered => "taken-unordered",
            Self::FirstFailureLost => "first-failure-lost",
            Self::WakeEarly => "wake-early",
            Self::CommitUnsent => "commit-unsent",
            Self::ForgetMap => "forget-map",
            Self::ForgetResume => "forget-resume",
            Self::CommitSpoiled => "commit-spoiled",
            Self::FreeKeysEarly => "free-keys-early",
            Self::ForgetHeld => "forget-held",
            Self::StartsUnawaited => "starts-unawaited",
            Self::KeepStarts => "keep-starts",
            Self::OffsetBeforeEffect => "offset-before-effect",
            Self::ZombiesCommit => "zombies-commit",
            Self::ForgetSessionEnd => "forget-session-end",
            Self::RenewBeforeResponses => "renew-before-responses",
            Self::ForgetPrincipal => "forget-principal",
            Self::ServeBeforeLogin => "serve-before-login",
            Self::SendDuringRenewal => "send-during-renewal",
            Self::ReadByWatermark => "read-by-watermark",
            Self::ReadByCreation => "read-by-creation",
            Self::IgnoreLeases => "ignore-leases",
            Self::MarkBeforeAck => "mark-before-ack",
            Self::IgnoreRefusals => "ignore-refusals",
            Self::SendAfterDeadline => "send-after-deadline",
            Self::PositionAfterSend => "position-after-send",
            Self::MatchRepliesInOrder => "match-replies-in-order",
            Self::KeepRequestEpoch => "keep-request-epoch",
            Self::ForgetRequestDeadlines => "forget-request-deadlines",
            Self::ForgetCancelled => "forget-cancelled",
            Self::ReplyForEver => "reply-for-ever",
            Self::SagaDedupAfterEffect => "saga-dedup-after-effect",
            Self::SagaForgetsTombstone => "saga-forgets-tombstone",
            Self::SagaStateUnguarded => "saga-state-unguarded",
            Self::SagaOutboxOutside => "saga-outbox-outside",
            Self::SagaTimersInMemory => "saga-timers-in-memory",
            Self::SagaCompensationRepeats => "saga-compensation-repeats",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|mutation| mutation.name() == name)
    }
}

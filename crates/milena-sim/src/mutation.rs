//! Known bugs, put back in on purpose: a simulation that does not find them proves nothing.

/// A bug in the broker or the application around the machines. The machines themselves have no switch for any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// Answers leave before what they tell of is safe from a power cut.
    ReplyBeforeDurable,
    /// A commit of a member that is no longer in the group is accepted.
    AcceptStaleCommits,
    /// A process whose instance id is taken by another is not told.
    OldStaticMembersSucceed,
    /// Heartbeats are answered and then forgotten, so that members expire that are alive.
    ForgetHeartbeats,
    /// A partition counts as released when its owner was asked to let go of it, not when it has.
    ReleaseBeforeRevoked,
    /// The last record of a batch is not appended.
    LoseLastRecord,
    /// Offsets of open transactions are forgotten when the broker starts.
    LosePendingOffsets,
    /// What was decided before the broker ended is not carried out after its start.
    ForgetMarkers,
    /// A producer that was replaced goes on writing.
    OldProducersSucceed,
    /// The application around a member is not always told what it loses.
    ForgetRevoked,
    /// A batch gets other sequence numbers each time it is sent.
    NumberRetriesAnew,
    /// A newer batch is written in the place of one that is repeated.
    NewerOvertakesRepeated,
    /// A transaction is ended without waiting for what is under way.
    EndBeforeWritten,
    /// A commit that was not answered is taken for one that succeeded.
    LostEndIsCommit,
    /// A commit that was not answered is taken for an abort, and its work is done again.
    LostEndIsAbort,
    /// A producer that was fenced goes on in the epoch of the one that took its place.
    ReuseEpochAfterFencing,
    /// Whatever fails is said not to be written.
    DenyWhatIsInFlight,
    /// What is committed is what was read, not what is done (Parallel Consumer, issue 826).
    CommitHighestSeen,
    /// The map of a commit is written for another offset (Parallel Consumer, issue 894).
    MapOfOtherBase,
    /// A record from before a rebalance hides the one that is read again (Parallel Consumer, issue 875).
    StaleResident,
    /// What is cancelled counts as in flight for ever (Parallel Consumer, issue 547).
    LeakInFlight,
    /// While a handler waits for something, the records behind go on, whatever their keys.
    RunGoesOn,
    /// What is committed is the latest that is done (SmallRye's latest strategy with delayed retries).
    CommitLatest,
    /// The offset moves before the dead letter is acknowledged.
    DeadLettersUnawaited,
    /// What handlers emit counts as taken before its place in the log is certain.
    TakenUnordered,
    /// Of two records of a partition that fail, the first is forgotten (Spring Kafka, issue 4504).
    FirstFailureLost,
    /// The driver is ahead of its time, and what failed is tried again early.
    WakeEarly,
    /// The last commit of a partition that is given back never leaves, and is said to have succeeded.
    CommitUnsent,
    /// What a commit says to be done above its offset is not looked at.
    ForgetMap,
    /// A partition that may be read again is not.
    ForgetResume,
    /// A transaction is committed although a partition is gone of which it has records.
    CommitSpoiled,
    /// A key is free as soon as the records that are held of it are read, not when they are done.
    FreeKeysEarly,
    /// Who gets a partition does not look which of its keys have records that are held.
    ForgetHeld,
    /// Records are handed out while the commit that tells of it is still to be sent.
    StartsUnawaited,
    /// What a commit told of owners that died is never taken away.
    KeepStarts,
}

impl Mutation {
    pub const ALL: [Self; 35] = [
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
    ];

    /// As it is named on the command line.
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
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mutation| mutation.name() == name)
    }
}

//! A broker with an authorizer, an administrator who may do everything, and a client whose rights change.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use milena_wire::{Uuid, api::ApiKey, message::Request, messages::*};

use crate::client::{Client, batch};

pub const TOPIC: &str = "orders";
pub const MISSING: &str = "no-orders";
pub const GROUP: &str = "readers";
/// A group with a member that has the topic.
pub const WORKERS: &str = "workers";
pub const TRANSACTION: &str = "transfer";
const WORKER: &str = "AAAAAAAAAAAAAAAAAAAAAA";
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The principal of the client. The administrator is a super user.
pub const PRINCIPAL: &str = "User:alice";

pub struct Bed {
    pub admin: Client,
    pub client: Client,
    connect: Box<dyn Fn() -> Client>,
    pub topic_id: Uuid,
    worker: (String, i32),
    served: BTreeSet<i16>,
}

impl Bed {
    pub fn new(mut admin: Client, connect: impl Fn() -> Client + 'static) -> Self {
        let topic_id = admin.create_topic(TOPIC, 1, &[]);
        let served = admin.try_call(&ApiVersionsRequest::default(), 0).unwrap();
        let mut bed = Self {
            client: connect(),
            admin,
            connect: Box::new(connect),
            topic_id,
            worker: (String::new(), 0),
            served: served.api_keys.iter().map(|api| api.api_key).collect(),
        };
        let began = Instant::now();
        while bed.admin.produce(TOPIC, 0, batch(&["one"])).error_code != 0 {
            assert!(began.elapsed() < PATIENCE, "the topic has no leader");
        }
        bed.find_coordinators();
        bed.commit();
        bed
    }

    /// The response to a request of the administrator.
    pub fn ask<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        let response = self.admin.try_call(request, version);
        response.unwrap_or_else(|| panic!("{} version {version}: closed", R::NAME))
    }

    /// Kafka creates the topics of the coordinators when a client looks for them.
    fn find_coordinators(&mut self) {
        let began = Instant::now();
        for (key_type, key) in [(0, GROUP), (1, TRANSACTION)] {
            let request = FindCoordinatorRequest {
                key_type,
                coordinator_keys: vec![key.into()],
                ..Default::default()
            };
            while self.ask(&request, 4).coordinators[0].error_code != 0 {
                assert!(began.elapsed() < PATIENCE, "no coordinator of {key}");
            }
        }
    }

    /// Whether the broker serves the API of a probe.
    pub fn serves(&self, probe: &str) -> bool {
        let name = probe.split_whitespace().next().unwrap();
        let key = ApiKey::ALL.into_iter().find(|key| key.to_string() == name);
        self.served
            .contains(&key.unwrap_or_else(|| panic!("no API {name}")).id())
    }

    /// Opens a new connection if the broker has closed the last one.
    pub fn reconnect(&mut self) {
        self.client = (self.connect)();
    }

    /// Gives the client these rights and no others, such as `READ topic`.
    pub fn grant(&mut self, rights: &[&str]) {
        let all = delete_acls_request::DeleteAclsFilter {
            resource_type_filter: 1,
            pattern_type_filter: 1,
            resource_name_filter: None,
            principal_filter: None,
            host_filter: None,
            operation: 1,
            permission_type: 1,
            ..Default::default()
        };
        let request = DeleteAclsRequest {
            filters: vec![all],
            ..Default::default()
        };
        let deleted = self.ask(&request, 3);
        assert_eq!(deleted.filter_results[0].error_code, 0, "{deleted:?}");
        let request = CreateAclsRequest {
            creations: rights.iter().map(|right| acl(right)).collect(),
            ..Default::default()
        };
        let created = self.ask(&request, 3);
        assert!(
            created.results.iter().all(|result| result.error_code == 0),
            "{created:?}"
        );
        self.wait_until_in_force(rights.len());
    }

    /// Kafka's broker learns of ACLs some time after they are stored.
    fn wait_until_in_force(&mut self, count: usize) {
        let request = DescribeAclsRequest {
            resource_type_filter: 1,
            pattern_type_filter: 1,
            resource_name_filter: None,
            principal_filter: None,
            host_filter: None,
            operation: 1,
            permission_type: 1,
            ..Default::default()
        };
        let began = Instant::now();
        loop {
            let described = self.ask(&request, 3);
            let seen: usize = described.resources.iter().map(|resource| resource.acls.len()).sum();
            if seen == count {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{described:?}");
        }
    }

    /// The administrator commits an offset of the group.
    pub fn commit(&mut self) {
        let request = super::group_probes::offset_commit(GROUP, TOPIC);
        let began = Instant::now();
        loop {
            let committed = self.ask(&request, 9);
            if committed.topics[0].partitions[0].error_code == 0 {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{committed:?}");
        }
    }

    /// The administrator keeps a member in the group of workers, with the topic assigned.
    pub fn keep_worker(&mut self) {
        let began = Instant::now();
        let mut has_topic = false;
        while !has_topic {
            let is_new = self.worker.1 == 0;
            let request = ConsumerGroupHeartbeatRequest {
                group_id: WORKERS.into(),
                member_id: if is_new {
                    WORKER.into()
                } else {
                    self.worker.0.as_str().into()
                },
                member_epoch: self.worker.1,
                rebalance_timeout_ms: if is_new { 10_000 } else { -1 },
                subscribed_topic_names: is_new.then(|| vec![TOPIC.into()]),
                topic_partitions: is_new.then(Vec::new),
                ..Default::default()
            };
            let response = self.ask(&request, 1);
            match response.error_code {
                0 => {
                    let member_id = response.member_id.clone().unwrap_or(request.member_id);
                    self.worker = (member_id.to_string(), response.member_epoch);
                    has_topic = !is_new || response.assignment.is_some_and(|own| !own.topic_partitions.is_empty());
                }
                // The member has expired.
                25 | 110 => self.worker.1 = 0,
                // The coordinator is not ready yet.
                14..=16 => {}
                _ => panic!("{response:?}"),
            }
            assert!(began.elapsed() < PATIENCE, "no assignment");
        }
    }

    /// The administrator begins a transaction. Returns producer id and epoch.
    pub fn begin_transaction(&mut self) -> (i64, i16) {
        let request = InitProducerIdRequest {
            transactional_id: Some(TRANSACTION.into()),
            transaction_timeout_ms: 60_000,
            ..Default::default()
        };
        let began = Instant::now();
        loop {
            let response = self.ask(&request, 5);
            if response.error_code == 0 {
                return (response.producer_id, response.producer_epoch);
            }
            assert!(began.elapsed() < PATIENCE, "{response:?}");
        }
    }
}

/// The ACL of a right such as `READ topic`; `!READ topic` denies.
fn acl(right: &str) -> create_acls_request::AclCreation {
    let (operation, resource) = right.split_once(' ').unwrap_or_else(|| panic!("not a right: {right}"));
    let (resource_type, name) = match resource {
        "topic" => (2, TOPIC),
        "missing" => (2, MISSING),
        "anytopic" => (2, "*"),
        "offsets" => (2, "__consumer_offsets"),
        "group" => (3, GROUP),
        "workers" => (3, WORKERS),
        "cluster" => (4, "kafka-cluster"),
        "transaction" => (5, TRANSACTION),
        other => panic!("no resource {other}"),
    };
    let operations = [
        "ALL",
        "READ",
        "WRITE",
        "CREATE",
        "DELETE",
        "ALTER",
        "DESCRIBE",
        "CLUSTER_ACTION",
        "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
        "IDEMPOTENT_WRITE",
        "CREATE_TOKENS",
        "DESCRIBE_TOKENS",
        "TWO_PHASE_COMMIT",
    ];
    let (operation, permission_type) = match operation.strip_prefix('!') {
        Some(denied) => (denied, 2),
        None => (operation, 3),
    };
    let code = operations.iter().position(|known| *known == operation);
    create_acls_request::AclCreation {
        resource_type,
        resource_name: name.into(),
        resource_pattern_type: 3,
        principal: PRINCIPAL.into(),
        host: "*".into(),
        operation: code.unwrap_or_else(|| panic!("no operation {operation}")) as i8 + 2,
        permission_type,
        ..Default::default()
    }
}

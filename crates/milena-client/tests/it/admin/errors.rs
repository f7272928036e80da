//! Errors of the admin client.

use std::{net::TcpListener, time::Duration};

use milena_client::{
    admin::{
        AclBinding, AclFilter, AclOperation, AclResourceType, Admin, AdminError, ErrorCode, NewTopic, OffsetSpec,
        QuotaChange, QuotaEntity, QuotaFilter, ScramChange, ScramMechanism,
    },
    config::AdminConfig,
    consumer::TopicPartition,
};

use super::{admin, only_error};
use crate::broker::TestBroker;

#[tokio::test]
async fn scram_users_and_quotas_are_kept() {
    let broker = TestBroker::start();
    let admin = admin(&broker);
    let password = ScramChange::set(ScramMechanism::Sha256, "secret");
    for result in admin.alter_scram_users([("milena", password)]).await.into_values() {
        result.unwrap();
    }
    let users = admin.describe_all_scram_users().await.unwrap();
    let credentials = users.get("milena").unwrap().as_ref().unwrap();
    assert_eq!(credentials.len(), 1);
    let unknown = only_error(admin.describe_scram_users(["unknown"]).await);
    assert_eq!(unknown.code(), Some(ErrorCode::ResourceNotFound), "{unknown}");
    let entity = QuotaEntity::user("milena");
    let quota = (entity.clone(), "consumer_byte_rate", QuotaChange::Set(1e6));
    for result in admin.alter_quotas([quota]).await.into_values() {
        result.unwrap();
    }
    let quotas = admin.describe_quotas(QuotaFilter::default()).await.unwrap();
    assert_eq!(quotas[&entity].get("consumer_byte_rate"), Some(&1e6));
}

#[tokio::test]
async fn without_an_authorizer_acls_are_refused() {
    let broker = TestBroker::start();
    let admin = admin(&broker);
    let acl = AclBinding::allow(AclResourceType::Topic, "letters", "User:milena", AclOperation::Read);
    for error in [
        only_error(admin.create_acls([acl]).await),
        admin.describe_acls(AclFilter::default()).await.unwrap_err(),
        only_error(admin.delete_acls([AclFilter::default()]).await),
    ] {
        assert_eq!(error.code(), Some(ErrorCode::SecurityDisabled), "{error}");
        assert!(error.to_string().contains("No Authorizer is configured"), "{error}");
    }
}

#[tokio::test]
async fn an_empty_password_is_refused_before_a_request_is_sent() {
    let broker = TestBroker::start();
    let empty = ScramChange::set(ScramMechanism::Sha512, "");
    let error = only_error(admin(&broker).alter_scram_users([("milena", empty)]).await);
    assert_eq!(error.to_string(), "user milena: the password is empty; choose one");
}

#[tokio::test]
async fn without_a_broker_every_kind_of_call_ends_in_time_and_says_why() {
    // The port is free again, so nothing listens on it.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let admin = Admin::new(AdminConfig::builder(address.to_string())).unwrap();
    let admin = admin.within(Duration::from_millis(200));
    let partition = TopicPartition::new("letters", 0);
    let errors = [
        admin.list_topics().await.map(drop).unwrap_err(),
        only_error(admin.create_topics([NewTopic::new("letters")]).await),
        only_error(admin.describe_groups(["readers"]).await),
        only_error(admin.describe_transactions(["payments"]).await),
        only_error(admin.list_offsets([(partition, OffsetSpec::Latest)]).await),
        only_error(admin.describe_log_dirs([1]).await),
    ];
    for error in errors {
        let AdminError::TimedOut {
            timeout_ms: 200, cause, ..
        } = &error
        else {
            panic!("{error:?}");
        };
        let cause = cause.as_ref().unwrap();
        assert!(
            cause.contains(&address.to_string()) && cause.contains("refused"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn no_more_is_tried_than_retries_say() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = AdminConfig::builder(address.to_string()).set("retries", 1);
    let error = Admin::new(config).unwrap().list_topics().await.unwrap_err();
    assert!(
        matches!(&error, AdminError::Failed { why, .. } if why.contains("refused")),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_client_that_is_closed_says_so() {
    let broker = TestBroker::start();
    let admin = admin(&broker);
    admin.list_topics().await.unwrap();
    admin.clone().close();
    let error = admin.list_topics().await.unwrap_err();
    assert_eq!(error.to_string(), "the list of topics: the admin client is closed");
}

#[tokio::test]
async fn nothing_to_ask_for_needs_no_broker() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let admin = Admin::new(AdminConfig::builder(address.to_string())).unwrap();
    assert!(admin.delete_topics([""; 0]).await.is_empty());
}

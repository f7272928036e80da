//! ACLs, users and quotas, which our own broker lacks.

use milena_client::admin::{
    AclBinding, AclFilter, AclOperation, AclPermission, AclResourceType, ErrorCode, FeatureUpdate, PatternType,
    QuotaChange, QuotaEntity, QuotaFilter, QuotaMatch, ScramChange, ScramMechanism, UpgradeType,
};

use super::{admin, has_all, only, tool};
use crate::{
    bed,
    patience::{SHORT, in_time},
};

#[tokio::test]
async fn kafka_tells_of_acls_that_we_made() {
    let bed = bed::kafka();
    let admin = admin(bed);
    let allowed = AclBinding::allow(AclResourceType::Topic, "secret", "User:milena", AclOperation::Read);
    let denied = AclBinding {
        pattern_type: PatternType::Prefixed,
        permission: AclPermission::Deny,
        host: "10.0.0.1".into(),
        ..AclBinding::allow(AclResourceType::Group, "sec", "User:franz", AclOperation::All)
    };
    let created = admin.create_acls([allowed.clone(), denied.clone()]).await;
    assert!(created.values().all(Result::is_ok), "{created:?}");
    let of_user = |user: &str| AclFilter {
        principal: Some(format!("User:{user}").into()),
        ..Default::default()
    };
    in_time("the broker has heard of it", async {
        while admin.describe_acls(of_user("franz")).await.unwrap() != [denied.clone()] {
            tokio::time::sleep(SHORT).await;
        }
    })
    .await;
    let output = tool(bed, "acls --list").await;
    has_all(
        &output,
        &[
            "resourceType=TOPIC, name=secret, patternType=LITERAL",
            "principal=User:milena, host=*, operation=READ, permissionType=ALLOW",
            "resourceType=GROUP, name=sec, patternType=PREFIXED",
            "principal=User:franz, host=10.0.0.1, operation=ALL, permissionType=DENY",
        ],
    );
    let bad = AclBinding {
        pattern_type: PatternType::Match,
        ..allowed.clone()
    };
    let refused = admin.create_acls([bad.clone()]).await;
    assert!(refused[&bad].as_ref().unwrap_err().code().is_some(), "{refused:?}");
    let deleted = admin
        .delete_acls([of_user("milena"), of_user("franz"), of_user("nobody")])
        .await;
    let names = |user: &str| {
        deleted[&of_user(user)]
            .as_ref()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (names("milena"), names("franz"), names("nobody")),
        (vec![allowed], vec![denied], vec![])
    );
    in_time("the broker has heard of it", async {
        while !admin.describe_acls(of_user("franz")).await.unwrap().is_empty() {
            tokio::time::sleep(SHORT).await;
        }
    })
    .await;
    assert!(!tool(bed, "acls --list").await.contains("User:franz"));
}

#[tokio::test]
async fn kafka_tells_of_users_that_we_gave_a_password() {
    let bed = bed::kafka();
    let admin = admin(bed);
    let set = |mechanism| ("milena", ScramChange::set(mechanism, "secret"));
    // Kafka 4 accepts one change per user and request.
    let both = admin
        .alter_scram_users([set(ScramMechanism::Sha256), set(ScramMechanism::Sha512)])
        .await;
    assert_eq!(
        both["milena"].as_ref().unwrap_err().code(),
        Some(ErrorCode::DuplicateResource)
    );
    only(admin.alter_scram_users([set(ScramMechanism::Sha256)]).await);
    only(admin.alter_scram_users([set(ScramMechanism::Sha512)]).await);
    in_time("the broker has heard of it", async {
        while !admin.describe_scram_users(["milena"]).await["milena"]
            .as_ref()
            .is_ok_and(|found| found.len() == 2)
        {
            tokio::time::sleep(SHORT).await;
        }
    })
    .await;
    let output = tool(bed, "configs --describe --entity-type users --entity-name milena").await;
    has_all(
        &output,
        &["SCRAM-SHA-256=iterations=4096", "SCRAM-SHA-512=iterations=4096"],
    );
    let described = only(admin.describe_scram_users(["milena"]).await);
    let mechanisms: Vec<_> = described.iter().map(|one| (one.mechanism, one.iterations)).collect();
    assert_eq!(
        mechanisms,
        [(ScramMechanism::Sha256, 4096), (ScramMechanism::Sha512, 4096)]
    );
    assert_eq!(only(admin.describe_all_scram_users().await.unwrap()), described);
    only(
        admin
            .alter_scram_users([("milena", ScramChange::Delete(ScramMechanism::Sha256))])
            .await,
    );
    only(
        admin
            .alter_scram_users([("milena", ScramChange::Delete(ScramMechanism::Sha512))])
            .await,
    );
    let gone = admin.describe_scram_users(["milena"]).await;
    assert_eq!(
        gone["milena"].as_ref().unwrap_err().code(),
        Some(ErrorCode::ResourceNotFound)
    );
    let few = ScramChange::Set {
        mechanism: ScramMechanism::Sha256,
        password: "secret".to_owned(),
        iterations: 1,
    };
    let refused = admin.alter_scram_users([("milena", few)]).await;
    let refused = refused["milena"].as_ref().unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::UnacceptableCredential));
    assert!(refused.to_string().starts_with("user milena: "), "{refused}");
}

#[tokio::test]
async fn kafka_tells_of_quotas_that_we_set() {
    let bed = bed::kafka();
    let admin = admin(bed);
    let reader = QuotaEntity::client_id("reader");
    let of_user = QuotaEntity::user("milena").and("client-id", None);
    let set = |entity: &QuotaEntity, value| (entity.clone(), "consumer_byte_rate", QuotaChange::Set(value));
    let altered = admin
        .alter_quotas([set(&reader, 1048576.0), set(&of_user, 2048.0)])
        .await;
    assert!(altered.values().all(Result::is_ok), "{altered:?}");
    in_time("the broker has heard of it", async {
        while admin.describe_quotas(QuotaFilter::default()).await.unwrap().len() < 2 {
            tokio::time::sleep(SHORT).await;
        }
    })
    .await;
    let output = tool(bed, "configs --describe --entity-type clients --entity-name reader").await;
    has_all(&output, &["consumer_byte_rate=1048576.0"]);
    let any = |entity_type: &str, wanted| QuotaFilter {
        components: [(entity_type.into(), wanted)].into(),
        strict: false,
    };
    let found = admin.describe_quotas(any("client-id", QuotaMatch::Any)).await.unwrap();
    assert_eq!(found[&reader]["consumer_byte_rate"], 1048576.0);
    assert_eq!(found[&of_user]["consumer_byte_rate"], 2048.0);
    let exact = any("client-id", QuotaMatch::Exact("reader".into()));
    assert_eq!(admin.describe_quotas(exact).await.unwrap().len(), 1);
    let remove = |entity: QuotaEntity| (entity, "consumer_byte_rate", QuotaChange::Remove);
    let altered = admin.alter_quotas([remove(reader), remove(of_user)]).await;
    assert!(altered.values().all(Result::is_ok), "{altered:?}");
    in_time("the broker has heard of it", async {
        while !admin.describe_quotas(QuotaFilter::default()).await.unwrap().is_empty() {
            tokio::time::sleep(SHORT).await;
        }
    })
    .await;
    let wrong = admin
        .alter_quotas([(QuotaEntity::user("milena"), "no_such_rate", QuotaChange::Set(1.0))])
        .await;
    assert_eq!(
        wrong.values().next().unwrap().as_ref().unwrap_err().code(),
        Some(ErrorCode::InvalidRequest)
    );
}

#[tokio::test]
async fn a_feature_can_be_tried_and_an_unknown_one_is_refused() {
    let bed = bed::kafka();
    let admin = admin(bed);
    let level = admin.describe_features().await.unwrap().finalized["transaction.version"].max;
    let update = |version, upgrade_type| FeatureUpdate { version, upgrade_type };
    let down = update(level - 1, UpgradeType::SafeDowngrade);
    only(admin.validate_features([("transaction.version", down)]).await);
    assert_eq!(
        admin.describe_features().await.unwrap().finalized["transaction.version"].max,
        level
    );
    let refused = admin
        .update_features([("no.such.feature", update(1, UpgradeType::Upgrade))])
        .await;
    let refused = refused["no.such.feature"].as_ref().unwrap_err();
    assert!(refused.code().is_some(), "{refused}");
}

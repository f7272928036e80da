//! The index against a model that walks all rules for each decision.

use milena_machines::{
    Random,
    authorizer::{
        Acl, AclFilter, Authorizer, AuthorizerConfig, Caller, Operation, PatternType, Permission, ResourceType, Rule,
    },
};
use milena_wire::Uuid;

use super::id;

const NAMES: [&str; 16] = [
    "*", "a", "ab", "abc", "abd", "abde", "b", "ba", "é", "éa", "a*", "*a", "abcdefgh", "hardcode", "hard", "z",
];
const PRINCIPALS: [&str; 5] = ["User:*", "User:alice", "User:bob", "Group:*", "User:a:b"];
const HOSTS: [&str; 6] = ["*", "10.0.0.1", "10.0.0.2", "::1", "0:0:0:0:0:0:0:1", "nowhere"];
const CALLERS: [&str; 4] = ["User:alice", "User:bob", "User:a:b", "User:admin"];

fn pick<T: Copy>(random: &mut Random, all: &[T]) -> T {
    all[random.below(all.len() as u64) as usize]
}

fn random_acl(random: &mut Random) -> Acl {
    Acl {
        resource_type: pick(random, &[ResourceType::Topic, ResourceType::Group]),
        resource_name: pick(random, &NAMES).into(),
        pattern_type: pick(random, &PatternType::ALL),
        principal: pick(random, &PRINCIPALS).into(),
        host: pick(random, &HOSTS).into(),
        operation: pick(random, &Operation::ALL),
        // Else most is denied.
        permission: pick(
            random,
            &[
                Permission::Allow,
                Permission::Allow,
                Permission::Allow,
                Permission::Deny,
            ],
        ),
    }
}

/// The rules, one by one, as Kafka's documentation has them.
struct Model {
    acls: Vec<(Uuid, Acl)>,
    allow_if_no_acl: bool,
}

impl Model {
    fn covers(acl: &Acl, name: &str) -> bool {
        match acl.pattern_type {
            PatternType::Literal => acl.resource_name == name || acl.resource_name == "*",
            PatternType::Prefixed => name.starts_with(&*acl.resource_name),
        }
    }

    fn applies(acl: &Acl, caller: Caller<'_>) -> bool {
        let same_host = || acl.host.parse().is_ok_and(|host: std::net::IpAddr| host == caller.host);
        (acl.principal == caller.principal || acl.principal == "User:*") && (acl.host == "*" || same_host())
    }

    fn decides(acl: &Acl, operation: Operation) -> bool {
        use Operation::*;
        acl.operation == All
            || acl.operation == operation
            || acl.permission == Permission::Allow
                && match operation {
                    Describe => matches!(acl.operation, Read | Write | Delete | Alter),
                    DescribeConfigs => acl.operation == AlterConfigs,
                    _ => false,
                }
    }

    fn allows(&self, caller: Caller<'_>, operation: Operation, resource_type: ResourceType, name: &str) -> bool {
        if caller.principal == "User:admin" {
            return true;
        }
        let all = self.acls.iter().map(|(_, acl)| acl);
        let candidates: Vec<&Acl> = all
            .filter(|acl| acl.resource_type == resource_type && Self::covers(acl, name))
            .collect();
        if candidates.is_empty() {
            return self.allow_if_no_acl;
        }
        let deciding = candidates
            .iter()
            .filter(|acl| Self::applies(acl, caller) && Self::decides(acl, operation));
        let (allowing, denying): (Vec<&Acl>, Vec<&Acl>) =
            deciding.copied().partition(|acl| acl.permission == Permission::Allow);
        denying.is_empty() && !allowing.is_empty()
    }

    /// All pairs of an ALLOW and a DENY.
    fn allows_on_any(&self, caller: Caller<'_>, operation: Operation, resource_type: ResourceType) -> bool {
        if self.allows(caller, operation, resource_type, "hardcode") {
            return true;
        }
        let all = self.acls.iter().map(|(_, acl)| acl);
        let relevant: Vec<&Acl> = all
            .filter(|acl| acl.resource_type == resource_type && Self::applies(acl, caller))
            .filter(|acl| acl.operation == operation || acl.operation == Operation::All)
            .collect();
        let is_any = |acl: &Acl| acl.pattern_type == PatternType::Literal && acl.resource_name == "*";
        let denying: Vec<&&Acl> = relevant
            .iter()
            .filter(|acl| acl.permission == Permission::Deny)
            .collect();
        if denying.iter().any(|acl| is_any(acl)) {
            return false;
        }
        let dominates = |deny: &Acl, allow: &Acl| match deny.pattern_type {
            PatternType::Literal => {
                allow.pattern_type == PatternType::Literal && allow.resource_name == deny.resource_name
            }
            PatternType::Prefixed => !is_any(allow) && allow.resource_name.starts_with(&*deny.resource_name),
        };
        let mut allowing = relevant.iter().filter(|acl| acl.permission == Permission::Allow);
        allowing.any(|allow| !denying.iter().any(|deny| dominates(deny, allow)))
    }
}

fn compare(model: &Model, authorizer: &Authorizer, seed: u64) {
    for principal in CALLERS {
        for host in ["10.0.0.1", "::1"] {
            let host = host.parse().unwrap();
            let caller = Caller { principal, host };
            for resource_type in [ResourceType::Topic, ResourceType::Group, ResourceType::Cluster] {
                for operation in Operation::ALL
                    .into_iter()
                    .filter(|operation| *operation != Operation::All)
                {
                    let context = || format!("seed {seed}: {operation} by {caller:?} on {resource_type}");
                    for name in NAMES {
                        let expected = model.allows(caller, operation, resource_type, name);
                        let allowed = authorizer.operations(caller, resource_type, name);
                        assert_eq!(allowed.contains(operation), expected, "{} {name}", context());
                        let by_rule = match authorizer.rule(caller, operation, resource_type, name) {
                            Rule::SuperUser => true,
                            Rule::NoAcl => model.allow_if_no_acl,
                            Rule::NoMatch => false,
                            Rule::Acl(acl) => acl.permission == Permission::Allow,
                        };
                        assert_eq!(by_rule, expected, "{} {name}", context());
                    }
                    let expected = model.allows_on_any(caller, operation, resource_type);
                    let allowed = authorizer.is_allowed_on_any(caller, operation, resource_type);
                    assert_eq!(allowed, expected, "{}", context());
                }
            }
        }
    }
}

#[test]
fn the_index_decides_as_a_walk_over_all_rules_does() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let allow_if_no_acl = random.below(2) == 0;
        let config = AuthorizerConfig {
            super_users: AuthorizerConfig::parse_super_users("User:admin").unwrap(),
            allow_if_no_acl,
        };
        let mut model = Model {
            acls: vec![],
            allow_if_no_acl,
        };
        let mut authorizer = Authorizer::new(config, []);
        let mut next = 0;
        for _ in 0..6 {
            let mut added = vec![];
            for _ in 0..random.below(12) {
                next += 1;
                added.push((id(next), random_acl(&mut random)));
            }
            let removed: Vec<Uuid> = (0..random.below(6))
                .map(|_| id(random.below(next as u64 + 1) as u128))
                .collect();
            authorizer.change(added.clone(), removed.clone());
            model.acls.retain(|(id, _)| !removed.contains(id));
            for (id, acl) in added {
                if model.acls.iter().all(|(_, existing)| *existing != acl) {
                    model.acls.push((id, acl));
                }
            }
            assert_eq!(authorizer.acls(&AclFilter::default()).count(), model.acls.len());
            compare(&model, &authorizer, seed);
        }
        // Without rules nothing is left of them in the index.
        authorizer.change([], model.acls.drain(..).map(|(id, _)| id));
        assert!(authorizer.is_empty());
        compare(&model, &authorizer, seed);
    }
}

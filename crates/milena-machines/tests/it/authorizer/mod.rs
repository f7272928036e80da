//! The authorizer, against Kafka's facts and against a model that walks all rules.

mod facts;
mod model;

use bytestring::ByteString;
use milena_machines::authorizer::{
    Acl, Authorizer, AuthorizerConfig, Caller, Operation, PatternType, Permission, ResourceType,
};
use milena_wire::Uuid;

/// An ACL from a line: `ALLOW READ User:alice * TOPIC LITERAL orders`.
fn acl(line: &str) -> Acl {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [
        permission,
        operation,
        principal,
        host,
        resource_type,
        pattern_type,
        name,
    ] = words[..]
    else {
        panic!("{line}");
    };
    Acl {
        resource_type: ResourceType::from_name(resource_type).unwrap(),
        resource_name: ByteString::from(name),
        pattern_type: PatternType::from_name(pattern_type).unwrap(),
        principal: principal.into(),
        host: host.into(),
        operation: Operation::from_name(operation).unwrap(),
        permission: Permission::from_name(permission).unwrap(),
    }
}

fn id(number: u128) -> Uuid {
    Uuid::from_bytes((number + 1).to_be_bytes())
}

fn authorizer_with(config: AuthorizerConfig, lines: &[&str]) -> Authorizer {
    let acls = lines.iter().enumerate();
    Authorizer::new(config, acls.map(|(number, line)| (id(number as u128), acl(line))))
}

fn authorizer(lines: &[&str]) -> Authorizer {
    let config = AuthorizerConfig {
        super_users: AuthorizerConfig::parse_super_users("User:superman").unwrap(),
        ..AuthorizerConfig::default()
    };
    authorizer_with(config, lines)
}

/// The decisions about actions such as `READ TOPIC orders`, as a word of `A` and `D`.
fn decisions(authorizer: &Authorizer, user: &str, host: &str, actions: &[&str]) -> String {
    let principal = format!("User:{user}");
    let caller = Caller {
        principal: &principal,
        host: host.parse().unwrap(),
    };
    let decision = |action: &&str| {
        let words: Vec<&str> = action.split_whitespace().collect();
        let [operation, resource_type, name] = words[..] else {
            panic!("{action}");
        };
        let resource_type = ResourceType::from_name(resource_type).unwrap();
        let allowed = authorizer.operations(caller, resource_type, name);
        match allowed.contains(Operation::from_name(operation).unwrap()) {
            true => 'A',
            false => 'D',
        }
    };
    actions.iter().map(decision).collect()
}

//! Decisions with 10,000 rules: look-ups in the index, and those that a connection has cached.
//!
//! `cargo bench -p milena-machines --bench authorizer`

use bytestring::ByteString;
use divan::Bencher;
use milena_machines::authorizer::{
    Acl, Authorizer, AuthorizerConfig, Caller, Decision, DecisionCache, Operation, PatternType, Permission,
    ResourceType,
};
use milena_wire::Uuid;

fn main() {
    divan::main();
}

const RULES: u128 = 10_000;

/// The shapes that ACLs of a large cluster have.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// Each application has rules for its own topics.
    Literals,
    /// Each application has rules for a prefix.
    Prefixes,
    /// Prefixes that are prefixes of each other, five deep.
    Nested,
    /// All prefixes belong to one principal.
    OwnPrefixes,
    /// All rules are for one topic, each for another principal.
    OneTopic,
    /// All rules are for one topic and one principal, each for another host.
    OnePrincipal,
}

const SHAPES: [Shape; 6] = [
    Shape::Literals,
    Shape::Prefixes,
    Shape::Nested,
    Shape::OwnPrefixes,
    Shape::OneTopic,
    Shape::OnePrincipal,
];

const CALLER: Caller<'_> = Caller {
    principal: "User:application-5000",
    host: std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 1, 2)),
};

fn rule(shape: Shape, number: u128) -> Acl {
    let (resource_name, pattern_type, principal, host) = match shape {
        Shape::Literals => (
            format!("team.application-{number}.events"),
            PatternType::Literal,
            number,
            "*".to_owned(),
        ),
        Shape::Prefixes => (
            format!("team.application-{number}."),
            PatternType::Prefixed,
            number,
            "*".to_owned(),
        ),
        Shape::OwnPrefixes => (
            format!("team.application-{number}."),
            PatternType::Prefixed,
            5000,
            "*".to_owned(),
        ),
        Shape::Nested => {
            let parts = ["", ".a", ".b", ".c", ".d"]
                .get(..=(number % 5) as usize)
                .unwrap_or_default();
            let name = format!("team.application-{}{}", number / 5 * 5, parts.concat());
            (name, PatternType::Prefixed, number / 5 * 5, "*".to_owned())
        }
        Shape::OneTopic => (name_of(shape).to_string(), PatternType::Literal, number, "*".to_owned()),
        Shape::OnePrincipal => {
            let host = format!("10.0.{}.{}", number / 256, number % 256);
            (name_of(shape).to_string(), PatternType::Literal, 5000, host)
        }
    };
    Acl {
        resource_type: ResourceType::Topic,
        resource_name: resource_name.into(),
        pattern_type,
        principal: format!("User:application-{principal}").into(),
        host: host.into(),
        operation: Operation::Read,
        permission: Permission::Allow,
    }
}

/// The name of the topic that is read.
fn name_of(shape: Shape) -> ByteString {
    match shape {
        Shape::Nested => "team.application-5000.a.b.c.d.events".into(),
        _ => "team.application-5000.events".into(),
    }
}

fn authorizer(shape: Shape) -> Authorizer {
    let acls = (0..RULES).map(|number| (Uuid::from_bytes((number + 1).to_be_bytes()), rule(shape, number)));
    Authorizer::new(AuthorizerConfig::default(), acls)
}

#[divan::bench(args = SHAPES)]
fn uncached(bencher: Bencher<'_, '_>, shape: Shape) {
    let authorizer = authorizer(shape);
    let name = name_of(shape);
    let decide = || authorizer.operations(CALLER, ResourceType::Topic, divan::black_box(&name));
    assert!(decide().contains(Operation::Read));
    bencher.bench_local(decide);
}

#[divan::bench]
fn cached(bencher: Bencher<'_, '_>) {
    let authorizer = authorizer(Shape::Prefixes);
    let mut cache = DecisionCache::default();
    for number in 0..100 {
        let name = format!("team.application-{number}.events");
        let operations = authorizer.operations(CALLER, ResourceType::Topic, &name);
        cache.insert(
            authorizer.epoch(),
            Decision::Resource(ResourceType::Topic, &name, operations),
        );
    }
    let name = "team.application-50.events";
    bencher.bench_local(|| cache.operations(authorizer.epoch(), ResourceType::Topic, divan::black_box(name)));
}

#[divan::bench(args = SHAPES)]
fn add_one(bencher: Bencher<'_, '_>, shape: Shape) {
    let mut authorizer = authorizer(shape);
    let id = Uuid::from_bytes((RULES + 1).to_be_bytes());
    bencher.bench_local(|| {
        authorizer.change([(id, rule(shape, RULES))], []);
        authorizer.change([], [id]);
    });
}

//! One access control list entry, and the enumerations that it is made of.

use std::{fmt, net::IpAddr};

use bytestring::ByteString;

use super::{CLUSTER, Caller, OperationSet};

/// The principal of ACLs that are for everyone.
pub(super) const ANY_PRINCIPAL: &str = "User:*";
/// The host of ACLs that are for every host, and the literal name of those that are for every resource.
pub(super) const ANY: &str = "*";

/// A code or name of an enumeration that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unknown;

/// An enumeration with Kafka's codes and names.
macro_rules! enumeration {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $code:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant = $code,)* }

        impl $name {
            /// In the order of their codes.
            pub const ALL: [Self; [$($code),*].len()] = [$(Self::$variant),*];

            pub const fn code(self) -> i8 {
                self as i8
            }

            pub fn from_code(code: i8) -> Result<Self, Unknown> {
                Self::ALL.into_iter().find(|known| known.code() == code).ok_or(Unknown)
            }

            /// Kafka's name, which is also stored.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            pub fn from_name(name: &str) -> Result<Self, Unknown> {
                Self::ALL.into_iter().find(|known| known.name() == name).ok_or(Unknown)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

enumeration! {
    /// The kind of thing that an ACL is about.
    ResourceType {
        Topic = 2 "TOPIC",
        Group = 3 "GROUP",
        Cluster = 4 "CLUSTER",
        TransactionalId = 5 "TRANSACTIONAL_ID",
        DelegationToken = 6 "DELEGATION_TOKEN",
        User = 7 "USER",
    }
}

enumeration! {
    /// The way in which the name of an ACL covers names of resources.
    PatternType {
        /// The name itself; `*` stands for every name.
        Literal = 3 "LITERAL",
        /// Every name that begins with it.
        Prefixed = 4 "PREFIXED",
    }
}

enumeration! {
    Operation {
        /// Every operation; only ACLs have it.
        All = 2 "ALL",
        Read = 3 "READ",
        Write = 4 "WRITE",
        Create = 5 "CREATE",
        Delete = 6 "DELETE",
        Alter = 7 "ALTER",
        Describe = 8 "DESCRIBE",
        ClusterAction = 9 "CLUSTER_ACTION",
        DescribeConfigs = 10 "DESCRIBE_CONFIGS",
        AlterConfigs = 11 "ALTER_CONFIGS",
        IdempotentWrite = 12 "IDEMPOTENT_WRITE",
        CreateTokens = 13 "CREATE_TOKENS",
        DescribeTokens = 14 "DESCRIBE_TOKENS",
        TwoPhaseCommit = 15 "TWO_PHASE_COMMIT",
    }
}

enumeration! {
    Permission {
        Deny = 2 "DENY",
        Allow = 3 "ALLOW",
    }
}

/// An access control list entry. The order is by resource, then by principal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acl {
    pub resource_type: ResourceType,
    pub resource_name: ByteString,
    pub pattern_type: PatternType,
    /// A principal with its type, such as `User:alice`; `User:*` is everyone.
    pub principal: ByteString,
    /// An address in any form, or `*`. Other texts are kept, and never match.
    pub host: ByteString,
    pub operation: Operation,
    pub permission: Permission,
}

/// An ACL that cannot be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAcl {
    #[error("Invalid empty resource name")]
    NoName,
    #[error("The only valid name for the CLUSTER resource is {CLUSTER}")]
    ClusterName,
    #[error(
        "Could not parse principal from `{principal}` (no colon is present separating the principal type from the \
         principal name)"
    )]
    Principal { principal: ByteString },
}

impl Acl {
    /// Refuses an ACL that Kafka does not create. Operations are not compared with the type of the resource.
    pub fn check(&self) -> Result<(), InvalidAcl> {
        if self.resource_type == ResourceType::Cluster && self.resource_name != CLUSTER {
            return Err(InvalidAcl::ClusterName);
        }
        if self.resource_name.is_empty() {
            return Err(InvalidAcl::NoName);
        }
        match self.principal.contains(':') {
            true => Ok(()),
            false => Err(InvalidAcl::Principal {
                principal: self.principal.clone(),
            }),
        }
    }

    /// Whether it is for every resource of its type.
    pub(super) fn covers_all(&self) -> bool {
        self.pattern_type == PatternType::Literal && self.resource_name == ANY
    }

    /// Whether principal and host are those of the caller.
    pub(super) fn applies_to(&self, caller: Caller<'_>) -> bool {
        let has_principal = self.principal == caller.principal || self.principal == ANY_PRINCIPAL;
        has_principal
            && match HostMatch::of(self) {
                HostMatch::Any => true,
                HostMatch::Address(host) => host == caller.host.to_canonical(),
                HostMatch::Never => false,
            }
    }

    /// Whether it allows or denies an operation, if it applies.
    pub(super) fn decides(&self, operation: Operation) -> bool {
        OperationSet::of_acl(self.operation, self.permission).contains(operation)
    }

    /// The least ACL of a type; it is no valid one.
    pub(super) fn first_of(resource_type: ResourceType) -> Self {
        Self::first_of_principal(resource_type, "", PatternType::Literal, "")
    }

    /// The least ACL of a pattern and a principal; it is no valid one.
    pub(super) fn first_of_principal(
        resource_type: ResourceType,
        resource_name: &str,
        pattern_type: PatternType,
        principal: &str,
    ) -> Self {
        Self {
            resource_type,
            resource_name: resource_name.into(),
            pattern_type,
            principal: principal.into(),
            host: ByteString::new(),
            operation: Operation::All,
            permission: Permission::Deny,
        }
    }

    /// Whether resource, pattern and principal are the same.
    pub(super) fn has_principal_of(&self, other: &Self) -> bool {
        self.resource_type == other.resource_type
            && self.pattern_type == other.pattern_type
            && self.resource_name == other.resource_name
            && self.principal == other.principal
    }
}

/// The hosts that an ACL is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostMatch {
    Any,
    Address(IpAddr),
    /// The text is no address.
    Never,
}

impl HostMatch {
    pub(super) fn of(acl: &Acl) -> Self {
        if acl.host == ANY {
            return Self::Any;
        }
        // The zone of a link-local address is unknown here. A DENY must not be evaded by that, nor an ALLOW be widened.
        let (address, has_zone) = match acl.host.split_once('%') {
            Some((address, _)) => (address, true),
            None => (&*acl.host, false),
        };
        match address.parse::<IpAddr>() {
            Ok(_) if has_zone && acl.permission == Permission::Allow => Self::Never,
            Ok(address) => Self::Address(address.to_canonical()),
            Err(_) => Self::Never,
        }
    }
}

impl fmt::Display for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            resource_type,
            resource_name,
            pattern_type,
            principal,
            host,
            operation,
            permission,
        } = self;
        write!(
            f,
            "{permission} {operation} to {principal} from {host} on {resource_type}:{pattern_type}:{resource_name}"
        )
    }
}

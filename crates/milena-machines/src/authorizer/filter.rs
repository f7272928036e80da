//! Filters that select ACLs, as DescribeAcls and DeleteAcls have them.

use bytestring::ByteString;

use super::{Acl, Operation, PatternType, Permission, ResourceType};

/// A filter of ACLs; `None` selects any value. Texts are compared as they were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AclFilter {
    pub resource_type: Option<ResourceType>,
    pub resource_name: Option<ByteString>,
    pub pattern: PatternFilter,
    pub principal: Option<ByteString>,
    pub host: Option<ByteString>,
    pub operation: Option<Operation>,
    pub permission: Option<Permission>,
}

/// The pattern types that a filter selects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PatternFilter {
    /// Both, with the filter's name.
    #[default]
    Any,
    /// All patterns that cover the resource of the filter's name.
    Match,
    Only(PatternType),
}

impl AclFilter {
    pub fn matches(&self, acl: &Acl) -> bool {
        fn is<T: PartialEq>(filter: Option<&T>, value: &T) -> bool {
            filter.is_none_or(|filter| filter == value)
        }
        is(self.resource_type.as_ref(), &acl.resource_type)
            && self.matches_pattern(acl)
            && is(self.principal.as_ref(), &acl.principal)
            && is(self.host.as_ref(), &acl.host)
            && is(self.operation.as_ref(), &acl.operation)
            && is(self.permission.as_ref(), &acl.permission)
    }

    fn matches_pattern(&self, acl: &Acl) -> bool {
        if let PatternFilter::Only(pattern_type) = self.pattern
            && pattern_type != acl.pattern_type
        {
            return false;
        }
        let Some(name) = &self.resource_name else {
            return true;
        };
        match (self.pattern, acl.pattern_type) {
            (PatternFilter::Match, PatternType::Literal) => *name == acl.resource_name || acl.covers_all(),
            (PatternFilter::Match, PatternType::Prefixed) => name.starts_with(&*acl.resource_name),
            (PatternFilter::Any | PatternFilter::Only(_), _) => *name == acl.resource_name,
        }
    }
}

//! Sets of operations.

use super::{Operation, Permission};

/// A set of operations, one bit for each, at the position of its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OperationSet(u16);

impl OperationSet {
    pub const NONE: Self = Self(0);
    /// All that can be requested, from READ to TWO_PHASE_COMMIT.
    pub const ALL: Self = Self(!0b111);

    pub const fn of(operations: &[Operation]) -> Self {
        let mut bits = 0;
        let mut rest = operations;
        while let [operation, others @ ..] = rest {
            bits |= 1 << operation.code();
            rest = others;
        }
        Self(bits)
    }

    /// The operations that an ACL decides about: its own and, if it allows, those that it implies.
    pub(super) const fn of_acl(operation: Operation, permission: Permission) -> Self {
        use Operation::{All, Alter, AlterConfigs, Delete, Describe, DescribeConfigs, Read, Write};
        match (operation, permission) {
            (All, _) => Self::ALL,
            (Read | Write | Delete | Alter, Permission::Allow) => Self::of(&[operation, Describe]),
            (AlterConfigs, Permission::Allow) => Self::of(&[operation, DescribeConfigs]),
            _ => Self::of(&[operation]),
        }
    }

    pub const fn contains(self, operation: Operation) -> bool {
        self.0 & (1 << operation.code()) != 0
    }

    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The bits as responses have them.
    pub const fn bits(self) -> i32 {
        self.0 as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_but_all_has_a_bit_in_the_full_set() {
        for operation in Operation::ALL
            .into_iter()
            .filter(|operation| *operation != Operation::All)
        {
            assert!(OperationSet::ALL.contains(operation), "{operation}");
        }
        assert!(!OperationSet::ALL.contains(Operation::All));
        let with_describe = OperationSet::of_acl(Operation::Read, Permission::Allow);
        assert_eq!(with_describe.bits(), 1 << 3 | 1 << 8);
        assert_eq!(OperationSet::of_acl(Operation::Read, Permission::Deny).bits(), 1 << 3);
    }
}

//! Who of a group reads what: the assignors that run in its leader.

//! Invariants of the machines, as findings of a run.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use milena_invariant::panic_on_violation;

/// Plays a part of a run. A violated invariant ends the part and is returned as the failure of the run.
pub(crate) fn until_violated(part: impl FnOnce()) -> Result<(), String> {
    // The simulator is built without debug assertions when many seeds are played.
    panic_on_violation(true);
    catch_unwind(AssertUnwindSafe(part)).map_err(|payload| match payload.downcast::<String>() {
        Ok(text) if text.starts_with("invariant violated: ") => *text,
        Ok(text) => resume_unwind(text),
        Err(payload) => resume_unwind(payload),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_is_a_finding_and_another_panic_is_not() {
        let found = until_violated(|| milena_invariant::violated!("there_is_no_such_state"));
        assert!(found.unwrap_err().contains("there_is_no_such_state"));
        assert_eq!(until_violated(|| {}), Ok(()));
        let other = catch_unwind(|| until_violated(|| panic!("something else {}", 1)));
        assert!(other.is_err());
    }
}

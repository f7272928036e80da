//! Invariants: conditions that always hold, unless this code base has a bug.
//!
//! [`invariant!`] checks a condition and returns whether it holds. [`violated!`] marks a branch that no correct state leads
//! to. Both take the name of the invariant, a statement that holds: `every_timer_has_a_group`. A violation
//!
//! - panics in builds with debug assertions, and wherever [`panic_on_violation`] was called (the simulator);
//! - otherwise is counted, and logged the first time with the event `invariant_violated`. The caller goes on, with a way
//!   out that harms the least: it drops the event, refuses the request, closes the connection.
//!
//! [`violations`] has the counters, [`to_prometheus`] writes them for a metrics endpoint. They never influence a decision,
//! so that machines stay a function of their inputs.
//!
//! Bytes and messages of a peer are not covered by invariants: a mistake of a peer is an error, not a violation.
//!
//! ```
//! use milena_invariant::{invariant, violated};
//!
//! fn half(total: u32, parts: &[u32]) -> Option<u32> {
//!     invariant!(parts.iter().sum::<u32>() == total, "parts_make_the_total");
//!     let Some(first) = parts.first() else {
//!         violated!("there_is_a_part");
//!         return None;
//!     };
//!     Some(*first / 2)
//! }
//! assert_eq!(half(6, &[4, 2]), Some(2));
//! ```

#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Checks a condition that always holds and returns whether it does: `if !invariant!(condition, "name") { return; }`.
#[macro_export]
macro_rules! invariant {
    ($condition:expr, $name:literal $(,)?) => {{
        let holds: bool = $condition;
        if !holds {
            $crate::violated!($name);
        }
        holds
    }};
}

/// Marks a branch that no correct state leads to; the name states the condition that should have held.
#[macro_export]
macro_rules! violated {
    ($name:literal $(,)?) => {{
        static CHECK: $crate::Check = $crate::Check::new($name, ::core::file!(), ::core::line!());
        CHECK.violated();
    }};
}

static PANICS: AtomicBool = AtomicBool::new(cfg!(debug_assertions));

/// Checks that were violated at least once. Empty in a process without bugs, so the lock is never contended.
static VIOLATED: Mutex<Vec<&'static Check>> = Mutex::new(Vec::new());

/// Makes violations panic in this process also without debug assertions, or stops that.
pub fn panic_on_violation(panics: bool) {
    PANICS.store(panics, Ordering::Relaxed);
}

/// The number of violations of each invariant since the process began; those that held are left out.
pub fn violations() -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for check in VIOLATED.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        *counts.entry(check.name).or_default() += check.violations.load(Ordering::Relaxed);
    }
    counts
}

/// The violations as the counter `milena_invariant_violations_total` in the text format of Prometheus.
///
/// Without a violation there is only the head of the family.
pub fn to_prometheus() -> String {
    const NAME: &str = "milena_invariant_violations_total";
    let mut text =
        format!("# HELP {NAME} Violated invariants, which are bugs of Milena, by name.\n# TYPE {NAME} counter\n");
    for (name, count) in violations() {
        let _ = writeln!(text, "{NAME}{{name=\"{name}\"}} {count}");
    }
    text
}

/// One place in the code that checks an invariant. Made by [`violated!`].
#[derive(Debug)]
pub struct Check {
    name: &'static str,
    file: &'static str,
    line: u32,
    violations: AtomicU64,
}

impl Check {
    /// The name is part of a metric, so it is in snake case; anything else does not compile.
    pub const fn new(name: &'static str, file: &'static str, line: u32) -> Self {
        assert!(is_snake_case(name), "the name of an invariant is in snake_case");
        Self {
            name,
            file,
            line,
            violations: AtomicU64::new(0),
        }
    }

    /// Panics, or counts the violation and logs the first one.
    #[cold]
    pub fn violated(&'static self) {
        let Self { name, file, line, .. } = self;
        if PANICS.load(Ordering::Relaxed) {
            panic!("invariant violated: {name} ({file}:{line})");
        }
        if self.violations.fetch_add(1, Ordering::Relaxed) > 0 {
            return;
        }
        VIOLATED.lock().unwrap_or_else(PoisonError::into_inner).push(self);
        tracing::error!(
            event = "invariant_violated",
            name,
            file,
            line,
            "invariant violated: this is a bug in Milena, please report it; further violations are only counted"
        );
    }
}

const fn is_snake_case(name: &str) -> bool {
    let mut rest = name.as_bytes();
    while let [first, tail @ ..] = rest {
        if !matches!(first, b'a'..=b'z' | b'0'..=b'9' | b'_') {
            return false;
        }
        rest = tail;
    }
    !name.is_empty()
}

#[cfg(test)]
mod tests {
    use std::{io, panic, sync::Arc};

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn check(number: i32) -> bool {
        invariant!(number % 2 == 0, "numbers_are_even")
    }

    // One test: the switch, the counters and the list belong to the whole process.
    #[test]
    fn a_violation_panics_or_is_counted_and_logged_once() {
        panic_on_violation(true);
        assert!(check(2));
        let panicked = panic::catch_unwind(|| check(1)).unwrap_err();
        let text = panicked.downcast_ref::<String>().unwrap();
        assert!(text.starts_with("invariant violated: numbers_are_even ("), "{text}");
        assert!(violations().is_empty());

        panic_on_violation(false);
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            assert!(!check(1) && !check(3) && check(4));
            violated!("there_is_a_seventh_day");
        });
        assert_eq!(
            violations(),
            [("numbers_are_even", 2), ("there_is_a_seventh_day", 1)].into()
        );
        assert_eq!(
            to_prometheus(),
            "# HELP milena_invariant_violations_total Violated invariants, which are bugs of Milena, by name.\n\
             # TYPE milena_invariant_violations_total counter\n\
             milena_invariant_violations_total{name=\"numbers_are_even\"} 2\n\
             milena_invariant_violations_total{name=\"there_is_a_seventh_day\"} 1\n"
        );
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("event=\"invariant_violated\""), "{text}");
        assert!(text.contains("name=\"numbers_are_even\""), "{text}");
    }

    #[test]
    fn names_are_in_snake_case() {
        assert!(is_snake_case("every_timer_2_has_a_group"));
        for bad in ["", "Every", "a timer", "a-timer", "a\"b"] {
            assert!(!is_snake_case(bad), "{bad}");
        }
    }
}

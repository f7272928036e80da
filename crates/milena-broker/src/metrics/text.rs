//! The text format of Prometheus.

use std::fmt::{Display, Write as _};

use super::histogram::{BOUNDS_US, Snapshot};

/// The content type of the format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics as text. The samples of a family follow its [`family`](Self::family) line.
#[derive(Debug, Default)]
pub(super) struct Text(String);

/// The labels of a sample.
pub(super) type Labels<'a> = &'a [(&'a str, &'a dyn Display)];

impl Text {
    /// Begins a family: the samples that follow are of this name and type.
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    pub(super) fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.0.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            self.0.push(if index == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{label}=\"");
            escape(&value.to_string(), &mut self.0);
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    /// A family with one sample.
    pub(super) fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// The samples of a histogram in milliseconds, with one label.
    pub(super) fn histogram_ms(&mut self, name: &str, (label, value): (&str, &dyn Display), snapshot: &Snapshot) {
        let bucket = format!("{name}_bucket");
        for (bound_us, count) in BOUNDS_US.iter().zip(snapshot.cumulative) {
            let bound = milliseconds(*bound_us);
            self.sample(&bucket, &[(label, value), ("le", &bound)], count);
        }
        self.sample(&bucket, &[(label, value), ("le", &"+Inf")], snapshot.count());
        self.sample(&format!("{name}_sum"), &[(label, value)], milliseconds(snapshot.sum_us));
        self.sample(&format!("{name}_count"), &[(label, value)], snapshot.count());
    }

    /// Families that are text already.
    pub(super) fn append(&mut self, families: &str) {
        self.0.push_str(families);
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

fn milliseconds(us: u64) -> f64 {
    us as f64 / 1000.0
}

/// Label values have backslashes, quotes and line ends escaped.
fn escape(value: &str, text: &mut String) {
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_its_labels_escaped() {
        let mut text = Text::default();
        text.family("a_total", "counter", "Some help.");
        text.sample("a_total", &[("group", &"a\"b\\c\nd"), ("partition", &3)], 7);
        text.sample("a_total", &[], 8);
        assert_eq!(
            text.finish(),
            "# HELP a_total Some help.\n# TYPE a_total counter\na_total{group=\"a\\\"b\\\\c\\nd\",partition=\"3\"} 7\na_total 8\n"
        );
    }
}

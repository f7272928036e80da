//! Measured figures, and the bars that they must reach.

use std::{collections::HashMap, fmt::Write};

use crate::peers::Peer;

/// One number of one run. Its name includes the unit.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    pub name: &'static str,
    pub value: f64,
}

pub fn figure(name: &'static str, value: f64) -> Figure {
    Figure { name, value }
}

/// The limit of a figure: absolute, or relative to Kafka's.
#[derive(Debug, Clone, Copy)]
pub enum Bar {
    AtMost(f64),
    AtLeast(f64),
    TimesKafkaAtLeast(f64),
    TimesKafkaAtMost(f64),
    /// Shown without a limit.
    Shown,
}

#[derive(Default)]
pub struct Table {
    values: HashMap<(Peer, &'static str), Vec<f64>>,
}

impl Table {
    pub fn add(&mut self, peer: Peer, figures: Vec<Figure>) {
        for figure in figures {
            eprintln!("  {:<42} {:>10}", figure.name, number(figure.value));
            self.values.entry((peer, figure.name)).or_default().push(figure.value);
        }
    }

    /// A line for each bar. Ratios are those of the medians; a figure without a counterpart counts by its best
    /// round, because other processes on the machine can only make it worse.
    pub fn show<'a>(&self, bars: impl Iterator<Item = &'a (&'static str, Bar)>) -> String {
        let mut text = format!(
            "{:<42} {:>10} {:>10} {:>10} {:>8}  bar\n",
            "", "best", "median", "Kafka", "ratio"
        );
        let mut last = "";
        for (name, bar) in bars {
            let (ours, kafkas) = (self.sorted(Peer::Milena, name), self.sorted(Peer::Kafka, name));
            let (median, kafka) = (median(&ours), median(&kafkas));
            let ratio = median / kafka;
            let best = match bar {
                Bar::TimesKafkaAtLeast(_) | Bar::AtLeast(_) => ours.last(),
                _ => ours.first(),
            };
            let best = best.copied().unwrap_or(f64::NAN);
            let (wanted, met) = match *bar {
                Bar::AtMost(limit) => (format!("≤ {limit}"), best <= limit),
                Bar::AtLeast(limit) => (format!("≥ {limit}"), best >= limit),
                Bar::TimesKafkaAtLeast(limit) => (format!("≥ {limit}× Kafka"), ratio >= limit),
                Bar::TimesKafkaAtMost(limit) => (format!("≤ {limit}× Kafka"), ratio <= limit),
                Bar::Shown => (String::new(), true),
            };
            let label = if *name == last { "" } else { name };
            last = name;
            let alone = matches!(bar, Bar::AtMost(_) | Bar::AtLeast(_));
            let verdict = match met {
                _ if wanted.is_empty() || best.is_nan() || (!alone && ratio.is_nan()) => "",
                true => "met",
                false => "MISSED",
            };
            let (best, median, kafka, ratio) = (number(best), number(median), number(kafka), number(ratio));
            let _ = writeln!(
                text,
                "{label:<42} {best:>10} {median:>10} {kafka:>10} {ratio:>8}  {wanted:<14} {verdict}"
            );
        }
        text
    }

    fn sorted(&self, peer: Peer, name: &'static str) -> Vec<f64> {
        let mut values = self.values.get(&(peer, name)).cloned().unwrap_or_default();
        values.sort_by(f64::total_cmp);
        values
    }
}

pub fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

pub fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "-".to_owned(),
        value if value.abs() >= 100.0 => format!("{value:.0}"),
        value if value.abs() >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.4}"),
    }
}

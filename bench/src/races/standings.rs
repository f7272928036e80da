//! Results of each client, and whether ours is far enough ahead.

use std::fmt::Write;

use crate::figures::{median, number};

/// A participant of a race.
pub trait Racer: Copy + Eq + 'static {
    /// In the order in which they are shown.
    const ALL: &'static [Self];
    const OURS: &'static [Self];
    /// The least that the work can cost, without any client.
    const RAW: Option<Self>;

    fn name(self) -> &'static str;

    /// Whether it is a client of another project.
    fn is_peer(self) -> bool {
        !Self::OURS.contains(&self) && Some(self) != Self::RAW
    }
}

/// The limit for a figure of ours. The fastest peer is the one with the best first figure.
#[derive(Debug, Clone, Copy)]
pub enum Bar {
    AtLeast(f64),
    AtMost(f64),
    TimesFastestAtLeast(f64),
    TimesFastestAtMost(f64),
    TimesRawAtMost(f64),
    AboveAllPeers,
    BelowAllPeers,
}

/// Whether our figure, or its ratio to a peer's, meets the limit.
type Check = fn(f64, f64) -> bool;

/// The figures of all racers under one load.
pub struct Standings<R> {
    figures: &'static [&'static str],
    /// For each run of a racer, its figures.
    runs: Vec<(R, Vec<f64>)>,
}

impl<R: Racer> Standings<R> {
    pub fn new(figures: &'static [&'static str]) -> Self {
        Self { figures, runs: vec![] }
    }

    pub fn add(&mut self, racer: R, values: Vec<f64>) {
        let shown: Vec<String> = values.iter().map(|value| format!("{:>10}", number(*value))).collect();
        eprintln!("  {:<13} {}", racer.name(), shown.join(" "));
        self.runs.push((racer, values));
    }

    /// The medians of all racers, then a line for each bar, with the index of its figure.
    pub fn show(&self, title: &str, bars: &[(usize, Bar)]) -> String {
        let mut text = format!("\n{title}\n{:<14}", "");
        for name in self.figures {
            let _ = write!(text, "{name:>15}");
        }
        text.push('\n');
        for racer in R::ALL.iter().copied() {
            if !self.has(racer) {
                continue;
            }
            let _ = write!(text, "{:<14}", racer.name());
            for place in 0..self.figures.len() {
                let _ = write!(text, "{:>15}", number(self.median(racer, place)));
            }
            text.push('\n');
        }
        for racer in R::OURS.iter().copied().filter(|racer| self.has(*racer)) {
            for (place, bar) in bars {
                self.show_bar(&mut text, racer, *place, *bar);
            }
        }
        text
    }

    fn show_bar(&self, text: &mut String, racer: R, place: usize, bar: Bar) {
        let ours = self.median(racer, place);
        let (beside, wanted, is_met): (Option<R>, String, Check) = match bar {
            Bar::AtLeast(limit) => (None, format!("≥ {limit}"), |ours, limit| ours >= limit),
            Bar::AtMost(limit) => (None, format!("≤ {limit}"), |ours, limit| ours <= limit),
            Bar::TimesFastestAtLeast(factor) => {
                let wanted = format!("≥ {factor}× the fastest peer");
                (self.fastest(), wanted, |ratio, factor| ratio >= factor)
            }
            Bar::TimesFastestAtMost(factor) => {
                let wanted = format!("≤ {factor}× the fastest peer");
                (self.fastest(), wanted, |ratio, factor| ratio <= factor)
            }
            Bar::TimesRawAtMost(factor) => {
                let wanted = format!("≤ {factor}× the raw loop");
                (R::RAW, wanted, |ratio, factor| ratio <= factor)
            }
            Bar::AboveAllPeers => {
                let wanted = "above every peer".to_owned();
                (self.most(place), wanted, |ratio, factor| ratio > factor)
            }
            Bar::BelowAllPeers => {
                let wanted = "below every peer".to_owned();
                (self.least(place), wanted, |ratio, factor| ratio < factor)
            }
        };
        let theirs = beside.map_or(f64::NAN, |racer| self.median(racer, place));
        let (value, limit) = match bar {
            Bar::AtLeast(limit) | Bar::AtMost(limit) => (ours, limit),
            Bar::TimesFastestAtLeast(factor) | Bar::TimesFastestAtMost(factor) | Bar::TimesRawAtMost(factor) => {
                (ours / theirs, factor)
            }
            // Not a ratio: latencies can be negative.
            Bar::AboveAllPeers | Bar::BelowAllPeers => (ours, theirs),
        };
        let verdict = match is_met(value, limit) {
            _ if value.is_nan() || limit.is_nan() => "",
            true => "met",
            false => "MISSED",
        };
        let (name, who, beside) = (self.figures[place], racer.name(), beside.map_or("", R::name));
        let (ours, theirs, ratio) = (number(ours), number(theirs), number(ours / theirs));
        let _ = writeln!(
            text,
            "  {name:<16} {who:<13} {ours:>8}  {beside:<10} {theirs:>8}  ratio {ratio:>7}  {wanted:<24} {verdict}"
        );
    }

    fn has(&self, racer: R) -> bool {
        self.runs.iter().any(|(who, _)| *who == racer)
    }

    /// The median of a racer's figures at this index.
    pub fn median(&self, racer: R, place: usize) -> f64 {
        let runs = self.runs.iter().filter(|(who, _)| *who == racer);
        let mut values: Vec<f64> = runs.map(|(_, values)| values[place]).collect();
        values.sort_by(f64::total_cmp);
        median(&values)
    }

    /// The peer with the best first figure.
    pub fn fastest(&self) -> Option<R> {
        self.most(0)
    }

    fn most(&self, place: usize) -> Option<R> {
        let by_figure = |a: &R, b: &R| self.median(*a, place).total_cmp(&self.median(*b, place));
        self.peers().max_by(by_figure)
    }

    fn least(&self, place: usize) -> Option<R> {
        let by_figure = |a: &R, b: &R| self.median(*a, place).total_cmp(&self.median(*b, place));
        self.peers().min_by(by_figure)
    }

    fn peers(&self) -> impl Iterator<Item = R> {
        let all = R::ALL.iter().copied();
        all.filter(|racer| racer.is_peer() && self.has(*racer))
    }
}

//! Offences that were there before their rule, as counts that may only fall.
//!
//! A line of `xtask/exceptions.txt` is a rule, a count and a path; it covers all files below the path. The file is read by
//! people in reviews: a count that rises is a step back, a line that goes away is a step forward.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::Offence;

pub(super) const FILE: &str = "xtask/exceptions.txt";
const HEAD: &str = "\
# Offences that are older than their rule: rule, count, path. Counts may only fall.
# `cargo xtask tidy --update-exceptions` lowers them; it never raises one.
";
/// Offences that are listed when there are more of them than excepted.
const LISTED_MAX: usize = 20;

pub(super) struct Exceptions(Vec<Exception>);

struct Exception {
    rule: String,
    count: usize,
    path: PathBuf,
}

impl Exceptions {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let exceptions = lines.map(|line| {
            let mut parts = line.splitn(3, ' ');
            let (rule, count, path) = (parts.next(), parts.next(), parts.next());
            let exception = rule.zip(count).zip(path).and_then(|((rule, count), path)| {
                Some(Exception {
                    rule: rule.to_owned(),
                    count: count.parse().ok()?,
                    path: path.into(),
                })
            });
            exception.with_context(|| format!("{FILE}: `{line}` is not a rule, a count and a path"))
        });
        Ok(Self(exceptions.collect::<Result<_>>()?))
    }

    /// Returns the offences that no exception covers, and those of exceptions that are exceeded.
    pub(super) fn uncovered(&self, offences: &[Offence]) -> Vec<String> {
        let mut uncovered: Vec<String> = offences
            .iter()
            .filter(|offence| !self.0.iter().any(|exception| exception.covers(offence)))
            .map(Offence::to_string)
            .collect();
        for exception in &self.0 {
            let covered = exception.covered(offences);
            if covered.len() > exception.count {
                let listed = covered.iter().take(LISTED_MAX);
                uncovered.extend(listed.map(|offence| offence.to_string()));
                uncovered.push(format!(
                    "{}: rule `{}`: {} offences, {} are excepted in {FILE}; which are new?",
                    exception.path.display(),
                    exception.rule,
                    covered.len(),
                    exception.count
                ));
            }
        }
        uncovered
    }

    /// How many of the excepted offences are gone.
    pub(super) fn obsolete(&self, offences: &[Offence]) -> usize {
        let surplus = |exception: &Exception| exception.count.saturating_sub(exception.covered(offences).len());
        self.0.iter().map(surplus).sum()
    }

    /// Lowers the counts to the offences there are, drops those at zero, and writes the file.
    pub(super) fn lower(mut self, root: &Path, offences: &[Offence]) -> Result<()> {
        for exception in &mut self.0 {
            exception.count = exception.count.min(exception.covered(offences).len());
        }
        self.0.retain(|exception| exception.count > 0);
        fs::write(root.join(FILE), self.to_text()).with_context(|| format!("cannot write {FILE}"))
    }

    fn to_text(&self) -> String {
        let mut lines: Vec<String> = self.0.iter().map(Exception::to_line).collect();
        lines.sort();
        format!("{HEAD}{}", lines.concat())
    }
}

impl Exception {
    fn covers(&self, offence: &Offence) -> bool {
        self.rule == offence.rule && offence.path.starts_with(&self.path)
    }

    fn covered<'a>(&self, offences: &'a [Offence]) -> Vec<&'a Offence> {
        offences.iter().filter(|offence| self.covers(offence)).collect()
    }

    fn to_line(&self) -> String {
        format!("{} {} {}\n", self.rule, self.count, self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offence(path: &str) -> Offence {
        Offence {
            rule: "word",
            path: path.into(),
            line: 1,
            text: "bad".to_owned(),
        }
    }

    #[test]
    fn counts_may_fall_but_not_rise() {
        let exceptions = Exceptions::parse("# head\nword 1 crates/a\nevent 2 crates/a\n").unwrap();
        let one = [offence("crates/a/src/lib.rs")];
        let two = [offence("crates/a/src/lib.rs"), offence("crates/a/src/b.rs")];
        assert!(exceptions.uncovered(&one).is_empty());
        assert_eq!(exceptions.obsolete(&one), 2);
        assert_eq!(exceptions.uncovered(&two).len(), 3);
        assert_eq!(exceptions.uncovered(&[offence("crates/ab/src/lib.rs")]).len(), 1);
        assert!(Exceptions::parse("word crates/a").is_err());
    }
}

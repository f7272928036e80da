//! Lines of code that stand in a run of eight which occurs elsewhere too.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
};

use crate::source::SourceFile;

/// Lines of a run that count as copied if they occur twice.
const RUN: usize = 8;

/// Copied lines of each file.
pub(super) struct Duplicates(HashMap<PathBuf, Copied>);

#[derive(Clone, Copy, Default)]
pub(super) struct Copied {
    pub(super) production: usize,
    pub(super) test: usize,
}

impl Duplicates {
    /// Production code is compared with production code and tests with tests.
    pub(super) fn find(files: &[SourceFile]) -> Self {
        let mut copied: HashMap<PathBuf, Copied> = HashMap::new();
        for is_test in [false, true] {
            let code: Vec<Vec<&str>> = files.iter().map(|file| code_lines(file, is_test)).collect();
            let mut times: HashMap<u64, usize> = HashMap::new();
            for run in code.iter().flat_map(|lines| lines.windows(RUN)) {
                *times.entry(hash(run)).or_default() += 1;
            }
            for (file, lines) in files.iter().zip(&code) {
                let count = count_copied(lines, &times);
                let entry = copied.entry(file.path.clone()).or_default();
                *(if is_test {
                    &mut entry.test
                } else {
                    &mut entry.production
                }) += count;
            }
        }
        Self(copied)
    }

    pub(super) fn of(&self, path: &Path) -> Copied {
        self.0.get(path).copied().unwrap_or_default()
    }
}

fn code_lines(file: &SourceFile, is_test: bool) -> Vec<&str> {
    let lines = file
        .lines
        .iter()
        .filter(|line| line.is_test == is_test && line.is_code());
    lines.map(|line| line.code.trim()).collect()
}

fn count_copied(lines: &[&str], times: &HashMap<u64, usize>) -> usize {
    let mut is_copied = vec![false; lines.len()];
    for (start, run) in lines.windows(RUN).enumerate() {
        if times.get(&hash(run)).is_some_and(|times| *times > 1) {
            is_copied[start..start + RUN].fill(true);
        }
    }
    is_copied.into_iter().filter(|is_copied| *is_copied).count()
}

fn hash(run: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    run.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_equal_lines_are_a_copy_and_seven_are_not() {
        let body = |lines: usize| (0..lines).map(|n| format!("let a{n} = {n};\n")).collect::<String>();
        let copied = |lines: usize| {
            let files =
                ["a.rs", "b.rs"].map(|path| SourceFile::new(Path::new(path), &format!("// {path}\n{}", body(lines))));
            Duplicates::find(&files).of(Path::new("a.rs")).production
        };
        assert_eq!(copied(7), 0);
        assert_eq!(copied(9), 9);
    }
}

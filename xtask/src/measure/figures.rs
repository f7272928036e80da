//! Sizes of files and functions, comments, visibility and tests of one crate.

use super::duplicates::Copied;
use crate::source::{SourceFile, functions, lines::Line, words::words};

pub(super) const HEAD: [&str; 14] = [
    "crate",
    "files",
    "med/p90/max",
    "fns",
    "med/p90/p99/max",
    ">70",
    "com/code",
    "echo%",
    "dup%/test",
    "pub",
    "pub()",
    "code",
    "test code",
    "tests",
];

/// Functions longer than this are counted.
const FUNCTION_LINES_MAX: usize = 70;

#[derive(Default)]
pub(super) struct Figures {
    /// Production lines of each file, with comments and blank lines.
    files: Vec<usize>,
    functions: Vec<usize>,
    code: usize,
    comments: usize,
    blocks: usize,
    echoes: usize,
    copied: Copied,
    public: usize,
    restricted: usize,
    test_code: usize,
    tests: usize,
}

impl Figures {
    pub(super) fn add(&mut self, file: &SourceFile, copied: Copied) {
        let production: Vec<&Line> = file.lines.iter().filter(|line| !line.is_test).collect();
        if !file.is_test {
            self.files.push(production.len());
        }
        for function in functions::find(&file.lines) {
            if file.lines.get(function.line).is_some_and(|line| !line.is_test) {
                self.functions.push(function.length);
            }
        }
        for line in &production {
            let code = line.masked.trim_start();
            self.code += usize::from(line.is_code());
            self.comments += usize::from(line.comment_alone().is_some());
            self.public += usize::from(is_public_item(code));
            self.restricted += usize::from(code.starts_with("pub("));
        }
        self.add_echoes(&production);
        self.copied.production += copied.production;
        self.copied.test += copied.test;
        self.test_code += file.lines.iter().filter(|line| line.is_test && line.is_code()).count();
        self.tests += file.lines.iter().filter(|line| is_test_attribute(&line.masked)).count();
    }

    /// Counts blocks of comments, and those whose every word is in the line of code below.
    fn add_echoes(&mut self, lines: &[&Line]) {
        let mut block: Vec<String> = vec![];
        for line in lines {
            if let Some(comment) = line.comment_alone() {
                block.extend(words(&comment.text));
            } else if !block.is_empty() {
                let code: Vec<String> = words(&line.code).collect();
                self.blocks += 1;
                self.echoes += usize::from(block.iter().all(|word| code.contains(word)));
                block.clear();
            }
        }
    }

    pub(super) fn has_production_code(&self) -> bool {
        !self.files.is_empty()
    }

    pub(super) fn row(&self) -> Vec<String> {
        let files = sorted(&self.files);
        let functions = sorted(&self.functions);
        let long = functions.iter().filter(|length| **length > FUNCTION_LINES_MAX).count();
        vec![
            files.len().to_string(),
            shares(&files, &[50, 90, 100]),
            functions.len().to_string(),
            shares(&functions, &[50, 90, 99, 100]),
            long.to_string(),
            format!("{:.2}", ratio(self.comments, self.code)),
            format!("{:.1}", 100.0 * ratio(self.echoes, self.blocks)),
            format!(
                "{:.1}/{:.1}",
                100.0 * ratio(self.copied.production, self.code),
                100.0 * ratio(self.copied.test, self.test_code)
            ),
            self.public.to_string(),
            self.restricted.to_string(),
            self.code.to_string(),
            self.test_code.to_string(),
            self.tests.to_string(),
        ]
    }
}

/// Whether the line declares a public item; public fields are not counted.
fn is_public_item(code: &str) -> bool {
    const ITEMS: [&str; 10] = [
        "fn", "struct", "enum", "trait", "type", "const", "static", "mod", "use", "async",
    ];
    let item = code.strip_prefix("pub ").and_then(|rest| rest.split(' ').next());
    item.is_some_and(|item| ITEMS.contains(&item))
}

fn is_test_attribute(code: &str) -> bool {
    let code = code.trim();
    code == "#[test]" || code.starts_with("#[tokio::test")
}

fn sorted(lengths: &[usize]) -> Vec<usize> {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    sorted
}

/// The lengths that these percentages of all do not exceed.
fn shares(sorted: &[usize], percentages: &[usize]) -> String {
    let at = |percentage: &usize| {
        let index = (sorted.len() * percentage / 100).min(sorted.len().saturating_sub(1));
        sorted.get(index).copied().unwrap_or_default().to_string()
    };
    percentages.iter().map(at).collect::<Vec<_>>().join("/")
}

pub(super) fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_file_is_counted_by_kind_of_line() {
        let text = "//! Errors.\n\n/// Error code.\npub(crate) fn error_code() {\n    1\n}\n\n/// Why it failed.\npub struct A;\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() {}\n}\n";
        let mut figures = Figures::default();
        figures.add(&SourceFile::new(Path::new("a.rs"), text), Copied::default());
        assert_eq!(
            (figures.blocks, figures.echoes, figures.comments, figures.code),
            (3, 1, 3, 4)
        );
        assert_eq!((figures.public, figures.restricted), (1, 1));
        assert_eq!((figures.tests, figures.test_code), (1, 5));
        assert_eq!(figures.functions, [3]);
        assert_eq!(figures.files, [10]);
    }
}

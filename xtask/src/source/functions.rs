//! Finds functions and their lengths by counting braces.

use super::lines::{Line, is_name};

/// A function with a body.
pub(crate) struct Function {
    /// Line of its `fn`, from 0.
    pub(crate) line: usize,
    /// Lines from `fn` to the closing brace.
    pub(crate) length: usize,
}

pub(crate) fn find(lines: &[Line]) -> Vec<Function> {
    let mut functions = vec![];
    for (number, line) in lines.iter().enumerate() {
        for (start, _) in line.masked.match_indices("fn ") {
            let before = line.masked[..start].chars().next_back();
            let name = line.masked[start + 3..].chars().next();
            let is_function = !before.is_some_and(is_name) && name.is_some_and(is_name);
            if let Some(end) = is_function.then(|| body_end(lines, number, start)).flatten() {
                functions.push(Function {
                    line: number,
                    length: end - number + 1,
                });
            }
        }
    }
    functions
}

/// The line of the closing brace; none for a declaration without a body.
fn body_end(lines: &[Line], first: usize, column: usize) -> Option<usize> {
    let mut braces = 0_usize;
    let mut brackets = 0_usize;
    for (number, line) in lines.iter().enumerate().skip(first) {
        let code = if number == first {
            &line.masked[column..]
        } else {
            &line.masked
        };
        for c in code.chars() {
            match c {
                '(' | '[' if braces == 0 => brackets += 1,
                ')' | ']' if braces == 0 => brackets = brackets.saturating_sub(1),
                ';' if braces == 0 && brackets == 0 => return None,
                '{' => braces += 1,
                '}' => {
                    braces = braces.saturating_sub(1);
                    if braces == 0 {
                        return Some(number);
                    }
                }
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{super::lines, *};

    #[test]
    fn bodies_are_measured_and_declarations_are_not() {
        let text =
            "fn a(x: [u8; 4]) -> u8 {\n    \"}\";\n}\ntrait T {\n    fn b(&self);\n    fn c() {}\n}\nlet f: fn (u8);";
        let found: Vec<_> = find(&lines::split(text)).iter().map(|f| (f.line, f.length)).collect();
        assert_eq!(found, [(0, 3), (5, 1)]);
    }
}

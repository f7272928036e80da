//! User documents: their Rust code is that of a compiled and tested example.

const PAGE: &str = include_str!("../../../../docs/first-app.md");
const EXAMPLE: &str = include_str!("../../examples/first_app.rs");

/// The lines without their indentation.
fn flat(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_code_of_the_first_app_is_that_of_its_example() {
    let blocks: Vec<&str> = PAGE
        .split("```rust\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap().trim_end())
        .collect();
    assert!(blocks.len() >= 4, "{} Rust blocks", blocks.len());
    let example = flat(EXAMPLE);
    for block in &blocks {
        assert!(example.contains(&flat(block)), "not in examples/first_app.rs:\n{block}");
    }
    // The page also has all of the example but its title.
    let page = flat(&blocks.join("\n"));
    for line in example.lines().filter(|line| !line.starts_with("//!")) {
        assert!(
            page.lines().any(|on_page| on_page == line),
            "not in docs/first-app.md: {line}"
        );
    }
}

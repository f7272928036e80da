//! Compile errors about functions that are no handlers: they must name the part that is wrong. A binary of its own,
//! because it compiles the library once more. `TRYBUILD=overwrite cargo test -p milena --test ui` writes what is expected.

#[test]
fn the_compiler_names_what_is_wrong_with_a_handler() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}

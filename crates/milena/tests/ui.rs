//! Compile errors about functions that are not handlers: they must name the wrong part. A separate binary, because it
//! compiles the library again. `TRYBUILD=overwrite cargo test -p milena --test ui` updates the expected output.

#[test]
fn the_compiler_names_what_is_wrong_with_a_handler() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}

//! The reference pages of the clients.

use std::fmt::Write as _;

use super::{ClientKind, Profile};

/// The text of the page with all keys of a client, such as `docs/consumer-config.md`.
pub fn document(client: ClientKind) -> String {
    let mut page = milena_config::document(client.schema(), INTRODUCTION);
    if client == ClientKind::Consumer {
        add_profiles(&mut page);
    }
    page
}

fn add_profiles(page: &mut String) {
    page.push_str("\n## Defaults of `milena.profile`\n\n| profile | key | default |\n|---|---|---|\n");
    for profile in Profile::ALL {
        for (key, default) in profile.defaults() {
            // Writing to a string cannot fail.
            let _ = writeln!(page, "| `{profile}` | `{key}` | `{default}` |");
        }
    }
}

const INTRODUCTION: &str = "\
Generated from the tables in `crates/milena-client/src/config`. A test fails if this page is out of date.

Names, types and defaults are those of Kafka 4.3. Settings come from code, a map, a `.properties` file or a TOML file; the
later source wins. A setting that cannot be honoured is refused, never ignored: an unknown key, an invalid value, keys
that conflict. All errors are reported at once, each with the origin of the setting and the remedy.
";

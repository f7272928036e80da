//! Rules between keys of the admin client.

use milena_config::Resolver;

use super::super::checks::{check_backoffs, check_servers};

pub(super) fn check(resolver: &mut Resolver) {
    resolver.add_defaults();
    check_servers(resolver);
    check_backoffs(resolver);
}

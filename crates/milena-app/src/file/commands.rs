//! Checks of handlers that are programs or services, without starting any.

use std::{env, fs, path::Path};

use super::{FileError, HandlerFile, LocatedError, source::Source};
use crate::outside::HttpHandler;

/// Errors of handlers whose program does not exist or whose address is invalid.
pub(super) fn errors(handlers: &[HandlerFile], source: &Source) -> Vec<LocatedError> {
    let mut errors = vec![];
    for (index, handler) in handlers.iter().enumerate() {
        if let Err((key, problem)) = check(handler) {
            let path = match key {
                "" => format!("handlers[{index}]"),
                key => format!("handlers[{index}].{key}"),
            };
            errors.push(source.locate(&path.clone(), FileError::Handler { path, problem }));
        }
    }
    errors
}

/// Returns the invalid key and the reason.
fn check(handler: &HandlerFile) -> Result<(), (&'static str, String)> {
    match (&handler.command, &handler.http) {
        (Some(command), None) => {
            let program = command.first().filter(|program| !program.is_empty());
            let program = program.ok_or_else(|| {
                (
                    "command",
                    "the list is empty: set a program and its arguments".to_owned(),
                )
            })?;
            find(program).map_err(|problem| ("command", problem))
        }
        (None, Some(address)) => {
            let service = HttpHandler::with_tls(address, &handler.http_tls);
            service.map(drop).map_err(|error| ("http", error.to_string()))
        }
        _ => Err(("", "set either command or http".to_owned())),
    }
}

/// Looks up a program in `PATH`, as the system does.
fn find(program: &str) -> Result<(), String> {
    if program.contains('/') {
        return match fs::metadata(program) {
            Err(error) => Err(format!("{program:?} cannot be started: {error}")),
            Ok(_) if !is_executable(Path::new(program)) => Err(format!("{program:?} is not an executable file")),
            Ok(_) => Ok(()),
        };
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places = env::split_paths(&path);
    if places.any(|directory| is_executable(&directory.join(program))) {
        return Ok(());
    }
    Err(format!("no program {program:?} in PATH"))
}

fn is_executable(path: &Path) -> bool {
    let Ok(found) = fs::metadata(path) else {
        return false;
    };
    #[cfg(unix)]
    let may_run = std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let may_run = true;
    found.is_file() && may_run
}

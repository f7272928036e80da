//! Values of configs with references. Files are not read: `allowed.paths` is an empty directory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use milena_security::reference::Resolver;

fuzz_target!(|text: &str| {
    let file = "org.apache.kafka.common.config.provider.FileConfigProvider";
    let resolver = Resolver::from_config([
        ("config.providers", "file,dir"),
        ("config.providers.file.class", file),
        ("config.providers.file.param.allowed.paths", "/proc/self/fdinfo"),
        ("config.providers.dir.class", file),
        ("config.providers.dir.param.allowed.paths", "/proc/self/fdinfo"),
    ]);
    if let Ok(resolver) = resolver {
        let _ = resolver.resolve(text);
    }
});

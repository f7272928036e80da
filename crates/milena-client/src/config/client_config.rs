//! The parts that the configurations of all clients have in common.

/// Implements resolving, conversions and the common methods of the builder for the configuration of a client.
///
/// The configuration has a private function `read(&Resolver) -> Self` and a method `default_client_id(&self) -> String`
/// for a `client.id` that is empty.
macro_rules! client_config {
    ($config:ident, $builder:ident, $kind:ident, $check:path) => {
        impl $config {
            /// Starts a configuration in code. `bootstrap_servers` is `host:port`, several separated by commas.
            pub fn builder(bootstrap_servers: impl Into<String>) -> $builder {
                $builder::new(bootstrap_servers)
            }

            /// Checks raw settings and converts them to typed fields. All errors are reported at once.
            pub fn resolve(map: &ConfigMap) -> Result<Self, ConfigErrors> {
                let map = $crate::config::references::resolve(map)?;
                let mut resolver = Resolver::new(ClientKind::$kind.schema(), &map);
                $check(&mut resolver);
                let security = $crate::config::security::SecurityConfig::read(&mut resolver, &map);
                let mut config = Self::read(&resolver);
                (config.notes, config.settings) = resolver.finish()?;
                config.security = security;
                if config.client_id.is_empty() {
                    // Only now, so that a configuration with errors uses up no number.
                    config.client_id = config.default_client_id();
                    let settings = config.settings.iter_mut();
                    for setting in settings.filter(|setting| setting.key == "client.id") {
                        setting.value.clone_from(&config.client_id);
                    }
                }
                Ok(config)
            }

            /// Every key that has an effect, with its value and source, sorted by key.
            pub fn settings(&self) -> &[Setting] {
                &self.settings
            }
        }

        impl TryFrom<&ConfigMap> for $config {
            type Error = ConfigErrors;

            fn try_from(map: &ConfigMap) -> Result<Self, ConfigErrors> {
                Self::resolve(map)
            }
        }

        impl TryFrom<ConfigMap> for $config {
            type Error = ConfigErrors;

            fn try_from(map: ConfigMap) -> Result<Self, ConfigErrors> {
                Self::resolve(&map)
            }
        }

        impl TryFrom<$builder> for $config {
            type Error = ConfigErrors;

            fn try_from(builder: $builder) -> Result<Self, ConfigErrors> {
                builder.build()
            }
        }
    };
}
pub(super) use client_config;

/// Defines the builder of a client's configuration with the methods that all clients have.
macro_rules! client_config_builder {
    ($builder:ident, $config:ident) => {
        /// Collects settings in code; [`build`](Self::build) checks them.
        #[derive(Debug, Clone, Default)]
        #[must_use = "a configuration has no effect until it is built"]
        pub struct $builder {
            map: ConfigMap,
        }

        impl $builder {
            /// `bootstrap.servers`: `host:port`, several separated by commas.
            pub fn new(bootstrap_servers: impl Into<String>) -> Self {
                Self::default().set("bootstrap.servers", bootstrap_servers.into())
            }

            /// Sets any key by Kafka's name.
            pub fn set(mut self, key: impl Into<String>, value: impl std::fmt::Display) -> Self {
                self.map.set(key, value);
                self
            }

            /// Adds settings that win over the present ones, such as those of a file.
            pub fn merge(mut self, stronger: ConfigMap) -> Self {
                self.map.merge(stronger);
                self
            }

            /// `client.id`
            pub fn client_id(self, client_id: impl std::fmt::Display) -> Self {
                self.set("client.id", client_id)
            }

            /// Gives tokens for `sasl.mechanism=OAUTHBEARER` from code.
            pub fn token_provider(mut self, provider: impl $crate::auth::TokenProvider + 'static) -> Self {
                $crate::config::security::set_token_provider(&mut self.map, std::sync::Arc::new(provider));
                self
            }

            /// The raw settings, unchecked.
            pub fn into_map(self) -> ConfigMap {
                self.map
            }

            /// Checks the settings and converts them to typed fields.
            pub fn build(self) -> Result<$config, ConfigErrors> {
                $config::resolve(&self.map)
            }
        }
    };
}
pub(super) use client_config_builder;

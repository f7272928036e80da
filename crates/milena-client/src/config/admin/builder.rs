//! The admin client's configuration in code.

use milena_config::{ConfigErrors, ConfigMap};

use super::{super::client_config::client_config_builder, AdminConfig};

client_config_builder!(AdminConfigBuilder, AdminConfig);

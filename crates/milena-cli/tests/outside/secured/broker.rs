//! A broker with TLS, SASL, ACLs and users, and the provider of its tokens.

use std::{
    fmt::Write as _,
    fs,
    io::Read as _,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::login::{Listener, Login, Mechanism};
use crate::{
    process::Process,
    program::Program,
    programs::{run, xtask},
};

/// Users of every mechanism; the password of each is `<name>-secret`. The first one is a super user.
pub const ADMIN: &str = "admin";
pub const ALICE: &str = "alice";

pub struct SecuredBroker {
    pub broker: Process,
    /// The provider of tokens.
    _oidc: Program,
    pub token_url: String,
    metrics: String,
    pub dir: tempfile::TempDir,
}

impl SecuredBroker {
    /// With these additional configs.
    pub fn start(settings: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        run(xtask().args(["kafka", "certificates"]).arg(dir.path().join("tls")), "");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside/clients/oidc.js");
        let mut oidc = Program::spawn(Command::new("node").arg(script));
        let url = oidc.wait_for("OIDC=").trim_start_matches("OIDC=").to_owned();
        let ports = free_ports();
        for (listener, port) in Listener::ALL.iter().zip(&ports) {
            fs::write(dir.path().join(listener.name()), port.to_string()).unwrap();
        }
        let file = dir.path().join("broker.properties");
        let mut text = configs(&dir.path().join("tls"), &ports, &url);
        for setting in settings {
            writeln!(text, "{setting}").unwrap();
        }
        fs::write(&file, text).unwrap();
        let metrics = format!("127.0.0.1:{}", free_ports()[0]);
        let broker = Process::start(
            &dir.path().join("data"),
            &["--config", file.to_str().unwrap(), "--metrics", &metrics],
        );
        let started = Self {
            broker,
            _oidc: oidc,
            token_url: format!("{url}/token"),
            metrics,
            dir,
        };
        started.create_users();
        started
    }

    /// SCRAM users, and the rights of the users that are no super users.
    fn create_users(&self) {
        for user in [ADMIN, ALICE] {
            let file = self.dir.path().join(format!("{user}.password"));
            fs::write(&file, format!("{user}-secret\n")).unwrap();
            let words = format!("user create {user} -m sha-256 -m sha-512 --password-file");
            self.milena(&words, &[file.to_str().unwrap()]);
        }
        // The listener for TLS without certificates has users without a name.
        self.milena(
            "acl create --allow-principal alice --allow-principal ANONYMOUS --producer --consumer --topic letters \
             --group letters --resource-pattern-type prefixed",
            &[],
        );
    }

    /// Runs a `milena` command as the super user.
    pub fn milena(&self, words: &str, more: &[&str]) -> String {
        let login = Login::new(Listener::SaslPlaintext, Some(Mechanism::Plain), ADMIN);
        let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
        command.args(words.split_whitespace()).args(more);
        command.arg("--command-config").arg(login.write_properties(self));
        run(command.env_remove("RUST_LOG").env_remove("MILENA_BOOTSTRAP"), "")
    }

    pub fn address(&self, listener: Listener) -> String {
        let port = fs::read_to_string(self.dir.path().join(listener.name())).unwrap();
        // Certificates have this name; librdkafka does not compare addresses.
        format!("localhost:{port}")
    }

    /// A file of the certificates.
    pub fn tls(&self, name: &str) -> PathBuf {
        self.dir.path().join("tls").join(name)
    }

    /// The sum of all samples of a metric of the broker.
    pub fn metric(&self, name: &str) -> f64 {
        let mut socket = TcpStream::connect(&self.metrics).unwrap();
        std::io::Write::write_all(&mut socket, b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        let samples = text.lines().filter(|line| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
        });
        let values: Vec<f64> = samples
            .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
            .collect();
        assert!(!values.is_empty(), "no metric {name} in\n{text}");
        values.iter().sum()
    }

    /// A command of Kafka's tools or of one of our programs in `java/`, which may fetch tokens.
    pub fn java(&self, name: &str) -> Command {
        let mut command = xtask();
        let url = &self.token_url;
        let allowed = format!("-XX:TieredStopAtLevel=1 -Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}");
        command.env("JDK_JAVA_OPTIONS", allowed);
        command.args(["kafka", "tool"]);
        if name.ends_with(".java") {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside/java");
            command.arg(folder.join(name));
        } else {
            command.arg(name);
        }
        command.stderr(Stdio::piped());
        command
    }
}

/// A free port for each listener.
fn free_ports() -> Vec<u16> {
    let sockets: Vec<TcpListener> = Listener::ALL
        .iter()
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let port = |socket: &TcpListener| socket.local_addr().unwrap().port();
    sockets.iter().map(port).collect()
}

fn configs(tls: &Path, ports: &[u16], oidc: &str) -> String {
    let addresses = |host: &str| {
        let address = |(listener, port): (&Listener, &u16)| format!("{}://{host}:{port}", listener.name());
        let all: Vec<String> = Listener::ALL.iter().zip(ports).map(address).collect();
        all.join(",")
    };
    let (bound, advertised, tls) = (addresses("127.0.0.1"), addresses("localhost"), tls.display());
    let mut text = format!(
        "listeners={bound}\nadvertised.listeners={advertised}\n\
         listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,MTLS:SSL\n\
         sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER\n\
         ssl.keystore.type=PEM\nssl.keystore.location={tls}/server.pem\n\
         ssl.truststore.type=PEM\nssl.truststore.location={tls}/ca.pem\n\
         listener.name.mtls.ssl.client.auth=required\n\
         listener.name.mtls.ssl.principal.mapping.rules=RULE:^CN=([^,]*).*$/$1/,DEFAULT\n\
         authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
         super.users=User:{ADMIN}\n"
    );
    let module = "org.apache.kafka.common.security";
    for listener in ["sasl_plaintext", "sasl_ssl"] {
        let prefix = format!("listener.name.{listener}");
        write!(
            text,
            "{prefix}.plain.sasl.jaas.config={module}.plain.PlainLoginModule required \
             user_{ADMIN}=\"{ADMIN}-secret\" user_{ALICE}=\"{ALICE}-secret\";\n\
             {prefix}.scram-sha-256.sasl.jaas.config={module}.scram.ScramLoginModule required;\n\
             {prefix}.scram-sha-512.sasl.jaas.config={module}.scram.ScramLoginModule required;\n\
             {prefix}.oauthbearer.sasl.jaas.config={module}.oauthbearer.OAuthBearerLoginModule required;\n\
             {prefix}.oauthbearer.sasl.server.callback.handler.class=\
             {module}.oauthbearer.OAuthBearerValidatorCallbackHandler\n\
             {prefix}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url={oidc}/jwks\n\
             {prefix}.oauthbearer.sasl.oauthbearer.expected.audience=milena\n\
             {prefix}.oauthbearer.sasl.oauthbearer.expected.issuer={oidc}\n"
        )
        .unwrap();
    }
    text
}

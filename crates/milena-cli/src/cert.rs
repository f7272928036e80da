//! `milena cert`: certificates for development, with the settings that use them.

use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Write as _, stdout},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use milena_security::{
    Secret,
    dev_certs::{DevCa, DevIdentity, random_password},
};

pub(crate) const HELP: &str = "\
Writes a CA, a certificate for brokers and one for each client. A second run
keeps the CA and adds the clients that are missing.

  ca.pem, ca.p12          certificate of the CA, for trust stores
  ca.key.pem              key of the CA
  server.pem, server.p12  key and certificate for brokers
  NAME.pem, NAME.p12      key and certificate of the client NAME
  password                password of all PKCS#12 files

For development only: the key of the CA is not encrypted.

Examples:
  milena cert
  milena cert --dir certs --host kafka.example.com --client alice --client bob
  milena cert --renew";

/// Lifetime of the CA, as of everything it signs at most.
const CA_DAYS: u32 = 3650;
const CA: &str = "ca.pem";
const CA_KEY: &str = "ca.key.pem";
const CA_STORE: &str = "ca.p12";
const PASSWORD: &str = "password";
const SERVER: &str = "server";
/// Names of files that no client may have.
const RESERVED: [&str; 3] = ["ca", "ca.key", SERVER];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Directory to write to
    #[arg(long, value_name = "DIR", default_value = "certs")]
    dir: PathBuf,
    /// DNS name or IP address of the brokers, besides localhost and this host [repeatable]
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Name of a client [repeatable]
    #[arg(long, value_name = "NAME", default_value = "client")]
    client: Vec<String>,
    /// Days until certificates expire
    #[arg(long, value_name = "N", default_value_t = 825, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    /// Write certificates of brokers and clients again
    #[arg(long)]
    renew: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    for client in &arguments.client {
        check_name(client)?;
    }
    fs::create_dir_all(&arguments.dir).with_context(|| format!("cannot create {}", arguments.dir.display()))?;
    let directory = Directory {
        path: fs::canonicalize(&arguments.dir)?,
    };
    let password = directory.password()?;
    let ca = directory.ca(&password)?;
    if directory.lacks(SERVER, arguments.renew) {
        directory.write_identity(SERVER, &ca.server(&hosts(&arguments.host), arguments.days)?, &password)?;
    } else if !arguments.host.is_empty() {
        bail!(
            "{} exists; add --renew to write it again with the names of --host",
            directory.path.join("server.pem").display()
        );
    }
    for client in &arguments.client {
        if directory.lacks(client, arguments.renew) {
            directory.write_identity(client, &ca.client(client, arguments.days)?, &password)?;
        }
    }
    stdout()
        .lock()
        .write_all(directory.settings(&arguments.client).as_bytes())?;
    Ok(())
}

/// The name of a client is the name of its files, too.
fn check_name(name: &str) -> Result<()> {
    let is_plain = |character: char| character.is_alphanumeric() || matches!(character, '-' | '_' | '.' | '@');
    ensure!(
        !name.is_empty() && !name.starts_with('.') && name.chars().all(is_plain),
        "`{name}` cannot be the name of a client; use letters, digits, `-`, `_`, `.` and `@`"
    );
    ensure!(
        !RESERVED.contains(&name),
        "`{name}` cannot be the name of a client, because {name}.pem is another file"
    );
    Ok(())
}

/// Names of the brokers: this machine under all its names, and those of the user, without repetitions.
fn hosts(extra: &[String]) -> Vec<String> {
    let system = rustix::system::uname();
    let own = system.nodename().to_str().unwrap_or_default().to_owned();
    let mut hosts: Vec<String> = Vec::new();
    let all = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    for host in all.into_iter().chain([own]).chain(extra.iter().cloned()) {
        let host = host.trim_end_matches('.').to_owned();
        if !host.is_empty() && !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    hosts
}

struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Whether a certificate is to be written.
    fn lacks(&self, name: &str, renew: bool) -> bool {
        renew || !self.path.join(format!("{name}.pem")).exists()
    }

    /// The password of PKCS#12 files, made in the first run.
    fn password(&self) -> Result<Secret> {
        let path = self.path.join(PASSWORD);
        match fs::read_to_string(&path) {
            Ok(text) => {
                let password = text.trim_end_matches(['\r', '\n']);
                ensure!(!password.is_empty(), "{} is empty", path.display());
                Ok(Secret::from(password))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let password = random_password()?;
                write(&path, format!("{}\n", password.expose()).as_bytes(), Access::Private)?;
                Ok(password)
            }
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// The CA of this directory, made in the first run.
    fn ca(&self, password: &Secret) -> Result<DevCa> {
        let (certificate, key) = (self.path.join(CA), self.path.join(CA_KEY));
        let ca = match (certificate.exists(), key.exists()) {
            (true, true) => {
                let read =
                    |path: &Path| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
                DevCa::load(&read(&certificate)?, &Secret::from(read(&key)?))
                    .with_context(|| format!("{} and {CA_KEY} are no usable CA", certificate.display()))?
            }
            (false, false) => {
                let ca = DevCa::new(CA_DAYS)?;
                // The key first: a certificate without a key would be in the way of the next run.
                write(&key, ca.key_pem().expose().as_bytes(), Access::Private)?;
                write(&certificate, ca.certificate_pem().as_bytes(), Access::Public)?;
                ca
            }
            (has_certificate, _) => bail!(
                "{} has {} without {}; remove it, or choose another --dir",
                self.path.display(),
                if has_certificate { CA } else { CA_KEY },
                if has_certificate { CA_KEY } else { CA }
            ),
        };
        let store = self.path.join(CA_STORE);
        if !store.exists() {
            write(&store, &ca.pkcs12(password)?, Access::Public)?;
        }
        Ok(ca)
    }

    fn write_identity(&self, name: &str, identity: &DevIdentity, password: &Secret) -> Result<()> {
        let store = identity.pkcs12(password)?;
        write(&self.path.join(format!("{name}.p12")), &store, Access::Private)?;
        write(
            &self.path.join(format!("{name}.pem")),
            identity.pem().expose().as_bytes(),
            Access::Private,
        )
    }

    /// Settings to paste, as properties with comments.
    fn settings(&self, clients: &[String]) -> String {
        let file = |name: &str| self.path.join(name).display().to_string();
        let client = clients.first().map_or("client", String::as_str);
        format!(
            "\
# Broker: milena broker --config broker.properties
# Each client is a user with the name of its certificate, such as User:{client}.
listeners=SSL://localhost:9093
ssl.keystore.location={server}
ssl.truststore.location={ca}
ssl.client.auth=required
ssl.principal.mapping.rules=RULE:^CN=([^,]+).*$/$1/,DEFAULT

# Milena's client: --command-config client.properties
bootstrap.servers=localhost:9093
security.protocol=SSL
ssl.truststore.location={ca}
ssl.keystore.location={own}

# Java's client
bootstrap.servers=localhost:9093
security.protocol=SSL
ssl.truststore.type=PEM
ssl.truststore.location={ca}
ssl.keystore.type=PEM
ssl.keystore.location={own}

# Java with PKCS#12, for programs that cannot read PEM; the password is in {password}
#ssl.truststore.type=PKCS12
#ssl.truststore.location={ca_store}
#ssl.truststore.password=
#ssl.keystore.type=PKCS12
#ssl.keystore.location={own_store}
#ssl.keystore.password=
",
            server = file("server.pem"),
            ca = file(CA),
            own = file(&format!("{client}.pem")),
            password = file(PASSWORD),
            ca_store = file(CA_STORE),
            own_store = file(&format!("{client}.p12")),
        )
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Public,
    /// Only the owner may read it.
    Private,
}

/// Writes a file and puts it in place at once, so that a broker that reloads it never sees half of it.
fn write(path: &Path, content: &[u8], access: Access) -> Result<()> {
    let context = || format!("cannot write {}", path.display());
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    // The mode is that of a new file; an old one could be readable for all.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error).with_context(context),
        _ => {}
    }
    let mut file = create(&temporary, access).with_context(context)?;
    file.write_all(content).with_context(context)?;
    drop(file);
    fs::rename(&temporary, path).with_context(context)?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

fn create(path: &Path, access: Access) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mode = match access {
        Access::Public => 0o644,
        Access::Private => 0o600,
    };
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

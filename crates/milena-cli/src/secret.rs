//! Secrets on the command line: references, files and a prompt. Arguments have none in clear text, because every user of
//! the machine can list them with `ps`.

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Write as _, stdin},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use milena_security::{Secret, jaas, reference};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

/// The byte of Ctrl-C.
const INTERRUPT: u8 = 3;
/// A bound for what is read as a password.
const PASSWORD_BYTES_MAX: u64 = 64 * 1024;
/// The longest line that a terminal delivers.
const PROMPT_BYTES_MAX: usize = 4096;

/// The source of a password. Without any of them the user is prompted.
#[derive(clap::Args)]
pub(crate) struct PasswordArguments {
    /// File that contains the password and nothing else; - is stdin [default: a prompt]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Reference to the password, such as '${env:NAME}' or '${file:/etc/milena.properties:key}'
    #[arg(long, value_name = "REFERENCE", conflicts_with = "password_file")]
    password: Option<String>,
}

impl PasswordArguments {
    /// The password of a user that is created. A prompt asks for it twice.
    pub(crate) fn new_password(&self, user: &str) -> Result<Secret> {
        let password = match (&self.password_file, &self.password) {
            (Some(file), _) => from_file(file)?,
            (None, Some(text)) => {
                ensure!(
                    is_reference(text),
                    "--password takes a reference such as '${{env:NAME}}', not the password itself: every user of this \
                     machine can see arguments (ps); use a reference, --password-file FILE, or the prompt"
                );
                reference::resolve(text)?
            }
            (None, None) => {
                let terminal = open_terminal()
                    .context("cannot prompt for the password; use --password-file FILE or --password '${env:NAME}'")?;
                let password = prompt(&terminal, &format!("Password of {user}: "))?;
                let again = prompt(&terminal, "The same again: ")?;
                ensure!(password == again, "the two passwords differ");
                password
            }
        };
        ensure!(!password.is_empty(), "the password of {user} is empty");
        Ok(password)
    }
}

/// Refuses `-X KEY=VALUE` with a secret in clear text. `file_option` names the option for a file.
pub(crate) fn check_arguments(settings: &[String], file_option: &str) -> Result<()> {
    let pairs = settings.iter().filter_map(|setting| setting.split_once('='));
    let mut secrets = pairs.filter(|(key, value)| is_clear_secret(key.trim(), value));
    let Some((key, _)) = secrets.next() else {
        return Ok(());
    };
    bail!(
        "-X {key} has a secret that every user of this machine can see (ps); put it into a file and use \
         {file_option} FILE, or refer to it: -X '{key}=${{env:NAME}}' or \
         -X '{key}=${{file:/path/to/secrets.properties:NAME}}'"
    )
}

/// Asks for `sasl.password` where a user name is given without one.
pub(crate) fn prompt_for_sasl_password<'a>(setting: impl Fn(&str) -> Option<&'a str>) -> Result<Option<Secret>> {
    let mechanism = setting("sasl.mechanism").or_else(|| setting("sasl.mechanisms"));
    let (Some(user), Some(mechanism), Some(protocol)) =
        (setting("sasl.username"), mechanism, setting("security.protocol"))
    else {
        return Ok(None);
    };
    let has_password = setting("sasl.password").is_some() || setting("sasl.jaas.config").is_some();
    let takes_password =
        mechanism.eq_ignore_ascii_case("PLAIN") || mechanism.to_ascii_uppercase().starts_with("SCRAM-");
    let is_sasl = protocol.to_ascii_uppercase().starts_with("SASL_");
    if has_password || !takes_password || !is_sasl {
        return Ok(None);
    }
    match open_terminal() {
        Ok(terminal) => prompt(&terminal, &format!("Password of {user}: ")).map(Some),
        // The client reports the missing config.
        Err(_) => Ok(None),
    }
}

/// Whether a value is a secret, or contains one, that is not a reference.
fn is_clear_secret(key: &str, value: &str) -> bool {
    if value.is_empty() || is_reference(value) {
        return false;
    }
    let key = key.to_ascii_lowercase();
    if !key.ends_with("sasl.jaas.config") {
        return is_secret_key(&key);
    }
    match jaas::parse(value) {
        Ok(entry) => entry
            .options
            .iter()
            .any(|(name, value)| is_secret_option(name) && !is_reference(value.expose())),
        // References without quotes are no JAAS yet.
        Err(_) => !reference::has_reference(value),
    }
}

/// Whether a config is a secret. Certificates and paths of files are not.
fn is_secret_key(key: &str) -> bool {
    const ENDINGS: [&str; 9] = [
        "password",
        "passphrase",
        ".secret",
        ".secret.key",
        "ssl.keystore.key",
        "ssl.key.pem",
        "sasl.oauthbearer.config",
        "basic.auth.user.info",
        "bearer.auth.token",
    ];
    ENDINGS.iter().any(|ending| key.ends_with(ending))
}

fn is_secret_option(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("user_")
        || ["password", "secret", "passphrase"]
            .iter()
            .any(|word| name.contains(word))
}

/// Whether the whole text is a reference.
fn is_reference(text: &str) -> bool {
    let text = text.trim();
    text.starts_with("${") && text.ends_with('}') && reference::has_reference(text)
}

fn from_file(path: &Path) -> Result<Secret> {
    let is_stdin = path == Path::new("-");
    let name = if is_stdin {
        "stdin".to_owned()
    } else {
        path.display().to_string()
    };
    let mut text = String::new();
    let read = match is_stdin {
        true => stdin().lock().take(PASSWORD_BYTES_MAX).read_to_string(&mut text),
        false => File::open(path).and_then(|file| file.take(PASSWORD_BYTES_MAX).read_to_string(&mut text)),
    };
    read.with_context(|| format!("cannot read the password from {name}"))?;
    let password = Secret::from(text);
    let line = password.expose();
    let line = line.strip_suffix('\n').unwrap_or(line);
    let line = line.strip_suffix('\r').unwrap_or(line);
    ensure!(
        !line.contains(['\n', '\r']),
        "{name} has more than one line; it must contain the password and nothing else"
    );
    Ok(Secret::from(line))
}

/// The terminal of the process, wherever its stdin and stdout go.
fn open_terminal() -> Result<File> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty");
    terminal.context("there is no terminal")
}

/// Prompts for a secret, without echo.
fn prompt(mut terminal: &File, text: &str) -> Result<Secret> {
    // Before the prompt, so that nothing that is typed after it is echoed.
    let hidden = HiddenInput::new(terminal)?;
    terminal.write_all(text.as_bytes())?;
    // It never grows, so that no copy of its content is left behind.
    let mut line = Vec::with_capacity(PROMPT_BYTES_MAX);
    let mut byte = [0];
    loop {
        match terminal.read(&mut byte)? {
            0 => break,
            _ if byte == [b'\n'] => break,
            _ if byte == [INTERRUPT] => {
                drop(hidden);
                terminal.write_all(b"\n")?;
                bail!("interrupted");
            }
            _ => line.push(byte[0]),
        }
        ensure!(line.len() < PROMPT_BYTES_MAX, "the password is too long");
    }
    drop(hidden);
    terminal.write_all(b"\n")?;
    match String::from_utf8(line) {
        Ok(text) => Ok(Secret::from(text)),
        Err(_) => bail!("the password is not UTF-8"),
    }
}

/// A terminal without echo, until it is dropped.
///
/// Ctrl-C ends the line and not the process, which would leave the terminal without echo.
struct HiddenInput<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> HiddenInput<'a> {
    fn new(terminal: &'a File) -> Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
        hidden.special_codes[SpecialCodeIndex::VEOL] = INTERRUPT;
        tcsetattr(terminal, OptionalActions::Flush, &hidden)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for HiddenInput<'_> {
    fn drop(&mut self) {
        // The process ends, so a failure cannot be reported.
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn check(setting: &str) -> Result<()> {
        check_arguments(&[setting.to_owned()], "--command-config")
    }

    #[test]
    fn a_secret_in_an_argument_is_refused_without_repeating_it() {
        for setting in [
            "sasl.password=hunter2",
            "SASL.PASSWORD=hunter2",
            "ssl.keystore.password=hunter2",
            "ssl.key.password=hunter2",
            "ssl.truststore.password=hunter2",
            "ssl.keystore.key=hunter2",
            "sasl.oauthbearer.client.credentials.client.secret=hunter2",
            "sasl.oauthbearer.client.secret=hunter2",
            "listener.name.internal.ssl.key.password=hunter2",
            "delegation.token.secret.key=hunter2",
            "sasl.jaas.config=org.x.PlainLoginModule required username=\"a\" password=\"hunter2\";",
            "listener.name.a.plain.sasl.jaas.config=org.x.PlainLoginModule required user_a=\"hunter2\";",
            "sasl.jaas.config=hunter2",
        ] {
            let error = check(setting).unwrap_err().to_string();
            assert!(
                error.contains("--command-config FILE") && error.contains("${env:NAME}"),
                "{error}"
            );
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn references_and_other_configs_pass() {
        for setting in [
            "sasl.password=${env:PASSWORD}",
            "ssl.key.password=${file:/etc/secrets.properties:key}",
            "sasl.jaas.config=${file:/etc/secrets.properties:jaas}",
            "sasl.jaas.config=org.x.OAuthBearerLoginModule required;",
            "sasl.jaas.config=org.x.PlainLoginModule required username=\"a\" password=\"${env:P}\";",
            "ssl.truststore.location=/etc/ca.pem",
            "ssl.certificate.location=/etc/client.pem",
            "sasl.oauthbearer.token.endpoint.url=https://example.com/token",
            "sasl.username=alice",
            "linger.ms=5",
            "without a value",
        ] {
            assert!(check(setting).is_ok(), "{setting}");
        }
    }

    #[test]
    fn a_password_file_has_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        for (text, password) in [("a b\n", "a b"), ("secret\r\n", "secret"), ("x", "x")] {
            fs::write(&file, text).unwrap();
            assert_eq!(from_file(&file).unwrap().expose(), password);
        }
        fs::write(&file, "one\ntwo\n").unwrap();
        let error = from_file(&file).unwrap_err().to_string();
        assert!(error.contains("more than one line"), "{error}");
    }

    #[test]
    fn a_password_is_asked_for_only_where_one_is_missing() {
        // Each of them returns before there is a prompt.
        for settings in [
            &[("sasl.username", "a")][..],
            &[("sasl.username", "a"), ("sasl.mechanism", "PLAIN")],
            &[
                ("sasl.username", "a"),
                ("sasl.mechanism", "PLAIN"),
                ("security.protocol", "SSL"),
            ],
            &[
                ("sasl.username", "a"),
                ("sasl.mechanism", "OAUTHBEARER"),
                ("security.protocol", "SASL_SSL"),
            ],
            &[
                ("sasl.username", "a"),
                ("sasl.mechanism", "PLAIN"),
                ("security.protocol", "SASL_SSL"),
                ("sasl.password", "b"),
            ],
        ] {
            let setting = |key: &str| settings.iter().find(|(of, _)| *of == key).map(|(_, value)| *value);
            assert!(prompt_for_sasl_password(setting).unwrap().is_none(), "{settings:?}");
        }
    }
}

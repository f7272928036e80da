//! A PostgreSQL server in a test, from the programs that are installed.

use std::{
    env, fs, io,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// Time for which a server may start.
const START: Duration = Duration::from_secs(60);
/// The user that runs the server if the test is root, because PostgreSQL refuses to.
const USER: &str = "postgres";

/// Runs the server until the input ends, or until it ends by itself. Background jobs of a shell have no input, so it goes
/// by another number. If the test's process ends without a `drop`, the directory is removed here.
const SCRIPT: &str = r#"
exec 3<&0
test=$PPID
"$0" "$@" &
server=$!
{ cat <&3; kill -INT $server; } &
wait $server
kill $! 2>/dev/null
{ sleep 2; [ -d /proc/$test ] || rm -rf "${2%/*}"; } &
"#;

/// A PostgreSQL server on a free port with its data in a temporary directory. It ends with the value, and with the
/// process of the test.
///
/// It needs the server's programs (`apt install postgresql`) in `PATH` or in `/usr/lib/postgresql`. Its files are not
/// synced to the disk by default: they survive [`PostgresServer::kill`], not a power cut.
#[derive(Debug)]
pub struct PostgresServer {
    directory: TempDir,
    programs: PathBuf,
    port: u16,
    /// A shell that ends the server when its input ends.
    child: Option<Child>,
    databases: AtomicU32,
    is_synced: bool,
}

impl PostgresServer {
    /// Creates and starts a server. Panics with the reason if that fails, as tests do.
    pub fn start() -> Self {
        Self::start_with(false)
    }

    /// As [`start`](Self::start), with files that are synced to the disk, for measurements.
    pub fn start_synced() -> Self {
        Self::start_with(true)
    }

    fn start_with(is_synced: bool) -> Self {
        let directory = tempfile::Builder::new().prefix("milena-postgres-").tempdir();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        drop(listener);
        let mut server = Self {
            directory: directory.expect("a temporary directory"),
            programs: programs(),
            port,
            child: None,
            databases: AtomicU32::new(0),
            is_synced,
        };
        if is_root() {
            let owner = Command::new("chown").arg(USER).arg(server.directory.path()).output();
            succeed("chown", owner);
        }
        let mut initdb = server.command("initdb");
        initdb.args([
            "--username=postgres",
            "--auth=trust",
            "--no-sync",
            "--encoding=UTF8",
            "--pgdata",
        ]);
        succeed("initdb", initdb.arg(server.data()).output());
        server.restart();
        server
    }

    /// URL of a database that exists.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Creates an empty database and returns its URL.
    pub fn create_database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.psql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// Runs statements with `psql` in the database of the URL, or of that name. Returns the rows without headings,
    /// columns separated by `|`.
    pub fn psql(&self, database: &str, statements: &str) -> String {
        let url = if database.contains("://") {
            database.to_owned()
        } else {
            self.url(database)
        };
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args([
            "--no-psqlrc",
            "--quiet",
            "--tuples-only",
            "--no-align",
            "--set=ON_ERROR_STOP=1",
        ]);
        let output = succeed("psql", psql.args(["--command", statements, &url]).output());
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Ends the server as `kill -9` does. [`PostgresServer::restart`] starts it again with its data.
    pub fn kill(&mut self) {
        if let Ok(text) = fs::read_to_string(self.data().join("postmaster.pid"))
            && let Some(pid) = text.lines().next()
        {
            let _ = Command::new("kill").args(["-KILL", pid]).output();
        }
        self.end();
    }

    /// Starts the server, after [`PostgresServer::kill`] too.
    pub fn restart(&mut self) {
        self.end();
        let deadline = Instant::now() + START;
        loop {
            self.child = Some(self.spawn().expect("the server starts"));
            while self.is_alive() {
                if self.is_ready() {
                    return;
                }
                assert!(Instant::now() < deadline, "PostgreSQL is not ready: {}", self.log());
                thread::sleep(Duration::from_millis(20));
            }
            // Processes of a killed server may still hold its memory for a moment.
            assert!(Instant::now() < deadline, "PostgreSQL ended: {}", self.log());
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn spawn(&self) -> io::Result<Child> {
        let log = fs::File::options().create(true).append(true).open(self.log_path())?;
        let mut command = self.command("sh");
        command.args(["-c", SCRIPT]);
        command.arg(self.programs.join("postgres")).arg("-D").arg(self.data());
        command.args(["-p", &self.port.to_string(), "-k", ""]);
        if !self.is_synced {
            command.arg("-F");
        }
        command.args(["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).spawn()
    }

    fn is_alive(&mut self) -> bool {
        self.child
            .as_mut()
            .is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    fn is_ready(&self) -> bool {
        let mut ready = Command::new(self.programs.join("pg_isready"));
        ready.args(["-q", "-h", "127.0.0.1", "-U", "postgres", "-p", &self.port.to_string()]);
        ready.status().is_ok_and(|status| status.success())
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// A program of the server, as a user that may run it.
    fn command(&self, program: &str) -> Command {
        let path = if program == "sh" {
            PathBuf::from("sh")
        } else {
            self.programs.join(program)
        };
        if !is_root() {
            return Command::new(path);
        }
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", USER, "--regid", USER, "--clear-groups", "--"])
            .arg(path);
        command.current_dir("/");
        command
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.end();
    }
}

fn is_root() -> bool {
    // Linux shows the owner of a process as the owner of its directory there.
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
    }
    #[cfg(not(unix))]
    false
}

/// Directory of the server's programs: Debian keeps them out of `PATH`.
fn programs() -> PathBuf {
    let in_path = env::var_os("PATH")
        .into_iter()
        .flat_map(|path| env::split_paths(&path).collect::<Vec<_>>());
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut debian: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    debian.sort();
    let mut candidates = debian.into_iter().rev().chain(in_path);
    candidates
        .find(|directory| Path::exists(&directory.join("initdb")) && Path::exists(&directory.join("postgres")))
        .expect("PostgreSQL's programs initdb and postgres are missing: apt install postgresql")
}

fn succeed(program: &str, output: io::Result<Output>) -> Output {
    let output = output.unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} failed: {text}");
    output
}

//! A real server of its own: made, started, stopped and thrown away by one test.
//!
//! ```text
//! <temporary directory>/            owned by the server's user
//!     data/                         the cluster
//!     log                           what initdb and the server said
//!     .s.PGSQL.5432                 the only way in; nothing listens on the network
//! ```
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, str};

use anyhow::{Context as _, Result, bail, ensure};
use postgres::{Client, NoTls};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::installation::Installation;
use crate::server_options::ServerOptions;
use crate::server_user::ServerUser;

/// A server with a cluster of its own in a temporary directory; dropping it stops the one and
/// removes the other.
#[derive(Debug)]
pub struct Server {
    /// Declared before the directory, so that the server is gone before its files are.
    running: Option<Running>,
    directory: TempDir,
    user: ServerUser,
    installation: Installation,
}

impl Server {
    /// Makes a cluster and starts a server on it.
    ///
    /// # Errors
    /// When `initdb` or the server fails; the message ends with the tail of their log.
    pub fn start(installation: &Installation, options: &ServerOptions) -> Result<Self> {
        let directory =
            tempfile::Builder::new().prefix("pgtoast-").tempdir_in(socket_safe_temp())?;
        let user = ServerUser::choose(directory.path())?;
        user.own(directory.path())?;
        let installation = installation.clone();
        let mut server = Self { running: None, directory, user, installation };
        server.make_cluster(options)?;
        server.start_again()?;
        Ok(server)
    }

    /// The same for the server of a major, wherever it is found.
    ///
    /// # Errors
    /// When there is none, and as for [`Server::start`].
    pub fn start_major(major: u32, options: &ServerOptions) -> Result<Self> {
        Self::start(&Installation::find(major)?, options)
    }

    /// Starts the server on its cluster after [`Server::stop`]; does nothing if it is running.
    ///
    /// # Errors
    /// When the server ends or takes no connection within a minute.
    pub fn start_again(&mut self) -> Result<()> {
        if self.running.is_some() {
            return Ok(());
        }
        let log = File::options().create(true).append(true).open(self.log_path())?;
        let child = self
            .user
            .command(&self.installation.bin().join("postgres"))
            .arg("-D")
            .arg(self.data_directory())
            .arg("-k")
            .arg(self.directory.path())
            .current_dir(self.directory.path())
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot run {}", self.installation))?;
        self.running = Some(Running(child));
        self.wait_until_ready().with_context(|| self.log_tail())
    }

    /// Stops the server cleanly: sessions are ended and every page is written out.
    ///
    /// # Errors
    /// When it does not end well within a minute.
    pub fn stop(&mut self) -> Result<()> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        let status = running.end(Signal::INT, Duration::from_secs(60))?;
        let status = status.with_context(|| format!("no end in a minute; {}", self.log_tail()))?;
        ensure!(status.success(), "the server ended with {status}; {}", self.log_tail());
        Ok(())
    }

    /// Ends the server at once, as a crash would: nothing more is written, and the next start replays
    /// the log.
    ///
    /// # Errors
    /// When it does not end within a minute.
    pub fn crash(&mut self) -> Result<()> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        let status = running.end(Signal::QUIT, Duration::from_secs(60))?;
        status.with_context(|| format!("no end in a minute; {}", self.log_tail()))?;
        Ok(())
    }

    /// A session in the database `postgres`.
    ///
    /// # Errors
    /// When the server is stopped or refuses.
    pub fn client(&self) -> Result<Client> {
        self.client_of("postgres")
    }

    /// A session in a database.
    ///
    /// # Errors
    /// When there is none of that name, the server is stopped or refuses.
    pub fn client_of(&self, database: &str) -> Result<Client> {
        postgres::Config::new()
            .host_path(self.directory.path())
            .port(PORT)
            .user(SUPERUSER)
            .dbname(database)
            .connect(NoTls)
            .with_context(|| format!("cannot connect to {}", self.installation))
    }

    /// What runs here.
    #[must_use]
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// The major release, such as 15.
    #[must_use]
    pub fn major(&self) -> u32 {
        self.installation.major()
    }

    /// The cluster's directory.
    #[must_use]
    pub fn data_directory(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// The directory of the socket, for programs that take `-h`; the port is 5432.
    #[must_use]
    pub fn socket_directory(&self) -> &Path {
        self.directory.path()
    }

    /// The first file of a relation's main fork; other forks and segments add to its name.
    ///
    /// # Errors
    /// When there is no such relation, or it has no file.
    pub fn relation_path(&self, client: &mut Client, relation: &str) -> Result<PathBuf> {
        let row =
            client.query_one("SELECT pg_relation_filepath($1::text::regclass)", &[&relation])?;
        let path: Option<String> = row.get(0);
        let path = path.with_context(|| format!("{relation} has no file"))?;
        Ok(self.data_directory().join(path))
    }

    /// Whether the server was built with lz4.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn has_lz4(&self, client: &mut Client) -> Result<bool> {
        let sql = "SELECT coalesce(bool_or('lz4' = ANY (enumvals)), false) FROM pg_settings \
                   WHERE name = 'default_toast_compression'";
        Ok(client.query_one(sql, &[])?.get(0))
    }

    /// Whether `CREATE EXTENSION name` would find its files.
    ///
    /// # Errors
    /// When the server cannot be asked.
    pub fn has_extension(&self, client: &mut Client, name: &str) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = $1)";
        Ok(client.query_one(sql, &[&name])?.get(0))
    }

    /// A command for one of the installation's programs that runs as the server's user, who may
    /// read the cluster; `None` if the installation lacks it.
    #[must_use]
    pub fn command(&self, program: &str) -> Option<std::process::Command> {
        let path = self.installation.program(program)?;
        let mut command = self.user.command(&path);
        command.current_dir(self.directory.path()).env("LC_ALL", "C");
        Some(command)
    }

    /// The last lines of the log, for messages.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let bytes = fs::read(self.log_path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(LOG_TAIL_LINES)..];
        format!("the log of {} ends with:\n{}", self.installation, tail.join("\n"))
    }

    fn make_cluster(&self, options: &ServerOptions) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.log_path())?;
        let mut command = self.user.command(&self.installation.bin().join("initdb"));
        command
            .args(["--no-sync", "--no-locale", "--encoding=UTF8", "--auth=trust"])
            .args(["--username", SUPERUSER, "-D"])
            .arg(self.data_directory())
            .current_dir(self.directory.path())
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        if options.wants_data_checksums() {
            command.arg("--data-checksums");
        } else if self.major() >= FIRST_WITH_CHECKSUMS_BY_DEFAULT {
            command.arg("--no-data-checksums");
        }
        let status = command.status().with_context(|| {
            let user = self.user;
            format!(
                "cannot run initdb of {} as {user:?}; may that user read it?",
                self.installation
            )
        })?;
        ensure!(status.success(), "initdb ended with {status}; {}", self.log_tail());
        // Appended rather than passed as arguments: a restart must see the same settings.
        let config_path = self.data_directory().join("postgresql.conf");
        let mut config = fs::read_to_string(&config_path)?;
        config.push_str(options.config_lines());
        fs::write(&config_path, config)?;
        Ok(())
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let running = self.running.as_mut().context("the server is not running")?;
            if let Some(status) = running.0.try_wait()? {
                self.running = None;
                bail!("the server ended with {status} while starting");
            }
            match self.client() {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }
}

/// A server process of ours. It never outlives this value.
#[derive(Debug)]
struct Running(Child);

impl Running {
    /// Sends `signal` and waits; `None` if the process is still there after `patience`.
    fn end(&mut self, signal: Signal, patience: Duration) -> Result<Option<ExitStatus>> {
        kill_process(Pid::from_child(&self.0), signal).context("cannot signal the server")?;
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if let Some(status) = self.0.try_wait()? {
                return Ok(Some(status));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(None)
    }
}

impl Drop for Running {
    /// Ends the process at once: what it has not written goes to the bin with its cluster. Its
    /// children end by themselves when it is gone.
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(Some(_))) {
            return;
        }
        let ended = self.end(Signal::QUIT, Duration::from_secs(10));
        if !matches!(ended, Ok(Some(_))) {
            // Nothing is left to report to; a process that is gone already is what we want.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// A directory whose name leaves room for a socket below it: the system allows 107 bytes.
fn socket_safe_temp() -> PathBuf {
    let directory = env::temp_dir();
    if directory.as_os_str().len() <= LONGEST_TEMP { directory } else { PathBuf::from("/tmp") }
}

const PORT: u16 = 5432;
const SUPERUSER: &str = "postgres";
const LOG_TAIL_LINES: usize = 20;
const LONGEST_TEMP: usize = 70;
const FIRST_WITH_CHECKSUMS_BY_DEFAULT: u32 = 18;

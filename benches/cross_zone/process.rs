//! Child processes inside namespaces. Each ends with the value that owns it.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::usage;

/// Runs this program to ask something over HTTP.
pub const GET_COMMAND: &str = "http-get";
const ANSWER_MAX: Duration = Duration::from_secs(10);

pub struct Owned(Child);

impl Owned {
    pub fn spawn(mut command: Command) -> Result<Owned> {
        let program = command.get_args().nth(3).unwrap_or_default().to_owned();
        Ok(Owned(command.spawn().with_context(|| format!("starting {}", program.display()))?))
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Waits until it ends by itself; an error when it says that it failed.
    pub async fn finish(mut self) -> Result<()> {
        loop {
            if let Some(status) = self.0.try_wait()? {
                ensure!(status.success(), "{status}");
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // Nothing of it is kept, so nobody has to say goodbye.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `ip netns exec` becomes the program, so the child's process id is the program's own.
pub fn command(namespace: &str, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).arg(program);
    command
}

/// Starts a program whose first line says where it can be found.
pub fn start_and_hear(mut command: Command) -> Result<(Owned, String)> {
    command.stdout(Stdio::piped());
    let mut process = Owned::spawn(command)?;
    let mut said = String::new();
    BufReader::new(process.0.stdout.take().context("no output")?).read_line(&mut said)?;
    ensure!(!said.trim().is_empty(), "it said nothing");
    Ok((process, said.trim().to_owned()))
}

/// Processor time of all of them since they started.
pub fn cpu(pids: &[u32]) -> Result<Duration> {
    pids.iter().map(|pid| usage::cpu(*pid)).sum()
}

/// The child's side of `Ground::http_get`: prints the body of an answer of status 200.
pub fn http_get(url: &str) -> Result<()> {
    let rest = url.strip_prefix("http://").context("not an http URL")?;
    let (host, path) = rest.split_once('/').context("no path")?;
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    write!(stream, "GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no end of the head")?;
    ensure!(head.split(' ').nth(1) == Some("200"), "{}", head.lines().next().unwrap_or_default());
    print!("{body}");
    Ok(())
}

/// Processor time of this machine since it started: all of it, and what nobody wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineTime {
    all: u64,
    idle: u64,
}

impl MachineTime {
    pub fn now() -> Result<MachineTime> {
        let text = fs::read_to_string("/proc/stat")?;
        let first = text.lines().next().context("no processor in /proc/stat")?;
        // user nice system idle iowait irq softirq steal; what follows is counted in user and nice already.
        let ticks: Vec<u64> = first.split_whitespace().skip(1).take(8).map(str::parse).collect::<Result<_, _>>()?;
        let idle = ticks.get(3..5).context("/proc/stat is cut")?.iter().sum();
        Ok(MachineTime { all: ticks.iter().sum(), idle })
    }

    /// The share of it that was used since `before`.
    pub fn busy_since(self, before: MachineTime) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        1.0 - self.idle.saturating_sub(before.idle) as f64 / all as f64
    }
}

//! `squall view` as a process, and requests to it over HTTP.
//!
//! `main` decides what to request, and judges the times.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// A running `squall view`; it ends on drop.
pub(crate) struct Viewer {
    child: Child,
    address: SocketAddr,
    started_after: Duration,
}

impl Viewer {
    /// Starts it on the folder of a run, and waits for its URL.
    pub(crate) fn start(run: impl AsRef<Path>) -> Result<Viewer> {
        let began = Instant::now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_squall"))
            .arg("view")
            .arg(run.as_ref())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start squall")?;
        let stdout = child.stdout.take().context("squall has no stdout")?;
        let mut viewer = Viewer {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            started_after: Duration::ZERO,
        };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let url = line.trim_end();
        let address = url
            .strip_prefix("http://")
            .and_then(|it| it.strip_suffix('/'));
        let address = address.with_context(|| format!("squall view printed {line:?}"))?;
        viewer.address = address.parse()?;
        viewer.started_after = began.elapsed();
        Ok(viewer)
    }

    /// How long it took from its start to its URL.
    pub(crate) fn started_after(&self) -> Duration {
        self.started_after
    }

    /// Requests a path. Returns how long the whole response took, and how many bytes it has.
    pub(crate) fn ask(&self, path: &str) -> Result<(Duration, usize)> {
        let began = Instant::now();
        let mut stream = TcpStream::connect(self.address)?;
        let host = self.address;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let took = began.elapsed();
        if !answer.starts_with(b"HTTP/1.1 200 ") {
            let said = String::from_utf8_lossy(&answer);
            bail!("{path} was answered with {said}");
        }
        Ok((took, answer.len()))
    }

    /// The peak memory of the process, in MiB (VmHWM of proc_pid_status(5)).
    pub(crate) fn peak_mib(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"))?;
        let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kib / 1024)
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

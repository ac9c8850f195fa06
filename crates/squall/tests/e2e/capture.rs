//! A capture of the loopback device while a test runs, and what tshark reads in it. Needs root, dumpcap and tshark.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// dumpcap at work.
pub(crate) struct Capture {
    child: Child,
    file: PathBuf,
}

impl Capture {
    /// Captures what `filter` (libpcap's) lets through, from when this returns.
    pub(crate) fn start(home: &Path, filter: &str) -> Capture {
        let file = home.join("capture.pcapng");
        let mut child = Command::new("dumpcap")
            // 128 MiB of kernel buffer, twice the most that is sent: nothing may be missing.
            .args(["-q", "-i", "lo", "-B", "128", "-f", filter, "-w"])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("dumpcap starts");
        // It says `File: ...` when it captures.
        let mut talk = BufReader::new(child.stderr.take().expect("stderr is a pipe")).lines();
        let has_begun = talk.any(|line| line.is_ok_and(|line| line.starts_with("File: ")));
        assert!(has_begun, "dumpcap cannot capture");
        // The rest of what it says has nobody to read it, and is short.
        thread::spawn(move || talk.for_each(drop));
        Capture { child, file }
    }

    /// Ends it when everything so far is in the file: dumpcap writes in order, so a last connection to the TCP port
    /// that it watches comes after everything else.
    pub(crate) fn end(mut self, port: u16) -> PathBuf {
        drop(TcpStream::connect(("127.0.0.1", port)));
        let give_up = Instant::now() + Duration::from_secs(20);
        let mut last = 0;
        // dumpcap looks at its buffer several times a second: what stands still for half a second is whole.
        let mut still = 0;
        while still < 5 && Instant::now() < give_up {
            thread::sleep(Duration::from_millis(100));
            let length = fs::metadata(&self.file).map_or(0, |file| file.len());
            still = if length == last && length > 0 {
                still + 1
            } else {
                0
            };
            last = length;
        }
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT).expect("dumpcap is there");
        self.child.wait().expect("it can be waited for");
        self.file.clone()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The fields of every packet that a display filter chooses; several values of one field are joined by commas.
pub(crate) fn fields(
    file: &Path,
    keys: Option<&Path>,
    filter: &str,
    fields: &[&str],
    more: &[&str],
) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    // Two processors may hand the segments of one connection over in another order than they were sent; tshark would
    // skip what it cannot put together.
    let in_order = ["-o", "tcp.reassemble_out_of_order:TRUE"];
    command.arg("-r").arg(file).args(in_order).args(more);
    if let Some(keys) = keys {
        command.args(["-o", &format!("tls.keylog_file:{}", keys.display())]);
    }
    command.args(["-Y", filter, "-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect()
}

/// As [`fields`], where everything at this TCP port is TLS.
pub(crate) fn tls_fields(
    file: &Path,
    keys: Option<&Path>,
    port: u16,
    filter: &str,
    names: &[&str],
) -> Vec<Vec<String>> {
    fields(
        file,
        keys,
        filter,
        names,
        &["-d", &format!("tcp.port=={port},tls")],
    )
}

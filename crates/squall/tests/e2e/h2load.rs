//! The usual load generator and server, h2load and nghttpd, over the same link: the yardstick for squall's own client
//! and server.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::bare_link::{ADDRESS, BareLink};

/// Sorted response times in ms of 200 POSTs a second of 1 KiB over one HTTP/2 connection. h2load starts counting when
/// it serialises a request.
pub(crate) fn latencies_ms(seed: u64, seconds: u32) -> Vec<f64> {
    let home = TempDir::new().expect("a temporary folder");
    for name in ["body", "index.html"] {
        fs::write(home.path().join(name), [b'x'; 1024]).expect("a file of 1 KiB");
    }
    let link = BareLink::lossy(seed);
    let mut server = link
        .server
        .run(|| {
            Ok(start(
                home.path(),
                "nghttpd --no-tls --address=198.18.0.2 -n1 -m 10000 -w24 -W24 -d . 8080",
            ))
        })
        .expect("the server's host");
    thread::sleep(Duration::from_millis(500));
    let load = format!(
        "h2load -c1 -t1 -m1000 -w24 -W24 --rps=200 -D{seconds} -d body --log-file=log http://{ADDRESS}/"
    );
    let mut client = link
        .client
        .run(|| Ok(start(home.path(), &load)))
        .expect("the client's host");
    let give_up = Instant::now() + Duration::from_secs(u64::from(seconds) + 20);
    while client
        .try_wait()
        .expect("h2load can be waited for")
        .is_none()
    {
        if Instant::now() > give_up {
            client.kill().expect("it can be ended");
        }
        thread::sleep(Duration::from_millis(20));
    }
    server.kill().expect("nghttpd is there");
    server.wait().expect("nghttpd ends");
    link.end();
    read_log(&home.path().join("log"))
}

fn start(folder: &Path, line: &str) -> std::process::Child {
    let mut words = line.split(' ');
    let program = words.next().expect("a line has a word");
    Command::new(program)
        .args(words)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| {
            panic!("{program}: {error}; it is in nghttp2-client or nghttp2-server")
        })
}

/// Parses h2load's log: start in us, status, duration in us, tab-separated.
fn read_log(path: &Path) -> Vec<f64> {
    let text = fs::read_to_string(path).expect("h2load has written its log");
    let mut latencies: Vec<f64> = text
        .lines()
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            assert_eq!(fields.get(1), Some(&"200"), "{line}");
            fields[2].parse::<f64>().expect("a duration in us") / 1e3
        })
        .collect();
    latencies.sort_by(f64::total_cmp);
    latencies
}

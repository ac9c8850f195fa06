//! squall without root: it works through a user namespace, and if something forbids that, it names the obstacle.
//!
//! As root, these tests become the user `nobody`. They need setpriv and unshare (util-linux).

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Gid, Pid, Uid, chown};
use squall_base::record::{Outcome, RequestRecord};
use tempfile::TempDir;

use crate::processes::worker_that_forwards;
use crate::stand_ins::copy_program;
use crate::support::{
    H1, H2C_X1, alone_if_it_fails, check_exit_code, check_validity, have, is_root, only_run, peers,
    read_trials, recipe, seat, stderr, stdout,
};

const NOBODY: u32 = 65_534;
const TUN: &str = "/dev/net/tun";

/// A folder with the binary and a recipe in it.
pub(crate) struct Home(TempDir);

impl Home {
    /// A folder that belongs to the user running the tests.
    fn of_ourselves() -> Home {
        let home = TempDir::new().expect("a temporary folder");
        let binary = home.path().join("squall");
        copy_program(Path::new(env!("CARGO_BIN_EXE_squall")), &binary);
        let text = recipe(
            "200/s",
            "delay = \"5ms\"\nloss = \"1%\"",
            &[H1, H2C_X1],
            "warmup = \"0s\"\nduration = \"2s\"\ndrain = \"2s\"",
        );
        let recipe = home.path().join("recipe.toml");
        fs::write(&recipe, text).expect("the recipe is written");
        for path in [home.path(), &binary, &recipe] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its mode is set");
        }
        Home(home)
    }

    /// The same folder, owned by the user `nobody`.
    pub(crate) fn of_nobody() -> Home {
        let home = Home::of_ourselves();
        let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        for name in [".", "squall", "recipe.toml"] {
            chown(&home.path().join(name), Some(uid), Some(gid)).expect("it is given away");
        }
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Replaces the recipe.
    pub(crate) fn write_recipe(&self, text: &str) {
        fs::write(self.path().join("recipe.toml"), text).expect("the recipe is written");
    }

    /// Runs the recipe as the user `nobody`.
    fn run(&self) -> Output {
        self.squall(&["run", "./recipe.toml"])
    }

    /// Runs the recipe as the user `nobody`, with the programs that do not come from Debian.
    fn run_with_programs(&self) -> Output {
        let mut command = self.command(&["run", "./recipe.toml"]);
        command
            .env("SQUALL_PEERS", peers())
            .env("HOME", self.path());
        command.output().expect("setpriv starts")
    }

    /// Runs squall as the user `nobody`, in this folder.
    pub(crate) fn squall(&self, arguments: &[&str]) -> Output {
        let output = self.command(arguments).output();
        output.expect("setpriv starts; it is in util-linux")
    }

    /// squall as the user `nobody`, in this folder.
    fn command(&self, arguments: &[&str]) -> Command {
        let user = NOBODY.to_string();
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", &user, "--regid", &user, "--clear-groups"])
            .arg("./squall")
            .args(arguments)
            .current_dir(self.path());
        command
    }
}

/// The folder of the only run in this home, which ended with that output.
fn run_of(home: &Home, output: &Output) -> PathBuf {
    assert!(home.path().join("runs").exists(), "{}", stderr(output));
    only_run(home.path())
}

/// Sets the mode of the TUN device file until dropped. Tests that set it wait for each other; tests that run as root are not
/// affected.
pub(crate) struct TunMode {
    before: fs::Permissions,
    _turn: MutexGuard<'static, ()>,
}

impl TunMode {
    pub(crate) fn set(mode: u32) -> TunMode {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let before = fs::metadata(TUN)
            .expect("the TUN driver is there")
            .permissions();
        fs::set_permissions(TUN, fs::Permissions::from_mode(mode)).expect("root may change it");
        TunMode {
            before,
            _turn: turn,
        }
    }
}

impl Drop for TunMode {
    fn drop(&mut self) {
        fs::set_permissions(TUN, self.before.clone()).expect("root may change it back");
    }
}

#[test]
fn ordinary_user_gets_a_complete_run_in_a_user_namespace() {
    if !is_root() {
        return;
    }
    let _seat = seat();
    let _open = TunMode::set(0o666);
    let home = Home::of_nobody();
    let output = home.run();
    let run: PathBuf = run_of(&home, &output);
    let trials = read_trials(&run);
    check_exit_code(&output, &trials);
    assert_eq!(trials.len(), 2);
    for trial in &trials {
        assert!(trial.record.used.user_namespace);
        check_validity(trial);
        assert_eq!(trial.record.used.client_congestion_control, ["cubic"]);
        assert_eq!(trial.requests.len(), 400);
        assert!(
            trial
                .requests
                .iter()
                .all(|request| request.outcome == Outcome::Answered)
        );
    }
    assert_eq!(
        fs::metadata(run.join("report.html"))
            .expect("the report")
            .uid(),
        NOBODY
    );
}

#[test]
fn ordinary_user_runs_nginx_on_hops_inside_a_host() {
    check_proxy("nginx");
}

#[test]
fn ordinary_user_runs_haproxy_on_hops_inside_a_host() {
    check_proxy("haproxy");
}

#[test]
fn ordinary_user_runs_nghttpx_on_hops_inside_a_host() {
    check_proxy("nghttpx");
}

#[test]
fn ordinary_user_runs_envoy_on_hops_inside_a_host() {
    check_proxy("envoy");
}

#[test]
fn ordinary_user_runs_caddy_on_hops_inside_a_host() {
    check_proxy("caddy");
}

/// Checks a trial through this proxy, as an ordinary user whose home folder has only squall and a recipe.
fn check_proxy(program: &str) {
    if !is_root() || !have(&[program]) {
        return;
    }
    let _seat = seat();
    let _open = TunMode::set(0o666);
    let home = Home::of_nobody();
    home.write_recipe(&recipe(
        "100/s",
        "delay = \"5ms\"",
        &[&format!(
            "[[variant]]\nname = \"proxied\"\npath = \"client ~h1~> {program} -h1-> server\"\n"
        )],
        "warmup = \"0s\"\nduration = \"500ms\"\ndrain = \"1s\"",
    ));
    let output = home.run_with_programs();
    let trials = read_trials(&run_of(&home, &output));
    check_exit_code(&output, &trials);
    let [trial] = trials.as_slice() else {
        panic!("{} trials: {}", trials.len(), stderr(&output));
    };
    assert_eq!(trial.requests.len(), 50, "{}", stderr(&output));
    assert!(trial.requests.iter().all(RequestRecord::succeeded));
}

/// One hop inside a host leads from a load generator to a proxy, the other from a proxy to a server that only speaks HTTP/2.
#[test]
fn ordinary_user_runs_h2load_and_nghttpd_on_hops_inside_a_host() {
    if !is_root() || !have(&["h2load", "haproxy", "nghttpx", "nghttpd"]) {
        return;
    }
    alone_if_it_fails(seat(), || {
        let _open = TunMode::set(0o666);
        let home = Home::of_nobody();
        home.write_recipe(
        "name = \"test\"\nquestion = \"?\"\n[load]\nkind = \"closed\"\nusers = 4\nwarmup = \"0s\"\n\
         duration = \"500ms\"\ndrain = \"1s\"\n[conditions]\ndelay = \"5ms\"\n\
         [[variant]]\nname = \"h2load\"\npath = \"client(h2load) -h1-> haproxy ~h1~> server\"\n\
         [[variant]]\nname = \"nghttpd\"\npath = \"client ~h1~> nghttpx -h2c-> nghttpd\"\n",
    );
        let output = home.run_with_programs();
        let trials = read_trials(&run_of(&home, &output));
        check_exit_code(&output, &trials);
        assert_eq!(trials.len(), 2, "{}", stderr(&output));
        for trial in &trials {
            let name = &trial.record.trial.variant.name;
            // 4 at a time, each for at least a round trip of 10 ms: 200 at most.
            let rows = trial.requests.iter();
            let answered: Vec<_> = rows.filter(|it| it.outcome == Outcome::Answered).collect();
            assert!(answered.len() > 20, "{name}: {}", answered.len());
            assert!(answered.iter().all(|it| it.succeeded()), "{name}");
        }
    });
}

/// The test opens a datagram socket for ICMP, as ping does if it has no right to a raw socket.
#[test]
fn ordinary_user_pings_across_a_link() {
    if !is_root() || !have(&["python3"]) {
        return;
    }
    let _open = TunMode::set(0o666);
    let home = Home::of_nobody();
    let ping = "import socket, struct\n\
                s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)\n\
                s.settimeout(10)\n\
                s.sendto(struct.pack('!BBHHH', 8, 0, 0, 0, 1) + b'hello', ('server', 0))\n\
                d = s.recv(100)\n\
                print(d[0], d[8:].decode())\n";
    let output = home.squall(&["link", "--delay", "2ms", "--", "python3", "-c", ping]);
    // Type 0 is the echo reply.
    assert_eq!(stdout(&output), "0 hello\n", "{}", stderr(&output));
}

/// An ordinary user's receive buffers are small, and a stopped program does not empty them.
#[test]
fn ordinary_user_is_told_what_forwarding_dropped() {
    if !is_root() || !have(&["python3"]) {
        return;
    }
    let limit = fs::read_to_string("/proc/sys/net/core/rmem_max").expect("the limit");
    if limit.trim().parse::<u32>().expect("bytes") > 4 << 20 {
        eprintln!("skipped: an ordinary user may have buffers of {limit} bytes");
        return;
    }
    let _seat = seat();
    let _open = TunMode::set(0o666);
    let home = Home::of_nobody();
    let service = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let patience = Some(Duration::from_secs(60));
    service.set_read_timeout(patience).expect("it is set");
    let port = service.local_addr().expect("its address").port();
    let asks = format!(
        "import socket, time\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         s.settimeout(20)\n\
         s.sendto(b'all', ('server', {port}))\n\
         s.recv(2000)\n\
         time.sleep(1)\n"
    );
    let port = port.to_string();
    let link = [
        "link",
        "--forward",
        &port,
        "--json",
        "link.json",
        "--quiet",
        "--",
        "python3",
        "-c",
        &asks,
    ];
    let squall = home
        .command(&link)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("setpriv starts");
    let (_, forwarder) = service.recv_from(&mut [0; 16]).expect("a datagram");
    let worker = worker_that_forwards(squall.id()).expect("it forwards");
    let worker = Pid::from_raw(worker);
    kill(worker, Signal::SIGSTOP).expect("it is stopped");
    for _ in 0..20_000 {
        service.send_to(&[7; 1_200], forwarder).expect("loopback");
    }
    kill(worker, Signal::SIGCONT).expect("it goes on");
    let output = squall.wait_with_output().expect("it ends");
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let json = fs::read(home.path().join("link.json")).expect("link.json");
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    let drops = json["forward_drops"].as_u64().expect("a count");
    assert!((1..20_000).contains(&drops), "{drops}");
    let sentence =
        format!("--forward dropped {drops} datagrams because its receive buffers were full");
    assert!(said.contains(&sentence), "{said}");
    assert!(json["validity"].to_string().contains(&sentence), "{json}");
}

#[test]
fn inaccessible_tun_device_is_named() {
    if !is_root() {
        return;
    }
    let _seat = seat();
    let _closed = TunMode::set(0o600);
    let home = Home::of_nobody();
    let output = home.run();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let runs = fs::read_dir(home.path().join("runs")).expect("the folder above the runs");
    assert_eq!(runs.count(), 0, "nothing ran, and nothing is left");
    let said = stderr(&output);
    assert!(
        said.contains("/dev/net/tun") && said.contains("chmod 666 /dev/net/tun"),
        "{said}"
    );
}

#[test]
fn missing_tun_device_is_named_by_run_and_doctor() {
    if !is_root() || !have(&["unshare", "mount"]) {
        return;
    }
    let _seat = seat();
    let home = Home::of_ourselves();
    // A private mount namespace in which the device's folder is empty.
    let script = "mount -t tmpfs none /dev/net && exec ./squall \"$@\"";
    let squall = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]);
        let output = command.args(arguments).current_dir(home.path()).output();
        output.expect("unshare starts; it is in util-linux")
    };
    let output = squall(&["run", "./recipe.toml"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("/dev/net/tun") && said.contains("modprobe tun"),
        "{said}"
    );
    let runs = fs::read_dir(home.path().join("runs")).expect("the folder above the runs");
    assert_eq!(runs.count(), 0, "nothing ran, and nothing is left");

    let output = squall(&["doctor"]);
    let (said, table) = (stderr(&output), stdout(&output));
    assert_eq!(output.status.code(), Some(1), "{table}{said}");
    assert!(said.contains("TUN device"), "{said}");
    assert!(table.contains("modprobe tun"), "{table}");
}

#[test]
fn setting_that_forbids_user_namespaces_is_named() {
    if !is_root() {
        return;
    }
    let _seat = seat();
    let home = Home::of_ourselves();
    // A private user namespace that permits no further ones, and a process without capabilities.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && \
                  exec setpriv --inh-caps=-all --bounding-set=-all ./squall run ./recipe.toml";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", script])
        .current_dir(home.path())
        .output()
        .expect("unshare starts; it is in util-linux");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("sysctl -w user.max_user_namespaces="),
        "{}",
        stderr(&output)
    );
}

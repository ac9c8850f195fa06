//! What people share of a run or a recording has no secrets: every file of a run's folder, and imported scripts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use tempfile::TempDir;

use crate::stand_ins::{path_from, write_program};
use crate::support::{
    H1, have, only_run, peers, read_trials, recipe, seat, short_recipe, squall, stderr, stdout,
};

const SECRETS: [&str; 2] = ["hidden-word-1", "hidden-word-2"];

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// The files that contain a secret.
fn with_secrets(folder: &Path) -> Vec<PathBuf> {
    let has_secret = |path: &PathBuf| {
        let bytes = fs::read(path).expect("a file");
        let is_at = |secret: &str| {
            bytes
                .windows(secret.len())
                .any(|at| at == secret.as_bytes())
        };
        SECRETS.iter().any(|secret| is_at(secret))
    };
    files(folder).into_iter().filter(has_secret).collect()
}

/// A home with a short recipe whose request has a secret header field and a secret in its query.
fn home() -> TempDir {
    let home = TempDir::new().expect("a temporary folder");
    let text = short_recipe(&[H1], 1)
        .replace(
            "target = \"/\"",
            &format!("target = \"/?token={}\"", SECRETS[0]),
        )
        .replace(
            "accept = \"application/json\"",
            &format!("authorization = \"{}\"", SECRETS[1]),
        );
    fs::write(home.path().join("mine.toml"), text).expect("the recipe is written");
    home
}

fn run(home: &TempDir, arguments: &[&str]) -> Output {
    squall(home.path())
        .arg("run")
        .args(arguments)
        .output()
        .expect("squall starts")
}

/// Checks the exit code; 3 means that other work on the machine disturbed the trial.
fn check_ran(output: &Output) {
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 3)), "{}", stderr(output));
}

#[test]
fn folder_of_a_run_has_no_secrets_and_is_resumed_with_the_recipe() {
    let _seat = seat();
    let home = home();
    let output = run(&home, &["./mine.toml"]);
    check_ran(&output);
    let folder = only_run(home.path());
    assert_eq!(with_secrets(&folder), Vec::<PathBuf>::new());
    let said = stdout(&output) + &stderr(&output);
    assert!(
        !SECRETS.iter().any(|secret| said.contains(secret)),
        "{said}"
    );

    fs::remove_dir_all(folder.join("trials")).expect("its trials");
    fs::create_dir(folder.join("trials")).expect("an empty folder");
    let name = folder.to_str().expect("text");
    let refused = run(&home, &["--resume", name]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("squall run RECIPE --resume"));
    let resumed = run(&home, &["./mine.toml", "--resume", name]);
    check_ran(&resumed);
    assert_eq!(with_secrets(&folder), Vec::<PathBuf>::new());
}

#[test]
fn secrets_stay_in_the_folder_of_a_run_that_is_asked_to_keep_them() {
    let _seat = seat();
    let home = home();
    check_ran(&run(&home, &["./mine.toml", "--keep-secrets"]));
    let folder = only_run(home.path());
    let mut found = with_secrets(&folder);
    found.sort();
    assert_eq!(
        found,
        ["plan.json", "recipe.toml"].map(|name| folder.join(name))
    );
}

/// nginx that accepts only requests with the second secret. Its configuration describes the secret by a pattern, so that it
/// does not contain it.
const GUARD: &str = r#"
[station.guard]
command = "nginx -p {folder} -c {configuration}"
configuration = '''
daemon off; master_process off; user root; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{ access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
server {{ listen {listen_host}:{listen_port}; location / {{
if ($http_authorization ~ "^hidden-word-[2]$") {{ return 200 accepted; }}
return 403; }} }} }}
'''
"#;

/// The file of an installed program.
fn installed(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").expect("there is a PATH");
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.push(peers().join("bin"));
    let mut files = folders.iter().map(|folder| folder.join(name));
    files.find(|file| file.is_file()).expect("`have` was asked")
}

/// curl and k6 read the secret from a file, because every user of the machine can read arguments. Each is started through
/// a script that records its arguments.
#[test]
fn secret_for_a_load_generator_is_in_neither_its_arguments_nor_the_run_folder() {
    if !have(&["nginx", "curl", "k6"]) {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let programs = home.path().join("programs");
    let arguments = |name: &str| home.path().join(format!("{name}.arguments"));
    for name in ["curl", "k6"] {
        let script = format!(
            "printf '%s\\n' \"$@\" >> '{}'\nexec '{}' \"$@\"",
            arguments(name).display(),
            installed(name).display()
        );
        write_program(&programs, name, &script);
    }
    let variant = |client: &str| {
        format!(
            "[[variant]]\nname = \"{client}\"\npath = \"client({client}) ~h1~> guard\"\nconnections = 1\n"
        )
    };
    let [curl, k6] = ["curl", "k6"].map(variant);
    let profile = "warmup = \"0s\"\nduration = \"500ms\"\ndrain = \"2s\"\nrepetitions = 1";
    let text = recipe("20/s", "delay = \"2ms\"", &[&curl, &k6], profile);
    let text = text
        .replace("[response]\nstatus = 200\nbody = \"1KiB\"\n", "")
        .replace(
            "accept = \"application/json\"",
            &format!("authorization = \"{}\"", SECRETS[1]),
        );
    fs::write(home.path().join("mine.toml"), text + GUARD).expect("the recipe is written");
    let output = squall(home.path())
        .env("PATH", path_from(&programs))
        .args(["run", "./mine.toml"])
        .output()
        .expect("squall starts");
    check_ran(&output);
    for (name, usual) in [("curl", "--write-out\n"), ("k6", "script.js\n")] {
        let given = fs::read_to_string(arguments(name)).expect("its arguments");
        assert!(given.contains(usual), "{name}: {given}");
        assert!(
            !SECRETS.iter().any(|it| given.contains(it)),
            "{name}: {given}"
        );
    }
    let folder = only_run(home.path());
    let trials = read_trials(&folder);
    assert_eq!(trials.len(), 2, "{}", stderr(&output));
    for trial in &trials {
        let name = trial.record.trial.folder();
        assert!(!trial.requests.is_empty(), "{name}");
        for request in &trial.requests {
            assert_eq!(request.status, Some(200), "{name}: {request:?}");
        }
    }
    assert_eq!(with_secrets(&folder), Vec::<PathBuf>::new());
}

/// Scripts stand in for the programs: squall starts them only to ask for their version.
#[test]
fn run_warns_of_secrets_that_a_load_generator_takes_as_arguments() {
    let home = TempDir::new().expect("a temporary folder");
    let programs = home.path().join("programs");
    write_program(&programs, "h2load", "echo h2load nghttp2/1.52.0");
    write_program(&programs, "fortio", "echo 1.63.9");
    let dry_run = |header: &str| {
        let variant = |client: &str| {
            format!(
                "[[variant]]\nname = \"{client}\"\npath = \"client({client}) ~h1~> server\"\nconnections = 1\n"
            )
        };
        let [h2load, fortio] = ["h2load", "fortio"].map(variant);
        let text = recipe(
            "20/s",
            "delay = \"2ms\"",
            &[&h2load, &fortio],
            "duration = \"1s\"",
        );
        let text = text.replace("accept = \"application/json\"", header);
        fs::write(home.path().join("mine.toml"), text).expect("the recipe is written");
        let output = squall(home.path())
            .env("PATH", path_from(&programs))
            .args(["run", "./mine.toml", "--dry-run"])
            .output()
            .expect("squall starts");
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    let said = dry_run(&format!("x-api-key = \"{}\"", SECRETS[0]));
    for program in ["h2load", "fortio"] {
        let warning = format!(
            "squall: {program} takes header fields only as arguments: every user of this machine can read the secrets"
        );
        assert_eq!(said.matches(&warning).count(), 1, "{said}");
    }
    let said = dry_run("accept = \"*/*\"");
    assert!(!said.contains("arguments"), "{said}");
}

#[test]
fn imported_script_has_no_secrets_unless_they_are_asked_for() {
    let home = TempDir::new().expect("a temporary folder");
    let har = format!(
        r#"{{"log": {{"entries": [{{"startedDateTime": "2026-01-02T03:04:05.000Z", "request":
            {{"method": "GET", "url": "http://a/?token={}", "headers": [{{"name": "Cookie", "value": "{}"}}]}}}}]}}}}"#,
        SECRETS[0], SECRETS[1]
    );
    fs::write(home.path().join("in.har"), har).expect("a file");
    let import = |more: &[&str]| {
        let output = squall(home.path())
            .args(["import", "har", "in.har"])
            .args(more)
            .output()
            .expect("squall starts");
        assert!(output.status.success(), "{}", stderr(&output));
        output
    };
    let output = import(&[]);
    let script = stdout(&output);
    assert!(
        !SECRETS.iter().any(|secret| script.contains(secret)),
        "{script}"
    );
    let said = stderr(&output);
    assert!(said.contains("add --keep-secrets"), "{said}");
    let script = stdout(&import(&["--keep-secrets"]));
    assert!(
        SECRETS.iter().all(|secret| script.contains(secret)),
        "{script}"
    );
}

/// Only root needs `--allow-files`. Whenever a recipe reads a file outside its folder, a line announces it.
#[test]
fn file_outside_the_recipes_folder_is_announced_and_refused_to_root() {
    let home = home();
    let own = home.path().join("own");
    fs::create_dir(&own).expect("a folder");
    fs::write(home.path().join("body.bin"), "b").expect("a file");
    let text = fs::read_to_string(home.path().join("mine.toml")).expect("the recipe");
    let text = text.replacen("body = \"1KiB\"", "body = { file = \"../body.bin\" }", 1);
    fs::write(own.join("mine.toml"), text).expect("the recipe is written");
    let plain = run(&home, &["own/mine.toml", "--dry-run"]);
    let allowed = run(&home, &["own/mine.toml", "--dry-run", "--allow-files"]);
    let announced = "reads a file outside of its folder, with the rights of";
    assert!(allowed.status.success(), "{}", stderr(&allowed));
    assert!(stderr(&allowed).contains(announced), "{}", stderr(&allowed));
    let said = stderr(&plain);
    if nix::unistd::geteuid().is_root() {
        assert_eq!(plain.status.code(), Some(2), "{said}");
        assert!(
            said.contains("--allow-files") && said.contains("body.bin"),
            "{said}"
        );
    } else {
        assert!(plain.status.success() && said.contains(announced), "{said}");
    }
}

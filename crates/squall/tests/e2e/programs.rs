//! What a recipe can configure about real programs beyond their place in a path: settings in their own terms, and a dedicated
//! processor.

use std::fs;

use squall_base::plan::Side;
use squall_base::record::{RequestRecord, Way};
use squall_linux::scheduling::usable_processors;
use squall_record::{RunFolder, read_frames};
use tempfile::TempDir;

use crate::processes::processes_below;
use crate::support::{
    begin_run, check_exit_code, check_validity, have, only_run, read_trials, recipe, run_recipe,
    run_recipe_in, seat, stderr, wait_for,
};

const PROFILE: &str = "warmup = \"500ms\"\nduration = \"2s\"\ndrain = \"2s\"";

/// nginx with a master and `count` workers. It responds immediately, with 8 bytes.
fn many_workers(count: usize) -> String {
    format!(
        "[station.many]\ncommand = \"nginx -p {{folder}} -c {{configuration}}\"\nconfiguration = '''\n\
         daemon off; master_process on; worker_processes {count}; user root; pid {{folder}}/pid;\n\
         error_log {{folder}}/error.log;\nevents {{{{ worker_connections 1024; }}}}\n\
         http {{{{ access_log off; client_body_temp_path {{folder}}/body; proxy_temp_path {{folder}}/proxy;\n\
         fastcgi_temp_path {{folder}}/fastcgi; uwsgi_temp_path {{folder}}/uwsgi; scgi_temp_path {{folder}}/scgi;\n\
         server {{{{ listen {{listen_host}}:{{listen_port}}; location / {{{{ return 200 answered; }}}} }}}} }}}}\n'''\n"
    )
}

/// The processors that squall assigns to this many programs, by the rule of docs/PEERS.md.
fn given(count: usize) -> Vec<usize> {
    let usable = usable_processors().expect("this thread's processors");
    let choice = if usable.len() > 1 {
        &usable[1..]
    } else {
        &usable[..]
    };
    choice.iter().rev().copied().cycle().take(count).collect()
}

fn allowed(process: i32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = |line: &str| line.strip_prefix("Cpus_allowed_list:\t").map(str::to_owned);
    status.lines().find_map(line)
}

/// Compares the affinity that the kernel reports for the load generator, the proxy, and the server with all of its
/// workers with what the trial records. The variant that does not ask for pinning records nothing.
#[test]
fn pinned_programs_and_their_children_stay_on_their_processors() {
    if !have(&["nginx", "haproxy", "h2load"]) {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let path = "path = \"client(h2load) -h1-> haproxy ~h1~> many\"\nconnections = 4\n";
    let pinned = format!("[[variant]]\nname = \"pinned\"\n{path}pinned = true\n");
    let free = format!("[[variant]]\nname = \"free\"\n{path}");
    let text = recipe("200/s", "delay = \"5ms\"", &[&pinned, &free], PROFILE);
    let text = text.replace("[response]\nstatus = 200\nbody = \"1KiB\"\n", "") + &many_workers(3);
    let child = begin_run(home.path(), &text);
    let names = ["h2load", "haproxy", "nginx"];
    let found = wait_for("all programs at once", || {
        let found = names.map(|name| processes_below(child.id(), name));
        // A master and three workers.
        let is_all = found[2].len() == 4 && found[..2].iter().all(|them| them.len() == 1);
        is_all.then(|| found.map(|them| them.into_iter().map(allowed).collect::<Vec<_>>()))
    });
    let output = child.wait_with_output().expect("the run ends");
    let trials = read_trials(&only_run(home.path()));
    check_exit_code(&output, &trials);
    for (at, (found, given)) in found.into_iter().zip(given(3)).enumerate() {
        let all_there = vec![Some(given.to_string()); found.len()];
        assert_eq!(found, all_there, "{}", names[at]);
        let [told, untold] = [&trials[0], &trials[1]].map(|it| &it.record.stations[at].processors);
        assert_eq!((told, untold), (&vec![given], &Vec::new()), "{}", names[at]);
    }
    for trial in &trials {
        check_validity(trial);
        assert!(trial.measured().all(RequestRecord::succeeded));
    }
}

/// A program that sets its own affinity does not run where the plan says, so the trial is not valid evidence.
#[test]
fn a_program_that_leaves_its_processor_makes_the_trial_invalid() {
    let usable = usable_processors().expect("this thread's processors");
    if !have(&["nginx"]) || usable.len() < 2 {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let variant =
        "[[variant]]\nname = \"strays\"\npath = \"client ~h1~> many\"\npinned = [\"many\"]\n";
    let text = recipe("100/s", "delay = \"5ms\"", &[variant], PROFILE);
    // nginx takes a mask of bits, whose rightmost is processor 0.
    let own = format!("worker_cpu_affinity {:b};", 1_u64 << usable[0]);
    let station = many_workers(1).replace("daemon off;", &format!("daemon off; {own}"));
    let text = text.replace("[response]\nstatus = 200\nbody = \"1KiB\"\n", "") + &station;
    let output = run_recipe_in(home.path(), &text);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let held = usable[usable.len() - 1];
    let expected = format!(
        "station 1, many, was pinned to processor {held}, but could run on {}, {held}: it chooses",
        usable[0]
    );
    assert!(said.contains(&expected), "{said}");
}

/// Checks settings on the wire, by the windows that our client counts: what is left of a stream's window after the
/// first DATA frame.
#[test]
fn program_settings_show_on_the_wire() {
    if !have(&["nginx", "envoy"]) {
        return;
    }
    let _seat = seat();
    let variant = |name: &str, program: &str, settings: &str| {
        format!(
            "[[variant]]\nname = \"{name}\"\npath = \"client ~h2c~> {program}\"\nserver.http2 = {settings}\n"
        )
    };
    let cases = [
        (
            "nginx",
            "nginx",
            "{ stream_window = \"200000\", goaway_after = 50 }",
            200_000,
            None,
        ),
        (
            "envoy",
            "envoy",
            "{ stream_window = \"300000\", connection_window = \"400000\" }",
            300_000,
            Some(400_000),
        ),
    ];
    let variants = cases.map(|(name, program, settings, ..)| variant(name, program, settings));
    let text = recipe(
        "100/s",
        "delay = \"5ms\"",
        &variants.each_ref().map(String::as_str),
        PROFILE,
    );
    let run = run_recipe(&text, &[]);
    let folders = RunFolder::open(&run.folder)
        .and_then(|run| run.complete_trials())
        .expect("the run's trials");
    for (folder, (name, _, _, stream, connection)) in folders.iter().zip(cases) {
        let record = folder.read_record().expect("trial.json");
        assert_eq!(record.trial.variant.name, name);
        assert_eq!(record.trial.variant.stations[1].asked.settings.len(), 2);
        let frames = read_frames(folder.frames()).expect("frames.parquet");
        // The DATA frame type (RFC 9113, section 6.1); the whole body is one frame.
        let first = frames
            .iter()
            .find(|row| (row.side, row.frame.way, row.frame.kind) == (Side::Client, Way::Sent, 0));
        let frame = &first.expect("bodies are sent").frame;
        // Requests sent before the server's SETTINGS use HTTP/2's initial windows; SETTINGS then enlarge them.
        assert_eq!(frame.length, 1_024);
        let last = frames
            .iter()
            .rfind(|row| (row.side, row.frame.way, row.frame.kind) == (Side::Client, Way::Sent, 0));
        let frame = &last.expect("bodies are sent").frame;
        assert_eq!(frame.stream_window, Some(stream - 1_024), "{name}");
        if let Some(connection) = connection {
            let most = frames
                .iter()
                .filter_map(|row| row.frame.connection_window)
                .max();
            assert!(
                most <= Some(connection) && most > Some(connection - 10 * 1_024),
                "{name}: {most:?}"
            );
        }
    }
    // 250 requests, and a connection ends after 50.
    let opened = run.only("nginx").record.connections_opened;
    assert!((5..=6).contains(&opened), "{opened}");
    assert_eq!(run.only("envoy").record.connections_opened, 1);
}

#[test]
fn setting_that_a_program_lacks_is_refused_before_the_run() {
    if !have(&["nginx"]) {
        return;
    }
    let home = TempDir::new().expect("a temporary folder");
    let variant = "[[variant]]\nname = \"x\"\npath = \"client ~h2c~> nginx\"\n\
                   server.http2.connection_window = \"1MiB\"\n";
    let text = recipe("10/s", "", &[variant], "duration = \"1s\"");
    let output = run_recipe_in(home.path(), &text);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(!home.path().join("runs").exists());
    let expected = "nginx cannot be given connection_window 1048576 to its clients: it always opens it to 2147483647; it \
                    accepts stream_window, max_concurrent_streams, data_size, requests_per_connection";
    assert!(said.contains(expected), "{said}");
}

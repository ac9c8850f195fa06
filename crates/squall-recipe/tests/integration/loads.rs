//! Every kind of load that a recipe can have: what it expands to, and the messages for mistakes in it.
//!
//! The files that recipes name are made up here, because this crate reads none.

use squall_base::plan::{
    Connections, FormValue, LoadKind, Mix, PageNode, PageQuestion, PageRequest, Plan, RequestBody,
    SAMPLE_EVERY, Script, ScriptBody, ScriptRequest, ScriptStep, Spacing, Speed, ThinkTime,
    Urgency,
};
use squall_base::{Bytes, Duration};
use squall_recipe::{Files, RecordingChoice, StationMode, parse_with};

/// Made-up files, whose names determine their contents.
struct MadeUp;

fn request(url: &str, body: ScriptBody) -> ScriptRequest {
    ScriptRequest {
        method: "GET".to_owned(),
        url: url.to_owned(),
        headers: vec![("accept".to_owned(), "*/*".to_owned())],
        body,
    }
}

impl Files for MadeUp {
    fn script(&self, path: &str, choice: RecordingChoice) -> Result<Script, String> {
        let step = |at_ms, request| ScriptStep {
            at: Duration::from_millis(at_ms),
            request,
        };
        let mut media = if choice.media_only { "/media" } else { "/any" };
        if choice.keep_hosts {
            media = "/all";
        } else if choice.hosts == ["shop.test", "cdn.test:8443"] {
            media = "/named";
        }
        let url = match path {
            "missing.har" => return Err("cannot read it: No such file".to_owned()),
            "blank.har" => "/a b".to_owned(),
            _ => format!("https://elsewhere:8443{media}?x=1#part"),
        };
        Ok(Script {
            requests: vec![
                request(&url, ScriptBody::Empty),
                request("/upload", ScriptBody::File("body.bin".into())),
            ],
            steps: vec![step(0, 0), step(1_500, 1), step(2_000, 0)],
        })
    }

    fn targets(&self, _: &str) -> Result<Vec<ScriptRequest>, String> {
        let text = ScriptBody::Text("hello".to_owned());
        Ok(vec![request("/1", ScriptBody::Empty), request("/2", text)])
    }

    fn page(&self, _: &str) -> Result<Vec<PageRequest>, String> {
        let one = |url: &str, after| PageRequest {
            url: url.to_owned(),
            after,
            delay: Duration::ZERO,
            urgency: None,
        };
        Ok(vec![one("/", None), one("/a.js", Some(0))])
    }

    fn length(&self, path: &str) -> Result<Bytes, String> {
        if path.contains("nowhere") {
            Err("cannot read it: No such file".to_owned())
        } else if path == "sparse" {
            Ok(Bytes::new(2 << 40))
        } else {
            Ok(Bytes::new(9))
        }
    }

    fn text(&self, path: &str) -> Result<String, String> {
        if let Some(schedule) = example_schedule(path) {
            return Ok(schedule.to_owned());
        }
        Ok("1\n".to_owned())
    }
}

/// A schedule that the reference shows.
fn example_schedule(path: &str) -> Option<&'static str> {
    let shown = format!("Where `{path}` is\n\n```text\n");
    let (_, rest) = REFERENCE.split_once(&shown)?;
    Some(rest.split_once("```")?.0)
}

const REFERENCE: &str = include_str!("../../../../docs/RECIPES.md");
/// Documents with further examples.
const TUTORIAL: &str = include_str!("../../../../docs/TUTORIAL.md");
const HOWTO: &str = include_str!("../../../../docs/HOWTO.md");
const HEAD: &str = "name = \"x\"\nquestion = \"?\"\n";
const TAIL: &str = "[[variant]]\nname = \"h1\"\npath = \"client ~h1~> server\"\n\
    [[variant]]\nname = \"h2c\"\npath = \"client ~h2c~> server\"\n";

#[track_caller]
fn plan(lines: &str) -> Plan {
    let text = format!("{HEAD}{lines}\n{TAIL}");
    let recipe = parse_with(&text, StationMode::Real, &MadeUp);
    let recipe = recipe.unwrap_or_else(|e| panic!("{}", e.render("x", &text)));
    let plan = recipe.plan(recipe.default_profile(), 1);
    plan.expect("the profile is its own")
}

/// Checks the problems of a recipe with these lines, which begin on line 3.
#[track_caller]
fn refused(lines: &str, problems: &str) {
    let text = format!("{HEAD}{lines}\n{TAIL}");
    let error = parse_with(&text, StationMode::Real, &MadeUp).expect_err("a mistake");
    assert_eq!(error.to_string(), problems, "\n{lines}");
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn targets(plan: &Plan) -> Vec<&str> {
    plan.requests
        .iter()
        .map(|one| one.target.as_str())
        .collect()
}

#[test]
fn sample_every_sets_how_often_sockets_are_sampled() {
    let load = "[load]\nrate = \"10/s\"\nduration = \"1s\"";
    assert_eq!(plan(load).trials[0].sample_every, SAMPLE_EVERY);
    let often = plan(&format!("sample_every = \"5ms\"\n{load}"));
    assert_eq!(often.trials[0].sample_every, Duration::from_millis(5));
    for too in ["0s", "999us", "25h"] {
        refused(
            &format!("sample_every = \"{too}\"\n{load}"),
            &format!(
                "3:16: `sample_every` is out of range: {too}: expected at least 1ms and at most 24h"
            ),
        );
    }
}

#[test]
fn open_loads_have_a_rate_or_stages() {
    let constant = plan("[load]\nrate = \"10/s\"\nduration = \"1s\"\nspin = \"60us\"");
    let load = &constant.trials[0].load;
    assert_eq!(load.constant_rate().unwrap().to_string(), "10/s");
    assert_eq!(load.spin, Duration::from_micros(60));
    assert_eq!(load.users_with_own_connections(), 0);

    let random =
        plan("[load]\nkind = \"open\"\nrate = \"10/s\"\narrivals = \"poisson\"\nduration = \"1s\"");
    let LoadKind::Open { spacing, .. } = random.trials[0].load.kind else {
        panic!("it is open");
    };
    assert_eq!(spacing, Spacing::Poisson);

    let steps = plan("[load]\nstages = \"10/s 3s, 10/s..20/s 2s, 0 1s\"\nwarmup = \"1s\"");
    let load = &steps.trials[0].load;
    assert_eq!((load.warmup, load.duration), (ms(1_000), ms(5_000)));
    assert_eq!(load.constant_rate(), None);
}

#[test]
fn closed_loads_have_users_with_think_times() {
    let closed = plan(
        "[load]\nkind = \"closed\"\nusers = 20\nthink = \"0.5s..2s\"\nstagger = \"3s\"\nrequests = 100\n\
         duration = \"9s\"",
    );
    let load = &closed.trials[0].load;
    let LoadKind::Closed {
        users, requests, ..
    } = &load.kind
    else {
        panic!("it is closed");
    };
    let (from, to) = (ms(500), ms(2_000));
    assert_eq!(users.think, ThinkTime::Uniform { from, to });
    assert_eq!(
        (users.count, users.starts_over, *requests),
        (20, ms(3_000), Some(100))
    );
    assert!(load.may_end_early());
    // Users share the connections: as many as they need if the protocol does not multiplex.
    let connections = closed
        .variants
        .iter()
        .map(|variant| variant.hops[0].connections);
    let on_demand = Connections::OnDemand { at_most: 4_096 };
    assert!(connections.eq([on_demand, Connections::Fixed(1)]));
}

#[test]
fn several_requests_get_their_weights() {
    let several = plan(
        "[load]\nrate = \"10/s\"\nduration = \"1s\"\n[[request]]\ntarget = \"/a\"\nweight = 3\n\
         [[request]]\ntarget = \"/b\"\nbody = \"1KiB\"",
    );
    assert_eq!(targets(&several), ["/a", "/b"]);
    let methods: Vec<&str> = several
        .requests
        .iter()
        .map(|one| one.method.as_str())
        .collect();
    assert_eq!(methods, ["GET", "POST"], "POST if there is a body");
    let LoadKind::Open { mix, .. } = &several.trials[0].load.kind else {
        panic!("it is open");
    };
    assert_eq!(Some(mix), Mix::new(vec![3, 1]).as_ref());

    let file = plan(
        "[load]\nrate = \"10/s\"\nduration = \"1s\"\ntargets = \"t.txt\"\n\
         [request]\nheaders = { accept = \"text/html\", via = \"x\" }",
    );
    assert_eq!(targets(&file), ["/1", "/2"]);
    let body = RequestBody::Text("hello".to_owned());
    assert_eq!(file.requests[1].body, body);
    let via = ("via".to_owned(), "x".to_owned());
    let accept = ("accept".to_owned(), "*/*".to_owned());
    assert_eq!(
        file.requests[0].headers,
        [accept, via],
        "only what is missing is added"
    );
}

#[test]
fn recipe_chooses_the_hosts_of_a_recording() {
    let first = |keys: &str| {
        let plan = plan(&format!(
            "[load]\nkind = \"script\"\nscript = \"a.har\"\n{keys}"
        ));
        plan.requests[0].target.clone()
    };
    assert_eq!(first(""), "/any?x=1");
    assert_eq!(first("keep_hosts = false"), "/any?x=1");
    assert_eq!(first("keep_hosts = true"), "/all?x=1");
    let hosts = "hosts = [\"shop.test\", \"cdn.test:8443\"]";
    assert_eq!(first(hosts), "/named?x=1");
}

#[test]
fn scripts_last_as_long_as_their_recordings_by_default() {
    let script = plan(
        "[load]\nkind = \"script\"\nscript = \"bbc/train.har\"\nusers = 3\nstagger = \"1s\"\nspeed = \"2x\"\n\
         media = true",
    );
    assert_eq!(targets(&script), ["/media?x=1", "/upload"]);
    let RequestBody::File(kept) = &script.requests[1].body else {
        panic!("it is a file");
    };
    assert_eq!(kept.bytes, Bytes::new(9));
    let load = &script.trials[0].load;
    // The last user starts after 2 s, and its last request is due half of 2 s later. 1 ns more keeps that request.
    let length = Duration::from_nanos(3_000_000_001);
    assert_eq!((load.warmup, load.duration), (Duration::ZERO, length));
    assert_eq!(load.users_with_own_connections(), 3);
    let connections = script
        .variants
        .iter()
        .map(|variant| variant.hops[0].connections);
    let at_most = |at_most| Connections::OnDemand { at_most };
    assert!(connections.eq([at_most(6), at_most(1)]), "as browsers");
    let cut = plan("[load]\nkind = \"script\"\nscript = \"a.har\"\nduration = \"1s\"");
    assert_eq!(cut.trials[0].load.duration, ms(1_000));
    let LoadKind::Script { speed, .. } = cut.trials[0].load.kind else {
        panic!("it is a script");
    };
    assert_eq!(speed, Speed::AS_RECORDED);
}

/// A profile that makes the load smaller keeps the rest of it.
#[test]
fn profile_can_replace_users_stagger_and_speed() {
    let load = |lines: &str| plan(lines).trials[0].load.clone();
    let script = load(
        "[load]\nkind = \"script\"\nscript = \"a.har\"\nusers = 91\nstagger = \"1s\"\n[profile.a]\nusers = 2\n\
         stagger = \"100ms\"\nspeed = \"2x\"",
    );
    let LoadKind::Script {
        clients,
        stagger,
        speed,
        ..
    } = script.kind
    else {
        panic!("it is a script");
    };
    assert_eq!((clients, stagger), (2, ms(100)));
    assert_eq!(speed, "2x".parse().expect("a speed"));
    let closed = load(
        "[load]\nkind = \"closed\"\nusers = 80\nthink = \"1s\"\nduration = \"1s\"\n[profile.a]\nusers = 3",
    );
    let LoadKind::Closed { users, .. } = closed.kind else {
        panic!("it is a closed load");
    };
    assert_eq!(
        (users.count, users.starts_over, users.think),
        (3, ms(0), ThinkTime::Constant(ms(1_000)))
    );
}

#[test]
fn profile_cannot_replace_keys_of_other_kinds_of_load() {
    refused(
        "[load]\nrate = \"1/s\"\nduration = \"1s\"\n[profile.a]\nusers = 3",
        "7:1: `users` in a load of kind `open`: expected no such key (`users` is for loads of kind `closed`, `script`, \
         `page`, `tiles` or `hold`)",
    );
    refused(
        "[load]\nkind = \"closed\"\nusers = 1\nduration = \"1s\"\n[profile.a]\nspeed = \"2x\"",
        "8:1: `speed` in a load of kind `closed`: expected `users` or `stagger` (`speed` is for loads of kind `script`)",
    );
    refused(
        "[load]\nkind = \"script\"\nscript = \"a.har\"\n[profile.a]\nusers = 0",
        "7:9: `users` is out of range: 0: expected a whole number from 1 to 60000",
    );
}

#[test]
fn files_are_kept_once_under_plain_names() {
    let text = format!(
        "{HEAD}[load]\nkind = \"script\"\nscript = \"r/a b.har\"\n[request]\nheaders = {{ via = \"x\" }}\n{TAIL}"
    );
    let recipe = parse_with(&text, StationMode::Real, &MadeUp).unwrap();
    let files: Vec<(&str, &str)> = (recipe.files().iter())
        .map(|file| (file.path.as_str(), file.kept_as.as_str()))
        .collect();
    assert_eq!(
        files,
        [("r/a b.har", "0-a_b.har"), ("r/body.bin", "1-body.bin")]
    );
}

#[test]
fn pages_are_read_as_trees_of_requests() {
    let written = plan(
        "[load]\nkind = \"page\"\nusers = 2\npages = 20\nduration = \"5s\"\n[[load.page]]\ntarget = \"/\"\n\
         [[load.page]]\ntarget = \"/app.js\"\nafter = 0\ndelay = \"5ms\"\nurgency = 1",
    );
    assert_eq!(targets(&written), ["/", "/app.js"]);
    let priority = ("priority".to_owned(), "u=1".to_owned());
    assert_eq!(written.requests[1].headers, [priority]);
    let LoadKind::Pages {
        page,
        users,
        pages,
        question,
    } = &written.trials[0].load.kind
    else {
        panic!("it is one of pages");
    };
    let second = PageNode {
        what: 1,
        after: Some(0),
        delay: ms(5),
        urgency: Urgency::new(1).unwrap(),
    };
    assert_eq!(page.nodes(), [PageNode::plain(0), second]);
    assert_eq!((users.count, *pages), (2, Some(20)));
    assert_eq!(*question, PageQuestion::PageTime);
    let file = plan("[load]\nkind = \"page\"\npage = \"page.json\"\nduration = \"5s\"");
    assert_eq!(targets(&file), ["/", "/a.js"]);
}

#[test]
fn tiles_and_hold_are_pages_of_one_request() {
    let tiles = plan(
        "[load]\nkind = \"tiles\"\ntiles = 2\ntile = \"/tile-{}.png\"\nduration = \"1s\"\n\
         [request]\ntarget = \"/page\"\nheaders = { accept = \"*/*\" }",
    );
    assert_eq!(targets(&tiles), ["/page", "/tile-0.png", "/tile-1.png"]);
    assert!(tiles.requests.iter().all(|one| one.headers.len() == 1));
    let hold = plan(
        "[load]\nkind = \"hold\"\nother = \"/quick\"\nafter = \"20ms\"\nduration = \"1s\"\n\
         [request]\ntarget = \"/?delay=1s\"",
    );
    assert_eq!(targets(&hold), ["/?delay=1s", "/quick"]);
    let LoadKind::Pages { page, question, .. } = &hold.trials[0].load.kind else {
        panic!("it is one of pages");
    };
    assert_eq!(
        (page.nodes()[1].delay, *question),
        (ms(20), PageQuestion::Held)
    );
    let connections = hold
        .variants
        .iter()
        .map(|variant| variant.hops[0].connections);
    let one = Connections::OnDemand { at_most: 1 };
    assert!(connections.eq([one, one]), "it is asked on one connection");
    let own = format!(
        "{HEAD}[load]\nkind = \"hold\"\nother = \"/\"\nduration = \"1s\"\n\
        [[variant]]\nname = \"v\"\npath = \"client ~h1~> server\"\nconnections = 2\n"
    );
    let recipe = parse_with(&own, StationMode::Real, &MadeUp).unwrap();
    let two = Connections::OnDemand { at_most: 2 };
    assert_eq!(recipe.variants()[0].hops[0].connections, two);
}

#[test]
fn bodies_can_be_sizes_texts_files_and_forms() {
    let body = |said: &str| {
        let plan = plan(&format!(
            "[load]\nrate = \"1/s\"\nduration = \"1s\"\n[request]\nbody = {said}"
        ));
        plan.requests[0].body.clone()
    };
    assert_eq!(
        body("{ size = \"1KiB\" }"),
        RequestBody::Size(Bytes::new(1024))
    );
    assert_eq!(
        body("{ text = \"hi\" }"),
        RequestBody::Text("hi".to_owned())
    );
    let RequestBody::File(file) = body("{ file = \"a/b.pdf\" }") else {
        panic!("it is a file");
    };
    assert_eq!((file.kept_as.as_str(), file.bytes.get()), ("0-b.pdf", 9));
    let RequestBody::Form(fields) = body("{ form = { who = \"me\", doc = { file = \"b.pdf\" } } }")
    else {
        panic!("it is a form");
    };
    assert_eq!(fields[0].value, FormValue::Text("me".to_owned()));
    assert!(matches!(&fields[1].value, FormValue::File { name, .. } if name == "b.pdf"));
    let upload = |said: &str| match body(&format!("{{ form = {{ doc = {said} }} }}")) {
        RequestBody::Form(fields) => fields[0].value.clone(),
        other => panic!("it is a form: {other:?}"),
    };
    let generated = FormValue::Generated {
        name: "c.pdf".to_owned(),
        size: Bytes::new(65_000_000),
    };
    let said = "{ name = \"c.pdf\", size = \"65MB\" }";
    assert_eq!(upload(said), generated);
    let renamed = upload("{ file = \"b.pdf\", name = \"c.pdf\" }");
    assert!(matches!(renamed, FormValue::File { name, .. } if name == "c.pdf"));
    let browser =
        plan("[load]\nrate = \"1/s\"\nduration = \"1s\"\n[request]\nbrowser_headers = true");
    assert_eq!(browser.requests[0].headers.len(), 13);
}

#[test]
fn uploads_need_a_file_or_a_size_with_a_name() {
    let form = |said: &str| {
        format!(
            "[load]\nrate = \"1/s\"\nduration = \"1s\"\n[request]\nbody = {{ form = {{ doc = {said} }} }}"
        )
    };
    refused(
        &form("{ size = \"1B\" }"),
        "7:25: missing key `name` in an upload: expected a name of a file, such as \"catalogue.pdf\"",
    );
    refused(
        &form("{ name = \"a\" }"),
        "7:25: missing key `file` in an upload: expected the path of a file, or `size` and `name`",
    );
    refused(
        &form("{ file = \"a\", size = \"1B\" }"),
        "7:27: `file` together with `size`: expected `size` alone, or `file` alone",
    );
}

#[test]
fn keys_of_other_kinds_are_refused_with_the_kinds_that_have_them() {
    refused(
        "[load]\nrate = \"1/s\"\nduration = \"1s\"\nthink = \"1s\"",
        "6:1: `think` in a load of kind `open`: expected `kind`, `warmup`, `duration`, `drain`, `spin`, `rate`, \
         `stages`, `arrivals` or `targets` (`think` is for loads of kind `closed`, `page`, `tiles` or `hold`)",
    );
    refused(
        "[load]\nkind = \"page\"\nduration = \"1s\"\ntiles = 3",
        "6:1: `tiles` in a load of kind `page`: expected `kind`, `warmup`, `duration`, `drain`, `spin`, `page`, \
         `users`, `think`, `stagger` or `pages` (`tiles` is for loads of kind `tiles`)",
    );
    refused(
        "[load]\nkind = \"pages\"\nduration = \"1s\"",
        "4:8: \"pages\" is not a kind of load: expected `open`, `closed`, `script`, `page`, `tiles` or `hold` \
         (did you mean `page`?)",
    );
}

#[test]
fn missing_keys_of_a_kind_are_reported() {
    refused(
        "[load]\nduration = \"1s\"",
        "3:1: missing key `rate` in [load]: expected a rate, such as \"1000/s\", or `stages`",
    );
    refused(
        "[load]\nkind = \"closed\"\nduration = \"1s\"",
        "3:1: missing key `users` in [load]: expected how many users, such as 20",
    );
    refused(
        "[load]\nkind = \"closed\"\nusers = 1",
        "3:1: missing key `duration` in [load]: expected a time, such as \"30s\", here or in [load]",
    );
    refused(
        "[load]\nkind = \"script\"",
        "3:1: missing key `script` in [load]: expected the path of a recording",
    );
    refused(
        "[load]\nkind = \"tiles\"\nduration = \"1s\"",
        "3:1: missing key `tiles` in [load]: expected how many tiles, such as 100",
    );
}

#[test]
fn keys_that_exclude_each_other_are_refused() {
    refused(
        "[load]\nkind = \"script\"\nscript = \"a.har\"\nhosts = [\"a\"]\nkeep_hosts = true",
        "6:1: `hosts` together with `keep_hosts`: expected `keep_hosts` alone, or `hosts` alone",
    );
    refused(
        "[load]\nrate = \"1/s\"\nstages = \"1/s 9s\"\nwarmup = \"0s\"",
        "4:1: `rate` together with `stages`: expected `stages` alone, or `rate` alone",
    );
    refused(
        "[load]\nstages = \"1/s 9s\"\n[profile.a]\nduration = \"1s\"",
        "6:1: `duration` together with `stages`: expected `stages` alone, or `duration` alone",
    );
    refused(
        "[load]\nkind = \"script\"\nscript = \"a.har\"\n[request]\ntarget = \"/\"",
        "7:1: `target` together with `load`: expected only `headers` and `browser_headers`: the load has the targets",
    );
}

#[test]
fn invalid_stages_and_think_times_are_reported() {
    refused(
        "[load]\nstages = \"fast 9s\"",
        "4:10: \"fast 9s\" is not a list of stages: expected rates with their times, such as \"100/s 10s, \
         100/s..1000/s 30s, 0 5s\" (\"fast/s\" is not a rate, such as \"1000/s\" or \"90/min\")",
    );
    refused(
        "[load]\nstages = \"10/s 1s\"",
        "4:10: no request is due in the measured 0ms of profile `standard`: expected a rate that leaves at least \
         one request in the measured time",
    );
    refused(
        "[load]\nkind = \"closed\"\nusers = 1\nduration = \"1s\"\nthink = \"2s..1s\"",
        "7:9: \"2s..1s\" is not a think time: expected \"1s\", \"0.5s..2s\" or \"exp:1s\" (the shorter time comes \
         first, such as 0.5s..2s)",
    );
}

#[test]
fn unusable_files_are_reported_where_they_are_named() {
    const FILE: &str = "a file that can be read, by its path from the recipe's folder";
    refused(
        "[load]\nkind = \"script\"\nscript = \"missing.har\"",
        &format!("5:10: missing.har: cannot read it: No such file: expected {FILE}"),
    );
    refused(
        "[load]\nkind = \"script\"\nscript = \"blank.har\"",
        &format!(
            "5:10: blank.har: a request for \"/a b\" cannot be sent: \"/a b\" is not a request target: expected {FILE}"
        ),
    );
    refused(
        "[load]\nrate = \"1/s\"\nduration = \"1s\"\n[request]\nbody = { file = \"nowhere\" }",
        &format!("7:17: nowhere: cannot read it: No such file: expected {FILE}"),
    );
    refused(
        "[load]\nrate = \"1/s\"\nduration = \"1s\"\n[request]\nbody = { file = \"sparse\" }",
        &format!("7:17: sparse: it has 2048GiB: a body has at most 1GiB: expected {FILE}"),
    );
    refused(
        "[load]\nrate = \"1/s\"\nduration = \"1s\"\n[request]\nbody = { file = \"a\", text = \"b\" }",
        "7:8: `body` has 2 of its keys: expected one of `size`, `text`, `file` and `form`",
    );
}

#[test]
fn pages_out_of_order_are_reported_at_the_request() {
    refused(
        "[load]\nkind = \"page\"\nduration = \"1s\"\n[[load.page]]\ntarget = \"/\"\nafter = 3",
        "6:1: request 0 of the page waits for request 3, which does not come before it: expected `after` with the \
         index of an earlier request, counted from 0",
    );
}

#[test]
fn users_with_their_own_connections_cannot_have_warm_ones() {
    let text = format!(
        "{HEAD}[load]\nkind = \"hold\"\nother = \"/\"\nduration = \"1s\"\n[[variant]]\nname = \"v\"\n\
         path = \"client ~h1~> server\"\npool = {{ warm = 1 }}\n"
    );
    let error = parse_with(&text, StationMode::Real, &MadeUp).expect_err("a mistake");
    assert_eq!(
        error.to_string(),
        "10:17: `warm` is out of range: 1: expected 0: users with connections of their own open them when they \
         need them"
    );
}

/// Each partial example of the documents is appended to the smallest recipe of the reference. An example that begins with
/// [load] or [conditions] replaces that table, and keys outside of tables go before [load].
#[test]
fn examples_of_the_documents_are_valid() {
    let examples: Vec<&str> = [REFERENCE, TUTORIAL, HOWTO]
        .into_iter()
        .flat_map(|page| page.split("```toml\n").skip(1))
        .filter_map(|rest| rest.split("```").next())
        .collect();
    let (whole, parts): (Vec<&str>, Vec<&str>) = examples
        .into_iter()
        .partition(|example| example.starts_with("name = "));
    assert_eq!(whole.len(), 1);
    assert!(parts.len() >= 5, "{}", parts.len());
    let [before, behind, variants] =
        ["[load]", "[conditions]", "[[variant]]"].map(|table| whole[0].find(table).unwrap());
    for part in parts.into_iter().chain([""]) {
        let (head, rest) = whole[0].split_at(before);
        let text = if part.starts_with("[load]") {
            format!("{head}{part}{}", &whole[0][behind..])
        } else if part.starts_with("[conditions]") {
            format!("{}{part}{}", &whole[0][..behind], &whole[0][variants..])
        } else if part.starts_with('[') {
            format!("{head}{rest}{part}")
        } else {
            format!("{head}{part}{rest}")
        };
        let recipe = parse_with(&text, StationMode::Real, &MadeUp)
            .unwrap_or_else(|e| panic!("{}", e.render("an example", &text)));
        let plan = recipe.plan(recipe.default_profile(), 1).unwrap();
        assert!(plan.trials.len() >= 2, "as the reference says");
    }
}

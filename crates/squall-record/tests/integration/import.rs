//! Recordings of other programs become the scripts that a person would write for them by hand. Damaged recordings are
//! in `import_garbage.rs`.

use std::path::PathBuf;

use squall_base::plan::{Script, ScriptBody, ScriptRequest, ScriptStep};
use squall_base::{Bytes, Duration};
use squall_record::import::{
    HarOptions, Import, ImportError, OmissionReason, parse_har, parse_script, parse_timing_script,
    parse_vegeta_json, parse_vegeta_targets, script_text,
};

/// A HAR file with everything in which browsers differ: time zones, fractions, unknown sizes, entries out of order.
const HAR: &str = include_str!("import/browser.har");

fn har(options: &HarOptions) -> Import<Script> {
    parse_har(HAR.as_bytes(), options).expect("a HAR file")
}

fn get(url: &str, headers: &[(&str, &str)]) -> ScriptRequest {
    ScriptRequest {
        method: "GET".to_owned(),
        url: url.to_owned(),
        headers: headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        body: ScriptBody::Empty,
    }
}

fn steps(script: &Script) -> Vec<(u64, &str)> {
    let url = |step: &ScriptStep| script.requests[step.request as usize].url.as_str();
    let steps = script.steps.iter();
    steps
        .map(|step| (step.at.as_nanos() / 1_000, url(step)))
        .collect()
}

fn said<T: std::fmt::Debug>(result: Result<T, ImportError>) -> String {
    result.expect_err("an error").to_string()
}

#[test]
fn har_file_becomes_requests_in_order_of_time() {
    let Import { content, omissions } = har(&HarOptions::default());
    assert_eq!(
        steps(&content),
        [
            (0, "https://a.example/"),
            (120_500, "https://a.example/seg-1.m4s"),
            (120_500, "https://a.example/live.mpd"),
            (250_000, "https://a.example/api"),
            (300_000, "https://a.example/form"),
            (310_000, "https://a.example/upload"),
            (400_000, "https://a.example/seg-1.m4s"),
            (500_000, "https://a.example/files"),
        ]
    );
    let fields = [
        ("accept", "*/*"),
        ("cookie", "id=1"),
        ("cookie", "id=2"),
        ("te", "trailers"),
    ];
    assert_eq!(content.requests[0], get("https://a.example/", &fields));
    assert_eq!(
        content.requests.len(),
        7,
        "what was asked twice is there once"
    );
    let bodies: Vec<&ScriptBody> = content.requests.iter().map(|r| &r.body).collect();
    assert_eq!(*bodies[3], ScriptBody::Text("{\"q\":\"é\"}".to_owned()));
    assert_eq!(*bodies[4], ScriptBody::Text("a=1+2&b=%26".to_owned()));
    assert_eq!(*bodies[5], ScriptBody::Size(Bytes::new(70_000)));
    assert_eq!(*bodies[6], ScriptBody::Empty);
    let form = &content.requests[4].headers;
    assert_eq!(form[0].0, "content-type", "the form's type is what it was");
    let left_out: Vec<(OmissionReason, u64)> =
        omissions.iter().map(|o| (o.reason, o.count)).collect();
    assert_eq!(
        left_out,
        [
            (OmissionReason::NotHttp, 3),
            (OmissionReason::NoTime, 2),
            (OmissionReason::FromCache, 1),
            (OmissionReason::BodyContent, 1),
            (OmissionReason::Method, 1),
            (OmissionReason::NotUrl, 1),
            (OmissionReason::Body, 1),
        ]
    );
    assert_eq!(
        omissions[0].to_string(),
        "3 requests left out: not http or https (first: log.entries[1])"
    );
}

#[test]
fn har_import_can_keep_only_media_and_drop_cookies() {
    let media = har(&HarOptions {
        media_only: true,
        ..HarOptions::default()
    });
    // Times count from the earliest entry that is kept.
    let segment = "https://a.example/seg-1.m4s";
    assert_eq!(steps(&media.content), [(0, segment), (279_500, segment)]);
    let bare = har(&HarOptions {
        drop_cookies: true,
        ..HarOptions::default()
    });
    let fields = [("accept", "*/*"), ("te", "trailers")];
    assert_eq!(bare.content.requests[0], get("https://a.example/", &fields));
}

#[test]
fn invalid_har_file_is_reported_with_its_place() {
    let parse = |text: &str| said(parse_har(text.as_bytes(), &HarOptions::default()));
    let cut = parse("{\"log\":{\n\"entries\":[");
    assert!(
        cut.contains("line 2 column 11") && cut.contains("HAR"),
        "{cut}"
    );
    let wrong = parse("{\"log\":{\"entries\":[{\"request\":{\"method\":1}}]}}");
    assert!(
        wrong.contains("1 request left out: a field is missing")
            && wrong.contains("log.entries[0]"),
        "{wrong}"
    );
    let empty = parse("\u{feff}{\"log\":{\"entries\":[]}}");
    assert!(empty.contains("no request"), "{empty}");
    let entry = |year: u32| {
        format!(
            r#"{{"startedDateTime":"{year}-01-01T00:00:00Z","request":{{"method":"GET","url":"http://a/"}}}}"#
        )
    };
    let nothing = parse(&format!("{{\"log\":{{\"entries\":[{}]}}}}", entry(1960)));
    assert!(
        nothing.contains("1 request left out: it has no valid time (log.entries[0])"),
        "{nothing}"
    );
}

#[test]
fn timing_script_counts_from_the_start_and_may_be_out_of_order() {
    let text = b"500.0\thttps://a.example/b\n\n12.0005\t/a?x=1#top\r\n1e3\thttps://a.example/b";
    let Import { content, omissions } = parse_timing_script(text).expect("a timing script");
    assert_eq!(
        content
            .steps
            .iter()
            .map(|s| (s.at, s.request))
            .collect::<Vec<_>>(),
        [
            (Duration::from_nanos(12_000_500), 0),
            (Duration::from_millis(500), 1),
            (Duration::from_secs(1), 1),
        ]
    );
    assert_eq!(
        content.requests,
        [get("/a?x=1", &[]), get("https://a.example/b", &[])]
    );
    assert!(omissions.is_empty());
    for (text, place, fault) in [
        (&b"1 /"[..], "line 1", "no tab"),
        (b"\n-1\t/", "line 2", "\"-1\" is not a time"),
        (b"nan\t/", "line 1", "is not a time"),
        (b"1e30\t/", "line 1", "is not a time"),
        (b"1\tftp://a/", "line 1", "is not http"),
        (b"1\tb", "line 1", "relative URL without a base"),
        (b"1\t/\n\xff\t/", "line 2", "not UTF-8"),
        (b"", "no request", "right file"),
    ] {
        let said = said(parse_timing_script(text));
        assert!(said.contains(place) && said.contains(fault), "{said}");
    }
}

#[test]
fn url_of_a_timing_script_that_is_too_long_is_left_out() {
    let text = format!("0\thttp://a/{}\n1\thttp://a/b\n", "x".repeat(8_000));
    let Import { content, omissions } = parse_timing_script(text.as_bytes()).expect("a script");
    assert_eq!(content.requests, [get("http://a/b", &[])]);
    assert_eq!(
        omissions[0].to_string(),
        "1 request left out: the path and query of its URL are longer than 8000 bytes (line 1)"
    );
}

#[test]
fn vegeta_targets_are_read_as_vegeta_reads_them() {
    // From vegeta's README, with its comments, and two targets without a blank line between them.
    let text = b"# all of them\nGET http://goku:9090/path/to/dragon?item=ball\nGET http://user:password@goku:9090/path/to\n\
        HEAD http://goku:9090/path/to/success\n\n\
        POST http://goku:9090/things\nX-Account-ID: 99\n# why not\nHost: other\n@/path/to/newthing.json\n\
        DELETE http://goku:9090/\nX-Account-ID: 8675309\n";
    let Import { content, omissions } = parse_vegeta_targets(text).expect("targets");
    let asked: Vec<(&str, &str)> = content
        .iter()
        .map(|r| (r.method.as_str(), r.url.as_str()))
        .collect();
    assert_eq!(
        asked,
        [
            ("GET", "http://goku:9090/path/to/dragon?item=ball"),
            ("GET", "http://user:password@goku:9090/path/to"),
            ("HEAD", "http://goku:9090/path/to/success"),
            ("POST", "http://goku:9090/things"),
            ("DELETE", "http://goku:9090/"),
        ]
    );
    let fields = [("x-account-id", "99"), ("host", "other")];
    assert_eq!(content[3].headers, get("/", &fields).headers);
    assert_eq!(
        content[3].body,
        ScriptBody::File(PathBuf::from("/path/to/newthing.json"))
    );
    assert!(omissions.is_empty());
    for (text, place, fault) in [
        (&b"GET"[..], "line 1", "not a method and URL"),
        (b"get http://a/", "line 1", "not a method and URL"),
        (
            b"GET http://a/\nx: y\nGET http://b/",
            "line 3",
            "not a header field",
        ),
        (b"GET http://a/\nnothing", "line 2", "not a header field"),
        (b"GET http://a/\nHost: b/c", "line 2", "not a header field"),
        (
            b"http://a/\nhttp://b/ POST x=1",
            "line 2",
            "not a header field",
        ),
        (b"GET http://a/\n@", "line 2", "file name after @"),
        (b"CONNECT http://a/", "line 1", "not a method"),
        (b"GET data:,", "line 1", "not http"),
        (b"\n#\n", "no request", ""),
    ] {
        let said = said(parse_vegeta_targets(text));
        assert!(said.contains(place) && said.contains(fault), "{said}");
    }
}

#[test]
fn every_field_of_a_target_is_kept_or_counted() {
    let text =
        b"GET http://a/\nProxy-Authorization: Basic eA==\nConnection: close, X-Hop\nX-Hop: 1\n\
        Content-Length: 3\nHost: b:8080\nHost: c\n";
    let Import { content, omissions } = parse_vegeta_targets(text).expect("targets");
    let fields = [
        ("proxy-authorization", "Basic eA=="),
        ("x-hop", "1"),
        ("host", "b:8080"),
    ];
    assert_eq!(content, [get("http://a/", &fields)]);
    let left_out: Vec<(OmissionReason, u64)> =
        omissions.iter().map(|o| (o.reason, o.count)).collect();
    assert_eq!(
        left_out,
        [
            (OmissionReason::ProtocolField, 2),
            (OmissionReason::Field, 1)
        ]
    );
    // A script may have everything that a target may have.
    let script = Script {
        requests: content,
        steps: vec![ScriptStep {
            at: Duration::ZERO,
            request: 0,
        }],
    };
    let text = script_text(&script).expect("a script");
    assert_eq!(parse_script(text.as_bytes()).expect("a script"), script);
}

#[test]
fn list_of_urls_is_read_in_its_order() {
    let text =
        "\u{feff}# h2load -i, siege -f\nhttp://a/1\r\n\n  HTTPS://a/2?x=y \nhttp://a/1\nGET /3\n";
    let Import { content, omissions } = parse_vegeta_targets(text.as_bytes()).expect("targets");
    assert_eq!(
        content,
        ["http://a/1", "https://a/2?x=y", "http://a/1", "/3"].map(|url| get(url, &[]))
    );
    assert!(omissions.is_empty());
}

#[test]
fn byte_order_mark_in_front_of_a_recording_is_skipped() {
    let json = "\u{feff}{\"method\":\"GET\",\"url\":\"http://a/\"}";
    let targets = parse_vegeta_json(json.as_bytes()).expect("targets");
    assert_eq!(targets.content, [get("http://a/", &[])]);
    let script = parse_timing_script("\u{feff}0.0\t/a\n".as_bytes()).expect("a timing script");
    assert_eq!(script.content.requests, [get("/a", &[])]);
}

#[test]
fn vegeta_json_targets_include_their_bodies() {
    let text = br#"{"method":"POST","url":"https://goku/1","header":{"X-A":["1","2"],"Content-Length":["3"]},"body":"Rk9P"}

        {"method":"GET","url":"https://goku/2","body":null}
        {"method":"PUT","url":"https://goku/3","body":"/w=="}"#;
    let Import { content, omissions } = parse_vegeta_json(text).expect("targets");
    assert_eq!(content[0].body, ScriptBody::Text("FOO".to_owned()));
    let fields: Vec<&str> = content[0]
        .headers
        .iter()
        .map(|(_, value)| value.as_str())
        .collect();
    assert_eq!(fields, ["1", "2"]);
    assert_eq!(content[1], get("https://goku/2", &[]));
    assert_eq!(content[2].body, ScriptBody::Binary(vec![0xff]));
    assert_eq!(omissions.len(), 1);
    assert_eq!(
        omissions[0].to_string(),
        "1 header field left out: squall sets it itself (content-length), or it concerns the connection \
         (connection, te, upgrade) (line 1)"
    );
    for (text, place, fault) in [
        (&b"{}"[..], "line 1", "missing field `method`"),
        (b"\n[1]", "line 2", "invalid"),
        (
            br#"{"method":"GET","url":"http://a/","body":"?"}"#,
            "line 1",
            "base64",
        ),
        (
            br#"{"method":"","url":"http://a/"}"#,
            "line 1",
            "not a method",
        ),
    ] {
        let said = said(parse_vegeta_json(text));
        assert!(said.contains(place) && said.contains(fault), "{said}");
    }
}

#[test]
fn script_round_trips_and_is_checked() {
    let script = har(&HarOptions::default()).content;
    let text = script_text(&script).expect("a script");
    assert_eq!(parse_script(text.as_bytes()).expect("a script"), script);
    let with = |change: fn(&mut Script)| {
        let mut script = script.clone();
        change(&mut script);
        let refused = said(script_text(&script));
        let text = serde_json::to_vec(&script).expect("JSON");
        assert_eq!(said(parse_script(&text)), refused);
        refused
    };
    for (refused, place, fault) in [
        (with(|s| s.steps[1].request = 7), "steps[1]", "no request 7"),
        (
            with(|s| s.steps[0].at = Duration::from_secs(9)),
            "steps[1]",
            "before",
        ),
        (
            with(|s| s.requests[2].url = "x".into()),
            "requests[2]",
            "not a URL",
        ),
        (
            with(|s| s.requests[2].method = "GET /".into()),
            "requests[2]",
            "not a method",
        ),
        (
            with(|s| s.requests[0].headers[0].1 = "a\r\nb".into()),
            "requests[0]",
            "not a header field",
        ),
        (
            with(|s| s.requests[0].headers[0].0 = "host".into()),
            "requests[0]",
            "sets it itself",
        ),
        (with(|s| s.steps.clear()), "no request", "right file"),
    ] {
        assert!(
            refused.contains(place) && refused.contains(fault),
            "{refused}"
        );
    }
    let cut = said(parse_script(&text.as_bytes()[..40]));
    assert!(cut.contains("line 4") && cut.contains("script"), "{cut}");
}

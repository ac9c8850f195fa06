//! HAR files as browsers really write them: requests that were never sent, and single entries that cannot be sent again.
//! Files without faults are in `import.rs`.

use squall_base::Bytes;
use squall_base::plan::ScriptBody;
use squall_record::import::{
    HarOptions, Import, OmissionReason, parse_har, parse_script, script_text,
};

/// An entry of the second `second` with this request and these other fields.
fn entry(second: u32, request: &str, others: &str) -> String {
    format!(
        r#"{{"startedDateTime": "2026-01-02T03:04:{second:02}Z", "request": {request}{}{others}}}"#,
        if others.is_empty() { "" } else { ", " }
    )
}

fn get(path: &str) -> String {
    format!(r#"{{"method": "GET", "url": "http://a.test{path}", "headers": []}}"#)
}

fn with_headers(path: &str, headers: &str) -> String {
    format!(r#"{{"method": "GET", "url": "http://a.test{path}", "headers": [{headers}]}}"#)
}

/// The URLs that are sent, in order, and what was left out. The result is always a script that squall can read.
fn imported(entries: &[String]) -> (Vec<String>, Vec<(OmissionReason, u64)>) {
    let har = format!(
        r#"{{"log": {{"creator": {{"name": "a test"}}, "entries": [{}]}}}}"#,
        entries.join(",\n")
    );
    let Import { content, omissions } =
        parse_har(har.as_bytes(), &HarOptions::default()).expect("a script");
    let text = script_text(&content).expect("a script");
    assert_eq!(parse_script(text.as_bytes()).expect("a script"), content);
    let urls = content.steps.iter().map(|step| {
        let url = &content.requests[step.request as usize].url;
        url.replace("http://a.test", "")
    });
    let omissions = omissions.iter().map(|it| (it.reason, it.count));
    (urls.collect(), omissions.collect())
}

#[test]
fn requests_that_were_never_sent_are_left_out_with_their_reasons() {
    let (urls, omissions) = imported(&[
        entry(1, &get("/sent"), r#""_fetchType": "Network Load""#),
        entry(2, &get("/memory"), r#""_fetchType": "Memory Cache""#),
        entry(3, &get("/disk"), r#""_fromCache": "disk""#),
        entry(
            4,
            &get("/page"),
            r#""response": {"status": 200, "_fetchedViaServiceWorker": true, "_transferSize": 0}"#,
        ),
        entry(
            4,
            &get("/worker"),
            r#""response": {"status": 200, "_fetchedViaServiceWorker": false, "_transferSize": 9}"#,
        ),
        entry(
            5,
            &get("/ads"),
            r#""response": {"status": 0, "_error": "net::ERR_BLOCKED_BY_CLIENT"}"#,
        ),
        entry(
            6,
            &get("/hsts"),
            r#""response": {"status": 307, "statusText": "Internal Redirect"}"#,
        ),
        entry(7, &get("/chat"), r#""response": {"status": 101}"#),
        entry(8, &get("/asked"), r#""_resourceType": "preflight""#),
        entry(
            9,
            r#"{"method": "GET", "url": "chrome-extension://x/y.js"}"#,
            r#""response": {"status": 0}"#,
        ),
        entry(10, r#"{"method": "GET", "url": "about:blank"}"#, ""),
        entry(11, &get("/last"), r#""_fromCache": null"#),
    ]);
    assert_eq!(urls, ["/sent", "/worker", "/last"]);
    assert_eq!(
        omissions,
        [
            (OmissionReason::FromCache, 2),
            (OmissionReason::ServiceWorker, 1),
            (OmissionReason::Failed, 1),
            (OmissionReason::AnsweredInside, 1),
            (OmissionReason::WebSocket, 1),
            (OmissionReason::Preflight, 1),
            (OmissionReason::NotHttp, 2),
        ]
    );
}

#[test]
fn firefox_is_recognised_by_the_creator_even_at_the_end_of_the_file() {
    let entries = [
        entry(1, &get("/sent"), r#""cache": {}"#),
        entry(2, &get("/cached"), r#""cache": {"afterRequest": null}"#),
    ];
    for (creator, sent) in [
        (r#"{"name": "Firefox"}"#, 1),
        (r#"{"name": "WebInspector"}"#, 2),
        (r#""Firefox""#, 2),
    ] {
        let har = format!(
            r#"{{"log": {{"entries": [{}], "creator": {creator}}}}}"#,
            entries.join(",")
        );
        let Import { content, .. } =
            parse_har(har.as_bytes(), &HarOptions::default()).expect("a script");
        assert_eq!(content.steps.len(), sent, "{creator}");
    }
}

#[test]
fn single_entries_that_cannot_be_sent_are_left_out_and_the_others_kept() {
    let field = |value: &str| format!(r#"{{"name": "X-Name", "value": "{value}"}}"#);
    let long_url = get(&format!("/ad?x={}", "y".repeat(8_000)));
    let long_method = get("/method").replace(
        "GET",
        "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZ",
    );
    let cookie = format!(
        r#"{{"name": "Cookie", "value": "c={}"}}"#,
        "z".repeat(50_000)
    );
    let many = vec![field("v"); 130].join(", ");
    let upload = get("/upload").replace("headers", r#"bodySize": 5000000000, "headers"#);
    let (urls, omissions) = imported(&[
        entry(1, &get("/first"), ""),
        entry(2, &long_url, ""),
        entry(3, &with_headers("/many", &many), ""),
        entry(4, &with_headers("/cookies", &cookie), ""),
        entry(5, &long_method, ""),
        entry(6, &upload, ""),
        entry(7, &get("/yesterday"), "").replace("2026-01-02T03:04:07Z", "yesterday"),
        entry(8, &get("/1970"), "").replace("2026", "1970"),
        entry(9, "null", ""),
        "7".to_owned(),
        entry(10, r#"{"method": "GET", "url": 7}"#, ""),
        entry(11, &get("/last"), ""),
    ]);
    assert_eq!(urls, ["/first", "/last"]);
    assert_eq!(
        omissions,
        [
            (OmissionReason::UrlTooLong, 1),
            (OmissionReason::HeadersTooLong, 2),
            (OmissionReason::Method, 1),
            (OmissionReason::BodyTooLong, 1),
            (OmissionReason::NoTime, 1),
            (OmissionReason::Malformed, 3),
            (OmissionReason::FarTime, 1),
        ]
    );
}

#[test]
fn header_fields_that_are_not_ascii_are_left_out_of_their_request() {
    let headers = r#"{"name": "X-Name", "value": "café"}, {"name": "X-Enc", "value": "日本"},
        {"name": "Accept", "value": "*/*"}"#;
    let har = format!(
        r#"{{"log": {{"entries": [{}]}}}}"#,
        entry(1, &with_headers("/a", headers), "")
    );
    let Import { content, omissions } =
        parse_har(har.as_bytes(), &HarOptions::default()).expect("a script");
    let accept = ("accept".to_owned(), "*/*".to_owned());
    assert_eq!(content.requests[0].headers, [accept]);
    assert_eq!(
        omissions[0].to_string(),
        "2 header fields left out: they cannot be sent (first: log.entries[0])"
    );
}

#[test]
fn longest_allowed_url_is_kept_and_credentials_are_not() {
    let (urls, omissions) = imported(&[
        entry(1, &get(&format!("/{}", "x".repeat(7_999))), ""),
        entry(2, &get("/a").replace("//a.test", "//me:secret@a.test"), ""),
    ]);
    assert_eq!((urls[0].len(), urls[1].as_str()), (8_000, "/a"));
    assert!(omissions.is_empty());
}

#[test]
fn size_of_an_empty_body_is_that_of_its_content_length() {
    let post = |fields: &str, length: &str| {
        let request = format!(
            r#"{{"method": "POST", "url": "http://a.test/", {fields}
                "headers": [{{"name": "content-length", "value": "{length}"}}]}}"#
        );
        let har = format!(r#"{{"log": {{"entries": [{}]}}}}"#, entry(1, &request, ""));
        let Import { content, omissions } =
            parse_har(har.as_bytes(), &HarOptions::default()).expect("a script");
        let reason = omissions.first().map(|it| it.reason);
        (content.requests[0].body.clone(), reason)
    };
    let sized = |bytes| {
        (
            ScriptBody::Size(Bytes::new(bytes)),
            Some(OmissionReason::BodyContent),
        )
    };
    let web_page_test = r#""bodySize": -1, "postData": {"mimeType": "", "text": ""},"#;
    assert_eq!(post(web_page_test, "321"), sized(321));
    assert_eq!(post("", "7"), sized(7));
    assert_eq!(post(r#""postData": {"mimeType": "a/b"},"#, "7"), sized(7));
    assert_eq!(post(r#""bodySize": 9,"#, "7"), sized(9));
    assert_eq!(post(web_page_test, "0"), (ScriptBody::Empty, None));
    let lost = Some(OmissionReason::Body);
    assert_eq!(post(web_page_test, "?"), (ScriptBody::Empty, lost));
    let whole = r#""bodySize": -1, "postData": {"mimeType": "", "text": "abc"},"#;
    assert_eq!(
        post(whole, "321"),
        (ScriptBody::Text("abc".to_owned()), None)
    );
}

#[test]
fn byte_order_mark_in_front_of_har_files_and_scripts_is_skipped() {
    let har = format!(
        "\u{feff}{{\"log\": {{\"entries\": [{}]}}}}",
        entry(1, &get("/a"), "")
    );
    let script = parse_har(har.as_bytes(), &HarOptions::default()).expect("a script");
    let text = format!(
        "\u{feff}{}",
        script_text(&script.content).expect("a script")
    );
    assert_eq!(
        parse_script(text.as_bytes()).expect("a script"),
        script.content
    );
    let twice = format!("\u{feff}{text}");
    assert!(parse_script(twice.as_bytes()).is_err());
}

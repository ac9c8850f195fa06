//! An entry of a HAR file: the fields that an import reads, and whether its request reached the network.
//!
//! HAR 1.2 does not tell requests that were never sent from others, so browsers have their own fields for it. `har`
//! decides which of the requests that were sent are kept.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};
use serde_json::Value;

use super::omission::OmissionReason;

/// One element of `log.entries`. A faulty one does not stop the import.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum RecordedEntry {
    Valid(Box<Entry>),
    /// A field is missing, or has another type than in HAR 1.2.
    Invalid(IgnoredAny),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    pub(super) started_date_time: Option<String>,
    pub(super) request: Request,
    pub(super) response: Option<Response>,
    cache: Option<Cache>,
    /// Chromium: the cache that answered the request.
    #[serde(rename = "_fromCache", default)]
    from_cache: Flag,
    /// WebKit: "Network Load", or what answered the request instead.
    #[serde(rename = "_fetchType")]
    fetch_type: Option<String>,
    /// Chromium.
    #[serde(rename = "_resourceType")]
    resource_type: Option<String>,
    /// Chromium.
    #[serde(rename = "_webSocketMessages")]
    web_socket_messages: Option<IgnoredAny>,
    /// Playwright: the test answered the request.
    #[serde(rename = "_wasFulfilled", default)]
    was_fulfilled: Flag,
    /// Playwright: the test blocked the request.
    #[serde(rename = "_wasAborted", default)]
    was_aborted: Flag,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) url: String,
    pub(super) headers: Option<Vec<NamedValue>>,
    pub(super) post_data: Option<PostData>,
    /// -1 if unknown.
    body_size: Option<f64>,
}

/// A header field or a form field.
#[derive(Deserialize)]
pub(super) struct NamedValue {
    pub(super) name: String,
    pub(super) value: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PostData {
    pub(super) mime_type: Option<String>,
    pub(super) text: Option<String>,
    pub(super) params: Option<Vec<NamedValue>>,
    /// Not in HAR 1.2. Exporters that write it mean `base64`, as in a response's content.
    pub(super) encoding: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Response {
    pub(super) content: Option<Content>,
    status: Option<f64>,
    status_text: Option<String>,
    /// Chromium: why there is no complete response.
    #[serde(rename = "_error", default)]
    error: Flag,
    /// Chromium: the bytes that the network carried.
    #[serde(rename = "_transferSize")]
    transfer_size: Option<f64>,
    /// Chromium: a service worker answered the page. What the worker itself requested is in another entry.
    #[serde(rename = "_fetchedViaServiceWorker", default)]
    via_service_worker: Flag,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Content {
    pub(super) mime_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cache {
    /// Whether the field exists, even if it is null.
    #[serde(default, deserialize_with = "exists")]
    after_request: bool,
}

fn exists<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

/// A browser's own field, of any type: whether it is set. `null`, `false`, 0 and an empty text are not.
#[derive(Default)]
struct Flag(bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Flag, D::Error> {
        Ok(Flag(match Value::deserialize(deserializer)? {
            Value::Null => false,
            Value::Bool(is_set) => is_set,
            Value::Number(number) => number.as_f64() != Some(0.0),
            Value::String(text) => !text.is_empty(),
            Value::Array(_) | Value::Object(_) => true,
        }))
    }
}

impl Entry {
    /// Why this is not a request that a page sent to a server over HTTP. `None` if it is one, or if nothing suggests otherwise.
    pub(super) fn why_unsent(&self, is_from_firefox: bool) -> Option<OmissionReason> {
        let fetch_type = self.fetch_type.as_deref().unwrap_or_default();
        let response_is = |test: fn(&Response) -> bool| self.response.as_ref().is_some_and(test);
        // Firefox writes `cache.afterRequest` for cached responses only. In HAR 1.2 the field does not tell what
        // answered.
        let is_in_firefox_cache =
            is_from_firefox && self.cache.as_ref().is_some_and(|cache| cache.after_request);
        let reasons = [
            (self.is_web_socket(), OmissionReason::WebSocket),
            (self.is_preflight(), OmissionReason::Preflight),
            (
                self.from_cache.0
                    || matches!(fetch_type, "Memory Cache" | "Disk Cache")
                    || is_in_firefox_cache,
                OmissionReason::FromCache,
            ),
            (
                fetch_type == "Service Worker" || response_is(Response::is_from_service_worker),
                OmissionReason::ServiceWorker,
            ),
            (
                fetch_type == "Inspector Override"
                    || self.was_fulfilled.0
                    || response_is(Response::is_internal_redirect),
                OmissionReason::AnsweredInside,
            ),
            (
                self.was_aborted.0 || response_is(Response::is_missing),
                OmissionReason::Failed,
            ),
        ];
        let mut applying = reasons.into_iter().filter(|(applies, _)| *applies);
        applying.next().map(|(_, reason)| reason)
    }

    fn is_web_socket(&self) -> bool {
        self.is_of_type("websocket")
            || self.web_socket_messages.is_some()
            || self.response.as_ref().and_then(|response| response.status) == Some(101.0)
            || (self.request.header("upgrade")).any(|it| it.eq_ignore_ascii_case("websocket"))
    }

    fn is_preflight(&self) -> bool {
        let is_asking = || {
            let mut asked = self.request.header("access-control-request-method");
            asked.next().is_some()
        };
        self.is_of_type("preflight") || self.request.method == "OPTIONS" && is_asking()
    }

    fn is_of_type(&self, name: &str) -> bool {
        self.resource_type.as_deref() == Some(name)
    }
}

impl Request {
    /// The size of the body in bytes: `bodySize`, or the content-length if that is 0, unknown or missing. `None` if
    /// neither is known.
    pub(super) fn body_bytes(&self) -> Option<u64> {
        // A fraction, or more than 1 PB, is meaningless.
        let is_count = |size: &f64| (0.0..1e15).contains(size) && size.fract() == 0.0;
        let stated = self.body_size.filter(is_count).map(|size| size as u64);
        match stated {
            Some(bytes) if bytes > 0 => Some(bytes),
            _ => {
                let mut lengths = self.header("content-length");
                lengths.find_map(|length| length.parse().ok()).or(stated)
            }
        }
    }

    /// The trimmed values of a header field.
    fn header<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let fields = self.headers.as_deref().unwrap_or_default().iter();
        fields
            .filter(move |field| field.name.trim().eq_ignore_ascii_case(name))
            .map(|field| field.value.as_deref().unwrap_or_default().trim())
    }
}

impl Response {
    fn is_from_service_worker(&self) -> bool {
        self.via_service_worker.0 && self.transfer_size.is_none_or(|bytes| bytes <= 0.0)
    }

    /// A redirect that the browser made, such as Chromium's to https for a host with HSTS (RFC 6797).
    fn is_internal_redirect(&self) -> bool {
        let text = self.status_text.as_deref().unwrap_or_default();
        self.status == Some(307.0) && text.eq_ignore_ascii_case("internal redirect")
    }

    /// Whether there was no response: the request was blocked, or it failed.
    fn is_missing(&self) -> bool {
        self.status.map_or(self.error.0, |status| status <= 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The decision about an entry that has these fields besides its request, and these header fields.
    fn decided(fields: &str, headers: &str, is_from_firefox: bool) -> Option<OmissionReason> {
        let text = format!(
            r#"{{"request": {{"method": "OPTIONS", "url": "http://a/", "headers": [{headers}]}}, {fields}}}"#
        );
        match serde_json::from_str(&text).expect("JSON") {
            RecordedEntry::Valid(entry) => entry.why_unsent(is_from_firefox),
            RecordedEntry::Invalid(IgnoredAny) => panic!("{text} should be valid"),
        }
    }

    #[test]
    fn requests_that_were_never_sent_are_recognised_by_the_fields_of_each_browser() {
        for (fields, reason) in [
            (r#""_fromCache": "memory""#, OmissionReason::FromCache),
            (r#""_fromCache": true"#, OmissionReason::FromCache),
            (r#""_fetchType": "Memory Cache""#, OmissionReason::FromCache),
            (r#""_fetchType": "Disk Cache""#, OmissionReason::FromCache),
            (
                r#""_fetchType": "Service Worker""#,
                OmissionReason::ServiceWorker,
            ),
            (
                r#""_fetchType": "Inspector Override""#,
                OmissionReason::AnsweredInside,
            ),
            (
                r#""response": {"status": 200, "_fetchedViaServiceWorker": true, "_transferSize": 0}"#,
                OmissionReason::ServiceWorker,
            ),
            (
                r#""response": {"status": 200, "_fetchedViaServiceWorker": true}"#,
                OmissionReason::ServiceWorker,
            ),
            (
                r#""response": {"status": 307, "statusText": "Internal Redirect", "_transferSize": 0}"#,
                OmissionReason::AnsweredInside,
            ),
            (
                r#""response": {"status": 0, "_error": "net::ERR_BLOCKED_BY_CLIENT"}"#,
                OmissionReason::Failed,
            ),
            (r#""response": {"status": 0}"#, OmissionReason::Failed),
            (r#""response": {"status": -1}"#, OmissionReason::Failed),
            (
                r#""response": {"_error": "net::ERR_NAME_NOT_RESOLVED"}"#,
                OmissionReason::Failed,
            ),
            (r#""_wasAborted": true"#, OmissionReason::Failed),
            (
                r#""_wasFulfilled": true, "response": {"status": 200}"#,
                OmissionReason::AnsweredInside,
            ),
            (r#""_resourceType": "websocket""#, OmissionReason::WebSocket),
            (r#""_webSocketMessages": []"#, OmissionReason::WebSocket),
            (r#""response": {"status": 101}"#, OmissionReason::WebSocket),
            (r#""_resourceType": "preflight""#, OmissionReason::Preflight),
        ] {
            assert_eq!(decided(fields, "", false), Some(reason), "{fields}");
        }
    }

    #[test]
    fn header_fields_reveal_preflights_and_web_sockets() {
        for (headers, reason) in [
            (
                r#"{"name": "Access-Control-Request-Method", "value": "PUT"}"#,
                Some(OmissionReason::Preflight),
            ),
            (
                r#"{"name": "Upgrade", "value": "WebSocket"}"#,
                Some(OmissionReason::WebSocket),
            ),
            (r#"{"name": "Origin", "value": "http://b"}"#, None),
        ] {
            assert_eq!(decided(r#""time": 1"#, headers, false), reason, "{headers}");
        }
    }

    #[test]
    fn firefox_writes_the_state_of_its_cache_only_for_cached_responses() {
        for cache in [
            r#""cache": {"afterRequest": null}"#,
            r#""cache": {"afterRequest": {"hitCount": 3}}"#,
        ] {
            assert_eq!(decided(cache, "", true), Some(OmissionReason::FromCache));
            assert_eq!(decided(cache, "", false), None, "HAR 1.2 has it for all");
        }
        assert_eq!(decided(r#""cache": {}"#, "", true), None);
    }

    #[test]
    fn requests_that_were_sent_are_kept() {
        for fields in [
            r#""_fromCache": null, "_fetchType": "Network Load", "_resourceType": "fetch""#,
            r#""_fromCache": false, "_wasAborted": false, "_wasContinued": true"#,
            // A download that the user cancelled.
            r#""response": {"status": 200, "_error": "net::ERR_ABORTED", "_transferSize": 512}"#,
            r#""response": {"status": 307, "statusText": "Temporary Redirect", "_transferSize": 0}"#,
            r#""response": {"status": 304, "_transferSize": 120}"#,
            r#""response": {"status": 200, "_fetchedViaServiceWorker": true, "_transferSize": 900}"#,
            r#""response": {"status": 200, "_fetchedViaServiceWorker": false, "_transferSize": 0}"#,
            r#""response": null, "cache": null"#,
        ] {
            assert_eq!(decided(fields, "", true), None, "{fields}");
        }
    }

    #[test]
    fn content_length_is_used_where_the_body_size_is_unknown() {
        let bytes = |size: &str, length: &str| {
            let text = format!(
                r#"{{"method": "POST", "url": "http://a/", {size}
                    "headers": [{{"name": "Content-Length", "value": "{length}"}}]}}"#
            );
            let request: Request = serde_json::from_str(&text).expect("JSON");
            request.body_bytes()
        };
        assert_eq!(bytes(r#""bodySize": -1,"#, "321"), Some(321));
        assert_eq!(bytes("", " 321 "), Some(321));
        assert_eq!(bytes(r#""bodySize": 0,"#, "321"), Some(321));
        assert_eq!(bytes(r#""bodySize": 7,"#, "321"), Some(7));
        assert_eq!(bytes(r#""bodySize": -1,"#, "0"), Some(0));
        assert_eq!(bytes(r#""bodySize": 0,"#, "many"), Some(0));
        assert_eq!(bytes(r#""bodySize": 1.5,"#, "-3"), None);
    }
}

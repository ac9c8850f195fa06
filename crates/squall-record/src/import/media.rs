//! Which responses are media segments: the pieces that a video player keeps fetching, but not the manifests that list
//! them.
//!
//! The decision uses the media type that the server sent. The file name counts only if the type says nothing: some
//! servers send segments as `application/octet-stream`, and `.ts` is TypeScript as often as MPEG-TS. Anything else is
//! not a segment, so segments of a service with its own type (YouTube's `application/vnd.yt-ump`) are not found. `har`
//! is the only user.

use url::Url;

/// Types of manifests (DASH, HLS); some look like audio or video.
const LISTS: [&str; 6] = [
    "application/dash+xml",
    "application/vnd.apple.mpegurl",
    "application/x-mpegurl",
    "audio/mpegurl",
    "audio/x-mpegurl",
    "video/vnd.mpeg.dash.mpd",
];

/// Types that do not reveal the content. The last is what many MIME tables have for `.ts`.
const SILENT: [&str; 5] = [
    "",
    "application/octet-stream",
    "binary/octet-stream",
    "x-unknown",
    "text/vnd.trolltech.linguist",
];

/// File extensions of manifests, whatever their type.
const LIST_ENDINGS: [&str; 3] = ["mpd", "m3u8", "m3u"];

/// File extensions of segments.
const SEGMENT_ENDINGS: [&str; 9] = [
    "m4s", "mp4", "ts", "webm", "m4a", "m4v", "aac", "cmfv", "cmfa",
];

/// True if the resource at `url`, of type `mime`, is a media segment.
pub(super) fn is_segment(url: &str, mime: &str) -> bool {
    let essence = mime.split(';').next().unwrap_or_default().trim();
    let mime = essence.to_ascii_lowercase();
    let ending = ending(url);
    if LISTS.contains(&mime.as_str()) || LIST_ENDINGS.contains(&ending.as_str()) {
        return false;
    }
    let is_media =
        mime.starts_with("video/") || mime.starts_with("audio/") || mime == "application/mp4";
    is_media || SILENT.contains(&mime.as_str()) && SEGMENT_ENDINGS.contains(&ending.as_str())
}

/// The file extension in lower case. For a path without one, some text that is not an extension.
fn ending(url: &str) -> String {
    let path = Url::parse(url)
        .map(|url| url.path().to_owned())
        .unwrap_or_default();
    let ending = path.rsplit_once('.').map(|(_, ending)| ending);
    ending.unwrap_or_default().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_distinguished_from_manifests_and_scripts() {
        for (file, mime, expected) in [
            ("a.m4s", "video/iso.segment", true),
            ("a", "Video/MP4; codecs=\"avc1\"", true),
            ("a", "application/mp4", true),
            ("a.TS?x=1", "application/octet-stream", true),
            ("a.ts", "text/vnd.trolltech.linguist", true),
            ("a.cmfa", "", true),
            ("a.ts", "text/javascript", false),
            ("a.m4s", "text/html", false),
            ("a.mpd", "video/mp4", false),
            ("a", "audio/mpegurl", false),
            ("a", "application/octet-stream", false),
        ] {
            let url = format!("https://a.example/{file}");
            assert_eq!(is_segment(&url, mime), expected, "{file} {mime}");
        }
    }
}

//! Which responses are media segments: what a video player fetches again and again, and not the lists of them.
//!
//! By the type that the server named, and by the name of the file only where the type says nothing: some servers send
//! segments as `application/octet-stream`, and `.ts` is TypeScript as often as MPEG-TS. What is neither is no segment, so
//! segments of a service with a type of its own (YouTube's `application/vnd.yt-ump`) are not found.

use url::Url;

/// Lists of segments (DASH, HLS), some of them named like audio or video.
const LISTS: [&str; 6] = [
    "application/dash+xml",
    "application/vnd.apple.mpegurl",
    "application/x-mpegurl",
    "audio/mpegurl",
    "audio/x-mpegurl",
    "video/vnd.mpeg.dash.mpd",
];

/// Types that say nothing about what they are for. The last is what many tables have for `.ts`.
const SILENT: [&str; 5] = [
    "",
    "application/octet-stream",
    "binary/octet-stream",
    "x-unknown",
    "text/vnd.trolltech.linguist",
];

/// Endings of lists' names, whatever their type.
const LIST_ENDINGS: [&str; 3] = ["mpd", "m3u8", "m3u"];

/// Endings of segments' names.
const SEGMENT_ENDINGS: [&str; 9] = [
    "m4s", "mp4", "ts", "webm", "m4a", "m4v", "aac", "cmfv", "cmfa",
];

/// True if what `url` names, of the type `mime`, is a media segment.
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

/// What follows the last point of the file's name, in lower case; of a path without one, nothing that is an ending.
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
    fn segments_are_told_from_lists_and_scripts() {
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

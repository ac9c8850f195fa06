//! Parses the HTTP/2 frames that `nghttp -v` and `squall fetch -v` print.

/// An HTTP/2 frame.
#[derive(Debug)]
pub(crate) struct Frame {
    is_sent: bool,
    name: String,
    pub(crate) stream: u32,
    /// Payload length in bytes.
    pub(crate) length: u64,
    /// The indented lines below the first: flags, settings, an increment.
    details: Vec<String>,
}

/// The frames in such a text, in order:
///
/// ```text
/// [  0.001] recv SETTINGS frame <length=12, flags=0x00, stream_id=0>
///           (niv=2)
///           [SETTINGS_MAX_CONCURRENT_STREAMS(0x03):100]
///           [SETTINGS_INITIAL_WINDOW_SIZE(0x04):65535]
/// ```
pub(crate) fn frames(text: &str) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    for line in text.lines() {
        if let Some(frame) = first_line(line) {
            frames.push(frame);
        } else if line.starts_with(' ')
            && let Some(frame) = frames.last_mut()
        {
            frame.details.push(line.trim().to_owned());
        }
    }
    frames
}

fn first_line(line: &str) -> Option<Frame> {
    let (_, what) = line.strip_prefix('[')?.split_once("] ")?;
    let (head, tail) = what.split_once(" frame <")?;
    let (way, name) = head.split_once(' ')?;
    let (_, stream) = tail.split_once("stream_id=")?;
    let (length, _) = tail.strip_prefix("length=")?.split_once(',')?;
    Some(Frame {
        is_sent: way == "send",
        name: name.to_owned(),
        stream: stream.strip_suffix('>')?.parse().ok()?,
        length: length.parse().ok()?,
        details: Vec::new(),
    })
}

impl Frame {
    pub(crate) fn is_sent(&self, name: &str) -> bool {
        self.is_sent && self.name == name
    }

    pub(crate) fn is_received(&self, name: &str) -> bool {
        !self.is_sent && self.name == name
    }

    pub(crate) fn has_flag(&self, flag: &str) -> bool {
        let flags = self.details.iter().find_map(|line| line.strip_prefix("; "));
        flags.is_some_and(|flags| flags.split(" | ").any(|found| found == flag))
    }

    /// The value of SETTINGS_`name`.
    pub(crate) fn setting(&self, name: &str) -> Option<u64> {
        let start = format!("[SETTINGS_{name}(");
        let line = self.details.iter().find(|line| line.starts_with(&start))?;
        line.split_once(':')?.1.strip_suffix(']')?.parse().ok()
    }

    /// The increment of a WINDOW_UPDATE.
    pub(crate) fn increment(&self) -> u64 {
        let told = self.details.iter().find_map(|line| {
            let value = line.strip_prefix("(window_size_increment=")?;
            value.strip_suffix(')')?.parse().ok()
        });
        told.unwrap_or_else(|| panic!("no increment in {self:?}"))
    }
}

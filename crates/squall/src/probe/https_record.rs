//! Asks the system's first name server for the HTTPS records of a name (RFC 9460), by which browsers find HTTP/3 and Encrypted
//! Client Hello: one question over UDP, repeated once.
//!
//! The system's resolver (getaddrinfo) cannot ask for them. This module uses neither DNSSEC nor TCP: from a truncated answer
//! it takes the records that fit. No input can cause a panic, and nothing is sent to the servers that records name.
//! squall-analysis' `addresses` has the facts, and `addresses` here the other lookups.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use squall_analysis::probe::{HttpsAnswer, HttpsService};
use squall_base::Duration;
use squall_linux::clock;

use super::drive::Drive;
use super::record_name::LABEL_AT_MOST;

/// The time limit for an answer. The question is repeated halfway through.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);
const ATTEMPTS: u64 = 2;
/// The port of DNS.
const PORT: u16 = 53;
/// The type HTTPS (RFC 9460, section 9).
const HTTPS: u16 = 65;
/// The class of the internet (RFC 1035, section 3.2.4).
const INTERNET: u16 = 1;
/// OPT (RFC 6891, section 6.1.2): allows answers of up to 1,232 bytes.
const OPT: [u8; 11] = [0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0];
/// The longest answer, header included.
const ANSWER_BYTES: usize = 4_096;
/// The most records that are kept.
const SERVICES_AT_MOST: usize = 8;

impl Drive<'_> {
    /// Asks for the HTTPS records of the URL's name, if there may be some.
    pub(super) fn ask_https_records(&mut self) {
        let Some(name) = self.plan().https_record_name() else {
            return;
        };
        let Some(time) = self.time() else {
            return;
        };
        let servers = fs::read_to_string("/etc/resolv.conf");
        let server = servers.ok().and_then(|text| name_server(&text));
        let Some(server) = server else {
            return;
        };
        let services = ask(server, &name, time.min(ANSWERED_WITHIN)).ok();
        self.seen.https_records = Some(HttpsAnswer {
            is_answered: services.is_some(),
            services: services.unwrap_or_default(),
        });
    }
}

/// The first name server of a resolv.conf(5).
fn name_server(text: &str) -> Option<SocketAddr> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let address = words.next().filter(|word| *word == "nameserver");
        let address = address.and_then(|_| words.next())?;
        Some(SocketAddr::new(address.parse().ok()?, PORT))
    })
}

/// Asks a name server for the HTTPS records of a name.
fn ask(server: SocketAddr, name: &str, within: Duration) -> io::Result<Vec<HttpsService>> {
    let local: IpAddr = if server.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((local, 0))?;
    // The kernel drops datagrams from other senders.
    socket.connect(server)?;
    // Others cannot predict the ID: the keys of the hash are random.
    let id = RandomState::new().build_hasher().finish() as u16;
    let question = question(id, name);
    let each = Duration::from_nanos(within.as_nanos() / ATTEMPTS);
    let mut buffer = [0; ANSWER_BYTES];
    for _ in 0..ATTEMPTS {
        socket.send(&question)?;
        let deadline = clock::now() + each;
        loop {
            let left = deadline.since(clock::now());
            if left < Duration::from_millis(1) {
                break;
            }
            socket.set_read_timeout(Some(left.into()))?;
            let received = match socket.recv(&mut buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if is_timeout(&error) => break,
                Err(error) => return Err(error),
            };
            if let Some(answer) = buffer[..received].strip_prefix(&id.to_be_bytes()) {
                let refused = || io::Error::other("the name server refuses to answer");
                return services(answer, &question).ok_or_else(refused);
            }
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut)
}

/// A recursive query for the HTTPS records of a name, whose labels must be valid.
fn question(id: u16, name: &str) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    // Flags; one question, no answers, no authorities, one additional record.
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    message.extend(HTTPS.to_be_bytes());
    message.extend(INTERNET.to_be_bytes());
    message.extend(OPT);
    message
}

/// The HTTPS records in an answer whose ID was removed. `None` if the server refuses, or the answer is to another question.
fn services(answer: &[u8], question: &[u8]) -> Option<Vec<HttpsService>> {
    const NO_ERROR: u8 = 0;
    const NO_SUCH_NAME: u8 = 3;
    let mut message = Reader(answer);
    let [flags, result] = [message.byte()?, message.byte()?];
    let is_response = flags & 0x80 != 0;
    if !is_response || ![NO_ERROR, NO_SUCH_NAME].contains(&(result & 0x0f)) {
        return None;
    }
    let (questions, answers) = (message.number()?, message.number()?);
    message.take(4)?;
    let asked = &question[12..question.len() - OPT.len()];
    if questions != 1 || !message.take(asked.len())?.eq_ignore_ascii_case(asked) {
        return None;
    }
    let mut services = Vec::new();
    for _ in 0..answers {
        // The rest of a truncated answer is left out.
        let Some((kind, data)) = message.record() else {
            break;
        };
        if kind == (HTTPS, INTERNET) && services.len() < SERVICES_AT_MOST {
            // A malformed record is ignored (RFC 9460, section 2.2).
            services.extend(service(data));
        }
    }
    services.sort_by_key(|service: &HttpsService| service.priority);
    Some(services)
}

/// Reads the data of an HTTPS record.
fn service(data: &[u8]) -> Option<HttpsService> {
    let mut data = Reader(data);
    let mut found = HttpsService {
        priority: data.number()?,
        target: data.name()?,
        ..HttpsService::default()
    };
    while !data.0.is_empty() {
        let key = data.number()?;
        let length = data.number()?;
        let mut value = Reader(data.take(length.into())?);
        match key {
            1 => {
                while !value.0.is_empty() {
                    let length = value.byte()?;
                    found.alpn.push(printable(value.take(length.into())?));
                }
            }
            3 => found.port = Some(value.number()?),
            4 => found.address_hints += (value.0.len() / 4) as u64,
            5 => found.has_ech = true,
            6 => found.address_hints += (value.0.len() / 16) as u64,
            _ => {}
        }
    }
    Some(found)
}

/// Text from another machine, without anything that could control a terminal.
fn printable(bytes: &[u8]) -> String {
    let is_kept = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_/.".contains(byte);
    let kept = bytes
        .iter()
        .map(|byte| if is_kept(byte) { *byte } else { b'?' });
    kept.map(char::from).collect()
}

/// What is left of a message.
struct Reader<'m>(&'m [u8]);

impl<'m> Reader<'m> {
    fn take(&mut self, count: usize) -> Option<&'m [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn number(&mut self) -> Option<u16> {
        let bytes = self.take(2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// A record's type and class, and its data.
    fn record(&mut self) -> Option<((u16, u16), &'m [u8])> {
        self.skip_owner()?;
        let kind = (self.number()?, self.number()?);
        // Its time to live.
        self.take(4)?;
        let length = self.number()?;
        Some((kind, self.take(length.into())?))
    }

    /// A name, perhaps with a pointer at its end.
    fn skip_owner(&mut self) -> Option<()> {
        loop {
            match self.byte()? {
                0 => return Some(()),
                0xc0.. => return self.byte().map(drop),
                length => self.take(length.into()).map(drop)?,
            }
        }
    }

    /// A name without pointers; empty for the root.
    fn name(&mut self) -> Option<String> {
        let mut labels = Vec::new();
        loop {
            let length = usize::from(self.byte()?);
            if length == 0 {
                return Some(labels.join("."));
            }
            if length > LABEL_AT_MOST {
                return None;
            }
            labels.push(printable(self.take(length)?));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const ID: u16 = 0x1234;

    /// An answer to [`question`] with a CNAME and HTTPS records of this data.
    fn answer(name: &str, records: &[&[u8]]) -> Vec<u8> {
        let asked = question(ID, name);
        let mut message = asked[..asked.len() - OPT.len()].to_vec();
        message[2..4].copy_from_slice(&[0x81, 0x80]);
        message[7] = records.len() as u8 + 1;
        message[11] = 0;
        // CNAME, for the name at byte 12: a pointer to itself.
        message.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 2, 0xc0, 12]);
        for data in records {
            message.extend([0xc0, 12, 0, 65, 0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
            message.extend_from_slice(data);
        }
        message
    }

    fn read(message: &[u8]) -> Option<Vec<HttpsService>> {
        let asked = question(ID, "a.test");
        services(message.strip_prefix(&ID.to_be_bytes())?, &asked)
    }

    /// `1 . alpn="h3,h2" port=8443 ipv4hint=192.0.2.1,192.0.2.2 ech=...`
    const SERVICE: &[u8] = &[
        0, 1, 0, 0, 1, 0, 6, 2, b'h', b'3', 2, b'h', b'2', 0, 3, 0, 2, 0x20, 0xfb, 0, 4, 0, 8, 192,
        0, 2, 1, 192, 0, 2, 2, 0, 5, 0, 1, 7,
    ];
    /// `0 b.test.`
    const ALIAS: &[u8] = &[0, 0, 1, b'b', 4, b't', b'e', b's', b't', 0];

    fn made_service() -> HttpsService {
        HttpsService {
            priority: 1,
            target: String::new(),
            alpn: vec!["h3".to_owned(), "h2".to_owned()],
            port: Some(8_443),
            address_hints: 2,
            has_ech: true,
        }
    }

    #[test]
    fn records_are_sorted_by_preference() {
        let alias = HttpsService {
            target: "b.test".to_owned(),
            ..HttpsService::default()
        };
        let message = answer("a.test", &[SERVICE, ALIAS]);
        assert_eq!(read(&message), Some(vec![alias, made_service()]));
        assert_eq!(read(&answer("a.test", &[])), Some(Vec::new()));
        // A malformed record next to a good one.
        let message = answer("a.test", &[&SERVICE[..12], SERVICE]);
        assert_eq!(read(&message), Some(vec![made_service()]));
        assert_eq!(read(&answer("b.test", &[SERVICE])), None, "not asked");
        let mut refused = answer("a.test", &[]);
        refused[3] |= 5;
        assert_eq!(read(&refused), None);
    }

    #[test]
    fn arbitrary_bytes_as_an_answer_cause_no_panic() {
        let message = answer("a.test", &[SERVICE, ALIAS]);
        for length in 0..message.len() {
            read(&message[..length]);
        }
        for place in 0..message.len() {
            for byte in 0..=u8::MAX {
                let mut changed = message.clone();
                changed[place] = byte;
                for service in read(&changed).unwrap_or_default() {
                    let texts = service.alpn.iter().chain([&service.target]);
                    let mut chars = texts.flat_map(|text| text.chars());
                    assert!(chars.all(|c| c.is_ascii_graphic()), "{service:?}");
                }
            }
        }
    }

    #[test]
    fn question_is_repeated_and_answers_with_other_numbers_are_ignored() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let served = thread::spawn(move || {
            let mut buffer = [0; 512];
            // The first question is lost.
            server.recv_from(&mut buffer).unwrap();
            let (_, client) = server.recv_from(&mut buffer).unwrap();
            let mut message = answer("a.test", &[SERVICE]);
            message[0..2].copy_from_slice(&[buffer[0], !buffer[1]]);
            server.send_to(&message, client).unwrap();
            message[1] = buffer[1];
            server.send_to(&message, client).unwrap();
        });
        let found = ask(address, "a.test", Duration::from_secs(4)).unwrap();
        assert_eq!(found, [made_service()]);
        served.join().unwrap();
    }

    #[test]
    fn silent_name_server_is_given_up() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let error = ask(address, "a.test", Duration::from_millis(100)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn first_name_server_that_can_be_reached_is_used() {
        let text = "# comment\nsearch a.test\nnameserver fe80::1%eth0\nnameserver 192.0.2.53\nnameserver ::1\n";
        assert_eq!(name_server(text), Some("192.0.2.53:53".parse().unwrap()));
        assert_eq!(name_server("nameserver ::1").unwrap().port(), 53);
        assert_eq!(name_server("options edns0\nnameserver\n"), None);
    }
}

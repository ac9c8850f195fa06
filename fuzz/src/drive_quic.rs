//! Drives the observer's parsing of QUIC inside its packet protection: the packets are sealed correctly, with secrets
//! from the key log, and contain what the input provides.
//!
//! `drive_observe` also sends bytes in place of whole packets. Nothing may panic, and the rows must pass
//! `drive_observe::check`.

use boring::aead::{AeadCtx, Algorithm};
use boring::hash::MessageDigest;
use boring::hkdf::HkdfSuite;
use boring::symm::{Cipher, Crypter, Mode};
use squall_base::Time;
use squall_base::record::Direction;
use squall_observe::{Checksums, Observations, ObservedPacket, Observer, Secrets};

const SALT: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad,
    0xcc, 0xbb, 0x7f, 0x0a,
];

/// The client's first destination connection ID, and then the IDs that each direction's packets use for their receiver.
const FIRST_ID: [u8; 8] = [1; 8];
const IDS: [[u8; 8]; 2] = [[3; 8], [2; 8]];

/// The traffic secrets of each direction: for the handshake, then for application data.
const SECRETS: [[u8; 32]; 4] = [[0x11; 32], [0x22; 32], [0x33; 32], [0x44; 32]];

/// The labels of [`SECRETS`] in a key log.
const LABELS: [&str; 4] = [
    "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    "SERVER_HANDSHAKE_TRAFFIC_SECRET",
    "CLIENT_TRAFFIC_SECRET_0",
    "SERVER_TRAFFIC_SECRET_0",
];

/// A ClientHello with a zero random that offers h3, a ServerHello with TLS_AES_128_GCM_SHA256, and EncryptedExtensions
/// that select h3.
const CLIENT_HELLO: &[u8] =
    b"\x01\x00\x00\x36\x03\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    \x00\x00\x02\x13\x01\x01\x00\x00\x09\x00\x10\x00\x05\x00\x03\x02h3\x00\x00";
const SERVER_HELLO: &[u8] =
    b"\x02\x00\x00\x2e\x03\x03\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    \x00\x13\x01\x00\x00\x06\x00\x2b\x00\x02\x03\x04";
const ENCRYPTED_EXTENSIONS: &[u8] = b"\x08\x00\x00\x0b\x00\x09\x00\x10\x00\x05\x00\x03\x02h3";

/// Seals the packets of one direction at one level.
pub struct Sealer {
    secret: Vec<u8>,
    header_key: Vec<u8>,
    next: u64,
    phase: bool,
}

fn expand(secret: &[u8], label: &str, length: usize) -> Vec<u8> {
    let mut info = vec![0, length as u8, 6 + label.len() as u8];
    info.extend_from_slice(b"tls13 ");
    info.extend_from_slice(label.as_bytes());
    info.push(0);
    let mut out = vec![0; length];
    HkdfSuite::new(MessageDigest::sha256())
        .expand(secret, &info, &mut out)
        .expect("the length is valid");
    out
}

impl Sealer {
    fn new(secret: &[u8]) -> Sealer {
        Sealer {
            secret: secret.to_vec(),
            header_key: expand(secret, "quic hp", 16),
            next: 0,
            phase: false,
        }
    }

    /// Begins the next key phase.
    pub fn update(&mut self) {
        self.secret = expand(&self.secret, "quic ku", 32);
        self.phase = !self.phase;
    }

    /// The next packet, after a header that ends with two bytes of packet number.
    fn seal(&mut self, mut header: Vec<u8>, payload: &[u8]) -> Vec<u8> {
        let number = self.next;
        self.next += 1;
        header.extend((number as u16).to_be_bytes());
        let (key, mut nonce) = (
            expand(&self.secret, "quic key", 16),
            expand(&self.secret, "quic iv", 12),
        );
        for (byte, number) in nonce.iter_mut().rev().zip(number.to_le_bytes()) {
            *byte ^= number;
        }
        let mut context = AeadCtx::new_default_tag(&Algorithm::aes_128_gcm(), &key)
            .expect("the key has its length");
        let mut text = payload.to_vec();
        // Header protection samples the bytes after a packet number of four bytes.
        text.resize(text.len().max(4), 0);
        let mut tag = [0; 16];
        context
            .seal_in_place_mut(&nonce, &mut text, &mut tag, &header)
            .expect("there is room");
        let sealed = [&text[..], &tag].concat();
        let mut block = [0; 32];
        Crypter::new(Cipher::aes_128_ecb(), Mode::Encrypt, &self.header_key, None)
            .and_then(|mut cipher| cipher.update(&sealed[2..18], &mut block))
            .expect("a block can be enciphered");
        let bits = if header[0] & 0x80 != 0 { 0x0f } else { 0x1f };
        header[0] ^= block[0] & bits;
        let at = header.len() - 2;
        header[at] ^= block[1];
        header[at + 1] ^= block[2];
        [header, sealed].concat()
    }

    fn long(&mut self, first: u8, direction: Direction, payload: &[u8]) -> Vec<u8> {
        let opposite = direction.opposite();
        let destination = match (first & 0x30, direction) {
            (0x00, Direction::Up) => FIRST_ID,
            _ => IDS[direction as usize],
        };
        let mut header = vec![first, 0, 0, 0, 1, 8];
        header.extend(destination);
        header.push(8);
        header.extend(IDS[opposite as usize]);
        if first & 0x30 == 0 {
            header.push(0);
        }
        let length = 2 + payload.len().max(4) + 16;
        header.extend((length as u16 | 0x4000).to_be_bytes());
        self.seal(header, payload)
    }

    /// A packet with a short header.
    pub fn short(&mut self, direction: Direction, payload: &[u8]) -> Vec<u8> {
        let phase = if self.phase { 0x04 } else { 0 };
        let mut header = vec![0x41 | phase];
        header.extend(IDS[direction as usize]);
        self.seal(header, payload)
    }
}

/// Both ends of a connection whose handshake is complete as far as the observer examines it, and its observer.
pub struct Sealed {
    pub sealers: [Sealer; 2],
    observer: Observer,
    rows: Observations,
    now: u64,
}

impl Sealed {
    /// Adds the secrets before the first packet or, if they are late, after those of the handshake.
    pub fn new(are_late: bool) -> Sealed {
        let secrets = if are_late {
            Secrets::MayCome
        } else {
            Secrets::Complete
        };
        let mut sealed = Sealed {
            sealers: [Sealer::new(&SECRETS[2]), Sealer::new(&SECRETS[3])],
            observer: Observer::new(Checksums::Ignored, secrets),
            rows: Observations::default(),
            now: 0,
        };
        if !are_late {
            sealed.tell_secrets();
        }
        let hkdf = HkdfSuite::new(MessageDigest::sha256());
        let initial = hkdf.extract(&SALT, &FIRST_ID).expect("any input will do");
        for (direction, label, hello) in [
            (Direction::Up, "client in", CLIENT_HELLO),
            (Direction::Down, "server in", SERVER_HELLO),
        ] {
            let mut sealer = Sealer::new(&expand(&initial, label, 32));
            let packet = sealer.long(0xc1, direction, &crypto(hello));
            sealed.see(direction, &packet, false);
        }
        let mut sealer = Sealer::new(&SECRETS[1]);
        let packet = sealer.long(0xe1, Direction::Down, &crypto(ENCRYPTED_EXTENSIONS));
        sealed.see(Direction::Down, &packet, false);
        sealed
    }

    /// Adds the secrets to the observer's key log.
    pub fn tell_secrets(&mut self) {
        let digits =
            |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
        for (label, secret) in LABELS.iter().zip(&SECRETS) {
            let line = format!("{label} {} {}", digits(&[0; 32]), digits(secret));
            self.observer.add_keys(&line, &mut self.rows);
        }
    }

    /// Shows a datagram to the observer, a microsecond after the previous one.
    pub fn see(&mut self, direction: Direction, datagram: &[u8], is_lost: bool) {
        self.now += 1_000;
        let packet = packet(direction, datagram);
        let seen = ObservedPacket {
            time_in: Time::from_nanos(self.now),
            release: (!is_lost).then(|| Time::from_nanos(self.now + 500)),
            direction,
            bytes: &packet,
        };
        self.observer.observe(&seen, &mut self.rows);
    }

    /// Sends a packet with these frames.
    pub fn send(&mut self, direction: Direction, payload: &[u8]) {
        let packet = self.sealers[direction as usize].short(direction, payload);
        self.see(direction, &packet, false);
    }

    /// All rows.
    pub fn finish(mut self) -> Observations {
        self.observer.finish(&mut self.rows);
        self.rows
    }
}

/// A CRYPTO frame with a message.
fn crypto(message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u16 | 0x4000).to_be_bytes();
    [&[0x06, 0x00][..], &length, message].concat()
}

fn packet(direction: Direction, datagram: &[u8]) -> Vec<u8> {
    let (ports, from, to) = match direction {
        Direction::Up => ([40_000_u16, 443], 1, 2),
        Direction::Down => ([443, 40_000], 2, 1),
    };
    let mut packet = vec![0x45, 0];
    packet.extend((28 + datagram.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    packet.extend(ports.map(u16::to_be_bytes).concat());
    packet.extend((8 + datagram.len() as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(datagram);
    packet
}

/// Packets: a byte determines each one's direction and whether it is lost, sealed, or follows a key update; then come
/// its length and that many bytes, which are frames or a whole datagram.
pub fn quic_frames(input: &[u8]) -> Observations {
    let [first, rest @ ..] = input else {
        return Observations::default();
    };
    let mut sealed = Sealed::new(first & 1 != 0);
    let mut rest = rest;
    while let [how, length, more @ ..] = rest {
        let (bytes, after) = more.split_at(more.len().min(usize::from(*length)));
        rest = after;
        let direction = Direction::ALL[usize::from(how & 1)];
        let sealer = &mut sealed.sealers[direction as usize];
        if how & 0xc0 == 0xc0 {
            sealer.update();
        }
        let datagram = if how & 0x06 == 0x06 {
            bytes.to_vec()
        } else {
            sealer.short(direction, bytes)
        };
        sealed.see(direction, &datagram, how & 0x38 == 0x38);
        if how & 0x38 == 0x08 {
            sealed.tell_secrets();
        }
    }
    sealed.finish()
}

//! The sample packets of RFC 9001, appendix A, and RFC 9369, appendix A.

use super::frames;
use super::header::{LongType, Packet, Version, next_packet};
use super::keys::{PacketKeys, initial_secrets, initial_suite};
use super::protection::{DecryptedPacket, Opener};
use crate::tls::{Suite, hex};
use octets::Octets;

/// The destination connection ID of both appendices.
const DESTINATION: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];

/// The packet number of the short-header packets.
const SHORT_NUMBER: u64 = 654_360_564;

#[test]
fn initial_secrets_are_those_of_the_rfcs() {
    for (version, client, server) in [
        (
            Version::V1,
            "c00cf151ca5be075ed0ebfb5c80323c42d6b7db67881289af4008f1f6c357aea",
            "3c199828fd139efd216c155ad844cc81fb82fa8d7446fa7d78be803acdda951b",
        ),
        (
            Version::V2,
            "14ec9d6eb9fd7af83bf5a668bc17a7e283766aade7ecd0891f70f9ff7f4bf47b",
            "0263db1782731bf4588e7e4d93b7463907cb8cd8200b5da55a8bd488eafc37c1",
        ),
    ] {
        let secrets = initial_secrets(version, &DESTINATION).unwrap();
        assert_eq!(secrets, [hex(client), hex(server)], "{version:?}");
    }
}

#[test]
fn header_protection_mask_matches_rfc_9001() {
    let [client, _] = initial_secrets(Version::V1, &DESTINATION).unwrap();
    let keys = PacketKeys::new(Version::V1, initial_suite().unwrap(), &client).unwrap();
    let sample = hex("d1b1c98dd7689fb8ec11d242b123dc9b");
    let mask = keys.header_key().unwrap().mask(&sample.try_into().unwrap());
    assert_eq!(mask.unwrap()[..], hex("437b9aec36"));
}

#[test]
fn server_initial_packet_opens() {
    let payload = hex(
        "02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf73988cfc79825df566dc5430b9a045a1200
         130100002e00330024001d00209d3c940d89690b84d08a60993c144eca684d1081287c834d5311bcf32bb9da1a002b
         00020304",
    );
    for (version, packet) in [
        (
            Version::V1,
            "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c69797554780bb3
             8cc5a99f5ede4cf73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84
             022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc42158407dd074ee",
        ),
        (
            Version::V2,
            "dc6b3343cf0008f067a5502a4262b5004075d92faaf16f05d8a4398c47089698baeea26b91eb761d9b89237bbf872630
             17915358230035f7fd3945d88965cf17f9af6e16886c61bfc703106fbaf3cb4cfa52382dd16a393e42757507698075b2
             c984c707f0a0812d8cd5a6881eaf21ceda98f4bd23f6fe1a3e2c43edd9ce7ca84bed8521e2e140",
        ),
    ] {
        let packet = hex(packet);
        let Some((Packet::Long(long), [])) = next_packet(&packet) else {
            panic!("no long header");
        };
        assert_eq!((long.version, long.kind), (version, LongType::Initial));
        let [_, mut server] = Opener::initial(version, &DESTINATION).unwrap();
        let opened = server.open(long.bytes, long.number_at, None);
        let expected = DecryptedPacket {
            number: 1,
            payload: payload.clone(),
        };
        assert_eq!(opened, Some(expected), "{version:?}");
    }
    let mut frames = Octets::with_slice(&payload);
    assert_eq!(frames::next(&mut frames).unwrap().value, Some(0));
    assert_eq!(frames::next(&mut frames).unwrap().length, 90);
    assert_eq!(frames.cap(), 0);
}

#[test]
fn short_header_packet_with_chacha20_opens() {
    let secret = hex("9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b");
    let suite = Suite::of(0x1303).unwrap();
    for (version, packet) in [
        (Version::V1, "4cfe4189655e5cd55c41f69080575d7999c25a5bfb"),
        (Version::V2, "5558b1c60ae7b6b932bc27d786f4bc2bb20f2162ba"),
    ] {
        let keys = PacketKeys::new(version, suite, &secret).unwrap();
        let mut opener = Opener::updatable(keys).unwrap();
        let opened = opener.open(&hex(packet), 1, Some(SHORT_NUMBER - 1));
        let expected = DecryptedPacket {
            number: SHORT_NUMBER,
            payload: vec![0x01],
        };
        assert_eq!(opened, Some(expected), "{version:?}");
    }
}

#[test]
fn retry_header_is_parsed() {
    let packet = hex("ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba");
    let Some((Packet::Long(long), [])) = next_packet(&packet) else {
        panic!("no long header");
    };
    assert_eq!(long.kind, LongType::Retry);
    assert_eq!(long.source, hex("f067a5502a4262b5"));
}

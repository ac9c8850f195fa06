//! The table of packets: packets.parquet.
//!
//! Only declares the columns of `PacketRecord`; docs/RECORD.md defines them.

use squall_base::record::{Direction, Fate, PacketClass, PacketRecord};
use squall_base::{Duration, Time};

use super::cell::table;

table! {
    "packets" of row: PacketRecord {
        Added {
            hop: u8 = row.hop, Delta "hop";
        }
        Stored {
            index: u64 = row.index, Delta "index";
            direction: Direction = row.direction, Words "direction";
            flow: u32 = row.flow, Dictionary "flow";
            client_port: u16 = row.client_port, Dictionary "client_port";
            class: PacketClass = row.class, Words "class";
            class_index: u32 = row.class_index, Delta "class_index";
            length: u16 = row.length, Dictionary "length_bytes";
            protocol: u8 = row.protocol, Dictionary "protocol";
            seq: u32 = row.seq, Delta "seq";
            ack: u32 = row.ack, Delta "ack";
            payload_len: u16 = row.payload_len, Dictionary "payload_bytes";
            tcp_flags: u8 = row.tcp_flags, Dictionary "tcp_flags";
            window_bytes: u32 = row.window_bytes, Delta "window_bytes";
            arrived: Time = row.arrived, Delta "arrived_ns";
            queue_bytes: u32 = row.queue_bytes, Dictionary "queue_bytes";
            queueing: Duration = row.queueing, Delta "queueing_ns";
            served: Option<Time> = row.served, Delta "served_ns";
            planned: Option<Time> = row.planned, Delta "planned_ns";
            released: Option<Time> = row.released, Delta "released_ns";
            fate: Fate = row.fate, Words "fate";
            dropped_in: u8 = row.dropped_in, Dictionary "dropped_in";
            is_marked: bool = row.is_marked, Dictionary "marked";
            is_corrupted: bool = row.is_corrupted, Dictionary "corrupted";
            is_copy: bool = row.is_copy, Dictionary "copy";
        }
    }
    => PacketRecord {
        hop, index, direction, flow, client_port, class, class_index, length, protocol, seq, ack, payload_len, tcp_flags,
        window_bytes, arrived, queue_bytes, queueing, served, planned, released, fate, dropped_in, is_marked,
        is_corrupted, is_copy,
    }
}

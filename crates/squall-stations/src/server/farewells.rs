//! Clients over TLS that say close_notify, wait for the server's, and leave TCP open (RFC 8446, section 6.1).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::{self, JoinHandle};
use std::time::Duration as StdDuration;

use squall_base::plan::TlsSettings;
use squall_base::{Bytes, Duration};
use squall_http::tls::{ClientContext, Session, Trust};

use super::*;
use crate::LogSinks;
use crate::visitor::identity;

const BODY_BYTES: usize = 100_000;

fn serve(stop: &StopSignal) -> (SocketAddr, JoinHandle<()>) {
    let context = tls::ServerContext::new(&TlsSettings::default(), &["http/1.1"], &identity());
    let settings = ServerSettings {
        listeners: vec![Listener {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            speaks: Spoken::Secure(context.unwrap()),
        }],
        side: SideSettings::default(),
        site: Site::sized(Bytes::new(BODY_BYTES as u64)).unwrap(),
        log: LogSinks::default(),
        access: None,
        sample_every: Duration::from_secs(60),
        idle_timeout: None,
        seed: 0,
        is_realtime: false,
    };
    let server = Server::listen(settings, stop.clone()).unwrap();
    let address = server.addresses().unwrap()[0];
    (address, thread::spawn(move || drop(server.run().unwrap())))
}

/// A client of bare TLS.
struct Caller {
    stream: TcpStream,
    session: Session,
    heard: Vec<u8>,
}

impl Caller {
    fn new(address: SocketAddr) -> Caller {
        let tls = TlsSettings::default();
        let context = ClientContext::new(&tls, &["http/1.1"], &Trust::Anyone).unwrap();
        let stream = TcpStream::connect(address).unwrap();
        let patience = Some(StdDuration::from_secs(10));
        stream.set_read_timeout(patience).unwrap();
        let mut caller = Caller {
            stream,
            session: Session::client(&context, Some("server")).unwrap(),
            heard: Vec::new(),
        };
        caller.flush();
        caller.hear_until(|caller| caller.session.is_secured());
        caller
    }

    fn flush(&mut self) {
        let output = self.session.output().to_vec();
        self.stream.write_all(&output).unwrap();
        self.session.advance_output(output.len());
    }

    /// Asks, unsent until the next flush.
    fn ask(&mut self, path: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nhost: server\r\n\r\n");
        let said = self.session.encrypt(request.as_bytes(), clock::now());
        assert_eq!(said, request.len());
    }

    fn hear_until(&mut self, is_so: impl Fn(&Caller) -> bool) {
        let mut buffer = [0; 16 * 1024];
        while !is_so(self) {
            let count = self.stream.read(&mut buffer).unwrap();
            assert!(count > 0, "the server has left");
            let heard = &mut self.heard;
            let received = self.session.receive(&buffer[..count], |_, record| {
                heard.extend_from_slice(record.bytes);
            });
            received.unwrap();
            self.flush();
        }
    }

    fn has_answer(&self) -> bool {
        let mut heads = self.heard.windows(4);
        let head = heads.position(|bytes| bytes == b"\r\n\r\n");
        head.is_some_and(|at| self.heard.len() == at + 4 + BODY_BYTES)
    }
}

#[test]
fn an_idle_client_hears_close_notify() {
    let stop = StopSignal::new().unwrap();
    let (address, serving) = serve(&stop);
    let mut caller = Caller::new(address);
    caller.ask("/");
    caller.flush();
    caller.hear_until(Caller::has_answer);
    caller.session.close_notify();
    caller.flush();
    caller.hear_until(|caller| caller.session.received_close_notify());
    stop.request().unwrap();
    serving.join().unwrap();
}

#[test]
fn a_client_that_has_no_more_to_say_hears_its_answer() {
    let stop = StopSignal::new().unwrap();
    let (address, serving) = serve(&stop);
    let mut caller = Caller::new(address);
    caller.ask("/?delay=300ms");
    caller.session.close_notify();
    caller.flush();
    // What no server has to look at. A reset because of it would cost the answer.
    for _ in 0..10 {
        thread::sleep(StdDuration::from_millis(10));
        caller.stream.write_all(&[0; 10_000]).unwrap();
    }
    caller.hear_until(|caller| caller.session.received_close_notify());
    assert!(caller.has_answer());
    stop.request().unwrap();
    serving.join().unwrap();
}

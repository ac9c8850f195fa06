//! TLS clients that send close_notify, wait for the server's, and leave TCP open (RFC 8446, section 6.1).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::{self, JoinHandle};
use std::time::Duration as StdDuration;

use squall_base::plan::TlsSettings;
use squall_http::tls::{ClientContext, ServerContext, Session, Trust};

use super::*;
use crate::visitor::identity;

const BODY_BYTES: usize = 100_000;

fn serve(stop: &StopSignal) -> (SocketAddr, JoinHandle<()>) {
    let context = ServerContext::new(&TlsSettings::default(), &["http/1.1"], &identity());
    let protocol = ListenerProtocol::Secure(context.unwrap());
    let settings = ServerSettings::for_test(protocol, BODY_BYTES as u64);
    let server = Server::listen(settings, stop.clone()).unwrap();
    let address = server.addresses().unwrap()[0];
    (address, thread::spawn(move || drop(server.run().unwrap())))
}

/// A bare TLS client.
struct Caller {
    stream: TcpStream,
    session: Session,
    received: Vec<u8>,
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
            received: Vec::new(),
        };
        caller.flush();
        caller.read_until(|caller| caller.session.is_secured());
        caller
    }

    fn flush(&mut self) {
        let output = self.session.output().to_vec();
        self.stream.write_all(&output).unwrap();
        self.session.advance_output(output.len());
    }

    /// Prepares a request, which the next flush sends.
    fn prepare_request(&mut self, path: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nhost: server\r\n\r\n");
        let said = self.session.encrypt(request.as_bytes(), clock::now());
        assert_eq!(said, request.len());
    }

    fn read_until(&mut self, is_so: impl Fn(&Caller) -> bool) {
        let mut buffer = [0; 16 * 1024];
        while !is_so(self) {
            let count = self.stream.read(&mut buffer).unwrap();
            assert!(count > 0, "the server has left");
            let received = &mut self.received;
            let result = self.session.receive(&buffer[..count], |_, record| {
                received.extend_from_slice(record.bytes);
            });
            result.unwrap();
            self.flush();
        }
    }

    fn has_response(&self) -> bool {
        let mut heads = self.received.windows(4);
        let head = heads.position(|bytes| bytes == b"\r\n\r\n");
        head.is_some_and(|at| self.received.len() == at + 4 + BODY_BYTES)
    }
}

#[test]
fn idle_client_receives_close_notify() {
    let stop = StopSignal::new().unwrap();
    let (address, serving) = serve(&stop);
    let mut caller = Caller::new(address);
    caller.prepare_request("/");
    caller.flush();
    caller.read_until(Caller::has_response);
    caller.session.close_notify();
    caller.flush();
    caller.read_until(|caller| caller.session.received_close_notify());
    stop.request().unwrap();
    serving.join().unwrap();
}

#[test]
fn client_that_sent_close_notify_still_gets_its_response() {
    let stop = StopSignal::new().unwrap();
    let (address, serving) = serve(&stop);
    let mut caller = Caller::new(address);
    caller.prepare_request("/?delay=3s");
    caller.session.close_notify();
    caller.flush();
    // Data that the server need not read. A reset because of it would destroy the response.
    for _ in 0..10 {
        thread::sleep(StdDuration::from_millis(10));
        caller.stream.write_all(&[0; 10_000]).unwrap();
    }
    caller.read_until(|caller| caller.session.received_close_notify());
    assert!(caller.has_response());
    stop.request().unwrap();
    serving.join().unwrap();
}

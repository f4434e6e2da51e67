//! A Kafka client's connection: requests overlap, answers come in order; a request that is not answered in time ends
//! the connection, as in librdkafka.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};
use milepost::door::net::TcpStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The request may have been heard and done.
#[derive(Debug, Clone, Copy)]
pub struct Lost;

pub struct Connection {
    client: String,
    frames: mpsc::UnboundedSender<Bytes>,
    shared: Rc<Shared>,
    correlation: Cell<i32>,
}

#[derive(Default)]
struct Shared {
    waiting: RefCell<VecDeque<(i32, oneshot::Sender<Bytes>)>>,
    closed: Cell<bool>,
    closing: Notify,
}

impl Shared {
    fn close(&self) {
        self.closed.set(true);
        self.waiting.borrow_mut().clear();
        self.closing.notify_one();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Connection {
    pub async fn open(broker: i32, client: &str) -> Result<Rc<Connection>, Lost> {
        let connecting = TcpStream::connect((crate::cluster::host(broker), crate::cluster::CLIENT_PORT));
        let stream = timeout(CONNECT_TIMEOUT, connecting).await.map_err(|_| Lost)?.map_err(|_| Lost)?;
        let (frames, queue) = mpsc::unbounded_channel();
        let shared = Rc::new(Shared::default());
        let running = shared.clone();
        tokio::task::spawn_local(async move {
            tokio::select! {
                _ = exchange(stream, queue, &running) => {}
                () = running.closing.notified() => {}
            }
            running.close();
        });
        Ok(Rc::new(Connection { client: client.to_owned(), frames, shared, correlation: Cell::new(0) }))
    }

    pub fn is_closed(&self) -> bool {
        self.shared.closed.get()
    }

    /// Enqueues at once, so that calls keep their order; the future waits for the answer.
    pub fn ask<Q, A>(
        self: &Rc<Self>,
        api: ApiKey,
        version: i16,
        request: &Q,
        patience: Duration,
    ) -> impl Future<Output = Result<A, Lost>> + use<Q, A>
    where
        Q: Encodable + HeaderVersion,
        A: Decodable + HeaderVersion,
    {
        let correlation = self.correlation.get();
        self.correlation.set(correlation + 1);
        let header = RequestHeader::default()
            .with_request_api_key(api as i16)
            .with_request_api_version(version)
            .with_correlation_id(correlation)
            .with_client_id(Some(StrBytes::from_string(self.client.clone())));
        let mut frame = BytesMut::from(&[0; 4][..]);
        header.encode(&mut frame, Q::header_version(version)).expect("a header of ours");
        request.encode(&mut frame, version).expect("a request of ours");
        let length = (frame.len() - 4) as u32;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        let (answer, answered) = oneshot::channel();
        if !self.is_closed() && self.frames.send(frame.freeze()).is_ok() {
            self.shared.waiting.borrow_mut().push_back((correlation, answer));
        }
        let shared = self.shared.clone();
        async move {
            let Ok(answer) = timeout(patience, answered).await else {
                shared.close();
                return Err(Lost);
            };
            let mut answer = answer.map_err(|_| Lost)?;
            let header = ResponseHeader::decode(&mut answer, A::header_version(version)).map_err(|_| Lost)?;
            assert_eq!(header.correlation_id, correlation, "answers come in order");
            Ok(A::decode(&mut answer, version).expect("a broker's answer can be decoded"))
        }
    }
}

async fn exchange(
    stream: TcpStream,
    mut queue: mpsc::UnboundedReceiver<Bytes>,
    shared: &Shared,
) -> std::io::Result<()> {
    let (mut read, mut write) = stream.into_split();
    let writing = async {
        while let Some(frame) = queue.recv().await {
            write.write_all(&frame).await?;
        }
        Ok(())
    };
    let reading = async {
        loop {
            let length = read.read_u32().await?;
            let mut answer = vec![0; length as usize];
            read.read_exact(&mut answer).await?;
            let waiting = shared.waiting.borrow_mut().pop_front();
            if let Some((_, waiting)) = waiting {
                // Whoever gave up has closed the connection.
                let _ = waiting.send(Bytes::from(answer));
            }
        }
    };
    tokio::select! {
        result = writing => result,
        result = reading => result,
    }
}

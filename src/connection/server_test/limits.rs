//! Budgets, limits and the end of connections.

use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;

use super::*;

#[tokio::test]
async fn no_reading_beyond_the_memory_budget() {
    let limits = Limits { memory_bytes_max: 100_000, ..Limits::default() };
    let (running, mut calls) = Running::scripted(limits).await;
    let (mut first, mut second) = (running.client().await, running.client().await);
    let produce = frame(0, 3, 1, &[0; 60_000]);
    first.write_all(&produce).await.unwrap();
    let call = calls.recv().await.unwrap();
    second.write_all(&produce).await.unwrap();
    running.until(|metrics| metrics.memory_waits.load(Relaxed) == 1).await;
    assert!(calls.try_recv().is_err());
    call.reply(b"");
    assert_eq!(answer(&mut first).await.0, 1);
    calls.recv().await.unwrap().reply(b"");
    assert_eq!(answer(&mut second).await.0, 1);
}

#[tokio::test]
async fn a_long_poll_keeps_little_of_the_budget() {
    let limits = Limits { memory_bytes_max: 300_000, ..Limits::default() };
    let (running, mut calls) = Running::scripted(limits).await;
    let mut client = running.client().await;
    let mut waiting = Vec::new();
    for round in 0..20 {
        client.write_all(&frame(1, 4, round, &[0; 900])).await.unwrap();
        waiting.push(calls.recv().await.unwrap());
    }
    assert_eq!(running.server.metrics().memory_waits.load(Relaxed), 0);
}

#[tokio::test]
async fn a_frame_that_is_announced_and_does_not_come_takes_little_more_than_its_bytes() {
    let limits = Limits { memory_bytes_max: 100_000, ..Limits::default() };
    let (running, mut calls) = Running::scripted(limits).await;
    let announced = frame(3, 0, 1, &[0; 5_000]);
    let mut silent = Vec::new();
    for _ in 0..4 {
        let mut client = running.client().await;
        client.write_all(&announced[..12]).await.unwrap();
        silent.push(client);
    }
    running.until(|metrics| metrics.connections_accepted.load(Relaxed) == 4).await;
    let mut good = running.client().await;
    for round in 0..10 {
        good.write_all(&metadata(round)).await.unwrap();
        calls.recv().await.unwrap().reply(b"");
        assert_eq!(answer(&mut good).await.0, round);
    }
    assert_eq!(running.server.metrics().memory_waits.load(Relaxed), 0);
    silent[0].write_all(&announced[12..]).await.unwrap();
    calls.recv().await.unwrap().reply(b"");
    assert_eq!(answer(&mut silent[0]).await.0, 1);
}

#[tokio::test]
async fn a_large_request_that_waits_keeps_little_of_the_budget() {
    let limits = Limits { memory_bytes_max: 1_000_000, ..Limits::default() };
    let (running, mut calls) = Running::scripted(limits).await;
    let (mut joining, mut good) = (running.client().await, running.client().await);
    joining.write_all(&frame(11, 2, 1, &[0; 100_000])).await.unwrap();
    let join = calls.recv().await.unwrap();
    good.write_all(&frame(0, 3, 2, &[0; 500_000])).await.unwrap();
    calls.recv().await.unwrap().reply(b"");
    assert_eq!(answer(&mut good).await.0, 2);
    join.reply(b"");
    assert_eq!(answer(&mut joining).await.0, 1);
    assert_eq!(running.server.metrics().memory_waits.load(Relaxed), 0);
}

/// Starts no request but Produce until told.
struct Gate(mpsc::UnboundedSender<ApiKey>, Arc<tokio::sync::Semaphore>);

#[async_trait]
impl Router for Gate {
    async fn start(&self, _: &Arc<Peer>, request: Request) -> Pending {
        self.0.send(request.api).unwrap();
        if request.api != ApiKey::Produce {
            self.1.acquire().await.unwrap().forget();
        }
        Box::pin(std::future::ready(Outcome::Reply(Segments::new())))
    }
}

#[tokio::test]
async fn one_is_decoded_after_the_other_where_all_would_be_too_much_and_records_pass_them_by() {
    let (started, mut starts) = mpsc::unbounded_channel();
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let limits = Limits { memory_bytes_max: 200_000, ..Limits::default() };
    let running = Running::new(Gate(started, gate.clone()), limits).await;
    let mut decoded = Vec::new();
    for round in 0..3 {
        let mut client = running.client().await;
        client.write_all(&frame(3, 0, round, &[0; 5_000])).await.unwrap();
        decoded.push(client);
    }
    assert_eq!(starts.recv().await.unwrap(), ApiKey::Metadata);
    running.until(|metrics| metrics.requests(ApiKey::Metadata) == 3).await;
    let mut records = running.client().await;
    records.write_all(&frame(0, 3, 7, &[0; 60_000])).await.unwrap();
    assert_eq!(answer(&mut records).await.0, 7);
    assert_eq!(starts.recv().await.unwrap(), ApiKey::Produce);
    for _ in 0..2 {
        assert!(starts.try_recv().is_err(), "the first still decodes");
        gate.add_permits(1);
        assert_eq!(starts.recv().await.unwrap(), ApiKey::Metadata);
    }
    gate.add_permits(1);
    for client in &mut decoded {
        answer(client).await;
    }
}

/// Memory is given to a frame while its connection is not to be read from, or not any more: it passes on.
async fn memory_goes_on_from_a_connection_that(first_ends: Outcome, frame_is_started: bool) {
    let hour = Duration::from_secs(3600);
    let slow = Limits { drain_max: hour, slow_after: hour, write_stall_max: hour, ..Limits::default() };
    let (running, mut calls) = Running::scripted(Limits { memory_bytes_max: 100_000, ..slow }).await;
    let (mut before, mut client, mut behind) = (running.client().await, running.client().await, running.client().await);
    let produce = frame(0, 3, 2, &[0; 60_000]);
    let waiting = |count| running.until(move |metrics| metrics.memory_waits.load(Relaxed) == count);
    client.write_all(&[metadata(0), metadata(1), metadata(2)].concat()).await.unwrap();
    let (unread, first) = (calls.recv().await.unwrap(), calls.recv().await.unwrap());
    let mut last = calls.recv().await.unwrap();
    before.write_all(&produce).await.unwrap();
    let held = calls.recv().await.unwrap();
    client.write_all(&[produce.clone(), metadata(3)].concat()).await.unwrap();
    waiting(1).await;
    behind.write_all(&produce).await.unwrap();
    waiting(2).await;
    // The connection lives on while this has not been taken.
    unread.end.send(Outcome::Reply(Bytes::from(vec![0; 64 << 20]).into())).unwrap();
    first.end.send(first_ends).unwrap();
    running.until(|metrics| metrics.bytes_out.load(Relaxed) > 0).await;
    if !frame_is_started {
        last.end.closed().await;
    }
    held.reply(b"");
    if frame_is_started {
        calls.recv().await.unwrap().reply(b"");
    }
    calls.recv().await.unwrap().reply(b"");
    assert_eq!(answer(&mut behind).await.0, 2);
    for _ in 0..100 {
        tokio::task::yield_now().await;
        assert!(calls.try_recv().is_err(), "what came behind is not started");
    }
}

#[tokio::test]
async fn a_throttled_connection_begins_no_request_and_holds_up_nobody() {
    let throttled = Outcome::Throttled(Some(Segments::new()), Duration::from_secs(3600));
    memory_goes_on_from_a_connection_that(throttled, true).await;
}

#[tokio::test]
async fn a_connection_that_is_to_be_closed_holds_up_nobody() {
    memory_goes_on_from_a_connection_that(Outcome::Close("enough".into()), false).await;
}

#[tokio::test]
async fn an_answer_that_waits_behind_a_long_poll_keeps_nothing_of_the_budget() {
    let limits = Limits { memory_bytes_max: 100_000, ..Limits::default() };
    let (running, mut calls) = Running::scripted(limits).await;
    let mut client = running.client().await;
    client.write_all(&frame(1, 4, 0, b"")).await.unwrap();
    let poll = calls.recv().await.unwrap();
    for round in 1..=10 {
        client.write_all(&frame(0, 3, round, &[0; 60_000])).await.unwrap();
        calls.recv().await.unwrap().reply(b"");
    }
    poll.reply(b"");
    for round in 0..=10 {
        assert_eq!(answer(&mut client).await.0, round);
    }
}

#[tokio::test]
async fn a_connection_starts_no_more_than_its_pipeline() {
    let limits = Limits { pipeline_max: 3, ..Limits::default() };
    let (running, mut calls) = Running::scripted(limits).await;
    let mut client = running.client().await;
    for round in 0..10 {
        client.write_all(&metadata(round)).await.unwrap();
    }
    let mut started = std::collections::VecDeque::new();
    for _ in 0..3 {
        started.push_back(calls.recv().await.unwrap());
    }
    for round in 0..10 {
        assert!(calls.try_recv().is_err());
        started.pop_front().unwrap().reply(b"");
        assert_eq!(answer(&mut client).await.0, round);
        if round < 7 {
            started.push_back(calls.recv().await.unwrap());
        }
    }
}

#[tokio::test]
async fn requests_whose_answers_nobody_asked_memory_for_are_eight_at_once() {
    let limits = Limits { pipeline_max: 16, ..Limits::default() };
    let (running, mut calls) = Running::scripted(limits).await;
    let mut client = running.client().await;
    let all: Vec<Bytes> = (0..9).map(metadata).chain((9..25).map(|round| frame(1, 4, round, b""))).collect();
    client.write_all(&all.concat()).await.unwrap();
    let mut started = std::collections::VecDeque::new();
    for _ in 0..8 {
        started.push_back(calls.recv().await.unwrap());
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
        assert!(calls.try_recv().is_err());
    }
    started.drain(..).for_each(|call| call.reply(b""));
    for round in 0..8 {
        assert_eq!(answer(&mut client).await.0, round);
    }
    calls.recv().await.unwrap().reply(b"");
    for round in 9..25 {
        started.push_back(calls.recv().await.unwrap());
        assert_eq!(started.back().unwrap().request.correlation_id, round);
    }
    started.drain(..).for_each(|call| call.reply(b""));
    for round in 8..25 {
        assert_eq!(answer(&mut client).await.0, round);
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_but_not_one_with_a_request_in_progress() {
    let limits = Limits { idle_max: Duration::from_millis(5), ..Limits::default() };
    let (running, mut calls) = Running::scripted(limits).await;
    let (mut idle, mut busy) = (running.client().await, running.client().await);
    busy.write_all(&metadata(1)).await.unwrap();
    let call = calls.recv().await.unwrap();
    assert!(closed(&mut idle).await);
    call.reply(b"");
    assert_eq!(answer(&mut busy).await.0, 1);
    assert!(closed(&mut busy).await);
}

#[tokio::test]
async fn a_connection_above_the_limit_is_turned_away() {
    let limits = Limits { connections_max: 1, ..Limits::default() };
    let running = Running::new(Decoding, limits).await;
    let mut first = running.client().await;
    first.write_all(&metadata(1)).await.unwrap();
    assert_eq!(answer(&mut first).await.0, 1);
    assert!(closed(&mut running.client().await).await);
    assert_eq!(running.server.metrics().connections_refused.load(Relaxed), 1);
    drop(first);
    running.until(|metrics| metrics.connections_open.load(Relaxed) == 0).await;
    let mut next = running.client().await;
    next.write_all(&metadata(2)).await.unwrap();
    assert_eq!(answer(&mut next).await.0, 2);
}

#[tokio::test]
async fn a_peer_that_takes_no_answer_is_closed() {
    let limits = Limits { write_stall_max: Duration::from_millis(20), ..Limits::default() };
    let (running, mut calls) = Running::scripted(limits).await;
    let mut client = running.client().await;
    client.write_all(&metadata(1)).await.unwrap();
    let body = Segments::from(Bytes::from(vec![0; 64 << 20]));
    calls.recv().await.unwrap().end.send(Outcome::Reply(body)).unwrap();
    running.until(|metrics| metrics.connections_open.load(Relaxed) == 0).await;
    assert!(running.server.metrics().bytes_out.load(Relaxed) < 64 << 20);
}

#[tokio::test]
async fn slow_readers_are_few_and_hold_up_nobody() {
    let limits = Limits { answer_bytes_max: 4 << 20, slow_after: Duration::from_millis(20), ..Limits::default() };
    let (running, mut calls) = Running::scripted(limits).await;
    let mut silent = Vec::new();
    for round in 0..10 {
        let mut client = running.client().await;
        client.write_all(&metadata(round)).await.unwrap();
        // Each counts as a quarter of the budget: four are written at once, two may be slow.
        let body = Segments::from(Bytes::from(vec![0; 32 << 20]));
        calls.recv().await.unwrap().end.send(Outcome::Reply(body)).unwrap();
        silent.push(client);
    }
    let mut good = running.client().await;
    good.write_all(&metadata(77)).await.unwrap();
    calls.recv().await.unwrap().reply(b"served");
    assert_eq!(answer(&mut good).await, (77, b"served".to_vec()));
    running.until(|metrics| metrics.readers_dropped.load(Relaxed) == 8).await;
    assert_eq!(running.server.metrics().connections_open.load(Relaxed), 3);
}

#[tokio::test]
async fn shutdown_answers_what_was_started() {
    let (running, mut calls) = Running::scripted(Limits::default()).await;
    let (mut busy, mut idle) = (running.client().await, running.client().await);
    busy.write_all(&metadata(1)).await.unwrap();
    let call = calls.recv().await.unwrap();
    running.stop.send(true).unwrap();
    assert!(closed(&mut idle).await);
    call.reply(b"late");
    assert_eq!(answer(&mut busy).await, (1, b"late".to_vec()));
    assert!(closed(&mut busy).await);
    running.serving.await.unwrap();
    assert_eq!(running.server.metrics().connections_open.load(Relaxed), 0);
}

#[tokio::test]
async fn an_answer_that_never_comes_does_not_hold_up_shutdown() {
    let limits = Limits { drain_max: Duration::from_millis(10), ..Limits::default() };
    let (running, mut calls) = Running::scripted(limits).await;
    let mut client = running.client().await;
    client.write_all(&metadata(1)).await.unwrap();
    let _call = calls.recv().await.unwrap();
    running.stop.send(true).unwrap();
    running.serving.await.unwrap();
    assert!(closed(&mut client).await);
}

/// Takes no connection.
struct Full;

#[async_trait]
impl Router for Full {
    async fn start(&self, _: &Arc<Peer>, _: Request) -> Pending {
        unreachable!("nothing is read")
    }

    fn connect(&self, _: IpAddr) -> Result<(), Duration> {
        Err(Duration::from_secs(3600))
    }
}

#[tokio::test]
async fn a_connection_that_is_kept_waiting_is_not_read_from_and_does_not_hold_up_shutdown() {
    let running = Running::new(Full, Limits::default()).await;
    let mut client = running.client().await;
    client.write_all(&metadata(1)).await.unwrap();
    running.until(|metrics| metrics.connections_refused.load(Relaxed) == 1).await;
    assert_eq!(running.server.metrics().connections_open.load(Relaxed), 1, "it counts while it is held");
    running.stop.send(true).unwrap();
    assert!(closed(&mut client).await);
    running.serving.await.unwrap();
    assert_eq!(running.server.metrics().connections_open.load(Relaxed), 0);
}

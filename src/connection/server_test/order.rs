//! What a client that keeps to the protocol sees.

use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use kafka_protocol::messages::ApiVersionsResponse;
use tokio::io::AsyncWriteExt;

use super::*;
use crate::protocol::decode;

#[tokio::test]
async fn answers_leave_in_request_order_though_the_second_finishes_first() {
    let (running, mut calls) = Running::scripted(Limits::default()).await;
    let mut client = running.client().await;
    client.write_all(&[metadata(1), metadata(2), metadata(3)].concat()).await.unwrap();
    let first = calls.recv().await.unwrap();
    let second = calls.recv().await.unwrap();
    let third = calls.recv().await.unwrap();
    assert_eq!(second.request.correlation_id, 2);
    assert_eq!(second.request.client_id.as_deref(), Some("test"));
    third.reply(b"third");
    second.reply(b"second");
    first.reply(b"first");
    assert_eq!(answer(&mut client).await, (1, b"first".to_vec()));
    assert_eq!(answer(&mut client).await, (2, b"second".to_vec()));
    assert_eq!(answer(&mut client).await, (3, b"third".to_vec()));
    assert_eq!(running.server.metrics().requests(ApiKey::Metadata), 3);
    assert_eq!(running.server.metrics().bytes_out.load(Relaxed), 3 * 8 + 16);
}

#[tokio::test]
async fn flexible_answers_carry_the_flexible_header() {
    let (running, mut calls) = Running::scripted(Limits::default()).await;
    let mut client = running.client().await;
    client.write_all(&frame(3, 9, 5, b"body")).await.unwrap();
    let call = calls.recv().await.unwrap();
    assert_eq!(call.request.body, b"body".as_slice());
    call.reply(b"ok");
    assert_eq!(answer(&mut client).await, (5, b"\0ok".to_vec()));
}

#[tokio::test]
async fn a_large_answer_arrives_whole() {
    let (running, mut calls) = Running::scripted(Limits::default()).await;
    let mut client = running.client().await;
    client.write_all(&[metadata(1), metadata(2)].concat()).await.unwrap();
    let mut body = Segments::new();
    for part in 0..200u8 {
        body.share(Bytes::from(vec![part; 50_000]));
    }
    let expected = body.to_vec();
    let first = calls.recv().await.unwrap();
    calls.recv().await.unwrap().reply(b"next");
    first.end.send(Outcome::Reply(body)).unwrap();
    assert_eq!(answer(&mut client).await, (1, expected));
    assert_eq!(answer(&mut client).await, (2, b"next".to_vec()));
}

#[tokio::test]
async fn api_versions_is_answered_here() {
    let running = Running::new(Decoding, Limits::default()).await;
    let mut client = running.client().await;
    // Version 3: two compact strings and no tagged fields.
    client.write_all(&frame(18, 3, 7, b"\x05test\x041.0\0")).await.unwrap();
    let (correlation_id, body) = answer(&mut client).await;
    let response: ApiVersionsResponse = decode(3, Bytes::from(body)).unwrap();
    assert_eq!((correlation_id, response.error_code), (7, 0));
    assert!(response.api_keys.iter().any(|api| api.api_key == 0 && api.min_version == 0));
}

#[tokio::test]
async fn a_client_that_says_what_it_is_in_other_words_is_told_so_and_may_ask_again() {
    let running = Running::new(Decoding, Limits::default()).await;
    let mut client = running.client().await;
    for (version, body, code) in [(3, b"\x01\x041.0\0", 42), (4, b"\x01\x041.0\0", 42)] {
        client.write_all(&frame(18, version, 7, body)).await.unwrap();
        let response: ApiVersionsResponse = decode(version, Bytes::from(answer(&mut client).await.1)).unwrap();
        assert_eq!((response.error_code, response.api_keys.len()), (code, 0));
    }
    client.write_all(&frame(18, 3, 8, b"\x05test\x041.0\0")).await.unwrap();
    let response: ApiVersionsResponse = decode(3, Bytes::from(answer(&mut client).await.1)).unwrap();
    assert_eq!(response.error_code, 0);
}

#[tokio::test]
async fn an_api_versions_from_the_future_is_answered_in_version_zero() {
    let running = Running::new(Decoding, Limits::default()).await;
    let mut client = running.client().await;
    client.write_all(&frame(18, 99, 7, b"whatever this version holds")).await.unwrap();
    let (correlation_id, body) = answer(&mut client).await;
    let response: ApiVersionsResponse = decode(0, Bytes::from(body)).unwrap();
    assert_eq!((correlation_id, response.error_code), (7, 35));
    client.write_all(&frame(18, 0, 8, b"")).await.unwrap();
    assert_eq!(answer(&mut client).await.0, 8);
}

#[tokio::test]
async fn a_request_without_answer_leaves_no_gap() {
    let (running, mut calls) = Running::scripted(Limits::default()).await;
    let mut client = running.client().await;
    client.write_all(&[metadata(1), metadata(2)].concat()).await.unwrap();
    let _ = calls.recv().await.unwrap().end.send(Outcome::NoReply);
    calls.recv().await.unwrap().reply(b"");
    assert_eq!(answer(&mut client).await.0, 2);
}

#[tokio::test]
async fn close_comes_after_the_answers_before_it() {
    let (running, mut calls) = Running::scripted(Limits::default()).await;
    let mut client = running.client().await;
    client.write_all(&[metadata(1), metadata(2)].concat()).await.unwrap();
    let first = calls.recv().await.unwrap();
    let _ = calls.recv().await.unwrap().end.send(Outcome::Close("enough".into()));
    first.reply(b"");
    assert_eq!(answer(&mut client).await.0, 1);
    assert!(closed(&mut client).await);
}

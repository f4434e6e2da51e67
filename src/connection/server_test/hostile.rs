//! What a client that does not keep to the protocol can do: nothing to others.

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

#[tokio::test]
async fn a_hostile_frame_closes_its_connection_and_no_other() {
    let running = Running::new(Decoding, Limits::default()).await;
    let mut good = running.client().await;
    let mut random = StdRng::seed_from_u64(11);
    let oversized = |key: i16, length: i32| {
        let mut frame = length.to_be_bytes().to_vec();
        frame.extend_from_slice(&[key.to_be_bytes(), 9i16.to_be_bytes(), [0, 0], [0, 1]].concat());
        Bytes::from(frame)
    };
    let mut hostile = vec![
        Bytes::from((-1i32).to_be_bytes().to_vec()),
        Bytes::from(0i32.to_be_bytes().to_vec()),
        oversized(3, CONTROL_FRAME_BYTES_MAX as i32 + 1),
        oversized(0, Limits::default().request_bytes_max as i32 + 1),
        oversized(0, i32::MAX),
        frame(3, 99, 1, b""),
        frame(0, 2, 1, b""),
        frame(77, 0, 1, b""),
        frame(17, 0, 1, b""),
        frame(-1, 0, 1, b""),
        // A client id longer than the frame.
        Bytes::from_static(b"\0\0\0\x0a\0\x03\0\0\0\0\0\x01\x7f\xff"),
        // Arrays of 2^31 - 1 and 2^32 - 2 elements.
        frame(3, 1, 1, &[0x7f, 0xff, 0xff, 0xff]),
        frame(3, 9, 1, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        frame(0, 8, 1, b"\xff\xff\0\x01\0\0\0\0\x7f\xff\xff\xff"),
        frame(0, 13, 1, b"\0\0\x01\0\0\0\0\xff\xff\xff\xff\x0f"),
        Bytes::from_static(b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n"),
        Bytes::from_static(b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03 a TLS hello goes on"),
    ];
    for _ in 0..200 {
        let mut noise = vec![0; random.random_range(12..300)];
        random.fill_bytes(&mut noise);
        noise[0] |= 0x80;
        hostile.push(Bytes::from(noise));
    }
    for (round, bytes) in (0..).zip(hostile) {
        let mut client = running.client().await;
        client.write_all(&bytes).await.unwrap();
        assert!(closed(&mut client).await, "{round}: {bytes:?}");
        good.write_all(&metadata(round)).await.unwrap();
        assert_eq!(answer(&mut good).await.0, round);
    }
}

#[tokio::test]
async fn random_frames_never_stop_the_others() {
    let running = Running::new(Decoding, Limits::default()).await;
    let mut random = StdRng::seed_from_u64(12);
    for round in 0..500 {
        let mut client = running.client().await;
        let mut body = vec![0; random.random_range(0..200)];
        random.fill_bytes(&mut body);
        let key = [0, 1, 2, 3, 18, 19, 22][random.random_range(0..7)];
        let bytes = frame(key, random.random_range(0..14), round, &body);
        client.write_all(&bytes[..random.random_range(0..=bytes.len())]).await.unwrap();
        client.shutdown().await.unwrap();
        client.read_to_end(&mut Vec::new()).await.ok();
    }
    let mut good = running.client().await;
    good.write_all(&metadata(1)).await.unwrap();
    assert_eq!(answer(&mut good).await.0, 1);
}

//! Version 2 of ShareFetch and ShareAcknowledge, which the generated codec does not have: version 1 and a few bytes more.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchRequest};

use super::reader::Reader;
use super::{Error, decode, encode};
use crate::batch::Segments;

/// The first version in which members renew their locks (KIP-1222), and ask for exactly so many records (KIP-1206), which
/// here they always get.
const RENEWS_SINCE: i16 = 2;
const VERSION: i16 = 1;
/// Epoch of the session, longest wait, least and most bytes, most records, size of batches.
const FETCH_NUMBERS_BYTES: usize = 6 * 4;
const EPOCH_BYTES: usize = 4;
/// Throttle time, error code, and no error message.
const ANSWER_FRONT_BYTES: usize = 4 + 2 + 1;

/// The request, and whether some of its acknowledgements renew.
///
/// # Errors
/// The bytes do not follow the schema.
pub fn share_fetch(version: i16, body: Bytes) -> Result<(ShareFetchRequest, bool), Error> {
    if version < RENEWS_SINCE {
        return Ok((decode(version, body)?, false));
    }
    let (front, mut rest) = after_names(body, FETCH_NUMBERS_BYTES)?;
    rest.skip(1, "acquire mode")?;
    let renews = rest.take(1, "whether locks are renewed")?[0] != 0;
    Ok((decode(VERSION, joined(&front, &rest.rest()))?, renews))
}

/// Likewise.
///
/// # Errors
/// The bytes do not follow the schema.
pub fn share_acknowledge(version: i16, body: Bytes) -> Result<(ShareAcknowledgeRequest, bool), Error> {
    if version < RENEWS_SINCE {
        return Ok((decode(version, body)?, false));
    }
    let (front, mut rest) = after_names(body, EPOCH_BYTES)?;
    let renews = rest.take(1, "whether locks are renewed")?[0] != 0;
    Ok((decode(VERSION, joined(&front, &rest.rest()))?, renews))
}

/// `lock_ms` is how long records are held from now on, which version 2 says.
///
/// # Errors
/// As [`encode`]; an answer with an error message.
pub fn share_acknowledge_answer(
    version: i16,
    answer: &ShareAcknowledgeResponse,
    lock_ms: i32,
) -> Result<Segments, Error> {
    if version < RENEWS_SINCE {
        return encode(version, answer);
    }
    if answer.error_message.is_some() {
        return Err(Error::Invalid("error message"));
    }
    let bytes = encode(VERSION, answer)?.to_vec();
    let (front, rest) = bytes.split_at(ANSWER_FRONT_BYTES);
    let mut out = BytesMut::with_capacity(bytes.len() + 4);
    out.put_slice(front);
    out.put_i32(lock_ms);
    out.put_slice(rest);
    Ok(Segments::from(out))
}

/// Up to the end of the group, the member and so many bytes more; and what comes after that.
fn after_names(body: Bytes, bytes: usize) -> Result<(Bytes, Reader), Error> {
    let mut reader = Reader::new(body.clone());
    reader.nullable_bytes(true, "group")?;
    reader.nullable_bytes(true, "member")?;
    reader.skip(bytes, "numbers")?;
    let rest = reader.rest();
    let front = body.slice(..body.len() - rest.len());
    Ok((front, Reader::new(rest)))
}

fn joined(front: &[u8], rest: &[u8]) -> Bytes {
    [front, rest].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::StrBytes;

    #[test]
    fn version_2_is_version_1_with_a_few_bytes_in_between() {
        let fetch = ShareFetchRequest::default()
            .with_group_id(Some(StrBytes::from_static_str("g").into()))
            .with_member_id(Some(StrBytes::from_static_str("member")))
            .with_share_session_epoch(7)
            .with_max_records(500);
        let v1 = encode(1, &fetch).unwrap().to_vec();
        let cut = 2 + 7 + FETCH_NUMBERS_BYTES;
        for renews in [false, true] {
            let v2: Bytes = [&v1[..cut], &[1, renews.into()], &v1[cut..]].concat().into();
            assert_eq!(share_fetch(2, v2.clone()).unwrap(), (fetch.clone(), renews));
            for end in 0..v2.len() {
                assert!(share_fetch(2, v2.slice(..end)).is_err(), "cut at {end}");
            }
        }
        assert_eq!(share_fetch(1, v1.into()).unwrap(), (fetch, false));

        let said = ShareAcknowledgeRequest::default().with_member_id(Some(StrBytes::from_static_str("member")));
        let v1 = encode(1, &said).unwrap().to_vec();
        let cut = 1 + 7 + EPOCH_BYTES;
        let v2: Bytes = [&v1[..cut], &[1], &v1[cut..]].concat().into();
        assert_eq!(share_acknowledge(2, v2).unwrap(), (said.clone(), true));
        assert_eq!(share_acknowledge(1, v1.into()).unwrap(), (said, false));
    }

    #[test]
    fn an_answer_of_version_2_says_how_long_locks_last() {
        let answer = ShareAcknowledgeResponse::default().with_error_code(5);
        let v1 = share_acknowledge_answer(1, &answer, 9).unwrap().to_vec();
        let v2 = share_acknowledge_answer(2, &answer, 9).unwrap().to_vec();
        assert_eq!(v2, [&v1[..7], &[0, 0, 0, 9], &v1[7..]].concat());
        assert_eq!(v1[..7], [0, 0, 0, 0, 0, 5, 0]);
    }
}

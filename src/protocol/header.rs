use bytes::{BufMut, Bytes, BytesMut};

use super::reader::Reader;
use super::{ApiKey, Error, StrBytes};

/// Bytes of [`Front`].
pub const FRONT_BYTES: usize = 8;

/// The first fields of every request, in every header version. Enough to decide what a frame may cost
/// before its body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Front {
    pub api_key: i16,
    pub version: i16,
    pub correlation_id: i32,
}

impl Front {
    pub fn parse(bytes: [u8; FRONT_BYTES]) -> Front {
        let [k0, k1, v0, v1, c0, c1, c2, c3] = bytes;
        Front {
            api_key: i16::from_be_bytes([k0, k1]),
            version: i16::from_be_bytes([v0, v1]),
            correlation_id: i32::from_be_bytes([c0, c1, c2, c3]),
        }
    }
}

/// The header of a request, and the bytes of its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeader {
    pub client_id: Option<StrBytes>,
    pub body: Bytes,
}

impl RequestHeader {
    /// Parses `frame` (from the API key on), whose API and version are known to be served.
    ///
    /// # Errors
    /// The frame is cut or a field is invalid: the connection is to be closed.
    pub fn parse(api: ApiKey, version: i16, frame: Bytes) -> Result<RequestHeader, Error> {
        let mut reader = Reader::new(frame);
        reader.skip(FRONT_BYTES, "request header")?;
        // The client id kept its old encoding when headers became flexible (KIP-482).
        let client_id = reader.nullable_string("client id")?;
        if api.request_header_version(version) >= 2 {
            reader.tagged_fields()?;
        }
        Ok(RequestHeader { client_id, body: reader.rest() })
    }
}

/// Size prefix and response header of an answer whose body has `body_bytes`.
///
/// # Errors
/// `TooMany` for an answer that no size prefix can count.
pub fn response_header(api: ApiKey, version: i16, correlation_id: i32, body_bytes: usize) -> Result<BytesMut, Error> {
    let flexible = api.response_header_version(version) >= 1;
    let size = 4 + usize::from(flexible) + body_bytes;
    let size = i32::try_from(size).map_err(|_| Error::TooMany {
        what: "bytes of an answer",
        count: size,
        max: i32::MAX as usize,
    })?;
    let mut head = BytesMut::with_capacity(9);
    head.put_i32(size);
    head.put_i32(correlation_id);
    if flexible {
        head.put_u8(0);
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::RequestHeader as Generated;
    use kafka_protocol::protocol::Encodable;
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::APIS;

    #[test]
    fn agrees_with_the_generated_codec_for_every_api_and_version() {
        for api in APIS {
            for version in api.min..=api.max {
                for client_id in [None, Some(StrBytes::from_static_str("a client"))] {
                    let mut frame = BytesMut::new();
                    Generated::default()
                        .with_request_api_key(api.key as i16)
                        .with_request_api_version(version)
                        .with_correlation_id(-7)
                        .with_client_id(client_id.clone())
                        .encode(&mut frame, api.key.request_header_version(version))
                        .unwrap();
                    frame.put_slice(b"body");
                    let front = Front::parse(frame[..FRONT_BYTES].try_into().unwrap());
                    assert_eq!(front, Front { api_key: api.key as i16, version, correlation_id: -7 });
                    let header = RequestHeader::parse(api.key, version, frame.freeze()).unwrap();
                    assert_eq!(header, RequestHeader { client_id, body: Bytes::from_static(b"body") });
                }
            }
        }
    }

    #[test]
    fn api_versions_is_answered_with_the_oldest_header() {
        assert_eq!(&response_header(ApiKey::ApiVersions, 4, 9, 6).unwrap()[..], [0, 0, 0, 10, 0, 0, 0, 9]);
        assert_eq!(&response_header(ApiKey::Metadata, 8, 9, 6).unwrap()[..], [0, 0, 0, 10, 0, 0, 0, 9]);
        assert_eq!(&response_header(ApiKey::Metadata, 9, 9, 6).unwrap()[..], [0, 0, 0, 11, 0, 0, 0, 9, 0]);
    }

    proptest! {
        #[test]
        fn short_and_random_frames_are_answered(
            bytes in proptest::collection::vec(any::<u8>(), 0..64), version in 0i16..14,
        ) {
            for api in APIS {
                let _ = RequestHeader::parse(api.key, version, Bytes::from(bytes.clone()));
            }
        }
    }
}

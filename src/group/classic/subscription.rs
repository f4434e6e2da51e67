use std::collections::BTreeSet;

/// What consumers call their protocol.
pub(super) const CONSUMER: &str = "consumer";

/// The topics of a consumer's metadata: version, then an array of names, in every version of it (Kafka:
/// `ConsumerProtocolSubscription`). `None` for bytes that are something else.
pub(super) fn topics(metadata: &[u8]) -> Option<BTreeSet<String>> {
    let (_version, rest) = metadata.split_first_chunk::<2>()?;
    let (count, mut rest) = rest.split_first_chunk::<4>()?;
    let mut topics = BTreeSet::new();
    for _ in 0..i32::from_be_bytes(*count) {
        let (len, after) = rest.split_first_chunk::<2>()?;
        let len = usize::try_from(i16::from_be_bytes(*len)).ok()?;
        let (name, after) = after.split_at_checked(len)?;
        topics.insert(String::from_utf8(name.to_vec()).ok()?);
        rest = after;
    }
    Some(topics)
}

#[cfg(test)]
pub(super) fn subscription(topics: &[&str]) -> bytes::Bytes {
    let mut bytes = vec![0, 3];
    bytes.extend((topics.len() as i32).to_be_bytes());
    for topic in topics {
        bytes.extend((topic.len() as i16).to_be_bytes());
        bytes.extend(topic.as_bytes());
    }
    bytes.extend([255, 255, 255, 255]);
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_read_and_other_bytes_are_not() {
        assert_eq!(topics(&subscription(&["a", "bc"])), Some(BTreeSet::from(["a".into(), "bc".into()])));
        assert_eq!(topics(&subscription(&[])), Some(BTreeSet::new()));
        let whole = subscription(&["topic"]);
        assert!((0..whole.len() - 4).all(|cut| topics(&whole[..cut]).is_none()));
        assert_eq!(topics(&[0, 0, 127, 255, 255, 255]), None);
        assert_eq!(topics(&[0, 0, 0, 0, 0, 1, 255, 255]), None);
    }
}

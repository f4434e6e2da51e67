use crate::zone::Zones;

/// Ours first, then those that clients of comparable systems carry already.
const KEYS: [&str; 5] = ["zone=", "diskless_az=", "ws_az=", "warpstream_az=", "automq_az="];

/// Nothing longer is read as a zone.
const ZONE_NAME_BYTES_MAX: usize = 256;

/// What ends a part of a client id in any case.
fn is_separator(c: char) -> bool {
    matches!(c, '&' | ',' | ' ' | '|' | ';')
}

/// What the tokens of a client id name, from left to right: `None` for one that names no zone of this cluster.
pub(super) fn named<'a, 'k: 'a>(
    client_id: &'a str,
    zones: &'a Zones,
    known: &'a [&'k str],
) -> impl Iterator<Item = Option<&'k str>> + 'a {
    let mut from = 0;
    std::iter::from_fn(move || {
        let value = end_of_next_key(client_id, from)?;
        let (len, zone) = read_zone(&client_id[value..], zones, known);
        from = value + len;
        Some(zone)
    })
}

/// A client id without its tokens, and without what held them to the rest.
pub(super) fn without(client_id: &str, zones: &Zones, known: &[&str]) -> String {
    let mut kept = String::with_capacity(client_id.len());
    let mut from = 0;
    while let Some(value) = end_of_next_key(client_id, from) {
        let key = KEYS.iter().find(|key| client_id[from..value].ends_with(*key)).map_or(0, |key| key.len());
        let (len, _) = read_zone(&client_id[value..], zones, known);
        let before = client_id[from..value - key].trim_end_matches(is_separator);
        let after = value + len;
        kept.push_str(before);
        // What was between two parts on either side is between them still; nothing stands before the first.
        let rest = client_id[after..].trim_start_matches(is_separator);
        from = if kept.is_empty() { client_id.len() - rest.len() } else { after };
    }
    kept.push_str(&client_id[from..]);
    kept
}

/// Where the value of the next key begins. A key is a whole word: `timezone=` has none.
fn end_of_next_key(client_id: &str, from: usize) -> Option<usize> {
    let equals = client_id[from..].match_indices('=').map(|(at, _)| from + at);
    let ending_at = |equals: usize| {
        let key = KEYS.iter().find(|key| client_id[from..=equals].ends_with(*key))?;
        let start = equals + 1 - key.len();
        let whole = client_id[..start].chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '_');
        whole.then_some(equals + 1)
    };
    equals.filter_map(ending_at).next()
}

/// Tools append to client ids, and with the characters that zone names are made of. So the zone is the longest name we
/// know that `text` begins with and that ends where a word ends.
fn read_zone<'k>(text: &str, zones: &Zones, known: &[&'k str]) -> (usize, Option<&'k str>) {
    let ends = text.char_indices().filter(|(_, c)| !c.is_alphanumeric()).map(|(at, _)| at).chain([text.len()]);
    let ends = ends.take_while(|end| *end <= ZONE_NAME_BYTES_MAX);
    let named = ends.filter_map(|end| Some((end, zones.resolve(&text[..end], known)?))).last();
    match named {
        Some((len, zone)) => (len, Some(zone)),
        None => (text.find(is_separator).unwrap_or(text.len()), None),
    }
}

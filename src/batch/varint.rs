//! Zig-zag varints as Kafka's records use them (LEB128, least significant group first).

/// Takes a varint of at most five bytes off the front.
pub(super) fn get_i32(bytes: &mut &[u8]) -> Option<i32> {
    let raw = u32::try_from(get(bytes, 5)?).ok()?;
    Some((raw >> 1) as i32 ^ -((raw & 1) as i32))
}

/// Takes a varlong of at most ten bytes off the front.
pub(super) fn get_i64(bytes: &mut &[u8]) -> Option<i64> {
    let raw = get(bytes, 10)?;
    Some((raw >> 1) as i64 ^ -((raw & 1) as i64))
}

fn get(bytes: &mut &[u8], bytes_max: usize) -> Option<u64> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().take(bytes_max).enumerate() {
        let group = u64::from(byte & 0x7f);
        let shift = 7 * index as u32;
        // The tenth group has room for one bit only.
        if shift == 63 && group > 1 {
            return None;
        }
        value |= group << shift;
        if byte & 0x80 == 0 {
            *bytes = &bytes[index + 1..];
            return Some(value);
        }
    }
    None
}

pub(super) fn put_i32(out: &mut Vec<u8>, value: i32) {
    put(out, u64::from(((value << 1) ^ (value >> 31)) as u32));
}

pub(super) fn put_i64(out: &mut Vec<u8>, value: i64) {
    put(out, ((value << 1) ^ (value >> 63)) as u64);
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_survives_a_round_trip() {
        for shift in 0..64 {
            for value in [1i64 << shift, -(1i64 << (shift % 63)), (1i64 << shift).wrapping_sub(1)] {
                let mut out = Vec::new();
                put_i64(&mut out, value);
                let mut rest = out.as_slice();
                assert_eq!(get_i64(&mut rest), Some(value));
                assert!(rest.is_empty());
                out.clear();
                put_i32(&mut out, value as i32);
                assert_eq!(get_i32(&mut out.as_slice()), Some(value as i32));
            }
        }
    }

    #[test]
    fn refuses_what_is_cut_or_too_long() {
        assert_eq!(get_i32(&mut [].as_slice()), None);
        assert_eq!(get_i32(&mut [0x80, 0x80].as_slice()), None);
        assert_eq!(get_i32(&mut [0xff; 6].as_slice()), None);
        assert_eq!(get_i32(&mut [0xff, 0xff, 0xff, 0xff, 0x7f].as_slice()), None);
        assert_eq!(get_i64(&mut [0xff; 11].as_slice()), None);
        let mut too_wide = [0xffu8; 10];
        too_wide[9] = 0x02;
        assert_eq!(get_i64(&mut too_wide.as_slice()), None);
    }
}

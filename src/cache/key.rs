use std::io::{Read, Write};

use bytes::BufMut;

use crate::object::Name;
use crate::types::ObjectId;
use crate::types::varint::{self, Malformed, Reader};

/// The longest packed name and part number: five numbers of ten bytes and a kind.
const PACKED_BYTES_MAX: usize = 64;

/// One part of one object, in memory and on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PartKey {
    pub name: Name,
    pub part: u64,
}

const WRITE_AHEAD: u8 = 0;
const DATA: u8 = 1;
const SNAPSHOT: u8 = 2;

pub(super) fn put_name(out: &mut impl BufMut, name: &Name) {
    match name {
        Name::WriteAhead(object) => {
            let (broker, epoch, sequence, attempt) = object.packed();
            out.put_u8(WRITE_AHEAD);
            varint::put_signed(out, broker.into());
            varint::put(out, epoch);
            varint::put(out, sequence);
            varint::put(out, attempt.into());
        }
        Name::Data { shard, job, unique } => {
            out.put_u8(DATA);
            varint::put(out, (*shard).into());
            varint::put(out, *job);
            varint::put(out, *unique);
        }
        Name::Snapshot { shard, log_index, unique } => {
            out.put_u8(SNAPSHOT);
            varint::put(out, (*shard).into());
            varint::put(out, *log_index);
            varint::put(out, *unique);
        }
    }
}

pub(super) fn read_name(r: &mut Reader) -> Result<Name, Malformed> {
    Ok(match r.byte()? {
        WRITE_AHEAD => {
            let broker = r.signed()?.try_into().map_err(|_| Malformed)?;
            Name::WriteAhead(ObjectId::unpacked((broker, r.u64()?, r.u64()?, r.int()?)))
        }
        DATA => Name::Data { shard: r.int()?, job: r.u64()?, unique: r.u64()? },
        SNAPSHOT => Name::Snapshot { shard: r.int()?, log_index: r.u64()?, unique: r.u64()? },
        _ => return Err(Malformed),
    })
}

impl PartKey {
    fn packed(&self) -> Vec<u8> {
        let mut packed = Vec::with_capacity(PACKED_BYTES_MAX);
        put_name(&mut packed, &self.name);
        varint::put(&mut packed, self.part);
        packed
    }
}

/// On disk: a length byte, then the packed name and part number.
impl foyer::Code for PartKey {
    fn encode(&self, writer: &mut impl Write) -> foyer::Result<()> {
        let packed = self.packed();
        writer.write_all(&[packed.len() as u8]).map_err(foyer::Error::io_error)?;
        writer.write_all(&packed).map_err(foyer::Error::io_error)
    }

    fn decode(reader: &mut impl Read) -> foyer::Result<Self> {
        let malformed = |_| foyer::Error::new(foyer::ErrorKind::Parse, "the name of a part is malformed");
        let (mut len, mut packed) = ([0; 1], [0; PACKED_BYTES_MAX]);
        reader.read_exact(&mut len).map_err(foyer::Error::io_error)?;
        let packed = packed.get_mut(..len[0].into()).ok_or(Malformed).map_err(malformed)?;
        reader.read_exact(packed).map_err(foyer::Error::io_error)?;
        let mut r = Reader::new(packed);
        let name = read_name(&mut r).map_err(malformed)?;
        let part = r.u64().map_err(malformed)?;
        r.finish().map_err(malformed)?;
        Ok(PartKey { name, part })
    }

    fn estimated_size(&self) -> usize {
        1 + self.packed().len()
    }
}

#[cfg(test)]
mod tests {
    use foyer::Code;

    use super::*;
    use crate::types::{ATTEMPT_MAX, StorageClass};

    #[test]
    fn keys_read_back_as_written() {
        let object = ObjectId {
            broker: i32::MIN,
            epoch: u64::MAX,
            sequence: u64::MAX,
            attempt: ATTEMPT_MAX,
            class: StorageClass::Zonal,
        };
        let names = [
            Name::WriteAhead(object),
            Name::Data { shard: u32::MAX, job: u64::MAX, unique: 0 },
            Name::Snapshot { shard: 0, log_index: 7, unique: u64::MAX },
        ];
        for (name, part) in names.into_iter().zip([u64::MAX, 0, 1]) {
            let key = PartKey { name, part };
            let mut written = Vec::new();
            key.encode(&mut written).unwrap();
            assert_eq!(written.len(), key.estimated_size());
            assert_eq!(PartKey::decode(&mut &written[..]).unwrap(), key);
            for cut in 0..written.len() {
                assert!(PartKey::decode(&mut &written[..cut]).is_err());
            }
        }
        assert!(PartKey::decode(&mut &[255; 300][..]).is_err());
    }
}

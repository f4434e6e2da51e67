use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use anyhow::bail;
use bytes::Bytes;

use crate::batch::{Rules, validate};
use crate::cluster::RootState;
use crate::object::{self, CopyState, Key, Paths, Store};
use crate::shard::{BatchPointer, CONTROL_BATCH_BYTES, PartitionState, State, invariants};
use crate::types::{BrokerId, ObjectId, ShardId};

/// Faults printed one by one; the rest is only counted.
const FAULTS_PRINTED_MAX: usize = 100;

/// Collects what is wrong. Objects are read once and pointers checked once, however many replicas have them.
pub(super) struct Checker {
    store: Arc<dyn Store>,
    paths: Paths,
    /// Names every object that lacks a copy.
    print_copies: bool,
    /// Objects by how many copies they have, where each zone has a bucket.
    copies: BTreeMap<usize, u64>,
    counted: HashSet<ObjectId>,
    /// The last object read: pointers of one object follow each other.
    object: Option<(ObjectId, Result<Bytes, String>)>,
    checked: HashMap<(ShardId, u32, i64), BatchPointer>,
    faults: Vec<String>,
    partitions: u64,
    records: u64,
    bytes: u64,
    objects: u64,
    held: u64,
}

impl Checker {
    pub fn new(store: Arc<dyn Store>, paths: Paths, print_copies: bool) -> Self {
        Checker {
            store,
            paths,
            print_copies,
            copies: BTreeMap::new(),
            counted: HashSet::new(),
            object: None,
            checked: HashMap::new(),
            faults: Vec::new(),
            partitions: 0,
            records: 0,
            bytes: 0,
            objects: 0,
            held: 0,
        }
    }

    pub fn fault(&mut self, what: String) {
        if self.faults.len() < FAULTS_PRINTED_MAX {
            eprintln!("fault: {what}");
        }
        self.faults.push(what);
    }

    /// One replica of a shard.
    pub async fn state(&mut self, shard: ShardId, broker: BrokerId, state: &State, root: &RootState) {
        if !invariants::hold(state) {
            self.fault(format!("shard {shard} at broker {broker}: an invariant of its state does not hold"));
        }
        let mut pointers = Vec::new();
        for partition in state.partitions() {
            let topic = root.topic(partition.id.topic);
            let here = topic.and_then(|t| t.placement.get(partition.id.index as usize)) == Some(&shard);
            if topic.is_some() && !here {
                self.fault(format!("shard {shard} has {:?}, which the root places elsewhere", partition.id));
            }
            self.partition(shard, partition, &mut pointers);
        }
        pointers.sort_by_key(|(_, pointer)| (pointer.object, pointer.start));
        for (name, pointer) in pointers {
            if let Err(why) = self.pointer(&pointer).await {
                self.fault(format!("shard {shard} {name} offsets {}..={}: {why}", pointer.base, pointer.last));
            }
        }
    }

    /// Notes the pointers that no other replica has shown yet; the same offset must have the same pointer everywhere.
    fn partition(&mut self, shard: ShardId, partition: &PartitionState, new: &mut Vec<(String, BatchPointer)>) {
        let name = format!("{:?}", partition.id);
        let mut first_seen = false;
        for pointer in partition.pointers.iter() {
            match self.checked.insert((shard, partition.slot, pointer.base), *pointer) {
                None => {
                    first_seen = true;
                    new.push((name.clone(), *pointer));
                }
                // A replica that is a moment behind may show a pointer that has grown since.
                Some(other) if other.object == pointer.object && other.start == pointer.start => {}
                Some(other) => self.fault(format!("shard {shard} {name}: replicas differ: {other:?}, {pointer:?}")),
            }
        }
        self.partitions += u64::from(first_seen);
        self.held += partition.producers().map(|(_, p)| p.held.len() as u64).sum::<u64>();
    }

    async fn pointer(&mut self, pointer: &BatchPointer) -> Result<(), String> {
        if pointer.control.is_some() {
            let of_size = (pointer.base, pointer.len) == (pointer.last, CONTROL_BATCH_BYTES.into());
            return if of_size { Ok(()) } else { Err("a transaction's end takes more than one offset".into()) };
        }
        let object = self.object(pointer.object).await?;
        let (start, end) = (pointer.start as usize, pointer.range().end() as usize);
        if end > object.len() {
            return Err(format!("bytes {start}..{end} lie outside of an object of {}", object.len()));
        }
        let rules = Rules { message_bytes_max: usize::MAX, ..Rules::default() };
        let batches = validate(object.slice(start..end), &rules).map_err(|e| e.to_string())?;
        let spans: i64 = batches.iter().map(|b| i64::from(b.header().last_offset_delta) + 1).sum();
        if spans != pointer.last - pointer.base + 1 {
            return Err(format!("its batches take {spans} offsets"));
        }
        let newest = batches.iter().map(|b| b.max_timestamp()).max();
        if pointer.append_time.is_none() && newest != Some(pointer.max_timestamp) {
            return Err(format!("its largest timestamp is {newest:?}, not {}", pointer.max_timestamp));
        }
        self.records += batches.iter().map(|b| b.count() as u64).sum::<u64>();
        self.bytes += pointer.len;
        Ok(())
    }

    async fn object(&mut self, id: ObjectId) -> Result<Bytes, String> {
        if let Some((read, bytes)) = &self.object
            && *read == id
        {
            return bytes.clone();
        }
        let key = self.paths.key(id);
        if self.counted.insert(id) {
            self.count_copies(&key).await;
        }
        let bytes = read_object(&*self.store, &key).await;
        self.objects += 1;
        self.object = Some((id, bytes.clone()));
        bytes
    }

    async fn count_copies(&mut self, key: &Key) {
        let copies = object::copies(&*self.store, key).await;
        if copies.is_empty() {
            return;
        }
        let present = copies.values().filter(|copy| **copy == CopyState::Present).count();
        *self.copies.entry(present).or_default() += 1;
        if self.print_copies && present < copies.len() {
            println!("{key}: {copies:?}");
        }
        for (zone, _) in copies.iter().filter(|(_, copy)| **copy == CopyState::Different) {
            self.fault(format!("{key}: its copy in {zone} differs from the others"));
        }
    }

    pub fn report(self) -> anyhow::Result<()> {
        if !self.copies.is_empty() {
            let counts = self.copies.iter().rev().map(|(copies, objects)| format!("{copies} of {objects} objects"));
            println!("copies: {}", counts.collect::<Vec<_>>().join(", "));
        }
        println!(
            "{} partitions with records, {} pointers, {} objects, {} records, {} bytes, {} held batches: {} faults",
            self.partitions,
            self.checked.len(),
            self.objects,
            self.records,
            self.bytes,
            self.held,
            self.faults.len()
        );
        match self.faults.first() {
            None => Ok(()),
            Some(first) => bail!("{} faults, the first: {first}", self.faults.len()),
        }
    }
}

/// The whole object, its index checked against its bytes.
async fn read_object(store: &dyn Store, key: &Key) -> Result<Bytes, String> {
    let bytes = store.get(key).await.map_err(|e| e.to_string())?;
    let footer = object::layout::Footer::read(&bytes, bytes.len() as u64).map_err(|e| e.to_string())?;
    for section in &footer.sections {
        let (start, end) = (section.range.start as usize, section.range.end() as usize);
        let body = bytes.get(start..end).ok_or_else(|| format!("section {section:?} lies outside of the object"))?;
        if object::crc32c(body) != section.crc32c {
            return Err(format!("section {section:?} has another checksum"));
        }
    }
    Ok(bytes)
}

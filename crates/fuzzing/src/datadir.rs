//! Data directories that servers wrote, damaged in every way a program of operations can think of.
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, Oid};
use pgtoast_datadir::check::{Check, Finding};
use pgtoast_datadir::{
    ControlFile, DataDirectory, DataFile, Database, Folder, Fork, OverlaySource, Relation,
    RelationFile, RelationKind, RelationMap, Slru, Table,
};
use pgtoast_page::{Page, TupleDescriptor, Value, set_checksum};
use pgtoast_testkit::fixtures;

use crate::input::Input;

/// A data directory with any damage opens or is refused, lists what is left, and reads to its end. As
/// long as the damage leaves checksums wrong or takes something away, no value reads as another one than
/// it was, and where only tables were changed, a check names every row that has lost one.
///
/// The first byte chooses the server that wrote the directory. Operations of ten bytes follow: what to
/// do, to which file, where, and with what.
pub fn datadir_mutated(data: &[u8]) {
    let mut input = Input::new(data);
    let ground = ground(usize::from(input.u8() & 1));
    let mut damage = Damage { source: ground.source.clone(), ground, is_plain: true };
    let mut program = input.rest();
    // A hundred operations leave little to be read.
    for _ in 0..100 {
        let Some((operation, rest)) = program.split_first_chunk() else { break };
        damage.apply(operation);
        program = rest;
    }
    let is_plain = damage.is_plain && damage.is_seen_by_checksums();
    let is_about_tables = is_plain && damage.is_about_tables();
    let source = Arc::new(damage.source);
    let Ok(directory) = DataDirectory::from_source(source.clone()) else { return };
    let mut whole = BTreeSet::new();
    read_everything(&directory, &mut |key, value| {
        if is_plain {
            assert_eq!(ground.values.get(&key).map(Vec::as_slice), Some(value), "{key:?}");
            whole.insert(key);
        }
    });
    let named = check(&directory);
    if is_about_tables {
        let lost = ground.living.iter().filter(|key| !whole.contains(key));
        for (relation, tid, column) in lost.filter(|key| ground.is_there(&source, key)) {
            let toast = ground.toasts.get(relation).copied();
            let is_named = named.iter().any(|finding| finding.is_about(*relation, *tid, toast));
            assert!(is_named, "{relation} {tid} column {column} is lost, and nobody says so");
        }
    }
}

/// A value's relation, row and column.
type Key = (Oid, ItemPointer, u16);

/// An undamaged directory and what it holds.
struct Ground {
    source: OverlaySource,
    files: Vec<DataFile>,
    /// Those of tables and TOAST relations.
    tables: BTreeSet<DataFile>,
    values: HashMap<Key, Vec<u8>>,
    /// The values among them of rows that a new session would see.
    living: Vec<Key>,
    /// The main fork of each table.
    mains: HashMap<Oid, DataFile>,
    /// The TOAST relation of each table that has one.
    toasts: HashMap<Oid, Oid>,
}

impl Ground {
    /// Whether the block of a row is one that may be missed: where it is gone or empty, nobody can know
    /// that there was one.
    fn is_there(&self, source: &OverlaySource, (relation, tid, _): &Key) -> bool {
        let mut files = source.files();
        let bytes = self.mains.get(relation).and_then(|main| {
            let (_, bytes) = files.find(|(file, _)| file == main)?;
            bytes.chunks_exact(PAGE).nth(tid.block.get() as usize)
        });
        bytes.is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0))
    }
}

/// What a finding is about.
struct Named {
    relation: Oid,
    block: Option<BlockNumber>,
    tid: Option<ItemPointer>,
}

impl Named {
    /// Whether it is about that row, or about its block, or about its table or TOAST relation as a whole.
    fn is_about(&self, relation: Oid, tid: ItemPointer, toast: Option<Oid>) -> bool {
        match (self.tid, self.block) {
            (Some(named), _) => self.relation == relation && named == tid,
            (None, Some(block)) => self.relation == relation && block == tid.block,
            (None, None) => self.relation == relation || Some(self.relation) == toast,
        }
    }
}

fn ground(index: usize) -> &'static Ground {
    static GROUNDS: [OnceLock<Ground>; 2] = [const { OnceLock::new() }; 2];
    GROUNDS[index].get_or_init(|| {
        let files = fixtures::data_directory(fixtures::MAJORS[index]).expect("the fixture");
        let parsed = |path: &str| path.parse().expect("a file of a data directory");
        let source: OverlaySource =
            files.into_iter().map(|(path, bytes)| (parsed(&path), bytes)).collect();
        let files = source.files().map(|(file, _)| file).collect();
        let directory =
            DataDirectory::from_source(Arc::new(source.clone())).expect("a sound directory");
        let mut values = HashMap::new();
        read_everything(&directory, &mut |key, value| {
            values.insert(key, value.to_vec());
        });
        assert!(values.len() > 300, "{}", values.len());
        assert_eq!(check(&directory).len(), 0, "findings in what a server left");
        let mains = mains(&directory);
        let rows = living_rows(&directory);
        let living = values.keys().filter(|(oid, tid, _)| rows.contains(&(*oid, *tid))).copied();
        let living: Vec<_> = living.collect();
        assert!(living.len() > 200, "{}", living.len());
        let tables = mains.values().copied().collect();
        let toasts = toasts(&directory);
        Ground { source, files, tables, values, living, mains, toasts }
    })
}

/// The main forks of what users made.
fn mains(directory: &DataDirectory) -> HashMap<Oid, DataFile> {
    let database = directory.database("postgres").ok().flatten().expect("a sound database");
    let made = database.relations().filter(|one| one.oid >= Oid::FIRST_NORMAL && one.is_heap());
    let fork = |one: &Relation| {
        let fork = database.fork(one, Fork::Main).ok().flatten()?;
        Some((one.oid, fork.file()))
    };
    made.filter_map(fork).collect()
}

fn toasts(directory: &DataDirectory) -> HashMap<Oid, Oid> {
    let database = directory.database("postgres").ok().flatten().expect("a sound database");
    let toast = |one: &Relation| Some((one.oid, database.toast_of(one)?.oid));
    database.relations().filter_map(toast).collect()
}

/// The rows of tables that a new session would see. Those that somebody is about to delete are left out:
/// what becomes of them is open.
fn living_rows(directory: &DataDirectory) -> BTreeSet<(Oid, ItemPointer)> {
    let database = directory.database("postgres").ok().flatten().expect("a sound database");
    let mut rows = BTreeSet::new();
    for relation in database.relations().filter(|one| one.oid >= Oid::FIRST_NORMAL) {
        let is_table = relation.is_heap() && relation.kind != RelationKind::Toast;
        let Some(table) = is_table.then(|| database.table(relation).ok()).flatten() else {
            continue;
        };
        let mut visible = table.rows();
        while let Some(row) = visible.next() {
            rows.insert((relation.oid, row.expect("a sound row").tid));
        }
    }
    rows
}

/// What there is to say about what users made.
fn check(directory: &DataDirectory) -> Vec<Named> {
    let mut named = Vec::new();
    for entry in directory.databases() {
        let Ok(database) = Database::open(directory, entry) else { continue };
        let made = database.relations().filter(|one| one.oid >= Oid::FIRST_NORMAL);
        let check = Check::new().with_threads(1).with_deep(true);
        check.relations(&database, made, &mut |finding: Finding| {
            let (relation, block, tid) = (finding.subject.oid, finding.block, finding.tid());
            named.push(Named { relation, block, tid });
        });
    }
    named
}

/// What is done to a directory.
struct Damage {
    source: OverlaySource,
    ground: &'static Ground,
    /// Whether no checksum was made right again: things were changed, repeated at the end, or taken
    /// away.
    is_plain: bool,
}

impl Damage {
    fn apply(&mut self, [what, which, block, item, offset @ ..]: &[u8; 10]) {
        let file = self.file(*which);
        let [low, high, word @ ..] = *offset;
        let (offset, word) = (usize::from(u16::from_le_bytes([low, high])), word);
        let place = Place { block: usize::from(*block), item: usize::from(*item), offset };
        let kind = what % 16;
        self.is_plain &= matches!(kind, 0 | 6..=9);
        match kind {
            0 => self.edit(file, |bytes| place.flip(bytes, word[0])),
            1 => self.edit_page(file, &place, |page| put(page, place.offset % page.len(), &word)),
            2 => self.edit_page(file, &place, |page| put(page, place.offset % 256, &word[..2])),
            3 | 4 => self.edit_page(file, &place, |page| place.in_tuple(page, &word)),
            5 => {
                let other = self.file(word[0]);
                let from = Place { block: word[1].into(), ..place };
                let copy = self.page(other, &from);
                self.edit_page(file, &place, |page| {
                    let len = page.len().min(copy.len());
                    page[..len].copy_from_slice(&copy[..len]);
                });
            }
            6 => self.edit(file, |bytes| place.page(bytes).fill(word[0])),
            7 => self.edit(file, |bytes| bytes.truncate(place.block * PAGE + place.offset)),
            8 => self.edit(file, |bytes| bytes.extend_from_within(..bytes.len().min(8 * PAGE))),
            9 => self.source.remove(file),
            10 => {
                // Either may be gone already; then nothing is swapped.
                let _ = self.source.swap(file, self.file(word[0]));
            }
            11 => self.copy_elsewhere(file, word),
            12 => self.source.add_name(file.folder(), "lost+found"),
            13 | 14 => self.edit_control(place.offset % 256 / 4 * 4, word),
            _ => self.edit_maps(place.offset % 520 / 4 * 4, word),
        }
    }

    fn file(&self, which: u8) -> DataFile {
        self.ground.files[usize::from(which) % self.ground.files.len()]
    }

    /// Files that are gone stay so.
    fn edit(&mut self, file: DataFile, change: impl FnOnce(&mut Vec<u8>)) {
        let _ = self.source.edit(file, change);
    }

    /// Changes a page and makes its checksum right, where it has one.
    fn edit_page(&mut self, file: DataFile, place: &Place, change: impl FnOnce(&mut [u8])) {
        self.edit(file, |bytes| {
            let number = place.number(bytes.len());
            let page = place.page(bytes);
            if !page.is_empty() {
                change(page);
            }
            if matches!(file, DataFile::Relation(_)) {
                // A page that is cut off has none.
                let _ = set_checksum(page, BlockSize::KIB_8, number);
            }
        });
    }

    fn page(&mut self, file: DataFile, place: &Place) -> Vec<u8> {
        let mut copy = Vec::new();
        self.edit(file, |bytes| copy = place.page(bytes).to_vec());
        copy
    }

    /// A copy of a file under a name that nothing, or something else, has.
    fn copy_elsewhere(&mut self, file: DataFile, [segment, fork, log, more]: [u8; 4]) {
        let mut copy = Vec::new();
        self.edit(file, |bytes| copy.clone_from(bytes));
        let target = match file {
            DataFile::Relation(file) => DataFile::Relation(RelationFile {
                fork: Fork::ALL[usize::from(fork) % 4],
                segment: u32::from(segment % 3),
                ..file
            }),
            _ if more % 2 == 0 => {
                let log = Slru::ALL[usize::from(log) % 4];
                DataFile::Slru { log, segment: u32::from_le_bytes([segment, fork, more, 0]) }
            }
            _ => DataFile::BackupLabel,
        };
        self.source.put(target, copy);
    }

    fn edit_control(&mut self, offset: usize, word: [u8; 4]) {
        self.edit(DataFile::Control, |bytes| {
            put(bytes, offset, &word);
            let version = bytes.get(8..12).and_then(<[u8]>::first_chunk);
            let version = version.map_or(0, |version| u32::from_le_bytes(*version));
            if let Some(end) = ControlFile::checksum_offset(version) {
                seal(bytes, end);
            }
        });
    }

    fn edit_maps(&mut self, offset: usize, word: [u8; 4]) {
        let is_map = |file: &&DataFile| matches!(file, DataFile::Map(_));
        let maps: Vec<_> = self.ground.files.iter().filter(is_map).copied().collect();
        let major = ControlFile::read(&self.ground.source).map_or(15, |it| it.version.major);
        let map = maps[usize::from(word[3]) % maps.len()];
        self.edit(map, |bytes| {
            put(bytes, offset, &word[..3]);
            seal(bytes, RelationMap::checksum_offset(major));
        });
    }

    /// Whether something was changed, and all that was is a table or a TOAST relation.
    fn is_about_tables(&self) -> bool {
        let ground: HashMap<_, _> = self.ground.source.files().collect();
        let now: HashMap<_, _> = self.source.files().collect();
        let either = ground.keys().chain(now.keys());
        let mut changed = either.filter(|file| ground.get(file) != now.get(file)).peekable();
        changed.peek().is_some() && changed.all(|file| self.ground.tables.contains(file))
    }

    /// Whether every page of a relation that was changed has a checksum that says so. By chance one in
    /// sixty-five thousand has not.
    fn is_seen_by_checksums(&self) -> bool {
        let ground: HashMap<_, _> = self.ground.source.files().collect();
        self.source.files().all(|(file, bytes)| {
            let before = ground.get(&file).copied().unwrap_or_default();
            let pages = bytes.chunks(PAGE).zip(before.chunks(PAGE)).zip(0..);
            !matches!(file, DataFile::Relation(_))
                || pages.filter(|((now, before), _)| now != before).all(|((now, _), number)| {
                    let page = Page::parse(now, BlockSize::KIB_8);
                    page.and_then(|page| page.verify_checksum(BlockNumber::new(number))).is_err()
                })
        })
    }
}

const PAGE: usize = BlockSize::KIB_8.bytes();

/// Where in a file.
#[derive(Clone, Copy)]
struct Place {
    block: usize,
    item: usize,
    offset: usize,
}

impl Place {
    /// Which of a file's pages it is on.
    fn number(&self, len: usize) -> BlockNumber {
        let count = len.div_ceil(PAGE).max(1);
        BlockNumber::new(u32::try_from(self.block % count).unwrap_or_default())
    }

    fn page<'a>(&self, bytes: &'a mut [u8]) -> &'a mut [u8] {
        let number = self.number(bytes.len()).get() as usize;
        let end = bytes.len().min((number + 1) * PAGE);
        &mut bytes[number * PAGE..end]
    }

    fn flip(&self, bytes: &mut [u8], mask: u8) {
        let page = self.page(bytes);
        let len = page.len().max(1);
        if let Some(byte) = page.get_mut(self.offset % len) {
            *byte ^= mask;
        }
    }

    /// Changes bytes of a tuple, its header most often.
    fn in_tuple(&self, page: &mut [u8], word: &[u8]) {
        let start = match Page::new(page, BlockSize::KIB_8) {
            Ok(page) if page.item_count() > 0 => {
                let pointers = page.line_pointers();
                usize::from(pointers[self.item % pointers.len()].offset())
            }
            _ => return,
        };
        let len = 1 + usize::from(word[3] % 3);
        put(page, start + self.offset % 64, &word[..len]);
    }
}

/// Writes the part of `word` that fits.
fn put(bytes: &mut [u8], offset: usize, word: &[u8]) {
    if let Some(target) = bytes.get_mut(offset..) {
        let len = target.len().min(word.len());
        target[..len].copy_from_slice(&word[..len]);
    }
}

/// Puts the checksum of what is before it at `end`.
fn seal(bytes: &mut [u8], end: usize) {
    if let Some(body) = bytes.get(..end) {
        let sum = crc32c::crc32c(body).to_le_bytes();
        put(bytes, end, &sum);
    }
}

/// Reads all there is by every door, and gives `visit` each stored value that comes back whole.
fn read_everything(directory: &DataDirectory, visit: &mut dyn FnMut(Key, &[u8])) {
    for multi in 0..20 {
        let _ = directory.transactions().members(multi);
    }
    for entry in directory.databases() {
        let Ok(database) = Database::open(directory, entry) else { continue };
        for relation in database.relations() {
            for fork in Fork::ALL {
                if let Ok(Some(fork)) = database.fork(relation, fork) {
                    let mut blocks = fork.blocks(0..20);
                    while blocks.next().is_some() {}
                }
            }
            let is_made = relation.oid >= Oid::FIRST_NORMAL && relation.kind.has_storage();
            if is_made && let Ok(table) = database.table(relation) {
                read_table(&database, relation, &table, visit);
            }
        }
    }
    for folder in [Folder::Root, Folder::Global, Folder::Prepared, Folder::Tablespaces] {
        let _ = directory.source().list(folder);
    }
}

fn read_table(
    database: &Database,
    relation: &Relation,
    table: &Table,
    visit: &mut dyn FnMut(Key, &[u8]),
) {
    let attributes = table.columns().attributes();
    let Ok(descriptor) = TupleDescriptor::new(&attributes) else { return };
    let Ok(mut detoaster) = database.detoaster(relation, 0) else { return };
    let mut visible = table.rows();
    while visible.next().is_some() {}
    let mut rows = table.rows().with_dead();
    while let Some(row) = rows.next() {
        let Ok(row) = row else { continue };
        let Ok(values) = row.deform(descriptor) else { continue };
        for attribute in values.flatten() {
            let Value::Stored(datum) = attribute.value else { continue };
            let key = (relation.oid, row.tid, attribute.number);
            if table.columns().get(attribute.number).is_some_and(|column| column.is_toastable()) {
                let Ok(varlena) = datum.varlena() else { continue };
                if let Ok(value) = detoaster.detoast(&varlena) {
                    visit(key, value.as_bytes());
                }
            } else {
                visit(key, datum.bytes);
            }
        }
    }
}

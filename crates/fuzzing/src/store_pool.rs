//! The store's files and its buffer pool under any bytes and any program of operations, on a disk that
//! fails when the program says so.
use std::io::ErrorKind;
use std::sync::Arc;

use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_page::{Page, PageMut, set_checksum};
use pgtoast_store::buffer::{BufferPool, ForkId, PoolOptions, ScanRing};
use pgtoast_store::file::{ControlFile, SealedFile};
use pgtoast_store::{Fork, RelationId, RelationKind, StoreError, StoreFile};

use crate::files::Files;
use crate::input::Input;

const SIZE: BlockSize = BlockSize::KIB_1;
const RELATION: RelationId = RelationId::new(1);

/// Any bytes as a control file are one or an error; one that is, reads as it was written.
pub fn store_control(data: &[u8]) {
    let files = Files::default();
    files.put("control", data);
    let _ = ControlFile::read(&files);
    // The same bytes behind a seal that is right.
    assert_eq!(SealedFile::replace(&files, StoreFile::Control, data), Ok(()));
    assert_eq!(SealedFile::read(&files, StoreFile::Control).as_deref(), Ok(data));
    if let Ok(control) = ControlFile::read(&files) {
        assert_eq!(control.replace(&files), Ok(()));
        assert_eq!(ControlFile::read(&files), Ok(control));
        assert_eq!(SealedFile::read(&files, StoreFile::Control).as_deref(), Ok(data));
    }
}

/// A pool holds what a list of pages holds, whatever calls fail; a block that is no page is an error
/// that names it, and stays one.
///
/// The first byte says how many pages are in the file before, the next two of each what is wrong with
/// it. Operations of three bytes follow.
pub fn store_pool(data: &[u8]) {
    let mut input = Input::new(data);
    let mut model = Model::new(&mut input);
    for bytes in input.rest().chunks_exact(3).take(400) {
        match model.apply(bytes[0], u32::from(bytes[1]), bytes[2]) {
            Ok(()) => {}
            Err(StoreError::Io { kind: ErrorKind::Other, .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    model.files.heal();
    model.compare();
    assert_eq!(model.pool.flush(), Ok(()));
    model.reopen();
    model.compare();
}

struct Model {
    files: Files,
    pool: BufferPool,
    fork: ForkId,
    ring: ScanRing,
    /// What each block is; `None` if it is no page.
    pages: Vec<Option<Vec<u8>>>,
}

impl Model {
    fn new(input: &mut Input<'_>) -> Self {
        let (mut image, mut pages) = (Vec::new(), Vec::new());
        for number in 0..u32::from(input.u8() % 12) {
            let page = damaged(number, input.u8(), input.u8());
            image.extend_from_slice(&page);
            pages.push(is_page(&page, number).then_some(page));
        }
        let files = Files::default();
        files.put("base/1", &image);
        let (pool, fork) = open(&files);
        let ring = pool.scan_ring();
        Self { files, pool, fork, ring, pages }
    }

    fn apply(&mut self, op: u8, number: u32, value: u8) -> Result<(), StoreError> {
        let blocks = u32::try_from(self.pages.len()).expect("few");
        match op % 12 {
            0 | 1 => {
                let count = 1 + u32::from(value % 8);
                let (added, mut page) = self.pool.extend(self.fork, count)?;
                assert_eq!(added.get(), blocks);
                assert!(page.iter().all(|byte| *byte == 0));
                if number.is_multiple_of(2) {
                    fill(&mut page, value);
                }
                let first = page.to_vec();
                self.pages.resize(self.pages.len() + count as usize, Some(vec![0; SIZE.bytes()]));
                self.pages[blocks as usize] = Some(first);
            }
            2..=4 => {
                let result = self.pool.write(self.fork, BlockNumber::new(number));
                if let Some(mut page) = expected(result, number, &self.pages)? {
                    fill(&mut page, value);
                    self.pages[number as usize] = Some(page.to_vec());
                }
            }
            5..=7 => {
                let result = self.pool.read(self.fork, BlockNumber::new(number));
                expected(result, number, &self.pages)?;
            }
            8 if value.is_multiple_of(2) => {
                self.pool.prefetch(self.fork, number..number + u32::from(value));
            }
            8 => {
                let blocks = number..number + u32::from(value);
                self.pool.prefetch_in_ring(self.fork, blocks, &mut self.ring);
            }
            9 => {
                self.pages.truncate(number as usize);
                self.pool.truncate(self.fork, number)?;
            }
            10 => {
                self.pool.flush()?;
                if value.is_multiple_of(2) {
                    self.files.heal();
                    self.reopen();
                }
            }
            _ => self.files.fail(number % 8, u32::from(value % 8)),
        }
        Ok(())
    }

    fn reopen(&mut self) {
        (self.pool, self.fork) = open(&self.files);
        self.ring = self.pool.scan_ring();
    }

    fn compare(&self) {
        assert_eq!(self.pool.block_count(self.fork) as usize, self.pages.len());
        for number in 0..=u32::try_from(self.pages.len()).expect("few") {
            let result = self.pool.read(self.fork, BlockNumber::new(number));
            expected(result, number, &self.pages).map(drop).expect("a sound disk");
        }
    }
}

fn open(files: &Files) -> (BufferPool, ForkId) {
    let mut options = PoolOptions::new(SIZE, 8 * SIZE.bytes());
    (options.segment_blocks, options.io_combine_limit) = (12, 4);
    let pool = BufferPool::new(Arc::new(files.clone()), options);
    let fork = pool.open_fork(RELATION, RelationKind::Heap, Fork::Main, true);
    (pool, fork.expect("a sound disk"))
}

/// The page, if that is what the list says; nothing, if the list has none and the error says so.
fn expected<P: core::ops::Deref<Target = [u8]>>(
    result: Result<P, StoreError>,
    number: u32,
    pages: &[Option<Vec<u8>>],
) -> Result<Option<P>, StoreError> {
    match (pages.get(number as usize), result) {
        (_, Err(error @ StoreError::Io { .. })) => Err(error),
        (None, Err(StoreError::BlockMissing { block, blocks, .. })) => {
            assert_eq!((block.get(), blocks as usize), (number, pages.len()));
            Ok(None)
        }
        (Some(None), Err(StoreError::Page { block, .. })) => {
            assert_eq!(block.get(), number);
            Ok(None)
        }
        (Some(Some(expected)), Ok(page)) => {
            // The checksum in memory is that of when the page was read.
            let same = expected[..8] == page[..8] && expected[10..] == page[10..];
            assert!(same, "block {number}");
            Ok(Some(page))
        }
        (_, Err(error)) => panic!("block {number}: {error}"),
        (_, Ok(_)) => panic!("block {number} is no page"),
    }
}

fn fill(page: &mut [u8], value: u8) {
    let mut page = PageMut::init(page, SIZE, 16).expect("as long as a block");
    page.special_space_mut().fill(value);
}

/// A page with its checksum, and then one byte changed.
fn damaged(number: u32, value: u8, place: u8) -> Vec<u8> {
    let mut page = vec![0; SIZE.bytes()];
    if value != 0 {
        fill(&mut page, value);
        set_checksum(&mut page, SIZE, BlockNumber::new(number)).expect("as long as a block");
    }
    // Half of them in the header, an eighth not at all.
    match place {
        0..128 => page[usize::from(place) % 24] ^= value,
        128..224 => page[usize::from(place) * 4] ^= value,
        _ => {}
    }
    page
}

fn is_page(page: &[u8], number: u32) -> bool {
    let page = Page::parse(page, SIZE);
    page.is_ok_and(|page| page.verify_checksum(BlockNumber::new(number)).is_ok())
}

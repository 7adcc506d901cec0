//! Any sequence of changes leaves a sound page, and the same one as the readable model.
use pgtoast_base::{BlockSize, OffsetNumber};
use pgtoast_page::{
    Item, LineState, Page, PageError, PageFlags, PageMut, TrailingPointers, TupleHeader,
};
use pgtoast_testkit::naive::page::{Page as Model, Slot};

use crate::input::Input;

/// The most changes in one program: enough to fill a large page.
const LONGEST: usize = 600;

/// The first byte picks a block size, the second a heap (0) or an index with so much special space;
/// then changes follow, each a byte for what is done and its arguments.
///
/// After every change the page passes its own check and equals the model; after a refusal it is the
/// same, byte for byte.
pub fn page_program(data: &[u8]) {
    let mut input = Input::new(data);
    let size = BlockSize::ALL[usize::from(input.u8()) % BlockSize::ALL.len()];
    let special_len = usize::from(input.u8());
    let mut bytes = vec![0xa5; size.bytes()];
    PageMut::init(&mut bytes, size, special_len).expect("255 bytes fit any page");
    let mut model = Model::new(size.bytes(), special_len);
    for fill in (0..=255).cycle().take(LONGEST) {
        assert_same(&bytes, size, &model);
        let before = bytes.clone();
        let mut page = PageMut::open(&mut bytes, size).expect("a sound page");
        let code = input.u8();
        if code == 0 {
            break;
        }
        let mut change = Change { input: &mut input, fill, page: &mut page, model: &mut model };
        let agreed = if special_len == 0 { change.heap(code) } else { change.index(code) };
        match agreed {
            (Ok(item), Some(expected)) => assert_eq!(usize::from(item.get()), expected),
            (Err(_), None) => assert!(bytes == before, "a refusal changed the page"),
            (outcome, expected) => panic!("{outcome:?}, the model says {expected:?}"),
        }
    }
}

type Outcome = (Result<OffsetNumber, PageError>, Option<usize>);

/// One change, to be made to the page and to the model.
struct Change<'c, 'i, 'p> {
    input: &'c mut Input<'i>,
    fill: u8,
    page: &'c mut PageMut<'p>,
    model: &'c mut Model,
}

impl Change<'_, '_, '_> {
    /// An item, as the page and as the model number it. One past the end, and 0, are worth trying as well.
    fn item(&mut self) -> (OffsetNumber, usize) {
        let number = self.input.u16() % (self.page.page().item_count() + 2);
        (OffsetNumber::new(number), number.into())
    }

    fn tuple(&mut self) -> Vec<u8> {
        tuple(len(self.input), self.fill)
    }

    fn heap(&mut self, code: u8) -> Outcome {
        match code % 11 {
            0..=3 => {
                let tuple = self.tuple();
                (self.page.add_tuple(&tuple), self.model.add(&tuple))
            }
            4 => {
                let ((at, index), tuple) = (self.item(), self.tuple());
                let expected = self.model.place(index, &tuple).map(|()| index);
                (self.page.place_tuple(at, &tuple).map(|()| at), expected)
            }
            5 => {
                let ((from, from_index), (to, to_index)) = (self.item(), self.item());
                let expected = self.model.redirect(from_index, to_index).map(|()| from_index);
                (self.page.redirect(from, to).map(|()| from), expected)
            }
            6 => {
                let (at, index) = self.item();
                let expected = self.model.set_dead(index).map(|()| index);
                (self.page.set_dead(at).map(|()| at), expected)
            }
            7 | 8 => {
                let (at, index) = self.item();
                let expected = self.model.set_unused(index).map(|()| index);
                (self.page.set_unused(at).map(|()| at), expected)
            }
            9 => {
                let drops = code & 0x80 != 0;
                self.model.compact(drops);
                let rule = if drops { TrailingPointers::Drop } else { TrailingPointers::Keep };
                (self.page.compact(rule).map(|()| OffsetNumber::INVALID), Some(0))
            }
            _ => {
                self.model.truncate();
                (self.page.truncate_line_pointers().map(|()| OffsetNumber::INVALID), Some(0))
            }
        }
    }

    fn index(&mut self, code: u8) -> Outcome {
        match code % 8 {
            0..=3 => {
                let ((at, index), bytes) = (self.item(), vec![self.fill; len(self.input)]);
                let expected = self.model.insert(index, &bytes).map(|()| index);
                (self.page.insert_item(at, &bytes).map(|()| at), expected)
            }
            4 => {
                let (at, index) = self.item();
                let expected = self.model.mark_dead(index).map(|()| index);
                (self.page.mark_item_dead(at).map(|()| at), expected)
            }
            5 => {
                let (at, index) = self.item();
                let expected = self.model.delete(&[index]).map(|()| index);
                (self.page.delete_item(at).map(|()| at), expected)
            }
            _ => {
                let mut items: Vec<_> = (0..code >> 4).map(|_| self.item()).collect();
                // In order as a rule; the highest bit leaves them as they came.
                if code & 0x80 == 0 {
                    items.sort();
                    items.dedup();
                }
                let (items, indexes): (Vec<_>, Vec<_>) = items.into_iter().unzip();
                let outcome = self.page.delete_items(&items).map(|()| OffsetNumber::INVALID);
                (outcome, self.model.delete(&indexes).map(|()| 0))
            }
        }
    }
}

/// Mostly lengths of which many fit a page.
fn len(input: &mut Input<'_>) -> usize {
    match input.u8() {
        255 => input.u16().into(),
        len => len.into(),
    }
}

/// Bytes that are recognised again; long enough, they are a tuple.
fn tuple(len: usize, fill: u8) -> Vec<u8> {
    let mut tuple = vec![fill; len];
    if let Some(hoff) = tuple.get_mut(TupleHeader::LEN - 1) {
        *hoff = 24;
    }
    tuple
}

fn assert_same(bytes: &[u8], size: BlockSize, model: &Model) {
    let page = Page::new(bytes, size).expect("it is as long as a block");
    assert_eq!(page.check(), Ok(()));
    let header = page.header();
    assert_eq!(usize::from(header.upper()), model.upper);
    assert_eq!(usize::from(header.special()), model.special);
    let hint = if model.has_free_lines { PageFlags::HAS_FREE_LINES } else { PageFlags::empty() };
    assert_eq!(header.flags(), hint);
    assert_eq!(usize::from(page.item_count()), model.slots.len());
    assert_eq!(usize::from(page.free_bytes()), model.free());
    assert_eq!(usize::from(page.free_bytes_for_item()), model.free().saturating_sub(4));
    assert_eq!(usize::from(page.free_bytes_for_items(9)), model.free().saturating_sub(36));
    assert_eq!(usize::from(page.heap_free_bytes()), model.heap_free());
    for ((item, pointer), slot) in page.items().zip(&model.slots) {
        let stored = page.item(item).expect("a sound item");
        match slot {
            Slot::Unused => assert_eq!(stored, Item::Unused),
            Slot::Dead => assert_eq!(stored, Item::Dead(&[])),
            Slot::Redirect(target) => {
                assert_eq!(pointer.state(), LineState::Redirect);
                assert_eq!(usize::from(pointer.target().get()), *target);
            }
            Slot::Stored { bytes, offset, dead } => {
                assert_eq!(usize::from(pointer.offset()), *offset);
                let expected = if *dead { Item::Dead(bytes) } else { Item::Normal(bytes) };
                assert!(stored == expected, "item {item} has other bytes");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pgtoast_testkit::Rng;

    #[test]
    fn random_programs_leave_the_page_that_the_model_has() {
        let mut rng = Rng::new(3);
        for special_len in [0, 0, 0, 16] {
            for _ in 0..60 {
                let len = rng.between(10, 1500);
                let mut program = rng.bytes(len);
                program[1] = special_len;
                program.iter_mut().skip(2).filter(|byte| **byte == 0).for_each(|byte| *byte = 1);
                super::page_program(&program);
            }
        }
    }
}

//! Free bytes to categories and back: stored rounded down, asked for rounded up, and 255 set apart
//! for a page that takes the longest tuple. Source: `freespace.c` (REL_18).
use pgtoast_base::BlockSize;
use pgtoast_fsm::{Category, FsmError};

const SIZE: BlockSize = BlockSize::KIB_8;

fn needed(bytes: usize) -> u8 {
    Category::needed_for(bytes, SIZE).expect("not too long").get()
}

#[test]
fn free_space_is_rounded_down_and_255_means_the_longest_tuple_fits() {
    for (free, category) in
        [(0, 0), (31, 0), (32, 1), (63, 1), (8127, 253), (8128, 254), (8159, 254)]
    {
        assert_eq!(Category::of_free(free, SIZE).get(), category, "{free}");
    }
    for free in [8160, 8164, 8168, 8191, usize::MAX] {
        assert_eq!(Category::of_free(free, SIZE), Category::MAX, "{free}");
    }
}

#[test]
fn a_request_is_rounded_up_and_is_never_for_nothing() {
    for (bytes, category) in [(0, 1), (1, 1), (32, 1), (33, 2), (8128, 254), (8129, 255)] {
        assert_eq!(needed(bytes), category, "{bytes}");
    }
}

#[test]
fn a_request_of_8160_bytes_is_the_longest_and_8161_is_an_error() {
    assert_eq!(needed(8160), 255);
    let error = FsmError::RequestTooLong { needed_bytes: 8161, limit: 8160 };
    assert_eq!(Category::needed_for(8161, SIZE), Err(error));
    assert_eq!(error.to_string(), "no page has 8161 bytes free, 8160 are the most");
}

#[test]
fn a_page_with_8159_bytes_is_never_offered_for_more_than_8128() {
    let page = Category::of_free(8159, SIZE);
    assert!(page.get() >= needed(8128));
    assert!(page.get() < needed(8129), "the rounding costs up to 31 bytes");
}

#[test]
fn whatever_is_offered_has_what_was_asked_for_with_every_block_size() {
    for size in BlockSize::ALL {
        let longest = size.bytes() - 32;
        for free in 0..size.bytes() {
            let category = Category::of_free(free, size);
            assert!(category.free_bytes(size) <= free, "{size}, {free} free");
            assert!(category == Category::MAX || free < longest);
            if let Ok(least) = Category::needed_for(free, size) {
                assert!(least.free_bytes(size) >= free, "{size}, {free} asked for");
                assert!(least.get() > 0);
            } else {
                assert!(free > longest);
            }
        }
    }
}

//! Any bytes at all are a page to look at: answers or located errors, never more.
use pgtoast_base::{BlockNumber, BlockSize, OffsetNumber};
use pgtoast_page::{Item, Page, PageError, set_checksum};

/// The first byte picks a block size, the rest is the page, cut or filled up with zeros; seeds are
/// real pages. Every item lies inside the page, every finding too, a page that passes the strict
/// check passes the server's rule, and a checksum that was set verifies.
pub fn page_parse(data: &[u8]) {
    let (&selector, rest) = data.split_first().unwrap_or((&0, &[]));
    let size = BlockSize::ALL[usize::from(selector) % BlockSize::ALL.len()];
    let mut bytes = rest.to_vec();
    bytes.resize(size.bytes(), 0);

    let page = Page::new(&bytes, size).expect("it is as long as a block");
    let parsed = Page::parse(&bytes, size);
    assert_eq!(parsed.err(), page.verify().err());
    let findings = page.findings();
    assert_eq!(page.check().err(), findings.first().copied());
    if findings.is_empty() {
        assert_eq!(page.verify(), Ok(()));
    }
    for finding in findings {
        assert_inside(&page, finding);
    }

    let count = page.item_count();
    assert_eq!(page.items().len(), usize::from(count));
    for (item, pointer) in page.items() {
        match page.item(item) {
            Ok(Item::Normal(bytes) | Item::Dead(bytes)) => {
                assert_eq!(bytes.len(), usize::from(pointer.len()));
            }
            Ok(Item::Unused | Item::Redirect(_)) => {}
            Err(PageError::ItemOutside { item: place, .. }) => assert_eq!(place, item.get()),
            Err(error) => panic!("item {item} of {count}: {error}"),
        }
    }
    assert!(page.item(OffsetNumber::INVALID).is_err());
    assert!(page.item(OffsetNumber::new(count + 1)).is_err());
    assert!(page.special_space().len() <= size.bytes() && page.free_bytes() <= size.bytes_u16());

    let block = BlockNumber::new(u32::from(selector));
    let is_new = page.is_new();
    let set = set_checksum(&mut bytes, size, block).expect("it is as long as a block");
    assert_eq!(set.is_none(), is_new);
    assert_ne!(set, Some(0));
    let page = Page::new(&bytes, size).expect("it is as long as a block");
    assert_eq!(page.verify_checksum(block), Ok(()));
}

fn assert_inside(page: &Page<'_>, finding: PageError) {
    let count = page.item_count();
    match finding {
        PageError::ItemBadTarget { item, .. }
        | PageError::ItemEmptyTarget { item, .. }
        | PageError::ItemMisaligned { item, .. }
        | PageError::ItemOutside { item, .. }
        | PageError::ItemStored { item, .. }
        | PageError::ItemTooShort { item, .. } => assert!((1..=count).contains(&item)),
        PageError::ItemOverlap { item, other } => {
            assert!((1..=count).contains(&item) && (1..=count).contains(&other) && item != other);
        }
        PageError::NewNotZero { offset } => assert_ne!(page.bytes()[offset], 0),
        PageError::Checksum { .. } | PageError::ItemMissing { .. } | PageError::Length { .. } => {
            panic!("the structure check does not give {finding}")
        }
        _ => {}
    }
}

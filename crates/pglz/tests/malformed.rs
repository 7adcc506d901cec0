//! Every way a stream can be wrong, and where the error says it is. A reader that trusted such bytes
//! once looped for ever on a distance of zero, and another read before its buffer.
#![cfg(feature = "alloc")]
#![expect(clippy::cast_possible_truncation, reason = "small numbers of a test")]
use pgtoast_pglz::{
    PglzError, decompress, decompress_append, decompress_prefix, decompress_to_vec, naive, safe,
};

/// All readers agree on the whole value.
fn whole(source: &[u8], raw_len: usize) -> Result<Vec<u8>, PglzError> {
    let mut target = vec![0xaa; raw_len];
    let verdict = decompress(source, &mut target);
    assert_eq!(verdict, naive::decompress(source, &mut vec![0x55; raw_len]), "{source:02x?}");
    assert_eq!(verdict, safe::decompress(source, &mut vec![0x55; raw_len]), "{source:02x?}");
    let value = verdict.map(|()| target);
    match decompress_to_vec(source, raw_len) {
        Err(PglzError::Expansion { .. }) => assert!(value.is_err(), "{source:02x?}"),
        vec => assert_eq!(vec, value, "{source:02x?}"),
    }
    value
}

/// All readers agree on the prefix.
fn prefix(source: &[u8], raw_len: usize) -> Result<Vec<u8>, PglzError> {
    let (mut target, mut twin) = (vec![0xaa; raw_len], vec![0x55; raw_len]);
    let len = decompress_prefix(source, &mut target);
    assert_eq!(len, naive::decompress_prefix(source, &mut twin), "{source:02x?}");
    let mut third = vec![0xcc; raw_len];
    assert_eq!(len, safe::decompress_prefix(source, &mut third), "{source:02x?}");
    let len = len?;
    assert_eq!(target[..len], twin[..len], "{source:02x?}");
    assert_eq!(target[..len], third[..len], "{source:02x?}");
    target.truncate(len);
    Ok(target)
}

/// Wrong as a whole and as a prefix, in the same way.
fn assert_both(source: &[u8], raw_len: usize, error: PglzError) {
    assert_eq!(whole(source, raw_len), Err(error), "{source:02x?}");
    assert_eq!(prefix(source, raw_len), Err(error), "{source:02x?}");
}

#[test]
fn a_distance_of_zero_is_an_error_before_anything_is_copied() {
    let error = PglzError::Distance { source_offset: 1, target_offset: 0, distance: 0 };
    assert_both(&[0x01, 0x03, 0x00], 1024, error);
    assert_both(&[0x01, 0x00, 0x00], 3, error);
    let error = PglzError::Distance { source_offset: 3, target_offset: 2, distance: 0 };
    assert_both(&[0x04, b'a', b'b', 0x0f, 0x00, 0xff], 1024, error);
}

#[test]
fn a_distance_to_before_the_value_is_an_error() {
    let error = PglzError::Distance { source_offset: 1, target_offset: 0, distance: 257 };
    assert_both(&[0x01, 0x10, 0x01], 1024, error);
    let error = PglzError::Distance { source_offset: 2, target_offset: 1, distance: 2 };
    assert_both(&[0x02, b'a', 0x00, 0x02], 4, error);
    let error = PglzError::Distance { source_offset: 2, target_offset: 1, distance: 4095 };
    assert_both(&[0x02, b'a', 0xff, 0xff, 0x00], 400, error);
}

/// The largest distance there is lies one beyond what any server writes, and every server reads it.
#[test]
fn a_distance_of_4095_is_read_though_no_server_writes_it() {
    let literals: Vec<u8> = (0..4095_usize).map(|i| (i % 251) as u8).collect();
    let mut stream = Vec::new();
    for group in literals.chunks(8) {
        // The last group has seven literals, so the match is its eighth item.
        stream.push(if group.len() < 8 { 0x80 } else { 0 });
        stream.extend_from_slice(group);
    }
    stream.extend_from_slice(&[0xf2, 0xff]);
    assert_eq!(whole(&stream, 4100), Ok([&literals[..], &literals[..5]].concat()));
}

#[test]
fn a_match_cut_off_by_the_end_of_the_stream_is_an_error() {
    let error = PglzError::Truncated { source_offset: 1, target_offset: 0 };
    assert_both(&[0x01, 0xff], 1024, error);
    assert_both(&[0x01, 0x0f, 0x01], 1024, error);
    let error = PglzError::Truncated { source_offset: 2, target_offset: 1 };
    assert_both(&[0x02, b'a', 0x00], 40, error);
    assert_both(&[0x02, b'a', 0x0f, 0x01], 40, error);
}

#[test]
fn a_control_byte_with_nothing_behind_it_is_an_early_end() {
    for control in [0x00, 0x01, 0xff] {
        assert_eq!(prefix(&[control], 1024), Ok(vec![]));
        let short = PglzError::Short { target_offset: 0, expected: 1024 };
        assert_eq!(whole(&[control], 1024), Err(short));
    }
    assert_eq!(prefix(&[0x02, b'a'], 1024), Ok(b"a".to_vec()));
}

#[test]
fn an_early_end_is_an_error_of_the_whole_alone() {
    let source = [0x00, b'a', b'b', b'c'];
    assert_eq!(prefix(&source, 4), Ok(b"abc".to_vec()));
    assert_eq!(whole(&source, 4), Err(PglzError::Short { target_offset: 3, expected: 4 }));
    assert_eq!(prefix(&[], 4), Ok(vec![]));
    assert_eq!(whole(&[], 4), Err(PglzError::Short { target_offset: 0, expected: 4 }));
    assert_eq!(whole(&[], 0), Ok(vec![]));
}

#[test]
fn bytes_behind_the_value_are_an_error_of_the_whole_alone() {
    let source = [0x02, b'a', 0x0f, 0x01, 0x0d, 0x00];
    assert_eq!(prefix(&source, 32), Ok(vec![b'a'; 32]));
    assert_eq!(whole(&source, 32), Err(PglzError::Trailing { source_offset: 5, source_len: 6 }));
    assert_eq!(whole(&source[..5], 32), Ok(vec![b'a'; 32]));
    assert_eq!(
        whole(&source, 0),
        Err(PglzError::Trailing { source_offset: 0, source_len: 6 }),
        "nothing is read for an empty value"
    );
}

/// 273 bytes from one: block copies that round up must not show.
#[test]
fn the_longest_match_over_a_distance_of_one_fills_exactly() {
    let source = [0x02, b'a', 0x0f, 0x01, 0xff];
    assert_eq!(whole(&source, 274), Ok(vec![b'a'; 274]));
    for len in 0..274 {
        assert_eq!(prefix(&source, len), Ok(vec![b'a'; len]));
    }
}

#[test]
fn a_match_that_reaches_beyond_the_target_is_cut() {
    let source = [0x02, b'a', 0x0f, 0x01, 0xff];
    // The server cuts it too and calls the value whole: the stream is used up, the target is full.
    assert_eq!(whole(&source, 100), Ok(vec![b'a'; 100]));
}

/// A derivative of PostgreSQL marks a stream format of its own with a start that is invalid here.
#[test]
fn a_foreign_format_is_named_as_such_and_gives_no_bytes() {
    let source = [0x01, 0x00, 0x00, b'P', b'G', b'L', b'3', 0, 1, 2, 3];
    let error = prefix(&source, 100).expect_err("no pglz stream starts with a match");
    assert_eq!(whole(&source, 100), Err(error));
    assert!(error.to_string().starts_with("not classic pglz"), "{error}");
}

#[test]
fn each_error_says_where_in_one_lower_case_line() {
    for (error, line) in [
        (
            PglzError::Distance { source_offset: 7, target_offset: 5, distance: 9 },
            "match at byte 7 looks 9 back, 5 are there",
        ),
        (
            PglzError::Expansion { source_len: 2, expected: 274 },
            "274 value bytes cannot come from a stream of 2",
        ),
        (
            PglzError::Short { target_offset: 3, expected: 4 },
            "stream ends after 3 of 4 value bytes",
        ),
        (PglzError::TargetTooSmall { needed: 36, available: 35 }, "target has 35 bytes, 36 needed"),
        (
            PglzError::Trailing { source_offset: 5, source_len: 6 },
            "value complete at byte 5 of a stream of 6",
        ),
        (
            PglzError::Truncated { source_offset: 2, target_offset: 1 },
            "stream ends inside the match at byte 2, value byte 1",
        ),
    ] {
        assert_eq!(error.to_string(), line);
    }
}

#[test]
fn a_length_the_stream_cannot_fill_asks_for_no_memory() {
    let source = [0x02, b'a', 0x0f, 0x01, 0xff];
    let error = PglzError::Expansion { source_len: 5, expected: usize::MAX };
    assert_eq!(decompress_to_vec(&source, usize::MAX), Err(error));
    let error = PglzError::Expansion { source_len: 5, expected: 547 };
    assert_eq!(decompress_to_vec(&source, 547), Err(error));
}

#[test]
fn an_append_adds_the_whole_value_or_nothing() {
    let mut target = b"before".to_vec();
    assert_eq!(decompress_append(&[0x02, b'a', 0x0f, 0x01, 0xff], 274, &mut target), Ok(()));
    assert_eq!(target, [b"before".as_slice(), &[b'a'; 274]].concat());
    let error = PglzError::Truncated { source_offset: 2, target_offset: 1 };
    assert_eq!(decompress_append(&[0x02, b'a', 0x0f], 20, &mut target), Err(error));
    assert_eq!(target.len(), 280);
}

/// The readers take most of a stream in a loop that does not look at its end: errors there are the same.
#[test]
fn each_error_deep_inside_a_long_stream_is_located_as_well() {
    let mut head = Vec::new();
    for group in 0..100_u8 {
        head.push(0);
        head.extend((0..8).map(|item| group.wrapping_mul(31) ^ item));
    }
    let tail = [0; 400];
    for (tag, distance) in [
        ([0x00, 0x00, 0x00], 0),    // short, nothing back
        ([0x0f, 0x00, 0x00], 0),    // long, nothing back
        ([0x0f, 0x00, 0xff], 0),    // the longest, nothing back
        ([0x30, 0x21, 0x00], 801),  // short, one byte before the value
        ([0x3f, 0x21, 0x80], 801),  // long, the same
        ([0x3f, 0x21, 0xff], 801),  // the longest, the same
        ([0xff, 0xff, 0xff], 4095), // as far as a tag can say
    ] {
        let stream = [&head[..], &[0x01], &tag, &tail].concat();
        let (source_offset, target_offset) = (head.len() + 1, 800);
        let error = PglzError::Distance { source_offset, target_offset, distance };
        assert_both(&stream, 5000, error);
    }
    // The first and the last byte there is may be looked back to.
    for tag in [[0x30, 0x20, 0], [0x0e, 0x01, 0]] {
        let stream = [&head[..], &[0x01], &tag, &tail].concat();
        assert!(prefix(&stream, 5000).is_ok());
    }
    for cut in [&[0x01, 0x0f][..], &[0x01, 0x0f, 0x01], &[0x01, 0x00]] {
        let stream = [&head[..], cut].concat();
        let truncated = PglzError::Truncated { source_offset: head.len() + 1, target_offset: 800 };
        assert_both(&stream, 5000, truncated);
    }
}

//! How much room the compressor asks for, and that it stays inside it. Callers have sized the output as
//! the input and been overrun by four bytes; others took for granted that there is always a stream.
#![cfg(feature = "alloc")]
#![expect(clippy::cast_possible_truncation, reason = "small numbers of a test")]
use pgtoast_pglz::{Compressor, PglzError, Strategy, compress, decompress, maximum_output_size};

const CANARY: u8 = 0xc5;

fn values(len: usize) -> [Vec<u8>; 4] {
    let mut state = 0x9e37_79b9_u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    [
        vec![b'x'; len],
        (0..len).map(|i| i as u8).collect(),
        (0..len).map(|_| noise()).collect(),
        (0..len).map(|_| noise() & 1).collect(),
    ]
}

fn lengths() -> impl Iterator<Item = usize> {
    let large = [127, 128, 255, 256, 511, 512, 1023, 1024, 8192, 32760];
    // Miri takes minutes for what else takes none.
    (0..=40).step_by(if cfg!(miri) { 8 } else { 1 }).chain(large.into_iter().take(if cfg!(miri) {
        2
    } else {
        10
    }))
}

#[test]
fn the_compressor_stays_inside_the_room_it_asks_for() {
    let mut compressor = Compressor::new();
    for (len, strategy) in
        lengths().flat_map(|len| [(len, Strategy::DEFAULT), (len, Strategy::ALWAYS)])
    {
        for value in values(len) {
            let room = maximum_output_size(len);
            let mut target = vec![CANARY; room + 64];
            let stream_len = compressor
                .compress(&value, &strategy, &mut target[..room])
                .expect("enough room by its own word");
            assert!(target[room..].iter().all(|&byte| byte == CANARY), "{len} bytes");
            let Some(stream_len) = stream_len else { continue };
            assert!(stream_len < len, "{len} bytes");
            let mut back = vec![0; len + 64];
            back[len..].fill(CANARY);
            assert_eq!(decompress(&target[..stream_len], &mut back[..len]), Ok(()));
            assert_eq!(back[..len], value);
            assert!(back[len..].iter().all(|&byte| byte == CANARY), "{len} bytes");
        }
    }
}

#[test]
fn a_target_up_to_eight_bytes_short_is_an_error_and_stays_untouched_behind() {
    let mut compressor = Compressor::new();
    for len in lengths() {
        for value in values(len) {
            for missing in 1..=8 {
                let needed = maximum_output_size(len);
                let Some(available) = needed.checked_sub(missing) else { continue };
                let mut target = vec![CANARY; needed];
                let verdict =
                    compressor.compress(&value, &Strategy::DEFAULT, &mut target[..available]);
                if len < 32 {
                    assert_eq!(verdict, Ok(None), "refused by its size alone");
                } else {
                    assert_eq!(verdict, Err(PglzError::TargetTooSmall { needed, available }));
                }
                assert!(target[available..].iter().all(|&byte| byte == CANARY));
            }
        }
    }
}

#[test]
fn under_32_bytes_the_default_never_compresses_and_always_does_if_it_pays() {
    for len in 0..32 {
        for value in values(len) {
            assert_eq!(compress(&value, &Strategy::DEFAULT), None);
        }
    }
    assert_eq!(compress(b"", &Strategy::ALWAYS), None, "nothing can be smaller than nothing");
    assert_eq!(compress(b"aaaaa", &Strategy::ALWAYS), Some(vec![0x02, b'a', 0x01, 0x01]));
    assert_eq!(compress(b"aaaa", &Strategy::ALWAYS), None, "four bytes for four");
    assert!(compress(&[b'x'; 32], &Strategy::DEFAULT).is_some());
}

#[test]
fn a_vector_is_no_larger_than_its_stream() {
    let stream = compress(&[7; 100_000], &Strategy::DEFAULT).expect("compressed");
    assert!(stream.capacity() < 2 * stream.len(), "{} for {}", stream.capacity(), stream.len());
}

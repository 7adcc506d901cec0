//! pglz keeps two promises: what it compresses comes back whole, and any bytes at all decompress to
//! exactly what was asked for or to an error: never a panic, an overrun, or memory that was there before.
use pgtoast_pglz::{
    CharSign, Compressor, PglzError, Strategy, decompress, decompress_prefix,
    maximum_compressed_size, maximum_output_size, naive,
};

use crate::input::Input;

/// Two bytes of length, then a foreign stream.
pub fn pglz_decompress(data: &[u8]) {
    let mut input = Input::new(data);
    let raw_len = usize::from(input.u16()) % 9000;
    let source = input.rest();

    // Twice over different old content: an answer that differs was read, not written.
    let (mut once, mut twice) = (vec![0x00; raw_len], vec![0xff; raw_len]);
    let verdict = decompress(source, &mut once);
    assert_eq!(verdict, decompress(source, &mut twice));
    assert!(verdict.is_err() || once == twice);
    let mut naive_target = vec![0xaa; raw_len];
    let naive_verdict = naive::decompress(source, &mut naive_target);
    assert_eq!(verdict, naive_verdict);
    assert!(verdict.is_err() || once == naive_target);

    let (mut once, mut twice) = (vec![0x00; raw_len], vec![0xff; raw_len]);
    let prefix = decompress_prefix(source, &mut once);
    assert_eq!(prefix, decompress_prefix(source, &mut twice));
    assert_eq!(prefix, naive::decompress_prefix(source, &mut naive_target));
    if let Ok(len) = prefix {
        assert_eq!(once[..len], twice[..len]);
        assert_eq!(once[..len], naive_target[..len]);
    }
    // A value that is whole is also its own prefix.
    if verdict.is_ok() {
        assert_eq!(prefix, Ok(raw_len));
    }
}

/// Four bytes of choices, then a value: its stream equals the readable twin's, comes back, keeps
/// within its bounds, and the part of it that a prefix is said to need gives the prefix.
pub fn pglz_round_trip(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = input.u16();
    let cut = usize::from(input.u16());
    let raw = input.rest();
    let strategy = if choices & 1 == 0 { Strategy::DEFAULT } else { Strategy::ALWAYS };
    let sign = if choices & 2 == 0 { CharSign::Signed } else { CharSign::Unsigned };

    let mut target = vec![0xaa; maximum_output_size(raw.len())];
    let mut compressor = Compressor::with_char_sign(sign);
    let found = compressor.compress(raw, &strategy, &mut target).expect("room for any output");
    let mut naive_target = vec![0x55; maximum_output_size(raw.len())];
    let naive_found =
        naive::compress(raw, &strategy, sign, &mut naive_target).expect("room for any output");
    assert_eq!(found, naive_found);
    let Some(len) = found else { return };
    assert_eq!(target[..len], naive_target[..len]);

    // The same compressor again: nothing of the first value may be left in its tables.
    let mut again = vec![0; maximum_output_size(raw.len())];
    assert_eq!(compressor.compress(raw, &strategy, &mut again), Ok(Some(len)));
    assert_eq!(again[..len], target[..len]);
    let short = compressor.compress(raw, &strategy, &mut again[..len - 1]);
    assert!(matches!(short, Err(PglzError::TargetTooSmall { .. })), "{short:?}");

    let stream = &target[..len];
    let mut back = vec![0xee; raw.len()];
    assert_eq!(decompress(stream, &mut back), Ok(()));
    assert_eq!(back, raw);

    let prefix_len = if raw.is_empty() { 0 } else { cut % (raw.len() + 1) };
    let needed = maximum_compressed_size(prefix_len as u64, len as u64);
    let needed = usize::try_from(needed).expect("no more than the stream");
    let mut prefix = vec![0xee; prefix_len];
    assert_eq!(decompress_prefix(&stream[..needed], &mut prefix), Ok(prefix_len));
    assert_eq!(prefix, raw[..prefix_len]);
}

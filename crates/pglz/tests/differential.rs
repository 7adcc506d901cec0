//! The fast codec against the naive one, over inputs of many shapes: the same streams, the same
//! refusals, the same verdicts, the same bytes.
#![cfg(feature = "alloc")]
#![expect(clippy::cast_possible_truncation, reason = "small numbers of a test")]
use pgtoast_pglz::{
    CharSign, Compressor, Strategy, compress, decompress, decompress_prefix,
    maximum_compressed_size, maximum_output_size, maximum_raw_size, naive, safe,
};

/// Under Miri a hundredth of the rounds must do.
const LESS: usize = if cfg!(miri) { 100 } else { 1 };

/// A small generator: the same inputs on every run and every platform.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % bound as u64) as usize
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// Bytes of one of several shapes: few letters, words, runs, copies from far back, noise.
    fn value(&mut self, max_len: usize) -> Vec<u8> {
        let len = self.below(max_len + 1);
        let letters = self.pick(&[1, 2, 3, 5, 16, 64, 256]);
        let (high, shape) = (self.below(2) * 0x70, self.below(4));
        let mut value: Vec<u8> = Vec::with_capacity(len + 300);
        while value.len() < len {
            let longest = self.pick(&[4, 40, 300]);
            let run = 1 + self.below(longest);
            let back = 1 + self.below(4200.min(value.len() + 1));
            match self.below(4) {
                0 if shape > 0 => {
                    let letter = (high + self.below(letters)) as u8;
                    value.extend(std::iter::repeat_n(letter, run));
                }
                1 | 2 if shape > 1 && back < value.len() => {
                    for _ in 0..run {
                        value.push(value[value.len() - back]);
                    }
                }
                _ => value.extend((0..run).map(|_| (high + self.below(letters)) as u8)),
            }
        }
        value.truncate(len);
        value
    }

    fn strategy(&mut self) -> Strategy {
        match self.below(4) {
            0 => Strategy::DEFAULT,
            1 => Strategy::ALWAYS,
            _ => Strategy {
                min_input_size: self.below(40) as u32,
                max_input_size: 100 + self.below(8000) as u32,
                min_comp_rate: self.below(110) as u32,
                first_success_by: self.below(2000) as u32,
                match_size_good: self.below(300) as u32,
                match_size_drop: self
                    .pick(&[0, 1, 6, 11, 20, 24, 25, 33, 34, 49, 50, 99, 100, 101]),
            },
        }
    }
}

#[test]
fn streams_and_refusals_equal_the_naive_ones() {
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut compressors = [CharSign::Signed, CharSign::Unsigned].map(Compressor::with_char_sign);
    let mut accepted = 0;
    for round in 0..3000 / LESS {
        let max_len = [40, 140, 600, 1500, 9000][random.below(if round % 20 == 0 { 5 } else { 4 })];
        let (value, strategy) = (random.value(max_len), random.strategy());
        for (compressor, sign) in compressors.iter_mut().zip([CharSign::Signed, CharSign::Unsigned])
        {
            let mut expected = vec![0; maximum_output_size(value.len())];
            let len = naive::compress(&value, &strategy, sign, &mut expected).expect("enough room");
            let stream = compressor.compress_to_vec(&value, &strategy);
            assert_eq!(
                stream.as_deref(),
                len.map(|len| &expected[..len]),
                "{strategy:?} {value:?}"
            );
            if sign == CharSign::Signed {
                // It has tables of other sizes.
                assert_eq!(compress(&value, &strategy), stream, "{strategy:?} {value:?}");
            }
            let Some(stream) = stream else { continue };
            accepted += 1;
            let mut back = vec![0xaa; value.len()];
            assert_eq!(decompress(&stream, &mut back), Ok(()));
            assert_eq!(back, value);
        }
    }
    assert!(accepted > 1500 / LESS, "{accepted} streams are too few to mean much");
}

#[test]
fn damaged_streams_get_the_naive_verdict_and_the_naive_bytes() {
    let mut random = Random(0xfeed_beef_0bad_cafe);
    let mut compressor = Compressor::new();
    let (mut good, mut bad) = (0, 0);
    for _ in 0..20_000 / LESS {
        let value = random.value(700);
        let mut stream = match compressor.compress_to_vec(&value, &Strategy::ALWAYS) {
            Some(stream) => stream,
            None => value.clone(),
        };
        for _ in 0..random.below(3) {
            if stream.is_empty() {
                break;
            }
            let at = random.below(stream.len());
            match random.below(3) {
                0 => stream[at] = random.below(256) as u8,
                1 => stream[at] ^= 1 << random.below(8),
                _ => stream.truncate(at),
            }
        }
        let raw_len = (value.len() + random.below(3)).saturating_sub(random.below(3));
        let (mut one, mut two) = (vec![0xaa; raw_len], vec![0x55; raw_len]);
        let verdict = decompress(&stream, &mut one);
        assert_eq!(verdict, naive::decompress(&stream, &mut two), "{stream:02x?}, {raw_len}");
        let mut three = vec![0xcc; raw_len];
        assert_eq!(verdict, safe::decompress(&stream, &mut three), "{stream:02x?}, {raw_len}");
        match verdict {
            Ok(()) => {
                assert_eq!(one, two);
                assert_eq!(one, three);
                assert!(raw_len as u64 <= maximum_raw_size(stream.len() as u64));
                good += 1;
            }
            Err(_) => bad += 1,
        }
        let prefix_len = random.below(raw_len + 1);
        let len = decompress_prefix(&stream, &mut one[..prefix_len]);
        assert_eq!(len, naive::decompress_prefix(&stream, &mut two[..prefix_len]), "{stream:02x?}");
        let third = safe::decompress_prefix(&stream, &mut three[..prefix_len]);
        assert_eq!(len, third, "{stream:02x?}");
        if let Ok(len) = len {
            assert_eq!(one[..len], two[..len]);
            assert_eq!(one[..len], three[..len]);
        }
    }
    assert!(good > 2000 / LESS && bad > 2000 / LESS, "{good} good and {bad} bad");
}

#[test]
fn just_enough_of_the_stream_gives_the_whole_prefix() {
    let mut random = Random(0x0dd_ba11);
    let mut compressor = Compressor::new();
    for _ in 0..500 / LESS {
        let value = random.value(3000);
        let Some(stream) = compressor.compress_to_vec(&value, &Strategy::ALWAYS) else { continue };
        for _ in 0..20 {
            let len = random.below(value.len() + 1);
            let enough = maximum_compressed_size(len as u64, stream.len() as u64) as usize;
            let mut prefix = vec![0xaa; len];
            assert_eq!(decompress_prefix(&stream[..enough], &mut prefix), Ok(len));
            assert_eq!(prefix, value[..len]);
        }
    }
}

/// Case from the field: 400 bytes of a repeated alphabet, asked for as more and as less than they are.
#[test]
fn a_wrong_length_is_an_error_of_the_whole_and_no_matter_to_a_prefix() {
    let value: Vec<u8> = (0..400_u32).map(|i| b'a' + (i % 26) as u8).collect();
    let stream = Compressor::new().compress_to_vec(&value, &Strategy::DEFAULT).expect("compressed");
    assert!(decompress(&stream, &mut [0; 500]).is_err());
    assert!(decompress(&stream, &mut [0; 100]).is_err());
    let mut prefix = [0; 100];
    assert_eq!(decompress_prefix(&stream, &mut prefix), Ok(100));
    assert_eq!(prefix, value[..100]);
}

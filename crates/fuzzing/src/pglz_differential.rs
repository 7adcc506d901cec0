//! pglz beside another implementation of it: the same streams and refusals from every value and strategy,
//! the same verdict and the same bytes from every stream, whole or prefix.
use pgtoast_pglz::{
    CharSign, Compressor, PglzError, Strategy, decompress, decompress_prefix, maximum_output_size,
    naive, safe,
};

use crate::input::Input;

/// Another implementation of pglz. PostgreSQL's own lives where it is linked: this crate has no unsafe code.
pub trait PglzReference {
    /// The length of the stream in the front of `target`, which has [`maximum_output_size`] bytes or more;
    /// `None` where the value is kept as it is.
    fn compress(&mut self, source: &[u8], strategy: &Strategy, target: &mut [u8]) -> Option<usize>;

    /// How many bytes of the value were produced; `None` where the stream is corrupt. `complete` asks for
    /// stream and target to end together.
    fn decompress(&mut self, source: &[u8], target: &mut [u8], complete: bool) -> Option<usize>;
}

/// The naive codec of `pgtoast-pglz`, for where PostgreSQL's is not to be had.
#[derive(Clone, Copy, Debug, Default)]
pub struct PglzTwin {
    /// Of C's `char` on the platform that it stands for.
    pub sign: CharSign,
}

impl PglzReference for PglzTwin {
    fn compress(&mut self, source: &[u8], strategy: &Strategy, target: &mut [u8]) -> Option<usize> {
        naive::compress(source, strategy, self.sign, target).expect("room for any output")
    }

    fn decompress(&mut self, source: &[u8], target: &mut [u8], complete: bool) -> Option<usize> {
        if complete {
            naive::decompress(source, target).ok().map(|()| target.len())
        } else {
            naive::decompress_prefix(source, target).ok()
        }
    }
}

/// Ours and the other, one beside the other, with a count of what was compared.
#[derive(Debug)]
pub struct PglzDifferential<R> {
    reference: R,
    compressor: Compressor,
    streams: [Vec<u8>; 2],
    values: [Vec<u8>; 3],
    /// How often compressing was compared.
    pub compressed: u64,
    /// How often decompressing was.
    pub decompressed: u64,
}

impl<R: PglzReference> PglzDifferential<R> {
    /// Ours beside `reference`, which hashes C's `char`s with this sign.
    pub fn new(reference: R, sign: CharSign) -> Self {
        Self {
            reference,
            compressor: Compressor::with_char_sign(sign),
            streams: [Vec::new(), Vec::new()],
            values: [Vec::new(), Vec::new(), Vec::new()],
            compressed: 0,
            decompressed: 0,
        }
    }

    /// Compresses a value both ways; the stream, if there is one.
    ///
    /// # Errors
    /// What was not the same, in words.
    pub fn compress(&mut self, value: &[u8], strategy: &Strategy) -> Result<Option<&[u8]>, String> {
        self.compressed += 1;
        let [ours, theirs] = &mut self.streams;
        // Ours gets just the room that it asks for; the other may be promised more.
        ours.resize(maximum_output_size(value.len()), 0xaa);
        theirs.resize(maximum_output_size(value.len()), 0x55);
        let found = self.compressor.compress(value, strategy, ours);
        let expected = self.reference.compress(value, strategy, theirs);
        let same = found == Ok(expected)
            && expected.is_none_or(|expected| ours[..expected] == theirs[..expected]);
        if !same {
            return Err(format!(
                "compress: {found:?}, not {expected:?}, or other bytes: {strategy:?} of {value:02x?}"
            ));
        }
        Ok(expected.map(|len| &ours[..len]))
    }

    /// Decompresses any bytes both ways, whole if `complete`, else as a prefix.
    ///
    /// # Errors
    /// What was not the same, in words.
    pub fn decompress(
        &mut self,
        stream: &[u8],
        raw_len: usize,
        complete: bool,
    ) -> Result<(), String> {
        self.decompressed += 1;
        let [ours, slow, theirs] = &mut self.values;
        // Each over other old content, so that a byte that was not written shows.
        for (target, old) in [(&mut *ours, 0xaa), (&mut *slow, 0xcc), (&mut *theirs, 0x55)] {
            target.clear();
            target.resize(raw_len, old);
        }
        let verdicts: [Result<usize, PglzError>; 2] = if complete {
            [
                decompress(stream, ours).map(|()| raw_len),
                safe::decompress(stream, slow).map(|()| raw_len),
            ]
        } else {
            [decompress_prefix(stream, ours), safe::decompress_prefix(stream, slow)]
        };
        let expected = self.reference.decompress(stream, theirs, complete);
        let same = verdicts[0] == verdicts[1]
            && verdicts[0].ok() == expected
            && expected
                .is_none_or(|len| ours[..len] == theirs[..len] && slow[..len] == theirs[..len]);
        if !same {
            return Err(format!(
                "decompress: {verdicts:?}, not {expected:?}, or other bytes: {raw_len} bytes, complete \
                 {complete}, of {stream:02x?}"
            ));
        }
        Ok(())
    }
}

/// One byte of choices and, as they ask, one strategy; two bytes of length; then a value, or any bytes
/// taken for a stream.
pub fn pglz_against(reference: impl PglzReference, sign: CharSign, data: &[u8]) {
    let mut input = Input::new(data);
    let choices = input.u8();
    let strategy = match choices & 3 {
        0 => Strategy::DEFAULT,
        1 => Strategy::ALWAYS,
        _ => Strategy {
            min_input_size: u32::from(input.u8()),
            max_input_size: u32::from(input.u16()),
            min_comp_rate: u32::from(input.u8()),
            first_success_by: u32::from(input.u16()),
            match_size_good: u32::from(input.u16() % 300),
            match_size_drop: u32::from(input.u8() % 110),
        },
    };
    let cut = usize::from(input.u16());
    let rest = input.rest();
    let mut both = PglzDifferential::new(reference, sign);
    let mut compare = || {
        if choices & 4 != 0 {
            let raw_len = cut % 9000;
            both.decompress(rest, raw_len, true)?;
            return both.decompress(rest, raw_len, false);
        }
        let Some(stream) = both.compress(rest, &strategy)? else { return Ok(()) };
        let mut stream = stream.to_vec();
        both.decompress(&stream, rest.len(), true)?;
        both.decompress(&stream, cut % (rest.len() + 1), false)?;
        both.decompress(&stream[..cut % (stream.len() + 1)], rest.len(), false)?;
        let at = cut % stream.len();
        stream[at] ^= choices >> 3;
        both.decompress(&stream, rest.len(), true)?;
        both.decompress(&stream, rest.len(), false)
    };
    if let Err(mismatch) = compare() {
        panic!("{mismatch}");
    }
}

/// [`pglz_against`] the naive twin: what replays the corpus where PostgreSQL's code is not linked.
pub fn pglz_against_twin(data: &[u8]) {
    let sign = CharSign::Signed;
    pglz_against(PglzTwin { sign }, sign, data);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The twin, but for one fault.
    struct Liar {
        /// Matches of 100 bytes and more come out one short.
        compress: bool,
        /// A tag cut off by the end of its stream is no offence.
        decompress: bool,
    }

    impl PglzReference for Liar {
        fn compress(
            &mut self,
            source: &[u8],
            strategy: &Strategy,
            target: &mut [u8],
        ) -> Option<usize> {
            let len = PglzTwin::default().compress(source, strategy, target)?;
            if self.compress && len > 4 && target[len - 1] > 82 {
                target[len - 1] -= 1;
            }
            Some(len)
        }

        fn decompress(
            &mut self,
            source: &[u8],
            target: &mut [u8],
            complete: bool,
        ) -> Option<usize> {
            let verdict = PglzTwin::default().decompress(source, target, complete);
            verdict.or(self.decompress.then_some(0))
        }
    }

    #[test]
    fn a_reference_with_one_fault_is_found_out() {
        let long = [b'a'; 200];
        let honest = || Liar { compress: false, decompress: false };
        let mut both = PglzDifferential::new(honest(), CharSign::Signed);
        assert!(both.compress(&long, &Strategy::DEFAULT).is_ok_and(|stream| stream.is_some()));
        assert_eq!(both.decompress(&[0x02, b'a', 0x0f, 0x01], 40, false), Ok(()));
        assert_eq!((both.compressed, both.decompressed), (1, 1));

        let liar = Liar { compress: true, ..honest() };
        let mut both = PglzDifferential::new(liar, CharSign::Signed);
        assert!(both.compress(&long, &Strategy::DEFAULT).is_err());
        let liar = Liar { decompress: true, ..honest() };
        let mut both = PglzDifferential::new(liar, CharSign::Signed);
        assert!(both.decompress(&[0x02, b'a', 0x0f, 0x01], 40, false).is_err());
    }
}

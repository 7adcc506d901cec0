//! Many files in one: a tar archive, compressed as one lz4 block behind its length.
//!
//! ```text
//! byte 0        4
//!      | length | lz4 block of: | header, 512 bytes | file, rounded up to 512 | … | two empty headers |
//! header, byte 0    100 … 124    136 … 148        156  257     265
//!             | path | … | length | … | checksum | '0' | ustar | … |      numbers in octal digits
//! ```
//! Source: POSIX `pax`, the ustar interchange format.
use anyhow::{Context as _, Result, ensure};

/// A path and the bytes there.
pub type ArchivedFile = (String, Vec<u8>);

const BLOCK: usize = 512;

/// Packs files, whose paths have at most 100 bytes.
///
/// # Errors
/// For a longer path.
pub fn pack(files: &[ArchivedFile]) -> Result<Vec<u8>> {
    let mut tar = Vec::new();
    for (path, bytes) in files {
        ensure!(path.len() <= 100, "{path} is too long");
        let mut header = [0; BLOCK];
        header[..path.len()].copy_from_slice(path.as_bytes());
        header[100..124].copy_from_slice(b"0000600\x000000000\x000000000\x00");
        header[124..136].copy_from_slice(format!("{:011o}\0", bytes.len()).as_bytes());
        header[136..148].copy_from_slice(b"00000000000\x00");
        // The checksum is taken with its own field full of spaces.
        header[148..156].fill(b' ');
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        tar.extend(header);
        tar.extend(bytes);
        tar.resize(tar.len().next_multiple_of(BLOCK), 0);
    }
    tar.extend([0; 2 * BLOCK]);
    Ok(lz4_flex::block::compress_prepend_size(&tar))
}

/// What was packed.
///
/// # Errors
/// When the bytes are no such archive.
pub fn unpack(packed: &[u8]) -> Result<Vec<ArchivedFile>> {
    let tar = lz4_flex::block::decompress_size_prepended(packed)?;
    let (mut files, mut rest) = (Vec::new(), tar.as_slice());
    loop {
        let (header, behind) = rest.split_at_checked(BLOCK).context("no end of the archive")?;
        if header.iter().all(|byte| *byte == 0) {
            return Ok(files);
        }
        let text = |field: &[u8]| {
            let len = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
            String::from_utf8(field[..len].to_vec())
        };
        let len = usize::from_str_radix(&text(&header[124..136])?, 8)?;
        let bytes = behind.get(..len).context("a file is cut off")?;
        files.push((text(&header[..100])?, bytes.to_vec()));
        rest = behind.get(len.next_multiple_of(BLOCK)..).context("a file is cut off")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_out_as_they_went_in() {
        let files = [0, 1, 511, 512, 513].map(|len| (format!("a/{len}"), vec![7; len]));
        assert_eq!(unpack(&pack(&files).unwrap()).unwrap(), files);
    }
}

//! pglz by its rules: every earlier position is looked at, nothing is kept in tables.
//!
//! ```text
//! stream:  control byte, up to 8 items, control byte, …     bit 0 of the control byte: first item
//! item:    bit 0: one literal byte      bit 1: a tag
//! tag:     | distance bits 8..12, length - 3 | distance bits 0..8 | length - 18, if nibble is 15 |
//! ```
//! Source: `pg_lzcompress.c` (14 to 18 alike).

/// When compressing is worth it, and how hard to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Shorter sources are refused.
    pub min_input: usize,
    /// Percent of the source that must be saved.
    pub need_rate: usize,
    /// Bytes of output by which the first tag must have appeared.
    pub first_success_by: usize,
    /// A match of so many bytes ends the search; the bound falls with every candidate.
    pub good_match: usize,
    /// Percent by which it falls.
    pub good_drop: usize,
}

impl Rules {
    /// What TOAST uses.
    pub const DEFAULT: Self = Self {
        min_input: 32,
        need_rate: 25,
        first_success_by: 1024,
        good_match: 128,
        good_drop: 10,
    };

    /// Compresses whatever becomes shorter.
    pub const ALWAYS: Self = Self {
        min_input: 0,
        need_rate: 0,
        first_success_by: i32::MAX as usize,
        good_match: 128,
        good_drop: 6,
    };
}

/// The stream for `source`, or `None` where the rules refuse. `signed_char` says how the server's
/// compiler reads a `char`: signed on x86-64.
#[must_use]
pub fn compress(source: &[u8], rules: Rules, signed_char: bool) -> Option<Vec<u8>> {
    if source.len() < rules.min_input {
        return None;
    }
    let most = result_max(source.len(), rules.need_rate);
    let search = Search { source, mask: table_size(source.len()) - 1, signed_char, rules };
    let mut stream = Stream::default();
    let mut found_any = false;
    let mut position = 0;
    while position < source.len() {
        let out = stream.len();
        if out >= most || (!found_any && out >= rules.first_success_by) {
            return None;
        }
        if let Some((distance, len)) = search.longest(position) {
            stream.tag(distance, len);
            found_any = true;
            position += len;
        } else {
            stream.literal(source[position]);
            position += 1;
        }
    }
    (stream.len() < most).then_some(stream.bytes)
}

/// The `raw_len` bytes that `stream` stands for, or `None` if it does not stand for so many.
#[must_use]
pub fn decompress(stream: &[u8], raw_len: usize) -> Option<Vec<u8>> {
    let mut target = Vec::new();
    let mut source = stream.iter().copied();
    while target.len() < raw_len {
        let control = source.next()?;
        for bit in 0..8 {
            if target.len() == raw_len {
                break;
            }
            if control >> bit & 1 == 0 {
                target.push(source.next()?);
                continue;
            }
            let (high, low) = (source.next()?, source.next()?);
            let distance = usize::from(high >> 4) << 8 | usize::from(low);
            let mut len = usize::from(high & 15) + 3;
            if len == 18 {
                len += usize::from(source.next()?);
            }
            if distance == 0 || distance > target.len() {
                return None;
            }
            for _ in 0..len.min(raw_len - target.len()) {
                target.push(target[target.len() - distance]);
            }
        }
    }
    source.next().is_none().then_some(target)
}

struct Search<'a> {
    source: &'a [u8],
    mask: i32,
    signed_char: bool,
    rules: Rules,
}

impl Search<'_> {
    /// Distance and length of the match that a server would take at `position`.
    fn longest(&self, position: usize) -> Option<(usize, usize)> {
        let hash = self.hash(position);
        // Newest first, as a bucket is walked; what lies 4095 back or more is never looked at.
        let mut bucket = (0..position)
            .rev()
            .take(LONGEST_DISTANCE)
            .filter(|earlier| self.hash(*earlier) == hash)
            .peekable();
        let (mut best, mut good) = ((0, 0), self.rules.good_match);
        while let Some(earlier) = bucket.next() {
            let len = self.common(earlier, position);
            if len > best.1 {
                best = (position - earlier, len);
            }
            if bucket.peek().is_some() {
                if best.1 >= good {
                    break;
                }
                good -= good * self.rules.good_drop / 100;
            }
        }
        (best.1 >= SHORTEST_MATCH).then_some(best)
    }

    fn common(&self, earlier: usize, position: usize) -> usize {
        let ahead = self.source[position..].iter().take(LONGEST_MATCH);
        ahead.zip(&self.source[earlier..]).take_while(|(a, b)| a == b).count()
    }

    fn hash(&self, position: usize) -> i32 {
        let rest = &self.source[position..];
        let hash = match *rest {
            [a, b, c, d, ..] => {
                self.char(a) << 6 ^ self.char(b) << 4 ^ self.char(c) << 2 ^ self.char(d)
            }
            [a, ..] => self.char(a),
            [] => 0,
        };
        hash & self.mask
    }

    fn char(&self, byte: u8) -> i32 {
        if self.signed_char { i32::from(byte.cast_signed()) } else { i32::from(byte) }
    }
}

/// The output, with the control byte of the group that is being filled.
#[derive(Default)]
struct Stream {
    bytes: Vec<u8>,
    control_at: usize,
    items: u32,
}

impl Stream {
    /// Bytes so far, the control byte of the next item included.
    fn len(&self) -> usize {
        // A full group reserves the next control byte only when the next item comes.
        self.bytes.len()
    }

    fn literal(&mut self, byte: u8) {
        self.item(false);
        self.bytes.push(byte);
    }

    fn tag(&mut self, distance: usize, len: usize) {
        self.item(true);
        let byte = |value: usize| u8::try_from(value & 0xff).expect("masked to a byte");
        let nibble = (len - SHORTEST_MATCH).min(15);
        self.bytes.push(byte(distance >> 8 << 4 | nibble));
        self.bytes.push(byte(distance));
        if nibble == 15 {
            self.bytes.push(byte(len - 18));
        }
    }

    fn item(&mut self, is_tag: bool) {
        if self.items.is_multiple_of(8) {
            self.control_at = self.bytes.len();
            self.bytes.push(0);
        }
        self.bytes[self.control_at] |= u8::from(is_tag) << (self.items % 8);
        self.items += 1;
    }
}

fn result_max(len: usize, need_rate: usize) -> usize {
    if len > i32::MAX as usize / 100 {
        len / 100 * (100 - need_rate)
    } else {
        len * (100 - need_rate) / 100
    }
}

fn table_size(len: usize) -> i32 {
    match len {
        0..128 => 512,
        128..256 => 1024,
        256..512 => 2048,
        512..1024 => 4096,
        _ => 8192,
    }
}

const LONGEST_DISTANCE: usize = 4094;
const LONGEST_MATCH: usize = 273;
const SHORTEST_MATCH: usize = 3;

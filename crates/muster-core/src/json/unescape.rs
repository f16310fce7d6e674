//! A reader that decodes the escapes of a JSON string.

use std::io::{self, BufRead, Read};

use memchr::memchr;

/// Decodes the contents of a JSON string. An unpaired surrogate becomes U+FFFD.
#[derive(Debug)]
pub struct UnescapeReader<R> {
    input: R,
    /// Decoded bytes that have not been read yet.
    pending: Vec<u8>,
}

impl<R: BufRead> UnescapeReader<R> {
    /// Decodes `input`, the text between the quotes.
    pub const fn new(input: R) -> Self {
        Self { input, pending: Vec::new() }
    }

    fn byte(&mut self) -> io::Result<Option<u8>> {
        let byte = self.input.fill_buf()?.first().copied();
        self.input.consume(usize::from(byte.is_some()));
        Ok(byte)
    }

    /// Decodes an escape after its backslash.
    fn escape(&mut self) -> io::Result<()> {
        let Some(letter) = self.byte()? else { return Ok(()) };
        match one_letter(&letter) {
            Some(c) => self.pending.push(c),
            None => self.unit()?,
        }
        Ok(())
    }

    /// Decodes `\u`, including a surrogate pair.
    fn unit(&mut self) -> io::Result<()> {
        let mut first = self.digits()?;
        loop {
            if !(0xD800..0xDC00).contains(&first) {
                self.put(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
                return Ok(());
            }
            if self.input.fill_buf()?.first() != Some(&b'\\') {
                self.put(char::REPLACEMENT_CHARACTER);
                return Ok(());
            }
            self.input.consume(1);
            if self.input.fill_buf()?.first() != Some(&b'u') {
                self.put(char::REPLACEMENT_CHARACTER);
                return self.escape();
            }
            self.input.consume(1);
            let second = self.digits()?;
            if (0xDC00..0xE000).contains(&second) {
                let c = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                self.put(char::from_u32(c).unwrap_or(char::REPLACEMENT_CHARACTER));
                return Ok(());
            }
            self.put(char::REPLACEMENT_CHARACTER);
            first = second;
        }
    }

    fn digits(&mut self) -> io::Result<u32> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit =
                self.input.fill_buf()?.first().and_then(|byte| char::from(*byte).to_digit(16));
            let Some(digit) = digit else { break };
            self.input.consume(1);
            unit = unit * 16 + digit;
        }
        Ok(unit)
    }

    fn put(&mut self, c: char) {
        self.pending.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// The character of a one-letter escape.
const fn one_letter(letter: &u8) -> Option<u8> {
    Some(match letter {
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'u' => return None,
        other => *other,
    })
}

impl<R: BufRead> Read for UnescapeReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut written = 0;
        while let Some(room) = out.get_mut(written..).filter(|room| !room.is_empty()) {
            if !self.pending.is_empty() {
                let size = room.len().min(self.pending.len());
                for (to, from) in room.iter_mut().zip(self.pending.drain(..size)) {
                    *to = from;
                }
                written += size;
                continue;
            }
            let chunk = self.input.fill_buf()?;
            if chunk.is_empty() {
                break;
            }
            let plain = memchr(b'\\', chunk).unwrap_or(chunk.len());
            if plain == 0 {
                if let (Some(c), Some(to)) = (chunk.get(1).and_then(one_letter), room.first_mut()) {
                    *to = c;
                    self.input.consume(2);
                    written += 1;
                    continue;
                }
                self.input.consume(1);
                self.escape()?;
                continue;
            }
            let size = plain.min(room.len());
            if let (Some(to), Some(from)) = (room.get_mut(..size), chunk.get(..size)) {
                to.copy_from_slice(from);
            }
            self.input.consume(size);
            written += size;
        }
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read as _};

    use proptest::prelude::*;

    use super::UnescapeReader;

    fn unescaped(inside: &str, buffer: usize) -> String {
        let mut text = String::new();
        let mut reader = UnescapeReader::new(BufReader::with_capacity(buffer, inside.as_bytes()));
        reader.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn escapes_are_decoded() {
        let cases = [
            ("plain é 日本", "plain é 日本"),
            (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t"),
            (r"\u0041\u00e9\u65e5\ud83d\ude00!", "Aé日😀!"),
            (r"\ud83d", "\u{fffd}"),
            (r"\ud83dx", "\u{fffd}x"),
            (r"\ud83d\n", "\u{fffd}\n"),
            (r"\ud83d\ud83d\ude00", "\u{fffd}😀"),
            (r"\ude00", "\u{fffd}"),
            ("\\", ""),
        ];
        for (inside, expect) in cases {
            for buffer in 1..8 {
                assert_eq!(unescaped(inside, buffer), expect, "{inside} by {buffer}");
            }
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_writer_of_all_others(text in ".*", buffer in 1_usize..9) {
            let written = serde_json::to_string(&text).unwrap();
            let inside = written.strip_prefix('"').unwrap().strip_suffix('"').unwrap();
            prop_assert_eq!(unescaped(inside, buffer), text);
        }
    }
}

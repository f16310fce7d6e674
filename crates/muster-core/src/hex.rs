//! Hexadecimal digits, and identifiers made of them.

/// Bytes as lower-case hexadecimal digits.
pub fn encode(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(nibble + if nibble < 10 { b'0' } else { b'a' - 10 });
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

/// A UUID of version 4 from random bytes.
pub fn uuid4(random: [u8; 16]) -> String {
    // Version 4, variant 1.
    let number = u128::from_be_bytes(random) & !(0xf << 76) | 4 << 76;
    let number = number & !(0b11 << 62) | 0b10 << 62;
    let text = encode(&number.to_be_bytes());
    let parts = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)];
    parts.map(|(from, to)| text.get(from..to).unwrap_or_default()).join("-")
}

#[cfg(test)]
mod tests {
    use super::{encode, uuid4};

    #[test]
    fn uuids_name_their_version() {
        assert_eq!(uuid4([0; 16]), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid4([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }

    #[test]
    fn two_digits_a_byte() {
        assert_eq!(encode(&[0, 0x0a, 0x9f, 0xff]), "000a9fff");
        assert_eq!(encode(&[]), "");
    }
}

//! Document fields and their weights (BM25F).
//!
//! **Invariant:** the impact of a term depends on its document alone. Field lengths are normalized
//! by constants instead of the catalog's averages, so that backends do not influence each other and
//! the index of one never has to be rebuilt for another.

/// A field of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The name.
    Name,
    /// The display name.
    Title,
    /// The server's name.
    Server,
    /// The description.
    Description,
    /// Parameter names.
    Parameter,
    /// Parameter descriptions.
    ParameterText,
    /// Tags.
    Tag,
    /// Alternative names.
    Alias,
}

impl Field {
    /// All fields.
    pub const ALL: [Self; 8] = [
        Self::Name,
        Self::Title,
        Self::Server,
        Self::Description,
        Self::Parameter,
        Self::ParameterText,
        Self::Tag,
        Self::Alias,
    ];

    /// The bit in a set of fields.
    pub(super) const fn bit(self) -> u8 {
        1 << self as u8
    }

    fn weights(self) -> FieldWeight {
        let rule = |weight, length, strictness| FieldWeight {
            weight,
            usual_length: length,
            length_penalty: strictness,
        };
        match self {
            Self::Name => rule(3.0, 3.0, 0.3),
            Self::Alias => rule(2.5, 3.0, 0.3),
            Self::Title => rule(2.0, 3.0, 0.3),
            Self::Tag => rule(1.5, 3.0, 0.0),
            Self::Server => rule(1.0, 2.0, 0.3),
            Self::Description => rule(1.0, 30.0, 0.75),
            Self::Parameter => rule(0.5, 6.0, 0.75),
            Self::ParameterText => rule(0.25, 40.0, 0.75),
        }
    }
}

/// The number of occurrences of a term in each field.
pub(super) type TermCounts = [u16; Field::ALL.len()];

/// The term-frequency saturation (`k1`).
const SATURATION: f32 = 1.2;
/// The upper limit of an impact.
pub(super) const MAX_IMPACT: f32 = SATURATION + 1.0;

/// The impact of a term in a document (24 bits) and the set of fields it occurs in (8 bits).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Impact(u32);

impl Impact {
    /// Computes the impact from the occurrences in each field and the field lengths.
    pub(super) fn new(counts: &TermCounts, lengths: &TermCounts) -> Self {
        let mut sum = 0.0;
        let mut fields = 0;
        for (field, (count, length)) in Field::ALL.into_iter().zip(counts.iter().zip(lengths)) {
            if *count > 0 {
                sum += field.weights().frequency(*count, *length);
                fields |= u32::from(field.bit());
            }
        }
        let impact = sum * MAX_IMPACT / (sum + SATURATION);
        Self(((impact / MAX_IMPACT * Self::STEPS) as u32) << 8 | fields)
    }

    /// The impact.
    pub(super) fn value(self) -> f32 {
        (self.0 >> 8) as f32 * (MAX_IMPACT / Self::STEPS)
    }

    /// Whether the term occurs in the name.
    pub(super) fn in_name(self) -> bool {
        self.0 as u8 & Field::Name.bit() != 0
    }

    /// The fields that the term occurs in.
    pub(super) fn fields(self) -> impl Iterator<Item = Field> {
        Field::ALL.into_iter().filter(move |field| self.0 as u8 & field.bit() != 0)
    }

    const STEPS: f32 = 0xff_ffff as f32;
}

struct FieldWeight {
    weight: f32,
    /// The usual length, in tokens.
    usual_length: f32,
    /// The length normalization (`b`), from 0 to 1.
    length_penalty: f32,
}

impl FieldWeight {
    fn frequency(&self, count: u16, length: u16) -> f32 {
        let share = f32::from(length) / self.usual_length;
        self.weight * f32::from(count) / (1.0 - self.length_penalty + self.length_penalty * share)
    }
}

#[cfg(test)]
mod tests {
    use super::{Field, Impact, MAX_IMPACT};

    #[test]
    fn a_name_weighs_more_than_a_description() {
        let one = |field: usize, length: u16| {
            let (mut counts, mut lengths) = ([0; 8], [0; 8]);
            counts[field] = 1;
            lengths[field] = length;
            Impact::new(&counts, &lengths)
        };
        let name = one(Field::Name as usize, 2);
        let description = one(Field::Description as usize, 20);
        assert!(name.value() > description.value());
        assert!(name.in_name() && !description.in_name());
        assert!(one(Field::Description as usize, 200).value() < description.value());
        assert_eq!(description.fields().collect::<Vec<_>>(), [Field::Description]);
    }

    #[test]
    fn repetition_saturates() {
        let saturated = Impact::new(&[u16::MAX; 8], &[1; 8]);
        assert!(saturated.value() <= MAX_IMPACT && saturated.value() > 0.99 * MAX_IMPACT);
        assert_eq!(saturated.fields().count(), 8);
    }
}

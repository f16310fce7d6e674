//! The fields of a document, and the weight of a term in each.
//!
//! **Invariant:** the weight of a term in a document depends on that document alone. Lengths are
//! normalised by constants instead of the catalog's averages, so that no backend changes the weights of
//! another, and the index of one backend never has to be rebuilt because of another.

/// A field of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentField {
    /// The name of the tool.
    Name,
    /// Its title.
    Title,
    /// Its server.
    Server,
    /// Its description.
    Description,
    /// The names of its parameters.
    Parameter,
    /// The descriptions of its parameters.
    ParameterText,
    /// A tag.
    Tag,
    /// An alias.
    Alias,
}

impl DocumentField {
    /// All of them.
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

    /// Its bit in a set of fields.
    pub(super) const fn bit(self) -> u8 {
        1 << self as u8
    }

    fn rule(self) -> Rule {
        let rule = |weight, length, strictness| Rule { weight, length, strictness };
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

/// The frequency of a term in each field of a document.
pub(super) type Counts = [u16; DocumentField::ALL.len()];

/// The saturation of term frequency (k1 of BM25).
const SATURATION: f32 = 1.2;
/// The greatest impact.
pub(super) const MOST: f32 = SATURATION + 1.0;

/// The impact of a term in a document (24 bits) and its fields (8 bits).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Impact(u32);

impl Impact {
    /// The impact for the frequencies of a term and the lengths of the fields.
    pub(super) fn new(counts: &Counts, lengths: &Counts) -> Self {
        let mut sum = 0.0;
        let mut fields = 0;
        for (field, (count, length)) in
            DocumentField::ALL.into_iter().zip(counts.iter().zip(lengths))
        {
            if *count > 0 {
                sum += field.rule().worth(*count, *length);
                fields |= u32::from(field.bit());
            }
        }
        let impact = sum * MOST / (sum + SATURATION);
        Self(((impact / MOST * Self::STEPS) as u32) << 8 | fields)
    }

    /// The impact alone.
    pub(super) fn worth(self) -> f32 {
        (self.0 >> 8) as f32 * (MOST / Self::STEPS)
    }

    /// Whether the term is in the name.
    pub(super) fn in_name(self) -> bool {
        self.0 as u8 & DocumentField::Name.bit() != 0
    }

    /// The fields that contain the term.
    pub(super) fn fields(self) -> impl Iterator<Item = DocumentField> {
        DocumentField::ALL.into_iter().filter(move |field| self.0 as u8 & field.bit() != 0)
    }

    const STEPS: f32 = 0xff_ffff as f32;
}

struct Rule {
    weight: f32,
    /// The typical length in words.
    length: f32,
    /// The strength of length normalisation, from 0 to 1 (b of BM25).
    strictness: f32,
}

impl Rule {
    fn worth(&self, count: u16, length: u16) -> f32 {
        let share = f32::from(length) / self.length;
        self.weight * f32::from(count) / (1.0 - self.strictness + self.strictness * share)
    }
}

#[cfg(test)]
mod tests {
    use super::{DocumentField, Impact, MOST};

    #[test]
    fn a_name_is_worth_more_than_a_description() {
        let one = |field: usize, length: u16| {
            let (mut counts, mut lengths) = ([0; 8], [0; 8]);
            counts[field] = 1;
            lengths[field] = length;
            Impact::new(&counts, &lengths)
        };
        let name = one(DocumentField::Name as usize, 2);
        let description = one(DocumentField::Description as usize, 20);
        assert!(name.worth() > description.worth());
        assert!(name.in_name() && !description.in_name());
        assert!(one(DocumentField::Description as usize, 200).worth() < description.worth());
        assert_eq!(description.fields().collect::<Vec<_>>(), [DocumentField::Description]);
    }

    #[test]
    fn repetition_has_a_limit() {
        let endless = Impact::new(&[u16::MAX; 8], &[1; 8]);
        assert!(endless.worth() <= MOST && endless.worth() > 0.99 * MOST);
        assert_eq!(endless.fields().count(), 8);
    }
}

//! Exact decimal arithmetic for `addf`, `subf`, `mulf` and `divf`: 0.1 plus 0.2 is 0.3.

use num_bigint::BigInt;

use crate::{
    format::float::format_float,
    state::{EvalError, EvalResult},
};

/// `digits` times ten to the `exponent`.
#[derive(Debug, Clone)]
pub(super) struct Decimal {
    digits: BigInt,
    exponent: i64,
}

/// Digits after the point that a division keeps.
const DIVISION: i64 = 16;

impl Decimal {
    /// The shortest decimal that reads back as `n`.
    pub(super) fn new(n: f64) -> EvalResult<Self> {
        if !n.is_finite() {
            let shown = format_float(n, b'g', None);
            return Err(EvalError::new(format!("Cannot create a Decimal from {shown}")));
        }
        let text = format!("{n:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let fraction = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len() as i64);
        let digits = mantissa.replace('.', "").parse().unwrap_or_default();
        Ok(Self { digits, exponent: exponent.parse::<i64>().unwrap_or(0) - fraction })
    }

    /// The digits of both at the same exponent, and that exponent.
    fn aligned(&self, other: &Self) -> (BigInt, BigInt, i64) {
        let exponent = self.exponent.min(other.exponent);
        let scaled = |n: &Self| &n.digits * power(n.exponent - exponent);
        (scaled(self), scaled(other), exponent)
    }

    pub(super) fn add(&self, other: &Self) -> Self {
        let (one, other, exponent) = self.aligned(other);
        Self { digits: one + other, exponent }
    }

    pub(super) fn sub(&self, other: &Self) -> Self {
        let (one, other, exponent) = self.aligned(other);
        Self { digits: one - other, exponent }
    }

    pub(super) fn mul(&self, other: &Self) -> Self {
        Self { digits: &self.digits * &other.digits, exponent: self.exponent + other.exponent }
    }

    pub(super) fn div(&self, other: &Self) -> EvalResult<Self> {
        let zero = BigInt::ZERO;
        if other.digits == zero {
            return Err(EvalError::new("decimal division by 0"));
        }
        let shift = DIVISION + self.exponent - other.exponent;
        let numerator = &self.digits * power(shift.max(0));
        let denominator = &other.digits * power((-shift).max(0));
        let mut digits = &numerator / &denominator;
        let rest = &numerator % &denominator;
        if rest.magnitude() * 2u32 >= *denominator.magnitude() {
            digits += if (numerator < zero) == (denominator < zero) { 1 } else { -1 };
        }
        Ok(Self { digits, exponent: -DIVISION })
    }

    /// The nearest float.
    pub(super) fn to_float(&self) -> f64 {
        format!("{}e{}", self.digits, self.exponent).parse().unwrap_or(0.0)
    }
}

fn power(exponent: i64) -> BigInt {
    BigInt::from(10).pow(u32::try_from(exponent).unwrap_or(0))
}

//! Variable-length integers: unsigned in messages, zigzag in records.

/// Why bytes are not a varint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VarintError {
    Truncated,
    TooLong,
}

/// Reads an unsigned varint of at most 32 bits; returns it and the rest.
#[inline]
pub(crate) fn read_u32(bytes: &[u8]) -> Result<(u32, &[u8]), VarintError> {
    match bytes {
        [first, rest @ ..] if *first < 0x80 => Ok((u32::from(*first), rest)),
        _ => {
            let (value, rest) = read_long(bytes, 5)?;
            // The fifth byte can hold 35 bits.
            let value = u32::try_from(value).map_err(|_| VarintError::TooLong)?;
            Ok((value, rest))
        }
    }
}

/// Reads an unsigned varint of at most 64 bits; returns it and the rest.
#[inline]
pub(crate) fn read_u64(bytes: &[u8]) -> Result<(u64, &[u8]), VarintError> {
    match bytes {
        [first, rest @ ..] if *first < 0x80 => Ok((u64::from(*first), rest)),
        [first, second, rest @ ..] if *second < 0x80 => Ok((u64::from(*first & 0x7f) | u64::from(*second) << 7, rest)),
        _ => read_long(bytes, 10),
    }
}

fn read_long(bytes: &[u8], bytes_max: usize) -> Result<(u64, &[u8]), VarintError> {
    let mut value = 0u64;
    for (i, byte) in bytes.iter().take(bytes_max).enumerate() {
        let bits = u64::from(byte & 0x7f);
        let shift = 7 * i as u32;
        if bits.leading_zeros() < shift {
            return Err(VarintError::TooLong);
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            let (_, rest) = bytes.split_at_checked(i + 1).ok_or(VarintError::Truncated)?;
            return Ok((value, rest));
        }
    }
    if bytes.len() < bytes_max {
        Err(VarintError::Truncated)
    } else {
        Err(VarintError::TooLong)
    }
}

/// Appends a varint. Short ones, which nearly all are, take a single store.
#[inline]
pub(crate) fn put_u64(out: &mut Vec<u8>, value: u64) {
    if value < 1 << 7 {
        out.push(value as u8);
    } else if value < 1 << 14 {
        out.extend_from_slice(&[value as u8 | 0x80, (value >> 7) as u8]);
    } else {
        put_long(out, value);
    }
}

fn put_long(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that the varint of `value` takes.
#[inline]
pub(crate) const fn len_u64(value: u64) -> usize {
    if value < 1 << 7 {
        1
    } else if value < 1 << 14 {
        2
    } else {
        (64 - value.leading_zeros()).div_ceil(7) as usize
    }
}

#[inline]
pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[inline]
pub(crate) const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_survive_a_round_trip() {
        for value in [
            0,
            1,
            0x7f,
            0x80,
            0x3fff,
            0x4000,
            u64::from(u32::MAX),
            u64::MAX >> 1,
            u64::MAX,
        ] {
            let mut varint = vec![];
            put_u64(&mut varint, value);
            assert_eq!(varint.len(), len_u64(value));
            assert_eq!(read_u64(&varint), Ok((value, &[][..])));
            let fits = u32::try_from(value).map(|value| (value, &[][..]));
            assert_eq!(read_u32(&varint).ok(), fits.ok());
        }
        for value in [0, -1, 1, i64::MIN, i64::MAX] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
    }

    #[test]
    fn malformed_varints_are_told_apart() {
        assert_eq!(read_u32(&[]), Err(VarintError::Truncated));
        assert_eq!(read_u32(&[0x80; 4]), Err(VarintError::Truncated));
        assert_eq!(read_u32(&[0x80; 5]), Err(VarintError::TooLong));
        assert_eq!(read_u32(&[0xff, 0xff, 0xff, 0xff, 0x1f]), Err(VarintError::TooLong));
        assert_eq!(read_u64(&[0x80; 9]), Err(VarintError::Truncated));
        assert_eq!(read_u64(&[0xff; 10]), Err(VarintError::TooLong));
        assert_eq!(
            read_u64(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]),
            Err(VarintError::TooLong)
        );
    }
}

//! Arithmetic on runs. Every run is a straight line between values and offsets, so two runs contradict each other
//! exactly where they overlap on one axis with different distances; no record is ever looked at by itself.

use crate::event::Run;

/// Which of the two is a run looked at by.
#[derive(Clone, Copy, PartialEq)]
pub enum Axis {
    Offset,
    Value,
}

/// A piece of one axis: `at..end`, and how far the other axis is from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    pub at: i64,
    pub end: i64,
    pub shift: i64,
}

impl Piece {
    pub fn of(run: &Run, axis: Axis) -> Piece {
        let (at, other) = match axis {
            Axis::Offset => (run.offset, run.value as i64),
            Axis::Value => (run.value as i64, run.offset),
        };
        Piece { at, end: at + run.count as i64, shift: other - at }
    }

    pub fn len(&self) -> u64 {
        (self.end - self.at) as u64
    }
}

/// Two runs that cannot both be true: at `at` of one axis the other has two answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conflict {
    pub at: i64,
    pub one: i64,
    pub other: i64,
}

/// What the runs together say along one axis: pieces that are sorted, disjoint and as long as can be, and where the
/// runs contradict each other (the earlier then stands).
pub fn overlay(runs: &[Run], axis: Axis) -> (Vec<Piece>, Vec<Conflict>) {
    let mut sorted: Vec<Piece> = runs.iter().filter(|run| run.count > 0).map(|run| Piece::of(run, axis)).collect();
    sorted.sort_unstable_by_key(|piece| (piece.at, piece.shift, piece.end));
    let (mut pieces, mut conflicts): (Vec<Piece>, Vec<Conflict>) = (Vec::new(), Vec::new());
    for mut piece in sorted {
        // Pieces are maximal, so a run that contradicts nothing meets one of them at most.
        for before in pieces.iter().rev().take_while(|before| before.end > piece.at) {
            if before.shift != piece.shift {
                let at = before.at.max(piece.at);
                conflicts.push(Conflict { at, one: at + before.shift, other: at + piece.shift });
            }
        }
        match pieces.last_mut() {
            Some(last) if last.end >= piece.at && last.shift == piece.shift => last.end = last.end.max(piece.end),
            Some(last) if last.end >= piece.end => {}
            last => {
                piece.at = last.map_or(piece.at, |last| piece.at.max(last.end));
                pieces.push(piece);
            }
        }
    }
    (pieces, conflicts)
}

/// The first place in `at..end` that one of the sorted, disjoint pieces covers.
pub fn first_covered(pieces: &[Piece], at: i64, end: i64) -> Option<i64> {
    let piece = pieces.get(pieces.partition_point(|piece| piece.end <= at))?;
    let first = piece.at.max(at);
    (first < end).then_some(first)
}

/// What of `wanted` none of `pieces` covers; both sorted and disjoint.
pub fn subtract(wanted: &[Piece], pieces: &[Piece]) -> Vec<Piece> {
    let mut left = Vec::new();
    for want in wanted {
        let mut at = want.at;
        let from = pieces.partition_point(|piece| piece.end <= at);
        for piece in pieces[from..].iter().take_while(|piece| piece.at < want.end) {
            if piece.at > at {
                left.push(Piece { at, end: piece.at, ..*want });
            }
            at = piece.end;
        }
        if at < want.end {
            left.push(Piece { at, ..*want });
        }
    }
    left
}

/// What of `wanted` the `pieces` cover.
pub fn intersect(wanted: &[Piece], pieces: &[Piece]) -> Vec<Piece> {
    subtract(wanted, &subtract(wanted, pieces))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(offset: i64, value: u64, count: u64) -> Run {
        Run { offset, value, count }
    }

    fn piece(at: i64, end: i64, shift: i64) -> Piece {
        Piece { at, end, shift }
    }

    #[test]
    fn runs_that_agree_become_the_longest_pieces() {
        let (pieces, conflicts) =
            overlay(&[run(3, 103, 4), run(0, 100, 5), run(9, 300, 1), run(7, 107, 2)], Axis::Offset);
        assert_eq!(pieces, [piece(0, 9, 100), piece(9, 10, 291)]);
        assert_eq!(conflicts, []);
    }

    #[test]
    fn every_contradiction_is_found_on_its_axis() {
        let same_offset = [run(0, 100, 5), run(4, 200, 3)];
        assert_eq!(overlay(&same_offset, Axis::Offset).1, [Conflict { at: 4, one: 104, other: 200 }]);
        assert_eq!(overlay(&same_offset, Axis::Value).1, []);
        let same_value = [run(0, 100, 5), run(50, 102, 1)];
        assert_eq!(overlay(&same_value, Axis::Value).1, [Conflict { at: 102, one: 2, other: 50 }]);
        assert_eq!(overlay(&same_value, Axis::Offset).1, []);
        // A long run hides neither of two that come after it.
        let hidden = [run(0, 100, 50), run(10, 500, 1), run(11, 111, 1), run(12, 600, 1)];
        assert_eq!(overlay(&hidden, Axis::Offset).1.len(), 2);
    }

    #[test]
    fn differences_and_common_parts() {
        let have = [piece(2, 4, 0), piece(6, 8, 0)];
        let want = [piece(0, 3, 7), piece(3, 10, 9)];
        assert_eq!(subtract(&want, &have), [piece(0, 2, 7), piece(4, 6, 9), piece(8, 10, 9)]);
        assert_eq!(intersect(&want, &have), [piece(2, 3, 7), piece(3, 4, 9), piece(6, 8, 9)]);
        assert_eq!(first_covered(&have, 3, 9), Some(3));
        assert_eq!(first_covered(&have, 4, 6), None);
        assert_eq!(first_covered(&have, 4, 7), Some(6));
    }
}
